/* exaone4.c: EXAONE 4: norms on the output of blocks, and on each head of queries and keys. With a sliding
 * window, every fourth layer attends to everything and has no positions. arXiv 2507.11407. */
#include "arch/decoder.h"
#include "arch/families.h"

static void read(struct hparams *h, void *hparams, struct arch_info *info)
{
    struct decoder *d = hparams;
    decoder_read(h, d, ENGINE_NORM_RMS, ENGINE_ROPE_HALVES);
    d->norms = NORMS_AFTER;
    if (hparams_count(h, "attention.sliding_window", 0) > 0) {
        decoder_read_windows(h, d, 4, false);
        for (uint32_t i = 0; i < d->n_layers; i++)
            if (!d->layers[i].slides) d->layers[i].rope = NULL;
    }
    *info = decoder_info(d);
}

const struct architecture arch_exaone4 = {"exaone4", sizeof(struct decoder), read, decoder_build};

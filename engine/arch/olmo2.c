/* olmo2.c: OLMo 2 and 3: norms on the output of blocks instead of their input, and on the whole width of
 * queries and keys. OLMo 3 has a sliding window in three of four layers, which use plain rope where the
 * others scale it. arXiv 2501.00656. */
#include "arch/decoder.h"
#include "arch/families.h"

struct olmo2 {
    struct decoder decoder;
    struct rope local; /* of the layers with a sliding window */
};

static void read(struct hparams *h, void *hparams, struct arch_info *info)
{
    struct olmo2 *olmo = hparams;
    struct decoder *d = &olmo->decoder;
    decoder_read(h, d, ENGINE_NORM_RMS, ENGINE_ROPE_HALVES);
    d->norms = NORMS_AFTER;
    if (hparams_has(h, "attention.sliding_window")) {
        decoder_read_windows(h, d, 4, false);
        decoder_local_rope(d, &olmo->local, d->rope.theta);
    }
    *info = decoder_info(d);
}

const struct architecture arch_olmo2 = {"olmo2", sizeof(struct olmo2), read, decoder_build};

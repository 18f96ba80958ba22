/* cohere2.c: Command-R7B, Command A: Command-R with a sliding window in three of four layers and no positions
 * in the fourth. arXiv 2504.00698. */
#include "arch/decoder.h"
#include "arch/families.h"

static void read(struct hparams *h, void *hparams, struct arch_info *info)
{
    struct decoder *d = hparams;
    decoder_read(h, d, ENGINE_NORM_LAYER, ENGINE_ROPE_ADJACENT);
    d->logit_scale = hparams_float_above_0(h, "logit_scale", 1);
    decoder_read_windows(h, d, 4, false);
    for (uint32_t i = 0; i < d->n_layers; i++)
        if (!d->layers[i].slides) d->layers[i].rope = NULL;
    *info = decoder_info(d);
}

const struct architecture arch_cohere2 = {"cohere2", sizeof(struct decoder), read, decoder_build_parallel};

/* minicpm.c: MiniCPM 1 and 2: Llama with Granite's scale factors, which older files lack. Hu et al., arXiv
 * 2404.06395. */
#include <math.h>

#include "arch/decoder.h"
#include "arch/families.h"

static void read(struct hparams *h, void *hparams, struct arch_info *info)
{
    struct decoder *d = hparams;
    decoder_read(h, d, ENGINE_NORM_RMS, ENGINE_ROPE_ADJACENT);
    float depth = sqrtf((float)(d->n_layers ? d->n_layers : 1));
    d->embedding_scale = hparams_float_above_0(h, "embedding_scale", 12);
    d->residual_scale = hparams_float_above_0(h, "residual_scale", 1.4f / depth);
    d->logit_scale = 1 / hparams_float_above_0(h, "logit_scale", (float)d->n_embd / 256); /* a divisor */
    *info = decoder_info(d);
}

const struct architecture arch_minicpm = {"minicpm", sizeof(struct decoder), read, decoder_build};

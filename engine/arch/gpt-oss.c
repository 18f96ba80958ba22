/* gpt-oss.c: gpt-oss: attention with learnt sinks (arXiv 2309.17453), a sliding window in every other layer, biases
 * everywhere, and mixtures of experts with a clamped SwiGLU. arXiv 2508.10925. */
#include "arch/decoder.h"
#include "arch/families.h"

static void read(struct hparams *h, void *hparams, struct arch_info *info)
{
    struct decoder *d = hparams;
    d->rope.yarn_between = true; /* early files lack rope.scaling.yarn_truncate */
    decoder_read(h, d, ENGINE_NORM_RMS, ENGINE_ROPE_HALVES);
    decoder_read_windows(h, d, 2, false);
    d->ffn_norm = "post_attention_norm";
    /* No file has these numbers; they are those of both published models. */
    d->experts.activation = ENGINE_ACTIVATION_SWIGLU_CLAMPED;
    d->experts.limit = 7;
    d->experts.alpha = 1.702f;
    *info = decoder_info(d);
}

const struct architecture arch_gpt_oss = {"gpt-oss", sizeof(struct decoder), read, decoder_build};

/* glm4moe.c: GLM-4.5 and 4.6: dense layers first, then mixtures of experts chosen by sigmoids with a bias (as
 * in DeepSeek-V3), rope on half of each head, biases on queries, keys and values. arXiv 2508.06471. */
#include "arch/decoder.h"
#include "arch/families.h"

static void read(struct hparams *h, void *hparams, struct arch_info *info)
{
    struct decoder *d = hparams;
    decoder_read(h, d, ENGINE_NORM_RMS, ENGINE_ROPE_HALVES);
    experts_read_router(h, d, ENGINE_ROUTE_SIGMOID, true);
    d->ffn_norm = "post_attention_norm";
    *info = decoder_info(d);
}

const struct architecture arch_glm4moe = {"glm4moe", sizeof(struct decoder), read, decoder_build};

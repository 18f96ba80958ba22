/* bloom.c: BLOOM: GPT-2 with ALiBi in place of learnt positions and a norm on the embedding. Workshop, arXiv 2211.05100. */
#include "arch/decoder.h"
#include "arch/families.h"

static void read(struct hparams *h, void *hparams, struct arch_info *info)
{
    struct decoder *d = hparams;
    decoder_read(h, d, ENGINE_NORM_LAYER, ENGINE_ROPE_HALVES);
    d->activation = decoder_read_activation(h, ENGINE_ACTIVATION_GELU_TANH);
    d->alibi_bias = 8;
    for (uint32_t i = 0; i < d->n_layers; i++) d->layers[i].rope = NULL;
    *info = decoder_info(d);
}

const struct architecture arch_bloom = {"bloom", sizeof(struct decoder), read, decoder_build};

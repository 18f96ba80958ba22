/* gpt2.c: GPT-2: layer norms, learnt positions, a feed-forward network without a gate. Radford et al., Language Models are
 * Unsupervised Multitask Learners, 2019. */
#include "arch/decoder.h"
#include "arch/families.h"

static void read(struct hparams *h, void *hparams, struct arch_info *info)
{
    struct decoder *d = hparams;
    decoder_read(h, d, ENGINE_NORM_LAYER, ENGINE_ROPE_HALVES);
    d->activation = decoder_read_activation(h, ENGINE_ACTIVATION_GELU_TANH);
    for (uint32_t i = 0; i < d->n_layers; i++) d->layers[i].rope = NULL;
    if (d->n_positions == 0) hparams_fail(h, ENGINE_ERROR_DATA, "the tensor position_embd.weight is missing");
    *info = decoder_info(d);
}

const struct architecture arch_gpt2 = {"gpt2", sizeof(struct decoder), read, decoder_build};

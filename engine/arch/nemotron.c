/* nemotron.c: Nemotron 3 and 4, Minitron: layer norms (the weights in the file include the 1 that they add),
 * rotary positions on a part of each head, and a feed-forward network of squared ReLU without a gate. arXiv
 * 2402.16819. */
#include "arch/decoder.h"
#include "arch/families.h"

static void read(struct hparams *h, void *hparams, struct arch_info *info)
{
    struct decoder *d = hparams;
    decoder_read(h, d, ENGINE_NORM_LAYER, ENGINE_ROPE_HALVES);
    d->activation = decoder_read_activation(h, ENGINE_ACTIVATION_RELU_SQUARED);
    *info = decoder_info(d);
}

const struct architecture arch_nemotron = {"nemotron", sizeof(struct decoder), read, decoder_build};

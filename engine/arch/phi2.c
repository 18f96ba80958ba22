/* phi2.c: Phi 1, 1.5 and 2: blocks that read the same norm of x, rotary positions on a part of each head,
 * biases everywhere. Li et al., arXiv 2309.05463. */
#include <stdio.h>

#include "arch/decoder.h"
#include "arch/families.h"

static void read(struct hparams *h, void *hparams, struct arch_info *info)
{
    struct decoder *d = hparams;
    decoder_read(h, d, ENGINE_NORM_LAYER, ENGINE_ROPE_HALVES);
    d->activation = decoder_read_activation(h, ENGINE_ACTIVATION_GELU_TANH);
    /* Converters always write 4 * n_embd as the feed-forward length; the matrix has the true one. */
    for (uint32_t i = 0; i < d->n_layers; i++) {
        char name[48];
        snprintf(name, sizeof name, "blk.%u.ffn_up.weight", i);
        const struct model_tensor *up = model_tensor_find(h->model, name);
        if (up && up->ne[1] <= INT32_MAX) d->layers[i].n_ff = (uint32_t)up->ne[1];
    }
    *info = decoder_info(d);
}

const struct architecture arch_phi2 = {"phi2", sizeof(struct decoder), read, decoder_build_parallel};

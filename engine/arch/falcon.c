/* falcon.c: Falcon: attention and feed-forward network read the same x. The 7B model has one norm for both,
 * the 40B model another for attention. Almazrouei et al., arXiv 2311.16867. */
#include "arch/decoder.h"
#include "arch/families.h"

static void build(struct graph *g, const void *hparams)
{
    const struct decoder *d = hparams;
    struct value *x = decoder_embed(g, d);
    for (g->layer = 0; g->layer < d->n_layers; g->layer++) {
        struct value *f = decoder_norm(g, d, "attn_norm", x);
        struct value *a = decoder_has_weight(g, "attn_norm_2") ? decoder_norm(g, d, "attn_norm_2", x) : f;
        x = decoder_parallel_layer(g, d, x, a, f);
    }
    decoder_build_logits(g, d, x);
}

static void read(struct hparams *h, void *hparams, struct arch_info *info)
{
    struct decoder *d = hparams;
    decoder_read(h, d, ENGINE_NORM_LAYER, ENGINE_ROPE_HALVES);
    d->activation = decoder_read_activation(h, ENGINE_ACTIVATION_GELU_ERF);
    *info = decoder_info(d);
}

const struct architecture arch_falcon = {"falcon", sizeof(struct decoder), read, build};

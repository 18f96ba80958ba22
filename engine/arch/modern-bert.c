/* modern-bert.c: ModernBERT (arXiv 2412.13663): norms before the blocks, rope, a gate. Two of three layers see only
 * half of attention.sliding_window to either side, and have a rope base of their own. */
#include "arch/encoder.h"
#include "arch/families.h"

struct modern_bert {
    struct decoder decoder;
    struct rope local; /* of the layers with a window */
};

static void read(struct hparams *h, void *hparams, struct arch_info *info)
{
    struct modern_bert *bert = hparams;
    struct decoder *d = &bert->decoder;
    encoder_read(h, d, ENGINE_ROPE_HALVES);
    if (hparams_has(h, "attention.layer_norm_rms_epsilon")) /* so llama.cpp's converter writes it */
        d->epsilon = hparams_float_from_0(h, "attention.layer_norm_rms_epsilon", d->epsilon);
    d->activation = decoder_read_activation(h, ENGINE_ACTIVATION_GELU_ERF);
    decoder_read_windows(h, d, 3, true);
    for (uint32_t i = 0; i < d->n_layers; i++)
        if (d->layers[i].window > 0) d->layers[i].window = d->layers[i].window / 2 + 1;
    decoder_local_rope(d, &bert->local, hparams_float_above_0(h, "rope.freq_base_swa", 10000));
    *info = encoder_info(d);
}

/* The first layer has no norm before its attention: the embedding has one. */
static void build(struct graph *g, const void *hparams)
{
    const struct decoder *d = hparams;
    struct value *x = decoder_embed(g, d);
    for (g->layer = 0; g->layer < d->n_layers; g->layer++) {
        struct value *n = g->layer > 0 ? decoder_norm(g, d, "attn_norm", x) : x;
        x = graph_add(g, x, decoder_attention(g, d, n));
        x = graph_add(g, x, decoder_feed_forward(g, d, decoder_norm(g, d, "ffn_norm", x)));
        x = decoder_layer_end(g, d, x);
    }
    g->layer = NO_LAYER;
    encoder_build_states(g, d, decoder_norm(g, d, "output_norm", x));
}

const struct architecture arch_modern_bert = {"modern-bert", sizeof(struct modern_bert), read, build};

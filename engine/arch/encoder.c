/* encoder.c: see encoder.h. */
#include "arch/encoder.h"

void encoder_read(struct hparams *h, struct decoder *d, uint32_t pairs)
{
    decoder_read(h, d, ENGINE_NORM_LAYER, pairs);
    d->both_ways = true;
    const struct model_tensor *types = model_tensor_find(h->model, "token_types.weight");
    if (types && types->ne[1] > 0 && types->ne[1] <= INT32_MAX) d->n_types = (uint32_t)types->ne[1];
    if (hparams_flag(h, "attention.causal", false))
        hparams_fail(h, ENGINE_ERROR_UNSUPPORTED, "an encoder with causal attention is not supported");
}

struct arch_info encoder_info(const struct decoder *d)
{
    struct arch_info info = decoder_info(d);
    info.is_encoder = true;
    info.n_types = d->n_types;
    info.n_ahead = info.window > 0 ? info.window - 1 : UINT32_MAX;
    info.window = 0; /* no layer keeps less: a batch has whole texts */
    return info;
}

void encoder_build_states(struct graph *g, const struct decoder *d, struct value *x)
{
    g->layer = NO_LAYER;
    if (g->shape.watch & WATCH_HIDDEN) graph_watch(g, WATCH_HIDDEN, d->n_layers, x);
    graph_watch(g, WATCH_STATES, d->n_layers, x);
}

void encoder_build(struct graph *g, const void *decoder)
{
    const struct decoder *d = decoder;
    struct value *x = decoder_embed(g, d);
    for (g->layer = 0; g->layer < d->n_layers; g->layer++) {
        struct value *before = x;
        x = decoder_norm(g, d, "attn_output_norm", graph_add(g, x, decoder_attention(g, d, x)));
        if (decoder_has_weight(g, "attn_norm_2"))
            x = decoder_norm(g, d, "attn_norm_2", graph_add(g, x, before));
        struct value *block = decoder_feed_forward_or_mixture(g, d, x);
        x = decoder_norm(g, d, "layer_output_norm", graph_add(g, x, block));
        x = decoder_layer_end(g, d, x);
    }
    encoder_build_states(g, d, x);
}

/* encoder.c: see encoder.h. */
#include "arch/encoder.h"
#include "model/hf/config.h"

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

void encoder_build_as_decoder(struct graph *g, const void *decoder)
{
    const struct decoder *d = decoder;
    encoder_build_states(g, d, decoder_norm(g, d, "output_norm", decoder_build_layers(g, d)));
}

/* ---- Hugging Face directories -------------------------------------------------------------------------- */

const struct hf_module encoder_modules[] = {
    {"attention.self.query", "attn_q"},
    {"attention.self.key", "attn_k"},
    {"attention.self.value", "attn_v"},
    {"attention.output.dense", "attn_output"},
    {"attention.output.LayerNorm", "attn_output_norm"},
    {"intermediate.dense", "ffn_up"},
    {"output.dense", "ffn_down"},
    {"output.LayerNorm", "layer_output_norm"},
    /* DistilBERT's */
    {"attention.q_lin", "attn_q"},
    {"attention.k_lin", "attn_k"},
    {"attention.v_lin", "attn_v"},
    {"attention.out_lin", "attn_output"},
    {"sa_layer_norm", "attn_output_norm"},
    {"ffn.lin1", "ffn_up"},
    {"ffn.lin2", "ffn_down"},
    {"output_layer_norm", "layer_output_norm"},
    /* Jina's */
    {"attention.self.layer_norm_q", "attn_q_norm"},
    {"attention.self.layer_norm_k", "attn_k_norm"},
    {"layer_norm_1", "attn_norm_2"},
    {"mlp.gated_layers", "ffn_gate_up"},
    {"mlp.up_gated_layer", "ffn_up_gate"},
    {"mlp.wo", "ffn_down"},
    {"mlp.down_layer", "ffn_down"},
    {"mlp.layernorm", "layer_output_norm"},
    {"layer_norm_2", "layer_output_norm"},
    {0},
};

const struct hf_module encoder_outer[] = {
    {"position_embeddings", "position_embd"},
    {"token_type_embeddings", "token_types"},
    {"embeddings.LayerNorm", "token_embd_norm"},
    {"emb_ln", "token_embd_norm"},
    {"pooler.dense", "cls"},
    {"pre_classifier", "cls"},
    {"classifier.dense", "cls"},
    {"classifier.out_proj", "cls.output"},
    {"classifier", "cls.output"},
    {0},
};

void encoder_read_config(struct hf_config *config, uint32_t n_types)
{
    hf_put_flag(config, "attention.causal", false);
    /* llama.cpp takes the rows of token_types from here. */
    uint32_t n = hf_count(config, config->json, "type_vocab_size", n_types);
    if (!config->status)
        config->status = metadata_add_u32(config->metadata, "tokenizer.ggml.token_type_count", n);
}

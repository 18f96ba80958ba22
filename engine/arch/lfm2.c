/* lfm2.c: LFM 2: most layers have a short convolution between two gates instead of attention, which has a
 * norm on each head of queries and keys. The file calls the norm before the logits token_embd_norm. In
 * lfm2moe, all layers but the first ones have mixtures of experts. arXiv 2511.23404. */
#include "arch/decoder.h"
#include "arch/families.h"
#include "model/hf/config.h"

struct lfm2 {
    struct decoder decoder;
    uint32_t n_taps; /* of the convolution */
};

static void lfm2_read(struct hparams *h, void *hparams, struct arch_info *info)
{
    struct lfm2 *lfm2 = hparams;
    struct decoder *d = &lfm2->decoder;
    d->is_hybrid = true;
    decoder_read(h, d, ENGINE_NORM_RMS, ENGINE_ROPE_HALVES);
    d->output_norm = "token_embd_norm";
    if (d->experts.n > 0) experts_read_router(h, d, ENGINE_ROUTE_SIGMOID, true);
    *info = decoder_info(d);
    for (uint32_t i = 0; i < d->n_layers; i++) info->has_states |= d->layers[i].is_recurrent;
    if (!info->has_states) return;
    lfm2->n_taps = hparams_count_required(h, "shortconv.l_cache");
    if (lfm2->n_taps < 2 || lfm2->n_taps > 16)
        hparams_fail(h, ENGINE_ERROR_UNSUPPORTED, "shortconv.l_cache is %u; supported are 2 to 16",
                     lfm2->n_taps);
}

/* out(c * conv(b * x)), where b, c and x are thirds of a product with the input. */
static struct value *lfm2_convolve(struct graph *g, const struct decoder *d, uint64_t n_taps,
                                   struct value *input)
{
    const uint64_t n = d->n_embd;
    struct value *all = decoder_linear(g, "shortconv.in_proj", n, 3 * n, input);
    struct value *b = graph_slice(g, all, 0, n), *c = graph_slice(g, all, n, n);
    struct value *weight = graph_values(g, n_taps, n, "blk.%u.shortconv.conv.weight", g->layer);
    struct value *bias = graph_values_optional(g, n, 1, "blk.%u.shortconv.conv.bias", g->layer);
    struct value *x = graph_mul(g, b, graph_slice(g, all, 2 * n, n));
    x = graph_conv(g, x, weight, graph_state(g, n, n_taps - 1, 0));
    if (bias) x = graph_add(g, x, bias);
    return decoder_linear(g, "shortconv.out_proj", n, n, decoder_layer_output(g, d, graph_mul(g, c, x)));
}

static struct value *lfm2_mix(struct graph *g, const struct decoder *d, struct value *x)
{
    const struct lfm2 *lfm2 = (const struct lfm2 *)d;
    return d->layers[g->layer].is_recurrent ? lfm2_convolve(g, d, lfm2->n_taps, x)
                                            : decoder_attention(g, d, x);
}

static void lfm2_build(struct graph *g, const void *hparams)
{
    decoder_build_mixed(g, hparams, lfm2_mix);
}

/* ---- Hugging Face directories -------------------------------------------------------------------------- */

static void lfm2_read_config(struct hf_config *config)
{
    const json_t *json = config->json;
    uint64_t n_ff = config->n_ff;
    uint64_t whole = hf_count(config, json, "block_multiple_of", 256);
    if (hf_flag(config, json, "block_auto_adjust_ff_dim", true)) {
        n_ff = 2 * n_ff / 3;
        if (hf_get(json, "block_ffn_dim_multiplier")) {
            double factor = hf_number(config, json, "block_ffn_dim_multiplier", 1);
            if (factor < 0 || factor > 1000 || whole == 0)
                hf_fail(config, ENGINE_ERROR_DATA,
                        "block_ffn_dim_multiplier or block_multiple_of is impossible");
            if (config->status) return;
            n_ff = (uint64_t)(factor * (double)n_ff);
        }
        if (whole > 0) n_ff = (n_ff + whole - 1) / whole * whole;
    }
    if (n_ff > INT32_MAX) hf_fail(config, ENGINE_ERROR_DATA, "block_ff_dim is not a count");
    config->n_ff = (uint32_t)n_ff;
    config->is_hybrid = true;
    const json_t *listed = hf_get(json, "full_attn_idxs");
    config->is_tied = hf_flag(config, json, "tie_embedding", config->is_tied);
    if (hf_get(json, "layer_types")) {
        hf_read_recurrent_layers(config, "conv", "full_attention", 0);
        return;
    }
    for (uint32_t i = 0; i < config->n_layers; i++) config->is_recurrent[i] = listed != NULL;
    for (size_t i = 0; i < json_array_size(listed); i++) {
        const json_t *layer = json_array_get(listed, i);
        bool fits = json_is_integer(layer) && json_integer_value(layer) >= 0 &&
                    json_integer_value(layer) < (json_int_t)config->n_layers;
        if (fits)
            config->is_recurrent[json_integer_value(layer)] = false;
        else
            hf_fail(config, ENGINE_ERROR_DATA, "full_attn_idxs has something that is not a layer");
    }
}

static void lfm2moe_read_config(struct hf_config *config)
{
    config->is_hybrid = true;
    config->is_tied = hf_flag(config, config->json, "tie_embedding", config->is_tied);
    hf_put_count(config, "expert_gating_func", 2); /* sigmoid */
    if (!hf_get(config->json, "layer_types")) hf_fail(config, ENGINE_ERROR_DATA, "layer_types is missing");
    hf_read_recurrent_layers(config, "conv", "full_attention", 0);
}

static const struct hf_key lfm2_numbers[] = {
    {"conv_L_cache", "shortconv.l_cache", HF_COUNT, 3},
    {0},
};

static const struct hf_key lfm2moe_numbers[] = {
    {"conv_L_cache", "shortconv.l_cache", HF_COUNT, 3},
    {"num_experts", "expert_count", HF_COUNT, 32},
    {"num_experts_per_tok", "expert_used_count", HF_COUNT, 4},
    {"moe_intermediate_size", "expert_feed_forward_length", HF_COUNT, 1792},
    {"num_dense_layers", "leading_dense_block_count", HF_COUNT, 2},
    {"norm_topk_prob", "expert_weights_norm", HF_FLAG, 1},
    {"routed_scaling_factor", "expert_weights_scale", HF_FLOAT, 1},
    {0},
};

static const struct hf_module lfm2_modules[] = {
    {"operator_norm", "attn_norm"},
    {"ffn_norm", "ffn_norm"},
    {"feed_forward.w1", "ffn_gate"},
    {"feed_forward.w3", "ffn_up"},
    {"feed_forward.w2", "ffn_down"},
    {"feed_forward.gate", "ffn_gate_inp"},
    {"feed_forward.expert_bias", "exp_probs_b.bias"},
    {"feed_forward.experts.#.w1", "ffn_gate_exps"},
    {"feed_forward.experts.#.w3", "ffn_up_exps"},
    {"feed_forward.experts.#.w2", "ffn_down_exps"},
    {"feed_forward.experts.gate_up_proj", "ffn_gate_up_exps"},
    {"feed_forward.experts.down_proj", "ffn_down_exps"},
    {"self_attn.out_proj", "attn_output"},
    {"self_attn.q_layernorm", "attn_q_norm"},
    {"self_attn.k_layernorm", "attn_k_norm"},
    {"conv.conv", "shortconv.conv.weight"},
    {"conv.in_proj", "shortconv.in_proj.weight"},
    {"conv.out_proj", "shortconv.out_proj.weight"},
    {0},
};

static const struct hf_module lfm2_outer[] = {
    {"embedding_norm", "token_embd_norm"},
    {0},
};

static const struct hf_type lfm2_types[] = {
    {.name = "lfm2",
     .keys = {.ff = "block_ff_dim|intermediate_size",
              .epsilon = "norm_eps",
              .activation = HF_UNREAD,
              .layer_types = "layer_types"},
     .width = 2560,
     .layers = 32,
     .heads = 32,
     .kv_heads = 8,
     .ff = 12288,
     .context = 128000,
     .epsilon = 1e-5,
     .is_tied = true,
     .theta = 1e6,
     .numbers = lfm2_numbers,
     .options = {{"conv_bias", false, "shortconv.conv|shortconv.in_proj|shortconv.out_proj"}},
     .read = lfm2_read_config},
    {0},
};

static const struct hf_type lfm2moe_types[] = {
    {.name = "lfm2_moe",
     .keys = {.epsilon = "norm_eps", .activation = HF_UNREAD, .layer_types = "layer_types"},
     .width = 2048,
     .layers = 32,
     .heads = 32,
     .kv_heads = 8,
     .ff = 7168,
     .context = 128000,
     .epsilon = 1e-5,
     .is_tied = true,
     .theta = 1e6,
     .numbers = lfm2moe_numbers,
     .options = {{"conv_bias", false, "shortconv.conv|shortconv.in_proj|shortconv.out_proj"},
                 {"use_expert_bias", true, "exp_probs_b"}},
     .read = lfm2moe_read_config},
    {0},
};

const struct architecture arch_lfm2 = {
    .name = "lfm2",
    .models = "LFM 2: a hybrid of recurrent layers and layers with attention",
    .size = sizeof(struct lfm2),
    .read = lfm2_read,
    .build = lfm2_build,
    .hf = {.types = lfm2_types, .modules = lfm2_modules, .outer = lfm2_outer},
    .reply = {.calls = "<|tool_call_start|>"},
};

const struct architecture arch_lfm2moe = {
    .name = "lfm2moe",
    .models = "LFM 2 with mixtures of experts (8B-A1B)",
    .size = sizeof(struct lfm2),
    .read = lfm2_read,
    .build = lfm2_build,
    .hf = {.types = lfm2moe_types, .modules = lfm2_modules, .outer = lfm2_outer},
    .reply = {.calls = "<|tool_call_start|>"},
};

/* laguna.c: Laguna: layers with and without windows may have other numbers of heads, and have ropes of their
 * own; what attention gives is multiplied by a softplus of its input. Mixtures of experts that a sigmoid
 * chooses, with a shared one, behind some dense layers. huggingface.co/poolside/laguna-XS.2. */
#include <string.h>

#include "arch/decoder.h"
#include "arch/families.h"
#include "model/hf/config.h"

struct laguna {
    struct decoder decoder;
    struct rope local_rope;
};

/* The converter doesn't write which layers have the window. Where numbers of heads differ, those with the
 * fewest have none. */
static void read_windows(struct hparams *h, struct decoder *d)
{
    uint32_t least = UINT32_MAX, most = 0;
    for (uint32_t i = 0; i < d->n_layers; i++) {
        if (d->layers[i].n_heads < least) least = d->layers[i].n_heads;
        if (d->layers[i].n_heads > most) most = d->layers[i].n_heads;
    }
    uint32_t window = hparams_count(h, "attention.sliding_window", 0);
    bool is_told = hparams_has(h, "attention.sliding_window_pattern");
    decoder_read_windows(h, d, window > 0 ? 4 : 0, false);
    if (window == 0 || is_told) return;
    if (least == most)
        decoder_warn(h, "the file does not say which layers have the window; assuming all but every fourth");
    for (uint32_t i = 0; i < d->n_layers && least < most; i++) {
        struct decoder_layer *layer = &d->layers[i];
        layer->slides = layer->n_heads > least;
        layer->window = layer->slides ? window : 0;
    }
}

static void laguna_read(struct hparams *h, void *hparams, struct arch_info *info)
{
    struct laguna *laguna = hparams;
    struct decoder *d = &laguna->decoder;
    decoder_read(h, d, ENGINE_NORM_RMS, ENGINE_ROPE_HALVES);
    d->attention_gate = ENGINE_ACTIVATION_SOFTPLUS;
    if (d->experts.n > 0) experts_read_router(h, d, ENGINE_ROUTE_SIGMOID, true);
    read_windows(h, d);
    decoder_local_rope(h, d, &laguna->local_rope, hparams_float_above_0(h, "rope.freq_base_swa", 10000));
    *info = decoder_info(d);
}

/* ---- Hugging Face directories -------------------------------------------------------------------------- */

static void read_heads(struct hf_config *config)
{
    const json_t *list = hf_get(config->json, "num_attention_heads_per_layer");
    uint32_t heads[HF_MAX_LAYERS];
    if (list && json_array_size(list) != config->n_layers)
        hf_fail(config, ENGINE_ERROR_DATA, "num_attention_heads_per_layer has %zu numbers for %u layers",
                json_array_size(list), config->n_layers);
    for (uint32_t i = 0; i < config->n_layers && list; i++) {
        json_int_t n = json_integer_value(json_array_get(list, i));
        if (n <= 0 || n > 65536)
            hf_fail(config, ENGINE_ERROR_DATA, "num_attention_heads_per_layer has no count for layer %u", i);
        heads[i] = (uint32_t)n;
    }
    if (list) hf_put_layer_counts(config, "attention.head_count", heads);
}

/* The first layers are dense, without mlp_layer_types one. */
static void read_kinds(struct hf_config *config)
{
    const json_t *kinds = hf_get(config->json, "mlp_layer_types");
    uint32_t n_dense = kinds ? 0 : 1;
    if (kinds && json_array_size(kinds) != config->n_layers)
        hf_fail(config, ENGINE_ERROR_DATA, "mlp_layer_types has %zu texts for %u layers",
                json_array_size(kinds), config->n_layers);
    for (uint32_t i = 0; i < config->n_layers && kinds; i++) {
        const char *kind = json_string_value(json_array_get(kinds, i));
        bool is_dense = kind && strcmp(kind, "dense") == 0;
        hf_refuse(config, !is_dense && (!kind || strcmp(kind, "sparse") != 0),
                  "mlp_layer_types with other texts than dense and sparse");
        hf_refuse(config, is_dense && n_dense != i, "mlp_layer_types with a dense layer after a sparse one");
        n_dense += is_dense;
    }
    hf_put_count(config, "leading_dense_block_count", n_dense);
}

static void laguna_read_config(struct hf_config *config)
{
    const json_t *json = config->json;
    const json_t *ropes = hf_get(json, "rope_parameters"), *local = hf_get(ropes, "sliding_attention");
    double part = hf_number(config, local, "partial_rotary_factor", 1);
    if (part <= 0 || part > 1)
        hf_fail(config, ENGINE_ERROR_DATA, "partial_rotary_factor %g is impossible", part);
    if (config->status) return;
    hf_put_count(config, "rope.dimension_count_swa", (uint32_t)(config->head_dim * part));
    hf_put_count(config, "expert_gating_func", 2); /* sigmoid */
    hf_put_flag(config, "expert_weights_norm", true);
    hf_refuse(config, hf_number(config, json, "moe_router_logit_softcapping", 0) > 0,
              "moe_router_logit_softcapping");
    hf_refuse(config, hf_flag(config, json, "moe_apply_router_weight_on_input", false),
              "moe_apply_router_weight_on_input");
    read_heads(config);
    read_kinds(config);
}

static const struct hf_key laguna_numbers[] = {
    {"num_experts", "expert_count", HF_COUNT, 256},
    {"num_experts_per_tok", "expert_used_count", HF_COUNT, 8},
    {"moe_intermediate_size", "expert_feed_forward_length", HF_COUNT, 512},
    {"shared_expert_intermediate_size", "expert_shared_feed_forward_length", HF_COUNT, 512},
    {"moe_routed_scaling_factor", "expert_weights_scale", HF_FLOAT, 1},
    {0},
};

static const struct hf_module laguna_modules[] = {
    {"self_attn.g_proj", "attn_gate"},
    {"mlp.experts.e_score_correction_bias", "exp_probs_b.bias"},
    {0},
};

static const struct hf_type laguna_types[] = {
    {.name = "laguna",
     .keys = {.theta = HF_UNREAD, .local_theta = HF_UNREAD, .part = HF_UNREAD, .layer_types = "layer_types"},
     .width = 2048,
     .layers = 40,
     .heads = 48,
     .kv_heads = 8,
     .head_dim = 128,
     .ff = 8192,
     .context = 131072,
     .keeps_rotary = true,
     .rope = "{\"full_attention\": {\"rope_theta\": 5e5, \"partial_rotary_factor\": 0.5}, "
             "\"sliding_attention\": {\"rope_theta\": 1e4}}",
     .theta = 5e5,
     .local_theta = 1e4,
     .windows = HF_WINDOWS_PERIOD,
     .window = 512,
     .window_period = 1,
     .numbers = laguna_numbers,
     .options = {HF_ATTENTION_BIAS},
     .read = laguna_read_config},
    {0},
};

static const struct arch_missing laguna_missing[] = {
    {"which layers have the window", "their numbers of heads: those with the fewest have none (XS.2)",
     "a warning; all but every fourth"},
    {0},
};

const struct architecture arch_laguna = {
    .name = "laguna",
    .models = "Laguna XS.2, M.1",
    .missing = laguna_missing,
    .size = sizeof(struct laguna),
    .read = laguna_read,
    .build = decoder_build,
    .hf = {.types = laguna_types, .modules = laguna_modules},
};

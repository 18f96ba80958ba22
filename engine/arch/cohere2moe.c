/* cohere2moe.c: Command A with mixtures of experts, whose shared expert counts as much as the chosen ones
 * together. Dense layers may come first, which have rope even without a window. */
#include <string.h>

#include "arch/decoder.h"
#include "arch/families.h"
#include "model/hf/config.h"

static void cohere2moe_read(struct hparams *h, void *hparams, struct arch_info *info)
{
    struct decoder *d = hparams;
    bool is_rms = hparams_has(h, "attention.layer_norm_rms_epsilon");
    decoder_read(h, d, is_rms ? ENGINE_NORM_RMS : ENGINE_NORM_LAYER, ENGINE_ROPE_ADJACENT);
    experts_read_router(h, d, ENGINE_ROUTE_SIGMOID, false);
    if (d->experts.function == ENGINE_ROUTE_SOFTMAX) d->experts.normalise = true; /* of those chosen */
    d->experts.averages_shared = !hparams_flag(h, "engine.adds_shared_experts", false);
    d->logit_scale = hparams_float_above_0(h, "logit_scale", 1);
    decoder_read_windows(h, d, 4, false);
    for (uint32_t i = 0; i < d->n_layers && !hparams_has(h, "rope.layers"); i++)
        if (!d->layers[i].slides && d->layers[i].is_mixture) d->layers[i].rope = NULL;
    *info = decoder_info(d);
}

/* ---- Hugging Face directories -------------------------------------------------------------------------- */

/* Without a list, the patterns of dense layers and of the others follow each other. */
static void read_layers(struct hf_config *config, uint32_t n_dense)
{
    uint32_t period = hf_count(config, config->json, "sliding_window_pattern", 4),
             of_dense = hf_count(config, config->json, "prefix_dense_sliding_window_pattern", 1);
    hf_find_windows(config);
    for (uint32_t i = 0; i < config->n_layers && !hf_get(config->json, "layer_types"); i++) {
        uint32_t own = i < n_dense ? of_dense : period, at = i < n_dense ? i : i - n_dense;
        config->slides[i] = own == 0 || (at + 1) % own != 0;
    }
    for (uint32_t i = 0; i < config->n_layers; i++) config->has_rope[i] = config->slides[i];
    if (n_dense > 0 && of_dense != 1) hf_put_layer_flags(config, "rope.layers", config->has_rope);
}

static void cohere2moe_read_config(struct hf_config *config)
{
    const json_t *json = config->json;
    const char *function = hf_text(config, json, "expert_selection_fn"),
               *combination = hf_text(config, json, "shared_expert_combination_strategy");
    const bool is_sigmoid = function && strcmp(function, "sigmoid") == 0,
               adds = combination && strcmp(combination, "sum") == 0;
    uint32_t n_ff = config->n_ff,
             n_dense = hf_count_dense_layers(config, hf_count(config, json, "first_k_dense_replace", 0));
    if (n_dense > config->n_layers)
        hf_fail(config, ENGINE_ERROR_DATA, "first_k_dense_replace is %u of %u layers", n_dense,
                config->n_layers);
    hf_refuse(config, function && !is_sigmoid && strcmp(function, "softmax") != 0,
              "this expert_selection_fn");
    hf_refuse(config, combination && !adds && strcmp(combination, "average") != 0,
              "this shared_expert_combination_strategy");
    if (hf_get(json, "rms_norm_eps"))
        hf_put_float(config, "attention.layer_norm_rms_epsilon", hf_number(config, json, "rms_norm_eps", 0));
    read_layers(config, n_dense);
    hf_put_count(config, "leading_dense_block_count", n_dense);
    hf_put_count(config, "expert_gating_func", is_sigmoid ? 2 : 1);
    hf_put_count(config, "expert_feed_forward_length", n_ff);
    uint64_t n_shared = (uint64_t)hf_count(config, json, "num_shared_experts", 0) * n_ff;
    if (n_shared > INT32_MAX) hf_fail(config, ENGINE_ERROR_DATA, "num_shared_experts is too large");
    if (n_shared > 0) hf_put_count(config, "expert_shared_feed_forward_length", (uint32_t)n_shared);
    if (adds) hf_put_flag(config, "engine.adds_shared_experts", true);
    config->n_ff = hf_count(config, json, "prefix_dense_intermediate_size", n_ff);
}

static const struct hf_key cohere2moe_numbers[] = {
    {"logit_scale", "logit_scale", HF_FLOAT, 0.0625},
    {"num_experts", "expert_count", HF_COUNT, 8},
    {"num_experts_per_tok", "expert_used_count", HF_COUNT, 2},
    {"num_shared_experts", "expert_shared_count", HF_COUNT, 0},
    {"norm_topk_prob", "expert_weights_norm", HF_FLAG, 1},
    {0},
};

static const struct hf_type cohere2moe_types[] = {
    {.name = "cohere2_moe",
     .keys = {.window_period = "sliding_window_pattern", .layer_types = "layer_types"},
     .width = 8192,
     .layers = 40,
     .heads = 64,
     .head_dim = 128,
     .ff = 22528,
     .context = 8192,
     .epsilon = 1e-5,
     .is_tied = true,
     .windows = HF_WINDOWS_PERIOD,
     .window = 4096,
     .window_period = 4,
     .numbers = cohere2moe_numbers,
     .options = {HF_ATTENTION_BIAS},
     .read = cohere2moe_read_config},
    {0},
};

static const struct arch_missing cohere2moe_missing[] = {
    {"the router's function, in some files, and rope in dense layers", "sigmoids, and present, as published",
     ""},
    {0},
};

const struct architecture arch_cohere2moe = {
    .name = "cohere2moe",
    .models = "Command A with experts",
    .missing = cohere2moe_missing,
    .size = sizeof(struct decoder),
    .read = cohere2moe_read,
    .build = decoder_build_parallel,
    .hf = {.types = cohere2moe_types, .has_layer_norms = true, .writes_no_scaling = true},
};

/* exaone-moe.c: K-EXAONE: EXAONE 4's attention (norms on each head of queries and keys; every fourth layer
 * attends to everything and has no positions) with norms before the blocks, and, after dense layers, mixtures
 * of experts chosen by sigmoids with a bias, beside shared ones. */
#include "arch/decoder.h"
#include "arch/families.h"
#include "model/hf/config.h"

static void exaone_moe_read(struct hparams *h, void *hparams, struct arch_info *info)
{
    struct decoder *d = hparams;
    decoder_read(h, d, ENGINE_NORM_RMS, ENGINE_ROPE_HALVES);
    experts_read_router(h, d, ENGINE_ROUTE_SIGMOID, true);
    exaone4_read_windows(h, d);
    *info = decoder_info(d);
}

/* ---- Hugging Face directories -------------------------------------------------------------------------- */

static void exaone_moe_read_config(struct hf_config *config)
{
    uint32_t n_dense = hf_count(config, config->json, "first_k_dense_replace|first_last_k_dense_replace", 1);
    uint64_t shared = (uint64_t)hf_count(config, config->json, "moe_intermediate_size", 1024) *
                      hf_count(config, config->json, "num_shared_experts", 1);
    if (shared > INT32_MAX) hf_fail(config, ENGINE_ERROR_DATA, "num_shared_experts is too large");
    hf_put_count(config, "expert_shared_feed_forward_length", (uint32_t)shared);
    hf_put_count(config, "leading_dense_block_count", hf_count_dense_layers(config, n_dense));
    hf_put_count(config, "nextn_predict_layers", 0);
    hf_put_count(config, "expert_gating_func", 2);
}

static const struct hf_key exaone_moe_numbers[] = {
    {"num_experts", "expert_count", HF_COUNT, 64},
    {"num_experts_per_tok", "expert_used_count", HF_COUNT, 8},
    {"num_shared_experts", "expert_shared_count", HF_COUNT, 1},
    {"moe_intermediate_size", "expert_feed_forward_length", HF_COUNT, 1024},
    {"norm_topk_prob", "expert_weights_norm", HF_FLAG, 1},
    {"routed_scaling_factor", "expert_weights_scale", HF_FLOAT, 2.5},
    {"n_group", "expert_group_count", HF_COUNT, 1},
    {"topk_group", "expert_group_used_count", HF_COUNT, 1},
    {0},
};

static const struct hf_module exaone_moe_modules[] = {
    {"mlp.e_score_correction_bias", "exp_probs_b.bias"},
    {0},
};

static const struct hf_type exaone_moe_types[] = {
    {.name = "exaone_moe",
     .keys = {.window_period = "sliding_window_pattern", .layer_types = "layer_types"},
     .width = 4096,
     .layers = 32,
     .heads = 32,
     .kv_heads = 32,
     .ff = 16384,
     .context = 2048,
     .epsilon = 1e-5,
     .windows = HF_WINDOWS_PERIOD,
     .window = 4096,
     .window_period = 4,
     .numbers = exaone_moe_numbers,
     .read = exaone_moe_read_config},
    {0},
};

const struct architecture arch_exaone_moe = {
    .name = "exaone-moe",
    .models = "K-EXAONE",
    .size = sizeof(struct decoder),
    .read = exaone_moe_read,
    .build = decoder_build,
    .hf = {.types = exaone_moe_types, .modules = exaone_moe_modules, .writes_no_scaling = true},
};

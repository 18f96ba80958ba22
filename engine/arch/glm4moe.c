/* glm4moe.c: GLM-4.5 and 4.6: dense layers first, then mixtures of experts chosen by sigmoids with a bias (as
 * in DeepSeek-V3), rope on half of each head, biases on queries, keys and values. arXiv 2508.06471. Solar
 * Open is the same with rope on whole heads and without dense layers, biases and norms of heads. */
#include "arch/decoder.h"
#include "arch/families.h"
#include "model/hf/config.h"

static void glm4moe_read(struct hparams *h, void *hparams, struct arch_info *info)
{
    struct decoder *d = hparams;
    decoder_read(h, d, ENGINE_NORM_RMS, ENGINE_ROPE_HALVES);
    experts_read_router(h, d, ENGINE_ROUTE_SIGMOID, true);
    d->ffn_norm = "post_attention_norm";
    *info = decoder_info(d);
}

/* ---- Hugging Face directories -------------------------------------------------------------------------- */

static void glm4moe_read_config(struct hf_config *config)
{
    hf_put_count(config, "expert_gating_func", 2);
}

static const struct hf_key glm4moe_numbers[] = {
    {"num_local_experts|n_routed_experts", "expert_count", HF_COUNT, 128},
    {"num_experts_per_tok", "expert_used_count", HF_COUNT, 8},
    {"n_shared_experts", "expert_shared_count", HF_COUNT, 1},
    {"moe_intermediate_size", "expert_feed_forward_length", HF_COUNT, 1408},
    {"first_k_dense_replace", "leading_dense_block_count", HF_COUNT, 1},
    {"norm_topk_prob", "expert_weights_norm", HF_FLAG, 1},
    {"routed_scaling_factor", "expert_weights_scale", HF_FLOAT, 1},
    {"n_group", "expert_group_count", HF_COUNT, 1},
    {"topk_group", "expert_group_used_count", HF_COUNT, 1},
    {0},
};

static const struct hf_key solar_open_numbers[] = {
    {"num_local_experts|n_routed_experts", "expert_count", HF_COUNT, 128},
    {"num_experts_per_tok", "expert_used_count", HF_COUNT, 8},
    {"n_shared_experts", "expert_shared_count", HF_COUNT, 1},
    {"moe_intermediate_size", "expert_feed_forward_length", HF_COUNT, 1280},
    {"norm_topk_prob", "expert_weights_norm", HF_FLAG, 1},
    {"routed_scaling_factor", "expert_weights_scale", HF_FLOAT, 1},
    {"n_group", "expert_group_count", HF_COUNT, 1},
    {"topk_group", "expert_group_used_count", HF_COUNT, 1},
    {0},
};

static const struct hf_module glm4moe_modules[] = {
    {"post_attention_layernorm", "post_attention_norm"},
    {0},
};

static const struct hf_type glm4moe_types[] = {
    {.name = "glm4_moe",
     .width = 4096,
     .layers = 46,
     .heads = 96,
     .kv_heads = 8,
     .ff = 10944,
     .context = 131072,
     .epsilon = 1e-5,
     .rotary = 0.5,
     .numbers = glm4moe_numbers,
     .options = {{"attention_bias", false, HF_QKV}, {"use_qk_norm", false, HF_QK_NORMS}},
     .read = glm4moe_read_config},
    {.name = "solar_open",
     .width = 4096,
     .layers = 48,
     .heads = 64,
     .kv_heads = 8,
     .head_dim = 128,
     .ff = 10240,
     .context = 131072,
     .epsilon = 1e-5,
     .keeps_rotary = true,
     .theta = 1e6,
     .numbers = solar_open_numbers,
     .options = {{"attention_bias", false, HF_QKV}},
     .read = glm4moe_read_config},
    {0},
};

const struct architecture arch_glm4moe = {
    .name = "glm4moe",
    .models = "GLM 4.5, 4.6; Solar Open",
    .size = sizeof(struct decoder),
    .read = glm4moe_read,
    .build = decoder_build,
    .hf = {.types = glm4moe_types, .modules = glm4moe_modules},
};

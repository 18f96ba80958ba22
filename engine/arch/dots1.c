/* dots1.c: dots.llm1: Qwen 3's attention, with norms on each head of queries and keys; dense layers first,
 * then mixtures of experts chosen by sigmoids with a bias, beside shared ones (as in DeepSeek-V3). arXiv
 * 2506.05767. */
#include "arch/decoder.h"
#include "arch/families.h"
#include "model/hf/config.h"

static void dots1_read(struct hparams *h, void *hparams, struct arch_info *info)
{
    struct decoder *d = hparams;
    decoder_read(h, d, ENGINE_NORM_RMS, ENGINE_ROPE_HALVES);
    experts_read_router(h, d, ENGINE_ROUTE_SIGMOID, true);
    *info = decoder_info(d);
}

/* ---- Hugging Face directories -------------------------------------------------------------------------- */

static void dots1_read_config(struct hf_config *config)
{
    hf_put_count(config, "expert_gating_func", 2);
}

static const struct hf_key dots1_numbers[] = {
    {"num_local_experts|n_routed_experts", "expert_count", HF_COUNT, 0},
    {"num_experts_per_tok", "expert_used_count", HF_COUNT, 0},
    {"n_shared_experts", "expert_shared_count", HF_COUNT, 0},
    {"moe_intermediate_size", "expert_feed_forward_length", HF_COUNT, 1408},
    {"first_k_dense_replace", "leading_dense_block_count", HF_COUNT, 0},
    {"norm_topk_prob", "expert_weights_norm", HF_FLAG, 0},
    {"routed_scaling_factor", "expert_weights_scale", HF_FLOAT, 1},
    {"n_group", "expert_group_count", HF_COUNT, 1},
    {"topk_group", "expert_group_used_count", HF_COUNT, 1},
    {0},
};

static const struct hf_type dots1_types[] = {
    {.name = "dots1",
     .keys = {.layer_types = "layer_types"},
     .width = 4608,
     .layers = 62,
     .heads = 32,
     .kv_heads = 32,
     .ff = 10944,
     .context = 2048,
     .windows = HF_WINDOWS_FROM,
     .window = 4096,
     .window_from = 62,
     .numbers = dots1_numbers,
     .options = {HF_ATTENTION_BIAS},
     .read = dots1_read_config},
    {0},
};

const struct architecture arch_dots1 = {
    .name = "dots1",
    .models = "dots.llm1",
    .size = sizeof(struct decoder),
    .read = dots1_read,
    .build = decoder_build,
    .hf = {.types = dots1_types},
};

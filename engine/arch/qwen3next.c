/* qwen3next.c: Qwen 3 Next: three of four layers have a gated delta net instead of attention, whose output
 * has a gate (delta-net.h). Feed-forward networks are Qwen 2's mixtures. */
#include "arch/delta-net.h"
#include "arch/families.h"

static const struct hf_key qwen3next_numbers[] = {
    {"num_experts", "expert_count", HF_COUNT, 512},
    {"num_experts_per_tok", "expert_used_count", HF_COUNT, 10},
    {"moe_intermediate_size", "expert_feed_forward_length", HF_COUNT, 512},
    {"shared_expert_intermediate_size", "expert_shared_feed_forward_length", HF_COUNT, 512},
    {"norm_topk_prob", "expert_weights_norm", HF_FLAG, 1},
    {"decoder_sparse_step", "interleave_moe_layer_step", HF_COUNT, 1},
    DELTA_NET_NUMBERS,
    {0},
};

static const struct hf_module qwen3next_modules[] = {
    {"linear_attn.in_proj_qkvz", "attn_qkvz"},
    {"linear_attn.in_proj_ba", "ssm_ba"},
    DELTA_NET_MODULES,
    {0},
};

static const struct hf_form qwen3next_forms[] = {
    {.tensor = "attn_qkvz", .kind = FORM_QKVZ, .outputs = {"attn_qkv", "attn_gate"}},
    {0},
};

static const struct hf_type qwen3next_types[] = {
    {.name = "qwen3_next",
     .keys = {.layer_types = "layer_types"},
     .width = 2048,
     .layers = 48,
     .heads = 16,
     .kv_heads = 2,
     .head_dim = 256,
     .ff = 5632,
     .context = 32768,
     .rotary = 0.25,
     .numbers = qwen3next_numbers,
     .options = {HF_ATTENTION_BIAS},
     .read = delta_net_read_config},
    {0},
};

const struct architecture arch_qwen3next = {
    .name = "qwen3next",
    .models = "Qwen 3 Next: a hybrid of recurrent layers and layers with attention",
    .size = sizeof(struct delta_net),
    .read = delta_net_read,
    .build = delta_net_build,
    .hf = {.types = qwen3next_types,
           .modules = qwen3next_modules,
           .forms = qwen3next_forms,
           .norms_add_one = true},
};

/* qwen35.c: Qwen 3.5, 3.6 and 3.8, dense and with experts: Qwen 3 Next (delta-net.h) with matrices of their
 * own for beta and the time steps. GGUF files hold the value heads tiled, directories in groups. The models
 * also see: positions of pictures have three dimensions, which are the same in text. */
#include "arch/delta-net.h"
#include "arch/families.h"
#include "model/hf/config.h"

static void qwen35_read(struct hparams *h, void *hparams, struct arch_info *info)
{
    struct delta_net *net = hparams;
    net->is_tiled = true;
    delta_net_read(h, net, info);
}

/* ---- Hugging Face directories -------------------------------------------------------------------------- */

static void qwen35_read_config(struct hf_config *config)
{
    static const uint32_t sections[3] = {11, 11, 10};
    delta_net_read_config(config);
    hf_put_rope_sections(config, sections);
}

static const struct hf_key qwen35_numbers[] = {
    DELTA_NET_NUMBERS,
    {0},
};

static const struct hf_key qwen35moe_numbers[] = {
    {"num_experts", "expert_count", HF_COUNT, 256},
    {"num_experts_per_tok", "expert_used_count", HF_COUNT, 8},
    {"moe_intermediate_size", "expert_feed_forward_length", HF_COUNT, 512},
    {"shared_expert_intermediate_size", "expert_shared_feed_forward_length", HF_COUNT, 512},
    DELTA_NET_NUMBERS,
    {0},
};

static const struct hf_module qwen35_modules[] = {
    {"linear_attn.in_proj_qkv", "attn_qkv"},
    {"linear_attn.in_proj_z", "attn_gate"},
    {"linear_attn.in_proj_a", "ssm_alpha"},
    {"linear_attn.in_proj_b", "ssm_beta"},
    DELTA_NET_MODULES,
    {0},
};

static const struct hf_form qwen35_forms[] = {
    {.tensor = "attn_qkv", .kind = FORM_TILED_VALUES},
    {.tensor = "ssm_conv1d", .kind = FORM_TILED_VALUES},
    {.tensor = "attn_gate", .kind = FORM_TILED},
    {.tensor = "ssm_alpha", .kind = FORM_TILED},
    {.tensor = "ssm_beta", .kind = FORM_TILED},
    {.tensor = "ssm_a", .kind = FORM_TILED},
    {.tensor = "ssm_dt", .kind = FORM_TILED},
    {.tensor = "ssm_out", .kind = FORM_TILED_COLUMNS},
    {0},
};

static const struct hf_type qwen35_types[] = {
    {.name = "qwen3_5_text",
     .keys = {.layer_types = "layer_types"},
     .width = 4096,
     .layers = 32,
     .heads = 16,
     .kv_heads = 4,
     .head_dim = 256,
     .ff = 12288,
     .context = 32768,
     .rotary = 0.25,
     .numbers = qwen35_numbers,
     .options = {HF_ATTENTION_BIAS},
     .read = qwen35_read_config},
    {0},
};

static const struct hf_type qwen35moe_types[] = {
    {.name = "qwen3_5_moe_text",
     .keys = {.ff = HF_UNREAD, .layer_types = "layer_types"},
     .width = 2048,
     .layers = 40,
     .heads = 16,
     .kv_heads = 2,
     .head_dim = 256,
     .context = 32768,
     .rotary = 0.25,
     .numbers = qwen35moe_numbers,
     .options = {HF_ATTENTION_BIAS},
     .read = qwen35_read_config},
    {0},
};

const struct architecture arch_qwen35 = {
    .name = "qwen35",
    .models = "Qwen 3.5, 3.6, 3.8: a hybrid of recurrent layers and layers with attention (text)",
    .size = sizeof(struct delta_net),
    .read = qwen35_read,
    .build = delta_net_build,
    .hf = {.types = qwen35_types, .modules = qwen35_modules, .forms = qwen35_forms, .norms_add_one = true},
};

const struct architecture arch_qwen35moe = {
    .name = "qwen35moe",
    .models = "Qwen 3.5, 3.6, 3.8 with experts (text)",
    .size = sizeof(struct delta_net),
    .read = qwen35_read,
    .build = delta_net_build,
    .hf = {.types = qwen35moe_types, .modules = qwen35_modules, .forms = qwen35_forms, .norms_add_one = true},
};

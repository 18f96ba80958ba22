/* gpt-oss.c: gpt-oss: attention with learnt sinks (arXiv 2309.17453), a sliding window in every other
 * layer, biases everywhere, and mixtures of experts with a clamped SwiGLU. arXiv 2508.10925. */
#include "arch/decoder.h"
#include "arch/families.h"

static void gpt_oss_read(struct hparams *h, void *hparams, struct arch_info *info)
{
    struct decoder *d = hparams;
    d->rope.yarn_between = true; /* early files lack rope.scaling.yarn_truncate */
    decoder_read(h, d, ENGINE_NORM_RMS, ENGINE_ROPE_HALVES);
    decoder_read_windows(h, d, 2, false);
    d->ffn_norm = "post_attention_norm";
    /* No file has these numbers; they are those of both published models. */
    d->experts.activation = ENGINE_ACTIVATION_SWIGLU_CLAMPED;
    d->experts.limit = 7;
    d->experts.alpha = 1.702f;
    *info = decoder_info(d);
}

/* rope_parameters of a config.json without any. */
#define GPT_OSS_ROPE                                                                                         \
    "{\"rope_type\": \"yarn\", \"factor\": 32.0, \"beta_fast\": 32.0, \"beta_slow\": 1.0, "                  \
    "\"truncate\": false, \"original_max_position_embeddings\": 4096}"

static const struct hf_key gpt_oss_numbers[] = {
    {"num_experts|num_local_experts", "expert_count", HF_COUNT, 128},
    {"num_experts_per_tok", "expert_used_count", HF_COUNT, 4},
    {"intermediate_size", "expert_feed_forward_length", HF_COUNT, 2880},
    {0},
};

static const struct hf_module gpt_oss_modules[] = {
    {"mlp.router", "ffn_gate_inp"},
    {"post_attention_layernorm", "post_attention_norm"},
    {"self_attn.sinks", "attn_sinks"},
    {0},
};

static const struct hf_form gpt_oss_forms[] = {
    {.tensor = "ffn_gate_up_exps",
     .kind = FORM_INTERLEAVED,
     .is_transposed = true,
     .outputs = {"ffn_gate_exps", "ffn_up_exps"}},
    {.tensor = "ffn_down_exps", .is_transposed = true},
    {0},
};

static const struct hf_type gpt_oss_types[] = {
    {.name = "gpt_oss",
     .keys = {.activation = HF_UNREAD, .layer_types = "layer_types"},
     .width = 2880,
     .layers = 36,
     .heads = 64,
     .kv_heads = 8,
     .head_dim = 64,
     .ff = 2880,
     .context = 131072,
     .epsilon = 1e-5,
     .theta = 1.5e5,
     .rope = GPT_OSS_ROPE,
     .windows = HF_WINDOWS_PERIOD,
     .window = 128,
     .window_period = 2,
     .numbers = gpt_oss_numbers,
     .options = {{"attention_bias", true, HF_ATTENTION}}},
    {0},
};

static const struct arch_missing gpt_oss_missing[] = {
    {"the clamped SwiGLU", "limit 7, alpha 1.702, as published", ""},
    {"whether YaRN's bounds are rounded to whole pairs, in early files", "no, as published", ""},
    {0},
};

const struct architecture arch_gpt_oss = {
    .name = "gpt-oss",
    .models = "gpt-oss 20B, 120B",
    .missing = gpt_oss_missing,
    .size = sizeof(struct decoder),
    .read = gpt_oss_read,
    .build = decoder_build,
    .hf = {.types = gpt_oss_types, .modules = gpt_oss_modules, .forms = gpt_oss_forms},
};

/* qwen3moe.c: Qwen 3 with experts: Qwen 3 whose feed-forward networks are mixtures, the chosen weights
 * normalised. arXiv 2505.09388. The text part of Qwen 3-VL with experts is the same. */
#include "arch/decoder.h"
#include "arch/families.h"
#include "model/hf/config.h"

static void qwen3moe_read(struct hparams *h, void *hparams, struct arch_info *info)
{
    struct decoder *d = hparams;
    decoder_read(h, d, ENGINE_NORM_RMS, ENGINE_ROPE_HALVES);
    *info = decoder_info(d);
}

static const struct hf_key qwen3moe_numbers[] = {
    {"num_local_experts|num_experts", "expert_count", HF_COUNT, 128},
    {"num_experts_per_tok", "expert_used_count", HF_COUNT, 8},
    {"moe_intermediate_size", "expert_feed_forward_length", HF_COUNT, 768},
    {"norm_topk_prob", "expert_weights_norm", HF_FLAG, 0},
    {"decoder_sparse_step", "interleave_moe_layer_step", HF_COUNT, 1},
    {0},
};

static const struct hf_type qwen3moe_types[] = {
    {.name = "qwen3_moe",
     .keys = {.window_switch = "use_sliding_window"},
     .width = 2048,
     .layers = 24,
     .heads = 32,
     .kv_heads = 4,
     .ff = 6144,
     .context = 32768,
     .windows = HF_WINDOWS_ALL,
     .window = 4096,
     .numbers = qwen3moe_numbers,
     .options = {HF_ATTENTION_BIAS},
     .read = hf_read_dense_layers},
    {0},
};

static void qwen3vlmoe_read_config(struct hf_config *config)
{
    hf_read_dense_layers(config);
    qwen3vl_read_config(config);
    hf_put_flag(config, "expert_weights_norm", true);
}

static const struct hf_key qwen3vlmoe_numbers[] = {
    {"num_local_experts|num_experts", "expert_count", HF_COUNT, 60},
    {"num_experts_per_tok", "expert_used_count", HF_COUNT, 4},
    {"moe_intermediate_size", "expert_feed_forward_length", HF_COUNT, 1408},
    {"decoder_sparse_step", "interleave_moe_layer_step", HF_COUNT, 1},
    {0},
};

/* The published matrices are transposed, those that transformers 5 writes are not. */
static const struct hf_form qwen3vlmoe_forms[] = {
    {.tensor = "ffn_gate_up_exps",
     .kind = FORM_HALVES,
     .is_either = true,
     .outputs = {"ffn_gate_exps", "ffn_up_exps"}},
    {.tensor = "ffn_down_exps", .is_either = true},
    {0},
};

static const struct hf_type qwen3vlmoe_types[] = {
    {.name = "qwen3_vl_moe_text",
     .width = 2048,
     .layers = 24,
     .heads = 16,
     .kv_heads = 16,
     .ff = 5632,
     .context = 128000,
     .theta = 5e5,
     .numbers = qwen3vlmoe_numbers,
     .options = {HF_ATTENTION_BIAS},
     .read = qwen3vlmoe_read_config},
    {0},
};

const struct architecture arch_qwen3moe = {
    .name = "qwen3moe",
    .models = "Qwen 3 with experts",
    .size = sizeof(struct decoder),
    .read = qwen3moe_read,
    .build = decoder_build,
    .hf = {.types = qwen3moe_types},
};

const struct architecture arch_qwen3vlmoe = {
    .name = "qwen3vlmoe",
    .models = "Qwen 3-VL with experts (text)",
    .size = sizeof(struct decoder),
    .read = qwen3moe_read,
    .build = decoder_build,
    .hf = {.types = qwen3vlmoe_types, .forms = qwen3vlmoe_forms},
};

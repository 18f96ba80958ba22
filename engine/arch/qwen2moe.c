/* qwen2moe.c: Qwen 1.5 and 2 with experts: Qwen 2 whose feed-forward networks are mixtures, weighted by the
 * softmax over all experts, with a shared expert that each token weights by a sigmoid. arXiv 2407.10671. */
#include "arch/decoder.h"
#include "arch/families.h"
#include "model/hf/config.h"

static void qwen2moe_read(struct hparams *h, void *hparams, struct arch_info *info)
{
    struct decoder *d = hparams;
    struct experts *e = &d->experts;
    decoder_read(h, d, ENGINE_NORM_RMS, ENGINE_ROPE_HALVES);
    experts_read_router(h, d, ENGINE_ROUTE_SOFTMAX, false);
    /* Early files have only the shared expert's length, which is that of all chosen experts together. */
    if (!hparams_has(h, "expert_feed_forward_length") && e->n_used > 0) {
        e->n_ff_shared = e->n_ff;
        e->n_ff = e->n_ff / e->n_used;
    }
    *info = decoder_info(d);
}

static const struct hf_key qwen2moe_numbers[] = {
    {"num_experts", "expert_count", HF_COUNT, 60},
    {"num_experts_per_tok", "expert_used_count", HF_COUNT, 4},
    {"moe_intermediate_size", "expert_feed_forward_length", HF_COUNT, 1408},
    {"shared_expert_intermediate_size", "expert_shared_feed_forward_length", HF_COUNT, 5632},
    {"norm_topk_prob", "expert_weights_norm", HF_FLAG, 0},
    {"decoder_sparse_step", "interleave_moe_layer_step", HF_COUNT, 1},
    {0},
};

static const struct hf_type qwen2moe_types[] = {
    {.name = "qwen2_moe",
     .keys = {.window_switch = "use_sliding_window", .layer_types = "layer_types"},
     .width = 2048,
     .layers = 24,
     .heads = 16,
     .kv_heads = 16,
     .ff = 5632,
     .context = 32768,
     .windows = HF_WINDOWS_UNTIL,
     .window = 4096,
     .numbers = qwen2moe_numbers,
     .options = {{"qkv_bias", true, HF_QKV}},
     .read = hf_read_dense_layers},
    {0},
};

const struct architecture arch_qwen2moe = {
    .name = "qwen2moe",
    .models = "Qwen 1.5 and 2 with experts",
    .size = sizeof(struct decoder),
    .read = qwen2moe_read,
    .build = decoder_build,
    .hf = {.types = qwen2moe_types},
};

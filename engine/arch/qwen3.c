/* qwen3.c: Qwen 3: Llama with a norm on each head of queries and keys, and rotary positions on halves.
 * Yang et al., arXiv 2505.09388. */
#include "arch/decoder.h"
#include "arch/families.h"

static void qwen3_read(struct hparams *h, void *hparams, struct arch_info *info)
{
    struct decoder *d = hparams;
    decoder_read(h, d, ENGINE_NORM_RMS, ENGINE_ROPE_HALVES);
    *info = decoder_info(d);
}

static const struct hf_type qwen3_types[] = {
    {.name = "qwen3",
     .keys = {.window_switch = "use_sliding_window", .layer_types = "layer_types"},
     .width = 4096,
     .layers = 32,
     .heads = 32,
     .kv_heads = 32,
     .head_dim = 128,
     .ff = 22016,
     .context = 32768,
     .windows = HF_WINDOWS_FROM,
     .window = 4096,
     .options = {HF_ATTENTION_BIAS},
     .may_rerank = true},
    {0},
};

const struct architecture arch_qwen3 = {
    .name = "qwen3",
    .models = "Qwen 3",
    .size = sizeof(struct decoder),
    .read = qwen3_read,
    .build = decoder_build,
    .hf = {.types = qwen3_types},
};

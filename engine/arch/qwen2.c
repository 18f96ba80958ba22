/* qwen2.c: Qwen 2 and 2.5: Llama with biases on queries, keys and values, and rotary positions on halves.
 * Published models disable their sliding window. Yang et al., arXiv 2407.10671. */
#include "arch/decoder.h"
#include "arch/families.h"

static void qwen2_read(struct hparams *h, void *hparams, struct arch_info *info)
{
    struct decoder *d = hparams;
    decoder_read(h, d, ENGINE_NORM_RMS, ENGINE_ROPE_HALVES);
    *info = decoder_info(d);
}

static const struct hf_type qwen2_types[] = {
    {.name = "qwen2",
     .keys = {.window_switch = "use_sliding_window", .layer_types = "layer_types"},
     .width = 4096,
     .layers = 32,
     .heads = 32,
     .kv_heads = 32,
     .ff = 22016,
     .context = 32768,
     .windows = HF_WINDOWS_FROM,
     .window = 4096},
    {0},
};

const struct architecture arch_qwen2 = {
    .name = "qwen2",
    .models = "Qwen 2, 2.5",
    .size = sizeof(struct decoder),
    .read = qwen2_read,
    .build = decoder_build,
    .hf = {.types = qwen2_types},
    .quantize = {.n_layers = 80},
};

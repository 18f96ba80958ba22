/* qwen2.c: Qwen 2 and 2.5: Llama with biases on queries, keys and values, and rotary positions on halves.
 * Published models disable their sliding window. Yang et al., arXiv 2407.10671. The text part of Qwen
 * 2-VL and 2.5-VL (arXiv 2409.12191) is the same; their positions of pictures have three dimensions. */
#include "arch/decoder.h"
#include "arch/families.h"
#include "model/hf/config.h"

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

static void qwen2vl_read_config(struct hf_config *config)
{
    hf_put_rope_sections(config, NULL);
}

#define QWEN2VL_TYPE(NAME)                                                                                   \
    {                                                                                                        \
        .name = NAME, .keys = {.window_switch = "use_sliding_window", .layer_types = "layer_types"},         \
        .width = 8192, .layers = 80, .heads = 64, .kv_heads = 8, .ff = 29568, .context = 32768,              \
        .epsilon = 1e-5, .theta = 1e6, .windows = HF_WINDOWS_FROM, .window = 4096, .window_from = 80,        \
        .read = qwen2vl_read_config                                                                          \
    }

/* The published config.json has the text model's numbers among the others; what transformers 5 writes has a
 * text_config. */
static const struct hf_type qwen2vl_types[] = {
    QWEN2VL_TYPE("qwen2_vl"),
    QWEN2VL_TYPE("qwen2_vl_text"),
    QWEN2VL_TYPE("qwen2_5_vl"),
    QWEN2VL_TYPE("qwen2_5_vl_text"),
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

const struct architecture arch_qwen2vl = {
    .name = "qwen2vl",
    .models = "Qwen 2-VL, 2.5-VL (text)",
    .size = sizeof(struct decoder),
    .read = qwen2_read,
    .build = decoder_build,
    .hf = {.types = qwen2vl_types},
};

/* qwen3.c: Qwen 3: Llama with a norm on each head of queries and keys, and rotary positions on halves.
 * Yang et al., arXiv 2505.09388. The text part of Qwen 3-VL is the same; its positions of pictures have
 * three dimensions. */
#include "arch/decoder.h"
#include "arch/families.h"
#include "model/hf/config.h"

static void qwen3_read(struct hparams *h, void *hparams, struct arch_info *info)
{
    struct decoder *d = hparams;
    decoder_read(h, d, ENGINE_NORM_RMS, ENGINE_ROPE_HALVES);
    *info = decoder_info(d);
}

/* The first layers also get a picture's rows of earlier layers of the eye. */
static void qwen3vl_read(struct hparams *h, void *hparams, struct arch_info *info)
{
    struct decoder *d = hparams;
    decoder_read(h, d, ENGINE_NORM_RMS, ENGINE_ROPE_HALVES);
    decoder_read_sections(h, d, true);
    d->n_deep = hparams_count(h, "n_deepstack_layers", 0);
    if (d->n_deep > d->n_layers)
        hparams_fail(h, ENGINE_ERROR_DATA, "n_deepstack_layers: %u of %u layers", d->n_deep, d->n_layers);
    if (h->status) d->n_deep = 0;
    *info = decoder_info(d);
}

static const struct hf_reranker qwen3_reranker = {
    .models = "Qwen3-Reranker",
    .name = "qwen3 reranker",
    .title = "# qwen3-reranker",
    .labels = {"yes", "no"},
    .prompt =
        "<|im_start|>system\nJudge whether the Document meets the requirements based on the Query and the "
        "Instruct provided. Note that the answer can only be \"yes\" or \"no\".<|im_end|>\n"
        "<|im_start|>user\n"
        "<Instruct>: Given a web search query, retrieve relevant passages that answer the query\n"
        "<Query>: {query}\n<Document>: {document}<|im_end|>\n"
        "<|im_start|>assistant\n<think>\n\n</think>\n\n",
};

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
     .reranker = &qwen3_reranker},
    {0},
};

void qwen3vl_read_config(struct hf_config *config)
{
    const json_t *eye = hf_get(config->root, "vision_config");
    size_t n = json_array_size(hf_get(eye, "deepstack_visual_indexes"));
    hf_put_rope_sections(config, NULL);
    hf_put_count(config, "n_deepstack_layers", n < HF_MAX_LAYERS ? (uint32_t)n : HF_MAX_LAYERS);
}

static const struct hf_type qwen3vl_types[] = {
    {.name = "qwen3_vl_text",
     .width = 4096,
     .layers = 32,
     .heads = 32,
     .kv_heads = 32,
     .head_dim = 128,
     .ff = 22016,
     .context = 128000,
     .theta = 5e5,
     .options = {HF_ATTENTION_BIAS},
     .read = qwen3vl_read_config},
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

const struct architecture arch_qwen3vl = {
    .name = "qwen3vl",
    .models = "Qwen 3-VL (text)",
    .size = sizeof(struct decoder),
    .read = qwen3vl_read,
    .build = decoder_build,
    .hf = {.types = qwen3vl_types},
};

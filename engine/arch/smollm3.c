/* smollm3.c: SmolLM 3: Llama; every fourth layer has no positions (NoPE, arXiv 2501.18795). */
#include "arch/decoder.h"
#include "arch/families.h"
#include "model/hf/config.h"

static void smollm3_read(struct hparams *h, void *hparams, struct arch_info *info)
{
    struct decoder *d = hparams;
    decoder_read(h, d, ENGINE_NORM_RMS, ENGINE_ROPE_ADJACENT);
    for (uint32_t i = 3; i < d->n_layers && !hparams_has(h, "rope.layers"); i += 4) d->layers[i].rope = NULL;
    *info = decoder_info(d);
}

/* ---- Hugging Face directories -------------------------------------------------------------------------- */

static void smollm3_read_config(struct hf_config *config)
{
    hf_read_layers_without_rope(config, 4);
}

static const struct hf_type smollm3_types[] = {
    {.name = "smollm3",
     .keys = {.window_switch = "use_sliding_window", .layer_types = "layer_types"},
     .width = 2048,
     .layers = 36,
     .heads = 16,
     .kv_heads = 4,
     .ff = 11008,
     .context = 32768,
     .is_tied = true,
     .theta = 2e6,
     .windows = HF_WINDOWS_NO_ROPE,
     .options = {HF_ATTENTION_BIAS, HF_MLP_BIAS},
     .read = smollm3_read_config},
    {0},
};

static const struct arch_missing smollm3_missing[] = {
    {"layers without positions", "every fourth, as published", ""},
    {0},
};

const struct architecture arch_smollm3 = {
    .name = "smollm3",
    .models = "SmolLM 3",
    .missing = smollm3_missing,
    .size = sizeof(struct decoder),
    .read = smollm3_read,
    .build = decoder_build,
    .hf = {.types = smollm3_types, .pairs_adjacent = true},
};

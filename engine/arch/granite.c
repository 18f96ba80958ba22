/* granite.c: Granite 3, dense: Llama with scale factors on the embedding, on the output of blocks, on
 * attention scores and on logits. arXiv 2405.04324. */
#include <string.h>

#include "arch/decoder.h"
#include "arch/families.h"
#include "model/hf/config.h"

void granite_read_scales(struct hparams *h, struct decoder *d)
{
    d->embedding_scale = hparams_float_above_0(h, "embedding_scale", 1);
    d->residual_scale = hparams_float_above_0(h, "residual_scale", 1);
    d->logit_scale = 1 / hparams_float_above_0(h, "logit_scale", 1); /* the file gives a divisor */
    if (hparams_flag(h, "rope.scaling.finetuned", true)) return;
    for (uint32_t i = 0; i < d->n_layers; i++) d->layers[i].rope = NULL; /* Granite 4 without positions */
}

void granite_read_lengths(struct hparams *h, struct decoder *d)
{
    uint32_t n_ff = hparams_count(h, "expert_shared_feed_forward_length", 0);
    for (uint32_t i = 0; i < d->n_layers && d->experts.n == 0 && n_ff > 0; i++) d->layers[i].n_ff = n_ff;
}

static void granite_read(struct hparams *h, void *hparams, struct arch_info *info)
{
    struct decoder *d = hparams;
    decoder_read(h, d, ENGINE_NORM_RMS, ENGINE_ROPE_ADJACENT);
    granite_read_scales(h, d);
    granite_read_lengths(h, d);
    *info = decoder_info(d);
}

/* ---- Hugging Face directories -------------------------------------------------------------------------- */

bool granite_has_attention_alone(const struct hf_config *config)
{
    const json_t *types = hf_get(config->json, "layers_block_type|layer_types"), *type;
    size_t i;
    json_array_foreach(types, i, type)
    {
        const char *text = json_string_value(type);
        if (!text || strcmp(text, "attention") != 0) return false;
    }
    return types != NULL;
}

bool granite_has_experts(const struct hf_config *config)
{
    const json_t *n = hf_get(config->json, "num_local_experts");
    return !json_is_integer(n) || json_integer_value(n) != 0;
}

static bool granite_applies(const struct hf_config *config)
{
    return granite_has_attention_alone(config) && !granite_has_experts(config);
}

void granite4_read_config(struct hf_config *config)
{
    const json_t *json = config->json;
    const char *positions = hf_text(config, json, "position_embedding_type");
    config->shared_is_dense = hf_count(config, json, "num_local_experts", 8) == 0;
    if (!positions || strcmp(positions, "rope") != 0) hf_put_flag(config, "rope.scaling.finetuned", false);
}

static const struct hf_key granite_numbers[] = {
    GRANITE_FACTORS,
    {0},
};

static const struct hf_key granite4_numbers[] = {
    GRANITE_FACTORS,
    {"shared_intermediate_size", "expert_shared_feed_forward_length", HF_COUNT, 1024},
    {0},
};

static const struct hf_module granite_modules[] = {
    GRANITE_MODULES,
    {0},
};

static const struct hf_type granite_types[] = {
    {.name = "granite",
     .width = 4096,
     .layers = 32,
     .heads = 32,
     .ff = 11008,
     .context = 2048,
     .numbers = granite_numbers,
     .options = {HF_ATTENTION_BIAS, HF_MLP_BIAS}},
    {.name = "granitemoehybrid",
     .applies = granite_applies,
     .when = "without recurrent layers and experts",
     GRANITE4_TYPE,
     .numbers = granite4_numbers,
     .options = {HF_ATTENTION_BIAS},
     .read = granite4_read_config},
    {0},
};

const struct architecture arch_granite = {
    .name = "granite",
    .models = "Granite 3; Granite 4, dense and without recurrent layers",
    .size = sizeof(struct decoder),
    .read = granite_read,
    .build = decoder_build,
    .hf = {.types = granite_types, .modules = granite_modules, .pairs_adjacent = true},
};

/* granitemoe.c: Granite 3 with experts: Granite whose feed-forward networks are mixtures, with a shared
 * expert in some models. */
#include "arch/decoder.h"
#include "arch/families.h"
#include "model/hf/config.h"

static void granitemoe_read(struct hparams *h, void *hparams, struct arch_info *info)
{
    struct decoder *d = hparams;
    decoder_read(h, d, ENGINE_NORM_RMS, ENGINE_ROPE_ADJACENT);
    granite_read_scales(h, d);
    *info = decoder_info(d);
}

/* ---- Hugging Face directories -------------------------------------------------------------------------- */

static bool granitemoe_applies(const struct hf_config *config)
{
    return granite_has_attention_alone(config) && granite_has_experts(config);
}

static const struct hf_key granitemoe_numbers[] = {
    GRANITE_FACTORS,
    GRANITE_EXPERTS,
    {0},
};

static const struct hf_key granitemoeshared_numbers[] = {
    GRANITE_FACTORS,
    GRANITE_EXPERTS,
    {"shared_intermediate_size", "expert_shared_feed_forward_length", HF_COUNT, 0},
    {0},
};

static const struct hf_key granite4_numbers[] = {
    GRANITE_FACTORS,
    GRANITE_EXPERTS,
    {"shared_intermediate_size", "expert_shared_feed_forward_length", HF_COUNT, 1024},
    {0},
};

static const struct hf_module granitemoe_modules[] = {
    GRANITE_MODULES,
    {0},
};

static const struct hf_type granitemoe_types[] = {
    {.name = "granitemoe",
     .width = 4096,
     .layers = 32,
     .heads = 32,
     .ff = 11008,
     .context = 2048,
     .numbers = granitemoe_numbers,
     .options = {HF_ATTENTION_BIAS}},
    {.name = "granitemoeshared",
     .width = 4096,
     .layers = 32,
     .heads = 32,
     .ff = 11008,
     .context = 2048,
     .numbers = granitemoeshared_numbers,
     .options = {HF_ATTENTION_BIAS}},
    {.name = "granitemoehybrid",
     .applies = granitemoe_applies,
     .when = "without recurrent layers",
     GRANITE4_TYPE,
     .numbers = granite4_numbers,
     .options = {HF_ATTENTION_BIAS},
     .read = granite4_read_config},
    {0},
};

const struct architecture arch_granitemoe = {
    .name = "granitemoe",
    .models = "Granite 3 with experts; Granite 4 with experts and without recurrent layers",
    .size = sizeof(struct decoder),
    .read = granitemoe_read,
    .build = decoder_build,
    .hf = {.types = granitemoe_types, .modules = granitemoe_modules, .pairs_adjacent = true},
};

/* granitehybrid.c: Granite 4: Granite, dense or with experts, in which most layers have a Mamba 2 block
 * instead of attention. Usually without positions. */
#include "arch/decoder.h"
#include "arch/families.h"
#include "arch/ssm.h"
#include "model/hf/config.h"

struct granitehybrid {
    struct decoder decoder;
    struct ssm ssm;
};

static void granitehybrid_read(struct hparams *h, void *hparams, struct arch_info *info)
{
    struct granitehybrid *granite = hparams;
    struct decoder *d = &granite->decoder;
    d->is_hybrid = true;
    decoder_read(h, d, ENGINE_NORM_RMS, ENGINE_ROPE_ADJACENT);
    granite_read_scales(h, d);
    granite_read_lengths(h, d);
    *info = decoder_info(d);
    for (uint32_t i = 0; i < d->n_layers; i++) info->has_states |= d->layers[i].is_recurrent;
    if (info->has_states) ssm_read(h, &granite->ssm, true);
}

static struct value *granitehybrid_mix(struct graph *g, const struct decoder *d, struct value *x)
{
    const struct granitehybrid *granite = (const struct granitehybrid *)d;
    return d->layers[g->layer].is_recurrent ? ssm_mamba2(g, d, &granite->ssm, x) : decoder_attention(g, d, x);
}

static void granitehybrid_build(struct graph *g, const void *hparams)
{
    decoder_build_mixed(g, hparams, granitehybrid_mix);
}

/* ---- Hugging Face directories -------------------------------------------------------------------------- */

static void granitehybrid_read_config(struct hf_config *config)
{
    granite4_read_config(config);
    ssm_read_config(config, ssm_expanded(config, "mamba_expand"));
    config->is_hybrid = true;
    hf_read_recurrent_layers(config, "mamba", "attention", 0);
    hf_refuse(config, config->n_groups != 1, "mamba_n_groups other than 1");
}

static const struct hf_key granitehybrid_numbers[] = {
    GRANITE_FACTORS,
    GRANITE_EXPERTS,
    {"shared_intermediate_size", "expert_shared_feed_forward_length", HF_COUNT, 1024},
    SSM_NUMBERS,
    {0},
};

static const struct hf_module granitehybrid_modules[] = {
    SSM_MODULES("mamba"),
    {"mamba.D", "ssm_d."},
    GRANITE_MODULES,
    {0},
};

static const struct hf_type granitehybrid_types[] = {
    {.name = "granitemoehybrid",
     GRANITE4_TYPE,
     .numbers = granitehybrid_numbers,
     .options = {HF_ATTENTION_BIAS},
     .read = granitehybrid_read_config},
    {0},
};

const struct architecture arch_granitehybrid = {
    .name = "granitehybrid",
    .models = "Granite 4: a hybrid of recurrent layers and layers with attention",
    .size = sizeof(struct granitehybrid),
    .read = granitehybrid_read,
    .build = granitehybrid_build,
    .hf = {.types = granitehybrid_types, .modules = granitehybrid_modules, .pairs_adjacent = true},
};

/* mamba.c: Mamba (Gu and Dao, arXiv 2312.00752) and Mamba 2 (arXiv 2405.21060): layers of one
 * block each, without attention. */
#include "arch/families.h"
#include "arch/ssm.h"
#include "model/hf/config.h"

struct mamba {
    struct decoder decoder;
    struct ssm ssm;
    struct value *(*block)(struct graph *g, const struct decoder *d, const struct ssm *ssm, struct value *x);
};

static void mamba_build(struct graph *g, const void *hparams)
{
    const struct mamba *mamba = hparams;
    const struct decoder *d = &mamba->decoder;
    struct value *x = decoder_embed(g, d);
    for (g->layer = 0; g->layer < d->n_layers; g->layer++) {
        struct value *block = mamba->block(g, d, &mamba->ssm, decoder_norm(g, d, "attn_norm", x));
        x = decoder_layer_end(g, d, decoder_add_block(g, d, decoder_layer_output(g, d, x), block));
    }
    decoder_build_logits(g, d, x);
}

static void mamba_read_sizes(struct hparams *h, struct mamba *mamba, struct arch_info *info, bool has_heads)
{
    decoder_read_without_attention(h, &mamba->decoder, ENGINE_NORM_RMS);
    ssm_read(h, &mamba->ssm, has_heads);
    mamba->block = has_heads ? ssm_mamba2 : ssm_mamba;
    *info = decoder_info(&mamba->decoder);
    info->has_states = true;
}

static void mamba_read(struct hparams *h, void *hparams, struct arch_info *info)
{
    mamba_read_sizes(h, hparams, info, false);
}

static void mamba2_read(struct hparams *h, void *hparams, struct arch_info *info)
{
    mamba_read_sizes(h, hparams, info, true);
}

/* ---- Hugging Face directories -------------------------------------------------------------------------- */

static void mamba_read_config(struct hf_config *config)
{
    const json_t *json = config->json;
    uint32_t inner = hf_count(config, json, "intermediate_size", ssm_expanded(config, "expand"));
    uint32_t rank = (config->n_embd + 15) / 16;
    if (hf_get(json, "time_step_rank") && json_is_integer(hf_get(json, "time_step_rank")))
        rank = hf_count(config, json, "time_step_rank", rank);
    hf_put_count(config, "ssm.inner_size", inner);
    hf_put_count(config, "ssm.time_step_rank", rank);
    hf_refuse_activation(config);
}

static void mamba2_read_config(struct hf_config *config)
{
    const json_t *json = config->json;
    config->n_groups = hf_count(config, json, "n_groups", 8);
    hf_put_count(config, "ssm.group_count", config->n_groups);
    hf_put_count(config, "ssm.inner_size", ssm_expanded(config, "expand"));
    ssm_refuse_limit(config);
    hf_refuse_activation(config);
    hf_refuse(config, !hf_flag(config, json, "rms_norm", true), "rms_norm: false");
}

static const struct hf_key mamba_numbers[] = {
    {"conv_kernel", "ssm.conv_kernel", HF_COUNT, 4},
    {"state_size", "ssm.state_size", HF_COUNT, 16},
    {0},
};

static const struct hf_module mamba_modules[] = {
    {"norm", "attn_norm"},     SSM_MODULES("mixer"),        {"mixer.D", "ssm_d."},
    {"mixer.x_proj", "ssm_x"}, {"mixer.dt_proj", "ssm_dt"}, {0},
};

static const struct hf_type mamba_types[] = {
    {.name = "mamba",
     .keys = {.context = HF_UNREAD, .epsilon = "layer_norm_epsilon"},
     .width = 768,
     .layers = 32,
     .context = 1048576,
     .epsilon = 1e-5,
     .is_tied = true,
     .numbers = mamba_numbers,
     .options = {{"use_bias", false, "ssm_in|ssm_out"}, {"use_conv_bias", true, "ssm_conv1d"}},
     .read = mamba_read_config},
    {0},
};

static const struct hf_key mamba2_numbers[] = {
    {"conv_kernel", "ssm.conv_kernel", HF_COUNT, 4},
    {"state_size", "ssm.state_size", HF_COUNT, 128},
    {"num_heads", "ssm.time_step_rank", HF_COUNT, 128},
    {0},
};

static const struct hf_type mamba2_types[] = {
    {.name = "mamba2",
     .keys = {.context = HF_UNREAD, .epsilon = "layer_norm_epsilon"},
     .width = 4096,
     .layers = 64,
     .context = 1048576,
     .epsilon = 1e-5,
     .numbers = mamba2_numbers,
     .options = {{"use_bias", false, "ssm_in|ssm_out"}, {"use_conv_bias", true, "ssm_conv1d"}},
     .read = mamba2_read_config},
    {0},
};

const struct architecture arch_mamba = {
    .name = "mamba",
    .models = "Mamba 1: recurrent",
    .size = sizeof(struct mamba),
    .read = mamba_read,
    .build = mamba_build,
    .hf = {.types = mamba_types, .modules = mamba_modules, .has_no_attention = true},
};

const struct architecture arch_mamba2 = {
    .name = "mamba2",
    .models = "Mamba 2: recurrent",
    .size = sizeof(struct mamba),
    .read = mamba2_read,
    .build = mamba_build,
    .hf = {.types = mamba2_types, .modules = mamba_modules, .has_no_attention = true},
};

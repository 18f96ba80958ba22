/* minicpm.c: MiniCPM 1 and 2: Llama with Granite's scale factors, which older files lack. Hu et al., arXiv
 * 2404.06395. */
#include <math.h>

#include "arch/decoder.h"
#include "arch/families.h"
#include "model/hf/config.h"

static void minicpm_read(struct hparams *h, void *hparams, struct arch_info *info)
{
    struct decoder *d = hparams;
    decoder_read(h, d, ENGINE_NORM_RMS, ENGINE_ROPE_ADJACENT);
    float depth = sqrtf((float)(d->n_layers ? d->n_layers : 1));
    d->embedding_scale = hparams_float_above_0(h, "embedding_scale", 12);
    d->residual_scale = hparams_float_above_0(h, "residual_scale", 1.4f / depth);
    d->logit_scale = 1 / hparams_float_above_0(h, "logit_scale", (float)d->n_embd / 256); /* a divisor */
    *info = decoder_info(d);
}

/* ---- Hugging Face directories -------------------------------------------------------------------------- */

static void minicpm_read_config(struct hf_config *config)
{
    double base = hf_number(config, config->json, "dim_model_base", 1);
    double depth = hf_number(config, config->json, "scale_depth", 1);
    if (base <= 0) hf_fail(config, ENGINE_ERROR_DATA, "dim_model_base is %g", base);
    if (config->status) return;
    hf_put_float(config, "embedding_scale", hf_number(config, config->json, "scale_emb", 1));
    hf_put_float(config, "residual_scale", depth / sqrt(config->n_layers));
    hf_put_float(config, "logit_scale", config->n_embd / base);
}

static const struct hf_type minicpm_types[] = {
    {.name = "minicpm",
     .keys = {.head_dim = HF_UNREAD, .part = HF_UNREAD},
     .width = 4096,
     .layers = 32,
     .heads = 32,
     .ff = 11008,
     .context = 2048,
     .read = minicpm_read_config},
    {0},
};

static const struct arch_missing minicpm_missing[] = {
    {"which longrope factors to use", "the context, as in `phi3`", ""},
    {0},
};

const struct architecture arch_minicpm = {
    .name = "minicpm",
    .models = "MiniCPM 1, 2",
    .missing = minicpm_missing,
    .size = sizeof(struct decoder),
    .read = minicpm_read,
    .build = decoder_build,
    .hf = {.types = minicpm_types, .pairs_adjacent = true},
};

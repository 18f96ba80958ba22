/* gemma2.c: Gemma 2: Gemma with norms around each block, a sliding window in every other layer, and soft caps
 * on scores and logits. arXiv 2408.00118. */
#include <math.h>

#include "arch/decoder.h"
#include "arch/families.h"
#include "model/hf/config.h"

/* Files don't have query_pre_attn_scalar: it is the head's size in the 2B and 9B models, and
 * n_embd / n_heads in the 27B model. */
static void assume_query_scale(const struct hparams *h, struct decoder *d)
{
    if (d->n_layers == 46 && d->n_embd == 4608)
        d->attention_scale = 1 / sqrtf((float)d->n_embd / (float)d->layers[0].n_heads);
    else if (d->n_layers != 26 && d->n_layers != 42)
        decoder_warn(
            h, "the file does not give the scale of queries; assuming 1 / sqrt(%u), from the size of heads",
            d->head_dim);
}

static void gemma2_read(struct hparams *h, void *hparams, struct arch_info *info)
{
    struct decoder *d = hparams;
    decoder_read(h, d, ENGINE_NORM_RMS, ENGINE_ROPE_HALVES);
    d->norms = NORMS_AROUND;
    d->activation = decoder_read_activation(h, ENGINE_ACTIVATION_GELU_TANH);
    d->embedding_scale = sqrtf((float)d->n_embd);
    d->attention_softcap = hparams_float_from_0(h, "attn_logit_softcapping", 50);
    d->logit_softcap = hparams_float_from_0(h, "final_logit_softcapping", 30);
    decoder_read_windows(h, d, 2, false);
    if (!hparams_has(h, "attention.scale")) assume_query_scale(h, d);
    *info = decoder_info(d);
}

/* ---- Hugging Face directories -------------------------------------------------------------------------- */

void gemma_read_query_scale(struct hf_config *config)
{
    double scalar = hf_number(config, config->json, "query_pre_attn_scalar", 256);
    if (scalar <= 0) hf_fail(config, ENGINE_ERROR_DATA, "query_pre_attn_scalar is %g", scalar);
    if (!config->status) hf_put_float(config, "attention.scale", 1 / sqrt(scalar));
}

void gemma_read_config(struct hf_config *config)
{
    gemma_read_query_scale(config);
    hf_refuse(config, hf_flag(config, config->json, "use_bidirectional_attention", false),
              "bidirectional attention");
}

static const struct hf_key gemma2_numbers[] = {
    {"attn_logit_softcapping", "attn_logit_softcapping", HF_FLOAT_OR_0, 50},
    {"final_logit_softcapping", "final_logit_softcapping", HF_FLOAT_OR_0, 30},
    {0},
};

static const struct hf_type gemma2_types[] = {
    {.name = "gemma2",
     .keys = {.activation = "hidden_activation", .layer_types = "layer_types"},
     .width = 2304,
     .layers = 26,
     .heads = 8,
     .kv_heads = 4,
     .head_dim = 256,
     .ff = 9216,
     .context = 8192,
     .activation = "gelu_pytorch_tanh",
     .is_tied = true,
     .windows = HF_WINDOWS_PERIOD,
     .window = 4096,
     .window_period = 2,
     .numbers = gemma2_numbers,
     .options = {HF_ATTENTION_BIAS},
     .read = gemma_read_config},
    {0},
};

static const struct arch_missing gemma2_missing[] = {
    {"scale of queries", "the published models, recognised by their number of layers",
     "a warning; 1 / sqrt(head size)"},
    {0},
};

const struct architecture arch_gemma2 = {
    .name = "gemma2",
    .models = "Gemma 2",
    .missing = gemma2_missing,
    .size = sizeof(struct decoder),
    .read = gemma2_read,
    .build = decoder_build,
    .hf = {.types = gemma2_types, .modules = decoder_norms_behind, .norms_add_one = true},
};

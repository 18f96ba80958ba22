/* gemma3.c: Gemma 3: Gemma 2 without soft caps, with norms on each head of queries and keys. Five of six
 * layers have a sliding window, and a rope base of their own. arXiv 2503.19786. */
#include <math.h>

#include "arch/decoder.h"
#include "arch/families.h"

struct gemma3 {
    struct decoder decoder;
    struct rope local; /* of the layers with a sliding window */
};

/* As in Gemma 2: n_embd / n_heads in the 27B model, the head's size in the other known models. */
static void assume_query_scale(const struct hparams *h, struct decoder *d)
{
    if (d->n_layers == 62 && d->n_embd == 5376)
        d->attention_scale = 1 / sqrtf((float)d->n_embd / (float)d->layers[0].n_heads);
    else if (d->n_layers != 18 && d->n_layers != 26 && d->n_layers != 34 && d->n_layers != 48)
        decoder_warn(
            h, "the file does not give the scale of queries; assuming 1 / sqrt(%u), from the size of heads",
            d->head_dim);
}

static void gemma3_read(struct hparams *h, void *hparams, struct arch_info *info)
{
    struct gemma3 *gemma = hparams;
    struct decoder *d = &gemma->decoder;
    decoder_read(h, d, ENGINE_NORM_RMS, ENGINE_ROPE_HALVES);
    d->norms = NORMS_AROUND;
    d->activation = decoder_read_activation(h, ENGINE_ACTIVATION_GELU_TANH);
    d->embedding_scale = sqrtf((float)d->n_embd);
    d->logit_softcap = hparams_float_from_0(h, "final_logit_softcapping", 0);
    decoder_read_windows(h, d, 6, false);
    decoder_local_rope(h, d, &gemma->local, hparams_float_above_0(h, "rope.freq_base_swa", 10000));
    d->sees_spans = true;
    if (!hparams_has(h, "attention.scale")) assume_query_scale(h, d);
    *info = decoder_info(d);
}

static const struct hf_key gemma3_numbers[] = {
    {"attn_logit_softcapping", "attn_logit_softcapping", HF_FLOAT_OR_0, 0},
    {"final_logit_softcapping", "final_logit_softcapping", HF_FLOAT_OR_0, 0},
    {0},
};

static const struct hf_type gemma3_types[] = {
    {.name = "gemma3_text",
     .keys = {.activation = "hidden_activation",
              .local_theta = "rope_local_base_freq",
              .window_period = "sliding_window_pattern",
              .layer_types = "layer_types"},
     .width = 2304,
     .layers = 26,
     .heads = 8,
     .kv_heads = 4,
     .head_dim = 256,
     .ff = 9216,
     .context = 131072,
     .activation = "gelu_pytorch_tanh",
     .is_tied = true,
     .theta = 1e6,
     .local_theta = 1e4,
     .windows = HF_WINDOWS_PERIOD,
     .window = 4096,
     .window_period = 6,
     .numbers = gemma3_numbers,
     .options = {HF_ATTENTION_BIAS},
     .read = gemma_read_config},
    {0},
};

static const struct arch_missing gemma3_missing[] = {
    {"scale of queries", "the published models, recognised by their number of layers",
     "a warning; 1 / sqrt(head size)"},
    {0},
};

const struct architecture arch_gemma3 = {
    .name = "gemma3",
    .models = "Gemma 3 (text)",
    .missing = gemma3_missing,
    .size = sizeof(struct gemma3),
    .read = gemma3_read,
    .build = decoder_build,
    .hf = {.types = gemma3_types, .modules = decoder_norms_behind, .norms_add_one = true},
};

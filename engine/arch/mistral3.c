/* mistral3.c: Ministral 3: Llama whose positions YaRN stretches, and whose queries grow with the position, as
 * Llama 4's do. huggingface.co/mistralai/Ministral-3-8B-Base-2512. */
#include <math.h>
#include <string.h>

#include "arch/decoder.h"
#include "arch/families.h"
#include "model/hf/config.h"

struct mistral3 {
    struct decoder decoder;
    uint32_t n_unscaled; /* queries are scaled from this position on */
    float scale;         /* how much; 0: not at all */
};

static float query_scale(const void *hparams, uint32_t position)
{
    const struct mistral3 *model = hparams;
    return (float)(1 + (double)model->scale * log1p(floor((double)position / model->n_unscaled)));
}

/* The converter writes mscale_all_dim; the other number, mscale, is 1 in all published models. */
static void read_magnitude(struct hparams *h, struct rope *rope)
{
    float multiplier = hparams_float_from_0(h, "rope.scaling.yarn_log_multiplier", 0);
    if (rope->yarn > 1 && rope_read_yarn_magnitude(h) <= 0)
        rope->magnitude /= 1 + 0.1f * multiplier * logf(rope->yarn);
}

static void mistral3_read(struct hparams *h, void *hparams, struct arch_info *info)
{
    struct mistral3 *model = hparams;
    struct decoder *d = &model->decoder;
    decoder_read(h, d, ENGINE_NORM_RMS, ENGINE_ROPE_ADJACENT);
    read_magnitude(h, &d->rope);
    model->scale = hparams_float_from_0(h, "attention.temperature_scale", 0);
    model->n_unscaled = hparams_count(h, "attention.temperature_length", d->rope.n_original);
    if (model->n_unscaled == 0)
        hparams_fail(h, ENGINE_ERROR_DATA, "rope.scaling.original_context_length is 0");
    *info = decoder_info(d);
    if (model->scale > 0) info->query_scale = query_scale;
}

static struct value *mistral3_attention(struct graph *g, const struct decoder *d, struct value *x)
{
    const struct mistral3 *model = (const struct mistral3 *)d;
    const struct decoder_layer *layer = &d->layers[g->layer];
    struct heads heads = decoder_attention_heads(g, d, x);
    /* Before that position the factor is 1. */
    if (model->scale > 0 && g->shape.n_context > model->n_unscaled)
        heads.q = decoder_scale_queries(g, d, heads.q);
    return decoder_linear(g, "attn_output", (uint64_t)layer->n_heads * d->value_dim, d->n_embd,
                          decoder_attend(g, d, &heads));
}

static void mistral3_build(struct graph *g, const void *hparams)
{
    decoder_build_mixed(g, hparams, mistral3_attention);
}

/* ---- Hugging Face directories -------------------------------------------------------------------------- */

static void mistral3_read_config(struct hf_config *config)
{
    const json_t *rope = hf_get(config->json, "rope_scaling|rope_parameters");
    const char *type = hf_text(config, rope, "rope_type|type");
    hf_put_float(config, "attention.temperature_scale",
                 hf_number(config, rope, "llama_4_scaling_beta", rope ? 0 : 0.1));
    /* Queries grow from the original context on, also where the rope isn't scaled by it. */
    if (rope && (!type || strcmp(type, "yarn") != 0))
        hf_put_count(config, "attention.temperature_length",
                     hf_count(config, rope, "original_max_position_embeddings", config->n_context));
    hf_put_float(config, "rope.scaling.yarn_log_multiplier",
                 hf_number(config, rope, "mscale_all_dim", rope ? 0 : 1));
}

static const struct hf_type mistral3_types[] = {
    {.name = "ministral3",
     .width = 4096,
     .layers = 34,
     .heads = 32,
     .kv_heads = 8,
     .head_dim = 128,
     .ff = 14336,
     .context = 262144,
     .epsilon = 1e-5,
     .theta = 1e6,
     .rope = "{\"rope_type\": \"yarn\", \"rope_theta\": 1e6, \"factor\": 16, \"mscale\": 1, "
             "\"mscale_all_dim\": 1, \"original_max_position_embeddings\": 16384}",
     .windows = HF_WINDOWS_ALL,
     .read = mistral3_read_config},
    {0},
};

const struct architecture arch_mistral3 = {
    .name = "mistral3",
    .models = "Ministral 3 (text)",
    .size = sizeof(struct mistral3),
    .read = mistral3_read,
    .build = mistral3_build,
    .hf = {.types = mistral3_types, .pairs_adjacent = true},
};

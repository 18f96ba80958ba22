/* llama4.c: Llama 4 (Scout, Maverick): three of four layers have rope and attend within chunks of 8192
 * tokens, with norms on heads in Scout; the fourth has neither, attends to everything, and scales its queries
 * with the position. Mixtures of experts that route each token to one expert, its input weighted by a
 * sigmoid, besides a shared one. */
#include <math.h>
#include <string.h>

#include "arch/decoder.h"
#include "arch/families.h"
#include "model/hf/config.h"

#define FULL_PERIOD 4
#define CHUNK       8192
#define SCALE_FLOOR 8192
#define N_MAVERICK  128 /* experts */
#define N_SCOUT     16

struct llama4 {
    struct decoder decoder;
    bool norms_heads;    /* in the layers with rope */
    uint32_t n_unscaled; /* queries are scaled from this position on */
    float scale;         /* how much: 0: not at all */
};

/* The factor of queries in the layers without rope. */
static float query_scale(const void *hparams, uint32_t position)
{
    const struct llama4 *model = hparams;
    return (float)(1 + (double)model->scale * log1p(floor((position + 1.0) / model->n_unscaled)));
}

static void llama4_read(struct hparams *h, void *hparams, struct arch_info *info)
{
    struct llama4 *model = hparams;
    struct decoder *d = &model->decoder;
    struct experts *e = &d->experts;
    decoder_read(h, d, ENGINE_NORM_RMS, ENGINE_ROPE_ADJACENT);
    experts_read_router(h, d, ENGINE_ROUTE_SIGMOID, false);
    e->weigh_input = true;
    e->n_ff_shared = e->n_ff;
    if (e->n > 0 && e->n_used != 1)
        hparams_fail(h, ENGINE_ERROR_UNSUPPORTED, "%u experts per token are not supported, only 1",
                     e->n_used);

    /* Files don't say whether heads are normed: all models but Maverick norm them. */
    bool says = hparams_has(h, "attention.normed_heads");
    model->norms_heads = hparams_flag(h, "attention.normed_heads", e->n != N_MAVERICK);
    if (!says && e->n > 0 && e->n != N_MAVERICK && e->n != N_SCOUT)
        decoder_warn(
            h,
            "the file does not say whether queries and keys are normed; assuming that they are, as in Scout");
    /* A window of 0 marks models where all layers have rope and attend to everything (MobileLLM). */
    uint32_t chunk = hparams_count(h, "attention.sliding_window", CHUNK);
    bool listed = hparams_has(h, "rope.layers");
    for (uint32_t i = 0; i < d->n_layers && chunk > 0; i++) {
        bool full = listed ? !d->layers[i].rope : (i + 1) % FULL_PERIOD == 0;
        d->layers[i].chunk = full ? 0 : chunk;
        if (full) d->layers[i].rope = NULL;
    }
    model->n_unscaled = hparams_count(h, "attention.temperature_length", SCALE_FLOOR);
    model->scale = hparams_float_from_0(h, "attention.temperature_scale", 0.1f);
    if (model->n_unscaled == 0) hparams_fail(h, ENGINE_ERROR_DATA, "attention.temperature_length is 0");
    *info = decoder_info(d);
    if (chunk > 0) info->query_scale = query_scale;
}

static struct value *llama4_attention(struct graph *g, const struct decoder *d, struct value *x)
{
    const struct llama4 *model = (const struct llama4 *)d;
    const struct decoder_layer *layer = &d->layers[g->layer];
    uint64_t width = (uint64_t)layer->n_heads * d->head_dim;
    struct heads h = decoder_attention_heads(g, d, x);
    if (layer->rope && model->norms_heads) {
        h.q = graph_norm(g, h.q, NULL, NULL, d->norm, d->epsilon);
        h.k = graph_norm(g, h.k, NULL, NULL, d->norm, d->epsilon);
    }
    if (!layer->rope && g->shape.n_context >= model->n_unscaled) /* below that position it is 1 */
        h.q = decoder_scale_queries(g, d, h.q);
    return decoder_linear(g, "attn_output", width, d->n_embd, decoder_attend(g, d, &h));
}

static void llama4_build(struct graph *g, const void *hparams)
{
    decoder_build_mixed(g, hparams, llama4_attention);
}

/* ---- Hugging Face directories -------------------------------------------------------------------------- */

/* Layers with rope attend within chunks, and every interleave_moe_layer_step-th has experts; lists that
 * say the same are followed, as transformers writes them. */
static void llama4_check_layers(struct hf_config *config)
{
    const json_t *types = hf_get(config->json, "layer_types"), *experts = hf_get(config->json, "moe_layers");
    uint32_t step = hf_count(config, config->json, "interleave_moe_layer_step", 1);
    for (uint32_t i = 0; types && i < config->n_layers; i++) {
        const char *type = json_string_value(json_array_get(types, i));
        const char *own = config->has_rope[i] ? "chunked_attention" : "full_attention";
        hf_refuse(config, !type || strcmp(type, own) != 0, "layer_types that differs from no_rope_layers");
    }
    for (size_t i = 0, n = experts && step > 0 ? config->n_layers / step : 0; i <= n && experts; i++) {
        const json_t *layer = json_array_get(experts, i);
        bool fits = i < n ? json_integer_value(layer) == (json_int_t)(step * (i + 1) - 1) : layer == NULL;
        hf_refuse(config, !fits, "moe_layers that differs from interleave_moe_layer_step");
    }
}

static void llama4_read_config(struct hf_config *config)
{
    bool tunes = hf_flag(config, config->json, "attn_temperature_tuning", true);
    hf_read_layers_without_rope(config, 4);
    llama4_check_layers(config);
    hf_put_float(config, "attention.temperature_scale",
                 tunes ? hf_number(config, config->json, "attn_scale", 0.1) : 0);
}

static const struct hf_key llama4_numbers[] = {
    {"num_local_experts", "expert_count", HF_COUNT, 16},
    {"num_experts_per_tok", "expert_used_count", HF_COUNT, 1},
    {"intermediate_size", "expert_feed_forward_length", HF_COUNT, 8192},
    {"interleave_moe_layer_step", "interleave_moe_layer_step", HF_COUNT, 1},
    {"attention_chunk_size", "attention.sliding_window", HF_COUNT, 8192},
    {"use_qk_norm", "attention.normed_heads", HF_FLAG, 1},
    {"floor_scale", "attention.temperature_length", HF_COUNT, 8192},
    {0},
};

static const struct hf_module llama4_modules[] = {
    {"feed_forward.gate_proj", "ffn_gate"},
    {"feed_forward.up_proj", "ffn_up"},
    {"feed_forward.down_proj", "ffn_down"},
    {"feed_forward.router", "ffn_gate_inp"},
    {"feed_forward.experts.gate_up_proj", "ffn_gate_up_exps"},
    {"feed_forward.experts.down_proj", "ffn_down_exps"},
    {"feed_forward.shared_expert.gate_proj", "ffn_gate_shexp"},
    {"feed_forward.shared_expert.up_proj", "ffn_up_shexp"},
    {"feed_forward.shared_expert.down_proj", "ffn_down_shexp"},
    {0},
};

static const struct hf_form llama4_forms[] = {
    {.tensor = "ffn_gate_up_exps",
     .kind = FORM_HALVES,
     .is_transposed = true,
     .outputs = {"ffn_gate_exps", "ffn_up_exps"}},
    {.tensor = "ffn_down_exps", .is_transposed = true},
    {0},
};

static const struct hf_type llama4_types[] = {
    {.name = "llama4_text",
     .keys = {.ff = "intermediate_size_mlp"},
     .width = 5120,
     .layers = 48,
     .heads = 40,
     .kv_heads = 8,
     .head_dim = 128,
     .ff = 16384,
     .context = 131072,
     .epsilon = 1e-5,
     .theta = 5e5,
     .numbers = llama4_numbers,
     .options = {HF_ATTENTION_BIAS},
     .read = llama4_read_config},
    {0},
};

static const struct arch_missing llama4_missing[] = {
    {"norms of queries and keys", "present with 16 experts (Scout), absent with 128 (Maverick)",
     "a warning; present"},
    {"chunks, layers without rope, and growing queries",
     "8192, every fourth, 0.1 · ln, as published; none if attention.sliding_window is 0", ""},
    {0},
};

const struct architecture arch_llama4 = {
    .name = "llama4",
    .models = "Llama 4 Scout, Maverick (text)",
    .missing = llama4_missing,
    .size = sizeof(struct llama4),
    .read = llama4_read,
    .build = llama4_build,
    .hf = {.types = llama4_types, .modules = llama4_modules, .forms = llama4_forms},
};

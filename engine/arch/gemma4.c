/* gemma4.c: Gemma 4: five of six layers have a sliding window, smaller heads and a rope of their own; the
 * others rotate a part of each head, and may have no values but their keys. Values are normed, and a number
 * scales each layer's output. The mixtures of 26B-A4B run beside dense networks. In E2B and E4B each layer
 * has an input of its own besides, and the last layers read earlier ones' keys and values. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "arch/decoder.h"
#include "arch/families.h"
#include "model/hf/config.h"

struct gemma4 {
    struct decoder decoder;
    struct rope local; /* of the layers with a sliding window */
    uint32_t n_input;  /* values of a layer's own input; 0: there is none */
};

static void gemma4_read(struct hparams *h, void *hparams, struct arch_info *info)
{
    struct gemma4 *gemma = hparams;
    struct decoder *d = &gemma->decoder;
    decoder_read(h, d, ENGINE_NORM_RMS, ENGINE_ROPE_HALVES);
    d->activation = d->experts.activation = decoder_read_activation(h, ENGINE_ACTIVATION_GELU_TANH);
    d->embedding_scale = sqrtf((float)d->n_embd);
    d->attention_scale = hparams_float_above_0(h, "attention.scale", 1);
    d->logit_softcap = hparams_float_from_0(h, "final_logit_softcapping", 0);
    d->norms_values = d->keys_are_values = true;
    decoder_read_windows(h, d, 6, false);
    decoder_local_rope(h, d, &gemma->local, hparams_float_above_0(h, "rope.freq_base_swa", 10000));
    decoder_read_shared_caches(h, d);
    gemma->n_input = hparams_count(h, "embedding_length_per_layer_input", 0);
    *info = decoder_info(d);
}

/* ---- Inputs of layers ---------------------------------------------------------------------------------- */

struct value *gemma_layer_inputs(struct graph *g, const struct decoder *d, uint64_t n, struct value *x)
{
    const uint64_t width = n * d->n_layers, n_tokens = g->shape.n_tokens;
    struct value *table = graph_weight(g, width, d->n_vocab, "per_layer_token_embd.weight");
    struct value *rows = graph_get_rows(g, table, graph_input(g, INPUT_TOKENS));
    rows = graph_scale(g, rows, sqrtf((float)n));
    g->layer = 0; /* products, unlike the table, belong where the layers are */
    struct value *matrix = graph_weight(g, d->n_embd, width, "per_layer_model_proj.weight");
    struct value *made = graph_scale(g, graph_matmul(g, matrix, x), 1 / sqrtf((float)d->n_embd));
    made = graph_norm(g, graph_reshape(g, made, n, d->n_layers, n_tokens),
                      graph_values(g, n, 1, "per_layer_proj_norm.weight"), NULL, d->norm, d->epsilon);
    made = graph_add(g, graph_reshape(g, made, width, n_tokens, 1), rows);
    return graph_scale(g, made, sqrtf(0.5f));
}

struct value *gemma_layer_input(struct graph *g, const struct decoder *d, uint64_t n, struct value *inputs,
                                struct value *x)
{
    struct value *input = decoder_layer_output(g, d, graph_slice(g, inputs, n * g->layer, n));
    struct value *gate = decoder_linear(g, "inp_gate", d->n_embd, n, x);
    gate = graph_activate(g, gate, input, d->activation);
    return decoder_norm(g, d, "post_norm", decoder_linear(g, "proj", n, d->n_embd, gate));
}

/* ---- Layers -------------------------------------------------------------------------------------------- */

/* The experts' weights, each multiplied by a number of its expert. */
static struct value *scale_routes(struct graph *g, const struct decoder *d, const struct routes *routes)
{
    const uint64_t n_used = d->experts.n_used;
    if (!routes->ids || !routes->weights || !graph_find(g, "blk.%u.ffn_down_exps.scale", g->layer))
        return routes->weights;
    const uint64_t columns = routes->ids->tensor.ne[1];
    struct value *scales = graph_values(g, 1, d->experts.n, "blk.%u.ffn_down_exps.scale", g->layer);
    scales = graph_get_rows(g, scales, graph_reshape(g, routes->ids, n_used * columns, 1, 1));
    return graph_mul(g, routes->weights, graph_reshape(g, scales, n_used, columns, 1));
}

/* The router and the experts norm the same x, each in its own way. */
static struct value *gemma4_mixture(struct graph *g, const struct decoder *d, struct value *x)
{
    struct value *scale = graph_values(g, d->n_embd, 1, "blk.%u.ffn_gate_inp.scale", g->layer);
    struct value *normed = graph_norm(g, x, scale, NULL, d->norm, d->epsilon);
    struct value *logits = decoder_linear(g, "ffn_gate_inp", d->n_embd, d->experts.n, normed);
    struct routes routes = decoder_route(g, d, graph_scale(g, logits, 1 / sqrtf((float)d->n_embd)));
    routes.weights = scale_routes(g, d, &routes);
    struct value *out = decoder_run_experts(g, d, &routes, decoder_norm(g, d, "pre_ffw_norm_2", x));
    return decoder_norm(g, d, "post_ffw_norm_2", out);
}

static struct value *gemma4_feed_forward(struct graph *g, const struct decoder *d, struct value *x)
{
    struct value *out = decoder_feed_forward(g, d, decoder_norm(g, d, "ffn_norm", x));
    if (d->layers[g->layer].is_mixture)
        out = graph_add(g, decoder_norm(g, d, "post_ffw_norm_1", out), gemma4_mixture(g, d, x));
    return decoder_norm(g, d, "post_ffw_norm", out);
}

static void gemma4_build(struct graph *g, const void *hparams)
{
    const struct gemma4 *gemma = hparams;
    const struct decoder *d = &gemma->decoder;
    char scale[64];
    struct value *x = decoder_embed(g, d);
    struct value *inputs = gemma->n_input > 0 ? gemma_layer_inputs(g, d, gemma->n_input, x) : NULL;
    for (g->layer = 0; g->layer < d->n_layers; g->layer++) {
        struct value *heads = decoder_attention(g, d, decoder_norm(g, d, "attn_norm", x));
        x = graph_add(g, decoder_layer_output(g, d, x), decoder_norm(g, d, "post_attention_norm", heads));
        x = graph_add(g, x, gemma4_feed_forward(g, d, x));
        if (inputs) x = graph_add(g, x, gemma_layer_input(g, d, gemma->n_input, inputs, x));
        snprintf(scale, sizeof scale, "blk.%u.layer_output_scale.weight", g->layer);
        if (graph_find(g, "%s", scale)) x = graph_mul(g, x, graph_values_repeated(g, 1, d->n_embd, scale));
        x = decoder_layer_end(g, d, x);
    }
    decoder_build_logits(g, d, x);
}

/* ---- Hugging Face directories -------------------------------------------------------------------------- */

#define UNIFIED "gemma4_unified_text" /* has neither inputs of layers nor experts */

/* The last layers have no keys and values of their own, and their networks may be twice as long. */
static void read_lengths(struct hf_config *config)
{
    uint32_t lengths[HF_MAX_LAYERS], n_shared = hf_count(config, config->json, "num_kv_shared_layers", 0);
    bool doubles = hf_flag(config, config->json, "use_double_wide_mlp", false);
    if (n_shared >= config->n_layers)
        hf_fail(config, ENGINE_ERROR_DATA, "num_kv_shared_layers is %u of %u layers", n_shared,
                config->n_layers);
    if (config->n_ff > INT32_MAX / 2) hf_fail(config, ENGINE_ERROR_DATA, "intermediate_size is too large");
    if (!doubles || config->status) return;
    for (uint32_t i = 0; i < config->n_layers; i++)
        lengths[i] = config->n_ff * (i < config->n_layers - n_shared ? 1 : 2);
    hf_put_layer_counts(config, "feed_forward_length", lengths);
    config->has_own_lengths = true;
}

/* Layers without a window have heads of a size, and keys in a number, of their own. */
static void read_heads(struct hf_config *config)
{
    const json_t *json = config->json;
    const uint32_t local = config->head_dim, full = hf_count(config, json, "global_head_dim", 512);
    const bool are_keys = hf_flag(config, json, "attention_k_eq_v", false);
    uint32_t n_kv[HF_MAX_LAYERS],
        n_full = hf_count(config, json, "num_global_key_value_heads", config->n_kv_heads);
    if (full > 0) config->head_dim = full;
    hf_find_windows(config);
    if (config->status) return;
    config->slides[config->n_layers - 1] = false; /* as in transformers, whatever config.json says */
    for (uint32_t i = 0; i < config->n_layers; i++)
        n_kv[i] = config->slides[i] || !are_keys ? config->n_kv_heads : n_full;
    if (hf_get(json, "num_global_key_value_heads"))
        hf_put_layer_counts(config, "attention.head_count_kv", n_kv);
    else
        hf_put_count(config, "attention.head_count_kv", config->n_kv_heads);
    hf_put_count(config, "attention.key_length", config->head_dim);
    hf_put_count(config, "attention.value_length", config->head_dim);
    hf_put_count(config, "attention.key_length_swa", local);
    hf_put_count(config, "attention.value_length_swa", local);
    hf_put_count(config, "rope.dimension_count_swa", local);
    config->has_own_heads = true;
}

static void gemma4_read_config(struct hf_config *config)
{
    const json_t *json = config->json;
    const char *both_ways = hf_text(config, json, "use_bidirectional_attention");
    hf_refuse(config, both_ways && strcmp(both_ways, "vision") != 0, "bidirectional attention of texts");
    read_heads(config);
    read_lengths(config);
    bool is_unified = strcmp(config->type.name, UNIFIED) == 0;
    bool is_null = json_is_null(json_object_get(json, "hidden_size_per_layer_input"));
    uint32_t n_input = is_unified || is_null ? 0 : hf_count(config, json, "hidden_size_per_layer_input", 256);
    hf_put_count(config, "embedding_length_per_layer_input", n_input);
    if (n_input > 0) config->n_table_rows = hf_count(config, json, "vocab_size", 262144);
    if (!hf_flag(config, json, "enable_moe_block", false)) return;
    hf_put_count(config, "expert_count", hf_count(config, json, "num_experts", 0));
    hf_put_count(config, "expert_used_count", hf_count(config, json, "top_k_experts", 0));
    hf_put_count(config, "expert_feed_forward_length",
                 hf_count(config, json, "moe_intermediate_size|expert_intermediate_size", 0));
}

static const struct hf_key gemma4_numbers[] = {
    {"final_logit_softcapping", "final_logit_softcapping", HF_FLOAT_OR_0, 0},
    {"num_kv_shared_layers", "attention.shared_kv_layers", HF_COUNT, 0},
    {0},
};

static const struct hf_module gemma4_modules[] = {
    {"post_attention_layernorm", "post_attention_norm"},
    {"pre_feedforward_layernorm", "ffn_norm"},
    {"post_feedforward_layernorm", "post_ffw_norm"},
    {"post_feedforward_layernorm_1", "post_ffw_norm_1"},
    {"pre_feedforward_layernorm_2", "pre_ffw_norm_2"},
    {"post_feedforward_layernorm_2", "post_ffw_norm_2"},
    {"router.proj", "ffn_gate_inp"},
    {"router.scale", "ffn_gate_inp.scale"},
    {"router.per_expert_scale", "ffn_down_exps.scale"},
    {"experts.gate_up_proj", "ffn_gate_up_exps"},
    {"experts.down_proj", "ffn_down_exps"},
    {"layer_scalar", "layer_output_scale"},
    GEMMA_INPUT_MODULES,
    {0},
};

static const struct hf_module gemma4_outer[] = {
    GEMMA_INPUT_OUTER,
    {0},
};

/* GGUF files have gate and up of the experts in one tensor, too. */
static const struct hf_form gemma4_forms[] = {
    {.tensor = "ffn_gate_up_exps", .kind = FORM_SAME},
    {0},
};

/* rope_parameters of a config.json without any. */
#define GEMMA4_ROPE                                                                                          \
    "{\"full_attention\": {\"rope_type\": \"proportional\", \"partial_rotary_factor\": 0.25, "               \
    "\"rope_theta\": 1e6}, \"sliding_attention\": {\"rope_type\": \"default\", \"rope_theta\": 1e4}}"

#define GEMMA4_TYPE                                                                                          \
    .keys = {.activation = "hidden_activation", .local_theta = HF_UNREAD, .layer_types = "layer_types"},     \
    .width = 2304, .layers = 30, .heads = 8, .kv_heads = 4, .head_dim = 256, .ff = 9216,                     \
    .activation = "gelu_pytorch_tanh", .is_tied = true, .rope = GEMMA4_ROPE, .windows = HF_WINDOWS_PERIOD,   \
    .window_period = 6, .numbers = gemma4_numbers, .options = {HF_ATTENTION_BIAS},                           \
    .read = gemma4_read_config

static const struct hf_type gemma4_types[] = {
    {.name = "gemma4_text", .context = 131072, .window = 512, GEMMA4_TYPE},
    {.name = UNIFIED, .context = 262144, .window = 1024, GEMMA4_TYPE},
    {0},
};

const struct architecture arch_gemma4 = {
    .name = "gemma4",
    .models = "Gemma 4 (text)",
    .size = sizeof(struct gemma4),
    .read = gemma4_read,
    .build = gemma4_build,
    .hf = {.types = gemma4_types, .modules = gemma4_modules, .outer = gemma4_outer, .forms = gemma4_forms},
};

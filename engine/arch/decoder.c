/* decoder.c: reads the hyper-parameters that decoders share, and builds everything except attention and
 * feed-forward networks. See decoder.h. */
#include "arch/decoder.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/log.h"
#include "common/assert.h"

/* ---- Reading ------------------------------------------------------------------------------------------- */

/* Which layers have a window: one of so many, or a value for each. */
static const char windows_key[] = "attention.sliding_window_pattern";

static void read_sizes(struct hparams *h, struct decoder *d)
{
    d->n_embd = hparams_count_required(h, "embedding_length");
    d->n_context = hparams_count(h, "context_length", 2048);
    /* Layers that predict several tokens at once come last, and are left out. */
    uint32_t all = hparams_count_required(h, "block_count"),
             extra = hparams_count(h, "nextn_predict_layers", 0);
    d->n_layers = extra < all ? all - extra : 0;
    if (d->n_context == 0) hparams_fail(h, ENGINE_ERROR_DATA, "context_length is 0");
    if (d->n_layers == 0 || d->n_layers > MAX_LAYERS) {
        hparams_fail(h, ENGINE_ERROR_DATA,
                     "block_count %u minus nextn_predict_layers %u must be 1 to %d layers", all, extra,
                     MAX_LAYERS);
        d->n_layers = 0;
    }
    const struct model_tensor *embedding = model_tensor_find(h->model, "token_embd.weight");
    if (!embedding || embedding->ne[1] > INT32_MAX)
        hparams_fail(h, ENGINE_ERROR_DATA,
                     "no usable tensor token_embd.weight (does the file have only a vocabulary?)");
    else
        d->n_vocab = (uint32_t)embedding->ne[1];
    const struct model_tensor *positions = model_tensor_find(h->model, "position_embd.weight");
    d->has_dynamic_rope = hparams_flag(h, "rope.scaling.dynamic", false);
    if (positions && positions->ne[1] <= INT32_MAX) d->n_positions = (uint32_t)positions->ne[1];
}

static void read_layer(struct hparams *h, const struct decoder *d, uint32_t i, struct decoder_layer *layer)
{
    layer->n_heads = hparams_count_at(h, "attention.head_count", i, d->n_layers, 0);
    layer->n_kv_heads = hparams_count_at(h, "attention.head_count_kv", i, d->n_layers, layer->n_heads);
    layer->n_ff = hparams_count_at(h, "feed_forward_length", i, d->n_layers, 0);
    layer->rope = &d->rope;
    uint32_t n = layer->n_heads, n_kv = layer->n_kv_heads;
    layer->is_recurrent = d->is_hybrid && n_kv == 0;
    if (layer->is_recurrent) n_kv = n;
    if (n == 0 || n_kv == 0 || n % n_kv != 0 || n > 65536)
        hparams_fail(h, ENGINE_ERROR_DATA,
                     "layer %u: attention.head_count %u is not a multiple of attention.head_count_kv %u", i,
                     n, n_kv);
}

static void check_head(struct hparams *h, uint32_t head_dim, uint32_t value_dim)
{
    if (head_dim == 0 || value_dim == 0 || head_dim > 65536 || value_dim > 65536)
        hparams_fail(h, ENGINE_ERROR_DATA, "attention.key_length %u and value_length %u must be 1 to 65536",
                     head_dim, value_dim);
}

static void read_heads(struct hparams *h, struct decoder *d)
{
    uint32_t n_heads = d->n_layers > 0 && d->layers[0].n_heads > 0 ? d->layers[0].n_heads : 1;
    d->head_dim = hparams_count(h, "attention.key_length", d->n_embd / n_heads);
    d->value_dim = hparams_count(h, "attention.value_length", d->head_dim);
    check_head(h, d->head_dim, d->value_dim);
    for (uint32_t i = 0; i < d->n_layers; i++) {
        d->layers[i].head_dim = d->head_dim;
        d->layers[i].value_dim = d->value_dim;
    }
}

uint32_t decoder_read_activation(struct hparams *h, uint32_t activation)
{
    static const struct {
        const char *name;
        uint32_t activation;
    } known[] = {
        {"silu", ENGINE_ACTIVATION_SILU},           {"swish", ENGINE_ACTIVATION_SILU},
        {"gelu", ENGINE_ACTIVATION_GELU_ERF},       {"gelu_python", ENGINE_ACTIVATION_GELU_ERF},
        {"gelu_new", ENGINE_ACTIVATION_GELU_TANH},  {"gelu_pytorch_tanh", ENGINE_ACTIVATION_GELU_TANH},
        {"gelu_fast", ENGINE_ACTIVATION_GELU_TANH}, {"relu", ENGINE_ACTIVATION_RELU},
        {"relu2", ENGINE_ACTIVATION_RELU_SQUARED},
    };
    char name[32];
    if (!hparams_text(h, "hidden_activation", name, sizeof name)) return activation;
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (strcmp(known[i].name, name) == 0) return known[i].activation;
    hparams_fail(h, ENGINE_ERROR_UNSUPPORTED, "the activation '%s' is not supported", name);
    return activation;
}

/* Layers may have no rope: rope.layers, which only directories give. */
static void read_layers_without_rope(struct hparams *h, struct decoder *d)
{
    for (uint32_t i = 0; i < d->n_layers && hparams_has(h, "rope.layers"); i++)
        if (hparams_count_at(h, "rope.layers", i, d->n_layers, 1) == 0) d->layers[i].rope = NULL;
}

void decoder_need_rope(struct hparams *h, const struct decoder *d)
{
    for (uint32_t i = 0; i < d->n_layers; i++)
        if (!d->layers[i].rope)
            hparams_fail(h, ENGINE_ERROR_UNSUPPORTED, "rope.layers: layer %u has no rope", i);
}

void decoder_read_without_attention(struct hparams *h, struct decoder *d, uint32_t kind)
{
    read_sizes(h, d);
    d->norm = kind;
    d->epsilon = hparams_float_from_0(
        h, kind == ENGINE_NORM_RMS ? "attention.layer_norm_rms_epsilon" : "attention.layer_norm_epsilon",
        1e-5f);
    d->activation = decoder_read_activation(h, ENGINE_ACTIVATION_SILU);
    d->embedding_scale = d->residual_scale = d->logit_scale = 1;
    d->ffn_norm = "ffn_norm";
    d->output_norm = "output_norm";
}

void decoder_read(struct hparams *h, struct decoder *d, uint32_t kind, uint32_t pairs)
{
    decoder_read_without_attention(h, d, kind);
    ENGINE_ASSERT(d->n_layers <= MAX_LAYERS);
    for (uint32_t i = 0; i < d->n_layers; i++) read_layer(h, d, i, &d->layers[i]);
    read_heads(h, d);
    d->attention_scale = 1 / sqrtf((float)(d->head_dim ? d->head_dim : 1));
    d->attention_scale = hparams_float_above_0(h, "attention.scale", d->attention_scale);
    experts_read(h, d);
    rope_read(h, d, pairs, &d->rope);
    d->n_context = rope_reach(h, &d->rope, d->n_context);
    read_layers_without_rope(h, d);
    if (hparams_is_array(h, windows_key)) decoder_read_windows(h, d, 0, false);
}

struct arch_info decoder_info(const struct decoder *d)
{
    struct arch_info info = {.n_vocab = d->n_vocab,
                             .n_layers = d->n_layers,
                             .n_context = d->n_context,
                             .n_positions = d->n_positions,
                             .has_dynamic_rope = d->has_dynamic_rope,
                             .n_short_rope = d->rope.factors_long ? d->rope.n_original : 0,
                             .row_width = d->n_embd * (1 + d->n_deep),
                             .has_axes = d->rope.sections[0] > 0,
                             .sees_spans = d->sees_spans};
    for (uint32_t i = 0; i < d->n_layers; i++) {
        const struct decoder_layer *layer = &d->layers[i];
        info.n_sharing += layer->n_back > 0;
        if (layer->window > info.window) info.window = layer->window;
        if (layer->chunk > info.window) info.window = layer->chunk;
    }
    return info;
}

void decoder_read_windows(struct hparams *h, struct decoder *d, uint32_t period, bool full_first)
{
    uint32_t window = hparams_count(h, "attention.sliding_window", 0);
    uint32_t head_dim = hparams_count(h, "attention.key_length_swa", d->head_dim);
    uint32_t value_dim = hparams_count(h, "attention.value_length_swa", d->value_dim);
    check_head(h, head_dim, value_dim);
    bool by_layer = hparams_is_array(h, windows_key);
    if (!by_layer) period = hparams_count(h, windows_key, period);
    for (uint32_t i = 0; i < d->n_layers; i++) {
        bool full_layer = period != 1 && (period == 0 || i % period == (full_first ? 0 : period - 1));
        if (by_layer) full_layer = hparams_count_at(h, windows_key, i, d->n_layers, 0) == 0;
        d->layers[i].slides = !full_layer;
        d->layers[i].window = full_layer ? 0 : window;
        d->layers[i].head_dim = full_layer ? d->head_dim : head_dim;
        d->layers[i].value_dim = full_layer ? d->value_dim : value_dim;
    }
}

void decoder_local_rope(struct hparams *h, struct decoder *d, struct rope *rope, float theta)
{
    uint32_t head_dim = d->head_dim;
    for (uint32_t i = 0; i < d->n_layers; i++)
        if (d->layers[i].slides) head_dim = d->layers[i].head_dim;
    uint32_t usual = head_dim == d->head_dim ? d->rope.n_dims : head_dim;
    *rope = (struct rope){.n_dims = hparams_count(h, "rope.dimension_count_swa", usual),
                          .pairs = d->rope.pairs,
                          .theta = theta,
                          .position_scale = 1,
                          .magnitude = 1};
    rope_check(h, rope, head_dim);
    for (uint32_t i = 0; i < d->n_layers; i++)
        if (d->layers[i].slides) d->layers[i].rope = rope;
}

void decoder_read_shared_caches(struct hparams *h, struct decoder *d)
{
    uint32_t n_shared = hparams_count(h, "attention.shared_kv_layers", 0);
    for (uint32_t i = n_shared < d->n_layers ? d->n_layers - n_shared : 0; i < d->n_layers; i++) {
        uint32_t own = n_shared < d->n_layers ? d->n_layers - n_shared : 0;
        while (own > 0 && d->layers[own - 1].slides != d->layers[i].slides) own--;
        if (own == 0) {
            hparams_fail(h, ENGINE_ERROR_DATA,
                         "attention.shared_kv_layers %u: no layer before them is like layer %u", n_shared, i);
            return;
        }
        d->layers[i].n_back = i - (own - 1);
    }
}

void decoder_warn(const struct hparams *h, const char *format, ...)
{
    char message[256];
    va_list args;
    if (h->status) return;
    va_start(args, format);
    vsnprintf(message, sizeof message, format, args);
    va_end(args);
    log_line(ENGINE_LOG_WARNING, "%s: %s", model_path(h->model), message);
}

/* ---- Blocks -------------------------------------------------------------------------------------------- */

/* "blk.N.NAME", or NAME outside the layers. */
#define TENSOR_NAME_SIZE 96
static const char *tensor_name(const struct graph *g, const char *name, char full[TENSOR_NAME_SIZE])
{
    if (g->layer == NO_LAYER)
        snprintf(full, TENSOR_NAME_SIZE, "%s", name);
    else
        snprintf(full, TENSOR_NAME_SIZE, "%sblk.%u.%s", g->part ? g->part : "", g->layer - g->part_layer,
                 name);
    return full;
}

/* Hands out the hidden state that enters layer `layer`. decoder_build_logits turns what the logit lens
 * watches into logits. */
static void watch_hidden(struct graph *g, uint32_t layer, struct value *x)
{
    if (g->shape.watch & WATCH_HIDDEN) graph_watch(g, WATCH_HIDDEN, layer, x);
    if (g->shape.watch & WATCH_LENS) graph_watch(g, WATCH_LENS, layer, graph_wanted(g, x));
}

/* Part `number` of the rows of pictures; zeros in the rows of tokens. */
static struct value *picture_part(struct graph *g, const struct decoder *d, uint32_t number)
{
    return graph_slice(g, graph_input(g, INPUT_ROWS), (uint64_t)number * d->n_embd, d->n_embd);
}

struct value *decoder_layer_end(struct graph *g, const struct decoder *d, struct value *x)
{
    if (g->shape.pictures & PICTURES_ROWS && g->layer < d->n_deep)
        x = graph_add(g, x, decoder_layer_output(g, d, picture_part(g, d, g->layer + 1)));
    if (g->layer + 1 < d->n_layers) watch_hidden(g, g->layer + 1, x);
    return x;
}

struct value *decoder_embed(struct graph *g, const struct decoder *d)
{
    g->layer = NO_LAYER;
    struct value *embedding = graph_weight(g, d->n_embd, d->n_vocab, "token_embd.weight");
    struct value *x = graph_get_rows(g, embedding, graph_input(g, INPUT_TOKENS));
    x = graph_scale(g, x, d->embedding_scale);
    if (g->shape.pictures & PICTURES_ROWS)
        x = graph_add(g, graph_mul(g, x, graph_input(g, INPUT_IS_TOKEN)), picture_part(g, d, 0));
    if (d->n_positions > 0) {
        struct value *positions = graph_weight(g, d->n_embd, d->n_positions, "position_embd.weight");
        x = graph_add(g, x, graph_get_rows(g, positions, graph_input(g, INPUT_POSITION_ROWS)));
    }
    if (d->n_types > 0) {
        struct value *types = graph_weight(g, d->n_embd, d->n_types, "token_types.weight");
        x = graph_add(g, x, graph_get_rows(g, types, graph_input(g, INPUT_TOKEN_TYPES)));
    }
    if (decoder_has_weight(g, "token_embd_norm") && strcmp(d->output_norm, "token_embd_norm") != 0)
        x = decoder_norm(g, d, "token_embd_norm", x);
    watch_hidden(g, 0, x);
    return x;
}

struct value *decoder_linear(struct graph *g, const char *name, uint64_t n_in, uint64_t n_out,
                             struct value *input)
{
    char full[TENSOR_NAME_SIZE];
    tensor_name(g, name, full);
    struct value *output = graph_matmul(g, graph_weight(g, n_in, n_out, "%s.weight", full), input);
    struct value *bias = graph_values_optional(g, n_out, 1, "%s.bias", full);
    return bias ? graph_add(g, output, bias) : output;
}

struct value *decoder_norm(struct graph *g, const struct decoder *d, const char *name, struct value *input)
{
    char full[TENSOR_NAME_SIZE];
    tensor_name(g, name, full);
    uint64_t n = input ? input->tensor.ne[0] : 0;
    /* llama.cpp's converter forgets the end of Falcon-H1's ffn_norm. */
    const char *end = !graph_find(g, "%s.weight", full) && graph_find(g, "%s", full) ? "" : ".weight";
    struct value *weight = graph_values(g, n, 1, "%s%s", full, end);
    struct value *bias = graph_values_optional(g, n, 1, "%s.bias", full);
    return graph_norm(g, input, weight, bias, d->norm, d->epsilon);
}

bool decoder_has_weight(const struct graph *g, const char *name)
{
    char full[TENSOR_NAME_SIZE];
    return graph_find(g, "%s.weight", tensor_name(g, name, full)) != NULL;
}

struct value *decoder_add_block(struct graph *g, const struct decoder *d, struct value *x,
                                struct value *block)
{
    return graph_add(g, x, graph_scale(g, block, d->residual_scale));
}

struct value *decoder_layer_output(struct graph *g, const struct decoder *d, struct value *x)
{
    ENGINE_ASSERT(g->layer < d->n_layers);
    bool last = g->layer + 1 == d->n_layers && !d->both_ways;
    return last && !(g->shape.watch & WATCH_ALL_TOKENS) ? graph_wanted(g, x) : x;
}

struct value *decoder_feed_forward_or_mixture(struct graph *g, const struct decoder *d, struct value *x)
{
    return d->layers[g->layer].is_mixture ? decoder_mixture(g, d, x) : decoder_feed_forward(g, d, x);
}

/* The weights between the last layer and the logits. bias, norm_bias: NULL without. */
struct head {
    struct value *norm, *norm_bias, *output, *bias;
};

/* The logits of normed hidden states [n_embd, columns]. */
static struct value *logits_of(struct graph *g, const struct decoder *d, const struct head *head,
                               struct value *x)
{
    struct value *logits = graph_scale(g, graph_matmul(g, head->output, x), d->logit_scale);
    if (head->bias) logits = graph_add(g, logits, head->bias);
    if (d->logit_softcap > 0)
        logits = graph_activate_limited(g, logits, NULL, ENGINE_ACTIVATION_SOFTCAP, d->logit_softcap, 0);
    return logits;
}

void decoder_build_logits(struct graph *g, const struct decoder *d, struct value *x)
{
    g->layer = NO_LAYER;
    struct head head = {graph_values(g, d->n_embd, 1, "%s.weight", d->output_norm),
                        graph_values_optional(g, d->n_embd, 1, "%s.bias", d->output_norm), NULL, NULL};
    x = graph_norm(g, x, head.norm, head.norm_bias, d->norm, d->epsilon);
    if (g->shape.watch & WATCH_HIDDEN) graph_watch(g, WATCH_HIDDEN, d->n_layers, x);
    if (g->shape.watch & WATCH_STATES) graph_watch(g, WATCH_STATES, d->n_layers, x);
    if (g->shape.watch & WATCH_ALL_TOKENS) x = graph_wanted(g, x);
    head.output = graph_weight_optional(g, d->n_embd, d->n_vocab, "output.weight");
    if (!head.output) head.output = graph_weight(g, d->n_embd, d->n_vocab, "token_embd.weight");
    head.bias = graph_values_optional(g, d->n_vocab, 1, "output.bias");
    g->logits = logits_of(g, d, &head, x);
    for (size_t i = 0; i < g->n_watches && !g->status; i++) {
        struct graph_watch *watch = &g->watches[i];
        if (watch->kind != WATCH_LENS) continue;
        struct value *normed = graph_norm(g, watch->value, head.norm, head.norm_bias, d->norm, d->epsilon);
        watch->value = logits_of(g, d, &head, normed);
    }
}

struct value *decoder_parallel_layer(struct graph *g, const struct decoder *d, struct value *x,
                                     struct value *a, struct value *f)
{
    struct value *heads = decoder_attention(g, d, a);
    x = graph_add(g, decoder_layer_output(g, d, x), heads);
    x = graph_add(g, x, decoder_feed_forward_or_mixture(g, d, decoder_layer_output(g, d, f)));
    return decoder_layer_end(g, d, x);
}

void decoder_build_parallel(struct graph *g, const void *decoder)
{
    const struct decoder *d = decoder;
    struct value *x = decoder_embed(g, d);
    for (g->layer = 0; g->layer < d->n_layers; g->layer++) {
        struct value *n = decoder_norm(g, d, "attn_norm", x);
        x = decoder_parallel_layer(g, d, x, n, n);
    }
    decoder_build_logits(g, d, x);
}

/* A block of a layer: its normed input, or its contribution to x, or both. */
static struct value *block(struct graph *g, const struct decoder *d, struct value *x, decoder_mixer run,
                           const char *norm_before, const char *norm_after)
{
    struct value *out = run(g, d, d->norms == NORMS_AFTER ? x : decoder_norm(g, d, norm_before, x));
    return d->norms == NORMS_BEFORE ? out : decoder_norm(g, d, norm_after, out);
}

static struct value *build_layers(struct graph *g, const struct decoder *d, decoder_mixer mix)
{
    struct value *x = decoder_embed(g, d);
    for (g->layer = 0; g->layer < d->n_layers; g->layer++) {
        struct value *heads = block(g, d, x, mix, "attn_norm", "post_attention_norm");
        x = decoder_add_block(g, d, decoder_layer_output(g, d, x), heads);
        x = decoder_add_block(g, d, x,
                              block(g, d, x, decoder_feed_forward_or_mixture, d->ffn_norm, "post_ffw_norm"));
        x = decoder_layer_end(g, d, x);
    }
    g->layer = NO_LAYER;
    return x;
}

struct value *decoder_build_layers(struct graph *g, const struct decoder *d)
{
    return build_layers(g, d, decoder_attention);
}

void decoder_build_mixed(struct graph *g, const void *decoder, decoder_mixer mix)
{
    decoder_build_logits(g, decoder, build_layers(g, decoder, mix));
}

void decoder_build(struct graph *g, const void *decoder)
{
    decoder_build_mixed(g, decoder, decoder_attention);
}

/* ---- Hugging Face directories -------------------------------------------------------------------------- */

const struct hf_module decoder_norms_behind[] = {
    {"post_attention_layernorm", "post_attention_norm"},
    {"pre_feedforward_layernorm", "ffn_norm"},
    {"post_feedforward_layernorm", "post_ffw_norm"},
    {0},
};

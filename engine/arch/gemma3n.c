/* gemma3n.c: Gemma 3n: several streams of states, of which each layer computes one and predicts and corrects
 * the others (AltUp, arXiv 2301.13310), and a path of low rank beside attention (LAuReL, arXiv 2411.07501).
 * As in Gemma 4, layers have inputs of their own, and the last ones read earlier ones' keys and values. In
 * some layers only the largest values of a network's gate count. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "arch/decoder.h"
#include "arch/families.h"
#include "model/hf/config.h"

#define MAX_STREAMS 8

struct gemma3n {
    struct decoder decoder;
    struct rope local; /* of the layers with a sliding window */
    uint32_t n_input;  /* values of a layer's own input */
    uint32_t n_streams, active;
    bool scales_active;         /* before it is combined with a layer's input */
    bool is_sparse[MAX_LAYERS]; /* whose gates are cut below their mean and so many deviations: */
    float cut[MAX_LAYERS];
};

static void gemma3n_read(struct hparams *h, void *hparams, struct arch_info *info)
{
    struct gemma3n *gemma = hparams;
    struct decoder *d = &gemma->decoder;
    decoder_read(h, d, ENGINE_NORM_RMS, ENGINE_ROPE_HALVES);
    d->activation = decoder_read_activation(h, ENGINE_ACTIVATION_GELU_TANH);
    d->embedding_scale = sqrtf((float)d->n_embd);
    d->attention_scale = hparams_float_above_0(h, "attention.scale", 1);
    d->logit_softcap = hparams_float_from_0(h, "final_logit_softcapping", 30);
    d->norms_values = true;
    decoder_read_windows(h, d, 5, false);
    decoder_local_rope(h, d, &gemma->local, hparams_float_above_0(h, "rope.freq_base_swa", 10000));
    decoder_read_shared_caches(h, d);
    gemma->n_input = hparams_count_required(h, "embedding_length_per_layer_input");
    gemma->n_streams = hparams_count(h, "altup.num_inputs", 4);
    gemma->active = hparams_count(h, "altup.active_idx", 0);
    gemma->scales_active = hparams_flag(h, "engine.altup.scales_active", true);
    if (gemma->n_streams < 2 || gemma->n_streams > MAX_STREAMS || gemma->active >= gemma->n_streams)
        hparams_fail(h, ENGINE_ERROR_UNSUPPORTED, "altup: %u of %u streams; 2 to %d are supported",
                     gemma->active, gemma->n_streams, MAX_STREAMS);
    for (uint32_t i = 0; i < d->n_layers; i++) {
        gemma->cut[i] = hparams_number_at(h, "activation_sparsity_scale", i, d->n_layers, -INFINITY);
        gemma->is_sparse[i] = isfinite(gemma->cut[i]);
    }
    *info = decoder_info(d);
}

/* ---- Numbers of columns -------------------------------------------------------------------------------- */

/* Only values of 0 differ from a division without it. */
#define TINY 1e-30f

/* The mean of each column, [1, columns]. */
static struct value *mean(struct graph *g, struct value *x)
{
    if (!x) return NULL;
    uint64_t n = x->tensor.ne[0];
    return graph_matmul(g, graph_constant(g, n, 1 / (float)n), x);
}

/* The root mean square of each column: x times what it is after a norm, on average. */
static struct value *magnitude(struct graph *g, struct value *x)
{
    return mean(g, graph_mul(g, x, graph_norm(g, x, NULL, NULL, ENGINE_NORM_RMS, TINY)));
}

/* x with the magnitude of `target`; if its own is less than `least`, it counts as that much. */
static struct value *resize(struct graph *g, struct value *x, struct value *target)
{
    const float least = sqrtf(1e-5f);
    struct value *share = graph_scale(g, magnitude(g, x), 1 / least);
    share = graph_activate_limited(g, share, NULL, ENGINE_ACTIVATION_CLAMP, 1, 0);
    struct value *normed = graph_norm(g, x, NULL, NULL, ENGINE_NORM_RMS, TINY);
    return graph_mul(g, normed, graph_mul(g, share, target));
}

/* ---- Streams ------------------------------------------------------------------------------------------- */

/* Multiplies by matrix i of `name`, which has one for each stream but the first. */
static struct value *project(struct graph *g, const struct decoder *d, const char *name, uint32_t i,
                             struct value *x)
{
    char full[64];
    const struct model_tensor *all = graph_find(g, "%s.weight", name);
    if (!all) graph_fail(g, "the tensor %s.weight is missing", name);
    snprintf(full, sizeof full, "%s.%u.weight", name, i);
    if (g->status) return NULL;
    return graph_matmul(g, graph_rows(g, all, (uint64_t)i * d->n_embd, d->n_embd, d->n_embd, full), x);
}

/* Streams are [n_embd, n_streams, columns]. Stream i, [n_embd, columns]. */
static struct value *stream(struct graph *g, const struct gemma3n *gemma, struct value *streams, uint32_t i)
{
    const uint64_t n_embd = gemma->decoder.n_embd, columns = streams ? streams->tensor.ne[2] : 0;
    struct value *all = graph_reshape(g, streams, n_embd * gemma->n_streams, columns, 1);
    return graph_slice(g, all, i * n_embd, n_embd);
}

/* All begin as projections of the embedding, of its magnitude. */
static struct value *begin_streams(struct graph *g, const struct gemma3n *gemma, struct value *x)
{
    struct value *parts[MAX_STREAMS] = {x}, *target = magnitude(g, x);
    for (uint32_t j = 1; j < gemma->n_streams; j++)
        parts[j] = resize(g, project(g, &gemma->decoder, "altup_proj", j - 1, x), target);
    struct value *all = graph_join(g, parts, gemma->n_streams);
    return graph_reshape(g, all, gemma->decoder.n_embd, gemma->n_streams, all ? all->tensor.ne[1] : 0);
}

static struct value *end_streams(struct graph *g, const struct gemma3n *gemma, struct value *streams)
{
    struct value *sum = stream(g, gemma, streams, 0), *target = magnitude(g, sum);
    for (uint32_t j = 1; j < gemma->n_streams; j++) {
        struct value *x = stream(g, gemma, streams, j);
        sum =
            graph_add(g, sum, resize(g, project(g, &gemma->decoder, "altup_unembd_proj", j - 1, x), target));
    }
    return graph_scale(g, sum, 1 / (float)gemma->n_streams);
}

/* What the coefficients of this layer are made from, [n_streams, columns]. */
static struct value *route(struct graph *g, const struct gemma3n *gemma, struct value *x)
{
    const struct decoder *d = &gemma->decoder;
    struct value *out = decoder_norm(g, d, "altup_router_norm", x);
    out = decoder_linear(g, "altup_router", d->n_embd, gemma->n_streams, out);
    out = graph_scale(g, out, 1 / (float)d->n_embd);
    return graph_activate(g, out, NULL, ENGINE_ACTIVATION_TANH);
}

static void fill_identity(const void *user, float *values, uint64_t n)
{
    const uint32_t *size = user;
    for (uint64_t i = 0; i < n; i++) values[i] = i / *size == i % *size;
}

/* Each stream, plus all of them by coefficients. */
static struct value *predict(struct graph *g, const struct gemma3n *gemma, struct value *streams)
{
    const uint32_t n = gemma->n_streams;
    const uint64_t count = (uint64_t)n * n;
    struct value *weights = decoder_linear(g, "altup_predict_coef", n, count,
                                           route(g, gemma, stream(g, gemma, streams, gemma->active)));
    weights = graph_add(g, weights, graph_numbers(g, count, "altup_identity", fill_identity, &n));
    weights = graph_reshape(g, weights, n, n, weights ? weights->tensor.ne[1] : 0);
    return graph_mix(g, streams, weights, NULL, NULL);
}

/* What the layer's output differs by from what was predicted, and how much of it each stream gets. */
struct correction {
    struct value *difference, *shares;
};

static struct correction correct(struct graph *g, const struct gemma3n *gemma, struct value *predicted,
                                 struct value *x)
{
    const struct decoder *d = &gemma->decoder;
    const uint32_t n = gemma->n_streams;
    struct value *minus =
        graph_mul(g, stream(g, gemma, predicted, gemma->active), graph_constant(g, d->n_embd, -1));
    struct value *shares = decoder_linear(g, "altup_correct_coef", n, n, route(g, gemma, x));
    return (struct correction){graph_add(g, x, minus), graph_add(g, shares, graph_constant(g, n, 1))};
}

static void fill_others(const void *user, float *values, uint64_t n)
{
    (void)user;
    for (uint64_t i = 0; i < n; i++) values[i] = i > 0;
}

/* ---- Layers -------------------------------------------------------------------------------------------- */

/* What exceeds the mean and so many deviations; the rest becomes 0. A norm measures in deviations, and the
 * deviation is the mean of x times that. */
static struct value *cut_gate(struct graph *g, struct value *x, float n_deviations)
{
    struct value *normed = graph_norm(g, x, NULL, NULL, ENGINE_NORM_LAYER, TINY);
    struct value *deviation = mean(g, graph_mul(g, x, normed));
    uint64_t n = normed ? normed->tensor.ne[0] : 1;
    normed = graph_add(g, normed, graph_constant(g, n, -n_deviations));
    return graph_mul(g, graph_activate(g, normed, NULL, ENGINE_ACTIVATION_RELU), deviation);
}

static struct value *gemma3n_feed_forward(struct graph *g, const struct gemma3n *gemma, struct value *x)
{
    const struct decoder *d = &gemma->decoder;
    const uint32_t n_ff = d->layers[g->layer].n_ff;
    if (!gemma->is_sparse[g->layer]) return decoder_feed_forward(g, d, x);
    struct value *gate = decoder_linear(g, "ffn_gate", d->n_embd, n_ff, x);
    gate = cut_gate(g, gate, gemma->cut[g->layer]);
    gate = graph_activate(g, gate, decoder_linear(g, "ffn_up", d->n_embd, n_ff, x), d->activation);
    return decoder_linear(g, "ffn_down", n_ff, d->n_embd, gate);
}

/* x plus a product of low rank. */
static struct value *laurel(struct graph *g, const struct decoder *d, struct value *x)
{
    const struct model_tensor *left = graph_find(g, "blk.%u.laurel_l.weight", g->layer);
    const uint64_t rank = left ? left->ne[1] : 1;
    struct value *out = decoder_linear(g, "laurel_l", d->n_embd, rank, x);
    out = decoder_linear(g, "laurel_r", rank, d->n_embd, out);
    return graph_add(g, x, decoder_norm(g, d, "laurel_post_norm", out));
}

/* The columns that are wanted in the last layer, of all streams. */
static struct value *wanted_streams(struct graph *g, const struct gemma3n *gemma, struct value *streams)
{
    const struct decoder *d = &gemma->decoder;
    const uint64_t width = (uint64_t)d->n_embd * gemma->n_streams;
    struct value *all = graph_reshape(g, streams, width, streams ? streams->tensor.ne[2] : 0, 1);
    all = decoder_layer_output(g, d, all);
    return graph_reshape(g, all, d->n_embd, gemma->n_streams, all ? all->tensor.ne[1] : 0);
}

/* Hands out the active stream, which is then computed by itself, where that is watched. */
static void end_layer(struct graph *g, const struct gemma3n *gemma, struct value *predicted,
                      const struct correction *correction, struct value *input)
{
    const uint32_t active = gemma->active;
    if (!(g->shape.watch & (WATCH_HIDDEN | WATCH_LENS))) return;
    struct value *part = graph_mul(g, correction->difference, graph_slice(g, correction->shares, active, 1));
    struct value *x = graph_add(g, stream(g, gemma, predicted, active), part);
    decoder_layer_end(g, &gemma->decoder, active > 0 ? graph_add(g, x, input) : x);
}

static struct value *gemma3n_layer(struct graph *g, const struct gemma3n *gemma, struct value *streams,
                                   struct value *inputs)
{
    const struct decoder *d = &gemma->decoder;
    struct value *predicted = predict(g, gemma, streams);
    struct value *normed = decoder_norm(g, d, "attn_norm", stream(g, gemma, predicted, gemma->active));
    struct value *heads = decoder_norm(g, d, "post_attention_norm", decoder_attention(g, d, normed));
    normed = decoder_layer_output(g, d, normed);
    predicted = wanted_streams(g, gemma, predicted);
    struct value *x = graph_add(g, stream(g, gemma, predicted, gemma->active), heads);
    x = graph_scale(g, graph_add(g, x, laurel(g, d, normed)), sqrtf(0.5f));
    struct value *out = gemma3n_feed_forward(g, gemma, decoder_norm(g, d, "ffn_norm", x));
    x = graph_add(g, x, decoder_norm(g, d, "post_ffw_norm", out));

    const struct correction correction = correct(g, gemma, predicted, x);
    struct value *corrected = graph_mix(g, predicted, NULL, correction.difference, correction.shares);
    x = stream(g, gemma, corrected, gemma->active);
    if (gemma->scales_active)
        x = graph_mul(g, x, graph_values(g, d->n_embd, 1, "blk.%u.altup_correct_scale.weight", g->layer));
    x = gemma_layer_input(g, d, gemma->n_input, inputs, x);
    end_layer(g, gemma, predicted, &correction, x);
    struct value *others = graph_numbers(g, gemma->n_streams, "altup_others", fill_others, NULL);
    return graph_mix(g, corrected, NULL, x, others);
}

static void gemma3n_build(struct graph *g, const void *hparams)
{
    const struct gemma3n *gemma = hparams;
    const struct decoder *d = &gemma->decoder;
    struct value *x = decoder_embed(g, d);
    struct value *inputs = gemma_layer_inputs(g, d, gemma->n_input, x); /* from here on in layer 0 */
    struct value *streams = begin_streams(g, gemma, x);
    for (g->layer = 0; g->layer < d->n_layers; g->layer++) streams = gemma3n_layer(g, gemma, streams, inputs);
    g->layer = NO_LAYER;
    decoder_build_logits(g, d, end_streams(g, gemma, streams));
}

/* ---- Hugging Face directories -------------------------------------------------------------------------- */

/* The number of deviations that a share of normally distributed values is below. */
static double deviations_of(double share)
{
    double x = 0;
    for (int i = 0; i < 60; i++) { /* Newton's method, with steps of at most 1 */
        double step = (erfc(-x / M_SQRT2) / 2 - share) * sqrt(2 * M_PI) * exp(x * x / 2);
        x -= fmin(fmax(step, -1), 1);
    }
    return x;
}

static void read_sparsity(struct hf_config *config)
{
    float cuts[HF_MAX_LAYERS];
    const json_t *list = hf_get(config->json, "activation_sparsity_pattern");
    if (list && json_array_size(list) != config->n_layers)
        hf_fail(config, ENGINE_ERROR_DATA, "activation_sparsity_pattern has %zu numbers for %u layers",
                json_array_size(list), config->n_layers);
    for (uint32_t i = 0; i < config->n_layers && !config->status; i++) {
        double share = list                              ? json_number_value(json_array_get(list, i))
                       : config->n_layers > 10 && i < 10 ? 0.95
                                                         : 0;
        if (share >= 1 || share < 0)
            hf_fail(config, ENGINE_ERROR_DATA, "activation_sparsity_pattern has %g", share);
        cuts[i] = share > 0 ? (float)deviations_of((double)(float)share) : -INFINITY;
    }
    hf_put_layer_floats(config, "activation_sparsity_scale", cuts);
}

static void read_lengths(struct hf_config *config)
{
    uint32_t lengths[HF_MAX_LAYERS];
    const json_t *given = hf_get(config->json, "intermediate_size");
    if (json_is_array(given) && json_array_size(given) != config->n_layers)
        hf_fail(config, ENGINE_ERROR_DATA, "intermediate_size has %zu numbers for %u layers",
                json_array_size(given), config->n_layers);
    for (uint32_t i = 0; i < config->n_layers && !config->status; i++) {
        const json_t *one = json_is_array(given) ? json_array_get(given, i) : given;
        json_int_t n = one ? json_integer_value(one) : 16384;
        if (n <= 0 || n > INT32_MAX) hf_fail(config, ENGINE_ERROR_DATA, "intermediate_size is not a count");
        lengths[i] = (uint32_t)n;
    }
    hf_put_layer_counts(config, "feed_forward_length", lengths);
    config->has_own_lengths = true;
}

static void gemma3n_read_config(struct hf_config *config)
{
    read_lengths(config);
    read_sparsity(config);
    if (!hf_flag(config, config->json, "altup_correct_scale", true))
        hf_put_flag(config, "engine.altup.scales_active", false);
    config->n_table_rows = hf_count(config, config->json, "vocab_size", 262400);
}

static const struct hf_key gemma3n_numbers[] = {
    {"final_logit_softcapping", "final_logit_softcapping", HF_FLOAT_OR_0, 30},
    {"num_kv_shared_layers", "attention.shared_kv_layers", HF_COUNT, 15},
    {"hidden_size_per_layer_input", "embedding_length_per_layer_input", HF_COUNT, 256},
    {"altup_num_inputs", "altup.num_inputs", HF_COUNT, 4},
    {"altup_active_idx", "altup.active_idx", HF_COUNT, 0},
    {0},
};

static const struct hf_module gemma3n_modules[] = {
    {"post_attention_layernorm", "post_attention_norm"},
    {"pre_feedforward_layernorm", "ffn_norm"},
    {"post_feedforward_layernorm", "post_ffw_norm"},
    {"altup.correct_output_scale", "altup_correct_scale"},
    {"altup.correction_coefs", "altup_correct_coef"},
    {"altup.prediction_coefs", "altup_predict_coef"},
    {"altup.modality_router", "altup_router"},
    {"altup.router_norm", "altup_router_norm"},
    {"laurel.linear_left", "laurel_l"},
    {"laurel.linear_right", "laurel_r"},
    {"laurel.post_laurel_norm", "laurel_post_norm"},
    GEMMA_INPUT_MODULES,
    {0},
};

static const struct hf_module gemma3n_outer[] = {
    GEMMA_INPUT_OUTER,
    {"altup_projections.#", "altup_proj"},
    {"altup_unembed_projections.#", "altup_unembd_proj"},
    {0},
};

static const struct hf_type gemma3n_types[] = {
    {.name = "gemma3n_text",
     .keys = {.ff = HF_UNREAD,
              .activation = "hidden_activation",
              .local_theta = "rope_local_base_freq",
              .layer_types = "layer_types"},
     .width = 2048,
     .layers = 35,
     .heads = 8,
     .kv_heads = 2,
     .head_dim = 256,
     .ff = 16384,
     .context = 32768,
     .activation = "gelu_pytorch_tanh",
     .is_tied = true,
     .theta = 1e6,
     .local_theta = 1e4,
     .windows = HF_WINDOWS_PERIOD,
     .window = 512,
     .window_period = 5,
     .numbers = gemma3n_numbers,
     .options = {HF_ATTENTION_BIAS},
     .read = gemma3n_read_config},
    {0},
};

const struct architecture arch_gemma3n = {
    .name = "gemma3n",
    .models = "Gemma 3n (text)",
    .size = sizeof(struct gemma3n),
    .read = gemma3n_read,
    .build = gemma3n_build,
    .hf = {.types = gemma3n_types, .modules = gemma3n_modules, .outer = gemma3n_outer},
};

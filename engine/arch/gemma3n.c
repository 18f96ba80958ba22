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

/* The streams of all tokens, [n_embd, columns] each. */
struct streams {
    struct value *of[MAX_STREAMS];
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

/* All begin as projections of the embedding, of its magnitude. */
static struct streams begin_streams(struct graph *g, const struct gemma3n *gemma, struct value *x)
{
    struct streams streams = {.of = {x}};
    struct value *target = magnitude(g, x);
    for (uint32_t j = 1; j < gemma->n_streams; j++)
        streams.of[j] = resize(g, project(g, &gemma->decoder, "altup_proj", j - 1, x), target);
    return streams;
}

static struct value *end_streams(struct graph *g, const struct gemma3n *gemma, const struct streams *streams)
{
    struct value *sum = streams->of[0], *target = magnitude(g, sum);
    for (uint32_t j = 1; j < gemma->n_streams; j++)
        sum = graph_add(
            g, sum,
            resize(g, project(g, &gemma->decoder, "altup_unembd_proj", j - 1, streams->of[j]), target));
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

/* x plus a number of each column, number k of `coefficients`, times y. */
static struct value *add_times(struct graph *g, struct value *x, struct value *y, struct value *coefficients,
                               uint64_t k)
{
    return graph_add(g, x, graph_mul(g, y, graph_slice(g, coefficients, k, 1)));
}

/* Each stream, plus all of them by coefficients. */
static struct streams predict(struct graph *g, const struct gemma3n *gemma, const struct streams *streams)
{
    const uint32_t n = gemma->n_streams;
    struct streams out = *streams;
    struct value *coefficients = decoder_linear(g, "altup_predict_coef", n, (uint64_t)n * n,
                                                route(g, gemma, streams->of[gemma->active]));
    for (uint32_t j = 0; j < n; j++)
        for (uint32_t i = 0; i < n; i++)
            out.of[j] = add_times(g, out.of[j], streams->of[i], coefficients, (uint64_t)n * j + i);
    return out;
}

/* Each stream, plus by coefficients what the layer's output differs by from what was predicted. */
static struct streams correct(struct graph *g, const struct gemma3n *gemma, const struct streams *predicted,
                              struct value *x)
{
    const struct decoder *d = &gemma->decoder;
    const uint32_t n = gemma->n_streams;
    struct streams out = *predicted;
    struct value *minus = graph_mul(g, predicted->of[gemma->active], graph_constant(g, d->n_embd, -1));
    struct value *difference = graph_add(g, x, minus);
    struct value *coefficients = decoder_linear(g, "altup_correct_coef", n, n, route(g, gemma, x));
    coefficients = graph_add(g, coefficients, graph_constant(g, n, 1));
    for (uint32_t j = 0; j < n; j++) out.of[j] = add_times(g, out.of[j], difference, coefficients, j);
    return out;
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

static struct streams gemma3n_layer(struct graph *g, const struct gemma3n *gemma,
                                    const struct streams *streams, struct value *inputs)
{
    const struct decoder *d = &gemma->decoder;
    struct streams predicted = predict(g, gemma, streams);
    struct value *normed = decoder_norm(g, d, "attn_norm", predicted.of[gemma->active]);
    struct value *heads = decoder_norm(g, d, "post_attention_norm", decoder_attention(g, d, normed));
    normed = decoder_layer_output(g, d, normed);
    for (uint32_t j = 0; j < gemma->n_streams; j++)
        predicted.of[j] = decoder_layer_output(g, d, predicted.of[j]);
    struct value *x = graph_add(g, predicted.of[gemma->active], heads);
    x = graph_scale(g, graph_add(g, x, laurel(g, d, normed)), sqrtf(0.5f));
    struct value *out = gemma3n_feed_forward(g, gemma, decoder_norm(g, d, "ffn_norm", x));
    x = graph_add(g, x, decoder_norm(g, d, "post_ffw_norm", out));

    struct streams corrected = correct(g, gemma, &predicted, x);
    x = corrected.of[gemma->active];
    if (gemma->scales_active)
        x = graph_mul(g, x, graph_values(g, d->n_embd, 1, "blk.%u.altup_correct_scale.weight", g->layer));
    x = gemma_layer_input(g, d, gemma->n_input, inputs, x);
    for (uint32_t j = 1; j < gemma->n_streams; j++) corrected.of[j] = graph_add(g, corrected.of[j], x);
    return corrected;
}

static void gemma3n_build(struct graph *g, const void *hparams)
{
    const struct gemma3n *gemma = hparams;
    const struct decoder *d = &gemma->decoder;
    struct value *x = decoder_embed(g, d);
    struct value *inputs = gemma_layer_inputs(g, d, gemma->n_input, x); /* from here on in layer 0 */
    struct streams streams = begin_streams(g, gemma, x);
    for (g->layer = 0; g->layer < d->n_layers; g->layer++) {
        streams = gemma3n_layer(g, gemma, &streams, inputs);
        decoder_layer_end(g, d, streams.of[gemma->active]);
    }
    g->layer = NO_LAYER;
    decoder_build_logits(g, d, end_streams(g, gemma, &streams));
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

/* deepseek4.c: DeepSeek V4: several residual streams, mixed around each block by hyper-connections (arXiv
 * 2512.24880); attention to a short window of keys that are also values, and in most layers to rows that
 * each stand for a block of positions: for few positions those that an indexer picks, for many all; and
 * mixtures of experts, which in the first layers the token's id chooses. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "arch/decoder.h"
#include "arch/families.h"
#include "common/assert.h"
#include "model/hf/config.h"

#define WEIGHTS_FLOOR   1e-20f /* of the sum of the weights of experts, as published */
#define BLOCK_POSITIONS 32     /* of the cache: periods divide it or are multiples */

struct deepseek4 {
    struct decoder decoder; /* rope: of layers with pooled rows */
    struct rope local;      /* of layers without */
    uint32_t n_q_latent;    /* length of the vector that queries are computed from */
    uint32_t n_groups,
        n_out_latent; /* of heads whose outputs go through a matrix of their own, and its rows */
    uint32_t n_streams, n_iterations;
    float hyper_epsilon;
    uint32_t n_hash_layers; /* whose experts depend on the token's id */
    uint32_t n_index_heads, index_dim, n_picked;
    float limit;                  /* of the gates and factors in feed-forward networks; 0: none */
    uint32_t periods[MAX_LAYERS]; /* positions of a pooled row; 0: there are none */
    bool is_sparse[MAX_LAYERS];   /* an indexer picks among them, and they overlap by one block */
    uint32_t known[GRAPH_PERIODS];
};

/* ---- Reading ------------------------------------------------------------------------------------------- */

/* The number of a period among those that the model has. */
static uint32_t period_number(const struct deepseek4 *m, uint32_t period)
{
    uint32_t i = 0;
    while (i < GRAPH_PERIODS && m->known[i] != period) i++;
    return i;
}

static void deepseek4_read_periods(struct hparams *h, struct deepseek4 *m)
{
    const struct decoder *d = &m->decoder;
    char name[48];
    for (uint32_t i = 0; i < d->n_layers; i++) {
        const uint32_t period = hparams_count_at(h, "attention.compress_ratios", i, d->n_layers, 0);
        m->periods[i] = period;
        snprintf(name, sizeof name, "blk.%u.indexer.attn_q_b.weight", i);
        m->is_sparse[i] = period > 0 && model_tensor_find(h->model, name);
        if (period == 0 || period_number(m, period) < GRAPH_PERIODS) continue;
        if (period < 2 || period > 2048 || (BLOCK_POSITIONS % period != 0 && period % BLOCK_POSITIONS != 0))
            hparams_fail(h, ENGINE_ERROR_UNSUPPORTED,
                         "attention.compress_ratios: %u; it must divide %d or be a multiple, up to 2048",
                         period, BLOCK_POSITIONS);
        if (period_number(m, 0) == GRAPH_PERIODS)
            hparams_fail(h, ENGINE_ERROR_UNSUPPORTED,
                         "attention.compress_ratios has more than %d different numbers", GRAPH_PERIODS);
        if (!h->status) m->known[period_number(m, 0)] = period;
    }
}

/* Layers with pooled rows have another base, and alone the file's scaling. */
static void deepseek4_read_ropes(struct hparams *h, struct deepseek4 *m)
{
    struct decoder *d = &m->decoder;
    m->local = (struct rope){.n_dims = d->rope.n_dims,
                             .pairs = d->rope.pairs,
                             .theta = d->rope.theta,
                             .position_scale = 1,
                             .magnitude = 1};
    rope_read_by_base(h, d, ENGINE_ROPE_ADJACENT,
                      hparams_float_above_0(h, "attention.compress_rope_freq_base", 160000), &d->rope);
    d->rope.magnitude = 1;
    for (uint32_t i = 0; i < d->n_layers; i++)
        if (m->periods[i] == 0) d->layers[i].rope = &m->local;
}

static void deepseek4_read_sizes(struct hparams *h, struct deepseek4 *m)
{
    struct decoder *d = &m->decoder;
    m->n_q_latent = hparams_count_required(h, "attention.q_lora_rank");
    m->n_groups = hparams_count_required(h, "attention.output_group_count");
    m->n_out_latent = hparams_count_required(h, "attention.output_lora_rank");
    m->n_index_heads = hparams_count(h, "attention.indexer.head_count", 64);
    m->index_dim = hparams_count(h, "attention.indexer.key_length", 128);
    m->n_picked = hparams_count(h, "attention.indexer.top_k", 512);
    m->n_streams = hparams_count_required(h, "hyper_connection.count");
    m->n_iterations = hparams_count(h, "hyper_connection.sinkhorn_iterations", 20);
    m->hyper_epsilon = hparams_float_from_0(h, "hyper_connection.epsilon", 1e-6f);
    m->n_hash_layers = hparams_count(h, "hash_layer_count", 0);
    m->limit = hparams_number_at(h, "swiglu_clamp_exp", 0, d->n_layers, 10);
    const uint32_t window = hparams_count_required(h, "attention.sliding_window");
    for (uint32_t i = 0; i < d->n_layers; i++) {
        struct decoder_layer *layer = &d->layers[i];
        layer->window = window;
        layer->is_mixture = true;
        if (layer->n_kv_heads != 1 || layer->n_heads % (m->n_groups ? m->n_groups : 1) != 0)
            hparams_fail(h, ENGINE_ERROR_DATA, "%u heads in %u groups on %u heads of keys", layer->n_heads,
                         m->n_groups, layer->n_kv_heads);
    }
    if (m->n_streams > OP_MAX_STREAMS || m->n_iterations == 0 || m->n_iterations > 1000)
        hparams_fail(h, ENGINE_ERROR_UNSUPPORTED, "hyper_connection: %u streams, %u iterations", m->n_streams,
                     m->n_iterations);
    if (d->value_dim != d->head_dim || m->index_dim < d->rope.n_dims || m->n_index_heads == 0 ||
        m->n_picked == 0 || d->experts.n == 0 || !(m->limit >= 0) || !isfinite(m->limit))
        hparams_fail(
            h, ENGINE_ERROR_DATA,
            "keys of %u, values of %u, an indexer of %u values, %u heads and %u positions, %u experts",
            d->head_dim, d->value_dim, m->index_dim, m->n_index_heads, m->n_picked, d->experts.n);
}

static void deepseek4_read(struct hparams *h, void *hparams, struct arch_info *info)
{
    struct deepseek4 *m = hparams;
    struct decoder *d = &m->decoder;
    decoder_read(h, d, ENGINE_NORM_RMS, ENGINE_ROPE_ADJACENT);
    experts_read_router(h, d, ENGINE_ROUTE_SQRT_SOFTPLUS, true);
    d->experts.floor = WEIGHTS_FLOOR;
    deepseek4_read_sizes(h, m);
    deepseek4_read_periods(h, m);
    deepseek4_read_ropes(h, m);
    decoder_need_rope(h, d);
    d->experts.activation = m->limit > 0 ? ENGINE_ACTIVATION_SILU_CLAMPED : ENGINE_ACTIVATION_SILU;
    d->experts.limit = m->limit;
    *info = decoder_info(d);
    /* The rows that blocks are pooled from are kept as long as those of the window. */
    for (uint32_t i = 0; i < d->n_layers; i++) {
        const uint32_t reach = m->periods[i] * (m->is_sparse[i] ? 2 : 1);
        if (reach > info->window) info->window = reach;
    }
    memcpy(info->periods, m->known, sizeof m->known);
}

/* ---- Streams ------------------------------------------------------------------------------------------- */

/* The streams of all tokens, [n_embd, n_streams, columns], and around a block what is read from them,
 * [n_embd, columns], and how they are mixed with the block's output afterwards. */
struct stream_site {
    struct value *streams, *x, *mix, *scales;
};

static struct value *flatten(struct graph *g, const struct deepseek4 *m, struct value *streams)
{
    const uint64_t width = (uint64_t)m->decoder.n_embd * m->n_streams;
    return graph_reshape(g, streams, width, streams ? streams->tensor.ne[2] : 0, 1);
}

static struct value *part_streams(struct graph *g, const struct deepseek4 *m, struct value *flat)
{
    return graph_reshape(g, flat, m->decoder.n_embd, m->n_streams, flat ? flat->tensor.ne[1] : 0);
}

static struct value *begin_streams(struct graph *g, const struct deepseek4 *m, struct value *x)
{
    return part_streams(g, m, graph_repeat(g, x, m->n_streams));
}

/* The weights of NAME_fn, NAME_base and NAME_scale; n outputs. */
static struct value *stream_weights(struct graph *g, const struct deepseek4 *m, const char *name, uint64_t n,
                                    struct value *streams)
{
    const struct decoder *d = &m->decoder;
    char full[64];
    if (g->layer == NO_LAYER)
        snprintf(full, sizeof full, "%s", name);
    else
        snprintf(full, sizeof full, "blk.%u.%s", g->layer, name);
    struct value *x = graph_norm(g, flatten(g, m, streams), NULL, NULL, ENGINE_NORM_RMS, d->epsilon);
    const uint64_t width = (uint64_t)d->n_embd * m->n_streams;
    const struct hyper_options options = {
        .n = m->n_streams,
        .n_iterations = m->n_iterations,
        .epsilon = m->hyper_epsilon,
        .scale = graph_values(g, n == m->n_streams ? 1 : 3, 1, "%s_scale.weight", full),
        .base = graph_values(g, n, 1, "%s_base.weight", full)};
    return graph_hyper(g, graph_matmul(g, graph_weight(g, width, n, "%s_fn.weight", full), x), &options);
}

/* The sum of the streams by the first of the weights. */
static struct value *read_streams(struct graph *g, const struct deepseek4 *m, struct value *streams,
                                  struct value *weights)
{
    const uint64_t n = m->n_streams, columns = weights ? weights->tensor.ne[1] : 0;
    struct value *first = graph_reshape(g, graph_slice(g, weights, 0, n), n, 1, columns);
    return graph_reshape(g, graph_mix(g, streams, first, NULL, NULL), m->decoder.n_embd, columns, 1);
}

static struct stream_site enter_block(struct graph *g, const struct deepseek4 *m, const char *name,
                                      struct value *streams)
{
    const uint64_t n = m->n_streams;
    struct value *weights = stream_weights(g, m, name, n * (n + 2), streams);
    return (struct stream_site){streams, read_streams(g, m, streams, weights),
                                graph_slice(g, weights, 2 * n, n * n), graph_slice(g, weights, n, n)};
}

static struct value *leave_block(struct graph *g, const struct deepseek4 *m, const struct stream_site *site,
                                 struct value *output)
{
    const uint64_t n = m->n_streams, columns = output ? output->tensor.ne[1] : 0;
    struct value *mix = graph_reshape(g, site->mix, n, n, columns);
    return graph_mix(g, site->streams, mix, output, site->scales);
}

/* ---- Attention ----------------------------------------------------------------------------------------- */

/* Rotates the last values of heads [dim, n, n_tokens]. */
static struct value *rotate_end(struct graph *g, const struct rope *rope, struct value *factors,
                                struct value *heads, enum graph_input positions)
{
    if (!heads) return NULL;
    const uint64_t dim = heads->tensor.ne[0], kept = dim - rope->n_dims;
    struct value *end = graph_slice(g, heads, kept, rope->n_dims);
    end = decoder_rotate_at(g, rope, factors, end, positions);
    return kept > 0 ? graph_concat(g, graph_slice(g, heads, 0, kept), end) : end;
}

/* Rows of `width` for blocks of positions, from x [n_embd, n_tokens] by the tensors kv, gate, ape and norm
 * of the prefix; they are in a cache. In sparse layers those of the block before count as well. */
static struct value *pool_rows(struct graph *g, const struct deepseek4 *m, const char *prefix, uint64_t width,
                               struct value *x)
{
    const struct decoder *d = &m->decoder;
    const struct rope *rope = d->layers[g->layer].rope;
    const uint32_t period = m->periods[g->layer], number = period_number(m, period);
    const uint64_t n_series = m->is_sparse[g->layer] ? 2 : 1, n_tokens = g->shape.n_tokens;
    char name[48];
    snprintf(name, sizeof name, "%s_kv", prefix);
    struct value *rows = decoder_linear(g, name, d->n_embd, n_series * width, x);
    snprintf(name, sizeof name, "%s_gate", prefix);
    rows = graph_concat(g, rows, decoder_linear(g, name, d->n_embd, n_series * width, x));
    struct value *sources = graph_cache(g, width, 2 * n_series, true);
    graph_cache_write(g, sources, graph_reshape(g, rows, width, 2 * n_series, n_tokens));
    struct value *bias = graph_values(g, n_series * width, period, "blk.%u.%s_ape.weight", g->layer, prefix);
    snprintf(name, sizeof name, "%s_norm", prefix);
    rows =
        graph_reshape(g, decoder_norm(g, d, name, graph_pool_blocks(g, sources, bias)), width, 1, n_tokens);
    rows = rotate_end(g, rope, rope_factors(g, rope), rows, (enum graph_input)(INPUT_POOLED_STARTS + number));
    struct value *cache = graph_pooled_cache(g, width, period, number);
    graph_cache_write(g, cache, rows);
    return cache;
}

/* Whether some position of a sequence sees more rows than the indexer picks. */
static bool has_to_pick(const struct graph *g, const struct deepseek4 *m)
{
    return g->shape.n_context / m->periods[g->layer] > m->n_picked || g->shape.watch & WATCH_INPUTS;
}

/* The pooled rows that tokens attend to, [n_picked, n_tokens], from x [n_embd, n_tokens] and the latent
 * vectors of queries; NULL: all. */
static struct value *pick_rows(struct graph *g, const struct deepseek4 *m, struct value *latent,
                               struct value *x)
{
    const struct decoder *d = &m->decoder;
    const struct rope *rope = d->layers[g->layer].rope;
    const uint64_t n = m->n_index_heads, dim = m->index_dim;
    if (!m->is_sparse[g->layer]) return NULL;
    struct value *rows = pool_rows(g, m, "indexer_compressor", dim, x);
    /* Where all rows would be picked, only the weights are listed, as in all graphs of a model. */
    const bool was_other = g->is_other, picks = has_to_pick(g, m);
    if (!picks) g->is_other = true;
    struct value *q = decoder_linear(g, "indexer.attn_q_b", m->n_q_latent, n * dim, latent);
    q = graph_reshape(g, q, dim, n, g->shape.n_tokens);
    q = rotate_end(g, rope, rope_factors(g, rope), q, INPUT_POSITIONS);
    struct value *weights = decoder_linear(g, "indexer.proj", d->n_embd, n, x);
    struct value *picked = graph_pick(g, q, weights, rows, m->n_picked);
    g->is_other = was_other;
    return picks ? picked : NULL;
}

/* The output of heads goes through a matrix of their group, then all groups' through one. */
static struct value *project_output(struct graph *g, const struct deepseek4 *m, struct value *out)
{
    const struct decoder *d = &m->decoder;
    const struct model_tensor *all = graph_find(g, "blk.%u.attn_output_a.weight", g->layer);
    const uint64_t width = (uint64_t)d->layers[g->layer].n_heads * d->head_dim, group = width / m->n_groups,
                   latent = (uint64_t)m->n_groups * m->n_out_latent;
    char name[64];
    snprintf(name, sizeof name, "blk.%u.attn_output_a.groups.weight", g->layer);
    if (!all) graph_fail(g, "the tensor blk.%u.attn_output_a.weight is missing", g->layer);
    if (g->status || !out) return NULL;
    out = decoder_layer_output(g, d, graph_reshape(g, out, width, g->shape.n_tokens, 1));
    const uint64_t columns = out ? out->tensor.ne[1] : 0;
    struct value *matrices = graph_split_rows(g, all, group, m->n_out_latent, m->n_groups, name);
    out = graph_matmul_heads(g, matrices, graph_reshape(g, out, group, m->n_groups, columns));
    return decoder_linear(g, "attn_output_b", latent, d->n_embd, graph_reshape(g, out, latent, columns, 1));
}

/* From x [n_embd, n_tokens] to [n_embd, columns], see decoder_layer_output. */
static struct value *deepseek4_attention(struct graph *g, const struct deepseek4 *m, struct value *x)
{
    const struct decoder *d = &m->decoder;
    const struct decoder_layer *layer = &d->layers[g->layer];
    const uint64_t n_heads = layer->n_heads, dim = d->head_dim, n_tokens = g->shape.n_tokens;
    struct value *factors = rope_factors(g, layer->rope);
    struct value *latent =
        decoder_norm(g, d, "attn_q_a_norm", decoder_linear(g, "attn_q_a", d->n_embd, m->n_q_latent, x));
    struct value *q = decoder_linear(g, "attn_q_b", m->n_q_latent, n_heads * dim, latent);
    q = graph_norm(g, graph_reshape(g, q, dim, n_heads, n_tokens), NULL, NULL, ENGINE_NORM_RMS, d->epsilon);
    q = rotate_end(g, layer->rope, factors, q, INPUT_POSITIONS);
    struct value *kv = decoder_norm(g, d, "attn_kv_a_norm", decoder_linear(g, "attn_kv", d->n_embd, dim, x));
    kv = rotate_end(g, layer->rope, factors, graph_reshape(g, kv, dim, 1, n_tokens), INPUT_POSITIONS);
    struct value *near = graph_cache(g, dim, 1, true), *logsums = NULL;
    graph_cache_write(g, near, kv);
    struct value *sinks = graph_values(g, n_heads, 1, "blk.%u.attn_sinks.weight", g->layer);
    const bool is_pooled = m->periods[g->layer] > 0;
    struct attention_options options = {.scale = d->attention_scale,
                                        .window = layer->window,
                                        .sinks = is_pooled ? NULL : sinks,
                                        .logsums = is_pooled ? &logsums : NULL};
    struct value *out = graph_attention(g, q, near, near, &options);
    if (is_pooled) {
        struct value *rows = pool_rows(g, m, "attn_compressor", dim, x);
        options = (struct attention_options){.scale = d->attention_scale,
                                             .sinks = sinks,
                                             .picked = pick_rows(g, m, latent, x),
                                             .earlier = out,
                                             .earlier_logsums = logsums};
        out = graph_attention(g, q, rows, rows, &options);
    }
    /* Values are rotated as keys are; this turns their sum back to the query's position. */
    struct rope back = *layer->rope;
    back.position_scale = -back.position_scale;
    out = rotate_end(g, &back, factors, out, INPUT_POSITIONS);
    return project_output(g, m, out);
}

/* ---- Feed-forward networks ----------------------------------------------------------------------------- */

/* The experts that tokens have by their ids, [n_used, columns]. */
static struct value *chosen_experts(struct graph *g, const struct deepseek4 *m)
{
    const struct decoder *d = &m->decoder;
    struct value *table = graph_table(g, d->experts.n_used, d->n_vocab, d->experts.n,
                                      "blk.%u.ffn_gate_tid2eid.weight", g->layer);
    return decoder_layer_output(g, d, graph_get_rows(g, table, graph_input(g, INPUT_TOKENS)));
}

static struct value *shared_expert(struct graph *g, const struct deepseek4 *m, struct value *x)
{
    const struct decoder *d = &m->decoder;
    const struct experts *e = &d->experts;
    struct value *gate = decoder_linear(g, "ffn_gate_shexp", d->n_embd, e->n_ff_shared, x);
    struct value *up = decoder_linear(g, "ffn_up_shexp", d->n_embd, e->n_ff_shared, x);
    up = graph_activate_limited(g, gate, up, e->activation, e->limit, 0);
    return decoder_linear(g, "ffn_down_shexp", e->n_ff_shared, d->n_embd, up);
}

static struct value *deepseek4_mixture(struct graph *g, const struct deepseek4 *m, struct value *x)
{
    const struct decoder *d = &m->decoder;
    const struct experts *e = &d->experts;
    struct value *logits = decoder_linear(g, "ffn_gate_inp", d->n_embd, e->n, x);
    struct routes routes;
    if (g->layer < m->n_hash_layers) {
        const struct route_options options = {.n_used = e->n_used,
                                              .function = e->function,
                                              .normalise = e->normalise,
                                              .floor = e->floor,
                                              .scale = e->scale == 1 ? 0 : e->scale,
                                              .chosen = chosen_experts(g, m)};
        routes = graph_route(g, logits, &options);
    } else {
        routes = decoder_route(g, d, logits);
    }
    struct value *out = decoder_run_experts(g, d, &routes, x);
    return e->n_ff_shared > 0 ? graph_add(g, out, shared_expert(g, m, x)) : out;
}

/* ---- Layers -------------------------------------------------------------------------------------------- */

/* Hands out the sum of the streams in the place of the hidden state, where that is watched. */
static void end_layer(struct graph *g, const struct deepseek4 *m, struct value *streams)
{
    const struct decoder *d = &m->decoder;
    if (!(g->shape.watch & (WATCH_HIDDEN | WATCH_LENS)) || g->layer + 1 == d->n_layers) return;
    struct value *flat = flatten(g, m, streams), *sum = graph_slice(g, flat, 0, d->n_embd);
    for (uint32_t i = 1; i < m->n_streams; i++)
        sum = graph_add(g, sum, graph_slice(g, flat, (uint64_t)i * d->n_embd, d->n_embd));
    decoder_layer_end(g, d, sum);
}

static struct value *deepseek4_layer(struct graph *g, const struct deepseek4 *m, struct value *streams)
{
    const struct decoder *d = &m->decoder;
    struct stream_site site = enter_block(g, m, "hc_attn", streams);
    struct value *out = deepseek4_attention(g, m, decoder_norm(g, d, "attn_norm", site.x));
    if (g->layer + 1 == d->n_layers) { /* only the columns that are wanted go on */
        const uint64_t n = (uint64_t)m->n_streams * (m->n_streams + 2);
        if (g->status) return NULL;
        struct value *weights = graph_reshape(g, site.mix->root, n, g->shape.n_tokens, 1);
        weights = decoder_layer_output(g, d, weights);
        site.streams = part_streams(g, m, decoder_layer_output(g, d, flatten(g, m, site.streams)));
        site.scales = graph_slice(g, weights, m->n_streams, m->n_streams);
        site.mix = graph_slice(g, weights, 2 * (uint64_t)m->n_streams, (uint64_t)m->n_streams * m->n_streams);
    }
    streams = leave_block(g, m, &site, out);
    site = enter_block(g, m, "hc_ffn", streams);
    return leave_block(g, m, &site, deepseek4_mixture(g, m, decoder_norm(g, d, "ffn_norm", site.x)));
}

static void deepseek4_build(struct graph *g, const void *hparams)
{
    const struct deepseek4 *m = hparams;
    const struct decoder *d = &m->decoder;
    struct value *streams = begin_streams(g, m, decoder_embed(g, d));
    for (g->layer = 0; g->layer < d->n_layers && !g->status; g->layer++) {
        streams = deepseek4_layer(g, m, streams);
        end_layer(g, m, streams);
    }
    g->layer = NO_LAYER;
    decoder_build_logits(
        g, d, read_streams(g, m, streams, stream_weights(g, m, "output_hc", m->n_streams, streams)));
}

/* ---- Hugging Face directories -------------------------------------------------------------------------- */

/* The kinds of attention that layer_types names, and how many positions a pooled row of each stands for. */
static const struct {
    const char *name, *rate;
    uint32_t period;
} attention_kinds[] = {
    {"sliding_attention", "", 0},
    {"compressed_sparse_attention", "compress_rate_csa", 4},
    {"heavily_compressed_attention", "compress_rate_hca", 128},
};
enum { KIND_SLIDING, KIND_SPARSE, KIND_HEAVY, N_KINDS };

static uint32_t period_of_kind(struct hf_config *config, size_t kind)
{
    if (kind == KIND_SLIDING) return 0;
    const json_t *rates = hf_get(config->json, "compress_rates");
    uint32_t period = hf_count(config, rates, attention_kinds[kind].name, attention_kinds[kind].period);
    return hf_count(config, config->json, attention_kinds[kind].rate, period);
}

/* Of layer i: as layer_types says, or the list of periods before it; else two of the heavy kind, then heavy
 * and sparse ones in turn. */
static size_t kind_of_layer(struct hf_config *config, uint32_t i)
{
    const json_t *types = hf_get(config->json, "layer_types"),
                 *ratios = hf_get(config->json, "compress_ratios");
    const json_t *list = types ? types : ratios;
    if (!list) return i < 2 || i % 2 == 0 ? KIND_HEAVY : KIND_SPARSE;
    const json_t *own = json_array_get(list, i);
    for (size_t kind = 0; kind < N_KINDS; kind++)
        if (types ? json_is_string(own) && strcmp(json_string_value(own), attention_kinds[kind].name) == 0
                  : json_is_integer(own) && json_integer_value(own) == attention_kinds[kind].period)
            return kind;
    hf_fail(config, ENGINE_ERROR_UNSUPPORTED, "%s: what it says of layer %u is not supported",
            types ? "layer_types" : "compress_ratios", i);
    return KIND_SLIDING;
}

static uint32_t count_hash_layers(struct hf_config *config)
{
    const json_t *kinds = hf_get(config->json, "mlp_layer_types");
    uint32_t n = hf_count(config, config->json, "num_hash_layers", 3);
    if (!kinds) return n < config->n_layers ? n : config->n_layers;
    bool ended = false;
    n = 0;
    for (uint32_t i = 0; i < config->n_layers; i++) {
        const char *kind = json_string_value(json_array_get(kinds, i));
        const bool is_hash = kind && strcmp(kind, "hash_moe") == 0;
        hf_refuse(config, !kind || (!is_hash && strcmp(kind, "moe") != 0),
                  "mlp_layer_types with other texts than hash_moe and moe");
        hf_refuse(config, is_hash && ended, "mlp_layer_types with hash_moe after moe");
        ended |= !is_hash;
        n += is_hash;
    }
    return n;
}

static void deepseek4_put_router(struct hf_config *config)
{
    static const char *const functions[] = {"softmax", "sigmoid", "", "sqrtsoftplus"}; /* from 1 on */
    const char *function = hf_text(config, config->json, "scoring_func");
    uint32_t number = function ? 0 : 4;
    for (uint32_t i = 0; function && i < 4; i++)
        if (strcmp(function, functions[i]) == 0) number = i + 1;
    hf_refuse(config, number == 0, "this scoring_func");
    hf_put_count(config, "expert_gating_func", number);
}

static void deepseek4_read_config(struct hf_config *config)
{
    const json_t *json = config->json;
    uint32_t periods[HF_MAX_LAYERS];
    float limits[HF_MAX_LAYERS];
    const double part = hf_number(config, json, "partial_rotary_factor", 0);
    hf_refuse(config, !(part >= 0 && part <= 1), "a partial_rotary_factor below 0 or above 1");
    if (config->status) return;
    config->n_rope = part > 0 ? (uint32_t)(config->head_dim * part)
                              : hf_count(config, json, "qk_rope_head_dim", config->head_dim / 8);
    const double limit = hf_number(config, json, "swiglu_limit", 10);
    for (uint32_t i = 0; i < config->n_layers && !config->status; i++) {
        periods[i] = period_of_kind(config, kind_of_layer(config, i));
        limits[i] = (float)limit;
    }
    if (config->status) return;
    hf_put_layer_counts(config, "attention.compress_ratios", periods);
    hf_put_layer_floats(config, "swiglu_clamp_exp", limits);
    hf_put_layer_floats(config, "swiglu_clamp_shexp", limits);
    const json_t *pooled = hf_get(hf_get(json, "rope_parameters"), "compress");
    double theta = hf_number(config, json, "compress_rope_theta", 160000);
    hf_put_float(config, "attention.compress_rope_freq_base", hf_number(config, pooled, "rope_theta", theta));
    hf_refuse(config, hf_number(config, pooled, "attention_factor", 1) != 1, "an attention_factor but 1");
    hf_put_count(config, "hash_layer_count", count_hash_layers(config));
    hf_put_flag(config, "expert_weights_norm", true);
    deepseek4_put_router(config);
    hf_put_count(config, "embedding_length_out", config->n_embd * hf_count(config, json, "hc_mult", 4));
}

static const struct hf_key deepseek4_numbers[] = {
    {"q_lora_rank", "attention.q_lora_rank", HF_COUNT, 1024},
    {"sliding_window", "attention.sliding_window", HF_COUNT, 128},
    {"n_routed_experts|num_local_experts", "expert_count", HF_COUNT, 256},
    {"num_experts_per_tok", "expert_used_count", HF_COUNT, 6},
    {"n_shared_experts", "expert_shared_count", HF_COUNT, 1},
    {"moe_intermediate_size", "expert_feed_forward_length", HF_COUNT, 2048},
    {"routed_scaling_factor", "expert_weights_scale", HF_FLOAT, 1.5},
    {"index_n_heads", "attention.indexer.head_count", HF_COUNT, 64},
    {"index_head_dim", "attention.indexer.key_length", HF_COUNT, 128},
    {"index_topk", "attention.indexer.top_k", HF_COUNT, 512},
    {"o_groups", "attention.output_group_count", HF_COUNT, 8},
    {"o_lora_rank", "attention.output_lora_rank", HF_COUNT, 1024},
    {"hc_mult", "hyper_connection.count", HF_COUNT, 4},
    {"hc_sinkhorn_iters", "hyper_connection.sinkhorn_iterations", HF_COUNT, 20},
    {"hc_eps", "hyper_connection.epsilon", HF_FLOAT_OR_0, 1e-6},
    {0},
};

/* transformers' names, then those of the published files. */
static const struct hf_module deepseek4_modules[] = {
    {"attn_hc.fn", "hc_attn_fn"},
    {"attn_hc.base", "hc_attn_base"},
    {"attn_hc.scale", "hc_attn_scale"},
    {"ffn_hc.fn", "hc_ffn_fn"},
    {"ffn_hc.base", "hc_ffn_base"},
    {"ffn_hc.scale", "hc_ffn_scale"},
    {"self_attn.sinks", "attn_sinks"},
    {"self_attn.q_a_proj", "attn_q_a"},
    {"self_attn.q_a_norm", "attn_q_a_norm"},
    {"self_attn.q_b_proj", "attn_q_b"},
    {"self_attn.kv_proj", "attn_kv"},
    {"self_attn.kv_norm", "attn_kv_a_norm"},
    {"self_attn.o_a_proj", "attn_output_a"},
    {"self_attn.o_b_proj", "attn_output_b"},
    {"self_attn.compressor.kv_proj", "attn_compressor_kv"},
    {"self_attn.compressor.gate_proj", "attn_compressor_gate"},
    {"self_attn.compressor.position_bias", "attn_compressor_ape"},
    {"self_attn.compressor.kv_norm", "attn_compressor_norm"},
    {"self_attn.compressor.indexer.kv_proj", "indexer_compressor_kv"},
    {"self_attn.compressor.indexer.gate_proj", "indexer_compressor_gate"},
    {"self_attn.compressor.indexer.position_bias", "indexer_compressor_ape"},
    {"self_attn.compressor.indexer.kv_norm", "indexer_compressor_norm"},
    {"self_attn.compressor.indexer.q_b_proj", "indexer.attn_q_b.weight"},
    {"self_attn.compressor.indexer.scorer.weights_proj", "indexer.proj.weight"},
    {"mlp.gate.tid2eid", "ffn_gate_tid2eid"},
    {"mlp.experts.#.w1", "ffn_gate_exps"},
    {"mlp.experts.#.w2", "ffn_down_exps"},
    {"mlp.experts.#.w3", "ffn_up_exps"},
    {"attn_norm", "attn_norm"},
    {"ffn_norm", "ffn_norm"},
    {"hc_attn_fn", "hc_attn_fn"},
    {"hc_attn_base", "hc_attn_base"},
    {"hc_attn_scale", "hc_attn_scale"},
    {"hc_ffn_fn", "hc_ffn_fn"},
    {"hc_ffn_base", "hc_ffn_base"},
    {"hc_ffn_scale", "hc_ffn_scale"},
    {"attn.attn_sink", "attn_sinks"},
    {"attn.wq_a", "attn_q_a"},
    {"attn.q_norm", "attn_q_a_norm"},
    {"attn.wq_b", "attn_q_b"},
    {"attn.wkv", "attn_kv"},
    {"attn.kv_norm", "attn_kv_a_norm"},
    {"attn.wo_a", "attn_output_a"},
    {"attn.wo_b", "attn_output_b"},
    {"attn.compressor.wkv", "attn_compressor_kv"},
    {"attn.compressor.wgate", "attn_compressor_gate"},
    {"attn.compressor.ape", "attn_compressor_ape"},
    {"attn.compressor.norm", "attn_compressor_norm"},
    {"attn.indexer.compressor.wkv", "indexer_compressor_kv"},
    {"attn.indexer.compressor.wgate", "indexer_compressor_gate"},
    {"attn.indexer.compressor.ape", "indexer_compressor_ape"},
    {"attn.indexer.compressor.norm", "indexer_compressor_norm"},
    {"attn.indexer.wq_b", "indexer.attn_q_b.weight"},
    {"attn.indexer.weights_proj", "indexer.proj.weight"},
    {"ffn.gate", "ffn_gate_inp"},
    {"ffn.gate.bias", "exp_probs_b.bias"},
    {"ffn.gate.tid2eid", "ffn_gate_tid2eid"},
    {"ffn.experts.#.w1", "ffn_gate_exps"},
    {"ffn.experts.#.w2", "ffn_down_exps"},
    {"ffn.experts.#.w3", "ffn_up_exps"},
    {"ffn.shared_experts.w1", "ffn_gate_shexp"},
    {"ffn.shared_experts.w2", "ffn_down_shexp"},
    {"ffn.shared_experts.w3", "ffn_up_shexp"},
    {0},
};

static const struct hf_module deepseek4_outer[] = {
    {"head", "output"},
    {"hc_head.hc_fn", "output_hc_fn"},
    {"hc_head.hc_base", "output_hc_base"},
    {"hc_head.hc_scale", "output_hc_scale"},
    {"embed", "token_embd"},
    {"hc_head_fn", "output_hc_fn"},
    {"hc_head_base", "output_hc_base"},
    {"hc_head_scale", "output_hc_scale"},
    {0},
};

static const struct hf_type deepseek4_types[] = {
    {.name = "deepseek_v4",
     .keys = {.ff = "moe_intermediate_size"},
     .width = 4096,
     .layers = 43,
     .heads = 64,
     .kv_heads = 1,
     .head_dim = 512,
     .ff = 2048,
     .context = 1048576,
     .keeps_rotary = true,
     .rope_kind = "compress",
     .numbers = deepseek4_numbers,
     .options = {{"attention_bias", false, "attn_q_a|attn_kv|attn_output_b"}},
     .read = deepseek4_read_config},
    {0},
};

const struct architecture arch_deepseek4 = {
    .name = "deepseek4",
    .models = "DeepSeek V4",
    .size = sizeof(struct deepseek4),
    .read = deepseek4_read,
    .build = deepseek4_build,
    .hf = {.types = deepseek4_types, .modules = deepseek4_modules, .outer = deepseek4_outer},
};

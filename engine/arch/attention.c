/* attention.c: queries, keys and values of a layer, its cache, and attention over it. See decoder.h. */
#include <math.h>
#include <stdio.h>

#include "arch/decoder.h"
#include "common/assert.h"

static const struct decoder_layer *this_layer(const struct graph *g, const struct decoder *d)
{
    ENGINE_ASSERT(g->layer < d->n_layers);
    return &d->layers[g->layer];
}

/* Rows `first` … `first + n - 1` of the fused matrix "attn_qkv", with its bias, as a product called
 * `name`. */
static struct value *fused_part(struct graph *g, const struct decoder *d, const char *name, uint64_t first,
                                uint64_t n, struct value *x)
{
    char full[96];
    const struct model_tensor *fused = graph_find(g, "blk.%u.attn_qkv.weight", g->layer);
    const struct model_tensor *bias = graph_find(g, "blk.%u.attn_qkv.bias", g->layer);
    snprintf(full, sizeof full, "blk.%u.%s.weight", g->layer, name);
    struct value *output = graph_matmul(g, graph_rows(g, fused, first, d->n_embd, n, full), x);
    if (!bias) return output;
    snprintf(full, sizeof full, "blk.%u.%s.bias", g->layer, name);
    return graph_add(g, output, graph_values_part(g, bias, first, n, full));
}

/* Queries, keys or values within the bound of models that have one. */
static struct value *attention_clamp(struct graph *g, const struct decoder *d, struct value *x)
{
    return d->clamp_qkv > 0 ? graph_activate_limited(g, x, NULL, ENGINE_ACTIVATION_CLAMP, d->clamp_qkv, 0)
                            : x;
}

/* The product with one of the three matrices, whichever tensor has its rows. */
static struct value *attention_project(struct graph *g, const struct decoder *d, const char *name,
                                       uint64_t first, uint64_t n, struct value *x)
{
    struct value *output = decoder_has_weight(g, "attn_qkv") ? fused_part(g, d, name, first, n, x)
                                                             : decoder_linear(g, name, d->n_embd, n, x);
    return d->clamp_after_norm ? output : attention_clamp(g, d, output);
}

/* The norm of queries or keys [dim * n, columns], if the layer has one: over the whole width, or over each
 * head, with shared or separate weights. */
static struct value *norm_heads(struct graph *g, const struct decoder *d, const char *name, uint64_t n,
                                struct value *heads)
{
    if (!decoder_has_weight(g, name) || !heads) return heads;
    uint64_t dim = this_layer(g, d)->head_dim, width = dim * n, n_tokens = g->shape.n_tokens;
    const struct model_tensor *weight = graph_find(g, "blk.%u.%s.weight", g->layer, name);
    struct value *by_head = graph_reshape(g, heads, dim, n, n_tokens);
    if (weight->ne[0] == dim && weight->ne[1] == 1) return decoder_norm(g, d, name, by_head);
    if (weight->ne[1] == 1) return decoder_norm(g, d, name, graph_reshape(g, heads, width, n_tokens, 1));
    struct value *normed = graph_norm(g, by_head, NULL, NULL, d->norm, d->epsilon);
    return graph_mul(g, graph_reshape(g, normed, width, n_tokens, 1),
                     graph_values(g, width, 1, "blk.%u.%s.weight", g->layer, name));
}

struct heads decoder_attention_heads(struct graph *g, const struct decoder *d, struct value *x)
{
    const struct decoder_layer *layer = this_layer(g, d);
    uint64_t n = layer->n_heads, n_kv = layer->n_kv_heads, dim = layer->head_dim,
             n_tokens = g->shape.n_tokens;
    uint64_t q_dim = n * dim, k_dim = n_kv * dim, v_dim = n_kv * layer->value_dim;
    bool takes_keys = d->keys_are_values && v_dim == k_dim && !decoder_has_weight(g, "attn_v") &&
                      !decoder_has_weight(g, "attn_qkv");
    struct heads h = {.q = attention_project(g, d, "attn_q", 0, q_dim, x)};
    if (layer->n_back == 0) {
        h.k = attention_project(g, d, "attn_k", q_dim, k_dim, x);
        h.v = takes_keys ? h.k : attention_project(g, d, "attn_v", q_dim + k_dim, v_dim, x);
    }
    struct value *factors = rope_factors(g, layer->rope);
    if (!d->norm_after_rope) {
        h.q = norm_heads(g, d, "attn_q_norm", n, h.q);
        h.k = norm_heads(g, d, "attn_k_norm", n_kv, h.k);
    }
    if (d->clamp_after_norm)
        h = (struct heads){attention_clamp(g, d, h.q), attention_clamp(g, d, h.k),
                           attention_clamp(g, d, h.v)};
    h.q = decoder_rotate(g, layer->rope, factors, graph_reshape(g, h.q, dim, n, n_tokens));
    if (h.k) h.k = decoder_rotate(g, layer->rope, factors, graph_reshape(g, h.k, dim, n_kv, n_tokens));
    h.v = graph_reshape(g, h.v, layer->value_dim, n_kv, n_tokens);
    if (d->norm_after_rope) {
        h.q = norm_heads(g, d, "attn_q_norm", n, h.q);
        h.k = norm_heads(g, d, "attn_k_norm", n_kv, h.k);
    }
    if (d->norms_values && h.v) h.v = graph_norm(g, h.v, NULL, NULL, d->norm, d->epsilon);
    return h;
}

struct value *decoder_scale_queries(struct graph *g, const struct decoder *d, struct value *q)
{
    uint64_t n = this_layer(g, d)->n_heads, dim = this_layer(g, d)->head_dim, n_tokens = g->shape.n_tokens;
    q = graph_mul(g, graph_reshape(g, q, n * dim, n_tokens, 1), graph_input(g, INPUT_QUERY_SCALES));
    return graph_reshape(g, q, dim, n, n_tokens);
}

struct slopes {
    float bias;
    uint32_t n_heads;
};

/* Geometric in the heads up to a power of two, then every other of the finer series (as published with
 * ALiBi). */
static void fill_slopes(const void *user, float *values, uint64_t n)
{
    const struct slopes *slopes = user;
    double whole = exp2(floor(log2(slopes->n_heads)));
    for (uint64_t h = 0; h < n; h++) {
        double at = (double)h < whole ? ((double)h + 1) / whole : (2 * ((double)h - whole) + 1) / (2 * whole);
        values[h] = (float)exp2(-(double)slopes->bias * at);
    }
}

struct value *decoder_alibi_slopes(struct graph *g, const struct decoder *d, uint32_t n_heads)
{
    char name[48];
    const struct slopes slopes = {d->alibi_bias, n_heads};
    if (d->alibi_bias <= 0) return NULL;
    snprintf(name, sizeof name, "alibi_slopes_%u_%a", n_heads, (double)d->alibi_bias);
    return graph_numbers(g, n_heads, name, fill_slopes, &slopes);
}

struct value *decoder_attend_to(struct graph *g, const struct decoder *d, struct value *q,
                                struct value *k_cache, struct value *v_cache, struct value *picked)
{
    const struct decoder_layer *layer = this_layer(g, d);
    const struct attention_options options = {
        .scale = d->attention_scale,
        .softcap = d->attention_softcap,
        .window = layer->window,
        .chunk = layer->chunk,
        .both_ways = d->both_ways,
        .picked = picked,
        .slopes = decoder_alibi_slopes(g, d, layer->n_heads),
        .sinks = graph_values_optional(g, layer->n_heads, 1, "blk.%u.attn_sinks.weight", g->layer),
    };
    struct value *out = graph_attention(g, q, k_cache, v_cache, &options);
    uint64_t width = (uint64_t)layer->n_heads * layer->value_dim;
    return decoder_layer_output(g, d, graph_reshape(g, out, width, g->shape.n_tokens, 1));
}

struct value *decoder_attend(struct graph *g, const struct decoder *d, const struct heads *heads)
{
    const struct decoder_layer *layer = this_layer(g, d);
    bool windowed = layer->window > 0 || layer->chunk > 0;
    if (layer->n_back > 0) {
        uint32_t owner = g->layer - layer->n_back;
        return decoder_attend_to(g, d, heads->q, graph_cache_of(g, owner, 0), graph_cache_of(g, owner, 1),
                                 NULL);
    }
    struct value *k_cache = graph_cache(g, layer->head_dim, layer->n_kv_heads, windowed);
    struct value *v_cache = graph_cache(g, layer->value_dim, layer->n_kv_heads, windowed);
    graph_cache_write(g, k_cache, heads->k);
    graph_cache_write(g, v_cache, heads->v);
    return decoder_attend_to(g, d, heads->q, k_cache, v_cache, NULL);
}

/* Multiplies what attention gives by a gate of the layer's input, a number for each value or each head. */
static struct value *gate_output(struct graph *g, const struct decoder *d, struct value *x, struct value *out)
{
    const struct model_tensor *weight = graph_find(g, "blk.%u.attn_gate.weight", g->layer);
    if (d->attention_gate == ENGINE_ACTIVATION_NONE || !weight || !out) return out;
    uint64_t n_heads = this_layer(g, d)->n_heads, dim = this_layer(g, d)->value_dim, width = n_heads * dim;
    uint64_t columns = out->tensor.ne[1];
    bool is_by_head = weight->ne[1] == n_heads;
    x = decoder_linear(g, "attn_gate", d->n_embd, is_by_head ? n_heads : width,
                       decoder_layer_output(g, d, x));
    if (!is_by_head) return graph_activate(g, x, out, d->attention_gate);
    x = graph_reshape(g, graph_activate(g, x, NULL, d->attention_gate), 1, n_heads, columns);
    out = graph_mul(g, graph_reshape(g, out, dim, n_heads, columns), x);
    return graph_reshape(g, out, width, columns, 1);
}

struct value *decoder_attention(struct graph *g, const struct decoder *d, struct value *x)
{
    struct heads heads = decoder_attention_heads(g, d, x);
    const struct decoder_layer *layer = this_layer(g, d);
    uint64_t width = (uint64_t)layer->n_heads * layer->value_dim;
    struct value *out = gate_output(g, d, x, decoder_attend(g, d, &heads));
    return decoder_linear(g, "attn_output", width, d->n_embd, out);
}

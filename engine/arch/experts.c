/* experts.c: mixtures of experts: a router chooses some of many feed-forward networks for each token (Shazeer et al.,
 * arXiv 1701.06538). See decoder.h. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "arch/decoder.h"
#include "base/error.h"

/* Files made before April 2024 have a tensor for each expert, "blk.N.ffn_up.E.weight". */
static struct value *stacked(struct graph *g, const char *name, uint64_t k, uint64_t rows, uint32_t n)
{
    char full[96];
    const struct model_tensor **parts = malloc(n * sizeof(struct model_tensor *));
    struct value *stack = NULL;
    uint32_t found = 0;
    if (!parts) {
        g->status = fail_memory("experts");
        return NULL;
    }
    for (; found < n; found++) {
        parts[found] = graph_find(g, "blk.%u.%s.%u.weight", g->layer, name, found);
        if (!parts[found]) break;
    }
    snprintf(full, sizeof full, "blk.%u.%s_exps.weight", g->layer, name);
    if (found == n)
        stack = graph_stack(g, parts, k, rows, n, full);
    else
        graph_fail(g, "the tensor %s is missing", full);
    free(parts);
    return stack;
}

/* The experts' matrices "NAME_exps", [k, rows, n]. */
static struct value *matrices(struct graph *g, const struct decoder *d, const char *name, uint64_t k,
                              uint64_t rows)
{
    if (g->status) return NULL;
    if (!graph_find(g, "blk.%u.%s_exps.weight", g->layer, name))
        return stacked(g, name, k, rows, d->experts.n);
    return graph_matrices(g, k, rows, d->experts.n, "blk.%u.%s_exps.weight", g->layer, name);
}

static struct value *product(struct graph *g, const struct decoder *d, const char *name, uint64_t k,
                             uint64_t rows, struct value *x, const struct routes *routes, bool mix)
{
    struct value *bias = graph_values_optional(g, rows, d->experts.n, "blk.%u.%s_exps.bias", g->layer, name);
    return graph_matmul_experts(g, matrices(g, d, name, k, rows), bias, x, routes, mix);
}

struct value *run_experts(struct graph *g, const struct decoder *d, const struct routes *routes,
                          struct value *x)
{
    const struct experts *e = &d->experts;
    struct value *gate, *up;
    if (graph_find(g, "blk.%u.ffn_gate_up_exps.weight", g->layer)) {
        struct value *both = product(g, d, "ffn_gate_up", d->n_embd, 2 * (uint64_t)e->n_ff, x, routes, false);
        gate = graph_slice(g, both, 0, e->n_ff);
        up = graph_slice(g, both, e->n_ff, e->n_ff);
    } else {
        gate = product(g, d, "ffn_gate", d->n_embd, e->n_ff, x, routes, false);
        up = product(g, d, "ffn_up", d->n_embd, e->n_ff, x, routes, false);
    }
    struct value *hidden = graph_activate_limited(g, gate, up, e->activation, e->limit, e->alpha);
    return product(g, d, "ffn_down", e->n_ff, d->n_embd, hidden, routes, true);
}

struct routes route(struct graph *g, const struct decoder *d, struct value *logits)
{
    const struct experts *e = &d->experts;
    const struct route_options options = {
        .n_used = e->n_used,
        .function = e->function,
        .n_groups = e->n_groups,
        .n_groups_used = e->n_groups_used,
        .group_score = e->group_score,
        .normalise = e->normalise,
        .floor = e->floor,
        .scale = e->scale == 1 ? 0 : e->scale,
        .bias = graph_values_optional(g, e->n, 1, "blk.%u.exp_probs_b.bias", g->layer),
    };
    return graph_route(g, logits, &options);
}

/* The expert that serves all tokens; some models weigh it by a sigmoid of each token. */
static struct value *shared_expert(struct graph *g, const struct decoder *d, struct value *x)
{
    struct value *out = feed_forward_named(g, d, "_shexp", d->experts.n_ff_shared, x);
    if (!has_weight(g, "ffn_gate_inp_shexp")) return out;
    struct value *weight = graph_weight(g, d->n_embd, 1, "blk.%u.ffn_gate_inp_shexp.weight", g->layer);
    struct value *share = graph_activate(g, graph_matmul(g, weight, x), NULL, ENGINE_ACTIVATION_SIGMOID);
    return graph_mul(g, out, share);
}

struct value *mixture(struct graph *g, const struct decoder *d, struct value *x)
{
    struct routes routes = route(g, d, linear(g, "ffn_gate_inp", d->n_embd, d->experts.n, x));
    struct value *out = run_experts(g, d, &routes, x);
    return d->experts.n_ff_shared > 0 ? graph_add(g, out, shared_expert(g, d, x)) : out;
}

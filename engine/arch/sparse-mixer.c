/* sparse-mixer.c: SparseMixer (arXiv 2409.12136), the router of Phi 3.5 MoE: two experts, each weighted by a
 * softmax over those whose logits are near its own, of all experts for the first and of the others for the
 * second. Made of the usual operations: a value of a column is taken by its number as the product with a row
 * of the identity, and a logit that doesn't count becomes HIDDEN lower. */
#include <inttypes.h>
#include <stdio.h>

#include "arch/decoder.h"

#define HIDDEN 1e30f

static void fill_identity(const void *user, float *values, uint64_t n)
{
    const uint32_t *size = user;
    for (uint64_t i = 0; i < n; i++) values[i] = i / *size == i % *size;
}

static void fill_ones(const void *user, float *values, uint64_t n)
{
    (void)user;
    for (uint64_t i = 0; i < n; i++) values[i] = 1;
}

/* x + factor * y, rows [n]. */
static struct value *add_times(struct graph *g, uint32_t n, struct value *x, float factor, struct value *y)
{
    return graph_add(g, x, graph_mul(g, y, graph_constant(g, n, factor)));
}

static struct routes route_one(struct graph *g, struct value *logits)
{
    const struct route_options options = {.n_used = 1, .function = ENGINE_ROUTE_SOFTMAX};
    return graph_route(g, logits, &options);
}

/* Rows [n] that are 1 at the largest of x and else 0. */
static struct value *mark_largest(struct graph *g, uint32_t n, struct value *x)
{
    char name[48];
    snprintf(name, sizeof name, "identity_%" PRIu32, n);
    struct value *identity = graph_number_rows(g, n, n, name, fill_identity, &n), *ids = route_one(g, x).ids;
    return graph_get_rows(g, identity, graph_reshape(g, ids, ids ? ids->tensor.ne[1] : 0, 1, 1));
}

/* The weight of the largest of x: its share of a softmax over those near it, by the logits s that x hides
 * some of: 1 where (largest - s) / max(|s|, largest) <= range. */
static struct value *mixer_weigh(struct graph *g, uint32_t n, float range, struct value *s, struct value *x,
                                 struct value *mark)
{
    char name[48];
    snprintf(name, sizeof name, "ones_%" PRIu32, n);
    struct value *ones = graph_number_rows(g, n, 1, name, fill_ones, NULL);
    struct value *largest = graph_matmul(g, ones, graph_mul(g, s, mark));
    struct value *lower = graph_mul(g, largest, graph_constant(g, 1, -1));
    struct value *size = graph_activate(g, s, NULL, ENGINE_ACTIVATION_RELU);
    struct value *negative = graph_mul(g, s, graph_constant(g, n, -1));
    size = graph_add(g, size, graph_activate(g, negative, NULL, ENGINE_ACTIVATION_RELU));
    size = graph_activate(g, graph_add(g, size, lower), NULL, ENGINE_ACTIVATION_RELU);
    size = graph_add(g, size, largest); /* max(|s|, largest) */
    struct value *near = graph_add(g, add_times(g, n, s, range, size), lower);
    near = graph_mul(g, near, graph_constant(g, n, HIDDEN));
    near = graph_activate_limited(g, near, NULL, ENGINE_ACTIVATION_CLAMP, 1, 0);
    near = graph_activate(g, near, NULL, ENGINE_ACTIVATION_RELU);
    struct value *far = graph_add(g, near, graph_constant(g, n, -1));
    return route_one(g, add_times(g, n, x, HIDDEN, far)).weights;
}

struct routes decoder_route_sparsely(struct graph *g, const struct experts *e, struct value *logits)
{
    const struct route_options both = {.n_used = 2, .function = ENGINE_ROUTE_SOFTMAX};
    struct routes routes = graph_route(g, logits, &both);
    struct value *first = mark_largest(g, e->n, logits);
    struct value *others = add_times(g, e->n, logits, -HIDDEN, first);
    struct value *second = mark_largest(g, e->n, others);
    struct value *weights[2] = {mixer_weigh(g, e->n, e->near, logits, logits, first),
                                mixer_weigh(g, e->n, e->near, logits, others, second)};
    routes.weights = graph_join(g, weights, 2);
    return routes;
}

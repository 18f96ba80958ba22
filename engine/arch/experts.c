/* experts.c: mixtures of experts: a router chooses some of many feed-forward networks for each token (Shazeer
 * et al., arXiv 1701.06538). See decoder.h. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "arch/decoder.h"
#include "base/error.h"

/* ---- Reading ------------------------------------------------------------------------------------------- */

/* expert_gating_func of the file. */
enum gating { GATING_UNKNOWN, GATING_SOFTMAX, GATING_SIGMOID, GATING_SOFTMAX_CHOSEN, GATING_SQRT_SOFTPLUS };

static void read_groups(struct hparams *h, struct experts *e)
{
    uint32_t n = hparams_count(h, "expert_group_count", 0),
             used = hparams_count(h, "expert_group_used_count", n);
    if (n <= 1) return;
    e->n_groups = n;
    e->n_groups_used = used;
    /* DeepSeek-V2 ranks a group by its best expert; with sigmoids, since V3, by its two best. */
    e->group_score = e->function == ENGINE_ROUTE_SIGMOID ? ENGINE_ROUTE_GROUP_TOP2 : ENGINE_ROUTE_GROUP_MAX;
    uint32_t size = e->n / n, least = e->group_score == ENGINE_ROUTE_GROUP_TOP2 ? 2 : 1;
    if (e->n % n != 0 || size < least || used == 0 || used > n || e->n_used > (uint64_t)used * size)
        hparams_fail(h, ENGINE_ERROR_DATA,
                     "expert_group_count: cannot choose %u of %u experts from %u of %u groups", e->n_used,
                     e->n, used, n);
}

void experts_read_router(struct hparams *h, struct decoder *d, uint32_t function, bool normalise)
{
    struct experts *e = &d->experts;
    uint32_t gating =
        hparams_count(h, "expert_gating_func", hparams_count(h, "engine.expert_gating_func", GATING_UNKNOWN));
    if (gating > GATING_SQRT_SOFTPLUS)
        hparams_fail(h, ENGINE_ERROR_UNSUPPORTED,
                     "expert_gating_func %u is not supported (supported: 1 softmax, 2 sigmoid, 3 softmax of "
                     "the chosen, 4 root of softplus)",
                     gating);
    if (gating != GATING_UNKNOWN)
        function = gating == GATING_SIGMOID         ? ENGINE_ROUTE_SIGMOID
                   : gating == GATING_SQRT_SOFTPLUS ? ENGINE_ROUTE_SQRT_SOFTPLUS
                                                    : ENGINE_ROUTE_SOFTMAX;
    e->function = function;
    e->normalise = hparams_flag(h, "expert_weights_norm", normalise) || gating == GATING_SOFTMAX_CHOSEN;
    read_groups(h, e);
}

/* Mixtures begin after some dense layers, and occur every so many layers. */
static void read_places(struct hparams *h, struct decoder *d)
{
    uint32_t first = hparams_count(h, "leading_dense_block_count", 0);
    uint32_t step = hparams_count(h, "interleave_moe_layer_step", 1);
    if (step == 0)
        hparams_fail(h, ENGINE_ERROR_DATA, "interleave_moe_layer_step is 0; it must be at least 1");
    if (h->status) return;
    for (uint32_t i = 0; i < d->n_layers; i++) d->layers[i].is_mixture = i >= first && (i + 1) % step == 0;
}

void experts_read(struct hparams *h, struct decoder *d)
{
    struct experts *e = &d->experts;
    e->n = hparams_count(h, "expert_count", 0);
    if (e->n == 0) return;
    e->n_used = hparams_count(h, "expert_used_count", 0);
    e->n_ff = hparams_count(h, "expert_feed_forward_length", d->n_layers > 0 ? d->layers[0].n_ff : 0);
    uint64_t n_shared = (uint64_t)hparams_count(h, "expert_shared_count", 0) * e->n_ff;
    e->n_ff_shared =
        hparams_count(h, "expert_shared_feed_forward_length", n_shared > INT32_MAX ? 0 : (uint32_t)n_shared);
    e->n_latent = hparams_count(h, "moe_latent_size", 0);
    e->scale = hparams_float_from_0(h, "expert_weights_scale", 1); /* 0 also means none */
    e->activation = d->activation;
    if (e->n_used == 0 || e->n_used > e->n || e->n > 65536 || e->n_ff == 0 || n_shared > INT32_MAX)
        hparams_fail(h, ENGINE_ERROR_DATA,
                     "expert_used_count: a token cannot use %u of %u experts of %u values", e->n_used, e->n,
                     e->n_ff);
    experts_read_router(h, d, ENGINE_ROUTE_SOFTMAX, true);
    read_places(h, d);
}

/* ---- Blocks -------------------------------------------------------------------------------------------- */

/* Files made before April 2024 have a tensor for each expert, "blk.N.ffn_up.E.weight". */
static struct value *stacked(struct graph *g, const char *name, uint64_t k, uint64_t rows, uint32_t n)
{
    char full[96];
    const struct model_tensor **parts = malloc(n * sizeof(struct model_tensor *));
    struct value *stack = NULL;
    uint32_t found = 0;
    if (!parts) {
        g->status = error_memory("experts");
        return NULL;
    }
    for (; found < n; found++) {
        parts[found] = graph_find(g, "blk.%u.%s.%u.weight", g->layer, name, found);
        if (!parts[found]) break;
    }
    snprintf(full, sizeof full, "blk.%u.%s_exps.weight", g->layer, name);
    if (found == n)
        stack = graph_stack(g, parts, k, rows, n, full);
    else if (found > 0)
        graph_fail(g, "the tensor blk.%u.%s.%u.weight is missing", g->layer, name, found);
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

struct value *decoder_run_experts(struct graph *g, const struct decoder *d, const struct routes *routes,
                                  struct value *x)
{
    const struct experts *e = &d->experts;
    const uint64_t width = e->n_latent ? e->n_latent : d->n_embd;
    struct value *gate, *up;
    if (e->weigh_input) x = graph_mul(g, x, routes->weights); /* of one expert for each token */
    if (graph_find(g, "blk.%u.ffn_gate_up_exps.weight", g->layer)) {
        struct value *both = product(g, d, "ffn_gate_up", width, 2 * (uint64_t)e->n_ff, x, routes, false);
        gate = graph_slice(g, both, 0, e->n_ff);
        up = graph_slice(g, both, e->n_ff, e->n_ff);
    } else if (e->has_no_gates) {
        gate = product(g, d, "ffn_up", width, e->n_ff, x, routes, false);
        up = NULL;
    } else {
        gate = product(g, d, "ffn_gate", width, e->n_ff, x, routes, false);
        up = product(g, d, "ffn_up", width, e->n_ff, x, routes, false);
    }
    struct value *hidden = graph_activate_limited(g, gate, up, e->activation, e->limit, e->alpha);
    struct value *out = product(g, d, "ffn_down", e->n_ff, width, hidden, routes, !e->weigh_input);
    return e->weigh_input && out ? graph_reshape(g, out, width, out->tensor.ne[2], 1) : out;
}

struct routes decoder_route(struct graph *g, const struct decoder *d, struct value *logits)
{
    const struct experts *e = &d->experts;
    if (e->near > 0) return decoder_route_sparsely(g, e, logits);
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

/* The expert that serves all tokens, if the layer has one; some models weight it by a sigmoid for each token.
 * If the file doesn't give its length, the matrix does. */
static struct value *add_shared_expert(struct graph *g, const struct decoder *d, struct value *x,
                                       struct value *sum)
{
    const struct model_tensor *up = graph_find(g, "blk.%u.ffn_up_shexp.weight", g->layer);
    uint64_t n_ff = d->experts.n_ff_shared;
    if (n_ff == 0 && !up) return sum;
    struct value *out = decoder_feed_forward_named(g, d, "_shexp", n_ff > 0 ? n_ff : up->ne[1], x);
    if (!decoder_has_weight(g, "ffn_gate_inp_shexp")) {
        sum = graph_add(g, sum, out);
        return d->experts.averages_shared ? graph_scale(g, sum, 0.5f) : sum;
    }
    struct value *weight = graph_weight(g, d->n_embd, 1, "blk.%u.ffn_gate_inp_shexp.weight", g->layer);
    struct value *share = graph_activate(g, graph_matmul(g, weight, x), NULL, ENGINE_ACTIVATION_SIGMOID);
    return graph_add(g, sum, graph_mul(g, out, share));
}

/* The chosen experts, in a model whose experts are narrower than it between two matrices (LatentMoE). */
static struct value *run_routed(struct graph *g, const struct decoder *d, const struct routes *routes,
                                struct value *x)
{
    const uint64_t n = d->experts.n_latent;
    if (n == 0) return decoder_run_experts(g, d, routes, x);
    x = decoder_run_experts(g, d, routes, decoder_linear(g, "ffn_latent_down", d->n_embd, n, x));
    return decoder_linear(g, "ffn_latent_up", n, d->n_embd, x);
}

struct value *decoder_mixture(struct graph *g, const struct decoder *d, struct value *x)
{
    struct routes routes = decoder_route(g, d, decoder_linear(g, "ffn_gate_inp", d->n_embd, d->experts.n, x));
    struct value *sum = add_shared_expert(g, d, x, run_routed(g, d, &routes, x));
    struct value *bias = graph_values_optional(g, d->n_embd, 1, "blk.%u.ffn_exps.bias", g->layer);
    return bias ? graph_add(g, sum, bias) : sum;
}

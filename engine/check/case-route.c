/* case-route.c: the router; see cases.h. */
#include <stdlib.h>

#include "check/cases.h"
#include "check/numbers.h"

/* Every third logit is one of four values; every fifth is another one plus a little. */
static void make_ties(float *logits, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (i % 3 == 0) logits[i] = 0.5f * (float)((int)(logits[i] * 16) % 4);
        if (i % 5 == 4) logits[i] = logits[i - 1] + 1e-7f;
    }
}

/* The ids are a choice that the operation allows, and the weights match it. */
static void check_route(struct fixture *fixture, const struct route_case *c,
                        const struct engine_op_route *args, const float *logits, const float *bias,
                        const int32_t *ids, const float *weights)
{
    double *p = fixture_room(fixture, c->n_experts, sizeof *p),
           *choice = fixture_room(fixture, c->n_experts, sizeof *choice);
    struct expected *expected = fixture_room(fixture, (size_t)c->n_used * c->tokens, sizeof *expected);
    for (size_t t = 0; t < c->tokens; t++) {
        reference_route(args, c->n_experts, logits + t * c->n_experts, bias, p, choice);
        if (!reference_route_allows(args, c->n_experts, choice, ids + t * c->n_used, c->n_used))
            fixture_fail(fixture, "route: the ids of token %zu, %d first, aren't those of the largest", t,
                         ids[t * c->n_used]);
        reference_route_weights(args, p, ids + t * c->n_used, c->n_used, expected + t * c->n_used);
    }
    fixture_compare(fixture, "route: weights", weights, expected, (size_t)c->n_used * c->tokens);
}

float *run_route_case(struct fixture *fixture, const struct route_case *c)
{
    uint64_t seed = c->n_experts * 31 + c->n_used + c->tokens;
    size_t n = (size_t)c->n_experts * c->tokens;
    float *logits = fixture_hold(fixture, random_floats(&seed, n));
    float *bias = fixture_hold(fixture, random_floats(&seed, c->n_experts));
    for (size_t i = 0; i < n && c->size != 0; i++) logits[i] *= c->size;
    /* scores lower than those of the experts left out */
    for (size_t i = 0; i < c->n_experts; i++) bias[i] = 0.2f * bias[i] - 1;
    if (c->ties) make_ties(logits, n);
    fixture_describe(
        fixture,
        "%u of %u experts, %u tokens, %s, %u of %u groups by score %u%s%s%s, floor %g, scale %g, logits "
        "of %g, gap %u",
        c->n_used, c->n_experts, c->tokens, c->function ? "sigmoid" : "softmax", c->n_groups_used,
        c->n_groups, c->group_score, c->bias ? ", bias" : "", c->normalise ? ", normalised" : "",
        c->ties ? ", ties" : "", (double)c->floor, (double)c->scale, (double)c->size, c->gap);
    const struct fixture_gaps gaps = {.row = c->gap};
    const uint64_t ne[4] = {c->n_used, c->tokens, 1, 1};
    struct engine_op_route args = {
        .struct_size = sizeof args,
        .logits = fixture_strided(fixture, c->n_experts, c->tokens, 1, &gaps, logits),
        .bias = c->bias ? fixture_weight(fixture, ENGINE_TYPE_F32, c->n_experts, 1, ENGINE_WEIGHT_VALUES,
                                         false, bias)
                        : NULL,
        .ids = fixture_output(fixture, ENGINE_TYPE_I32, ne, &gaps),
        .weights = fixture_output(fixture, ENGINE_TYPE_F32, ne, &gaps),
        .function = c->function,
        .n_groups = c->n_groups,
        .n_groups_used = c->n_groups_used,
        .group_score = c->group_score,
        .normalise = c->normalise,
        .floor = c->floor,
        .scale = c->scale,
    };
    fixture_run(fixture, ENGINE_OP_ROUTE, &args);
    int32_t *ids = fixture_hold(fixture, fixture_read_rows(fixture, args.ids));
    float *weights = fixture_hold(fixture, fixture_read(fixture, args.weights));
    check_route(fixture, c, &args, logits, c->bias ? bias : NULL, ids, weights);
    return fixture_release(fixture, weights);
}

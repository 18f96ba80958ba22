/* reference-route.c: the router, see reference.h. The right choice of experts is not unique: of two that are
 * nearly equal, either is accepted. */
#include <math.h>
#include <stdlib.h>

#include "check/reference.h"

enum { MOST_GROUPS = 32 };
static const double NEAR = 1e-6; /* scores closer than this may be swapped */

void reference_route(const struct engine_op_route *args, size_t n_experts, const float *logits,
                     const float *bias, double *p, double *c)
{
    double max = -INFINITY, sum = 0;
    /* not fmax, which crashes GCC 12 for ARM */
    for (size_t e = 0; e < n_experts; e++)
        if ((double)logits[e] > max) max = (double)logits[e];
    for (size_t e = 0; e < n_experts; e++) sum += exp((double)logits[e] - max);
    for (size_t e = 0; e < n_experts; e++) {
        p[e] = args->function == ENGINE_ROUTE_SIGMOID ? 1 / (1 + exp(-(double)logits[e]))
                                                      : exp((double)logits[e] - max) / sum;
        c[e] = p[e] + (bias ? (double)bias[e] : 0);
    }
}

/* Whether the ids are the first of the remaining experts (`groups`, as bits), in order. */
static bool is_in_order(const double *c, size_t n_experts, size_t group_size, uint32_t groups,
                        const int32_t *ids, size_t n_used)
{
    for (size_t s = 0; s < n_used; s++) {
        const size_t chosen = (size_t)ids[s];
        if (!(groups >> chosen / group_size & 1)) return false;
        for (size_t e = 0; e < n_experts; e++) {
            bool taken = !(groups >> e / group_size & 1);
            for (size_t i = 0; i <= s; i++) taken = taken || (size_t)ids[i] == e;
            if (taken) continue;
            const double ahead = c[e] - c[chosen];
            if (ahead >= NEAR || (e < chosen && ahead == 0)) return false;
        }
    }
    return true;
}

static double group_score(uint32_t kind, const double *c, size_t n)
{
    double first = -INFINITY, second = -INFINITY;
    for (size_t i = 0; i < n; i++)
        if (c[i] > first)
            second = first, first = c[i];
        else if (c[i] > second)
            second = c[i];
    return kind == ENGINE_ROUTE_GROUP_TOP2 ? first + second : first;
}

/* Whether a set of groups, as bits, is one of those with the largest scores. */
static bool are_largest(const double *scores, size_t n, uint32_t groups)
{
    for (size_t in = 0; in < n; in++)
        for (size_t out = 0; out < n && groups >> in & 1; out++) {
            if (groups >> out & 1) continue;
            const double ahead = scores[out] - scores[in];
            if (ahead >= NEAR || (out < in && ahead == 0)) return false;
        }
    return true;
}

/* Tries all sets of n_left more groups, from `next` on. */
static bool any_set_allows(const struct engine_op_route *args, const double *scores, const double *c,
                           size_t n_experts, const int32_t *ids, size_t n_used, uint32_t groups,
                           uint32_t next, uint32_t n_left)
{
    const size_t size = n_experts / args->n_groups;
    if (n_left == 0)
        return are_largest(scores, args->n_groups, groups) &&
               is_in_order(c, n_experts, size, groups, ids, n_used);
    for (; next + n_left <= args->n_groups; next++)
        if (any_set_allows(args, scores, c, n_experts, ids, n_used, groups | (uint32_t)1 << next, next + 1,
                           n_left - 1))
            return true;
    return false;
}

bool reference_route_allows(const struct engine_op_route *args, size_t n_experts, const double *c,
                            const int32_t *ids, size_t n_used)
{
    for (size_t s = 0; s < n_used; s++) {
        if (ids[s] < 0 || (size_t)ids[s] >= n_experts) return false;
        for (size_t i = 0; i < s; i++)
            if (ids[i] == ids[s]) return false;
    }
    if (args->n_groups < 2) return is_in_order(c, n_experts, n_experts, 1, ids, n_used);
    if (args->n_groups > MOST_GROUPS) return false;
    double scores[MOST_GROUPS];
    const size_t size = n_experts / args->n_groups;
    for (size_t g = 0; g < args->n_groups; g++)
        scores[g] = group_score(args->group_score, c + g * size, size);
    return any_set_allows(args, scores, c, n_experts, ids, n_used, 0, 0, args->n_groups_used);
}

void reference_route_weights(const struct engine_op_route *args, const double *p, const int32_t *ids,
                             size_t n_used, struct expected *out)
{
    double sum = 0, scale = args->scale == 0 ? 1 : (double)args->scale;
    for (size_t s = 0; s < n_used; s++) sum += p[ids[s]];
    if (args->normalise) scale /= fmax(sum, (double)args->floor);
    for (size_t s = 0; s < n_used; s++) {
        out[s].value = p[ids[s]] * scale;
        out[s].bound = 1e-5 * fabs(out[s].value) + 1e-30;
    }
}

/* plan-step.h: what the queue does next: which requests start, give up their place, or have tokens computed in the next
 * step. Pure arithmetic over what is known of the requests: nothing runs here, so that it can be tested on paper. */
#ifndef ENGINE_QUEUE_PLAN_STEP_H
#define ENGINE_QUEUE_PLAN_STEP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A request that waits or runs. */
struct step_request {
    int32_t priority;
    bool held;        /* waits, and must not start now */
    bool running;     /* has a sequence */
    bool decoding;    /* its prompt is in the cache: what is pending is computed in one step */
    size_t n_cached;  /* tokens in the cache; of one that waits, those that it finds there */
    size_t n_unowned; /* of one that waits: those of n_cached that count as free still */
    size_t n_pending; /* tokens to compute before its next one can be chosen, one at least */
    size_t n_now;     /* the plan: those of the next step; 0: none */
};

struct step_limits {
    uint32_t n_sequences;    /* of the context */
    uint32_t block;          /* positions of the cache that are handed out together */
    uint64_t free_positions; /* that can still be handed out, a multiple of `block` */
    size_t n_batch;          /* tokens of prompts in a step where nobody decodes */
    size_t n_chunk;          /* where somebody does */
};

enum plan_action {
    PLAN_NOTHING,  /* there is no request */
    PLAN_START,    /* requests[*which] gets a sequence; then plan again */
    PLAN_PUT_BACK, /* requests[*which] gives its sequence and its positions back, and waits; then plan again */
    PLAN_FULL,     /* requests[*which] has the cache for itself and needs more: it can't go on */
    PLAN_RUN       /* n_now tokens of each request are computed */
};

/* `requests` [n] in order of rank: higher priorities first, within a priority the older before the younger.
 *
 * Requests that decode come first, all of them. Prompts share what the step takes beside: three quarters by rank, the
 * rest by how little is missing, so that a short prompt behind a long one soon has its first token. A request starts
 * when the cache has room for all that it needs until its first token; one of higher priority puts back those of lower
 * ones for that. Where a running request finds no room, the last in rank is put back. */
enum plan_action plan_step(struct step_request *requests, size_t n, const struct step_limits *limits,
                           size_t *which);

#endif

/* step-plan.h: decides what the queue does next: which requests start, which give up their place, and how
 * many tokens of each the next step computes. Pure arithmetic on what is known of the requests. Nothing runs
 * here, so it can be tested without a model. */
#ifndef ENGINE_QUEUE_STEP_PLAN_H
#define ENGINE_QUEUE_STEP_PLAN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A request that waits or runs. */
struct step_request {
    int32_t priority;
    bool held;        /* waiting, and must not start now */
    bool running;     /* has a sequence */
    bool decoding;    /* its prompt is in the cache: its pending tokens are computed in one step */
    size_t n_cached;  /* tokens in the cache; if it waits, those it would find there */
    size_t n_unowned; /* if it waits: of n_cached that count as free, and a copy */
    size_t n_pending; /* tokens to compute before its next one can be chosen, at least one */
    /* Of a request with beams; all 0 for others. */
    uint32_t n_beside;  /* sequences that it has or takes besides its first */
    uint32_t n_growing; /* those of them that are decoded along with the first, and grow as it does */
    size_t n_parting;   /* blocks that they take besides, where they no longer share one */

    size_t n_now;   /* the plan: tokens to compute in the next step; of each sequence that grows */
    size_t n_guess; /* guessed tokens to compute with them, see step_room */
};

struct step_limits {
    uint32_t n_sequences;    /* of the context */
    uint32_t block;          /* positions of the cache in one block */
    uint64_t free_positions; /* a multiple of `block` */
    size_t n_batch;          /* prompt tokens in a step while no request decodes */
    size_t n_chunk;          /* while one does */
    bool whole;              /* prompts are computed at once: of an encoder */
};

enum step_action {
    STEP_NOTHING,  /* there is no request */
    STEP_START,    /* requests[*which] gets a sequence; then plan again */
    STEP_PUT_BACK, /* requests[*which] gives back its sequence and positions, and waits; then plan again */
    STEP_FULL,     /* requests[*which] has the whole cache and needs more: it can't continue */
    STEP_AGAIN,    /* not an answer of step_plan: the caller made room that the plan did not know of */
    STEP_RUN       /* n_now tokens of each request are computed */
};

/* `requests` [n] are in order of rank: higher priorities first, and older requests first within a priority.
 *
 * All requests that decode are in the step. Prompts share the rest of it: three quarters by rank, one quarter
 * to those with the fewest tokens left, so that a short prompt queued after a long one soon gets its first
 * token. A request starts when the cache has room for everything it needs up to its first token; to make
 * room, it puts back requests of lower priority. If a running request finds no room, the lowest-ranking one
 * is put back. */
enum step_action step_plan(struct step_request *requests, size_t n, const struct step_limits *limits,
                           size_t *which);

/* How many tokens more than planned, n_now and n_guess, request `which` has room for. */
size_t step_room(const struct step_request *requests, size_t n, const struct step_limits *limits,
                 size_t which);

#endif

/* predict.h: what a token and a prompt cost under a plan: messages and their bytes, counted as the executor sends them,
 * and seconds, from how fast devices and links are. */
#ifndef ENGINE_PLAN_PREDICT_H
#define ENGINE_PLAN_PREDICT_H

#include "devices/limits.h"
#include "graph/schedule.h"

struct engine_plan;

/* What is done on a device, and what it takes to reach it. */
struct plan_share {
    double reading, computing;  /* seconds of operations that wait for memory, and of those that don't */
    double overhead;            /* seconds of starting operations */
    double messages;            /* seconds */
    uint64_t n_messages, bytes; /* of commands and answers */
};

/* Tokens that are computed together. */
struct plan_batch {
    const struct schedule *schedule;
    uint64_t n_tokens, position; /* position of the first */
    bool has_logits;
};

/* The time of a step's operations, which is added to its device's share. */
double predict_operations(const struct engine_plan *plan, const struct plan_batch *batch,
                          const struct step *step, struct plan_share *share);

/* Runs batches one after the other, as fast as devices and links are, and waits for all. Adds to shares[n_devices].
 * Without time, only messages count. */
int predict_run(const struct engine_plan *plan, const struct plan_batch *batches, size_t n, bool with_time,
                struct plan_share *shares, double *seconds);

#endif

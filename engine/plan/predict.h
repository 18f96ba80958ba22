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
};

/* Adds to shares[n_devices] what a batch costs. */
void predict_operations(const struct engine_plan *plan, const struct plan_batch *batch,
                        struct plan_share *shares);
void predict_messages(const struct engine_plan *plan, const struct schedule *schedule,
                      struct plan_share *shares);

#endif

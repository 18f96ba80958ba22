/* measure.h: how fast devices are: their speeds, by which a model is shared between several; and their paces,
 * how fast they compute and are reached, as predictions need it: measured, or described in a file
 * (cluster.h). Both come from trials of products. */
#ifndef ENGINE_DEVICES_MEASURE_H
#define ENGINE_DEVICES_MEASURE_H

#include "devices/open.h"

/* ---- Trials: how long products take on a device (trial.c) ---- */

/* A product with weights [k, rows], or with two such matrices, one of which is the gate. */
struct trial_matrix {
    uint64_t k, rows;
    bool has_gate;
};

/* Products with weights of one type, one after the other: with each matrix in turn, all in memory of their
 * own; `columns` of the input. */
struct trial_chain {
    uint32_t type;
    uint64_t columns;
    struct trial_matrix *matrices; /* [n] */
    size_t n;
};

enum { TRIAL_ROUNDS = 15 };

/* Measures in rounds of one or more chains, of `least` seconds at least. *fastest, *typical: seconds that a
 * chain takes in the fastest of 5 rounds, because other programs may use the machine during some, and in the
 * median of TRIAL_ROUNDS, or of those that some seconds suffice for; one of them may be NULL.
 * ENGINE_ERROR_MEMORY: there is too little; ENGINE_ERROR_UNSUPPORTED: no such product. */
int trial_run(const struct open_device *device, const struct trial_chain *chain, double least,
              double *fastest, double *typical);
/* Bytes of the weights of a product. */
uint64_t trial_bytes(uint32_t type, const struct trial_matrix *matrix);

/* ---- Speeds ---- */

/* Sets the speed of every device except the CPU: from the setting `speeds`, else from a matmul of a few
 * milliseconds, run when the engine first needs the speeds. A device that cannot be measured keeps 0, and a
 * warning gives the reason. */
void devices_measure(struct device_set *set);

/* Warns about accelerators of this machine, chosen though nobody asked for them, that are less than half as
 * fast as the CPU: a plugin can call anything an accelerator. Measures both, unless the setting `speeds` has
 * them. */
void devices_warn_slow(struct device_set *set);

/* Warns about names in the setting `speeds` that no listed device has. Requires devices_lock. */
void devices_report_speeds(const struct engine *engine);

/* ---- Paces ---- */

/* Bytes of weights that tell how fast memory is read: many more than caches hold. */
#define PACE_BYTES (UINT64_C(512) << 20)

/* Fills the pace and the link of each device of the set that has none. `tokens` [n]: for each type whose own
 * pace matters, the products of a token with weights of this type, in order, up to PACE_BYTES; the most
 * frequent type first, at most PACE_TYPES. Takes part of a second for each device and type. ENGINE_ERROR…: a
 * device can't be measured. */
int devices_measure_pace(struct device_set *set, const struct trial_chain *tokens, size_t n);

/* Bytes of weights per second, and operations per second, in products with weights of this type. */
struct pace_of_type pace_for(const struct device_pace *pace, uint32_t type);

#endif

/* rope-turns.h: how far rope turns each pair of values from one position to the next, as a fraction of a turn in 64 bits,
 * computed once in double precision: a position times that, modulo 1, is an integer multiplication that overflows, so that
 * kernels have exact angles at any position. */
#ifndef GPU_ROPE_TURNS_H
#define GPU_ROPE_TURNS_H

#include <stdbool.h>

#include "plugin-api.h"

/* What the turns depend on. */
struct rope_key {
    uint32_t n_dims;
    float theta, position_scale;
    const struct engine_weight *factors; /* or NULL */
};

struct rope_key rope_key(const struct engine_op_rope *args, const struct engine_weight *factors);
bool rope_key_equal(const struct rope_key *a, const struct rope_key *b);
/* Fills turns[n_dims / 2]; factors: the values of the key's weight, or NULL. */
int rope_turns(const struct engine_host *host, const struct rope_key *key, const float *factors,
               uint64_t *turns);

#endif

/* rope-turns.c: see rope-turns.h. */
#include "rope-turns.h"

#include <math.h>

static const double pi = 3.14159265358979323846;

struct rope_key rope_key(const struct engine_op_rope *args, const struct engine_weight *factors)
{
    return (struct rope_key){.n_dims = args->n_dims,
                             .theta = args->theta,
                             .position_scale = args->position_scale == 0 ? 1 : args->position_scale,
                             .factors = factors};
}

bool rope_key_equal(const struct rope_key *a, const struct rope_key *b)
{
    return a->n_dims == b->n_dims && a->theta == b->theta && a->position_scale == b->position_scale &&
           a->factors == b->factors;
}

int rope_turns(const struct engine_host *host, const struct rope_key *key, const float *factors,
               uint64_t *turns)
{
    for (uint32_t i = 0; i < key->n_dims / 2; i++) {
        double angle = (double)key->position_scale * pow((double)key->theta, -2.0 * i / key->n_dims);
        if (factors) angle /= (double)factors[i];
        double turn = angle / (2 * pi), whole = floor(turn), part = ldexp(turn - whole, 64);
        if (!isfinite(turn))
            return host->fail(ENGINE_ERROR_DATA,
                              "rope: theta %g, scale %g and the factors do not give finite angles",
                              (double)key->theta, (double)key->position_scale);
        turns[i] = part < 0x1p64 ? (uint64_t)part : 0; /* rounded up to a whole turn */
    }
    return ENGINE_OK;
}

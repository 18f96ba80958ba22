/* rope-table.c: see rope-table.h. */
#include "rope-table.h"

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>

static const double pi = 3.14159265358979323846;

/* What the turns depend on. */
struct key {
    uint32_t n_dims;
    float theta, position_scale;
    const struct engine_weight *factors; /* or NULL */
};

struct rope_table {
    struct rope_table *next;
    struct key key;
    void *memory;
};

static bool is_equal(const struct key *a, const struct key *b)
{
    return a->n_dims == b->n_dims && a->theta == b->theta && a->position_scale == b->position_scale &&
           a->factors == b->factors;
}

static int fill_turns(const struct engine_host *host, const struct key *key, const float *factors,
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

int rope_table_get(const struct engine_host *host, struct engine_device *device, struct rope_tables *tables,
                   const struct engine_op_rope *args, const struct engine_weight *factors,
                   const float *values, void **memory)
{
    struct key key = {.n_dims = args->n_dims,
                      .theta = args->theta,
                      .position_scale = args->position_scale == 0 ? 1 : args->position_scale,
                      .factors = factors};
    for (struct rope_table *table = tables->first; table; table = table->next) {
        if (!is_equal(&table->key, &key)) continue;
        *memory = table->memory;
        return ENGINE_OK;
    }
    uint64_t size = key.n_dims / 2 * sizeof(uint64_t);
    struct rope_table *table = calloc(1, sizeof *table);
    uint64_t *turns = malloc(size);
    int status = table && turns ? fill_turns(host, &key, values, turns)
                                : host->fail(ENGINE_ERROR_MEMORY, "out of memory (rope angles)");
    if (!status) status = tables->create(device, turns, size, &table->memory);
    free(turns);
    if (status) {
        free(table);
        return status;
    }
    table->key = key;
    table->next = tables->first;
    tables->first = table;
    *memory = table->memory;
    return ENGINE_OK;
}

void rope_tables_forget(struct engine_device *device, struct rope_tables *tables,
                        const struct engine_weight *factors)
{
    for (struct rope_table **link = &tables->first; *link;) {
        struct rope_table *table = *link;
        if (factors && table->key.factors != factors) {
            link = &table->next;
            continue;
        }
        *link = table->next;
        tables->destroy(device, table->memory);
        free(table);
    }
}

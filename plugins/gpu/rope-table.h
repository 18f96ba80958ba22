/* rope-table.h: the angle that rope turns each pair of values by from one position to the next, in device
 * memory, one table for each set of parameters. A turn is a fraction of the full circle in 64 bits, computed
 * once in double precision. Position times turn, modulo 2^64, is then an integer multiplication that
 * overflows, and kernels have exact angles at any position. */
#ifndef GPU_ROPE_TABLE_H
#define GPU_ROPE_TABLE_H

#include "plugin-api.h"

struct rope_table;

/* The tables of a device, and the plugin's function to upload one. */
struct rope_tables {
    struct rope_table *first;
    /* Uploads size bytes. *memory is the plugin's own. */
    int (*create)(struct engine_device *device, const uint64_t *turns, uint64_t size, void **memory);
    void (*destroy)(struct engine_device *device, void *memory);
};

/* Finds or makes the table [n_dims / 2] of an operation; *memory belongs to the tables. factors: the
 * operation's weight, with its values, or NULL for both. */
int rope_table_get(const struct engine_host *host, struct engine_device *device, struct rope_tables *tables,
                   const struct engine_op_rope *args, const struct engine_weight *factors,
                   const float *values, void **memory);
/* Frees the tables that were made from a weight; NULL: all tables. */
void rope_tables_forget(struct engine_device *device, struct rope_tables *tables,
                        const struct engine_weight *factors);

#endif

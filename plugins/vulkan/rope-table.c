/* rope-table.c: how far each pair of values turns from one position to the next, as a fraction of a turn in 64 bits,
 * computed once in double precision; see shaders/rope.comp. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "device.h"

static const double pi = 3.14159265358979323846;

static int compute(const struct rope_table *table, uint64_t *turns)
{
    for (uint32_t i = 0; i < table->n_dims / 2; i++) {
        double angle = (double)table->position_scale * pow((double)table->theta, -2.0 * i / table->n_dims);
        if (table->factors) angle /= (double)table->factors->values[i];
        double turn = angle / (2 * pi), whole = floor(turn), part = ldexp(turn - whole, 64);
        if (!isfinite(turn))
            return vulkan_host->fail(ENGINE_ERROR_DATA,
                                     "rope: theta %g, scale %g and the factors give no finite angle",
                                     (double)table->theta, (double)table->position_scale);
        turns[i] = part < 0x1p64 ? (uint64_t)part : 0; /* rounded up to a whole turn */
    }
    return ENGINE_OK;
}

/* Nothing that runs knows the table yet: where the host sees it, it's written at once. */
static int fill(struct engine_device *device, const struct rope_table *table, const uint64_t *turns,
                uint64_t size)
{
    uint8_t *mapped = memory_pointer(&table->range);
    if (!mapped) return upload_bytes(device, &table->range, 0, turns, size);
    memcpy(mapped, turns, size);
    return ENGINE_OK;
}

int rope_table_get(struct engine_device *device, const struct engine_op_rope *args,
                   const struct engine_weight *factors, const struct memory_range **range)
{
    float scale = args->position_scale == 0 ? 1 : args->position_scale;
    for (struct rope_table *table = device->rope_tables; table; table = table->next) {
        if (table->n_dims != args->n_dims || table->theta != args->theta || table->position_scale != scale ||
            table->factors != factors)
            continue;
        *range = &table->range;
        return ENGINE_OK;
    }
    uint64_t size = args->n_dims / 2 * sizeof(uint64_t);
    struct rope_table *table = calloc(1, sizeof *table);
    uint64_t *turns = malloc(size);
    int status = ENGINE_OK;
    if (!table || !turns) {
        status = vulkan_host->fail(ENGINE_ERROR_MEMORY, "no memory for rope's angles");
        goto cleanup;
    }
    *table = (struct rope_table){
        .n_dims = args->n_dims, .theta = args->theta, .position_scale = scale, .factors = factors};
    status = compute(table, turns);
    if (!status) status = memory_allocate(device, MEMORY_DEVICE, size, "rope", &table->range);
    if (!status) status = fill(device, table, turns, size);
    if (!status) {
        table->next = device->rope_tables;
        device->rope_tables = table;
        *range = &table->range;
        table = NULL;
    }

cleanup:
    if (table) memory_free(device, &table->range);
    free(table);
    free(turns);
    return status;
}

void rope_tables_forget(struct engine_device *device, const struct engine_weight *factors)
{
    for (struct rope_table **link = &device->rope_tables; *link;) {
        struct rope_table *table = *link;
        if (factors && table->factors != factors) {
            link = &table->next;
            continue;
        }
        *link = table->next;
        memory_free(device, &table->range);
        free(table);
    }
}

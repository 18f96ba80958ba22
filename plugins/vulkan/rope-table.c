/* rope-table.c: the turns of rope (gpu/rope-turns.h) in device memory. */
#include <stdlib.h>
#include <string.h>

#include "device.h"

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
    struct rope_key key = rope_key(args, factors);
    for (struct rope_table *table = device->rope_tables; table; table = table->next) {
        if (!rope_key_equal(&table->key, &key)) continue;
        *range = &table->range;
        return ENGINE_OK;
    }
    uint64_t size = args->n_dims / 2 * sizeof(uint64_t);
    struct rope_table *table = calloc(1, sizeof *table);
    uint64_t *turns = malloc(size);
    int status = ENGINE_OK;
    if (!table || !turns) {
        status = vulkan_host->fail(ENGINE_ERROR_MEMORY, "out of memory (rope angles)");
        goto cleanup;
    }
    table->key = key;
    status = rope_turns(vulkan_host, &key, factors ? factors->values : NULL, turns);
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
        if (factors && table->key.factors != factors) {
            link = &table->next;
            continue;
        }
        *link = table->next;
        memory_free(device, &table->range);
        free(table);
    }
}

/* engine-adapter.c: the functions of engine.h for adapters. */
#include <stdlib.h>

#include "base/error.h"
#include "base/sized.h"
#include "internal.h"

int engine_adapter_open(struct engine_model *model, const char *path, struct engine_adapter **out)
{
    struct engine_adapter *adapter = calloc(1, sizeof *adapter);
    if (!adapter) return error_memory("adapter");
    adapter->model = model;
    int status = adapter_open(model->model, path, &adapter->adapter);
    if (status) {
        free(adapter);
        return status;
    }
    adapter->next = model->adapters;
    model->adapters = adapter;
    *out = adapter;
    return ENGINE_OK;
}

void engine_adapter_close(struct engine_adapter *adapter)
{
    if (!adapter) return;
    struct engine_adapter **link = &adapter->model->adapters;
    while (*link != adapter) link = &(*link)->next;
    *link = adapter->next;
    adapter_close(adapter->adapter);
    free(adapter);
}

int engine_adapter_get_info(const struct engine_adapter *adapter, struct engine_adapter_info *info)
{
    const struct adapter *a = adapter->adapter;
    int status = SIZED_CHECK(info, engine_adapter_info, rank);
    if (status) return status;
    struct engine_adapter_info known = {.path = a->path, .format = a->format, .n_tensors = a->n_parts};
    for (size_t i = 0; i < a->n_parts; i++) {
        known.size += a->parts[i].a.size + a->parts[i].b.size;
        if (adapter_rank(&a->parts[i]) > known.rank) known.rank = adapter_rank(&a->parts[i]);
    }
    sized_write(info, &known, sizeof known);
    return ENGINE_OK;
}

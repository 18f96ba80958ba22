/* adapter.c: see adapter.h. */
#include "adapter/adapter.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/error.h"
#include "model/types.h"
#include "plugin-types.h"

void *adapter_allocate(struct adapter *adapter, uint64_t size)
{
    void **memory = realloc(adapter->memory, (adapter->n_memory + 1) * sizeof *memory);
    if (memory) adapter->memory = memory;
    void *block = memory && size <= SIZE_MAX ? calloc(1, size > 0 ? (size_t)size : 1) : NULL;
    if (!block)
        error_memory("adapter");
    else
        memory[adapter->n_memory++] = block;
    return block;
}

static int compare_targets(const void *a, const void *b)
{
    return strcmp(((const struct adapter_part *)a)->target, ((const struct adapter_part *)b)->target);
}

/* Whether the two factors fit each other. With the target they are compared when a graph is built. */
static int check_part(const struct adapter *adapter, const struct adapter_part *part)
{
    const uint64_t *a = part->a.ne, *b = part->b.ne;
    bool fit = b[0] == (part->is_rows ? a[0] : a[1]) && a[2] == b[2] && a[3] == 1 && b[3] == 1;
    if (fit && (!part->is_rows || a[2] == 1)) return ENGINE_OK;
    return error_raise(ENGINE_ERROR_DATA,
                       "%s: the factors of %s do not fit each other: %" PRIu64 " x %" PRIu64 " x %" PRIu64
                       " and %" PRIu64 " x %" PRIu64 " x %" PRIu64,
                       adapter->path, part->target, a[0], a[1], a[2], b[0], b[1], b[2]);
}

/* Infinite or missing numbers would look like damage to the model, far from here. */
static int check_values(const struct adapter *adapter, const struct model_tensor *tensor)
{
    const struct type_info *type = type_info(tensor->type);
    size_t n = (size_t)tensor->ne[0], row_size = n / type->block_length * type->block_size;
    if (!tensor->data || n == 0) return ENGINE_OK;
    float *values = malloc(n * sizeof *values);
    if (!values) return error_memory("adapter");
    bool finite = true;
    for (uint64_t row = 0; row < tensor->ne[1] * tensor->ne[2] && finite; row++) {
        engine_weight_to_float(engine_layout_of(tensor->type), (const uint8_t *)tensor->data + row * row_size,
                               n, values);
        for (size_t i = 0; i < n; i++) finite = finite && isfinite(values[i]);
    }
    free(values);
    if (finite) return ENGINE_OK;
    return error_raise(ENGINE_ERROR_DATA, "%s: the values of %s are not all finite numbers: it is damaged",
                       adapter->path, tensor->name);
}

static int check_parts(const struct adapter *adapter)
{
    if (adapter->n_parts == 0)
        return error_raise(ENGINE_ERROR_DATA, "%s: the adapter changes nothing: it has no low-rank factors",
                           adapter->path);
    qsort(adapter->parts, adapter->n_parts, sizeof *adapter->parts, compare_targets);
    for (size_t i = 0; i < adapter->n_parts; i++) {
        const struct adapter_part *part = &adapter->parts[i];
        int status = check_part(adapter, part);
        if (!status) status = check_values(adapter, &part->a);
        if (!status) status = check_values(adapter, &part->b);
        if (status) return status;
        if (i > 0 && compare_targets(&adapter->parts[i - 1], &adapter->parts[i]) == 0)
            return error_raise(ENGINE_ERROR_DATA, "%s: it changes %s twice", adapter->path,
                               adapter->parts[i].target);
    }
    return ENGINE_OK;
}

/* What its format is. A folder's file lacks the scale. */
static int read_adapter(const struct model *model, struct adapter *adapter)
{
    static const char ending[] = ".safetensors";
    const char *path = adapter->path;
    struct stat info;
    size_t length = strlen(path), n = strlen(ending);
    if (stat(path, &info) == 0 && S_ISDIR(info.st_mode)) return adapter_read_peft(model, adapter);
    if (length >= n && strcmp(path + length - n, ending) == 0)
        return error_raise(ENGINE_ERROR_ARGUMENT,
                           "%s: name the adapter's folder, which has adapter_config.json too", path);
    return adapter_read_gguf(model, adapter);
}

int adapter_open(const struct model *model, const char *path, struct adapter **out)
{
    struct adapter *adapter = calloc(1, sizeof *adapter);
    if (!adapter) return error_memory("adapter");
    adapter->path = strdup(path);
    int status = adapter->path ? ENGINE_OK : error_memory("adapter");
    if (!status) status = read_adapter(model, adapter);
    if (!status) status = check_parts(adapter);
    if (status)
        adapter_close(adapter);
    else
        *out = adapter;
    return status;
}

void adapter_close(struct adapter *adapter)
{
    if (!adapter) return;
    model_close(adapter->file);
    for (size_t i = 0; i < adapter->n_memory; i++) free(adapter->memory[i]);
    free(adapter->memory);
    free(adapter->parts);
    free(adapter->path);
    free(adapter);
}

const struct adapter_part *adapter_find(const struct adapter *adapter, const char *target)
{
    const struct adapter_part key = {.target = target};
    return bsearch(&key, adapter->parts, adapter->n_parts, sizeof *adapter->parts, compare_targets);
}

/* adapter.c: see adapter.h. Adapters in GGUF files are as llama.cpp's convert_lora_to_gguf writes them:
 * general.type "adapter", adapter.type "lora", adapter.lora.alpha, and for each matrix NAME the tensors
 * NAME.lora_a [n_in, r] and NAME.lora_b [r, n_out]; for experts with a third dimension. The token
 * embedding's are [r, n_vocab] and [r, n_embd]. */
#include <inttypes.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "adapter/internal.h"
#include "base/checked.h"
#include "base/error.h"
#include "base/half.h"
#include "common/array.h"
#include "common/assert.h"
#include "engine/internal.h"
#include "model/hf/directory.h"
#include "model/types.h"
#include "plugin-types.h"

void *adapter_allocate(struct adapter *adapter, uint64_t size)
{
    bool has_room = size <= SIZE_MAX && ARRAY_GROW(adapter->memory, adapter->n_memory);
    void *block = has_room ? calloc(1, size > 0 ? (size_t)size : 1) : NULL;
    if (!block)
        error_memory("adapter");
    else
        adapter->memory[adapter->n_memory++] = block;
    return block;
}

int adapter_make_tensor(struct adapter *adapter, const char *name, uint32_t type, const uint64_t ne[3],
                        struct model_tensor *tensor)
{
    uint64_t size;
    if (!type_row_size(type, ne[0], &size) || checked_mul(size, ne[1], &size) ||
        checked_mul(size, ne[2], &size))
        return error_memory("adapter");
    void *data = adapter_allocate(adapter, size);
    if (!data) return ENGINE_ERROR_MEMORY;
    *tensor = (struct model_tensor){.name = name,
                                    .type = type,
                                    .n_dims = ne[2] > 1 ? 3 : 2,
                                    .ne = {ne[0], ne[1], ne[2], 1},
                                    .data = data,
                                    .size = size};
    return ENGINE_OK;
}

/* ---- GGUF files ---------------------------------------------------------------------------------------- */

#define SUFFIX_SIZE 7 /* of ".lora_a" */

static bool text_is(const struct metadata *metadata, const char *key, const char *expected)
{
    struct engine_string text;
    return metadata_string(metadata, key, &text) && text.length == strlen(expected) &&
           memcmp(text.data, expected, text.length) == 0;
}

static int check_kind(const struct model *model, const struct adapter *adapter)
{
    const struct metadata *metadata = model_metadata(adapter->file);
    struct engine_string family = {0}, expected = {0};
    if (!text_is(metadata, "general.type", "adapter"))
        return error_raise(ENGINE_ERROR_DATA,
                           "%s is not an adapter: its general.type is not \"adapter\" (is it a model?)",
                           adapter->path);
    if (!text_is(metadata, "adapter.type", "lora"))
        return error_raise(ENGINE_ERROR_UNSUPPORTED, "%s: only adapters of type \"lora\" are supported",
                           adapter->path);
    if (metadata_find(metadata, "adapter.alora.invocation_tokens"))
        return error_raise(ENGINE_ERROR_UNSUPPORTED,
                           "%s: activated LoRA (adapter.alora.invocation_tokens) is not supported",
                           adapter->path);
    metadata_string(model_metadata(model), "general.architecture", &expected);
    if (!metadata_string(metadata, "general.architecture", &family) || family.length != expected.length ||
        memcmp(family.data, expected.data, family.length) != 0)
        return error_raise(ENGINE_ERROR_DATA,
                           "%s is an adapter of another model: its family is %.*s, that of %s is %.*s",
                           adapter->path, (int)family.length, family.length ? family.data : "",
                           model_path(model), (int)expected.length, expected.length ? expected.data : "");
    return ENGINE_OK;
}

static bool ends_with(const char *name, const char *suffix)
{
    size_t length = strlen(name), n = strlen(suffix);
    return length > n && strcmp(name + length - n, suffix) == 0;
}

/* Adds the part whose first factor is `a`. */
static int add_part(struct adapter *adapter, const struct model_tensor *a, double alpha)
{
    size_t length = strlen(a->name) - SUFFIX_SIZE;
    char *target = adapter_allocate(adapter, length + 1);
    char *other = adapter_allocate(adapter, length + SUFFIX_SIZE + 1);
    if (!target || !other) return ENGINE_ERROR_MEMORY;
    memcpy(target, a->name, length);
    memcpy(other, a->name, length);
    memcpy(other + length, ".lora_b", SUFFIX_SIZE);
    const struct model_tensor *b = model_tensor_find(adapter->file, other);
    if (!b)
        return error_raise(ENGINE_ERROR_DATA, "%s: %s has no counterpart %s", adapter->path, a->name, other);
    adapter->parts[adapter->n_parts++] = (struct adapter_part){
        .target = target,
        .is_rows = strcmp(target, "token_embd.weight") == 0 || strcmp(target, "position_embd.weight") == 0,
        .a = *a,
        .b = *b,
        .scale = (float)(alpha != 0 ? alpha / (double)b->ne[0] : 1),
    };
    return ENGINE_OK;
}

/* The factors of token_types are those of a product, [n_values, r] and [r, n_rows]; they become rows. */
static int turn_types(struct adapter *adapter, struct adapter_part *part)
{
    const struct model_tensor a = part->a;
    uint64_t rank = a.ne[1], n_values = a.ne[0];
    if (strcmp(part->target, "token_types.weight") != 0) return ENGINE_OK;
    if (!is_float_type(a.type) || a.ne[2] != 1)
        return error_raise(ENGINE_ERROR_UNSUPPORTED,
                           "%s: the factor %s has a type or shape that it can't have", adapter->path, a.name);
    part->a = part->b;
    part->is_rows = true;
    int status =
        adapter_make_tensor(adapter, a.name, ENGINE_TYPE_F32, (uint64_t[3]){rank, n_values, 1}, &part->b);
    float *to = (float *)(uintptr_t)part->b.data;
    for (uint64_t i = 0; i < n_values * rank && !status; i++)
        to[i] = float_at(a.type, a.data, i % rank * n_values + i / rank);
    return status;
}

static int read_gguf(const struct model *model, struct adapter *adapter)
{
    double alpha = 0;
    adapter->format = "GGUF";
    int status = model_open(adapter->path, NULL, &adapter->file);
    if (status) return error_wrap(status, "reading an adapter");
    status = check_kind(model, adapter);
    if (status) return status;
    metadata_float(model_metadata(adapter->file), "adapter.lora.alpha", &alpha);
    if (!isfinite(alpha))
        return error_raise(ENGINE_ERROR_DATA, "%s: adapter.lora.alpha is not finite", adapter->path);
    size_t n = model_tensor_count(adapter->file);
    adapter->parts = calloc(n + 1, sizeof *adapter->parts);
    if (!adapter->parts) return error_memory("adapter");
    for (size_t i = 0; i < n && !status; i++) {
        const struct model_tensor *tensor = model_tensor_at(adapter->file, i);
        if (ends_with(tensor->name, ".lora_a")) {
            status = add_part(adapter, tensor, alpha);
            if (!status) status = turn_types(adapter, &adapter->parts[adapter->n_parts - 1]);
        } else if (!ends_with(tensor->name, ".lora_b")) {
            status = error_raise(ENGINE_ERROR_UNSUPPORTED,
                                 "%s: the tensor %s is not a factor of a low-rank adapter (NAME.lora_a, "
                                 "NAME.lora_b); trained biases and whole tensors are not supported",
                                 adapter->path, tensor->name);
        }
    }
    /* Each .lora_a has its .lora_b; so if there are as many of both, each .lora_b has its .lora_a. */
    if (!status && 2 * adapter->n_parts != n)
        status = error_raise(ENGINE_ERROR_DATA, "%s: a tensor NAME.lora_b has no counterpart NAME.lora_a",
                             adapter->path);
    return status;
}

/* ---- Adapters ------------------------------------------------------------------------------------------ */

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
    bool exists = stat(path, &info) == 0;
    if (exists && S_ISDIR(info.st_mode)) return adapter_read_peft(model, adapter);
    if (!exists && adapter_is_task(model, path)) return adapter_read_task(model, adapter);
    if (length >= n && strcmp(path + length - n, ending) == 0)
        return error_raise(ENGINE_ERROR_ARGUMENT,
                           "%s: name the adapter's folder, which has adapter_config.json too", path);
    return read_gguf(model, adapter);
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

/* ---- The functions of engine.h ------------------------------------------------------------------------- */

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

int engine_adapter_open_task(struct engine_model *model, const char *task, struct engine_adapter **out)
{
    char path[PATH_MAX];
    if (!model_is_directory(model->model))
        return error_raise(ENGINE_ERROR_NOT_FOUND, "%s has no adapters for tasks: it is not a directory",
                           model_path(model->model));
    char *folder = hf_folder(model_path(model->model));
    if (!folder) return error_memory("adapter");
    snprintf(path, sizeof path, "%s/%s", folder, task);
    free(folder);
    return engine_adapter_open(model, path, out);
}

void engine_adapter_close(struct engine_adapter *adapter)
{
    if (!adapter) return;
    struct engine_adapter **link = &adapter->model->adapters;
    while (*link != adapter) {
        ENGINE_ASSERT(*link); /* the model has it in its list */
        link = &(*link)->next;
    }
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

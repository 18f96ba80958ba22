/* safetensors.c: see safetensors.h. The header is {"NAME": {"dtype": "F32", "shape": [2, 3], "data_offsets":
 * [FROM, TO]}, …}, with offsets from the end of the header; "__metadata__" is not a tensor. */
#include "model/safetensors.h"

#include <inttypes.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "base/checked.h"
#include "base/error.h"
#include "common/json-read.h"
#include "common/printable.h"
#include "model/file.h"

#define MAX_HEADER 100000000 /* bytes, by the format */
#define METADATA   "__metadata__"

struct safetensors {
    char *path;
    const uint8_t *data; /* [size], the file */
    uint64_t size;
    uint64_t data_start;
    json_t *header;                     /* owns the names */
    struct safetensors_tensor *tensors; /* [n_tensors] */
    size_t n_tensors;
    struct names names;
};

/* The format's types. */
static const struct element_type {
    const char *name;
    uint32_t size; /* bytes */
    uint32_t type;
} element_types[] = {
    {"F32", 4, ENGINE_TYPE_F32},
    {"F16", 2, ENGINE_TYPE_F16},
    {"BF16", 2, ENGINE_TYPE_BF16},
    {"F64", 8, SAFETENSORS_OTHER_TYPE},
    {"F8_E4M3", 1, SAFETENSORS_OTHER_TYPE},
    {"F8_E5M2", 1, SAFETENSORS_OTHER_TYPE},
    {"F8_E8M0", 1, SAFETENSORS_OTHER_TYPE},
    {"I64", 8, SAFETENSORS_OTHER_TYPE},
    {"I32", 4, SAFETENSORS_OTHER_TYPE},
    {"I16", 2, SAFETENSORS_OTHER_TYPE},
    {"I8", 1, SAFETENSORS_OTHER_TYPE},
    {"U64", 8, SAFETENSORS_OTHER_TYPE},
    {"U32", 4, SAFETENSORS_OTHER_TYPE},
    {"U16", 2, SAFETENSORS_OTHER_TYPE},
    {"U8", 1, SAFETENSORS_OTHER_TYPE},
    {"BOOL", 1, SAFETENSORS_OTHER_TYPE},
};

static const struct element_type *find_type(const char *name)
{
    for (size_t i = 0; i < sizeof element_types / sizeof *element_types; i++)
        if (strcmp(element_types[i].name, name) == 0) return &element_types[i];
    return NULL;
}

static bool is_count(const json_t *json)
{
    return json_is_integer(json) && json_integer_value(json) >= 0;
}

/* Reads the shape; *elements receives the product. */
static int read_shape(const struct safetensors *file, struct safetensors_tensor *tensor, const json_t *shape,
                      uint64_t *elements)
{
    size_t n = json_array_size(shape);
    if (!json_is_array(shape) || n > SAFETENSORS_MAX_DIMS)
        return error_raise(ENGINE_ERROR_DATA, "%s: %s has no shape of at most %d dimensions", file->path,
                           tensor->name, SAFETENSORS_MAX_DIMS);
    tensor->n_dims = (uint32_t)n;
    *elements = 1;
    for (size_t i = 0; i < n; i++) {
        const json_t *dim = json_array_get(shape, i);
        if (!is_count(dim) || checked_mul(*elements, (uint64_t)json_integer_value(dim), elements))
            return error_raise(ENGINE_ERROR_DATA, "%s: %s has an impossible shape", file->path, tensor->name);
        tensor->ne[i] = (uint64_t)json_integer_value(dim);
    }
    return ENGINE_OK;
}

/* Sets the tensor's data; `size`: the bytes that its type and shape take. */
static int locate(const struct safetensors *file, struct safetensors_tensor *tensor, const json_t *offsets,
                  uint64_t size)
{
    const json_t *from = json_array_get(offsets, 0), *to = json_array_get(offsets, 1);
    if (json_array_size(offsets) != 2 || !is_count(from) || !is_count(to))
        return error_raise(ENGINE_ERROR_DATA, "%s: %s has no data_offsets of two numbers", file->path,
                           tensor->name);
    uint64_t start = (uint64_t)json_integer_value(from), end = (uint64_t)json_integer_value(to);
    if (end < start || end - start != size)
        return error_raise(ENGINE_ERROR_DATA,
                           "%s: %s has data from byte %" PRIu64 " to %" PRIu64 "; its shape takes %" PRIu64
                           " bytes",
                           file->path, tensor->name, start, end, size);
    if (end > file->size - file->data_start)
        return error_raise(ENGINE_ERROR_DATA,
                           "%s: the data of %s ends after the file: it is truncated or damaged", file->path,
                           tensor->name);
    tensor->data = file->data + file->data_start + start;
    tensor->size = size;
    return ENGINE_OK;
}

static int read_entry(struct safetensors *file, const char *name, const json_t *entry)
{
    struct safetensors_tensor *tensor = &file->tensors[file->n_tensors];
    uint64_t elements = 1, size;
    if (!name[0] || !printable_is(name, strlen(name)))
        return error_raise(ENGINE_ERROR_DATA, "%s: tensor %zu has no valid name", file->path,
                           file->n_tensors);
    *tensor = (struct safetensors_tensor){.name = name};
    const char *type_name = json_string_value(json_object_get(entry, "dtype"));
    const struct element_type *type = type_name ? find_type(type_name) : NULL;
    if (!type)
        return error_raise(ENGINE_ERROR_DATA, "%s: %s has the type %.32s, which is unknown", file->path, name,
                           type_name ? type_name : "(none)");
    tensor->type = type->type;
    tensor->type_name = type->name;
    int status = read_shape(file, tensor, json_object_get(entry, "shape"), &elements);
    if (status) return status;
    if (checked_mul(elements, type->size, &size))
        return error_raise(ENGINE_ERROR_DATA, "%s: %s has an impossible shape", file->path, name);
    status = locate(file, tensor, json_object_get(entry, "data_offsets"), size);
    if (!status) file->n_tensors++;
    return status;
}

static int compare_starts(const void *a, const void *b)
{
    const struct safetensors_tensor *const *left = a, *const *right = b;
    uintptr_t l = (uintptr_t)(*left)->data, r = (uintptr_t)(*right)->data;
    if (l != r) return l < r ? -1 : 1;
    return ((*left)->size > (*right)->size) - ((*left)->size < (*right)->size);
}

/* If tensors could overlap, a small file could claim any amount of memory. What belongs to no tensor at
 * the end, others refuse, too. */
static int check_places(const struct safetensors *file)
{
    const struct safetensors_tensor **sorted = calloc(file->n_tensors + 1, sizeof *sorted);
    if (!sorted) return error_memory("tensor list");
    for (size_t i = 0; i < file->n_tensors; i++) sorted[i] = &file->tensors[i];
    qsort(sorted, file->n_tensors, sizeof *sorted, compare_starts);
    int status = ENGINE_OK;
    for (size_t i = 1; i < file->n_tensors && !status; i++) {
        const struct safetensors_tensor *left = sorted[i - 1], *right = sorted[i];
        if ((uintptr_t)right->data - (uintptr_t)left->data < left->size)
            status =
                error_raise(ENGINE_ERROR_DATA, "%s: %s and %s overlap", file->path, left->name, right->name);
    }
    const struct safetensors_tensor *last = file->n_tensors ? sorted[file->n_tensors - 1] : NULL;
    uintptr_t end = last ? (uintptr_t)last->data + last->size : (uintptr_t)file->data + file->data_start;
    uint64_t rest = file->size - (uint64_t)(end - (uintptr_t)file->data);
    if (!status && rest > 0)
        status = error_raise(ENGINE_ERROR_DATA,
                             "%s: %" PRIu64 " bytes follow the last tensor: the file is damaged", file->path,
                             rest);
    free(sorted);
    return status;
}

/* Nothing of it is used, but a file that others refuse is damaged. */
static int check_metadata(const struct safetensors *file, json_t *metadata)
{
    const char *key;
    json_t *value;
    if (json_is_null(metadata)) return ENGINE_OK;
    if (!json_is_object(metadata))
        return error_raise(ENGINE_ERROR_DATA, "%s: its " METADATA " is not a JSON object", file->path);
    json_object_foreach(metadata, key, value)
    {
        if (!json_is_string(value))
            return error_raise(ENGINE_ERROR_DATA, "%s: its " METADATA " has a value that is not text",
                               file->path);
    }
    return ENGINE_OK;
}

static int read_tensor_list(struct safetensors *file)
{
    const char *name;
    json_t *entry;
    size_t count = json_object_size(file->header);
    file->tensors = calloc(count + 1, sizeof *file->tensors);
    if (!file->tensors) return error_memory("tensor list");
    json_object_foreach(file->header, name, entry)
    {
        bool is_metadata = strcmp(name, METADATA) == 0;
        int status = is_metadata ? check_metadata(file, entry) : read_entry(file, name, entry);
        if (status) return status;
    }
    int status = check_places(file);
    if (!status) status = names_create(&file->names, file->n_tensors);
    if (status) return status;
    for (size_t i = 0; i < file->n_tensors; i++) names_add(&file->names, file->tensors[i].name, i);
    names_sort(&file->names); /* no name occurs twice: the header was read with JSON_REJECT_DUPLICATES */
    return ENGINE_OK;
}

static int read_header(struct safetensors *file)
{
    uint64_t length;
    json_error_t error;
    if (file->size < sizeof length)
        return error_raise(ENGINE_ERROR_DATA, "%s is not a safetensors file: it has %" PRIu64 " bytes",
                           file->path, file->size);
    memcpy(&length, file->data, sizeof length);
    if (length > MAX_HEADER || length > file->size - sizeof length)
        return error_raise(ENGINE_ERROR_DATA,
                           "%s: a header of %" PRIu64 " bytes does not fit: the file is truncated, or no "
                           "safetensors file",
                           file->path, length);
    file->data_start = sizeof length + length;
    file->header =
        json_read((const char *)file->data + sizeof length, (size_t)length, JSON_REJECT_DUPLICATES, &error);
    if (!file->header)
        return error_raise(ENGINE_ERROR_DATA, "%s: its header is not valid JSON: %s", file->path, error.text);
    if (!json_is_object(file->header))
        return error_raise(ENGINE_ERROR_DATA, "%s: its header is not a JSON object", file->path);
    return read_tensor_list(file);
}

int safetensors_open(const char *path, struct safetensors **out)
{
    struct safetensors *file = calloc(1, sizeof *file);
    if (!file) return error_memory("safetensors");
    file->path = strdup(path);
    int status = file->path ? model_map_file(path, &file->data, &file->size) : error_memory("safetensors");
    if (!status) status = read_header(file);
    if (status)
        safetensors_close(file);
    else
        *out = file;
    return status;
}

void safetensors_close(struct safetensors *file)
{
    if (!file) return;
    names_destroy(&file->names);
    json_decref(file->header);
    free(file->tensors);
    model_unmap_file(file->data, file->size);
    free(file->path);
    free(file);
}

uint64_t safetensors_file_size(const struct safetensors *file)
{
    return file->size;
}

bool safetensors_contains(const struct safetensors *file, const void *data, uint64_t size)
{
    uintptr_t start = (uintptr_t)data, map = (uintptr_t)file->data;
    return start >= map && start - map <= file->size && size <= file->size - (start - map);
}

size_t safetensors_count(const struct safetensors *file)
{
    return file->n_tensors;
}

const struct safetensors_tensor *safetensors_at(const struct safetensors *file, size_t index)
{
    return &file->tensors[index];
}

const struct safetensors_tensor *safetensors_find(const struct safetensors *file, const char *name)
{
    size_t position;
    return names_find(&file->names, name, &position) ? &file->tensors[position] : NULL;
}

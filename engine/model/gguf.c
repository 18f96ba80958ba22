/* gguf.c: reads GGUF files, versions 2 and 3, as described in
 * https://github.com/ggml-org/ggml/blob/master/docs/gguf.md: header, metadata, tensor list, padding, tensor
 * data. Numbers are little-endian; strings begin with their length in 64 bits. Nothing in the file is
 * trusted. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/checked.h"
#include "base/error.h"
#include "common/printable.h"
#include "model/file.h"
#include "model/types.h"

#define DEFAULT_ALIGNMENT 32
#define MAX_KEY           65535 /* bytes, by GGUF's specification */
#define MAX_TENSOR_NAME   255   /* GGUF's limit is 64; longer names do no harm */

/* The fewest bytes that an entry of the metadata and of the tensor list can take: they limit the counts. */
#define MIN_ENTRY_SIZE  (8 + 1 + 4 + 1)
#define MIN_TENSOR_SIZE (8 + 1 + 4 + 8 + 4 + 8)

/* The reading position. at <= size. */
struct cursor {
    const uint8_t *data; /* [size] */
    uint64_t size, at;
};

static bool gguf_take(struct cursor *cursor, uint64_t size, const uint8_t **bytes)
{
    if (size > cursor->size - cursor->at) return false;
    *bytes = cursor->data + cursor->at;
    cursor->at += size;
    return true;
}

static bool take_u32(struct cursor *cursor, uint32_t *value)
{
    const uint8_t *bytes;
    if (!gguf_take(cursor, sizeof *value, &bytes)) return false;
    memcpy(value, bytes, sizeof *value);
    return true;
}

static bool take_u64(struct cursor *cursor, uint64_t *value)
{
    const uint8_t *bytes;
    if (!gguf_take(cursor, sizeof *value, &bytes)) return false;
    memcpy(value, bytes, sizeof *value);
    return true;
}

static bool take_string(struct cursor *cursor, struct engine_string *value)
{
    uint64_t length;
    const uint8_t *bytes;
    if (!take_u64(cursor, &length) || !gguf_take(cursor, length, &bytes)) return false;
    *value = (struct engine_string){(const char *)bytes, (size_t)length};
    return true;
}

/* Names appear in messages, on terminals and as C strings: they may not be empty or have control
 * characters. */
static bool name_is_sane(const struct engine_string *name, size_t max_length)
{
    if (name->length == 0 || name->length > max_length) return false;
    return printable_is(name->data, name->length);
}

/* A NUL-terminated copy that lives as long as the metadata; NULL if out of memory. */
static char *keep_name(struct metadata *metadata, const struct engine_string *name)
{
    char *copy = metadata_allocate(metadata, name->length + 1);
    if (!copy) return NULL;
    memcpy(copy, name->data, name->length);
    copy[name->length] = '\0';
    return copy;
}

static int fail_cut(const struct model *model, const char *where)
{
    return error_raise(ENGINE_ERROR_DATA, "%s: the file ends within %s; it is truncated or damaged",
                       model->path, where);
}

/* ---- Metadata ---- */

/* Reads entry->count strings. */
static int read_strings(struct model *model, struct cursor *cursor, struct metadata_entry *entry)
{
    /* Each has a length of 8 bytes in the file, so less than twice the file's size is allocated here. */
    if (entry->count > (cursor->size - cursor->at) / 8) return fail_cut(model, entry->key);
    struct engine_string *strings =
        metadata_allocate(model->metadata, entry->count * sizeof(struct engine_string));
    if (!strings) return error_memory("metadata");
    for (size_t i = 0; i < entry->count; i++)
        if (!take_string(cursor, &strings[i])) return fail_cut(model, entry->key);
    entry->values = strings;
    return ENGINE_OK;
}

/* Locates entry->count numbers or booleans: they stay in the file. */
static int read_numbers(const struct model *model, struct cursor *cursor, struct metadata_entry *entry)
{
    uint64_t size;
    const uint8_t *bytes;
    if (checked_mul(entry->count, metadata_element_size(entry->type), &size) ||
        !gguf_take(cursor, size, &bytes))
        return fail_cut(model, entry->key);
    if (entry->type == METADATA_BOOL)
        for (size_t i = 0; i < entry->count; i++)
            if (bytes[i] > 1)
                return error_raise(ENGINE_ERROR_DATA, "%s: %s is %u; it must be true or false", model->path,
                                   entry->key, bytes[i]);
    entry->values = bytes;
    return ENGINE_OK;
}

static int read_entry(struct model *model, struct cursor *cursor, uint64_t index)
{
    struct engine_string key;
    uint32_t type;
    uint64_t count = 1;
    if (!take_string(cursor, &key) || !take_u32(cursor, &type)) return fail_cut(model, "the metadata");
    if (!name_is_sane(&key, MAX_KEY))
        return error_raise(ENGINE_ERROR_DATA, "%s: metadata entry %" PRIu64 " has no valid key", model->path,
                           index);

    struct metadata_entry entry = {.key = keep_name(model->metadata, &key)};
    if (!entry.key) return error_memory("metadata");
    if (type == METADATA_ARRAY) {
        entry.is_array = true;
        if (!take_u32(cursor, &type) || !take_u64(cursor, &count)) return fail_cut(model, entry.key);
        if (type == METADATA_ARRAY)
            return error_raise(ENGINE_ERROR_UNSUPPORTED,
                               "%s: %s is an array of arrays, which is not supported", model->path,
                               entry.key);
    }
    if (type != METADATA_STRING && metadata_element_size(type) == 0)
        return error_raise(ENGINE_ERROR_DATA,
                           "%s: %s has the value type %" PRIu32 ", which does not exist in GGUF", model->path,
                           entry.key, type);
    if (count > SIZE_MAX) return fail_cut(model, entry.key);
    entry.type = type;
    entry.count = (size_t)count;

    int status =
        type == METADATA_STRING ? read_strings(model, cursor, &entry) : read_numbers(model, cursor, &entry);
    return status ? status : metadata_add(model->metadata, &entry);
}

static int read_metadata(struct model *model, struct cursor *cursor, uint64_t count)
{
    if (count > (cursor->size - cursor->at) / MIN_ENTRY_SIZE) return fail_cut(model, "the metadata");
    for (uint64_t i = 0; i < count; i++) {
        int status = read_entry(model, cursor, i);
        if (status) return status;
    }
    int status = metadata_finish(model->metadata);
    return status ? error_wrap(status, "%s", model->path) : ENGINE_OK;
}

/* *alignment is unchanged if the file doesn't give one. */
static int read_alignment(const struct model *model, uint64_t *alignment)
{
    int64_t value = (int64_t)*alignment;
    if (metadata_find(model->metadata, "general.alignment") &&
        !metadata_integer(model->metadata, "general.alignment", &value))
        return error_raise(ENGINE_ERROR_DATA, "%s: general.alignment is not an integer", model->path);
    if (value < 8 || (value & (value - 1)) != 0)
        return error_raise(ENGINE_ERROR_DATA,
                           "%s: general.alignment is %" PRId64 "; it must be a power of two and at least 8",
                           model->path, value);
    *alignment = (uint64_t)value;
    return ENGINE_OK;
}

/* ---- Tensors ---- */

/* Calculates the size in bytes of a tensor whose type and shape are set. */
static int measure_tensor(const struct model *model, struct model_tensor *tensor)
{
    const struct type_info *type = type_info(tensor->type);
    if (!type)
        return error_raise(ENGINE_ERROR_UNSUPPORTED,
                           "%s: %s has type %" PRIu32 " (%s), which is not supported", model->path,
                           tensor->name, tensor->type, type_foreign_name(tensor->type));
    uint64_t elements = 1;
    for (uint32_t d = 0; d < 4; d++)
        if (tensor->ne[d] == 0 || checked_mul(elements, tensor->ne[d], &elements))
            return error_raise(ENGINE_ERROR_DATA, "%s: %s has an impossible shape", model->path,
                               tensor->name);
    if (tensor->ne[0] % type->block_length != 0)
        return error_raise(ENGINE_ERROR_DATA,
                           "%s: %s has rows of %" PRIu64 " values, which is not a multiple of %s's %" PRIu32,
                           model->path, tensor->name, tensor->ne[0], type->name, type->block_length);
    if (checked_mul(elements / type->block_length, type->block_size, &tensor->size))
        return error_raise(ENGINE_ERROR_DATA, "%s: %s has an impossible shape", model->path, tensor->name);
    return ENGINE_OK;
}

/* Reads an entry of the tensor list; *offset is relative to the start of the tensor data. */
static int read_tensor(struct model *model, struct cursor *cursor, struct model_tensor *tensor,
                       uint64_t *offset)
{
    struct engine_string name;
    if (!take_string(cursor, &name) || !take_u32(cursor, &tensor->n_dims))
        return fail_cut(model, "the tensor list");
    if (!name_is_sane(&name, MAX_TENSOR_NAME))
        return error_raise(ENGINE_ERROR_DATA, "%s: tensor %zu has no valid name", model->path,
                           model->n_tensors);
    tensor->name = keep_name(model->metadata, &name);
    if (!tensor->name) return error_memory("tensor list");
    if (tensor->n_dims < 1 || tensor->n_dims > 4)
        return error_raise(ENGINE_ERROR_DATA, "%s: %s has %" PRIu32 " dimensions; it must have 1 to 4",
                           model->path, tensor->name, tensor->n_dims);
    for (uint32_t d = 0; d < 4; d++) tensor->ne[d] = 1;
    for (uint32_t d = 0; d < tensor->n_dims; d++)
        if (!take_u64(cursor, &tensor->ne[d])) return fail_cut(model, "the tensor list");
    if (!take_u32(cursor, &tensor->type) || !take_u64(cursor, offset))
        return fail_cut(model, "the tensor list");
    return measure_tensor(model, tensor);
}

/* Sets tensor->data; tensor->size is known. */
static int locate_tensor(const struct model *model, struct model_tensor *tensor, uint64_t data_start,
                         uint64_t offset, uint64_t alignment)
{
    uint64_t start, end;
    if (offset % alignment != 0)
        return error_raise(ENGINE_ERROR_DATA,
                           "%s: %s starts at %" PRIu64 ", which is not a multiple of %" PRIu64, model->path,
                           tensor->name, offset, alignment);
    if (checked_add(data_start, offset, &start) || checked_add(start, tensor->size, &end))
        return error_raise(ENGINE_ERROR_DATA, "%s: %s has an impossible offset in the file", model->path,
                           tensor->name);
    if (end > model->size)
        return error_raise(ENGINE_ERROR_DATA,
                           "%s: %s ends at byte %" PRIu64 ", but the file has %" PRIu64
                           " bytes: it is truncated or damaged",
                           model->path, tensor->name, end, model->size);
    tensor->data = model->data + start;
    return ENGINE_OK;
}

static int compare_places(const void *a, const void *b)
{
    const struct model_tensor *const *left = a, *const *right = b;
    uintptr_t l = (uintptr_t)(*left)->data, r = (uintptr_t)(*right)->data;
    return (l > r) - (l < r);
}

/* No writer makes tensors overlap. If they could, a small file could claim any amount of memory. */
static int check_overlaps(const struct model *model)
{
    const struct model_tensor **by_place = calloc(model->n_tensors + 1, sizeof *by_place);
    if (!by_place) return error_memory("tensor list");
    for (size_t i = 0; i < model->n_tensors; i++) by_place[i] = &model->tensors[i];
    qsort(by_place, model->n_tensors, sizeof *by_place, compare_places);

    int status = ENGINE_OK;
    for (size_t i = 1; i < model->n_tensors && !status; i++) {
        const struct model_tensor *left = by_place[i - 1], *right = by_place[i];
        if ((uintptr_t)right->data - (uintptr_t)left->data < left->size)
            status =
                error_raise(ENGINE_ERROR_DATA, "%s: %s and %s overlap", model->path, left->name, right->name);
    }
    free(by_place);
    return status;
}

static int read_tensors(struct model *model, struct cursor *cursor, uint64_t count, uint64_t alignment)
{
    if (count > (cursor->size - cursor->at) / MIN_TENSOR_SIZE) return fail_cut(model, "the tensor list");
    int status = model_reserve_tensors(model, (size_t)count);
    if (status) return status;
    uint64_t *offsets = calloc((size_t)count + 1, sizeof *offsets); /* [count], from the start of the data */
    if (!offsets) return error_memory("tensor list");
    while (model->n_tensors < count) {
        status = read_tensor(model, cursor, &model->tensors[model->n_tensors], &offsets[model->n_tensors]);
        if (status) goto cleanup;
        model->n_tensors++;
    }
    uint64_t data_start;
    if (checked_align(cursor->at, alignment, &data_start)) {
        status = error_raise(ENGINE_ERROR_DATA, "%s: general.alignment is too large", model->path);
        goto cleanup;
    }
    for (size_t i = 0; i < model->n_tensors; i++) {
        status = locate_tensor(model, &model->tensors[i], data_start, offsets[i], alignment);
        if (status) goto cleanup;
    }
    status = check_overlaps(model);

cleanup:
    free(offsets);
    return status;
}

int gguf_read_file(struct model *model)
{
    struct cursor cursor = {.data = model->data, .size = model->size, .at = 4}; /* after "GGUF" */
    uint32_t version;
    if (!take_u32(&cursor, &version)) return fail_cut(model, "its header");
    if (version == 0x02000000 || version == 0x03000000)
        return error_raise(ENGINE_ERROR_UNSUPPORTED,
                           "%s is a big-endian GGUF file: convert it to little-endian", model->path);
    if (version != 2 && version != 3)
        return error_raise(ENGINE_ERROR_UNSUPPORTED,
                           "%s is GGUF version %" PRIu32 "; this engine reads 2 and 3", model->path, version);
    snprintf(model->format, sizeof model->format, "GGUF %" PRIu32, version);

    uint64_t n_tensors, n_entries, alignment = DEFAULT_ALIGNMENT;
    if (!take_u64(&cursor, &n_tensors) || !take_u64(&cursor, &n_entries))
        return fail_cut(model, "its header");
    int status = read_metadata(model, &cursor, n_entries);
    if (status) return status;
    status = read_alignment(model, &alignment);
    if (status) return status;
    return read_tensors(model, &cursor, n_tensors, alignment);
}

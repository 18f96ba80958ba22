/* gguf-write.c: see gguf-write.h. For the format see gguf.c. */
#include "model/gguf-write.h"

#include <stdlib.h>
#include <string.h>

#include "base/checked.h"
#include "base/error.h"

#define DEFAULT_ALIGNMENT 32
#define VERSION           3

/* Bytes on their way out; with `to` NULL they are only counted. */
struct sink {
    uint8_t *to; /* [at …] */
    size_t at;
};

static void gguf_put(struct sink *sink, const void *bytes, size_t size)
{
    if (sink->to && size > 0) memcpy(sink->to + sink->at, bytes, size);
    sink->at += size;
}

static void put_u32(struct sink *sink, uint32_t value)
{
    gguf_put(sink, &value, sizeof value);
}

static void put_u64(struct sink *sink, uint64_t value)
{
    gguf_put(sink, &value, sizeof value);
}

static void put_string(struct sink *sink, const char *data, size_t length)
{
    put_u64(sink, length);
    gguf_put(sink, data, length);
}

static void put_entry(struct sink *sink, const struct metadata_entry *entry)
{
    put_string(sink, entry->key, strlen(entry->key));
    if (entry->is_array) {
        put_u32(sink, METADATA_ARRAY);
        put_u32(sink, entry->type);
        put_u64(sink, entry->count);
    } else {
        put_u32(sink, entry->type);
    }
    if (entry->type != METADATA_STRING) {
        gguf_put(sink, entry->values, entry->count * metadata_element_size(entry->type));
        return;
    }
    const struct engine_string *strings = entry->values;
    for (size_t i = 0; i < entry->count; i++) put_string(sink, strings[i].data, strings[i].length);
}

static void put_tensor(struct sink *sink, const struct gguf_tensor *tensor)
{
    put_string(sink, tensor->name, strlen(tensor->name));
    put_u32(sink, tensor->n_dims);
    for (uint32_t d = 0; d < tensor->n_dims; d++) put_u64(sink, tensor->ne[d]);
    put_u32(sink, tensor->type);
    put_u64(sink, tensor->offset);
}

static void put_all(struct sink *sink, const struct metadata *metadata, const struct gguf_tensor *tensors,
                    size_t n_tensors)
{
    gguf_put(sink, "GGUF", 4);
    put_u32(sink, VERSION);
    put_u64(sink, n_tensors);
    put_u64(sink, metadata_count(metadata));
    for (size_t i = 0; i < metadata_count(metadata); i++) put_entry(sink, metadata_at(metadata, i));
    for (size_t i = 0; i < n_tensors; i++) put_tensor(sink, &tensors[i]);
}

int gguf_header(const struct metadata *metadata, struct gguf_tensor *tensors, size_t n_tensors,
                uint8_t **bytes, size_t *size, uint64_t *alignment)
{
    int64_t own = DEFAULT_ALIGNMENT;
    uint64_t offset = 0;
    metadata_integer(metadata, "general.alignment", &own); /* reading has checked it */
    *alignment = (uint64_t)own;
    for (size_t i = 0; i < n_tensors; i++) {
        tensors[i].offset = offset;
        if (checked_add(offset, tensors[i].size, &offset) || checked_align(offset, *alignment, &offset))
            return error_raise(ENGINE_ERROR_DATA, "%s: too large for a file", tensors[i].name);
    }
    /* Everything written here has been read from a file, so its size fits. */
    struct sink sink = {0};
    put_all(&sink, metadata, tensors, n_tensors);
    sink.to = malloc(sink.at);
    if (!sink.to) return error_memory("header");
    *size = sink.at;
    sink.at = 0;
    put_all(&sink, metadata, tensors, n_tensors);
    *bytes = sink.to;
    return ENGINE_OK;
}

/* metadata.h: the typed key-value pairs of a model, under GGUF's names. */
#ifndef ENGINE_MODEL_METADATA_H
#define ENGINE_MODEL_METADATA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "plugin-api.h"

/* GGUF's value types and their numbers. */
enum metadata_type {
    METADATA_U8,
    METADATA_I8,
    METADATA_U16,
    METADATA_I16,
    METADATA_U32,
    METADATA_I32,
    METADATA_F32,
    METADATA_BOOL,
    METADATA_STRING,
    METADATA_ARRAY,
    METADATA_U64,
    METADATA_I64,
    METADATA_F64
};

struct metadata_entry {
    const char *key;         /* ended by NUL */
    enum metadata_type type; /* of the value, or of the elements if it is an array */
    bool is_array;
    size_t count; /* 1, or the elements of the array */
    const void
        *values; /* [count] packed numbers, maybe unaligned; struct engine_string [count] for strings */
};

struct metadata;

size_t metadata_count(const struct metadata *metadata);
const struct metadata_entry *metadata_at(const struct metadata *metadata,
                                         size_t index); /* in the file's order */
const struct metadata_entry *metadata_find(const struct metadata *metadata,
                                           const char *key); /* NULL if none */

/* Values of scalars; false if there is no such key or its value is of another kind or doesn't fit. */
bool metadata_string(const struct metadata *metadata, const char *key, struct engine_string *value);
bool metadata_integer(const struct metadata *metadata, const char *key, int64_t *value);
bool metadata_float(const struct metadata *metadata, const char *key, double *value);
bool metadata_boolean(const struct metadata *metadata, const char *key, bool *value);

/* Element `index` of an entry of integers, or of floats; false if it isn't one, or out of range. */
bool metadata_entry_integer(const struct metadata_entry *entry, size_t index, int64_t *value);
bool metadata_entry_float(const struct metadata_entry *entry, size_t index, double *value);

/* The same through the plugin border; *getters is filled and points to `metadata`. */
void metadata_getters(const struct metadata *metadata, struct engine_metadata *getters);

#endif

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
    const char *key;         /* NUL-terminated */
    enum metadata_type type; /* of the value, or of the elements if it is an array */
    bool is_array;
    size_t count; /* 1, or the number of elements of the array */
    /* [count] packed numbers, possibly unaligned; struct engine_string [count] for strings */
    const void *values;
};

struct metadata;

size_t metadata_count(const struct metadata *metadata);
/* In the file's order. */
const struct metadata_entry *metadata_at(const struct metadata *metadata, size_t index);
/* NULL if there is none. */
const struct metadata_entry *metadata_find(const struct metadata *metadata, const char *key);

/* The type for people: "u32", "str", "arr[f32]". */
const char *metadata_entry_type(const struct metadata_entry *entry);

/* Values of scalars; false if there is no such key, or its value has another kind or does not fit. */
bool metadata_string(const struct metadata *metadata, const char *key, struct engine_string *value);
bool metadata_integer(const struct metadata *metadata, const char *key, int64_t *value);
bool metadata_float(const struct metadata *metadata, const char *key, double *value);
bool metadata_boolean(const struct metadata *metadata, const char *key, bool *value);

/* Element `index` of an entry of integers (or booleans, as 0 and 1) or floats; false if it has another kind,
 * is out of range or does not fit. */
bool metadata_entry_integer(const struct metadata_entry *entry, size_t index, int64_t *value);
bool metadata_entry_float(const struct metadata_entry *entry, size_t index, double *value);

/* The same for plugins: fills *getters, which point to `metadata`. */
void metadata_getters(const struct metadata *metadata, struct engine_metadata *getters);

/* ---- For readers of files ---- */

int metadata_create(struct metadata **metadata);
void metadata_destroy(struct metadata *metadata);

/* Memory that lives as long as the metadata; NULL if there is none left. */
void *metadata_allocate(struct metadata *metadata, size_t size);

/* Bytes of an element; 0 for strings, arrays and unknown types. */
size_t metadata_element_size(uint32_t type);

/* Adds an entry. The data that `entry` points to is not copied and must outlive the metadata.
 * ENGINE_ERROR_MEMORY. */
int metadata_add(struct metadata *metadata, const struct metadata_entry *entry);

/* Add a scalar, which is copied. */
int metadata_add_u32(struct metadata *metadata, const char *key, uint32_t value);
int metadata_add_f32(struct metadata *metadata, const char *key, float value);
int metadata_add_boolean(struct metadata *metadata, const char *key, bool value);
int metadata_add_string(struct metadata *metadata, const char *key, const char *text);

/* Replaces the entry of the key, or adds one, also after metadata_finish. ENGINE_ERROR_MEMORY. */
int metadata_set(struct metadata *metadata, const struct metadata_entry *entry);

/* Makes the entries searchable, after the last one is added. ENGINE_ERROR_DATA: two have the same key. */
int metadata_finish(struct metadata *metadata);

#endif

/* metadata.c: see metadata.h. */
#include "model/metadata.h"

#include <stdlib.h>
#include <string.h>

#include "base/checked.h"
#include "base/error.h"
#include "common/array.h"
#include "common/assert.h"
#include "model/names.h"

#define CHUNK_SIZE 65536

/* Memory is allocated in chunks and freed all at once. */
struct chunk {
    struct chunk *next;
    size_t size, used; /* of `bytes` */
    _Alignas(max_align_t) char bytes[];
};

struct metadata {
    struct metadata_entry *entries; /* [count], room for [capacity] */
    size_t count, capacity;
    struct names keys;
    struct chunk *chunks;
};

/* Indexed by enum metadata_type. */
static const struct {
    size_t size;
    const char *name, *array_name;
} value_types[] = {
    [METADATA_U8] = {1, "u8", "arr[u8]"},       [METADATA_I8] = {1, "i8", "arr[i8]"},
    [METADATA_U16] = {2, "u16", "arr[u16]"},    [METADATA_I16] = {2, "i16", "arr[i16]"},
    [METADATA_U32] = {4, "u32", "arr[u32]"},    [METADATA_I32] = {4, "i32", "arr[i32]"},
    [METADATA_F32] = {4, "f32", "arr[f32]"},    [METADATA_BOOL] = {1, "bool", "arr[bool]"},
    [METADATA_STRING] = {0, "str", "arr[str]"}, [METADATA_U64] = {8, "u64", "arr[u64]"},
    [METADATA_I64] = {8, "i64", "arr[i64]"},    [METADATA_F64] = {8, "f64", "arr[f64]"},
};

/* ---- Building ---- */

int metadata_create(struct metadata **metadata)
{
    *metadata = calloc(1, sizeof **metadata);
    return *metadata ? ENGINE_OK : error_memory("metadata");
}

void metadata_destroy(struct metadata *metadata)
{
    if (!metadata) return;
    for (struct chunk *chunk = metadata->chunks, *next; chunk; chunk = next) {
        next = chunk->next;
        free(chunk);
    }
    names_destroy(&metadata->keys);
    free(metadata->entries);
    free(metadata);
}

void *metadata_allocate(struct metadata *metadata, size_t size)
{
    const size_t alignment = _Alignof(max_align_t);
    uint64_t rounded;
    if (checked_align(size, alignment, &rounded) || rounded > SIZE_MAX - sizeof(struct chunk)) return NULL;
    struct chunk *chunk = metadata->chunks;
    if (!chunk || chunk->size - chunk->used < rounded) {
        size_t room = rounded > CHUNK_SIZE ? (size_t)rounded : CHUNK_SIZE;
        chunk = malloc(sizeof *chunk + room);
        if (!chunk) return NULL;
        *chunk = (struct chunk){.next = metadata->chunks, .size = room};
        metadata->chunks = chunk;
    }
    void *memory = chunk->bytes + chunk->used;
    chunk->used += (size_t)rounded;
    return memory;
}

size_t metadata_element_size(uint32_t type)
{
    return type < sizeof value_types / sizeof value_types[0] ? value_types[type].size : 0;
}

int metadata_add(struct metadata *metadata, const struct metadata_entry *entry)
{
    ENGINE_ASSERT(!metadata->keys.items); /* metadata_finish ends the list */
    if (!ARRAY_RESERVE(metadata->entries, metadata->capacity, metadata->count + 1))
        return error_memory("metadata");
    metadata->entries[metadata->count++] = *entry;
    return ENGINE_OK;
}

int metadata_set(struct metadata *metadata, const struct metadata_entry *entry)
{
    bool is_finished = metadata->keys.items != NULL;
    for (size_t i = 0; i < metadata->count; i++)
        if (strcmp(metadata->entries[i].key, entry->key) == 0) {
            metadata->entries[i] = *entry;
            return ENGINE_OK;
        }
    names_destroy(&metadata->keys);
    metadata->keys = (struct names){0};
    int status = metadata_add(metadata, entry);
    return status || !is_finished ? status : metadata_finish(metadata);
}

static int add_scalar(struct metadata *metadata, const char *key, enum metadata_type type, const void *value,
                      size_t size)
{
    void *copy = metadata_allocate(metadata, size);
    if (!copy) return error_memory("metadata");
    memcpy(copy, value, size);
    return metadata_add(metadata,
                        &(struct metadata_entry){.key = key, .type = type, .count = 1, .values = copy});
}

int metadata_add_u32(struct metadata *metadata, const char *key, uint32_t value)
{
    return add_scalar(metadata, key, METADATA_U32, &value, sizeof value);
}

int metadata_add_f32(struct metadata *metadata, const char *key, float value)
{
    return add_scalar(metadata, key, METADATA_F32, &value, sizeof value);
}

int metadata_add_boolean(struct metadata *metadata, const char *key, bool value)
{
    uint8_t byte = value;
    return add_scalar(metadata, key, METADATA_BOOL, &byte, sizeof byte);
}

int metadata_add_string(struct metadata *metadata, const char *key, const char *text)
{
    size_t length = strlen(text);
    char *copy = metadata_allocate(metadata, length);
    if (!copy) return error_memory("metadata");
    memcpy(copy, text, length);
    struct engine_string value = {copy, length};
    return add_scalar(metadata, key, METADATA_STRING, &value, sizeof value);
}

int metadata_finish(struct metadata *metadata)
{
    int status = names_create(&metadata->keys, metadata->count);
    if (status) return status;
    for (size_t i = 0; i < metadata->count; i++) names_add(&metadata->keys, metadata->entries[i].key, i);
    const char *twice = names_sort(&metadata->keys);
    if (twice) return error_raise(ENGINE_ERROR_DATA, "the key %s occurs twice in the metadata", twice);
    return ENGINE_OK;
}

/* ---- Reading ---- */

size_t metadata_count(const struct metadata *metadata)
{
    return metadata->count;
}

const struct metadata_entry *metadata_at(const struct metadata *metadata, size_t index)
{
    return &metadata->entries[index];
}

const struct metadata_entry *metadata_find(const struct metadata *metadata, const char *key)
{
    size_t position;
    return names_find(&metadata->keys, key, &position) ? &metadata->entries[position] : NULL;
}

const char *metadata_entry_type(const struct metadata_entry *entry)
{
    return entry->is_array ? value_types[entry->type].array_name : value_types[entry->type].name;
}

/* Reads the element of `type` at `at`, which may be unaligned. */
#define LOAD(type, at) (*(const struct __attribute__((packed, may_alias)) { type value; } *)(at)).value

bool metadata_entry_integer(const struct metadata_entry *entry, size_t index, int64_t *value)
{
    if (index >= entry->count) return false;
    const char *at = (const char *)entry->values + index * metadata_element_size(entry->type);
    switch (entry->type) {
    case METADATA_U8:
    case METADATA_BOOL: *value = LOAD(uint8_t, at); return true;
    case METADATA_I8: *value = LOAD(int8_t, at); return true;
    case METADATA_U16: *value = LOAD(uint16_t, at); return true;
    case METADATA_I16: *value = LOAD(int16_t, at); return true;
    case METADATA_U32: *value = LOAD(uint32_t, at); return true;
    case METADATA_I32: *value = LOAD(int32_t, at); return true;
    case METADATA_I64: *value = LOAD(int64_t, at); return true;
    case METADATA_U64:
        if (LOAD(uint64_t, at) > INT64_MAX) return false;
        *value = (int64_t)LOAD(uint64_t, at);
        return true;
    default: return false;
    }
}

bool metadata_entry_float(const struct metadata_entry *entry, size_t index, double *value)
{
    if (index >= entry->count) return false;
    const char *at = (const char *)entry->values + index * metadata_element_size(entry->type);
    switch (entry->type) {
    case METADATA_F32: *value = LOAD(float, at); return true;
    case METADATA_F64: *value = LOAD(double, at); return true;
    default: return false;
    }
}

/* The entry of a key whose value is a scalar, or NULL. */
static const struct metadata_entry *find_scalar(const struct metadata *metadata, const char *key)
{
    const struct metadata_entry *entry = metadata_find(metadata, key);
    return entry && !entry->is_array ? entry : NULL;
}

bool metadata_string(const struct metadata *metadata, const char *key, struct engine_string *value)
{
    const struct metadata_entry *entry = find_scalar(metadata, key);
    if (!entry || entry->type != METADATA_STRING) return false;
    *value = *(const struct engine_string *)entry->values;
    return true;
}

bool metadata_integer(const struct metadata *metadata, const char *key, int64_t *value)
{
    const struct metadata_entry *entry = find_scalar(metadata, key);
    return entry && entry->type != METADATA_BOOL && metadata_entry_integer(entry, 0, value);
}

bool metadata_float(const struct metadata *metadata, const char *key, double *value)
{
    const struct metadata_entry *entry = find_scalar(metadata, key);
    return entry && metadata_entry_float(entry, 0, value);
}

bool metadata_boolean(const struct metadata *metadata, const char *key, bool *value)
{
    const struct metadata_entry *entry = find_scalar(metadata, key);
    if (!entry || entry->type != METADATA_BOOL) return false;
    *value = LOAD(uint8_t, entry->values) != 0;
    return true;
}

/* ---- The plugin border ---- */

static int get_string(void *context, const char *key, struct engine_string *value)
{
    return metadata_string(context, key, value) ? ENGINE_OK : ENGINE_ERROR_NOT_FOUND;
}

static int get_integer(void *context, const char *key, int64_t *value)
{
    return metadata_integer(context, key, value) ? ENGINE_OK : ENGINE_ERROR_NOT_FOUND;
}

static int get_float(void *context, const char *key, double *value)
{
    return metadata_float(context, key, value) ? ENGINE_OK : ENGINE_ERROR_NOT_FOUND;
}

static int get_boolean(void *context, const char *key, int *value)
{
    bool boolean;
    if (!metadata_boolean(context, key, &boolean)) return ENGINE_ERROR_NOT_FOUND;
    *value = boolean;
    return ENGINE_OK;
}

/* The entry of a key whose value is an array, or NULL. */
static const struct metadata_entry *find_array(const struct metadata *metadata, const char *key)
{
    const struct metadata_entry *entry = metadata_find(metadata, key);
    return entry && entry->is_array ? entry : NULL;
}

static int get_count(void *context, const char *key, size_t *count)
{
    const struct metadata_entry *entry = find_array(context, key);
    if (!entry) return ENGINE_ERROR_NOT_FOUND;
    *count = entry->count;
    return ENGINE_OK;
}

/* ENGINE_OK if elements first … first+count-1 lie within the array. */
static int check_range(const struct metadata_entry *entry, const char *key, size_t first, size_t count)
{
    if (first <= entry->count && count <= entry->count - first) return ENGINE_OK;
    return error_raise(ENGINE_ERROR_ARGUMENT, "%s has %zu elements; cannot read %zu from %zu on", key,
                       entry->count, count, first);
}

static int get_strings(void *context, const char *key, size_t first, size_t count,
                       struct engine_string *values)
{
    const struct metadata_entry *entry = find_array(context, key);
    if (!entry || entry->type != METADATA_STRING) return ENGINE_ERROR_NOT_FOUND;
    int status = check_range(entry, key, first, count);
    if (status) return status;
    const struct engine_string *strings = entry->values;
    for (size_t i = 0; i < count; i++) values[i] = strings[first + i];
    return ENGINE_OK;
}

static int get_integers(void *context, const char *key, size_t first, size_t count, int64_t *values)
{
    const struct metadata_entry *entry = find_array(context, key);
    int64_t value;
    if (!entry || metadata_element_size(entry->type) == 0 || entry->type == METADATA_F32 ||
        entry->type == METADATA_F64)
        return ENGINE_ERROR_NOT_FOUND;
    int status = check_range(entry, key, first, count);
    if (status) return status;
    for (size_t i = 0; i < count; i++) /* outputs stay untouched if one doesn't fit */
        if (!metadata_entry_integer(entry, first + i, &value)) return ENGINE_ERROR_NOT_FOUND;
    for (size_t i = 0; i < count; i++) metadata_entry_integer(entry, first + i, &values[i]);
    return ENGINE_OK;
}

static int get_floats(void *context, const char *key, size_t first, size_t count, float *values)
{
    const struct metadata_entry *entry = find_array(context, key);
    if (!entry || (entry->type != METADATA_F32 && entry->type != METADATA_F64)) return ENGINE_ERROR_NOT_FOUND;
    int status = check_range(entry, key, first, count);
    if (status) return status;
    for (size_t i = 0; i < count; i++) {
        double value = 0;
        metadata_entry_float(entry, first + i, &value);
        values[i] = (float)value;
    }
    return ENGINE_OK;
}

static int get_bytes(void *context, const char *key, struct engine_string *value)
{
    const struct metadata_entry *entry = find_array(context, key);
    if (!entry || (entry->type != METADATA_U8 && entry->type != METADATA_I8)) return ENGINE_ERROR_NOT_FOUND;
    *value = (struct engine_string){entry->values, entry->count};
    return ENGINE_OK;
}

void metadata_getters(const struct metadata *metadata, struct engine_metadata *getters)
{
    *getters = (struct engine_metadata){
        .struct_size = sizeof *getters,
        .context = (void *)metadata, /* the getters only read it */
        .get_string = get_string,
        .get_integer = get_integer,
        .get_float = get_float,
        .get_boolean = get_boolean,
        .get_count = get_count,
        .get_strings = get_strings,
        .get_integers = get_integers,
        .get_floats = get_floats,
        .get_bytes = get_bytes,
    };
}

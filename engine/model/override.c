/* override.c: metadata that a program gives in the place of a file's, as texts: "KEY=TYPE:VALUE", the form of
 * llama.cpp's --override-kv. */
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/log.h"
#include "model/file.h"

static int override_refuse(const char *text)
{
    return error_raise(ENGINE_ERROR_ARGUMENT,
                       "'%.200s' is no override of metadata: it has the form KEY=TYPE:VALUE, with a TYPE of "
                       "int, float, bool (true or false) or str",
                       text);
}

/* The key, in memory of the metadata; NULL: there is none left. */
static char *copy_key(struct model *model, const char *text, size_t length)
{
    struct engine_string family = {"", 0};
    if (*text == '.') metadata_string(model->metadata, "general.architecture", &family);
    char *key = metadata_allocate(model->metadata, family.length + length + 1);
    if (!key) return NULL;
    memcpy(key, family.data, family.length);
    memcpy(key + family.length, text, length);
    key[family.length + length] = 0;
    return key;
}

/* Whether a key's text is a type's name and a colon; then *value is what follows. */
static bool has_type(const char *text, const char *type, const char **value)
{
    size_t length = strlen(type);
    if (strncmp(text, type, length) != 0 || text[length] != ':') return false;
    *value = text + length + 1;
    return true;
}

/* Reads a value into memory of the metadata. Counts and numbers have the types that llama.cpp expects in a
 * file written from the model. */
static int read_value(struct model *model, const char *text, struct metadata_entry *entry)
{
    struct engine_string string;
    int64_t integer;
    uint32_t count;
    float number;
    uint8_t flag;
    const char *value;
    char *end = "";
    const void *read = NULL;
    size_t size = 0;
    errno = 0;
    if (has_type(text, "int", &value)) {
        integer = strtoll(value, &end, 10);
        count = (uint32_t)integer;
        entry->type = METADATA_I64, read = &integer, size = sizeof integer;
        if (integer == count) entry->type = METADATA_U32, read = &count, size = sizeof count;
    } else if (has_type(text, "float", &value)) {
        number = strtof(value, &end);
        if (!isfinite(number)) errno = ERANGE;
        entry->type = METADATA_F32, read = &number, size = sizeof number;
    } else if (has_type(text, "bool", &value)) {
        flag = strcmp(value, "true") == 0;
        if (!flag && strcmp(value, "false") != 0) errno = EINVAL;
        entry->type = METADATA_BOOL, read = &flag, size = sizeof flag;
    } else if (has_type(text, "str", &value)) {
        char *copy = metadata_allocate(model->metadata, strlen(value) + 1);
        if (!copy) return error_memory("metadata");
        string = (struct engine_string){strcpy(copy, value), strlen(value)};
        entry->type = METADATA_STRING, read = &string, size = sizeof string;
    }
    if (!read || errno || *end || (!*value && entry->type != METADATA_STRING)) return override_refuse(text);
    void *values = metadata_allocate(model->metadata, size);
    if (!values) return error_memory("metadata");
    entry->values = memcpy(values, read, size);
    entry->count = 1;
    return ENGINE_OK;
}

int model_override(struct model *model, const char *text)
{
    const char *equals = strchr(text, '=');
    struct metadata_entry entry = {0};
    if (!equals || equals == text) return override_refuse(text);
    int status = read_value(model, equals + 1, &entry);
    if (status == ENGINE_ERROR_ARGUMENT) return override_refuse(text);
    if (status) return status;
    entry.key = copy_key(model, text, (size_t)(equals - text));
    if (!entry.key) return error_memory("metadata");
    if (!metadata_find(model->metadata, entry.key))
        log_line(ENGINE_LOG_INFO, "%s: the file lacks the key %s, which is added", model->path, entry.key);
    return metadata_set(model->metadata, &entry);
}

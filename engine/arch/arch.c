/* arch.c: the table of families, and how they read metadata. See arch.h. */
#include "arch/arch.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"

static const struct architecture *const architectures[] = {&arch_llama};

/* general.architecture, ended by NUL. */
static bool architecture_name(const struct model *model, char *name, size_t size)
{
    struct engine_string text;
    if (!metadata_string(model_metadata(model), "general.architecture", &text)) return false;
    snprintf(name, size, "%.*s", (int)(text.length < size ? text.length : size - 1), text.data);
    return true;
}

const struct architecture *architecture_of(const struct model *model)
{
    char name[64];
    if (!architecture_name(model, name, sizeof name)) {
        fail(ENGINE_ERROR_DATA, "%s: no general.architecture in the metadata", model_path(model));
        return NULL;
    }
    for (size_t i = 0; i < sizeof architectures / sizeof *architectures; i++)
        if (strcmp(architectures[i]->name, name) == 0) return architectures[i];
    fail(ENGINE_ERROR_UNSUPPORTED, "%s: models of the family '%s' are not supported (known: llama)",
         model_path(model), name);
    return NULL;
}

static const struct metadata_entry *find(const struct model *model, const char *key)
{
    char name[64], full[160];
    if (!architecture_name(model, name, sizeof name)) return NULL;
    snprintf(full, sizeof full, "%s.%s", name, key);
    return metadata_find(model_metadata(model), full);
}

int arch_integer(const struct model *model, const char *key, uint32_t fallback, uint32_t *value)
{
    const struct metadata_entry *entry = find(model, key);
    *value = fallback;
    if (!entry) return ENGINE_OK;
    for (size_t i = 0; i < entry->count; i++) {
        int64_t number;
        if (!metadata_entry_integer(entry, i, &number) || number < 0 || number > INT32_MAX)
            return fail(ENGINE_ERROR_DATA, "%s: %s is not a count", model_path(model), entry->key);
        if (i > 0 && number != *value)
            return fail(ENGINE_ERROR_UNSUPPORTED,
                        "%s: %s differs from layer to layer, which is not supported", model_path(model),
                        entry->key);
        *value = (uint32_t)number;
    }
    return ENGINE_OK;
}

int arch_integer_required(const struct model *model, const char *key, uint32_t *value)
{
    int status = arch_integer(model, key, 0, value);
    if (status || *value > 0) return status;
    return fail(ENGINE_ERROR_DATA, "%s: %s is missing from the metadata, or 0", model_path(model), key);
}

int arch_float(const struct model *model, const char *key, float fallback, float *value)
{
    const struct metadata_entry *entry = find(model, key);
    double number = fallback;
    if (entry && (!metadata_entry_float(entry, 0, &number) || !isfinite(number)))
        return fail(ENGINE_ERROR_DATA, "%s: %s is not a number", model_path(model), entry->key);
    *value = (float)number;
    return ENGINE_OK;
}

bool arch_string(const struct model *model, const char *key, char *text, size_t size)
{
    const struct metadata_entry *entry = find(model, key);
    if (!entry || entry->is_array || entry->type != METADATA_STRING) return false;
    const struct engine_string *string = entry->values;
    snprintf(text, size, "%.*s", (int)(string->length < size ? string->length : size - 1), string->data);
    return true;
}

/* hparams.c: see hparams.h. */
#include "arch/hparams.h"

#include <float.h>
#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>

#include "base/error.h"

/* Of a text with NULs, what follows the first of them counts, so that it is no other text. */
static void copy_text(const struct engine_string *text, char *copy, size_t size)
{
    size_t length = text->length < size ? text->length : size - 1;
    for (size_t i = 0; i < length; i++) copy[i] = text->data[i] ? text->data[i] : '?';
    copy[length] = 0;
}

bool hparams_family(const struct model *model, char *name)
{
    struct engine_string text;
    if (!metadata_string(model_metadata(model), "general.architecture", &text)) return false;
    copy_text(&text, name, HPARAMS_PREFIX_SIZE);
    return true;
}

void hparams_fail(struct hparams *h, int status, const char *format, ...)
{
    char message[256];
    va_list args;
    if (h->status) return;
    va_start(args, format);
    vsnprintf(message, sizeof message, format, args);
    va_end(args);
    h->status = error_raise(status, "%s: %s", model_path(h->model), message);
}

static const struct metadata_entry *hparams_find(const struct hparams *h, const char *key)
{
    char full[160];
    snprintf(full, sizeof full, "%s.%s", h->prefix, key);
    return metadata_find(model_metadata(h->model), full);
}

bool hparams_has(const struct hparams *h, const char *key)
{
    return hparams_find(h, key) != NULL;
}

bool hparams_is_array(const struct hparams *h, const char *key)
{
    const struct metadata_entry *entry = hparams_find(h, key);
    return entry && entry->is_array;
}

/* Element `index` of an entry as a count. */
static uint32_t count_of(struct hparams *h, const struct metadata_entry *entry, size_t index,
                         uint32_t fallback)
{
    int64_t number;
    if (metadata_entry_integer(entry, index, &number) && number >= 0 && number <= INT32_MAX)
        return (uint32_t)number;
    hparams_fail(h, ENGINE_ERROR_DATA, "%s is not a count", entry->key);
    return fallback;
}

/* An array must have a value for each of at least n_layers layers, and no more values than the file has
 * layers. */
static bool fits_layers(struct hparams *h, const struct metadata_entry *entry, uint32_t n_layers)
{
    int64_t n_all;
    const struct metadata_entry *blocks = hparams_find(h, "block_count");
    if (!entry->is_array) return true;
    if (!blocks || blocks->is_array || !metadata_entry_integer(blocks, 0, &n_all)) n_all = n_layers;
    if (entry->count >= n_layers && n_all >= 0 && entry->count <= (uint64_t)n_all) return true;
    hparams_fail(h, ENGINE_ERROR_DATA, "%s has %zu values for %" PRId64 " layers", entry->key, entry->count,
                 n_all);
    return false;
}

uint32_t hparams_count(struct hparams *h, const char *key, uint32_t fallback)
{
    const struct metadata_entry *entry = hparams_find(h, key);
    if (!entry || h->status || !fits_layers(h, entry, 1)) return fallback;
    uint32_t count = count_of(h, entry, 0, fallback);
    for (size_t i = 1; i < entry->count; i++)
        if (count_of(h, entry, i, fallback) != count)
            hparams_fail(h, ENGINE_ERROR_UNSUPPORTED, "%s differs between layers, which is not supported",
                         entry->key);
    return h->status ? fallback : count;
}

uint32_t hparams_count_required(struct hparams *h, const char *key)
{
    uint32_t count = hparams_count(h, key, 0);
    if (count == 0)
        hparams_fail(h, ENGINE_ERROR_DATA, "%s.%s is missing from the metadata, or 0", h->prefix, key);
    return count ? count : 1;
}

uint32_t hparams_count_at(struct hparams *h, const char *key, uint32_t layer, uint32_t n_layers,
                          uint32_t fallback)
{
    const struct metadata_entry *entry = hparams_find(h, key);
    if (!entry || h->status) return fallback;
    if (!fits_layers(h, entry, n_layers)) return fallback;
    return count_of(h, entry, entry->is_array ? layer : 0, fallback);
}

uint32_t hparams_count_in(struct hparams *h, const char *key, uint32_t index)
{
    const struct metadata_entry *entry = hparams_find(h, key);
    if (!entry || h->status || index >= entry->count) return 0;
    return count_of(h, entry, index, 0);
}

float hparams_number_in(struct hparams *h, const char *key, uint32_t index, float fallback)
{
    const struct metadata_entry *entry = hparams_find(h, key);
    double number;
    if (!entry || h->status || index >= entry->count) return fallback;
    if (metadata_entry_float(entry, index, &number) && isfinite((float)number)) return (float)number;
    hparams_fail(h, ENGINE_ERROR_DATA, "%s has something else than numbers", entry->key);
    return fallback;
}

/* A finite number. */
static float read_float(struct hparams *h, const char *key, float fallback)
{
    const struct metadata_entry *entry = hparams_find(h, key);
    double number;
    int64_t integer;
    if (!entry || h->status) return fallback;
    bool is_one = !entry->is_array;
    if (is_one && metadata_entry_float(entry, 0, &number) && isfinite(number) && isfinite((float)number))
        return (float)number;
    if (is_one && metadata_entry_integer(entry, 0, &integer)) return (float)integer;
    hparams_fail(h, ENGINE_ERROR_DATA, "%s is not a number", entry->key);
    return fallback;
}

float hparams_float_from_0(struct hparams *h, const char *key, float fallback)
{
    float number = read_float(h, key, fallback);
    if (number >= 0) return number;
    hparams_fail(h, ENGINE_ERROR_DATA, "%s.%s is %g; it must be 0 or more", h->prefix, key, (double)number);
    return fallback;
}

float hparams_float_above_0(struct hparams *h, const char *key, float fallback)
{
    float number = read_float(h, key, fallback);
    if (number >= FLT_MIN) return number;
    hparams_fail(h, ENGINE_ERROR_DATA, "%s.%s is %g; it must be more than 0", h->prefix, key, (double)number);
    return fallback;
}

float hparams_number_at(struct hparams *h, const char *key, uint32_t layer, uint32_t n_layers, float fallback)
{
    const struct metadata_entry *entry = hparams_find(h, key);
    double number;
    if (!entry || h->status || !fits_layers(h, entry, n_layers)) return fallback;
    if (metadata_entry_float(entry, entry->is_array ? layer : 0, &number)) return (float)number;
    hparams_fail(h, ENGINE_ERROR_DATA, "%s is not a number", entry->key);
    return fallback;
}

float hparams_layer_number(struct hparams *h, const char *key, uint32_t layer, uint32_t n_layers)
{
    const struct metadata_entry *entry = metadata_find(model_metadata(h->model), key);
    double number;
    if (h->status) return 0;
    if (entry && entry->is_array && entry->count == n_layers && metadata_entry_float(entry, layer, &number) &&
        isfinite((float)number))
        return (float)number;
    hparams_fail(h, ENGINE_ERROR_DATA, "%s must have a number for each of %u layers", key, n_layers);
    return 0;
}

bool hparams_flag(struct hparams *h, const char *key, bool fallback)
{
    const struct metadata_entry *entry = hparams_find(h, key);
    int64_t number;
    if (!entry || h->status) return fallback;
    if (!entry->is_array && metadata_entry_integer(entry, 0, &number) && (number == 0 || number == 1))
        return number == 1;
    hparams_fail(h, ENGINE_ERROR_DATA, "%s is neither true nor false", entry->key);
    return fallback;
}

bool hparams_text(struct hparams *h, const char *key, char *text, size_t size)
{
    const struct metadata_entry *entry = hparams_find(h, key);
    if (!entry || h->status) return false;
    if (entry->is_array || entry->type != METADATA_STRING) {
        hparams_fail(h, ENGINE_ERROR_DATA, "%s is not a text", entry->key);
        return false;
    }
    copy_text(entry->values, text, size);
    return true;
}

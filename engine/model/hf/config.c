/* config.c: see config.h. Keys have changed their names over the years; the newest comes first. */
#include "model/hf/config.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "common/assert.h"
#include "model/hf/internal.h"
#include "model/hf/json.h"

#define MAX_CONFIG ((uint64_t)16 << 20) /* bytes */
#define MAX_HEAD   65536

/* The newest of alternative names, for "%.*s". */
#define FIRST(names) (int)strcspn((names), "|"), (names)

/* ---- Values -------------------------------------------------------------------------------------------- */

void hf_fail(struct hf_config *config, int status, const char *format, ...)
{
    char message[320];
    va_list args;
    if (config->status) return;
    va_start(args, format);
    vsnprintf(message, sizeof message, format, args);
    va_end(args);
    config->status = error_raise(status, "%s: %s", config->path, message);
}

void hf_refuse(struct hf_config *config, bool refused, const char *what)
{
    if (refused) hf_fail(config, ENGINE_ERROR_UNSUPPORTED, "%s is not supported", what);
}

/* The value of the first of the names that the object has, which *found receives. */
static const json_t *config_find(const json_t *object, const char *names, const char **found)
{
    *found = "";
    for (const char *name = names; name;) {
        const char *end = strchr(name, '|');
        const json_t *value = json_object_getn(object, name, end ? (size_t)(end - name) : strlen(name));
        *found = name;
        if (value && !json_is_null(value)) return value;
        name = end ? end + 1 : NULL;
    }
    return NULL;
}

const json_t *hf_get(const json_t *object, const char *names)
{
    const char *found;
    return config_find(object, names, &found);
}

double hf_number(struct hf_config *config, const json_t *object, const char *names, double fallback)
{
    const char *name;
    const json_t *value = config_find(object, names, &name);
    if (!value || config->status) return fallback;
    double number = json_number_value(value);
    if (json_is_number(value) && fabs(number) < 1e30) return number;
    hf_fail(config, ENGINE_ERROR_DATA, "%.*s is not a number", FIRST(name));
    return fallback;
}

uint32_t hf_count(struct hf_config *config, const json_t *object, const char *names, uint32_t fallback)
{
    const char *name;
    const json_t *value = config_find(object, names, &name);
    if (!value || config->status) return fallback;
    double number = json_number_value(value);
    if (json_is_number(value) && number >= 0 && number <= INT32_MAX && number == floor(number))
        return (uint32_t)number;
    hf_fail(config, ENGINE_ERROR_DATA, "%.*s is not a count", FIRST(name));
    return fallback;
}

bool hf_flag(struct hf_config *config, const json_t *object, const char *names, bool fallback)
{
    const char *name;
    const json_t *value = config_find(object, names, &name);
    if (!value || config->status) return fallback;
    if (!json_is_boolean(value))
        hf_fail(config, ENGINE_ERROR_DATA, "%.*s is neither true nor false", FIRST(name));
    return json_is_true(value);
}

const char *hf_text(struct hf_config *config, const json_t *object, const char *names)
{
    const char *name;
    const json_t *value = config_find(object, names, &name);
    if (value && !json_is_string(value))
        hf_fail(config, ENGINE_ERROR_DATA, "%.*s is not a text", FIRST(name));
    return json_string_value(value);
}

/* ---- Metadata ------------------------------------------------------------------------------------------ */

/* "ARCHITECTURE.key", owned by the metadata; NULL: an error is recorded. */
static const char *full_key(struct hf_config *config, const char *key)
{
    const char *architecture = config->architecture->name;
    size_t size = strlen(architecture) + strlen(key) + 2;
    char *full = config->status ? NULL : metadata_allocate(config->metadata, size);
    if (full)
        snprintf(full, size, "%s.%s", architecture, key);
    else if (!config->status)
        config->status = error_memory("metadata");
    return full;
}

void hf_put_count(struct hf_config *config, const char *key, uint32_t value)
{
    const char *full = full_key(config, key);
    if (full) config->status = metadata_add_u32(config->metadata, full, value);
}

void hf_put_float(struct hf_config *config, const char *key, double value)
{
    const char *full = full_key(config, key);
    if (full) config->status = metadata_add_f32(config->metadata, full, (float)value);
}

void hf_put_flag(struct hf_config *config, const char *key, bool value)
{
    const char *full = full_key(config, key);
    if (full) config->status = metadata_add_boolean(config->metadata, full, value);
}

void hf_put_text(struct hf_config *config, const char *key, const char *value)
{
    const char *full = full_key(config, key);
    if (full) config->status = metadata_add_string(config->metadata, full, value);
}

void hf_put_texts(struct hf_config *config, const char *key, const struct engine_string *values, size_t count)
{
    const char *full = full_key(config, key);
    if (full)
        config->status = metadata_add(config->metadata,
                                      &(struct metadata_entry){full, METADATA_STRING, true, count, values});
}

void hf_put_layer_flags(struct hf_config *config, const char *key, const bool *values)
{
    const char *full = full_key(config, key);
    uint8_t *copy = full ? metadata_allocate(config->metadata, config->n_layers) : NULL;
    if (full && !copy) config->status = error_memory("metadata");
    if (!copy) return;
    for (uint32_t i = 0; i < config->n_layers; i++) copy[i] = values[i];
    config->status = metadata_add(
        config->metadata,
        &(struct metadata_entry){
            .key = full, .type = METADATA_BOOL, .is_array = true, .count = config->n_layers, .values = copy});
}

/* A copy of values of four bytes. */
static void put_values(struct hf_config *config, const char *key, enum metadata_type type, const void *values,
                       size_t count)
{
    const char *full = full_key(config, key);
    size_t size = count * sizeof(uint32_t);
    void *copy = full ? metadata_allocate(config->metadata, size) : NULL;
    if (full && !copy) config->status = error_memory("metadata");
    if (!copy) return;
    memcpy(copy, values, size);
    config->status = metadata_set(
        config->metadata, &(struct metadata_entry){
                              .key = full, .type = type, .is_array = true, .count = count, .values = copy});
}

void hf_put_layer_counts(struct hf_config *config, const char *key, const uint32_t *values)
{
    ENGINE_ASSERT(config->n_layers <= HF_MAX_LAYERS);
    put_values(config, key, METADATA_U32, values, config->n_layers);
}

void hf_put_layer_floats(struct hf_config *config, const char *key, const float *values)
{
    ENGINE_ASSERT(config->n_layers <= HF_MAX_LAYERS);
    put_values(config, key, METADATA_F32, values, config->n_layers);
}

void hf_put_floats(struct hf_config *config, const char *key, const float *values, size_t count)
{
    put_values(config, key, METADATA_F32, values, count);
}

void hf_put_counts(struct hf_config *config, const char *key, const uint32_t *values, size_t count)
{
    put_values(config, key, METADATA_U32, values, count);
}

/* ---- What most families have --------------------------------------------------------------------------- */

static uint32_t read_size(struct hf_config *config, const char *names, uint32_t preset, uint32_t most)
{
    uint32_t count = hf_count(config, config->json, names, preset);
    if (count == 0) hf_fail(config, ENGINE_ERROR_DATA, "%.*s is 0", FIRST(names));
    if (count > most)
        hf_fail(config, ENGINE_ERROR_DATA, "%.*s is %u; at most %u are supported", FIRST(names), count, most);
    return config->status ? 1 : count;
}

/* The same where null, or a default of 0, stands for a number that others give. */
static uint32_t read_derived(struct hf_config *config, const char *names, uint32_t preset, uint32_t derived)
{
    bool is_null = names && json_is_null(json_object_get(config->json, names));
    return hf_count(config, config->json, names, is_null || preset == 0 ? derived : preset);
}

/* The number of layers, which a list of them, or a text with a letter for each, may give. */
static uint32_t read_layers(struct hf_config *config)
{
    const char *names = config->type.keys.layers;
    const json_t *value = hf_get(config->json, names);
    size_t n = json_is_array(value) ? json_array_size(value) : json_string_length(value);
    if (!json_is_array(value) && !json_is_string(value))
        return read_size(config, names, config->type.layers, HF_MAX_LAYERS);
    if (n == 0 || n > HF_MAX_LAYERS)
        hf_fail(config, ENGINE_ERROR_DATA, "%.*s has %zu layers; 1 to %d are supported", FIRST(names), n,
                HF_MAX_LAYERS);
    return config->status ? 1 : (uint32_t)n;
}

static void read_sizes(struct hf_config *config)
{
    const json_t *json = config->json;
    const struct hf_type *type = &config->type;
    const struct hf_key_names *keys = &type->keys;
    bool has_heads = !config->architecture->hf.has_no_attention;
    config->n_embd = read_size(config, keys->width, type->width, INT32_MAX / 4);
    config->n_layers = read_layers(config);
    config->n_heads = config->n_kv_heads = 1;
    config->head_dim = config->n_embd;
    if (has_heads) {
        config->n_heads = read_size(config, keys->heads, type->heads, 65536);
        config->n_kv_heads = read_derived(config, keys->kv_heads, type->kv_heads, config->n_heads);
        config->head_dim =
            read_derived(config, keys->head_dim, type->head_dim, config->n_embd / config->n_heads);
    }
    config->n_context = hf_count(config, json, keys->context, type->context);
    if (type->positions_follow_padding) {
        config->n_unused_rows = hf_count(config, json, "pad_token_id", 1) + 1;
        if (config->n_unused_rows >= config->n_context)
            hf_fail(config, ENGINE_ERROR_DATA, "pad_token_id leaves none of %u positions", config->n_context);
        else
            config->n_context -= config->n_unused_rows;
    }
    config->is_tied = hf_flag(config, config->root, "tie_word_embeddings", type->is_tied);
    if (json != config->root) config->is_tied |= hf_flag(config, json, "tie_word_embeddings", type->is_tied);
    hf_put_count(config, "context_length", config->n_context);
    hf_put_count(config, "embedding_length", config->n_embd);
    hf_put_count(config, "block_count", config->n_layers);
    config->n_ff = has_heads ? read_derived(config, keys->ff, type->ff, 4 * config->n_embd) : 0;
    hf_put_count(config, "attention.head_count", has_heads ? config->n_heads : 0);
    if (hf_get(json, "vocab_size"))
        hf_put_count(config, "vocab_size", hf_count(config, json, "vocab_size", 0));
}

static void read_norm(struct hf_config *config)
{
    hf_put_float(config,
                 config->architecture->hf.has_layer_norms ? "attention.layer_norm_epsilon"
                                                          : "attention.layer_norm_rms_epsilon",
                 hf_number(config, config->json, config->type.keys.epsilon, config->type.epsilon));
}

static void read_activation(struct hf_config *config)
{
    const char *name = hf_text(config, config->json, config->type.keys.activation);
    if (!name) name = config->type.activation;
    if (strcmp(name, "swiglu") == 0) name = "silu";         /* of the gate */
    if (strcmp(name, "gated-gelu") == 0) name = "gelu_new"; /* T5's */
    if (strncmp(name, "gated-", 6) == 0) name += 6;
    if (*name) hf_put_text(config, "hidden_activation", name);
}

static void read_keys(struct hf_config *config)
{
    for (const struct hf_key *key = config->type.numbers; key && key->name; key++) {
        bool given = hf_get(config->json, key->name) != NULL;
        bool is_null = json_is_null(json_object_get(config->json, key->name));
        double fallback = given ? 0 : key->fallback;
        if (is_null && key->kind == HF_COUNT_OR_NONE) continue;
        if (is_null && key->kind == HF_FLOAT_OR_0) fallback = 0;
        if (fallback <= HF_ABSENT) continue;
        if (key->kind == HF_COUNT || key->kind == HF_COUNT_OR_NONE)
            hf_put_count(config, key->key, hf_count(config, config->json, key->name, (uint32_t)fallback));
        else if (key->kind == HF_FLOAT || key->kind == HF_FLOAT_OR_0)
            hf_put_float(config, key->key, hf_number(config, config->json, key->name, fallback));
        else
            hf_put_flag(config, key->key, hf_flag(config, config->json, key->name, fallback != 0));
    }
}

void hf_refuse_activation(struct hf_config *config)
{
    const char *name = hf_text(config, config->json, config->type.keys.activation);
    hf_refuse(config, name && strcmp(name, "silu") != 0 && strcmp(name, "swish") != 0,
              "a hidden_act but silu in layers with states");
}

/* Adds the keys that the family has not changed; families with other heads set the numbers in `read`. */
static void put_heads(struct hf_config *config)
{
    uint32_t by_layer[HF_MAX_LAYERS];
    for (uint32_t i = 0; i < config->n_layers; i++)
        by_layer[i] = config->is_recurrent[i] ? 0 : config->n_kv_heads;
    if (config->is_hybrid)
        hf_put_layer_counts(config, "attention.head_count_kv", by_layer);
    else
        hf_put_count(config, "attention.head_count_kv", config->n_kv_heads);
    hf_put_count(config, "attention.key_length", config->head_dim);
    hf_put_count(config, "attention.value_length", config->head_dim);
}

/* ---- Biases and norms that keys switch off ------------------------------------------------------------- */

/* Whether a list "a|b" has a name [length]. */
static bool has_name(const char *list, const char *name, size_t length)
{
    for (; list; list = strchr(list, '|') ? strchr(list, '|') + 1 : NULL)
        if (strcspn(list, "|") == length && memcmp(list, name, length) == 0) return true;
    return false;
}

const char *hf_option_is_off(struct hf_config *config, const char *tensor)
{
    unsigned layer;
    int at = 0;
    if (sscanf(tensor, "blk.%u.%n", &layer, &at) != 1 || at == 0) return NULL;
    tensor += at;
    const char *end = strrchr(tensor, '.');
    size_t length = end ? (size_t)(end - tensor) : strlen(tensor);
    bool is_norm = length > 5 && memcmp(tensor + length - 5, "_norm", 5) == 0;
    if (!is_norm && strcmp(tensor + length, ".bias") != 0) return NULL;
    for (size_t i = 0; i < sizeof config->type.options / sizeof *config->type.options; i++) {
        const struct hf_option *option = &config->type.options[i];
        if (option->key && has_name(option->tensors, tensor, length) &&
            !hf_flag(config, config->json, option->key, option->preset))
            return option->key;
    }
    return NULL;
}

/* ---- What differs between layers ----------------------------------------------------------------------- */

/* Reads layer_types: whether each layer has the window. False: there is no such list. */
static bool read_types(struct hf_config *config)
{
    bool *slides = config->slides;
    const json_t *types = hf_get(config->json, config->type.keys.layer_types);
    if (!types) return false;
    if (json_array_size(types) < config->n_layers) {
        hf_fail(config, ENGINE_ERROR_DATA, "layer_types has %zu texts for %u layers", json_array_size(types),
                config->n_layers);
        return true;
    }
    for (uint32_t i = 0; i < config->n_layers; i++) {
        const char *type = json_string_value(json_array_get(types, i));
        slides[i] = type && strcmp(type, "sliding_attention") == 0;
        if (!slides[i] && !(type && strcmp(type, "full_attention") == 0))
            hf_fail(config, ENGINE_ERROR_UNSUPPORTED,
                    "layer_types: '%.32s' is not supported, only full_attention and sliding_attention",
                    type ? type : "(no text)");
    }
    return true;
}

void hf_find_windows(struct hf_config *config)
{
    const struct hf_type *type = &config->type;
    const struct hf_key_names *keys = &type->keys;
    if (config->status || config->has_found_windows) return;
    config->has_found_windows = true;
    if (keys->layer_types && read_types(config)) return;
    /* A pattern may be a text of letters for layers, which layer_types repeats. */
    uint32_t period = type->window_period;
    if (json_is_integer(hf_get(config->json, keys->window_period)))
        period = hf_count(config, config->json, keys->window_period, period);
    uint32_t border =
        hf_count(config, config->json, "max_window_layers", type->window_from ? type->window_from : 28);
    for (uint32_t i = 0; i < config->n_layers; i++)
        config->slides[i] = type->windows == HF_WINDOWS_ALL ||
                            (type->windows == HF_WINDOWS_PERIOD && (period == 0 || (i + 1) % period != 0)) ||
                            (type->windows == HF_WINDOWS_FIRST && period > 0 && i % period != 0) ||
                            (type->windows == HF_WINDOWS_FROM && i >= border) ||
                            (type->windows == HF_WINDOWS_UNTIL && i < border && i % 2 == 0) ||
                            (type->windows == HF_WINDOWS_NO_ROPE && !config->has_rope[i]);
}

static void read_windows(struct hf_config *config)
{
    const struct hf_type *type = &config->type;
    const struct hf_key_names *keys = &type->keys;
    if (config->status || type->windows == HF_WINDOWS_NONE) return;
    bool given = json_object_get(config->json, keys->window) != NULL; /* may be null */
    uint32_t window = hf_count(config, config->json, keys->window, given ? 0 : type->window);
    /* Such types have the window also by half its length, for transformers' classes. */
    if (type->windows == HF_WINDOWS_FIRST && hf_get(config->json, "sliding_window"))
        window = 2 * hf_count(config, config->json, "sliding_window", 0);
    if (keys->window_switch && !hf_flag(config, config->json, keys->window_switch, false)) window = 0;
    hf_find_windows(config);
    hf_put_count(config, "attention.sliding_window", window);
    hf_put_layer_flags(config, "attention.sliding_window_pattern", config->slides);
}

void hf_read_layers_without_rope(struct hf_config *config, uint32_t period)
{
    const json_t *list = hf_get(config->json, "no_rope_layers"); /* 1: with rope */
    uint32_t every = hf_count(config, config->json, "no_rope_layer_interval", period);
    if (list && json_array_size(list) > 0 && json_array_size(list) < config->n_layers)
        hf_fail(config, ENGINE_ERROR_DATA, "no_rope_layers has %zu numbers for %u layers",
                json_array_size(list), config->n_layers);
    if (config->status) return;
    for (uint32_t i = 0; i < config->n_layers; i++)
        config->has_rope[i] = json_array_size(list) > 0 ? json_number_value(json_array_get(list, i)) != 0
                                                        : every == 0 || (i + 1) % every != 0;
    hf_put_layer_flags(config, "rope.layers", config->has_rope);
}

void hf_read_recurrent_layers(struct hf_config *config, const char *kind, const char *attention,
                              uint32_t period)
{
    const json_t *types = hf_get(config->json, config->type.keys.layer_types);
    if (types && json_array_size(types) != config->n_layers)
        hf_fail(config, ENGINE_ERROR_DATA, "layer_types has %zu texts for %u layers", json_array_size(types),
                config->n_layers);
    for (uint32_t i = 0; i < config->n_layers && !config->status; i++) {
        const char *type = json_string_value(json_array_get(types, i));
        bool is_given = type && strcmp(type, kind) == 0;
        if (types && !is_given && !(type && strcmp(type, attention) == 0))
            hf_fail(config, ENGINE_ERROR_UNSUPPORTED, "layer_types: '%.32s' is not supported, only %s and %s",
                    type ? type : "(no text)", kind, attention);
        config->is_recurrent[i] = types ? is_given : period == 0 || (i + 1) % period != 0;
    }
}

void hf_read_dense_layers(struct hf_config *config)
{
    const json_t *dense = hf_get(config->json, "mlp_only_layers");
    size_t n = json_array_size(dense);
    for (size_t i = 0; i < n; i++) {
        const json_t *layer = json_array_get(dense, i);
        hf_refuse(config, !json_is_integer(layer) || json_integer_value(layer) != (json_int_t)i,
                  "mlp_only_layers with other than the first layers");
    }
    hf_put_count(config, "leading_dense_block_count", (uint32_t)n);
}

uint32_t hf_count_dense_layers(struct hf_config *config, uint32_t preset)
{
    const json_t *kinds = hf_get(config->json, "mlp_layer_types"), *kind;
    size_t i, n = 0;
    if (!kinds) return preset;
    if (json_array_size(kinds) != config->n_layers)
        hf_fail(config, ENGINE_ERROR_DATA, "mlp_layer_types has %zu texts for %u layers",
                json_array_size(kinds), config->n_layers);
    json_array_foreach(kinds, i, kind)
    {
        const char *text = json_string_value(kind);
        bool is_dense = text && strcmp(text, "dense") == 0;
        hf_refuse(config, !is_dense && (!text || strcmp(text, "sparse") != 0),
                  "mlp_layer_types with other texts than dense and sparse");
        hf_refuse(config, is_dense && i != n, "mlp_layer_types with a dense layer after a sparse one");
        n += is_dense;
    }
    return (uint32_t)n;
}

/* ---- The file ------------------------------------------------------------------------------------------ */

/* The usual in the place of a key's name; NULL: the type doesn't read it. */
static void fill_key(const char **key, const char *usual)
{
    if (!*key)
        *key = usual;
    else if (!**key)
        *key = NULL;
}

/* The usual where a type's row has nothing: what Llama has. */
static void fill_type(const struct hf_family *family, struct hf_type *type)
{
    struct hf_key_names *keys = &type->keys;
    fill_key(&keys->width, "hidden_size");
    fill_key(&keys->layers, "num_hidden_layers");
    fill_key(&keys->heads, "num_attention_heads");
    fill_key(&keys->kv_heads, "num_key_value_heads");
    fill_key(&keys->head_dim, "head_dim");
    fill_key(&keys->ff, "intermediate_size");
    fill_key(&keys->context, "max_position_embeddings");
    fill_key(&keys->epsilon, family->has_layer_norms ? "layer_norm_eps" : "rms_norm_eps");
    fill_key(&keys->activation, "hidden_act");
    fill_key(&keys->theta, "rope_theta");
    fill_key(&keys->part, "partial_rotary_factor");
    fill_key(&keys->magnitude, "attention_factor");
    fill_key(&keys->window, "sliding_window");
    if (type->epsilon <= 0) type->epsilon = 1e-6;
    if (!type->activation) type->activation = "silu";
    if (type->theta <= 0) type->theta = 1e4;
    if (type->rotary <= 0) type->rotary = 1;
}

/* Finds the family of a model_type; of several, the one whose condition config->json meets. False: there
 * is none, or *refusal says what such models are. */
static bool find_type(struct hf_config *config, const char *name, const char **refusal)
{
    const struct architecture *architecture, *found = NULL;
    const struct hf_type *row = NULL;
    *refusal = NULL;
    for (size_t i = 0; (architecture = arch_at(i)); i++)
        for (const struct hf_type *type = architecture->hf.types; type && type->name; type++) {
            if (strcmp(type->name, name) != 0) continue;
            if (type->refusal) *refusal = type->refusal;
            if (type->refusal || (type->applies ? !type->applies(config) : row != NULL)) continue;
            found = architecture;
            row = type;
        }
    if (!row) return false;
    ENGINE_ASSERT(found->read);
    config->architecture = found;
    config->type = *row;
    fill_type(&found->hf, &config->type);
    return true;
}

/* Models that also read pictures or sound have the text model's configuration in "text_config". */
static void find_family(struct hf_config *config)
{
    const char *type = hf_text(config, config->root, "model_type");
    const json_t *text = hf_get(config->root, "text_config");
    config->json = config->root;
    if (text && !json_is_object(text)) hf_fail(config, ENGINE_ERROR_DATA, "text_config is not a JSON object");
    const json_t *classes = hf_get(config->root, "architectures");
    if (classes && !json_is_array(classes)) hf_fail(config, ENGINE_ERROR_DATA, "architectures is not a list");
    if (config->status) return;
    const char *refusal = NULL, *ignored;
    const char *inner = hf_text(config, text, "model_type");
    bool is_found = inner && find_type(config, inner, &ignored);
    if (is_found)
        config->json = text;
    else
        is_found = type && find_type(config, type, &refusal);
    if (is_found || config->status) return;
    if (!type)
        hf_fail(config, ENGINE_ERROR_DATA, "model_type is missing");
    else if (refusal)
        hf_fail(config, ENGINE_ERROR_UNSUPPORTED, "models of the type '%.64s' are %s", type, refusal);
    else
        hf_fail(config, ENGINE_ERROR_UNSUPPORTED,
                "the model type '%.64s' is not supported; see docs/hugging-face.md for those that are", type);
}

static int add_architecture(struct hf_config *config)
{
    return metadata_add_string(config->metadata, "general.architecture", config->architecture->name);
}

int hf_config_read(const char *path, struct metadata *metadata, struct hf_config *config)
{
    *config = (struct hf_config){.path = strdup(path), .metadata = metadata};
    if (!config->path) return error_memory("config.json");
    config->status = hf_json_read(path, MAX_CONFIG, &config->root);
    if (!config->status) find_family(config);
    if (!config->status) config->status = add_architecture(config);
    if (config->status) return config->status;
    read_sizes(config);
    read_norm(config);
    read_activation(config);
    read_keys(config);
    if (config->type.read && !config->status) config->type.read(config);
    if (!config->has_own_lengths) hf_put_count(config, "feed_forward_length", config->n_ff);
    if (config->n_kv_heads == 0 || config->head_dim == 0)
        hf_fail(config, ENGINE_ERROR_DATA, "num_key_value_heads or head_dim is 0");
    if (config->head_dim > MAX_HEAD)
        hf_fail(config, ENGINE_ERROR_DATA, "head_dim is %u; at most %d are supported", config->head_dim,
                MAX_HEAD);
    bool has_heads = !config->architecture->hf.has_no_attention;
    if (has_heads && !config->has_own_heads) put_heads(config);
    if (has_heads) hf_read_rope(config);
    read_windows(config);
    hf_read_quantisation(config);
    hf_read_classifier(config);
    return config->status;
}

void hf_config_free(struct hf_config *config)
{
    json_decref(config->root);
    json_decref(config->processor);
    free(config->path);
}

/* config.c: see config.h. Keys have changed their names over the years; the newest comes first. */
#include "model/hf/config.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "model/hf/json.h"
#include "model/hf/quantised.h"

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
static const json_t *find(const json_t *object, const char *names, const char **found)
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
    return find(object, names, &found);
}

double hf_number(struct hf_config *config, const json_t *object, const char *names, double fallback)
{
    const char *name;
    const json_t *value = find(object, names, &name);
    if (!value || config->status) return fallback;
    double number = json_number_value(value);
    if (json_is_number(value) && fabs(number) < 1e30) return number;
    hf_fail(config, ENGINE_ERROR_DATA, "%.*s is not a number", FIRST(name));
    return fallback;
}

uint32_t hf_count(struct hf_config *config, const json_t *object, const char *names, uint32_t fallback)
{
    const char *name;
    const json_t *value = find(object, names, &name);
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
    const json_t *value = find(object, names, &name);
    if (!value || config->status) return fallback;
    if (!json_is_boolean(value))
        hf_fail(config, ENGINE_ERROR_DATA, "%.*s is neither true nor false", FIRST(name));
    return json_is_true(value);
}

const char *hf_text(struct hf_config *config, const json_t *object, const char *names)
{
    const char *name;
    const json_t *value = find(object, names, &name);
    if (value && !json_is_string(value))
        hf_fail(config, ENGINE_ERROR_DATA, "%.*s is not a text", FIRST(name));
    return json_string_value(value);
}

/* ---- Metadata ------------------------------------------------------------------------------------------ */

/* "ARCHITECTURE.key", owned by the metadata; NULL: an error is recorded. */
static const char *full_key(struct hf_config *config, const char *key)
{
    const char *architecture = config->family->architecture;
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

void hf_put_layer_counts(struct hf_config *config, const char *key, const uint32_t *values)
{
    const char *full = full_key(config, key);
    size_t size = config->n_layers * sizeof *values;
    uint32_t *copy = full ? metadata_allocate(config->metadata, size) : NULL;
    if (full && !copy) config->status = error_memory("metadata");
    if (!copy) return;
    memcpy(copy, values, size);
    config->status = metadata_add(
        config->metadata,
        &(struct metadata_entry){
            .key = full, .type = METADATA_U32, .is_array = true, .count = config->n_layers, .values = copy});
}

/* ---- What most families have --------------------------------------------------------------------------- */

static uint32_t read_size(struct hf_config *config, struct hf_size size, uint32_t most)
{
    uint32_t count = hf_count(config, config->json, size.names, size.preset);
    if (count == 0) hf_fail(config, ENGINE_ERROR_DATA, "%.*s is 0", FIRST(size.names));
    if (count > most)
        hf_fail(config, ENGINE_ERROR_DATA, "%.*s is %u; at most %u are supported", FIRST(size.names), count,
                most);
    return config->status ? 1 : count;
}

/* The same where null, or a default of 0, stands for a number that others give. */
static uint32_t read_derived(struct hf_config *config, struct hf_size size, uint32_t derived)
{
    bool is_null = size.names && json_is_null(json_object_get(config->json, size.names));
    return hf_count(config, config->json, size.names, is_null || size.preset == 0 ? derived : size.preset);
}

/* Families whose config.json has neither heads nor feed-forward networks. */
static bool has_no_attention(const struct hf_family *family)
{
    return strcmp(family->architecture, "mamba") == 0 || strcmp(family->architecture, "mamba2") == 0;
}

static void read_sizes(struct hf_config *config)
{
    const json_t *json = config->json;
    const struct hf_keys *keys = config->keys;
    bool is_recurrent = has_no_attention(config->family);
    config->n_embd = read_size(config, keys->width, INT32_MAX / 4);
    config->n_layers = read_size(config, keys->layers, HF_MAX_LAYERS);
    config->n_heads = is_recurrent ? 1 : read_size(config, keys->heads, 65536);
    config->n_kv_heads = read_derived(config, keys->kv_heads, config->n_heads);
    config->head_dim = read_derived(config, keys->head_dim, config->n_embd / config->n_heads);
    config->n_context = hf_count(config, json, keys->context.names, keys->context.preset);
    if (config->family->positions_follow_padding) {
        config->n_unused_rows = hf_count(config, json, "pad_token_id", 1) + 1;
        if (config->n_unused_rows >= config->n_context)
            hf_fail(config, ENGINE_ERROR_DATA, "pad_token_id leaves none of %u positions", config->n_context);
        else
            config->n_context -= config->n_unused_rows;
    }
    config->is_tied = hf_flag(config, config->root, "tie_word_embeddings", keys->is_tied);
    if (json != config->root) config->is_tied |= hf_flag(config, json, "tie_word_embeddings", keys->is_tied);
    hf_put_count(config, "context_length", config->n_context);
    hf_put_count(config, "embedding_length", config->n_embd);
    hf_put_count(config, "block_count", config->n_layers);
    config->n_ff = is_recurrent ? 0 : read_derived(config, keys->ff, 4 * config->n_embd);
    hf_put_count(config, "attention.head_count", is_recurrent ? 0 : config->n_heads);
    if (hf_get(json, "vocab_size"))
        hf_put_count(config, "vocab_size", hf_count(config, json, "vocab_size", 0));
}

static void read_norm(struct hf_config *config)
{
    const struct hf_real *epsilon = &config->keys->epsilon;
    hf_put_float(config,
                 config->family->has_layer_norms ? "attention.layer_norm_epsilon"
                                                 : "attention.layer_norm_rms_epsilon",
                 hf_number(config, config->json, epsilon->names, epsilon->preset));
}

static void read_activation(struct hf_config *config)
{
    const char *name = hf_text(config, config->json, config->keys->activation);
    if (!name) name = config->keys->activation_preset;
    if (strcmp(name, "swiglu") == 0) name = "silu";         /* of the gate */
    if (strcmp(name, "gated-gelu") == 0) name = "gelu_new"; /* T5's */
    if (strncmp(name, "gated-", 6) == 0) name += 6;
    hf_put_text(config, "hidden_activation", name);
}

static void read_keys(struct hf_config *config)
{
    for (const struct hf_key *key = config->family->keys; key && key->name; key++) {
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

/* ---- The file ------------------------------------------------------------------------------------------ */

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
    config->family = type ? hf_family_find(type) : NULL;
    if (!config->family && json_is_object(text)) {
        config->json = text;
        const char *inner = hf_text(config, text, "model_type");
        config->family = inner ? hf_family_find(inner) : NULL;
    }
    if (config->family && !config->status) config->family = hf_family_variant(config->family, config->json);
    if (config->family) config->keys = hf_keys_find(config->family->type);
    if (config->family || config->status) return;
    const char *refusal = type ? hf_family_refusal(type) : NULL;
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
    return metadata_add_string(config->metadata, "general.architecture", config->family->architecture);
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
    if (config->family->read && !config->status) config->family->read(config);
    hf_put_count(config, "feed_forward_length", config->n_ff);
    if (config->n_kv_heads == 0 || config->head_dim == 0)
        hf_fail(config, ENGINE_ERROR_DATA, "num_key_value_heads or head_dim is 0");
    if (config->head_dim > MAX_HEAD)
        hf_fail(config, ENGINE_ERROR_DATA, "head_dim is %u; at most %d are supported", config->head_dim,
                MAX_HEAD);
    bool is_recurrent = has_no_attention(config->family);
    if (strcmp(config->family->architecture, "deepseek2") != 0 && !is_recurrent) put_heads(config);
    if (!is_recurrent) hf_read_rope(config);
    hf_read_windows(config);
    hf_read_quantisation(config);
    hf_read_classifier(config);
    return config->status;
}

void hf_config_free(struct hf_config *config)
{
    json_decref(config->root);
    free(config->path);
}

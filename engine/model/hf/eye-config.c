/* eye-config.c: config.json and the processor's file of a model that sees, to the metadata that
 * llama.cpp's mmproj files have (clip.vision.…). What those lack of the processor is under clip.engine.….
 * See config.h. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "model/hf/config.h"
#include "model/hf/json.h"

#define MAX_CONFIG ((uint64_t)16 << 20) /* bytes */

/* The eye whose row of types has a model_type. */
static bool find_eye(struct hf_config *config, const char *name)
{
    const struct architecture *architecture;
    for (size_t i = 0; (architecture = arch_eye_at(i)); i++)
        for (const struct hf_type *type = architecture->hf.types; type && type->name; type++) {
            if (strcmp(type->name, name) != 0) continue;
            config->architecture = architecture;
            config->type = *type;
            return true;
        }
    return false;
}

/* processor_config.json has the picture's part in "image_processor"; preprocessor_config.json is that
 * part. */
static int read_processor(const char *path, struct hf_config *config)
{
    json_t *whole = NULL;
    int status = hf_json_read(path, MAX_CONFIG, &whole);
    if (status) return status;
    json_t *part = json_object_get(whole, "image_processor");
    config->processor = json_is_object(part) ? json_incref(part) : json_incref(whole);
    json_decref(whole);
    return ENGINE_OK;
}

/* Three numbers of a list; the presets if there is none. */
static void put_colours(struct hf_config *config, const char *name, const char *key)
{
    const json_t *list = hf_get(config->processor, name);
    float values[3];
    if (!list) return;
    if (json_array_size(list) != 3)
        hf_fail(config, ENGINE_ERROR_DATA, "%s is not a list of three numbers", name);
    for (size_t c = 0; c < 3; c++) {
        const json_t *number = json_array_get(list, c);
        if (!json_is_number(number))
            hf_fail(config, ENGINE_ERROR_DATA, "%s is not a list of three numbers", name);
        values[c] = (float)json_number_value(number);
    }
    hf_put_floats(config, key, values, 3);
}

/* Settings under which processors do something else to pictures, which no published model has. */
static void check_processor(struct hf_config *config)
{
    static const char *const needed[] = {"do_resize", "do_rescale", "do_convert_rgb"};
    for (size_t i = 0; i < sizeof needed / sizeof *needed; i++)
        if (!hf_flag(config, config->processor, needed[i], true))
            hf_fail(config, ENGINE_ERROR_UNSUPPORTED, "a processor without %s is not supported", needed[i]);
    double factor = hf_number(config, config->processor, "rescale_factor", 1.0 / 255);
    hf_refuse(config, factor * 255 < 0.999999 || factor * 255 > 1.000001, "a rescale_factor but 1 / 255");
}

/* A number, or a list of two equal ones. */
static uint32_t read_side(struct hf_config *config, const char *name, uint32_t preset)
{
    const json_t *value = hf_get(config->json, name), *first = json_array_get(value, 0);
    if (!json_is_array(value)) return hf_count(config, config->json, name, preset);
    if (json_array_size(value) != 2 || !json_is_integer(first) ||
        !json_equal(first, json_array_get(value, 1)) || json_integer_value(first) <= 0 ||
        json_integer_value(first) > INT32_MAX) {
        hf_fail(config, ENGINE_ERROR_UNSUPPORTED, "%s is not a square", name);
        return preset;
    }
    return (uint32_t)json_integer_value(first);
}

static void read_sizes(struct hf_config *config)
{
    const struct hf_type *type = &config->type;
    const json_t *json = config->json, *text = hf_get(config->root, "text_config");
    config->n_embd = hf_count(config, json, type->keys.width ? type->keys.width : "hidden_size", type->width);
    config->n_layers =
        hf_count(config, json, type->keys.layers ? type->keys.layers : "num_hidden_layers", type->layers);
    config->n_heads =
        hf_count(config, json, type->keys.heads ? type->keys.heads : "num_attention_heads", type->heads);
    config->n_ff = hf_count(config, json, "intermediate_size", type->ff);
    if (config->n_layers > HF_MAX_LAYERS)
        hf_fail(config, ENGINE_ERROR_DATA, "vision_config has %u layers; at most %d are supported",
                config->n_layers, HF_MAX_LAYERS);
    hf_put_count(config, "vision.embedding_length", config->n_embd);
    hf_put_count(config, "vision.block_count", config->n_layers);
    hf_put_count(config, "vision.attention.head_count", config->n_heads);
    hf_put_count(config, "vision.feed_forward_length", config->n_ff);
    hf_put_float(config, "vision.attention.layer_norm_epsilon",
                 hf_number(config, json, "layer_norm_eps", type->epsilon > 0 ? type->epsilon : 1e-6));
    hf_put_count(config, "vision.patch_size", read_side(config, "patch_size", type->context));
    hf_put_count(config, "vision.image_size", read_side(config, "image_size", type->window));
    const json_t *width = hf_get(text ? text : config->root, "hidden_size|n_embd");
    if (!width) hf_fail(config, ENGINE_ERROR_DATA, "the text model's hidden_size is missing");
    hf_put_count(config, "vision.projection_dim",
                 hf_count(config, text ? text : config->root, "hidden_size|n_embd", 0));
}

int hf_eye_config_read(const char *path, const char *processor, struct metadata *metadata,
                       struct hf_config *config)
{
    *config = (struct hf_config){.path = strdup(path), .metadata = metadata};
    if (!config->path) return error_memory("config.json");
    config->status = hf_json_read(path, MAX_CONFIG, &config->root);
    if (config->status) return config->status;
    const char *type = hf_text(config, config->root, "model_type");
    config->json = hf_get(config->root, "vision_config");
    if (config->status) return config->status;
    if (!type || !json_is_object(config->json) || !find_eye(config, type)) {
        hf_fail(config, ENGINE_ERROR_UNSUPPORTED, "models of the type '%.64s' see no pictures here",
                type ? type : "(none)");
        return config->status;
    }
    if (processor) config->status = read_processor(processor, config);
    if (!config->status) config->status = metadata_add_string(metadata, "general.architecture", "clip");
    hf_put_text(config, "projector_type", config->architecture->projector);
    check_processor(config);
    read_sizes(config);
    put_colours(config, "image_mean", "vision.image_mean");
    put_colours(config, "image_std", "vision.image_std");
    if (config->type.read && !config->status) config->type.read(config);
    return config->status;
}

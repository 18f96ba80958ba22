/* layers.c: what differs between the layers of a config.json: windows, and rope. See config.h. */
#include <string.h>

#include "base/error.h"
#include "model/hf/config.h"

/* Reads layer_types: whether each layer has the window. False: there is no such list. */
static bool read_types(struct hf_config *config, bool slides[HF_MAX_LAYERS])
{
    const json_t *types = hf_get(config->json, config->keys->layer_types);
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

void hf_read_windows(struct hf_config *config)
{
    const struct hf_family *family = config->family;
    const struct hf_keys *keys = config->keys;
    bool slides[HF_MAX_LAYERS] = {false};
    if (config->status || family->windows == HF_WINDOWS_NONE) return;
    bool given = json_object_get(config->json, keys->window) != NULL; /* may be null */
    uint32_t window = hf_count(config, config->json, keys->window, given ? 0 : keys->window_preset);
    /* In transformers, ModernBERT's class has its window also by half its length. */
    if (family->windows == HF_WINDOWS_FIRST && hf_get(config->json, "sliding_window"))
        window = 2 * hf_count(config, config->json, "sliding_window", 0);
    if (keys->window_switch && !hf_flag(config, config->json, keys->window_switch, false)) window = 0;
    if (!keys->layer_types || !read_types(config, slides)) {
        /* The pattern of exaone4 may be a text of letters for layers, which its layer_types repeats. */
        uint32_t period = family->period;
        if (json_is_integer(hf_get(config->json, keys->window_period)))
            period = hf_count(config, config->json, keys->window_period, period);
        uint32_t border = hf_count(config, config->json, "max_window_layers", 28);
        for (uint32_t i = 0; i < config->n_layers; i++)
            slides[i] = family->windows == HF_WINDOWS_ALL ||
                        (family->windows == HF_WINDOWS_PERIOD && (period == 0 || (i + 1) % period != 0)) ||
                        (family->windows == HF_WINDOWS_FIRST && period > 0 && i % period != 0) ||
                        (family->windows == HF_WINDOWS_FROM && i >= border) ||
                        (family->windows == HF_WINDOWS_UNTIL && i < border && i % 2 == 0) ||
                        (family->windows == HF_WINDOWS_NO_ROPE && !config->has_rope[i]);
    }
    hf_put_count(config, "attention.sliding_window", window);
    hf_put_layer_flags(config, "attention.sliding_window_pattern", slides);
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
    const json_t *types = hf_get(config->json, config->keys->layer_types);
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

/* classifier.c: config.json's part on a classification head (…ForSequenceClassification): the labels' names as GGUF has
 * them, and what GGUF has no key for, under names of the engine's. engine/embedding/head.h says what they mean. */
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "model/hf/config.h"

#define MOST_LABELS 100000

/* id2label, {"0": "NEGATIVE", "1": "POSITIVE"}. The names that transformers makes up, LABEL_0 and so on, are none. */
static void put_labels(struct hf_config *config)
{
    const json_t *names = hf_get(config->root, "id2label");
    size_t count = json_object_size(names), size = 0;
    bool is_named = false;
    if (count == 0 || count > MOST_LABELS) return;
    char key[32], made_up[32];
    for (size_t i = 0; i < count; i++) {
        snprintf(key, sizeof key, "%zu", i);
        snprintf(made_up, sizeof made_up, "LABEL_%zu", i);
        const char *name = json_string_value(json_object_get(names, key));
        if (!name) {
            hf_fail(config, ENGINE_ERROR_DATA, "id2label has %zu labels, but none for %zu", count, i);
            return;
        }
        is_named |= strcmp(name, made_up) != 0;
        size += json_string_length(json_object_get(names, key));
    }
    if (!is_named) return;
    struct engine_string *labels = metadata_allocate(config->metadata, count * sizeof *labels);
    char *text = metadata_allocate(config->metadata, size + 1);
    if ((!labels || !text) && !config->status) config->status = error_memory("metadata");
    for (size_t i = 0; i < count && !config->status; i++) {
        snprintf(key, sizeof key, "%zu", i);
        const json_t *name = json_object_get(names, key);
        labels[i] = (struct engine_string){text, json_string_length(name)};
        memcpy(text, json_string_value(name), labels[i].length);
        text += labels[i].length;
    }
    if (!config->status) hf_put_texts(config, "classifier.output_labels", labels, count);
}

/* What the scores mean; transformers' pipeline decides by the number of labels if problem_type is missing. */
static void put_scores(struct hf_config *config)
{
    const char *type = hf_text(config, config->root, "problem_type");
    if (!type) return;
    static const char *const types[] = {"regression", "single_label_classification",
                                        "multi_label_classification"};
    for (uint32_t i = 0; i < 3; i++)
        if (strcmp(type, types[i]) == 0) {
            hf_put_count(config, "engine.classifier.scores", i);
            return;
        }
    hf_fail(config, ENGINE_ERROR_UNSUPPORTED, "problem_type '%.64s' is not supported", type);
}

void hf_read_classifier(struct hf_config *config)
{
    const char *name = json_string_value(json_array_get(hf_get(config->root, "architectures"), 0));
    config->is_classifier = name && strstr(name, "ForSequenceClassification");
    if (!config->is_classifier) return;
    put_labels(config);
    put_scores(config);
    if (config->type.read_classifier) config->type.read_classifier(config);
}

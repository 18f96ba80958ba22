/* sentence.c: see sentence.h. */
#include "model/hf/sentence.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/error.h"
#include "model/hf/json.h"

#define MAX_FILE     ((uint64_t)1 << 20) /* bytes */
#define MOST_PROMPTS 1000

/* The first of some files that the folder has. *json: to be released; NULL: it has none of them. */
static int open_first(const char *folder, const char *const *names, char path[PATH_MAX], json_t **json)
{
    struct stat info;
    *json = NULL;
    for (; *names; names++) {
        int length = snprintf(path, PATH_MAX, "%s/%s", folder, *names);
        if (length > 0 && length < PATH_MAX && lstat(path, &info) == 0)
            return hf_json_read(path, MAX_FILE, json);
    }
    return ENGINE_OK;
}

/* Named by the model's type in earlier days. */
static int open_transformer(const char *folder, char path[PATH_MAX], json_t **json)
{
    static const char *const names[] = {"sentence_bert_config.json",        "sentence_roberta_config.json",
                                        "sentence_distilbert_config.json",  "sentence_camembert_config.json",
                                        "sentence_xlm-roberta_config.json", NULL};
    return open_first(folder, names, path, json);
}

static void read_length(struct hf_config *config, const char *folder)
{
    char path[PATH_MAX];
    json_t *json;
    config->status = open_transformer(folder, path, &json);
    const json_t *length = json_object_get(json, "max_seq_length");
    json_int_t value = json_integer_value(length);
    if (length && !json_is_null(length) && !config->status) {
        if (!json_is_integer(length) || value < 1 || value > INT32_MAX)
            config->status =
                error_raise(ENGINE_ERROR_DATA, "%s: max_seq_length is not a number of tokens", path);
        else
            hf_put_count(config, "engine.text_length", (uint32_t)value);
    }
    json_decref(json);
}

int hf_lowers_case(const char *folder, bool *lowers)
{
    char path[PATH_MAX];
    json_t *json;
    int status = open_transformer(folder, path, &json);
    *lowers = json_is_true(json_object_get(json, "do_lower_case"));
    json_decref(json);
    return status;
}

/* ---- Prompts ------------------------------------------------------------------------------------------- */

static struct engine_string copy(struct hf_config *config, const char *text, size_t length)
{
    char *memory = metadata_allocate(config->metadata, length + 1);
    if (!memory && !config->status) config->status = error_memory("metadata");
    if (memory) memcpy(memory, text, length);
    return (struct engine_string){memory, memory ? length : 0};
}

/* {"query": "Query: ", …}. */
static void put_prompts(struct hf_config *config, const char *path, const json_t *prompts)
{
    size_t count = json_object_size(prompts), i = 0;
    const char *name;
    json_t *text;
    struct engine_string *names = metadata_allocate(config->metadata, (count + 1) * sizeof *names),
                         *texts = metadata_allocate(config->metadata, (count + 1) * sizeof *texts);
    if (!names || !texts) config->status = error_memory("metadata");
    if (count > MOST_PROMPTS && !config->status)
        config->status = error_raise(ENGINE_ERROR_DATA, "%s has more than %d prompts", path, MOST_PROMPTS);
    json_object_foreach((json_t *)(uintptr_t)prompts, name, text)
    {
        if (!config->status && !json_is_string(text))
            config->status = error_raise(ENGINE_ERROR_DATA, "%s: a prompt is not a text", path);
        if (config->status) return;
        names[i] = copy(config, name, strlen(name));
        texts[i++] = copy(config, json_string_value(text), json_string_length(text));
    }
    if (count > 0 && !config->status) hf_put_texts(config, "engine.prompts.names", names, count);
    if (count > 0 && !config->status) hf_put_texts(config, "engine.prompts.texts", texts, count);
}

static void read_prompts(struct hf_config *config, const char *folder)
{
    static const char *const names[] = {"config_sentence_transformers.json", NULL};
    char path[PATH_MAX];
    json_t *json;
    config->status = open_first(folder, names, path, &json);
    const json_t *prompts = json_object_get(json, "prompts");
    const char *preset = json_string_value(json_object_get(json, "default_prompt_name"));
    if (json_object_size(prompts) > 0 && !config->status) put_prompts(config, path, prompts);
    if (preset && !config->status && !json_object_get(prompts, preset))
        config->status =
            error_raise(ENGINE_ERROR_DATA, "%s: default_prompt_name is not one of the prompts", path);
    if (preset && !config->status) hf_put_text(config, "engine.prompts.default", preset);
    json_decref(json);
}

int hf_read_sentence(struct hf_config *config, const char *folder)
{
    if (!config->status) read_length(config, folder);
    if (!config->status) read_prompts(config, folder);
    return config->status;
}

/* tokenizer-config.c: special tokens, chat templates and sampling from tokenizer_config.json,
 * special_tokens_map.json, generation_config.json, config.json, and files of templates. */
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "model/hf/tokenizer-parts.h"

#define MAX_ENDS      64
#define MAX_TEMPLATES 64

/* ---- Special tokens ---- */

/* "</s>", or {"content": "</s>", …}. */
static const char *token_text(const json_t *value)
{
    const char *text = json_string_value(value);
    return text ? text : json_string_value(json_object_get(value, "content"));
}

const char *hf_tokenizer_special(const struct hf_tokenizer *work, const char *name)
{
    const char *text = token_text(json_object_get(work->config, name));
    return text ? text : token_text(json_object_get(work->map, name));
}

int64_t hf_tokenizer_find(const struct hf_tokenizer *work, const char *text, size_t length)
{
    for (uint32_t id = 0; id < work->n_tokens; id++)
        if (work->tokens[id].length == length && memcmp(work->tokens[id].data, text, length) == 0) return id;
    return -1;
}

/* The names that BERT's tokenizer in transformers takes if none are given. */
static const char *bert_special(const char *name)
{
    static const char *const names[][2] = {{"unk_token", "[UNK]"},
                                           {"sep_token", "[SEP]"},
                                           {"pad_token", "[PAD]"},
                                           {"cls_token", "[CLS]"},
                                           {"mask_token", "[MASK]"}};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strcmp(names[i][0], name) == 0) return names[i][1];
    return NULL;
}

/* The id of a special token: by its text, or as generation_config.json and config.json have it. */
static int64_t special_id(const struct hf_tokenizer *work, const char *name)
{
    char key[40];
    const char *text = hf_tokenizer_special(work, name);
    if (!text && work->marks_words) text = bert_special(name);
    int64_t id = text ? hf_tokenizer_find(work, text, strlen(text)) : -1;
    if (id >= 0) return id;
    snprintf(key, sizeof key, "%s_id", name);
    const json_t *const files[] = {work->generation, work->model};
    for (size_t i = 0; i < 2; i++) {
        const json_t *value = json_object_get(files[i], key);
        if (json_is_array(value)) value = json_array_get(value, 0);
        if (json_is_integer(value) && json_integer_value(value) >= 0 &&
            json_integer_value(value) < work->n_tokens)
            return json_integer_value(value);
    }
    if (strcmp(name, "bos_token") == 0) return work->bos;
    if (strcmp(name, "eos_token") == 0) return work->eos;
    if (strcmp(name, "unk_token") == 0) return work->unknown;
    return strcmp(name, "pad_token") == 0 ? work->padding : -1;
}

static int add_ends(const struct hf_tokenizer *work, int64_t eos)
{
    uint32_t ends[MAX_ENDS];
    size_t count = 0;
    if (eos >= 0) ends[count++] = (uint32_t)eos;
    const json_t *const files[] = {work->generation, work->model};
    for (size_t file = 0; file < 2; file++) {
        const json_t *value = json_object_get(files[file], "eos_token_id");
        size_t n = json_is_array(value) ? json_array_size(value) : json_is_integer(value);
        for (size_t i = 0; i < n && count < MAX_ENDS; i++) {
            const json_t *number = json_is_array(value) ? json_array_get(value, i) : value;
            json_int_t id = json_is_integer(number) ? json_integer_value(number) : -1;
            bool known = id < 0 || id >= work->n_tokens;
            for (size_t k = 0; k < count; k++) known = known || ends[k] == (uint32_t)id;
            if (!known) ends[count++] = (uint32_t)id;
        }
    }
    if (!count) return ENGINE_OK;
    uint32_t *copy = metadata_allocate(work->metadata, count * sizeof *copy);
    if (!copy) return error_memory("metadata");
    memcpy(copy, ends, count * sizeof *copy);
    return metadata_add(work->metadata, &(struct metadata_entry){"tokenizer.hf.eos_token_ids", METADATA_U32,
                                                                 true, count, copy});
}

int hf_tokenizer_add_ends(struct hf_tokenizer *work, uint64_t n_tokens)
{
    work->n_tokens = n_tokens < INT32_MAX ? (uint32_t)n_tokens : INT32_MAX;
    return add_ends(work, -1);
}

/* Whether two special tokens part a pair's texts, as far as a post-processor says: 0 or 1; -1: it does
 * not. */
static int parts_twice(const json_t *processor)
{
    size_t i, n = 0;
    bool between = false;
    const json_t *item, *pair = json_object_get(processor, "pair");
    const char *type = json_string_value(json_object_get(processor, "type"));
    if (type && strcmp(type, "RobertaProcessing") == 0) return 1;
    if (type && strcmp(type, "BertProcessing") == 0) return 0;
    if (!json_is_array(pair)) return -1;
    json_array_foreach(pair, i, item)
    {
        if (json_object_get(item, "Sequence"))
            between = !between;
        else
            n += between;
    }
    return n > 1;
}

/* Whether a text begins with `bos` and ends with `eos`, as far as the post-processor says. */
static void read_processor(struct hf_tokenizer *work, const json_t *processor, const char *bos,
                           const char *eos, unsigned depth)
{
    size_t i;
    const json_t *inner, *single = json_object_get(processor, "single");
    const char *type = json_string_value(json_object_get(processor, "type"));
    json_array_foreach(json_object_get(processor, "processors"), i, inner)
    {
        if (depth < 8) read_processor(work, inner, bos, eos, depth + 1);
    }
    if (type && (!strcmp(type, "BertProcessing") || !strcmp(type, "RobertaProcessing"))) {
        work->add_bos = 1;
        work->add_eos = 1;
    }
    int twice = parts_twice(processor);
    if (twice >= 0) work->add_sep = twice;
    if (!json_is_array(single)) return;
    const json_t *first = json_object_get(json_array_get(single, 0), "SpecialToken");
    const json_t *last = json_object_get(json_array_get(single, json_array_size(single) - 1), "SpecialToken");
    const char *begin = json_string_value(json_object_get(first, "id"));
    const char *end = json_string_value(json_object_get(last, "id"));
    if (bos && begin && strcmp(bos, begin) == 0) work->add_bos = 1;
    if (eos && end && strcmp(eos, end) == 0) work->add_eos = 1;
}

/* tokenizer_config.json's add_bos_token counts more than the post-processor. */
static int read_config_flag(const struct hf_tokenizer *work, const char *name, const char *member, int *flag)
{
    const json_t *value = json_object_get(work->config, name);
    if (!json_is_boolean(value)) return ENGINE_OK;
    *flag = json_is_true(value);
    if (work->description && json_object_set_new(work->description, member, json_boolean(*flag)))
        return error_memory("tokenizer");
    return ENGINE_OK;
}

int hf_tokenizer_configure(struct hf_tokenizer *work)
{
    static const struct {
        const char *name, *key;
    } tokens[] = {
        {"bos_token", "tokenizer.ggml.bos_token_id"},     {"eos_token", "tokenizer.ggml.eos_token_id"},
        {"unk_token", "tokenizer.ggml.unknown_token_id"}, {"sep_token", "tokenizer.ggml.seperator_token_id"},
        {"pad_token", "tokenizer.ggml.padding_token_id"}, {"cls_token", "tokenizer.ggml.cls_token_id"},
        {"mask_token", "tokenizer.ggml.mask_token_id"},
    };
    int status = ENGINE_OK;
    int64_t eos = -1, bos = -1, cls = special_id(work, "cls_token");
    for (size_t i = 0; !status && i < sizeof tokens / sizeof *tokens; i++) {
        int64_t id = special_id(work, tokens[i].name);
        if (i == 0 && id < 0) id = cls; /* in GGUF, BERT's texts begin with BOS */
        if (i == 0) bos = id;
        if (i == 1) eos = id;
        if (id >= 0) status = metadata_add_u32(work->metadata, tokens[i].key, (uint32_t)id);
    }
    if (!status) status = add_ends(work, eos);
    if (work->description) {
        work->add_bos = work->add_eos = 0;
        work->add_sep = -1;
        const char *begin = bos >= 0 ? work->tokens[bos].data : NULL;
        const char *end = eos >= 0 ? work->tokens[eos].data : NULL;
        char first[256] = "", last[256] = "";
        if (begin) snprintf(first, sizeof first, "%.*s", (int)work->tokens[bos].length, begin);
        if (end) snprintf(last, sizeof last, "%.*s", (int)work->tokens[eos].length, end);
        read_processor(work, json_object_get(work->description, "post_processor"), first, last, 0);
    }
    if (!status) status = read_config_flag(work, "add_bos_token", "add_bos", &work->add_bos);
    if (!status) status = read_config_flag(work, "add_eos_token", "add_eos", &work->add_eos);
    if (bos < 0 && work->add_bos > 0) work->add_bos = -1; /* the description says what is added */
    if (eos < 0 && work->add_eos > 0) work->add_eos = -1;
    if (special_id(work, "sep_token") < 0 && work->add_sep > 0) work->add_sep = -1;
    if (!status && work->add_bos >= 0)
        status = metadata_add_boolean(work->metadata, "tokenizer.ggml.add_bos_token", work->add_bos != 0);
    if (!status && work->add_eos >= 0)
        status = metadata_add_boolean(work->metadata, "tokenizer.ggml.add_eos_token", work->add_eos != 0);
    if (!status && work->description && work->add_sep >= 0)
        status = metadata_add_boolean(work->metadata, "tokenizer.ggml.add_sep_token", work->add_sep != 0);
    return status;
}

/* ---- Chat templates ---- */

/* The templates beside the default one. */
struct templates {
    struct engine_string *names; /* [count], memory of the metadata */
    size_t count;
};

static char *tokenizer_copy(const struct hf_tokenizer *work, const char *before, const char *text,
                            size_t length)
{
    size_t prefix = strlen(before);
    char *memory = metadata_allocate(work->metadata, prefix + length + 1);
    if (!memory) return NULL;
    memcpy(memory, before, prefix);
    memcpy(memory + prefix, text, length);
    memory[prefix + length] = '\0';
    return memory;
}

/* A template's text is copied; one whose name is known already is left out. */
static int add_template(const struct hf_tokenizer *work, struct templates *templates, const char *name,
                        const char *text, size_t length)
{
    bool is_default = !name || strcmp(name, "default") == 0;
    const char *key = is_default ? "tokenizer.chat_template"
                                 : tokenizer_copy(work, "tokenizer.chat_template.", name, strlen(name));
    struct engine_string *value = metadata_allocate(work->metadata, sizeof *value);
    char *memory = tokenizer_copy(work, "", text, length);
    if (!key || !value || !memory) return error_memory("chat template");
    if (!is_default) {
        for (size_t i = 0; i < templates->count; i++)
            if (strcmp(templates->names[i].data, name) == 0) return ENGINE_OK;
        if (templates->count == MAX_TEMPLATES) return ENGINE_OK;
        char *known = tokenizer_copy(work, "", name, strlen(name));
        if (!known) return error_memory("chat template");
        templates->names[templates->count++] = (struct engine_string){known, strlen(name)};
    }
    *value = (struct engine_string){memory, length};
    return metadata_add(work->metadata, &(struct metadata_entry){key, METADATA_STRING, false, 1, value});
}

static int add_json_template(const struct hf_tokenizer *work, struct templates *templates, const char *name,
                             const json_t *text)
{
    return add_template(work, templates, name, json_string_value(text), json_string_length(text));
}

#define TEMPLATE_FOLDER "additional_chat_templates/"

/* additional_chat_templates/NAME.jinja; the default one has been read. */
static int add_folder(const struct hf_tokenizer *work, struct templates *templates)
{
    char *path = hf_tokenizer_path(work->directory, TEMPLATE_FOLDER);
    if (!path) return error_memory("chat template");
    struct dirent **entries = NULL;
    int count = scandir(path, &entries, NULL, alphasort), status = ENGINE_OK;
    for (int i = 0; i < count; i++) {
        const char *file = entries[i]->d_name;
        size_t length = strlen(file), size = 0;
        char name[320];
        const char *text = NULL;
        if (!status && length > 6 && length < 256 && strcmp(file + length - 6, ".jinja") == 0) {
            snprintf(name, sizeof name, TEMPLATE_FOLDER "%s", file);
            if (strcmp(file, "default.jinja") != 0)
                status = hf_tokenizer_text(work, name, HF_TEMPLATE_MAX, &text, &size);
            snprintf(name, sizeof name, "%.*s", (int)(length - 6), file);
            if (!status && text) status = add_template(work, templates, name, text, size);
        }
        free(entries[i]);
    }
    free(entries);
    free(path);
    return status;
}

/* The list of named templates in tokenizer_config.json: [{"name": …, "template": …}]. */
static int add_list(const struct hf_tokenizer *work, struct templates *templates, const json_t *list,
                    bool has_default)
{
    size_t i;
    const json_t *item;
    int status = ENGINE_OK;
    json_array_foreach(list, i, item)
    {
        const char *name = json_string_value(json_object_get(item, "name"));
        const json_t *text = json_object_get(item, "template");
        if (status || !name || !json_is_string(text)) continue;
        if (strcmp(name, "default") == 0 && has_default) continue;
        if (strcmp(name, "default") == 0) has_default = true;
        status = add_json_template(work, templates, name, text);
    }
    return status;
}

int hf_tokenizer_add_templates(struct hf_tokenizer *work)
{
    struct templates templates = {
        .names = metadata_allocate(work->metadata, MAX_TEMPLATES * sizeof *templates.names)};
    const char *text = NULL;
    size_t length = 0;
    json_t *file = NULL;
    if (!templates.names) return error_memory("chat template");
    const json_t *value = json_object_get(work->config, "chat_template");
    /* An additional one of that name replaces the default, as in transformers. */
    int status = hf_tokenizer_text(work, TEMPLATE_FOLDER "default.jinja", HF_TEMPLATE_MAX, &text, &length);
    if (!status && !text)
        status = hf_tokenizer_text(work, "chat_template.jinja", HF_TEMPLATE_MAX, &text, &length);
    if (!status && !text) status = hf_tokenizer_json(work->directory, "chat_template.json", &file);
    const json_t *other = json_object_get(file, "chat_template");
    bool has_default = text || json_is_string(other) || json_is_string(value);
    if (!status && text)
        status = add_template(work, &templates, NULL, text, length);
    else if (!status && json_is_string(other))
        status = add_json_template(work, &templates, NULL, other);
    else if (!status && json_is_string(value))
        status = add_json_template(work, &templates, NULL, value);
    if (!status) status = add_folder(work, &templates);
    if (!status) status = add_list(work, &templates, value, has_default);
    json_decref(file);
    if (!status && templates.count)
        status =
            metadata_add(work->metadata, &(struct metadata_entry){"tokenizer.chat_templates", METADATA_STRING,
                                                                  true, templates.count, templates.names});
    return status;
}

/* ---- Sampling ---- */

/* A number, or null. */
static bool is_setting(const json_t *value)
{
    return !value || json_is_null(value) || json_is_number(value);
}

static int check_generation(const json_t *config)
{
    static const char *const names[] = {"temperature", "top_p", "min_p", "top_k", "repetition_penalty"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (!is_setting(json_object_get(config, names[i])))
            return error_raise(ENGINE_ERROR_DATA, "generation_config.json: %s is not a number", names[i]);
    const json_t *ends = json_object_get(config, "eos_token_id");
    bool known = is_setting(ends) || json_is_array(ends);
    for (size_t i = 0; known && i < json_array_size(ends); i++)
        known = json_is_integer(json_array_get(ends, i));
    if (known) return ENGINE_OK;
    return error_raise(ENGINE_ERROR_DATA,
                       "generation_config.json: eos_token_id is neither a token nor a list");
}

/* generation_config.json's settings, unless it says that texts are not sampled. */
int hf_tokenizer_add_sampling(struct hf_tokenizer *work)
{
    static const struct {
        const char *name, *key;
    } numbers[] = {
        {"temperature", "general.sampling.temp"},
        {"top_p", "general.sampling.top_p"},
        {"min_p", "general.sampling.min_p"},
        {"repetition_penalty", "general.sampling.penalty_repeat"},
    };
    const json_t *config = work->generation, *top_k = json_object_get(config, "top_k");
    int status = check_generation(config);
    if (status || json_is_false(json_object_get(config, "do_sample"))) return status;
    for (size_t i = 0; !status && i < sizeof numbers / sizeof *numbers; i++) {
        const json_t *value = json_object_get(config, numbers[i].name);
        if (json_is_number(value))
            status = metadata_add_f32(work->metadata, numbers[i].key, (float)json_number_value(value));
    }
    if (!status && json_is_integer(top_k) && json_integer_value(top_k) >= 0 &&
        json_integer_value(top_k) <= INT32_MAX)
        status =
            metadata_add_u32(work->metadata, "general.sampling.top_k", (uint32_t)json_integer_value(top_k));
    return status;
}

/* sentence.c: what a directory says of embeddings and scores of texts: the steps of sentence-transformers
 * (modules.json), how long texts may be and what is put before them, classification heads
 * (…ForSequenceClassification), and rerankers that answer with one of two tokens. What GGUF has no key for
 * gets names of the engine's; engine/embedding/embedding.h says what they mean. */
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>

#include "arch/arch.h"
#include "base/error.h"
#include "common/printable.h"
#include "model/file.h"
#include "model/hf/internal.h"
#include "model/hf/json.h"

/* ---- Steps --------------------------------------------------------------------------------------------- */

#define MAX_FILE ((uint64_t)1 << 20) /* bytes */

/* Names of pooling_mode, and of the flags that older files have instead. `type`: GGUF's number; 0: not
 * supported. */
static const struct mode {
    const char *name, *flag;
    uint32_t type;
} modes[] = {
    {"mean", "pooling_mode_mean_tokens", 1},
    {"cls", "pooling_mode_cls_token", 2},
    {"lasttoken", "pooling_mode_lasttoken", 3},
    {"max", "pooling_mode_max_tokens", 0},
    {"mean_sqrt_len_tokens", "pooling_mode_mean_sqrt_len_tokens", 0},
    {"weightedmean", "pooling_mode_weightedmean_tokens", 0},
};

/* Records an error of one of the two files, whose message is the whole line. */
static void sentence_fail(struct hf_config *config, const char *path, int status, const char *what)
{
    if (!config->status) config->status = error_raise(status, "%s: %s", path, what);
}

/* The mode of a pooling's config.json. NULL: an error is recorded. */
static const struct mode *find_mode(struct hf_config *config, const char *path, const json_t *json)
{
    const char *name = json_string_value(json_object_get(json, "pooling_mode"));
    const struct mode *found = NULL;
    size_t n = 0;
    for (size_t i = 0; i < sizeof modes / sizeof *modes; i++) {
        bool is_set =
            name ? strcmp(name, modes[i].name) == 0 : json_is_true(json_object_get(json, modes[i].flag));
        if (is_set) found = &modes[i];
        n += is_set;
    }
    if (n == 1 && found->type != 0) return found;
    sentence_fail(config, path, n == 0 ? ENGINE_ERROR_DATA : ENGINE_ERROR_UNSUPPORTED,
                  n == 0   ? "no way of pooling is set, or an unknown one"
                  : n == 1 ? "this way of pooling is not supported (supported: mean, cls, lasttoken)"
                           : "several ways of pooling at once are not supported");
    return NULL;
}

/* The config.json of a step's folder, to be released; NULL: an error is recorded. */
static json_t *open_step(struct hf_config *config, char path[PATH_MAX], const char *folder, const char *name)
{
    json_t *json = NULL;
    if (config->status) return NULL;
    int length = snprintf(path, PATH_MAX, "%s/%s/config.json", folder, name);
    if (length < 0 || length >= PATH_MAX) {
        sentence_fail(config, folder, ENGINE_ERROR_DATA, "the path is too long");
        return NULL;
    }
    config->status = hf_json_read(path, MAX_FILE, &json);
    return json;
}

static void read_pooling(struct hf_config *config, const char *folder, const char *name)
{
    char path[PATH_MAX];
    json_t *json = open_step(config, path, folder, name);
    if (!json) return;
    const struct mode *mode = find_mode(config, path, json);
    if (mode) hf_put_count(config, "pooling_type", mode->type);
    if (json_is_false(json_object_get(json, "include_prompt")))
        hf_put_flag(config, "engine.prompts.pooled", false);
    json_decref(json);
}

/* ---- Dense --------------------------------------------------------------------------------------------- */

/* The last word of a type such as "sentence_transformers.models.Pooling". */
static const char *last_word(const char *type)
{
    const char *dot = type ? strrchr(type, '.') : NULL;
    return dot ? dot + 1 : type ? type : "";
}

/* torch's classes, and the engine's names. Without a class it is Tanh. */
static const char *activation_of(const json_t *json)
{
    static const char *const names[][2] = {{"Identity", "identity"}, {"Tanh", "tanh"},
                                           {"GELU", "gelu"},         {"ReLU", "relu"},
                                           {"SiLU", "silu"},         {"Sigmoid", "sigmoid"}};
    const json_t *given = json_object_get(json, "activation_function");
    const char *word = given ? last_word(json_string_value(given)) : "Tanh";
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strcmp(names[i][0], word) == 0) return names[i][1];
    return NULL;
}

static bool is_embedding(const json_t *json, const char *key)
{
    const json_t *given = json_object_get(json, key);
    const char *name = json_string_value(given);
    return !given || json_is_null(given) || (name && strcmp(name, "sentence_embedding") == 0);
}

/* `number`: of the step among those of its kind. */
static void read_dense(struct hf_config *config, const char *folder, const char *name, uint32_t number)
{
    char path[PATH_MAX], key[64];
    json_t *json = open_step(config, path, folder, name);
    if (!json) return;
    const char *activation = activation_of(json);
    if (!activation)
        sentence_fail(
            config, path, ENGINE_ERROR_UNSUPPORTED,
            "this activation_function is not supported (supported: Identity, Tanh, GELU, ReLU, SiLU, "
            "Sigmoid)");
    else if (json_is_true(json_object_get(json, "use_residual")))
        sentence_fail(config, path, ENGINE_ERROR_UNSUPPORTED, "use_residual is not supported");
    else if (!is_embedding(json, "module_input_name") || !is_embedding(json, "module_output_name"))
        sentence_fail(
            config, path, ENGINE_ERROR_UNSUPPORTED,
            "a Dense that reads or writes something else than the sentence's embedding is not supported");
    if (activation && !config->status) {
        snprintf(key, sizeof key, "engine.dense_%u.activation", number + 2);
        hf_put_text(config, key, activation);
        /* llama.cpp's keys, without which it leaves the matrices out. */
        const uint32_t n_in = hf_count(config, json, "in_features", 0),
                       n_out = hf_count(config, json, "out_features", 0);
        snprintf(key, sizeof key, "dense_%u_feat_in", number + 2);
        hf_put_count(config, key, n_in);
        snprintf(key, sizeof key, "dense_%u_feat_out", number + 2);
        hf_put_count(config, key, n_out);
    }
    json_decref(json);
}

/* ---- The steps ----------------------------------------------------------------------------------------- */

static const char *type_of(const json_t *module)
{
    return last_word(json_string_value(json_object_get(module, "type")));
}

/* The folder of a step, in the directory itself; NULL: it is elsewhere. */
static const char *folder_of(const json_t *module)
{
    const char *name = json_string_value(json_object_get(module, "path"));
    bool is_name =
        name && name[0] && name[0] != '.' && !strchr(name, '/') && printable_is(name, strlen(name));
    return is_name ? name : NULL;
}

/* What has been read so far. */
struct steps {
    const char *path; /* modules.json's */
    uint32_t n_poolings, n_dense;
    bool is_normalised;
};

static void read_module(struct hf_config *config, const char *folder, const json_t *module,
                        struct steps *steps)
{
    const char *type = type_of(module), *name = folder_of(module);
    char message[160];
    bool pools = strcmp(type, "Pooling") == 0, is_dense = strcmp(type, "Dense") == 0;
    if (strcmp(type, "Transformer") == 0) return;
    if (strcmp(type, "LogitScore") == 0) { /* see hf_add_reranker */
        config->has_logit_score = true;
        return;
    }
    if (steps->is_normalised)
        sentence_fail(config, steps->path, ENGINE_ERROR_UNSUPPORTED,
                      "a step after Normalize is not supported");
    steps->is_normalised = strcmp(type, "Normalize") == 0;
    if (steps->is_normalised || config->status) return;
    steps->n_poolings += pools;
    if (!pools && !is_dense) {
        snprintf(message, sizeof message,
                 "the step '%.40s' is not supported; without modules.json, the directory runs without it",
                 printable_is(type, strlen(type)) ? type : "");
        sentence_fail(config, steps->path, ENGINE_ERROR_UNSUPPORTED, message);
    } else if (!name) {
        snprintf(message, sizeof message, "the path of %s is not a folder of the directory", type);
        sentence_fail(config, steps->path, ENGINE_ERROR_DATA, message);
    } else if (pools && steps->n_poolings > 1) {
        sentence_fail(config, steps->path, ENGINE_ERROR_UNSUPPORTED, "several steps of pooling");
    } else if (is_dense && steps->n_poolings == 0) {
        sentence_fail(config, steps->path, ENGINE_ERROR_UNSUPPORTED,
                      "a Dense before Pooling is not supported");
    } else if (pools) {
        read_pooling(config, folder, name);
    } else {
        read_dense(config, folder, name, steps->n_dense++);
    }
}

/* *modules: the array, to be released; NULL: there is no modules.json. */
static int open_modules(const char *folder, char path[PATH_MAX], json_t **modules)
{
    struct stat info;
    *modules = NULL;
    int length = snprintf(path, PATH_MAX, "%s/modules.json", folder);
    if (length < 0 || length >= PATH_MAX || lstat(path, &info) != 0) return ENGINE_OK;
    return hf_json_read_array(path, MAX_FILE, modules);
}

int hf_read_pooling(struct hf_config *config, const char *folder)
{
    char path[PATH_MAX];
    json_t *modules = NULL, *module;
    struct steps steps = {.path = path};
    size_t i;
    if (!config->status) config->status = open_modules(folder, path, &modules);
    if (config->status || !modules) return config->status;
    json_array_foreach(modules, i, module) read_module(config, folder, module, &steps);
    config->n_dense = steps.n_dense;
    json_decref(modules);
    return config->status;
}

int hf_list_dense(const char *folder, json_t *names)
{
    char path[PATH_MAX], name[PATH_MAX];
    json_t *modules, *module;
    size_t i;
    int status = open_modules(folder, path, &modules);
    json_array_foreach(modules, i, module)
    {
        const char *inner = folder_of(module);
        if (strcmp(type_of(module), "Dense") != 0 || !inner || status) continue;
        snprintf(name, sizeof name, "%s/model.safetensors", inner);
        if (json_object_get(names, name))
            status = error_raise(ENGINE_ERROR_DATA, "%s: two steps have the folder %s", path, inner);
        else if (json_object_set_new(names, name, json_integer((json_int_t)json_object_size(names))) != 0)
            status = error_memory("index");
    }
    json_decref(modules);
    return status;
}

/* ---- Texts --------------------------------------------------------------------------------------------- */

#define MAX_PROMPTS 1000

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

static struct engine_string sentence_copy(struct hf_config *config, const char *text, size_t length)
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
    if (count > MAX_PROMPTS && !config->status)
        config->status = error_raise(ENGINE_ERROR_DATA, "%s has more than %d prompts", path, MAX_PROMPTS);
    json_object_foreach((json_t *)(uintptr_t)prompts, name, text)
    {
        if (!config->status && !json_is_string(text))
            config->status = error_raise(ENGINE_ERROR_DATA, "%s: a prompt is not a text", path);
        if (config->status) return;
        names[i] = sentence_copy(config, name, strlen(name));
        texts[i++] = sentence_copy(config, json_string_value(text), json_string_length(text));
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
    if (json_object_size(prompts) == 0) prompts = hf_get(config->root, "task_instructions");
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

/* ---- Classification heads ------------------------------------------------------------------------------ */

#define MAX_LABELS 100000

/* id2label, {"0": "NEGATIVE", "1": "POSITIVE"}. The names that transformers makes up, LABEL_0 and so on,
 * are none. */
static void put_labels(struct hf_config *config)
{
    const json_t *names = hf_get(config->root, "id2label");
    size_t count = json_object_size(names), size = 0;
    bool is_named = false;
    if (count == 0 || count > MAX_LABELS) return;
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

/* ---- Rerankers by two logits --------------------------------------------------------------------------- */

/* Neither the metadata nor the tensors have an index of their names yet. */
static const struct metadata_entry *find_entry(const struct model *model, const char *key)
{
    for (size_t i = 0; i < metadata_count(model->metadata); i++)
        if (strcmp(metadata_at(model->metadata, i)->key, key) == 0) return metadata_at(model->metadata, i);
    return NULL;
}

static const struct model_tensor *find_tensor(const struct model *model, const char *name)
{
    for (size_t i = 0; i < model->n_tensors; i++)
        if (strcmp(model->tensors[i].name, name) == 0) return &model->tensors[i];
    return NULL;
}

/* Whether a text has these words, in any case. */
static bool has_words(const char *text, size_t length, const char *words)
{
    size_t n = strlen(words);
    for (size_t i = 0; i + n <= length; i++)
        if (strncasecmp(text + i, words, n) == 0) return true;
    return false;
}

static bool is_named(const struct model *model, const struct hf_reranker *reranker)
{
    const struct metadata_entry *entry = find_entry(model, "general.name");
    const struct engine_string *name = entry ? entry->values : NULL;
    return name && has_words(name->data, name->length, reranker->name);
}

static bool readme_says_so(const char *folder, const struct hf_reranker *reranker)
{
    char path[PATH_MAX];
    struct stat info;
    const uint8_t *text;
    uint64_t size;
    int length = snprintf(path, sizeof path, "%s/README.md", folder);
    if (length < 0 || (size_t)length >= sizeof path || stat(path, &info) != 0 || !S_ISREG(info.st_mode))
        return false;
    if (model_map_file(path, &text, &size) != ENGINE_OK) {
        error_clear();
        return false;
    }
    bool found = has_words((const char *)text, (size_t)size, reranker->title);
    model_unmap_file(text, size);
    return found;
}

/* The models of all families that are rerankers of this kind, for a message. */
static const char *name_rerankers(char *text, size_t size)
{
    const struct architecture *family;
    size_t at = 0;
    text[0] = '\0';
    for (size_t i = 0; (family = arch_at(i)); i++)
        for (const struct hf_type *type = family->hf.types; type && type->name; type++)
            if (type->reranker && at < size)
                at += (size_t)snprintf(text + at, size - at, "%s%s", at ? ", " : "", type->reranker->models);
    return text;
}

static int find_token(const struct model *model, const char *text, uint64_t *id)
{
    const struct metadata_entry *tokens = find_entry(model, "tokenizer.ggml.tokens");
    const struct engine_string *texts = tokens ? tokens->values : NULL;
    for (*id = 0; tokens && *id < tokens->count; ++*id)
        if (texts[*id].length == strlen(text) && memcmp(texts[*id].data, text, texts[*id].length) == 0)
            return ENGINE_OK;
    return error_raise(ENGINE_ERROR_DATA, "%s: a reranker without the token '%s'", model->path, text);
}

static int add_head(struct model *model, const char *const labels[2])
{
    const struct model_tensor *matrix = find_tensor(model, "output.weight");
    if (!matrix) matrix = find_tensor(model, "token_embd.weight");
    if (!matrix || matrix->ne[1] == 0)
        return error_raise(ENGINE_ERROR_DATA, "%s has no output matrix", model->path);
    uint64_t row = matrix->size / matrix->ne[1];
    uint8_t *rows = metadata_allocate(model->metadata, (size_t)(2 * row));
    if (!rows) return error_memory("classification head");
    for (int i = 0; i < 2; i++) {
        uint64_t id;
        int status = find_token(model, labels[i], &id);
        if (status) return status;
        if (id >= matrix->ne[1])
            return error_raise(ENGINE_ERROR_DATA, "%s: the output matrix has no row for '%s'", model->path,
                               labels[i]);
        model_tensor_read(matrix, id, 1, rows + (uint64_t)i * row);
    }
    model->tensors[model->n_tensors++] = (struct model_tensor){.name = "cls.output.weight",
                                                               .type = matrix->type,
                                                               .n_dims = 2,
                                                               .ne = {matrix->ne[0], 2, 1, 1},
                                                               .data = rows,
                                                               .size = 2 * row};
    return ENGINE_OK;
}

int hf_add_reranker(struct model *model, struct hf_config *config, const char *folder)
{
    const struct hf_reranker *reranker = config->type.reranker;
    bool is_one =
        reranker && !config->is_classifier && (is_named(model, reranker) || readme_says_so(folder, reranker));
    if (!is_one && config->has_logit_score) {
        char models[200];
        return error_raise(ENGINE_ERROR_UNSUPPORTED,
                           "%s/modules.json: the step 'LogitScore' is supported only for %s", folder,
                           name_rerankers(models, sizeof models));
    }
    if (!is_one) return ENGINE_OK;
    struct engine_string *labels = metadata_allocate(model->metadata, 2 * sizeof *labels);
    if (!labels) return error_memory("metadata");
    for (int i = 0; i < 2; i++)
        labels[i] = (struct engine_string){reranker->labels[i], strlen(reranker->labels[i])};
    hf_put_count(config, "pooling_type", 4);
    hf_put_texts(config, "classifier.output_labels", labels, 2);
    int status = config->status;
    if (!status)
        status = metadata_add_string(model->metadata, "tokenizer.chat_template.rerank", reranker->prompt);
    return status ? status : add_head(model, reranker->labels);
}

/* pooling.c: see pooling.h. */
#include "model/hf/pooling.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/error.h"
#include "common/printable.h"
#include "model/hf/json.h"

#define MAX_FILE ((uint64_t)1 << 20) /* bytes */

/* Names of pooling_mode, and of the flags that older files have instead. `type`: GGUF's number; 0: not supported. */
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
static void fail(struct hf_config *config, const char *path, int status, const char *what)
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
    fail(config, path, n == 0 ? ENGINE_ERROR_DATA : ENGINE_ERROR_UNSUPPORTED,
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
        fail(config, folder, ENGINE_ERROR_DATA, "the path is too long");
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

/* ---- Dense ---------------------------------------------------------------------------------------------- */

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
        fail(config, path, ENGINE_ERROR_UNSUPPORTED,
             "this activation_function is not supported (supported: Identity, Tanh, GELU, ReLU, SiLU, "
             "Sigmoid)");
    else if (json_is_true(json_object_get(json, "use_residual")))
        fail(config, path, ENGINE_ERROR_UNSUPPORTED, "use_residual is not supported");
    else if (!is_embedding(json, "module_input_name") || !is_embedding(json, "module_output_name"))
        fail(config, path, ENGINE_ERROR_UNSUPPORTED,
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

/* ---- The steps ------------------------------------------------------------------------------------------ */

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
    if (strcmp(type, "LogitScore") == 0) { /* see reranker.h */
        config->has_logit_score = true;
        return;
    }
    if (steps->is_normalised)
        fail(config, steps->path, ENGINE_ERROR_UNSUPPORTED, "a step after Normalize is not supported");
    steps->is_normalised = strcmp(type, "Normalize") == 0;
    if (steps->is_normalised || config->status) return;
    steps->n_poolings += pools;
    if (!pools && !is_dense) {
        snprintf(message, sizeof message,
                 "the step '%.40s' is not supported; without modules.json, the directory runs without it",
                 printable_is(type, strlen(type)) ? type : "");
        fail(config, steps->path, ENGINE_ERROR_UNSUPPORTED, message);
    } else if (!name) {
        snprintf(message, sizeof message, "the path of %s is not a folder of the directory", type);
        fail(config, steps->path, ENGINE_ERROR_DATA, message);
    } else if (pools && steps->n_poolings > 1) {
        fail(config, steps->path, ENGINE_ERROR_UNSUPPORTED, "several steps of pooling");
    } else if (is_dense && steps->n_poolings == 0) {
        fail(config, steps->path, ENGINE_ERROR_UNSUPPORTED, "a Dense before Pooling is not supported");
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

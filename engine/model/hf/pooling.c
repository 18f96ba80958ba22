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

static void read_pooling(struct hf_config *config, const char *path)
{
    json_t *json;
    if (config->status) return;
    config->status = hf_json_read(path, MAX_FILE, &json);
    if (config->status) return;
    const struct mode *mode = find_mode(config, path, json);
    if (mode) hf_put_count(config, "pooling_type", mode->type);
    json_decref(json);
}

/* The last word of a type such as "sentence_transformers.models.Pooling". */
static const char *type_of(const json_t *module)
{
    const char *type = json_string_value(json_object_get(module, "type"));
    const char *dot = type ? strrchr(type, '.') : NULL;
    return dot ? dot + 1 : type ? type : "";
}

static void read_module(struct hf_config *config, const char *folder, const char *path, const json_t *module)
{
    const char *type = type_of(module), *name = json_string_value(json_object_get(module, "path"));
    char inner[PATH_MAX], message[160];
    if (strcmp(type, "Transformer") == 0 || strcmp(type, "Normalize") == 0) return;
    if (strcmp(type, "Pooling") != 0) {
        snprintf(message, sizeof message,
                 "the step '%.40s' is not supported; without modules.json, the directory runs without it",
                 printable_is(type, strlen(type)) ? type : "");
        fail(config, path, ENGINE_ERROR_UNSUPPORTED, message);
        return;
    }
    bool is_name = name && name[0] && name[0] != '.' && !strchr(name, '/');
    int length = is_name ? snprintf(inner, sizeof inner, "%s/%s/config.json", folder, name) : -1;
    if (length < 0 || (size_t)length >= sizeof inner || !printable_is(name, strlen(name)))
        fail(config, path, ENGINE_ERROR_DATA, "the path of Pooling is no folder of the directory");
    else
        read_pooling(config, inner);
}

int hf_read_pooling(struct hf_config *config, const char *folder)
{
    char path[PATH_MAX];
    struct stat info;
    json_t *modules, *module;
    size_t i, n_poolings = 0;
    int length = snprintf(path, sizeof path, "%s/modules.json", folder);
    if (config->status || length < 0 || (size_t)length >= sizeof path || lstat(path, &info) != 0)
        return config->status;
    config->status = hf_json_read_array(path, MAX_FILE, &modules);
    if (config->status) return config->status;
    json_array_foreach(modules, i, module)
    {
        n_poolings += strcmp(type_of(module), "Pooling") == 0;
        if (n_poolings > 1) fail(config, path, ENGINE_ERROR_UNSUPPORTED, "several steps of pooling");
        read_module(config, folder, path, module);
    }
    json_decref(modules);
    return config->status;
}

/* engine.c: opening the engine and models; the settings and plugins. The first functions of engine.h. */
#include "engine.h"

#include <stdlib.h>
#include <string.h>

#include "base/config.h"
#include "base/error.h"
#include "base/folders.h"
#include "base/log.h"
#include "common/lock.h"
#include "grammar/grammar.h"
#include "internal.h"
#include "model/model.h"
#include "picture/picture.h"
#include "plugins/host.h"
#include "plugins/plugins.h"
#include "vocabulary/token-texts.h"

const char *engine_version(void)
{
    return ENGINE_VERSION;
}

const char *engine_error_message(void)
{
    return error_message();
}

int engine_open(const struct engine_options *options, struct engine **out)
{
    struct engine_options known = {.struct_size = sizeof known};
    int status = options ? SIZED_CHECK(options, engine_options, user) : ENGINE_OK;
    if (status != ENGINE_OK) return status;
    if (options) sized_read(&known, sizeof known, options);
    struct engine *engine = calloc(1, sizeof *engine);
    if (!engine) return error_memory("engine");
    lock_init(&engine->devices_lock);
    lock_init(&engine->claims.lock);
    engine->claims.max_grown = UINT64_MAX;
    status = config_open(known.config_file, &engine->config);
    if (status == ENGINE_OK) status = host_begin(engine->config);
    if (status != ENGINE_OK) {
        config_close(engine->config);
        pthread_mutex_destroy(&engine->devices_lock);
        pthread_mutex_destroy(&engine->claims.lock);
        free(engine);
        return status;
    }
    engine->installed_model = folders_installed_model();
    log_to(known.log, known.user);
    const char *hidden = config_hidden(engine->config);
    if (hidden) log_line(ENGINE_LOG_INFO, "%s is not read: its folder can't be entered", hidden);
    status = plugins_open(known.plugin_dirs, engine->config, &engine->plugins);
    if (status != ENGINE_OK) {
        engine_close(engine);
        return status;
    }
    *out = engine;
    return ENGINE_OK;
}

void engine_close(struct engine *engine)
{
    if (!engine) return;
    plugins_close(engine->plugins);
    host_end();
    log_to(NULL, NULL);
    config_close(engine->config);
    free(engine->devices);
    free(engine->installed_model);
    pthread_mutex_destroy(&engine->devices_lock);
    pthread_mutex_destroy(&engine->claims.lock);
    free(engine);
}

const char *engine_setting(const struct engine *engine, const char *section, const char *key)
{
    return config_get(engine->config, section, key);
}

const char *engine_setting_file(const struct engine *engine, size_t index)
{
    return index < config_count(engine->config) ? config_at(engine->config, index)->path : NULL;
}

const char *engine_default_model(const struct engine *engine)
{
    const char *setting = config_get(engine->config, "", "model");
    return setting ? setting : engine->installed_model;
}

size_t engine_plugin_count(const struct engine *engine)
{
    return plugins_count(engine->plugins);
}

static const char *kind_name(uint32_t kind)
{
    return kind == ENGINE_PLUGIN_BACKEND ? "backend" : "tokenizer"; /* others are refused */
}

void engine_plugin_at(const struct engine *engine, size_t index, struct engine_plugin_entry_info *info)
{
    const struct plugin *plugin = plugins_at(engine->plugins, index);
    *info = (struct engine_plugin_entry_info){
        .path = plugin->path,
        .name = plugin->name,
        .abi_major = plugin->abi_major,
        .abi_minor = plugin->abi_minor,
        .refused = plugin->refused,
    };
    if (!plugin->info) return;
    info->kind = kind_name(plugin->info->kind);
    info->version = plugin->info->version;
    info->license = plugin->info->license;
    info->description = plugin->info->description;
}

/* ---- Models -------------------------------------------------------------------------------------------- */

/* The text of a key, ended by NUL, with U+FFFD for the NULs in it; "" if there is none. The caller frees it;
 * NULL: no memory. */
static char *copy_text(const struct metadata *metadata, const char *key)
{
    struct engine_string text = {"", 0};
    metadata_string(metadata, key, &text);
    char *copy = malloc(3 * text.length + 1), *end = copy;
    if (!copy) return NULL;
    for (size_t i = 0; i < text.length; i++) {
        if (text.data[i])
            *end++ = text.data[i];
        else
            end = stpcpy(end, "\xEF\xBF\xBD");
    }
    *end = 0;
    return copy;
}

int engine_model_open(struct engine *engine, const char *path, const char *tokenizer_path,
                      struct engine_model **model)
{
    return engine_model_open_changed(engine, path, tokenizer_path, NULL, model);
}

/* Opens a model; `is_eye`: the eye in a directory. */
static int open_any(struct engine *engine, const char *path, bool is_eye, const char *tokenizer_path,
                    const char *const *overrides, struct engine_model **out)
{
    struct engine_model *model = calloc(1, sizeof *model);
    if (!model) return error_memory("model");
    if (pthread_mutex_init(&model->token_texts_lock, NULL) != 0) {
        free(model);
        return error_memory("model");
    }
    if (lock_init(&model->grammar_lock) != 0) {
        pthread_mutex_destroy(&model->token_texts_lock);
        free(model);
        return error_memory("model");
    }
    int status =
        is_eye ? model_open_eye(path, &model->model) : model_open(path, tokenizer_path, &model->model);
    for (; overrides && *overrides && !status; overrides++) status = model_override(model->model, *overrides);
    if (status != ENGINE_OK) goto error;
    model->engine = engine;
    const struct metadata *metadata = model_metadata(model->model);
    metadata_getters(metadata, &model->getters);
    model->architecture = copy_text(metadata, "general.architecture");
    model->name = copy_text(metadata, "general.name");
    if (!model->architecture || !model->name) {
        status = error_memory("model");
        goto error;
    }
    *out = model;
    return ENGINE_OK;

error:
    engine_model_close(model);
    return status;
}

int engine_model_open_changed(struct engine *engine, const char *path, const char *tokenizer_path,
                              const char *const *overrides, struct engine_model **model)
{
    return open_any(engine, path, false, tokenizer_path, overrides, model);
}

int engine_model_open_eye(struct engine *engine, const char *path, struct engine_model **model)
{
    return open_any(engine, path, true, NULL, NULL, model);
}

void engine_model_close(struct engine_model *model)
{
    if (!model) return;
    while (model->adapters) engine_adapter_close(model->adapters);
    engine_eye_destroy(model->eye);
    pictures_destroy(model->pictures);
    grammar_vocab_destroy(model->grammar_vocab);
    pthread_mutex_destroy(&model->grammar_lock);
    token_texts_destroy(model->token_texts);
    pthread_mutex_destroy(&model->token_texts_lock);
    if (model->tokenizer) model->tokenizer_api->destroy(model->tokenizer);
    if (model->model) model_close(model->model);
    free(model->architecture);
    free(model->name);
    free(model);
}

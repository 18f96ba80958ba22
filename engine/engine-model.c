/* engine-model.c: the functions of engine.h on models: the file in model/ and its tokenizer, from a plugin. */
#include <stdlib.h>
#include <string.h>

#include "base/checked.h"
#include "base/error.h"
#include "base/sized.h"
#include "grammar/grammar.h"
#include "internal.h"
#include "model/types.h"
#include "model/verify.h"
#include "sample/sampler.h"

/* The text of a key, ended by NUL, with U+FFFD for the NULs in it; "" if there is none. The caller frees it; NULL: no memory. */
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
                      struct engine_model **out)
{
    struct engine_model *model = calloc(1, sizeof *model);
    if (!model) return error_memory("model");
    if (pthread_mutex_init(&model->token_texts_lock, NULL) != 0) {
        free(model);
        return error_memory("model");
    }
    if (pthread_mutex_init(&model->grammar_lock, NULL) != 0) {
        pthread_mutex_destroy(&model->token_texts_lock);
        free(model);
        return error_memory("model");
    }
    int status = model_open(path, tokenizer_path, &model->model);
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

int engine_model_verify(const char *path, const char *tokenizer_path,
                        const struct engine_verify_options *options, struct engine_verified *verified)
{
    struct engine_verify_options known = {0};
    struct verified found;
    int status = options ? SIZED_CHECK(options, engine_verify_options, user) : ENGINE_OK;
    if (!status && verified) status = SIZED_CHECK(verified, engine_verified, n_bytes);
    if (status) return status;
    if (options) sized_read(&known, sizeof known, options);
    status = model_verify(path, tokenizer_path, known.progress, known.user, &found);
    if (status || !verified) return status;
    struct engine_verified result = {
        .n_files = found.n_files, .n_unknown = found.n_unknown, .n_bytes = found.n_bytes};
    sized_write(verified, &result, sizeof result);
    return ENGINE_OK;
}

void engine_model_close(struct engine_model *model)
{
    if (!model) return;
    while (model->adapters) engine_adapter_close(model->adapters);
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

const struct engine_metadata *engine_model_metadata(const struct engine_model *model)
{
    return &model->getters;
}

size_t engine_model_metadata_count(const struct engine_model *model)
{
    return metadata_count(model_metadata(model->model));
}

void engine_model_metadata_at(const struct engine_model *model, size_t index,
                              struct engine_metadata_entry *entry)
{
    const struct metadata_entry *found = metadata_at(model_metadata(model->model), index);
    *entry = (struct engine_metadata_entry){
        .key = found->key, .type = metadata_entry_type(found), .count = found->count};
}

size_t engine_model_tensor_count(const struct engine_model *model)
{
    return model_tensor_count(model->model);
}

void engine_model_tensor_at(const struct engine_model *model, size_t index,
                            struct engine_model_tensor *tensor)
{
    const struct model_tensor *found = model_tensor_at(model->model, index);
    *tensor = (struct engine_model_tensor){
        .name = found->name,
        .type_name = type_info(found->type)->name,
        .type = found->type,
        .n_dims = found->n_dims,
        .size = found->size,
    };
    memcpy(tensor->ne, found->ne, sizeof tensor->ne);
}

/* Tensors may share bytes of the file, so that even their number of elements could overflow. */
static uint64_t count_parameters(const struct model *model)
{
    uint64_t total = 0;
    for (size_t i = 0; i < model_tensor_count(model); i++) {
        const uint64_t *ne = model_tensor_at(model, i)->ne;
        if (checked_add(total, ne[0] * ne[1] * ne[2] * ne[3], &total)) return UINT64_MAX;
    }
    return total;
}

int engine_model_get_info(const struct engine_model *model, struct engine_model_info *info)
{
    int status = SIZED_CHECK(info, engine_model_info, n_parameters);
    if (status != ENGINE_OK) return status;
    struct engine_model_info known = {
        .format = model_format(model->model),
        .architecture = model->architecture,
        .name = model->name,
        .file_size = model_file_size(model->model),
        .n_parameters = count_parameters(model->model),
    };
    sized_write(info, &known, sizeof known);
    return ENGINE_OK;
}

int engine_model_tokenizer(struct engine_model *model, const struct engine_tokenizer_api **api,
                           struct engine_tokenizer **tokenizer)
{
    if (!model->tokenizer) {
        const char *path = model_path(model->model);
        char kind[64];
        struct engine_string value;
        /* The first key is the engine's own: a tokenizer that is exact where GGUF's name only comes close. */
        if (!metadata_string(model_metadata(model->model), "tokenizer.engine.model", &value) &&
            !metadata_string(model_metadata(model->model), "tokenizer.ggml.model", &value)) {
            return error_raise(
                ENGINE_ERROR_DATA,
                model_is_directory(model->model)
                    ? "%s has no tokenizer: neither tokenizer.json nor tokenizer.model, vocab.json "
                      "or vocab.txt is in it"
                    : "%s has no tokenizer (for a llama2.c checkpoint, use --tokenizer)",
                path);
        }
        size_t length = value.length < sizeof kind - 1 ? value.length : sizeof kind - 1;
        memcpy(kind, value.data, length);
        kind[length] = '\0';
        const struct plugin *plugin = plugins_find_tokenizer(model->engine->plugins, kind);
        if (!plugin) {
            return error_raise(ENGINE_ERROR_UNSUPPORTED,
                               "%s: no plugin for its tokenizer '%s' (`engine plugins` lists those found)",
                               path, kind);
        }
        const struct engine_tokenizer_api *found = plugin->info->tokenizers;
        error_clear();
        int status = found->create(&model->getters, &model->tokenizer);
        if (status != ENGINE_OK && !error_message()[0])
            error_raise(status, "%s: the plugin created no tokenizer", plugin->name);
        if (status != ENGINE_OK) return error_wrap(status, "%s", path);
        model->tokenizer_api = found;
    }
    *api = model->tokenizer_api;
    *tokenizer = model->tokenizer;
    return ENGINE_OK;
}

int engine_model_explain(struct engine_model *model, const char *text, size_t length, uint32_t flags,
                         engine_explain_sink sink, void *user)
{
    const struct engine_tokenizer_api *api = NULL;
    struct engine_tokenizer *tokenizer = NULL;
    int status = engine_model_tokenizer(model, &api, &tokenizer);
    if (status) return status;
    if (!ENGINE_HAS(api, explain) || !api->explain)
        return error_raise(ENGINE_ERROR_UNSUPPORTED, "%s: the plugin of its tokenizer cannot explain itself",
                           model_path(model->model));
    return api->explain(tokenizer, text, length, flags, sink, user);
}

int model_token_texts(struct engine_model *model, const struct token_texts **texts)
{
    const struct engine_tokenizer_api *api = NULL;
    struct engine_tokenizer *tokenizer = NULL;
    pthread_mutex_lock(&model->token_texts_lock);
    int status = engine_model_tokenizer(model, &api, &tokenizer);
    if (!status && !model->token_texts) status = token_texts_create(api, tokenizer, &model->token_texts);
    *texts = model->token_texts;
    pthread_mutex_unlock(&model->token_texts_lock);
    return status;
}

int engine_model_token_text(struct engine_model *model, int32_t token, struct engine_string *text)
{
    const struct token_texts *texts;
    int status = model_token_texts(model, &texts);
    if (status) return status;
    if (token < 0 || (uint32_t)token >= texts->n_tokens)
        return error_raise(ENGINE_ERROR_ARGUMENT, "there is no token %d; the model has 0 to %u", token,
                           texts->n_tokens - 1);
    *text = token_text(texts, token);
    return ENGINE_OK;
}

int engine_sampler_create_for(struct engine_model *model, const struct engine_sampler_options *options,
                              uint32_t n_vocab, struct engine_sampler **sampler)
{
    struct sampler_settings settings;
    const struct token_texts *texts = NULL;
    int status = sampler_settings_read(options, &settings);
    if (status) return status;
    if (sampler_needs_texts(&settings)) status = model_token_texts(model, &texts);
    if (!status) status = sampler_create(&settings, n_vocab, texts, sampler);
    sampler_settings_free(&settings);
    return status;
}

/* token-texts.c: see token-texts.h. And the functions of engine.h on a model's tokenizer, from a plugin.
 * Plugins only decode whole texts, so each token is decoded after another one, and what it adds is its
 * text. */
#include "vocabulary/token-texts.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "arch/arch.h"
#include "base/error.h"
#include "common/assert.h"
#include "common/text.h"
#include "internal.h"
#include "model/model.h"
#include "plugins/plugins.h"

/* A token to decode first, so that those after it don't begin a text; -1: none. */
static int32_t find_first(const struct token_texts *texts, struct engine_decoder *decoder)
{
    struct engine_string text, rest;
    for (uint32_t id = 0; id < texts->n_tokens; id++) {
        if (texts->api->attributes(texts->tokenizer, (int32_t)id) != 0) continue;
        if (texts->api->decode(decoder, (int32_t)id, &text) != ENGINE_OK) continue;
        size_t length = text.length;
        if (texts->api->decode_end(decoder, &rest) == ENGINE_OK && length > 0 && rest.length == 0)
            return (int32_t)id;
    }
    return -1;
}

static int append_text(struct text_buffer *bytes, struct engine_string text)
{
    return text_buffer_add(bytes, text.data, text.length) ? ENGINE_OK : error_memory("texts of tokens");
}

static int token_texts_fill(struct token_texts *texts, struct engine_decoder *decoder)
{
    const struct engine_tokenizer_api *api = texts->api;
    int32_t first = find_first(texts, decoder);
    struct text_buffer bytes = {0};
    int status = ENGINE_OK;
    for (uint32_t id = 0; id < texts->n_tokens && !status; id++) {
        struct engine_string text = {"", 0}, rest = {"", 0};
        if (first >= 0) status = api->decode(decoder, first, &text);
        if (!status) status = api->decode(decoder, (int32_t)id, &text);
        if (!status) status = append_text(&bytes, text);
        if (!status) status = api->decode_end(decoder, &rest);
        if (!status) status = append_text(&bytes, rest);
        texts->ends[id] = bytes.size;
    }
    texts->bytes = bytes.data;
    return status;
}

int token_texts_create(const struct engine_tokenizer_api *api, struct engine_tokenizer *tokenizer,
                       struct token_texts **texts)
{
    struct engine_tokenizer_info info = {.struct_size = sizeof info};
    struct engine_decoder *decoder = NULL;
    int status = api->info(tokenizer, &info);
    if (status) return status;
    struct token_texts *created = calloc(1, sizeof *created);
    if (!created) return error_memory("texts of tokens");
    created->api = api;
    created->tokenizer = tokenizer;
    created->n_tokens = info.n_tokens;
    created->ends = calloc((size_t)info.n_tokens + 1, sizeof *created->ends);
    status = created->ends ? api->decoder_create(tokenizer, 1, &decoder) : error_memory("texts of tokens");
    if (!status) status = token_texts_fill(created, decoder);
    if (decoder) api->decoder_destroy(decoder);
    if (status)
        token_texts_destroy(created);
    else
        *texts = created;
    return status;
}

void token_texts_destroy(struct token_texts *texts)
{
    if (!texts) return;
    free(texts->ends);
    free(texts->bytes);
    free(texts);
}

struct engine_string token_text(const struct token_texts *texts, int32_t id)
{
    if (id < 0 || (uint32_t)id >= texts->n_tokens) return (struct engine_string){"", 0};
    ENGINE_ASSERT(id == 0 || texts->ends[id] >= texts->ends[id - 1]);
    size_t begin = id > 0 ? texts->ends[id - 1] : 0, length = texts->ends[id] - begin;
    return (struct engine_string){length > 0 ? texts->bytes + begin : "", length};
}

int token_is_hidden(const struct token_texts *texts, int32_t id)
{
    return (texts->api->attributes(texts->tokenizer, id) & (ENGINE_TOKEN_CONTROL | ENGINE_TOKEN_UNKNOWN)) !=
           0;
}

/* ---- The functions of engine.h ------------------------------------------------------------------------- */

/* Whether a text has these words, in any case. */
static bool has_words(struct engine_string text, const char *words)
{
    size_t n = strlen(words);
    for (size_t i = 0; i + n <= text.length; i++)
        if (strncasecmp(text.data + i, words, n) == 0) return true;
    return false;
}

/* The family of a model's file, if what it says of tokenizers holds for the model; or NULL. */
static const struct architecture *find_family(const struct metadata *metadata)
{
    struct engine_string value = {"", 0};
    char name[64];
    if (!metadata_string(metadata, "general.architecture", &value) || value.length >= sizeof name)
        return NULL;
    memcpy(name, value.data, value.length);
    name[value.length] = '\0';
    const struct architecture *family = arch_named(name);
    if (!family || !family->tokenizer.names[0]) return family;
    value = (struct engine_string){"", 0};
    metadata_string(metadata, "general.name", &value);
    for (int i = 0; i < 2 && family->tokenizer.names[i]; i++)
        if (has_words(value, family->tokenizer.names[i])) return family;
    return NULL;
}

/* What a family says in place of its files, then what the file says. `context`: the metadata, as in all of
 * its getters. */
static int get_string(void *context, const char *key, struct engine_string *value)
{
    const struct architecture *family =
        strncmp(key, "engine.tokenizer.", 17) == 0 ? find_family(context) : NULL;
    const char *text = !family                                           ? NULL
                       : strcmp(key, "engine.tokenizer.strip_left") == 0 ? family->tokenizer.strip_left
                       : strcmp(key, "engine.tokenizer.strip_right_but") == 0
                           ? family->tokenizer.strip_right_but
                           : NULL;
    if (!text) return metadata_string(context, key, value) ? ENGINE_OK : ENGINE_ERROR_NOT_FOUND;
    *value = (struct engine_string){text, strlen(text)};
    return ENGINE_OK;
}

void tokenizer_metadata(const struct metadata *metadata, struct engine_metadata *getters)
{
    metadata_getters(metadata, getters);
    getters->get_string = get_string;
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
        struct engine_metadata getters;
        tokenizer_metadata(model_metadata(model->model), &getters);
        int status = found->create(&getters, &model->tokenizer);
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

/* token-texts.c: see token-texts.h. Plugins only decode whole texts, so each token is decoded after another
 * one, and what it adds is its text. */
#include "vocabulary/token-texts.h"

#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "base/error.h"

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

static int fill(struct token_texts *texts, struct engine_decoder *decoder)
{
    const struct engine_tokenizer_api *api = texts->api;
    int32_t first = find_first(texts, decoder);
    struct bytes bytes = {0};
    int status = ENGINE_OK;
    for (uint32_t id = 0; id < texts->n_tokens && !status; id++) {
        struct engine_string text = {"", 0}, rest = {"", 0};
        if (first >= 0) status = api->decode(decoder, first, &text);
        if (!status) status = api->decode(decoder, (int32_t)id, &text);
        if (!status) status = bytes_add(&bytes, text.data, text.length, "texts of tokens");
        if (!status) status = api->decode_end(decoder, &rest);
        if (!status) status = bytes_add(&bytes, rest.data, rest.length, "texts of tokens");
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
    if (!status) status = fill(created, decoder);
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
    size_t begin = id > 0 ? texts->ends[id - 1] : 0, length = texts->ends[id] - begin;
    return (struct engine_string){length > 0 ? texts->bytes + begin : "", length};
}

int token_is_hidden(const struct token_texts *texts, int32_t id)
{
    return (texts->api->attributes(texts->tokenizer, id) & (ENGINE_TOKEN_CONTROL | ENGINE_TOKEN_UNKNOWN)) !=
           0;
}

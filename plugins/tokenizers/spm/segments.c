/* segments.c: text to ids. Spaces become U+2581; the text is cut into words where no token reaches across,
 * and each word is looked up among those seen before, or merged. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/explain.h"
#include "common/memory.h"
#include "common/utf8.h"
#include "spm/model.h"

/* Bytes after the text that may be read and are 0. */
#define PADDING 32

struct scratch {
    struct cache cache;
    struct merge_workspace merge;
    char *text; /* with U+2581 for spaces */
    size_t capacity;
};

int spm_scratch_create(const struct engine_tokenizer *tokenizer, void **scratch)
{
    (void)tokenizer;
    struct scratch *created = allocate_zeroed(1, sizeof *created);
    if (!created) return fail_memory("tokenizer");
    int status = cache_create(&created->cache);
    if (status)
        free(created);
    else
        *scratch = created;
    return status;
}

void spm_scratch_destroy(void *scratch)
{
    struct scratch *destroyed = scratch;
    if (!destroyed) return;
    cache_destroy(&destroyed->cache);
    merge_workspace_free(&destroyed->merge);
    free(destroyed->text);
    free(destroyed);
}

/* Writes the text with U+2581 for each space, and one before it if `prefix`. */
static int escape(struct scratch *scratch, struct engine_string text, bool prefix, size_t *length)
{
    size_t n_spaces = prefix;
    for (size_t i = 0; i < text.length; i++) n_spaces += text.data[i] == ' ';
    if (n_spaces > (SIZE_MAX - text.length - PADDING) / SPACE_MARK_SIZE ||
        !ARRAY_RESERVE(scratch->text, scratch->capacity, text.length + n_spaces * SPACE_MARK_SIZE + PADDING))
        return fail_memory("text");
    char *to = scratch->text;
    if (prefix) {
        memcpy(to, SPACE_MARK, SPACE_MARK_SIZE);
        to += SPACE_MARK_SIZE;
    }
    for (size_t i = 0; i < text.length; i++) {
        if (text.data[i] == ' ') {
            memcpy(to, SPACE_MARK, SPACE_MARK_SIZE);
            to += SPACE_MARK_SIZE;
        } else {
            *to++ = text.data[i];
        }
    }
    memset(to, 0, PADDING);
    *length = (size_t)(to - scratch->text);
    return ENGINE_OK;
}

/* A character that is no token: its bytes' tokens, or a single unknown token if one of them has none. `at`:
 * where they are in the word, for the explanation. */
static void put_bytes(const struct engine_tokenizer *tokenizer, const char *bytes, size_t length,
                      const char *at, struct output *output)
{
    const struct spm_model *model = tokenizer->model;
    bool known = true;
    for (size_t i = 0; i < length; i++) known = known && model->has_byte[(unsigned char)bytes[i]];
    for (size_t i = 0; known && i < length; i++) {
        int32_t id = model->byte_tokens[(unsigned char)bytes[i]];
        output_put(output, id);
        if (output->explanation) explain_token(output->explanation, at + i, 1, id, NAN);
    }
    if (known) return;
    output_put(output, tokenizer->vocab.unknown);
    if (output->explanation) explain_token(output->explanation, at, length, tokenizer->vocab.unknown, NAN);
}

static int32_t id_of(const struct engine_tokenizer *tokenizer, uint32_t symbol)
{
    return symbol < tokenizer->vocab.n_tokens ? (int32_t)symbol : -1;
}

static size_t character_size(const char *text, size_t left)
{
    return utf8_length_within((unsigned char)*text, left);
}

/* Merges what has been gathered in scratch->merge.initial, the characters of `run`. */
static int put_merged(const struct engine_tokenizer *tokenizer, struct scratch *scratch, const char *run,
                      size_t length, struct output *output)
{
    const struct spm_model *model = tokenizer->model;
    struct explanation *explanation = output->explanation;
    uint32_t n_tokens = tokenizer->vocab.n_tokens;
    int status = ENGINE_OK;
    if (explanation) status = explain_characters(explanation, run, length, character_size, id_of, true);
    if (!status) status = merge_run(&model->pairs, &scratch->merge);
    if (status) return status;
    for (size_t i = 0; i < scratch->merge.n_tokens; i++) {
        const struct merge_token *token = &scratch->merge.tokens[i];
        const char *at =
            explanation ? run + explain_places(explanation, token->start, token->start + 1).start : NULL;
        if (token->symbol < n_tokens) {
            output_put(output, (int32_t)token->symbol);
            size_t size = tokenizer->vocab.pieces[token->symbol].length;
            if (explanation) explain_token(explanation, at, size, (int32_t)token->symbol, NAN);
        } else {
            uint64_t key = model->characters[token->symbol - n_tokens];
            char bytes[4];
            for (size_t j = 0; j < 4; j++) bytes[j] = (char)(key >> 8 * j & 0xFF);
            put_bytes(tokenizer, bytes, (size_t)(key >> 32), at, output);
        }
    }
    merge_clear(&scratch->merge);
    return ENGINE_OK;
}

static int put_word(const struct engine_tokenizer *tokenizer, struct scratch *scratch, const char *word,
                    size_t length, struct output *output)
{
    const struct spm_model *model = tokenizer->model;
    if (output->explanation) explain_word(output->explanation, word, length);
    merge_clear(&scratch->merge);
    int status = merge_reserve(&scratch->merge, length);
    size_t run = 0; /* what has been gathered begins there */
    for (size_t at = 0, size; !status && at < length; at += size) {
        size = utf8_length_within((unsigned char)word[at], length - at);
        uint32_t symbol = spm_symbol_of(model, spm_character(word + at, size), size);
        if (symbol != SPM_NO_SYMBOL) {
            scratch->merge.initial[scratch->merge.n_initial++] = symbol;
        } else { /* in no token, so nothing merges across it */
            status = put_merged(tokenizer, scratch, word + run, at - run, output);
            put_bytes(tokenizer, word + at, size, word + at, output);
            run = at + size;
        }
    }
    return status ? status : put_merged(tokenizer, scratch, word + run, length - run, output);
}

/* put_word through the cache. `readable`: bytes from `word` on that may be read. */
static int put_cached(const struct engine_tokenizer *tokenizer, struct scratch *scratch, const char *word,
                      size_t length, size_t readable, struct output *output)
{
    if (length > CACHE_WORD_SIZE || output->explanation)
        return put_word(tokenizer, scratch, word, length, output);
    struct cache_key key = cache_key(word, length, readable);
    struct cache_slot *slot = cache_slot(&scratch->cache, &key);
    if (OUTPUT_SIZE - output->count < (size_t)4 * CACHE_WORD_SIZE) output_flush(output);
    if (cache_holds(slot, &key)) {
        memcpy(output->ids + output->count, slot->ids, sizeof slot->ids);
        output->count += slot->count;
        return ENGINE_OK;
    }
    size_t before = output->count;
    int status = put_word(tokenizer, scratch, word, length, output);
    size_t count = output->count - before;
    if (!status && count <= CACHE_IDS) {
        slot->key = key;
        slot->count = (uint32_t)count;
        memcpy(slot->ids, output->ids + before, count * sizeof *slot->ids);
    }
    return status;
}

int spm_encode(const struct engine_tokenizer *tokenizer, void *scratch, struct engine_string text, bool first,
               struct output *output)
{
    const struct spm_model *model = tokenizer->model;
    struct scratch *room = scratch;
    size_t length = 0, word = 0;
    int status = escape(room, text, first && tokenizer->vocab.add_space_prefix, &length);
    room->merge.explanation = output->explanation;
    if (!status && output->explanation)
        explain_text(output->explanation, text, (struct engine_string){room->text, length});
    uint32_t previous = 0;
    for (size_t at = 0, size; !status && !output->stopped && at < length; at += size) {
        size = utf8_length_within((unsigned char)room->text[at], length - at);
        uint32_t character = spm_character(room->text + at, size);
        if (at > word && !spm_joined(model, previous, character)) {
            status =
                put_cached(tokenizer, room, room->text + word, at - word, length + PADDING - word, output);
            word = at;
        }
        previous = character;
    }
    if (!status && word < length)
        status =
            put_cached(tokenizer, room, room->text + word, length - word, length + PADDING - word, output);
    return status;
}

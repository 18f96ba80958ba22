/* encode.c: text to ids. Each character becomes the class that the pre-tokenizer's expressions know it by;
 * the words that these find are looked up among those seen before, or merged. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "bpe/model.h"
#include "bpe/pretokenizers.h"
#include "common/explain.h"
#include "common/memory.h"
#include "common/unicode.h"

int bpe_scratch_create(const struct engine_tokenizer *tokenizer, void **scratch)
{
    (void)tokenizer;
    struct bpe_scratch *created = allocate_zeroed(1, sizeof *created);
    if (!created) return fail_memory("tokenizer");
    int status = cache_create(&created->cache);
    if (!status) status = expressions_workspace_create(&created->expressions);
    if (status)
        bpe_scratch_destroy(created);
    else
        *scratch = created;
    return status;
}

void bpe_scratch_destroy(void *scratch)
{
    struct bpe_scratch *destroyed = scratch;
    if (!destroyed) return;
    cache_destroy(&destroyed->cache);
    merge_workspace_free(&destroyed->merge);
    expressions_workspace_destroy(&destroyed->expressions);
    class_text_free(&destroyed->words);
    free(destroyed->text);
    free(destroyed);
}

/* One call of bpe_encode. */
struct encoding {
    const struct engine_tokenizer *tokenizer;
    struct bpe_scratch *scratch;
    struct output *output;
    struct engine_string text;
    size_t at;        /* where the next word begins, in bytes */
    size_t character; /* and in characters */
    bool ascii;       /* each character is one byte */
};

/* Puts the token of `length` bytes at `word`, if there is one. */
static void put_token(struct output *output, int32_t id, const char *word, size_t length)
{
    if (id >= 0) output_put(output, id);
    if (output->explanation) explain_token(output->explanation, word, length, id, NAN);
}

/* A symbol that is no token: the tokens of its bytes, as far as they exist. */
static void put_bytes(const struct encoding *encoding, const uint32_t *symbols, const char *word,
                      size_t count)
{
    const struct bpe_model *model = encoding->tokenizer->model;
    for (size_t i = 0; i < count; i++) put_token(encoding->output, model->tokens[symbols[i]], word + i, 1);
}

int32_t bpe_id_of(const struct engine_tokenizer *tokenizer, uint32_t symbol)
{
    const struct bpe_model *model = tokenizer->model;
    return model->tokens[symbol];
}

static int put_merged(const struct encoding *encoding, const char *word, size_t length)
{
    const struct bpe_model *model = encoding->tokenizer->model;
    struct merge_workspace *merge = &encoding->scratch->merge;
    merge_clear(merge);
    int status = merge_reserve(merge, length);
    if (status) return status;
    for (size_t i = 0; i < length; i++) merge->initial[i] = (unsigned char)word[i];
    merge->n_initial = length;
    if (merge->explanation) explain_run(merge->explanation, word, bpe_id_of);
    status = merge_run(&model->pairs, merge);
    for (size_t i = 0; !status && i < merge->n_tokens; i++) {
        int32_t id = model->tokens[merge->tokens[i].symbol];
        size_t start = merge->tokens[i].start;
        size_t end = i + 1 < merge->n_tokens ? merge->tokens[i + 1].start : length;
        if (id >= 0)
            put_token(encoding->output, id, word + start, end - start);
        else
            put_bytes(encoding, merge->initial + start, word + start, end - start);
    }
    return status;
}

static int put_word(const struct encoding *encoding, const char *word, size_t length)
{
    const struct bpe_model *model = encoding->tokenizer->model;
    if (encoding->output->explanation) explain_word(encoding->output->explanation, word, length);
    if (model->flags & PRE_WHOLE_WORDS) {
        uint32_t symbol = trie_find(&model->symbols, word, length);
        if (symbol != TRIE_NONE && model->tokens[symbol] >= 0) {
            put_token(encoding->output, model->tokens[symbol], word, length);
            return ENGINE_OK;
        }
    }
    return put_merged(encoding, word, length);
}

/* expressions_split's visit: put_word through the cache. */
static int visit_word(void *user, size_t n_characters)
{
    struct encoding *encoding = user;
    struct output *output = encoding->output;
    const char *word = encoding->text.data + encoding->at;
    size_t length = n_characters;
    if (!encoding->ascii) {
        length = 0;
        for (size_t i = 0; i < n_characters; i++)
            length += encoding->scratch->words.lengths[encoding->character + i];
    }
    size_t readable = encoding->text.length - encoding->at;
    encoding->at += length;
    encoding->character += n_characters;
    if (length > CACHE_WORD_SIZE || output->explanation) {
        int status = put_word(encoding, word, length);
        return status ? status : output->stopped;
    }

    struct cache_key key = cache_key(word, length, readable);
    struct cache_slot *slot = cache_slot(&encoding->scratch->cache, &key);
    if (OUTPUT_SIZE - output->count < (size_t)2 * CACHE_WORD_SIZE) output_flush(output);
    if (cache_holds(slot, &key)) {
        memcpy(output->ids + output->count, slot->ids, sizeof slot->ids);
        output->count += slot->count;
        return output->stopped;
    }
    size_t before = output->count;
    int status = put_word(encoding, word, length);
    size_t count = output->count - before;
    if (!status && count <= CACHE_IDS) {
        slot->key = key;
        slot->count = (uint32_t)count;
        memcpy(slot->ids, output->ids + before, count * sizeof *slot->ids);
    }
    return status ? status : output->stopped;
}

int bpe_encode(const struct engine_tokenizer *tokenizer, void *scratch, struct engine_string text, bool first,
               struct output *output)
{
    (void)first;
    const struct bpe_model *model = tokenizer->model;
    struct encoding encoding = {.tokenizer = tokenizer, .scratch = scratch, .output = output, .text = text};
    encoding.scratch->merge.explanation = output->explanation;
    if (model->flags & PRE_CHARACTERS) return bpe_encode_characters(tokenizer, scratch, text, output);
    if (output->explanation) explain_text(output->explanation, text, text);
    size_t n = 0;
    struct class_text *words = &encoding.scratch->words;
    int status = class_text_read(words, model->expressions.classes, encoding.text, &n);
    if (status) return status;
    encoding.ascii = n == encoding.text.length;
    return expressions_split(&model->expressions, &encoding.scratch->expressions, words->classes, n,
                             visit_word, &encoding);
}

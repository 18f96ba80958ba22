/* symbols.c: makes a struct spm_model of a vocabulary. See model.h. */
#include <stdlib.h>
#include <string.h>

#include "common/memory.h"
#include "common/utf8.h"
#include "spm/model.h"

/* Data needed only while the model is made. */
struct making {
    const struct vocab *vocab;
    struct spm_model *model;
    struct trie forward;  /* text of a symbol -> symbol */
    struct trie backward; /* the same, texts from last byte to first */
    uint32_t *prefixes;   /* [longest + 1] symbol that the token's first i bytes are, or TRIE_NONE */
    size_t prefixes_capacity;
};

static size_t character_length(struct engine_string piece, size_t at)
{
    return utf8_length_within((unsigned char)piece.data[at], piece.length - at);
}

static void add_to_table(struct spm_model *model, uint64_t key, uint32_t symbol)
{
    size_t i = (key * 0x9E3779B97F4A7C15u) >> 32 & model->symbols_mask;
    while (model->symbols[i].key) i = (i + 1) & model->symbols_mask;
    model->symbols[i] = (struct spm_symbol){key, symbol};
}

/* Makes room for twice the symbols; all new slots are empty. */
static int grow_table(struct spm_model *model)
{
    struct spm_symbol *old = model->symbols;
    size_t old_size = old ? model->symbols_mask + 1 : 0, size = old ? old_size * 2 : 1024;
    model->symbols = allocate_zeroed(size, sizeof *model->symbols);
    if (!model->symbols) {
        model->symbols = old;
        return fail_memory("vocabulary");
    }
    model->symbols_mask = size - 1;
    for (size_t i = 0; i < old_size; i++)
        if (old[i].key) add_to_table(model, old[i].key, old[i].symbol);
    free(old);
    return ENGINE_OK;
}

/* Gives a character, which occurs in a token, its symbol, if it has none yet. *n_table: symbols in the
 * table. */
static int add_character(struct making *making, const char *text, size_t length, size_t *n_table)
{
    struct spm_model *model = making->model;
    uint32_t character = spm_character(text, length);
    if (spm_symbol_of(model, character, length) != SPM_NO_SYMBOL) return ENGINE_OK;

    uint64_t key = (uint64_t)length << 32 | character;
    uint32_t symbol = trie_find(&making->vocab->ids, text, length);
    if (symbol == TRIE_NONE) {
        size_t n = model->n_symbols - making->vocab->n_tokens;
        if (model->n_symbols >= SPM_NO_SYMBOL - 1)
            return host->fail(ENGINE_ERROR_DATA, "the vocabulary has too many characters");
        if (!ARRAY_RESERVE(model->characters, model->characters_capacity, n + 1))
            return fail_memory("vocabulary");
        model->characters[n] = key;
        symbol = model->n_symbols++;
    }
    int status = trie_insert(&making->forward, text, length, false, symbol, NULL);
    if (!status) status = trie_insert(&making->backward, text, length, true, symbol, NULL);
    if (status) return status;
    if (length == 1 && character < 128) {
        model->ascii[character] = symbol;
        return ENGINE_OK;
    }
    if (*n_table * 2 > model->symbols_mask) {
        status = grow_table(model);
        if (status) return status;
    }
    add_to_table(model, key, symbol);
    (*n_table)++;
    return ENGINE_OK;
}

static int add_symbols(struct making *making)
{
    const struct vocab *vocab = making->vocab;
    struct spm_model *model = making->model;
    size_t bytes = 0, longest = 0, n_table = 0;
    for (uint32_t id = 0; id < vocab->n_tokens; id++) {
        size_t length = vocab->pieces[id].length;
        bytes += length;
        if (length > longest) longest = length;
    }
    for (size_t i = 0; i < 128; i++) model->ascii[i] = SPM_NO_SYMBOL;
    model->n_symbols = vocab->n_tokens;
    int status = grow_table(model);
    if (!status) status = trie_create(&making->forward, bytes);
    if (!status) status = trie_create(&making->backward, bytes);
    if (!status && !ARRAY_RESERVE(making->prefixes, making->prefixes_capacity, longest + 1))
        status = fail_memory("vocabulary");
    for (uint32_t id = 0; !status && id < vocab->n_tokens; id++) {
        struct engine_string piece = vocab->pieces[id];
        status = trie_insert(&making->forward, piece.data, piece.length, false, id, NULL);
        if (!status) status = trie_insert(&making->backward, piece.data, piece.length, true, id, NULL);
        for (size_t at = 0, size; at < piece.length; at += size) {
            size = character_length(piece, at);
            if (!status) status = add_character(making, piece.data + at, size, &n_table);
        }
    }
    return status;
}

/* Notes which characters are neighbours in tokens. 16 bits or more for each couple keep false ones rare. */
static int add_joined(struct making *making, size_t n_couples)
{
    struct spm_model *model = making->model;
    model->joined_bits = 16;
    while (model->joined_bits < 26 && ((size_t)1 << model->joined_bits) / 16 < n_couples)
        model->joined_bits++;
    model->joined = allocate_zeroed((size_t)1 << (model->joined_bits - 6), sizeof *model->joined);
    if (!model->joined) return fail_memory("vocabulary");
    for (uint32_t id = 0; id < making->vocab->n_tokens; id++) {
        struct engine_string piece = making->vocab->pieces[id];
        uint32_t previous = 0;
        for (size_t at = 0, size; at < piece.length; at += size) {
            size = character_length(piece, at);
            uint32_t character = spm_character(piece.data + at, size);
            uint64_t hash =
                (((uint64_t)previous << 32 | character) * 0x9E3779B97F4A7C15u) >> (64 - model->joined_bits);
            if (at) model->joined[hash / 64] |= (uint64_t)1 << hash % 64;
            previous = character;
        }
    }
    return ENGINE_OK;
}

/* The higher the score the lower the rank: the bits of a float, read as an integer, are in its order except
 * for the sign. */
static uint32_t rank_of(float score)
{
    uint32_t bits;
    if (score == 0) score = 0; /* no -0 */
    memcpy(&bits, &score, sizeof bits);
    uint32_t ascending = bits & 0x80000000u ? ~bits : bits | 0x80000000u;
    return ~ascending;
}

/* All ways to join two symbols into a token. Linear in its length: one walk finds the symbols that it begins
 * with, one those that it ends with. */
static int add_pairs_of(struct making *making, uint32_t id, size_t *n_couples)
{
    struct engine_string piece = making->vocab->pieces[id];
    memset(making->prefixes, 0xFF, (piece.length + 1) * sizeof *making->prefixes);
    uint32_t node = TRIE_ROOT;
    for (size_t at = 0, size; at < piece.length; at += size) {
        size = character_length(piece, at);
        for (size_t i = 0; i < size && node != TRIE_NONE; i++)
            node = trie_step(&making->forward, node, (unsigned char)piece.data[at + i]);
        making->prefixes[at + size] = node == TRIE_NONE ? TRIE_NONE : making->forward.values[node];
        *n_couples += at > 0;
    }
    node = TRIE_ROOT;
    for (size_t at = piece.length; at-- > 1;) {
        node = trie_step(&making->backward, node, (unsigned char)piece.data[at]);
        if (node == TRIE_NONE) break;
        uint32_t right = making->backward.values[node], left = making->prefixes[at];
        if (left == TRIE_NONE || right == TRIE_NONE) continue;
        int status = pairs_add(&making->model->pairs,
                               (struct pair){left, right, rank_of(making->vocab->scores[id]), id});
        if (status) return status;
    }
    return ENGINE_OK;
}

static int add_byte_tokens(const struct vocab *vocab, struct spm_model *model)
{
    vocab_byte_tokens(vocab, model->byte_tokens);
    for (int byte = 0; byte < 256; byte++) {
        model->has_byte[byte] = model->byte_tokens[byte] >= 0;
        if (!model->has_byte[byte]) model->byte_tokens[byte] = vocab->unknown;
        if (model->byte_tokens[byte] < 0)
            return host->fail(ENGINE_ERROR_DATA,
                              "the vocabulary has no token for byte %d and no unknown token", byte);
    }
    return ENGINE_OK;
}

int spm_create(struct engine_tokenizer *tokenizer, const struct engine_metadata *metadata)
{
    (void)metadata;
    struct spm_model *model = allocate_zeroed(1, sizeof *model);
    if (!model) return fail_memory("vocabulary");
    tokenizer->model = model;
    struct making making = {.vocab = &tokenizer->vocab, .model = model};
    size_t n_couples = 0;
    int status = add_byte_tokens(making.vocab, model);
    if (!status) status = add_symbols(&making);
    if (!status) status = pairs_create(&model->pairs, false);
    for (uint32_t id = 0; !status && id < making.vocab->n_tokens; id++)
        status = add_pairs_of(&making, id, &n_couples);
    if (!status) status = add_joined(&making, n_couples);
    trie_destroy(&making.forward);
    trie_destroy(&making.backward);
    free(making.prefixes);
    return status;
}

void spm_destroy(struct engine_tokenizer *tokenizer)
{
    struct spm_model *model = tokenizer->model;
    if (!model) return;
    pairs_destroy(&model->pairs);
    free(model->symbols);
    free(model->characters);
    free(model->joined);
    free(model);
}

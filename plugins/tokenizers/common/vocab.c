/* vocab.c: see vocab.h. */
#include "common/vocab.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/memory.h"

#define EMPTY_NAME_SIZE 24 /* "[EMPTY_4294967295]" */

/* GGUF's tokenizer.ggml.token_type. */
enum token_type {
    TYPE_NORMAL = 1,
    TYPE_UNKNOWN = 2,
    TYPE_CONTROL = 3,
    TYPE_USER_DEFINED = 4,
    TYPE_UNUSED = 5,
    TYPE_BYTE = 6
};

/* Elements that metadata arrays are fetched in at once where they are converted. */
#define CHUNK 1024

static int read_pieces(struct vocab *vocab, const struct engine_metadata *metadata, const char *other)
{
    size_t count = 0;
    const char *key = other && metadata->get_count(metadata->context, other, &count) == ENGINE_OK
                          ? other
                          : "tokenizer.ggml.tokens";
    if (metadata->get_count(metadata->context, key, &count))
        return host->fail(ENGINE_ERROR_DATA, "the model has no vocabulary (tokenizer.ggml.tokens)");
    if (count == 0 || count > INT32_MAX)
        return host->fail(ENGINE_ERROR_DATA, "the vocabulary has %zu tokens; it must have 1 to %d", count,
                          INT32_MAX);
    vocab->pieces = allocate(count, sizeof *vocab->pieces);
    vocab->attributes = allocate(count, sizeof *vocab->attributes);
    vocab->scores = allocate_zeroed(count, sizeof *vocab->scores);
    if (!vocab->pieces || !vocab->attributes || !vocab->scores) return fail_memory("vocabulary");
    if (metadata->get_strings(metadata->context, key, 0, count, vocab->pieces))
        return host->fail(ENGINE_ERROR_DATA, "%s is not an array of strings", key);
    vocab->n_tokens = (uint32_t)count;
    return ENGINE_OK;
}

/* Tokens without text get a name of their own, as every token needs one to be told from the others. */
static int name_empty_pieces(struct vocab *vocab)
{
    size_t n_empty = 0;
    for (uint32_t id = 0; id < vocab->n_tokens; id++) n_empty += vocab->pieces[id].length == 0;
    if (!n_empty) return ENGINE_OK;
    vocab->names = allocate(n_empty, EMPTY_NAME_SIZE);
    if (!vocab->names) return fail_memory("vocabulary");
    char *name = vocab->names;
    for (uint32_t id = 0; id < vocab->n_tokens; id++) {
        if (vocab->pieces[id].length) continue;
        int length = snprintf(name, EMPTY_NAME_SIZE, "[EMPTY_%u]", id);
        vocab->pieces[id] = (struct engine_string){name, (size_t)length};
        name += EMPTY_NAME_SIZE;
    }
    return ENGINE_OK;
}

static int index_pieces(struct vocab *vocab)
{
    size_t bytes = 0;
    for (uint32_t id = 0; id < vocab->n_tokens; id++) {
        if (vocab->pieces[id].length > TRIE_MAX || (bytes += vocab->pieces[id].length) > SIZE_MAX / 2)
            return host->fail(ENGINE_ERROR_DATA, "token %u is too long: %zu bytes", id,
                              vocab->pieces[id].length);
    }
    int status = trie_create(&vocab->ids, bytes);
    for (uint32_t id = 0; !status && id < vocab->n_tokens; id++) {
        struct engine_string piece = vocab->pieces[id];
        uint32_t owner = id;
        status = trie_insert(&vocab->ids, piece.data, piece.length, false, id, &owner);
        if (!status && owner != id)
            return host->fail(ENGINE_ERROR_DATA, "tokens %u and %u have the same spelling: \"%.*s\"", owner,
                              id, (int)(piece.length < 40 ? piece.length : 40), piece.data);
    }
    return status;
}

/* An array parallel to tokenizer.ggml.tokens must have the vocabulary's length; *there says whether it
 * exists. */
static int check_count(const struct vocab *vocab, const struct engine_metadata *metadata, const char *key,
                       bool *there)
{
    size_t count;
    *there = metadata->get_count(metadata->context, key, &count) == ENGINE_OK;
    if (*there && count != vocab->n_tokens)
        return host->fail(ENGINE_ERROR_DATA, "%s has %zu elements, but the vocabulary has %u tokens", key,
                          count, vocab->n_tokens);
    return ENGINE_OK;
}

static int read_scores(struct vocab *vocab, const struct engine_metadata *metadata)
{
    const char *key = "tokenizer.ggml.scores";
    bool there;
    int status = check_count(vocab, metadata, key, &there);
    if (status || !there) return status;
    if (metadata->get_floats(metadata->context, key, 0, vocab->n_tokens, vocab->scores)) {
        int64_t values[CHUNK]; /* some converters wrote integers */
        for (size_t first = 0; first < vocab->n_tokens; first += CHUNK) {
            size_t count = vocab->n_tokens - first < CHUNK ? vocab->n_tokens - first : CHUNK;
            if (metadata->get_integers(metadata->context, key, first, count, values))
                return host->fail(ENGINE_ERROR_DATA, "%s is not an array of numbers", key);
            for (size_t i = 0; i < count; i++) vocab->scores[first + i] = (float)values[i];
        }
    }
    for (uint32_t id = 0; id < vocab->n_tokens; id++) {
        if (isnan(vocab->scores[id]))
            return host->fail(ENGINE_ERROR_DATA, "the score of token %u is not a number", id);
    }
    return ENGINE_OK;
}

static uint32_t type_attributes(int64_t type)
{
    switch (type) {
    case TYPE_UNKNOWN: return ENGINE_TOKEN_UNKNOWN;
    case TYPE_CONTROL: return ENGINE_TOKEN_CONTROL;
    case TYPE_USER_DEFINED: return ENGINE_TOKEN_USER_DEFINED;
    case TYPE_UNUSED: return ENGINE_TOKEN_UNUSED;
    case TYPE_BYTE: return ENGINE_TOKEN_BYTE;
    case TYPE_NORMAL: return VOCAB_NORMAL;
    default: return 0; /* types that no one has defined: text, if the tokenizer asks no further */
    }
}

static int read_types(struct vocab *vocab, const struct engine_metadata *metadata)
{
    const char *key = "tokenizer.ggml.token_type";
    bool there;
    int status = check_count(vocab, metadata, key, &there);
    if (status) return status;
    int64_t types[CHUNK];
    for (size_t first = 0; first < vocab->n_tokens; first += CHUNK) {
        size_t count = vocab->n_tokens - first < CHUNK ? vocab->n_tokens - first : CHUNK;
        if (there && metadata->get_integers(metadata->context, key, first, count, types))
            return host->fail(ENGINE_ERROR_DATA, "%s is not an array of integers", key);
        for (size_t i = 0; i < count; i++)
            vocab->attributes[first + i] = type_attributes(there ? types[i] : TYPE_NORMAL);
    }
    return ENGINE_OK;
}

/* A byte token must say which byte. */
static int check_bytes(const struct vocab *vocab)
{
    for (uint32_t id = 0; id < vocab->n_tokens; id++) {
        struct engine_string piece = vocab->pieces[id];
        if ((vocab->attributes[id] & ENGINE_TOKEN_BYTE) && piece.length != 1 && vocab_byte(piece) < 0)
            return host->fail(ENGINE_ERROR_DATA,
                              "token %u is a byte but is spelled \"%.*s\", not like \"<0x0A>\"", id,
                              (int)(piece.length < 40 ? piece.length : 40), piece.data);
    }
    return ENGINE_OK;
}

static int32_t read_id(const struct vocab *vocab, const struct engine_metadata *metadata, const char *name,
                       int32_t preset)
{
    if (preset >= 0 && (uint32_t)preset >= vocab->n_tokens) preset = -1;
    char key[64];
    snprintf(key, sizeof key, "tokenizer.ggml.%s_token_id", name);
    int64_t id;
    if (metadata->get_integer(metadata->context, key, &id)) return preset;
    if (id >= 0 && id < vocab->n_tokens) return (int32_t)id;
    host->log(ENGINE_LOG_WARNING, "%s is %lld, but the vocabulary has %u tokens: ignored", key, (long long)id,
              vocab->n_tokens);
    return preset;
}

static bool read_flag(const struct engine_metadata *metadata, const char *key, bool preset)
{
    int value;
    return metadata->get_boolean(metadata->context, key, &value) ? preset : value != 0;
}

static int read_special(struct vocab *vocab, const struct engine_metadata *metadata,
                        const struct vocab_defaults *defaults)
{
    vocab->bos = read_id(vocab, metadata, "bos", defaults->bos);
    vocab->eos = read_id(vocab, metadata, "eos", defaults->eos);
    vocab->unknown = read_id(vocab, metadata, "unknown", defaults->unknown);
    vocab->separator = read_id(vocab, metadata, "seperator", defaults->separator); /* GGUF's own spelling */
    vocab->padding = read_id(vocab, metadata, "padding", defaults->padding);
    vocab->end_of_turn = read_id(vocab, metadata, "eot", -1);
    vocab->end_of_message = read_id(vocab, metadata, "eom", -1);
    /* Fill in the middle: each under its first name, then under today's. */
    vocab->fill_prefix = read_id(vocab, metadata, "prefix", read_id(vocab, metadata, "fim_pre", -1));
    vocab->fill_suffix = read_id(vocab, metadata, "suffix", read_id(vocab, metadata, "fim_suf", -1));
    vocab->fill_middle = read_id(vocab, metadata, "middle", read_id(vocab, metadata, "fim_mid", -1));
    vocab->fill_padding = read_id(vocab, metadata, "fim_pad", -1);
    vocab->fill_repository = read_id(vocab, metadata, "fim_rep", -1);
    vocab->fill_separator = read_id(vocab, metadata, "fim_sep", -1);

    vocab->add_bos = read_flag(metadata, "tokenizer.ggml.add_bos_token", defaults->add_bos);
    vocab->add_eos = read_flag(metadata, "tokenizer.ggml.add_eos_token", defaults->add_eos);
    vocab->add_separator = read_flag(metadata, "tokenizer.ggml.add_sep_token", defaults->add_separator);
    vocab->add_space_prefix =
        read_flag(metadata, "tokenizer.ggml.add_space_prefix", defaults->add_space_prefix);
    const struct {
        bool add;
        int32_t id;
        const char *name;
    } added[] = {{vocab->add_bos, vocab->bos, "beginning of text"},
                 {vocab->add_eos, vocab->eos, "end of text"},
                 {vocab->add_separator, vocab->separator, "separator"}};
    for (size_t i = 0; i < sizeof added / sizeof *added; i++) {
        if (added[i].add && added[i].id < 0)
            return host->fail(ENGINE_ERROR_DATA,
                              "texts should get a token for %s, but the vocabulary has none", added[i].name);
    }
    return ENGINE_OK;
}

int vocab_open(struct vocab *vocab, const struct engine_metadata *metadata,
               const struct vocab_defaults *defaults)
{
    memset(vocab, 0, sizeof *vocab);
    int status = read_pieces(vocab, metadata, defaults->tokens);
    if (!status) status = name_empty_pieces(vocab);
    if (!status) status = index_pieces(vocab);
    if (!status) status = read_scores(vocab, metadata);
    if (!status) status = read_types(vocab, metadata);
    if (!status) status = check_bytes(vocab);
    if (!status) status = read_special(vocab, metadata, defaults);
    if (!status) vocab_mark_special(vocab, metadata);
    return status;
}

void vocab_close(struct vocab *vocab)
{
    free(vocab->pieces);
    free(vocab->attributes);
    free(vocab->scores);
    free(vocab->names);
    trie_destroy(&vocab->ids);
    memset(vocab, 0, sizeof *vocab);
}

int32_t vocab_find(const struct vocab *vocab, const char *piece, size_t length)
{
    uint32_t id = trie_find(&vocab->ids, piece, length);
    return id == TRIE_NONE ? -1 : (int32_t)id;
}

static int hex_digit(char c)
{
    if (c >= '0' && c <= '9') return c - '0';
    if (c >= 'a' && c <= 'f') return c - 'a' + 10;
    if (c >= 'A' && c <= 'F') return c - 'A' + 10;
    return -1;
}

int vocab_byte(struct engine_string piece)
{
    if (piece.length != 6 || memcmp(piece.data, "<0x", 3) != 0 || piece.data[5] != '>') return -1;
    int high = hex_digit(piece.data[3]), low = hex_digit(piece.data[4]);
    return high < 0 || low < 0 ? -1 : high << 4 | low;
}

void vocab_byte_tokens(const struct vocab *vocab, int32_t tokens[256])
{
    for (int byte = 0; byte < 256; byte++) {
        char name[8], single = (char)byte;
        snprintf(name, sizeof name, "<0x%02X>", (unsigned)byte);
        tokens[byte] = vocab_find(vocab, name, 6);
        if (tokens[byte] < 0) tokens[byte] = vocab_find(vocab, &single, 1);
    }
}

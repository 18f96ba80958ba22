/* plugin.c: the tokenizer plugin `rwkv`, GGUF's tokenizer.ggml.model "rwkv": the longest token of all that
 * the text begins with, again and again. Tokens may be any bytes; the file spells them with escapes. */
#include "common/plugin.h"

#include <stdlib.h>
#include <string.h>

#include "common/explain.h"
#include "common/longest.h"

/* Text is matched in parts of so many bytes. */
#define PART 4096

static int defaults(const struct engine_metadata *metadata, struct vocab_defaults *out)
{
    (void)metadata, (void)out;
    return ENGINE_OK;
}

static int hex_digit(char c)
{
    if (c >= '0' && c <= '9') return c - '0';
    if (c >= 'a' && c <= 'f') return c - 'a' + 10;
    if (c >= 'A' && c <= 'F') return c - 'A' + 10;
    return -1;
}

/* Writes the bytes that a piece represents: \t, \n, \r, \xHH; \ before anything else is that character
 * itself. Returns their number, or 0 if an escape is wrong. */
static size_t rwkv_unescape(struct engine_string piece, char *text)
{
    size_t length = 0;
    for (size_t i = 0; i < piece.length; i++) {
        char c = piece.data[i];
        if (c == '\\') {
            if (++i == piece.length) return 0;
            c = piece.data[i];
            if (c == 't') c = '\t';
            if (c == 'n') c = '\n';
            if (c == 'r') c = '\r';
            if (c == 'x') {
                if (piece.length - i < 3) return 0;
                int high = hex_digit(piece.data[i + 1]), low = hex_digit(piece.data[i + 2]);
                if (high < 0 || low < 0) return 0;
                c = (char)(high << 4 | low);
                i += 2;
            }
        }
        text[length++] = c;
    }
    return length;
}

static size_t rwkv_spell(const struct engine_tokenizer *tokenizer, int32_t id, char *text)
{
    return rwkv_unescape(tokenizer->vocab.pieces[id], text);
}

/* Of tokens with the same bytes the last one counts, and the trie keeps the first. */
static int add_tokens(const struct vocab *vocab, struct longest *longest)
{
    char *text = NULL; /* [capacity] */
    size_t capacity = 0;
    int status = ENGINE_OK;
    for (uint32_t id = vocab->n_tokens; !status && id-- > 0;) {
        struct engine_string piece = vocab->pieces[id];
        if (!ARRAY_RESERVE(text, capacity, piece.length)) {
            status = fail_memory("vocabulary");
            break;
        }
        size_t length = rwkv_unescape(piece, text);
        status = length ? trie_insert(&longest->trie, text, length, false, id, NULL)
                        : host->fail(ENGINE_ERROR_DATA, "token %u is misspelt: \"%.*s\"", id,
                                     (int)(piece.length < 40 ? piece.length : 40), piece.data);
    }
    free(text);
    return status;
}

static int create_model(struct engine_tokenizer *tokenizer, const struct engine_metadata *metadata)
{
    (void)metadata;
    const struct vocab *vocab = &tokenizer->vocab;
    struct longest *longest = allocate_zeroed(1, sizeof *longest);
    if (!longest) return fail_memory("vocabulary");
    tokenizer->model = longest;
    size_t bytes = 0;
    for (uint32_t id = 0; id < vocab->n_tokens; id++) bytes += vocab->pieces[id].length;
    int status = longest_create(longest, bytes);
    if (!status) status = add_tokens(vocab, longest);
    for (int byte = 0; !status && byte < 256; byte++) {
        uint32_t node = longest->trie.first[byte];
        if (vocab->unknown < 0 && (node == TRIE_NONE || longest->trie.values[node] == TRIE_NONE))
            return host->fail(ENGINE_ERROR_DATA,
                              "the vocabulary has no token for byte %d and no unknown token", byte);
    }
    return status ? status : longest_link(longest, (uint32_t)vocab->unknown);
}

static void destroy_model(struct engine_tokenizer *tokenizer)
{
    if (tokenizer->model) longest_destroy(tokenizer->model);
    free(tokenizer->model);
}

/* The scratch is int32_t [deepest + PART]: the ids of a part. */
static int scratch_create(const struct engine_tokenizer *tokenizer, void **scratch)
{
    const struct longest *longest = tokenizer->model;
    *scratch = allocate((size_t)longest->deepest + PART, sizeof(int32_t));
    return *scratch ? ENGINE_OK : fail_memory("tokenizer");
}

static int rwkv_encode(const struct engine_tokenizer *tokenizer, void *scratch, struct engine_string text,
                       bool first, struct output *output)
{
    (void)first;
    const struct longest *longest = tokenizer->model;
    int32_t *ids = scratch;
    uint32_t node = TRIE_ROOT;
    struct explanation *explanation = output->explanation;
    size_t explained = 0; /* bytes */
    if (explanation) {
        explain_text(explanation, text, text);
        explain_word(explanation, text.data, text.length);
    }
    for (size_t at = 0; at < text.length && !output->stopped; at += PART) {
        size_t length = text.length - at < PART ? text.length - at : PART;
        size_t count = longest_match(longest, &node, text.data + at, length, ids);
        output_put_all(output, ids, count);
        if (explanation)
            explained += longest_explain(longest, explanation, text.data + explained, text.length - explained,
                                         ids, count, true);
    }
    size_t count = longest_finish(longest, node, ids);
    output_put_all(output, ids, count);
    if (explanation)
        longest_explain(longest, explanation, text.data + explained, text.length - explained, ids, count,
                        true);
    return ENGINE_OK;
}

static const struct tokenizer_kind kind = {
    .defaults = defaults,
    .create = create_model,
    .destroy = destroy_model,
    .scratch_create = scratch_create,
    .scratch_destroy = free,
    .encode = rwkv_encode,
    .spell = rwkv_spell,
};

TOKENIZER_PLUGIN(kind, "rwkv", "Greedy longest match over bytes (RWKV World)", "rwkv")

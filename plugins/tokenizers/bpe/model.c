/* model.c: makes a struct bpe_model of a vocabulary. See model.h. */
#include "bpe/model.h"

#include <stdlib.h>
#include <string.h>

#include "bpe/pretokenizers.h"
#include "common/memory.h"

#define MERGES       "tokenizer.ggml.merges"
#define MERGES_CHUNK 1024 /* fetched from the metadata at once */

/* Data needed only while the model is made. */
struct making {
    const struct vocab *vocab;
    struct bpe_model *model;
    char *bytes; /* of the piece or merge at hand */
    size_t capacity;
};

static bool is(struct engine_string text, const char *word)
{
    return text.length == strlen(word) && memcmp(text.data, word, text.length) == 0;
}

/* Whether tokenizer.ggml.model is "gemma4", which implies more than a model. */
static bool is_gemma(const struct engine_metadata *metadata)
{
    struct engine_string model = {"", 0};
    metadata->get_string(metadata->context, "tokenizer.ggml.model", &model);
    return is(model, "gemma4");
}

/* The pre-tokenizer that the metadata ask for. */
static int find_pretokenizer(const struct engine_metadata *metadata, const struct pretokenizer **found)
{
    struct engine_string name = {"", 0};
    metadata->get_string(metadata->context, "tokenizer.ggml.pre", &name);
    if (is_gemma(metadata)) name = (struct engine_string){"gemma4", 6};
    if (!name.length) name = (struct engine_string){"default", 7};
    *found = pretokenizer_find(name);
    if (*found) return ENGINE_OK;
    return host->fail(ENGINE_ERROR_UNSUPPORTED, "unknown pre-tokenizer \"%.*s\" (tokenizer.ggml.pre)",
                      (int)(name.length < 60 ? name.length : 60), name.data);
}

int bpe_defaults(const struct engine_metadata *metadata, struct vocab_defaults *defaults)
{
    const struct pretokenizer *pretokenizer;
    int status = find_pretokenizer(metadata, &pretokenizer);
    if (status) return status;
    if (!is_gemma(metadata)) {
        defaults->bos = pretokenizer->flags & PRE_NO_BOS ? -1 : 11;
        defaults->eos = 11;
    }
    defaults->add_bos = (pretokenizer->flags & (PRE_ADD_BOS | PRE_ALWAYS_BOS)) != 0;
    return ENGINE_OK;
}

/* A token's bytes into `bytes`, which has room for piece.length. SIZE_MAX if merging never reaches it. */
static size_t token_bytes(const struct bpe_model *model, struct engine_string piece, char *bytes)
{
    if (!(model->flags & PRE_CHARACTERS)) return piece_to_bytes(piece, bytes);
    memcpy(bytes, piece.data, piece.length);
    return piece.length;
}

/* The symbol of some bytes, a new one if they have none. */
static int intern(struct making *making, const char *bytes, size_t length, uint32_t *symbol)
{
    struct bpe_model *model = making->model;
    int status = trie_insert(&model->symbols, bytes, length, false, model->n_symbols, symbol);
    if (status || *symbol != model->n_symbols) return status;
    if (!ARRAY_RESERVE(model->tokens, model->tokens_capacity, (size_t)model->n_symbols + 1))
        return fail_memory("vocabulary");
    model->tokens[model->n_symbols++] = -1;
    return ENGINE_OK;
}

static int add_tokens(struct making *making)
{
    const struct vocab *vocab = making->vocab;
    size_t longest = 0, total = 0;
    for (uint32_t id = 0; id < vocab->n_tokens; id++) {
        total += vocab->pieces[id].length;
        if (vocab->pieces[id].length > longest) longest = vocab->pieces[id].length;
    }
    int status = trie_create(&making->model->symbols, total);
    if (!status && !ARRAY_RESERVE(making->bytes, making->capacity, longest))
        status = fail_memory("vocabulary");
    for (int byte = 0; !status && byte < 256; byte++) {
        uint32_t symbol;
        char single = (char)byte;
        status = intern(making, &single, 1, &symbol);
    }
    for (uint32_t id = 0; !status && id < vocab->n_tokens; id++) {
        uint32_t symbol = 0;
        size_t length = token_bytes(making->model, vocab->pieces[id], making->bytes);
        if (length == SIZE_MAX) continue; /* not reached by merging */
        status = intern(making, making->bytes, length, &symbol);
        if (!status) making->model->tokens[symbol] = (int32_t)id;
    }
    return status;
}

/* "left right"; the separator is the first blank that is not the first character. */
static int add_merge(struct making *making, struct engine_string merge, uint32_t rank)
{
    const char *blank = merge.length > 1 ? memchr(merge.data + 1, ' ', merge.length - 1) : NULL;
    if (!blank) return ENGINE_OK;
    struct engine_string left = {merge.data, (size_t)(blank - merge.data)};
    struct engine_string right = {blank + 1, merge.length - left.length - 1};
    if (!ARRAY_RESERVE(making->bytes, making->capacity, merge.length)) return fail_memory("merges");
    size_t left_length = token_bytes(making->model, left, making->bytes);
    if (left_length == SIZE_MAX || !left_length) return ENGINE_OK;
    size_t right_length = token_bytes(making->model, right, making->bytes + left_length);
    if (right_length == SIZE_MAX || !right_length) return ENGINE_OK;

    struct pair pair = {.rank = rank};
    int status = intern(making, making->bytes, left_length, &pair.left);
    if (!status) status = intern(making, making->bytes + left_length, right_length, &pair.right);
    if (!status) status = intern(making, making->bytes, left_length + right_length, &pair.result);
    return status ? status : pairs_add(&making->model->pairs, pair);
}

static int add_merges(struct making *making, const struct engine_metadata *metadata)
{
    size_t count;
    int status = pairs_create(&making->model->pairs, true);
    if (status) return status;
    if (metadata->get_count(metadata->context, MERGES, &count)) {
        struct engine_string pre = {"", 0};
        metadata->get_string(metadata->context, "tokenizer.ggml.pre", &pre);
        return is(pre, "kimi-k2")
                   ? ENGINE_OK /* files of it came without */
                   : host->fail(ENGINE_ERROR_DATA, "the vocabulary has no merges (" MERGES ")");
    }
    if (count >= PAIR_NONE) return host->fail(ENGINE_ERROR_DATA, "the vocabulary has %zu merges", count);
    struct engine_string *merges = allocate(MERGES_CHUNK, sizeof *merges);
    if (!merges) return fail_memory("merges");
    for (size_t first = 0; !status && first < count; first += MERGES_CHUNK) {
        size_t n = count - first < MERGES_CHUNK ? count - first : MERGES_CHUNK;
        if (metadata->get_strings(metadata->context, MERGES, first, n, merges))
            status = host->fail(ENGINE_ERROR_DATA, MERGES " is not an array of strings");
        for (size_t i = 0; !status && i < n; i++)
            status = add_merge(making, merges[i], (uint32_t)(first + i));
    }
    free(merges);
    return status;
}

int bpe_create(struct engine_tokenizer *tokenizer, const struct engine_metadata *metadata)
{
    const struct pretokenizer *pretokenizer;
    int status = find_pretokenizer(metadata, &pretokenizer);
    if (status) return status;
    struct bpe_model *model = allocate_zeroed(1, sizeof *model);
    if (!model) return fail_memory("vocabulary");
    tokenizer->model = model;
    model->flags = pretokenizer->flags;
    vocab_byte_tokens(&tokenizer->vocab, model->byte_tokens);
    if (model->flags & PRE_ALWAYS_BOS) {
        tokenizer->vocab.add_bos = true;
        if (tokenizer->vocab.bos < 0)
            return host->fail(ENGINE_ERROR_DATA, "texts should begin with BOS, but the vocabulary has none");
    }
    struct making making = {.vocab = &tokenizer->vocab, .model = model};
    status = expressions_create(&model->expressions, pretokenizer->expressions);
    if (!status) status = add_tokens(&making);
    if (!status) status = add_merges(&making, metadata);
    free(making.bytes);
    return status;
}

void bpe_destroy(struct engine_tokenizer *tokenizer)
{
    struct bpe_model *model = tokenizer->model;
    if (!model) return;
    expressions_destroy(&model->expressions);
    pairs_destroy(&model->pairs);
    trie_destroy(&model->symbols);
    free(model->tokens);
    free(model);
}

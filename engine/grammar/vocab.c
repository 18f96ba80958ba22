/* vocab.c: see vocab.h. */
#include "grammar/vocab.h"

#include <stdlib.h>
#include <string.h>

#include "base/error.h"

struct engine_string grammar_vocab_text(const struct grammar_vocab *vocab, uint32_t token)
{
    return (struct engine_string){vocab->bytes + vocab->offsets[token],
                                  vocab->offsets[token + 1] - vocab->offsets[token]};
}

uint32_t grammar_vocab_size(const struct grammar_vocab *vocab)
{
    return vocab->n_tokens;
}

static int compare(struct engine_string a, struct engine_string b)
{
    size_t length = a.length < b.length ? a.length : b.length;
    int order = length > 0 ? memcmp(a.data, b.data, length) : 0;
    return order ? order : (a.length > b.length) - (a.length < b.length);
}

struct sorted {
    struct engine_string text;
    uint32_t token;
};

static int by_text(const void *left, const void *right)
{
    const struct sorted *a = left, *b = right;
    int order = compare(a->text, b->text);
    return order ? order : (a->token > b->token) - (a->token < b->token);
}

static int copy_texts(struct grammar_vocab *vocab, const struct engine_string *texts, const uint8_t *kinds)
{
    size_t total = 0;
    for (uint32_t i = 0; i < vocab->n_tokens; i++) total += texts[i].length;
    if (total > UINT32_MAX)
        return error_raise(ENGINE_ERROR_DATA, "the vocabulary has %zu bytes of text", total);
    vocab->bytes = malloc(total + 1);
    vocab->kinds = malloc(vocab->n_tokens + 1);
    vocab->offsets = calloc(vocab->n_tokens + 1, sizeof *vocab->offsets);
    vocab->order = calloc(vocab->n_tokens + 1, sizeof *vocab->order);
    vocab->ends = calloc(vocab->n_tokens + 1, sizeof *vocab->ends);
    if (!vocab->bytes || !vocab->kinds || !vocab->offsets || !vocab->order || !vocab->ends)
        return error_memory("trie of the vocabulary");
    memcpy(vocab->kinds, kinds, vocab->n_tokens);
    for (uint32_t i = 0, at = 0; i < vocab->n_tokens; i++) {
        if (texts[i].length > 0) memcpy(vocab->bytes + at, texts[i].data, texts[i].length);
        vocab->offsets[i + 1] = at += (uint32_t)texts[i].length;
        if (kinds[i] == GRAMMAR_TOKEN_END) vocab->ends[vocab->n_ends++] = i;
    }
    return ENGINE_OK;
}

static uint32_t common_length(struct engine_string a, struct engine_string b)
{
    uint32_t length = 0;
    while (length < a.length && length < b.length && a.data[length] == b.data[length]) length++;
    return length;
}

/* Lays out the trie of sorted texts. `path`: the open nodes, one for each depth. */
static void lay_out(struct grammar_vocab *vocab, const struct sorted *sorted, uint32_t *path)
{
    struct engine_string last = {0};
    uint32_t open = 0;
    for (uint32_t i = 0; i < vocab->n_ranked; i++) {
        struct engine_string text = sorted[i].text;
        vocab->order[i] = sorted[i].token;
        uint32_t common = common_length(last, text);
        while (open > common) vocab->trie[path[--open]].skip = vocab->n_nodes;
        for (; open < text.length; open++) {
            path[open] = vocab->n_nodes;
            vocab->trie[vocab->n_nodes++] = (struct trie_node){
                .rank = i, .depth = (uint16_t)(open + 1), .byte = (uint8_t)text.data[open]};
        }
        vocab->trie[path[open - 1]].ends = true;
        if (open > vocab->deepest) vocab->deepest = open;
        last = text;
    }
    while (open > 0) vocab->trie[path[--open]].skip = vocab->n_nodes;
    vocab->trie[vocab->n_nodes] = (struct trie_node){.skip = vocab->n_nodes, .rank = vocab->n_ranked};
}

/* Tokens that are no text come after the others in `order`. */
static void sort_marks(struct grammar_vocab *vocab, struct sorted *sorted)
{
    for (uint32_t i = 0; i < vocab->n_tokens; i++)
        if (vocab->kinds[i] != GRAMMAR_TOKEN_TEXT)
            sorted[vocab->n_marks++] = (struct sorted){grammar_vocab_text(vocab, i), i};
    qsort(sorted, vocab->n_marks, sizeof *sorted, by_text);
    for (uint32_t i = 0; i < vocab->n_marks; i++) vocab->order[vocab->n_ranked + i] = sorted[i].token;
}

static int make_trie(struct grammar_vocab *vocab)
{
    struct sorted *sorted = calloc((size_t)vocab->n_tokens + 1, sizeof *sorted);
    uint32_t *path = calloc(UINT16_MAX + 1, sizeof *path);
    size_t n_nodes = 0;
    int status = ENGINE_OK;
    if (!sorted || !path) {
        status = error_memory("trie of the vocabulary");
        goto cleanup;
    }
    for (uint32_t i = 0; i < vocab->n_tokens; i++) {
        struct engine_string text = grammar_vocab_text(vocab, i);
        if (vocab->kinds[i] == GRAMMAR_TOKEN_TEXT && text.length > 0 && text.length <= UINT16_MAX)
            sorted[vocab->n_ranked++] = (struct sorted){text, i};
    }
    qsort(sorted, vocab->n_ranked, sizeof *sorted, by_text);
    for (uint32_t i = 0; i < vocab->n_ranked; i++)
        n_nodes += sorted[i].text.length - (i > 0 ? common_length(sorted[i - 1].text, sorted[i].text) : 0);
    vocab->trie = calloc(n_nodes + 1, sizeof *vocab->trie);
    if (!vocab->trie) {
        status = error_memory("trie of the vocabulary");
        goto cleanup;
    }
    lay_out(vocab, sorted, path);
    sort_marks(vocab, sorted);

cleanup:
    free(sorted);
    free(path);
    return status;
}

int grammar_vocab_create(const struct engine_string *texts, const uint8_t *kinds, uint32_t n_tokens,
                         struct grammar_vocab **out)
{
    struct grammar_vocab *vocab = calloc(1, sizeof *vocab);
    if (!vocab) return error_memory("trie of the vocabulary");
    vocab->n_tokens = n_tokens;
    int status = copy_texts(vocab, texts, kinds);
    if (!status) status = make_trie(vocab);
    if (status) {
        grammar_vocab_destroy(vocab);
        return status;
    }
    *out = vocab;
    return ENGINE_OK;
}

void grammar_vocab_destroy(struct grammar_vocab *vocab)
{
    if (!vocab) return;
    free(vocab->kinds);
    free(vocab->bytes);
    free(vocab->offsets);
    free(vocab->trie);
    free(vocab->order);
    free(vocab->ends);
    free(vocab);
}

/* The first token with a text among those of `order` [count], which are sorted by theirs; -1: none. */
static int32_t find_in(const struct grammar_vocab *vocab, const uint32_t *order, uint32_t count,
                       struct engine_string wanted)
{
    uint32_t low = 0, high = count;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (compare(grammar_vocab_text(vocab, order[middle]), wanted) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    bool found = low < count && compare(grammar_vocab_text(vocab, order[low]), wanted) == 0;
    return found ? (int32_t)order[low] : -1;
}

int32_t grammar_vocab_find(const struct grammar_vocab *vocab, const char *text, size_t length)
{
    struct engine_string wanted = {text, length};
    int32_t mark = find_in(vocab, vocab->order + vocab->n_ranked, vocab->n_marks, wanted);
    return mark >= 0 ? mark : find_in(vocab, vocab->order, vocab->n_ranked, wanted);
}

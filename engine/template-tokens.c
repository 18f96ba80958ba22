/* template-tokens.c: the tokens of a text that is partly the template's and partly the user's. Special tokens count
 * only where the template wrote all of their bytes; what a user wrote is text, whatever it spells.
 *
 * Most texts have no such spelling in the user's part, and the tokenizer takes them whole. Otherwise the text is
 * cut at the template's special tokens, and what is between them is encoded as plain text. A tokenizer treats text
 * after a special token as it treats a text's beginning, so both ways give the same tokens. */
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "internal.h"

/* Tokens that ENGINE_ENCODE_SPECIAL recognises in addition to those that are always recognised. */
#define SPECIAL (ENGINE_TOKEN_CONTROL | ENGINE_TOKEN_UNKNOWN)

struct special {
    struct engine_string piece;
    int32_t id;
    bool swallows_known;
    bool swallows_left, swallows_right; /* the white space next to it */
};

/* A special token in the text. */
struct place {
    size_t from, to;
    struct special *special;
};

struct work {
    const struct engine_tokenizer_api *api;
    const struct engine_tokenizer *tokenizer;
    struct special *specials; /* [count] in the order of their pieces */
    size_t count;
};

static int by_piece(const void *a, const void *b)
{
    const struct special *x = a, *y = b;
    size_t both = x->piece.length < y->piece.length ? x->piece.length : y->piece.length;
    int order = memcmp(x->piece.data, y->piece.data, both);
    if (order) return order;
    if (x->piece.length != y->piece.length) return x->piece.length < y->piece.length ? -1 : 1;
    return (x->id > y->id) - (x->id < y->id);
}

static int find_specials(struct work *work)
{
    struct engine_tokenizer_info info = {.struct_size = sizeof info};
    int status = work->api->info(work->tokenizer, &info);
    size_t capacity = 0;
    for (int64_t id = 0; !status && id < info.n_tokens; id++) {
        struct special special = {.id = (int32_t)id};
        if (!(work->api->attributes(work->tokenizer, (int32_t)id) & SPECIAL)) continue;
        status = work->api->piece(work->tokenizer, (int32_t)id, &special.piece);
        if (status || !special.piece.length) continue;
        if (work->count == capacity) {
            size_t more = capacity ? capacity * 2 : 64;
            struct special *grown = realloc(work->specials, more * sizeof *grown);
            if (!grown) return error_memory("special tokens");
            work->specials = grown;
            capacity = more;
        }
        work->specials[work->count++] = special;
    }
    if (work->count) qsort(work->specials, work->count, sizeof *work->specials, by_piece);
    return status;
}

/* The first of specials [from, to), all equal up to byte `depth`, with a byte of at least `byte` there. */
static size_t first_at_least(const struct work *work, size_t from, size_t to, size_t depth, unsigned byte)
{
    while (from < to) {
        size_t middle = from + (to - from) / 2;
        const struct engine_string piece = work->specials[middle].piece;
        bool less = piece.length <= depth || (unsigned char)piece.data[depth] < byte;
        if (less)
            from = middle + 1;
        else
            to = middle;
    }
    return from;
}

/* The longest special token at the beginning of the text; NULL: none. */
static struct special *longest_at(const struct work *work, const char *text, size_t length)
{
    struct special *found = NULL;
    size_t from = 0, to = work->count;
    for (size_t depth = 0; from < to; depth++) {
        if (work->specials[from].piece.length == depth) found = &work->specials[from];
        if (depth == length) break;
        unsigned byte = (unsigned char)text[depth];
        from = first_at_least(work, from, to, depth, byte);
        to = first_at_least(work, from, to, depth, byte + 1);
    }
    return found;
}

/* The end of the longest run of bytes of mark 0 from `at` on. */
static size_t trusted_end(const unsigned char *marks, size_t at, size_t length)
{
    const unsigned char *user = length > at ? memchr(marks + at, 1, length - at) : NULL;
    return user ? (size_t)(user - marks) : length;
}

/* Whether a special token is spelled with a byte of the user's. */
static bool user_spells_one(const struct work *work, struct engine_string text, const unsigned char *marks)
{
    size_t trusted = trusted_end(marks, 0, text.length);
    for (size_t at = 0; at < text.length; at++) {
        if (at >= trusted && !marks[at]) trusted = trusted_end(marks, at, text.length);
        const struct special *found = longest_at(work, text.data + at, text.length - at);
        if (found && at + found->piece.length > (at < trusted ? trusted : at)) return true;
    }
    return false;
}

/* ---- White space that tokens swallow ------------------------------------------------------------------- */

struct alone {
    int32_t id;
    size_t count;
};

static int count_token(void *user, const int32_t *ids, size_t count)
{
    struct alone *alone = user;
    if (count) alone->id = ids[0];
    alone->count += count;
    return 0;
}

/* Whether the token swallows a space before or after it. */
static bool swallows(const struct work *work, const struct special *special, bool before)
{
    struct alone alone = {0};
    char *text = malloc(special->piece.length + 1);
    if (!text) return false;
    memcpy(text + before, special->piece.data, special->piece.length);
    text[before ? 0 : special->piece.length] = ' ';
    int status = work->api->encode(work->tokenizer, text, special->piece.length + 1, ENGINE_ENCODE_SPECIAL,
                                   count_token, &alone);
    free(text);
    return !status && alone.count == 1 && alone.id == special->id;
}

static void learn(const struct work *work, struct special *special)
{
    if (special->swallows_known) return;
    special->swallows_left = swallows(work, special, true);
    special->swallows_right = swallows(work, special, false);
    special->swallows_known = true;
}

static bool is_space(char c)
{
    return c == ' ' || (c >= '\t' && c <= '\r');
}

/* ---- Cutting ------------------------------------------------------------------------------------------- */

/* The next special token at or after `from` of which all bytes are the template's. */
static struct place next_place(const struct work *work, struct engine_string text, const unsigned char *marks,
                               size_t from)
{
    size_t trusted = from;
    for (size_t at = from; at < text.length; at++) {
        if (marks[at]) continue;
        if (at >= trusted) trusted = trusted_end(marks, at, text.length);
        struct special *found = longest_at(work, text.data + at, trusted - at);
        if (found) return (struct place){at, at + found->piece.length, found};
    }
    return (struct place){text.length, text.length, NULL};
}

static int encode_cut(const struct work *work, struct engine_string text, const unsigned char *marks,
                      engine_token_sink sink, void *user)
{
    int status = ENGINE_OK;
    for (size_t at = 0; at < text.length && !status;) {
        struct place place = next_place(work, text, marks, at);
        size_t end = place.from;
        if (place.special) learn(work, place.special);
        while (place.special && place.special->swallows_left && end > at && is_space(text.data[end - 1]))
            end--;
        if (end > at) status = work->api->encode(work->tokenizer, text.data + at, end - at, 0, sink, user);
        if (!status && place.special) status = sink(user, &place.special->id, 1);
        at = place.to;
        while (place.special && place.special->swallows_right && at < text.length && is_space(text.data[at]))
            at++;
    }
    return status;
}

int template_tokens(const struct engine_tokenizer_api *api, const struct engine_tokenizer *tokenizer,
                    struct engine_string text, const unsigned char *marks, engine_token_sink sink, void *user)
{
    struct work work = {.api = api, .tokenizer = tokenizer};
    int status = find_specials(&work);
    if (!status) {
        status = user_spells_one(&work, text, marks)
                     ? encode_cut(&work, text, marks, sink, user)
                     : api->encode(tokenizer, text.data, text.length, ENGINE_ENCODE_SPECIAL, sink, user);
    }
    free(work.specials);
    return status;
}

/* test-special.c: where a text is cut at special tokens, against the rule carried out as it stands: each
 * token in turn, the longest first, from left to right in what is left. */
#include <criterion/criterion.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/memory.h"
#include "common/special.h"
#include "gguf-writer.h"

static int fail(int status, const char *format, ...)
{
    (void)format;
    return status;
}

static const struct engine_host services = {.struct_size = sizeof services, .fail = fail};

static void set_host(void)
{
    host = &services;
}

TestSuite(special, .init = set_host, .timeout = 600);

#define MAX_TOKENS 24
#define MAX_TEXT   64

/* ---- The rule ---- */

#define FREE  (-1)
#define TAKEN (-2)

struct case_ {
    struct vocab vocab;
    struct engine_string pieces[MAX_TOKENS];
    uint32_t attributes[MAX_TOKENS];
    char bytes[MAX_TOKENS][8];
    char text[MAX_TEXT + 1];
    size_t length;
};

static bool is_space(char c)
{
    return c == ' ' || c == '\n';
}

/* What is written: a letter for each byte of plain text, "(id)" for a token. */
static void write_expected(const struct case_ *c, char *out)
{
    int marks[MAX_TEXT]; /* FREE, TAKEN, or the token that begins there */
    for (size_t i = 0; i < c->length; i++) marks[i] = FREE;
    for (size_t length = 8; length > 0; length--)
        for (uint32_t id = 0; id < c->vocab.n_tokens; id++) {
            if (c->pieces[id].length != length) continue;
            for (size_t at = 0; at + length <= c->length;) {
                bool fits = memcmp(c->text + at, c->pieces[id].data, length) == 0;
                for (size_t i = at; i < at + length; i++) fits = fits && marks[i] == FREE;
                if (!fits) {
                    at++;
                    continue;
                }
                size_t left = at, right = at + length;
                for (size_t i = at; i < right; i++) marks[i] = TAKEN;
                marks[at] = (int)id;
                if (c->attributes[id] & VOCAB_STRIP_LEFT)
                    while (left > 0 && marks[left - 1] == FREE && is_space(c->text[left - 1]))
                        marks[--left] = TAKEN;
                if (c->attributes[id] & VOCAB_STRIP_RIGHT)
                    while (right < c->length && marks[right] == FREE && is_space(c->text[right]))
                        marks[right++] = TAKEN;
                at = right;
            }
        }
    for (size_t i = 0; i < c->length; i++) {
        if (marks[i] == FREE) out += sprintf(out, "%c", c->text[i]);
        if (marks[i] >= 0) out += sprintf(out, "(%d)", marks[i]);
    }
    *out = '\0';
}

/* ---- Against it ---- */

struct written {
    char text[MAX_TEXT * 8];
    size_t used;
    const char *end; /* of the part before, in the text that is split */
    int last;        /* of the part before: 1 plain text, 0 a token */
};

static int write_part(void *user, struct engine_string text, int32_t id)
{
    struct written *to = user;
    cr_assert(text.length > 0 && text.data == to->end, "a part is not what follows the one before");
    to->end += text.length;
    cr_assert(id >= 0 || !to->last, "plain text in two parts");
    to->last = id < 0;
    if (id >= 0)
        to->used += (size_t)sprintf(to->text + to->used, "(%d)", id);
    else
        to->used += (size_t)sprintf(to->text + to->used, "%.*s", (int)text.length, text.data);
    return 0;
}

/* Short tokens of few letters, so that they overlap in every way. */
static void make_case(struct case_ *c, uint64_t *random)
{
    static const char alphabets[][5] = {"aa", "ab", "ab ", "a \n", "abc"};
    const char *letters = alphabets[random_next(random) % 5];
    size_t n_letters = strlen(letters);
    uint32_t wanted = 1 + (uint32_t)(random_next(random) % MAX_TOKENS);
    memset(c, 0, sizeof *c);
    for (uint32_t n = 0; n < wanted; n++) {
        struct engine_string piece = {c->bytes[c->vocab.n_tokens], 1 + random_next(random) % 8};
        for (size_t i = 0; i < piece.length; i++)
            c->bytes[c->vocab.n_tokens][i] = letters[random_next(random) % n_letters];
        bool twice = false;
        for (uint32_t id = 0; id < c->vocab.n_tokens; id++)
            twice |= c->pieces[id].length == piece.length &&
                     memcmp(c->pieces[id].data, piece.data, piece.length) == 0;
        if (twice) continue;
        uint32_t strip = (uint32_t)(random_next(random) % 8);
        c->attributes[c->vocab.n_tokens] = ENGINE_TOKEN_USER_DEFINED | (strip == 1 ? VOCAB_STRIP_LEFT : 0u) |
                                           (strip == 2 ? VOCAB_STRIP_RIGHT : 0u);
        c->pieces[c->vocab.n_tokens++] = piece;
    }
    c->vocab.pieces = c->pieces;
    c->vocab.attributes = c->attributes;
    c->length = random_next(random) % (MAX_TEXT + 1);
    for (size_t i = 0; i < c->length; i++) c->text[i] = letters[random_next(random) % n_letters];
}

Test(special, the_rule)
{
    uint64_t random = 1;
    struct special_workspace workspace = {0};
    size_t n_parts = 0;
    for (int n = 0; n < 50000; n++) {
        static struct case_ c;
        struct written written = {.end = c.text};
        struct special_set set;
        char expected[MAX_TEXT * 8];
        make_case(&c, &random);
        write_expected(&c, expected);
        cr_assert_eq(special_create(&set, &c.vocab, ENGINE_TOKEN_USER_DEFINED, 0), ENGINE_OK);
        struct engine_string text = {c.text, c.length};
        cr_assert_eq(special_split(&set, &c.vocab, text, &workspace, write_part, &written), 0);
        cr_assert_eq(written.end, c.text + c.length);
        special_destroy(&set);
        cr_assert_str_eq(written.text, expected, "case %d: \"%s\"", n, c.text);
        n_parts += written.used;
    }
    special_workspace_free(&workspace);
    cr_assert_gt(n_parts, 100000u);
}

/* ---- Texts and tokens that are made to take long ---- */

struct count {
    size_t tokens, plain;
};

static int count_part(void *user, struct engine_string text, int32_t id)
{
    struct count *count = user;
    count->tokens += id >= 0;
    count->plain += id < 0 ? text.length : 0;
    return 0;
}

/* Tokens of the letter a, of these lengths, in a text of `length` times a, and "b" wherever `every` divides
 * the place. */
static struct count count_parts(const size_t *lengths, uint32_t n, size_t length, size_t every)
{
    char *text = malloc(length);
    cr_assert(text && n <= 4096);
    memset(text, 'a', length);
    struct engine_string *pieces = calloc(n, sizeof *pieces);
    uint32_t *attributes = calloc(n, sizeof *attributes);
    cr_assert(pieces && attributes);
    for (uint32_t i = 0; i < n; i++) {
        pieces[i] = (struct engine_string){strndup(text, lengths[i]), lengths[i]};
        attributes[i] = ENGINE_TOKEN_USER_DEFINED;
    }
    for (size_t i = 0; every && i < length; i += every) text[i] = 'b';
    struct vocab vocab = {.n_tokens = n, .pieces = pieces, .attributes = attributes};
    struct special_set set;
    struct special_workspace workspace = {0};
    struct count count = {0};
    cr_assert_eq(special_create(&set, &vocab, ENGINE_TOKEN_USER_DEFINED, 0), ENGINE_OK);
    cr_assert_eq(
        special_split(&set, &vocab, (struct engine_string){text, length}, &workspace, count_part, &count), 0);
    special_destroy(&set);
    special_workspace_free(&workspace);
    for (uint32_t i = 0; i < n; i++) free((char *)(uintptr_t)pieces[i].data);
    free(pieces), free(attributes), free(text);
    return count;
}

/* A token that nearly occurs everywhere: read again at each byte, it would take hours. */
Test(special, a_token_of_half_a_million_bytes)
{
    struct count count = count_parts((size_t[]){500000}, 1, 4000000, 499999);
    cr_assert_eq(count.tokens, 0);
    cr_assert_eq(count.plain, 4000000);
    count = count_parts((size_t[]){500000}, 1, 4000000, 0);
    cr_assert_eq(count.tokens, 8);
    cr_assert_eq(count.plain, 0);
}

/* Thousands of tokens that end at each byte, each of which fits somewhere. */
Test(special, tokens_within_each_other)
{
    size_t lengths[1999];
    for (size_t i = 0; i < 1999; i++) lengths[i] = i + 1;
    struct count count = count_parts(lengths, 1999, 1000000, 0);
    cr_assert_eq(count.plain, 0);
    cr_assert_eq(count.tokens, 1000000 / 1999 + 1);
    count = count_parts(lengths, 1999, 1000000, 1500); /* runs of 1499, the last one of 999 */
    cr_assert_eq(count.tokens, 1000000 / 1500 + 1);
    cr_assert_eq(count.plain, 1000000 / 1500 + 1);
}

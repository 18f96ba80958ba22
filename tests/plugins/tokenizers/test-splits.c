/* test-splits.c: how the plugin bpe cuts texts into words: its expressions over classes of characters against
 * the same expressions run by PCRE2 over characters, with PCRE2's own properties. */
#include <criterion/criterion.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bpe/expressions.h"
#include "bpe/pretokenizers.h"
#include "common/memory.h"
#include "common/unicode.h"
#include "gguf-writer.h"

static char message[512];

static int keep_message(int status, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    vsnprintf(message, sizeof message, format, args);
    va_end(args);
    return status;
}

static const struct engine_host services = {.struct_size = sizeof services, .fail = keep_message};

static void set_host(void)
{
    host = &services;
}

TestSuite(splits, .init = set_host, .timeout = 600);

/* ---- Unicode ---- */

static enum unicode_group group_of(uint32_t code_point)
{
    size_t i = 0;
    while (unicode_run_end(i) <= code_point) i++;
    return unicode_runs[i] & 7;
}

Test(splits, groups_of_characters)
{
    cr_expect(group_of('a') == UNICODE_LETTER && group_of('7') == UNICODE_NUMBER &&
              group_of('_') == UNICODE_PUNCTUATION);
    cr_expect(group_of('~') == UNICODE_SYMBOL && group_of(' ') == UNICODE_SEPARATOR &&
              group_of('\n') == UNICODE_CONTROL);
    cr_expect(group_of(0x301) == UNICODE_MARK && group_of(0x378) == UNICODE_UNASSIGNED);
    cr_expect(group_of(0x2EBF0) == UNICODE_LETTER &&
              group_of(0x2EE5E) == UNICODE_UNASSIGNED); /* since 15.1 */
    cr_expect(group_of(0x31EF) == UNICODE_SYMBOL && group_of(0x10FFFF) == UNICODE_UNASSIGNED);
    uint32_t previous = 0;
    for (size_t i = 1; i < n_unicode_runs; i++) {
        cr_assert(unicode_runs[i] >> 3 > previous && (unicode_runs[i] & 7) != (unicode_runs[i - 1] & 7));
        previous = unicode_runs[i] >> 3;
    }
}

Test(splits, reading_utf8)
{
    static const struct {
        const char *text;
        size_t length;
        uint32_t code_point;
    } cases[] = {{"a", 1, 'a'},
                 {"\xC3\xA9", 2, 0xE9},
                 {"\xE2\x82\xAC", 3, 0x20AC},
                 {"\x80", 1, 0xFFFD},
                 {"\xC3", 1, 0xFFFD},
                 {"\xC3(", 1, 0xFFFD},
                 {"\xE2\x82", 1, 0xFFFD},
                 {"\xF0\x9F\x98\x80", 4, 0x1F600},
                 {"\xF8\x88\x80\x80\x80", 1, 0xFFFD},
                 {"\xED\xA0\x80", 3, 0xD800},
                 {"\xF4\x8F\xBF\xBF", 4, 0x10FFFF},
                 {"\xF4\x90\x80\x80", 1, 0xFFFD},
                 {"\xC1\xBF", 1, 0xFFFD},
                 {"\xE0\x9F\xBF", 1, 0xFFFD},
                 {"\xF0\x8F\xBF\xBF", 1, 0xFFFD}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        uint32_t code_point;
        size_t length = unicode_read(cases[i].text, strlen(cases[i].text), &code_point);
        cr_expect(length == cases[i].length && code_point == cases[i].code_point, "case %zu", i);
    }
}

/* ---- The expressions by themselves ---- */

/* Ends of words, in characters. */
struct words {
    size_t count, end;
    size_t *ends;
};

static int add_word(void *user, size_t n_characters)
{
    struct words *words = user;
    cr_assert(n_characters > 0);
    words->end += n_characters;
    words->ends[words->count++] = words->end;
    return 0;
}

static void split(const struct expressions *expressions, const uint32_t *text, size_t n, struct words *words)
{
    struct expressions_workspace workspace = {0};
    uint8_t *classes = malloc(n + 1);
    for (size_t i = 0; i < n; i++) classes[i] = expressions->classes[text[i]];
    words->count = words->end = 0;
    cr_assert(expressions_workspace_create(&workspace) == ENGINE_OK);
    cr_assert(expressions_split(expressions, &workspace, classes, n, add_word, words) == ENGINE_OK, "%s",
              message);
    expressions_workspace_destroy(&workspace);
    free(classes);
}

/* Words of a text by the pre-tokenizer of this name, with | between them. */
static void expect_words(const char *name, const char *text, const char *expected)
{
    const struct pretokenizer *pretokenizer = pretokenizer_find((struct engine_string){name, strlen(name)});
    cr_assert(pretokenizer, "%s", name);
    struct expressions expressions;
    cr_assert(expressions_create(&expressions, pretokenizer->expressions) == ENGINE_OK, "%s", message);
    uint32_t characters[256];
    size_t starts[257], n = 0, length = strlen(text);
    for (size_t at = 0; at < length; n++) {
        starts[n] = at;
        at += unicode_read(text + at, length - at, &characters[n]);
    }
    starts[n] = length;
    size_t ends[256];
    struct words words = {.ends = ends};
    split(&expressions, characters, n, &words);
    char got[1024] = "";
    size_t begin = 0;
    for (size_t i = 0; i < words.count; i++) {
        if (i) strcat(got, "|");
        strncat(got, text + starts[begin], starts[ends[i]] - starts[begin]);
        begin = ends[i];
    }
    cr_expect_str_eq(got, expected, "%s cuts \"%s\" into %s instead of %s", name, text, got, expected);
    expressions_destroy(&expressions);
}

Test(splits, words)
{
    expect_words("gpt-2", "Don't WE'LL  go, 12345 km²!\n\n x",
                 "Don|'t| WE|'|LL| | go|,| 12345| km|²|!|\n\n| x");
    expect_words("llama-bpe", "Don't WE'LL  go, 12345 km²!\n\n x",
                 "Don|'t| WE|'LL| | go|,| |123|45| km|²|!\n\n| x");
    expect_words("qwen2", "a1234  \n  b \t", "a|1|2|3|4|  \n| | b| \t");
    expect_words("starcoder", "a1234", "a|1|2|3|4");
    expect_words("gpt-4o", "HelloWORLD isn't CamelCase'S", "Hello|WORLD| isn't| Camel|Case'S");
    expect_words("tekken", "HelloWORLD isn't", "Hello|WORLD| isn|'t");
    expect_words("kimi-k2", "漢字かな word's 1234", "漢字|かな| word's| |123|4");
    expect_words("deepseek-v3", "漢字 x.y =abc 1234", "漢字| x|.y| =|abc| |123|4");
    expect_words("afmoe", "1234567 1234", "1|234|567| |1|234");
    expect_words("superbpe", "ab1234567 c", "ab|1|234|567| c");
    expect_words("falcon", "a1234 = `b`", "a|123|4| |=| |`|b|`");
    expect_words("bloom", "one, two (three)", "one|,| two| (|three|)");
    expect_words("chameleon", "IMGIMGABZ <sentinel:12>x", "IMGIMGABZ| |<|sentinel|:|1|2|>|x");
    expect_words("deepseek-llm", "one  two\n12\u3000  ", "one| | two|\n|12|\u3000  ");
    expect_words("exaone-moe", "new york\n\nx", "new york|\n\n|x");
    expect_words("k2-horizon", "na\u0303ve ab\u200Dcd 12345", "na\u0303ve| ab\u200Dcd| |123|45");
    expect_words("jais-2", "a       b", "a|    |  | b");
    cr_expect(pretokenizer_find((struct engine_string){"gpt", 3}) == NULL);
    cr_expect(pretokenizer_find((struct engine_string){"", 0}) == NULL);
    cr_expect(pretokenizer_find((struct engine_string){"gpt-2 phi-2", 11}) == NULL);
}

/* ---- Against PCRE2 over characters ---- */

struct reference {
    pcre2_code *codes[MAX_EXPRESSIONS];
    const char *const *expressions;
    pcre2_match_data *match;
};

/* Cuts bytes [n] of UTF-8, whose characters begin at the places that are marked in `starts`. */
static void reference_split(const struct reference *reference, size_t expression, const char *text, size_t n,
                            struct words *words)
{
    if (!n) return;
    if (!reference->expressions[expression]) {
        size_t count = 0;
        for (size_t i = 0; i < n; i++) count += ((unsigned char)text[i] & 0xC0) != 0x80;
        add_word(words, count);
        return;
    }
    size_t done = 0;
    for (size_t from = 0; from < n;) {
        int found =
            pcre2_match(reference->codes[expression], (PCRE2_SPTR)text, n, from, 0, reference->match, NULL);
        if (found == PCRE2_ERROR_NOMATCH) break;
        cr_assert(found > 0, "PCRE2: %d", found);
        const PCRE2_SIZE *ends = pcre2_get_ovector_pointer(reference->match);
        cr_assert(ends[1] > ends[0]);
        size_t start = ends[0], end = ends[1];
        reference_split(reference, expression + 1, text + done, start - done, words);
        reference_split(reference, expression + 1, text + start, end - start, words);
        done = from = end;
    }
    reference_split(reference, expression + 1, text + done, n - done, words);
}

/* False if the list has something in it that only our own compiler knows. */
static bool make_reference(const struct pretokenizer *pretokenizer, struct reference *reference)
{
    memset(reference, 0, sizeof *reference);
    reference->expressions = pretokenizer->expressions;
    for (size_t i = 0; pretokenizer->expressions[i]; i++)
        if (*pretokenizer->expressions[i] == '#' || strstr(pretokenizer->expressions[i], "\\p{LX}"))
            return false;
    for (size_t i = 0; pretokenizer->expressions[i]; i++) {
        int error;
        PCRE2_SIZE where;
        reference->codes[i] =
            pcre2_compile((PCRE2_SPTR)pretokenizer->expressions[i], PCRE2_ZERO_TERMINATED,
                          PCRE2_UTF | PCRE2_UCP | PCRE2_DOLLAR_ENDONLY, &error, &where, NULL);
        cr_assert(reference->codes[i], "%s", pretokenizer->expressions[i]);
        pcre2_jit_compile(reference->codes[i], PCRE2_JIT_COMPLETE);
    }
    reference->match = pcre2_match_data_create(1, NULL);
    return true;
}

static size_t write_utf8(uint32_t c, char *out)
{
    if (c < 0x80) return *out = (char)c, 1;
    size_t length = c < 0x800 ? 2 : c < 0x10000 ? 3 : 4;
    for (size_t i = length; i-- > 1; c >>= 6) out[i] = (char)(0x80 | (c & 0x3F));
    *out = (char)(c | (0xF00u >> length & 0xFF));
    return length;
}

/* Whether PCRE2's version of Unicode has the character or hasn't it just like ours. */
static bool known_alike(uint32_t character)
{
    static pcre2_code *unassigned;
    int error;
    PCRE2_SIZE where;
    if (!unassigned)
        unassigned =
            pcre2_compile((PCRE2_SPTR) "\\p{Cn}", PCRE2_ZERO_TERMINATED, PCRE2_UTF, &error, &where, NULL);
    if (character == 0x180E) return false; /* PCRE2 goes on calling it white space */
    char text[4];
    size_t length = write_utf8(character, text);
    pcre2_match_data *match = pcre2_match_data_create(1, NULL);
    bool theirs = pcre2_match(unassigned, (PCRE2_SPTR)text, length, 0, 0, match, NULL) > 0;
    pcre2_match_data_free(match);
    return theirs == (group_of(character) == UNICODE_UNASSIGNED);
}

/* A character of any kind, but no white space of more than two bytes, which expressions never see as what it
 * is. */
static uint32_t random_character(uint64_t *seed)
{
    static const uint32_t some[] = {' ',     ' ',     '\n',   '\r',   '\t',   '\'',   's',    'T',
                                    'l',     'L',     '1',    '9',    '!',    '$',    0x85,   0xA0,
                                    0xB2,    0xE9,    0x301,  0x660,  0x903,  0x964,  0x200D, 0x2018,
                                    0x3001,  0x3042,  0x4E00, 0x9FA5, 0xAC00, 0xFF01, 0xFF21, 0x1F600,
                                    0x20000, 0x10400, 0xE000, 0x378,  'e',    'r',    'v',    'm'};
    for (;;) {
        uint64_t r = random_next(seed);
        uint32_t limit = r % 7 < 3 ? 0x250 : r % 7 < 6 ? 0x3200 : 0x1FA00;
        uint32_t character = r % 3 ? some[r / 8 % (sizeof some / sizeof *some)] : (uint32_t)(r / 8 % limit);
        bool surrogate = character >= 0xD800 && character < 0xE000;
        bool wide_space = character > 0xA0 && unicode_is_space(character);
        if (character && !surrogate && !wide_space && known_alike(character)) return character;
    }
}

Test(splits, agree_with_pcre2_over_characters)
{
    uint64_t seed = 77;
    size_t n_compared = 0;
    for (size_t entry = 0; pretokenizer_at(entry); entry++) {
        const struct pretokenizer *pretokenizer = pretokenizer_at(entry);
        struct expressions expressions;
        struct reference reference;
        cr_assert(expressions_create(&expressions, pretokenizer->expressions) == ENGINE_OK, "%s", message);
        if (make_reference(pretokenizer, &reference)) {
            n_compared++;
            for (int round = 0; round < 400; round++) {
                uint32_t characters[60];
                char text[240];
                size_t n = 1 + random_next(&seed) % 60, length = 0, ends[60], expected_ends[60];
                for (size_t i = 0; i < n; i++) {
                    characters[i] = random_character(&seed);
                    length += write_utf8(characters[i], text + length);
                }
                struct words words = {.ends = ends}, expected = {.ends = expected_ends};
                split(&expressions, characters, n, &words);
                reference_split(&reference, 0, text, length, &expected);
                cr_assert(words.count == expected.count &&
                              memcmp(ends, expected_ends, words.count * sizeof *ends) == 0,
                          "%s, round %d: \"%.*s\"", pretokenizer->names, round, (int)length, text);
            }
            for (size_t i = 0; i < MAX_EXPRESSIONS; i++) pcre2_code_free(reference.codes[i]);
            pcre2_match_data_free(reference.match);
        }
        expressions_destroy(&expressions);
    }
    cr_expect(n_compared > 20);
}

/* Long runs of one character must neither fail nor take for ever (quadratic time would). */
Test(splits, long_runs)
{
    size_t n = 200000;
    uint32_t *text = malloc(n * sizeof *text);
    size_t *ends = malloc(n * sizeof *ends);
    static const uint32_t characters[] = {'a', 'A', ' ', '\n', '1', '\'', 0xE9, 0x4E00, 0x301, '!', 0x1F600};
    for (size_t entry = 0; pretokenizer_at(entry); entry++) {
        struct expressions expressions;
        cr_assert(expressions_create(&expressions, pretokenizer_at(entry)->expressions) == ENGINE_OK);
        for (size_t i = 0; i < sizeof characters / sizeof *characters; i++) {
            for (size_t j = 0; j < n; j++) text[j] = characters[i];
            text[n - 1] = '7';
            struct words words = {.ends = ends};
            split(&expressions, text, n, &words);
            cr_expect(words.end == n);
        }
        expressions_destroy(&expressions);
    }
    free(text);
    free(ends);
}

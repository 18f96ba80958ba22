/* test-grammar.c: grammars in GBNF, each construct for itself, and masks of tokens. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "grammar-fixture.h"
#include "grammar/internal.h"

TestSuite(grammar);

static void fits(const char *grammar, const char *const *texts)
{
    for (; *texts; texts++) grammar_expect(GRAMMAR_GBNF, grammar, *texts, GRAMMAR_FITS);
}

static void fails(const char *grammar, const char *const *texts)
{
    for (; *texts; texts++) grammar_expect(GRAMMAR_GBNF, grammar, *texts, GRAMMAR_DOES_NOT_FIT);
}

#define LIST(...)                                                                                            \
    (const char *const[])                                                                                    \
    {                                                                                                        \
        __VA_ARGS__, NULL                                                                                    \
    }

Test(grammar, literals_and_alternatives)
{
    fits("root ::= \"one\" | \"two\" \" three\"", LIST("one", "two three"));
    fails("root ::= \"one\" | \"two\" \" three\"", LIST("on", "two", "three", "onetwo three", ""));
    fits("root ::= | \"a\"", LIST("", "a"));
    fits("root ::= \"\" \"a\" (\"\" | \"b\")", LIST("a", "ab"));
    fits("root ::= (\"a\" | (\"b\" \"c\"))\"d\"", LIST("ad", "bcd"));
}

/* Whether one of `words` [count] begins with `text`, or is it. */
static void look_up(char (*words)[8], size_t count, const char *text, bool *begins, bool *is)
{
    *begins = *is = false;
    for (size_t i = 0; i < count; i++) {
        *begins |= !strncmp(words[i], text, strlen(text));
        *is |= !strcmp(words[i], text);
    }
}

/* Many words with common beginnings and ends, some twice, against a list of them. */
Test(grammar, words)
{
    static char words[600][8], text[12000] = "root ::= \"\"";
    struct grammar *grammar;
    struct grammar_match *match;
    unsigned seed = 5;
    for (size_t i = 1; i < 600; i++) {
        seed = seed * 1103515245u + 12345u;
        for (unsigned n = 0; n < 1 + (seed >> 8) % 7; n++)
            words[i][n] = (char)('a' + (seed >> (12 + 2 * n)) % 4);
        sprintf(text + strlen(text), " | \"%s\"", words[i]);
    }
    cr_assert_eq(grammar_create(grammar_bytes(), GRAMMAR_GBNF, text, strlen(text), &grammar), ENGINE_OK);
    for (size_t i = 0; i < 4000; i++) {
        char tried[8] = "";
        bool begins, is;
        cr_assert_eq(grammar_match_create(grammar, false, &match), ENGINE_OK);
        for (unsigned n = 0;; n++) {
            look_up(words, 600, tried, &begins, &is);
            cr_assert(begins && grammar_match_complete(match) == is, "%s", tried);
            if (n == 7) break;
            seed = seed * 1103515245u + 12345u;
            tried[n] = (char)('a' + (seed >> 16) % 4);
            look_up(words, 600, tried, &begins, &is);
            cr_assert_eq(grammar_match_accept(match, (unsigned char)tried[n]) == ENGINE_OK, begins, "%s",
                         tried);
            if (!begins) break;
        }
        grammar_match_destroy(match);
    }
    grammar_destroy(grammar);
}

/* Alternatives that are no texts stand beside those that are. */
Test(grammar, words_and_others)
{
    fits("root ::= (\"ab\" | \"ac\" | [a-b] \"d\" | \"a\"){2}", LIST("abac", "adbd", "aa", "aad", "aba"));
    fails("root ::= (\"ab\" | \"ac\" | [a-b] \"d\" | \"a\"){2}", LIST("ab", "b", "acb", "aaa"));
    fits("root ::= (\"ab\" | \"abc\") \"cd\"", LIST("abcd", "abccd"));
    fits("root ::= ((\"x\") | (\"\"))", LIST("", "x"));
}

Test(grammar, escapes)
{
    fits("root ::= \"\\x41\\u00e9\\U0001F600\\t\\r\\n\\\\\\\"\\[\\]\"",
         LIST("A\xc3\xa9\xf0\x9f\x98\x80\t\r\n\\\"[]"));
    fits("root ::= [\\x41-\\x43\\u00e9-\\u00eb]+", LIST("ABC", "\xc3\xa9\xc3\xaa\xc3\xab"));
    fails("root ::= [\\x41-\\x43\\u00e9-\\u00eb]+", LIST("D", "\xc3\xa8", "\xc3\xac", "@"));
}

Test(grammar, classes)
{
    fits("root ::= [a-cx-]", LIST("a", "c", "x", "-"));
    fails("root ::= [a-cx-]", LIST("d", "ab", ""));
    fits("root ::= [^a-c\\]]", LIST("d", "\n", "\xc3\xa9", "\xe2\x82\xac", "\xf0\x9f\x98\x80"));
    fails("root ::= [^a-c\\]]",
          LIST("a", "c", "]", "\xc3", "\xc3\xa9\xc3\xa9", "\xed\xa0\x80", "\xc0\x80", "\xf4\x90\x80\x80"));
    fits("root ::= . \"!\"", LIST("a!", "\n!", "\xe2\x82\xac!", "\xf4\x8f\xbf\xbf!"));
    fails("root ::= . \"!\"", LIST("!", "ab!"));
    fits("root ::= [^]", LIST("a"));
    fits("root ::= [\xe3\x81\x81-\xe3\x82\x9f\xc3\xa9]", LIST("\xe3\x81\x82", "\xc3\xa9"));
}

/* Schemas as items of a grammar, each with its own definitions. */
Test(grammar, schemas_within)
{
    static const char grammar[] =
        "root ::= \"call \" (one | two) # %json\n"
        "one ::= \"a\" %json {\"type\": \"array\", \"items\": {\"$ref\": \"#/$defs/x\"},\n"
        "  \"$defs\": {\"x\": {\"type\": \"boolean\"}}} \"!\"\n"
        "two ::= \"b\" (%json {\"$ref\": \"#/$defs/x\", \"$defs\": {\"x\": {\"enum\": [7, 8]}}}){2} | "
        "\"c\" %json true\n";
    fits(grammar, LIST("call a[true,false]!", "call a[]!", "call b78", "call b88", "call c{\"x\":[1]}"));
    fails(grammar, LIST("call a[1]!", "call a[true]", "call b7", "call b777", "call btrue", "call c"));
    grammar_expect_refused(GRAMMAR_GBNF, "root ::= %jso {}", "%json is the only item");
    grammar_expect_refused(GRAMMAR_GBNF, "root ::=\n%json {\"type\": }",
                           "line 2: %json should be followed by");
    grammar_expect_refused(GRAMMAR_GBNF, "root ::= %json 5", "should be a schema");
    grammar_expect_refused(GRAMMAR_GBNF, "root ::= %json {\"type\": \"fish\"}", "\"type\" should be");
}

/* Each character at the borders of UTF-8's lengths, in a class that ends or begins there. */
Test(grammar, borders_of_utf8)
{
    static const struct {
        const char *last, *first;
    } borders[] = {{"\x7f", "\xc2\x80"},
                   {"\xdf\xbf", "\xe0\xa0\x80"},
                   {"\xef\xbf\xbf", "\xf0\x90\x80\x80"},
                   {"\xe0\xbf\xbf", "\xe1\x80\x80"},
                   {"\xf0\xbf\xbf\xbf", "\xf1\x80\x80\x80"},
                   {"\xf3\xbf\xbf\xbf", "\xf4\x80\x80\x80"},
                   {"\xed\x9f\xbf", "\xee\x80\x80"}};
    char grammar[64];
    for (size_t i = 0; i < sizeof borders / sizeof *borders; i++) {
        snprintf(grammar, sizeof grammar, "root ::= [ -%s]", borders[i].last);
        fits(grammar, LIST(borders[i].last, "a"));
        fails(grammar, LIST(borders[i].first));
        snprintf(grammar, sizeof grammar, "root ::= [^ -%s]", borders[i].last);
        fits(grammar, LIST(borders[i].first));
        fails(grammar, LIST(borders[i].last, "a"));
    }
}

Test(grammar, repetitions)
{
    fits("root ::= \"a\"* \"b\"", LIST("b", "aaab"));
    fits("root ::= \"a\"+ \"b\"", LIST("ab", "aaab"));
    fails("root ::= \"a\"+ \"b\"", LIST("b"));
    fits("root ::= \"a\"? \"b\"", LIST("b", "ab"));
    fails("root ::= \"a\"? \"b\"", LIST("aab"));
    fits("root ::= \"a\"{3}", LIST("aaa"));
    fails("root ::= \"a\"{3}", LIST("aa", "aaaa"));
    fits("root ::= \"a\"{2,}", LIST("aa", "aaaaaaa"));
    fails("root ::= \"a\"{2,}", LIST("a"));
    fits("root ::= \"a\"{,2} \"b\"", LIST("b", "aab"));
    fits("root ::= \"a\"{0,0} \"b\"", LIST("b"));
    fits("root ::= [a-z]{1,1000000}", LIST("abc"));
    fits("root ::= (\"a\" | \"b\" \"c\"){2,3}", LIST("aa", "abc", "bcbcbc"));
    fails("root ::= (\"a\" | \"b\" \"c\"){2,3}", LIST("a", "bcbcbcbc", "ab"));
    fits("root ::= (\"a\"{2} \"b\"){2}", LIST("aabaab"));
    fits("root ::= \"a\"{2}{3}", LIST("aaaaaa"));
    fails("root ::= \"a\"{2}{3}", LIST("aaaaa", "aa"));
}

/* Parts that may be empty, in repetitions. */
Test(grammar, empty_repetitions)
{
    fits("root ::= (\"a\"?){0,100000} \"b\"", LIST("b", "aab"));
    fits("root ::= (\"a\"?){3,5} \"b\"", LIST("b", "aaaaab"));
    fails("root ::= (\"a\"?){3,5} \"b\"", LIST("aaaaaab"));
    fits("root ::= (\"a\"*)* (\"b\"*)+ \"c\"", LIST("c", "aac", "abbc"));
    fits("root ::= ((\"a\" | ){2}){2} \"b\"", LIST("b", "ab", "aaaab"));
    fails("root ::= ((\"a\" | ){2}){2} \"b\"", LIST("aaaaab"));
}

/* Loops in loops, where a text can be counted in several ways. */
Test(grammar, ambiguous_repetitions)
{
    fits("root ::= (\"a\"{1,3}){2,3} \"b\"", LIST("aab", "aaaaaaaaab"));
    fails("root ::= (\"a\"{1,3}){2,3} \"b\"", LIST("ab", "aaaaaaaaaab"));
    fits("root ::= (\"a\" | \"aa\"){4} \"b\"", LIST("aaaab", "aaaaaaaab", "aaaaaab"));
    fails("root ::= (\"a\" | \"aa\"){4} \"b\"", LIST("aaab", "aaaaaaaaab"));
}

Test(grammar, rules)
{
    fits("root ::= a-1 B_2\n\n# a comment\na-1 ::= \"x\" # another\nB_2 ::=\n  \"y\"\n", LIST("xy"));
    fits("root ::= \"(\" root \")\" | \"x\"", LIST("x", "(((x)))"));
    fails("root ::= \"(\" root \")\" | \"x\"", LIST("((x)", "(x))"));
    fits("root ::= \"a\" rest\nrest ::= \",\" \"a\" rest | \"\"", LIST("a", "a,a,a,a"));
    fits("root ::= (\n  \"a\" # first\n  \"b\"\n | \"c\"\n)\n", LIST("ab", "c"));
    fits("root ::= \"a\" |\n  \"b\"\n  | \"c\"\nx ::= \"d\"", LIST("a", "b", "c"));
    fits("root ::= \"a\"\r\n", LIST("a"));
}

Test(grammar, refused)
{
    static const struct {
        const char *grammar, *message;
    } cases[] = {
        {"", "no rule \"root\""},
        {"start ::= \"a\"", "no rule \"root\""},
        {"root ::= \"a\"\nx", "line 2: ::= is missing"},
        {"root ::= \"a", "line 1: a string isn't closed"},
        {"root ::= [a", "isn't closed"},
        {"root ::= []", "[] is a class without characters"},
        {"root ::= [z-a]", "ends before it begins"},
        {"root ::= (\"a\"", ") is missing"},
        {"root ::= \"a\")", "unexpected character"},
        {"root ::= *", "unexpected character"},
        {"root ::= \"\\q\"", "unknown escape"},
        {"root ::= \"\\u12\"", "too few hexadecimal digits"},
        {"root ::= \"\\ud800\"", "not a character"},
        {"root ::= \"\xff\"", "isn't UTF-8"},
        {"root ::= \"a\"{3,2}", "below its lower limit"},
        {"root ::= \"a\"{x}", "a number should be here"},
        {"root ::= \"a\"{99999999999}", "too large"},
        {"root ::= x\n", "line 1: there is no rule \"x\""},
        {"root ::= \"a\"\nroot ::= \"b\"", "line 2: the rule is defined twice"},
        {"root ::= root \"a\" | \"b\"", "the rule \"root\" can begin with itself"},
        {"root ::= a\na ::= \"x\"? b\nb ::= a \"y\" | \"z\"", "can begin with itself"},
        {"root ::= \"a\" root", "no text of finite length fits"},
        {"root ::= <nothing>", "no token with the text"},
        {"root ::= <[99999]>", "no such token"},
        {"root ::= !\"a\"", "should be followed by a token"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        grammar_expect_refused(GRAMMAR_GBNF, cases[i].grammar, cases[i].message);
    char deep[4000] = "root ::= ";
    memset(deep + 9, '(', 2000);
    grammar_expect_refused(GRAMMAR_GBNF, deep, "nested too deep");
}

/* Two rules that can't end are left out, and what can end stays. */
Test(grammar, parts_that_never_end)
{
    fits("root ::= \"a\" | \"b\" x\nx ::= \"c\" x", LIST("a"));
    fails("root ::= \"a\" | \"b\" x\nx ::= \"c\" x", LIST("b", "bc"));
}

/* More readings than are followed: a message, soon. */
Test(grammar, too_ambiguous)
{
    const char *text = "root ::= (a | b) | \"\"\na ::= \"x\" root \"1\"\nb ::= \"x\" root \"2\"\n";
    struct grammar *grammar;
    struct grammar_match *match;
    cr_assert_eq(grammar_create(grammar_bytes(), GRAMMAR_GBNF, text, strlen(text), &grammar), ENGINE_OK);
    cr_assert_eq(grammar_match_create(grammar, false, &match), ENGINE_OK);
    int status = ENGINE_OK;
    for (int i = 0; i < 100 && !status; i++) status = grammar_match_accept(match, 'x');
    cr_assert_eq(status, ENGINE_ERROR_DATA);
    cr_assert(strstr(error_message(), "too ambiguous"), "%s", error_message());
    grammar_match_destroy(match);
    grammar_destroy(grammar);
}

/* Many places at once of which each byte has to be looked for, and few take one: that is work too. */
Test(grammar, many_dead_ends)
{
    static char text[1 << 18];
    struct exprs exprs;
    struct effort effort = {0};
    struct automaton automaton;
    struct machine machine;
    size_t size = (size_t)sprintf(text, "root ::= (%s\nx ::= [bdfh]", "x x x x x x x x x x x x x x x x)");
    for (int i = 0; i < 15000; i++) size += (size_t)sprintf(text + size, " | [bd%s]", i % 2 ? "fh" : "jl");
    exprs_create(&exprs, "root", &effort);
    cr_assert_eq(gbnf_read(&exprs, grammar_bytes(), text, size), ENGINE_OK, "%s", error_message());
    cr_assert_eq(automaton_create(&exprs, &automaton), ENGINE_OK);
    cr_assert_eq(machine_create(&machine, &automaton, 0), ENGINE_OK);
    machine_begin(&machine);
    uint32_t state = machine_start(&machine), next = state;
    for (int i = 0; i < 16 && next != STATE_UNKNOWN; i++, state = next)
        for (int byte = 'z'; byte >= 'b' && next != STATE_UNKNOWN; byte--)
            next = machine_step(&machine, state, (uint8_t)byte);
    cr_assert_eq(next, STATE_UNKNOWN);
    cr_assert(strstr(error_message(), "too ambiguous"), "%s", error_message());
    machine_destroy(&machine);
    automaton_destroy(&automaton);
    exprs_destroy(&exprs);
}

/* ---- Tokens ---- */

#define N_TOKENS 13
static struct grammar_vocab *small_vocab(void)
{
    static const char *const texts[N_TOKENS] = {"a",
                                                "ab",
                                                "abc",
                                                "b",
                                                "c",
                                                "\xc3",
                                                "\xa9",
                                                "</s>",
                                                "<x>",
                                                "",
                                                " a",
                                                ("\xc3\xa9"
                                                 "a"),
                                                " "};
    static const uint8_t kinds[N_TOKENS] = {[7] = GRAMMAR_TOKEN_END, [8] = GRAMMAR_TOKEN_MARK};
    struct engine_string strings[N_TOKENS];
    struct grammar_vocab *vocab;
    for (size_t i = 0; i < N_TOKENS; i++) strings[i] = (struct engine_string){texts[i], strlen(texts[i])};
    cr_assert_eq(grammar_vocab_create(strings, kinds, N_TOKENS, &vocab), ENGINE_OK);
    return vocab;
}

/* `tokens`, ended by -1, and then exactly the tokens of `next`, ended by -1, may follow. */
static void expect_tokens(const char *text, bool strip, const int *tokens, const int *next)
{
    struct grammar_vocab *vocab = small_vocab();
    struct grammar *grammar;
    struct grammar_match *match;
    uint64_t mask = 0, wanted = 0;
    cr_assert_eq(grammar_create(vocab, GRAMMAR_GBNF, text, strlen(text), &grammar), ENGINE_OK, "%s",
                 error_message());
    cr_assert_eq(grammar_match_create(grammar, strip, &match), ENGINE_OK);
    for (; *tokens >= 0; tokens++)
        cr_assert_eq(grammar_match_accept(match, (uint32_t)*tokens), ENGINE_OK, "%s: %s", text,
                     error_message());
    for (; *next >= 0; next++) wanted |= (uint64_t)1 << *next;
    cr_assert_eq(grammar_match_mask(match, &mask), ENGINE_OK);
    cr_assert_eq(mask, wanted, "%s: %llx, not %llx", text, (unsigned long long)mask,
                 (unsigned long long)wanted);
    /* Tokens outside the mask are refused. */
    for (uint32_t token = 0; token < N_TOKENS; token++)
        if (!(wanted >> token & 1)) cr_assert_eq(grammar_match_accept(match, token), ENGINE_ERROR_DATA);
    grammar_match_destroy(match);
    grammar_destroy(grammar);
    grammar_vocab_destroy(vocab);
}

#define TOKENS(...)                                                                                          \
    (const int[])                                                                                            \
    {                                                                                                        \
        __VA_ARGS__, -1                                                                                      \
    }
#define NO_TOKENS ((const int[]){-1})

Test(grammar, masks)
{
    expect_tokens("root ::= \"abc\"", false, NO_TOKENS, TOKENS(0, 1, 2));
    expect_tokens("root ::= \"abc\"", false, TOKENS(0), TOKENS(3));
    expect_tokens("root ::= \"abc\"", false, TOKENS(2), TOKENS(7));
    expect_tokens("root ::= \"ab\"*", false, NO_TOKENS, TOKENS(0, 1, 7));
    expect_tokens("root ::= [a-b]{2} \"c\"", false, NO_TOKENS, TOKENS(0, 1, 2, 3));
    expect_tokens("root ::= [a-b]{2} \"c\"", false, TOKENS(3), TOKENS(0, 3));
}

Test(grammar, half_characters)
{
    expect_tokens("root ::= \"\\u00e9\"", false, NO_TOKENS, TOKENS(5));
    expect_tokens("root ::= \"\\u00e9\"", false, TOKENS(5), TOKENS(6));
    expect_tokens("root ::= \"\\u00e9\"", false, TOKENS(5, 6), TOKENS(7));
    expect_tokens("root ::= [^a]", false, NO_TOKENS, TOKENS(3, 4, 5, 12));
    expect_tokens("root ::= [^\\u00e9]+", false, NO_TOKENS, TOKENS(0, 1, 2, 3, 4, 5, 10, 12));
    expect_tokens("root ::= [\\u00e9] .*", false, NO_TOKENS, TOKENS(5, 11));
}

Test(grammar, tokens_by_name)
{
    expect_tokens("root ::= <x> \"a\"", false, NO_TOKENS, TOKENS(8));
    expect_tokens("root ::= <x> \"a\"", false, TOKENS(8), TOKENS(0));
    expect_tokens("root ::= <[8]> | <[2]> | \"a\"", false, NO_TOKENS, TOKENS(0, 2, 8));
    expect_tokens("root ::= <[2]> \"c\" | \"abcb\"", false, TOKENS(2), TOKENS(3, 4));
    expect_tokens("root ::= !<x>* <x>", false, NO_TOKENS, TOKENS(0, 1, 2, 3, 4, 5, 6, 8, 10, 11, 12));
    expect_tokens("root ::= !<[2]>", false, NO_TOKENS, TOKENS(0, 1, 3, 4, 5, 6, 10, 11, 12));
    expect_tokens("root ::= !<[2]>", false, TOKENS(0), TOKENS(7));
    expect_tokens("root ::= !<[2]> | !<[2]> \"x\"", false, NO_TOKENS, TOKENS(0, 1, 3, 4, 5, 6, 10, 11, 12));
    expect_tokens("root ::= !<[2]> | !<[3]> | !<[2]> \"x\"", false, NO_TOKENS,
                  TOKENS(0, 1, 2, 3, 4, 5, 6, 10, 11, 12));
}

/* At the very beginning of a text the decoder drops a space. */
Test(grammar, first_space)
{
    expect_tokens("root ::= \"a\"", true, NO_TOKENS, TOKENS(0, 10));
    expect_tokens("root ::= \"a\"", true, TOKENS(10), TOKENS(7));
    expect_tokens("root ::= \" a\"", true, NO_TOKENS, NO_TOKENS);
    expect_tokens("root ::= \"b\" \" a\"", true, TOKENS(3), TOKENS(10, 12));
}

Test(grammar, logits)
{
    struct grammar_vocab *vocab = small_vocab();
    struct grammar *grammar;
    struct grammar_match *match;
    float logits[N_TOKENS + 70];
    cr_assert_eq(grammar_create(vocab, GRAMMAR_GBNF, "root ::= \"ab\"", 13, &grammar), ENGINE_OK);
    cr_assert_eq(grammar_match_create(grammar, false, &match), ENGINE_OK);
    for (size_t i = 0; i < N_TOKENS + 70; i++) logits[i] = (float)i;
    cr_assert_eq(grammar_match_apply(match, logits, N_TOKENS + 70), ENGINE_OK);
    for (size_t i = 0; i < N_TOKENS + 70; i++)
        cr_assert(i < 2 ? logits[i] == (float)i : logits[i] < -1e30f, "%zu: %f", i, (double)logits[i]);
    cr_assert_eq(grammar_match_accept(match, 1), ENGINE_OK);
    cr_assert(grammar_match_complete(match) && grammar_match_final(match));
    /* The end alone is left, and it is -infinity already. */
    logits[7] = -1.0f / 0.0f;
    cr_assert_eq(grammar_match_apply(match, logits, N_TOKENS), ENGINE_ERROR_DATA);
    grammar_match_destroy(match);
    grammar_destroy(grammar);
    grammar_vocab_destroy(vocab);
}

/* ---- Masks against tokens one by one ---- */

#define N_RANDOM 700

/* Tokens of one to four random pieces, among them parts of characters and some that are the same. */
static struct grammar_vocab *random_vocab(void)
{
    static const char *const pieces[] = {"a",        "b",        "c",
                                         "\"",       ",",        "{",
                                         "}",        "[",        "]",
                                         ":",        "0",        "1",
                                         "-",        ".",        "e",
                                         " ",        "\n",       "\\",
                                         "u",        "n",        "\xc3",
                                         "\xa9",     "\xc3\xa9", "\xe2\x82\xac",
                                         "\xe2",     "\x82",     "\xf0\x9f\x98\x80",
                                         "\xf0\x9f", "true",     "null",
                                         "x"};
    static char texts[N_RANDOM][40];
    static uint8_t kinds[N_RANDOM];
    struct engine_string strings[N_RANDOM];
    struct grammar_vocab *vocab;
    unsigned seed = 1;
    for (size_t i = 0; i < N_RANDOM; i++) {
        texts[i][0] = '\0';
        size_t n_pieces = sizeof pieces / sizeof *pieces;
        for (size_t n = i < n_pieces ? 1 : 1 + i % 4; n > 0; n--) {
            seed = seed * 1103515245u + 12345u;
            strcat(texts[i], pieces[i < n_pieces ? i : (seed >> 8) % n_pieces]);
        }
        strings[i] = (struct engine_string){texts[i], strlen(texts[i])};
    }
    kinds[N_RANDOM - 1] = GRAMMAR_TOKEN_END;
    cr_assert_eq(grammar_vocab_create(strings, kinds, N_RANDOM, &vocab), ENGINE_OK);
    return vocab;
}

/* Follows random tokens; at each step, a match that has seen the same tokens tries all of them. */
static void compare_masks(struct grammar_vocab *vocab, enum grammar_syntax syntax, const char *text,
                          unsigned seed)
{
    struct grammar *grammar, *other;
    struct grammar_match *match;
    uint64_t mask[(N_RANDOM + 63) / 64];
    uint32_t seen[24];
    size_t n_seen = 0;
    cr_assert_eq(grammar_create(vocab, syntax, text, strlen(text), &grammar), ENGINE_OK, "%s",
                 error_message());
    cr_assert_eq(grammar_create(vocab, syntax, text, strlen(text), &other), ENGINE_OK);
    cr_assert_eq(grammar_match_create(grammar, false, &match), ENGINE_OK);
    while (n_seen < 24 && !grammar_match_final(match)) {
        uint32_t allowed[N_RANDOM], n_allowed = 0;
        cr_assert_eq(grammar_match_mask(match, mask), ENGINE_OK, "%s", error_message());
        for (uint32_t token = 0; token < N_RANDOM; token++) {
            struct grammar_match *trial;
            cr_assert_eq(grammar_match_create(other, false, &trial), ENGINE_OK);
            for (size_t i = 0; i < n_seen; i++) cr_assert_eq(grammar_match_accept(trial, seen[i]), ENGINE_OK);
            bool fits = grammar_match_accept(trial, token) == ENGINE_OK;
            cr_assert_eq(fits, mask[token / 64] >> (token % 64) & 1, "%s: token %u after %zu", text, token,
                         n_seen);
            if (fits && token != N_RANDOM - 1) allowed[n_allowed++] = token;
            grammar_match_destroy(trial);
        }
        if (n_allowed == 0) break;
        seed = seed * 1103515245u + 12345u;
        seen[n_seen] = allowed[(seed >> 8) % n_allowed];
        cr_assert_eq(grammar_match_accept(match, seen[n_seen++]), ENGINE_OK);
    }
    grammar_match_destroy(match);
    grammar_destroy(grammar);
    grammar_destroy(other);
}

Test(grammar, masks_against_tokens)
{
    struct grammar_vocab *vocab = random_vocab();
    for (unsigned seed = 1; seed < 4; seed++) {
        compare_masks(vocab, GRAMMAR_JSON_OBJECT, "", seed);
        compare_masks(vocab, GRAMMAR_SCHEMA, "{\"type\":\"string\",\"maxLength\":9}", seed);
        compare_masks(vocab, GRAMMAR_SCHEMA, "{\"type\":\"array\",\"items\":{\"type\":\"number\"}}", seed);
        compare_masks(vocab, GRAMMAR_GBNF, "root ::= [^\"\\\\]{3,12} (\"e\" | [a-z ]+)", seed);
        compare_masks(vocab, GRAMMAR_GBNF, "root ::= ([^\\u00e9]* \"\\u00e9\"){5}", seed);
        compare_masks(vocab, GRAMMAR_GBNF, "root ::= .*", seed);
    }
    grammar_vocab_destroy(vocab);
}

/* Many states: what was worked out is forgotten on the way, and texts go on as before. */
Test(grammar, forgets)
{
    const char *text = "root ::= ([^,]{0,200000} \",\"){2}";
    struct grammar *grammar;
    struct grammar_match *match, *other;
    uint64_t mask[5];
    cr_assert_eq(grammar_create(grammar_bytes(), GRAMMAR_GBNF, text, strlen(text), &grammar), ENGINE_OK);
    cr_assert_eq(grammar_match_create(grammar, false, &match), ENGINE_OK);
    cr_assert_eq(grammar_match_create(grammar, false, &other), ENGINE_OK);
    cr_assert_eq(grammar_match_accept(other, ','), ENGINE_OK);
    for (int i = 0; i < 200000; i++) cr_assert_eq(grammar_match_accept(match, 'x'), ENGINE_OK);
    for (int i = 0; i < 200000; i++) cr_assert_eq(grammar_match_accept(other, 'x'), ENGINE_OK);
    cr_assert_eq(grammar_match_accept(match, 'x'), ENGINE_ERROR_DATA);
    cr_assert_eq(grammar_match_accept(other, 'x'), ENGINE_ERROR_DATA);
    cr_assert_eq(grammar_match_mask(match, mask), ENGINE_OK);
    cr_assert_eq(mask[0], (uint64_t)1 << ',');
    cr_assert_eq(grammar_match_accept(other, ','), ENGINE_OK);
    cr_assert(grammar_match_final(other));
    grammar_match_destroy(match);
    grammar_match_destroy(other);
    grammar_destroy(grammar);
}

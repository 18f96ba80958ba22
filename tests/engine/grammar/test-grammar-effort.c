/* test-grammar-effort.c: texts of grammars that a stranger may have made to take long. Steps are counted, not
 * seconds: twice the text takes about twice the steps, or is refused, and there is an end to them. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "grammar-fixture.h"

TestSuite(grammar_effort);

struct text {
    char *data;
    size_t length;
};

static void put(struct text *text, const char *piece)
{
    size_t length = strlen(piece);
    text->data = realloc(text->data, text->length + length + 1);
    cr_assert(text->data);
    memcpy(text->data + text->length, piece, length + 1);
    text->length += length;
}

static void put_times(struct text *text, const char *piece, size_t n)
{
    size_t length = strlen(piece);
    text->data = realloc(text->data, text->length + n * length + 1);
    cr_assert(text->data);
    for (size_t i = 0; i < n; i++) memcpy(text->data + text->length + i * length, piece, length);
    text->length += n * length;
    text->data[text->length] = '\0';
}

/* `format` has one %zu, the number of the piece. */
static void put_numbered(struct text *text, const char *format, size_t n)
{
    char piece[200];
    for (size_t i = 0; i < n; i++) {
        /* cppcheck-suppress wrongPrintfScanfArgNum ; formats are those below */
        snprintf(piece, sizeof piece, format, i, i, i);
        put(text, piece);
    }
}

/* ---- Texts of size n ---- */

static void groups(struct text *text, size_t n)
{
    put(text, "{\"pattern\":\"");
    put_times(text, "(", n);
    put(text, "a");
    put_times(text, ")", n);
    put(text, "\"}");
}

static void groups_in_a_row(struct text *text, size_t n)
{
    put(text, "{\"pattern\":\"");
    put_times(text, "((a)b)", n);
    put(text, "\"}");
}

static void classes(struct text *text, size_t n)
{
    put(text, "{\"pattern\":\"");
    put_times(text, "[^a-y]|", n);
    put(text, "\"}");
}

static void listed_beside_pattern(struct text *text, size_t n)
{
    put(text, "{\"pattern\":\"^(?:");
    put_times(text, "ab|", n);
    put(text, "x[0-9]+)$\",\"enum\":[");
    put_numbered(text, "\"x%zu\",", n);
    put(text, "1]}");
}

static void names_beside_pattern(struct text *text, size_t n)
{
    put(text, "{\"propertyNames\":{\"pattern\":\"^(?:");
    put_times(text, "ab|", n);
    put(text, "x[0-9]+)$\"},\"additionalProperties\":false,\"properties\":{");
    put_numbered(text, "\"x%zu\":true,", n);
    put(text, "\"y\":true}}");
}

/* As many references as there are links in the chain that they lead to. */
static void chains(struct text *text, size_t n)
{
    put(text, "{\"anyOf\":[");
    put_times(text, "{\"$ref\":\"#/$defs/a0\"},", n);
    put(text, "true],\"$defs\":{");
    for (size_t i = 0; i < n; i++) {
        char piece[80];
        snprintf(piece, sizeof piece, "\"a%zu\":{\"$ref\":\"#/$defs/a%zu\"},", i, i + 1);
        put(text, piece);
    }
    char piece[80];
    snprintf(piece, sizeof piece, "\"a%zu\":true}}", n);
    put(text, piece);
}

static void equal_parts(struct text *text, size_t n)
{
    put(text, "{\"allOf\":[");
    put_times(text, "{\"$ref\":\"#/$defs/a\"},{\"$ref\":\"#/$defs/b\"},", n);
    put(text, "true],\"$defs\":{\"a\":{\"items\":[");
    put_times(text, "{},", n);
    put(text, "1]},\"b\":{\"items\":[");
    put_times(text, "{},", n);
    put(text, "1]}}}");
}

static void empty_rounds(struct text *text, size_t n)
{
    put(text, "{\"minLength\":2,\"pattern\":\"^");
    put_times(text, "(", n % 100);
    put(text, "(?:)");
    put_times(text, "{999999999})", n % 100);
    put(text, "a*b*$\"}");
}

static void forks_without_characters(struct text *text, size_t n)
{
    put(text, "{\"minLength\":100000,\"pattern\":\"^(?:[ab]c?(?:");
    put_times(text, "|", n);
    put(text, "))*$\"}");
}

/* Each length so far of each place in the pattern. */
static void lengths(struct text *text, size_t n)
{
    put(text, "{\"minLength\":1000000,\"maxLength\":1000000,\"pattern\":\"^(?:");
    put_times(text, "a", n);
    put(text, ")*b?c?$\"}");
}

static void alternatives(struct text *text, size_t n)
{
    put(text, "root ::= ");
    put_times(text, "[a-z] | ", n);
    put(text, "\"\"");
}

static void looks_for_classes(struct text *text, size_t n)
{
    put(text, "root ::= ");
    put_times(text, "a* ", n);
    put(text,
        "\na ::= b|b|b|b|b|b|b|b\nb ::= c|c|c|c|c|c|c|c\nc ::= d|d|d|d|d|d|d|d\nd ::= (\"x\"|\"y\" \"z\")");
}

static void tokens(struct text *text, size_t n)
{
    put(text, "root ::= ");
    put_times(text, "</s> ", n);
}

static void schemas(struct text *text, size_t n)
{
    put(text, "root ::= ");
    put_times(text, "%json {\"allOf\":[{\"minimum\":1},{\"maximum\":3},{\"type\":\"integer\"}]} ", n);
}

static void names(struct text *text, size_t n)
{
    put(text, "{\"properties\":{");
    put_numbered(text, "\"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa%zu\":{\"type\":\"integer\"},", n);
    put(text, "\"x\":true},\"additionalProperties\":true}");
}

static void conditions(struct text *text, size_t n)
{
    put(text, "{\"allOf\":[");
    put_numbered(text,
                 "{\"if\":{\"properties\":{\"a%zu\":{\"const\":1}}},\"then\":{\"required\":[\"b%zu\"]}},", n);
    put(text, "true]}");
}

static void opposites(struct text *text, size_t n)
{
    put(text, "{\"not\":{\"properties\":{");
    put_numbered(text, "\"a%zu\":{\"$ref\":\"#/$defs/b\"},", n);
    put(text, "\"x\":true}},\"$defs\":{\"b\":{\"properties\":{");
    put_numbered(text, "\"a%zu\":{\"$ref\":\"#/$defs/c\"},", n);
    put(text, "\"x\":true}},\"c\":{\"properties\":{");
    put_numbered(text, "\"a%zu\":{\"type\":\"string\"},", n);
    put(text, "\"x\":true}}}}");
}

static const struct {
    const char *name;
    void (*write)(struct text *text, size_t n);
    enum grammar_syntax syntax;
    size_t n;
    bool product; /* what it means is as large as the product of two parts of it, up to the limit */
} cases[] = {
    {"groups", groups, GRAMMAR_SCHEMA, 30000, false},
    {"groups in a row", groups_in_a_row, GRAMMAR_SCHEMA, 10000, false},
    {"classes", classes, GRAMMAR_SCHEMA, 5000, false},
    {"values beside a pattern", listed_beside_pattern, GRAMMAR_SCHEMA, 4000, false},
    {"names beside a pattern", names_beside_pattern, GRAMMAR_SCHEMA, 4000, false},
    {"chains", chains, GRAMMAR_SCHEMA, 1000, true},
    {"equal parts", equal_parts, GRAMMAR_SCHEMA, 2000, true},
    {"empty rounds", empty_rounds, GRAMMAR_SCHEMA, 40, true},
    {"forks without characters", forks_without_characters, GRAMMAR_SCHEMA, 5000, true},
    {"lengths", lengths, GRAMMAR_SCHEMA, 5000, true},
    {"alternatives", alternatives, GRAMMAR_GBNF, 20000, false},
    {"looks for classes", looks_for_classes, GRAMMAR_GBNF, 20000, false},
    {"tokens", tokens, GRAMMAR_GBNF, 20000, false},
    {"schemas", schemas, GRAMMAR_GBNF, 1000, false},
    {"names", names, GRAMMAR_SCHEMA, 2000, false},
    {"conditions", conditions, GRAMMAR_SCHEMA, 1000, true},
    {"opposites", opposites, GRAMMAR_SCHEMA, 200, true},
};

/* The steps of a text of size n; 0: it was refused at once. */
static uint64_t steps_of(size_t which, size_t n)
{
    struct text text = {0};
    struct effort effort = {0};
    struct grammar *grammar = NULL;
    cases[which].write(&text, n);
    int status =
        grammar_create_with(grammar_bytes(), cases[which].syntax, text.data, text.length, &effort, &grammar);
    cr_expect(!status || status == ENGINE_ERROR_UNSUPPORTED || status == ENGINE_ERROR_DATA, "%s: %s",
              cases[which].name, error_message());
    grammar_destroy(grammar);
    free(text.data);
    return effort.steps;
}

Test(grammar_effort, is_bounded)
{
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        uint64_t once = steps_of(i, cases[i].n), twice = steps_of(i, 2 * cases[i].n);
        /* One part of a text may be counted at once. */
        cr_expect(twice <= EFFORT_MAX + 4000000, "%s: %llu steps", cases[i].name, (unsigned long long)twice);
        if (!cases[i].product)
            cr_expect(twice <= once * 5 / 2, "%s: %llu steps, and %llu for twice the text", cases[i].name,
                      (unsigned long long)once, (unsigned long long)twice);
    }
}

/* What a few bytes mean is refused by the number of its steps. */
Test(grammar_effort, ends)
{
    struct text text = {0};
    struct effort effort = {0};
    struct grammar *grammar = NULL;
    empty_rounds(&text, 3);
    cr_assert_eq(
        grammar_create_with(grammar_bytes(), GRAMMAR_SCHEMA, text.data, text.length, &effort, &grammar),
        ENGINE_ERROR_UNSUPPORTED);
    cr_assert(strstr(error_message(), "the grammar takes more than 20000000 steps to read"), "%s",
              error_message());
    free(text.data);
}

static int second_time(void *user)
{
    return ++*(int *)user == 2;
}

/* The caller's word counts after a bounded number of steps. */
Test(grammar_effort, may_be_given_up)
{
    struct text text = {0};
    int times = 0;
    struct effort effort = {.gives_up = second_time, .user = &times};
    struct grammar *grammar = NULL;
    alternatives(&text, 20000);
    cr_assert_eq(
        grammar_create_with(grammar_bytes(), GRAMMAR_GBNF, text.data, text.length, &effort, &grammar),
        ENGINE_ERROR);
    cr_assert_eq(times, 2);
    cr_assert(effort.steps <= 3 * EFFORT_LOOKS, "%llu", (unsigned long long)effort.steps);
    cr_assert(strstr(error_message(), "no longer wanted"), "%s", error_message());
    free(text.data);
}

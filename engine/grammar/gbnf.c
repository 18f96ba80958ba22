/* gbnf.c: reads a grammar in GBNF, llama.cpp's syntax, as expressions (internal.h):
 *
 *   rule     = name "::=" alternatives newline
 *   alternatives = sequence { "|" sequence }
 *   sequence = { item [ "*" | "+" | "?" | "{" m [ "," [ n ] ] "}" ] }
 *   item     = string | class | "." | name | "(" alternatives ")" | [ "!" ] token | "%json" schema
 *   token    = "<[" id "]>" | "<" text ">"
 *   schema   = a JSON schema: an object, or true
 *
 * "#" begins a comment. A line that begins with "|" continues the rule before it. Within parentheses, and
 * after "::=" and "|", newlines are white space. */
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "common/json-read.h"
#include "grammar/schema.h"

/* Counted repetitions cost nothing to compile; this is where a number is taken for a mistake. */
#define MAX_REPEATS 1000000000u

struct parser {
    struct exprs *exprs;
    const struct grammar_vocab *vocab;
    const char *at, *end;
    uint32_t line;
    unsigned depth;
    bool failed;
};

/* ---- Characters ---- */

static uint32_t gbnf_wrong(struct parser *parser, const char *what)
{
    if (!parser->failed && !parser->exprs->status)
        parser->exprs->status = error_raise(ENGINE_ERROR_DATA, "grammar, line %u: %s", parser->line, what);
    parser->failed = true;
    return 0;
}

static bool gbnf_ok(const struct parser *parser)
{
    return !parser->failed && !parser->exprs->status;
}

static char gbnf_peek(const struct parser *parser)
{
    return parser->at < parser->end ? *parser->at : '\0';
}

static bool gbnf_take(struct parser *parser, char character)
{
    if (parser->at == parser->end || *parser->at != character) return false;
    parser->at++;
    return true;
}

static void skip_space(struct parser *parser, bool newlines)
{
    while (parser->at < parser->end) {
        char c = *parser->at;
        if (c == '#')
            while (parser->at < parser->end && *parser->at != '\n' && *parser->at != '\r') parser->at++;
        else if (c == ' ' || c == '\t' || (newlines && (c == '\n' || c == '\r')))
            parser->line += *parser->at++ == '\n';
        else
            break;
    }
}

static bool in_name(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' || c == '_';
}

static bool take_number(struct parser *parser, uint32_t most, uint32_t *number)
{
    const char *start = parser->at;
    uint64_t value = 0;
    while (parser->at < parser->end && *parser->at >= '0' && *parser->at <= '9') {
        if (value <= most) value = value * 10 + (uint64_t)(*parser->at - '0');
        parser->at++;
    }
    if (parser->at == start) return gbnf_wrong(parser, "a number should be here"), false;
    if (value > most) return gbnf_wrong(parser, "the number is too large"), false;
    *number = (uint32_t)value;
    return true;
}

static uint32_t take_hex(struct parser *parser, int digits)
{
    uint32_t value = 0;
    for (int i = 0; i < digits; i++) {
        char c = gbnf_peek(parser);
        unsigned digit = c >= '0' && c <= '9'   ? (unsigned)(c - '0')
                         : c >= 'a' && c <= 'f' ? (unsigned)(c - 'a') + 10
                         : c >= 'A' && c <= 'F' ? (unsigned)(c - 'A') + 10
                                                : 16;
        if (digit > 15)
            return gbnf_wrong(parser,
                              "an escape has too few hexadecimal digits: \\x takes 2, \\u 4 and \\U 8");
        value = value << 4 | digit;
        parser->at++;
    }
    return value;
}

/* A character of a string or a class. */
static uint32_t take_char(struct parser *parser)
{
    uint32_t character = 0;
    if (gbnf_take(parser, '\\')) {
        char c = gbnf_peek(parser);
        if (c) parser->at++;
        switch (c) {
        case 'x': return take_hex(parser, 2);
        case 'u': return take_hex(parser, 4);
        case 'U': return take_hex(parser, 8);
        case 't': return '\t';
        case 'r': return '\r';
        case 'n': return '\n';
        case '\\':
        case '"':
        case '[':
        case ']':
        case '-':
        case '^': return (unsigned char)c;
        default: return gbnf_wrong(parser, "unknown escape; \\\\ is a backslash");
        }
    }
    size_t size = expr_read_utf8(parser->at, (size_t)(parser->end - parser->at), &character);
    if (size == 0) return gbnf_wrong(parser, "the text isn't UTF-8");
    parser->line += character == '\n';
    parser->at += size;
    return character;
}

/* ---- Items ---- */

static uint32_t read_string(struct parser *parser)
{
    char *bytes = NULL;
    size_t length = 0, capacity = 0;
    uint32_t found = 0;
    while (gbnf_ok(parser) && !gbnf_take(parser, '"')) {
        if (parser->at == parser->end) {
            gbnf_wrong(parser, "a string isn't closed: \" is missing");
            break;
        }
        uint32_t character = take_char(parser);
        if (character > 0x10ffff || (character >= 0xd800 && character < 0xe000))
            gbnf_wrong(parser, "an escape in a string is not a character");
        if (gbnf_ok(parser) && GRAMMAR_RESERVE(&parser->exprs->status, bytes, capacity, length + 4))
            length += expr_utf8(character, bytes + length);
    }
    if (gbnf_ok(parser)) found = expr_literal(parser->exprs, bytes, length);
    free(bytes);
    return found;
}

static uint32_t read_class(struct parser *parser)
{
    struct char_range *ranges = NULL;
    size_t count = 0, capacity = 0;
    uint32_t found = 0;
    bool negated = gbnf_take(parser, '^');
    while (gbnf_ok(parser) && !gbnf_take(parser, ']')) {
        if (parser->at == parser->end) {
            gbnf_wrong(parser, "a class of characters isn't closed: ] is missing");
            break;
        }
        uint32_t low = take_char(parser), high = low;
        if (gbnf_ok(parser) && gbnf_peek(parser) == '-' && parser->at + 1 < parser->end &&
            parser->at[1] != ']') {
            parser->at++;
            high = take_char(parser);
        }
        if (high < low) gbnf_wrong(parser, "a range of characters ends before it begins");
        if (GRAMMAR_RESERVE(&parser->exprs->status, ranges, capacity, count + 1))
            ranges[count++] = (struct char_range){low, high < 0x10ffff ? high : 0x10ffff};
    }
    if (gbnf_ok(parser) && count == 0 && !negated) gbnf_wrong(parser, "[] is a class without characters");
    if (gbnf_ok(parser)) found = expr_class(parser->exprs, ranges, count, negated);
    free(ranges);
    return found;
}

static uint32_t read_token(struct parser *parser, bool negated)
{
    uint32_t id = 0;
    const char *start = parser->at;
    if (!gbnf_take(parser, '<')) return gbnf_wrong(parser, "! should be followed by a token, such as <[5]>");
    if (gbnf_take(parser, '[')) {
        if (!take_number(parser, INT32_MAX, &id)) return 0;
        if (!gbnf_take(parser, ']') || !gbnf_take(parser, '>'))
            return gbnf_wrong(parser, "a token should end with ]>");
        if (id >= grammar_vocab_size(parser->vocab))
            return gbnf_wrong(parser, "the vocabulary has no such token");
        return expr_token(parser->exprs, id, negated);
    }
    while (parser->at < parser->end && *parser->at != '>' && *parser->at != '\n') parser->at++;
    if (!gbnf_take(parser, '>')) return gbnf_wrong(parser, "a token isn't closed: > is missing");
    int32_t found = grammar_vocab_find(parser->vocab, start, (size_t)(parser->at - start));
    if (found < 0) return gbnf_wrong(parser, "the vocabulary has no token with the text in < >");
    return expr_token(parser->exprs, (uint32_t)found, negated);
}

/* JSON that a schema describes. */
static uint32_t read_schema(struct parser *parser)
{
    static const char word[] = "json";
    size_t left = (size_t)(parser->end - parser->at), length = strlen(word);
    json_error_t error;
    if (left < length || memcmp(parser->at, word, length) != 0)
        return gbnf_wrong(parser, "%json is the only item that begins with %");
    parser->at += length;
    skip_space(parser, true);
    json_t *schema = schema_text(parser->exprs, parser->at, (size_t)(parser->end - parser->at),
                                 JSON_DISABLE_EOF_CHECK, &error);
    if (parser->exprs->status) return 0;
    if (!schema) return gbnf_wrong(parser, "%json should be followed by a JSON schema, which this is not");
    uint32_t part = schema_part(parser->exprs, schema);
    json_decref(schema);
    for (int i = 0; i < error.position; i++) parser->line += *parser->at++ == '\n';
    return part;
}

static uint32_t read_alternatives(struct parser *parser, bool nested);

static uint32_t read_item(struct parser *parser)
{
    if (gbnf_take(parser, '"')) return read_string(parser);
    if (gbnf_take(parser, '[')) return read_class(parser);
    if (gbnf_take(parser, '.')) return expr_class(parser->exprs, NULL, 0, true);
    if (gbnf_take(parser, '!')) return read_token(parser, true);
    if (gbnf_take(parser, '%')) return read_schema(parser);
    if (gbnf_peek(parser) == '<') return read_token(parser, false);
    if (gbnf_take(parser, '(')) {
        if (++parser->depth > EXPR_MAX_DEPTH) return gbnf_wrong(parser, "parentheses are nested too deep");
        skip_space(parser, true);
        uint32_t group = read_alternatives(parser, true);
        if (gbnf_ok(parser) && !gbnf_take(parser, ')')) return gbnf_wrong(parser, ") is missing");
        parser->depth--;
        return group;
    }
    const char *start = parser->at;
    while (parser->at < parser->end && in_name(*parser->at)) parser->at++;
    uint32_t rule = expr_rule_named(parser->exprs, start, (size_t)(parser->at - start), parser->line);
    return expr_rule(parser->exprs, rule);
}

static uint32_t read_braces(struct parser *parser, uint32_t item)
{
    uint32_t least = 0, most;
    skip_space(parser, true);
    if (gbnf_peek(parser) != ',' && !take_number(parser, MAX_REPEATS, &least)) return 0;
    most = least;
    skip_space(parser, true);
    if (gbnf_take(parser, ',')) {
        most = EXPR_NO_LIMIT;
        skip_space(parser, true);
        if (gbnf_peek(parser) != '}' && !take_number(parser, MAX_REPEATS, &most)) return 0;
        skip_space(parser, true);
    }
    if (!gbnf_take(parser, '}')) return gbnf_wrong(parser, "a repetition should be {m}, {m,} or {m,n}");
    if (most < least) return gbnf_wrong(parser, "a repetition's upper limit is below its lower limit");
    return expr_repeat(parser->exprs, item, least, most);
}

static uint32_t read_repeats(struct parser *parser, uint32_t item, bool nested)
{
    for (unsigned count = 0; gbnf_ok(parser); count++) {
        skip_space(parser, nested);
        char c = gbnf_peek(parser);
        if (c != '*' && c != '+' && c != '?' && c != '{') return item;
        if (count + parser->depth > EXPR_MAX_DEPTH)
            return gbnf_wrong(parser, "too many repetitions of one item");
        parser->at++;
        if (c == '{')
            item = read_braces(parser, item);
        else
            item = expr_repeat(parser->exprs, item, c == '+', c == '?' ? 1 : EXPR_NO_LIMIT);
    }
    return item;
}

static bool begins_item(char c)
{
    return c == '"' || c == '[' || c == '.' || c == '!' || c == '<' || c == '(' || c == '%' || in_name(c);
}

static uint32_t read_sequence(struct parser *parser, bool nested)
{
    uint32_t list = expr_seq(parser->exprs);
    skip_space(parser, nested);
    while (gbnf_ok(parser) && begins_item(gbnf_peek(parser))) {
        uint32_t item = read_item(parser);
        if (gbnf_ok(parser)) expr_add(parser->exprs, list, read_repeats(parser, item, nested));
    }
    return list;
}

/* Whether the next line that isn't empty begins with "|"; then that is where the parser is. */
static bool gbnf_continues(struct parser *parser)
{
    const char *at = parser->at;
    uint32_t line = parser->line;
    skip_space(parser, true);
    if (gbnf_peek(parser) == '|') return true;
    parser->at = at;
    parser->line = line;
    return false;
}

static uint32_t read_alternatives(struct parser *parser, bool nested)
{
    uint32_t list = expr_alt(parser->exprs);
    expr_add(parser->exprs, list, read_sequence(parser, nested));
    while (gbnf_ok(parser) && (gbnf_peek(parser) == '|' || (!nested && gbnf_continues(parser)))) {
        parser->at++;
        skip_space(parser, true);
        expr_add(parser->exprs, list, read_sequence(parser, nested));
    }
    return list;
}

/* ---- Rules ---- */

static void read_rule(struct parser *parser)
{
    const char *start = parser->at;
    while (parser->at < parser->end && in_name(*parser->at)) parser->at++;
    if (parser->at == start) {
        gbnf_wrong(parser, "a rule should begin here: name ::= …");
        return;
    }
    uint32_t rule = expr_rule_named(parser->exprs, start, (size_t)(parser->at - start), parser->line);
    skip_space(parser, false);
    if (parser->end - parser->at < 3 || memcmp(parser->at, "::=", 3) != 0) {
        gbnf_wrong(parser, "::= is missing after a rule's name");
        return;
    }
    if (gbnf_ok(parser) && parser->exprs->rules[rule].defined) {
        gbnf_wrong(parser, "the rule is defined twice");
        return;
    }
    parser->at += 3;
    skip_space(parser, true);
    uint32_t body = read_alternatives(parser, false);
    if (gbnf_ok(parser) && parser->at < parser->end && *parser->at != '\n' && *parser->at != '\r')
        gbnf_wrong(parser, "unexpected character in a rule");
    if (gbnf_ok(parser)) expr_define(parser->exprs, rule, body);
}

int gbnf_read(struct exprs *exprs, const struct grammar_vocab *vocab, const char *text, size_t length)
{
    struct parser parser = {.exprs = exprs, .vocab = vocab, .at = text, .end = text + length, .line = 1};
    skip_space(&parser, true);
    while (gbnf_ok(&parser) && parser.at < parser.end) {
        read_rule(&parser);
        if (gbnf_ok(&parser)) skip_space(&parser, true);
    }
    if (exprs->status) return exprs->status;
    for (size_t i = 0; i < exprs->n_rules; i++) {
        const struct expr_rule *rule = &exprs->rules[i];
        if (rule->defined) continue;
        if (i == 0)
            return exprs->status = error_raise(ENGINE_ERROR_DATA, "grammar: there is no rule \"root\"");
        return exprs->status = error_raise(ENGINE_ERROR_DATA, "grammar, line %u: there is no rule \"%.60s\"",
                                           rule->where, rule->name);
    }
    return ENGINE_OK;
}

/* schema-pattern.c: regular expressions of JSON schemas (ECMA 262) as the content of JSON strings.
 *
 * What validators disagree about is left out: \w, \d and \s are those of ASCII, and what they leave out is
 * never more than what any validator leaves out. Lookaround, back-references, \b and \p are refused. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "grammar/schema.h"

#define MAX_REPEATS 1000000000u
#define MAX_RANGES  4096

struct reader {
    struct schema_reader *schema;
    struct exprs *exprs;
    const char *pattern, *at, *end;
    unsigned depth;
    bool rules; /* each character is a rule: schema_pattern_of_rules */
};

/* Sets of characters, for classes. */
struct set {
    struct char_range *ranges; /* [count] */
    size_t count, capacity;
};

static uint32_t pattern_wrong(struct reader *reader, const char *what)
{
    return schema_wrong(reader->schema, "the pattern %.60s: %s", reader->pattern, what);
}

static uint32_t pattern_refuse(struct reader *reader, const char *what)
{
    return schema_refuse(reader->schema, "the pattern %.60s: %s", reader->pattern, what);
}

static bool pattern_ok(const struct reader *reader)
{
    return !reader->exprs->status;
}

static char pattern_peek(const struct reader *reader)
{
    return reader->at < reader->end ? *reader->at : '\0';
}

static bool pattern_take(struct reader *reader, const char *text)
{
    size_t length = strlen(text);
    if ((size_t)(reader->end - reader->at) < length || memcmp(reader->at, text, length) != 0) return false;
    reader->at += length;
    return true;
}

/* ---- Characters in strings ---- */

static const struct {
    uint32_t character;
    char letter;
} escapes[] = {{'"', '"'}, {'\\', '\\'}, {'\b', 'b'}, {'\f', 'f'}, {'\n', 'n'}, {'\r', 'r'}, {'\t', 't'}};

static bool set_holds(const struct char_range *ranges, size_t count, uint32_t character)
{
    for (size_t i = 0; i < count; i++)
        if (ranges[i].low <= character && character <= ranges[i].high) return true;
    return false;
}

/* The part of a range from `low` to `high`. */
static void clip_length(struct char_range range, uint32_t low, uint32_t high, struct char_range *into,
                        size_t *count)
{
    if (range.low > low) low = range.low;
    if (range.high < high) high = range.high;
    if (low <= high) into[(*count)++] = (struct char_range){low, high};
}

static uint32_t with_escapes(struct exprs *exprs, uint32_t plain, const struct char_range *ranges,
                             size_t count, bool rare)
{
    struct char_range letters[sizeof escapes / sizeof *escapes];
    size_t n_letters = 0;
    uint32_t list = expr_alt(exprs);
    expr_add(exprs, list, plain);
    for (size_t i = 0; i < sizeof escapes / sizeof *escapes; i++)
        if (set_holds(ranges, count, escapes[i].character))
            letters[n_letters++] =
                (struct char_range){(unsigned char)escapes[i].letter, (unsigned char)escapes[i].letter};
    if (n_letters > 0)
        expr_add(exprs, list,
                 EXPR_SEQ_OF(exprs, expr_text(exprs, "\\"), expr_class(exprs, letters, n_letters, false)));
    for (uint32_t c = 1; c < ' ' && rare; c++) {
        char text[8];
        bool has_letter = c == '\b' || c == '\f' || c == '\n' || c == '\r' || c == '\t';
        if (has_letter || !set_holds(ranges, count, c)) continue;
        snprintf(text, sizeof text, "\\u%04X", c);
        expr_add(exprs, list, expr_text(exprs, text));
    }
    return list;
}

uint32_t schema_characters(struct schema_reader *schema, const struct char_range *ranges, size_t count,
                           bool negated, bool rare)
{
    struct exprs *exprs = schema->exprs;
    uint32_t whole = expr_class(exprs, ranges, count, negated);
    if (exprs->status) return 0;
    const struct expr *all = &exprs->items[whole]; /* its ranges are sorted */
    size_t n_all = all->b, n_plain = 0;
    struct char_range *copy = calloc(n_all * 5 + 1, sizeof *copy), *plain = copy + n_all;
    if (!copy) {
        exprs->status = error_memory("JSON schema");
        return 0;
    }
    if (n_all > 0) memcpy(copy, exprs->ranges + all->a, n_all * sizeof *copy);
    for (size_t i = 0; i < n_all; i++) {
        clip_length(copy[i], ' ', '"' - 1, plain, &n_plain);
        clip_length(copy[i], '"' + 1, '\\' - 1, plain, &n_plain);
        clip_length(copy[i], '\\' + 1, rare ? 0x7f : 0x7e, plain, &n_plain);
        clip_length(copy[i], 0x80, 0x10ffff, plain, &n_plain);
    }
    bool special =
        n_all > 0 && (copy[0].low < ' ' || set_holds(copy, n_all, '"') || set_holds(copy, n_all, '\\'));
    uint32_t found = expr_class(exprs, plain, n_plain, false);
    if (special) found = with_escapes(exprs, found, copy, n_all, rare);
    free(copy);
    return found;
}

/* ---- Sets ---- */

static void add_range(struct reader *reader, struct set *set, uint32_t low, uint32_t high)
{
    if (set->count == MAX_RANGES) {
        pattern_refuse(reader, "a class has too many parts");
        return;
    }
    if (GRAMMAR_RESERVE(&reader->exprs->status, set->ranges, set->capacity, set->count + 1))
        set->ranges[set->count++] = (struct char_range){low, high};
}

/* White space: in all validators, and in any of them. */
static const struct char_range sure_space[] = {{'\t', '\r'}, {' ', ' '}};
static const struct char_range maybe_space[] = {{'\t', '\r'},     {0x1c, 0x20},     {0x85, 0x85},
                                                {0xa0, 0xa0},     {0x1680, 0x1680}, {0x2000, 0x200a},
                                                {0x2028, 0x2029}, {0x202f, 0x202f}, {0x205f, 0x205f},
                                                {0x3000, 0x3000}, {0xfeff, 0xfeff}};
static const struct char_range digits[] = {{'0', '9'}};
static const struct char_range words[] = {{'0', '9'}, {'A', 'Z'}, {'_', '_'}, {'a', 'z'}};

static void add_ranges(struct reader *reader, struct set *set, const struct char_range *ranges, size_t count,
                       bool negated)
{
    uint32_t next = 0;
    for (size_t i = 0; i < count; i++) {
        if (!negated)
            add_range(reader, set, ranges[i].low, ranges[i].high);
        else if (ranges[i].low > next)
            add_range(reader, set, next, ranges[i].low - 1);
        next = ranges[i].high + 1;
    }
    if (negated) add_range(reader, set, next, 0x10ffff);
}

#define COUNT(array) (sizeof(array) / sizeof *(array))

/* \d and the like: what they match in all validators or, with `maybe`, in any. False: another letter. */
static bool add_named(struct reader *reader, struct set *set, char letter, bool maybe)
{
    bool upper = letter >= 'A' && letter <= 'Z', word = letter == 'w' || letter == 'W';
    switch (letter) {
    case 's':
        add_ranges(reader, set, maybe ? maybe_space : sure_space, maybe ? COUNT(maybe_space) : 2, false);
        break;
    case 'S':
        add_ranges(reader, set, maybe ? sure_space : maybe_space, maybe ? 2 : COUNT(maybe_space), true);
        break;
    case 'd':
    case 'D':
    case 'w':
    case 'W': {
        /* Beyond ASCII, validators differ. */
        struct set ascii = {0};
        add_ranges(reader, &ascii, word ? words : digits, word ? COUNT(words) : 1, upper);
        for (size_t i = 0; i < ascii.count; i++)
            if (ascii.ranges[i].low < 0x80)
                add_range(reader, set, ascii.ranges[i].low,
                          ascii.ranges[i].high < 0x7f ? ascii.ranges[i].high : 0x7f);
        if (maybe) add_range(reader, set, 0x80, 0x10ffff);
        free(ascii.ranges);
        break;
    }
    default: return false;
    }
    return true;
}

static uint32_t take_hex(struct reader *reader, unsigned least, unsigned most)
{
    uint32_t value = 0;
    unsigned count = 0;
    for (; count < most; count++, reader->at++) {
        char c = pattern_peek(reader);
        unsigned digit = c >= '0' && c <= '9'   ? (unsigned)(c - '0')
                         : c >= 'a' && c <= 'f' ? (unsigned)(c - 'a') + 10
                         : c >= 'A' && c <= 'F' ? (unsigned)(c - 'A') + 10
                                                : 16;
        if (digit > 15) break;
        value = value << 4 | digit;
    }
    if (count < least) pattern_wrong(reader, "an escape has too few hexadecimal digits");
    return value;
}

static uint32_t take_unicode(struct reader *reader)
{
    if (pattern_take(reader, "{")) {
        uint32_t value = take_hex(reader, 1, 6);
        if (!pattern_take(reader, "}")) pattern_wrong(reader, "\\u{ isn't closed");
        return value;
    }
    uint32_t value = take_hex(reader, 4, 4);
    if (value < 0xd800 || value >= 0xdc00 || !pattern_take(reader, "\\u")) return value;
    return 0x10000 + ((value & 0x3ff) << 10) + (take_hex(reader, 4, 4) & 0x3ff);
}

/* The character after a backslash. */
static uint32_t take_escape(struct reader *reader)
{
    char c = pattern_peek(reader);
    if (c) reader->at++;
    switch (c) {
    case 't': return '\t';
    case 'n': return '\n';
    case 'r': return '\r';
    case 'f': return '\f';
    case 'v': return '\v';
    case 'x': return take_hex(reader, 2, 2);
    case 'u': return take_unicode(reader);
    case 'c': return (unsigned char)(pattern_peek(reader) ? *reader->at++ : 0) & 0x1f;
    case 'b':
    case 'B': return pattern_refuse(reader, "word boundaries (\\b) are not supported");
    case 'p':
    case 'P': return pattern_refuse(reader, "\\p is not supported: list the characters, such as [a-z]");
    case 'k': return pattern_refuse(reader, "back-references are not supported");
    case '\0': return pattern_wrong(reader, "it ends with a backslash");
    default: break;
    }
    if (c == '0' && !(pattern_peek(reader) >= '0' && pattern_peek(reader) <= '9')) return 0;
    if (c >= '0' && c <= '9') return pattern_refuse(reader, "back-references are not supported");
    if ((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z')) return pattern_refuse(reader, "unknown escape");
    uint32_t character = (unsigned char)c;
    if (character < 0x80) return character;
    reader->at--;
    size_t size = expr_read_utf8(reader->at, (size_t)(reader->end - reader->at), &character);
    reader->at += size ? size : 1;
    return character;
}

static uint32_t take_character(struct reader *reader)
{
    uint32_t character = 0;
    if (pattern_take(reader, "\\")) return take_escape(reader);
    size_t size = expr_read_utf8(reader->at, (size_t)(reader->end - reader->at), &character);
    if (size == 0) return pattern_wrong(reader, "it isn't UTF-8");
    reader->at += size;
    return character;
}

/* One element of a class; *single: it is one character. */
static uint32_t take_element(struct reader *reader, struct set *set, bool negated, bool *single)
{
    *single = true;
    if (reader->end - reader->at >= 2 && *reader->at == '\\') {
        if (reader->at[1] == 'b') return reader->at += 2, '\b';
        if (reader->at[1] == '-') return reader->at += 2, '-';
        if (add_named(reader, set, reader->at[1], negated)) {
            reader->at += 2;
            *single = false;
            return 0;
        }
    }
    return take_character(reader);
}

static uint32_t read_class(struct reader *reader)
{
    struct set set = {0};
    uint32_t found = 0;
    bool negated = pattern_take(reader, "^"), single;
    while (pattern_ok(reader) && !pattern_take(reader, "]")) {
        if (reader->at == reader->end) {
            pattern_wrong(reader, "[ isn't closed");
            break;
        }
        uint32_t low = take_element(reader, &set, negated, &single), high = low;
        if (single && reader->end - reader->at >= 2 && *reader->at == '-' && reader->at[1] != ']') {
            const char *dash = reader->at++;
            bool second;
            high = take_element(reader, &set, negated, &second);
            if (!second) reader->at = dash, high = low; /* [a-\d]: the dash is itself */
            if (!second) add_range(reader, &set, '-', '-'), reader->at = dash + 1;
        }
        if (single && high < low) pattern_wrong(reader, "a range of a class ends before it begins");
        if (single && pattern_ok(reader)) add_range(reader, &set, low, high < 0x10ffff ? high : 0x10ffff);
    }
    if (pattern_ok(reader))
        found = schema_characters(reader->schema, set.ranges, set.count, negated, !negated);
    free(set.ranges);
    return found;
}

/* ---- Lengths ---- */

static uint32_t add_lengths(uint32_t a, uint32_t b)
{
    uint64_t sum = (uint64_t)a + b;
    return a == EXPR_NO_LIMIT || b == EXPR_NO_LIMIT || sum >= EXPR_NO_LIMIT ? EXPR_NO_LIMIT : (uint32_t)sum;
}

static uint32_t multiply_lengths(uint32_t a, uint32_t b)
{
    uint64_t product = (uint64_t)a * b;
    if (a == 0 || b == 0) return 0;
    return a == EXPR_NO_LIMIT || b == EXPR_NO_LIMIT || product >= EXPR_NO_LIMIT ? EXPR_NO_LIMIT
                                                                                : (uint32_t)product;
}

static bool is_fixed(const struct pattern *part)
{
    return part->least == part->most;
}

static void pattern_append(struct reader *reader, struct pattern *list, const struct pattern *part)
{
    expr_add(reader->exprs, list->expr, part->expr);
    if (part->repeat && is_fixed(list))
        list->repeat = part->repeat;
    else if (!is_fixed(part))
        list->repeat = 0;
    list->least = add_lengths(list->least, part->least);
    list->most = add_lengths(list->most, part->most);
}

/* ---- Expressions ---- */

static struct pattern read_alternatives(struct reader *reader, bool nested);

static struct pattern one_character(struct reader *reader, uint32_t expr)
{
    if (reader->rules && reader->exprs->items[expr].kind != EXPR_RULE) {
        uint32_t rule = expr_rule_new(reader->exprs, "character");
        expr_define(reader->exprs, rule, expr);
        expr = expr_rule(reader->exprs, rule);
    }
    return (struct pattern){.expr = expr, .least = 1, .most = 1};
}

static struct pattern read_group(struct reader *reader)
{
    if (pattern_take(reader, "?")) {
        if (pattern_take(reader, "=") || pattern_take(reader, "!") || pattern_take(reader, "<=") ||
            pattern_take(reader, "<!"))
            pattern_refuse(reader, "lookaround is not supported");
        else if (pattern_take(reader, "<") || pattern_take(reader, "P<"))
            while (pattern_ok(reader) && !pattern_take(reader, ">") && reader->at < reader->end) reader->at++;
        else if (!pattern_take(reader, ":"))
            pattern_refuse(reader, "unknown kind of group");
    }
    if (++reader->depth > EXPR_MAX_DEPTH / 2) pattern_refuse(reader, "groups are nested too deep");
    struct pattern group = read_alternatives(reader, true);
    reader->depth--;
    if (pattern_ok(reader) && !pattern_take(reader, ")")) pattern_wrong(reader, ") is missing");
    return group;
}

static struct pattern read_atom(struct reader *reader)
{
    static const struct char_range newlines[] = {{'\n', '\n'}, {'\r', '\r'}, {0x2028, 0x2029}};
    if (pattern_take(reader, "(")) return read_group(reader);
    if (pattern_take(reader, "[")) return one_character(reader, read_class(reader));
    if (pattern_take(reader, "."))
        return one_character(reader, schema_characters(reader->schema, newlines, 3, true, false));
    if (pattern_peek(reader) == '^' || pattern_peek(reader) == '$')
        pattern_refuse(reader, "^ and $ are supported only at the beginning and the end");
    if (pattern_peek(reader) == '*' || pattern_peek(reader) == '+' || pattern_peek(reader) == '?')
        pattern_wrong(reader, "there is nothing to repeat before *, + or ?");
    struct set set = {0};
    struct pattern found = {0};
    if (reader->end - reader->at >= 2 && *reader->at == '\\' &&
        add_named(reader, &set, reader->at[1], false)) {
        reader->at += 2;
        found = one_character(reader, schema_characters(reader->schema, set.ranges, set.count, false, false));
    } else if (pattern_ok(reader)) {
        uint32_t character = take_character(reader);
        if (pattern_ok(reader) && character == 0)
            pattern_refuse(reader, "the character U+0000 is not supported");
        if (pattern_ok(reader))
            found = one_character(reader, schema_characters(reader->schema,
                                                            &(struct char_range){character, character}, 1,
                                                            false, true));
    }
    free(set.ranges);
    return found;
}

/* A number up to MAX_REPEATS; false: there is none. */
static bool take_number(struct reader *reader, uint32_t *number)
{
    const char *first = reader->at;
    uint64_t value = 0;
    for (; pattern_peek(reader) >= '0' && pattern_peek(reader) <= '9'; reader->at++)
        if (value <= MAX_REPEATS) value = value * 10 + (uint64_t)(*reader->at - '0');
    if (reader->at == first) return false;
    *number = (uint32_t)(value < MAX_REPEATS ? value : MAX_REPEATS);
    return true;
}

/* {m}, {m,}, {m,n} or {,n}, which is {0,n} to those who take it at all; anything else after { is text, as in
 * ECMA 262. */
static bool take_braces(struct reader *reader, uint32_t *least, uint32_t *most)
{
    const char *start = reader->at;
    if (!pattern_take(reader, "{")) return false;
    bool has_least = take_number(reader, least), comma = pattern_take(reader, ","), has_most = comma;
    if (comma) has_most = take_number(reader, most);
    if ((!has_least && !has_most) || !pattern_take(reader, "}")) {
        reader->at = start;
        return false;
    }
    if (!has_least) *least = 0;
    if (!comma) *most = *least;
    if (comma && !has_most) *most = EXPR_NO_LIMIT;
    if (*most < *least) pattern_wrong(reader, "a repetition's upper limit is below its lower limit");
    return true;
}

static struct pattern read_repeat(struct reader *reader)
{
    struct pattern part = read_atom(reader);
    uint32_t least = 0, most = EXPR_NO_LIMIT;
    if (!pattern_ok(reader)) return part;
    if (pattern_take(reader, "+"))
        least = 1;
    else if (pattern_take(reader, "?"))
        most = 1;
    else if (!pattern_take(reader, "*") && !take_braces(reader, &least, &most))
        return part;
    pattern_take(reader, "?"); /* lazy: the texts are the same */
    struct pattern found = {.expr = expr_repeat(reader->exprs, part.expr, least, most),
                            .least = multiply_lengths(part.least, least),
                            .most = multiply_lengths(part.most, most)};
    if (part.least == 1 && part.most == 1) found.repeat = found.expr;
    return found;
}

static struct pattern read_sequence(struct reader *reader, bool nested)
{
    struct exprs *exprs = reader->exprs;
    struct pattern list = {.expr = expr_seq(exprs)};
    if (!nested && !pattern_take(reader, "^")) {
        struct pattern any = {expr_repeat(exprs, schema_character(reader->schema, false), 0, EXPR_NO_LIMIT),
                              0, EXPR_NO_LIMIT, 0};
        pattern_append(reader, &list, &any);
    }
    while (pattern_ok(reader) && reader->at < reader->end && *reader->at != '|' &&
           !(nested && *reader->at == ')')) {
        bool last = reader->at + 1 == reader->end || reader->at[1] == '|';
        if (!nested && *reader->at == '$' && last) {
            reader->at++;
            return list;
        }
        if (*reader->at == ')') pattern_wrong(reader, "( is missing");
        struct pattern part = read_repeat(reader);
        if (pattern_ok(reader)) pattern_append(reader, &list, &part);
    }
    if (!nested) {
        struct pattern any = {expr_repeat(exprs, schema_character(reader->schema, false), 0, EXPR_NO_LIMIT),
                              0, EXPR_NO_LIMIT, 0};
        pattern_append(reader, &list, &any);
    }
    return list;
}

static struct pattern read_alternatives(struct reader *reader, bool nested)
{
    struct pattern list = read_sequence(reader, nested);
    if (pattern_peek(reader) != '|') return list;
    uint32_t all = expr_alt(reader->exprs);
    expr_add(reader->exprs, all, list.expr);
    list.expr = all;
    list.repeat = 0;
    while (pattern_ok(reader) && pattern_take(reader, "|")) {
        struct pattern other = read_sequence(reader, nested);
        expr_add(reader->exprs, all, other.expr);
        if (other.least < list.least) list.least = other.least;
        if (other.most > list.most) list.most = other.most;
    }
    return list;
}

/* A group around all of a pattern, as in (^a$|^b$), says nothing: ^ and $ may stand within it. */
static void strip_groups(struct reader *reader)
{
    const char *ends[EXPR_MAX_DEPTH / 2]; /* [count] of the groups that the pattern begins with */
    const char *at = reader->at, *end = reader->end;
    size_t count = 0, depth = 0;
    bool class = false;
    while (count < EXPR_MAX_DEPTH / 2 && at < end && *at == '(' && end - at >= 2) {
        if (at[1] == '?' && (end - at <= 3 || at[2] != ':')) break;
        at += at[1] == '?' ? 3 : 1;
        ends[count++] = end;
    }
    for (depth = count; at < end && depth > 0 && exprs_spend(reader->exprs, 1); at++) {
        if (*at == '\\')
            at++;
        else if (class)
            class = *at != ']';
        else if (*at == '[')
            class = true;
        else if (*at == '(')
            depth++;
        else if (*at == ')' && --depth < count && ends[depth] == end)
            ends[depth] = at;
    }
    /* Those that end at the pattern's very end, one within the other. */
    for (size_t i = 0; i < count && ends[i] == reader->end - 1; i++) {
        reader->at += reader->at[1] == '?' ? 3 : 1;
        reader->end--;
    }
}

static struct pattern read_pattern(struct schema_reader *schema, const char *pattern, size_t length,
                                   bool rules)
{
    struct reader reader = {.schema = schema,
                            .exprs = schema->exprs,
                            .pattern = pattern,
                            .at = pattern,
                            .end = pattern + length,
                            .rules = rules};
    strip_groups(&reader);
    return read_alternatives(&reader, false);
}

struct pattern schema_pattern(struct schema_reader *schema, const char *pattern, size_t length)
{
    return read_pattern(schema, pattern, length, false);
}

struct pattern schema_pattern_of_rules(struct schema_reader *schema, const char *pattern, size_t length)
{
    return read_pattern(schema, pattern, length, true);
}

/* schema-string.c: strings: lengths, patterns, formats, and strings other than some. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/log.h"
#include "common/printable.h"
#include "grammar/schema.h"

#define MAX_NOTED 8  /* formats that a schema gets a warning for */
#define NAME_WORK 20 /* for each character of a name, as schema_spend counts */

/* ---- Strings other than some ---- */

/* For properties that have no name in the schema and for "not".
 *
 * The names are a tree by their characters. At each place another character may come, and then anything. Each
 * character is written in one way only, so that no escape hides a name. */

/* Names [first, end), sorted, whose first `at` bytes are the same and have been written; `rule` is for the
 * rest. */
struct name_task {
    size_t first, end, at;
    uint32_t rule;
};

struct name_tree {
    struct schema_reader *reader;
    const struct schema_name *names; /* sorted */
    struct name_task *tasks;         /* [n_tasks] what is still to be defined */
    size_t n_tasks;
};

static int by_name(const void *left, const void *right)
{
    const struct schema_name *a = left, *b = right;
    size_t length = a->length < b->length ? a->length : b->length;
    int order = length > 0 ? memcmp(a->text, b->text, length) : 0;
    return order ? order : (a->length > b->length) - (a->length < b->length);
}

/* What may come after the beginning that the names of a task share: a task for each of their next
 * characters. */
static uint32_t rest_of(struct name_tree *tree, struct name_task task)
{
    const struct schema_name *names = tree->names;
    struct exprs *exprs = tree->reader->exprs;
    bool whole = false, beginning = false;
    size_t i = task.first, n_taken = 0;
    for (; i < task.end && names[i].length == task.at; i++) {
        whole = true;
        beginning |= names[i].beginning;
    }
    if (beginning) return expr_never(exprs);
    struct char_range *taken = calloc(task.end - task.first + 1, sizeof *taken);
    if (!taken) {
        exprs->status = error_memory("JSON schema");
        return 0;
    }
    uint32_t list = expr_alt(exprs);
    if (!whole) expr_add(exprs, list, expr_text(exprs, ""));
    while (i < task.end && !exprs->status) {
        const struct schema_name *name = &names[i];
        uint32_t character;
        size_t size = expr_read_utf8(name->text + task.at, name->length - task.at, &character), end = i + 1;
        while (end < task.end && names[end].length >= task.at + size &&
               !memcmp(names[end].text + task.at, name->text + task.at, size))
            end++;
        taken[n_taken++] = (struct char_range){character, character};
        struct name_task below = {i, end, task.at + size, expr_rule_new(exprs, "other-name")};
        tree->tasks[tree->n_tasks++] = below;
        expr_add(exprs, list,
                 EXPR_SEQ_OF(exprs, schema_characters(tree->reader, &taken[n_taken - 1], 1, false, true),
                             expr_rule(exprs, below.rule)));
        i = end;
    }
    expr_add(exprs, list,
             EXPR_SEQ_OF(exprs, schema_characters(tree->reader, taken, n_taken, true, false),
                         expr_repeat(exprs, schema_character(tree->reader, true), 0, EXPR_NO_LIMIT)));
    free(taken);
    return list;
}

uint32_t schema_other_string(struct schema_reader *reader, struct schema_name *names, size_t count)
{
    struct exprs *exprs = reader->exprs;
    size_t total = 1;
    for (size_t i = 0; i < count; i++) total += names[i].length + 1;
    struct name_tree tree = {
        .reader = reader, .names = names, .tasks = calloc(total + 1, sizeof *tree.tasks)};
    uint32_t rule = expr_rule_new(exprs, "other-name");
    if (!tree.tasks) {
        exprs->status = error_memory("JSON schema");
        return 0;
    }
    qsort(names, count, sizeof *names, by_name);
    tree.tasks[tree.n_tasks++] = (struct name_task){0, count, 0, rule};
    while (tree.n_tasks > 0 && !exprs->status) {
        struct name_task task = tree.tasks[--tree.n_tasks];
        if (schema_spend(reader, NAME_WORK + task.end - task.first))
            expr_define(exprs, task.rule, rest_of(&tree, task));
    }
    free(tree.tasks);
    return EXPR_SEQ_OF(exprs, expr_text(exprs, "\""), expr_rule(exprs, rule), expr_text(exprs, "\""));
}

/* ---- Strings ---- */

static uint32_t in_quotes(struct schema_reader *reader, uint32_t content)
{
    struct exprs *exprs = reader->exprs;
    return EXPR_SEQ_OF(exprs, expr_text(exprs, "\""), content, expr_text(exprs, "\""));
}

/* A format without a pattern here is an annotation, as JSON Schema has it: the schema's author gets a word,
 * once for each name. */
static void note_format(struct schema_reader *reader, const char *name)
{
    char shown[64];
    if (reader->quiet || json_object_get(reader->noted, name) || json_object_size(reader->noted) >= MAX_NOTED)
        return;
    if (!reader->noted) reader->noted = json_object();
    json_object_set_new(reader->noted, name, json_true());
    snprintf(shown, sizeof shown, "%s", name);
    printable_make(shown);
    log_line(ENGINE_LOG_WARNING,
             "JSON schema: the format \"%s\" says nothing here about how a text looks, so any is allowed: a "
             "\"pattern\" would restrict it",
             shown);
}

/* The regular expression of a schema: its "pattern" or, without one, that of its "format", whose number is
 * *format (else SCHEMA_FORMATS). NULL: it has none. */
static const char *find_pattern(struct schema_reader *reader, const json_t *schema, size_t *length,
                                size_t *number)
{
    const json_t *pattern = json_object_get(schema, "pattern"), *format = json_object_get(schema, "format");
    *number = SCHEMA_FORMATS;
    if (format && !schema_text_of_name(format)) schema_wrong(reader, "\"format\" should be a name");
    if (pattern && !json_is_string(pattern))
        schema_wrong(reader, "\"pattern\" should be a regular expression");
    if (reader->exprs->status) return NULL;
    if (pattern) {
        *length = json_string_length(pattern);
        return json_string_value(pattern);
    }
    const char *name = json_string_value(format), *found = name ? schema_format(name, number) : NULL;
    if (found)
        *length = strlen(found);
    else if (name && !schema_format_is_free(name))
        note_format(reader, name);
    return found;
}

/* Makes the lengths of a pattern fit, if only one repetition decides on them. */
static bool limit_length(struct exprs *exprs, const struct pattern *pattern, uint32_t least, uint32_t most)
{
    if (!pattern->repeat) return false;
    struct expr *repeat = &exprs->items[pattern->repeat];
    uint32_t others = pattern->least - repeat->a; /* characters outside the repetition */
    if (most != EXPR_NO_LIMIT) {
        if (most < others + repeat->a) return false;
        if (most - others < repeat->b) repeat->b = most - others;
    }
    if (least > others + repeat->a) repeat->a = least - others;
    return repeat->a <= repeat->b;
}

/* Any string but those that "not" lists. */
static uint32_t other_than(struct schema_reader *reader, const json_t *excluded)
{
    const json_t *value;
    size_t i, count = json_array_size(excluded);
    struct schema_name *names = calloc(count + 1, sizeof *names);
    if (!names) {
        reader->exprs->status = error_memory("JSON schema");
        return 0;
    }
    json_array_foreach(excluded, i, value) names[i] =
        (struct schema_name){.text = json_string_value(value), .length = json_string_length(value)};
    uint32_t found = schema_other_string(reader, names, count);
    free(names);
    return found;
}

/* All strings of a format, as a rule that all its uses share. */
static uint32_t any_of_format(struct schema_reader *reader, const char *pattern, size_t length,
                              uint32_t *rule)
{
    if (!*rule) {
        *rule = expr_rule_new(reader->exprs, "format") + 1;
        expr_define(reader->exprs, *rule - 1,
                    in_quotes(reader, schema_pattern(reader, pattern, length).expr));
    }
    return expr_rule(reader->exprs, *rule - 1);
}

/* Whether the strings of a pattern can be told apart by their lengths. */
static bool has_lengths(struct schema_reader *reader, const char *pattern, size_t length, uint32_t least,
                        uint32_t most)
{
    struct exprs exprs;
    exprs_create(&exprs, "root", reader->exprs->effort);
    struct schema_reader inner = {.exprs = &exprs, .document = reader->document, .quiet = true};
    schema_pattern_between(&inner, pattern, length, least, most);
    bool good = !exprs.status;
    exprs_destroy(&exprs);
    return good && exprs_spend(reader->exprs, 0);
}

/* Strings of a format, read as `found`, and of some length. Where both can't be followed, the format is an
 * annotation, as JSON schema has it by default. */
static uint32_t limited_format(struct schema_reader *reader, const json_t *schema, size_t format,
                               struct pattern found, uint32_t least, uint32_t most)
{
    const char *name = json_string_value(json_object_get(schema, "format")),
               *shorter = schema_format_shorter(format), *pattern = schema_format(name, &format);
    if (found.least > most || found.most < least) return expr_never(reader->exprs);
    if (found.least >= least && found.most <= most) return in_quotes(reader, found.expr);
    if (shorter && found.least >= least) {
        found = schema_pattern(reader, shorter, strlen(shorter));
        if (found.most <= most) return in_quotes(reader, found.expr);
    }
    if (has_lengths(reader, pattern, strlen(pattern), least, most))
        return in_quotes(reader, schema_pattern_between(reader, pattern, strlen(pattern), least, most));
    if (!reader->quiet)
        log_line(ENGINE_LOG_WARNING,
                 "JSON schema: the format \"%s\" can't be followed beside these lengths, so any text of that "
                 "length is allowed",
                 name);
    return in_quotes(reader, expr_repeat(reader->exprs, schema_character(reader, false), least, most));
}

uint32_t schema_string(struct schema_reader *reader, const json_t *schema)
{
    struct exprs *exprs = reader->exprs;
    uint32_t least = schema_count(reader, schema, "minLength", 0);
    uint32_t most = schema_count(reader, schema, "maxLength", EXPR_NO_LIMIT);
    size_t length = 0, format;
    const char *pattern = find_pattern(reader, schema, &length, &format);
    if (exprs->status) return 0;
    if (least > most) return expr_never(exprs);
    const json_t *excluded = json_object_get(json_object_get(schema, "not"), "enum");
    if (excluded && !pattern && least == 0 && most == EXPR_NO_LIMIT) return other_than(reader, excluded);
    if (excluded)
        return schema_refuse(reader,
                             "\"not\" is supported for strings without lengths, patterns and formats");
    if (!pattern && least == 0 && most == EXPR_NO_LIMIT) return schema_any_string(reader);
    if (!pattern) return in_quotes(reader, expr_repeat(exprs, schema_character(reader, false), least, most));
    if (format < SCHEMA_FORMATS && least == 0 && most == EXPR_NO_LIMIT)
        return any_of_format(reader, pattern, length, &reader->formats[format]);
    struct pattern found = schema_pattern(reader, pattern, length);
    if (exprs->status) return 0;
    if (format < SCHEMA_FORMATS) return limited_format(reader, schema, format, found, least, most);
    if (found.least > most || found.most < least) return expr_never(exprs);
    if ((found.least < least || found.most > most) && !limit_length(exprs, &found, least, most))
        return in_quotes(reader, schema_pattern_between(reader, pattern, length, least, most));
    return in_quotes(reader, found.expr);
}

/* ---- Formats ---- */

/* The formats of strings as regular expressions, after their standards, up to lengths that
 * docs/grammars.md says. They are put together from parts; DIGITS, HEX and the like are classes, EXTRA what
 * characters beyond ASCII a class has besides. */

/* ---- Dates and times: RFC 3339 ---- */

#define MONTHS_AND_DAYS                                                                                      \
    "(?:(?:0[13578]|1[02])-(?:0[1-9]|[12][0-9]|3[01])|(?:0[469]|11)-(?:0[1-9]|[12][0-9]|30)"                 \
    "|02-(?:0[1-9]|1[0-9]|2[0-8]))"
#define YEAR "(?:[1-9][0-9]{3}|0[1-9][0-9]{2}|00[1-9][0-9]|000[1-9])"
#define LEAP                                                                                                 \
    "(?:0[48]|[2468][048]|[13579][26])" /* as the last digits of a year, or as those of its century */
#define DATE     "(?:" YEAR "-" MONTHS_AND_DAYS "|(?:[0-9]{2}" LEAP "|" LEAP "00)-02-29)"
#define FRACTION "(?:\\.[0-9]{1,20})?"
#define OFFSET   "(?:[Zz]|[+-](?:[01][0-9]|2[0-3]):[0-5][0-9])"
/* A leap second is at 23:59:60 in UTC: elsewhere, the hour `h` says how far from there, in hours and their
 * quarters. `east`: h + 1; `west`: 23 - h. */
#define LEAP_HOUR(h, east, west)                                                                             \
    "|" h ":(?:59:60" FRACTION "(?:\\+" east "|-" west "):00|29:60" FRACTION "(?:\\+" h "|-" west            \
    "):30|14:60" FRACTION "(?:\\+" h ":15|-" west ":45)|44:60" FRACTION "(?:\\+" h ":45|-" west ":15))"
#define LEAP_SECOND                                                                                          \
    "23:59:60" FRACTION "(?:[Zz]|[+-]00:00)" LEAP_HOUR("00", "01", "23") LEAP_HOUR("01", "02", "22")         \
        LEAP_HOUR("02", "03", "21") LEAP_HOUR("03", "04", "20") LEAP_HOUR("04", "05", "19")                  \
            LEAP_HOUR("05", "06", "18") LEAP_HOUR("06", "07", "17") LEAP_HOUR("07", "08", "16")              \
                LEAP_HOUR("08", "09", "15") LEAP_HOUR("09", "10", "14") LEAP_HOUR("10", "11", "13")          \
                    LEAP_HOUR("11", "12", "12") LEAP_HOUR("12", "13", "11") LEAP_HOUR("13", "14", "10")      \
                        LEAP_HOUR("14", "15", "09") LEAP_HOUR("15", "16", "08") LEAP_HOUR("16", "17", "07")  \
                            LEAP_HOUR("17", "18", "06") LEAP_HOUR("18", "19", "05")                          \
                                LEAP_HOUR("19", "20", "04") LEAP_HOUR("20", "21", "03")                      \
                                    LEAP_HOUR("21", "22", "02")                                              \
                                        LEAP_HOUR("22", "23", "01") "|23:(?:29:60" FRACTION                  \
                                                                    "(?:\\+23|-00):30|14:60" FRACTION        \
                                                                    "(?:\\+23:15|-00:45)|44:60" FRACTION     \
                                                                    "(?:\\+23:45|-00:15))"
#define TIME      "(?:(?:[01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9]" FRACTION OFFSET "|" LEAP_SECOND ")"
#define SPAN      "[0-9]{1,9}"
#define SPAN_TIME "[T](?:" SPAN "H(?:" SPAN "M(?:" SPAN "S)?)?|" SPAN "M(?:" SPAN "S)?|" SPAN "S)"
#define SPAN_DAYS "(?:" SPAN "Y(?:" SPAN "M(?:" SPAN "D)?)?|" SPAN "M(?:" SPAN "D)?|" SPAN "D)"

#define UUID "[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}"

/* ---- Hosts: RFC 1123, 4291, 5890 ---- */

/* Characters of IRIs beyond ASCII (RFC 3987). */
#define UCS                                                                                                  \
    "\\u00a0-\\ud7ff\\uf900-\\ufdcf\\ufdf0-\\uffef\\u{10000}-\\u{1fffd}\\u{20000}-\\u{2fffd}"                \
    "\\u{30000}-\\u{3fffd}\\u{40000}-\\u{dfffd}\\u{e1000}-\\u{efffd}"
/* Letters, marks and digits of names of hosts, roughly: no spaces, controls, dots of any kind, and private
 * characters. */
#define LETTERS                                                                                              \
    "\\u00b7\\u00df-\\u00f6\\u00f8-\\u1fff\\u200c\\u200d\\u2c00-\\u2dff\\u3005-\\u3007\\u3021-\\u3029"       \
    "\\u3041-\\ud7ff\\uf900-\\ufdcf\\ufe20-\\ufe2f\\ufe70-\\ufefc\\u{10000}-\\u{1fffd}\\u{20000}-\\u{3fffd}"
#define LABEL(extra, n) "[A-Za-z0-9" extra "](?:[A-Za-z0-9" extra "\\-]{0," n "}[A-Za-z0-9" extra "])?"
/* At most 253 characters: three labels of 63, six of 41, ten of which the first has 63 and the others 20, or
 * 42 of 5. In an address of at most 254, 189: two of 63, four of 46, seven, or 31. */
#define HOST_OF(extra, dot, a, length, b, c, d)                                                              \
    "(?:" LABEL(extra, "61") "(?:" dot LABEL(extra, "61") "){0," a "}|" LABEL(extra, length) "(?:" dot       \
    LABEL(extra, length) "){0," b "}|" LABEL(extra, "61") "(?:" dot                                          \
    LABEL(extra, "18") "){0," c "}|" LABEL(extra, "3") "(?:" dot                                             \
    LABEL(extra, "3") "){0," d "})"
#define HOST          HOST_OF("", "\\.", "2", "39", "5", "9", "41")
#define IDN_DOT       "[.\\u3002\\uff0e\\uff61]"
#define IDN_HOST      HOST_OF(LETTERS, IDN_DOT, "2", "39", "5", "9", "41")
#define MAIL_HOST     HOST_OF("", "\\.", "1", "44", "3", "6", "30")
#define IDN_MAIL_HOST HOST_OF(LETTERS, IDN_DOT, "1", "44", "3", "6", "30")
#define BYTE          "(?:25[0-5]|2[0-4][0-9]|1[0-9]{2}|[1-9]?[0-9])"
#define IPV4          BYTE "(?:\\." BYTE "){3}"
/* Eight groups of digits, of which "::" stands for some that are 0; the last two may be an IPv4 address. */
#define GROUP "[0-9a-fA-F]{1,4}"
#define IPV6                                                                                                 \
    "(?:(?:" GROUP ":){7}" GROUP "|(?:" GROUP ":){1,7}:|(?:" GROUP ":){1,6}:" GROUP "|(?:" GROUP             \
    ":){1,5}(?::" GROUP "){2}|(?:" GROUP ":){1,4}(?::" GROUP "){3}|(?:" GROUP ":){1,3}(?::" GROUP            \
    "){4}|(?:" GROUP ":){1,2}(?::" GROUP "){5}|" GROUP ":(?::" GROUP "){6}|:(?::" GROUP "){1,7}|::"          \
    "|(?:" GROUP ":){6}" IPV4 "|::(?:" GROUP ":){0,5}" IPV4 "|(?:" GROUP ":){1,5}:" IPV4 "|(?:" GROUP        \
    ":){1,4}:" GROUP ":" IPV4 "|(?:" GROUP ":){1,3}(?::" GROUP "){2}:" IPV4 "|(?:" GROUP ":){1,2}(?::" GROUP \
    "){3}:" IPV4 "|" GROUP ":(?::" GROUP "){4}:" IPV4 ")"

/* ---- Addresses: RFC 5321, 6531 ---- */

#define ATOM(extra)      "[A-Za-z0-9!#$%&'*+/=?^_`{|}~" extra "\\-]"
#define TWO(extra, a, b) ATOM(extra) "{1," a "}\\." ATOM(extra) "{1," b "}"
#define QUOTED(extra)    "\"(?:[ !#-\\[\\]-~" extra "]|\\\\[ -~]){0,31}\""
/* At most 64 characters: one piece, two, three of 20, or any with 32 besides the dots. Or a text in
 * quotes. */
#define LOCAL(extra)                                                                                                   \
    "(?:" ATOM(extra) "{1,64}|" TWO(extra, "31", "32") "|" TWO(extra, "47", "16") "|" TWO(extra, "16", "47") "|" ATOM( \
        extra) "{1,20}(?:\\." ATOM(extra) "{1,20}){2}|" ATOM(extra) "(?:\\.?" ATOM(extra) "){0,31}|" QUOTED(extra) ")"
/* The same in 32 characters, and a host in 65. */
#define SHORT_LOCAL(extra)                                                                                   \
    "(?:" ATOM(extra) "{1,32}|" ATOM(extra) "{1,15}\\." ATOM(extra) "{1,16}|" ATOM(                          \
        extra) "{1,10}(?:\\." ATOM(extra) "{1,10}){2}|" ATOM(extra) "(?:\\.?" ATOM(extra) "){0,15})"
#define SHORT_HOST(extra, dot)                                                                               \
    "(?:" LABEL(extra, "28") "(?:" dot LABEL(extra, "28") ")?|" LABEL(extra, "16") "(?:" dot LABEL(          \
        extra, "16") "){0,2}|" LABEL(extra, "3") "(?:" dot                                                   \
    LABEL(extra, "3") "){0,10})"
#define MAIL(extra, host) LOCAL(extra) "@(?:" host "|\\[(?:" IPV4 "|[Ii][Pp][Vv]6:" IPV6 ")\\])"

/* ---- Identifiers of resources: RFC 3986, 3987, 6570 ---- */

/* The most parts of a path and so on, each a character or "%20". SHORT ones make at most 2,000 characters. */
#define LONG  "128", "253", "2000", "2000", "1000"
#define SHORT "16", "85", "300", "200", "49"

#define PERCENT    "%[0-9A-Fa-f]{2}"
#define PLAIN      "A-Za-z0-9._~!$&'()*+,;=\\-" /* unreserved, and delimiters within a part */
#define PART(x, n) "(?:[" PLAIN x "]|" PERCENT "){" n "}"
#define AUTHORITY(x, user, host)                                                                             \
    "(?:" PART(":" x, "0," user) "@)?(?:\\[(?:" IPV6 "|[Vv][0-9A-Fa-f]{1,4}\\.[" PLAIN                       \
                                 ":]{1,64})\\]|" PART(x, "0," host) ")(?::[0-9]{0,5})?"
#define AFTER_HOST(x, user, host, path) "//" AUTHORITY(x, user, host) "(?:/" PART(":@/" x, "0," path) ")?"
#define ABSOLUTE(x, path)               "/(?:" PART(":@" x, "1") PART(":@/" x, "0," path) ")?"
#define ROOTLESS(x, path)               PART(":@" x, "1") PART(":@/" x, "0," path)
#define NO_SCHEME(x, host, path)        PART("@" x, "1," host) "(?:/" PART(":@/" x, "0," path) ")?"
#define ENDS(x, own, query, fragment)                                                                        \
    "(?:\\?" PART(":@/?" x own, "0," query) ")?(?:#" PART(":@/?" x, "0," fragment) ")?"
#define SCHEME "[A-Za-z][A-Za-z0-9+.\\-]{0,31}:"
#define URI_OF(x, own, user, host, path, query, fragment)                                                    \
    SCHEME "(?:" AFTER_HOST(x, user, host, path) "|" ABSOLUTE(x, path) "|" ROOTLESS(x, path) ")?" ENDS(      \
        x, own, query, fragment)
#define REFERENCE_OF(x, own, user, host, path, query, fragment)                                              \
    "(?:" URI_OF(x, own, user, host, path, query, fragment) "|(?:" AFTER_HOST(                               \
        x, user, host, path) "|" ABSOLUTE(x, path) "|" NO_SCHEME(x, host, path) ")?" ENDS(x, own, query,     \
                                                                                          fragment) ")"
/* Lets LONG and SHORT become several arguments. */
#define URI(x, own, lengths)       URI_OF(x, own, lengths)
#define REFERENCE(x, own, lengths) REFERENCE_OF(x, own, lengths)
#define PRIVATE                    "\\ue000-\\uf8ff\\u{f0000}-\\u{ffffd}\\u{100000}-\\u{10fffd}"
#define VARIABLE                                                                                             \
    "(?:[A-Za-z0-9_]|" PERCENT ")(?:\\.?(?:[A-Za-z0-9_]|" PERCENT ")){0,63}(?::[1-9][0-9]{0,3}|\\*)?"
#define TEMPLATE                                                                                             \
    "(?:[!#$&'()*+,./0-9:;=?@A-Z\\[\\]_a-z~" UCS PRIVATE "\\-]|" PERCENT "|\\{[+#./;?&=,!@|]?" VARIABLE      \
    "(?:," VARIABLE "){0,31}\\}){0,2000}"

#define POINTER "(?:/(?:[^/~]|~[01]){0,200}){0,32}"

static const struct {
    const char *name, *pattern;
    const char *shorter; /* for lengths that the pattern is beyond; NULL: none */
} formats[SCHEMA_FORMATS] = {
    {"date", "^" DATE "$", NULL},
    {"time", "^" TIME "$", NULL},
    {"date-time", "^" DATE "[Tt]" TIME "$", NULL},
    {"duration", "^P(?:" SPAN_DAYS "(?:" SPAN_TIME ")?|" SPAN_TIME "|" SPAN "W)$", NULL},
    {"uuid", "^" UUID "$", NULL},
    {"uuid1", "^" UUID "$", NULL},
    {"uuid2", "^" UUID "$", NULL},
    {"uuid3", "^" UUID "$", NULL},
    {"uuid4", "^" UUID "$", NULL},
    {"uuid5", "^" UUID "$", NULL},
    {"email", "^" MAIL("", MAIL_HOST) "$", "^" SHORT_LOCAL("") "@" SHORT_HOST("", "\\.") "$"},
    {"idn-email", "^" MAIL("\\u0080-\\u{10ffff}", IDN_MAIL_HOST) "$",
     "^" SHORT_LOCAL("\\u0080-\\u{10ffff}") "@" SHORT_HOST(LETTERS, IDN_DOT) "$"},
    {"hostname", "^" HOST "$", NULL},
    {"idn-hostname", "^" IDN_HOST "$", NULL},
    {"ipv4", "^" IPV4 "$", NULL},
    {"ipv6", "^" IPV6 "$", NULL},
    {"uri", "^" URI("", "", LONG) "$", "^" URI("", "", SHORT) "$"},
    {"iri", "^" URI(UCS, PRIVATE, LONG) "$", "^" URI(UCS, PRIVATE, SHORT) "$"},
    {"uri-reference", "^" REFERENCE("", "", LONG) "$", "^" REFERENCE("", "", SHORT) "$"},
    {"iri-reference", "^" REFERENCE(UCS, PRIVATE, LONG) "$", "^" REFERENCE(UCS, PRIVATE, SHORT) "$"},
    {"uri-template", "^" TEMPLATE "$", NULL},
    {"json-pointer", "^" POINTER "$", NULL},
    {"relative-json-pointer", "^(?:0|[1-9][0-9]{0,8})(?:#|" POINTER ")$", NULL},
};

/* Formats that say how a text is used, not how it looks. */
static const char *const free_formats[] = {"password", "binary",   "byte", "char", "string",
                                           "text",     "markdown", "html", "regex"};

const char *schema_format_shorter(size_t number)
{
    return formats[number].shorter;
}

const char *schema_format(const char *name, size_t *number)
{
    for (size_t i = 0; i < SCHEMA_FORMATS; i++) {
        *number = i;
        if (!strcmp(name, formats[i].name)) return formats[i].pattern;
    }
    return NULL;
}

bool schema_format_is_free(const char *name)
{
    for (size_t i = 0; i < sizeof free_formats / sizeof *free_formats; i++)
        if (!strcmp(name, free_formats[i])) return true;
    return false;
}

/* schema-string.c: strings: lengths, patterns, formats. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/log.h"
#include "common/printable.h"
#include "grammar/pattern.h"

#define MOST_NOTED 8 /* formats that a schema gets a warning for */

#define MONTHS_AND_DAYS                                                                                      \
    "(?:(?:0[13578]|1[02])-(?:0[1-9]|[12][0-9]|3[01])|(?:0[469]|11)-(?:0[1-9]|[12][0-9]|30)"                 \
    "|02-(?:0[1-9]|1[0-9]|2[0-8]))"
#define YEAR "(?:[1-9][0-9]{3}|0[1-9][0-9]{2}|00[1-9][0-9]|000[1-9])"
#define LEAP                                                                                                 \
    "(?:0[48]|[2468][048]|[13579][26])" /* as the last digits of a year, or as those of its century */
#define DATE "(?:" YEAR "-" MONTHS_AND_DAYS "|(?:[0-9]{2}" LEAP "|" LEAP "00)-02-29)"
#define TIME                                                                                                 \
    "(?:[01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](?:\\.[0-9]{1,6})?(?:Z|[+-](?:[01][0-9]|2[0-3]):[0-5][0-9])"
#define UUID      "[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}"
#define LABEL     "[A-Za-z0-9](?:[A-Za-z0-9-]{0,30}[A-Za-z0-9])?"
#define HOST      LABEL "(?:\\." LABEL "){0,4}"
#define DOMAIN    "(?:" LABEL "\\.){1,4}[A-Za-z]{2,12}"
#define BYTE      "(?:25[0-5]|2[0-4][0-9]|1[0-9]{2}|[1-9]?[0-9])"
#define SPAN_TIME "T(?:[0-9]{1,4}H(?:[0-9]{1,4}M(?:[0-9]{1,4}S)?)?|[0-9]{1,4}M(?:[0-9]{1,4}S)?|[0-9]{1,4}S)"
#define SPAN_DAYS "(?:[0-9]{1,4}Y(?:[0-9]{1,4}M(?:[0-9]{1,4}D)?)?|[0-9]{1,4}M(?:[0-9]{1,4}D)?|[0-9]{1,4}D)"
#define PATH      "(?:/[A-Za-z0-9._~-]{0,40}){0,8}"
#define QUERY     "(?:\\?[A-Za-z0-9._~=&-]{0,80})?(?:#[A-Za-z0-9._~-]{0,40})?"
#define URL       "https?://" HOST "(?::[1-9][0-9]{0,3})?" PATH QUERY
/* Such as mailto:a@b.org and urn:isbn:0451450523. */
#define URN     "[a-z][a-z0-9+.-]{1,15}:[A-Za-z0-9._~@-][A-Za-z0-9._~@:/-]{0,80}"
#define MAIL    "[A-Za-z0-9_%+-]{1,30}(?:\\.[A-Za-z0-9_%+-]{1,30})?@" DOMAIN
#define POINTER "(?:/(?:[A-Za-z0-9_.-]|~[01]){0,40}){0,8}"
/* Eight groups of digits, of which "::" stands for some that are 0. */
#define GROUP "[0-9a-fA-F]{1,4}"
#define IPV6                                                                                                 \
    "(?:(?:" GROUP ":){7}" GROUP "|(?:" GROUP ":){1,7}:|(?:" GROUP ":){1,6}:" GROUP "|(?:" GROUP             \
    ":){1,5}(?::" GROUP "){2}|(?:" GROUP ":){1,4}(?::" GROUP "){3}|(?:" GROUP ":){1,3}(?::" GROUP            \
    "){4}|(?:" GROUP ":){1,2}(?::" GROUP "){5}|" GROUP ":(?::" GROUP "){6}|:(?::" GROUP "){1,7}|::)"

/* Formats as patterns. They are narrower than their standards where those allow what nobody would write. */
static const struct {
    const char *name, *pattern;
} formats[] = {
    {"date", "^" DATE "$"},
    {"time", "^" TIME "$"},
    {"date-time", "^" DATE "T" TIME "$"},
    {"duration", "^P(?:" SPAN_DAYS "(?:" SPAN_TIME ")?|" SPAN_TIME "|[0-9]{1,4}W)$"},
    {"uuid", "^" UUID "$"},
    {"uuid1", "^" UUID "$"},
    {"uuid2", "^" UUID "$"},
    {"uuid3", "^" UUID "$"},
    {"uuid4", "^" UUID "$"},
    {"uuid5", "^" UUID "$"},
    {"email", "^" MAIL "$"},
    {"idn-email", "^" MAIL "$"},
    {"hostname", "^" HOST "$"},
    {"idn-hostname", "^" HOST "$"},
    {"ipv4", "^" BYTE "(?:\\." BYTE "){3}$"},
    {"ipv6", "^" IPV6 "$"},
    {"uri", "^(?:" URL "|" URN ")$"},
    {"iri", "^(?:" URL "|" URN ")$"},
    {"uri-reference", "^(?:" URL "|" PATH QUERY ")$"},
    {"iri-reference", "^(?:" URL "|" PATH QUERY ")$"},
    {"uri-template", "^" URL "$"},
    {"json-pointer", "^" POINTER "$"},
    {"relative-json-pointer", "^(?:0|[1-9][0-9]{0,3})(?:#|" POINTER ")$"},
};

/* Formats that say how a text is used, not how it looks. */
static const char *const free_formats[] = {"password", "binary", "byte",     "char",
                                           "string",   "text",   "markdown", "html"};

static uint32_t in_quotes(struct schema_reader *reader, uint32_t content)
{
    struct exprs *exprs = reader->exprs;
    return EXPR_SEQ_OF(exprs, expr_text(exprs, "\""), content, expr_text(exprs, "\""));
}

/* A format without a pattern here is an annotation, as JSON Schema has it: the schema's author gets a word, once for
 * each name. */
static void note_format(struct schema_reader *reader, const char *name)
{
    char shown[64];
    if (reader->quiet || json_object_get(reader->noted, name) ||
        json_object_size(reader->noted) >= MOST_NOTED)
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

static const char *pattern_of_format(struct schema_reader *reader, const char *name)
{
    for (size_t i = 0; i < sizeof formats / sizeof *formats; i++)
        if (!strcmp(name, formats[i].name)) return formats[i].pattern;
    for (size_t i = 0; i < sizeof free_formats / sizeof *free_formats; i++)
        if (!strcmp(name, free_formats[i])) return NULL;
    note_format(reader, name);
    return NULL;
}

/* The regular expression of a schema: its "pattern" or, without one, that of its "format". NULL: it has none. */
static const char *find_pattern(struct schema_reader *reader, const json_t *schema, size_t *length)
{
    const json_t *pattern = json_object_get(schema, "pattern"), *format = json_object_get(schema, "format");
    if (format && !json_is_string(format)) schema_wrong(reader, "\"format\" should be a name");
    if (pattern && !json_is_string(pattern))
        schema_wrong(reader, "\"pattern\" should be a regular expression");
    if (reader->exprs->status) return NULL;
    const char *found = pattern  ? json_string_value(pattern)
                        : format ? pattern_of_format(reader, json_string_value(format))
                                 : NULL;
    if (found) *length = pattern ? json_string_length(pattern) : strlen(found);
    return found;
}

/* Makes the lengths of a pattern fit, if only one repetition decides on them. */
static bool limit(struct exprs *exprs, const struct pattern *pattern, uint32_t least, uint32_t most)
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

uint32_t schema_string(struct schema_reader *reader, const json_t *schema)
{
    struct exprs *exprs = reader->exprs;
    uint32_t least = schema_count(reader, schema, "minLength", 0);
    uint32_t most = schema_count(reader, schema, "maxLength", EXPR_NO_LIMIT);
    size_t length = 0;
    const char *pattern = find_pattern(reader, schema, &length);
    if (exprs->status) return 0;
    if (least > most) return expr_never(exprs);
    const json_t *excluded = json_object_get(json_object_get(schema, "not"), "enum");
    if (excluded && !pattern && least == 0 && most == EXPR_NO_LIMIT) return other_than(reader, excluded);
    if (excluded)
        return schema_refuse(reader,
                             "\"not\" is supported for strings without lengths, patterns and formats");
    if (!pattern && least == 0 && most == EXPR_NO_LIMIT) return schema_any_string(reader);
    if (!pattern) return in_quotes(reader, expr_repeat(exprs, schema_character(reader, false), least, most));
    struct pattern found = schema_pattern(reader, pattern, length);
    if (exprs->status) return 0;
    if (found.least > most || found.most < least) return expr_never(exprs);
    if ((found.least < least || found.most > most) && !limit(exprs, &found, least, most))
        return in_quotes(reader, schema_pattern_between(reader, pattern, length, least, most));
    return in_quotes(reader, found.expr);
}

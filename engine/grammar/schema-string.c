/* schema-string.c: strings: lengths, patterns, formats. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/log.h"
#include "common/printable.h"
#include "grammar/pattern.h"

#define MOST_NOTED 8 /* formats that a schema gets a warning for */

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

/* The regular expression of a schema: its "pattern" or, without one, that of its "format", whose number is *format (else
 * SCHEMA_FORMATS). NULL: it has none. */
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

/* Strings of a format, read as `found`, and of some length. Where both can't be followed, the format is an annotation, as
 * JSON schema has it by default. */
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
    if ((found.least < least || found.most > most) && !limit(exprs, &found, least, most))
        return in_quotes(reader, schema_pattern_between(reader, pattern, length, least, most));
    return in_quotes(reader, found.expr);
}

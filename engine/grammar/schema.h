/* schema.h: a JSON schema as a grammar of the JSON texts that it describes. docs/grammars.md says what of
 * JSON schema is known.
 *
 *   schema.c                 what to do with each schema; types and alternatives; "$ref"
 *   schema-values.c          values that are listed: "enum", "const", and what is not to be ("not")
 *   schema-shared.c          what many schemas need, such as any string
 *   schema-merge.c           several schemas that hold at once, as one
 *   schema-object.c          objects
 *   schema-array.c           arrays
 *   schema-string.c          strings: formats, lengths, texts that are not to be
 *   schema-pattern.c         regular expressions
 *   schema-pattern-length.c  those of some length
 *   schema-number.c          numbers
 *   schema-conditions.c      "if" and the like
 *
 * Schemas become rules, found by their address in the document, so that references may go in circles. */
#ifndef ENGINE_GRAMMAR_SCHEMA_H
#define ENGINE_GRAMMAR_SCHEMA_H

#include <jansson.h>
#include <string.h>

#include "grammar/internal.h"

/* Fill `exprs`, which exprs_create has made. ENGINE_ERROR_DATA: no JSON, or no schema;
 * ENGINE_ERROR_UNSUPPORTED: it restricts texts in a way that cannot be kept. Both say where. */
int schema_read(struct exprs *exprs, const char *text, size_t length);
/* Reads a text as json_read does: a new reference. NULL: it isn't JSON, or exprs->status says why not. What
 * "const" and "enum" list is as it was written: integers that no double holds are refused. */
json_t *schema_text(struct exprs *exprs, const char *text, size_t length, size_t flags, json_error_t *error);
/* A schema within a grammar: a reference to rules of its own. `document` is needed during the call only. */
uint32_t schema_part(struct exprs *exprs, json_t *document);
int schema_any_object(struct exprs *exprs);

/* ---- For the files of schemas ---- */

#define SCHEMA_FORMATS 23

/* What a value may be. A number is an integer or has a fraction. */
enum schema_type {
    TYPE_NULL = 1,
    TYPE_BOOLEAN = 2,
    TYPE_INTEGER = 4,
    TYPE_FRACTION = 8,
    TYPE_STRING = 16,
    TYPE_ARRAY = 32,
    TYPE_OBJECT = 64,
    TYPE_ANY = 127
};

/* Where a schema stands within another one, for messages: "properties/name", "anyOf/2". Strings live as long
 * as the document. */
struct schema_label {
    const char *keyword; /* of a reference, the pointer: "#/…" */
    const char *name;    /* NULL: none */
    size_t number;       /* 1 for the first in a list; 0: none */
};

/* A schema whose rule is still to be defined. */
struct schema_task {
    const json_t *schema;
    uint32_t rule;
    uint32_t above; /* the task that named it */
    struct schema_label label;
};

struct schema_reader {
    struct exprs *exprs;
    uint32_t root; /* the rule that the document becomes */
    json_t *document;
    json_t *made;                      /* an array: schemas made by merging, which live until the end */
    struct schema_check *check;        /* schema-values.c's; NULL: none yet */
    json_t *noted;                     /* an object: formats that a warning has named; NULL: none */
    bool quiet;                        /* no warnings: what is read has been read before */
    unsigned depth;                    /* conditions within conditions: schema-conditions.c */
    json_t *anchors;                   /* "#name" of each $anchor, and "#/$defs/name"; NULL: not made yet */
    struct schema_task *tasks;         /* [n_tasks] */
    size_t n_tasks, task_capacity, at; /* at: the one being defined */
    uint32_t *table;                   /* [n_table] tasks by schema, plus 1; 0: free */
    size_t n_table;
    uint64_t work; /* keywords looked at: see schema_spend */
    /* Rules for what schemas share, plus 1; 0: not made yet. */
    uint32_t formats[SCHEMA_FORMATS];
    uint32_t space, character, key_character, string, number, integer, value, object, array;
};

/* The text of a name, which no NUL cuts; NULL: it is something else. */
static inline const char *schema_text_of_name(const json_t *name)
{
    const char *text = json_string_value(name);
    return text && strlen(text) == json_string_length(name) ? text : NULL;
}

/* A reference of the caller's own. */
static inline json_t *schema_borrow(const json_t *value)
{
    return json_incref((json_t *)(uintptr_t)value);
}

/* An error at the schema being read; both return the empty expression. */
uint32_t schema_wrong(struct schema_reader *reader, const char *format, ...) ENGINE_PRINTF(2, 3);
uint32_t schema_refuse(struct schema_reader *reader, const char *format, ...) ENGINE_PRINTF(2, 3);
/* Counts work, because merging can multiply schemas. False: it has been too much, or there was an error. */
bool schema_spend(struct schema_reader *reader, size_t amount);

/* A value that a schema describes, as a reference to its rule. */
uint32_t schema_value(struct schema_reader *reader, const json_t *schema, struct schema_label label);
#define SCHEMA_LABEL(...) ((struct schema_label){__VA_ARGS__})
/* Makes the rules of a schema, reader->root, and of all that it needs. */
int schema_rules(struct schema_reader *reader, const json_t *schema);
void schema_reader_free(struct schema_reader *reader);
/* Keeps a schema that has been made until the end, and takes over the reference. NULL: out of memory. */
json_t *schema_keep(struct schema_reader *reader, json_t *schema);
/* Put a value into an array or, by its name, into an object, and take over the reference. What memory lacks
 * for, the value itself included (NULL), is an error, since a schema that misses a part describes something
 * else. */
void schema_append(struct schema_reader *reader, json_t *array, json_t *value);
void schema_set(struct schema_reader *reader, json_t *object, const char *key, json_t *value);
void schema_set_named(struct schema_reader *reader, json_t *object, const char *name, size_t length,
                      json_t *value);
/* The schema without one of its keywords, kept. */
json_t *schema_without(struct schema_reader *reader, const json_t *schema, const char *key);
unsigned schema_types(struct schema_reader *reader, const json_t *schema);
/* The types that a keyword says something about; 0: none, or of all types. */
unsigned schema_types_of(const char *keyword);
/* Whether a schema restricts values at all. */
bool schema_says_something(const json_t *schema);
/* A whole number that a keyword gives; `otherwise` without the keyword. */
uint32_t schema_count(struct schema_reader *reader, const json_t *schema, const char *key,
                      uint32_t otherwise);

/* ---- References (schema.c) ---- */

/* What a "$ref" means; NULL: an error. */
const json_t *schema_resolve(struct schema_reader *reader, const json_t *reference);
/* The schema behind references that stand alone. */
const json_t *schema_behind(struct schema_reader *reader, const json_t *schema);

/* ---- Listed values (schema-values.c) ---- */

/* A literal with a value as JSON. */
uint32_t schema_literal(struct schema_reader *reader, const json_t *value);
/* Whether a string fits a schema's keywords about strings, by their own grammar; "format" with `formats`
 * only. The schema stays as it is from now on. */
bool schema_string_fits(struct schema_reader *reader, const json_t *schema, const json_t *value,
                        bool formats);
struct schema_check;
void schema_check_free(struct schema_check *check);
/* The same text for equal values: 1 equals 1.0, and the order of properties doesn't matter. To be freed by
 * the caller; NULL: an error. */
char *schema_key(struct schema_reader *reader, const json_t *value);
/* Compares two numbers exactly, as strcmp texts: integers of 64 bits have more digits than doubles. */
int schema_compare_numbers(const json_t *a, const json_t *b);
/* The values of "enum" and "const" that fit the other keywords: an array, kept. NULL: an error. */
json_t *schema_listed(struct schema_reader *reader, const json_t *schema);
/* All values of a schema without references and allOf: an array of different ones, kept; NULL: they can't be
 * listed, are more than `most`, or there was an error. */
json_t *schema_finite(struct schema_reader *reader, const json_t *schema, size_t most);
/* The schema without "not", or with "not" only as an "enum" of strings that may not be. NULL: an error. */
const json_t *schema_exclude(struct schema_reader *reader, const json_t *schema);

/* ---- Strings (schema-string.c) ---- */

/* A name that a string must not be or, with `beginning`, not even begin with. */
struct schema_name {
    const char *text;
    size_t length;
    bool beginning;
};

/* A string that is none of `names` [count], which is sorted here. */
uint32_t schema_other_string(struct schema_reader *reader, struct schema_name *names, size_t count);

/* The pattern of a format and its number, less than SCHEMA_FORMATS; NULL: there is none. And whether any
 * text is of a format. */
const char *schema_format(const char *name, size_t *number);
bool schema_format_is_free(const char *name);
/* A pattern of fewer of its texts, which are shorter; NULL: none. */
const char *schema_format_shorter(size_t number);

/* ---- Regular expressions (schema-pattern.c, schema-pattern-length.c) ---- */

struct pattern {
    uint32_t expr;        /* the content of a string, without the quotes */
    uint32_t least, most; /* its length in characters; EXPR_NO_LIMIT: any */
    /* If only one part varies in length, and that is a repetition of single characters: its EXPR_REPEAT. */
    uint32_t repeat;
};

/* The strings that a regular expression (ECMA 262) finds something in. */
struct pattern schema_pattern(struct schema_reader *reader, const char *pattern, size_t length);

/* The content of those of them that have `least` to `most` characters, where no single repetition decides on
 * the length. Each length so far gets rules of its own, so there may be too many:
 * ENGINE_ERROR_UNSUPPORTED. */
uint32_t schema_pattern_between(struct schema_reader *reader, const char *pattern, size_t length,
                                uint32_t least, uint32_t most);
/* The strings of a pattern, with a rule for each character, so that every EXPR_RULE is one character. */
struct pattern schema_pattern_of_rules(struct schema_reader *reader, const char *pattern, size_t length);

/* Characters of a class as they stand in a string. With `rare`, also control characters that JSON has no
 * short escape for. */
uint32_t schema_characters(struct schema_reader *reader, const struct char_range *ranges, size_t count,
                           bool negated, bool rare);

/* ---- Texts that schemas share (schema-shared.c) ---- */

uint32_t schema_space(struct schema_reader *reader);
uint32_t schema_any_value(struct schema_reader *reader);
uint32_t schema_any_members(struct schema_reader *reader); /* an object */
uint32_t schema_any_string(struct schema_reader *reader);
uint32_t schema_any_number(struct schema_reader *reader, bool integer);
/* A character of a string: in any spelling, or in one only. */
uint32_t schema_character(struct schema_reader *reader, bool one_spelling);

/* ---- Conditions (schema-conditions.c) ---- */

/* Whether a schema has "if", "dependentRequired" and the like; what they mean, as an array of schemas that
 * hold beside it, kept (NULL: an error); and the schema without them. `base`: what else holds. */
bool schema_has_conditions(const json_t *schema);
json_t *schema_conditions(struct schema_reader *reader, const json_t *schema, const json_t *base);
#define SCHEMA_MAX_NUMBERS 16 /* that are listed as not to be */
/* Schemas of which one holds where `schema` doesn't: an array, kept. NULL: an error. */
json_t *schema_opposites(struct schema_reader *reader, const json_t *schema, const json_t *base);
const json_t *schema_without_conditions(struct schema_reader *reader, const json_t *schema);

/* ---- Schemas that hold at once (schema-merge.c) ---- */

/* The schema without $ref, allOf and conditions; `schema` itself if it has none. NULL: an error. */
const json_t *schema_flatten(struct schema_reader *reader, const json_t *schema);
const json_t *schema_merge(struct schema_reader *reader, const json_t *a, const json_t *b);
/* Whether a schema has "unevaluatedProperties" or "unevaluatedItems", and a flattened schema with what those
 * of `closing` mean. NULL: an error. */
bool schema_is_closing(const json_t *schema);
const json_t *schema_close(struct schema_reader *reader, const json_t *schema, const json_t *closing);

/* ---- Types ---- */

uint32_t schema_object(struct schema_reader *reader, const json_t *schema);
uint32_t schema_array(struct schema_reader *reader, const json_t *schema);
uint32_t schema_string(struct schema_reader *reader, const json_t *schema);
uint32_t schema_number(struct schema_reader *reader, const json_t *schema, bool integer);

#endif

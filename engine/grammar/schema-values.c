/* schema-values.c: values that a schema lists, in "enum" and "const", or that it excludes, in "not". */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "common/json-read.h"
#include "grammar/schema.h"

#define MAX_LISTED 1000 /* integers between bounds */

/* ---- Numbers ---- */

/* Whether a double is a whole number that json_int_t has. */
static bool is_whole(double number)
{
    return number == floor(number) && number >= (double)INT64_MIN && number < -(double)INT64_MIN;
}

static int compare_with_real(json_int_t integer, double real)
{
    if (real >= 0x1p63) return -1;
    if (real < -0x1p63) return 1;
    json_int_t whole = (json_int_t)real;
    double fraction = real - (double)whole;
    if (integer != whole) return integer < whole ? -1 : 1;
    return (fraction < 0) - (fraction > 0);
}

int schema_compare_numbers(const json_t *a, const json_t *b)
{
    if (json_is_integer(a) && json_is_integer(b)) {
        json_int_t x = json_integer_value(a), y = json_integer_value(b);
        return (x > y) - (x < y);
    }
    if (json_is_integer(a)) return compare_with_real(json_integer_value(a), json_real_value(b));
    if (json_is_integer(b)) return -compare_with_real(json_integer_value(b), json_real_value(a));
    double x = json_real_value(a), y = json_real_value(b);
    return (x > y) - (x < y);
}

/* ---- Values as text ---- */

/* Whether a value has numbers that may be written in several ways. */
static bool has_reals(const json_t *value)
{
    const json_t *inner;
    const char *name;
    size_t i;
    if (json_is_real(value)) return true;
    json_array_foreach(value, i, inner)
    {
        if (has_reals(inner)) return true;
    }
    json_object_foreach((json_t *)(uintptr_t)value, name, inner)
    {
        if (has_reals(inner)) return true;
    }
    return false;
}

/* The shortest spelling that reads back as the same value. */
uint32_t schema_literal(struct schema_reader *reader, const json_t *value)
{
    size_t precision = has_reals(value) ? 15 : 17;
    for (; precision <= 17 && !reader->exprs->status; precision++) {
        char *text = json_dumps(value, JSON_COMPACT | JSON_ENCODE_ANY | JSON_REAL_PRECISION(precision));
        json_t *again =
            text && precision < 17 ? json_read_text(text, JSON_DECODE_ANY | JSON_ALLOW_NUL, NULL) : NULL;
        bool same = text && (precision == 17 || json_equal(again, value));
        uint32_t found = same ? expr_text(reader->exprs, text) : 0;
        json_decref(again);
        free(text);
        if (same || reader->exprs->status) return found;
        if (!text) reader->exprs->status = error_memory("JSON schema");
    }
    return 0;
}

/* A copy in which numbers without a fraction are integers. */
static json_t *canonical_value(struct schema_reader *reader, const json_t *value)
{
    const json_t *inner;
    const char *name;
    size_t i;
    double number = json_number_value(value);
    if (json_is_real(value) && is_whole(number)) return json_integer((json_int_t)number);
    if (!json_is_array(value) && !json_is_object(value)) return json_incref((json_t *)(uintptr_t)value);
    json_t *copy = json_is_array(value) ? json_array() : json_object();
    json_array_foreach(value, i, inner) schema_append(reader, copy, canonical_value(reader, inner));
    json_object_foreach((json_t *)(uintptr_t)value, name, inner)
        schema_set(reader, copy, name, canonical_value(reader, inner));
    return copy;
}

char *schema_key(struct schema_reader *reader, const json_t *value)
{
    json_t *copy = canonical_value(reader, value);
    char *key = copy && !reader->exprs->status
                    ? json_dumps(copy, JSON_COMPACT | JSON_SORT_KEYS | JSON_ENCODE_ANY)
                    : NULL;
    json_decref(copy);
    if (!key && !reader->exprs->status) reader->exprs->status = error_memory("JSON schema");
    return key;
}

/* The values of an array by their keys. */
static json_t *set_of(struct schema_reader *reader, const json_t *values)
{
    json_t *set = json_object(), *value;
    size_t i;
    json_array_foreach(values, i, value)
    {
        char *key = schema_key(reader, value);
        if (key && !json_object_get(set, key)) schema_set(reader, set, key, schema_borrow(value));
        free(key);
    }
    return set;
}

static bool is_in(struct schema_reader *reader, const json_t *set, const json_t *value)
{
    char *key = schema_key(reader, value);
    bool found = key && json_object_get(set, key);
    free(key);
    return found;
}

/* ---- Whether a value fits ---- */

static unsigned type_of(const json_t *value)
{
    switch (json_typeof(value)) {
    case JSON_NULL: return TYPE_NULL;
    case JSON_TRUE:
    case JSON_FALSE: return TYPE_BOOLEAN;
    case JSON_INTEGER: return TYPE_INTEGER;
    case JSON_REAL:
        return floor(json_real_value(value)) == json_real_value(value) ? TYPE_INTEGER : TYPE_FRACTION;
    case JSON_STRING: return TYPE_STRING;
    case JSON_ARRAY: return TYPE_ARRAY;
    default: return TYPE_OBJECT;
    }
}

/* Strings under the keywords of one schema, kept for its next value. */
struct schema_check {
    const json_t *schema;
    bool formats;
    bool never; /* no string fits */
    struct automaton automaton;
    struct machine machine;
};

void schema_check_free(struct schema_check *check)
{
    if (!check) return;
    if (!check->never) machine_destroy(&check->machine);
    if (!check->never) automaton_destroy(&check->automaton);
    free(check);
}

static int make_check(struct schema_reader *reader, struct schema_check *check)
{
    struct exprs exprs;
    exprs_create(&exprs, "root", reader->exprs->effort);
    exprs.is_schema = true;
    struct schema_reader inner = {
        .exprs = &exprs, .document = reader->document, .made = json_array(), .quiet = true};
    const json_t *schema = !inner.made      ? NULL
                           : check->formats ? check->schema
                                            : schema_without(&inner, check->schema, "format");
    uint32_t body = schema ? schema_string(&inner, schema) : 0;
    expr_define(&exprs, 0, body);
    int status = exprs.status ? exprs.status : inner.made ? ENGINE_OK : error_memory("JSON schema");
    if (!status) status = automaton_create(&exprs, &check->automaton);
    /* A schema that no string fits is an error of automaton_create. */
    check->never = status == ENGINE_ERROR_DATA && !exprs.status;
    if (check->never) status = ENGINE_OK;
    if (!status && !check->never) {
        status = machine_create(&check->machine, &check->automaton, 0);
        if (status) automaton_destroy(&check->automaton);
    }
    schema_reader_free(&inner);
    exprs_destroy(&exprs);
    return status;
}

/* The check of a schema, made unless it was the last one. NULL: an error. */
static struct schema_check *check_of(struct schema_reader *reader, const json_t *schema, bool formats)
{
    struct schema_check *check = reader->check;
    if (reader->exprs->status || (check && check->schema == schema && check->formats == formats))
        return reader->exprs->status ? NULL : check;
    schema_check_free(check);
    reader->check = NULL;
    check = calloc(1, sizeof *check);
    int status = check ? ENGINE_OK : error_memory("JSON schema");
    if (check) {
        check->schema = schema;
        check->formats = formats;
        status = make_check(reader, check);
    }
    if (status) {
        free(check);
        reader->exprs->status = status;
        return NULL;
    }
    return reader->check = check;
}

/* Whether a text is one of those of a machine. */
static int run_text(struct schema_reader *reader, struct machine *machine, const char *text, bool *fits)
{
    machine_begin(machine);
    uint32_t state = machine_start(machine);
    for (; *text && state != STATE_DEAD && state != STATE_UNKNOWN; text++)
        state = machine_step(machine, state, (uint8_t)*text);
    *fits = state != STATE_DEAD && state != STATE_UNKNOWN && machine->states[state].complete;
    int status = state == STATE_UNKNOWN ? machine->status : ENGINE_OK;
    uint32_t none = 0;
    if (machine_is_full(machine) && !status) status = machine_trim(machine, &none, 0);
    exprs_spend(reader->exprs, machine->effort);
    return status;
}

bool schema_string_fits(struct schema_reader *reader, const json_t *schema, const json_t *value, bool formats)
{
    struct schema_check *check = check_of(reader, schema, formats);
    bool fits = false;
    if (!check || check->never) return false;
    char *text = json_dumps(value, JSON_COMPACT | JSON_ENCODE_ANY);
    int status = text ? run_text(reader, &check->machine, text, &fits) : error_memory("JSON schema");
    if (!status) schema_spend(reader, 1 + strlen(text) / 8);
    if (status && !reader->exprs->status) reader->exprs->status = status;
    free(text);
    return fits && !reader->exprs->status;
}

static bool is_multiple(const json_t *number, const json_t *divisor)
{
    double n = json_number_value(number), d = json_number_value(divisor);
    if (n != floor(n) || d != floor(d) || d == 0) return false;
    /* The remainder of doubles is exact, but an integer may have more digits than one. */
    if (json_is_integer(number) && is_whole(d))
        return d == -1 || json_integer_value(number) % (json_int_t)d == 0;
    return fmod(n, d) == 0;
}

/* Whether a number fits one of the keywords about numbers. */
static bool number_fits(struct schema_reader *reader, const char *name, const json_t *bound,
                        const json_t *number)
{
    int order = schema_compare_numbers(number, bound);
    if (!strcmp(name, "minimum")) return order >= 0;
    if (!strcmp(name, "maximum")) return order <= 0;
    if (!strcmp(name, "exclusiveMinimum")) return order > 0;
    if (!strcmp(name, "exclusiveMaximum")) return order < 0;
    if (json_number_value(bound) != floor(json_number_value(bound)))
        schema_refuse(reader,
                      "\"multipleOf\" beside \"enum\" or \"const\" is supported for whole numbers only");
    return is_multiple(number, bound);
}

/* Whether a listed value fits the other keywords. Without `formats`, those are annotations, as JSON schema
 * has them by default, so that no value is lost for what a format is taken to mean. */
static bool value_fits(struct schema_reader *reader, const json_t *schema, const json_t *value, bool formats)
{
    unsigned type = type_of(value);
    const char *name;
    const json_t *keyword;
    bool text = false;
    if (json_object_get(schema, "type") && !(schema_types(reader, schema) & type)) return false;
    json_object_foreach((json_t *)(uintptr_t)schema, name, keyword)
    {
        if (!(schema_types_of(name) & type)) continue;
        if (type == TYPE_STRING)
            text = text || formats || strcmp(name, "format") != 0;
        else if (type & (TYPE_ARRAY | TYPE_OBJECT))
            schema_refuse(
                reader,
                "\"%s\" beside \"enum\" or \"const\" is not supported: leave it out, and the values that "
                "don't fit it",
                name);
        else if (!json_is_number(keyword))
            schema_wrong(reader, "\"%s\" should be a number", name);
        else if (!number_fits(reader, name, keyword, value))
            return false;
    }
    return !text || schema_string_fits(reader, schema, value, formats);
}

json_t *schema_listed(struct schema_reader *reader, const json_t *schema)
{
    const json_t *values = json_object_get(schema, "enum"), *only = json_object_get(schema, "const"), *value;
    json_t *list = schema_keep(reader, json_array());
    size_t i;
    if (values && !json_is_array(values)) {
        schema_wrong(reader, "\"enum\" should be an array");
        return NULL;
    }
    json_t *both = only && values ? set_of(reader, values) : NULL;
    if (only && (!both || is_in(reader, both, only)) && value_fits(reader, schema, only, false))
        schema_append(reader, list, schema_borrow(only));
    json_array_foreach(values, i, value)
    {
        if (only || !schema_spend(reader, 1)) break;
        if (value_fits(reader, schema, value, false)) schema_append(reader, list, schema_borrow(value));
    }
    json_decref(both);
    return reader->exprs->status ? NULL : list;
}

/* ---- Schemas with few values ---- */

static bool is_listed(const json_t *schema)
{
    return json_object_get(schema, "enum") || json_object_get(schema, "const");
}

/* Integers between two bounds, null, true and false. False: there are more than `most`, or other types. */
static bool add_simple(struct schema_reader *reader, const json_t *schema, size_t most, json_t *values)
{
    unsigned types = schema_types(reader, schema);
    const json_t *low = json_object_get(schema, "minimum"), *high = json_object_get(schema, "maximum");
    if (types & ~(unsigned)(TYPE_NULL | TYPE_BOOLEAN | TYPE_INTEGER)) return false;
    if (types & TYPE_INTEGER) {
        if (!json_is_integer(low) || !json_is_integer(high) || json_object_get(schema, "exclusiveMinimum") ||
            json_object_get(schema, "exclusiveMaximum") || json_object_get(schema, "multipleOf"))
            return false;
        json_int_t first = json_integer_value(low), last = json_integer_value(high);
        uint64_t count = first <= last ? (uint64_t)last - (uint64_t)first : 0; /* less one */
        if (count >= most) return false;
        for (uint64_t i = 0; first <= last && i <= count; i++) {
            const uint64_t value = (uint64_t)first + i;
            schema_append(reader, values, json_integer((json_int_t)value));
        }
    }
    if (types & TYPE_BOOLEAN) schema_append(reader, values, json_true());
    if (types & TYPE_BOOLEAN) schema_append(reader, values, json_false());
    if (types & TYPE_NULL) schema_append(reader, values, json_null());
    return true;
}

json_t *schema_finite(struct schema_reader *reader, const json_t *schema, size_t most)
{
    json_t *values = schema_keep(reader, json_array()), *value;
    const char *name;
    size_t i;
    if (!values || reader->exprs->status || !json_is_object(schema) || json_object_get(schema, "$ref") ||
        json_object_get(schema, "allOf") || json_object_get(schema, "anyOf") ||
        json_object_get(schema, "oneOf") || json_object_get(schema, "not"))
        return NULL;
    if (is_listed(schema)) {
        json_t *listed = schema_listed(reader, schema), *set = set_of(reader, listed);
        json_object_foreach(set, name, value) schema_append(reader, values, schema_borrow(value));
        json_decref(set);
    } else if (!add_simple(reader, schema, most, values)) {
        return NULL;
    }
    json_array_foreach(values, i, value) schema_spend(reader, 1);
    return reader->exprs->status || json_array_size(values) > most ? NULL : values;
}

/* ---- "not" ---- */

/* The keywords of a schema that say something. */
static size_t count_keywords(const json_t *schema)
{
    static const char *const others[] = {"title", "description", "$comment", "examples", "default"};
    size_t count = json_object_size(schema);
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        count -= json_object_get(schema, others[i]) != NULL;
    return count;
}

static const json_t *with_types(struct schema_reader *reader, const json_t *schema, unsigned types)
{
    static const struct {
        const char *name;
        unsigned types;
    } names[] = {{"null", TYPE_NULL},      {"boolean", TYPE_BOOLEAN}, {"string", TYPE_STRING},
                 {"array", TYPE_ARRAY},    {"object", TYPE_OBJECT},   {"number", TYPE_FRACTION},
                 {"integer", TYPE_INTEGER}};
    json_t *copy = schema_without(reader, schema, "not"), *list = json_array();
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (types & names[i].types) schema_append(reader, list, json_string(names[i].name));
    schema_set(reader, copy, "type", list);
    if (!copy) return NULL;
    json_object_del(copy, "nullable");
    return copy;
}

/* The alternatives in which a schema without "not" holds and `excluded` doesn't. */
static const json_t *opposite_of(struct schema_reader *reader, const json_t *schema, const json_t *excluded)
{
    json_t *list = schema_opposites(reader, excluded, schema);
    if (!list || json_array_size(list) == 0) return list ? json_false() : NULL;
    return schema_merge(reader, schema, schema_keep(reader, json_pack("{s:O}", "anyOf", list)));
}

static const json_t *refuse_not(struct schema_reader *reader)
{
    schema_refuse(
        reader,
        "\"not\" is supported for strings, null and up to %d numbers of an \"enum\" or \"const\"; for "
        "other values beside an \"enum\", a \"const\" or a list of types without theirs",
        SCHEMA_MAX_NUMBERS);
    return NULL;
}

static const json_t *exclude_types(struct schema_reader *reader, const json_t *schema, unsigned types)
{
    unsigned left = schema_types(reader, schema) & ~types;
    /* A number that is no integer can't be told by its digits: 1.0 is one. */
    if ((left & TYPE_FRACTION) && !(left & TYPE_INTEGER)) return refuse_not(reader);
    return left ? with_types(reader, schema, left) : json_false();
}

/* Values of a list that are of none of some types. */
static const json_t *of_other_types(struct schema_reader *reader, const json_t *values, unsigned types)
{
    json_t *left = json_array(), *value;
    size_t i;
    json_array_foreach(values, i, value)
    {
        if (!(type_of(value) & types)) schema_append(reader, left, schema_borrow(value));
    }
    return schema_keep(reader, json_pack("{s:o}", "enum", left));
}

/* Values of a list that aren't those to be excluded. */
static const json_t *subtract_values(struct schema_reader *reader, const json_t *values,
                                     const json_t *excluded)
{
    json_t *set = set_of(reader, excluded), *left = json_array(), *value;
    size_t i;
    json_array_foreach(values, i, value)
    {
        if (schema_spend(reader, 1) && !is_in(reader, set, value))
            schema_append(reader, left, schema_borrow(value));
    }
    json_decref(set);
    return schema_keep(reader, json_pack("{s:o}", "enum", left));
}

static const json_t *exclude_values(struct schema_reader *reader, const json_t *schema,
                                    const json_t *excluded)
{
    unsigned types = schema_types(reader, schema), without = 0;
    json_t *strings = json_array();
    const json_t *value;
    size_t i, n_numbers = 0;
    json_array_foreach(excluded, i, value)
    {
        unsigned type = type_of(value);
        if (type == TYPE_STRING && (types & type) && value_fits(reader, schema, value, true))
            schema_append(reader, strings, schema_borrow(value));
        if (type == TYPE_NULL) without |= TYPE_NULL;
        if (json_is_number(value)) {
            n_numbers++;
        } else if (types & type & ~(unsigned)(TYPE_STRING | TYPE_NULL)) {
            json_decref(strings);
            return refuse_not(reader);
        }
    }
    if (n_numbers > SCHEMA_MAX_NUMBERS && (types & (TYPE_INTEGER | TYPE_FRACTION))) {
        json_decref(strings);
        return refuse_not(reader);
    }
    if (n_numbers > 0 && (types & (TYPE_INTEGER | TYPE_FRACTION))) {
        json_decref(strings);
        return opposite_of(reader, schema, schema_keep(reader, json_pack("{s:O}", "enum", excluded)));
    }
    const json_t *left = exclude_types(reader, schema, without);
    if (json_array_size(strings) == 0 || !json_is_object(left)) {
        json_decref(strings);
        return left;
    }
    json_t *copy = schema_keep(reader, json_copy((json_t *)(uintptr_t)left));
    schema_set(reader, copy, "not", json_pack("{s:o}", "enum", strings));
    return copy;
}

const json_t *schema_exclude(struct schema_reader *reader, const json_t *schema)
{
    const json_t *excluded = schema_flatten(reader, json_object_get(schema, "not"));
    if (!excluded) return NULL;
    const json_t *rest = schema_without(reader, schema, "not");
    if (json_is_false(excluded)) return rest;
    if (json_is_true(excluded) || !schema_says_something(excluded)) return json_false();
    size_t keywords = count_keywords(excluded);
    if (json_object_get(excluded, "type") && keywords == 1)
        return is_listed(rest)
                   ? of_other_types(reader, schema_listed(reader, rest), schema_types(reader, excluded))
                   : exclude_types(reader, rest, schema_types(reader, excluded));
    if (!is_listed(excluded)) return opposite_of(reader, rest, excluded);
    const json_t *values = schema_listed(reader, excluded);
    const json_t *all = !values           ? NULL
                        : is_listed(rest) ? schema_listed(reader, rest)
                                          : schema_finite(reader, rest, MAX_LISTED);
    if (reader->exprs->status) return NULL;
    return all ? subtract_values(reader, all, values) : exclude_values(reader, rest, values);
}

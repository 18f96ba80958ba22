/* schema-merge.c: schemas that hold at once, put together keyword by keyword: for allOf, for $ref with
 * keywords beside it, and for the keywords beside anyOf and oneOf. */
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "grammar/schema.h"

#define MAX_DEPTH        64 /* schemas that refer to others, one within the other */
#define MAX_ALTERNATIVES 1024

struct merger {
    struct schema_reader *reader;
    const json_t *a, *b;
    json_t *into;
};

/* {"allOf": [a, b]}, or the simpler of both. A new reference. */
static json_t *both_of(const json_t *a, const json_t *b)
{
    if (!a || json_is_true(a)) return schema_borrow(b ? b : json_true());
    if (!b || json_is_true(b) || json_is_false(a) || a == b) return schema_borrow(a);
    if (json_is_false(b)) return schema_borrow(b);
    return json_pack("{s:[O,O]}", "allOf", a, b);
}

static void set_keyword(struct merger *merger, const char *key, json_t *value)
{
    schema_set(merger->reader, merger->into, key, value);
}

/* How many values a value has within it, itself included. */
static size_t count_values(const json_t *value)
{
    const json_t *inner;
    const char *name;
    size_t i, count = 1;
    json_array_foreach(value, i, inner) count += count_values(inner);
    json_object_foreach((json_t *)(uintptr_t)value, name, inner) count += count_values(inner);
    return count;
}

static bool schema_equal(struct schema_reader *reader, const json_t *a, const json_t *b)
{
    return a == b || (schema_spend(reader, count_values(a)) && json_equal(a, b));
}

/* ---- Keywords ---- */

static void merge_types(struct merger *merger)
{
    static const struct {
        const char *name;
        unsigned type;
    } names[] = {{"null", TYPE_NULL},      {"boolean", TYPE_BOOLEAN}, {"string", TYPE_STRING},
                 {"array", TYPE_ARRAY},    {"object", TYPE_OBJECT},   {"number", TYPE_FRACTION},
                 {"integer", TYPE_INTEGER}};
    bool a = json_object_get(merger->a, "type"), b = json_object_get(merger->b, "type");
    if (!a && !b) return;
    unsigned types = (a ? schema_types(merger->reader, merger->a) : TYPE_ANY) &
                     (b ? schema_types(merger->reader, merger->b) : TYPE_ANY);
    json_t *list = json_array();
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (types & names[i].type) schema_append(merger->reader, list, json_string(names[i].name));
    set_keyword(merger, "type", list);
    json_object_del(merger->into, "nullable");
}

/* What an object's schema says about a property. NULL: nothing. */
static const json_t *property_of(const json_t *schema, const char *name)
{
    const json_t *own = json_object_get(json_object_get(schema, "properties"), name);
    return own ? own : json_object_get(schema, "additionalProperties");
}

static void merge_properties(struct merger *merger)
{
    const json_t *a = json_object_get(merger->a, "properties"), *b = json_object_get(merger->b, "properties");
    const json_t *more_a = json_object_get(merger->a, "additionalProperties");
    const json_t *more_b = json_object_get(merger->b, "additionalProperties");
    const char *name;
    json_t *value;
    if (a || b) {
        json_t *merged = json_object();
        json_object_foreach((json_t *)(uintptr_t)a, name, value)
            schema_set(merger->reader, merged, name, both_of(value, property_of(merger->b, name)));
        json_object_foreach((json_t *)(uintptr_t)b, name, value)
        {
            if (!json_object_get(merged, name))
                schema_set(merger->reader, merged, name, both_of(property_of(merger->a, name), value));
        }
        schema_spend(merger->reader, json_object_size(merged));
        set_keyword(merger, "properties", merged);
    }
    if (more_a || more_b) set_keyword(merger, "additionalProperties", both_of(more_a, more_b));
}

/* Copies the items of one array into another. */
static void add_items(struct merger *merger, json_t *list, const json_t *items)
{
    const json_t *item;
    size_t i;
    json_array_foreach(items, i, item) schema_append(merger->reader, list, schema_borrow(item));
}

static void merge_required(struct merger *merger)
{
    const json_t *a = json_object_get(merger->a, "required"), *b = json_object_get(merger->b, "required");
    if (!a || !b) return;
    json_t *list = json_array();
    add_items(merger, list, a);
    add_items(merger, list, b); /* names that are there twice do no harm */
    schema_spend(merger->reader, json_array_size(list));
    set_keyword(merger, "required", list);
}

static void merge_items(struct merger *merger)
{
    const json_t *items_a = json_object_get(merger->a, "items"),
                 *items_b = json_object_get(merger->b, "items");
    const json_t *first_a = json_object_get(merger->a, "prefixItems"),
                 *first_b = json_object_get(merger->b, "prefixItems");
    if (json_is_array(items_a) || json_is_array(items_b)) {
        if (items_a && items_b && !schema_equal(merger->reader, items_a, items_b))
            schema_refuse(merger->reader, "\"items\" of two schemas with an array can't be put together");
        return;
    }
    if (first_a || first_b) {
        json_t *list = json_array();
        size_t count = json_array_size(first_a) > json_array_size(first_b) ? json_array_size(first_a)
                                                                           : json_array_size(first_b);
        for (size_t i = 0; i < count; i++) {
            const json_t *a = json_array_get(first_a, i), *b = json_array_get(first_b, i);
            schema_append(merger->reader, list, both_of(a ? a : items_a, b ? b : items_b));
        }
        schema_spend(merger->reader, count);
        set_keyword(merger, "prefixItems", list);
    }
    if (items_a || items_b) set_keyword(merger, "items", both_of(items_a, items_b));
}

static json_t *values_of(struct merger *merger, const json_t *schema)
{
    const json_t *only = json_object_get(schema, "const");
    return schema_borrow(only ? schema_keep(merger->reader, json_pack("[O]", only))
                              : json_object_get(schema, "enum"));
}

static void merge_values(struct merger *merger)
{
    json_t *a = values_of(merger, merger->a), *b = values_of(merger, merger->b), *value;
    size_t i;
    if (a && b) {
        json_t *list = json_array(), *keys = json_object();
        schema_spend(merger->reader, json_array_size(a) + json_array_size(b));
        json_array_foreach(b, i, value)
        {
            char *key = schema_key(merger->reader, value);
            if (key) schema_set(merger->reader, keys, key, json_true());
            free(key);
        }
        json_array_foreach(a, i, value)
        {
            char *key = schema_key(merger->reader, value);
            if (key && json_object_get(keys, key)) schema_append(merger->reader, list, schema_borrow(value));
            free(key);
        }
        json_decref(keys);
        json_object_del(merger->into, "const");
        set_keyword(merger, "enum", list);
    }
    json_decref(a);
    json_decref(b);
}

/* Two lists of values that are not to be, as one. */
static void merge_not(struct merger *merger)
{
    const json_t *a = json_object_get(merger->a, "not"), *b = json_object_get(merger->b, "not");
    if (!a || !b || schema_equal(merger->reader, a, b)) return;
    json_t *values = values_of(merger, a), *more = values_of(merger, b);
    if (values && more && json_object_size(a) == 1 && json_object_size(b) == 1) {
        json_t *list = json_array();
        add_items(merger, list, values);
        add_items(merger, list, more);
        schema_spend(merger->reader, json_array_size(list));
        set_keyword(merger, "not", json_pack("{s:o}", "enum", list));
    } else {
        schema_refuse(merger->reader,
                      "\"not\" of two schemas that hold at once is supported for \"enum\" and "
                      "\"const\" only");
    }
    json_decref(values);
    json_decref(more);
}

/* Alternatives of both: each of one with each of the other. */
static void merge_alternatives(struct merger *merger, const char *key)
{
    const json_t *a = json_object_get(merger->a, key), *b = json_object_get(merger->b, key);
    size_t n_a = json_array_size(a), n_b = json_array_size(b);
    if (!a || !b || a == b) return;
    if (n_a * n_b > MAX_ALTERNATIVES) {
        schema_refuse(merger->reader, "\"%s\" of several schemas make more than %d alternatives", key,
                      MAX_ALTERNATIVES);
        return;
    }
    json_t *list = json_array();
    for (size_t i = 0; i < n_a; i++)
        for (size_t j = 0; j < n_b; j++)
            schema_append(merger->reader, list, both_of(json_array_get(a, i), json_array_get(b, j)));
    schema_spend(merger->reader, n_a * n_b);
    set_keyword(merger, key, list);
}

/* The stricter of two bounds. */
static void merge_bounds(struct merger *merger)
{
    static const struct {
        const char *name;
        bool upper;
    } bounds[] = {{"minimum", false},         {"exclusiveMinimum", false}, {"maximum", true},
                  {"exclusiveMaximum", true}, {"minLength", false},        {"maxLength", true},
                  {"minItems", false},        {"maxItems", true},          {"minProperties", false},
                  {"maxProperties", true}};
    for (size_t i = 0; i < sizeof bounds / sizeof *bounds; i++) {
        const json_t *a = json_object_get(merger->a, bounds[i].name),
                     *b = json_object_get(merger->b, bounds[i].name);
        if (!a || !b || schema_equal(merger->reader, a, b)) continue;
        if (!json_is_number(a) || !json_is_number(b)) {
            schema_refuse(merger->reader, "\"%s\" of two schemas can't be put together", bounds[i].name);
            return;
        }
        bool greater = schema_compare_numbers(b, a) > 0;
        bool second = greater != bounds[i].upper;
        set_keyword(merger, bounds[i].name, schema_borrow(second ? b : a));
    }
}

/* Keywords that must be the same where both schemas have them. */
static void compare_others(struct merger *merger)
{
    static const char *const names[] = {"pattern",           "format",        "multipleOf",
                                        "patternProperties", "propertyNames", "uniqueItems",
                                        "additionalItems",   "contains"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        const json_t *a = json_object_get(merger->a, names[i]), *b = json_object_get(merger->b, names[i]);
        if (a && b && !schema_equal(merger->reader, a, b))
            schema_refuse(merger->reader, "\"%s\" of two schemas that hold at once can't be put together",
                          names[i]);
    }
}

/* "minContains" and "maxContains" speak of the "contains" beside them only. */
static void merge_contains(struct merger *merger)
{
    static const char *const names[] = {"minContains", "maxContains"};
    const json_t *a = json_object_get(merger->a, "contains") ? merger->a : NULL,
                 *b = json_object_get(merger->b, "contains") ? merger->b : NULL;
    for (size_t i = 0; i < 2; i++) {
        const json_t *in_a = json_object_get(a, names[i]), *in_b = json_object_get(b, names[i]);
        if (a && b && (in_a || in_b) && !(in_a && in_b && schema_equal(merger->reader, in_a, in_b)))
            schema_refuse(merger->reader, "\"%s\" of two schemas that hold at once can't be put together",
                          names[i]);
        json_object_del(merger->into, names[i]);
        if (in_a || in_b) set_keyword(merger, names[i], schema_borrow(in_a ? in_a : in_b));
    }
}

/* ---- "unevaluatedProperties" and "unevaluatedItems" ---- */

bool schema_is_closing(const json_t *schema)
{
    return json_object_get(schema, "unevaluatedProperties") || json_object_get(schema, "unevaluatedItems");
}

/* Items that no keyword speaks of are as `rest` says. What "contains" describes has been evaluated. */
static void close_items(struct schema_reader *reader, json_t *schema, const json_t *rest)
{
    const json_t *items = json_object_get(schema, "items"), *first = json_object_get(schema, "prefixItems"),
                 *contains = json_object_get(schema, "contains");
    bool list = json_is_array(items), any = first && !json_is_array(first);
    if (any || (list ? json_object_get(schema, "additionalItems") : items)) return;
    json_t *value = !contains || json_is_true(rest) ? schema_borrow(rest)
                    : json_is_false(rest)           ? schema_borrow(contains)
                                                    : json_pack("{s:[O,O]}", "anyOf", contains, rest);
    schema_set(reader, schema, list ? "additionalItems" : "items", value);
}

/* Of the schema whose keywords have been put together, properties and items that no keyword names are as the
 * keywords of `closing` say. With alternatives, that depends on the one that holds: then it remains to be
 * done for each of them. */
const json_t *schema_close(struct schema_reader *reader, const json_t *schema, const json_t *closing)
{
    const json_t *others = json_object_get(closing, "unevaluatedProperties"),
                 *items = json_object_get(closing, "unevaluatedItems");
    if (!json_is_object(schema)) return schema;
    json_t *copy = schema_keep(reader, json_copy((json_t *)(uintptr_t)schema));
    if (!copy) return NULL;
    if (json_is_true(others)) others = NULL; /* there are as many others as without the keyword */
    json_object_del(copy, "unevaluatedProperties");
    json_object_del(copy, "unevaluatedItems");
    bool any = !json_object_get(copy, "type") && schema_types(reader, copy) == TYPE_ANY;
    if (json_object_get(copy, "anyOf") || json_object_get(copy, "oneOf")) {
        if (others) schema_set(reader, copy, "unevaluatedProperties", schema_borrow(others));
        if (items) schema_set(reader, copy, "unevaluatedItems", schema_borrow(items));
        return copy;
    }
    if (others && !json_object_get(copy, "additionalProperties"))
        schema_set(reader, copy, "additionalProperties", schema_borrow(others));
    if (items) close_items(reader, copy, items);
    if (any && (others || items))
        schema_set(reader, copy, "type",
                   json_pack("[s,s,s,s,s,s]", "null", "boolean", "number", "string", "array", "object"));
    return copy;
}

/* Whether a condition or a "not" speaks of items: what a schema that doesn't hold evaluates doesn't count,
 * but stands in the schemas that are made of it. */
static bool speaks_of_items(const json_t *schema, unsigned depth)
{
    static const char *const within[] = {"allOf", "anyOf", "oneOf", "not", "if", "then", "else"},
                             *const those[] = {"items", "prefixItems",      "contains",
                                               "$ref",  "dependentSchemas", "unevaluatedItems"};
    const json_t *value, *inner;
    size_t i;
    if (depth > MAX_DEPTH) return true;
    for (size_t k = 0; k < sizeof those / sizeof *those; k++)
        if (json_object_get(schema, those[k])) return true;
    for (size_t k = 0; k < sizeof within / sizeof *within; k++) {
        value = json_object_get(schema, within[k]);
        if (json_is_object(value) && speaks_of_items(value, depth + 1)) return true;
        json_array_foreach(value, i, inner)
        {
            if (speaks_of_items(inner, depth + 1)) return true;
        }
    }
    return false;
}

/* Refuses a condition or its opposite that names properties which `base` doesn't: what a schema that doesn't
 * hold names is not evaluated, but stands in the schemas that are made of it. */
static void check_named(struct schema_reader *reader, const json_t *schema, const json_t *base,
                        unsigned depth)
{
    static const char *const within[] = {"allOf", "anyOf", "oneOf", "not", "if", "then", "else"};
    const json_t *named = json_object_get(base, "properties"), *value, *inner;
    const char *name;
    size_t i;
    json_object_foreach(json_object_get(schema, "properties"), name, inner)
    {
        if (!json_object_get(named, name))
            schema_refuse(reader,
                          "\"unevaluatedProperties\" beside an \"if\" or a \"not\" is supported if "
                          "\"properties\" names all that these name, and \"%.60s\" it doesn't",
                          name);
    }
    if (json_object_get(schema, "$ref") || json_object_get(schema, "patternProperties") ||
        json_object_get(schema, "additionalProperties") || json_object_get(schema, "dependentSchemas") ||
        depth > MAX_DEPTH)
        schema_refuse(reader, "\"unevaluatedProperties\" beside an \"if\" or a \"not\" is supported for "
                              "those of \"properties\" and \"required\" only");
    for (size_t k = 0; k < sizeof within / sizeof *within && !reader->exprs->status; k++) {
        value = json_object_get(schema, within[k]);
        if (json_is_object(value)) check_named(reader, value, base, depth + 1);
        json_array_foreach(value, i, inner) check_named(reader, inner, base, depth + 1);
    }
}

/* Refuses what beside the keywords of a closing schema would count as evaluated though it is not. `found`:
 * the schema's other keywords but its conditions. */
static void check_closing(struct schema_reader *reader, const json_t *schema, const json_t *found)
{
    const json_t *others = json_object_get(schema, "unevaluatedProperties"),
                 *excluded = json_object_get(found, "not"), *condition = json_object_get(schema, "if");
    bool open = others && !json_is_true(others) && !json_object_get(found, "additionalProperties");
    if (open && excluded) check_named(reader, excluded, found, 0);
    if (open && condition) check_named(reader, condition, found, 0);
    if (json_object_get(schema, "unevaluatedItems") && !json_object_get(found, "items") &&
        (speaks_of_items(excluded, 0) || speaks_of_items(condition, 0)))
        schema_refuse(reader, "\"unevaluatedItems\" beside an \"if\" or a \"not\" that speaks of items is "
                              "not supported");
}

/* ---- Schemas ---- */

static const json_t *flatten_schema(struct schema_reader *reader, const json_t *schema, const json_t *base,
                                    unsigned depth);

static const json_t *merge_pair(struct schema_reader *reader, const json_t *a, const json_t *b,
                                unsigned depth)
{
    a = a ? flatten_schema(reader, a, NULL, depth + 1) : NULL;
    b = a && b ? flatten_schema(reader, b, a, depth + 1) : NULL;
    if (!a || !b || !schema_spend(reader, json_object_size(a) + json_object_size(b) + 8)) return NULL;
    if (json_is_false(a) || json_is_true(b)) return a;
    if (json_is_false(b) || json_is_true(a)) return b;
    if (schema_is_closing(a) || schema_is_closing(b)) {
        const char *items = "unevaluatedItems", *others = "unevaluatedProperties";
        schema_refuse(reader,
                      "\"%s\" beside alternatives is not supported in a schema that another one holds beside",
                      json_object_get(a, others) || json_object_get(b, others) ? others : items);
        return NULL;
    }
    struct merger merger = {.reader = reader, .a = a, .b = b};
    const json_t *value;
    const char *key;
    merger.into = schema_keep(reader, json_copy((json_t *)(uintptr_t)b));
    if (!merger.into) return NULL;
    json_object_foreach((json_t *)(uintptr_t)a, key, value) set_keyword(&merger, key, schema_borrow(value));
    merge_types(&merger);
    merge_properties(&merger);
    merge_required(&merger);
    merge_items(&merger);
    merge_values(&merger);
    merge_not(&merger);
    merge_alternatives(&merger, "anyOf");
    merge_alternatives(&merger, "oneOf");
    merge_bounds(&merger);
    merge_contains(&merger);
    compare_others(&merger);
    return reader->exprs->status ? NULL : merger.into;
}

/* `base`: what holds beside the schema; NULL: nothing is known. */
static const json_t *flatten_schema(struct schema_reader *reader, const json_t *schema, const json_t *base,
                                    unsigned depth)
{
    if (json_is_boolean(schema)) return schema;
    if (!json_is_object(schema)) {
        schema_wrong(reader, "a schema should be an object, true or false");
        return NULL;
    }
    const json_t *reference = json_object_get(schema, "$ref"), *all = json_object_get(schema, "allOf"), *part;
    bool conditions = schema_has_conditions(schema), closing = schema_is_closing(schema);
    if (!reference && !all && !conditions && !closing) return schema;
    if (depth > MAX_DEPTH) {
        schema_refuse(reader, "\"allOf\" and \"$ref\" go in a circle, or are nested more than %d deep",
                      MAX_DEPTH);
        return NULL;
    }
    const json_t *bare = conditions ? schema_without_conditions(reader, schema) : schema;
    json_t *rest = bare ? schema_keep(reader, json_copy((json_t *)(uintptr_t)bare)) : NULL;
    if (!rest) return NULL;
    json_object_del(rest, "$ref");
    json_object_del(rest, "allOf");
    json_object_del(rest, "unevaluatedProperties");
    json_object_del(rest, "unevaluatedItems");
    const json_t *found = rest;
    if (reference) {
        const json_t *target = schema_resolve(reader, reference);
        found = target ? merge_pair(reader, found, target, depth) : NULL;
    }
    if (all && !json_is_array(all)) schema_wrong(reader, "\"allOf\" should be an array of schemas");
    size_t i;
    json_array_foreach(all, i, part) found = found ? merge_pair(reader, found, part, depth) : NULL;
    if (closing && found) check_closing(reader, schema, found);
    const json_t *more = conditions && found ? schema_conditions(reader, schema, base ? base : found) : NULL;
    json_array_foreach(more, i, part) found = found ? merge_pair(reader, found, part, depth) : NULL;
    if (closing && found) found = schema_close(reader, found, schema);
    return reader->exprs->status ? NULL : found;
}

const json_t *schema_flatten(struct schema_reader *reader, const json_t *schema)
{
    return flatten_schema(reader, schema, NULL, 0);
}

const json_t *schema_merge(struct schema_reader *reader, const json_t *a, const json_t *b)
{
    return merge_pair(reader, a, b, 0);
}

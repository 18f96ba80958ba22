/* schema-conditions.c: "if", "dependentRequired" and "dependentSchemas" as alternatives: a condition holds,
 * and what follows from it, or its opposite holds; and such opposites for "not". For the opposite, a schema
 * is taken apart keyword by keyword: it does not describe a value if one of its keywords doesn't. */
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "grammar/schema.h"

#define MAX_DEPTH 16
#define ADD_WORK  10 /* for each alternative, as schema_spend counts */

static const char *const conditions[] = {
    "if", "then", "else", "dependentRequired", "dependentSchemas", "dependencies"};

bool schema_has_conditions(const json_t *schema)
{
    for (size_t i = 0; i < sizeof conditions / sizeof *conditions; i++)
        if (json_object_get(schema, conditions[i])) return true;
    return false;
}

/* An object without a property. Like the schema it goes with, it has others, or no others than those
 * named. */
static json_t *without_property(struct schema_reader *reader, const char *name, const json_t *base)
{
    bool open = !json_object_get(base, "properties") && !json_object_get(base, "patternProperties") &&
                !json_object_get(base, "additionalProperties");
    json_t *schema = json_pack("{s:{s:b}}", "properties", name, 0);
    if (open) schema_set(reader, schema, "additionalProperties", json_true());
    return schema;
}

/* ---- Opposites ---- */

struct opposite {
    struct schema_reader *reader;
    json_t *list; /* alternatives, of which one holds if the schema doesn't */
    unsigned depth;
};

static void add_opposites(const struct opposite *to, const json_t *schema, const json_t *base);

static void add_kept(const struct opposite *to, json_t *schema)
{
    schema_append(to->reader, to->list, schema);
    schema_spend(to->reader, ADD_WORK);
}

static int by_number(const void *left, const void *right)
{
    return schema_compare_numbers(*(json_t *const *)left, *(json_t *const *)right);
}

/* Numbers other than some: those in between. */
static void add_other_numbers(const struct opposite *to, json_t **numbers, size_t count)
{
    qsort(numbers, count, sizeof *numbers, by_number);
    for (size_t i = 0; i <= count; i++) {
        json_t *between = json_pack("{s:s}", "type", "number");
        if (i > 0) schema_set(to->reader, between, "exclusiveMinimum", schema_borrow(numbers[i - 1]));
        if (i < count) schema_set(to->reader, between, "exclusiveMaximum", schema_borrow(numbers[i]));
        add_kept(to, between);
    }
}

static void add_other_values(const struct opposite *to, json_t *values, const json_t *base)
{
    json_t *numbers[SCHEMA_MAX_NUMBERS], *value;
    size_t count = 0, i;
    bool listed = json_object_get(base, "enum") || json_object_get(base, "const");
    unsigned types = base && !listed ? schema_types(to->reader, base) : TYPE_ANY;
    json_t *others = json_array();
    json_array_foreach(values, i, value)
    {
        if (!json_is_number(value))
            schema_append(to->reader, others, schema_borrow(value));
        else if (count++ < SCHEMA_MAX_NUMBERS)
            numbers[count - 1] = value;
    }
    if (count == 0 || listed || count > SCHEMA_MAX_NUMBERS || !(types & (TYPE_INTEGER | TYPE_FRACTION))) {
        add_kept(to, json_pack("{s:{s:O}}", "not", "enum", values));
    } else {
        add_other_numbers(to, numbers, count);
        if (types & ~(unsigned)(TYPE_INTEGER | TYPE_FRACTION))
            add_kept(to, json_pack("{s:[s,s,s,s,s],s:{s:O}}", "type", "null", "boolean", "string", "array",
                                   "object", "not", "enum", others));
    }
    json_decref(others);
}

static void add_other_types(const struct opposite *to, const json_t *schema)
{
    static const struct {
        const char *name;
        unsigned types;
    } names[] = {{"null", TYPE_NULL},   {"boolean", TYPE_BOOLEAN}, {"string", TYPE_STRING},
                 {"array", TYPE_ARRAY}, {"object", TYPE_OBJECT},   {"number", TYPE_INTEGER | TYPE_FRACTION}};
    unsigned left = TYPE_ANY & ~schema_types(to->reader, schema);
    json_t *list = json_array();
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (left & names[i].types) schema_append(to->reader, list, json_string(names[i].name));
    /* A number that is no integer can't be told by its digits. */
    if ((left & TYPE_FRACTION) && !(left & TYPE_INTEGER))
        schema_refuse(to->reader,
                      "the opposite of the type \"integer\" is not supported: 1.0 is an integer too");
    add_kept(to, json_pack("{s:o}", "type", list));
}

/* Values beyond a bound. False: the keyword is none. */
static bool add_beyond(const struct opposite *to, const char *name, const json_t *bound)
{
    static const struct {
        const char *name, *type, *opposite;
        int step; /* added to a count */
    } bounds[] = {{"minimum", "number", "exclusiveMaximum", 0},
                  {"maximum", "number", "exclusiveMinimum", 0},
                  {"exclusiveMinimum", "number", "maximum", 0},
                  {"exclusiveMaximum", "number", "minimum", 0},
                  {"minLength", "string", "maxLength", -1},
                  {"maxLength", "string", "minLength", 1},
                  {"minItems", "array", "maxItems", -1},
                  {"maxItems", "array", "minItems", 1},
                  {"minProperties", "object", "maxProperties", -1},
                  {"maxProperties", "object", "minProperties", 1}};
    for (size_t i = 0; i < sizeof bounds / sizeof *bounds; i++) {
        if (strcmp(name, bounds[i].name) != 0) continue;
        double number = json_number_value(bound);
        if (!json_is_number(bound))
            schema_wrong(to->reader, "\"%s\" should be a number", name);
        else if (bounds[i].step == 0)
            add_kept(to, json_pack("{s:s,s:O}", "type", bounds[i].type, bounds[i].opposite, bound));
        else if (number + bounds[i].step >= 0)
            add_kept(to, json_pack("{s:s,s:I}", "type", bounds[i].type, bounds[i].opposite,
                                   (json_int_t)number + bounds[i].step));
        return true;
    }
    return false;
}

/* Objects without one of the names, or with a property that its schema doesn't describe. */
static void add_other_objects(const struct opposite *to, const char *keyword, const json_t *content,
                              const json_t *base)
{
    const json_t *schema, *name;
    const char *key;
    size_t i, j;
    json_array_foreach(content, i, name)
    {
        if (!json_is_string(name)) {
            schema_wrong(to->reader, "\"%s\" should be an array of names", keyword);
            return;
        }
        json_t *object = without_property(to->reader, json_string_value(name), base);
        schema_set(to->reader, object, "type", json_string("object"));
        add_kept(to, object);
    }
    json_object_foreach((json_t *)(uintptr_t)content, key, schema)
    {
        const json_t *own = json_object_get(json_object_get(base, "properties"), key), *one;
        if (own && !to->reader->exprs->status) own = schema_flatten(to->reader, own);
        struct opposite inner = {to->reader, json_array(), to->depth + 1};
        add_opposites(&inner, schema, own);
        json_array_foreach(inner.list, j, one) add_kept(
            to, json_pack("{s:s,s:{s:O},s:[s]}", "type", "object", "properties", key, one, "required", key));
        json_decref(inner.list);
    }
}

/* Values that none of some alternatives describes. */
static void add_none_of(const struct opposite *to, const json_t *alternatives, const json_t *base)
{
    json_t *all = json_array();
    const json_t *alternative;
    size_t i;
    json_array_foreach(alternatives, i, alternative)
    {
        struct opposite inner = {to->reader, json_array(), to->depth + 1};
        add_opposites(&inner, alternative, base);
        schema_append(to->reader, all,
                      json_array_size(inner.list) > 0 ? json_pack("{s:O}", "anyOf", inner.list)
                                                      : json_false());
        json_decref(inner.list);
    }
    add_kept(to, json_pack("{s:o}", "allOf", all));
}

static void add_opposite(const struct opposite *to, const json_t *schema, const char *name,
                         const json_t *keyword, const json_t *base)
{
    if (!strcmp(name, "type")) {
        add_other_types(to, schema);
    } else if (!strcmp(name, "const")) {
        json_t *values = json_pack("[O]", keyword);
        add_other_values(to, values, base);
        json_decref(values);
    } else if (!strcmp(name, "enum")) {
        add_other_values(to, (json_t *)(uintptr_t)keyword, base);
    } else if (!strcmp(name, "required") || !strcmp(name, "properties")) {
        add_other_objects(to, name, keyword, base);
    } else if (!strcmp(name, "anyOf")) {
        add_none_of(to, keyword, base);
    } else if (!strcmp(name, "not")) {
        add_kept(to, schema_borrow(keyword));
    } else if (!add_beyond(to, name, keyword) && (schema_types_of(name) || !strcmp(name, "oneOf"))) {
        schema_refuse(to->reader,
                      "\"%s\" is not supported in an \"if\" or a \"not\": \"const\", \"enum\", \"type\", "
                      "bounds, lengths, "
                      "\"required\", \"not\", \"anyOf\", and \"properties\" of these are",
                      name);
    }
}

/* What a schema doesn't describe, among the values of `base`; NULL: any values. */
static void add_opposites(const struct opposite *to, const json_t *schema, const json_t *base)
{
    const json_t *keyword;
    const char *name;
    if (to->depth > MAX_DEPTH)
        schema_refuse(to->reader, "a condition is nested more than %d deep", MAX_DEPTH);
    if (!schema_spend(to->reader, 1)) return;
    schema = schema_flatten(to->reader, schema);
    if (json_is_false(schema)) add_kept(to, json_true());
    if (!json_is_object(schema)) return;
    json_object_foreach((json_t *)(uintptr_t)schema, name, keyword)
    {
        if (!to->reader->exprs->status) add_opposite(to, schema, name, keyword, base);
    }
}

json_t *schema_opposites(struct schema_reader *reader, const json_t *schema, const json_t *base)
{
    struct opposite opposite = {reader, schema_keep(reader, json_array()), 0};
    if (opposite.list) add_opposites(&opposite, schema, base);
    return reader->exprs->status ? NULL : opposite.list;
}

/* ---- Conditions ---- */

/* {"anyOf": list}, which holds beside the schema; takes over the list. */
static void add_alternatives(struct schema_reader *reader, json_t *all, json_t *list)
{
    schema_append(reader, all, json_pack("{s:o}", "anyOf", list));
}

static void read_if(struct schema_reader *reader, const json_t *schema, const json_t *base, json_t *all)
{
    const json_t *condition = json_object_get(schema, "if"), *then = json_object_get(schema, "then"),
                 *otherwise = json_object_get(schema, "else"), *one;
    size_t i;
    if (!condition || (!then && !otherwise)) return;
    const json_t *opposites = schema_opposites(reader, condition, base);
    json_t *list = json_array();
    schema_append(reader, list,
                  then ? json_pack("{s:[O,O]}", "allOf", condition, then) : schema_borrow(condition));
    json_array_foreach(opposites, i, one) schema_append(
        reader, list, otherwise ? json_pack("{s:[O,O]}", "allOf", one, otherwise) : schema_borrow(one));
    add_alternatives(reader, all, list);
}

/* "dependentRequired", "dependentSchemas", and "dependencies", which was both. */
static void read_dependent(struct schema_reader *reader, const json_t *schema, const char *keyword,
                           const json_t *base, json_t *all)
{
    const json_t *dependent = json_object_get(schema, keyword), *then, *name;
    const char *key;
    size_t i;
    if (dependent && !json_is_object(dependent)) schema_wrong(reader, "\"%s\" should be an object", keyword);
    json_object_foreach((json_t *)(uintptr_t)dependent, key, then)
    {
        json_t *names = json_pack("[s]", key);
        json_array_foreach(then, i, name)
        {
            if (!json_is_string(name)) schema_wrong(reader, "\"%s\" should have arrays of names", keyword);
            schema_append(reader, names, schema_borrow(name));
        }
        json_t *with = json_pack("{s:o}", "required", names);
        if (!json_is_array(then)) with = json_pack("{s:[o,O]}", "allOf", with, then);
        add_alternatives(reader, all, json_pack("[o,o]", without_property(reader, key, base), with));
        if (!schema_spend(reader, 1 + json_array_size(then))) return;
    }
}

json_t *schema_conditions(struct schema_reader *reader, const json_t *schema, const json_t *base)
{
    json_t *all = schema_keep(reader, json_array());
    if (!all) return NULL;
    if (reader->depth >= MAX_DEPTH) {
        schema_refuse(reader, "conditions go in a circle, or are nested more than %d deep", MAX_DEPTH);
        return NULL;
    }
    reader->depth++;
    read_if(reader, schema, base, all);
    read_dependent(reader, schema, "dependentRequired", base, all);
    read_dependent(reader, schema, "dependentSchemas", base, all);
    read_dependent(reader, schema, "dependencies", base, all);
    reader->depth--;
    return reader->exprs->status ? NULL : all;
}

const json_t *schema_without_conditions(struct schema_reader *reader, const json_t *schema)
{
    json_t *copy = schema_keep(reader, json_copy((json_t *)(uintptr_t)schema));
    for (size_t i = 0; copy && i < sizeof conditions / sizeof *conditions; i++)
        json_object_del(copy, conditions[i]);
    return copy;
}

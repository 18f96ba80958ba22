/* typed-values.c: what the text of an argument stands for, which the tool's schema says: a string, or what it
 * reads as. Called by layout.c and partial-arguments.c. */
#include <string.h>

#include "reply/internal.h"
#include "reply/layout.h"
#include "reply/span.h"

enum {
    TEXT = LAYOUT_TYPE_TEXT,
    WHOLE = 2,
    NUMBER = 4,
    FLAG = 8,
    OBJECT = 16,
    ARRAY = 32,
    NOTHING = 64,
    ANY = 127
};

static unsigned type_named(const char *name)
{
    static const struct {
        const char *name;
        unsigned type;
    } types[] = {{"string", TEXT},  {"integer", WHOLE | NUMBER}, {"number", WHOLE | NUMBER},
                 {"boolean", FLAG}, {"object", OBJECT},          {"array", ARRAY},
                 {"null", NOTHING}};
    for (size_t i = 0; name && i < sizeof types / sizeof *types; i++)
        if (strcmp(types[i].name, name) == 0) return types[i].type;
    return ANY;
}

static unsigned type_of_value(const json_t *value)
{
    switch (json_typeof(value)) {
    case JSON_STRING: return TEXT;
    case JSON_INTEGER: return WHOLE;
    case JSON_REAL: return NUMBER;
    case JSON_TRUE:
    case JSON_FALSE: return FLAG;
    case JSON_OBJECT: return OBJECT;
    case JSON_ARRAY: return ARRAY;
    case JSON_NULL: return NOTHING;
    }
    return ANY;
}

/* The types that a schema allows. `depth`: of schemas within it that are looked at. */
static unsigned types_of_schema(const json_t *schema, unsigned depth)
{
    static const char *const choices[] = {"anyOf", "oneOf"};
    const json_t *type = json_object_get(schema, "type"), *values = json_object_get(schema, "enum");
    const json_t *constant = json_object_get(schema, "const"), *item;
    unsigned types = 0;
    size_t i;
    if (constant) return type_of_value(constant);
    if (json_array_size(values) > 0) {
        json_array_foreach(values, i, item) types |= type_of_value(item);
        return types;
    }
    if (json_is_string(type)) return type_named(json_string_value(type));
    json_array_foreach(type, i, item) types |= type_named(json_string_value(item));
    for (size_t k = 0; !types && depth > 0 && k < sizeof choices / sizeof *choices; k++)
        json_array_foreach(json_object_get(schema, choices[k]), i, item) types |=
            types_of_schema(item, depth - 1);
    return types ? types : ANY;
}

/* The schema that the tools have for a parameter; NULL: none. */
static const json_t *schema_of_parameter(const json_t *tools, struct span name, struct span key)
{
    size_t i;
    json_t *tool;
    json_array_foreach(tools, i, tool)
    {
        const json_t *function = json_object_get(tool, "function");
        if (!function) function = tool;
        const json_t *its_name = json_object_get(function, "name");
        if (!json_is_string(its_name) || json_string_length(its_name) != name.length ||
            memcmp(json_string_value(its_name), name.data, name.length) != 0)
            continue;
        const json_t *properties = json_object_get(json_object_get(function, "parameters"), "properties");
        return json_object_getn(properties, key.data, key.length);
    }
    return NULL;
}

/* What templates write that print values as they are: Python's words and literals. */
static json_t *python_value(struct calls_reader *reader, struct span text, unsigned types)
{
    if (types == ANY) return NULL;
    if (types & FLAG && span_is(text, "True")) return json_true();
    if (types & FLAG && span_is(text, "False")) return json_false();
    if (types & NOTHING && span_is(text, "None")) return json_null();
    bool list = types & ARRAY && span_starts(text, "["), object = types & OBJECT && span_starts(text, "{");
    return list || object ? literal_value(reader, text.data, text.length) : NULL;
}

/* The value that a text stands for: a string where only strings are allowed, else what its JSON says, if that
 * is allowed. */
static json_t *typed_value(struct calls_reader *reader, struct span text, unsigned types)
{
    struct span trimmed = span_trim(text);
    json_t *value =
        types == TEXT ? NULL : calls_json(reader, trimmed, JSON_DECODE_ANY | JSON_REJECT_DUPLICATES, NULL);
    if (!value && types != TEXT) value = python_value(reader, trimmed, types);
    /* A string that may stand without quotes keeps those that it has. */
    if (value && types & TEXT && types != ANY && (json_is_string(value) || !(type_of_value(value) & types))) {
        json_decref(value);
        value = NULL;
    }
    return value ? value : calls_string(reader, text);
}

/* XML's way to write a text with marks in it. */
static struct span without_cdata(struct span text)
{
    static const char begin[] = "<![CDATA[", end[] = "]]>";
    size_t n = strlen(begin), n_end = strlen(end);
    if (!span_starts(text, begin) || text.length < n + n_end ||
        memcmp(text.data + text.length - n_end, end, n_end) != 0)
        return text;
    return (struct span){text.data + n, text.length - n - n_end};
}

struct argument_type layout_type_of(const struct reply_layout *layout, const json_t *tools, struct span name,
                                    struct span key, struct span type)
{
    struct argument_type known = {.types = ANY};
    if (layout->after_type[0]) {
        if (span_is(type, "true") || span_is(type, "string")) known.types = TEXT;
        return known;
    }
    known.schema = schema_of_parameter(tools, name, key);
    known.types = types_of_schema(known.schema, 2);
    return known;
}

/* ---- Values within values ---- */

static json_t *nested_value(struct calls_reader *reader, const struct reply_layout *layout, struct span text,
                            struct argument_type type, unsigned depth);

/* A member of an object, or an item. False: this is none. */
static bool add_member(struct calls_reader *reader, const struct reply_layout *layout, struct span *s,
                       const json_t *schema, json_t *object, json_t *array, unsigned depth)
{
    struct span key, value;
    char closing[2 * LAYOUT_MARK];
    size_t at = 0;
    uint32_t n_open = 0;
    *s = span_from(*s, strlen(layout->key));
    if (!span_cut(s, layout->after_key, &key) || !layout_closing(layout, key.data, key.length, closing))
        return false;
    size_t end = layout_find_closing(layout, closing, s->data, s->length, &at, &n_open);
    if (end == SIZE_MAX) return false;
    value = (struct span){s->data, end};
    *s = span_from(*s, end + strlen(closing));
    bool item = span_is(key, "item") && array;
    const json_t *its = item ? json_object_get(schema, "items")
                             : json_object_getn(json_object_get(schema, "properties"), key.data, key.length);
    struct argument_type type = {.schema = its, .types = types_of_schema(its, 2)};
    json_t *made = nested_value(reader, layout, value, type, depth);
    return item ? calls_append(reader, array, made) : calls_set(reader, object, key, made);
}

/* An array if the schema says so or, without one, if all keys are "item". */
static json_t *nested_value(struct calls_reader *reader, const struct reply_layout *layout, struct span text,
                            struct argument_type type, unsigned depth)
{
    struct span s = span_trim(text);
    if (type.types == ARRAY && s.length == 0) return calls_made(reader, json_array());
    if (type.types == OBJECT && s.length == 0) return calls_made(reader, json_object());
    if (type.types == TEXT || depth == 0 || !span_starts(s, layout->key))
        return typed_value(reader, text, type.types);
    bool lists = span_starts(span_from(s, strlen(layout->key)), "item>") && type.types & ARRAY;
    json_t *array = lists ? calls_made(reader, json_array()) : NULL,
           *object = lists ? NULL : calls_made(reader, json_object());
    bool good = array || object;
    for (; good && s.length > 0; s = span_trim(s))
        good = span_starts(s, layout->key) &&
               add_member(reader, layout, &s, type.schema, object, array, depth - 1);
    if (good) return lists ? array : object;
    json_decref(array);
    json_decref(object);
    return typed_value(reader, text, type.types);
}

json_t *layout_value_of(struct calls_reader *reader, const struct reply_layout *layout, struct span text,
                        struct argument_type type)
{
    if (layout->nested) return nested_value(reader, layout, text, type, 32);
    if (layout->lines && span_starts(text, "\n")) text = span_from(text, 1);
    if (layout->lines && text.length > 0 && text.data[text.length - 1] == '\n') text.length--;
    return typed_value(reader, without_cdata(text), type.types);
}

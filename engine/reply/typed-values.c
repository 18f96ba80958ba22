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

/* The types that the tools allow for a parameter. */
static unsigned types_of_parameter(const json_t *tools, struct span name, struct span key)
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
        return types_of_schema(json_object_getn(properties, key.data, key.length), 2);
    }
    return ANY;
}

/* What templates write that print values as they are: Python's words and literals. */
static json_t *python_value(struct span text, unsigned types)
{
    if (types == ANY) return NULL;
    if (types & FLAG && span_is(text, "True")) return json_true();
    if (types & FLAG && span_is(text, "False")) return json_false();
    if (types & NOTHING && span_is(text, "None")) return json_null();
    bool list = types & ARRAY && span_starts(text, "["), object = types & OBJECT && span_starts(text, "{");
    return list || object ? literal_value(text.data, text.length) : NULL;
}

/* The value that a text stands for: a string where only strings are allowed, else what its JSON says, if that
 * is allowed. */
static json_t *typed_value(struct span text, unsigned types)
{
    struct span trimmed = span_trim(text);
    json_t *value = types == TEXT ? NULL : span_json(trimmed);
    if (!value && types != TEXT) value = python_value(trimmed, types);
    /* A string that may stand without quotes keeps those that it has. */
    if (value && types & TEXT && types != ANY && (json_is_string(value) || !(type_of_value(value) & types))) {
        json_decref(value);
        value = NULL;
    }
    return value ? value : json_stringn(text.data, text.length);
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

unsigned layout_types_of(const struct reply_layout *layout, const json_t *tools, struct span name,
                         struct span key, struct span type)
{
    if (!layout->after_type[0]) return types_of_parameter(tools, name, key);
    return span_is(type, "true") ? TEXT : ANY;
}

json_t *layout_value_of(struct span text, unsigned types)
{
    if (span_starts(text, "\n")) text = span_from(text, 1);
    if (text.length > 0 && text.data[text.length - 1] == '\n') text.length--;
    return typed_value(without_cdata(text), types);
}

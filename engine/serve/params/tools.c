/* tools.c: OpenAI's tools, the choice among them, and schemas with "strict". See params.h. */
#include "serve/params/params.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/json-read.h"

#define MAX_TOOLS        1024
#define MAX_TOOLS_STRICT 128 /* as in OpenAI's API */
#define MAX_NAME_STRICT  64  /* as in OpenAI's */

/* ---- Offering ---- */

/* Letters, digits, _ and -, not too many. */
static bool tools_is_name(const json_t *name, size_t max)
{
    static const char allowed[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-";
    const char *text = json_string_value(name);
    size_t length = json_string_length(name);
    return text && length > 0 && length <= max && strspn(text, allowed) == length;
}

static const char *const function_keys[] = {"name", "description", "parameters", "strict", NULL};

static bool check_function(const json_t *function, const char *where, struct api_error *error)
{
    int max = error->lenient ? PARAMS_MAX_TOOL_NAME : MAX_NAME_STRICT;
    const json_t *parameters = json_object_get(function, "parameters"),
                 *description = json_object_get(function, "description"),
                 *strict = json_object_get(function, "strict");
    if (!tools_is_name(json_object_get(function, "name"), (size_t)max))
        return api_error_in(error, where,
                            "\"%s\" should have a \"name\" of up to %d letters, digits, _ and -", where, max);
    if (!params_check_keys(function, where, function_keys, error)) return false;
    if (parameters && !json_is_null(parameters) && !json_is_object(parameters))
        return api_error_in(error, where, "\"%s.parameters\" should be a JSON schema, an object", where);
    if (description && !json_is_null(description) && !json_is_string(description))
        return api_error_in(error, where, "\"%s.description\" should be a text", where);
    if (strict && !json_is_null(strict) && !json_is_boolean(strict))
        return api_error_in(error, where, "\"%s.strict\" should be true or false", where);
    return !json_is_true(strict) || strict_check(parameters, where, error);
}

/* A function with those of its keys that templates know, in their order. */
static json_t *known_function(const json_t *function)
{
    json_t *known = json_object(), *value;
    const char *key;
    json_object_foreach((json_t *)(size_t)function, key, value)
    {
        size_t i = 0;
        while (function_keys[i] && strcmp(function_keys[i], key) != 0) i++;
        if (function_keys[i] && json_object_set(known, key, value) != 0) {
            json_decref(known);
            return NULL;
        }
    }
    return known;
}

bool params_offer(struct params *params, const json_t *function, json_t *origin, const char *where,
                  struct api_error *error)
{
    int max = error->lenient ? MAX_TOOLS : MAX_TOOLS_STRICT;
    bool good = check_function(function, where, error);
    if (good && json_array_size(params->tools) >= (size_t)max)
        good = api_error_in(error, "tools", "\"tools\" has more than %d tools", max);
    if (good && origin) {
        if (!params->origins) params->origins = json_object();
        good = json_object_set(params->origins, json_string_value(json_object_get(function, "name")),
                               origin) == 0 ||
               api_error_memory(error);
    }
    json_decref(origin);
    if (!good) return false;
    if (!params->tools) params->tools = json_array();
    json_t *tool = json_pack("{s:s, s:o}", "type", "function", "function", known_function(function));
    return (tool && json_array_append_new(params->tools, tool) == 0) || api_error_memory(error);
}

/* What the model has to know about a tool whose input is a text: a new reference. */
static json_t *custom_description(const json_t *description, const json_t *format)
{
    const char *text = json_is_string(description) ? json_string_value(description) : "",
               *definition = json_string_value(json_object_get(format, "definition")),
               *syntax = json_string_value(json_object_get(format, "syntax"));
    size_t length = json_string_length(description); /* it may have NULs */
    if (!definition) return json_stringn(text, length);
    return json_pack("s%++++++", text, length, length > 0 ? "\n\n" : "", "The input has to fit this grammar",
                     syntax ? " (" : "", syntax ? syntax : "", syntax ? "):\n" : ":\n", definition);
}

bool params_offer_custom(struct params *params, const json_t *tool, json_t *origin, const char *where,
                         struct api_error *error)
{
    const json_t *format = json_object_get(tool, "format"),
                 *description = json_object_get(tool, "description");
    const char *type = json_string_value(json_object_get(format, "type"));
    bool good = !description || json_is_null(description) || json_is_string(description) ||
                api_error_in(error, where, "\"%s.description\" should be a text", where);
    static const char *const keys[] = {"type", "syntax", "definition", "grammar", NULL};
    char within[160];
    snprintf(within, sizeof within, "%.140s.format", where);
    good = good && params_check_keys(format, within, keys, error);
    /* OpenAI's chat has the grammar's fields in an object of their own. */
    const json_t *inner = json_object_get(format, "grammar");
    if (json_is_object(inner)) {
        snprintf(within, sizeof within, "%.140s.format.grammar", where);
        good = good && params_check_keys(inner, within, keys, error);
        format = inner;
    }
    if (good && type && strcmp(type, "grammar") == 0)
        lenient_say(error->lenient, "tools of type custom",
                    "the grammar of a tool of type custom is only shown to the model, not enforced");
    json_t *function =
        json_pack("{s:O?, s:o, s:{s:s, s:{s:{s:s, s:s}}, s:[s], s:b}}", "name", json_object_get(tool, "name"),
                  "description", custom_description(description, format), "parameters", "type", "object",
                  "properties", "input", "type", "string", "description", "The whole input, as text",
                  "required", "input", "additionalProperties", 0);
    if (good && !function) good = api_error_memory(error);
    if (good) good = params_offer(params, function, json_incref(origin), where, error);
    json_decref(origin);
    json_decref(function);
    return good;
}

bool params_leave_out(const char *type, struct api_error *error)
{
    char name[LENIENT_NAME_SIZE];
    snprintf(name, sizeof name, "tools of type %s", type);
    lenient_say(error->lenient, name, "tools of type %.60s are not here, and left out of prompts", type);
    return true;
}

/* A tool of chat. */
static bool add_tool(struct params *params, const json_t *tool, const char *where, struct api_error *error)
{
    static const char *const keys[] = {"type", "function", NULL}, *const custom[] = {"type", "custom", NULL},
                             *const inner[] = {"name", "description", "format", NULL};
    const char *type = json_string_value(json_object_get(tool, "type"));
    const json_t *own = json_object_get(tool, "custom");
    char param[160];
    if (!type) return api_error_in(error, where, "a tool should be an object with a \"type\"");
    snprintf(param, sizeof param, "%.120s.%.30s", where, type);
    if (strcmp(type, "function") == 0)
        return params_check_keys(tool, where, keys, error) &&
               params_offer(params, json_object_get(tool, "function"), NULL, param, error);
    if (!error->lenient)
        return api_error_in(error, where, "tools of type \"%.60s\" are not supported, only functions", type);
    if (strcmp(type, "custom") == 0)
        return params_check_keys(tool, where, custom, error) && params_check_keys(own, param, inner, error) &&
               params_offer_custom(
                   params, own, json_pack("{s:O?, s:b}", "name", json_object_get(own, "name"), "custom", 1),
                   param, error);
    return params_leave_out(type, error);
}

bool params_read_tools(struct params *params, const char *name, json_t *value, struct api_error *error)
{
    size_t i;
    json_t *tool;
    if (!json_is_array(value)) return api_error_in(error, name, "\"%s\" should be an array", name);
    json_decref(params->tools);
    params->tools = NULL;
    json_array_foreach(value, i, tool)
    {
        char param[160];
        snprintf(param, sizeof param, "%.80s[%zu]", name, i);
        if (!add_tool(params, tool, param, error)) return false;
    }
    return true;
}

static bool has_tool(const struct params *params, const char *name)
{
    for (size_t i = 0; i < json_array_size(params->tools); i++) {
        const json_t *function = json_object_get(json_array_get(params->tools, i), "function");
        if (strcmp(json_string_value(json_object_get(function, "name")), name) == 0) return true;
    }
    return false;
}

const char *params_offered_name(const struct params *params, const char *name, const char *space)
{
    const char *offered, *found = NULL;
    json_t *origin;
    if (!space && has_tool(params, name) && !json_object_get(params_origin(params, name), "namespace"))
        return name;
    json_object_foreach(params->origins, offered, origin)
    {
        const char *own = json_string_value(json_object_get(origin, "name")),
                   *within = json_string_value(json_object_get(origin, "namespace"));
        if (!found && own && strcmp(own, name) == 0 && (!space || (within && strcmp(within, space) == 0)))
            found = offered;
    }
    return found;
}

const json_t *params_origin(const struct params *params, const char *name)
{
    return name ? json_object_get(params->origins, name) : NULL;
}

bool params_is_custom(const struct params *params, const char *name)
{
    return json_is_true(json_object_get(params_origin(params, name), "custom"));
}

/* ---- Tools whose input is a text ---- */

json_t *params_custom_arguments(json_t *input)
{
    json_t *object = json_pack("{s:O}", "input", input);
    char *text = object ? json_dumps(object, JSON_COMPACT) : NULL;
    json_t *arguments = text ? json_string(text) : NULL;
    json_decref(object);
    free(text);
    return arguments;
}

/* Arguments that end in the middle of their text, at most with a part of an escape sequence, and maybe of a
 * pair of them. */
#define MAX_ESCAPE 12

/* False: no memory. */
static bool complete_arguments(const char *text, size_t size, json_t **object)
{
    char *copy = malloc(size + 3);
    *object = NULL;
    for (size_t n = size; copy && !*object && n > 0 && n + MAX_ESCAPE > size; n--) {
        memcpy(copy, text, n);
        memcpy(copy + n, "\"}", 2);
        *object = json_read(copy, n + 2, JSON_ALLOW_NUL, NULL);
    }
    free(copy);
    return copy != NULL;
}

json_t *params_custom_input(const json_t *arguments)
{
    const char *text = json_string_value(arguments);
    size_t size = json_string_length(arguments);
    if (!text) return json_string("");
    json_t *object = json_read(text, size, JSON_ALLOW_NUL, NULL);
    if (!object && !complete_arguments(text, size, &object)) return NULL;
    json_t *input = json_object_get(object, "input");
    input = json_is_string(input) ? json_incref(input) : json_string("");
    json_decref(object);
    return input;
}

/* ---- Choosing ---- */

/* All functions of a namespace. */
static bool allow_namespace(struct params *params, const char *space, struct api_error *error)
{
    const char *offered;
    json_t *origin;
    json_object_foreach(params->origins, offered, origin)
    {
        const char *within = json_string_value(json_object_get(origin, "namespace"));
        if (within && strcmp(within, space) == 0 &&
            json_object_set_new(params->allowed, offered, json_true()) != 0)
            return api_error_memory(error);
    }
    return true;
}

static bool allow_tool(struct params *params, const json_t *tool, const char *where, struct api_error *error)
{
    static const char *const keys[] = {"type", "name", "namespace", "function", "custom", NULL},
                             *const inner_keys[] = {"name", NULL};
    const char *type = json_string_value(json_object_get(tool, "type"));
    if (!type) return api_error_in(error, where, "a tool should be an object with a \"type\"");
    const json_t *inner = json_object_get(tool, type);
    const char *word = json_string_value(json_object_get(inner ? inner : tool, "name")),
               *space = json_string_value(json_object_get(tool, "namespace"));
    bool function = strcmp(type, "function") == 0 || strcmp(type, "custom") == 0;
    if (word && strcmp(type, "namespace") == 0) return allow_namespace(params, word, error);
    if (!word || !function) return true; /* a hosted tool, which isn't offered anyway */
    if (!params_check_keys(tool, where, keys, error) || !params_check_keys(inner, where, inner_keys, error))
        return false;
    const char *offered = params_offered_name(params, word, space);
    if (!offered && space) return true;
    /* In chat, the tools may not have been read yet. */
    return json_object_set_new(params->allowed, offered ? offered : word, json_true()) == 0 ||
           api_error_memory(error);
}

/* {"mode": "auto", "tools": […]}: the others are not offered. Their names are in `allowed` until all is
 * read. */
static bool read_allowed(struct params *params, const char *name, const json_t *value,
                         struct api_error *error)
{
    /* In the Responses API, the choice itself is such an object. */
    static const char *const keys[] = {"mode", "tools", "type", NULL};
    const char *mode = json_string_value(json_object_get(value, "mode"));
    json_t *tools = json_object_get(value, "tools"), *tool;
    size_t i;
    if (!mode || (strcmp(mode, "auto") != 0 && strcmp(mode, "required") != 0) || json_array_size(tools) == 0)
        return api_error_in(error, name,
                            "\"%s\" of type allowed_tools needs the \"mode\" auto or required, and \"tools\"",
                            name);
    if (!params_check_keys(value, name, keys, error)) return false;
    params->tool_choice = strcmp(mode, "auto") == 0 ? TOOL_CHOICE_AUTO : TOOL_CHOICE_REQUIRED;
    json_decref(params->allowed);
    params->allowed = json_object();
    json_array_foreach(tools, i, tool)
    {
        char where[96];
        snprintf(where, sizeof where, "%.60s.tools[%zu]", name, i);
        if (!allow_tool(params, tool, where, error)) return false;
    }
    return true;
}

/* "auto", "none", "required", or {"type": "function", "function": {"name": …}} */
bool params_read_tool_choice(struct params *params, const char *name, json_t *value, struct api_error *error)
{
    static const char *const keys[] = {"type", "function", "custom", NULL}, *const inner[] = {"name", NULL},
                             *const allowed[] = {"type", "allowed_tools", NULL};
    const char *word = json_string_value(value), *type = json_string_value(json_object_get(value, "type"));
    params->tool = NULL;
    if (word && strcmp(word, "auto") == 0) return params->tool_choice = TOOL_CHOICE_AUTO, true;
    if (word && strcmp(word, "none") == 0) return params->tool_choice = TOOL_CHOICE_NONE, true;
    if (word && (strcmp(word, "required") == 0 || strcmp(word, "any") == 0))
        return params->tool_choice = TOOL_CHOICE_REQUIRED, true;
    if (error->lenient && type && strcmp(type, "allowed_tools") == 0)
        return params_check_keys(value, name, allowed, error) &&
               read_allowed(params, name, json_object_get(value, "allowed_tools"), error);
    bool custom = error->lenient && type && strcmp(type, "custom") == 0;
    const json_t *named = json_object_get(value, custom ? "custom" : "function");
    params->tool = json_string_value(json_object_get(named, "name"));
    if (!type || (!custom && strcmp(type, "function") != 0) || !params->tool)
        return api_error_in(
            error, name,
            "\"%s\" should be none, auto, required, or {\"type\": \"function\", \"function\": "
            "{\"name\": …}}",
            name);
    params->tool_choice = TOOL_CHOICE_NAMED;
    return params_check_keys(value, name, keys, error) &&
           params_check_keys(named, "tool_choice.function", inner, error);
}

bool params_read_parallel(struct params *params, const char *name, json_t *value, struct api_error *error)
{
    bool several;
    if (!params_flag(name, value, &several, error)) return false;
    params->one_call = !several;
    return true;
}

bool params_forces_call(const struct params *params)
{
    return params->tool_choice == TOOL_CHOICE_REQUIRED || params->tool_choice == TOOL_CHOICE_NAMED;
}

/* Only the tools that are allowed are offered. */
static void keep_allowed(struct params *params)
{
    for (size_t i = json_array_size(params->tools); params->allowed && i-- > 0;) {
        const json_t *function = json_object_get(json_array_get(params->tools, i), "function");
        if (!json_object_get(params->allowed, json_string_value(json_object_get(function, "name"))))
            json_array_remove(params->tools, i);
    }
    if (params->tools && json_array_size(params->tools) == 0) {
        json_decref(params->tools);
        params->tools = NULL;
    }
}

bool params_check_tools(struct params *params, struct api_error *error)
{
    bool forced = params_forces_call(params);
    keep_allowed(params);
    if (forced && !params->tools)
        return api_error_in(error, "tool_choice",
                            "\"tool_choice\" asks for a call, but there are no \"tools\"");
    if (params->tool_choice == TOOL_CHOICE_NAMED && !has_tool(params, params->tool))
        return api_error_in(error, "tool_choice",
                            "\"tool_choice\" names \"%.64s\", which is not in \"tools\"", params->tool);
    /* A call has no text that could fit a schema; but a grammar is for the whole reply. */
    bool moot = error->lenient && params->options.constraint.kind != ENGINE_GRAMMAR_GBNF;
    if (forced && params->options.constraint.kind && !moot)
        return api_error_in(error, params->constrained_by,
                            "\"%s\" constrains the text, but \"tool_choice\" asks for a call instead of one",
                            params->constrained_by);
    return true;
}

/* ---- Schemas with "strict" ---- */

/* With "strict": true they may have no keyword that would be ignored. Grammars ignore those that they don't
 * know (docs/grammars.md), because that is what JSON schema says; "requried" then restricts nothing. */

#define MAX_DEPTH 200

enum kind {
    PLAIN, /* says something that is no schema, or is an annotation */
    SCHEMA,
    SCHEMAS,       /* an array of them, or one */
    NAMED_SCHEMAS, /* an object of them */
};

/* What docs/grammars.md lists, and annotations. */
static const struct {
    const char *name;
    enum kind kind;
} keywords[] = {
    {"type", PLAIN},
    {"nullable", PLAIN},
    {"enum", PLAIN},
    {"const", PLAIN},
    {"not", SCHEMA},
    {"properties", NAMED_SCHEMAS},
    {"required", PLAIN},
    {"additionalProperties", SCHEMA},
    {"patternProperties", NAMED_SCHEMAS},
    {"propertyNames", SCHEMA},
    {"minProperties", PLAIN},
    {"maxProperties", PLAIN},
    {"items", SCHEMAS},
    {"prefixItems", SCHEMAS},
    {"additionalItems", SCHEMA},
    {"minItems", PLAIN},
    {"maxItems", PLAIN},
    {"uniqueItems", PLAIN},
    {"contains", SCHEMA},
    {"minContains", PLAIN},
    {"maxContains", PLAIN},
    {"minLength", PLAIN},
    {"maxLength", PLAIN},
    {"pattern", PLAIN},
    {"format", PLAIN},
    {"minimum", PLAIN},
    {"maximum", PLAIN},
    {"exclusiveMinimum", PLAIN},
    {"exclusiveMaximum", PLAIN},
    {"multipleOf", PLAIN},
    {"anyOf", SCHEMAS},
    {"oneOf", SCHEMAS},
    {"allOf", SCHEMAS},
    {"if", SCHEMA},
    {"then", SCHEMA},
    {"else", SCHEMA},
    {"dependentRequired", PLAIN},
    {"dependentSchemas", NAMED_SCHEMAS},
    {"dependencies", NAMED_SCHEMAS},
    {"unevaluatedItems", SCHEMA},
    {"unevaluatedProperties", SCHEMA},
    {"$ref", PLAIN},
    {"$dynamicRef", PLAIN},
    {"$recursiveRef", PLAIN},
    {"$defs", NAMED_SCHEMAS},
    {"definitions", NAMED_SCHEMAS},
    {"$id", PLAIN},
    {"id", PLAIN},
    {"$anchor", PLAIN},
    {"$dynamicAnchor", PLAIN},
    {"$recursiveAnchor", PLAIN},
    {"$schema", PLAIN},
    {"$vocabulary", PLAIN},
    {"$comment", PLAIN},
    {"title", PLAIN},
    {"description", PLAIN},
    {"default", PLAIN},
    {"example", PLAIN},
    {"examples", PLAIN},
    {"deprecated", PLAIN},
    {"readOnly", PLAIN},
    {"writeOnly", PLAIN},
    {"contentEncoding", PLAIN},
    {"contentMediaType", PLAIN},
    {"contentSchema", PLAIN},
};
#define N_KEYWORDS (sizeof keywords / sizeof *keywords)

/* A schema within others, for the message: "#/properties/name". */
struct place {
    const struct place *above;
    const char *keyword, *name;
    unsigned depth;
};

static void put_place(const struct place *place, char *text, size_t size)
{
    if (!place) {
        snprintf(text, size, "#");
        return;
    }
    put_place(place->above, text, size);
    size_t length = strlen(text);
    snprintf(text + length, size - length, "/%.40s%s%.40s", place->keyword, place->name ? "/" : "",
             place->name ? place->name : "");
}

static bool strict_check_schema(const json_t *schema, const struct place *place, const char *param,
                                struct api_error *error);

static bool check_below(const json_t *value, enum kind kind, const struct place *above, const char *keyword,
                        const char *param, struct api_error *error)
{
    struct place place = {.above = above, .keyword = keyword, .depth = above ? above->depth + 1 : 1};
    const json_t *item;
    size_t i;
    bool good = true;
    if (kind == PLAIN) return true;
    if (kind == NAMED_SCHEMAS) {
        json_object_foreach((json_t *)(size_t)value, place.name, item) good =
            good && strict_check_schema(item, &place, param, error);
        return good;
    }
    if (!json_is_array(value)) return strict_check_schema(value, &place, param, error);
    json_array_foreach(value, i, item)
    {
        char number[24];
        snprintf(number, sizeof number, "%zu", i);
        place.name = number;
        good = good && strict_check_schema(item, &place, param, error);
    }
    return good;
}

/* What is no schema at all, and what is nested too deep, is for those who enforce it to refuse. */
static bool strict_check_schema(const json_t *schema, const struct place *place, const char *param,
                                struct api_error *error)
{
    const char *name;
    const json_t *value;
    bool good = true;
    if (place && place->depth > MAX_DEPTH) return true;
    json_object_foreach((json_t *)(size_t)schema, name, value)
    {
        char where[200];
        size_t i = 0;
        while (i < N_KEYWORDS && strcmp(keywords[i].name, name) != 0) i++;
        if (!good || strncmp(name, "x-", 2) == 0) continue;
        if (i < N_KEYWORDS) {
            good = check_below(value, keywords[i].kind, place, keywords[i].name, param, error);
            continue;
        }
        put_place(place, where, sizeof where);
        good = api_error_in(
            error, param,
            "JSON schema, %s: \"%.60s\" is not a keyword that can be enforced, which \"strict\" asks "
            "for",
            where, name);
    }
    return good;
}

bool strict_check(const json_t *schema, const char *param, struct api_error *error)
{
    return strict_check_schema(schema, NULL, param, error);
}

bool strict_check_format(const json_t *format, const char *param, struct api_error *error)
{
    const json_t *inner = json_object_get(format, "json_schema");
    const json_t *strict = json_object_get(inner ? inner : format, "strict"),
                 *schema = json_object_get(inner ? inner : format, "schema");
    if (strict && !json_is_null(strict) && !json_is_boolean(strict))
        return api_error_in(error, param, "\"strict\" should be true or false");
    return !json_is_true(strict) || strict_check(schema, param, error);
}

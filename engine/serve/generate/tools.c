/* tools.c: OpenAI's tools and the choice among them. See ask.h. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/json-read.h"
#include "serve/generate/ask.h"
#include "serve/generate/lenient.h"
#include "serve/generate/strict.h"

#define MOST_TOOLS        1024
#define MOST_TOOLS_STRICT 128 /* as in OpenAI's API */
#define LONGEST_NAME_CHAT 64  /* as in OpenAI's */

/* ---- Offering ---- */

/* Letters, digits, _ and -, not too many. */
static bool is_name(const json_t *name, size_t most)
{
    static const char allowed[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-";
    const char *text = json_string_value(name);
    size_t length = json_string_length(name);
    return text && length > 0 && length <= most && strspn(text, allowed) == length;
}

static const char *const function_keys[] = {"name", "description", "parameters", "strict", NULL};

static bool check_function(const json_t *function, const char *where, struct mistake *mistake)
{
    int most = mistake->lenient ? ASK_LONGEST_NAME : LONGEST_NAME_CHAT;
    const json_t *parameters = json_object_get(function, "parameters"),
                 *description = json_object_get(function, "description"),
                 *strict = json_object_get(function, "strict");
    if (!is_name(json_object_get(function, "name"), (size_t)most))
        return mistake_in(mistake, where,
                          "\"%s\" should have a \"name\" of up to %d letters, digits, _ and -", where, most);
    if (!ask_check_keys(function, where, function_keys, mistake)) return false;
    if (parameters && !json_is_null(parameters) && !json_is_object(parameters))
        return mistake_in(mistake, where, "\"%s.parameters\" should be a JSON schema, an object", where);
    if (description && !json_is_null(description) && !json_is_string(description))
        return mistake_in(mistake, where, "\"%s.description\" should be a text", where);
    if (strict && !json_is_null(strict) && !json_is_boolean(strict))
        return mistake_in(mistake, where, "\"%s.strict\" should be true or false", where);
    return !json_is_true(strict) || strict_check(parameters, where, mistake);
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

bool ask_offer(struct ask *ask, const json_t *function, json_t *origin, const char *where,
               struct mistake *mistake)
{
    int most = mistake->lenient ? MOST_TOOLS : MOST_TOOLS_STRICT;
    bool good = check_function(function, where, mistake);
    if (good && json_array_size(ask->tools) >= (size_t)most)
        good = mistake_in(mistake, "tools", "\"tools\" has more than %d tools", most);
    if (good && origin) {
        if (!ask->origins) ask->origins = json_object();
        good = json_object_set(ask->origins, json_string_value(json_object_get(function, "name")), origin) ==
                   0 ||
               mistake_memory(mistake);
    }
    json_decref(origin);
    if (!good) return false;
    if (!ask->tools) ask->tools = json_array();
    json_t *tool = json_pack("{s:s, s:o}", "type", "function", "function", known_function(function));
    return (tool && json_array_append_new(ask->tools, tool) == 0) || mistake_memory(mistake);
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

bool ask_offer_custom(struct ask *ask, const json_t *tool, json_t *origin, const char *where,
                      struct mistake *mistake)
{
    const json_t *format = json_object_get(tool, "format"),
                 *description = json_object_get(tool, "description");
    const char *type = json_string_value(json_object_get(format, "type"));
    bool good = !description || json_is_null(description) || json_is_string(description) ||
                mistake_in(mistake, where, "\"%s.description\" should be a text", where);
    static const char *const keys[] = {"type", "syntax", "definition", "grammar", NULL};
    char within[160];
    snprintf(within, sizeof within, "%.140s.format", where);
    good = good && ask_check_keys(format, within, keys, mistake);
    /* OpenAI's chat has the grammar's fields in an object of their own. */
    const json_t *inner = json_object_get(format, "grammar");
    if (json_is_object(inner)) {
        snprintf(within, sizeof within, "%.140s.format.grammar", where);
        good = good && ask_check_keys(inner, within, keys, mistake);
        format = inner;
    }
    if (good && type && strcmp(type, "grammar") == 0)
        lenient_say(mistake->lenient, "tools of type custom",
                    "the grammar of a tool of type custom is only shown to the model, not enforced");
    json_t *function =
        json_pack("{s:O?, s:o, s:{s:s, s:{s:{s:s, s:s}}, s:[s], s:b}}", "name", json_object_get(tool, "name"),
                  "description", custom_description(description, format), "parameters", "type", "object",
                  "properties", "input", "type", "string", "description", "The whole input, as text",
                  "required", "input", "additionalProperties", 0);
    if (good && !function) good = mistake_memory(mistake);
    if (good) good = ask_offer(ask, function, json_incref(origin), where, mistake);
    json_decref(origin);
    json_decref(function);
    return good;
}

bool ask_leave_out(const char *type, struct mistake *mistake)
{
    char name[LENIENT_NAME_SIZE];
    snprintf(name, sizeof name, "tools of type %s", type);
    lenient_say(mistake->lenient, name, "tools of type %.60s are not here, and left out of prompts", type);
    return true;
}

/* A tool of chat. */
static bool add_tool(struct ask *ask, const json_t *tool, const char *where, struct mistake *mistake)
{
    static const char *const keys[] = {"type", "function", NULL}, *const custom[] = {"type", "custom", NULL},
                             *const inner[] = {"name", "description", "format", NULL};
    const char *type = json_string_value(json_object_get(tool, "type"));
    const json_t *own = json_object_get(tool, "custom");
    char param[160];
    if (!type) return mistake_in(mistake, where, "a tool should be an object with a \"type\"");
    snprintf(param, sizeof param, "%.120s.%.30s", where, type);
    if (strcmp(type, "function") == 0)
        return ask_check_keys(tool, where, keys, mistake) &&
               ask_offer(ask, json_object_get(tool, "function"), NULL, param, mistake);
    if (!mistake->lenient)
        return mistake_in(mistake, where, "tools of type \"%.60s\" are not supported, only functions", type);
    if (strcmp(type, "custom") == 0)
        return ask_check_keys(tool, where, custom, mistake) && ask_check_keys(own, param, inner, mistake) &&
               ask_offer_custom(ask, own,
                                json_pack("{s:O?, s:b}", "name", json_object_get(own, "name"), "custom", 1),
                                param, mistake);
    return ask_leave_out(type, mistake);
}

bool ask_read_tools(struct ask *ask, const char *name, json_t *value, struct mistake *mistake)
{
    size_t i;
    json_t *tool;
    if (!json_is_array(value)) return mistake_in(mistake, name, "\"%s\" should be an array", name);
    json_decref(ask->tools);
    ask->tools = NULL;
    json_array_foreach(value, i, tool)
    {
        char param[160];
        snprintf(param, sizeof param, "%.80s[%zu]", name, i);
        if (!add_tool(ask, tool, param, mistake)) return false;
    }
    return true;
}

static bool has_tool(const struct ask *ask, const char *name)
{
    for (size_t i = 0; i < json_array_size(ask->tools); i++) {
        const json_t *function = json_object_get(json_array_get(ask->tools, i), "function");
        if (strcmp(json_string_value(json_object_get(function, "name")), name) == 0) return true;
    }
    return false;
}

const char *ask_offered_name(const struct ask *ask, const char *name, const char *space)
{
    const char *offered, *found = NULL;
    json_t *origin;
    if (!space && has_tool(ask, name) && !json_object_get(ask_origin(ask, name), "namespace")) return name;
    json_object_foreach(ask->origins, offered, origin)
    {
        const char *own = json_string_value(json_object_get(origin, "name")),
                   *within = json_string_value(json_object_get(origin, "namespace"));
        if (!found && own && strcmp(own, name) == 0 && (!space || (within && strcmp(within, space) == 0)))
            found = offered;
    }
    return found;
}

const json_t *ask_origin(const struct ask *ask, const char *name)
{
    return name ? json_object_get(ask->origins, name) : NULL;
}

bool ask_is_custom(const struct ask *ask, const char *name)
{
    return json_is_true(json_object_get(ask_origin(ask, name), "custom"));
}

/* ---- Tools whose input is a text ---- */

json_t *ask_custom_arguments(json_t *input)
{
    json_t *object = json_pack("{s:O}", "input", input);
    char *text = object ? json_dumps(object, JSON_COMPACT) : NULL;
    json_t *arguments = text ? json_string(text) : NULL;
    json_decref(object);
    free(text);
    return arguments;
}

/* Arguments that end in the middle of their text, at most with a part of an escape sequence, and maybe of a pair of them. */
#define LONGEST_ESCAPE 12

static json_t *complete(const char *text, size_t size)
{
    json_t *object = NULL;
    char *copy = malloc(size + 3);
    for (size_t n = size; copy && !object && n > 0 && n + LONGEST_ESCAPE > size; n--) {
        memcpy(copy, text, n);
        memcpy(copy + n, "\"}", 2);
        object = json_read(copy, n + 2, JSON_ALLOW_NUL, NULL);
    }
    free(copy);
    return object;
}

json_t *ask_custom_input(const json_t *arguments)
{
    const char *text = json_string_value(arguments);
    size_t size = json_string_length(arguments);
    if (!text) return json_string("");
    json_t *object = json_read(text, size, JSON_ALLOW_NUL, NULL);
    if (!object) object = complete(text, size);
    json_t *input = json_object_get(object, "input");
    input = json_is_string(input) ? json_incref(input) : json_string("");
    json_decref(object);
    return input;
}

/* ---- Choosing ---- */

/* All functions of a namespace. */
static bool allow_namespace(struct ask *ask, const char *space, struct mistake *mistake)
{
    const char *offered;
    json_t *origin;
    json_object_foreach(ask->origins, offered, origin)
    {
        const char *within = json_string_value(json_object_get(origin, "namespace"));
        if (within && strcmp(within, space) == 0 &&
            json_object_set_new(ask->allowed, offered, json_true()) != 0)
            return mistake_memory(mistake);
    }
    return true;
}

static bool allow(struct ask *ask, const json_t *tool, const char *where, struct mistake *mistake)
{
    static const char *const keys[] = {"type", "name", "namespace", "function", "custom", NULL},
                             *const inner_keys[] = {"name", NULL};
    const char *type = json_string_value(json_object_get(tool, "type"));
    if (!type) return mistake_in(mistake, where, "a tool should be an object with a \"type\"");
    const json_t *inner = json_object_get(tool, type);
    const char *word = json_string_value(json_object_get(inner ? inner : tool, "name")),
               *space = json_string_value(json_object_get(tool, "namespace"));
    bool function = strcmp(type, "function") == 0 || strcmp(type, "custom") == 0;
    if (word && strcmp(type, "namespace") == 0) return allow_namespace(ask, word, mistake);
    if (!word || !function) return true; /* a hosted tool, which isn't offered anyway */
    if (!ask_check_keys(tool, where, keys, mistake) || !ask_check_keys(inner, where, inner_keys, mistake))
        return false;
    const char *offered = ask_offered_name(ask, word, space);
    if (!offered && space) return true;
    /* In chat, the tools may not have been read yet. */
    return json_object_set_new(ask->allowed, offered ? offered : word, json_true()) == 0 ||
           mistake_memory(mistake);
}

/* {"mode": "auto", "tools": […]}: the others are not offered. Their names are in `allowed` until all is read. */
static bool read_allowed(struct ask *ask, const char *name, const json_t *value, struct mistake *mistake)
{
    /* In the Responses API, the choice itself is such an object. */
    static const char *const keys[] = {"mode", "tools", "type", NULL};
    const char *mode = json_string_value(json_object_get(value, "mode"));
    json_t *tools = json_object_get(value, "tools"), *tool;
    size_t i;
    if (!mode || (strcmp(mode, "auto") != 0 && strcmp(mode, "required") != 0) || json_array_size(tools) == 0)
        return mistake_in(mistake, name,
                          "\"%s\" of type allowed_tools needs the \"mode\" auto or required, and \"tools\"",
                          name);
    if (!ask_check_keys(value, name, keys, mistake)) return false;
    ask->tool_choice = strcmp(mode, "auto") == 0 ? TOOL_CHOICE_AUTO : TOOL_CHOICE_REQUIRED;
    json_decref(ask->allowed);
    ask->allowed = json_object();
    json_array_foreach(tools, i, tool)
    {
        char where[96];
        snprintf(where, sizeof where, "%.60s.tools[%zu]", name, i);
        if (!allow(ask, tool, where, mistake)) return false;
    }
    return true;
}

/* "auto", "none", "required", or {"type": "function", "function": {"name": …}} */
bool ask_read_tool_choice(struct ask *ask, const char *name, json_t *value, struct mistake *mistake)
{
    static const char *const keys[] = {"type", "function", "custom", NULL}, *const inner[] = {"name", NULL},
                             *const allowed[] = {"type", "allowed_tools", NULL};
    const char *word = json_string_value(value), *type = json_string_value(json_object_get(value, "type"));
    ask->tool = NULL;
    if (word && strcmp(word, "auto") == 0) return ask->tool_choice = TOOL_CHOICE_AUTO, true;
    if (word && strcmp(word, "none") == 0) return ask->tool_choice = TOOL_CHOICE_NONE, true;
    if (word && (strcmp(word, "required") == 0 || strcmp(word, "any") == 0))
        return ask->tool_choice = TOOL_CHOICE_REQUIRED, true;
    if (mistake->lenient && type && strcmp(type, "allowed_tools") == 0)
        return ask_check_keys(value, name, allowed, mistake) &&
               read_allowed(ask, name, json_object_get(value, "allowed_tools"), mistake);
    bool custom = mistake->lenient && type && strcmp(type, "custom") == 0;
    const json_t *named = json_object_get(value, custom ? "custom" : "function");
    ask->tool = json_string_value(json_object_get(named, "name"));
    if (!type || (!custom && strcmp(type, "function") != 0) || !ask->tool)
        return mistake_in(mistake, name,
                          "\"%s\" should be none, auto, required, or {\"type\": \"function\", \"function\": "
                          "{\"name\": …}}",
                          name);
    ask->tool_choice = TOOL_CHOICE_NAMED;
    return ask_check_keys(value, name, keys, mistake) &&
           ask_check_keys(named, "tool_choice.function", inner, mistake);
}

bool ask_read_parallel(struct ask *ask, const char *name, json_t *value, struct mistake *mistake)
{
    bool several;
    if (!ask_flag(name, value, &several, mistake)) return false;
    ask->one_call = !several;
    return true;
}

bool ask_forces_call(const struct ask *ask)
{
    return ask->tool_choice == TOOL_CHOICE_REQUIRED || ask->tool_choice == TOOL_CHOICE_NAMED;
}

/* Only the tools that are allowed are offered. */
static void keep_allowed(struct ask *ask)
{
    for (size_t i = json_array_size(ask->tools); ask->allowed && i-- > 0;) {
        const json_t *function = json_object_get(json_array_get(ask->tools, i), "function");
        if (!json_object_get(ask->allowed, json_string_value(json_object_get(function, "name"))))
            json_array_remove(ask->tools, i);
    }
    if (ask->tools && json_array_size(ask->tools) == 0) {
        json_decref(ask->tools);
        ask->tools = NULL;
    }
}

bool ask_check_tools(struct ask *ask, struct mistake *mistake)
{
    bool forced = ask_forces_call(ask);
    keep_allowed(ask);
    if (forced && !ask->tools)
        return mistake_in(mistake, "tool_choice",
                          "\"tool_choice\" asks for a call, but there are no \"tools\"");
    if (ask->tool_choice == TOOL_CHOICE_NAMED && !has_tool(ask, ask->tool))
        return mistake_in(mistake, "tool_choice",
                          "\"tool_choice\" names \"%.64s\", which is not in \"tools\"", ask->tool);
    /* A call has no text that could fit a schema; but a grammar is for the whole reply. */
    bool moot = mistake->lenient && ask->options.constraint.kind != ENGINE_GRAMMAR_GBNF;
    if (forced && ask->options.constraint.kind && !moot)
        return mistake_in(mistake, ask->constrained_by,
                          "\"%s\" constrains the text, but \"tool_choice\" asks for a call instead of one",
                          ask->constrained_by);
    return true;
}

/* tools.c: OpenAI's tools and the choice among them. See ask.h. */
#include <stdio.h>
#include <string.h>

#include "serve/generate/ask.h"
#include "serve/generate/strict.h"

#define MOST_TOOLS 128

/* Letters, digits, _ and -, at most 64. */
static bool is_name(const json_t *name)
{
    static const char allowed[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-";
    const char *text = json_string_value(name);
    size_t length = json_string_length(name);
    return text && length > 0 && length <= 64 && strspn(text, allowed) == length;
}

static bool check_function(const json_t *function, const char *where, struct mistake *mistake)
{
    static const char *const keys[] = {"name", "description", "parameters", "strict", NULL};
    const json_t *parameters = json_object_get(function, "parameters"),
                 *description = json_object_get(function, "description"),
                 *strict = json_object_get(function, "strict");
    if (!is_name(json_object_get(function, "name")))
        return mistake_in(mistake, where,
                          "\"%s\" should have a \"name\" of up to 64 letters, digits, _ and -", where);
    if (!ask_check_keys(function, where, keys, mistake)) return false;
    if (parameters && !json_is_null(parameters) && !json_is_object(parameters))
        return mistake_in(mistake, where, "\"%s.parameters\" should be a JSON schema, an object", where);
    if (description && !json_is_null(description) && !json_is_string(description))
        return mistake_in(mistake, where, "\"%s.description\" should be a text", where);
    if (strict && !json_is_null(strict) && !json_is_boolean(strict))
        return mistake_in(mistake, where, "\"%s.strict\" should be true or false", where);
    return !json_is_true(strict) || strict_check(parameters, where, mistake);
}

static bool check_tool(const json_t *tool, const char *where, struct mistake *mistake)
{
    static const char *const keys[] = {"type", "function", NULL};
    const char *type = json_string_value(json_object_get(tool, "type"));
    char param[160];
    if (!type) return mistake_in(mistake, where, "a tool should be an object with a \"type\"");
    if (strcmp(type, "function") != 0)
        return mistake_in(mistake, where, "tools of type \"%.60s\" are not supported, only functions", type);
    if (!ask_check_keys(tool, where, keys, mistake)) return false;
    snprintf(param, sizeof param, "%.120s.function", where);
    return check_function(json_object_get(tool, "function"), param, mistake);
}

bool ask_read_tools(struct ask *ask, const char *name, json_t *value, struct mistake *mistake)
{
    size_t i;
    json_t *tool;
    if (!json_is_array(value)) return mistake_in(mistake, name, "\"%s\" should be an array", name);
    if (json_array_size(value) > MOST_TOOLS)
        return mistake_in(mistake, name, "\"%s\" has more than %d tools", name, MOST_TOOLS);
    json_array_foreach(value, i, tool)
    {
        char param[160];
        snprintf(param, sizeof param, "%.80s[%zu]", name, i);
        if (!check_tool(tool, param, mistake)) return false;
    }
    json_decref(ask->tools);
    ask->tools = json_array_size(value) > 0 ? json_incref(value) : NULL;
    return true;
}

/* "auto", "none", "required", or {"type": "function", "function": {"name": …}} */
bool ask_read_tool_choice(struct ask *ask, const char *name, json_t *value, struct mistake *mistake)
{
    const char *word = json_string_value(value), *type = json_string_value(json_object_get(value, "type"));
    ask->tool = NULL;
    if (word && strcmp(word, "auto") == 0) return ask->tool_choice = TOOL_CHOICE_AUTO, true;
    if (word && strcmp(word, "none") == 0) return ask->tool_choice = TOOL_CHOICE_NONE, true;
    if (word && (strcmp(word, "required") == 0 || strcmp(word, "any") == 0))
        return ask->tool_choice = TOOL_CHOICE_REQUIRED, true;
    static const char *const keys[] = {"type", "function", NULL}, *const inner[] = {"name", NULL};
    ask->tool = json_string_value(json_object_get(json_object_get(value, "function"), "name"));
    if (!type || strcmp(type, "function") != 0 || !ask->tool)
        return mistake_in(mistake, name,
                          "\"%s\" should be none, auto, required, or {\"type\": \"function\", \"function\": "
                          "{\"name\": …}}",
                          name);
    ask->tool_choice = TOOL_CHOICE_NAMED;
    return ask_check_keys(value, name, keys, mistake) &&
           ask_check_keys(json_object_get(value, "function"), "tool_choice.function", inner, mistake);
}

bool ask_read_parallel(struct ask *ask, const char *name, json_t *value, struct mistake *mistake)
{
    bool several;
    if (!ask_flag(name, value, &several, mistake)) return false;
    ask->one_call = !several;
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

bool ask_forces_call(const struct ask *ask)
{
    return ask->tool_choice == TOOL_CHOICE_REQUIRED || ask->tool_choice == TOOL_CHOICE_NAMED;
}

bool ask_check_tools(struct ask *ask, struct mistake *mistake)
{
    bool forced = ask_forces_call(ask);
    if (forced && !ask->tools)
        return mistake_in(mistake, "tool_choice",
                          "\"tool_choice\" asks for a call, but there are no \"tools\"");
    if (ask->tool_choice == TOOL_CHOICE_NAMED && !has_tool(ask, ask->tool))
        return mistake_in(mistake, "tool_choice",
                          "\"tool_choice\" names \"%.64s\", which is not in \"tools\"", ask->tool);
    if (forced && ask->options.constraint.kind)
        return mistake_in(mistake, ask->constrained_by,
                          "\"%s\" constrains the text, but \"tool_choice\" asks for a call instead of one",
                          ask->constrained_by);
    return true;
}

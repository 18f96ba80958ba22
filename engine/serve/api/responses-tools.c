/* responses-tools.c: see responses-tools.h. Functions have their fields beside the type, where chat has them
 * in an object. A namespace is a group of functions; the model gets them like others, and by their own names
 * unless two have the same one. */
#include "serve/api/responses-tools.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

struct offers {
    struct params *params;
    struct api_error *error;
    json_t *counts; /* how many tools have a name */
};

static const char *type_of(const json_t *tool)
{
    const char *type = json_string_value(json_object_get(tool, "type"));
    return type ? type : "";
}

/* ---- Names ---- */

static void count_names(const struct offers *all, const json_t *tools)
{
    size_t i;
    json_t *tool;
    json_array_foreach((json_t *)(size_t)tools, i, tool)
    {
        const char *name = json_string_value(json_object_get(tool, "name"));
        if (strcmp(type_of(tool), "namespace") == 0)
            count_names(all, json_object_get(tool, "tools"));
        else if (name)
            json_object_set_new(all->counts, name,
                                json_integer(json_integer_value(json_object_get(all->counts, name)) + 1));
    }
}

/* A name that no tool has: of the namespace and the tool, in the characters and the length that names may
 * have. */
static json_t *unlike_others(const struct offers *all, const char *space, const char *name)
{
    char both[PARAMS_MAX_TOOL_NAME + 1], end[16] = "";
    for (unsigned i = 2; i < 100000; i++) {
        size_t ends = strlen(end), of_name = strlen(name),
               room =
                   of_name + ends + 2 < PARAMS_MAX_TOOL_NAME ? PARAMS_MAX_TOOL_NAME - of_name - ends - 2 : 0,
               of_space = strlen(space) < room ? strlen(space) : room;
        const char *between = of_space > 0 && space[of_space - 1] == '_' ? "" : "__";
        snprintf(both, sizeof both, "%.*s%s%.*s%s", (int)of_space, space, between,
                 (int)(PARAMS_MAX_TOOL_NAME - of_space - 2 - ends), name, end);
        for (char *at = both; *at; at++)
            if (!isalnum((unsigned char)*at) && *at != '-') *at = '_';
        if (!json_object_get(all->counts, both) && !json_object_get(all->params->origins, both))
            return json_string(both);
        snprintf(end, sizeof end, "_%u", i);
    }
    return json_string(name);
}

/* The name for the model of a tool in a namespace: a new reference; NULL: it has none, or out of memory. */
static json_t *name_within(const struct offers *all, const char *space, const json_t *name)
{
    const char *text = json_string_value(name);
    if (!text || json_integer_value(json_object_get(all->counts, text)) < 2)
        return json_incref((json_t *)(size_t)name);
    return unlike_others(all, space, text);
}

/* ---- Tools ---- */

static bool offer_one(struct offers *all, const json_t *tool, const char *space, const char *where)
{
    static const char *const keys[] = {
        "name",          "description",     "parameters",    "strict", "format",
        "defer_loading", "allowed_callers", "output_schema", "type",   NULL};
    bool custom = strcmp(type_of(tool), "custom") == 0;
    json_t *name = json_object_get(tool, "name"), *function = json_copy((json_t *)(size_t)tool),
           *origin = NULL;
    if (!function) return api_error_memory(all->error);
    json_object_del(function, "type");
    if (all->error->lenient) {
        if (!params_check_keys(tool, where, keys, all->error)) return json_decref(function), false;
        for (size_t i = 4; keys[i]; i++) json_object_del(function, keys[i]);
    }
    if (space && json_is_string(name)) json_object_set_new(function, "name", name_within(all, space, name));
    if ((space || custom) && json_is_string(name))
        origin = json_pack("{s:O, s:s*, s:b}", "name", name, "namespace", space, "custom", custom);
    if (custom) json_object_set(function, "format", json_object_get(tool, "format"));
    bool good = custom ? params_offer_custom(all->params, function, origin, where, all->error)
                       : params_offer(all->params, function, origin, where, all->error);
    json_decref(function);
    return good;
}

static bool offer(struct offers *all, const json_t *tools, const char *space, const char *param)
{
    size_t i;
    json_t *tool;
    json_array_foreach((json_t *)(size_t)tools, i, tool)
    {
        const char *type = type_of(tool), *name = json_string_value(json_object_get(tool, "name"));
        char where[100];
        bool good = true;
        snprintf(where, sizeof where, "%.70s[%zu]", param, i);
        if (!json_is_object(tool) || !*type)
            good = api_error_in(all->error, where, "a tool should be an object with a \"type\"");
        else if (strcmp(type, "function") == 0 || (all->error->lenient && strcmp(type, "custom") == 0))
            good = offer_one(all, tool, space, where);
        else if (!all->error->lenient)
            good = api_error_in(all->error, where,
                                "tools of type \"%.60s\" are not supported, only functions", type);
        else if (strcmp(type, "namespace") != 0 || space)
            good = params_leave_out(type, all->error);
        else if (!name || !json_is_array(json_object_get(tool, "tools")))
            good = api_error_in(all->error, where, "a namespace needs a \"name\" and \"tools\", an array");
        else {
            static const char *const keys[] = {"type", "name", "description", "tools", NULL};
            good = params_check_keys(tool, where, keys, all->error);
            snprintf(where, sizeof where, "%.70s[%zu].tools", param, i);
            good = good && offer(all, json_object_get(tool, "tools"), name, where);
        }
        if (!good) return false;
    }
    return true;
}

/* Tools that come in the course of a conversation. */
static const json_t *tools_of(const json_t *item)
{
    const char *type = type_of(item);
    bool has = strcmp(type, "additional_tools") == 0 || strcmp(type, "tool_search_output") == 0;
    return has ? json_object_get(item, "tools") : NULL;
}

bool responses_tools(struct params *params, const json_t *tools, const json_t *input, struct api_error *error)
{
    struct offers all = {.params = params, .error = error, .counts = json_object()};
    size_t i;
    json_t *item;
    bool good = all.counts || api_error_memory(error);
    if (good && tools && !json_is_null(tools) && !json_is_array(tools))
        good = api_error_in(error, "tools", "\"tools\" should be an array");
    count_names(&all, tools);
    if (error->lenient) json_array_foreach(input, i, item) count_names(&all, tools_of(item));
    good = good && offer(&all, tools, NULL, "tools");
    if (error->lenient) json_array_foreach(input, i, item)
        {
            char where[64];
            snprintf(where, sizeof where, "input[%zu].tools", i);
            good = good && offer(&all, tools_of(item), NULL, where);
        }
    json_decref(all.counts);
    return good;
}

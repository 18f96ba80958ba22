/* messages-tools.c: see messages-tools.h. Tools that Anthropic defines and the client runs come without a
 * schema, because their models know it; other models are told. Those that Anthropic's servers run are left
 * out. */
#include "serve/api/messages-tools.h"

#include <stdio.h>
#include <string.h>

#include "common/json-read.h"

#define TEXT_PROPERTY(NAME, WHAT) "\"" NAME "\":{\"type\":\"string\",\"description\":\"" WHAT "\"}"
#define EDITOR_PROPERTIES                                                                                                                                                                \
    TEXT_PROPERTY("path", "Absolute path of a file or directory")                                                                                                                        \
    "," TEXT_PROPERTY("file_text", "For create: what the file will contain") "," TEXT_PROPERTY("old_str", "For str_replace: a text that is in the file exactly once") "," TEXT_PROPERTY( \
        "new_str",                                                                                                                                                                       \
        "For str_replace: what replaces it") "," TEXT_PROPERTY("insert_text",                                                                                                            \
                                                               "For insert: the text") ",\"insert_line\":{"                                                                              \
                                                                                       "\"type\":"                                                                                       \
                                                                                       "\"integer\","                                                                                    \
                                                                                       "\"description\":"                                                                                \
                                                                                       "\"For insert: the "                                                                              \
                                                                                       "line after which "                                                                               \
                                                                                       "to insert\"}"                                                                                    \
                                                                                       ",\"view_range\":{"                                                                               \
                                                                                       "\"type\":\"array\","                                                                             \
                                                                                       "\"items\":{"                                                                                     \
                                                                                       "\"type\":"                                                                                       \
                                                                                       "\"integer\"},"                                                                                   \
                                                                                       "\"description\":"                                                                                \
                                                                                       "\"For view: the "                                                                                \
                                                                                       "first and the last "                                                                             \
                                                                                       "line\"}"

/* By the beginnings of their types, which end with a date. */
static const struct known_tool {
    const char *type, *description, *schema;
} known_tools[] = {
    {"bash_", "Runs a command in a bash session that lasts, and returns its output.",
     "{\"type\":\"object\",\"properties\":{" TEXT_PROPERTY(
         "command", "The command to run") ",\"restart\":{"
                                          "\"type\":\"boolean\",\"description\":\"true starts a new session "
                                          "instead\"}}}"},
    {"text_editor_", "Shows, creates and edits files.",
     "{\"type\":\"object\",\"properties\":{\"command\":{\"enum\":[\"view\",\"create\",\"str_replace\","
     "\"insert\"]}," EDITOR_PROPERTIES "},\"required\":[\"command\",\"path\"]}"},
    {"memory_", "Keeps notes in files under /memories, which last longer than this conversation.",
     "{\"type\":\"object\",\"properties\":{\"command\":{\"enum\":[\"view\",\"create\",\"str_replace\","
     "\"insert\","
     "\"delete\",\"rename\"]}," EDITOR_PROPERTIES
     "," TEXT_PROPERTY("old_path", "For rename") "," TEXT_PROPERTY(
         "new_path", "For rename") "},\"required\":[\"command\"]}"},
};

static const struct known_tool *known_tool(const char *type)
{
    for (size_t i = 0; i < sizeof known_tools / sizeof *known_tools; i++)
        if (strncmp(known_tools[i].type, type, strlen(known_tools[i].type)) == 0) return &known_tools[i];
    return NULL;
}

static bool offer_own(struct params *params, const json_t *tool, const char *where, struct api_error *error)
{
    static const char *const keys[] =
        {"name", "description", "input_schema", "type", "cache_control", "strict", "eager_input_streaming",
         NULL}, /* arguments come as they are written anyway */
        *const lenient_keys[] = {"name",
                                 "description",
                                 "input_schema",
                                 "type",
                                 "cache_control",
                                 "strict",
                                 "eager_input_streaming",
                                 "defer_loading",
                                 "allowed_callers",
                                 "input_examples",
                                 NULL};
    if (!json_is_object(tool) || !params_check_keys(tool, where, error->lenient ? lenient_keys : keys, error))
        return api_error_in(error, where, "\"%s\" should be an object", where);
    json_t *function =
        json_pack("{s:O?, s:O*, s:O?, s:O*}", "name", json_object_get(tool, "name"), "description",
                  json_object_get(tool, "description"), "parameters", json_object_get(tool, "input_schema"),
                  "strict", json_object_get(tool, "strict"));
    bool good = function ? params_offer(params, function, NULL, where, error) : api_error_memory(error);
    json_decref(function);
    return good;
}

static bool offer_known(struct params *params, const json_t *tool, const struct known_tool *known,
                        const char *where, struct api_error *error)
{
    /* What their versions differ in is nothing that the model has to know. */
    static const char *const keys[] = {"name",           "type",           "cache_control",
                                       "strict",         "defer_loading",  "allowed_callers",
                                       "max_characters", "input_examples", NULL};
    if (!params_check_keys(tool, where, keys, error)) return false;
    json_t *function = json_pack("{s:O?, s:s, s:o}", "name", json_object_get(tool, "name"), "description",
                                 known->description, "parameters", json_read_text(known->schema, 0, NULL));
    bool good = function ? params_offer(params, function, NULL, where, error) : api_error_memory(error);
    json_decref(function);
    return good;
}

bool messages_tools(struct params *params, const json_t *tools, struct api_error *error)
{
    size_t i;
    json_t *tool;
    if (!json_is_array(tools)) return api_error_in(error, "tools", "\"tools\" should be an array");
    json_array_foreach((json_t *)(size_t)tools, i, tool)
    {
        const char *type = json_string_value(json_object_get(tool, "type"));
        bool own = !type || strcmp(type, "custom") == 0;
        const struct known_tool *known = own ? NULL : known_tool(type);
        char where[64];
        snprintf(where, sizeof where, "tools[%zu]", i);
        if (!own && !error->lenient)
            return api_error_in(error, where, "tools of type \"%.60s\" are not supported", type);
        bool good = own     ? offer_own(params, tool, where, error)
                    : known ? offer_known(params, tool, known, where, error)
                            : params_leave_out(type, error);
        if (!good) return false;
    }
    return true;
}

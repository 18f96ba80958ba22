/* messages-tools.c: see messages-tools.h. Tools that Anthropic defines and the client runs come without a schema, because
 * their models know it; other models are told. Those that Anthropic's servers run are left out. */
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

static bool offer_own(struct ask *ask, const json_t *tool, const char *where, struct mistake *mistake)
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
    if (!json_is_object(tool) ||
        !ask_check_keys(tool, where, mistake->lenient ? lenient_keys : keys, mistake))
        return mistake_in(mistake, where, "\"%s\" should be an object", where);
    json_t *function =
        json_pack("{s:O?, s:O*, s:O?, s:O*}", "name", json_object_get(tool, "name"), "description",
                  json_object_get(tool, "description"), "parameters", json_object_get(tool, "input_schema"),
                  "strict", json_object_get(tool, "strict"));
    bool good = function ? ask_offer(ask, function, NULL, where, mistake) : mistake_memory(mistake);
    json_decref(function);
    return good;
}

static bool offer_known(struct ask *ask, const json_t *tool, const struct known_tool *known,
                        const char *where, struct mistake *mistake)
{
    /* What their versions differ in is nothing that the model has to know. */
    static const char *const keys[] = {"name",           "type",           "cache_control",
                                       "strict",         "defer_loading",  "allowed_callers",
                                       "max_characters", "input_examples", NULL};
    if (!ask_check_keys(tool, where, keys, mistake)) return false;
    json_t *function = json_pack("{s:O?, s:s, s:o}", "name", json_object_get(tool, "name"), "description",
                                 known->description, "parameters", json_read_text(known->schema, 0, NULL));
    bool good = function ? ask_offer(ask, function, NULL, where, mistake) : mistake_memory(mistake);
    json_decref(function);
    return good;
}

bool messages_tools(struct ask *ask, const json_t *tools, struct mistake *mistake)
{
    size_t i;
    json_t *tool;
    if (!json_is_array(tools)) return mistake_in(mistake, "tools", "\"tools\" should be an array");
    json_array_foreach((json_t *)(size_t)tools, i, tool)
    {
        const char *type = json_string_value(json_object_get(tool, "type"));
        bool own = !type || strcmp(type, "custom") == 0;
        const struct known_tool *known = own ? NULL : known_tool(type);
        char where[64];
        snprintf(where, sizeof where, "tools[%zu]", i);
        if (!own && !mistake->lenient)
            return mistake_in(mistake, where, "tools of type \"%.60s\" are not supported", type);
        bool good = own     ? offer_own(ask, tool, where, mistake)
                    : known ? offer_known(ask, tool, known, where, mistake)
                            : ask_leave_out(type, mistake);
        if (!good) return false;
    }
    return true;
}

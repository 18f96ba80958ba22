/* messages-params.c: the parameters of requests to Anthropic's Messages API: its blocks become chat's
 * messages. Tools that Anthropic defines and the client runs come without a schema, because their models know
 * it; other models are told. Those that Anthropic's servers run are left out. */
#include <stdio.h>
#include <string.h>

#include "common/json-read.h"
#include "io/files.h"
#include "serve/api/api.h"

static bool messages_append(json_t *messages, json_t *message, struct api_error *error)
{
    return json_array_append_new(messages, message) == 0 || api_error_memory(error);
}

/* ---- Blocks ---- */

static const char *const text_keys[] = {"type", "text", "cache_control", "citations", NULL};

/* The texts of a text or of blocks of text, joined; a new reference. */
static json_t *messages_text_of(const json_t *content, const char *where, struct api_error *error)
{
    static const char *const types[] = {"text", NULL};
    size_t i;
    json_t *block;
    json_array_foreach((json_t *)(size_t)content, i, block)
    {
        char param[160];
        snprintf(param, sizeof param, "%.120s[%zu]", where, i);
        if (json_string_value(json_object_get(block, "type")) &&
            !strcmp(json_string_value(json_object_get(block, "type")), "text") &&
            !params_check_keys(block, param, text_keys, error))
            return NULL;
    }
    return params_text_of(content, where, types, error);
}

/* Two texts, which may have NULs, with a third between them; NULL: out of memory. */
static json_t *messages_join(const json_t *first, const char *between, const json_t *second)
{
    struct text_buffer all = {0};
    const struct engine_string parts[] = {{json_string_value(first), json_string_length(first)},
                                          {between, strlen(between)},
                                          {json_string_value(second), json_string_length(second)}};
    int failed = 0;
    for (size_t i = 0; i < 3 && !failed; i++)
        if (parts[i].length > 0) failed = text_add(&all, &parts[i]);
    json_t *joined = failed ? NULL : json_stringn(all.data ? all.data : "", all.size);
    free(all.data);
    return joined;
}

static bool messages_add_text(json_t *message, const char *key, const json_t *text, struct api_error *error)
{
    json_t *before = json_object_get(message, key);
    json_t *joined = before ? messages_join(before, "\n", text) : json_incref((json_t *)(size_t)text);
    return json_object_set_new(message, key, joined) == 0 || api_error_memory(error);
}

static bool read_use(const json_t *block, json_t *message, const char *where, struct api_error *error)
{
    static const char *const keys[] = {"type", "id", "name", "input", "cache_control", NULL};
    json_t *id = json_object_get(block, "id"), *name = json_object_get(block, "name"),
           *input = json_object_get(block, "input"), *calls = json_object_get(message, "tool_calls");
    if (!params_check_keys(block, where, keys, error)) return false;
    if (!json_is_string(id) || !json_is_string(name) || !json_is_object(input))
        return api_error_in(error, where, "a tool_use needs \"id\", \"name\" and \"input\", an object");
    if (!calls && json_object_set_new(message, "tool_calls", calls = json_array()) != 0)
        return api_error_memory(error);
    json_t *call = json_pack("{s:O, s:s, s:{s:O, s:O}}", "id", id, "type", "function", "function", "name",
                             name, "arguments", input);
    return json_array_append_new(calls, call) == 0 || api_error_memory(error);
}

/* The text of a result; the names of the tools that a search has found are part of it. A new reference; NULL:
 * an error. */
static json_t *result_text(const json_t *content, const char *where, struct api_error *error)
{
    size_t i;
    static const char *const keys[] = {"type", "tool_name", "cache_control", NULL};
    json_t *block, *texts = error->lenient && json_is_array(content) ? json_array() : NULL;
    if (!texts) return messages_text_of(content, where, error);
    json_array_foreach((json_t *)(size_t)content, i, block)
    {
        const char *type = json_string_value(json_object_get(block, "type"));
        json_t *tool = json_object_get(block, "tool_name");
        if (type && strcmp(type, "tool_reference") == 0 && json_is_string(tool) &&
            params_check_keys(block, where, keys, error))
            json_array_append_new(texts, json_pack("{s:s, s:O}", "type", "text", "text", tool));
        else
            json_array_append(texts, block);
    }
    json_t *text = messages_text_of(texts, where, error);
    json_decref(texts);
    return text;
}

/* A message of its own: chat has results outside of the user's messages. */
static bool messages_read_result(const json_t *block, json_t *messages, const char *where,
                                 struct api_error *error)
{
    static const char *const keys[] = {"type", "tool_use_id", "content", "is_error", "cache_control", NULL};
    json_t *id = json_object_get(block, "tool_use_id"), *content = json_object_get(block, "content");
    char param[160], flag[160];
    snprintf(param, sizeof param, "%.120s.content", where);
    if (!params_check_keys(block, where, keys, error)) return false;
    if (!json_is_string(id)) return api_error_in(error, where, "a tool_result needs a \"tool_use_id\"");
    const json_t *is_error = json_object_get(block, "is_error");
    bool failed = false;
    snprintf(flag, sizeof flag, "%.120s.is_error", where);
    if (is_error && !json_is_null(is_error) && !params_flag(flag, is_error, &failed, error)) return false;
    json_t *text = content && !json_is_null(content) ? result_text(content, param, error) : json_string("");
    if (!text) return false;
    /* Templates have no place for a failure but the text. */
    if (failed) {
        json_t *marked = messages_join(NULL, "Error: ", text);
        json_decref(text);
        text = marked;
    }
    return messages_append(
        messages, json_pack("{s:s, s:O, s:o}", "role", "tool", "tool_call_id", id, "content", text), error);
}

static bool messages_ends_with(const char *text, const char *end)
{
    size_t n = strlen(text), length = strlen(end);
    return n >= length && strcmp(text + n - length, end) == 0;
}

/* Blocks of Anthropic's servers: what their own tools did is left out, like these tools; a summary of what
 * came before is text. */
static bool read_foreign_block(const json_t *block, const char *type, json_t *message, const char *where,
                               struct api_error *error)
{
    static const char *const left_out[] = {
        "redacted_thinking", "server_tool_use", "mcp_tool_use", "mcp_tool_listing",
        "tool_addition",     "tool_removal",    "fallback",     NULL};
    const json_t *content = json_object_get(block, "content");
    char name[LENIENT_NAME_SIZE];
    size_t i = 0;
    if (strcmp(type, "compaction") == 0 && json_is_string(content))
        return messages_add_text(message, "content", content, error);
    while (left_out[i] && strcmp(left_out[i], type) != 0) i++;
    if (!left_out[i] && !messages_ends_with(type, "_tool_result"))
        return api_error_in(error, where,
                            "blocks of type \"%.60s\" are not supported in messages of this role", type);
    snprintf(name, sizeof name, "blocks of type %s", type);
    lenient_say(error->lenient, name, "blocks of type %.60s are left out of prompts", type);
    return true;
}

static bool messages_read_block(const json_t *block, bool assistant, json_t *message, json_t *messages,
                                const char *where, struct api_error *error)
{
    static const char *const thinking_keys[] = {"type", "thinking", "signature", NULL};
    const char *type = json_string_value(json_object_get(block, "type"));
    const json_t *text = json_object_get(block, "text"), *thinking = json_object_get(block, "thinking");
    if (!type) return api_error_in(error, where, "\"%s\" should be an object with a \"type\"", where);
    if (strcmp(type, "text") == 0 && json_is_string(text))
        return params_check_keys(block, where, text_keys, error) &&
               messages_add_text(message, "content", text, error);
    if (strcmp(type, "thinking") == 0 && assistant && json_is_string(thinking))
        return params_check_keys(block, where, thinking_keys, error) &&
               messages_add_text(message, "reasoning_content", thinking, error);
    if (strcmp(type, "tool_use") == 0 && assistant) return read_use(block, message, where, error);
    if (strcmp(type, "tool_result") == 0 && !assistant)
        return messages_read_result(block, messages, where, error);
    if (error->lenient) return read_foreign_block(block, type, message, where, error);
    return api_error_in(error, where, "blocks of type \"%.60s\" are not supported in messages of this role",
                        type);
}

static bool messages_read_message(const json_t *message, json_t *messages, const char *where,
                                  struct api_error *error)
{
    static const char *const keys[] = {"role", "content", NULL};
    const char *role = json_string_value(json_object_get(message, "role"));
    json_t *content = json_object_get(message, "content"), *block;
    size_t i;
    bool system = role && error->lenient && strcmp(role, "system") == 0;
    if (!role || (!system && strcmp(role, "user") != 0 && strcmp(role, "assistant") != 0))
        return api_error_in(error, where, "\"%s.role\" should be user or assistant", where);
    if (!params_check_keys(message, where, keys, error)) return false;
    if (json_is_string(content))
        return messages_append(messages, json_pack("{s:s, s:O}", "role", role, "content", content), error);
    if (json_array_size(content) == 0)
        return api_error_in(error, where,
                            "\"%s.content\" should be a text or an array of blocks, at least one", where);
    bool assistant = strcmp(role, "assistant") == 0;
    json_t *read = json_pack("{s:s}", "role", role);
    bool good = read || api_error_memory(error);
    json_array_foreach(content, i, block)
    {
        char param[160];
        snprintf(param, sizeof param, "%.100s.content[%zu]", where, i);
        good = good && messages_read_block(block, assistant, read, messages, param, error);
    }
    bool empty = !json_object_get(read, "content") && !json_object_get(read, "tool_calls") &&
                 !json_object_get(read, "reasoning_content");
    if (!good || empty) {
        json_decref(read);
        return good;
    }
    return messages_append(messages, read, error);
}

/* ---- The tools ---- */

#define TEXT_PROPERTY(NAME, WHAT) "\"" NAME "\":{\"type\":\"string\",\"description\":\"" WHAT "\"}"
#define EDITOR_PATH               TEXT_PROPERTY("path", "Absolute path of a file or directory")
#define EDITOR_FILE_TEXT          TEXT_PROPERTY("file_text", "For create: what the file will contain")
#define EDITOR_OLD_STR            TEXT_PROPERTY("old_str", "For str_replace: a text that is in the file exactly once")
#define EDITOR_NEW_STR            TEXT_PROPERTY("new_str", "For str_replace: what replaces it")
#define EDITOR_INSERT_TEXT        TEXT_PROPERTY("insert_text", "For insert: the text")
#define EDITOR_INSERT_LINE                                                                                   \
    "\"insert_line\":{\"type\":\"integer\",\"description\":\"For insert: the line after which to insert\"}"
#define EDITOR_VIEW_RANGE                                                                                    \
    "\"view_range\":{\"type\":\"array\",\"items\":{\"type\":\"integer\"},"                                   \
    "\"description\":\"For view: the first and the last line\"}"
#define EDITOR_PROPERTIES                                                                                    \
    EDITOR_PATH "," EDITOR_FILE_TEXT "," EDITOR_OLD_STR "," EDITOR_NEW_STR "," EDITOR_INSERT_TEXT            \
                "," EDITOR_INSERT_LINE "," EDITOR_VIEW_RANGE

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

/* Offers the tools of an array. False: an error. */
static bool messages_tools(struct params *params, const json_t *tools, struct api_error *error)
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
        bool good;
        if (own)
            good = offer_own(params, tool, where, error);
        else if (known)
            good = offer_known(params, tool, known, where, error);
        else
            good = params_leave_out(type, error);
        if (!good) return false;
    }
    return true;
}

/* ---- Fields ---- */

static bool messages_read_max(struct params *params, const char *name, json_t *value, struct api_error *error)
{
    return (json_integer_value(value) > 0 && params_set_option(params, "max_tokens", value)) ||
           api_error_in(error, name, "\"%s\" should be a whole number, at least 1", name);
}

static bool read_stops(struct params *params, const char *name, json_t *value, struct api_error *error)
{
    char message[256];
    if (!json_is_array(value)) return api_error_in(error, name, "\"%s\" should be an array of texts", name);
    return text_options_texts(name, value, 256, &params->options.stop, &params->options.n_stop, message) ||
           api_error_in(error, name, "%s", message);
}

/* "adaptive" leaves it to the model. */
static bool messages_read_thinking(struct params *params, const char *name, json_t *value,
                                   struct api_error *error)
{
    static const char *const keys[] = {"type", "budget_tokens", "display", NULL};
    const char *type = json_string_value(json_object_get(value, "type"));
    const json_t *display = json_object_get(value, "display");
    bool enabled = type && strcmp(type, "enabled") == 0, disabled = type && strcmp(type, "disabled") == 0;
    if (!enabled && !disabled && (!type || strcmp(type, "adaptive") != 0))
        return api_error_in(error, name,
                            "\"%s\" should be an object with the type enabled, disabled or adaptive", name);
    if (!params_check_keys(value, name, keys, error) || !params_read_budget_of(params, name, value, error))
        return false;
    if (error->lenient && json_is_string(display))
        params->hides_reasoning = strcmp(json_string_value(display), "omitted") == 0;
    else if (display && !json_is_null(display) &&
             (!json_is_string(display) || strcmp(json_string_value(display), "summarized") != 0))
        return api_error_in(error, "thinking.display", "\"thinking.display\" can only be summarized here");
    params->effort_may_be_moot = disabled;
    if (disabled) return params_set_variable(params, "reasoning_effort", json_string("none"), error);
    if (!enabled || json_object_get(params->variables, "reasoning_effort")) return true;
    return params_set_variable(params, "reasoning_effort", json_string("medium"), error);
}

/* {"type": "json_schema", "schema": …} */
static bool read_output_format(struct params *params, const char *name, json_t *value,
                               struct api_error *error)
{
    static const char *const inner[] = {"type", "schema", NULL};
    const char *type = json_string_value(json_object_get(value, "type"));
    if (!error->lenient && !params_check_keys(value, name, inner, error)) return false;
    if (!type || strcmp(type, "json_schema") != 0 || !json_object_get(value, "schema"))
        return api_error_in(error, name,
                            "\"%s\" should be an object with the type json_schema and a \"schema\"", name);
    return params_read_format(params, name, value, error);
}

/* Of the time before "output_config". */
static bool read_old_format(struct params *params, const char *name, json_t *value, struct api_error *error)
{
    return error->lenient ? read_output_format(params, name, value, error) : api_error_unknown(error, name);
}

/* Nothing is kept between requests, so that the client has to send all of the conversation. Who knows this
 * code does. */
static bool refuse_thread(struct params *params, const char *name, json_t *value, struct api_error *error)
{
    (void)params, (void)value;
    return api_error_with_code(
        error, API_ERROR_NO_THREADS, name,
        "the server keeps no conversations: send the whole conversation without \"%s\"", name);
}

/* {"format": {"type": "json_schema", "schema": …}, "effort": "high"} */
static bool messages_read_output(struct params *params, const char *name, json_t *value,
                                 struct api_error *error)
{
    static const char *const keys[] = {"format", "effort", NULL};
    json_t *format = json_object_get(value, "format"), *effort = json_object_get(value, "effort");
    if (!json_is_object(value)) return api_error_in(error, name, "\"%s\" should be an object", name);
    if (!params_check_keys(value, name, keys, error)) return false;
    if (effort && !json_is_null(effort) &&
        !params_read_reasoning_effort(params, "output_config.effort", effort, error))
        return false;
    if (params->effort_may_be_moot &&
        !params_set_variable(params, "reasoning_effort", json_string("none"), error))
        return false;
    if (!format || json_is_null(format)) return true;
    return read_output_format(params, "output_config.format", format, error);
}

static bool messages_read_metadata(struct params *params, const char *name, json_t *value,
                                   struct api_error *error)
{
    (void)params;
    return json_is_object(value) || api_error_in(error, name, "\"%s\" should be an object", name);
}

static bool messages_not_here(struct params *params, const char *name, json_t *value, struct api_error *error)
{
    (void)params, (void)value;
    return api_error_unknown(error, name);
}

static const struct params_field fields[] = {
    {"model", params_read_nothing},
    {"metadata", messages_read_metadata},
    {"service_tier", params_read_service_tier},
    {"stream", params_read_stream},
    {"messages", params_read_nothing}, /* see messages_read */
    {"system", params_read_nothing},
    {"tools", params_read_nothing},
    {"tool_choice", params_read_nothing},
    {"max_tokens", messages_read_max},
    {"stop_sequences", read_stops},
    {"thinking", messages_read_thinking},
    {"reasoning_budget", params_read_reasoning_budget},
    {"output_config", messages_read_output},
    {"output_format", read_old_format},
    {"thread", refuse_thread},
    {"chat_template_kwargs", params_read_template_variables},
    {"stop", messages_not_here},
    {"response_format", messages_not_here},
    {NULL, NULL},
};

static bool messages_read_choice(struct params *params, const json_t *choice, struct api_error *error)
{
    static const char *const keys[] = {"type", "name", "disable_parallel_tool_use", NULL};
    static const struct {
        const char *type;
        enum tool_choice choice;
    } types[] = {{"auto", TOOL_CHOICE_AUTO},
                 {"any", TOOL_CHOICE_REQUIRED},
                 {"tool", TOOL_CHOICE_NAMED},
                 {"none", TOOL_CHOICE_NONE}};
    const char *type = json_string_value(json_object_get(choice, "type"));
    size_t i = 0;
    while (i < 4 && (!type || strcmp(type, types[i].type) != 0)) i++;
    if (i == 4)
        return api_error_in(error, "tool_choice", "\"tool_choice.type\" should be auto, any, tool or none");
    if (!params_check_keys(choice, "tool_choice", keys, error)) return false;
    params->tool_choice = types[i].choice;
    params->tool = json_string_value(json_object_get(choice, "name"));
    const json_t *one = json_object_get(choice, "disable_parallel_tool_use");
    if (one && !json_is_null(one) &&
        !params_flag("tool_choice.disable_parallel_tool_use", one, &params->one_call, error))
        return false;
    if (params->tool_choice == TOOL_CHOICE_NAMED && !params->tool)
        return api_error_in(error, "tool_choice", "\"tool_choice.name\" is missing");
    if (params->tool_choice != TOOL_CHOICE_NAMED) params->tool = NULL;
    return true;
}

static bool messages_read_messages(struct params *params, const json_t *body, json_t *made,
                                   struct api_error *error)
{
    json_t *messages = json_array(), *system = json_object_get(body, "system"),
           *given = json_object_get(body, "messages"), *message;
    size_t i;
    if (json_object_set_new(made, "messages", messages) != 0) return api_error_memory(error);
    if (json_array_size(given) == 0)
        return api_error_in(error, "messages", "\"messages\" should be an array of messages, at least one");
    if (system && !json_is_null(system)) {
        json_t *text = messages_text_of(system, "system", error);
        if (!text ||
            !messages_append(messages, json_pack("{s:s, s:o}", "role", "system", "content", text), error))
            return false;
    }
    json_array_foreach(given, i, message)
    {
        char where[64];
        snprintf(where, sizeof where, "messages[%zu]", i);
        if (!messages_read_message(message, messages, where, error)) return false;
    }
    if (!params_read_messages(params, "messages", messages, error)) return false;
    const json_t *last = json_array_get(messages, json_array_size(messages) - 1);
    const char *role = json_string_value(json_object_get(last, "role"));
    return !role || strcmp(role, "assistant") != 0 || params_continue_last(params, error);
}

bool messages_read(struct params *params, json_t *body, json_t **made, struct api_error *error)
{
    json_t *tools = json_object_get(body, "tools"), *choice = json_object_get(body, "tool_choice");
    *made = json_object();
    if (!*made) return api_error_memory(error);
    if (!params_read(params, body, fields, error)) return false;
    if (tools && !json_is_null(tools) && !messages_tools(params, tools, error)) return false;
    if (choice && !json_is_null(choice) && !messages_read_choice(params, choice, error)) return false;
    return messages_read_messages(params, body, *made, error);
}

/* responses-params.c: the parameters of requests to OpenAI's Responses API: its items become chat's messages.
 * Functions have their fields beside the type, where chat has them in an object. A namespace is a group of
 * functions; the model gets them like others, and by their own names unless two have the same one. */
#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "serve/api/api.h"

/* ---- Items ---- */

static bool responses_append(json_t *messages, json_t *message, struct api_error *error)
{
    return json_array_append_new(messages, message) == 0 || api_error_memory(error);
}

/* The message that a call or a reasoning belongs to: the last one if it is the assistant's, else a new
 * one. */
static json_t *turn_of(json_t *messages, bool with_content, struct api_error *error)
{
    json_t *last = json_array_get(messages, json_array_size(messages) - 1);
    const char *role = json_string_value(json_object_get(last, "role"));
    bool content = json_is_string(json_object_get(last, "content"));
    if (role && strcmp(role, "assistant") == 0 && !(with_content && content)) return last;
    json_t *turn = json_pack("{s:s}", "role", "assistant");
    return responses_append(messages, turn, error) ? turn : NULL;
}

static bool responses_read_message(const json_t *item, json_t *messages, const char *where,
                                   struct api_error *error)
{
    static const char *const keys[] = {"type", "role", "content", "id", "status", "phase", NULL};
    static const char *const types[] = {"input_text", "output_text", "text", "refusal", NULL};
    const char *role = json_string_value(json_object_get(item, "role"));
    char param[160];
    snprintf(param, sizeof param, "%.120s.content", where);
    if (!params_check_keys(item, where, keys, error)) return false;
    if (!role || (strcmp(role, "user") != 0 && strcmp(role, "assistant") != 0 &&
                  strcmp(role, "system") != 0 && strcmp(role, "developer") != 0))
        return api_error_in(error, where, "\"%s.role\" should be user, assistant, system or developer",
                            where);
    json_t *text = params_text_of(json_object_get(item, "content"), param, types, error);
    if (!text) return false;
    if (strcmp(role, "assistant") != 0)
        return responses_append(messages, json_pack("{s:s, s:o}", "role", role, "content", text), error);
    json_t *turn = turn_of(messages, true, error);
    if (turn && !json_object_get(turn, "tool_calls")) return json_object_set_new(turn, "content", text) == 0;
    return responses_append(messages, json_pack("{s:s, s:o}", "role", role, "content", text), error);
}

/* A call by the name by which the tool is offered; `arguments` is taken. */
static bool add_call(const struct params *params, const json_t *item, json_t *arguments, json_t *messages,
                     struct api_error *error)
{
    const char *name = json_string_value(json_object_get(item, "name")),
               *space = json_string_value(json_object_get(item, "namespace")),
               *offered = params_offered_name(params, name, space);
    json_t *turn = turn_of(messages, false, error), *calls = json_object_get(turn, "tool_calls");
    if (turn && !calls && json_object_set_new(turn, "tool_calls", calls = json_array()) != 0) calls = NULL;
    json_t *call =
        json_pack("{s:O, s:s, s:{s:s, s:o}}", "id", json_object_get(item, "call_id"), "type", "function",
                  "function", "name", offered ? offered : name, "arguments", arguments);
    return json_array_append_new(calls, call) == 0 || api_error_memory(error);
}

static bool responses_read_call(const struct params *params, const json_t *item, json_t *messages,
                                const char *where, struct api_error *error)
{
    static const char *const keys[] = {"type",   "call_id",          "name", "arguments", "id",
                                       "status", "parsed_arguments", NULL},
                             *const lenient_keys[] = {
                                 "type",   "call_id",   "name",   "arguments",        "id",
                                 "status", "namespace", "caller", "parsed_arguments", NULL};
    json_t *id = json_object_get(item, "call_id"), *name = json_object_get(item, "name"),
           *arguments = json_object_get(item, "arguments");
    if (!params_check_keys(item, where, error->lenient ? lenient_keys : keys, error)) return false;
    if (!json_is_string(id) || !json_is_string(name) || !json_is_string(arguments))
        return api_error_in(error, where, "a function_call needs \"call_id\", \"name\" and \"arguments\"");
    return add_call(params, item, json_incref(arguments), messages, error);
}

/* A call of a tool whose input is a text. */
static bool responses_read_custom_call(const struct params *params, const json_t *item, json_t *messages,
                                       const char *where, struct api_error *error)
{
    static const char *const keys[] = {"type",   "call_id",   "name",   "input", "id",
                                       "status", "namespace", "caller", NULL};
    json_t *input = json_object_get(item, "input");
    if (!params_check_keys(item, where, keys, error)) return false;
    if (!json_is_string(json_object_get(item, "call_id")) || !json_is_string(json_object_get(item, "name")) ||
        !json_is_string(input))
        return api_error_in(error, where, "a custom_tool_call needs \"call_id\", \"name\" and \"input\"");
    return add_call(params, item, params_custom_arguments(input), messages, error);
}

static bool responses_read_output(const json_t *item, json_t *messages, const char *where,
                                  struct api_error *error)
{
    static const char *const keys[] = {"type", "call_id", "output", "id", "status", NULL},
                             *const lenient_keys[] = {"type", "call_id",   "output", "id", "status",
                                                      "name", "namespace", "caller", NULL};
    static const char *const types[] = {"input_text", "output_text", "text", NULL};
    char param[160];
    json_t *id = json_object_get(item, "call_id");
    snprintf(param, sizeof param, "%.120s.output", where);
    if (!params_check_keys(item, where, error->lenient ? lenient_keys : keys, error)) return false;
    if (!json_is_string(id)) return api_error_in(error, where, "a function_call_output needs a \"call_id\"");
    json_t *text = params_text_of(json_object_get(item, "output"), param, types, error);
    return text &&
           responses_append(messages,
                            json_pack("{s:s, s:O, s:o}", "role", "tool", "tool_call_id", id, "content", text),
                            error);
}

static bool responses_read_reasoning(const json_t *item, json_t *messages, const char *where,
                                     struct api_error *error)
{
    static const char *const keys[] = {"type", "id", "summary", "content", "status", NULL},
                             *const lenient_keys[] = {
                                 "type", "id", "summary", "content", "status", "encrypted_content", NULL};
    static const char *const types[] = {"reasoning_text", "summary_text", NULL};
    char param[160];
    const json_t *content = json_object_get(item, "content");
    snprintf(param, sizeof param, "%.120s.content", where);
    if (!params_check_keys(item, where, error->lenient ? lenient_keys : keys, error)) return false;
    if (!content || json_is_null(content) ||
        (error->lenient && json_is_array(content) && json_array_size(content) == 0))
        return true;
    json_t *text = params_text_of(content, param, types, error);
    json_t *turn = text ? json_pack("{s:s, s:o}", "role", "assistant", "reasoning_content", text) : NULL;
    return text && responses_append(messages, turn, error);
}

/* What tools that are left out here have done for another server's answers, and what only says something
 * about the conversation. It is not shown to the model: most results are in the answers' texts, or
 * encrypted. */
static bool responses_is_left_out(const char *type)
{
    static const char *const types[] = {
        "web_search_call",
        "file_search_call",
        "code_interpreter_call",
        "image_generation_call",
        "computer_call",
        "computer_call_output",
        "local_shell_call",
        "local_shell_call_output",
        "shell_call",
        "shell_call_output",
        "apply_patch_call",
        "apply_patch_call_output",
        "mcp_list_tools",
        "mcp_call",
        "mcp_approval_request",
        "mcp_approval_response",
        "tool_search_call",
        "tool_search_output",
        "additional_tools",
        "compaction",
        "compaction_trigger",
        "program",
        "program_output",
    };
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        if (strcmp(types[i], type) == 0) return true;
    return false;
}

static bool read_foreign_item(const struct params *params, const json_t *item, const char *type,
                              json_t *messages, const char *where, struct api_error *error)
{
    char name[LENIENT_NAME_SIZE];
    if (strcmp(type, "custom_tool_call") == 0)
        return responses_read_custom_call(params, item, messages, where, error);
    if (strcmp(type, "custom_tool_call_output") == 0)
        return responses_read_output(item, messages, where, error);
    if (!responses_is_left_out(type))
        return api_error_in(error, where, "items of type \"%.60s\" are not supported", type);
    snprintf(name, sizeof name, "items of type %s", type);
    lenient_say(error->lenient, name, "items of type %.60s are left out of prompts", type);
    return true;
}

static bool responses_read_item(const struct params *params, const json_t *item, json_t *messages,
                                const char *where, struct api_error *error)
{
    const char *type = json_string_value(json_object_get(item, "type"));
    if (!json_is_object(item)) return api_error_in(error, where, "\"%s\" should be an object", where);
    if (!type || strcmp(type, "message") == 0) return responses_read_message(item, messages, where, error);
    if (strcmp(type, "function_call") == 0) return responses_read_call(params, item, messages, where, error);
    if (strcmp(type, "function_call_output") == 0) return responses_read_output(item, messages, where, error);
    if (strcmp(type, "reasoning") == 0) return responses_read_reasoning(item, messages, where, error);
    if (error->lenient) return read_foreign_item(params, item, type, messages, where, error);
    return api_error_in(error, where, "items of type \"%.60s\" are not supported", type);
}

static bool responses_read_input(const struct params *params, const json_t *input, json_t *messages,
                                 struct api_error *error)
{
    size_t i;
    json_t *item;
    if (json_is_string(input))
        return responses_append(messages, json_pack("{s:s, s:O}", "role", "user", "content", input), error);
    if (json_array_size(input) == 0)
        return api_error_in(error, "input", "\"input\" should be a text or an array of items, at least one");
    json_array_foreach(input, i, item)
    {
        char where[64];
        snprintf(where, sizeof where, "input[%zu]", i);
        if (!responses_read_item(params, item, messages, where, error)) return false;
    }
    return true;
}

/* ---- The tools ---- */

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

static bool responses_offer(struct offers *all, const json_t *tools, const char *space, const char *param)
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
            good = good && responses_offer(all, json_object_get(tool, "tools"), name, where);
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

/* Offers the tools of `tools` (NULL or null: none), and those that items of `input` add. False: an error. */
static bool responses_tools(struct params *params, const json_t *tools, const json_t *input,
                            struct api_error *error)
{
    struct offers all = {.params = params, .error = error, .counts = json_object()};
    size_t i;
    json_t *item;
    bool good = all.counts || api_error_memory(error);
    if (good && tools && !json_is_null(tools) && !json_is_array(tools))
        good = api_error_in(error, "tools", "\"tools\" should be an array");
    count_names(&all, tools);
    if (error->lenient) json_array_foreach(input, i, item) count_names(&all, tools_of(item));
    good = good && responses_offer(&all, tools, NULL, "tools");
    if (error->lenient) json_array_foreach(input, i, item)
        {
            char where[64];
            snprintf(where, sizeof where, "input[%zu].tools", i);
            good = good && responses_offer(&all, tools_of(item), NULL, where);
        }
    json_decref(all.counts);
    return good;
}

/* ---- Fields ---- */

static bool responses_read_max(struct params *params, const char *name, json_t *value,
                               struct api_error *error)
{
    return params_set_option(params, "max_tokens", value) ||
           api_error_in(error, name, "\"%s\" should be a whole number, at least 1", name);
}

/* {"format": {"type": "json_schema", "name": …, "schema": …, "strict": …}, "verbosity": "medium"} */
static bool responses_read_text(struct params *params, const char *name, json_t *value,
                                struct api_error *error)
{
    static const char *const keys[] = {"format", "verbosity", NULL};
    static const char *const format_keys[] = {"type", "name", "schema", "strict", "description", NULL};
    json_t *format = json_object_get(value, "format");
    const char *verbosity = json_string_value(json_object_get(value, "verbosity"));
    if (!json_is_object(value)) return api_error_in(error, name, "\"%s\" should be an object", name);
    if (!params_check_keys(value, name, keys, error)) return false;
    const json_t *given = json_object_get(value, "verbosity");
    if (error->lenient && given && !json_is_null(given) && !verbosity)
        return api_error_in(error, "text.verbosity", "\"text.verbosity\" should be a text");
    if (verbosity && !error->lenient && strcmp(verbosity, "medium") != 0)
        return api_error_in(error, "text.verbosity", "\"text.verbosity\" can only be medium here");
    if (!format || json_is_null(format)) return true;
    if (!error->lenient && !params_check_keys(format, "text.format", format_keys, error)) return false;
    return params_read_format(params, "text.format", format, error);
}

static bool read_reasoning_field(struct params *params, const char *name, json_t *value,
                                 struct api_error *error)
{
    static const char *const keys[] = {"effort", "summary", "generate_summary", NULL};
    const json_t *summary = json_object_get(value, "summary");
    json_t *effort = json_object_get(value, "effort");
    if (!json_is_object(value)) return api_error_in(error, name, "\"%s\" should be an object", name);
    if (!params_check_keys(value, name, keys, error)) return false;
    /* "auto" is what the model offers, which is none: its reasoning comes as it is. */
    const char *asked = json_string_value(summary);
    bool is_auto = asked && strcmp(asked, "auto") == 0;
    if (summary && !json_is_null(summary) && error->lenient && !asked)
        return api_error_in(error, "reasoning.summary", "\"reasoning.summary\" should be a text");
    if (summary && !json_is_null(summary) && !is_auto && !error->lenient)
        return api_error_in(error, "reasoning.summary",
                            "summaries of reasoning are not supported: it comes as it is");
    return !effort || json_is_null(effort) ||
           params_read_reasoning_effort(params, "reasoning.effort", effort, error);
}

static bool read_truncation(struct params *params, const char *name, json_t *value, struct api_error *error)
{
    const char *word = json_string_value(value);
    (void)params;
    if (error->lenient) return params_read_any_text(params, name, value, error);
    return (word && strcmp(word, "disabled") == 0) ||
           api_error_in(error, name, "\"%s\" can only be \"disabled\" here", name);
}

static bool read_include(struct params *params, const char *name, json_t *value, struct api_error *error)
{
    size_t i;
    json_t *item;
    if (!json_is_array(value)) return api_error_in(error, name, "\"%s\" should be an array", name);
    json_array_foreach(value, i, item)
    {
        const char *word = json_string_value(item);
        /* Reasoning comes in plain text, so there is nothing encrypted to include. */
        if (word && strcmp(word, "reasoning.encrypted_content") == 0) continue;
        bool logprobs = word && strcmp(word, "message.output_text.logprobs") == 0;
        /* What hosted tools would have found, which there is nothing of. */
        if (word && !logprobs && error->lenient) continue;
        if (!logprobs)
            return api_error_in(error, name, "\"%s\" can only have message.output_text.logprobs here", name);
        params->logprobs = true;
    }
    return true;
}

static bool read_stream_options(struct params *params, const char *name, json_t *value,
                                struct api_error *error)
{
    static const char *const keys[] = {"include_obfuscation", NULL};
    (void)params;
    if (!json_is_object(value)) return api_error_in(error, name, "\"%s\" should be an object", name);
    if (!error->lenient && json_is_true(json_object_get(value, "include_obfuscation")))
        return api_error_in(error, "stream_options.include_obfuscation", "obfuscation is not supported");
    return params_check_keys(value, name, keys, error);
}

/* Chat's names for what this API calls otherwise. */
static bool responses_not_here(struct params *params, const char *name, json_t *value,
                               struct api_error *error)
{
    (void)params, (void)value;
    return api_error_unknown(error, name);
}

/* What decides what the model reads, or how the client gets the answer. */
static bool responses_refuse(struct params *params, const char *name, json_t *value, struct api_error *error)
{
    (void)params, (void)value;
    return api_error_with_code(error, "unknown_parameter", name, "\"%s\" is not supported here", name);
}

static bool read_background(struct params *params, const char *name, json_t *value, struct api_error *error)
{
    (void)params;
    return json_is_false(value) || api_error_in(error, name, "\"%s\" can only be false here", name);
}

static const struct params_field fields[] = {
    {"model", params_read_nothing},
    {"user", params_read_any_text},
    {"metadata", params_read_metadata},
    {"safety_identifier", params_read_any_text},
    {"prompt_cache_key", params_read_any_text},
    {"prompt_cache_retention", params_read_any_text},
    {"store", params_read_only_false},
    {"background", read_background},
    {"previous_response_id", responses_refuse},
    {"conversation", responses_refuse},
    {"prompt", responses_refuse},
    {"service_tier", params_read_service_tier},
    {"stream", params_read_stream},
    {"stream_options", read_stream_options},
    {"input", params_read_nothing}, /* see responses_read */
    {"instructions", params_read_nothing},
    {"tools", params_read_nothing},
    {"tool_choice", params_read_nothing},
    {"parallel_tool_calls", params_read_parallel},
    {"max_output_tokens", responses_read_max},
    {"text", responses_read_text},
    {"reasoning", read_reasoning_field},
    {"reasoning_budget", params_read_reasoning_budget},
    {"truncation", read_truncation},
    {"include", read_include},
    {"top_logprobs", params_read_top},
    {"chat_template_kwargs", params_read_template_variables},
    {"max_tokens", responses_not_here},
    {"response_format", responses_not_here},
    {NULL, NULL},
};

static bool responses_read_choice(struct params *params, json_t *choice, json_t *made,
                                  struct api_error *error)
{
    static const char *const keys[] = {"type", "name", "namespace", "mode", "tools", NULL};
    json_t *name = json_object_get(choice, "name"), *type = json_object_get(choice, "type");
    const char *word = json_string_value(name), *offered = word,
               *space = json_string_value(json_object_get(choice, "namespace")),
               *kind = json_is_string(type) ? json_string_value(type) : "function";
    bool allowed = strcmp(kind, "allowed_tools") == 0;
    if (!json_is_object(choice)) return params_read_tool_choice(params, "tool_choice", choice, error);
    if (word && error->lenient && !allowed) {
        offered = params_offered_name(params, word, space);
        if (!offered && space)
            return api_error_in(
                error, "tool_choice",
                "\"tool_choice\" names \"%.64s\" of the namespace \"%.64s\", which is not in \"tools\"", word,
                space);
        if (!offered) offered = word;
    }
    json_t *named = allowed ? json_pack("{s:O, s:O}", "type", type, "allowed_tools", choice)
                            : json_pack("{s:O?, s:{s:s?}}", "type", type, kind, "name", offered);
    if (json_object_set_new(made, "tool_choice", named) != 0) return api_error_memory(error);
    return (!error->lenient || params_check_keys(choice, "tool_choice", keys, error)) &&
           params_read_tool_choice(params, "tool_choice", named, error);
}

static bool responses_read_messages(struct params *params, const json_t *body, json_t *made,
                                    struct api_error *error)
{
    json_t *messages = json_array(), *instructions = json_object_get(body, "instructions"),
           *input = json_object_get(body, "input");
    if (json_object_set_new(made, "messages", messages) != 0) return api_error_memory(error);
    if (!input || json_is_null(input)) return api_error_in(error, "input", "\"input\" is missing");
    if (instructions && !json_is_null(instructions)) {
        if (!json_is_string(instructions))
            return api_error_in(error, "instructions", "\"instructions\" should be a text");
        if (!responses_append(messages, json_pack("{s:s, s:O}", "role", "system", "content", instructions),
                              error))
            return false;
    }
    return responses_read_input(params, input, messages, error) &&
           params_read_messages(params, "input", messages, error);
}

bool responses_read(struct params *params, json_t *body, json_t **made, struct api_error *error)
{
    json_t *tools = json_object_get(body, "tools"), *choice = json_object_get(body, "tool_choice");
    *made = json_object();
    if (!*made) return api_error_memory(error);
    if (!params_read(params, body, fields, error)) return false;
    if (!params_check_rivals(params, "message.output_text.logprobs in \"include\"", error)) return false;
    if (!responses_tools(params, tools, json_object_get(body, "input"), error)) return false;
    if (choice && !json_is_null(choice) && !responses_read_choice(params, choice, *made, error)) return false;
    return responses_read_messages(params, body, *made, error);
}

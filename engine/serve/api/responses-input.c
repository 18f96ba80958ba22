/* responses-input.c: requests of OpenAI's Responses API as asks: its items become chat's messages. */
#include <stdio.h>
#include <string.h>

#include "serve/api/read.h"
#include "serve/api/responses-tools.h"
#include "serve/generate/lenient.h"

/* ---- Items ---- */

static bool append(json_t *messages, json_t *message, struct mistake *mistake)
{
    return json_array_append_new(messages, message) == 0 || mistake_memory(mistake);
}

/* The message that a call or a reasoning belongs to: the last one if it is the assistant's, else a new one. */
static json_t *turn_of(json_t *messages, bool with_content, struct mistake *mistake)
{
    json_t *last = json_array_get(messages, json_array_size(messages) - 1);
    const char *role = json_string_value(json_object_get(last, "role"));
    bool content = json_is_string(json_object_get(last, "content"));
    if (role && strcmp(role, "assistant") == 0 && !(with_content && content)) return last;
    json_t *turn = json_pack("{s:s}", "role", "assistant");
    return append(messages, turn, mistake) ? turn : NULL;
}

static bool read_message(const json_t *item, json_t *messages, const char *where, struct mistake *mistake)
{
    static const char *const keys[] = {"type", "role", "content", "id", "status", "phase", NULL};
    static const char *const types[] = {"input_text", "output_text", "text", "refusal", NULL};
    const char *role = json_string_value(json_object_get(item, "role"));
    char param[160];
    snprintf(param, sizeof param, "%.120s.content", where);
    if (!ask_check_keys(item, where, keys, mistake)) return false;
    if (!role || (strcmp(role, "user") != 0 && strcmp(role, "assistant") != 0 &&
                  strcmp(role, "system") != 0 && strcmp(role, "developer") != 0))
        return mistake_in(mistake, where, "\"%s.role\" should be user, assistant, system or developer",
                          where);
    json_t *text = ask_text_of(json_object_get(item, "content"), param, types, mistake);
    if (!text) return false;
    if (strcmp(role, "assistant") != 0)
        return append(messages, json_pack("{s:s, s:o}", "role", role, "content", text), mistake);
    json_t *turn = turn_of(messages, true, mistake);
    if (turn && !json_object_get(turn, "tool_calls")) return json_object_set_new(turn, "content", text) == 0;
    return append(messages, json_pack("{s:s, s:o}", "role", role, "content", text), mistake);
}

/* A call by the name by which the tool is offered; `arguments` is taken. */
static bool add_call(const struct ask *ask, const json_t *item, json_t *arguments, json_t *messages,
                     struct mistake *mistake)
{
    const char *name = json_string_value(json_object_get(item, "name")),
               *space = json_string_value(json_object_get(item, "namespace")),
               *offered = ask_offered_name(ask, name, space);
    json_t *turn = turn_of(messages, false, mistake), *calls = json_object_get(turn, "tool_calls");
    if (turn && !calls && json_object_set_new(turn, "tool_calls", calls = json_array()) != 0) calls = NULL;
    json_t *call =
        json_pack("{s:O, s:s, s:{s:s, s:o}}", "id", json_object_get(item, "call_id"), "type", "function",
                  "function", "name", offered ? offered : name, "arguments", arguments);
    return json_array_append_new(calls, call) == 0 || mistake_memory(mistake);
}

static bool read_call(const struct ask *ask, const json_t *item, json_t *messages, const char *where,
                      struct mistake *mistake)
{
    static const char *const keys[] = {"type",   "call_id",          "name", "arguments", "id",
                                       "status", "parsed_arguments", NULL},
                             *const lenient_keys[] = {
                                 "type",   "call_id",   "name",   "arguments",        "id",
                                 "status", "namespace", "caller", "parsed_arguments", NULL};
    json_t *id = json_object_get(item, "call_id"), *name = json_object_get(item, "name"),
           *arguments = json_object_get(item, "arguments");
    if (!ask_check_keys(item, where, mistake->lenient ? lenient_keys : keys, mistake)) return false;
    if (!json_is_string(id) || !json_is_string(name) || !json_is_string(arguments))
        return mistake_in(mistake, where, "a function_call needs \"call_id\", \"name\" and \"arguments\"");
    return add_call(ask, item, json_incref(arguments), messages, mistake);
}

/* A call of a tool whose input is a text. */
static bool read_custom_call(const struct ask *ask, const json_t *item, json_t *messages, const char *where,
                             struct mistake *mistake)
{
    static const char *const keys[] = {"type",   "call_id",   "name",   "input", "id",
                                       "status", "namespace", "caller", NULL};
    json_t *input = json_object_get(item, "input");
    if (!ask_check_keys(item, where, keys, mistake)) return false;
    if (!json_is_string(json_object_get(item, "call_id")) || !json_is_string(json_object_get(item, "name")) ||
        !json_is_string(input))
        return mistake_in(mistake, where, "a custom_tool_call needs \"call_id\", \"name\" and \"input\"");
    return add_call(ask, item, ask_custom_arguments(input), messages, mistake);
}

static bool read_output(const json_t *item, json_t *messages, const char *where, struct mistake *mistake)
{
    static const char *const keys[] = {"type", "call_id", "output", "id", "status", NULL},
                             *const lenient_keys[] = {"type", "call_id",   "output", "id", "status",
                                                      "name", "namespace", "caller", NULL};
    static const char *const types[] = {"input_text", "output_text", "text", NULL};
    char param[160];
    json_t *id = json_object_get(item, "call_id");
    snprintf(param, sizeof param, "%.120s.output", where);
    if (!ask_check_keys(item, where, mistake->lenient ? lenient_keys : keys, mistake)) return false;
    if (!json_is_string(id)) return mistake_in(mistake, where, "a function_call_output needs a \"call_id\"");
    json_t *text = ask_text_of(json_object_get(item, "output"), param, types, mistake);
    return text &&
           append(messages, json_pack("{s:s, s:O, s:o}", "role", "tool", "tool_call_id", id, "content", text),
                  mistake);
}

static bool read_reasoning(const json_t *item, json_t *messages, const char *where, struct mistake *mistake)
{
    static const char *const keys[] = {"type", "id", "summary", "content", "status", NULL},
                             *const lenient_keys[] = {
                                 "type", "id", "summary", "content", "status", "encrypted_content", NULL};
    static const char *const types[] = {"reasoning_text", "summary_text", NULL};
    char param[160];
    const json_t *content = json_object_get(item, "content");
    snprintf(param, sizeof param, "%.120s.content", where);
    if (!ask_check_keys(item, where, mistake->lenient ? lenient_keys : keys, mistake)) return false;
    if (!content || json_is_null(content) ||
        (mistake->lenient && json_is_array(content) && json_array_size(content) == 0))
        return true;
    json_t *text = ask_text_of(content, param, types, mistake);
    json_t *turn = text ? json_pack("{s:s, s:o}", "role", "assistant", "reasoning_content", text) : NULL;
    return text && append(messages, turn, mistake);
}

/* What tools that are left out here have done for another server's answers, and what only says something about the
 * conversation. It is not shown to the model: most results are in the answers' texts, or encrypted. */
static bool is_left_out(const char *type)
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

static bool read_foreign_item(const struct ask *ask, const json_t *item, const char *type, json_t *messages,
                              const char *where, struct mistake *mistake)
{
    char name[LENIENT_NAME_SIZE];
    if (strcmp(type, "custom_tool_call") == 0) return read_custom_call(ask, item, messages, where, mistake);
    if (strcmp(type, "custom_tool_call_output") == 0) return read_output(item, messages, where, mistake);
    if (!is_left_out(type))
        return mistake_in(mistake, where, "items of type \"%.60s\" are not supported", type);
    snprintf(name, sizeof name, "items of type %s", type);
    lenient_say(mistake->lenient, name, "items of type %.60s are left out of prompts", type);
    return true;
}

static bool read_item(const struct ask *ask, const json_t *item, json_t *messages, const char *where,
                      struct mistake *mistake)
{
    const char *type = json_string_value(json_object_get(item, "type"));
    if (!json_is_object(item)) return mistake_in(mistake, where, "\"%s\" should be an object", where);
    if (!type || strcmp(type, "message") == 0) return read_message(item, messages, where, mistake);
    if (strcmp(type, "function_call") == 0) return read_call(ask, item, messages, where, mistake);
    if (strcmp(type, "function_call_output") == 0) return read_output(item, messages, where, mistake);
    if (strcmp(type, "reasoning") == 0) return read_reasoning(item, messages, where, mistake);
    if (mistake->lenient) return read_foreign_item(ask, item, type, messages, where, mistake);
    return mistake_in(mistake, where, "items of type \"%.60s\" are not supported", type);
}

static bool read_input(const struct ask *ask, const json_t *input, json_t *messages, struct mistake *mistake)
{
    size_t i;
    json_t *item;
    if (json_is_string(input))
        return append(messages, json_pack("{s:s, s:O}", "role", "user", "content", input), mistake);
    if (json_array_size(input) == 0)
        return mistake_in(mistake, "input", "\"input\" should be a text or an array of items, at least one");
    json_array_foreach(input, i, item)
    {
        char where[64];
        snprintf(where, sizeof where, "input[%zu]", i);
        if (!read_item(ask, item, messages, where, mistake)) return false;
    }
    return true;
}

/* ---- Fields ---- */

static bool read_max(struct ask *ask, const char *name, json_t *value, struct mistake *mistake)
{
    char error[256];
    return text_option_read(&ask->options, "max_tokens", value, error) == TEXT_OPTION_READ ||
           mistake_in(mistake, name, "\"%s\" should be a whole number, at least 1", name);
}

/* {"format": {"type": "json_schema", "name": …, "schema": …, "strict": …}, "verbosity": "medium"} */
static bool read_text(struct ask *ask, const char *name, json_t *value, struct mistake *mistake)
{
    static const char *const keys[] = {"format", "verbosity", NULL};
    static const char *const format_keys[] = {"type", "name", "schema", "strict", "description", NULL};
    json_t *format = json_object_get(value, "format");
    const char *verbosity = json_string_value(json_object_get(value, "verbosity"));
    if (!json_is_object(value)) return mistake_in(mistake, name, "\"%s\" should be an object", name);
    if (!ask_check_keys(value, name, keys, mistake)) return false;
    const json_t *given = json_object_get(value, "verbosity");
    if (mistake->lenient && given && !json_is_null(given) && !verbosity)
        return mistake_in(mistake, "text.verbosity", "\"text.verbosity\" should be a text");
    if (verbosity && !mistake->lenient && strcmp(verbosity, "medium") != 0)
        return mistake_in(mistake, "text.verbosity", "\"text.verbosity\" can only be medium here");
    if (!format || json_is_null(format)) return true;
    if (!mistake->lenient && !ask_check_keys(format, "text.format", format_keys, mistake)) return false;
    return ask_read_format(ask, "text.format", format, mistake);
}

static bool read_reasoning_field(struct ask *ask, const char *name, json_t *value, struct mistake *mistake)
{
    static const char *const keys[] = {"effort", "summary", "generate_summary", NULL};
    const json_t *summary = json_object_get(value, "summary");
    json_t *effort = json_object_get(value, "effort");
    if (!json_is_object(value)) return mistake_in(mistake, name, "\"%s\" should be an object", name);
    if (!ask_check_keys(value, name, keys, mistake)) return false;
    /* "auto" is what the model offers, which is none: its reasoning comes as it is. */
    const char *asked = json_string_value(summary);
    bool is_auto = asked && strcmp(asked, "auto") == 0;
    if (summary && !json_is_null(summary) && mistake->lenient && !asked)
        return mistake_in(mistake, "reasoning.summary", "\"reasoning.summary\" should be a text");
    if (summary && !json_is_null(summary) && !is_auto && !mistake->lenient)
        return mistake_in(mistake, "reasoning.summary",
                          "summaries of reasoning are not supported: it comes as it is");
    return !effort || json_is_null(effort) ||
           ask_read_reasoning_effort(ask, "reasoning.effort", effort, mistake);
}

static bool read_truncation(struct ask *ask, const char *name, json_t *value, struct mistake *mistake)
{
    const char *word = json_string_value(value);
    (void)ask;
    if (mistake->lenient) return ask_read_any_text(ask, name, value, mistake);
    return (word && strcmp(word, "disabled") == 0) ||
           mistake_in(mistake, name, "\"%s\" can only be \"disabled\" here", name);
}

static bool read_include(struct ask *ask, const char *name, json_t *value, struct mistake *mistake)
{
    size_t i;
    json_t *item;
    if (!json_is_array(value)) return mistake_in(mistake, name, "\"%s\" should be an array", name);
    json_array_foreach(value, i, item)
    {
        const char *word = json_string_value(item);
        /* Reasoning comes in plain text, so there is nothing encrypted to include. */
        if (word && strcmp(word, "reasoning.encrypted_content") == 0) continue;
        bool logprobs = word && strcmp(word, "message.output_text.logprobs") == 0;
        /* What hosted tools would have found, which there is nothing of. */
        if (word && !logprobs && mistake->lenient) continue;
        if (!logprobs)
            return mistake_in(mistake, name, "\"%s\" can only have message.output_text.logprobs here", name);
        ask->logprobs = true;
    }
    return true;
}

static bool read_stream_options(struct ask *ask, const char *name, json_t *value, struct mistake *mistake)
{
    static const char *const keys[] = {"include_obfuscation", NULL};
    (void)ask;
    if (!json_is_object(value)) return mistake_in(mistake, name, "\"%s\" should be an object", name);
    if (!mistake->lenient && json_is_true(json_object_get(value, "include_obfuscation")))
        return mistake_in(mistake, "stream_options.include_obfuscation", "obfuscation is not supported");
    return ask_check_keys(value, name, keys, mistake);
}

/* Chat's names for what this API calls otherwise. */
static bool not_here(struct ask *ask, const char *name, json_t *value, struct mistake *mistake)
{
    (void)ask, (void)value;
    return mistake_unknown(mistake, name);
}

/* What decides what the model reads, or how the client gets the answer. */
static bool refuse(struct ask *ask, const char *name, json_t *value, struct mistake *mistake)
{
    (void)ask, (void)value;
    return mistake_with_code(mistake, "unknown_parameter", name, "\"%s\" is not supported here", name);
}

static bool read_background(struct ask *ask, const char *name, json_t *value, struct mistake *mistake)
{
    (void)ask;
    return json_is_false(value) || mistake_in(mistake, name, "\"%s\" can only be false here", name);
}

static const struct ask_field fields[] = {
    {"model", ask_read_nothing},
    {"user", ask_read_any_text},
    {"metadata", ask_read_metadata},
    {"safety_identifier", ask_read_any_text},
    {"prompt_cache_key", ask_read_any_text},
    {"prompt_cache_retention", ask_read_any_text},
    {"store", ask_read_only_false},
    {"background", read_background},
    {"previous_response_id", refuse},
    {"conversation", refuse},
    {"prompt", refuse},
    {"service_tier", ask_read_service_tier},
    {"stream", ask_read_stream},
    {"stream_options", read_stream_options},
    {"input", ask_read_nothing}, /* see responses_read */
    {"instructions", ask_read_nothing},
    {"tools", ask_read_nothing},
    {"tool_choice", ask_read_nothing},
    {"parallel_tool_calls", ask_read_parallel},
    {"max_output_tokens", read_max},
    {"text", read_text},
    {"reasoning", read_reasoning_field},
    {"truncation", read_truncation},
    {"include", read_include},
    {"top_logprobs", ask_read_top},
    {"chat_template_kwargs", ask_read_template_variables},
    {"max_tokens", not_here},
    {"response_format", not_here},
    {NULL, NULL},
};

static bool read_choice(struct ask *ask, json_t *choice, json_t *made, struct mistake *mistake)
{
    static const char *const keys[] = {"type", "name", "namespace", "mode", "tools", NULL};
    json_t *name = json_object_get(choice, "name"), *type = json_object_get(choice, "type");
    const char *word = json_string_value(name), *offered = word,
               *space = json_string_value(json_object_get(choice, "namespace")),
               *kind = json_is_string(type) ? json_string_value(type) : "function";
    bool allowed = strcmp(kind, "allowed_tools") == 0;
    if (!json_is_object(choice)) return ask_read_tool_choice(ask, "tool_choice", choice, mistake);
    if (word && mistake->lenient && !allowed) {
        offered = ask_offered_name(ask, word, space);
        if (!offered && space)
            return mistake_in(
                mistake, "tool_choice",
                "\"tool_choice\" names \"%.64s\" of the namespace \"%.64s\", which is not in \"tools\"", word,
                space);
        if (!offered) offered = word;
    }
    json_t *named = allowed ? json_pack("{s:O, s:O}", "type", type, "allowed_tools", choice)
                            : json_pack("{s:O?, s:{s:s?}}", "type", type, kind, "name", offered);
    if (json_object_set_new(made, "tool_choice", named) != 0) return mistake_memory(mistake);
    return (!mistake->lenient || ask_check_keys(choice, "tool_choice", keys, mistake)) &&
           ask_read_tool_choice(ask, "tool_choice", named, mistake);
}

static bool read_messages(struct ask *ask, const json_t *body, json_t *made, struct mistake *mistake)
{
    json_t *messages = json_array(), *instructions = json_object_get(body, "instructions"),
           *input = json_object_get(body, "input");
    if (json_object_set_new(made, "messages", messages) != 0) return mistake_memory(mistake);
    if (!input || json_is_null(input)) return mistake_in(mistake, "input", "\"input\" is missing");
    if (instructions && !json_is_null(instructions)) {
        if (!json_is_string(instructions))
            return mistake_in(mistake, "instructions", "\"instructions\" should be a text");
        if (!append(messages, json_pack("{s:s, s:O}", "role", "system", "content", instructions), mistake))
            return false;
    }
    return read_input(ask, input, messages, mistake) && ask_read_messages(ask, "input", messages, mistake);
}

bool responses_read(struct ask *ask, json_t *body, json_t **made, struct mistake *mistake)
{
    json_t *tools = json_object_get(body, "tools"), *choice = json_object_get(body, "tool_choice");
    *made = json_object();
    if (!*made) return mistake_memory(mistake);
    if (!ask_read(ask, body, fields, mistake)) return false;
    if (ask->n_top > 0 && !ask->logprobs)
        return mistake_in(mistake, "top_logprobs",
                          "\"top_logprobs\" goes with message.output_text.logprobs in \"include\"");
    if (!responses_tools(ask, tools, json_object_get(body, "input"), mistake)) return false;
    if (choice && !json_is_null(choice) && !read_choice(ask, choice, *made, mistake)) return false;
    return read_messages(ask, body, *made, mistake);
}

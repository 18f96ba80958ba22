/* messages-input.c: requests of Anthropic's Messages API as asks: its blocks become chat's messages. */
#include <stdio.h>
#include <string.h>

#include "commands/common.h"
#include "serve/api/messages-tools.h"
#include "serve/api/read.h"
#include "serve/generate/lenient.h"

static bool append(json_t *messages, json_t *message, struct mistake *mistake)
{
    return json_array_append_new(messages, message) == 0 || mistake_memory(mistake);
}

/* ---- Blocks ---- */

static const char *const text_keys[] = {"type", "text", "cache_control", "citations", NULL};

/* The texts of a text or of blocks of text, joined; a new reference. */
static json_t *text_of(const json_t *content, const char *where, struct mistake *mistake)
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
            !ask_check_keys(block, param, text_keys, mistake))
            return NULL;
    }
    return ask_text_of(content, where, types, mistake);
}

/* Two texts, which may have NULs, with a third between them; NULL: out of memory. */
static json_t *join(const json_t *first, const char *between, const json_t *second)
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

static bool add_text(json_t *message, const char *key, const json_t *text, struct mistake *mistake)
{
    json_t *before = json_object_get(message, key);
    json_t *joined = before ? join(before, "\n", text) : json_incref((json_t *)(size_t)text);
    return json_object_set_new(message, key, joined) == 0 || mistake_memory(mistake);
}

static bool read_use(const json_t *block, json_t *message, const char *where, struct mistake *mistake)
{
    static const char *const keys[] = {"type", "id", "name", "input", "cache_control", NULL};
    json_t *id = json_object_get(block, "id"), *name = json_object_get(block, "name"),
           *input = json_object_get(block, "input"), *calls = json_object_get(message, "tool_calls");
    if (!ask_check_keys(block, where, keys, mistake)) return false;
    if (!json_is_string(id) || !json_is_string(name) || !json_is_object(input))
        return mistake_in(mistake, where, "a tool_use needs \"id\", \"name\" and \"input\", an object");
    if (!calls && json_object_set_new(message, "tool_calls", calls = json_array()) != 0)
        return mistake_memory(mistake);
    json_t *call = json_pack("{s:O, s:s, s:{s:O, s:O}}", "id", id, "type", "function", "function", "name",
                             name, "arguments", input);
    return json_array_append_new(calls, call) == 0 || mistake_memory(mistake);
}

/* The text of a result; the names of the tools that a search has found are part of it. A new reference; NULL: a mistake. */
static json_t *result_text(const json_t *content, const char *where, struct mistake *mistake)
{
    size_t i;
    static const char *const keys[] = {"type", "tool_name", "cache_control", NULL};
    json_t *block, *texts = mistake->lenient && json_is_array(content) ? json_array() : NULL;
    if (!texts) return text_of(content, where, mistake);
    json_array_foreach((json_t *)(size_t)content, i, block)
    {
        const char *type = json_string_value(json_object_get(block, "type"));
        json_t *tool = json_object_get(block, "tool_name");
        if (type && strcmp(type, "tool_reference") == 0 && json_is_string(tool) &&
            ask_check_keys(block, where, keys, mistake))
            json_array_append_new(texts, json_pack("{s:s, s:O}", "type", "text", "text", tool));
        else
            json_array_append(texts, block);
    }
    json_t *text = text_of(texts, where, mistake);
    json_decref(texts);
    return text;
}

/* A message of its own: chat has results outside of the user's messages. */
static bool read_result(const json_t *block, json_t *messages, const char *where, struct mistake *mistake)
{
    static const char *const keys[] = {"type", "tool_use_id", "content", "is_error", "cache_control", NULL};
    json_t *id = json_object_get(block, "tool_use_id"), *content = json_object_get(block, "content");
    char param[160], flag[160];
    snprintf(param, sizeof param, "%.120s.content", where);
    if (!ask_check_keys(block, where, keys, mistake)) return false;
    if (!json_is_string(id)) return mistake_in(mistake, where, "a tool_result needs a \"tool_use_id\"");
    const json_t *is_error = json_object_get(block, "is_error");
    bool failed = false;
    snprintf(flag, sizeof flag, "%.120s.is_error", where);
    if (is_error && !json_is_null(is_error) && !ask_flag(flag, is_error, &failed, mistake)) return false;
    json_t *text = content && !json_is_null(content) ? result_text(content, param, mistake) : json_string("");
    if (!text) return false;
    /* Templates have no place for a failure but the text. */
    if (failed) {
        json_t *marked = join(NULL, "Error: ", text);
        json_decref(text);
        text = marked;
    }
    return append(messages, json_pack("{s:s, s:O, s:o}", "role", "tool", "tool_call_id", id, "content", text),
                  mistake);
}

static bool ends_with(const char *text, const char *end)
{
    size_t n = strlen(text), length = strlen(end);
    return n >= length && strcmp(text + n - length, end) == 0;
}

/* Blocks of Anthropic's servers: what their own tools did is left out, like these tools; a summary of what came before is
 * text. */
static bool read_foreign_block(const json_t *block, const char *type, json_t *message, const char *where,
                               struct mistake *mistake)
{
    static const char *const left_out[] = {
        "redacted_thinking", "server_tool_use", "mcp_tool_use", "mcp_tool_listing",
        "tool_addition",     "tool_removal",    "fallback",     NULL};
    const json_t *content = json_object_get(block, "content");
    char name[LENIENT_NAME_SIZE];
    size_t i = 0;
    if (strcmp(type, "compaction") == 0 && json_is_string(content))
        return add_text(message, "content", content, mistake);
    while (left_out[i] && strcmp(left_out[i], type) != 0) i++;
    if (!left_out[i] && !ends_with(type, "_tool_result"))
        return mistake_in(mistake, where,
                          "blocks of type \"%.60s\" are not supported in messages of this role", type);
    snprintf(name, sizeof name, "blocks of type %s", type);
    lenient_say(mistake->lenient, name, "blocks of type %.60s are left out of prompts", type);
    return true;
}

static bool read_block(const json_t *block, bool assistant, json_t *message, json_t *messages,
                       const char *where, struct mistake *mistake)
{
    static const char *const thinking_keys[] = {"type", "thinking", "signature", NULL};
    const char *type = json_string_value(json_object_get(block, "type"));
    const json_t *text = json_object_get(block, "text"), *thinking = json_object_get(block, "thinking");
    if (!type) return mistake_in(mistake, where, "\"%s\" should be an object with a \"type\"", where);
    if (strcmp(type, "text") == 0 && json_is_string(text))
        return ask_check_keys(block, where, text_keys, mistake) &&
               add_text(message, "content", text, mistake);
    if (strcmp(type, "thinking") == 0 && assistant && json_is_string(thinking))
        return ask_check_keys(block, where, thinking_keys, mistake) &&
               add_text(message, "reasoning_content", thinking, mistake);
    if (strcmp(type, "tool_use") == 0 && assistant) return read_use(block, message, where, mistake);
    if (strcmp(type, "tool_result") == 0 && !assistant) return read_result(block, messages, where, mistake);
    if (mistake->lenient) return read_foreign_block(block, type, message, where, mistake);
    return mistake_in(mistake, where, "blocks of type \"%.60s\" are not supported in messages of this role",
                      type);
}

static bool read_message(const json_t *message, json_t *messages, const char *where, struct mistake *mistake)
{
    static const char *const keys[] = {"role", "content", NULL};
    const char *role = json_string_value(json_object_get(message, "role"));
    json_t *content = json_object_get(message, "content"), *block;
    size_t i;
    bool system = role && mistake->lenient && strcmp(role, "system") == 0;
    if (!role || (!system && strcmp(role, "user") != 0 && strcmp(role, "assistant") != 0))
        return mistake_in(mistake, where, "\"%s.role\" should be user or assistant", where);
    if (!ask_check_keys(message, where, keys, mistake)) return false;
    if (json_is_string(content))
        return append(messages, json_pack("{s:s, s:O}", "role", role, "content", content), mistake);
    if (json_array_size(content) == 0)
        return mistake_in(mistake, where,
                          "\"%s.content\" should be a text or an array of blocks, at least one", where);
    bool assistant = strcmp(role, "assistant") == 0;
    json_t *read = json_pack("{s:s}", "role", role);
    bool good = read || mistake_memory(mistake);
    json_array_foreach(content, i, block)
    {
        char param[160];
        snprintf(param, sizeof param, "%.100s.content[%zu]", where, i);
        good = good && read_block(block, assistant, read, messages, param, mistake);
    }
    bool empty = !json_object_get(read, "content") && !json_object_get(read, "tool_calls") &&
                 !json_object_get(read, "reasoning_content");
    if (!good || empty) {
        json_decref(read);
        return good;
    }
    return append(messages, read, mistake);
}

/* ---- Fields ---- */

static bool read_max(struct ask *ask, const char *name, json_t *value, struct mistake *mistake)
{
    char error[256];
    return (json_integer_value(value) > 0 &&
            text_option_read(&ask->options, "max_tokens", value, error) == TEXT_OPTION_READ) ||
           mistake_in(mistake, name, "\"%s\" should be a whole number, at least 1", name);
}

static bool read_stops(struct ask *ask, const char *name, json_t *value, struct mistake *mistake)
{
    char error[256];
    if (!json_is_array(value)) return mistake_in(mistake, name, "\"%s\" should be an array of texts", name);
    return text_options_texts(name, value, 256, &ask->options.stop, &ask->options.n_stop, error) ||
           mistake_in(mistake, name, "%s", error);
}

/* A budget is a target that the model may miss, so it decides nothing but that there is one. "adaptive" leaves it to the
 * model. */
static bool read_thinking(struct ask *ask, const char *name, json_t *value, struct mistake *mistake)
{
    static const char *const keys[] = {"type", "budget_tokens", "display", NULL};
    const char *type = json_string_value(json_object_get(value, "type"));
    const json_t *display = json_object_get(value, "display");
    bool enabled = type && strcmp(type, "enabled") == 0, disabled = type && strcmp(type, "disabled") == 0;
    if (!enabled && !disabled && (!type || strcmp(type, "adaptive") != 0))
        return mistake_in(mistake, name,
                          "\"%s\" should be an object with the type enabled, disabled or adaptive", name);
    if (!ask_check_keys(value, name, keys, mistake) || !ask_check_budget(name, value, mistake)) return false;
    if (mistake->lenient && json_is_string(display))
        ask->hides_reasoning = strcmp(json_string_value(display), "omitted") == 0;
    else if (display && !json_is_null(display) &&
             (!json_is_string(display) || strcmp(json_string_value(display), "summarized") != 0))
        return mistake_in(mistake, "thinking.display", "\"thinking.display\" can only be summarized here");
    ask->effort_may_be_moot = disabled;
    if (disabled) return ask_set_variable(ask, "reasoning_effort", json_string("none"), mistake);
    if (!enabled || json_object_get(ask->variables, "reasoning_effort")) return true;
    return ask_set_variable(ask, "reasoning_effort", json_string("medium"), mistake);
}

/* {"type": "json_schema", "schema": …} */
static bool read_output_format(struct ask *ask, const char *name, json_t *value, struct mistake *mistake)
{
    static const char *const inner[] = {"type", "schema", NULL};
    const char *type = json_string_value(json_object_get(value, "type"));
    if (!mistake->lenient && !ask_check_keys(value, name, inner, mistake)) return false;
    if (!type || strcmp(type, "json_schema") != 0 || !json_object_get(value, "schema"))
        return mistake_in(mistake, name,
                          "\"%s\" should be an object with the type json_schema and a \"schema\"", name);
    return ask_read_format(ask, name, value, mistake);
}

/* Of the time before "output_config". */
static bool read_old_format(struct ask *ask, const char *name, json_t *value, struct mistake *mistake)
{
    return mistake->lenient ? read_output_format(ask, name, value, mistake) : mistake_unknown(mistake, name);
}

/* Nothing is kept between requests, so that the client has to send all of the conversation. Who knows this code does. */
static bool refuse_thread(struct ask *ask, const char *name, json_t *value, struct mistake *mistake)
{
    (void)ask, (void)value;
    return mistake_with_code(mistake, MISTAKE_NO_THREADS, name,
                             "the server keeps no conversations: send the whole conversation without \"%s\"",
                             name);
}

/* {"format": {"type": "json_schema", "schema": …}, "effort": "high"} */
static bool read_output(struct ask *ask, const char *name, json_t *value, struct mistake *mistake)
{
    static const char *const keys[] = {"format", "effort", NULL};
    json_t *format = json_object_get(value, "format"), *effort = json_object_get(value, "effort");
    if (!json_is_object(value)) return mistake_in(mistake, name, "\"%s\" should be an object", name);
    if (!ask_check_keys(value, name, keys, mistake)) return false;
    if (effort && !json_is_null(effort) &&
        !ask_read_reasoning_effort(ask, "output_config.effort", effort, mistake))
        return false;
    if (ask->effort_may_be_moot && !ask_set_variable(ask, "reasoning_effort", json_string("none"), mistake))
        return false;
    if (!format || json_is_null(format)) return true;
    return read_output_format(ask, "output_config.format", format, mistake);
}

static bool read_metadata(struct ask *ask, const char *name, json_t *value, struct mistake *mistake)
{
    (void)ask;
    return json_is_object(value) || mistake_in(mistake, name, "\"%s\" should be an object", name);
}

static bool not_here(struct ask *ask, const char *name, json_t *value, struct mistake *mistake)
{
    (void)ask, (void)value;
    return mistake_unknown(mistake, name);
}

static const struct ask_field fields[] = {
    {"model", ask_read_nothing},
    {"metadata", read_metadata},
    {"service_tier", ask_read_service_tier},
    {"stream", ask_read_stream},
    {"messages", ask_read_nothing}, /* see messages_read */
    {"system", ask_read_nothing},
    {"tools", ask_read_nothing},
    {"tool_choice", ask_read_nothing},
    {"max_tokens", read_max},
    {"stop_sequences", read_stops},
    {"thinking", read_thinking},
    {"output_config", read_output},
    {"output_format", read_old_format},
    {"thread", refuse_thread},
    {"chat_template_kwargs", ask_read_template_variables},
    {"stop", not_here},
    {"response_format", not_here},
    {NULL, NULL},
};

static bool read_choice(struct ask *ask, const json_t *choice, struct mistake *mistake)
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
        return mistake_in(mistake, "tool_choice", "\"tool_choice.type\" should be auto, any, tool or none");
    if (!ask_check_keys(choice, "tool_choice", keys, mistake)) return false;
    ask->tool_choice = types[i].choice;
    ask->tool = json_string_value(json_object_get(choice, "name"));
    const json_t *one = json_object_get(choice, "disable_parallel_tool_use");
    if (one && !json_is_null(one) &&
        !ask_flag("tool_choice.disable_parallel_tool_use", one, &ask->one_call, mistake))
        return false;
    if (ask->tool_choice == TOOL_CHOICE_NAMED && !ask->tool)
        return mistake_in(mistake, "tool_choice", "\"tool_choice.name\" is missing");
    if (ask->tool_choice != TOOL_CHOICE_NAMED) ask->tool = NULL;
    return true;
}

static bool read_messages(struct ask *ask, const json_t *body, json_t *made, struct mistake *mistake)
{
    json_t *messages = json_array(), *system = json_object_get(body, "system"),
           *given = json_object_get(body, "messages"), *message;
    size_t i;
    if (json_object_set_new(made, "messages", messages) != 0) return mistake_memory(mistake);
    if (json_array_size(given) == 0)
        return mistake_in(mistake, "messages", "\"messages\" should be an array of messages, at least one");
    if (system && !json_is_null(system)) {
        json_t *text = text_of(system, "system", mistake);
        if (!text || !append(messages, json_pack("{s:s, s:o}", "role", "system", "content", text), mistake))
            return false;
    }
    json_array_foreach(given, i, message)
    {
        char where[64];
        snprintf(where, sizeof where, "messages[%zu]", i);
        if (!read_message(message, messages, where, mistake)) return false;
    }
    if (!ask_read_messages(ask, "messages", messages, mistake)) return false;
    const json_t *last = json_array_get(messages, json_array_size(messages) - 1);
    const char *role = json_string_value(json_object_get(last, "role"));
    return !role || strcmp(role, "assistant") != 0 || ask_continue_last(ask, mistake);
}

bool messages_read(struct ask *ask, json_t *body, json_t **made, struct mistake *mistake)
{
    json_t *tools = json_object_get(body, "tools"), *choice = json_object_get(body, "tool_choice");
    *made = json_object();
    if (!*made) return mistake_memory(mistake);
    if (!ask_read(ask, body, fields, mistake)) return false;
    if (tools && !json_is_null(tools) && !messages_tools(ask, tools, mistake)) return false;
    if (choice && !json_is_null(choice) && !read_choice(ask, choice, mistake)) return false;
    return read_messages(ask, body, *made, mistake);
}

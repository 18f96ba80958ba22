/* chat-messages.c: OpenAI's messages as templates expect them. See params.h. */
#include "io/files.h"
#include "serve/params/params.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/json-read.h"

/* ---- Contents ---- */

/* The text of a part of a content, borrowed; NULL: an error. */
static const json_t *text_of_part(const json_t *part, const char *where, const char *const *types,
                                  struct api_error *error)
{
    const char *type = json_string_value(json_object_get(part, "type")),
               *role = json_string_value(json_object_get(part, "role"));
    const json_t *text = json_object_get(part, "text");
    /* OpenAI's Agents SDK repeats in the part of an answer what else its message had: the first three. */
    static const char *const keys[] = {"role",   "reasoning_content", "tool_calls",  "type",
                                       "text",   "refusal",           "annotations", "logprobs",
                                       "parsed", "cache_control",     "citations",   NULL};
    bool repeats = role && strcmp(role, "assistant") == 0;
    if (!type) {
        api_error_in(error, where, "a part of a content should be an object with a \"type\"");
        return NULL;
    }
    for (; *types && strcmp(*types, type) != 0; types++) continue;
    if (!*types) {
        char param[160];
        snprintf(param, sizeof param, "%.120s.type", where);
        api_error_in(error, param, "contents of type \"%.60s\" are not supported here: the models take text",
                     type);
        return NULL;
    }
    if (!params_check_keys(part, where, repeats ? keys : keys + 3, error)) return NULL;
    if (!text) text = json_object_get(part, *types); /* {"type": "refusal", "refusal": "…"} */
    if (!json_is_string(text)) api_error_in(error, where, "the part has no \"text\"");
    return json_is_string(text) ? text : NULL;
}

json_t *params_text_of(const json_t *content, const char *where, const char *const *types,
                       struct api_error *error)
{
    struct text_buffer all = {0};
    size_t i;
    json_t *part;
    if (json_is_string(content)) return json_incref((json_t *)(size_t)content);
    if (!json_is_array(content)) {
        api_error_in(error, where, "\"%s\" should be a text or an array of parts", where);
        return NULL;
    }
    json_array_foreach(content, i, part)
    {
        char param[160];
        snprintf(param, sizeof param, "%.120s[%zu]", where, i);
        const json_t *text = text_of_part(part, param, types, error);
        if (!text) break;
        if ((i > 0 && text_add(&all, &(struct engine_string){"\n", 1})) ||
            text_add(&all, &(struct engine_string){json_string_value(text), json_string_length(text)}))
            api_error_memory(error);
    }
    json_t *joined = error->status ? NULL : json_stringn(all.data ? all.data : "", all.size);
    if (!joined) api_error_memory(error);
    free(all.data);
    return joined;
}

/* ---- Calls ---- */

/* The arguments of a call as an object, if they are one. NULL: an error. */
static json_t *arguments_of(const json_t *arguments, struct api_error *error)
{
    json_error_t json_error;
    json_t *object = json_read(json_string_value(arguments), json_string_length(arguments),
                               JSON_DECODE_ANY | JSON_ALLOW_NUL, &json_error);
    bool no_memory = !object && json_read_lacked_memory(&json_error);
    if (no_memory) api_error_memory(error);
    return object || no_memory ? object : json_incref((json_t *)(size_t)arguments);
}

/* A call of a tool whose input is a text. */
static json_t *chat_read_custom_call(const json_t *call, const char *where, struct api_error *error)
{
    static const char *const keys[] = {"id", "type", "custom", "index", NULL}, *const inner[] = {
                                                                                   "name", "input", NULL};
    const json_t *custom = json_object_get(call, "custom");
    char param[160];
    json_t *id = json_object_get(call, "id"), *name = json_object_get(custom, "name"),
           *input = json_object_get(custom, "input");
    snprintf(param, sizeof param, "%.120s.custom", where);
    if (!params_check_keys(call, where, keys, error) || !params_check_keys(custom, param, inner, error))
        return NULL;
    if (!json_is_string(id) || !json_is_string(name) || !json_is_string(input)) {
        api_error_in(error, where,
                     "a custom call should have an \"id\" and a \"custom\" with \"name\" and \"input\"");
        return NULL;
    }
    json_t *read = json_pack("{s:O, s:s, s:{s:O, s:{s:O}}}", "id", id, "type", "function", "function", "name",
                             name, "arguments", "input", input);
    if (!read) api_error_memory(error);
    return read;
}

static json_t *chat_read_call(const json_t *call, const char *where, struct api_error *error)
{
    static const char *const keys[] = {"id", "type", "function", "index", "extra_content", NULL};
    static const char *const function_keys[] = {"name", "arguments", "parsed_arguments", NULL};
    const char *type = json_string_value(json_object_get(call, "type"));
    const json_t *function = json_object_get(call, "function"), *name = json_object_get(function, "name"),
                 *arguments = json_object_get(function, "arguments"), *id = json_object_get(call, "id");
    char param[160];
    bool custom = error->lenient && type && strcmp(type, "custom") == 0;
    if (custom) return chat_read_custom_call(call, where, error);
    snprintf(param, sizeof param, "%.120s.function", where);
    if (!params_check_keys(call, where, keys, error) ||
        !params_check_keys(function, param, function_keys, error))
        return NULL;
    if (type && strcmp(type, "function") != 0)
        api_error_in(error, where, "calls of type \"%.40s\" are not supported", type);
    else if (!json_is_string(name) || !json_is_string(id) ||
             (arguments && !json_is_string(arguments) && !json_is_object(arguments)))
        api_error_in(error, where,
                     "a call should have an \"id\" and a \"function\" with \"name\" and \"arguments\"");
    if (error->status) return NULL;
    json_t *object;
    if (json_is_string(arguments))
        object = arguments_of(arguments, error);
    else
        object = arguments ? json_incref((json_t *)(size_t)arguments) : json_object();
    json_t *read = json_pack("{s:O, s:s, s:{s:O, s:o}}", "id", id, "type", "function", "function", "name",
                             name, "arguments", object);
    if (!read) api_error_memory(error);
    return read;
}

static bool chat_read_calls(const json_t *calls, json_t *message, const char *where, struct api_error *error)
{
    size_t i;
    json_t *call, *read = json_array();
    if (!json_is_array(calls)) {
        json_decref(read);
        return api_error_in(error, where, "\"%s\" should be an array", where);
    }
    json_array_foreach(calls, i, call)
    {
        char param[160];
        snprintf(param, sizeof param, "%.120s[%zu]", where, i);
        json_t *one = chat_read_call(call, param, error);
        if (!one) break;
        if (json_array_append_new(read, one) != 0) api_error_memory(error);
    }
    if (json_array_size(read) == 0 || error->status)
        json_decref(read);
    else if (json_object_set_new(message, "tool_calls", read) != 0)
        api_error_memory(error);
    return !error->status;
}

/* Notes the names of the functions that a message calls, by the ids of the calls. */
static bool note_calls(struct params *params, const json_t *message, struct api_error *error)
{
    const json_t *call;
    size_t i;
    if (!params->call_names) params->call_names = json_object();
    json_array_foreach(json_object_get(message, "tool_calls"), i, call)
    {
        json_t *name = json_object_get(json_object_get(call, "function"), "name");
        if (json_object_set(params->call_names, json_string_value(json_object_get(call, "id")), name) != 0)
            return api_error_memory(error);
    }
    return true;
}

/* ---- Messages ---- */

static const char *const roles[] = {"system", "developer", "user", "assistant", "tool"};
#define N_ROLES (sizeof roles / sizeof *roles)

static bool chat_copy_text(const json_t *message, const char *key, const char *name, json_t *read,
                           const char *where, struct api_error *error)
{
    json_t *value = json_object_get(message, key);
    if (!value || json_is_null(value)) return true;
    if (!json_is_string(value)) return api_error_in(error, where, "\"%s.%s\" should be a text", where, key);
    return json_object_set(read, name, value) == 0 || api_error_memory(error);
}

static bool read_assistant(const json_t *message, json_t *read, const char *where, struct api_error *error)
{
    const json_t *calls = json_object_get(message, "tool_calls"),
                 *content = json_object_get(message, "content");
    char param[160];
    snprintf(param, sizeof param, "%.120s.tool_calls", where);
    if (calls && !json_is_null(calls) && !chat_read_calls(calls, read, param, error)) return false;
    for (size_t i = 0; i < json_array_size(content); i++)
        if (!chat_copy_text(json_array_get(content, i), "reasoning_content", "reasoning_content", read, where,
                            error))
            return false;
    return chat_copy_text(message, "reasoning", "reasoning_content", read, where, error) &&
           chat_copy_text(message, "reasoning_content", "reasoning_content", read, where, error);
}

static bool read_tool(const json_t *message, const json_t *call_names, json_t *read, const char *where,
                      struct api_error *error)
{
    const char *id = json_string_value(json_object_get(message, "tool_call_id"));
    if (!id) return api_error_in(error, where, "a message with the role \"tool\" needs a \"tool_call_id\"");
    json_t *name = json_object_get(call_names, id);
    if (!name)
        return api_error_in(error, where, "\"%s\" answers the call \"%.60s\", which no message has made",
                            where, id);
    if (!json_object_get(read, "name") && json_object_set(read, "name", name) != 0)
        return api_error_memory(error);
    return chat_copy_text(message, "tool_call_id", "tool_call_id", read, where, error);
}

static bool read_content(const json_t *message, const char *role, json_t *read, const char *where,
                         struct api_error *error)
{
    static const char *const texts[] = {"text", NULL}, *const answers[] = {"text", "refusal", NULL};
    const json_t *content = json_object_get(message, "content");
    bool assistant = strcmp(role, "assistant") == 0;
    char param[160];
    snprintf(param, sizeof param, "%.120s.content", where);
    if ((!content || json_is_null(content)) && assistant)
        return json_object_set_new(read, "content",
                                   json_object_get(read, "tool_calls") ? json_null() : json_string("")) ==
                   0 ||
               api_error_memory(error);
    if (!content) return api_error_in(error, param, "\"%s\" is missing", param);
    json_t *text = params_text_of(content, param, assistant ? answers : texts, error);
    return text && (json_object_set_new(read, "content", text) == 0 || api_error_memory(error));
}

/* One message; `call_names`: of the calls so far, by id. A new reference; NULL: an error. */
static json_t *chat_read_message(const json_t *message, const json_t *call_names, const char *where,
                                 struct api_error *error)
{
    static const char *const keys[] = {
        "role",   "content",           "name",      "tool_calls", "tool_call_id",
        "parsed", "reasoning_content", "reasoning", NULL};
    const char *role = json_string_value(json_object_get(message, "role"));
    size_t number = 0;
    while (role && number < N_ROLES && strcmp(roles[number], role) != 0) number++;
    if (!role || number == N_ROLES) {
        api_error_in(
            error, where,
            "a message should be an object with the \"role\" system, developer, user, assistant or tool");
        return NULL;
    }
    if (!params_check_keys(message, where, keys, error)) return NULL;
    json_t *read = json_pack("{s:s}", "role", strcmp(role, "developer") == 0 ? "system" : role);
    bool good = read || api_error_memory(error);
    good = good && chat_copy_text(message, "name", "name", read, where, error);
    if (good && strcmp(role, "assistant") == 0) good = read_assistant(message, read, where, error);
    if (good && strcmp(role, "tool") == 0) good = read_tool(message, call_names, read, where, error);
    good = good && read_content(message, role, read, where, error);
    if (good) return read;
    json_decref(read);
    return NULL;
}

bool params_read_messages(struct params *params, const char *name, json_t *value, struct api_error *error)
{
    size_t i;
    json_t *message;
    if (json_array_size(value) == 0)
        return api_error_in(error, name, "\"%s\" should be an array of messages, at least one", name);
    json_decref(params->messages);
    json_decref(params->call_names);
    params->call_names = NULL;
    params->messages = json_array();
    json_array_foreach(value, i, message)
    {
        char param[160];
        snprintf(param, sizeof param, "%.80s[%zu]", name, i);
        json_t *read = chat_read_message(message, params->call_names, param, error);
        if (!read) return false;
        if (json_array_append_new(params->messages, read) != 0) return api_error_memory(error);
        if (!note_calls(params, read, error)) return false;
    }
    return true;
}

bool params_continue_last(struct params *params, struct api_error *error)
{
    const struct constraint *constraint = &params->options.constraint;
    const json_t *last = json_array_get(params->messages, json_array_size(params->messages) - 1);
    const char *role = json_string_value(json_object_get(last, "role"));
    params->continues = true;
    if (!role || strcmp(role, "assistant") != 0 || json_object_get(last, "tool_calls") ||
        json_object_get(last, "reasoning_content"))
        return api_error_in(
            error, "messages",
            "the answer cannot go on with the last message: it is not a mere text of the assistant");
    if (params_forces_call(params))
        return api_error_in(error, "tool_choice", "an answer that is begun already cannot be a call");
    if (constraint->kind && constraint->kind != ENGINE_GRAMMAR_GBNF)
        return api_error_in(error, params->constrained_by,
                            "an answer that is begun already cannot be made JSON");
    return true;
}

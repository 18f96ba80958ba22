/* plain-calls.c: tools for models whose template knows none: a plain form in JSON, in which the tools become
 * a part of the system message, and earlier calls and results a part of the texts (docs/replies.md). It is
 * the form of ENGINE_REPLY_HERMES. Called by conversation.c before it renders. */
#include <string.h>

#include "serve/generate/generation.h"

static const char
    before_tools[] = "You can call functions. These are described by JSON objects, one a line:\n",
    after_tools[] =
        "\nTo call a function, write its name and its arguments in this form, and nothing after it:\n"
        "<tool_call>{\"name\": NAME, \"arguments\": {KEY: VALUE}}</tool_call>\n"
        "Its result follows between <tool_response> and </tool_response>.";

const struct engine_reply_layout plain_calls_layout = {.struct_size = sizeof plain_calls_layout,
                                                       .arguments = ENGINE_REPLY_ARGUMENTS_OBJECT,
                                                       .open = "",
                                                       .close = "",
                                                       .begin = "<tool_call>",
                                                       .before_name = "",
                                                       .after_name = "",
                                                       .end = "</tool_call>",
                                                       .key = "",
                                                       .after_key = "",
                                                       .after_type = "",
                                                       .value = "",
                                                       .after_value = "",
                                                       .name_key = "name",
                                                       .arguments_key = "arguments",
                                                       .reasoning_begin = "",
                                                       .reasoning_end = ""};

bool plain_calls_fit(const char *template_text, uint32_t format)
{
    static const char *const words[] = {"tools", "tool_call", "functions"};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (strstr(template_text, words[i])) return false;
    return format == ENGINE_REPLY_PLAIN;
}

static bool plain_has_role(const json_t *message, const char *role)
{
    const char *its = json_string_value(json_object_get(message, "role"));
    return its && strcmp(its, role) == 0;
}

static bool plain_add(struct text_buffer *text, const char *added)
{
    return text_buffer_add_string(text, added);
}

/* A value in JSON. */
static bool add_value(struct text_buffer *text, const json_t *value)
{
    char *json = json_dumps(value, JSON_COMPACT | JSON_ENCODE_ANY | JSON_REAL_PRECISION(17));
    bool good = json && plain_add(text, json);
    free(json);
    return good;
}

/* The message's text, followed by a blank line if there is one. */
static bool add_content(struct text_buffer *text, const json_t *message)
{
    const json_t *content = json_object_get(message, "content");
    if (json_string_length(content) == 0) return true;
    return text_buffer_add(text, json_string_value(content), json_string_length(content)) &&
           plain_add(text, "\n\n");
}

/* Sets a message's text and frees the buffer. */
static bool set_content(json_t *message, struct text_buffer *text, bool good)
{
    while (text->size > 0 && text->data[text->size - 1] == '\n') text->size--;
    good = good && json_object_set_new(message, "content",
                                       json_stringn(text->size ? text->data : "", text->size)) == 0;
    text_buffer_free(text);
    return good;
}

/* The system message tells of the tools; without one there is one now. */
static bool tell_tools(json_t *messages, const json_t *tools)
{
    struct text_buffer text = {0};
    json_t *first = json_array_get(messages, 0), *tool;
    size_t i;
    if (!first || !plain_has_role(first, "system")) {
        first = json_pack("{s:s}", "role", "system");
        if (!first || json_array_insert_new(messages, 0, first) != 0) return false;
    }
    bool good = add_content(&text, first) && plain_add(&text, before_tools);
    json_array_foreach((json_t *)(size_t)tools, i, tool)
    {
        const json_t *function = json_object_get(tool, "function");
        if (i > 0) good = good && plain_add(&text, "\n");
        good = good && add_value(&text, function ? function : tool);
    }
    return set_content(first, &text, good && plain_add(&text, after_tools));
}

/* What the assistant has called becomes a part of what it has said. */
static bool write_calls(json_t *message)
{
    struct text_buffer text = {0};
    const json_t *calls = json_object_get(message, "tool_calls"), *call;
    size_t i;
    bool good = add_content(&text, message);
    json_array_foreach(calls, i, call)
    {
        const json_t *function = json_object_get(call, "function");
        good = good && plain_add(&text, "<tool_call>{\"name\": ") &&
               add_value(&text, json_object_get(function, "name")) && plain_add(&text, ", \"arguments\": ") &&
               add_value(&text, json_object_get(function, "arguments")) &&
               plain_add(&text, "}</tool_call>\n");
    }
    json_object_del(message, "tool_calls");
    return set_content(message, &text, good);
}

/* A result becomes what the user says, together with those right before it. */
static bool write_result(json_t *message, json_t *before)
{
    struct text_buffer text = {0};
    bool joins = before && json_object_get(before, "tool_result");
    bool good = (!joins || add_content(&text, before)) && plain_add(&text, "<tool_response>\n");
    const json_t *content = json_object_get(message, "content");
    good = good && text_buffer_add(&text, json_string_value(content), json_string_length(content)) &&
           plain_add(&text, "\n</tool_response>");
    return set_content(joins ? before : message, &text, good);
}

int plain_calls_write(json_t *messages, const json_t *tools)
{
    bool good = !tools || tell_tools(messages, tools);
    for (size_t i = 0; i < json_array_size(messages) && good; i++) {
        json_t *message = json_array_get(messages, i),
               *before = i > 0 ? json_array_get(messages, i - 1) : NULL;
        if (json_array_size(json_object_get(message, "tool_calls")) > 0) good = write_calls(message);
        if (!good || !plain_has_role(message, "tool")) continue;
        good = write_result(message, before);
        if (before && json_object_get(before, "tool_result")) {
            json_array_remove(messages, i--);
            continue;
        }
        good = good && json_object_set_new(message, "role", json_string("user")) == 0 &&
               json_object_set_new(message, "tool_result", json_true()) == 0;
        json_object_del(message, "tool_call_id");
    }
    for (size_t i = 0; i < json_array_size(messages); i++)
        json_object_del(json_array_get(messages, i), "tool_result");
    return good ? ENGINE_OK : ENGINE_ERROR_MEMORY;
}

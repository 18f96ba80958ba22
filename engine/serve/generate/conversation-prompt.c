/* conversation-prompt.c: see conversation-prompt.h. */
#include "serve/generate/conversation-prompt.h"

#include <stdlib.h>
#include <string.h>

#include "commands/chat-template.h"
#include "common/json-read.h"
#include "serve/generate/lenient.h"
#include "serve/generate/shape.h"
#include "serve/server.h"

/* ---- Variables ---- */

/* Whether the template mentions reasoning in any form that replies know. */
static bool knows_reasoning(const struct generation *g)
{
    return g->reply_format == ENGINE_REPLY_GPT_OSS || strstr(g->template_text, "think>") ||
           strstr(g->template_text, "THINK]");
}

/* enable_thinking for templates that call it otherwise. gpt-oss always reasons. */
static bool set_switch(struct generation *g, struct mistake *mistake)
{
    const json_t *on = json_object_get(g->ask.variables, "enable_thinking");
    if (!mistake->lenient || !json_is_boolean(on) || strstr(g->template_text, "enable_thinking")) return true;
    if (json_object_get(g->ask.variables, "reasoning_effort") || g->reply_format == ENGINE_REPLY_GPT_OSS)
        return true;
    if (!strstr(g->template_text, "reasoning_effort"))
        return json_object_get(g->ask.variables, "thinking") ||
               ask_set_variable(&g->ask, "thinking", json_boolean(json_is_true(on)), mistake);
    return json_is_true(on) || ask_set_variable(&g->ask, "reasoning_effort", json_string("none"), mistake);
}

/* Templates know how much to reason by one of these variables, or not at all. */
static bool set_effort(struct generation *g, struct mistake *mistake)
{
    static const char *const switches[] = {"enable_thinking", "thinking", NULL};
    if (!set_switch(g, mistake)) return false;
    const char *effort = json_string_value(json_object_get(g->ask.variables, "reasoning_effort"));
    if (!effort || strstr(g->template_text, "reasoning_effort")) return true;
    for (const char *const *name = switches; *name; name++) {
        if (!strstr(g->template_text, *name)) continue;
        bool on = strcmp(effort, "none") != 0 && strcmp(effort, "minimal") != 0;
        json_object_del(g->ask.variables, "reasoning_effort");
        return ask_set_variable(&g->ask, *name, json_boolean(on), mistake);
    }
    if (mistake->lenient && knows_reasoning(g))
        lenient_say(mistake->lenient, "reasoning_effort",
                    "how much to reason is ignored: the template of the model %.80s has no variable for it",
                    g->served->name);
    if (mistake->lenient || (g->ask.effort_may_be_moot && !knows_reasoning(g))) {
        json_object_del(g->ask.variables, "reasoning_effort");
        return true;
    }
    return mistake_in(mistake, "reasoning_effort",
                      "this model's template has no variable for how much to reason: leave out the effort");
}

/* Those of the command line, except where the request has its own. */
static bool add_defaults(struct generation *g, struct mistake *mistake)
{
    char *text;
    int status = chat_template_variables(exchange_server(g->group.exchange)->arguments, &text);
    if (status) return mistake_memory(mistake); /* it was checked at the start */
    if (!text) return true;
    json_t *defaults = json_read_text(text, 0, NULL);
    free(text);
    if (!defaults) return mistake_memory(mistake);
    json_object_update(defaults, g->ask.variables);
    json_decref(g->ask.variables);
    g->ask.variables = defaults;
    return true;
}

/* ---- Rendering ---- */

static struct engine_string string_of(const char *text)
{
    return (struct engine_string){text, text ? strlen(text) : 0};
}

/* Renders with the messages and tools as they are. */
static int render_once(struct generation *g)
{
    bool tools = g->ask.tools && g->ask.tool_choice != TOOL_CHOICE_NONE;
    char *messages = json_dumps(g->ask.messages, JSON_COMPACT | JSON_REAL_PRECISION(17)),
         *tool_text = tools ? json_dumps(g->ask.tools, JSON_COMPACT | JSON_REAL_PRECISION(17)) : NULL,
         *variables = g->ask.variables ? json_dumps(g->ask.variables, JSON_COMPACT) : NULL;
    struct engine_template_input input = {.struct_size = sizeof input,
                                          .messages = string_of(messages),
                                          .tools = string_of(tool_text),
                                          .variables = string_of(variables),
                                          .no_generation_prompt = g->ask.no_turn,
                                          .continues_last = g->ask.continues};
    bool good = messages && (!tools || tool_text) && (!g->ask.variables || variables);
    int status =
        good ? engine_template_render(g->served->chat_template, &input, &g->rendered) : ENGINE_ERROR_MEMORY;
    free(messages);
    free(tool_text);
    free(variables);
    return status;
}

/* Gives objects of an array an empty text for a key that they lack or have as null. `within`: the key of the object in
 * each that is meant; NULL: themselves. Returns whether there were any. */
static bool fill_in(json_t *array, const char *within, const char *key)
{
    size_t i;
    json_t *item;
    bool any = false;
    json_array_foreach(array, i, item)
    {
        json_t *object = within ? json_object_get(item, within) : item, *value = json_object_get(object, key);
        if (!json_is_object(object) || (value && !json_is_null(value))) continue;
        any = json_object_set_new(object, key, json_string("")) == 0 || any;
    }
    return any;
}

static bool is_system(const json_t *message)
{
    const char *role = json_string_value(json_object_get(message, "role"));
    return role && strcmp(role, "system") == 0;
}

/* Appends the content of a message to that of the one before, and takes it out. */
static bool join(json_t *messages, size_t i)
{
    json_t *before = json_array_get(messages, i - 1);
    const json_t *first = json_object_get(before, "content"),
                 *second = json_object_get(json_array_get(messages, i), "content");
    struct text_buffer both = {0};
    bool good =
        !text_add(&both, &(struct engine_string){json_string_value(first), json_string_length(first)}) &&
        !text_add(&both, &(struct engine_string){"\n\n", 2}) &&
        !text_add(&both, &(struct engine_string){json_string_value(second), json_string_length(second)}) &&
        json_object_set_new(before, "content", json_stringn(both.data, both.size)) == 0 &&
        json_array_remove(messages, i) == 0;
    free(both.data);
    return good;
}

/* Several system messages at the beginning become one, and those in the middle the user's. Returns whether there were
 * any. */
static bool move_systems(json_t *messages)
{
    size_t i = 0;
    bool any = false;
    while (is_system(json_array_get(messages, i))) {
        if (i == 0)
            i++;
        else if (join(messages, i))
            any = true;
        else
            return false;
    }
    for (; i < json_array_size(messages); i++)
        if (is_system(json_array_get(messages, i)))
            any = json_object_set_new(json_array_get(messages, i), "role", json_string("user")) == 0 || any;
    return any;
}

/* Messages of the user that follow each other become one: many templates insist on turns. Returns whether there were
 * any. */
static bool join_users(json_t *messages)
{
    bool any = false;
    for (size_t i = 1; i < json_array_size(messages); i++) {
        const json_t *one = json_array_get(messages, i - 1), *two = json_array_get(messages, i);
        const char *before = json_string_value(json_object_get(one, "role")),
                   *role = json_string_value(json_object_get(two, "role"));
        bool users = before && role && strcmp(before, "user") == 0 && strcmp(role, "user") == 0;
        while (users && join(messages, i)) {
            any = true;
            role = json_string_value(json_object_get(json_array_get(messages, i), "role"));
            users = role && strcmp(role, "user") == 0;
        }
    }
    return any;
}

/* Renders what the template has refused with the system messages in other places; a status. */
static int render_moved(struct generation *g, int status, struct mistake *mistake)
{
    json_t *messages = g->ask.messages;
    if (!mistake->lenient) return status;
    if (move_systems(messages)) {
        status = render_once(g);
        if (status && join_users(messages)) status = render_once(g);
    }
    if (status && is_system(json_array_get(messages, 0)) && json_array_size(messages) > 1) {
        json_object_set_new(json_array_get(messages, 0), "role", json_string("user"));
        join_users(messages);
        status = render_once(g);
    }
    if (!status)
        lenient_say(
            mistake->lenient, "system",
            "the template of the model %.80s refuses system messages in such places: the model gets them as "
            "the user's",
            g->served->name);
    return status;
}

/* Some templates take it for granted that a message that only calls tools has a text, or that a tool has a description,
 * which OpenAI's API lets clients leave out. If a template can't be rendered, it gets empty ones. */
static bool render(struct generation *g, struct mistake *mistake)
{
    int status = render_once(g);
    if (status == ENGINE_ERROR_DATA || status == ENGINE_ERROR_ARGUMENT) {
        struct mistake first = {.lenient = mistake->lenient};
        mistake_of_engine(&first, status, "messages");
        bool texts = fill_in(g->ask.messages, NULL, "content");
        bool filled = fill_in(g->ask.tools, "function", "description") || texts;
        status = filled ? render_once(g) : status;
        if (status) status = render_moved(g, status, mistake);
        mistake_hide(&first, engine_template_origin(g->served->chat_template));
        if (status) return *mistake = first, false;
    }
    if (!status) status = engine_rendered_encode(g->rendered, 0, token_list_sink, &g->tokens);
    if (status) mistake_of_engine(mistake, status, "messages");
    mistake_hide(mistake, engine_template_origin(g->served->chat_template));
    return !status;
}

/* Whether the template has begun the reasoning: its text ends with a mark that is not a user's. */
static bool begins_reasoning(const struct generation *g)
{
    static const char *const marks[] = {"<think>", "[THINK]"};
    struct engine_string text = engine_rendered_text(g->rendered);
    const unsigned char *whose = engine_rendered_marks(g->rendered);
    while (text.length > 0 && strchr(" \n\t\r", text.data[text.length - 1])) text.length--;
    for (size_t i = 0; i < sizeof marks / sizeof *marks; i++) {
        size_t n = strlen(marks[i]);
        if (text.length >= n && memcmp(text.data + text.length - n, marks[i], n) == 0 &&
            !memchr(whose + text.length - n, 1, n))
            return g->reply_format != ENGINE_REPLY_GPT_OSS;
    }
    return false;
}

/* The model's template says nothing of tools, or they are written in a way that replies don't know. */
static bool check_tools(const struct generation *g, struct mistake *mistake)
{
    if (!g->ask.tools || g->ask.tool_choice == TOOL_CHOICE_NONE || g->served->writes_calls) return true;
    return mistake_in(mistake, "tools",
                      "this model's template knows no calls of tools in a form that the server reads");
}

/* Each message has a token at least, so that many are too many, and nobody has to wait until a template has seen them all. */
static bool check_messages(const struct generation *g, struct mistake *mistake)
{
    size_t n = json_array_size(g->ask.messages);
    if (n <= g->served->info.n_context) return true;
    return mistake_with_code(mistake, "context_length_exceeded", "messages",
                             "there are %zu messages, but the context of this model takes %u tokens here", n,
                             g->served->info.n_context);
}

bool conversation_prompt(struct generation *g, struct mistake *mistake)
{
    if (!check_messages(g, mistake)) return false;
    if (!g->served->chat_template) return mistake_in(mistake, "messages", "%s", g->served->template_fault);
    struct engine_string source = engine_template_source(g->served->chat_template);
    g->template_text = strndup(source.data, source.length);
    if (!g->template_text) return mistake_memory(mistake);
    g->reply_format = g->served->reply_format;
    if (!ask_check_tools(&g->ask, mistake) || !check_tools(g, mistake) || !set_effort(g, mistake) ||
        !add_defaults(g, mistake) || !render(g, mistake))
        return false;
    g->conversation.tokens = g->tokens;
    g->reasoning = begins_reasoning(g);
    return true;
}

/* conversation.c: a conversation as the model's template writes it; and its messages in other places, where
 * the template has no place for them. Templates differ in what they take: some refuse a system message in the
 * middle, or two messages of the user in a row, and some leave out what they don't expect without a word. */
#include "serve/generate/generation.h"

#include <ctype.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/assert.h"
#include "common/json-read.h"
#include "prompts/prompt.h"
#include "serve/server.h"

/* ---- Variables ---- */

/* Whether the template mentions reasoning in any form that replies know. */
static bool knows_reasoning(const struct generation *g)
{
    struct engine_reply_layout layout = {.struct_size = sizeof layout};
    engine_template_reply_layout(g->served->chat_template, &layout);
    return g->reply_format == ENGINE_REPLY_GPT_OSS || strstr(g->template_text, "think>") ||
           strstr(g->template_text, "THINK]") || (layout.reasoning_begin && layout.reasoning_begin[0]);
}

/* enable_thinking for templates that call it otherwise. gpt-oss always reasons. */
static bool set_switch(struct generation *g, struct api_error *error)
{
    const json_t *on = json_object_get(g->params.variables, "enable_thinking");
    if (!error->lenient || !json_is_boolean(on) || strstr(g->template_text, "enable_thinking")) return true;
    if (json_object_get(g->params.variables, "reasoning_effort") || g->reply_format == ENGINE_REPLY_GPT_OSS)
        return true;
    if (!strstr(g->template_text, "reasoning_effort"))
        return json_object_get(g->params.variables, "thinking") ||
               params_set_variable(&g->params, "thinking", json_boolean(json_is_true(on)), error);
    return json_is_true(on) ||
           params_set_variable(&g->params, "reasoning_effort", json_string("none"), error);
}

/* Variables by which templates know whether to reason. */
static const char *const switches[] = {"enable_thinking", "thinking", NULL};

static bool is_no_effort(const char *effort)
{
    return strcmp(effort, "none") == 0 || strcmp(effort, "minimal") == 0;
}

/* A limit for reasoning counts more than an effort. With 0 templates that can begin with the answer do so. */
static bool set_budget(struct generation *g, struct api_error *error)
{
    const char *effort = json_string_value(json_object_get(g->params.variables, "reasoning_effort"));
    bool none = g->params.max_reasoning == 0;
    if (g->params.limits_reasoning && !none && effort && is_no_effort(effort))
        json_object_del(g->params.variables, "reasoning_effort");
    if (!none) return true;
    if (!strstr(g->template_text, "reasoning_effort"))
        json_object_del(g->params.variables, "reasoning_effort");
    for (const char *const *name = switches; *name; name++)
        if (strstr(g->template_text, *name))
            return params_set_variable(&g->params, *name, json_false(), error);
    return true;
}

/* Templates know how much to reason by one of these variables, or not at all. */
static bool set_effort(struct generation *g, struct api_error *error)
{
    if (!set_budget(g, error) || !set_switch(g, error)) return false;
    const char *effort = json_string_value(json_object_get(g->params.variables, "reasoning_effort"));
    if (!effort || strstr(g->template_text, "reasoning_effort")) return true;
    for (const char *const *name = switches; *name; name++) {
        if (!strstr(g->template_text, *name)) continue;
        bool on = !is_no_effort(effort);
        json_object_del(g->params.variables, "reasoning_effort");
        return params_set_variable(&g->params, *name, json_boolean(on), error);
    }
    if (error->lenient && knows_reasoning(g))
        lenient_say(error->lenient, "reasoning_effort",
                    "how much to reason is ignored: the template of the model %.80s has no variable for it",
                    g->served->name);
    if (error->lenient || (g->params.effort_may_be_moot && !knows_reasoning(g))) {
        json_object_del(g->params.variables, "reasoning_effort");
        return true;
    }
    return api_error_in(error, "reasoning_effort",
                        "this model's template has no variable for how much to reason: leave out the effort");
}

/* Those of the command line, except where the request has its own. */
static bool add_defaults(struct generation *g, struct api_error *error)
{
    char *text;
    int status = chat_template_variables(exchange_server(g->group.exchange)->arguments, &text);
    if (status) return api_error_memory(error); /* it was checked at the start */
    if (!text) return true;
    json_t *defaults = json_read_text(text, 0, NULL);
    free(text);
    if (!defaults) return api_error_memory(error);
    json_object_update(defaults, g->params.variables);
    json_decref(g->params.variables);
    g->params.variables = defaults;
    return true;
}

/* ---- Rendering ---- */

static struct engine_string conversation_string_of(const char *text)
{
    return (struct engine_string){text, text ? strlen(text) : 0};
}

/* Renders messages, with the tools as they are. */
static int render_messages(const struct generation *g, const json_t *given, struct engine_rendered **rendered)
{
    bool tools = g->params.tools && g->params.tool_choice != TOOL_CHOICE_NONE;
    char *messages = json_dumps(given, JSON_COMPACT | JSON_REAL_PRECISION(17)),
         *tool_text = tools ? json_dumps(g->params.tools, JSON_COMPACT | JSON_REAL_PRECISION(17)) : NULL,
         *variables = g->params.variables ? json_dumps(g->params.variables, JSON_COMPACT) : NULL;
    struct engine_template_input input = {.struct_size = sizeof input,
                                          .messages = conversation_string_of(messages),
                                          .tools = conversation_string_of(tool_text),
                                          .variables = conversation_string_of(variables),
                                          .no_generation_prompt = g->params.no_turn,
                                          .continues_last = g->params.continues};
    bool good = messages && (!tools || tool_text) && (!g->params.variables || variables);
    int status =
        good ? engine_template_render(g->served->chat_template, &input, rendered) : ENGINE_ERROR_MEMORY;
    free(messages);
    free(tool_text);
    free(variables);
    return status;
}

static int render_once(struct generation *g)
{
    engine_rendered_free(g->rendered);
    g->rendered = NULL;
    return render_messages(g, g->params.messages, &g->rendered);
}

/* Gives objects of an array an empty text for a key that they lack or have as null. `within`: the key of the
 * object in each that is meant; NULL: themselves. Returns whether there were any. */
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

/* ---- Messages in other places ---- */

/* Whether the template has written the system messages of `given`, which is rendered. Some change such a
 * text, so that only marks tell; others leave out messages that they don't expect. */
static int shows_systems(const struct generation *g, const json_t *given, bool *all)
{
    struct engine_rendered *rendered = NULL;
    *all = placing_has_systems(given, engine_rendered_text(g->rendered));
    if (*all) return ENGINE_OK;
    json_t *marked = placing_marked(given, g->id);
    int status = marked ? render_messages(g, marked, &rendered) : ENGINE_ERROR_MEMORY;
    if (!status) {
        size_t n = placing_count_marks(given, g->id, engine_rendered_text(rendered));
        *all = n == placing_count_systems(given);
        if (n == SIZE_MAX) status = ENGINE_ERROR_MEMORY;
    }
    json_decref(marked);
    engine_rendered_free(rendered);
    return status == ENGINE_ERROR_MEMORY ? status : ENGINE_OK;
}

static void say_moved(const struct generation *g, bool systems, const struct api_error *error)
{
    if (systems)
        lenient_say(
            error->lenient, "system",
            "the template of the model %.80s has no place for some system messages of a conversation: "
            "the model gets them as the user's, or as one",
            g->served->name);
    else
        lenient_say(
            error->lenient, "order of messages",
            "the template of the model %.80s refuses messages in such an order: what the user says in "
            "several of them in a row, or right after a tool's result, is joined",
            g->served->name);
}

/* Renders what the template has refused (`status`), or what it has left a system message out of, with
 * messages in other places. If none of them is better, everything stays as it was. A status. */
static int render_moved(struct generation *g, int status, const struct api_error *error)
{
    json_t *given = g->params.messages;
    int now = status, result = ENGINE_OK;
    bool systems = false, all = false;
    g->params.messages = json_deep_copy(given);
    if (!g->params.messages) result = ENGINE_ERROR_MEMORY;
    for (unsigned how = 0; how < N_PLACINGS && !result && !all; how++) {
        bool changed;
        result = placing_apply(&g->params.messages, how, &changed);
        if (result || !changed) continue;
        systems |= how == PLACING_SYSTEMS || how == PLACING_FIRST;
        now = render_once(g);
        if (now == ENGINE_ERROR_MEMORY) result = now;
        all = !now && placing_has_systems(given, engine_rendered_text(g->rendered));
    }
    if (!result && (all || (status && !now))) {
        json_decref(given);
        say_moved(g, systems, error);
        return ENGINE_OK;
    }
    json_decref(g->params.messages);
    g->params.messages = given;
    if (result) return result;
    return status ? status : render_once(g);
}

/* ---- A prompt ---- */

/* Some templates take it for granted that a message that only calls tools has a text, or that a tool has a
 * description, which OpenAI's API lets clients leave out. If a template can't be rendered, it gets empty
 * ones. */
static bool conversation_render(struct generation *g, struct api_error *error)
{
    struct api_error first = {.lenient = error->lenient};
    int status = render_once(g);
    bool shown = true;
    if (status == ENGINE_ERROR_DATA || status == ENGINE_ERROR_ARGUMENT) {
        api_error_of_engine(&first, status, "messages");
        api_error_hide(&first, engine_template_origin(g->served->chat_template));
        bool texts = fill_in(g->params.messages, NULL, "content");
        bool filled = fill_in(g->params.tools, "function", "description") || texts;
        if (filled) status = render_once(g);
    }
    bool refused = status == ENGINE_ERROR_DATA || status == ENGINE_ERROR_ARGUMENT;
    if (!status && error->lenient) status = shows_systems(g, g->params.messages, &shown);
    if (error->lenient && (refused || (!status && !shown))) status = render_moved(g, status, error);
    if (status && status != ENGINE_ERROR_MEMORY && first.status) return *error = first, false;
    if (!status) status = engine_rendered_encode(g->rendered, 0, token_list_sink, &g->tokens);
    if (status) api_error_of_engine(error, status, "messages");
    api_error_hide(error, engine_template_origin(g->served->chat_template));
    return !status;
}

/* Whether the template has begun the reasoning: its text ends with a mark that is not a user's. */
static bool begins_reasoning(const struct generation *g)
{
    struct engine_reply_layout layout = {.struct_size = sizeof layout};
    struct engine_string text = engine_rendered_text(g->rendered);
    const unsigned char *whose = engine_rendered_marks(g->rendered);
    engine_template_reply_layout(g->served->chat_template, &layout);
    size_t n = layout.reasoning_begin ? strlen(layout.reasoning_begin) : 0;
    while (text.length > 0 && strchr(" \n\t\r", text.data[text.length - 1])) text.length--;
    if (n > 0 && text.length >= n && memcmp(text.data + text.length - n, layout.reasoning_begin, n) == 0)
        return !memchr(whose + text.length - n, 1, n);
    return false;
}

static bool offers_tools(const struct generation *g)
{
    return g->params.tools && g->params.tool_choice != TOOL_CHOICE_NONE;
}

/* The model's template for tools has a mistake, says nothing of tools, or writes them in a way that replies
 * don't know. */
static bool check_tools(const struct generation *g, struct api_error *error)
{
    if (!offers_tools(g) || g->served->writes_calls) return true;
    const char *fault = engine_template_tools_fault(g->served->chat_template);
    if (fault) return api_error_in(error, "tools", "%s " CHAT_TEMPLATE_HINT, fault);
    return api_error_in(error, "tools",
                        "this model's template knows no calls of tools in a form that the server reads");
}

/* Tools that the template doesn't know become a part of the texts, and calls come in a plain form. */
static bool write_plain_calls(struct generation *g, struct api_error *error)
{
    const char *fault = engine_template_tools_fault(g->served->chat_template);
    bool offered = offers_tools(g);
    if (g->served->writes_calls || fault || !plain_calls_fit(g->template_text, g->reply_format))
        return check_tools(g, error);
    if (plain_calls_write(g->params.messages, offered ? g->params.tools : NULL))
        return api_error_memory(error);
    g->has_plain_calls = offered;
    if (offered) g->reply_format = ENGINE_REPLY_HERMES;
    return true;
}

/* Each message has a token at least, so that many are too many, and nobody has to wait until a template has
 * seen them all. */
static bool check_messages(const struct generation *g, struct api_error *error)
{
    size_t n = json_array_size(g->params.messages);
    if (n <= g->served->info.n_context) return true;
    return api_error_with_code(error, "context_length_exceeded", "messages",
                               "there are %zu messages, but the context of this model takes %u tokens here",
                               n, g->served->info.n_context);
}

bool conversation_prompt(struct generation *g, struct api_error *error)
{
    if (!check_messages(g, error)) return false;
    if (!g->served->chat_template) return api_error_in(error, "messages", "%s", g->served->template_fault);
    const char *fault = engine_template_fault(g->served->chat_template);
    if (fault && !offers_tools(g)) return api_error_in(error, "messages", "%s " CHAT_TEMPLATE_HINT, fault);
    struct engine_string source = engine_template_source(g->served->chat_template);
    g->template_text = strndup(source.data, source.length);
    if (!g->template_text) return api_error_memory(error);
    g->reply_format = g->served->reply_format;
    if (!params_check_tools(&g->params, error) || !write_plain_calls(g, error) || !set_effort(g, error) ||
        !add_defaults(g, error) || !conversation_render(g, error))
        return false;
    g->conversation.tokens = g->tokens;
    g->reasoning = begins_reasoning(g);
    return true;
}

static bool conversation_has_role(const json_t *message, const char *role)
{
    const char *text = json_string_value(json_object_get(message, "role"));
    return text && strcmp(text, role) == 0;
}

static struct engine_string content_of(const json_t *message)
{
    const json_t *content = json_object_get(message, "content");
    return (struct engine_string){json_string_value(content), json_string_length(content)};
}

static bool make_users(json_t *message)
{
    return json_object_set_new(message, "role", json_string("user")) == 0;
}

/* ---- Joining ---- */

/* Messages one after the other, some of which go on with the one before. */
struct joined {
    json_t *messages;
    struct text_buffer text; /* what the last one is to say, if it is open */
    bool open, good, any;
};

static void placing_close_last(struct joined *all)
{
    json_t *last = json_array_get(all->messages, json_array_size(all->messages) - 1);
    if (!all->open) return;
    all->good =
        all->good && json_object_set_new(last, "content", json_stringn(all->text.data, all->text.size)) == 0;
    all->open = false;
    all->text.size = 0;
}

static void placing_add_text(struct joined *all, struct engine_string text)
{
    if (text.length > 0) all->good = all->good && text_add(&all->text, &text) == 0;
}

static void placing_go_on(struct joined *all, const json_t *message)
{
    if (!all->open)
        placing_add_text(all, content_of(json_array_get(all->messages, json_array_size(all->messages) - 1)));
    all->open = all->any = true;
    placing_add_text(all, (struct engine_string){"\n\n", 2});
    placing_add_text(all, content_of(message));
}

static bool both_system(const json_t *before, const json_t *message)
{
    return conversation_has_role(before, "system") && conversation_has_role(message, "system");
}

static bool both_user(const json_t *before, const json_t *message)
{
    return conversation_has_role(before, "user") && conversation_has_role(message, "user");
}

static bool follows_result(const json_t *before, const json_t *message)
{
    return conversation_has_role(before, "tool") && conversation_has_role(message, "user");
}

/* Joins the messages that `belongs` says go on with the one before. */
static int placing_join(json_t **messages, bool (*belongs)(const json_t *before, const json_t *message),
                        bool *changed)
{
    struct joined all = {.messages = json_array(), .good = true};
    size_t i;
    json_t *message;
    json_array_foreach(*messages, i, message)
    {
        const json_t *last = json_array_get(all.messages, json_array_size(all.messages) - 1);
        if (last && belongs(last, message)) {
            placing_go_on(&all, message);
            continue;
        }
        placing_close_last(&all);
        all.good = all.good && json_array_append(all.messages, message) == 0;
    }
    placing_close_last(&all);
    free(all.text.data);
    bool good = all.messages && all.good;
    if (good && all.any) {
        json_decref(*messages);
        *messages = all.messages;
        *changed = true;
        return ENGINE_OK;
    }
    json_decref(all.messages);
    return good ? ENGINE_OK : ENGINE_ERROR_MEMORY;
}

/* ---- Moving ---- */

static int move_systems(json_t **messages, bool *changed)
{
    size_t i;
    json_t *message;
    bool first = true;
    if (placing_join(messages, both_system, changed)) return ENGINE_ERROR_MEMORY;
    json_array_foreach(*messages, i, message)
    {
        if (!first && conversation_has_role(message, "system")) {
            if (!make_users(message)) return ENGINE_ERROR_MEMORY;
            *changed = true;
        }
        first = false;
    }
    return ENGINE_OK;
}

/* What the user says between a call and its results goes behind these. */
static int let_results_follow(json_t **messages, bool *changed)
{
    json_t *moved = json_array(), *held = json_array(), *message;
    bool good = moved && held, called = false, any = false;
    size_t i;
    json_array_foreach(*messages, i, message)
    {
        bool user = conversation_has_role(message, "user"), result = conversation_has_role(message, "tool");
        if (called && user) {
            good = good && json_array_append(held, message) == 0;
            continue;
        }
        any |= result && json_array_size(held) > 0;
        if (!result) {
            good = good && json_array_extend(moved, held) == 0 && json_array_clear(held) == 0;
            called = json_array_size(json_object_get(message, "tool_calls")) > 0;
        }
        good = good && json_array_append(moved, message) == 0;
    }
    good = good && json_array_extend(moved, held) == 0;
    json_decref(held);
    if (good && any) {
        json_decref(*messages);
        *messages = moved;
        *changed = true;
        return ENGINE_OK;
    }
    json_decref(moved);
    return good ? ENGINE_OK : ENGINE_ERROR_MEMORY;
}

static int move_first(json_t **messages, bool *changed)
{
    json_t *first = json_array_get(*messages, 0);
    if (!conversation_has_role(first, "system")) return ENGINE_OK;
    if (!make_users(first)) return ENGINE_ERROR_MEMORY;
    *changed = true;
    return placing_join(messages, both_user, changed);
}

int placing_apply(json_t **messages, enum placing how, bool *changed)
{
    int status = ENGINE_OK;
    *changed = false;
    if (how == PLACING_SYSTEMS) status = move_systems(messages, changed);
    if (how == PLACING_USERS) status = placing_join(messages, both_user, changed);
    if (how == PLACING_RESULTS) {
        status = let_results_follow(messages, changed);
        if (!status) status = placing_join(messages, follows_result, changed);
    }
    if (how == PLACING_FIRST) status = move_first(messages, changed);
    return status;
}

/* ---- What a template has shown ---- */

static struct engine_string placing_trimmed(struct engine_string text)
{
    while (text.length > 0 && isspace((unsigned char)text.data[text.length - 1])) text.length--;
    while (text.length > 0 && isspace((unsigned char)*text.data)) text.data++, text.length--;
    return text;
}

bool placing_has_systems(const json_t *messages, struct engine_string text)
{
    size_t i;
    json_t *message;
    json_array_foreach((json_t *)(size_t)messages, i, message)
    {
        struct engine_string said = placing_trimmed(content_of(message));
        if (!conversation_has_role(message, "system") || said.length == 0) continue;
        const char *at = text.length > 0 ? memmem(text.data, text.length, said.data, said.length) : NULL;
        if (!at) return false;
        size_t past = (size_t)(at - text.data) + said.length;
        text = (struct engine_string){text.data + past, text.length - past};
    }
    return true;
}

size_t placing_count_systems(const json_t *messages)
{
    size_t i, count = 0;
    json_t *message;
    json_array_foreach((json_t *)(size_t)messages, i, message) count +=
        conversation_has_role(message, "system");
    return count;
}

json_t *placing_marked(const json_t *messages, const char *mark)
{
    json_t *copy = json_deep_copy(messages), *message;
    size_t i, number = 0;
    json_array_foreach(copy, i, message)
    {
        char end[96];
        struct text_buffer text = {0};
        struct engine_string said = content_of(message);
        if (!conversation_has_role(message, "system")) continue;
        int n = snprintf(end, sizeof end, " %.64s%zu.", mark, number++);
        ENGINE_ASSERT(n > 0 && (size_t)n < sizeof end);
        bool good = (said.length == 0 || text_add(&text, &said) == 0) &&
                    text_add(&text, &(struct engine_string){end, (size_t)n}) == 0 &&
                    json_object_set_new(message, "content", json_stringn(text.data, text.size)) == 0;
        free(text.data);
        if (good) continue;
        json_decref(copy);
        return NULL;
    }
    return copy;
}

size_t placing_count_marks(const json_t *messages, const char *mark, struct engine_string text)
{
    size_t n = placing_count_systems(messages), count = 0, length = strnlen(mark, 64);
    const char *end = text.data + text.length, *at = text.data;
    bool *seen = calloc(n + 1, sizeof *seen);
    while (seen && at < end && (at = memmem(at, (size_t)(end - at), mark, length))) {
        size_t number = 0;
        for (at += length; at < end && *at >= '0' && *at <= '9' && number < n; at++)
            number = number * 10 + (size_t)(*at - '0');
        if (number >= n || seen[number]) continue;
        seen[number] = true;
        count++;
    }
    bool none = !seen;
    free(seen);
    return none ? SIZE_MAX : count;
}

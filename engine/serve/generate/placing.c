/* placing.c: see placing.h. */
#include "serve/generate/placing.h"

#include <ctype.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "commands/common.h"

static bool has_role(const json_t *message, const char *role)
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

static void close_last(struct joined *all)
{
    json_t *last = json_array_get(all->messages, json_array_size(all->messages) - 1);
    if (!all->open) return;
    all->good =
        all->good && json_object_set_new(last, "content", json_stringn(all->text.data, all->text.size)) == 0;
    all->open = false;
    all->text.size = 0;
}

static void add_text(struct joined *all, struct engine_string text)
{
    if (text.length > 0) all->good = all->good && text_add(&all->text, &text) == 0;
}

static void go_on(struct joined *all, const json_t *message)
{
    if (!all->open)
        add_text(all, content_of(json_array_get(all->messages, json_array_size(all->messages) - 1)));
    all->open = all->any = true;
    add_text(all, (struct engine_string){"\n\n", 2});
    add_text(all, content_of(message));
}

static bool both_system(const json_t *before, const json_t *message)
{
    return has_role(before, "system") && has_role(message, "system");
}

static bool both_user(const json_t *before, const json_t *message)
{
    return has_role(before, "user") && has_role(message, "user");
}

static bool follows_result(const json_t *before, const json_t *message)
{
    return has_role(before, "tool") && has_role(message, "user");
}

/* Joins the messages that `belongs` says go on with the one before. */
static int join(json_t **messages, bool (*belongs)(const json_t *before, const json_t *message),
                bool *changed)
{
    struct joined all = {.messages = json_array(), .good = true};
    size_t i;
    json_t *message;
    json_array_foreach(*messages, i, message)
    {
        const json_t *last = json_array_get(all.messages, json_array_size(all.messages) - 1);
        if (last && belongs(last, message)) {
            go_on(&all, message);
            continue;
        }
        close_last(&all);
        all.good = all.good && json_array_append(all.messages, message) == 0;
    }
    close_last(&all);
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
    if (join(messages, both_system, changed)) return ENGINE_ERROR_MEMORY;
    json_array_foreach(*messages, i, message)
    {
        if (!first && has_role(message, "system")) {
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
        bool user = has_role(message, "user"), result = has_role(message, "tool");
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
    if (!has_role(first, "system")) return ENGINE_OK;
    if (!make_users(first)) return ENGINE_ERROR_MEMORY;
    *changed = true;
    return join(messages, both_user, changed);
}

int placing_apply(json_t **messages, enum placing how, bool *changed)
{
    int status = ENGINE_OK;
    *changed = false;
    if (how == PLACING_SYSTEMS) status = move_systems(messages, changed);
    if (how == PLACING_USERS) status = join(messages, both_user, changed);
    if (how == PLACING_RESULTS) {
        status = let_results_follow(messages, changed);
        if (!status) status = join(messages, follows_result, changed);
    }
    if (how == PLACING_FIRST) status = move_first(messages, changed);
    return status;
}

/* ---- What a template has shown ---- */

static struct engine_string trimmed(struct engine_string text)
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
        struct engine_string said = trimmed(content_of(message));
        if (!has_role(message, "system") || said.length == 0) continue;
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
    json_array_foreach((json_t *)(size_t)messages, i, message) count += has_role(message, "system");
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
        if (!has_role(message, "system")) continue;
        int n = snprintf(end, sizeof end, " %.64s%zu.", mark, number++);
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

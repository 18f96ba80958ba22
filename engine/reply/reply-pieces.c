/* reply-pieces.c: hands out the pieces of a reply: content with the white space that belongs to it, and
 * calls, as a whole (calls.c) or as they are written (partial-calls.c). What turns out to be no call is
 * content, marks included. The state machine in reply.c says when. */
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "common/assert.h"
#include "common/json-read.h"
#include "reply/internal.h"

/* ---- Texts ---- */

static void hand_out_piece(struct engine_reply *reply, uint32_t part, const char *text, size_t length)
{
    reply->piece(reply->user, &(struct engine_reply_piece){.struct_size = sizeof(struct engine_reply_piece),
                                                           .part = part,
                                                           .text = {text, length}});
}

int reply_set_gap(struct engine_reply *reply, const char *space, size_t length)
{
    if (reply->gap.size > 0 || reply->quiet) return ENGINE_OK;
    return reply_append(&reply->gap, space, length);
}

int reply_hand_out(struct engine_reply *reply, uint32_t part, const char *text, size_t length)
{
    size_t space = 0;
    if (reply->trim)
        while (space < length && is_json_space(text[space])) space++;
    if (part == ENGINE_REPLY_CONTENT && reply->has_content && space > 0) {
        int status = reply_set_gap(reply, text, space);
        if (status) return status;
    }
    if (space == length || reply->quiet) return ENGINE_OK;
    reply->trim = false;
    if (part == ENGINE_REPLY_CONTENT) {
        if (reply->gap.size > 0 && (reply->has_content || reply->keeps_gap))
            hand_out_piece(reply, part, reply->gap.data, reply->gap.size);
        reply->gap.size = 0;
        reply->has_content = true;
    }
    hand_out_piece(reply, part, text + space, length - space);
    return ENGINE_OK;
}

int reply_hand_out_content(struct engine_reply *reply, const char *text, size_t length)
{
    return reply_hand_out(reply, ENGINE_REPLY_CONTENT, text, length);
}

void reply_forget_lead(struct engine_reply *reply)
{
    reply->lead.size = 0;
    reply->keeps_gap = false;
}

int reply_give_up(struct engine_reply *reply, size_t length)
{
    ENGINE_ASSERT(length <= reply->held.size);
    int status = ENGINE_OK;
    if (reply->lead.size > 0) {
        reply->trim = false;
        status = reply_hand_out_content(reply, reply->lead.data, reply->lead.size);
    }
    if (!status) status = reply_hand_out_content(reply, reply->held.data, length);
    reply_forget_lead(reply);
    return status;
}

int reply_add_lead(struct engine_reply *reply, const char *text, size_t length)
{
    return reply->quiet ? ENGINE_OK : reply_append(&reply->lead, text, length);
}

/* ---- Calls ---- */

/* The text of a call's arguments, each written for itself, as partial-arguments.c does. */
static char *arguments_text(const json_t *arguments)
{
    struct text_buffer text = {0};
    const char *key;
    json_t *value;
    bool good = text_buffer_add(&text, "{", 1);
    json_object_foreach((json_t *)(size_t)arguments, key, value)
    {
        json_t *name = json_string(key);
        char *its = calls_value_text(name), *dump = calls_value_text(value);
        good = good && its && dump && (text.size == 1 || text_buffer_add(&text, ", ", 2)) &&
               text_buffer_add_string(&text, its) && text_buffer_add(&text, ": ", 2) &&
               text_buffer_add_string(&text, dump);
        json_decref(name);
        free(its);
        free(dump);
    }
    good = good && text_buffer_add(&text, "}", 2);
    if (!good) text_buffer_free(&text);
    return text.data;
}

/* Those from `first` on. */
static int hand_out_calls(struct engine_reply *reply, const json_t *calls, size_t first)
{
    for (size_t i = first; i < json_array_size(calls); i++) {
        const json_t *call = json_array_get(calls, i);
        char *arguments = arguments_text(json_object_get(call, "arguments"));
        if (!arguments) return error_memory("a tool call");
        struct engine_reply_piece piece = {.struct_size = sizeof piece,
                                           .part = ENGINE_REPLY_CALL,
                                           .call = reply->n_calls++,
                                           .flags = ENGINE_REPLY_CALL_BEGINS | ENGINE_REPLY_CALL_ENDS,
                                           .text = {arguments, strlen(arguments)},
                                           .name = json_string_value(json_object_get(call, "name")),
                                           .id = json_string_value(json_object_get(call, "id"))};
        reply->piece(reply->user, &piece);
        free(arguments);
    }
    return ENGINE_OK;
}

json_t *reply_read_calls(struct engine_reply *reply, size_t length, const char *close)
{
    if (!reply->opened) return calls_named(&reply->reader, reply->function, reply->held.data, length);
    return calls_read(&reply->reader, reply->opened->form, reply->layout, reply->held.data, length,
                      !close && reply->cut);
}

/* `whole`: nothing more comes, and no limit cut it. */
static struct partial_text followed_text(struct engine_reply *reply, size_t length, bool whole)
{
    enum calls_form form = reply->opened ? reply->opened->form : CALLS_OBJECTS;
    return (struct partial_text){.form = form,
                                 .layout = form == CALLS_BARE ? layout_of_bare() : reply->layout,
                                 .function = reply->opened ? NULL : reply->function,
                                 .data = reply->held.data,
                                 .length = length,
                                 .whole = whole,
                                 .reader = &reply->reader};
}

static int check_memory(const struct engine_reply *reply)
{
    return reply->reader.out_of_memory ? error_memory("a tool call") : ENGINE_OK;
}

static int hand_out_news(struct engine_reply *reply, struct partial_news *news, uint32_t flags)
{
    if (news->begins) reply->n_calls++;
    ENGINE_ASSERT(reply->n_calls > 0);
    struct engine_reply_piece piece = {.struct_size = sizeof piece,
                                       .part = ENGINE_REPLY_CALL,
                                       .call = reply->n_calls - 1,
                                       .flags = flags,
                                       .text = news->arguments,
                                       .name = news->name,
                                       .id = news->id};
    if (news->begins) piece.flags |= ENGINE_REPLY_CALL_BEGINS;
    if (news->ends) piece.flags |= ENGINE_REPLY_CALL_ENDS;
    if (!reply->reader.out_of_memory) reply->piece(reply->user, &piece);
    free(news->name);
    free(news->id);
    text_buffer_free(&news->made);
    return check_memory(reply);
}

int reply_follow_calls(struct engine_reply *reply, size_t length, bool whole)
{
    struct partial_text text = followed_text(reply, length, whole);
    struct partial_news news;
    int status = ENGINE_OK;
    while (!status && partial_next(&reply->partial, &text, &news)) status = hand_out_news(reply, &news, 0);
    return status ? status : check_memory(reply);
}

/* A call that a limit cut where its arguments would have begun: with *is_one, it has been handed out, with
 * none. */
static int end_before_arguments(struct engine_reply *reply, size_t length, bool *is_one)
{
    struct partial_text text = followed_text(reply, length, false);
    struct partial_news news;
    *is_one = reply->follows && partial_awaits(&reply->partial, &text, &news) && news.begins;
    return *is_one ? hand_out_news(reply, &news, ENGINE_REPLY_CALL_CUT) : check_memory(reply);
}

/* Whether the text, after white space, is the beginning of a mark that may come now. */
static bool begins_some_mark(const struct engine_reply *reply, const char *text, size_t length)
{
    while (length > 0 && is_json_space(*text)) text++, length--;
    for (size_t i = 0; i < reply->n_marks && length > 0; i++)
        if (reply_mark_is_active(reply, &reply->marks[i]) && length < strlen(reply->marks[i].text) &&
            memcmp(text, reply->marks[i].text, length) == 0)
            return true;
    return false;
}

/* The text of calls that have been handed out in part has ended after `length` bytes. `calls`: all of them,
 * or NULL: the last one is cut, or what comes after it is none. */
static int end_followed(struct engine_reply *reply, const json_t *calls, size_t length, const char *close)
{
    bool cut = !close && reply->cut, is_one = false;
    struct partial_text text = followed_text(reply, length, !cut);
    int status = ENGINE_OK;
    reply->trim = true;
    reply->plain_between = false;
    if (reply->partial.phase == PARTIAL_ARGUMENTS) {
        struct partial_news news = {.ends = true, .arguments = {"", 0}};
        return hand_out_news(reply, &news, ENGINE_REPLY_CALL_CUT);
    }
    if (calls) return hand_out_calls(reply, calls, reply->partial.n_begun);
    if (cut) status = end_before_arguments(reply, length, &is_one);
    /* The head of another call that a limit cut is no content. */
    if (status || is_one || (cut && reply->partial.phase != PARTIAL_LOST)) return status;
    size_t rest = partial_rest(&reply->partial, &text);
    if (cut && begins_some_mark(reply, reply->held.data + rest, length - rest)) return ENGINE_OK;
    return reply_hand_out_content(reply, reply->held.data + rest, length - rest);
}

/* Whether the call that a limit cut is dropped: it may have become one that is followed. */
static bool is_cut_head(const struct engine_reply *reply)
{
    return reply->follows && reply->opened != &reply_bare_call && reply->partial.phase == PARTIAL_HEAD;
}

int reply_end_call(struct engine_reply *reply, size_t length, const char *close, bool closes)
{
    bool cut = !close && reply->cut, is_one = false;
    struct partial_text text = followed_text(reply, length, !cut);
    int status = reply->follows ? reply_follow_calls(reply, length, !cut) : ENGINE_OK;
    json_t *calls = status ? NULL : reply_read_calls(reply, length, close);
    if (!status) status = check_memory(reply);
    if (!status && reply->partial.n_begun > 0) {
        status = end_followed(reply, calls, length, close);
    } else if (!status) {
        /* Arguments that have not begun are not {}. */
        bool awaits = cut && partial_awaits(&reply->partial, &text, NULL);
        status = awaits ? end_before_arguments(reply, length, &is_one) : check_memory(reply);
        bool is_call = calls && !awaits;
        if (!status && is_call) status = hand_out_calls(reply, calls, 0);
        if (is_call || is_one || (cut && is_cut_head(reply))) {
            reply->trim = true;
            reply->plain_between = false;
        } else if (!status) {
            status = reply_give_up(reply, length);
            if (!status && close && closes) status = reply_hand_out_content(reply, close, strlen(close));
        }
    }
    reply_forget_lead(reply);
    json_decref(calls);
    return status;
}

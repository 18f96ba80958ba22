/* reply.c: a small state machine over a reply's text. What is certain is handed out as it comes; marks, and
 * what may become one, are held back. Calls are held back as a whole and read in calls.c; if they are wanted as
 * they are written, partial.c follows them meanwhile. What turns out to be no call is content, marks included. */
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "base/error.h"
#include "base/sized.h"
#include "common/json-read.h"
#include "engine.h"
#include "reply/calls.h"
#include "reply/marks.h"
#include "reply/partial.h"

struct engine_reply {
    uint32_t format;
    json_t *tools; /* NULL: calls are content */
    void (*piece)(void *user, const struct engine_reply_piece *piece);
    void *user;

    enum reply_state state;
    struct bytes held; /* added and not yet handed out */
    size_t n_searched; /* bytes at the start of `held` in which no mark begins */
    char first;        /* of these bytes, apart from white space; 0: none yet */
    bool in_string;    /* CALL: a JSON string is open after these bytes, and marks in it are its text */
    bool plain;        /* CALL: this is no call, so it ends with the first mark, wherever that stands */
    const struct reply_mark *opened; /* CALL: the mark that began it; NULL: a message of gpt-oss */
    char *function;                  /* CALL of gpt-oss: its recipient */
    /* CALL, BETWEEN, HEADER: the marks and the header before the held text, which are content if this is no call. */
    struct bytes lead;
    struct bytes gap; /* white space that belongs to the content if more of it follows, other than calls */
    bool keeps_gap;   /* the gap belongs to what is no call, if this is none, though nothing is before it */
    bool has_content; /* some has been handed out */
    bool follows;     /* calls are handed out as they are written */
    struct partial partial; /* CALL: what of it has been */
    bool trim;          /* white space at the start of what follows is not content: at most it is the gap */
    bool plain_between; /* BETWEEN: the mark that began it was content, so the one that ends it is */
    bool channel;       /* HEADER of gpt-oss: begins with the channel, whose mark is gone */
    bool quiet;         /* the end of the prompt is read: nothing is handed out */
    bool marked;        /* a mark has come */
    bool cut;           /* the text ends where a limit cut it */
    bool ended;
    uint32_t n_calls;
};

static bool is_space(char c)
{
    return c == ' ' || c == '\n' || c == '\r' || c == '\t';
}

static bool active(const struct engine_reply *reply, const struct reply_mark *mark)
{
    if (!(mark->formats >> reply->format & 1) || mark->from != reply->state) return false;
    return reply->tools || (mark->to != CALL && mark->to != BETWEEN);
}

static void drop(struct engine_reply *reply, size_t n)
{
    memmove(reply->held.data, reply->held.data + n, reply->held.size - n);
    reply->held.size -= n;
    reply->n_searched = 0;
    reply->in_string = reply->plain = false;
    reply->first = 0;
    reply->partial = (struct partial){0};
}

static void hand_out_piece(struct engine_reply *reply, uint32_t part, const char *text, size_t length)
{
    reply->piece(reply->user, &(struct engine_reply_piece){.struct_size = sizeof(struct engine_reply_piece),
                                                           .part = part,
                                                           .text = {text, length}});
}

/* Remembers white space between contents, of which the first counts. */
static int set_gap(struct engine_reply *reply, const char *space, size_t length)
{
    if (reply->gap.size > 0 || reply->quiet) return ENGINE_OK;
    return bytes_add(&reply->gap, space, length, "a reply");
}

static int hand_out(struct engine_reply *reply, uint32_t part, const char *text, size_t length)
{
    size_t space = 0;
    if (reply->trim)
        while (space < length && is_space(text[space])) space++;
    if (part == ENGINE_REPLY_CONTENT && reply->has_content && space > 0) {
        int status = set_gap(reply, text, space);
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

/* Text that is content as it was written. */
static int hand_out_content(struct engine_reply *reply, const char *text, size_t length)
{
    return hand_out(reply, ENGINE_REPLY_CONTENT, text, length);
}

/* What was written before the held text belongs to what it means. */
static void forget_lead(struct engine_reply *reply)
{
    reply->lead.size = 0;
    reply->keeps_gap = false;
}

/* What was written before the held text, and `length` bytes of that, are content after all. */
static int give_up(struct engine_reply *reply, size_t length)
{
    int status = ENGINE_OK;
    if (reply->lead.size > 0) {
        reply->trim = false;
        status = hand_out_content(reply, reply->lead.data, reply->lead.size);
    }
    if (!status) status = hand_out_content(reply, reply->held.data, length);
    forget_lead(reply);
    return status;
}

static int add_lead(struct engine_reply *reply, const char *text, size_t length)
{
    return reply->quiet ? ENGINE_OK : bytes_add(&reply->lead, text, length, "a reply");
}

/* The text of a call's arguments: numbers with as few digits as say the same. */
static char *text_of(const json_t *arguments)
{
    for (size_t digits = 15;; digits++) {
        char *text = json_dumps(arguments, JSON_REAL_PRECISION(digits));
        if (!text || digits == 17) return text;
        json_t *again = json_read_text(text, 0, NULL);
        bool equal = json_equal(arguments, again);
        json_decref(again);
        if (equal) return text;
        free(text);
    }
}

/* Those from `first` on. */
static int hand_out_calls(struct engine_reply *reply, const json_t *calls, size_t first)
{
    for (size_t i = first; i < json_array_size(calls); i++) {
        const json_t *call = json_array_get(calls, i);
        char *arguments = text_of(json_object_get(call, "arguments"));
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

/* `close`: the mark that ended the call; NULL: the reply did. */
static json_t *read_calls(const struct engine_reply *reply, size_t length, const char *close)
{
    return reply->opened
               ? calls_read(reply->opened->form, reply->held.data, length, reply->tools, !close && reply->cut)
               : calls_named(reply->function, strlen(reply->function), reply->held.data, length);
}

static struct partial_text followed_text(const struct engine_reply *reply, size_t length)
{
    return (struct partial_text){.form = reply->opened ? reply->opened->form : CALLS_OBJECTS,
                                 .function = reply->opened ? NULL : reply->function,
                                 .data = reply->held.data,
                                 .length = length,
                                 .tools = reply->tools};
}

static int hand_out_news(struct engine_reply *reply, struct partial_news *news, uint32_t flags)
{
    if (news->begins) reply->n_calls++;
    struct engine_reply_piece piece = {.struct_size = sizeof piece,
                                       .part = ENGINE_REPLY_CALL,
                                       .call = reply->n_calls - 1,
                                       .flags = flags,
                                       .text = news->arguments,
                                       .name = news->name,
                                       .id = news->id};
    if (news->begins) piece.flags |= ENGINE_REPLY_CALL_BEGINS;
    if (news->ends) piece.flags |= ENGINE_REPLY_CALL_ENDS;
    bool out_of_memory = news->out_of_memory;
    if (!out_of_memory) reply->piece(reply->user, &piece);
    free(news->name);
    free(news->id);
    return out_of_memory ? error_memory("a tool call") : ENGINE_OK;
}

/* Hands out what is new of calls in the first `length` bytes. */
static int follow_calls(struct engine_reply *reply, size_t length)
{
    struct partial_text text = followed_text(reply, length);
    struct partial_news news;
    int status = ENGINE_OK;
    while (!status && partial_next(&reply->partial, &text, &news)) status = hand_out_news(reply, &news, 0);
    return status;
}

/* A call that a limit cut where its arguments would have begun: with *is_one, it has been handed out, with none. */
static int end_before_arguments(struct engine_reply *reply, size_t length, bool *is_one)
{
    struct partial_text text = followed_text(reply, length);
    struct partial_news news;
    *is_one = reply->follows && partial_awaits(&reply->partial, &text, &news) && news.begins;
    return *is_one ? hand_out_news(reply, &news, ENGINE_REPLY_CALL_CUT) : ENGINE_OK;
}

/* Whether the text, after white space, is the beginning of a mark that may come now. */
static bool begins_mark(const struct engine_reply *reply, const char *text, size_t length)
{
    while (length > 0 && is_space(*text)) text++, length--;
    for (size_t i = 0; i < n_reply_marks && length > 0; i++)
        if (active(reply, &reply_marks[i]) && length < strlen(reply_marks[i].text) &&
            memcmp(text, reply_marks[i].text, length) == 0)
            return true;
    return false;
}

/* The text of calls that have been handed out in part has ended after `length` bytes. `calls`: all of them, or NULL: the last
 * one is cut, or what comes after it is none. */
static int end_followed(struct engine_reply *reply, const json_t *calls, size_t length, const char *close)
{
    struct partial_text text = followed_text(reply, length);
    bool is_one = false;
    int status = ENGINE_OK;
    reply->trim = true;
    reply->plain_between = false;
    if (reply->partial.phase == PARTIAL_ARGUMENTS) {
        struct partial_news news = {.ends = true, .arguments = {"", 0}};
        return hand_out_news(reply, &news, ENGINE_REPLY_CALL_CUT);
    }
    if (calls) return hand_out_calls(reply, calls, reply->partial.n_begun);
    bool cut = !close && reply->cut;
    if (cut) status = end_before_arguments(reply, length, &is_one);
    /* The head of another call that a limit cut is no content. */
    if (status || is_one || (cut && reply->partial.phase != PARTIAL_LOST)) return status;
    size_t rest = partial_rest(&reply->partial, &text);
    if (cut && begins_mark(reply, reply->held.data + rest, length - rest)) return ENGINE_OK;
    return hand_out_content(reply, reply->held.data + rest, length - rest);
}

/* Whether the call that a limit cut is dropped: it may have become one that is followed. */
static bool is_cut_head(const struct engine_reply *reply)
{
    return reply->follows && reply->opened != &reply_bare_call && reply->partial.phase == PARTIAL_HEAD;
}

/* The text of a call has ended after `length` bytes, with `close` or with the reply (NULL). `closes`: the mark `close`
 * belongs to the call, and not to what follows. */
static int end_call(struct engine_reply *reply, size_t length, const char *close, bool closes)
{
    struct partial_text text = followed_text(reply, length);
    bool cut = !close && reply->cut, is_one = false;
    int status = reply->follows ? follow_calls(reply, length) : ENGINE_OK;
    json_t *calls = status ? NULL : read_calls(reply, length, close);
    if (!status && reply->partial.n_begun > 0) {
        status = end_followed(reply, calls, length, close);
    } else if (!status) {
        /* Arguments that have not begun are not {}. */
        bool awaits = cut && partial_awaits(&reply->partial, &text, NULL);
        if (awaits) status = end_before_arguments(reply, length, &is_one);
        bool is_call = calls && !awaits;
        if (!status && is_call) status = hand_out_calls(reply, calls, 0);
        if (is_call || is_one || (cut && is_cut_head(reply))) {
            reply->trim = true;
            reply->plain_between = false;
        } else if (!status) {
            status = give_up(reply, length);
            if (!status && close && closes) status = hand_out_content(reply, close, strlen(close));
        }
    }
    forget_lead(reply);
    json_decref(calls);
    return status;
}

/* Where `text` ends with `mark`, or NULL. */
static const char *ends_with(struct engine_string text, const char *mark)
{
    size_t n = strlen(mark);
    if (text.length < n || memcmp(text.data + text.length - n, mark, n) != 0) return NULL;
    return text.data + text.length - n;
}

/* The word in `text` after `mark`, up to white space or another mark. */
static struct engine_string word_after(const char *text, size_t length, const char *mark)
{
    size_t n = strlen(mark);
    const char *at = length > 0 ? memmem(text, length, mark, n) : NULL;
    if (!at) return (struct engine_string){"", 0};
    const char *end = text + length;
    at += n;
    for (n = 0; at + n < end && !is_space(at[n]) && at[n] != '<'; n++) continue;
    return (struct engine_string){at, n};
}

static bool is_word(struct engine_string word, const char *text)
{
    return word.length == strlen(text) && memcmp(word.data, text, word.length) == 0;
}

/* Reads the header of a message of gpt-oss: [role] [to=RECIPIENT] <|channel|>CHANNEL [to=RECIPIENT]. */
static int read_header(struct engine_reply *reply, size_t length)
{
    struct engine_string channel = reply->channel ? word_after(reply->held.data, length, "")
                                                  : word_after(reply->held.data, length, "<|channel|>");
    struct engine_string to = word_after(reply->held.data, length, "to=");
    if (to.length > strlen("functions.") && memcmp(to.data, "functions.", strlen("functions.")) == 0) {
        to.data += strlen("functions.");
        to.length -= strlen("functions.");
    }
    reply->trim = true;
    if (to.length > 0 && reply->tools) {
        free(reply->function);
        reply->function = strndup(to.data, to.length);
        if (!reply->function) return error_memory("a tool call");
        reply->state = CALL;
        return ENGINE_OK;
    }
    forget_lead(reply);
    reply->state = is_word(channel, "analysis") ? REASONING : CONTENT;
    /* Messages are texts of their own. */
    return reply->state == CONTENT && reply->has_content ? set_gap(reply, "\n\n", 2) : ENGINE_OK;
}

/* Whether a mark ends what stands before it, and is not the beginning of what follows. */
static bool is_end(const struct reply_mark *mark)
{
    return mark->to == CONTENT || mark->to == BETWEEN ||
           (mark->to == HEADER && strcmp(mark->text, "<|start|>") != 0 &&
            strcmp(mark->text, "<|channel|>") != 0);
}

/* The text before a mark that ends content or reasoning, of `length` held bytes. */
static int end_text(struct engine_reply *reply, const struct reply_mark *mark, size_t length)
{
    bool is_content = reply->state == CONTENT;
    size_t text = length;
    while (text > 0 && is_space(reply->held.data[text - 1])) text--;
    int status =
        hand_out(reply, is_content ? ENGINE_REPLY_CONTENT : ENGINE_REPLY_REASONING, reply->held.data, text);
    if (!status && is_content && (reply->has_content || !reply->trim) && mark->to != CONTENT) {
        reply->keeps_gap = !reply->trim;
        status = set_gap(reply, reply->held.data + text, length - text);
    }
    reply->trim = true;
    return status;
}

/* What stands between DeepSeek's calls, of `length` held bytes: nothing, or this is content. */
static int end_between(struct engine_reply *reply, const struct reply_mark *mark, size_t length)
{
    bool ends = mark->to == CONTENT;
    size_t n_spaces = 0;
    while (n_spaces < length && is_space(reply->held.data[n_spaces])) n_spaces++;
    if (n_spaces == length && !(ends && reply->plain_between))
        return reply->plain_between ? add_lead(reply, reply->held.data, length) : ENGINE_OK;
    int status = give_up(reply, length);
    if (!status && ends && reply->plain_between)
        status = hand_out_content(reply, mark->text, strlen(mark->text));
    return status;
}

/* Whether a header of gpt-oss, with `length` held bytes, is no more than the beginning of a turn. */
static bool is_turn(const struct engine_reply *reply, size_t length)
{
    while (length > 0 && is_space(reply->held.data[length - 1])) length--;
    return (length == 0 || is_word((struct engine_string){reply->held.data, length}, "assistant")) &&
           (reply->lead.size == 0 ||
            ends_with((struct engine_string){reply->lead.data, reply->lead.size}, "<|start|>"));
}

/* A header of gpt-oss, with `length` held bytes, is content, since no message follows it. */
static int give_up_header(struct engine_reply *reply, size_t length)
{
    bool follows = reply->has_content && reply->lead.size == 0;
    int status = follows ? set_gap(reply, "\n\n", 2) : ENGINE_OK;
    return status ? status : give_up(reply, length);
}

/* The header of gpt-oss before another one, of `length` held bytes. */
static int end_header(struct engine_reply *reply, size_t length)
{
    while (length > 0 && is_space(reply->held.data[length - 1])) length--;
    int status = is_turn(reply, length) ? ENGINE_OK : give_up_header(reply, length);
    forget_lead(reply);
    reply->trim = true;
    return status;
}

/* Ends the state at a mark, which begins after `length` held bytes, and begins the next. */
static int pass_mark(struct engine_reply *reply, const struct reply_mark *mark, size_t length)
{
    enum reply_state was = reply->state;
    size_t n_mark = strlen(mark->text);
    int status = ENGINE_OK;
    if (was == CONTENT || was == REASONING) status = end_text(reply, mark, length);
    if (was == BETWEEN) status = end_between(reply, mark, length);
    if (was == CALL) status = end_call(reply, length, mark->text, is_end(mark));
    if (was == HEADER)
        status = mark->to == HEADER ? end_header(reply, length) : add_lead(reply, reply->held.data, length);
    if (!status && (!is_end(mark) || (was == CONTENT && mark->to == BETWEEN)))
        status = add_lead(reply, mark->text, n_mark);
    if (was == CONTENT && mark->to == BETWEEN) reply->plain_between = true;
    if (mark->to == CONTENT) forget_lead(reply);
    reply->state = mark->to;
    reply->marked = true;
    if (mark->to == CALL) reply->opened = mark;
    if (mark->to == MESSAGE) {
        reply->opened = NULL;
        if (!status) status = read_header(reply, length);
    }
    if (mark->to == HEADER) reply->channel = strcmp(mark->text, "<|channel|>") == 0;
    drop(reply, length + n_mark);
    return status;
}

/* Whether the held text is a call as JSON, not Qwen's elements. */
static bool is_json_call(const struct engine_reply *reply)
{
    return reply->state == CALL && !reply->plain && reply->first && reply->first != '<';
}

/* Whether the byte at *at belongs to a JSON string. After a backslash, *at moves to what it escapes; *more: that has
 * not come yet. */
static bool pass_string(struct engine_reply *reply, size_t *at, bool *more)
{
    char c = reply->held.data[*at];
    bool inside = reply->in_string;
    if (c == '"') reply->in_string = !inside;
    if (!inside || c != '\\') return inside || c == '"';
    *more = *at + 1 == reply->held.size;
    if (!*more) ++*at;
    return true;
}

/* The first mark in the held text, or NULL; *at receives where it begins, or where the first bytes of one may
 * stand. */
static const struct reply_mark *find_mark(struct engine_reply *reply, size_t *at)
{
    bool more = false;
    for (*at = reply->n_searched; *at < reply->held.size; ++*at) {
        if (!reply->first && !is_space(reply->held.data[*at])) reply->first = reply->held.data[*at];
        if (is_json_call(reply) && pass_string(reply, at, &more)) {
            if (more) break;
            continue;
        }
        const char *text = reply->held.data + *at;
        if (*text != '<' && *text != '[') continue;
        size_t left = reply->held.size - *at;
        bool begins = false;
        for (size_t i = 0; i < n_reply_marks; i++) {
            size_t n = strlen(reply_marks[i].text);
            if (!active(reply, &reply_marks[i]) ||
                memcmp(text, reply_marks[i].text, left < n ? left : n) != 0)
                continue;
            if (left >= n) return &reply_marks[i];
            begins = true;
        }
        if (begins) break;
    }
    reply->n_searched = *at;
    return NULL;
}

/* START: decides what the reply begins with. False: more text is needed. */
static bool leave_start(struct engine_reply *reply, bool last)
{
    size_t space = 0;
    while (space < reply->held.size && is_space(reply->held.data[space])) space++;
    if (space < reply->held.size) {
        size_t left = reply->held.size - space;
        for (size_t i = 0; i < n_reply_marks; i++) {
            size_t n = strlen(reply_marks[i].text);
            if (!active(reply, &reply_marks[i])) continue;
            if (memcmp(reply->held.data + space, reply_marks[i].text, left < n ? left : n) != 0) continue;
            if (left < n && !last) return false;
            if (left < n) continue;
            reply->state = reply_marks[i].to;
            reply->trim = true;
            drop(reply, space + n);
            return true;
        }
        if (reply->tools && reply->format == ENGINE_REPLY_LLAMA3 && reply->held.data[space] == '{') {
            reply->state = CALL;
            reply->opened = &reply_bare_call;
            return true;
        }
    } else if (!last) {
        return false;
    }
    reply->state = CONTENT;
    return true;
}

/* The reply ends within a header of gpt-oss. */
static int finish_header(struct engine_reply *reply)
{
    size_t n = reply->held.size;
    bool is_text =
        !reply->marked && !(n > 0 && memmem(reply->held.data, n, "<|channel|>", strlen("<|channel|>")));
    if (!is_text && (reply->cut || (reply->marked && is_turn(reply, n)))) return ENGINE_OK;
    return give_up_header(reply, n);
}

/* The reply ends within a state. */
static int finish(struct engine_reply *reply)
{
    size_t n = reply->held.size;
    int status = ENGINE_OK;
    switch (reply->state) {
    case START:
    case CONTENT: status = hand_out_content(reply, reply->held.data, n); break;
    case REASONING:
        while (n > 0 && is_space(reply->held.data[n - 1])) n--;
        status = hand_out(reply, ENGINE_REPLY_REASONING, reply->held.data, n);
        break;
    case CALL: status = end_call(reply, n, NULL, false); break;
    case HEADER: status = finish_header(reply); break;
    case BETWEEN:
        if (!reply->cut || !reply->follows) status = give_up(reply, n);
        break;
    case MESSAGE: break;
    }
    reply->held.size = 0;
    return status;
}

/* The mark where a call ends: the first outside of JSON strings or, if the text up to there is no call, the first
 * anywhere. */
static const struct reply_mark *find_end_of_call(struct engine_reply *reply, const struct reply_mark *mark,
                                                 size_t *at)
{
    if (reply->partial.n_begun > 0) return mark; /* it is a call, complete or not */
    json_t *calls = read_calls(reply, mark ? *at : reply->held.size, mark ? mark->text : NULL);
    if (!calls) {
        reply->plain = true;
        reply->n_searched = 0;
        mark = find_mark(reply, at);
    }
    json_decref(calls);
    return mark;
}

/* Hands out what is certain. */
static int advance(struct engine_reply *reply, bool last)
{
    for (;;) {
        size_t at;
        if (reply->state == START && !leave_start(reply, last)) return ENGINE_OK;
        const struct reply_mark *mark = find_mark(reply, &at);
        if (reply->follows && reply->state == CALL && !reply->quiet) {
            int status = follow_calls(reply, at);
            if (status) return status;
        }
        if ((mark || last) && is_json_call(reply)) mark = find_end_of_call(reply, mark, &at);
        if (mark) {
            int status = pass_mark(reply, mark, at);
            if (status) return status;
            continue;
        }
        if (last) return finish(reply);
        if (reply->state != CONTENT && reply->state != REASONING) return ENGINE_OK;
        /* White space may turn out to stand before a mark. */
        bool drops = reply->state == REASONING || reply->tools || reply->format == ENGINE_REPLY_GPT_OSS;
        while (drops && at > 0 && is_space(reply->held.data[at - 1])) at--;
        int status = hand_out(reply, reply->state == CONTENT ? ENGINE_REPLY_CONTENT : ENGINE_REPLY_REASONING,
                              reply->held.data, at);
        drop(reply, at);
        return status;
    }
}

/* The last place in `text` where `mark` begins, or NULL. */
static const char *find_last(struct engine_string text, const char *mark)
{
    size_t n = strlen(mark);
    for (size_t at = text.length < n ? 0 : text.length - n + 1; at-- > 0;)
        if (memcmp(text.data + at, mark, n) == 0) return text.data + at;
    return NULL;
}

/* What the template wrote at the end of the prompt, after all that a user did. */
static struct engine_string end_of_prompt(struct engine_string prompt, const unsigned char *whose)
{
    size_t from = whose ? prompt.length : 0;
    while (from > 0 && !whose[from - 1]) from--;
    return from ? (struct engine_string){prompt.data + from, prompt.length - from} : prompt;
}

/* Reads the end of the prompt, which may have opened the reasoning or a message. */
static int read_prompt(struct engine_reply *reply, struct engine_string prompt)
{
    static const char turn[] = "<|start|>assistant";
    const char *at;
    while (prompt.length > 0 && is_space(prompt.data[prompt.length - 1])) prompt.length--;
    if (reply->format == ENGINE_REPLY_GPT_OSS) {
        at = find_last(prompt, turn);
        if (at) at += strlen(turn);
    } else {
        at = ends_with(prompt, "<think>");
        if (!at && reply->format == ENGINE_REPLY_MISTRAL) at = ends_with(prompt, "[THINK]");
    }
    if (!at) return ENGINE_OK;
    reply->quiet = true;
    int status = bytes_add(&reply->held, at, (size_t)(prompt.data + prompt.length - at), "a reply");
    if (!status) status = advance(reply, false);
    reply->quiet = false;
    return status;
}

int engine_reply_create(const struct engine_reply_options *options, struct engine_reply **reply)
{
    struct engine_reply_options known;
    int status = SIZED_CHECK(options, engine_reply_options, user);
    if (status) return status;
    sized_read(&known, sizeof known, options);
    *reply = NULL;
    if (known.format > REPLY_LAST_FORMAT)
        return error_raise(ENGINE_ERROR_ARGUMENT, "%u is not a format of replies", known.format);
    if (known.flags & ~(uint32_t)ENGINE_REPLY_CALLS_AS_WRITTEN)
        return error_raise(ENGINE_ERROR_ARGUMENT, "0x%x are not flags of replies", known.flags);
    if (!known.piece)
        return error_raise(ENGINE_ERROR_ARGUMENT, "a reply needs a function that receives its pieces");

    struct engine_reply *made = calloc(1, sizeof *made);
    if (!made) return error_memory("a reply");
    made->format =
        known.format == ENGINE_REPLY_AUTO ? engine_reply_format_of(known.template_text) : known.format;
    made->state = made->format == ENGINE_REPLY_GPT_OSS ? HEADER : START;
    made->piece = known.piece;
    made->user = known.user;
    made->follows = (known.flags & ENGINE_REPLY_CALLS_AS_WRITTEN) != 0;
    if (known.tools) {
        json_error_t where;
        made->tools = json_read_text(known.tools, JSON_REJECT_DUPLICATES, &where);
        if (!made->tools)
            status = error_raise(ENGINE_ERROR_ARGUMENT, "tools: line %d: %s", where.line, where.text);
        else if (!json_is_array(made->tools))
            status = error_raise(ENGINE_ERROR_ARGUMENT, "tools: it should be an array");
    }
    if (!status) status = read_prompt(made, end_of_prompt(known.prompt, known.prompt_marks));
    if (status)
        engine_reply_destroy(made);
    else
        *reply = made;
    return status;
}

void engine_reply_destroy(struct engine_reply *reply)
{
    if (!reply) return;
    json_decref(reply->tools);
    free(reply->function);
    free(reply->lead.data);
    free(reply->gap.data);
    free(reply->held.data);
    free(reply);
}

int engine_reply_add(struct engine_reply *reply, const char *text, size_t length)
{
    if (reply->ended) return error_raise(ENGINE_ERROR_ARGUMENT, "text was added to a reply that has ended");
    int status = bytes_add(&reply->held, text, length, "a reply");
    return status ? status : advance(reply, false);
}

int engine_reply_cut(struct engine_reply *reply)
{
    if (reply->ended) return error_raise(ENGINE_ERROR_ARGUMENT, "a reply that has ended was cut");
    reply->cut = true;
    return ENGINE_OK;
}

int engine_reply_end(struct engine_reply *reply)
{
    if (reply->ended) return ENGINE_OK;
    int status = advance(reply, true);
    reply->ended = true;
    return status;
}

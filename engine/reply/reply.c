/* reply.c: a small state machine over a reply's text. Marks of the family's format move it between content,
 * reasoning and calls. What is certain is handed out as it comes (reply-pieces.c); marks, and what may become
 * one, are held back. Calls are held back as a whole and read in calls.c; if they are wanted as they are
 * written, partial-calls.c follows them meanwhile. */
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "arch/arch.h"
#include "base/error.h"
#include "common/assert.h"
#include "common/json-read.h"
#include "reply/internal.h"
#include "reply/layout.h"
#include "reply/reasoning.h"
#include "reply/recognise.h"

/* ---- Marks ---- */

#define HERMES      (1u << ENGINE_REPLY_HERMES)
#define LLAMA3      (1u << ENGINE_REPLY_LLAMA3)
#define MISTRAL     (1u << ENGINE_REPLY_MISTRAL)
#define DEEPSEEK    (1u << ENGINE_REPLY_DEEPSEEK)
#define GPT_OSS     (1u << ENGINE_REPLY_GPT_OSS)
#define GEMMA4      (1u << ENGINE_REPLY_GEMMA4)
#define COHERE      (1u << ENGINE_REPLY_COHERE)
#define COMMAND_R   (1u << ENGINE_REPLY_COMMAND_R)
#define HUNYUAN     (1u << ENGINE_REPLY_HUNYUAN)
#define GRANITE     (1u << ENGINE_REPLY_GRANITE)
#define NOT_GPT_OSS (~GPT_OSS)

/* The marks of each format, as the families' published chat templates have them. Marks that begin with < or [
 * stand for control tokens in most vocabularies. */
static const struct reply_mark usual_marks[] = {
    {NOT_GPT_OSS, REPLY_START, "<think>", REPLY_REASONING, 0},
    {NOT_GPT_OSS, REPLY_REASONING, "</think>", REPLY_CONTENT, 0},
    {MISTRAL, REPLY_START, "[THINK]", REPLY_REASONING, 0},
    {MISTRAL, REPLY_REASONING, "[/THINK]", REPLY_CONTENT, 0},

    {GEMMA4, REPLY_START, "<|channel>thought", REPLY_REASONING, 0},
    {GEMMA4, REPLY_REASONING, "<channel|>", REPLY_CONTENT, 0},

    {COHERE, REPLY_START, "<|START_THINKING|>", REPLY_REASONING, 0},
    {COHERE, REPLY_REASONING, "<|END_THINKING|>", REPLY_CONTENT, 0},
    {COHERE, REPLY_START, "<|START_RESPONSE|>", REPLY_CONTENT, 0},
    {COHERE, REPLY_CONTENT, "<|START_RESPONSE|>", REPLY_CONTENT, 0},
    {COHERE, REPLY_CONTENT, "<|END_RESPONSE|>", REPLY_CONTENT, 0},
    {COHERE, REPLY_START, "<|START_TEXT|>", REPLY_CONTENT, 0},
    {COHERE, REPLY_CONTENT, "<|START_TEXT|>", REPLY_CONTENT, 0},
    {COHERE, REPLY_CONTENT, "<|END_TEXT|>", REPLY_CONTENT, 0},

    {COMMAND_R, REPLY_CONTENT, "Action: ```json", REPLY_CALL, CALLS_LAYOUT},

    {HUNYUAN, REPLY_START, "<answer>", REPLY_CONTENT, 0},
    {HUNYUAN, REPLY_CONTENT, "<answer>", REPLY_CONTENT, 0},
    {HUNYUAN, REPLY_CONTENT, "</answer>", REPLY_CONTENT, 0},

    {GRANITE, REPLY_START, "<response>", REPLY_CONTENT, 0},
    {GRANITE, REPLY_CONTENT, "<response>", REPLY_CONTENT, 0},
    {GRANITE, REPLY_CONTENT, "</response>", REPLY_CONTENT, 0},

    {HERMES, REPLY_CONTENT, "<tool_call>", REPLY_CALL, CALLS_HERMES},
    {HERMES, REPLY_CALL, "</tool_call>", REPLY_CONTENT, 0},
    /* Qwen3-Coder forgets the mark before its elements, and then writes the one behind them or not. */
    {HERMES, REPLY_CONTENT, "<function=", REPLY_CALL, CALLS_BARE},
    {HERMES, REPLY_CALL, "</function>", REPLY_CONTENT, CALLS_BARE},
    {HERMES, REPLY_CONTENT, "</tool_call>", REPLY_CONTENT, CALLS_BARE},

    {LLAMA3, REPLY_CONTENT, "<|python_tag|>", REPLY_CALL, CALLS_PYTHON},

    {MISTRAL, REPLY_CONTENT, "[TOOL_CALLS]", REPLY_CALL, CALLS_MISTRAL},
    {MISTRAL, REPLY_CALL, "[TOOL_CALLS]", REPLY_CALL, CALLS_MISTRAL},

    {DEEPSEEK, REPLY_CONTENT, "<｜tool▁calls▁begin｜>", REPLY_BETWEEN, 0},
    {DEEPSEEK, REPLY_BETWEEN, "<｜tool▁call▁begin｜>", REPLY_CALL, CALLS_DEEPSEEK},
    {DEEPSEEK, REPLY_BETWEEN, "<｜tool▁calls▁end｜>", REPLY_CONTENT, 0},
    {DEEPSEEK, REPLY_CALL, "<｜tool▁call▁end｜>", REPLY_BETWEEN, 0},

    {GPT_OSS, REPLY_HEADER, "<|start|>", REPLY_HEADER, 0},
    {GPT_OSS, REPLY_HEADER, "<|message|>", REPLY_MESSAGE, 0},
    {GPT_OSS, REPLY_CONTENT, "<|end|>", REPLY_HEADER, 0},
    {GPT_OSS, REPLY_CONTENT, "<|return|>", REPLY_HEADER, 0},
    {GPT_OSS, REPLY_CONTENT, "<|start|>", REPLY_HEADER, 0},
    {GPT_OSS, REPLY_CONTENT, "<|channel|>", REPLY_HEADER, 0},
    {GPT_OSS, REPLY_REASONING, "<|end|>", REPLY_HEADER, 0},
    {GPT_OSS, REPLY_REASONING, "<|return|>", REPLY_HEADER, 0},
    {GPT_OSS, REPLY_REASONING, "<|start|>", REPLY_HEADER, 0},
    {GPT_OSS, REPLY_REASONING, "<|channel|>", REPLY_HEADER, 0},
    {GPT_OSS, REPLY_CALL, "<|call|>", REPLY_HEADER, 0},
    {GPT_OSS, REPLY_CALL, "<|end|>", REPLY_HEADER, 0},
    {GPT_OSS, REPLY_CALL, "<|start|>", REPLY_HEADER, 0},
};
enum { N_USUAL = sizeof usual_marks / sizeof *usual_marks };

const struct reply_mark reply_bare_call = {LLAMA3, REPLY_START, "", REPLY_CALL, CALLS_OBJECTS};

/* Adds a mark if the format has it. `marks` has room. */
static void add_mark(struct engine_reply *reply, const struct reply_mark *mark)
{
    if (!mark->text || !mark->text[0] || !(mark->formats >> reply->format & 1)) return;
    reply->marks[reply->n_marks++] = *mark;
    reply->begins[(unsigned char)mark->text[0]] = true;
}

/* The marks that the template has for itself, and those of the format's layout, unless rows of the table have
 * them. */
static void add_layout_marks(struct engine_reply *reply)
{
    const struct reply_layout *layout = reply->layout;
    const struct reply_mark reasoning[] = {
        {NOT_GPT_OSS, REPLY_START, reply->own.reasoning[0], REPLY_REASONING, 0},
        {NOT_GPT_OSS, REPLY_REASONING, reply->own.reasoning[1], REPLY_CONTENT, 0},
    };
    add_mark(reply, &reasoning[0]);
    add_mark(reply, &reasoning[1]);
    for (size_t i = 0; i < 4; i++) {
        const char *mark = reply->own.answer[i];
        add_mark(reply, &(struct reply_mark){NOT_GPT_OSS, REPLY_START, mark, REPLY_CONTENT, 0});
        add_mark(reply, &(struct reply_mark){NOT_GPT_OSS, REPLY_CONTENT, mark, REPLY_CONTENT, 0});
    }
    if (!layout || reply->format == ENGINE_REPLY_HERMES) return;
    const struct reply_mark call[] = {
        {NOT_GPT_OSS, REPLY_CONTENT, layout_first(layout), REPLY_CALL, CALLS_LAYOUT},
        {NOT_GPT_OSS, REPLY_CALL, layout_last(layout), REPLY_CONTENT, 0},
        /* Without an end, a call ends where the next one begins. */
        {NOT_GPT_OSS, REPLY_CALL, layout_first(layout), REPLY_CALL, CALLS_LAYOUT},
    };
    add_mark(reply, &call[0]);
    add_mark(reply, layout_last(layout)[0] ? &call[1] : &call[2]);
}

/* The marks of the format, and those of families (struct architecture). */
static int collect_marks(struct engine_reply *reply)
{
    const struct architecture *family;
    size_t room = N_USUAL, n = 0;
    while (arch_at(n)) n++;
    room += 4 * (n + 1) + 8;
    reply->marks = calloc(room, sizeof *reply->marks);
    if (!reply->marks) return error_memory("a reply");
    for (size_t i = 0; i < N_USUAL; i++) add_mark(reply, &usual_marks[i]);
    for (size_t i = 0; (family = arch_at(i)); i++) {
        const char *const *reasoning = family->reply.reasoning, *const *call = family->reply.call;
        const struct reply_mark own[] = {
            {NOT_GPT_OSS, REPLY_START, reasoning[0], REPLY_REASONING, 0},
            {NOT_GPT_OSS, REPLY_REASONING, reasoning[1], REPLY_CONTENT, 0},
            {HERMES, REPLY_CONTENT, call[0], REPLY_CALL, CALLS_HERMES},
            {HERMES, REPLY_CALL, call[1], REPLY_CONTENT, 0},
        };
        for (size_t k = 0; k < sizeof own / sizeof *own; k++) add_mark(reply, &own[k]);
    }
    add_layout_marks(reply);
    ENGINE_ASSERT(reply->n_marks <= room);
    return ENGINE_OK;
}

bool reply_mark_is_active(const struct engine_reply *reply, const struct reply_mark *mark)
{
    if (mark->from != reply->state) return false;
    bool bare = reply->opened && reply->opened->form == CALLS_BARE;
    if (reply->state == REPLY_CALL && bare != (mark->form == CALLS_BARE)) return false;
    if (mark->from == REPLY_CONTENT && mark->to == REPLY_CONTENT && mark->form == CALLS_BARE)
        return reply->after_bare;
    return reply->reader.tools || (mark->to != REPLY_CALL && mark->to != REPLY_BETWEEN);
}

/* ---- The ends of states ---- */

static void drop_held(struct engine_reply *reply, size_t n)
{
    ENGINE_ASSERT(n <= reply->held.size);
    memmove(reply->held.data, reply->held.data + n, reply->held.size - n);
    reply->held.size -= n;
    reply->n_searched = 0;
    reply->in_string = reply->plain = false;
    reply->first = 0;
    partial_reset(&reply->partial);
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
    for (n = 0; at + n < end && !is_json_space(at[n]) && at[n] != '<'; n++) continue;
    return (struct engine_string){at, n};
}

static bool string_is(struct engine_string word, const char *text)
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
    if (to.length > 0 && reply->reader.tools) {
        free(reply->function);
        reply->function = strndup(to.data, to.length);
        if (!reply->function) return error_memory("a tool call");
        reply->state = REPLY_CALL;
        return ENGINE_OK;
    }
    reply_forget_lead(reply);
    reply->state = string_is(channel, "analysis") ? REPLY_REASONING : REPLY_CONTENT;
    /* Messages are texts of their own. */
    return reply->state == REPLY_CONTENT && reply->has_content ? reply_set_gap(reply, "\n\n", 2) : ENGINE_OK;
}

/* Whether a mark ends what stands before it, and is not the beginning of what follows. */
static bool mark_is_end(const struct reply_mark *mark)
{
    return mark->to == REPLY_CONTENT || mark->to == REPLY_BETWEEN ||
           (mark->to == REPLY_HEADER && strcmp(mark->text, "<|start|>") != 0 &&
            strcmp(mark->text, "<|channel|>") != 0);
}

/* The text before a mark that ends content or reasoning, of `length` held bytes. */
static int end_text(struct engine_reply *reply, const struct reply_mark *mark, size_t length)
{
    bool is_content = reply->state == REPLY_CONTENT;
    size_t text = length;
    while (text > 0 && is_json_space(reply->held.data[text - 1])) text--;
    int status = reply_hand_out(reply, is_content ? ENGINE_REPLY_CONTENT : ENGINE_REPLY_REASONING,
                                reply->held.data, text);
    if (!status && is_content && (reply->has_content || !reply->trim) && mark->to != REPLY_CONTENT) {
        reply->keeps_gap = !reply->trim;
        status = reply_set_gap(reply, reply->held.data + text, length - text);
    }
    reply->trim = true;
    return status;
}

/* The text between DeepSeek's calls, `length` held bytes, must be empty; otherwise it is content. */
static int end_between(struct engine_reply *reply, const struct reply_mark *mark, size_t length)
{
    bool ends = mark->to == REPLY_CONTENT;
    size_t n_spaces = 0;
    while (n_spaces < length && is_json_space(reply->held.data[n_spaces])) n_spaces++;
    if (n_spaces == length && !(ends && reply->plain_between))
        return reply->plain_between ? reply_add_lead(reply, reply->held.data, length) : ENGINE_OK;
    int status = reply_give_up(reply, length);
    if (!status && ends && reply->plain_between)
        status = reply_hand_out_content(reply, mark->text, strlen(mark->text));
    return status;
}

/* Whether a header of gpt-oss, with `length` held bytes, is no more than the beginning of a turn. */
static bool is_turn(const struct engine_reply *reply, size_t length)
{
    while (length > 0 && is_json_space(reply->held.data[length - 1])) length--;
    return (length == 0 || string_is((struct engine_string){reply->held.data, length}, "assistant")) &&
           (reply->lead.size == 0 ||
            ends_with((struct engine_string){reply->lead.data, reply->lead.size}, "<|start|>"));
}

/* A header of gpt-oss, with `length` held bytes, is content, since no message follows it. */
static int give_up_header(struct engine_reply *reply, size_t length)
{
    bool follows = reply->has_content && reply->lead.size == 0;
    int status = follows ? reply_set_gap(reply, "\n\n", 2) : ENGINE_OK;
    return status ? status : reply_give_up(reply, length);
}

/* The header of gpt-oss before another one, of `length` held bytes. */
static int end_header(struct engine_reply *reply, size_t length)
{
    while (length > 0 && is_json_space(reply->held.data[length - 1])) length--;
    int status = is_turn(reply, length) ? ENGINE_OK : give_up_header(reply, length);
    reply_forget_lead(reply);
    reply->trim = true;
    return status;
}

/* Ends the state at a mark, which begins after `length` held bytes, and begins the next. */
static int pass_mark(struct engine_reply *reply, const struct reply_mark *mark, size_t length)
{
    enum reply_state was = reply->state;
    size_t n_mark = strlen(mark->text);
    int status = ENGINE_OK;
    if (was == REPLY_CONTENT || was == REPLY_REASONING) status = end_text(reply, mark, length);
    if (was == REPLY_BETWEEN) status = end_between(reply, mark, length);
    if (was == REPLY_CALL) status = reply_end_call(reply, length, mark->text, mark_is_end(mark));
    reply->after_bare = was == REPLY_CALL && mark->form == CALLS_BARE;
    if (was == REPLY_HEADER)
        status = mark->to == REPLY_HEADER ? end_header(reply, length)
                                          : reply_add_lead(reply, reply->held.data, length);
    if (!status && (!mark_is_end(mark) || (was == REPLY_CONTENT && mark->to == REPLY_BETWEEN)))
        status = reply_add_lead(reply, mark->text, n_mark);
    if (was == REPLY_CONTENT && mark->to == REPLY_BETWEEN) reply->plain_between = true;
    if (mark->to == REPLY_CONTENT) reply_forget_lead(reply);
    reply->state = mark->to;
    reply->marked = true;
    if (mark->to == REPLY_CALL) reply->opened = mark;
    if (mark->to == REPLY_REASONING) reply->reasoning = mark;
    if (mark->to == REPLY_MESSAGE) {
        reply->opened = NULL;
        if (!status) status = read_header(reply, length);
    }
    if (mark->to == REPLY_HEADER) reply->channel = strcmp(mark->text, "<|channel|>") == 0;
    drop_held(reply, length + n_mark);
    return status;
}

/* ---- Steps ---- */

/* How the held text is laid out, if it is a call that is not known to be none; NULL: in no layout. */
static const struct reply_layout *layout_of_call(const struct engine_reply *reply)
{
    if (reply->state != REPLY_CALL || reply->plain || !reply->first || !reply->opened) return NULL;
    bool is_own = reply->opened->form == CALLS_LAYOUT,
         has_elements = reply->opened->form == CALLS_HERMES && reply->first == '<';
    if (reply->opened->form == CALLS_BARE) return layout_of_bare();
    return is_own || has_elements ? reply->layout : NULL;
}

/* Whether the held text is a call as JSON. */
static bool is_json_call(const struct engine_reply *reply)
{
    const struct reply_layout *layout = layout_of_call(reply);
    if (layout) return layout->kind == LAYOUT_OBJECTS || layout->kind == LAYOUT_JSON;
    return reply->state == REPLY_CALL && !reply->plain && reply->first && reply->first != '<';
}

static bool is_keyed_call(const struct engine_reply *reply)
{
    const struct reply_layout *layout = layout_of_call(reply);
    return layout && layout->kind == LAYOUT_KEYED;
}

/* Whether a mark at `at` is text of an argument. */
static bool is_within_value(const struct engine_reply *reply, size_t at)
{
    return is_keyed_call(reply) && layout_is_open(layout_of_call(reply), reply->held.data, at);
}

/* Whether the byte at *at belongs to a JSON string. After a backslash, *at moves to what it escapes; *more:
 * that has not come yet. */
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
    ENGINE_ASSERT(reply->n_searched <= reply->held.size);
    bool more = false;
    for (*at = reply->n_searched; *at < reply->held.size; ++*at) {
        if (!reply->first && !is_json_space(reply->held.data[*at])) reply->first = reply->held.data[*at];
        if (is_json_call(reply) && pass_string(reply, at, &more)) {
            if (more) break;
            continue;
        }
        const char *text = reply->held.data + *at;
        bool space = is_json_space(*text);
        if (!reply->begins[(unsigned char)*text]) {
            reply->after_bare = reply->after_bare && space;
            continue;
        }
        size_t left = reply->held.size - *at;
        bool begins = false;
        for (size_t i = 0; i < reply->n_marks; i++) {
            size_t n = strlen(reply->marks[i].text);
            if (!reply_mark_is_active(reply, &reply->marks[i]) ||
                memcmp(text, reply->marks[i].text, left < n ? left : n) != 0)
                continue;
            if (left >= n && is_within_value(reply, *at)) continue;
            if (left >= n) return &reply->marks[i];
            begins = true;
        }
        if (begins) break;
        reply->after_bare = reply->after_bare && space;
    }
    reply->n_searched = *at;
    return NULL;
}

/* REPLY_START: decides what the reply begins with. False: more text is needed. */
static bool leave_start(struct engine_reply *reply, bool last)
{
    size_t space = 0;
    while (space < reply->held.size && is_json_space(reply->held.data[space])) space++;
    if (space < reply->held.size) {
        size_t left = reply->held.size - space;
        for (size_t i = 0; i < reply->n_marks; i++) {
            size_t n = strlen(reply->marks[i].text);
            if (!reply_mark_is_active(reply, &reply->marks[i])) continue;
            if (memcmp(reply->held.data + space, reply->marks[i].text, left < n ? left : n) != 0) continue;
            if (left < n && !last) return false;
            if (left < n) continue;
            reply->state = reply->marks[i].to;
            if (reply->state == REPLY_REASONING) reply->reasoning = &reply->marks[i];
            reply->trim = true;
            drop_held(reply, space + n);
            return true;
        }
        if (reply->reader.tools && reply->format == ENGINE_REPLY_LLAMA3 && reply->held.data[space] == '{') {
            reply->state = REPLY_CALL;
            reply->opened = &reply_bare_call;
            return true;
        }
    } else if (!last) {
        return false;
    }
    reply->state = REPLY_CONTENT;
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
static int finish_reply(struct engine_reply *reply)
{
    size_t n = reply->held.size;
    int status = ENGINE_OK;
    switch (reply->state) {
    case REPLY_START:
    case REPLY_CONTENT: status = reply_hand_out_content(reply, reply->held.data, n); break;
    case REPLY_REASONING:
        while (n > 0 && is_json_space(reply->held.data[n - 1])) n--;
        status = reply_hand_out(reply, ENGINE_REPLY_REASONING, reply->held.data, n);
        break;
    case REPLY_CALL: status = reply_end_call(reply, n, NULL, false); break;
    case REPLY_HEADER: status = finish_header(reply); break;
    case REPLY_BETWEEN:
        if (!reply->cut || !reply->follows) status = reply_give_up(reply, n);
        break;
    case REPLY_MESSAGE: break;
    }
    reply->held.size = 0;
    return status;
}

/* The mark where a call ends: the first outside of JSON strings and of arguments or, if the text up to there
 * is no call, the first anywhere. */
static const struct reply_mark *find_end_of_call(struct engine_reply *reply, const struct reply_mark *mark,
                                                 size_t *at)
{
    if (reply->partial.n_begun > 0) return mark; /* it is a call, complete or not */
    json_t *calls = reply_read_calls(reply, mark ? *at : reply->held.size, mark ? mark->text : NULL);
    if (!calls) {
        reply->plain = true;
        reply->n_searched = 0;
        mark = find_mark(reply, at);
    }
    json_decref(calls);
    return mark;
}

/* Hands out what is certain. */
static int advance_reply(struct engine_reply *reply, bool last)
{
    for (;;) {
        size_t at;
        if (reply->state == REPLY_START && !leave_start(reply, last)) return ENGINE_OK;
        const struct reply_mark *mark = find_mark(reply, &at);
        if (reply->follows && reply->state == REPLY_CALL && !reply->quiet) {
            int status = reply_follow_calls(reply, at, false);
            if (status) return status;
        }
        if (((mark || last) && is_json_call(reply)) || (!mark && last && is_keyed_call(reply)))
            mark = find_end_of_call(reply, mark, &at);
        if (reply->reader.out_of_memory) return error_memory("a tool call");
        if (mark) {
            int status = pass_mark(reply, mark, at);
            if (status) return status;
            continue;
        }
        if (last) return finish_reply(reply);
        if (reply->state != REPLY_CONTENT && reply->state != REPLY_REASONING) return ENGINE_OK;
        /* White space may turn out to stand before a mark. */
        bool drops =
            reply->state == REPLY_REASONING || reply->reader.tools || reply->format == ENGINE_REPLY_GPT_OSS;
        while (drops && at > 0 && is_json_space(reply->held.data[at - 1])) at--;
        int status = reply_hand_out(
            reply, reply->state == REPLY_CONTENT ? ENGINE_REPLY_CONTENT : ENGINE_REPLY_REASONING,
            reply->held.data, at);
        drop_held(reply, at);
        return status;
    }
}

/* ---- The prompt ---- */

/* The last place in `text` where `mark` begins, or NULL. */
static const char *last_in_prompt(struct engine_string text, const char *mark)
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
    while (prompt.length > 0 && is_json_space(prompt.data[prompt.length - 1])) prompt.length--;
    if (reply->format == ENGINE_REPLY_GPT_OSS) {
        at = last_in_prompt(prompt, turn);
        if (at) at += strlen(turn);
    } else {
        at = NULL;
        for (size_t i = 0; i < reply->n_marks && !at; i++)
            if (reply->marks[i].to == REPLY_REASONING) at = ends_with(prompt, reply->marks[i].text);
    }
    if (!at) return ENGINE_OK;
    reply->quiet = true;
    int status = reply_append(&reply->held, at, (size_t)(prompt.data + prompt.length - at));
    if (!status) status = advance_reply(reply, false);
    reply->quiet = false;
    return status;
}

void reply_reasoning_marks(uint32_t format, struct engine_string source, const char *marks[2])
{
    const struct architecture *family;
    marks[0] = marks[1] = "";
    if (format == ENGINE_REPLY_GPT_OSS || source.length == 0) return;
    for (size_t i = 0; i + 1 < N_USUAL; i++) {
        const struct reply_mark *begin = &usual_marks[i];
        if (begin->to != REPLY_REASONING || !(begin->formats >> format & 1)) continue;
        if (begin->from != REPLY_START ||
            !memmem(source.data, source.length, begin->text, strlen(begin->text)))
            continue;
        marks[0] = begin->text;
        marks[1] = begin[1].text;
    }
    for (size_t i = 0; (family = arch_at(i)); i++) {
        const char *const *own = family->reply.reasoning;
        if (!own[0] || !memmem(source.data, source.length, own[0], strlen(own[0]))) continue;
        marks[0] = own[0];
        marks[1] = own[1];
    }
}

/* ---- Reasoning ---- */

bool reply_is_reasoning(const struct engine_reply *reply)
{
    return reply->state == REPLY_REASONING;
}

bool reply_may_reason(const struct engine_reply *reply)
{
    return reply->format == ENGINE_REPLY_GPT_OSS || reply->state == REPLY_START ||
           reply->state == REPLY_REASONING;
}

/* gpt-oss may begin another message of reasoning after the first, but not after the header of an answer. */
const char *reply_end_of_reasoning(const struct engine_reply *reply, bool again)
{
    static const char answers[] = "<|end|><|start|>assistant<|channel|>final<|message|>";
    ENGINE_ASSERT(reply->state == REPLY_REASONING);
    if (!reply->reasoning) return again || !reply->reader.tools ? answers : "<|end|>";
    return reply->reasoning[1].text;
}

/* ---- The interface ---- */

int reply_create(const struct engine_reply_options *options, const struct reply_layout *own,
                 struct engine_reply **reply)
{
    int status = ENGINE_OK;
    struct engine_reply *made = calloc(1, sizeof *made);
    if (!made) return error_memory("a reply");
    if (own) made->own = *own;
    made->format = options->format;
    made->layout = made->format == ENGINE_REPLY_TEMPLATE ? &made->own : layout_of_format(made->format);
    made->state = made->format == ENGINE_REPLY_GPT_OSS ? REPLY_HEADER : REPLY_START;
    made->piece = options->piece;
    made->user = options->user;
    made->follows = (options->flags & ENGINE_REPLY_CALLS_AS_WRITTEN) != 0;
    if (options->tools) {
        json_error_t where;
        made->reader.tools = json_read_text(options->tools, JSON_REJECT_DUPLICATES, &where);
        if (!made->reader.tools && json_read_lacked_memory(&where))
            status = error_memory("tools");
        else if (!made->reader.tools)
            status = error_raise(ENGINE_ERROR_ARGUMENT, "tools: line %d: %s", where.line, where.text);
        else if (!json_is_array(made->reader.tools))
            status = error_raise(ENGINE_ERROR_ARGUMENT, "tools: it should be an array");
    }
    if (!status) status = collect_marks(made);
    if (!status) status = read_prompt(made, end_of_prompt(options->prompt, options->prompt_marks));
    if (status)
        engine_reply_destroy(made);
    else
        *reply = made;
    return status;
}

/* The style of a template that is given as such, or as a text. */
static struct reply_style find_style(const struct engine_reply_options *options)
{
    struct reply_style style = {.format = ENGINE_REPLY_PLAIN};
    struct template *parsed = NULL;
    const char *text = options->template_text;
    if (options->chat_template) return reply_style_of(options->chat_template);
    if (!text || template_create("template", text, strlen(text), &parsed)) return style;
    style = reply_recognise(parsed);
    template_destroy(parsed);
    return style;
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
    bool asks = known.format == ENGINE_REPLY_AUTO || known.format == ENGINE_REPLY_TEMPLATE;
    if (!asks && !known.chat_template) return reply_create(&known, NULL, reply);
    struct reply_style style = find_style(&known);
    if (known.format == ENGINE_REPLY_TEMPLATE && style.format != ENGINE_REPLY_TEMPLATE)
        return error_raise(ENGINE_ERROR_ARGUMENT,
                           "the template writes no calls, or in a way of which no form can be derived");
    if (known.format == ENGINE_REPLY_AUTO) known.format = style.format;
    return reply_create(&known, &style.layout, reply);
}

void engine_reply_destroy(struct engine_reply *reply)
{
    if (!reply) return;
    json_decref(reply->reader.tools);
    partial_reset(&reply->partial);
    free(reply->marks);
    free(reply->function);
    text_buffer_free(&reply->lead);
    text_buffer_free(&reply->gap);
    text_buffer_free(&reply->held);
    free(reply);
}

int engine_reply_add(struct engine_reply *reply, const char *text, size_t length)
{
    if (reply->ended) return error_raise(ENGINE_ERROR_ARGUMENT, "text was added to a reply that has ended");
    int status = reply_append(&reply->held, text, length);
    return status ? status : advance_reply(reply, false);
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
    int status = advance_reply(reply, true);
    reply->ended = true;
    return status;
}

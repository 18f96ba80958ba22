/* internal.h: the parts of a reply's reader, from the text of calls to the state machine.
 *
 *   reply.c           the state machine, the marks of each format
 *   reply-pieces.c    what it hands out
 *   calls.c           complete calls
 *   layout.c          those of families whose calls are described by data (layout.h)
 *   literals.c        values in other notations than JSON
 *   typed-values.c    values between marks, by the tool's schema
 *   partial-calls.c   calls while they are written (partial.h)
 *   recognise.c       which format a chat template is for */
#ifndef ENGINE_REPLY_INTERNAL_H
#define ENGINE_REPLY_INTERNAL_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "common/text.h"
#include "engine.h"
#include "reply/layout.h"
#include "reply/partial.h"

struct span;

/* The last of enum engine_reply_format. */
#define REPLY_LAST_FORMAT ENGINE_REPLY_TEMPLATE

/* White space of JSON. */
static inline bool is_json_space(char c)
{
    return c == ' ' || c == '\n' || c == '\r' || c == '\t';
}

/* ---- Who reads calls ---- */

/* Whatever reads calls has one of these. Where memory runs out, it reads nothing, as if the text were no
 * call, and says so here; nothing that was read is worth anything then. */
struct calls_reader {
    json_t *tools; /* an array of OpenAI's; NULL: none */
    bool out_of_memory;
};

/* The value, which was just made: NULL means that there was no memory for it. */
static inline json_t *calls_made(struct calls_reader *reader, json_t *made)
{
    if (!made) reader->out_of_memory = true;
    return made;
}

/* ---- Complete calls (calls.c) ---- */

/* The calls in `text`, as an array of {"name": string, "arguments": object, "id": string or absent}, at least
 * one. NULL: this is not a complete call. The tools say which of Qwen's parameters are strings, and which
 * names are known: others need the form that APIs demand of names. `cut`: the text may have gone on, so a
 * program is not complete. */
json_t *calls_read(struct calls_reader *reader, enum calls_form form, const struct reply_layout *layout,
                   const char *text, size_t length, bool cut);

/* A call; takes the references of `arguments` and `id`. NULL: not an object, or no name. */
json_t *calls_make(struct calls_reader *reader, json_t *name, json_t *arguments, json_t *id);

/* Appends calls that are objects: one value after the other, with white space, commas or semicolons between
 * them. False: one of them is none. */
bool calls_read_objects(struct calls_reader *reader, json_t *calls, struct span s,
                        const struct reply_layout *layout);

/* A string. NULL: the text isn't UTF-8. */
json_t *calls_string(struct calls_reader *reader, struct span text);
/* Reads JSON as json_read does. */
json_t *calls_json(struct calls_reader *reader, struct span text, size_t flags, json_error_t *where);
/* Sets a member, or appends an element, whose reference is taken. False: it is NULL, or the key isn't
 * UTF-8. */
bool calls_set(struct calls_reader *reader, json_t *object, struct span key, json_t *value);
bool calls_append(struct calls_reader *reader, json_t *array, json_t *value);

/* ---- By a layout: layout.c ---- */

/* The same for the text between the outer marks of a layout. */
bool layout_read(struct calls_reader *reader, json_t *calls, struct span s,
                 const struct reply_layout *layout);
/* Whether a text of calls ends within the value of an argument, which may hold any mark. */
bool layout_is_open(const struct reply_layout *layout, const char *text, size_t length);

/* An object in Gemma's notation, {key:value}, or the arguments of Python's, (key=value). New reference; NULL:
 * this is none. *end: where it ends. */
json_t *literal_object(struct calls_reader *reader, const char *text, size_t length, size_t *end);
json_t *literal_arguments(struct calls_reader *reader, const char *text, size_t length, size_t *end);
/* A whole value in either. */
json_t *literal_value(struct calls_reader *reader, const char *text, size_t length);

/* The key of a member KEY separator at *at, after white space. New reference; *at moves past the separator.
 * NULL: it is not complete, or none. */
json_t *literal_key(struct calls_reader *reader, const char *text, size_t length, char separator, size_t *at);
/* Whether such a key and its separator may stand at `at` once more text has come. */
bool literal_key_may_come(struct calls_reader *reader, const char *text, size_t length, char separator,
                          size_t at);
/* Whether a value that doesn't begin with a quotation mark has ended; a word ends with what follows it.
 * `scan` is where it begins, or what an earlier call has made of it. Each byte is looked at once. */
bool literal_ends(struct literal_scan *scan, const char *text, size_t length);
/* The value at *at, which moves past it. New reference; NULL: there is none. */
json_t *literal_next(struct calls_reader *reader, const char *text, size_t length, size_t *at);
/* The length of the quotation mark that a string at the start of `text` begins with; 0: it is no string;
 * SIZE_MAX: that is not decided yet. */
size_t literal_quote(const char *text, size_t length);
/* Appends what is certain of a string's text after its mark `quote` to `out`. *used: how many bytes that is,
 * with the closing mark if *ended. False: this is no string. */
bool literal_string_part(struct calls_reader *reader, const char *quote, struct span text,
                         struct text_buffer *out, size_t *used, bool *ended);

/* ---- Values between marks: typed-values.c ---- */

#define LAYOUT_TYPE_TEXT 1u /* the set of types that holds nothing but strings */

/* What an argument may be: what the tools say, or `type`, the text before layout->after_type. */
struct argument_type layout_type_of(const struct reply_layout *layout, const json_t *tools, struct span name,
                                    struct span key, struct span type);
/* What the text between the marks stands for. New reference; NULL: it isn't UTF-8. */
json_t *layout_value_of(struct calls_reader *reader, const struct reply_layout *layout, struct span text,
                        struct argument_type type);

/* Whether one of the tools has this name, a string. */
bool calls_is_tool(const json_t *tools, const json_t *name);

/* A value as JSON, numbers with as few digits as say the same; the caller frees it. NULL: no memory. */
char *calls_value_text(const json_t *value);

/* An array of one call with the arguments `text`, a JSON object. NULL: this is none. Empty arguments are
 * {}. */
json_t *calls_named(struct calls_reader *reader, const char *name, const char *text, size_t length);

/* ---- Marks (reply.c) ---- */

/* Formats set apart reasoning, content and calls by marks. */

/* Where in the reply the text belongs. */
enum reply_state {
    REPLY_START, /* nothing but white space came yet, and it is undecided what that belongs to */
    REPLY_CONTENT,
    REPLY_REASONING,
    REPLY_CALL,
    REPLY_BETWEEN, /* DeepSeek: between calls */
    REPLY_HEADER,  /* gpt-oss: the channel and the recipient of a message */
    REPLY_MESSAGE  /* gpt-oss: not a state of its own; the header says which */
};

struct engine_reply;

/* A mark that ends one state and begins another. */
struct reply_mark {
    uint32_t formats; /* bits 1 << enum engine_reply_format */
    enum reply_state from;
    const char *text;
    enum reply_state to;  /* if it begins the reasoning, the next mark of the list ends that */
    enum calls_form form; /* to REPLY_CALL: how it is written. CALLS_BARE: the mark belongs to such calls */
};

/* Llama 3 writes a call without a mark: the reply is a JSON object. */
extern const struct reply_mark reply_bare_call;

/* The marks around the reasoning of a format that a template's source has; else "". */
void reply_reasoning_marks(uint32_t format, struct engine_string source, const char *marks[2]);

/* Whether the mark may come now. */
bool reply_mark_is_active(const struct engine_reply *reply, const struct reply_mark *mark);

/* ---- Replies ---- */

/* As engine_reply_create, for a format that is known. `own`: the layout of ENGINE_REPLY_TEMPLATE, and marks
 * around the reasoning that any format may have; NULL: none. */
int reply_create(const struct engine_reply_options *options, const struct reply_layout *own,
                 struct engine_reply **reply);

struct engine_reply {
    uint32_t format;
    const struct reply_layout *layout; /* NULL: the format has none */
    struct reply_layout own;           /* the template's, if that is the format's; its marks of reasoning */
    struct reply_mark *marks;          /* [n_marks], of the format, and those that families have besides */
    size_t n_marks;
    bool begins[256];           /* by byte: some mark does with it */
    struct calls_reader reader; /* without tools calls are content */
    void (*piece)(void *user, const struct engine_reply_piece *piece);
    void *user;

    enum reply_state state;
    struct text_buffer held; /* added and not yet handed out */
    size_t n_searched;       /* bytes at the start of `held` in which no mark begins */
    char first;              /* of these bytes, apart from white space; 0: none yet */
    bool in_string; /* REPLY_CALL: a JSON string is open after these bytes, and marks in it are its text */
    bool plain;     /* REPLY_CALL: this is no call, so it ends with the first mark, wherever that stands */
    const struct reply_mark *opened; /* REPLY_CALL: the mark that began it; NULL: a message of gpt-oss */
    char *function;                  /* REPLY_CALL of gpt-oss: its recipient */
    /* REPLY_CALL, REPLY_BETWEEN, REPLY_HEADER: the marks and the header before the held text, which are
     * content if this is no call. */
    struct text_buffer lead;
    struct text_buffer
        gap;          /* white space that belongs to the content if more of it follows, other than calls */
    bool keeps_gap;   /* the gap belongs to what is no call, if this is none, though nothing is before it */
    bool has_content; /* some has been handed out */
    bool follows;     /* calls are handed out as they are written */
    struct partial partial; /* REPLY_CALL: the part of it so far */
    bool trim;          /* white space at the start of what follows is not content: at most it is the gap */
    bool plain_between; /* REPLY_BETWEEN: the mark that began it was content, so the one that ends it is */
    bool channel;       /* REPLY_HEADER of gpt-oss: begins with the channel, whose mark is gone */
    bool quiet;         /* the end of the prompt is read: nothing is handed out */
    bool marked;        /* a mark has come */
    bool after_bare;    /* REPLY_CONTENT: nothing but white space has come since a call of CALLS_BARE */
    bool cut;           /* the text ends where a limit cut it */
    bool ended;
    uint32_t n_calls;
    const struct reply_mark *reasoning; /* the mark that began the reasoning; NULL: a header of gpt-oss did */
};

/* Appends to one of the reply's texts. */
static inline int reply_append(struct text_buffer *text, const char *added, size_t length)
{
    return text_buffer_add(text, added, length) ? ENGINE_OK : error_memory("a reply");
}

/* ---- Pieces (reply-pieces.c) ---- */

int reply_hand_out(struct engine_reply *reply, uint32_t part, const char *text, size_t length);
/* Text that is content as it was written. */
int reply_hand_out_content(struct engine_reply *reply, const char *text, size_t length);
/* Remembers white space between contents, of which the first counts. */
int reply_set_gap(struct engine_reply *reply, const char *space, size_t length);

int reply_add_lead(struct engine_reply *reply, const char *text, size_t length);
/* The text before the held text belongs to what it means. */
void reply_forget_lead(struct engine_reply *reply);
/* The text before the held text, and `length` bytes of that, are content after all. */
int reply_give_up(struct engine_reply *reply, size_t length);

/* `close`: the mark that ended the call; NULL: the reply did. */
json_t *reply_read_calls(struct engine_reply *reply, size_t length, const char *close);
/* Hands out what is new of calls in the first `length` bytes. `whole`: nothing more comes, and no limit cut
 * them. */
int reply_follow_calls(struct engine_reply *reply, size_t length, bool whole);
/* The text of a call has ended after `length` bytes, with `close` or with the reply (NULL). `closes`: the
 * mark `close` belongs to the call, and not to what follows. */
int reply_end_call(struct engine_reply *reply, size_t length, const char *close, bool closes);

#endif

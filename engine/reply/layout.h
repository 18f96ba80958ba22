/* layout.h: how a family lays out its calls: data by which they are found and read (layout.c), derived from a
 * template (derive.c), and enforced (serve/generate/reply-grammar.c). */
#ifndef ENGINE_REPLY_LAYOUT_H
#define ENGINE_REPLY_LAYOUT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define LAYOUT_MARK 64 /* room for a mark */

/* How the text between the marks of a call is written. */
enum calls_form {
    /* {"name": …, "arguments" or "parameters": {…}}, several of them, or an array of them */
    CALLS_OBJECTS,
    /* an object as above, or Qwen's <function=NAME><parameter=KEY>VALUE</parameter></function> */
    CALLS_HERMES,
    /* after <|python_tag|>: objects as above, NAME.call(KEY="VALUE", …), or a program */
    CALLS_PYTHON,
    /* an array of objects, or NAME[CALL_ID]ID[ARGS]{…}, without [CALL_ID]ID or [ARGS] in older ones */
    CALLS_MISTRAL,
    /* NAME<｜tool▁sep｜>{…}, or function<｜tool▁sep｜>NAME and the object in a ```json block */
    CALLS_DEEPSEEK,
    /* as the format's layout says */
    CALLS_LAYOUT,
    /* NAME><parameter=KEY>VALUE</parameter>, where a model has left out the mark before Qwen's elements */
    CALLS_BARE,
};

enum layout_kind {
    LAYOUT_OBJECTS, /* {NAME_KEY: name, ARGUMENTS_KEY: {…}}, several of them, or an array of them */
    LAYOUT_JSON,    /* the name, and a JSON object */
    LAYOUT_KEYED,   /* the name, and for each argument a key and a value, between marks */
    LAYOUT_WORDS,   /* the name, and an object in Gemma's notation */
    LAYOUT_PYTHON   /* [NAME(KEY=LITERAL, …), …] */
};

/* Marks have no white space around them; where they stand, it may be. "": there is no such mark. */
struct reply_layout {
    enum layout_kind kind;
    char open[LAYOUT_MARK], close[LAYOUT_MARK]; /* around all calls; without `close` up to the reply's end */
    char begin[LAYOUT_MARK], end[LAYOUT_MARK];  /* around one; without `open`, it is found by these */
    char before_name[LAYOUT_MARK], after_name[LAYOUT_MARK]; /* before the former stands the call's id */
    char after_number[LAYOUT_MARK]; /* KEYED: after the name's mark and the call's number */
    /* KEYED: a key and its value. after_type: before it stands "true" or "string" if the value is one. */
    char key[LAYOUT_MARK], after_key[LAYOUT_MARK], after_type[LAYOUT_MARK], value[LAYOUT_MARK],
        after_value[LAYOUT_MARK];
    /* KEYED: after_value is followed by the key and ">". Members of objects are written in the same way, and
     * items of arrays under the key "item". */
    bool nested;
    bool lines; /* KEYED: the template writes a line break before and after a value, which isn't part of it */
    /* OBJECTS: "": as most models write them; name_key "-": the name is the key of the arguments. */
    char name_key[32], arguments_key[32];
    bool listed;                    /* OBJECTS: they are an array, as far as is known */
    bool numbered;                  /* the name is functions.NAME:NUMBER, which is its id */
    char reasoning[2][LAYOUT_MARK]; /* around it, besides <think> and </think> */
    char answer[4][LAYOUT_MARK];    /* around answers, which don't have them */
};

/* The layout of an enum engine_reply_format; NULL: it has none. */
const struct reply_layout *layout_of_format(uint32_t format);

/* That of Qwen's elements after the mark that begins them. */
const struct reply_layout *layout_of_bare(void);

/* Layouts of families that have no format of their own: ENGINE_REPLY_TEMPLATE reads them, if the template's
 * calls are read back by one. NULL past the last. */
const struct reply_layout *layout_known(size_t index);

/* The mark that ends the value of a key, which has `length` bytes. False: it is too long. */
bool layout_closing(const struct reply_layout *layout, const char *key, size_t length,
                    char closing[2 * LAYOUT_MARK]);

/* Where the mark that ends a value begins, from *searched on; SIZE_MAX: it hasn't come. Of a nested layout
 * each element of the same name within the value has such a mark of its own. *n_open: how many of them are
 * open at *searched. Both move past the marks of those. */
size_t layout_find_closing(const struct reply_layout *layout, const char *closing, const char *text,
                           size_t length, size_t *searched, uint32_t *n_open);

/* The mark that begins an element of a nested layout whose value `closing` ends. */
void layout_opening(const struct reply_layout *layout, const char *closing, char opening[3 * LAYOUT_MARK]);

/* The format whose calls begin with a mark; 0: there is none. */
uint32_t layout_format_of_mark(const char *mark);

/* The mark by which calls are found, and the one that ends them. */
static inline const char *layout_first(const struct reply_layout *layout)
{
    return layout->open[0] ? layout->open : layout->begin;
}
static inline const char *layout_last(const struct reply_layout *layout)
{
    return layout->open[0] ? layout->close : layout->end;
}

/* The marks around a call within the text between the outer ones. */
static inline const char *layout_inner_begin(const struct reply_layout *layout)
{
    return layout->open[0] ? layout->begin : "";
}
static inline const char *layout_inner_end(const struct reply_layout *layout)
{
    return layout->open[0] ? layout->end : "";
}

/* Whether there is but one call between the outer marks, which are its own. */
static inline bool layout_has_one(const struct reply_layout *layout)
{
    return !layout->open[0] && layout->kind != LAYOUT_OBJECTS && layout->kind != LAYOUT_PYTHON;
}

/* KEYED: the mark that also ends a value which the model has not closed, if another call or nothing follows
 * it; "": none. Values may hold single marks of any kind, so where calls have but one at their end, that
 * doesn't end them. */
static inline const char *layout_unclosed_end(const struct reply_layout *layout)
{
    return layout->nested ? "" : layout_inner_end(layout);
}

#endif

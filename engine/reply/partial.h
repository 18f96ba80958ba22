/* partial.h: calls while they are written (partial-calls.c), and those of their arguments that are not one
 * JSON object (partial-arguments.c). Used by reply-pieces.c for ENGINE_REPLY_CALLS_AS_WRITTEN. */
#ifndef ENGINE_REPLY_PARTIAL_H
#define ENGINE_REPLY_PARTIAL_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "common/text.h"
#include "engine.h"
#include "reply/layout.h"

/* A call's name as soon as it is certain, then its arguments. Only calls of tools that exist, whose arguments
 * come after the name, are followed. Others are read when they are complete. */

enum partial_phase {
    PARTIAL_HEAD,      /* before the arguments */
    PARTIAL_ARGUMENTS, /* within them: the call has begun */
    PARTIAL_TAIL,      /* after them */
    PARTIAL_LOST       /* this is nothing that can be followed */
};

/* How arguments are written. */
enum partial_notation {
    NOTATION_JSON,  /* one object, which is handed out as it is */
    NOTATION_KEYED, /* a key and a value between marks for each */
    NOTATION_WORDS, /* Gemma's {key:value} */
    NOTATION_PYTHON /* Python's (key=value) */
};

enum partial_value {
    PARTIAL_BETWEEN, /* between arguments */
    PARTIAL_WAITS,   /* a value that is handed out when it is complete, or of which nothing is known yet */
    PARTIAL_STRING   /* a string that is handed out as it is written */
};

/* What an argument may be (typed-values.c). */
struct argument_type {
    unsigned types;       /* a set */
    const json_t *schema; /* the tool's; NULL: none */
};

/* Where the end of a value in Gemma's notation or Python's is looked for (literals.c). */
struct literal_scan {
    size_t at;        /* what has been looked at */
    uint64_t objects; /* by depth: whether the bracket is {, where keys stand before values */
    unsigned depth;   /* of open brackets */
    char quote;       /* the first byte of the mark that opened a string; '\0': none is open */
    bool escaped;     /* after a backslash in it */
    bool begins;      /* a value or a key comes next, */
    bool is_key;      /* a key */
    bool in_word;
};

/* Arguments that become JSON while they are written. */
struct partial_arguments {
    size_t at;         /* what has been read */
    size_t searched;   /* KEYED: no mark that ends the value begins before this */
    size_t unclosed;   /* KEYED: nor does one that ends the call with it, before this */
    uint32_t n_open;   /* KEYED: elements within the value that are open there and have its name */
    uint32_t n_quoted; /* KEYED: calls within the value that have begun and not ended there */
    json_t *name;      /* the tool's */
    json_t *keys;      /* an object of those that have come */
    enum partial_value value;
    struct argument_type type;     /* KEYED: of the value */
    char closing[2 * LAYOUT_MARK]; /* the mark that ends the value or the string */
    struct literal_scan scan;      /* WORDS, PYTHON: of the value */
    bool parted;                   /* WORDS, PYTHON: a comma comes next, or the end */
    bool lost;                     /* these are no arguments */
};

/* The calls between two marks. All zero: nothing has been read. */
struct partial {
    enum partial_phase phase;
    size_t from;  /* where the call begins, or would */
    size_t at;    /* what has been read, from the ARGUMENTS on */
    size_t after; /* the end of the arguments of the last call that has ended */
    uint32_t depth;
    bool in_string, escaped;
    uint32_t n_begun;
    enum partial_notation notation;     /* of the call that has begun */
    struct partial_arguments arguments; /* other than JSON */
};

struct calls_reader;

/* What the text is. */
struct partial_text {
    enum calls_form form;
    const struct reply_layout *layout; /* CALLS_LAYOUT, and that of the elements of Hermes and BARE */
    const char *function;              /* the tool, if it is known already; else NULL */
    const char *data;
    size_t length; /* not less than before; what was there before is unchanged */
    bool whole;    /* nothing more comes, and no limit cut it */
    struct calls_reader *reader;
};

struct partial_news {
    bool begins, ends;       /* a call */
    char *name, *id;         /* if it begins, for the caller to free; the id may be NULL */
    struct text_buffer made; /* for the caller to free: the arguments, if they are not the text's own */
    struct engine_string arguments;
};

/* Where memory runs out for one of the following, the text's reader says so, and what was found is worth
 * nothing. */

/* Frees what belongs to it and makes it all zero. */
void partial_reset(struct partial *partial);

/* What else is known of the calls by now; all of it after some calls. False: nothing new. */
bool partial_next(struct partial *partial, const struct partial_text *text, struct partial_news *news);

/* Whether the text ends where the arguments of another call have to begin. `news`, unless it is NULL: of that
 * call, with no arguments; it begins and ends if the call is one of a tool that exists. */
bool partial_awaits(const struct partial *partial, const struct partial_text *text,
                    struct partial_news *news);

/* Where what belongs to none of the calls that have ended begins: after the marks that close the last one. */
size_t partial_rest(const struct partial *partial, const struct partial_text *text);

/* ---- What both read ---- */

enum partial_found {
    FOUND, /* the arguments begin, or end */
    NEXT,  /* something else begins */
    MORE,  /* text is needed */
    NONE   /* this is nothing that can be followed */
};

static inline size_t partial_skip_space(const struct partial_text *text, size_t at)
{
    while (at < text->length && memchr(" \n\r\t", text->data[at], 4)) at++;
    return at;
}

/* Where `mark` begins, from `at` on; SIZE_MAX: nowhere. */
static inline size_t partial_find(const struct partial_text *text, size_t at, const char *mark)
{
    const char *found =
        at < text->length ? memmem(text->data + at, text->length - at, mark, strlen(mark)) : NULL;
    return found ? (size_t)(found - text->data) : SIZE_MAX;
}

/* Whether `mark` stands at `at`, or may once more has come. */
static inline enum partial_found partial_mark(const struct partial_text *text, size_t at, const char *mark)
{
    size_t n = strlen(mark), left = text->length - at;
    if (left > 0 && memcmp(text->data + at, mark, left < n ? left : n) != 0) return NONE;
    return left >= n ? FOUND : text->whole ? NONE : MORE;
}

/* Whether an argument or the end of the call follows, after white space, in the notation between marks. */
enum partial_found partial_follows(const struct partial_text *text, size_t at);

/* Appends what is new of the arguments as JSON to `json`. FOUND: they have ended. */
enum partial_found partial_arguments_next(struct partial_arguments *arguments, enum partial_notation notation,
                                          const struct partial_text *text, struct text_buffer *json);

#endif

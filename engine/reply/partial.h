/* partial.h: follows tool calls while they are written: a call's name as soon as it is certain, then its arguments.
 *
 * Only calls of tools that exist, whose arguments come after the name as a JSON object, are followed. Others are read when
 * they are complete (calls.h). */
#ifndef ENGINE_REPLY_PARTIAL_H
#define ENGINE_REPLY_PARTIAL_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "engine.h"
#include "reply/calls.h"

enum partial_phase {
    PARTIAL_HEAD,      /* before the arguments */
    PARTIAL_ARGUMENTS, /* within them: the call has begun */
    PARTIAL_TAIL,      /* after them */
    PARTIAL_LOST       /* this is nothing that can be followed */
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
};

/* What the text is. */
struct partial_text {
    enum calls_form form;
    const char *function; /* the tool, if it is known already; else NULL */
    const char *data;
    size_t length;       /* not less than before; what was there before is unchanged */
    const json_t *tools; /* as calls_read has them */
};

struct partial_news {
    bool begins, ends;  /* a call */
    char *name, *id;    /* if it begins, for the caller to free; the id may be NULL */
    bool out_of_memory; /* for the name or the id */
    struct engine_string arguments;
};

/* What else is known of the calls by now; all of it after some calls. False: nothing new. */
bool partial_next(struct partial *partial, const struct partial_text *text, struct partial_news *news);

/* Whether the text ends where the arguments of another call have to begin. `news`, unless it is NULL: of that call, with
 * no arguments; it begins and ends if the call is one of a tool that exists. */
bool partial_awaits(const struct partial *partial, const struct partial_text *text,
                    struct partial_news *news);

/* Where what belongs to none of the calls that have ended begins: after the marks that close the last one. */
size_t partial_rest(const struct partial *partial, const struct partial_text *text);

#endif

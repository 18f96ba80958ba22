/* placing.h: messages where a template has no place for them. Templates differ in what they take: some refuse
 * a system message in the middle, or two messages of the user in a row, and some leave out what they don't
 * expect without a word. */
#ifndef ENGINE_SERVE_GENERATE_PLACING_H
#define ENGINE_SERVE_GENERATE_PLACING_H

#include <jansson.h>
#include <stdbool.h>

#include "engine.h"

/* The ways to place messages otherwise, each on top of those before it. */
enum placing {
    PLACING_SYSTEMS, /* several system messages at the beginning become one, those in the middle the user's */
    PLACING_USERS,   /* messages of the user in a row become one */
    PLACING_RESULTS, /* what the user says right after a tool's result becomes a part of it */
    PLACING_FIRST,   /* the system message at the beginning becomes the user's, too */
    N_PLACINGS
};

/* Places *messages, an array as params_read_messages makes it, in one of the ways; the array may be replaced.
 * *changed: whether that changed anything. ENGINE_OK or ENGINE_ERROR_MEMORY. Its time is linear in the
 * messages' size. */
int placing_apply(json_t **messages, enum placing how, bool *changed);

/* Whether the texts of all system messages are in a text, in their order. */
bool placing_has_systems(const json_t *messages, struct engine_string text);

/* A copy of messages in which each system message ends with `mark` and a number: a new reference. NULL: out
 * of memory. */
json_t *placing_marked(const json_t *messages, const char *mark);
/* How many different marks of such a copy are in a text; SIZE_MAX: out of memory. */
size_t placing_count_marks(const json_t *messages, const char *mark, struct engine_string text);
/* How many system messages there are. */
size_t placing_count_systems(const json_t *messages);

#endif

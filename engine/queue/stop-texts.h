/* stop-texts.h: text as it comes, held back where it may be the beginning of a text that ends it. */
#ifndef ENGINE_QUEUE_STOP_TEXTS_H
#define ENGINE_QUEUE_STOP_TEXTS_H

#include <stdbool.h>
#include <stddef.h>

#include "engine.h"

/* All zero is one without stop texts. */
struct stop_texts {
    struct engine_string *texts; /* [n_texts], owned */
    size_t n_texts, longest;
    char *held; /* [n_held] bytes that have come and are not handed out yet */
    size_t n_held, capacity;
    size_t n_handed; /* bytes at the start of `held` that the last call has handed out */
};

/* Copies the texts. ENGINE_ERROR_ARGUMENT: one is empty, or they are too many or too long. */
int stop_texts_create(struct stop_texts *stop, const struct engine_string *texts, size_t n_texts);
void stop_texts_destroy(struct stop_texts *stop);

/* Adds text. *certain becomes what can't be part of a stop text any more, valid until the next call. *which becomes the
 * number of the stop text that was complete first, and *certain then ends where it begins; else -1. With `last` nothing is held back. */
int stop_texts_add(struct stop_texts *stop, const char *text, size_t length, bool last,
                   struct engine_string *certain, int32_t *which);

#endif

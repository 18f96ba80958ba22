/* stop-texts.h: passes generated text on, except what may be the beginning of a stop text. */
#ifndef ENGINE_QUEUE_STOP_TEXTS_H
#define ENGINE_QUEUE_STOP_TEXTS_H

#include <stdbool.h>
#include <stddef.h>

#include "base/bytes.h"
#include "engine.h"

/* All zero: no stop texts. */
struct stop_texts {
    struct engine_string *texts; /* [n_texts], owned */
    size_t n_texts, longest;
    struct bytes held; /* added, and not handed out before the last call */
    size_t n_handed;   /* of them, at the start: those that the last call handed out */
};

/* Copies the texts. ENGINE_ERROR_ARGUMENT: one is empty, or there are too many, or they are too long. */
int stop_texts_create(struct stop_texts *stop, const struct engine_string *texts, size_t n_texts);
void stop_texts_destroy(struct stop_texts *stop);

/* Adds text. *certain receives what can no longer be part of a stop text, valid until the next call. *which
 * receives the index of the stop text that was complete first (*certain then ends where it begins), or -1.
 * With `last`, nothing is held back. */
int stop_texts_add(struct stop_texts *stop, const char *text, size_t length, bool last,
                   struct engine_string *certain, int32_t *which);

#endif

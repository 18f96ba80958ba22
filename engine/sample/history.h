/* history.h: the last tokens of a text, for the samplers that look back. */
#ifndef ENGINE_SAMPLE_HISTORY_H
#define ENGINE_SAMPLE_HISTORY_H

#include <stddef.h>
#include <stdint.h>

struct history {
    int32_t *tokens; /* [capacity], a ring; NULL: nobody looks back */
    size_t capacity, count, next;
};

/* Room for so many tokens; 0: none. Returns an enum engine_status. */
int history_create(struct history *history, size_t capacity);
void history_destroy(struct history *history);

void history_add(struct history *history, int32_t token);
/* The token before `back` others: 0 is the last one. `back` is below count. */
int32_t history_at(const struct history *history, size_t back);

#endif

/* history.c: see history.h. */
#include "sample/history.h"

#include <stdlib.h>

#include "base/error.h"
#include "engine.h"

int history_create(struct history *history, size_t capacity)
{
    *history = (struct history){.capacity = capacity};
    if (capacity == 0) return ENGINE_OK;
    history->tokens = calloc(capacity, sizeof *history->tokens);
    return history->tokens ? ENGINE_OK : error_memory("sampler");
}

void history_destroy(struct history *history)
{
    free(history->tokens);
}

void history_add(struct history *history, int32_t token)
{
    if (history->capacity == 0) return;
    history->tokens[history->next] = token;
    history->next = history->next + 1 == history->capacity ? 0 : history->next + 1;
    if (history->count < history->capacity) history->count++;
}

int32_t history_at(const struct history *history, size_t back)
{
    size_t at = history->next + history->capacity - 1 - back;
    return history->tokens[at >= history->capacity ? at - history->capacity : at];
}

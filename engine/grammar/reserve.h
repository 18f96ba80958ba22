/* reserve.h: arrays that grow. */
#ifndef ENGINE_GRAMMAR_RESERVE_H
#define ENGINE_GRAMMAR_RESERVE_H

#include <stdbool.h>
#include <stdlib.h>

#include "base/error.h"

/* Makes *items an array of at least `needed` items of `size` bytes; *capacity is how many it has. False, and
 * nothing changes: *status has an error, or gets that of running out of memory. */
static inline bool reserve(int *status, void **items, size_t *capacity, size_t needed, size_t size)
{
    if (*status) return false;
    if (needed <= *capacity) return true;
    size_t grown = needed * 2 + 16;
    void *moved = realloc(*items, grown * size);
    if (!moved) {
        *status = error_memory("grammar");
        return false;
    }
    *items = moved;
    *capacity = grown;
    return true;
}

#endif

/* array.h: arrays that grow, for the engine and its plugins.
 *
 * An array is a pointer, how many elements it has room for, and usually how many it has; it begins as NULL
 * with room for none, and its owner frees it. Growing keeps what is there. Where memory runs out, or the size
 * in bytes exceeds PTRDIFF_MAX, growing returns false and changes nothing, so that the caller reports it
 * and frees the array as usual:
 *
 *     if (!ARRAY_RESERVE(list->items, list->capacity, list->count + 1)) return error_memory("list");
 *     list->items[list->count++] = item; */
#ifndef COMMON_ARRAY_H
#define COMMON_ARRAY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/* Makes room for at least `needed` elements; `capacity` is a size_t. At least doubles, so that appending is
 * linear. */
#define ARRAY_RESERVE(items, capacity, needed) array_reserve(&(items), &(capacity), needed, sizeof *(items))

/* Makes room for exactly `needed` elements unless there is room for as many: for arrays that are large and
 * rarely grow. */
#define ARRAY_FIT(items, capacity, needed) array_fit(&(items), &(capacity), needed, sizeof *(items))

/* Makes room for one element behind the `count` of an array that only grows by this: its capacity is not kept
 * anywhere, being the count rounded up to a power of two. */
#define ARRAY_GROW(items, count) array_grow(&(items), count, sizeof *(items))

#define ARRAY_LEAST 16 /* elements of an array that has begun to grow */

/* The functions behind them. `array` points to the pointer, which may be to anything; elements have `size`
 * bytes. */
static inline bool array_resize(void *array, size_t count, size_t size)
{
    size_t bytes;
    void *old, *grown;
    if (__builtin_mul_overflow(count, size, &bytes) || bytes > PTRDIFF_MAX) return false;
    memcpy(&old, array, sizeof old);
    grown = realloc(old, bytes);
    if (!grown) return false;
    memcpy(array, &grown, sizeof grown);
    return true; /* cppcheck-suppress memleak ; it lives on in *array */
}

static inline bool array_fit(void *array, size_t *capacity, size_t needed, size_t size)
{
    if (needed <= *capacity) return true;
    if (!array_resize(array, needed, size)) return false;
    *capacity = needed;
    return true;
}

static inline bool array_reserve(void *array, size_t *capacity, size_t needed, size_t size)
{
    if (needed <= *capacity) return true;
    size_t room = *capacity > SIZE_MAX / 2 ? SIZE_MAX : *capacity * 2;
    if (room < ARRAY_LEAST) room = ARRAY_LEAST;
    if (room < needed) room = needed;
    return array_fit(array, capacity, room, size);
}

static inline bool array_grow(void *array, size_t count, size_t size)
{
    if (count & (count - 1)) return true;
    if (count > SIZE_MAX / 2) return false;
    return array_resize(array, count ? 2 * count : 1, size);
}

#endif

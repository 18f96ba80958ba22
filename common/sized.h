/* sized.h: structs that begin with struct_size, the size that the writer's compiler knew. The engine and its
 * plugins both read and write them. The first field of each such struct is a size_t. */
#ifndef COMMON_SIZED_H
#define COMMON_SIZED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

static inline size_t sized_size(const void *given)
{
    size_t size;
    memcpy(&size, given, sizeof size);
    return size;
}

/* Copies the fields that both sides know out of the other side's struct. Fields that it does not know become
 * 0, and the copy's struct_size is ours. */
static inline void sized_read(void *known, size_t size, const void *given)
{
    size_t both = sized_size(given) < size ? sized_size(given) : size;
    memcpy(known, given, both);
    memset((char *)known + both, 0, size - both);
    memcpy(known, &size, sizeof size);
}

/* Copies the fields that both sides know into the other side's struct. Its other fields and its size stay. */
static inline void sized_write(void *given, const void *known, size_t size)
{
    size_t theirs = sized_size(given);
    memcpy(given, known, theirs < size ? theirs : size);
    memcpy(given, &theirs, sizeof theirs);
}

/* Whether all bytes after the first `size` are 0, so that the other side uses no field that this one doesn't
 * know. */
static inline bool sized_rest_is_zero(const void *given, size_t size)
{
    for (size_t i = size; i < sized_size(given); i++)
        if (((const uint8_t *)given)[i]) return false;
    return true;
}

#endif

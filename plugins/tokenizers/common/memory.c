/* memory.c: see memory.h. */
#include "common/memory.h"

#include <stdlib.h>
#include <string.h>

const struct engine_host *host;

void *allocate(size_t count, size_t size)
{
    size_t bytes;
    if (__builtin_mul_overflow(count, size, &bytes)) return NULL;
    return malloc(bytes ? bytes : 1);
}

void *allocate_zeroed(size_t count, size_t size)
{
    return calloc(count ? count : 1, size);
}

bool grow(void *array, size_t *capacity, size_t count, size_t size)
{
    if (count <= *capacity) return true;
    size_t wanted = *capacity > SIZE_MAX / 2 ? SIZE_MAX : *capacity * 2;
    if (wanted < count) wanted = count;
    if (wanted < 64) wanted = 64;
    size_t bytes;
    if (__builtin_mul_overflow(wanted, size, &bytes)) return false;
    void *old;
    memcpy(&old, array, sizeof old);
    void *grown = realloc(old, bytes);
    if (!grown) return false;
    memcpy(array, &grown, sizeof grown); /* *array may be a pointer to anything */
    *capacity = wanted;
    return true; /* cppcheck-suppress memleak ; it lives on in *array */
}

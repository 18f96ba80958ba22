/* memory.c: see memory.h. */
#include "common/memory.h"

#include <stdlib.h>

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

/* memory.h: the host's services and memory, for all files of a tokenizer plugin. */
#ifndef TOKENIZERS_COMMON_MEMORY_H
#define TOKENIZERS_COMMON_MEMORY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/array.h"
#include "plugin-api.h"

/* The services that the entry function was given. The plugin's only global. */
extern const struct engine_host *host;

/* Says "out of memory (WHAT)" and returns ENGINE_ERROR_MEMORY. */
static inline int fail_memory(const char *what)
{
    return host->fail(ENGINE_ERROR_MEMORY, "out of memory (%s)", what);
}

/* Room for `count` elements of `size` bytes, uninitialized; NULL if memory is out or the product
 * overflows. */
void *allocate(size_t count, size_t size);
/* The same, all bytes 0. */
void *allocate_zeroed(size_t count, size_t size);

#endif

/* bytes.h: a run of bytes that grows at its end, such as the text of a request. */
#ifndef ENGINE_BASE_BYTES_H
#define ENGINE_BASE_BYTES_H

#include <stddef.h>

/* All zero: empty. The owner frees `data`. */
struct bytes {
    char *data; /* [size], room for [capacity]; NULL: nothing was added yet */
    size_t size, capacity;
};

/* Appends a copy of bytes [size]. Returns an enum engine_status: without memory nothing changes, and the
 * message names `what`, as error_memory does. */
int bytes_add(struct bytes *bytes, const char *added, size_t size, const char *what);

#endif

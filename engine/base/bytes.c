/* bytes.c: see bytes.h. */
#include "base/bytes.h"

#include <stdlib.h>
#include <string.h>

#include "base/error.h"

#define LEAST_CAPACITY 64

int bytes_add(struct bytes *bytes, const char *added, size_t size, const char *what)
{
    if (size > bytes->capacity - bytes->size) {
        size_t capacity = bytes->size + size + bytes->size / 2 + LEAST_CAPACITY;
        char *grown = realloc(bytes->data, capacity);
        if (!grown) return error_memory(what);
        bytes->data = grown;
        bytes->capacity = capacity;
    }
    if (size > 0) memcpy(bytes->data + bytes->size, added, size);
    bytes->size += size;
    return ENGINE_OK;
}

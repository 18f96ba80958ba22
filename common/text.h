/* text.h: a text, or other bytes, written piece by piece, for the engine and its plugins. */
#ifndef COMMON_TEXT_H
#define COMMON_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "common/array.h"

/* All zero: empty. Only what was added is in `data`: it ends with a NUL if one was added. */
struct text_buffer {
    char *data; /* [size], room for [capacity]; NULL: nothing was added yet */
    size_t size, capacity;
};

/* Makes room for `more` bytes behind those there. False: memory is out, and nothing has changed. */
static inline bool text_buffer_reserve(struct text_buffer *text, size_t more)
{
    return more <= SIZE_MAX - text->size && ARRAY_RESERVE(text->data, text->capacity, text->size + more);
}

/* Appends a copy of bytes [size], which are not the buffer's own. False: memory is out, and nothing has
 * changed. */
static inline bool text_buffer_add(struct text_buffer *text, const void *added, size_t size)
{
    if (size == 0) return true;
    if (!text_buffer_reserve(text, size)) return false;
    memcpy(text->data + text->size, added, size);
    text->size += size;
    return true;
}

/* Appends a NUL-terminated text, without its NUL. */
static inline bool text_buffer_add_string(struct text_buffer *text, const char *added)
{
    return text_buffer_add(text, added, strlen(added));
}

static inline void text_buffer_free(struct text_buffer *text)
{
    free(text->data);
    *text = (struct text_buffer){NULL, 0, 0};
}

#endif

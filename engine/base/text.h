/* text.h: the beginning of a text that comes from a file. */
#ifndef ENGINE_BASE_TEXT_H
#define ENGINE_BASE_TEXT_H

#include <stddef.h>

/* Skips UTF-8's byte order mark at the beginning of *text [*size], the file at `path`. ENGINE_ERROR_DATA,
 * with a message, if the mark is that of UTF-16 or UTF-32. */
int text_begin(const char *path, const char **text, size_t *size);

#endif

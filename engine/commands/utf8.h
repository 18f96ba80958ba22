/* utf8.h: cuts bytes that should be UTF-8 into characters. */
#ifndef ENGINE_COMMANDS_UTF8_H
#define ENGINE_COMMANDS_UTF8_H

#include <stdbool.h>
#include <stddef.h>

/* The bytes of the character that `text` [left], left > 0, begins with. If it begins with none, *whole is false, and the
 * result is how many bytes one U+FFFD stands for: a character that is cut as far as it goes, otherwise 1 (Unicode,
 * section 3.9, substitution of maximal subparts, as browsers do it). */
size_t utf8_next(const char *text, size_t left, bool *whole);

#endif

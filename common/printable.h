/* printable.h: control characters in text from files and plugins, which terminals interpret: U+0000
 * to U+001F, U+007F, and U+0080 to U+009F in UTF-8. */
#ifndef COMMON_PRINTABLE_H
#define COMMON_PRINTABLE_H

#include <stdbool.h>
#include <stddef.h>

/* Bytes of the control character that the text begins with; 0: it begins with another character. */
static inline size_t printable_control(const char *text, size_t size)
{
    if (size == 0) return 0;
    unsigned char first = (unsigned char)text[0], second = size > 1 ? (unsigned char)text[1] : 0;
    if (first < 0x20 || first == 0x7f) return 1;
    return first == 0xc2 && second >= 0x80 && second < 0xa0 ? 2 : 0;
}

static inline bool printable_is(const char *text, size_t size)
{
    for (size_t i = 0; i < size; i++)
        if (printable_control(text + i, size - i)) return false;
    return true;
}

/* Replaces control characters by spaces. */
static inline void printable_make(char *text)
{
    for (; *text; text++)
        for (size_t n = printable_control(text, text[1] ? 2 : 1); n > 0; n--) text[n - 1] = ' ';
}

#endif

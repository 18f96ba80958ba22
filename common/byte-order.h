/* byte-order.h: the byte order marks that editors and other programs write before a text. UTF-8's is no part
 * of the text; texts with another one are in an encoding that is not read. */
#ifndef COMMON_BYTE_ORDER_H
#define COMMON_BYTE_ORDER_H

#include <stddef.h>
#include <string.h>

/* How many bytes UTF-8's mark takes at the beginning of a text [size]: 3 or 0. */
static inline size_t byte_order_mark(const void *text, size_t size)
{
    return size >= 3 && memcmp(text, "\xEF\xBB\xBF", 3) == 0 ? 3 : 0;
}

/* The encoding whose mark the text [size] begins with, other than UTF-8; NULL: it has no such mark. */
static inline const char *byte_order_foreign(const void *text, size_t size)
{
    if (size >= 4 && (memcmp(text, "\xFF\xFE\0\0", 4) == 0 || memcmp(text, "\0\0\xFE\xFF", 4) == 0))
        return "UTF-32";
    if (size >= 2 && (memcmp(text, "\xFF\xFE", 2) == 0 || memcmp(text, "\xFE\xFF", 2) == 0)) return "UTF-16";
    return NULL;
}

/* The message about a text with such a mark. Arguments: the name of the text, and its encoding twice. */
#define BYTE_ORDER_REFUSED "%s is %s, not UTF-8: save it as UTF-8, or convert it with `iconv -f %s -t UTF-8`"

#endif

/* base64.h: base64 (RFC 4648, section 4) to bytes. Lines may be broken, and the padding may be missing. */
#ifndef COMMON_BASE64_H
#define COMMON_BASE64_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Room for the bytes of a text of this length. */
static inline size_t base64_room(size_t length)
{
    return length / 4 * 3 + 3;
}

/* The value of a digit; -1: it is none. */
static inline int base64_digit(char c)
{
    if (c >= 'A' && c <= 'Z') return c - 'A';
    if (c >= 'a' && c <= 'z') return c - 'a' + 26;
    if (c >= '0' && c <= '9') return c - '0' + 52;
    return c == '+' ? 62 : c == '/' ? 63 : -1;
}

/* Writes up to base64_room(length) bytes, and their number to *size. False: the text is not base64. */
static inline bool base64_read(const char *text, size_t length, uint8_t *bytes, size_t *size)
{
    uint32_t bits = 0;
    size_t n_digits = 0, n = 0;
    while (length > 0 && (text[length - 1] == '=' || text[length - 1] == '\n' || text[length - 1] == '\r'))
        length--;
    for (size_t i = 0; i < length; i++) {
        if (text[i] == '\n' || text[i] == '\r') continue;
        const int digit = base64_digit(text[i]);
        if (digit < 0) return false;
        bits = bits << 6 | (uint32_t)digit;
        if (n_digits++ % 4 > 0) bytes[n++] = (uint8_t)(bits >> (6 - 2 * ((n_digits - 1) % 4)));
    }
    *size = n;
    return n_digits % 4 != 1;
}

#endif

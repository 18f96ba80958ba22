/* unicode.h: the kinds of characters of Unicode 15.1, and UTF-8. */
#ifndef TOKENIZERS_COMMON_UNICODE_H
#define TOKENIZERS_COMMON_UNICODE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define UNICODE_SIZE        0x110000u
#define UNICODE_REPLACEMENT 0xFFFDu

/* General categories, grouped by their first letter: L, N, M, P, S, Z, and C except Cn. */
enum unicode_group {
    UNICODE_UNASSIGNED,
    UNICODE_LETTER,
    UNICODE_NUMBER,
    UNICODE_MARK,
    UNICODE_PUNCTUATION,
    UNICODE_SYMBOL,
    UNICODE_SEPARATOR,
    UNICODE_CONTROL
};

/* unicode-table.c: the first code point of each run of one group << 3 | the group. */
extern const uint32_t unicode_runs[];
extern const size_t n_unicode_runs;

/* The end of a run: the next one's first code point. */
static inline uint32_t unicode_run_end(size_t run)
{
    return run + 1 < n_unicode_runs ? unicode_runs[run + 1] >> 3 : UNICODE_SIZE;
}

/* White space: Unicode's property White_Space. */
static inline bool unicode_is_space(uint32_t code_point)
{
    return (code_point >= 0x09 && code_point <= 0x0D) || code_point == 0x20 || code_point == 0x85 ||
           code_point == 0xA0 || code_point == 0x1680 || (code_point >= 0x2000 && code_point <= 0x200A) ||
           code_point == 0x2028 || code_point == 0x2029 || code_point == 0x202F || code_point == 0x205F ||
           code_point == 0x3000;
}

/* Reads the character at `text`; returns its length. Surrogates are accepted. Any other byte that begins no
 * character of UTF-8 (no overlong forms, nothing past the end) is a character by itself:
 * UNICODE_REPLACEMENT. */
static inline size_t unicode_read(const char *text, size_t left, uint32_t *code_point)
{
    static const uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000}; /* by length */
    const unsigned char *bytes = (const unsigned char *)text;
    uint32_t lead = bytes[0];
    if (lead < 0x80) {
        *code_point = lead;
        return 1;
    }
    size_t length = lead < 0xC2 || lead >= 0xF5 ? 0 : lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : 4;
    uint32_t value = length ? lead & (0x7Fu >> length) : 0;
    bool whole = length && length <= left;
    for (size_t i = 1; whole && i < length; i++) {
        whole = (bytes[i] & 0xC0) == 0x80;
        value = value << 6 | (bytes[i] & 0x3Fu);
    }
    whole = whole && value >= least[length] && value < UNICODE_SIZE;
    *code_point = whole ? value : UNICODE_REPLACEMENT;
    return whole ? length : 1;
}

#endif

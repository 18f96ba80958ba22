/* utf8.h: UTF-8 as tokenizers see it, read in two ways: vocabularies were applied to text cut by lead byte
 * alone (utf8_length), whatever follows; streaming decode must know exactly which bytes can still become a
 * character (utf8_unfinished, after table 3-7 of the Unicode standard). */
#ifndef TOKENIZERS_COMMON_UTF8_H
#define TOKENIZERS_COMMON_UTF8_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define SPACE_MARK      "\xE2\x96\x81" /* U+2581, which SentencePiece writes for a space */
#define SPACE_MARK_SIZE ((size_t)3)

/* Bytes of the character that `lead` begins; 1 for bytes that begin none. */
static inline size_t utf8_length(unsigned char lead)
{
    return lead < 0xC0 ? 1 : lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : 4;
}

/* The same, limited to the `left` remaining bytes. */
static inline size_t utf8_length_within(unsigned char lead, size_t left)
{
    size_t length = utf8_length(lead);
    return length < left ? length : left;
}

/* The number of bytes at the end of a text that begin an incomplete character: 0 to 3. */
static inline size_t utf8_unfinished(const char *text, size_t length)
{
    const unsigned char *bytes = (const unsigned char *)text;
    for (size_t tail = 1; tail <= 3 && tail <= length; tail++) {
        const unsigned char *at = bytes + length - tail;
        if (*at >= 0x80 && *at < 0xC0) continue; /* inside a character: its lead is further left */
        size_t whole = *at >= 0xC2 && *at <= 0xF4 ? utf8_length(*at) : 1;
        if (whole <= tail) return 0;
        if (tail == 1) return 1;
        unsigned char least = *at == 0xE0 ? 0xA0 : *at == 0xF0 ? 0x90 : 0x80;
        unsigned char most = *at == 0xED ? 0x9F : *at == 0xF4 ? 0x8F : 0xBF;
        return at[1] >= least && at[1] <= most ? tail : 0;
    }
    return 0;
}

#endif

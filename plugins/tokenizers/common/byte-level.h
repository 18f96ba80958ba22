/* byte-level.h: GPT-2's way to write bytes as printable characters: those that are printable in Latin-1 stand
 * for themselves, the others are U+0100 and on, in order. */
#ifndef TOKENIZERS_COMMON_BYTE_LEVEL_H
#define TOKENIZERS_COMMON_BYTE_LEVEL_H

#include <stdbool.h>
#include <stdint.h>

static inline bool byte_stands_for_itself(uint32_t character)
{
    return (character >= 0x21 && character <= 0x7E) || (character >= 0xA1 && character <= 0xAC) ||
           (character >= 0xAE && character <= 0xFF);
}

/* The character of a byte. */
static inline uint32_t byte_to_character(unsigned char byte)
{
    if (byte_stands_for_itself(byte)) return byte;
    uint32_t others = byte < 0x21 ? byte : 0x21; /* below this one that don't stand for themselves */
    if (byte > 0x7F) others += (byte < 0xA1 ? byte : 0xA1u) - 0x7F;
    return 0x100 + others + (byte > 0xAD);
}

/* The byte of a character, or -1. */
static inline int character_to_byte(uint32_t character)
{
    if (byte_stands_for_itself(character)) return (int)character;
    if (character < 0x100 || character > 0x143) return -1;
    uint32_t other = character - 0x100;
    return (int)(other < 0x21 ? other : other < 0x43 ? other - 0x21 + 0x7F : 0xAD);
}

#endif

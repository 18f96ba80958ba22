/* bytes.c: bytes as characters. See model.h. */
#include <string.h>

#include "bpe/model.h"
#include "common/unicode.h"

static bool stands_for_itself(uint32_t character)
{
    return (character >= 0x21 && character <= 0x7E) || (character >= 0xA1 && character <= 0xAC) ||
           (character >= 0xAE && character <= 0xFF);
}

/* How many bytes below `byte` don't represent themselves. */
static uint32_t others_below(uint32_t byte)
{
    uint32_t count = byte < 0x21 ? byte : 0x21;
    if (byte > 0x7F) count += (byte < 0xA1 ? byte : 0xA1) - 0x7F;
    return count + (byte > 0xAD);
}

uint32_t byte_to_character(unsigned char byte)
{
    return stands_for_itself(byte) ? byte : 0x100 + others_below(byte);
}

/* The byte of a character, or -1. */
static int character_to_byte(uint32_t character)
{
    if (stands_for_itself(character)) return (int)character;
    if (character < 0x100 || character > 0x143) return -1;
    uint32_t other = character - 0x100;
    return (int)(other < 0x21 ? other : other < 0x43 ? other - 0x21 + 0x7F : 0xAD);
}

static size_t read_piece(struct engine_string piece, char *bytes, bool keep)
{
    size_t length = 0;
    for (size_t at = 0, size; at < piece.length; at += size) {
        uint32_t character;
        size = unicode_read(piece.data + at, piece.length - at, &character);
        int byte = character_to_byte(character);
        if (byte >= 0) {
            bytes[length++] = (char)byte;
        } else if (keep) {
            memcpy(bytes + length, piece.data + at, size);
            length += size;
        } else {
            return SIZE_MAX;
        }
    }
    return length;
}

size_t piece_to_bytes(struct engine_string piece, char *bytes)
{
    return read_piece(piece, bytes, false);
}

size_t spell_piece(struct engine_string piece, char *bytes)
{
    return read_piece(piece, bytes, true);
}

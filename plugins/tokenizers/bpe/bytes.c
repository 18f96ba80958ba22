/* bytes.c: pieces as the bytes that their characters represent. See model.h. */
#include <string.h>

#include "bpe/model.h"
#include "common/byte-level.h"
#include "common/unicode.h"

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

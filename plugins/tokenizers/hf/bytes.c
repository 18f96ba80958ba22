/* bytes.c: see bytes.h. Bytes that are printable in Latin-1 represent themselves, the others are U+0100 and
 * on, in order. */
#include "hf/bytes.h"

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

int bytes_spell(struct engine_string text, struct text *out)
{
    if (text.length > SIZE_MAX / 2) return text_reserve(out, SIZE_MAX);
    int status = text_reserve(out, 2 * text.length);
    if (status) return status;
    for (size_t i = 0; i < text.length; i++) {
        unsigned char byte = (unsigned char)text.data[i];
        if (byte > 0x20 && byte < 0x7F)
            out->data[out->length++] = (char)byte;
        else
            out->length += character_write(stands_for_itself(byte) ? byte : 0x100 + others_below(byte),
                                           out->data + out->length);
    }
    return ENGINE_OK;
}

int bytes_read(uint32_t character)
{
    if (stands_for_itself(character)) return (int)character;
    if (character < 0x100 || character > 0x143) return -1;
    uint32_t other = character - 0x100;
    return (int)(other < 0x21 ? other : other < 0x43 ? other - 0x21 + 0x7F : 0xAD);
}

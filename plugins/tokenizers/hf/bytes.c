/* bytes.c: see bytes.h. */
#include "hf/bytes.h"

#include "common/byte-level.h"

int bytes_spell(struct engine_string text, struct text_buffer *out)
{
    if (text.length > SIZE_MAX / 2) return text_reserve(out, SIZE_MAX);
    int status = text_reserve(out, 2 * text.length);
    if (status) return status;
    for (size_t i = 0; i < text.length; i++) {
        unsigned char byte = (unsigned char)text.data[i];
        if (byte > 0x20 && byte < 0x7F)
            out->data[out->size++] = (char)byte;
        else
            out->size += character_write(byte_to_character(byte), out->data + out->size);
    }
    return ENGINE_OK;
}

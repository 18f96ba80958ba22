/* classes.c: see classes.h. */
#include "common/classes.h"

#include <stdlib.h>
#include <string.h>

#include "common/memory.h"
#include "common/unicode.h"

/* Eight bytes at once while they are ASCII, which are their own classes. */
static size_t read_ascii(const char *text, size_t length, uint8_t *classes)
{
    size_t n = 0;
    for (; length - n >= 8; n += 8) {
        uint64_t word;
        memcpy(&word, text + n, 8);
        if (word & 0x8080808080808080u) break;
        memcpy(classes + n, &word, 8);
    }
    return n;
}

int class_text_read(struct class_text *into, const uint8_t *table, struct engine_string text, size_t *n)
{
    if (!ARRAY_RESERVE(into->classes, into->classes_capacity, text.length) ||
        !ARRAY_RESERVE(into->lengths, into->lengths_capacity, text.length))
        return fail_memory("text");
    size_t count = 0;
    for (size_t at = 0; at < text.length;) {
        size_t n_ascii = read_ascii(text.data + at, text.length - at, into->classes + count);
        memset(into->lengths + count, 1, n_ascii);
        at += n_ascii;
        count += n_ascii;
        for (size_t i = 0; i < 8 && at < text.length; i++) {
            uint32_t character;
            size_t length = unicode_read(text.data + at, text.length - at, &character);
            into->classes[count] = table[character];
            into->lengths[count++] = (uint8_t)length;
            at += length;
        }
    }
    *n = count;
    return ENGINE_OK;
}

void class_text_free(struct class_text *text)
{
    free(text->classes);
    free(text->lengths);
    *text = (struct class_text){0};
}

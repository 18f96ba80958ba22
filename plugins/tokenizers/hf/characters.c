/* characters.c: see characters.h. */
#include "hf/characters.h"

#include <stdlib.h>
#include <string.h>

#include "common/memory.h"

bool character_in(const uint32_t *set, size_t n, uint32_t character)
{
    size_t low = 0, high = n / 2; /* the last run that begins at or before the character is in [low, high) */
    if (!n || character < set[0]) return false;
    while (high - low > 1) {
        size_t middle = low + (high - low) / 2;
        if (set[2 * middle] <= character)
            low = middle;
        else
            high = middle;
    }
    return character <= set[2 * low + 1];
}

bool character_is_word(uint32_t character)
{
    if (character < 0x80)
        return (character >= '0' && character <= '9') || (character >= 'A' && character <= 'Z') ||
               (character >= 'a' && character <= 'z') || character == '_';
    return character_in(word_characters, n_word_characters, character) !=
           character_in(word_differences, n_word_differences, character);
}

bool character_is_punctuation(uint32_t character)
{
    return character_in(punctuation_characters, n_punctuation_characters, character);
}

bool character_is_numeric(uint32_t character)
{
    if (character < 0x80) return character >= '0' && character <= '9';
    return character_in(numeric_characters, n_numeric_characters, character);
}

uint32_t character_lower(uint32_t character)
{
    if (character < 0x80) return character >= 'A' && character <= 'Z' ? character + 32 : character;
    size_t low = 0, high = n_lowercase_runs / 4;
    while (high - low > 1) {
        size_t middle = low + (high - low) / 2;
        if (lowercase_runs[4 * middle] <= character)
            low = middle;
        else
            high = middle;
    }
    const uint32_t *run = lowercase_runs + 4 * low;
    if (character < run[0] || character > run[1] || (character - run[0]) % run[2] != 0) return character;
    return character + run[3];
}

size_t character_write(uint32_t character, char *text)
{
    if (character < 0x80) {
        text[0] = (char)character;
        return 1;
    }
    if (character < 0x800) {
        text[0] = (char)(0xC0 | character >> 6);
        text[1] = (char)(0x80 | (character & 0x3F));
        return 2;
    }
    if (character < 0x10000) {
        text[0] = (char)(0xE0 | character >> 12);
        text[1] = (char)(0x80 | (character >> 6 & 0x3F));
        text[2] = (char)(0x80 | (character & 0x3F));
        return 3;
    }
    text[0] = (char)(0xF0 | character >> 18);
    text[1] = (char)(0x80 | (character >> 12 & 0x3F));
    text[2] = (char)(0x80 | (character >> 6 & 0x3F));
    text[3] = (char)(0x80 | (character & 0x3F));
    return 4;
}

int text_reserve(struct text_buffer *text, size_t more)
{
    return text_buffer_reserve(text, more) ? ENGINE_OK : fail_memory("text");
}

int text_append(struct text_buffer *text, const char *data, size_t length)
{
    return text_buffer_add(text, data, length) ? ENGINE_OK : fail_memory("text");
}

int text_append_character(struct text_buffer *text, uint32_t character)
{
    int status = text_reserve(text, 4);
    if (!status) text->size += character_write(character, text->data + text->size);
    return status;
}

/* characters.h: UTF-8, and what Python says about characters. */
#ifndef ENGINE_TEMPLATE_CHARACTERS_H
#define ENGINE_TEMPLATE_CHARACTERS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Bytes of the character that begins with `first`, in valid UTF-8. */
static inline size_t utf8_length(unsigned char first)
{
    return first < 0x80 ? 1 : first < 0xE0 ? 2 : first < 0xF0 ? 3 : 4;
}

/* The character at `text`, which is valid UTF-8; *length: its bytes. */
uint32_t utf8_read(const char *text, size_t *length);
/* Writes a character; returns the number of bytes. */
size_t utf8_write(uint32_t character, char text[4]);
/* The first byte that isn't part of valid UTF-8; `length`: there is none. */
size_t utf8_check(const char *text, size_t length);

bool character_is_space(uint32_t c);     /* str.isspace */
bool character_is_printable(uint32_t c); /* str.isprintable */
bool character_is_letter(uint32_t c);    /* str.isalpha */
bool character_is_decimal(uint32_t c);   /* str.isdecimal */
bool character_is_digit(uint32_t c);     /* str.isdigit */
bool character_is_numeric(uint32_t c);   /* str.isnumeric */
bool character_is_word(uint32_t c);      /* \w of Python's re */
bool character_is_upper(uint32_t c);
bool character_is_lower(uint32_t c);
bool character_is_title(uint32_t c);
bool character_is_line_end(uint32_t c); /* for str.splitlines */

enum character_case { CASE_LOWER, CASE_UPPER, CASE_TITLE, CASE_FOLD };
/* Writes the character in another case, in at most 3 characters; returns their number. */
size_t character_convert(uint32_t c, enum character_case to, uint32_t out[3]);

#endif

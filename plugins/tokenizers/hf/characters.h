/* characters.h: kinds of characters for normalizers, pre-tokenizers and added tokens; growing text. */
#ifndef TOKENIZERS_HF_CHARACTERS_H
#define TOKENIZERS_HF_CHARACTERS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/text.h"
#include "common/unicode.h"
#include "hf/tables.h"

/* Whether a set of tables.h, [n] numbers, has a character. */
bool character_in(const uint32_t *set, size_t n, uint32_t character);

bool character_is_word(uint32_t character); /* \w of Rust's expressions */
bool character_is_punctuation(uint32_t character);
bool character_is_numeric(uint32_t character);

/* The small letter of a character; U+0130 is left to the caller. */
uint32_t character_lower(uint32_t character);

/* Writes UTF-8, up to 4 bytes; returns their number. */
size_t character_write(uint32_t character, char *text);

/* Text buffers, whose failures are reported. text_reserve makes room for `more` bytes after those there. */
int text_reserve(struct text_buffer *text, size_t more);
int text_append(struct text_buffer *text, const char *data, size_t length);
int text_append_character(struct text_buffer *text, uint32_t character);

#endif

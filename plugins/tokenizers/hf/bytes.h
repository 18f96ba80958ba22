/* bytes.h: GPT-2's way to write bytes as printable characters, which ByteLevel means. */
#ifndef TOKENIZERS_HF_BYTES_H
#define TOKENIZERS_HF_BYTES_H

#include "hf/characters.h"
#include "plugin-api.h"

/* Appends the characters of a text's bytes. */
int bytes_spell(struct engine_string text, struct text *out);

/* The byte of a character, or -1. */
int bytes_read(uint32_t character);

#endif

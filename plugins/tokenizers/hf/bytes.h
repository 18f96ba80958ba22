/* bytes.h: texts whose bytes are written as printable characters (common/byte-level.h), which ByteLevel
 * means. */
#ifndef TOKENIZERS_HF_BYTES_H
#define TOKENIZERS_HF_BYTES_H

#include "hf/characters.h"
#include "plugin-api.h"

/* Appends the characters of a text's bytes. */
int bytes_spell(struct engine_string text, struct text_buffer *out);

#endif

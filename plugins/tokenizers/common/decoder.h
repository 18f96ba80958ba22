/* decoder.h: joins tokens into text. */
#ifndef TOKENIZERS_COMMON_DECODER_H
#define TOKENIZERS_COMMON_DECODER_H

#include "common/tokenizer.h"

/* As in plugin-api.h. */
int decoder_create(const struct engine_tokenizer *tokenizer, int special, struct engine_decoder **decoder);
void decoder_destroy(struct engine_decoder *decoder);
int decoder_decode(struct engine_decoder *decoder, int32_t id, struct engine_string *text);
int decoder_end(struct engine_decoder *decoder, struct engine_string *text);

/* For tokenizer_kind.spell: the piece with a space for each U+2581. */
size_t decoder_spell_marked(const struct engine_tokenizer *tokenizer, int32_t id, char *text);

#endif

/* slow-texts.h: long texts that tokenizers may be slow on: one thing again and again, no place to cut,
 * matches that fail at their last byte. */
#ifndef TESTS_TOKENIZERS_SLOW_TEXTS_H
#define TESTS_TOKENIZERS_SLOW_TEXTS_H

#include <stdbool.h>
#include <stddef.h>

#include "plugin-api.h"

/* Fills text[size] with text number `index`, which may depend on the vocabulary; returns its name, or NULL if
 * there are no more. */
const char *slow_text(const struct engine_tokenizer_api *api, const struct engine_tokenizer *tokenizer,
                      size_t index, char *text, size_t size);

#endif

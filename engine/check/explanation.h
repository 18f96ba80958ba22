/* explanation.h: whether what a tokenizer's `explain` reports fits the text, itself and the ids of
 * `encode`. */
#ifndef ENGINE_CHECK_EXPLANATION_H
#define ENGINE_CHECK_EXPLANATION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "plugin-api.h"

#define EXPLANATION_WHY 160

/* Explains the text and checks the steps:
 * - special tokens and stretches cover the text, words a stretch, and tokens a word, in order, without gaps;
 * - a normalized stretch comes just before the stretch of the same range;
 * - only a token's range within a word may be empty;
 * - each step's text is the part of the word that its range says, or the part of the stretch;
 * - a merge joins two neighbours that no earlier merge has joined with others;
 * - the ids of the tokens are `ids` [n_ids], those of `encode`, and all ids are below `n_tokens`.
 * Returns false and says why not, also if `explain` fails. */
bool explanation_check(const struct engine_tokenizer_api *api, const struct engine_tokenizer *tokenizer,
                       struct engine_string text, uint32_t flags, const int32_t *ids, size_t n_ids,
                       size_t n_tokens, char why[EXPLANATION_WHY]);

#endif

/* steps.h: transcripts of what a tokenizer's `explain` reports. */
#ifndef TEST_TOKENIZERS_STEPS_H
#define TEST_TOKENIZERS_STEPS_H

#include <stddef.h>
#include <stdint.h>

#include "plugin-api.h"

/* The steps of a text must be these lines, fit together, and give encode's ids. A line is a step's kind,
 * range, text, ids and numbers. `n_tokens`: of the vocabulary. */
void expect_steps(const struct engine_tokenizer_api *api, const struct engine_tokenizer *tokenizer,
                  size_t n_tokens, const char *text, uint32_t flags, const char *expected);

#endif

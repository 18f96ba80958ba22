/* texts.h: texts of many kinds to try tokenizers with, the same everywhere for the same seed: words of many
 * scripts, code, numbers, white space, contractions, emoji, combining and control characters, long runs,
 * tokens' spellings, any code points, and bytes that are no UTF-8. None contains NUL, so that a file may end
 * each with one. */
#ifndef TESTS_TOKENIZERS_TEXTS_H
#define TESTS_TOKENIZERS_TEXTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define TEXT_MAX 4096

/* Writes the next text of a sequence, *state being the seed at first; returns its length, which is not 0.
 * `invalid`: it may contain bytes that are no UTF-8. */
size_t make_text(uint64_t *state, bool invalid, char text[TEXT_MAX]);

#endif

/* windows.h: a text that runs in windows, for `engine perplexity` and `engine imatrix`: its tokens, how it is
 * cut, and which of the tokens count. */
#ifndef ENGINE_COMMANDS_WINDOWS_H
#define ENGINE_COMMANDS_WINDOWS_H

#include <stddef.h>
#include <stdint.h>

#include "prompts/prompt.h"

struct window {
    size_t first, length; /* tokens of the text */
    size_t counted;       /* the first token of the window that counts, 1 or more; all after it count, too */
};

/* The number of windows of n_window tokens in a text.
 *
 * stride 0: windows side by side, as llama.cpp's llama-perplexity cuts them. Of each, the tokens after the
 * first half and one more count, so that each has at least half a window before it. What does not fill a
 * window is left out.
 *
 * Otherwise each window begins `stride` tokens after the one before it, as in transformers' documentation of
 * perplexity, and what no earlier window has counted counts: all tokens but the text's first, each once (with
 * a stride of a whole window, none of the windows' first). The last window ends with the text and may be
 * shorter. */
size_t windows_count(size_t n_tokens, size_t n_window, size_t stride);
struct window windows_at(size_t n_tokens, size_t n_window, size_t stride, size_t number);
/* Tokens that count, in all windows. */
uint64_t windows_scored(size_t n_tokens, size_t n_window, size_t stride);

/* Reads the ids of --tokens-file, or else the tokens of --file. The caller frees tokens->ids. */
int window_text_read(const struct arguments *arguments, const struct vocabulary *vocabulary,
                     struct token_list *tokens);

/* -c, else 512 as in llama.cpp's programs, or what the model was trained on if that is less. */
size_t window_text_length(const struct arguments *arguments, struct engine_model *model);

/* ENGINE_ERROR_ARGUMENT: the model lacks a token. */
int window_text_check(const struct token_list *tokens, uint32_t n_vocab);

#endif

/* window-text.h: the text of commands that run windows of it (windows.h), and how long these are. */
#ifndef ENGINE_COMMANDS_WINDOW_TEXT_H
#define ENGINE_COMMANDS_WINDOW_TEXT_H

#include "prompts/prompt.h"

/* Reads the ids of --tokens-file, or else the tokens of --file. The caller frees tokens->ids. */
int window_text_read(const struct arguments *arguments, const struct vocabulary *vocabulary,
                     struct token_list *tokens);

/* -c, else 512 as in llama.cpp's programs, or what the model was trained on if that is less. */
size_t window_text_length(const struct arguments *arguments, struct engine_model *model);

/* ENGINE_ERROR_ARGUMENT: the model lacks a token. */
int window_text_check(const struct token_list *tokens, uint32_t n_vocab);

#endif

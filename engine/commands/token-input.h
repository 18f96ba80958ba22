/* token-input.h: the tokens that a command runs: from ids on the command line, a NumPy file, or a text. */
#ifndef ENGINE_COMMANDS_TOKEN_INPUT_H
#define ENGINE_COMMANDS_TOKEN_INPUT_H

#include "commands/prompt.h"

/* Reads --tokens or --tokens-file. If neither is given, `tokens` stays empty. More than one of these, and of -p and
 * -f, is an error. */
int token_input_ids(const struct arguments *arguments, struct token_list *tokens);

/* If `tokens` is still empty: those of -p (`-`: standard input) or -f, with the special tokens that the model wants. An
 * error if there are none in the end. */
int token_input_text(const struct arguments *arguments, struct engine_model *model,
                     struct token_list *tokens);

/* The text of a token; empty if it has none. */
struct engine_string token_input_piece(struct engine_model *model, const struct token_list *tokens, size_t i);

/* Whether --token or --token-text is given. */
static inline bool token_input_chooses(const struct arguments *arguments)
{
    return arguments->token || arguments->token_text;
}

/* The token that --token chooses by its number, from 0, or --token, unless it is a number, and --token-text by a text:
 * the one with which its last occurrence ends. Without these options the last one. */
int token_input_choose(const struct arguments *arguments, struct engine_model *model,
                       const struct token_list *tokens, size_t *chosen);

#endif

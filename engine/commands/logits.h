/* logits.h: shared by the files of `engine logits`. */
#ifndef ENGINE_COMMANDS_LOGITS_H
#define ENGINE_COMMANDS_LOGITS_H

#include "prompts/prompt.h"

/* Runs the tokens and prints the likeliest next tokens after each layer, as a table or as JSON. `options` are
 * those from the command line. Returns an enum engine_status. */
int logits_lens(const struct arguments *arguments, struct engine_model *model,
                const struct token_list *tokens, const struct engine_context_options *options);

#endif

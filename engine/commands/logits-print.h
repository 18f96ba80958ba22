/* logits-print.h: `engine logits --top`: the highest logits of each position. */
#ifndef ENGINE_COMMANDS_LOGITS_PRINT_H
#define ENGINE_COMMANDS_LOGITS_PRINT_H

#include <stdio.h>

#include "engine.h"
#include "options/arguments.h"

/* Runs tokens and prints the n_top highest logits after each, with --json as JSON. *done is the number of
 * tokens before the batch that runs. Returns an enum engine_status, with command_error's message. */
int print_logits(const struct arguments *arguments, struct engine_model *model,
                 struct engine_context *context, const int32_t *tokens, size_t count, FILE *file,
                 size_t *done);

#endif

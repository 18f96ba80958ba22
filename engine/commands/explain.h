/* explain.h: `engine tokenize --explain`: how a text becomes tokens. */
#ifndef ENGINE_COMMANDS_EXPLAIN_H
#define ENGINE_COMMANDS_EXPLAIN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "engine.h"

/* Prints the steps (engine_model_explain) to standard output as a table, or as one line of JSON. Stops early
 * if the user interrupts. `flags`: enum engine_encode_flags. *had_bos becomes true if the text brought BOS itself: then it
 * is one token with the one that is added (token_list_drop_bos). */
int explain_print(struct engine_model *model, const char *text, size_t length, uint32_t flags, bool json,
                  bool *had_bos);

#endif

/* embed-prompt.h: what a model wants before the texts that it embeds: sentence-transformers' prompts. */
#ifndef ENGINE_COMMANDS_EMBED_PROMPT_H
#define ENGINE_COMMANDS_EMBED_PROMPT_H

#include "engine.h"

/* The text of the model's prompt of this name, or of its default one if `name` is NULL; it belongs to the model, and is
 * empty if there is none. ENGINE_ERROR_ARGUMENT: it has no prompt of this name. ENGINE_ERROR_UNSUPPORTED: the prompt's
 * tokens are not to be pooled, which the engine does not do. */
int embed_prompt_find(const struct engine_model *model, const char *name, struct engine_string *prompt);

#endif

/* conversation-prompt.h: a conversation as the model's template writes it, and what its reply has to look
 * like. */
#ifndef ENGINE_SERVE_GENERATE_CONVERSATION_PROMPT_H
#define ENGINE_SERVE_GENERATE_CONVERSATION_PROMPT_H

#include "serve/generate/generation.h"

/* Renders params.messages: sets the generation's conversation, rendered text, format of replies and grammar.
 * False: an error, which is recorded. */
bool conversation_prompt(struct generation *generation, struct api_error *error);

#endif

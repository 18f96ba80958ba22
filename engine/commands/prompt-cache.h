/* prompt-cache.h: `engine run --prompt-cache FILE`: what a prompt has in common with that of an earlier run
 * is read from a file instead of being computed. */
#ifndef ENGINE_COMMANDS_PROMPT_CACHE_H
#define ENGINE_COMMANDS_PROMPT_CACHE_H

#include "engine.h"
#include "options/arguments.h"

/* Refuses options that don't go together, and a file that the command reads as something else. Before
 * anything is loaded. */
int prompt_cache_check(const struct arguments *arguments, const struct engine *engine);

/* Fills sequence 0 with what the file has. A file that does not exist yet has nothing. *covers: it has the
 * whole prompt, or more. */
int prompt_cache_read(const struct arguments *arguments, struct engine_context *context,
                      const int32_t *tokens, size_t count, bool *covers);

/* Writes sequence 0 to the file. */
int prompt_cache_write(const struct arguments *arguments, struct engine_context *context);

#endif

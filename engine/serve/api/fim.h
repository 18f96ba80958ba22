/* fim.h: prompts that ask a model to fill in the middle of a text (arXiv 2207.14255). */
#ifndef ENGINE_SERVE_API_FIM_H
#define ENGINE_SERVE_API_FIM_H

#include "serve/generate/ask.h"
#include "serve/models/models.h"

/* Writes a prompt for what stands between two texts: [repository and files,] prefix, suffix, each after its mark, then the
 * mark of the middle, with `begun`, which may be empty, after it. `extra`: an array of {"filename", "text"}, or NULL.
 * `param`: the field to blame if the model has no such marks. */
bool fim_prompt(const struct served *served, const json_t *prefix, const json_t *suffix, const json_t *begun,
                const json_t *extra, const char *param, struct token_list *tokens, struct mistake *mistake);

#endif

/* completions.h: how prompts that are no conversations are read, by all APIs that have some. */
#ifndef ENGINE_SERVE_API_COMPLETIONS_H
#define ENGINE_SERVE_API_COMPLETIONS_H

#include "serve/generate/ask.h"

struct served;

/* A field with the most tokens that are written, for tables of fields. */
bool completions_read_limit(struct ask *ask, const char *name, json_t *value, struct mistake *mistake);
/* Makes room for prompts: ask->prompts. */
bool completions_make_prompts(struct ask *ask, size_t count, struct mistake *mistake);
/* Reads "prompt" and "suffix" of a request. */
bool completions_read_prompts(struct ask *ask, const struct served *served, const json_t *body,
                              struct mistake *mistake);

#endif

/* completions.h: how prompts that are no conversations are read, by all APIs that have some. */
#ifndef ENGINE_SERVE_API_COMPLETIONS_H
#define ENGINE_SERVE_API_COMPLETIONS_H

#include "serve/generate/ask.h"

struct served;

/* A field with the most tokens that are written, for tables of fields. */
bool completions_read_limit(struct params *params, const char *name, json_t *value, struct api_error *error);
/* Makes room for prompts: params->prompts. */
bool completions_make_prompts(struct params *params, size_t count, struct api_error *error);
/* Reads "prompt" and "suffix" of a request. */
bool completions_read_prompts(struct params *params, const struct served *served, const json_t *body,
                              struct api_error *error);

#endif

/* read.h: the JSON of requests to asks, for those who test it apart from HTTP. Each returns false with a mistake. */
#ifndef ENGINE_SERVE_API_READ_H
#define ENGINE_SERVE_API_READ_H

#include "serve/generate/ask.h"

struct served;

bool chat_read(struct ask *ask, json_t *body, struct mistake *mistake);
/* Prompts are encoded by the model's tokenizer, and its FIM tokens are used. */
bool completions_read(struct ask *ask, const struct served *served, json_t *body, struct mistake *mistake);
bool infill_read(struct ask *ask, const struct served *served, json_t *body, struct mistake *mistake);
bool completion_read(struct ask *ask, const struct served *served, json_t *body, struct mistake *mistake);
/* Items of the Responses API become chat's messages and tools; *made, to be kept as long as the ask, holds them. */
bool responses_read(struct ask *ask, json_t *body, json_t **made, struct mistake *mistake);
bool messages_read(struct ask *ask, json_t *body, json_t **made, struct mistake *mistake);

#endif

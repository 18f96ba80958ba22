/* read.h: the JSON of requests to their parameters, for those who test it apart from HTTP. Each returns false
 * with an error. */
#ifndef ENGINE_SERVE_API_READ_H
#define ENGINE_SERVE_API_READ_H

#include "serve/generate/ask.h"

struct served;

bool chat_read(struct params *params, json_t *body, struct api_error *error);
/* Prompts are encoded by the model's tokenizer, and its FIM tokens are used. */
bool completions_read(struct params *params, const struct served *served, json_t *body,
                      struct api_error *error);
bool infill_read(struct params *params, const struct served *served, json_t *body, struct api_error *error);
bool completion_read(struct params *params, const struct served *served, json_t *body,
                     struct api_error *error);
/* Items of the Responses API become chat's messages and tools; *made, to be kept as long as the parameters,
 * holds them. */
bool responses_read(struct params *params, json_t *body, json_t **made, struct api_error *error);
bool messages_read(struct params *params, json_t *body, json_t **made, struct api_error *error);

#endif

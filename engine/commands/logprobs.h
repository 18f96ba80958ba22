/* logprobs.h: the probabilities of tokens as JSON, for --logprobs, `engine score` and lines of `engine batch`. */
#ifndef ENGINE_COMMANDS_LOGPROBS_H
#define ENGINE_COMMANDS_LOGPROBS_H

#include <jansson.h>

#include "engine.h"

/* What an ENGINE_EVENT_TOKEN says of its token: {"token", "id", "bytes", "logprob", "top": [the same without
 * "top"]}. NULL: out of memory. */
json_t *logprobs_json(struct engine_model *model, const struct engine_event *event);
/* The array "top" alone, of an ENGINE_EVENT_TOKEN or ENGINE_EVENT_SCORE. */
json_t *logprobs_top_json(struct engine_model *model, const struct engine_event *event);

#endif

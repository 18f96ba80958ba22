/* wire.h: JSON as answers and as events of a stream (server-sent events, as the HTML standard defines
 * them). */
#ifndef ENGINE_SERVE_GENERATE_WIRE_H
#define ENGINE_SERVE_GENERATE_WIRE_H

#include <jansson.h>

#include "serve/generate/mistake.h"
#include "serve/http/exchange.h"

/* Answers with JSON, whose reference is taken; NULL: out of memory, which is the answer. Numbers have the
 * digits that a float32 needs. */
void exchange_answer_json(struct exchange *exchange, json_t *answer);
/* No error yet, for reading a request. */
struct api_error api_error_none(const struct exchange *exchange);
/* Answers with an error. */
void api_error_answer(struct exchange *exchange, const struct api_error *error);
/* Begins a stream of events, with pings while there are none: comments, or in Anthropic's API events of that
 * name. */
void sse_begin(struct exchange *exchange);
/* Sends an event, whose reference is taken; `name` NULL: it has only data. */
void sse_send(struct exchange *exchange, const char *name, json_t *data);
/* Sends the event "[DONE]". */
void sse_done(struct exchange *exchange);

#endif

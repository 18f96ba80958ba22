/* wire.h: JSON as answers and as events of a stream (server-sent events, as the HTML standard defines them). */
#ifndef ENGINE_SERVE_GENERATE_WIRE_H
#define ENGINE_SERVE_GENERATE_WIRE_H

#include <jansson.h>

#include "serve/generate/mistake.h"
#include "serve/http/exchange.h"

/* Answers with JSON, whose reference is taken; NULL: out of memory, which is the answer. Numbers have the digits that a
 * float32 needs. */
void wire_answer(struct exchange *exchange, json_t *answer);
/* No mistake yet, for reading a request. */
struct mistake wire_mistake(const struct exchange *exchange);
/* Answers with a mistake. */
void wire_fail(struct exchange *exchange, const struct mistake *mistake);
/* Begins a stream of events, with pings while there are none: comments, or in Anthropic's API events of that name. */
void wire_stream(struct exchange *exchange);
/* Sends an event, whose reference is taken; `name` NULL: it has only data. */
void wire_event(struct exchange *exchange, const char *name, json_t *data);
/* Sends the event "[DONE]". */
void wire_done(struct exchange *exchange);

#endif

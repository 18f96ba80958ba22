/* exchange.h: one request and its answer. A handler gets an exchange on a worker thread and ends it with
 * exactly one of exchange_answer…, exchange_fail, exchange_busy, or exchange_stream … exchange_end. It may
 * return before that: then whoever has the exchange ends it later, on any thread. After the function that
 * ends it, the exchange is no longer theirs. */
#ifndef ENGINE_SERVE_HTTP_EXCHANGE_H
#define ENGINE_SERVE_HTTP_EXCHANGE_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "engine.h"

struct exchange;
struct served;
struct server;

/* ---- The request --------------------------------------------------------------------------------------- */

const char *exchange_method(const struct exchange *exchange);
const char *exchange_path(const struct exchange *exchange); /* without the query, decoded */
/* The value of a name in the query, or of a header, whatever its case; NULL if there is none. */
const char *exchange_query(const struct exchange *exchange, const char *name);
const char *exchange_request_header(const struct exchange *exchange, const char *name);
struct engine_string exchange_body(const struct exchange *exchange); /* followed by a NUL */
/* The body as a JSON object, with ROUTE_JSON (routes.h). It belongs to the exchange. */
json_t *exchange_json(const struct exchange *exchange);
struct server *exchange_server(const struct exchange *exchange);
/* With ROUTE_MODEL: the model that the request names. It stays loaded until the exchange has ended. */
struct served *exchange_model(const struct exchange *exchange);
/* With ROUTE_ANTHROPIC. */
bool exchange_is_anthropic(const struct exchange *exchange);
/* The number of the adapter that the request names, or -1. */
int exchange_adapter(const struct exchange *exchange);

/* ---- The answer ---------------------------------------------------------------------------------------- */

/* Adds a header; before the answer, or before exchange_stream. */
void exchange_header(struct exchange *exchange, const char *name, const char *value);

/* Answers with JSON, which is taken. */
void exchange_answer(struct exchange *exchange, unsigned status, json_t *body);
/* Answers with bytes, which are copied. */
void exchange_answer_bytes(struct exchange *exchange, unsigned status, const char *content_type,
                           const void *data, size_t size);
/* Answers with bytes that live as long as the program. */
void exchange_answer_static(struct exchange *exchange, unsigned status, const char *content_type,
                            const void *data, size_t size);

/* Answers with an error: OpenAI's error object, or with ROUTE_ANTHROPIC theirs. `type`
 * ("invalid_request_error") and `code` ("model_not_found", or NULL) are OpenAI's; `param` is the field that
 * is wrong, or NULL. */
void exchange_fail(struct exchange *exchange, unsigned status, const char *type, const char *code,
                   const char *param, const char *format, ...) ENGINE_PRINTF(6, 7);
/* Answers that too many requests are waiting: 429 with Retry-After. */
void exchange_busy(struct exchange *exchange);

/* What an exchange ends with whose client has gone away: for the log, as in other servers; hardly anybody
 * sees it. */
#define GONE_STATUS  499
#define GONE_MESSAGE "the client closed its side of the connection before it had the answer"

/* What a request is answered that the server's memory doesn't suffice for: a later one may fit. */
#define OUT_OF_MEMORY_STATUS 503

/* Begins an answer whose bytes come one after the other (status 200); its head is sent at once. `ping`, bytes
 * that say nothing and live as long as the program, is sent whenever nothing else has been for
 * --ping-interval; NULL: none. */
void exchange_stream(struct exchange *exchange, const char *content_type, const char *ping);
/* Adds bytes, which are copied, and never waits for the client. False: the client has gone away, or reads so
 * slowly that more is waiting than it may hold up; nothing more will reach it, but exchange_end is still
 * due. */
bool exchange_send(struct exchange *exchange, const void *data, size_t size);
void exchange_end(struct exchange *exchange);

/* Whether memory has run out for JSON since the exchange began: what was made for it may lack values. */
bool exchange_lacks_memory(const struct exchange *exchange);
/* Cuts the connection, so that the client notices that a stream isn't whole; exchange_end is still due. */
void exchange_cut(struct exchange *exchange);

/* Has `gone` called once if the client goes away before the answer is complete: from any thread, or at once,
 * but never after the function that ended the exchange has returned. It should cancel the work; it must not
 * end the exchange, which is still due. */
void exchange_when_gone(struct exchange *exchange, void (*gone)(void *user), void *user);

/* Has `run` called on a thread for what may take long, such as reading a stranger's grammar, so that the
 * workers go on with other requests. False: too many wait for one. */
bool exchange_defer(struct exchange *exchange, void (*run)(void *user), void *user);

/* ---- For the log and the metrics ----------------------------------------------------------------------- */

/* Adds to the tokens of this exchange: read, found in the cache, generated. served_submit does it for
 * requests of the queue. */
void exchange_count(struct exchange *exchange, uint64_t n_prompt, uint64_t n_reused, uint64_t n_generated);

#endif

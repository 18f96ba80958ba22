/* http.h: the server's side of HTTP: sockets, libmicrohttpd's daemons, the exchanges in progress, and the
 * routes that they take.
 *
 * An exchange is one request and its answer. A handler gets it on a worker thread and ends it with exactly
 * one of exchange_answer…, exchange_fail, exchange_busy, or exchange_stream … exchange_end. It may return
 * before that: then whoever has the exchange ends it later, on any thread. After the function that ends it,
 * the exchange is no longer theirs. */
#ifndef ENGINE_SERVE_HTTP_HTTP_H
#define ENGINE_SERVE_HTTP_HTTP_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "engine.h"
#include "serve/server.h"

struct exchange;
struct http;
struct served;

/* ---- The server: http.c ---- */

/* Opens the sockets that the command line or systemd asks for, and prepares the rest. Returns an enum
 * engine_status, with command_error's message. */
int http_create(struct server *server, struct http **http);
/* Begins to answer. */
int http_start(struct http *http);
/* Reads the certificate, its key and the keys of clients again. After an error, those known before go on to
 * be used. */
int http_reload(struct http *http);
/* Takes no more connections. */
void http_close(struct http *http);
/* The number of exchanges in progress. */
size_t http_busy(struct http *http);
/* Has the handlers of those exchanges end them with an error, as exchange_when_gone says. */
void http_expire(struct http *http);
/* Ends those exchanges as if their clients had gone away. */
void http_abandon(struct http *http);
/* Waits until http_busy is 0, but no longer than this. */
void http_wait(struct http *http, double seconds);
/* Waits for the workers, and closes all connections. Exchanges may still be held by requests in queues. */
void http_stop(struct http *http);
void http_destroy(struct http *http); /* after http_stop, and when no exchange is held any more */

/* Where it listens: "http://127.0.0.1:8080"; NULL past the last. */
const char *http_address(const struct http *http, size_t index);

/* For whoever made an exchange wait: goes on with it on a worker thread. */
void http_go_on(struct exchange *exchange);

/* ---- Routes ---- */

enum route_flags {
    /* The body has to be a JSON object; 400 otherwise. */
    ROUTE_JSON = 1,
    /* With ROUTE_JSON: its field "model" names a model, the first one if it is absent; the handler runs once
     * that is loaded. */
    ROUTE_MODEL = 2,
    /* Needs no key. */
    ROUTE_OPEN = 4,
    /* Never waits: has a worker thread of its own, so that it is answered however busy others are. */
    ROUTE_QUICK = 8,
    /* Errors have the form of Anthropic's API. */
    ROUTE_ANTHROPIC = 16
};

struct route {
    const char *method; /* "GET" also answers HEAD */
    const char *path;   /* "/v1/models"; with a * at its end: whatever begins so */
    void (*handle)(struct exchange *exchange);
    unsigned flags; /* enum route_flags */
};
extern const struct route all_routes[]; /* in routes.c, and in tests; terminated by one without a method */

/* ---- The request --------------------------------------------------------------------------------------- */

const char *exchange_method(const struct exchange *exchange);
const char *exchange_path(const struct exchange *exchange); /* without the query, decoded */
/* The value of a name in the query, or of a header, in any case; NULL if there is none. */
const char *exchange_query(const struct exchange *exchange, const char *name);
const char *exchange_request_header(const struct exchange *exchange, const char *name);
struct engine_string exchange_body(const struct exchange *exchange); /* followed by a NUL */
/* The body as a JSON object, with ROUTE_JSON. It belongs to the exchange. */
json_t *exchange_json(const struct exchange *exchange);
struct server *exchange_server(const struct exchange *exchange);
/* With ROUTE_MODEL: the model that the request names. It stays loaded until the exchange has ended. */
struct served *exchange_model(const struct exchange *exchange);
/* With ROUTE_ANTHROPIC. */
bool exchange_is_anthropic(const struct exchange *exchange);
/* The number of the adapter that the request names, or -1. */
int exchange_adapter(const struct exchange *exchange);
/* Has the request's jobs, which are to come, use this adapter instead. */
void exchange_use_adapter(struct exchange *exchange, int adapter);

/* ---- The answer ---------------------------------------------------------------------------------------- */

/* Adds a header; before the answer, or before exchange_stream. */
void exchange_header(struct exchange *exchange, const char *name, const char *value);

/* Answers with a short JSON, which is taken. */
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

/* Why an exchange ends before its time. The status of one whose client has gone away is for the log, as in
 * other servers; hardly anybody sees it. */
struct exchange_end_reason {
    unsigned status;
    const char *message;
};
/* For who has been told by exchange_when_gone's function. */
struct exchange_end_reason exchange_why_gone(struct exchange *exchange);

/* What a request is answered that the server's memory doesn't suffice for: a later one may fit. */
#define OUT_OF_MEMORY_STATUS 503
/* Its body, which takes no memory to make: OpenAI's, and Anthropic's. */
#define OUT_OF_MEMORY_OPENAI                                                                                 \
    "{\"error\":{\"message\":\"out of memory (an answer)\",\"type\":\"server_error\",\"param\":null,"        \
    "\"code\":null}}"
#define OUT_OF_MEMORY_ANTHROPIC                                                                              \
    "{\"type\":\"error\",\"error\":{\"type\":\"api_error\",\"message\":\"out of memory (an answer)\"}}"

/* Begins an answer whose bytes come one after the other (status 200); its head is sent at once. `ping`, bytes
 * that say nothing and live as long as the program, is sent whenever nothing else has been for
 * --ping-interval; NULL: none. `last_words`, the same, is what it ends with if exchange_cut cuts it; NULL:
 * the connection is cut then, too. */
void exchange_stream(struct exchange *exchange, const char *content_type, const char *ping,
                     const char *last_words);
/* Adds bytes, which are copied, and never waits for the client. False: the client has gone away, or reads so
 * slowly that more is waiting than it may hold up; nothing more will reach it, but exchange_end is still
 * due. */
bool exchange_send(struct exchange *exchange, const void *data, size_t size);
void exchange_end(struct exchange *exchange);

/* Whether memory has run out for JSON since the exchange began: what was made for it may lack values. */
bool exchange_lacks_memory(const struct exchange *exchange);
/* Ends a stream with its last words, where memory has run out for others; exchange_end is still due. */
void exchange_cut(struct exchange *exchange);

/* Has `gone` called once if the client goes away before the answer is complete, the request takes too long or
 * the server ends: from any thread, or at once, but never after the function that ended the exchange has
 * returned. It should cancel the work; it must not end the exchange, which is still due, with an error that
 * says why. */
void exchange_when_gone(struct exchange *exchange, void (*gone)(void *user), void *user);

/* Has `work` called on a thread for what may take long, such as reading an untrusted grammar, so that the
 * workers go on with other requests. False: too many wait for one. */
bool exchange_defer(struct exchange *exchange, void (*work)(void *user), void *user);

/* ---- For the log and the metrics ----------------------------------------------------------------------- */

/* Adds to the tokens of this exchange: read, found in the cache, generated. served_submit does it for
 * requests of the queue. */
void exchange_count(struct exchange *exchange, uint64_t n_prompt, uint64_t n_reused, uint64_t n_generated);

/* ---- JSON and server-sent events ---- */

/* From now on numbers of the answer have all their digits: they may be a client's, or a model's. */
void exchange_be_exact(struct exchange *exchange);
/* Answers 200 with JSON, whose reference is taken; NULL: out of memory, which is the answer. Numbers have the
 * digits that a float32 needs, unless the answer is exact. */
void exchange_answer_json(struct exchange *exchange, json_t *answer);
/* Begins a stream of server-sent events, with pings while there are none: comments, or in Anthropic's API
 * events of that name. `last_words` as above: an event. */
void sse_begin(struct exchange *exchange, const char *last_words);
/* Sends an event, whose reference is taken; `name` NULL: it has only data. */
void sse_send(struct exchange *exchange, const char *name, json_t *data);
/* Sends the event "[DONE]". */
void sse_done(struct exchange *exchange);

/* Has Jansson allocate by functions that notice when memory runs out, in the whole program: before other
 * threads start. */
void json_memory_begin(void);

/* How often memory has run out. */
uint64_t json_memory_lost(void);
/* Says so of a text that JSON is made of. */
void json_memory_lose(void);

#endif

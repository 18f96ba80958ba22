/* exchange.c: an exchange from its request to its answer, which may be JSON or a stream of server-sent events
 * (as the HTML standard defines them), see http.h. It is held by libmicrohttpd until its connection is done
 * with it, by the handler until it has ended it, and by requests in a queue; each holds a reference. Whoever
 * gives back the last one logs it. */
#include "io/files.h"
#include "io/json.h"
#include "serve/http/http.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "common/array.h"
#include "common/assert.h"
#include "common/clock.h"
#include "common/lock.h"
#include "serve/http/internal.h"
#include "serve/models/models.h"
#include "serve/server.h"

/* ---- Memory for JSON ----------------------------------------------------------------------------------- */

/* Jansson's NULL stands in for a value or leaves a field out, so what was made while memory ran out, by any
 * thread, is not sent. */
static _Atomic uint64_t n_lost;

uint64_t json_memory_lost(void)
{
    return n_lost;
}

void json_memory_lose(void)
{
    n_lost++;
}

static void *json_allocate(size_t size)
{
    void *memory = malloc(size);
    if (!memory) n_lost++;
    return memory;
}

void json_memory_begin(void)
{
    json_set_alloc_funcs(json_allocate, free);
}

/* ---- Creating and freeing ------------------------------------------------------------------------------ */

struct copy {
    struct pair *pairs;
    size_t count;
    bool failed;
};

static bool add_pair(struct pair **pairs, size_t *count, const char *name, const char *value)
{
    if (!ARRAY_GROW(*pairs, *count)) return false;
    struct pair *added = &(*pairs)[*count];
    *added = (struct pair){strdup(name), strdup(value ? value : "")};
    if (added->name && added->value) {
        ++*count;
        return true;
    }
    free(added->name);
    free(added->value);
    return false;
}

/* A field's value ends before its trailing blanks (RFC 9110, section 5.5). The fields that say where a
 * request ends stay as libmicrohttpd reads them, so that both agree. */
static void exchange_trim(struct pair *header)
{
    size_t length = strlen(header->value);
    if (strcasecmp(header->name, "Transfer-Encoding") == 0 || strcasecmp(header->name, "Content-Length") == 0)
        return;
    while (length > 0 && strchr(" \t", header->value[length - 1])) length--;
    header->value[length] = '\0';
}

static enum MHD_Result copy_pair(void *user, enum MHD_ValueKind kind, const char *name, const char *value)
{
    struct copy *copy = user;
    copy->failed = !add_pair(&copy->pairs, &copy->count, name, value);
    if (!copy->failed && kind == MHD_HEADER_KIND) exchange_trim(&copy->pairs[copy->count - 1]);
    return copy->failed ? MHD_NO : MHD_YES;
}

static void free_pairs(struct pair *pairs, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        free(pairs[i].name);
        free(pairs[i].value);
    }
    free(pairs);
}

struct exchange *exchange_create(struct http *http, struct MHD_Connection *connection, const char *method,
                                 const char *url)
{
    struct exchange *exchange = calloc(1, sizeof *exchange);
    struct copy headers = {0}, arguments = {0};
    if (!exchange) return NULL;
    atomic_init(&exchange->references, 1);
    exchange->http = http;
    exchange->connection = connection;
    exchange->adapter = -1;
    exchange->began = seconds_now();
    exchange->json_lost = json_memory_lost();
    lock_init(&exchange->lock);
    lock_init(&exchange->gone_lock);
    snprintf(exchange->method, sizeof exchange->method, "%s", method);
    exchange->path = strdup(url);
    MHD_get_connection_values(connection, MHD_HEADER_KIND, copy_pair, &headers);
    MHD_get_connection_values(connection, MHD_GET_ARGUMENT_KIND, copy_pair, &arguments);
    exchange->headers = headers.pairs;
    exchange->n_headers = headers.count;
    exchange->arguments = arguments.pairs;
    exchange->n_arguments = arguments.count;
    if (exchange->path && !headers.failed && !arguments.failed) return exchange;
    exchange_release(exchange);
    return NULL;
}

struct exchange *exchange_hold(struct exchange *exchange)
{
    atomic_fetch_add(&exchange->references, 1);
    return exchange;
}

void exchange_release(struct exchange *exchange)
{
    unsigned before = atomic_fetch_sub(&exchange->references, 1);
    ENGINE_ASSERT(before > 0);
    if (before != 1) return;
    ENGINE_ASSERT(!exchange->model && !exchange->from); /* given back, and out of libmicrohttpd's hands */
    if (exchange->was_listed) {
        log_exchange(exchange);
        metrics_exchange(exchange->http->server->metrics, exchange);
    }
    free_pairs(exchange->headers, exchange->n_headers);
    free_pairs(exchange->arguments, exchange->n_arguments);
    free_pairs(exchange->answer_headers, exchange->n_answer_headers);
    json_decref(exchange->json);
    pthread_mutex_destroy(&exchange->lock);
    pthread_mutex_destroy(&exchange->gone_lock);
    free(exchange->pending);
    free(exchange->path);
    free(exchange->body);
    free(exchange);
}

bool exchange_add_body(struct exchange *exchange, const char *data, size_t size)
{
    if (exchange->body_too_large || size > exchange->http->max_body - exchange->body_size) {
        exchange->body_too_large = true;
        exchange->body_discarded += size;
        return true;
    }
    if (!ARRAY_RESERVE(exchange->body, exchange->body_capacity, exchange->body_size + size + 1)) return false;
    memcpy(exchange->body + exchange->body_size, data, size);
    exchange->body_size += size;
    exchange->body[exchange->body_size] = '\0';
    return true;
}

/* ---- The request --------------------------------------------------------------------------------------- */

const char *exchange_method(const struct exchange *exchange)
{
    return exchange->method;
}

const char *exchange_path(const struct exchange *exchange)
{
    return exchange->path;
}

const char *exchange_query(const struct exchange *exchange, const char *name)
{
    for (size_t i = 0; i < exchange->n_arguments; i++)
        if (strcmp(exchange->arguments[i].name, name) == 0) return exchange->arguments[i].value;
    return NULL;
}

const char *exchange_request_header(const struct exchange *exchange, const char *name)
{
    for (size_t i = 0; i < exchange->n_headers; i++)
        if (strcasecmp(exchange->headers[i].name, name) == 0) return exchange->headers[i].value;
    return NULL;
}

struct engine_string exchange_body(const struct exchange *exchange)
{
    return (struct engine_string){exchange->body ? exchange->body : "", exchange->body_size};
}

json_t *exchange_json(const struct exchange *exchange)
{
    return exchange->json;
}

struct server *exchange_server(const struct exchange *exchange)
{
    return exchange->http->server;
}

struct served *exchange_model(const struct exchange *exchange)
{
    return exchange->model;
}

bool exchange_is_anthropic(const struct exchange *exchange)
{
    return exchange->route && exchange->route->flags & ROUTE_ANTHROPIC;
}

int exchange_adapter(const struct exchange *exchange)
{
    return exchange->adapter;
}

void exchange_use_adapter(struct exchange *exchange, int adapter)
{
    exchange->adapter = adapter;
}

void exchange_count(struct exchange *exchange, uint64_t n_prompt, uint64_t n_reused, uint64_t n_generated)
{
    atomic_fetch_add(&exchange->n_prompt, n_prompt);
    atomic_fetch_add(&exchange->n_reused, n_reused);
    atomic_fetch_add(&exchange->n_generated, n_generated);
}

/* ---- Clients that go away ------------------------------------------------------------------------------ */

/* False: there is nobody to be told, or was before. */
static bool tell_handler(struct exchange *exchange)
{
    pthread_mutex_lock(&exchange->gone_lock);
    void (*when_gone)(void *user) = exchange->when_gone;
    exchange->when_gone = NULL;
    if (when_gone) when_gone(exchange->gone_user);
    pthread_mutex_unlock(&exchange->gone_lock);
    return when_gone != NULL;
}

void exchange_lose(struct exchange *exchange)
{
    pthread_mutex_lock(&exchange->lock);
    exchange->gone = true;
    pthread_mutex_unlock(&exchange->lock);
    tell_handler(exchange);
}

bool exchange_expire(struct exchange *exchange)
{
    pthread_mutex_lock(&exchange->lock);
    exchange->expired = true;
    pthread_mutex_unlock(&exchange->lock);
    return tell_handler(exchange);
}

struct exchange_end_reason exchange_why_gone(struct exchange *exchange)
{
    static const struct exchange_end_reason
        gone = {499, "the client closed its side of the connection before it had the answer"},
        late = {504, "the request took longer than the server's --timeout"},
        ending = {503, "the server is shutting down"};
    pthread_mutex_lock(&exchange->lock);
    bool is_gone = exchange->gone || !exchange->expired;
    pthread_mutex_unlock(&exchange->lock);
    return is_gone ? gone : exchange->http->server->is_ending ? ending : late;
}

void exchange_when_gone(struct exchange *exchange, void (*gone)(void *user), void *user)
{
    pthread_mutex_lock(&exchange->gone_lock);
    pthread_mutex_lock(&exchange->lock);
    bool already = exchange->gone || exchange->expired;
    pthread_mutex_unlock(&exchange->lock);
    exchange->when_gone = already ? NULL : gone;
    exchange->gone_user = user;
    if (already) gone(user);
    pthread_mutex_unlock(&exchange->gone_lock);
}

/* From now on `when_gone` is not called. */
static void forget_gone(struct exchange *exchange)
{
    pthread_mutex_lock(&exchange->gone_lock);
    exchange->when_gone = NULL;
    pthread_mutex_unlock(&exchange->gone_lock);
}

void exchange_finished(struct exchange *exchange, bool complete)
{
    pthread_mutex_lock(&exchange->lock);
    struct MHD_Response *response = exchange->response;
    exchange->response = NULL; /* that of a stream holds the exchange */
    exchange->connection = NULL;
    exchange->suspended = false;
    complete = complete && !exchange->speaks_last;
    exchange->complete = complete;
    exchange->seconds = seconds_now() - exchange->began;
    pthread_mutex_unlock(&exchange->lock);
    if (response) MHD_destroy_response(response);
    if (!complete) exchange_lose(exchange);
}

/* ---- Between threads ----------------------------------------------------------------------------------- */

/* With the lock: has libmicrohttpd look at the exchange again. */
static void exchange_resume(struct exchange *exchange)
{
    ENGINE_ASSERT(lock_is_mine(&exchange->lock));
    if (!exchange->suspended || !exchange->connection) return;
    exchange->suspended = false;
    MHD_resume_connection(exchange->connection);
}

void exchange_suspend(struct exchange *exchange)
{
    pthread_mutex_lock(&exchange->lock);
    exchange->suspended = true;
    MHD_suspend_connection(exchange->connection);
    pthread_mutex_unlock(&exchange->lock);
}

enum MHD_Result exchange_put_answer(struct exchange *exchange, struct MHD_Connection *connection)
{
    /* Not with the lock: libmicrohttpd has a lock of its own for the response, with which it calls
     * read_stream. */
    pthread_mutex_lock(&exchange->lock);
    struct MHD_Response *response = exchange->response;
    unsigned status = exchange->status;
    pthread_mutex_unlock(&exchange->lock);
    return response ? MHD_queue_response(connection, status, response) : MHD_NO;
}

/* The handler's reference is given back. */
static void let_go(struct exchange *exchange)
{
    models_leave(exchange->http->server->models, exchange);
    exchange_release(exchange);
}

/* ---- Answers ------------------------------------------------------------------------------------------- */

void exchange_header(struct exchange *exchange, const char *name, const char *value)
{
    /* Without memory for it the answer goes without. */
    add_pair(&exchange->answer_headers, &exchange->n_answer_headers, name, value);
}

static void add_headers(struct exchange *exchange, struct MHD_Response *response, const char *content_type)
{
    if (content_type) MHD_add_response_header(response, "Content-Type", content_type);
    MHD_add_response_header(response, "X-Content-Type-Options", "nosniff");
    MHD_add_response_header(response, "Referrer-Policy", "no-referrer");
    MHD_add_response_header(response, "Cross-Origin-Resource-Policy", "same-origin");
    for (size_t i = 0; i < exchange->n_answer_headers; i++)
        MHD_add_response_header(response, exchange->answer_headers[i].name,
                                exchange->answer_headers[i].value);
}

/* Hands over a response, which is taken; NULL: there was no memory for one, so the connection is closed. */
static void set_response(struct exchange *exchange, unsigned status, enum exchange_state state,
                         struct MHD_Response *response)
{
    pthread_mutex_lock(&exchange->lock);
    ENGINE_ASSERT(exchange->state == EXCHANGE_WAITING); /* it is answered once */
    bool wanted = exchange->connection != NULL;
    if (wanted) exchange->response = response;
    exchange->status = status;
    exchange->state = state;
    exchange->lost = !response;
    exchange_resume(exchange);
    pthread_mutex_unlock(&exchange->lock);
    if (!wanted && response) MHD_destroy_response(response);
}

/* Ends the exchange with a response, which is taken; NULL: there was no memory for one, so the connection is
 * closed. */
static void exchange_respond(struct exchange *exchange, unsigned status, const char *content_type,
                             size_t size, struct MHD_Response *response)
{
    forget_gone(exchange);
    if (response) add_headers(exchange, response, content_type);
    exchange->sent = size;
    set_response(exchange, status, EXCHANGE_ANSWERED, response);
    let_go(exchange);
}

void exchange_answer_bytes(struct exchange *exchange, unsigned status, const char *content_type,
                           const void *data, size_t size)
{
    exchange_respond(exchange, status, content_type, size,
                     MHD_create_response_from_buffer(size, (void *)(uintptr_t)data, MHD_RESPMEM_MUST_COPY));
}

void exchange_answer_static(struct exchange *exchange, unsigned status, const char *content_type,
                            const void *data, size_t size)
{
    exchange_respond(exchange, status, content_type, size,
                     MHD_create_response_from_buffer(size, (void *)(uintptr_t)data, MHD_RESPMEM_PERSISTENT));
}

bool exchange_lacks_memory(const struct exchange *exchange)
{
    return json_memory_lost() != exchange->json_lost;
}

void exchange_cut(struct exchange *exchange)
{
    pthread_mutex_lock(&exchange->lock);
    exchange->speaks_last = exchange->last_words != NULL;
    exchange->lost = exchange->lost || !exchange->last_words;
    exchange_resume(exchange);
    pthread_mutex_unlock(&exchange->lock);
}

void exchange_answer(struct exchange *exchange, unsigned status, json_t *body)
{
    char *text = body ? json_dumps(body, JSON_COMPACT) : NULL;
    json_decref(body);
    if (status < 400 && exchange_lacks_memory(exchange)) {
        free(text);
        const char *answer = exchange_is_anthropic(exchange) ? OUT_OF_MEMORY_ANTHROPIC : OUT_OF_MEMORY_OPENAI;
        exchange_answer_static(exchange, OUT_OF_MEMORY_STATUS, "application/json", answer, strlen(answer));
        return;
    }
    size_t size = text ? strlen(text) : 0;
    struct MHD_Response *response =
        text ? MHD_create_response_from_buffer(size, text, MHD_RESPMEM_MUST_FREE) : NULL;
    if (!response) free(text);
    exchange_respond(exchange, status, "application/json", size, response);
}

void exchange_fail(struct exchange *exchange, unsigned status, const char *type, const char *code,
                   const char *param, const char *format, ...)
{
    char message[1024];
    va_list args;
    va_start(args, format);
    vsnprintf(message, sizeof message, format, args);
    va_end(args);
    /* Messages may quote what a client sent, cut anywhere. */
    json_t *text = json_string(message);
    for (char *byte = message; !text && *byte; byte++)
        if (*byte & 0x80) *byte = '?';
    if (!text) text = json_string(message);
    if (exchange_is_anthropic(exchange))
        exchange_answer(exchange, status,
                        json_pack("{s:s, s:{s:s, s:o}}", "type", "error", "error", "type",
                                  strcmp(type, "server_error") != 0 ? type
                                  : status == 504                   ? "timeout_error"
                                                                    : "api_error",
                                  "message", text));
    else
        exchange_answer(exchange, status,
                        json_pack("{s:{s:o, s:s, s:s?, s:s?}}", "error", "message", text, "type", type,
                                  "param", param, "code", code));
}

bool exchange_defer(struct exchange *exchange, void (*work)(void *user), void *user)
{
    return pool_add(exchange->http->long_workers, work, user, false);
}

void exchange_busy(struct exchange *exchange)
{
    exchange_header(exchange, "Retry-After", "1");
    bool anthropic = exchange_is_anthropic(exchange);
    exchange_fail(exchange, 429, anthropic ? "rate_limit_error" : "server_busy",
                  anthropic ? NULL : "server_busy", NULL, "too many requests are waiting; try again later");
}

/* ---- Streams ------------------------------------------------------------------------------------------- */

static ssize_t read_stream(void *user, uint64_t position, char *data, size_t max)
{
    struct exchange *exchange = user;
    ssize_t result = 0;
    (void)position;
    pthread_mutex_lock(&exchange->lock);
    size_t n = exchange->pending_size < max ? exchange->pending_size : max;
    ENGINE_ASSERT(exchange->pending_first + exchange->pending_size <= exchange->pending_capacity);
    if (exchange->lost) {
        result = MHD_CONTENT_READER_END_WITH_ERROR;
    } else if (n > 0) {
        memcpy(data, exchange->pending + exchange->pending_first, n);
        exchange->pending_first += n;
        exchange->pending_size -= n;
        if (exchange->pending_size == 0) exchange->pending_first = 0;
        result = (ssize_t)n;
    } else if (exchange->speaks_last && exchange->last_words[exchange->n_last_words]) {
        const char *words = exchange->last_words + exchange->n_last_words;
        n = strnlen(words, max);
        memcpy(data, words, n);
        exchange->n_last_words += n;
        result = (ssize_t)n;
    } else if (exchange->state == EXCHANGE_ENDED || exchange->speaks_last) {
        result = MHD_CONTENT_READER_END_OF_STREAM;
    } else {
        exchange->suspended = true;
        MHD_suspend_connection(exchange->connection);
    }
    pthread_mutex_unlock(&exchange->lock);
    return result;
}

static void release_stream(void *user)
{
    exchange_release(user);
}

void exchange_stream(struct exchange *exchange, const char *content_type, const char *ping,
                     const char *last_words)
{
    struct MHD_Response *response =
        MHD_create_response_from_callback(MHD_SIZE_UNKNOWN, 4096, read_stream, exchange, release_stream);
    if (response) {
        exchange_hold(exchange);
        add_headers(exchange, response, content_type);
    }
    pthread_mutex_lock(&exchange->lock);
    exchange->ping = ping;
    exchange->last_words = last_words;
    exchange->quiet_since = seconds_now();
    pthread_mutex_unlock(&exchange->lock);
    set_response(exchange, 200, EXCHANGE_STREAMING, response);
}

/* With the lock: room for more bytes at the end of those that wait. */
static bool exchange_make_room(struct exchange *exchange, size_t size)
{
    ENGINE_ASSERT(lock_is_mine(&exchange->lock) && exchange->pending_size <= exchange->http->max_pending);
    if (size > exchange->http->max_pending - exchange->pending_size) return false;
    if (exchange->pending_first + exchange->pending_size + size <= exchange->pending_capacity) return true;
    if (exchange->pending_first > 0)
        memmove(exchange->pending, exchange->pending + exchange->pending_first, exchange->pending_size);
    exchange->pending_first = 0;
    return ARRAY_RESERVE(exchange->pending, exchange->pending_capacity, exchange->pending_size + size);
}

bool exchange_send(struct exchange *exchange, const void *data, size_t size)
{
    pthread_mutex_lock(&exchange->lock);
    bool reaches = exchange->connection && !exchange->gone && !exchange->lost && !exchange->speaks_last;
    if (reaches && size > 0) {
        reaches = exchange_make_room(exchange, size);
        if (reaches) {
            memcpy(exchange->pending + exchange->pending_first + exchange->pending_size, data, size);
            exchange->pending_size += size;
            exchange->sent += size;
            exchange->quiet_since = seconds_now();
        }
        exchange->lost = !reaches;
        exchange_resume(exchange);
    }
    pthread_mutex_unlock(&exchange->lock);
    return reaches;
}

/* A client that has bytes to read already needs no more of them. */
bool exchange_is_quiet(struct exchange *exchange, double before)
{
    pthread_mutex_lock(&exchange->lock);
    bool is_quiet = exchange->state == EXCHANGE_STREAMING && exchange->ping && exchange->pending_size == 0 &&
                    exchange->connection && !exchange->gone && !exchange->lost && !exchange->speaks_last &&
                    exchange->quiet_since <= before;
    pthread_mutex_unlock(&exchange->lock);
    return is_quiet;
}

void exchange_ping(struct exchange *exchange)
{
    exchange_send(exchange, exchange->ping, strlen(exchange->ping));
}

void exchange_end(struct exchange *exchange)
{
    forget_gone(exchange);
    pthread_mutex_lock(&exchange->lock);
    ENGINE_ASSERT(exchange->state == EXCHANGE_STREAMING);
    exchange->state = EXCHANGE_ENDED;
    exchange_resume(exchange);
    pthread_mutex_unlock(&exchange->lock);
    let_go(exchange);
}

/* ---- JSON ---------------------------------------------------------------------------------------------- */

void exchange_be_exact(struct exchange *exchange)
{
    exchange->is_exact = true;
}

/* NULL: out of memory. */
static char *dump_answer(const struct exchange *exchange, const json_t *json)
{
    if (!json) return NULL;
    return exchange->is_exact ? json_exact_text(json, JSON_COMPACT)
                              : json_dumps(json, JSON_COMPACT | JSON_REAL_PRECISION(9));
}

void exchange_answer_json(struct exchange *exchange, json_t *answer)
{
    char *text = dump_answer(exchange, answer);
    json_decref(answer);
    if (text && !exchange_lacks_memory(exchange))
        exchange_answer_bytes(exchange, 200, "application/json", text, strlen(text));
    else
        exchange_fail(exchange, OUT_OF_MEMORY_STATUS, "server_error", NULL, NULL,
                      "out of memory (an answer)");
    free(text);
}

/* ---- Server-sent events -------------------------------------------------------------------------------- */

static int sse_add(struct text_buffer *buffer, const char *text)
{
    return text_add(buffer, &(struct engine_string){text, strlen(text)});
}

void sse_begin(struct exchange *exchange, const char *last_words)
{
    static const char comment[] = ": ping\n\n", event[] = "event: ping\ndata: {\"type\":\"ping\"}\n\n";
    exchange_stream(exchange, "text/event-stream", exchange_is_anthropic(exchange) ? event : comment,
                    last_words);
}

/* In one piece, so that no other event can come between. Where memory has run out for one, the stream is
 * cut. */
void sse_send(struct exchange *exchange, const char *name, json_t *data)
{
    struct text_buffer event = {0};
    char *text = dump_answer(exchange, data);
    json_decref(data);
    int failed = text && !exchange_lacks_memory(exchange) ? 0 : 1;
    if (!failed && name)
        failed = sse_add(&event, "event: ") || sse_add(&event, name) || sse_add(&event, "\n");
    if (!failed) failed = sse_add(&event, "data: ") || sse_add(&event, text) || sse_add(&event, "\n\n");
    if (failed)
        exchange_cut(exchange);
    else
        exchange_send(exchange, event.data, event.size);
    free(event.data);
    free(text);
}

void sse_done(struct exchange *exchange)
{
    static const char done[] = "data: [DONE]\n\n";
    exchange_send(exchange, done, strlen(done));
}

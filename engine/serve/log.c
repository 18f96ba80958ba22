/* log.c: the server's lines on standard error: a line an exchange, and what the server and the engine have to
 * say. See server.h. */
#include "serve/server.h"

#include <inttypes.h>
#include <poll.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "common/memory-stream.h"
#include "common/printable.h"
#include "io/files.h"
#include "io/json.h"
#include "serve/http/internal.h"
#include "serve/models/models.h"

#define MAX_LOGGED_BODY 65536 /* bytes of a body that --log-prompts writes */

static bool as_json, with_prompts;
static enum engine_log_level max_level = ENGINE_LOG_WARNING; /* of the engine's lines */

void log_begin(const struct arguments *arguments)
{
    as_json = arguments->log_format && strcmp(arguments->log_format, "json") == 0;
    with_prompts = arguments->log_prompts;
    if (arguments->verbose) max_level = ENGINE_LOG_DEBUG;
}

/* One write for a line, so that lines of several threads don't mix. Nobody waits for a reader who has fallen
 * behind. */
static void log_put(const char *line, size_t length)
{
    struct pollfd ready = {.fd = STDERR_FILENO, .events = POLLOUT};
    if (poll(&ready, 1, 0) != 1 || !(ready.revents & POLLOUT)) return;
    ssize_t written = write(STDERR_FILENO, line, length);
    (void)written; /* there is nowhere else to say it */
}

/* The time of day, for people: "2026-11-23T15:45:12Z". Nothing is measured with it. */
static void log_time_text(char text[32])
{
    struct timespec now;
    struct tm parts;
    clock_gettime(CLOCK_REALTIME, &now);
    gmtime_r(&now.tv_sec, &parts);
    strftime(text, 32, "%Y-%m-%dT%H:%M:%SZ", &parts);
}

/* Writes an object as a line; it is taken. */
static void log_put_json(json_t *object)
{
    char *text = object ? json_dumps(object, JSON_COMPACT | JSON_REAL_PRECISION(6)) : NULL;
    json_decref(object);
    if (!text) return;
    size_t length = strlen(text);
    text[length] = '\n'; /* instead of the NUL */
    log_put(text, length + 1);
    free(text);
}

void server_log(const char *format, ...)
{
    char message[2048], line[2200], now[32];
    va_list args;
    va_start(args, format);
    vsnprintf(message, sizeof message, format, args);
    va_end(args);
    printable_make(message);
    if (as_json) {
        log_time_text(now);
        log_put_json(json_pack("{s:s, s:o}", "time", now, "message", json_text(message, strlen(message))));
        return;
    }
    int length = snprintf(line, sizeof line, "engine: %s\n", message);
    log_put(line, (size_t)length);
}

/* ---- What the engine says ---- */

static pthread_mutex_t said_lock = PTHREAD_MUTEX_INITIALIZER;
static uint64_t said[64]; /* [n_said] hashes of its warnings */
static size_t n_said;

void log_forget(void)
{
    pthread_mutex_lock(&said_lock);
    n_said = 0;
    pthread_mutex_unlock(&said_lock);
}

void log_engine(void *user, enum engine_log_level level, const char *line)
{
    static const char *const names[] = {"error: ", "warning: ", "", ""};
    uint64_t hash = hash_bytes(HASH_BASIS, line, strlen(line));
    bool known = false;
    (void)user;
    if (level > max_level) return;
    pthread_mutex_lock(&said_lock);
    for (size_t i = 0; i < n_said; i++) known = known || said[i] == hash;
    if (!known && n_said < sizeof said / sizeof *said) said[n_said++] = hash;
    pthread_mutex_unlock(&said_lock);
    if (!known) server_log("%s%s", names[level], line);
}

static void log_as_json(const struct exchange *exchange)
{
    char now[32];
    log_time_text(now);
    json_t *line = json_pack(
        "{s:s, s:s, s:s, s:o, s:i, s:b, s:I, s:f, s:s?, s:I, s:I, s:I}", "time", now, "client",
        exchange->client, "method", exchange->method, "path",
        json_text(exchange->path, strlen(exchange->path)), "status", (int)exchange->status, "complete",
        exchange->complete, "bytes", (json_int_t)exchange->sent, "seconds", exchange->seconds, "model",
        exchange->model_name, "prompt_tokens", (json_int_t)exchange->n_prompt, "cached_tokens",
        (json_int_t)exchange->n_reused, "generated_tokens", (json_int_t)exchange->n_generated);
    if (line && with_prompts && exchange->body_size > 0)
        json_object_set_new(line, "body",
                            json_text(exchange->body, exchange->body_size < MAX_LOGGED_BODY
                                                          ? exchange->body_size
                                                          : MAX_LOGGED_BODY));
    log_put_json(line);
}

static void log_as_text(const struct exchange *exchange)
{
    char *line = NULL, now[32];
    size_t length = 0;
    FILE *out = open_memstream(&line, &length);
    if (!out) return;
    log_time_text(now);
    fprintf(out, "%s %s %s %.500s %u%s %" PRIu64 " B %.3f s", now, exchange->client, exchange->method,
            exchange->path, exchange->status, exchange->complete ? "" : " (broken off)", exchange->sent,
            exchange->seconds);
    if (exchange->model_name)
        fprintf(out, " %s %" PRIuFAST64 "+%" PRIuFAST64 " tokens, %" PRIuFAST64 " cached",
                exchange->model_name, exchange->n_prompt, exchange->n_generated, exchange->n_reused);
    if (with_prompts && exchange->body_size > 0)
        fprintf(out, " %.*s",
                (int)(exchange->body_size < MAX_LOGGED_BODY ? exchange->body_size : MAX_LOGGED_BODY),
                exchange->body);
    if (memory_stream_end(out, &line)) {
        printable_make(line);
        length = strlen(line);
        line[length] = '\n'; /* instead of the NUL */
        log_put(line, length + 1);
    }
    free(line);
}

void log_exchange(const struct exchange *exchange)
{
    if (as_json)
        log_as_json(exchange);
    else
        log_as_text(exchange);
}

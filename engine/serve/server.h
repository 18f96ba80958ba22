/* server.h: what all requests share: the server, its beginning and end, its log and its metrics. */
#ifndef ENGINE_SERVE_SERVER_H
#define ENGINE_SERVE_SERVER_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#include "engine.h"
#include "options/arguments.h"
#include "options/sampling.h"

struct exchange;
struct http;
struct lenient;
struct metrics;
struct models;

struct server {
    const struct arguments *arguments;
    struct engine *engine;
    struct sampling sampling; /* the command line's, with which requests begin */
    struct models *models;
    struct http *http;
    struct metrics *metrics;
    struct lenient *lenient; /* what requests have that is ignored; NULL: --strict */
    double began;            /* seconds_now */
    atomic_bool is_lost;     /* see server_end */
    atomic_bool is_ending;   /* no new requests: /health says so */
    atomic_bool is_looking;  /* a request for attention weights is being computed, one at a time */
};

/* Serves until SIGTERM or SIGINT. Then ends what is in progress, for --grace seconds at most; a second signal
 * ends it at once. Returns the exit status. */
int serve(const struct arguments *arguments);
/* [thread-safe] Has serve() end, for a reason that is logged: nothing can be served any more. The exit status
 * is then 1. */
void server_end(struct server *server, const char *reason);

/* ---- The log: server.c ---- */

/* --log-format and --log-prompts, before all else. */
void log_begin(const struct arguments *arguments);
/* For engine_options.log: a warning of the engine, in the same form, each once until log_forget. */
void log_engine(void *user, enum engine_log_level level, const char *line);
/* A model is loaded next, whose warnings count for themselves. */
void log_forget(void);
/* A line about the server. */
void server_log(const char *format, ...) ENGINE_PRINTF(1, 2);
/* The line of an exchange that has ended. */
void log_exchange(const struct exchange *exchange);

/* ---- Metrics: metrics.c, in Prometheus' text format. Any thread may add to them ---- */

/* NULL: out of memory. */
struct metrics *metrics_create(void);
void metrics_destroy(struct metrics *metrics);

void metrics_exchange(struct metrics *metrics, const struct exchange *exchange);
void metrics_first_token(struct metrics *metrics, double seconds);
void metrics_between_tokens(struct metrics *metrics, double seconds);
void metrics_tokens(struct metrics *metrics, uint64_t n_prompt, uint64_t n_reused, uint64_t n_generated);

/* All of it as text, for the caller to free; NULL: out of memory. */
char *metrics_text(struct server *server, size_t *size);

#endif

/* metrics.c: what /metrics tells. Names of metrics follow Prometheus' rules: a unit at the end, _total for
 * what only grows. */
#include "serve/server.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/array.h"
#include "common/clock.h"
#include "common/lock.h"
#include "common/memory-stream.h"
#include "serve/http/internal.h"
#include "serve/models/models.h"

/* Upper bounds of the classes of a histogram, in seconds. */
static const double bounds[] = {0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25,
                                0.5,   1,      2.5,   5,    10,    30,   60,  300};
#define N_BOUNDS (sizeof bounds / sizeof *bounds)

struct histogram {
    uint64_t counts[N_BOUNDS + 1]; /* of each class; the last one has no bound */
    double sum;
};

/* Exchanges with the same route and status. */
struct count {
    const char *path; /* the route's; "" for requests without one */
    unsigned status;  /* 0: the client went away before it had one */
    uint64_t n;
};

struct metrics {
    pthread_mutex_t lock;
    struct count *counts; /* [n_counts]; at most all routes times all statuses */
    size_t n_counts;
    struct histogram durations, first_tokens, between_tokens;
    uint64_t n_prompt, n_reused, n_generated;
};

struct metrics *metrics_create(void)
{
    struct metrics *metrics = calloc(1, sizeof *metrics);
    if (metrics) lock_init(&metrics->lock);
    return metrics;
}

void metrics_destroy(struct metrics *metrics)
{
    if (!metrics) return;
    pthread_mutex_destroy(&metrics->lock);
    free(metrics->counts);
    free(metrics);
}

/* ---- Adding -------------------------------------------------------------------------------------------- */

static void add_seconds(struct histogram *histogram, double seconds)
{
    size_t class = 0;
    while (class < N_BOUNDS && seconds > bounds[class]) class ++;
    histogram->counts[class]++;
    histogram->sum += seconds;
}

void metrics_exchange(struct metrics *metrics, const struct exchange *exchange)
{
    const char *path = exchange->route ? exchange->route->path : "";
    size_t i = 0;
    pthread_mutex_lock(&metrics->lock);
    while (i < metrics->n_counts &&
           (metrics->counts[i].status != exchange->status || strcmp(metrics->counts[i].path, path) != 0))
        i++;
    if (i == metrics->n_counts && ARRAY_GROW(metrics->counts, i))
        metrics->counts[metrics->n_counts++] = (struct count){.path = path, .status = exchange->status};
    if (i < metrics->n_counts) metrics->counts[i].n++;
    add_seconds(&metrics->durations, exchange->seconds);
    pthread_mutex_unlock(&metrics->lock);
}

void metrics_first_token(struct metrics *metrics, double seconds)
{
    pthread_mutex_lock(&metrics->lock);
    add_seconds(&metrics->first_tokens, seconds);
    pthread_mutex_unlock(&metrics->lock);
}

void metrics_between_tokens(struct metrics *metrics, double seconds)
{
    pthread_mutex_lock(&metrics->lock);
    add_seconds(&metrics->between_tokens, seconds);
    pthread_mutex_unlock(&metrics->lock);
}

void metrics_tokens(struct metrics *metrics, uint64_t n_prompt, uint64_t n_reused, uint64_t n_generated)
{
    pthread_mutex_lock(&metrics->lock);
    metrics->n_prompt += n_prompt;
    metrics->n_reused += n_reused;
    metrics->n_generated += n_generated;
    pthread_mutex_unlock(&metrics->lock);
}

/* ---- Writing ------------------------------------------------------------------------------------------- */

static void put_head(FILE *out, const char *name, const char *kind, const char *help)
{
    fprintf(out, "# HELP engine_%s %s\n# TYPE engine_%s %s\n", name, help, name, kind);
}

static void put_count(FILE *out, const char *name, const char *kind, const char *help, uint64_t value)
{
    put_head(out, name, kind, help);
    fprintf(out, "engine_%s %" PRIu64 "\n", name, value);
}

static void put_histogram(FILE *out, const char *name, const char *help, const struct histogram *histogram)
{
    uint64_t total = 0;
    put_head(out, name, "histogram", help);
    for (size_t i = 0; i < N_BOUNDS; i++) {
        total += histogram->counts[i];
        fprintf(out, "engine_%s_bucket{le=\"%g\"} %" PRIu64 "\n", name, bounds[i], total);
    }
    total += histogram->counts[N_BOUNDS];
    fprintf(out, "engine_%s_bucket{le=\"+Inf\"} %" PRIu64 "\nengine_%s_sum %g\nengine_%s_count %" PRIu64 "\n",
            name, total, name, histogram->sum, name, total);
}

/* A label's value: what Prometheus escapes. */
static void put_label(FILE *out, const char *value)
{
    for (; *value; value++) {
        if (*value == '\n') {
            fputs("\\n", out);
        } else {
            if (strchr("\\\"", *value)) fputc('\\', out);
            fputc(*value, out);
        }
    }
}

enum model_value {
    IS_LOADED,
    LOADS,
    MEMORY,
    WAITING,
    RUNNING,
    CACHE_USED,
    CACHE_SIZE,
    PUT_BACK,
    GUESSED,
    ACCEPTED
};

static const struct {
    const char *name, *kind, *help;
} model_values[] = {
    [IS_LOADED] = {"model_loaded", "gauge", "1 if the model is loaded."},
    [LOADS] = {"model_loads_total", "counter", "How often the model was loaded."},
    [MEMORY] = {"model_memory_bytes", "gauge", "Memory of the loaded model on all devices."},
    [WAITING] = {"queue_waiting_requests", "gauge", "Requests that wait for their turn."},
    [RUNNING] = {"queue_running_requests", "gauge",
                 "Requests whose prompts are read or whose texts are written."},
    [CACHE_USED] = {"cache_used_tokens", "gauge", "Positions of the KV cache in use."},
    [CACHE_SIZE] = {"cache_size_tokens", "gauge", "Positions of the KV cache."},
    [PUT_BACK] = {"queue_put_back_total", "counter", "How often a request gave up its place since the load."},
    [GUESSED] = {"guessed_tokens_total", "counter", "Tokens guessed since the load."},
    [ACCEPTED] = {"accepted_tokens_total", "counter", "Guessed tokens that came true since the load."},
};

static uint64_t model_value(const struct served_state *state, enum model_value which)
{
    switch (which) {
    case IS_LOADED: return state->is_loaded;
    case LOADS: return state->n_loads;
    case MEMORY: return state->memory;
    case WAITING: return state->queue.n_waiting;
    case RUNNING: return state->queue.n_running;
    case CACHE_USED: return state->queue.n_cached;
    case CACHE_SIZE: return state->queue.n_cache;
    case PUT_BACK: return state->queue.n_put_back;
    case GUESSED: return state->queue.n_guessed;
    case ACCEPTED: return state->queue.n_accepted;
    }
    return 0;
}

static void put_models(FILE *out, struct server *server)
{
    for (size_t v = 0; v < sizeof model_values / sizeof *model_values; v++) {
        struct served_state state;
        put_head(out, model_values[v].name, model_values[v].kind, model_values[v].help);
        for (size_t i = 0; models_at(server->models, i, &state); i++) {
            fprintf(out, "engine_%s{model=\"", model_values[v].name);
            put_label(out, state.name);
            fprintf(out, "\"} %" PRIu64 "\n", model_value(&state, (enum model_value)v));
        }
    }
}

char *metrics_text(struct server *server, size_t *size)
{
    struct metrics *metrics = server->metrics;
    char *text = NULL;
    FILE *out = open_memstream(&text, size);
    if (!out) return NULL;
    pthread_mutex_lock(&metrics->lock);
    put_head(out, "requests_total", "counter",
             "Requests by route and status; status 0: the client went away.");
    for (size_t i = 0; i < metrics->n_counts; i++)
        fprintf(out, "engine_requests_total{path=\"%s\",status=\"%u\"} %" PRIu64 "\n",
                metrics->counts[i].path, metrics->counts[i].status, metrics->counts[i].n);
    put_count(out, "prompt_tokens_total", "counter", "Tokens of prompts, those found in the cache included.",
              metrics->n_prompt);
    put_count(out, "cached_tokens_total", "counter", "Tokens of prompts that were found in the cache.",
              metrics->n_reused);
    put_count(out, "generated_tokens_total", "counter", "Tokens written by models.", metrics->n_generated);
    put_histogram(out, "request_duration_seconds", "From a request's headers to the end of its answer.",
                  &metrics->durations);
    put_histogram(out, "time_to_first_token_seconds",
                  "From a request's entering the queue to its first token.", &metrics->first_tokens);
    put_histogram(out, "time_between_tokens_seconds", "From a token of a text to the next one.",
                  &metrics->between_tokens);
    pthread_mutex_unlock(&metrics->lock);
    put_models(out, server);
    put_count(out, "requests_in_progress", "gauge", "Requests that are being answered.",
              http_busy(server->http));
    put_head(out, "uptime_seconds", "gauge", "Since the server started.");
    fprintf(out, "engine_uptime_seconds %.3f\n", seconds_now() - server->began);
    memory_stream_end(out, &text);
    return text;
}

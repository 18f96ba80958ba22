/* http.c: opens, closes and ends what HTTP consists of, and the worker threads that handlers run on, with a
 * line of work before them. */
#include "serve/http/http.h"

#include <pthread.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "common/assert.h"
#include "common/clock.h"
#include "common/lock.h"
#include "io/messages.h"
#include "serve/http/internal.h"

/* ---- Worker threads ---- */

struct pool_work {
    struct pool_work *next;
    void (*work)(void *user);
    void *user;
};

struct pool {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    struct pool_work *first, **end; /* *end is where the next one is attached */
    size_t n_waiting, max_waiting;
    bool closed;
    size_t n_threads;
    pthread_t threads[]; /* [n_threads] */
};

static void *pool_run(void *user)
{
    struct pool *pool = user;
    pthread_mutex_lock(&pool->lock);
    for (;;) {
        while (!pool->first && !pool->closed) pthread_cond_wait(&pool->changed, &pool->lock);
        struct pool_work *next = pool->first;
        if (!next) break;
        pool->first = next->next;
        if (!pool->first) pool->end = &pool->first;
        ENGINE_ASSERT(pool->n_waiting > 0);
        pool->n_waiting--;
        pthread_mutex_unlock(&pool->lock);
        next->work(next->user);
        free(next);
        pthread_mutex_lock(&pool->lock);
    }
    pthread_mutex_unlock(&pool->lock);
    return NULL;
}

int pool_create(size_t n_threads, size_t max_waiting, struct pool **out)
{
    struct pool *pool = calloc(1, sizeof *pool + n_threads * sizeof *pool->threads);
    if (!pool) return command_error(ENGINE_ERROR_MEMORY, "out of memory (threads)");
    lock_init(&pool->lock);
    pthread_cond_init(&pool->changed, NULL);
    pool->end = &pool->first;
    pool->max_waiting = max_waiting;
    while (pool->n_threads < n_threads &&
           pthread_create(&pool->threads[pool->n_threads], NULL, pool_run, pool) == 0)
        pool->n_threads++;
    *out = pool;
    if (pool->n_threads == n_threads) return ENGINE_OK;
    pool_destroy(pool);
    *out = NULL;
    return command_error(ENGINE_ERROR, "cannot start %zu worker threads", n_threads);
}

bool pool_add(struct pool *pool, void (*work)(void *user), void *user, bool always)
{
    struct pool_work *added = malloc(sizeof *added);
    if (!added) return false;
    *added = (struct pool_work){.work = work, .user = user};
    pthread_mutex_lock(&pool->lock);
    bool fits = always || pool->n_waiting < pool->max_waiting;
    if (fits) {
        *pool->end = added;
        pool->end = &added->next;
        pool->n_waiting++;
        pthread_cond_signal(&pool->changed);
    }
    pthread_mutex_unlock(&pool->lock);
    if (!fits) free(added);
    return fits;
}

void pool_destroy(struct pool *pool)
{
    if (!pool) return;
    pthread_mutex_lock(&pool->lock);
    pool->closed = true;
    pthread_cond_broadcast(&pool->changed);
    pthread_mutex_unlock(&pool->lock);
    for (size_t i = 0; i < pool->n_threads; i++) pthread_join(pool->threads[i], NULL);
    pthread_cond_destroy(&pool->changed);
    pthread_mutex_destroy(&pool->lock);
    free(pool);
}

/* ---- The server ---- */

#define LONG_WORKERS 2

int http_create(struct server *server, struct http **out)
{
    const struct arguments *arguments = server->arguments;
    struct http *http = calloc(1, sizeof *http);
    pthread_condattr_t attributes;
    if (!http) return command_error(ENGINE_ERROR_MEMORY, "out of memory (server)");
    http->server = server;
    http->watch = http->wake = -1;
    http->max_body = (size_t)arguments->body_mib << 20;
    http->max_pending = (size_t)arguments->pending_kib << 10;
    lock_init(&http->lock);
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_cond_init(&http->idle, &attributes);
    pthread_condattr_destroy(&attributes);
    int status = access_create(arguments, &http->access);
    if (!status) status = tls_create(arguments, &http->tls);
    if (!status) status = pool_create(arguments->n_workers, arguments->n_waiting, &http->workers);
    if (!status) status = pool_create(1, arguments->n_connections, &http->quick);
    if (!status) status = pool_create(LONG_WORKERS, arguments->n_waiting, &http->long_workers);
    if (!status) status = listen_open(http);
    if (status) {
        http_destroy(http);
        return status;
    }
    *out = http;
    return ENGINE_OK;
}

int http_start(struct http *http)
{
    int status = watch_start(http);
    for (size_t i = 0; i < http->n_listeners && !status; i++) status = daemon_start(&http->listeners[i]);
    return status;
}

int http_reload(struct http *http)
{
    int status = access_reload(http->access);
    return status || !http->tls ? status : tls_reload(http->tls);
}

void http_close(struct http *http)
{
    for (size_t i = 0; i < http->n_listeners; i++) {
        struct listener *listener = &http->listeners[i];
        if (!listener->daemon || listener->closed) continue;
        MHD_quiesce_daemon(listener->daemon); /* from now on the socket is ours to close */
        close(listener->socket);
        listener->closed = true;
    }
}

size_t http_busy(struct http *http)
{
    pthread_mutex_lock(&http->lock);
    size_t n = http->n_exchanges;
    pthread_mutex_unlock(&http->lock);
    return n;
}

/* Ends all exchanges, at once or with an error. */
static void end_all(struct http *http, bool at_once)
{
    size_t n = 0;
    pthread_mutex_lock(&http->lock);
    struct exchange **all = calloc(http->n_exchanges + 1, sizeof *all);
    for (struct exchange *exchange = http->first; exchange && all; exchange = exchange->next) {
        all[n++] = exchange_hold(exchange);
        if (at_once) shutdown(exchange->from->socket, SHUT_RDWR);
    }
    pthread_mutex_unlock(&http->lock);
    for (size_t i = 0; i < n; i++) {
        if (at_once)
            exchange_lose(all[i]);
        else
            exchange_expire(all[i]);
        exchange_release(all[i]);
    }
    free(all);
}

void http_expire(struct http *http)
{
    end_all(http, false);
}

void http_abandon(struct http *http)
{
    end_all(http, true);
}

void http_wait(struct http *http, double seconds)
{
    struct timespec until;
    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_sec += (time_t)seconds;
    until.tv_nsec += (long)((seconds - (double)(time_t)seconds) * 1e9);
    if (until.tv_nsec >= 1000000000) {
        until.tv_sec++;
        until.tv_nsec -= 1000000000;
    }
    pthread_mutex_lock(&http->lock);
    while (http->n_exchanges > 0 && pthread_cond_timedwait(&http->idle, &http->lock, &until) == 0) continue;
    pthread_mutex_unlock(&http->lock);
}

void http_stop(struct http *http)
{
    if (!http) return;
    pool_destroy(http->workers);
    pool_destroy(http->quick);
    pool_destroy(http->long_workers); /* which workers hand over to */
    http->workers = http->quick = http->long_workers = NULL;
    http_close(http);
    for (size_t i = 0; i < http->n_listeners; i++)
        if (http->listeners[i].daemon) MHD_stop_daemon(http->listeners[i].daemon);
    watch_stop(http);
    listen_close(http);
}

void http_destroy(struct http *http)
{
    if (!http) return;
    http_stop(http);
    ENGINE_ASSERT(http->n_exchanges == 0 && !http->connections);
    tls_destroy(http->tls);
    access_destroy(http->access);
    pthread_cond_destroy(&http->idle);
    pthread_mutex_destroy(&http->lock);
    free(http);
}

const char *http_address(const struct http *http, size_t index)
{
    return index < http->n_listeners ? http->listeners[index].address : NULL;
}

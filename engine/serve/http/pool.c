/* pool.c: see pool.h. */
#include "serve/http/pool.h"

#include <pthread.h>
#include <stdlib.h>

#include "commands/common.h"

struct work {
    struct work *next;
    void (*run)(void *user);
    void *user;
};

struct pool {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    struct work *first, **end; /* *end is where the next one is attached */
    size_t n_waiting, most;
    bool closed;
    size_t n_threads;
    pthread_t threads[]; /* [n_threads] */
};

static void *work(void *user)
{
    struct pool *pool = user;
    pthread_mutex_lock(&pool->lock);
    for (;;) {
        while (!pool->first && !pool->closed) pthread_cond_wait(&pool->changed, &pool->lock);
        struct work *next = pool->first;
        if (!next) break;
        pool->first = next->next;
        if (!pool->first) pool->end = &pool->first;
        pool->n_waiting--;
        pthread_mutex_unlock(&pool->lock);
        next->run(next->user);
        free(next);
        pthread_mutex_lock(&pool->lock);
    }
    pthread_mutex_unlock(&pool->lock);
    return NULL;
}

int pool_create(size_t n_threads, size_t most, struct pool **out)
{
    struct pool *pool = calloc(1, sizeof *pool + n_threads * sizeof *pool->threads);
    if (!pool) return command_error(ENGINE_ERROR_MEMORY, "out of memory (threads)");
    pthread_mutex_init(&pool->lock, NULL);
    pthread_cond_init(&pool->changed, NULL);
    pool->end = &pool->first;
    pool->most = most;
    while (pool->n_threads < n_threads &&
           pthread_create(&pool->threads[pool->n_threads], NULL, work, pool) == 0)
        pool->n_threads++;
    *out = pool;
    if (pool->n_threads == n_threads) return ENGINE_OK;
    pool_destroy(pool);
    *out = NULL;
    return command_error(ENGINE_ERROR, "cannot start %zu worker threads", n_threads);
}

bool pool_add(struct pool *pool, void (*run)(void *user), void *user, bool always)
{
    struct work *added = malloc(sizeof *added);
    if (!added) return false;
    *added = (struct work){.run = run, .user = user};
    pthread_mutex_lock(&pool->lock);
    bool fits = always || pool->n_waiting < pool->most;
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

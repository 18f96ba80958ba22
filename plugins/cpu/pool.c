/* pool.c: threads that wait for work; see pool.h. */
#include "pool.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "cpu.h"
#include "system.h"
#include "types.h"

/* A pause is 40 to 140 cycles: some 20 to 50 microseconds between works before a thread sleeps, and at a
 * barrier before it lets others run in between. */
enum { SPINS = 1000 };

struct pool {
    unsigned n_threads;
    unsigned barrier_spins; /* few where there are more threads than processors */
    unsigned n_started;
    pthread_t *threads; /* those but the caller */
    void (*work)(void *context, unsigned thread);
    void *context;
    bool stop;
    pthread_mutex_t mutex; /* for sleeping alone */
    pthread_cond_t wake;
    _Alignas(CPU_ALIGNMENT) atomic_uint round;    /* works begun */
    _Alignas(CPU_ALIGNMENT) atomic_uint sleepers; /* threads that need to be woken */
    _Alignas(CPU_ALIGNMENT) atomic_uint working;  /* threads but the caller that are not done */
    _Alignas(CPU_ALIGNMENT) atomic_uint arrived;  /* at the barrier */
    _Alignas(CPU_ALIGNMENT) atomic_uint passed;   /* barriers */
};

struct worker {
    struct pool *pool;
    unsigned thread;
};

static void pause_briefly(void)
{
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("isb");
#endif
}

/* Waits for *value to differ from `old`, without sleeping. */
static void spin_while(const atomic_uint *value, unsigned old, unsigned spins)
{
    for (unsigned i = 0; atomic_load_explicit(value, memory_order_acquire) == old; i++) {
        if (i < spins)
            pause_briefly();
        else
            sched_yield();
    }
}

/* Waits for a round after `seen`. */
static void wait_for_work(struct pool *pool, unsigned seen)
{
    for (unsigned i = 0; i < SPINS; i++) {
        if (atomic_load_explicit(&pool->round, memory_order_acquire) != seen) return;
        pause_briefly();
    }
    /* pool_run counts the round up before it looks for sleepers, a sleeper counts itself before it looks at
     * the round (both in the one order of sequentially consistent operations): one of them sees the other. */
    pthread_mutex_lock(&pool->mutex);
    atomic_fetch_add(&pool->sleepers, 1);
    while (atomic_load(&pool->round) == seen) pthread_cond_wait(&pool->wake, &pool->mutex);
    atomic_fetch_sub(&pool->sleepers, 1);
    pthread_mutex_unlock(&pool->mutex);
}

static void begin_round(struct pool *pool)
{
    atomic_fetch_add(&pool->round, 1);
    if (atomic_load(&pool->sleepers) == 0) return;
    pthread_mutex_lock(&pool->mutex);
    pthread_cond_broadcast(&pool->wake);
    pthread_mutex_unlock(&pool->mutex);
}

static void *worker_main(void *argument)
{
    struct worker worker = *(struct worker *)argument;
    free(argument);
    struct pool *pool = worker.pool;
    for (unsigned seen = 0;; seen++) {
        wait_for_work(pool, seen);
        if (pool->stop) return NULL;
        pool->work(pool->context, worker.thread);
        atomic_fetch_sub_explicit(&pool->working, 1, memory_order_release);
    }
}

/* Starts one more thread. */
static bool start_worker(struct pool *pool)
{
    struct worker *worker = malloc(sizeof *worker);
    if (!worker) return false;
    *worker = (struct worker){pool, pool->n_started + 1};
    if (pthread_create(&pool->threads[pool->n_started], NULL, worker_main, worker) != 0) {
        free(worker);
        return false;
    }
    pool->n_started++;
    return true;
}

int pool_create(unsigned n_threads, struct pool **out)
{
    struct pool *pool = aligned_alloc(CPU_ALIGNMENT, round_up(sizeof *pool, CPU_ALIGNMENT));
    if (!pool) return cpu_host->fail(ENGINE_ERROR_MEMORY, "no memory for the threads");
    memset(pool, 0, sizeof *pool);
    pthread_mutex_init(&pool->mutex, NULL);
    pthread_cond_init(&pool->wake, NULL);
    pool->n_threads = n_threads;
    pool->barrier_spins = n_threads > system_processors() ? 10 : SPINS;
    pool->threads = calloc(n_threads, sizeof *pool->threads);
    bool started = pool->threads != NULL;
    while (started && pool->n_started < n_threads - 1) started = start_worker(pool);
    if (!started) {
        unsigned got = pool->n_started;
        pool_destroy(pool);
        return cpu_host->fail(ENGINE_ERROR_MEMORY, "only %u of %u threads could be started; ask for fewer",
                              got + 1, n_threads);
    }
    *out = pool;
    return ENGINE_OK;
}

void pool_destroy(struct pool *pool)
{
    if (!pool) return;
    pool->stop = true;
    begin_round(pool);
    for (unsigned i = 0; i < pool->n_started; i++) pthread_join(pool->threads[i], NULL);
    pthread_cond_destroy(&pool->wake);
    pthread_mutex_destroy(&pool->mutex);
    free(pool->threads);
    free(pool);
}

unsigned pool_threads(const struct pool *pool)
{
    return pool->n_threads;
}

void pool_run(struct pool *pool, void (*work)(void *context, unsigned thread), void *context)
{
    if (pool->n_threads == 1) {
        work(context, 0);
        return;
    }
    pool->work = work;
    pool->context = context;
    atomic_store_explicit(&pool->working, pool->n_threads - 1, memory_order_relaxed);
    begin_round(pool);
    work(context, 0);
    for (unsigned i = 0; atomic_load_explicit(&pool->working, memory_order_acquire) != 0; i++) {
        if (i < pool->barrier_spins)
            pause_briefly();
        else
            sched_yield();
    }
}

void pool_barrier(struct pool *pool)
{
    if (pool->n_threads == 1) return;
    unsigned passed = atomic_load_explicit(&pool->passed, memory_order_relaxed);
    if (atomic_fetch_add_explicit(&pool->arrived, 1, memory_order_acq_rel) == pool->n_threads - 1) {
        atomic_store_explicit(&pool->arrived, 0, memory_order_relaxed);
        atomic_store_explicit(&pool->passed, passed + 1, memory_order_release);
    } else {
        spin_while(&pool->passed, passed, pool->barrier_spins);
    }
}

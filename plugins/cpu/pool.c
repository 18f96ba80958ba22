/* pool.c: threads that take tasks; see pool.h.
 *
 * Tasks are numbered through all phases of all runs. Numbers below `next` have been taken; those below
 * `limit` may be taken. No number repeats in the life of the pool, so a thread that was delayed while taking
 * one fails, no matter how much happened meanwhile. Only a thread that has taken a task may look at the work,
 * which can't end before that task does. */
#include "pool.h"

#include <linux/futex.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "common/assert.h"
#include "cpu.h"
#include "system.h"
#include "types.h"

enum {
    SPIN_NS = 200 * 1000, /* longer than most waits on a quiet machine, much shorter than a time slice */
    POLLS = 16            /* between two looks at the clock */
};

/* A thread's place to sleep. */
struct seat {
    _Alignas(CPU_ALIGNMENT) atomic_uint asleep; /* 1 until another thread wakes it */
};

struct pool {
    unsigned n_threads, n_started;
    uint64_t spin_ns;
    pthread_t *threads; /* those but the caller */
    struct seat *seats; /* [n_threads] */

    /* The current work, and the number of the phase's first task. Written only while no task can be taken. */
    const struct pool_work *work;
    void *context;
    uint64_t first;

    _Alignas(CPU_ALIGNMENT) atomic_uint_least64_t next; /* task to be taken */
    atomic_uint_least64_t limit;                        /* end of those that may be taken */
    atomic_bool running;                                /* until the last phase has ended */
    atomic_bool stop;
    _Alignas(CPU_ALIGNMENT) atomic_uint_least64_t done; /* tasks that have ended */
    _Alignas(CPU_ALIGNMENT) atomic_uint sleepers;
};

struct worker {
    struct pool *pool;
    unsigned thread;
};

/* ---- Waiting --------------------------------------------------------------------------------------- */

static void pause_briefly(void)
{
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("isb");
#endif
}

static uint64_t nanoseconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

/* Whether a thread can stop waiting for tasks: the caller of pool_run when the run has ended, the others when
 * the pool ends. */
static bool is_over(struct pool *pool, unsigned thread)
{
    return thread == 0 ? !atomic_load(&pool->running) : atomic_load(&pool->stop);
}

static bool is_ready(struct pool *pool, unsigned thread)
{
    uint64_t limit = atomic_load(&pool->limit);
    return atomic_load_explicit(&pool->next, memory_order_relaxed) < limit || is_over(pool, thread);
}

static bool spin(struct pool *pool, unsigned thread)
{
    uint64_t end = 0;
    for (;;) {
        for (int i = 0; i < POLLS; i++) {
            if (is_ready(pool, thread)) return true;
            pause_briefly();
        }
        uint64_t now = nanoseconds();
        if (end == 0) end = now + pool->spin_ns;
        if (now >= end) return false;
    }
}

/* A thread that has something for others first makes it visible and then looks for sleepers. A sleeper first
 * counts itself and then looks again. All of these operations are sequentially consistent, so one of the two
 * sees the other. */
static void sleep_until_woken(struct pool *pool, unsigned thread)
{
    atomic_uint *asleep = &pool->seats[thread].asleep;
    atomic_store(asleep, 1);
    atomic_fetch_add(&pool->sleepers, 1);
    if (is_ready(pool, thread)) {
        if (atomic_exchange(asleep, 0) == 1) atomic_fetch_sub(&pool->sleepers, 1);
        return;
    }
    while (atomic_load(asleep) == 1) syscall(SYS_futex, asleep, FUTEX_WAIT_PRIVATE, 1, NULL, NULL, 0);
}

static bool wake(struct pool *pool, unsigned thread)
{
    atomic_uint *asleep = &pool->seats[thread].asleep;
    if (atomic_load(asleep) == 0 || atomic_exchange(asleep, 0) == 0) return false;
    atomic_fetch_sub(&pool->sleepers, 1);
    syscall(SYS_futex, asleep, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
    return true;
}

static void wake_some(struct pool *pool, size_t most)
{
    if (atomic_load(&pool->sleepers) == 0) return;
    for (unsigned thread = 0; most > 0 && thread < pool->n_threads; thread++) most -= wake(pool, thread);
}

/* ---- Working --------------------------------------------------------------------------------------- */

static bool pool_take(struct pool *pool, uint64_t *task)
{
    uint64_t limit = atomic_load_explicit(&pool->limit, memory_order_acquire);
    *task = atomic_load_explicit(&pool->next, memory_order_relaxed);
    while (*task < limit)
        if (atomic_compare_exchange_weak_explicit(&pool->next, task, *task + 1, memory_order_relaxed,
                                                  memory_order_relaxed))
            return true;
    return false;
}

/* Opens the next phase and takes its first task; false: the run has ended. Phases of one task are run here,
 * without a word to the other threads. */
static bool open_phase(struct pool *pool, unsigned thread, uint64_t *task)
{
    size_t n;
    while ((n = pool->work->open(pool->context)) == 1) pool->work->run(pool->context, thread, 0);
    if (n == 0) {
        atomic_store(&pool->running, false);
        if (thread != 0) wake(pool, 0);
        return false;
    }
    ENGINE_ASSERT(atomic_load(&pool->next) >= atomic_load(&pool->limit)); /* no task can be taken */
    *task = pool->first = atomic_load_explicit(&pool->limit, memory_order_relaxed);
    atomic_store_explicit(&pool->next, pool->first + 1, memory_order_relaxed);
    atomic_store(&pool->limit, pool->first + n);
    wake_some(pool, n - 1);
    return true;
}

/* Runs a task that was taken, then others until none is left. */
static void run_tasks(struct pool *pool, unsigned thread, uint64_t task)
{
    bool last;
    do {
        uint64_t limit = atomic_load_explicit(&pool->limit, memory_order_relaxed), n = 0;
        do {
            ENGINE_ASSERT(task >= pool->first && task < limit);
            pool->work->run(pool->context, thread, task - pool->first);
            n++;
        } while (pool_take(pool, &task));
        last = atomic_fetch_add_explicit(&pool->done, n, memory_order_acq_rel) + n == limit;
    } while (last && open_phase(pool, thread, &task));
}

static void take_part(struct pool *pool, unsigned thread)
{
    for (uint64_t task;;) {
        if (pool_take(pool, &task))
            run_tasks(pool, thread, task);
        else if (is_over(pool, thread))
            return;
        else if (!spin(pool, thread))
            sleep_until_woken(pool, thread);
    }
}

void pool_run(struct pool *pool, const struct pool_work *work, void *context)
{
    if (pool->n_threads == 1) {
        for (size_t n; (n = work->open(context)) > 0;)
            for (size_t task = 0; task < n; task++) work->run(context, 0, task);
        return;
    }
    uint64_t task;
    ENGINE_ASSERT(!atomic_load(&pool->running));
    pool->work = work;
    pool->context = context;
    atomic_store_explicit(&pool->running, true, memory_order_relaxed);
    if (open_phase(pool, 0, &task)) {
        run_tasks(pool, 0, task);
        take_part(pool, 0);
    }
}

/* ---- The threads ----------------------------------------------------------------------------------- */

static void *worker_main(void *argument)
{
    struct worker worker = *(struct worker *)argument;
    free(argument);
    take_part(worker.pool, worker.thread);
    return NULL;
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
    if (!pool) return cpu_host->fail(ENGINE_ERROR_MEMORY, "out of memory (threads)");
    memset(pool, 0, sizeof *pool);
    pool->n_threads = n_threads;
    /* If threads outnumber processors, a spinning thread takes a processor from a thread with a task. */
    pool->spin_ns = n_threads > system_processors() ? 0 : SPIN_NS;
    pool->threads = calloc(n_threads, sizeof *pool->threads);
    pool->seats = aligned_alloc(CPU_ALIGNMENT, n_threads * sizeof *pool->seats);
    if (pool->seats) memset(pool->seats, 0, n_threads * sizeof *pool->seats);
    bool started = pool->threads && pool->seats;
    while (started && pool->n_started < n_threads - 1) started = start_worker(pool);
    if (!started) {
        unsigned got = pool->n_started;
        pool_destroy(pool);
        return cpu_host->fail(ENGINE_ERROR_MEMORY, "could start only %u of %u threads; use fewer", got + 1,
                              n_threads);
    }
    *out = pool;
    return ENGINE_OK;
}

void pool_destroy(struct pool *pool)
{
    if (!pool) return;
    atomic_store(&pool->stop, true);
    if (pool->n_started > 0) wake_some(pool, pool->n_threads);
    for (unsigned i = 0; i < pool->n_started; i++) pthread_join(pool->threads[i], NULL);
    free(pool->threads);
    free(pool->seats);
    free(pool);
}

unsigned pool_threads(const struct pool *pool)
{
    return pool->n_threads;
}

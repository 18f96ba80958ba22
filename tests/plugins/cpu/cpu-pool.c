/* cpu-pool.c: the threads of the CPU plugin (plugins/cpu/pool.h). Each task of a phase runs once, after those
 * of the phase before, whether the other threads arrive in time, late or never.
 *
 * A plain program, not a Criterion test, so that it runs under ThreadSanitizer. It is linked with
 * --wrap=pthread_create, which lets it hold new threads at a gate. */
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "cpu.h"
#include "pool.h"

enum { MAX_PHASES = 40, MAX_TASKS = 64 };

/* ---- What pool.c needs ------------------------------------------------------------------------------ */

static int fail(int status, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    vfprintf(stderr, format, args);
    va_end(args);
    fputc('\n', stderr);
    return status;
}

static const struct engine_host host = {.fail = fail};
const struct engine_host *cpu_host = &host;

/* ---- The gate -------------------------------------------------------------------------------------- */

static pthread_mutex_t gate = PTHREAD_MUTEX_INITIALIZER; /* closed while it is locked */

struct start {
    void *(*function)(void *);
    void *argument;
};

static void *pass_gate(void *argument)
{
    struct start start = *(struct start *)argument;
    free(argument);
    pthread_mutex_lock(&gate);
    pthread_mutex_unlock(&gate);
    return start.function(start.argument);
}

int __real_pthread_create(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *);
int __wrap_pthread_create(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *);

int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*function)(void *),
                          void *argument)
{
    struct start *start = malloc(sizeof *start);
    if (!start) abort();
    *start = (struct start){function, argument};
    return __real_pthread_create(thread, attributes, pass_gate, start);
}

/* ---- Work ------------------------------------------------------------------------------------------ */

struct trial {
    unsigned n_threads;
    size_t n_phases;
    bool slow; /* some tasks take long enough for others to go to sleep */
    size_t n_tasks[MAX_PHASES];
    unsigned ran[MAX_PHASES]
                [MAX_TASKS]; /* not atomic, so that ThreadSanitizer reports tasks without an order */
    size_t phase;            /* the next one to be opened */
    atomic_int n_bad;
};

static void rest(long microseconds)
{
    nanosleep(&(struct timespec){.tv_nsec = microseconds * 1000}, NULL);
}

static bool all_ran(const struct trial *trial, size_t phase)
{
    for (size_t i = 0; i < trial->n_tasks[phase]; i++)
        if (trial->ran[phase][i] != 1) return false;
    return true;
}

static size_t open_phase(void *context)
{
    struct trial *trial = context;
    if (trial->phase > 0 && !all_ran(trial, trial->phase - 1)) trial->n_bad++;
    return trial->phase == trial->n_phases ? 0 : trial->n_tasks[trial->phase++];
}

static void run_task(void *context, unsigned thread, size_t task)
{
    struct trial *trial = context;
    size_t phase = trial->phase - 1;
    if (thread >= trial->n_threads || task >= trial->n_tasks[phase]) {
        trial->n_bad++;
        return;
    }
    trial->ran[phase][task]++;
    if (phase > 0 && !all_ran(trial, phase - 1)) trial->n_bad++;
    if (trial->slow && (phase + task) % 7 == 0) rest(500);
}

/* Runs phases of pseudo-random sizes, many of one task; the number of faults. */
static int run_trial(struct pool *pool, unsigned seed, bool slow)
{
    static const struct pool_work work = {open_phase, run_task};
    struct trial *trial = calloc(1, sizeof *trial);
    if (!trial) abort();
    trial->n_threads = pool_threads(pool);
    trial->slow = slow;
    uint32_t random = seed * 2654435761u + 1;
    trial->n_phases = seed % (MAX_PHASES + 1);
    for (size_t i = 0; i < trial->n_phases; i++) {
        random = random * 1664525 + 1013904223;
        trial->n_tasks[i] = random >> 31 ? 1 : 1 + (random >> 16) % MAX_TASKS;
    }
    pool_run(pool, &work, trial);
    for (size_t i = 0; i < trial->n_phases; i++)
        if (!all_ran(trial, i)) trial->n_bad++;
    if (trial->phase != trial->n_phases) trial->n_bad++;
    int n_bad = trial->n_bad;
    free(trial); /* threads that are late must not look at it */
    if (n_bad) fprintf(stderr, "cpu-pool: %u threads, seed %u: %d faults\n", pool_threads(pool), seed, n_bad);
    return n_bad;
}

static struct pool *create(unsigned n_threads)
{
    struct pool *pool;
    if (pool_create(n_threads, &pool) != ENGINE_OK) exit(1);
    return pool;
}

/* Until the other threads begin, the caller does everything; later they take part. */
static int threads_that_come_late(unsigned n_threads)
{
    pthread_mutex_lock(&gate);
    struct pool *pool = create(n_threads);
    int n_bad = 0;
    for (unsigned seed = 0; seed < 60; seed++) n_bad += run_trial(pool, seed, false);
    pthread_mutex_unlock(&gate);
    for (unsigned seed = 0; seed < 200; seed++) n_bad += run_trial(pool, seed, false);
    pool_destroy(pool);
    return n_bad;
}

/* Runs that follow at once, after a moment, or when all threads sleep; some have long tasks. */
static int many_runs(unsigned n_threads)
{
    struct pool *pool = create(n_threads);
    int n_bad = 0;
    for (unsigned seed = 0; seed < 400; seed++) {
        n_bad += run_trial(pool, seed, seed % 40 == 39);
        if (seed % 3 == 0) rest(seed % 9 * 50);
    }
    pool_destroy(pool);
    return n_bad;
}

/* Pools that are destroyed while their threads start, spin or sleep. */
static int short_lives(unsigned n_threads)
{
    int n_bad = 0;
    for (unsigned i = 0; i < 60; i++) {
        struct pool *pool = create(n_threads);
        if (i % 2) n_bad += run_trial(pool, i, false);
        rest(i % 10 * 40);
        pool_destroy(pool);
    }
    return n_bad;
}

int main(void)
{
    int n_bad = 0;
    for (unsigned n_threads = 1; n_threads <= 5; n_threads += n_threads == 3 ? 2 : 1)
        n_bad += threads_that_come_late(n_threads) + many_runs(n_threads) + short_lives(n_threads);
    return n_bad > 0;
}

/* pool.h: the permanent threads of a device, and how they share work.
 *
 * Work comes in phases. The tasks of a phase may run in any order and at the same time. The thread that ends
 * the last task of a phase opens the next one. Threads therefore never wait for each other, only for tasks
 * that have begun: a thread that the system does not run delays the others only if it stopped within a task,
 * and the others do its share.
 *
 * A thread that finds no task spins briefly, because the next phase usually follows soon, and then sleeps. On
 * a busy machine longer spinning would take time from threads that have tasks. */
#ifndef CPU_POOL_H
#define CPU_POOL_H

#include <stddef.h>

struct pool;

struct pool_work {
    /* Opens the next phase and returns its number of tasks; 0: no phase is left. Called by one thread at a
     * time, after all tasks of the previous phase have ended. */
    size_t (*open)(void *context);
    /* Runs a task, 0 … n - 1. `thread` is the caller's number, below pool_threads. */
    void (*run)(void *context, unsigned thread, size_t task);
};

/* The caller of pool_run counts as one of the threads. */
int pool_create(unsigned n_threads, struct pool **pool);
void pool_destroy(struct pool *pool);
unsigned pool_threads(const struct pool *pool);

/* Does all phases of the work. Only one thread may call this at a time. */
void pool_run(struct pool *pool, const struct pool_work *work, void *context);

#endif

/* pool.h: the standing threads of a device. While work runs nobody sleeps; between two works the threads spin
 * for a moment, in case the next one is near, and then sleep. */
#ifndef CPU_POOL_H
#define CPU_POOL_H

struct pool;

/* The caller of pool_run counts as one of the threads. */
int pool_create(unsigned n_threads, struct pool **pool);
void pool_destroy(struct pool *pool);
unsigned pool_threads(const struct pool *pool);

/* Calls work(context, thread) in each thread, 0 being the calling one, and returns when all have returned. */
void pool_run(struct pool *pool, void (*work)(void *context, unsigned thread), void *context);

/* Within work: waits until all threads are here. */
void pool_barrier(struct pool *pool);

#endif

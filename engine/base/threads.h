/* threads.h: threads that share a piece of work and end with it. */
#ifndef ENGINE_BASE_THREADS_H
#define ENGINE_BASE_THREADS_H

#include <pthread.h>
#include <stdint.h>

/* Starts up to n threads and returns how many started; less if there are no more. Signals are left to the
 * caller's thread, except those that an instruction raises. */
uint32_t threads_start(pthread_t *threads, uint32_t n, void *(*work)(void *), void *argument);

/* Runs a function on up to n threads, the caller's among them, but no more than there are tasks; returns when
 * all have ended. ENGINE_ERROR_MEMORY. */
int threads_run(uint32_t n, uint64_t n_tasks, void *(*work)(void *), void *argument);

#endif

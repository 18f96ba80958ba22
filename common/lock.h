/* lock.h: mutexes whose holder can be asserted: ENGINE_ASSERT(lock_is_mine(&queue->lock)). Where assertions
 * run they know their owner; elsewhere they are plain mutexes. */
#ifndef COMMON_LOCK_H
#define COMMON_LOCK_H

#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#ifdef ENGINE_ASSERTIONS
#define LOCK_INITIALIZER PTHREAD_ERRORCHECK_MUTEX_INITIALIZER_NP
#else
#define LOCK_INITIALIZER PTHREAD_MUTEX_INITIALIZER
#endif

/* As pthread_mutex_init, without attributes. */
static inline int lock_init(pthread_mutex_t *lock)
{
#ifdef ENGINE_ASSERTIONS
    pthread_mutexattr_t attributes;
    int failed = pthread_mutexattr_init(&attributes);
    if (failed) return failed;
    pthread_mutexattr_settype(&attributes, PTHREAD_MUTEX_ERRORCHECK);
    failed = pthread_mutex_init(lock, &attributes);
    pthread_mutexattr_destroy(&attributes);
    return failed;
#else
    return pthread_mutex_init(lock, NULL);
#endif
}

/* Only for assertions, and of locks made by this header. Takes a lock that the thread does not hold. */
static inline bool lock_is_mine(const pthread_mutex_t *lock)
{
    return pthread_mutex_lock((pthread_mutex_t *)(uintptr_t)lock) == EDEADLK;
}

#endif

/* threads.c: see threads.h. */
#include "base/threads.h"

#include <signal.h>
#include <stdlib.h>

#include "base/error.h"

/* The caller's thread checks what handlers of signals set. Signals raised by an instruction go to its own
 * thread: if they were blocked there, they would end the process before a handler could report why. */
uint32_t threads_start(pthread_t *threads, uint32_t n, void *(*work)(void *), void *argument)
{
    static const int own[] = {SIGBUS, SIGSEGV, SIGILL, SIGFPE, SIGTRAP};
    sigset_t all, before;
    uint32_t started = 0;
    sigfillset(&all);
    for (size_t i = 0; i < sizeof own / sizeof *own; i++) sigdelset(&all, own[i]);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    while (started < n && pthread_create(&threads[started], NULL, work, argument) == 0) started++;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return started;
}

int threads_run(uint32_t n, uint64_t n_tasks, void *(*work)(void *), void *argument)
{
    uint32_t others = n > 0 ? n - 1 : 0;
    if (n_tasks <= others) others = n_tasks > 0 ? (uint32_t)n_tasks - 1 : 0;
    pthread_t *threads = calloc(others + 1, sizeof *threads);
    if (!threads) return error_memory("threads");
    uint32_t started = threads_start(threads, others, work, argument);
    work(argument);
    for (uint32_t t = 0; t < started; t++) pthread_join(threads[t], NULL);
    free(threads);
    return ENGINE_OK;
}

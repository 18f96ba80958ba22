/* clock.h: the time as the server uses it: a clock that nobody sets. */
#ifndef ENGINE_SERVE_CLOCK_H
#define ENGINE_SERVE_CLOCK_H

#include <time.h>

/* Seconds since an arbitrary moment. */
static inline double server_now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + (double)time.tv_nsec * 1e-9;
}

#endif

/* clock.h: a monotonic clock, which setting the time does not change. */
#ifndef COMMON_CLOCK_H
#define COMMON_CLOCK_H

#include <time.h>

/* Seconds since an arbitrary moment. */
static inline double seconds_now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + (double)time.tv_nsec * 1e-9;
}

#endif

/* clock-shim.c: a library for LD_PRELOAD that sets the clock of a process: the seconds in the file
 * ENGINE_TEST_CLOCK are added to the time of day, from the moment that they stand there. Clocks that nobody
 * can set are left alone. */
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <time.h>

#define EXPORT __attribute__((visibility("default")))

EXPORT int gettimeofday(struct timeval *restrict now, void *restrict zone);

static time_t added(void)
{
    const char *path = getenv("ENGINE_TEST_CLOCK");
    FILE *file = path ? fopen(path, "re") : NULL;
    long long seconds = 0;
    if (file && fscanf(file, "%lld", &seconds) != 1) seconds = 0;
    if (file) fclose(file);
    return (time_t)seconds;
}

EXPORT int clock_gettime(clockid_t clock, struct timespec *now)
{
    static int (*real)(clockid_t clock, struct timespec * now);
    if (!real) {
        void *found = dlsym(RTLD_NEXT, "clock_gettime");
        memcpy(&real, &found, sizeof real);
    }
    int status = real(clock, now);
    if (status == 0 && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE)) now->tv_sec += added();
    return status;
}

EXPORT int gettimeofday(struct timeval *restrict now, void *restrict zone)
{
    struct timespec time;
    (void)zone;
    int status = clock_gettime(CLOCK_REALTIME, &time);
    *now = (struct timeval){time.tv_sec, time.tv_nsec / 1000};
    return status;
}

EXPORT time_t time(time_t *out)
{
    struct timespec now = {0};
    clock_gettime(CLOCK_REALTIME, &now);
    if (out) *out = now.tv_sec;
    return now.tv_sec;
}

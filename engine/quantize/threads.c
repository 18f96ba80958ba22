/* threads.c: see threads.h. */
#include "quantize/threads.h"

#include <sched.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/config.h"

uint32_t threads_count(const struct engine *engine, uint32_t wanted)
{
    const char *text = engine_setting(engine, "", "threads");
    cpu_set_t set;
    if (wanted) return wanted;
    if (text) return (uint32_t)strtoul(text, NULL, 10); /* config.c has checked the value */
    if (sched_getaffinity(0, sizeof set, &set) == 0) return (uint32_t)CPU_COUNT(&set);
    long online = sysconf(_SC_NPROCESSORS_ONLN);
    return online > 0 ? (uint32_t)online : 1;
}

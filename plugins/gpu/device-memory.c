/* device-memory.c: see device-memory.h. */
#include "device-memory.h"

#include <stdio.h>

int gpu_charge(const struct engine_host *host, struct gpu_budget *budget, uint64_t size, const char *what)
{
    uint64_t limit = budget->limit;
    if (limit && (budget->used > limit || size > limit - budget->used))
        return host->fail(ENGINE_ERROR_MEMORY, "%s: %llu bytes exceed what is left of the limit of %llu",
                          what, (unsigned long long)size, (unsigned long long)limit);
    budget->used += size;
    return ENGINE_OK;
}

uint64_t gpu_host_memory(void)
{
    unsigned long long kib = UINT64_MAX / 1024;
    char line[128];
    FILE *file = fopen("/proc/meminfo", "re");
    while (file && fgets(line, sizeof line, file))
        if (sscanf(line, "MemAvailable: %llu kB", &kib) == 1) break;
    if (file) fclose(file);
    return (uint64_t)kib * 1024;
}

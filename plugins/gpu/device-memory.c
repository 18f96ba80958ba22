/* device-memory.c: see device-memory.h. */
#include "device-memory.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "common/assert.h"

int gpu_charge(const struct engine_host *host, struct gpu_budget *budget, uint64_t size, const char *what)
{
    uint64_t limit = budget->limit;
    if (limit && (budget->used > limit || size > limit - budget->used))
        return host->fail(ENGINE_ERROR_MEMORY, "%s: %llu bytes exceed what is left of the limit of %llu",
                          what, (unsigned long long)size, (unsigned long long)limit);
    if (__builtin_add_overflow(budget->used, size, &budget->used)) {
        budget->used -= size; /* as it was */
        return host->fail(ENGINE_ERROR_MEMORY, "%s: no device has %llu bytes", what,
                          (unsigned long long)size);
    }
    return ENGINE_OK;
}

void gpu_discharge(struct gpu_budget *budget, uint64_t size)
{
    ENGINE_ASSERT(size <= budget->used);
    budget->used -= size;
}

/* Without stdio, which allocates: where memory runs out, the host's is not taken for unlimited. */
uint64_t gpu_host_memory(void)
{
    unsigned long long kib = UINT64_MAX / 1024;
    char text[512]; /* MemAvailable is in the third line */
    int file = open("/proc/meminfo", O_RDONLY | O_CLOEXEC);
    ssize_t length = file >= 0 ? read(file, text, sizeof text - 1) : -1;
    if (file >= 0) close(file);
    text[length > 0 ? length : 0] = 0;
    const char *line = strstr(text, "MemAvailable:");
    if (line) sscanf(line, "MemAvailable: %llu kB", &kib);
    return (uint64_t)kib * 1024;
}

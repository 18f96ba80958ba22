/* device-memory.h: what GPU plugins count: bytes against the limit that device_open was given, and what the host has left
 * where a device takes its memory from there. */
#ifndef GPU_DEVICE_MEMORY_H
#define GPU_DEVICE_MEMORY_H

#include "plugin-api.h"

#define SMALL_MEMORY 4096 /* bytes: a few tables of rope's angles, what sizes are rounded up by */

struct gpu_budget {
    uint64_t limit; /* 0: none */
    uint64_t used;
};

/* Counts buffers, weights and scratch memory; ENGINE_ERROR_MEMORY where that is over the limit. */
int gpu_charge(const struct engine_host *host, struct gpu_budget *budget, uint64_t size, const char *what);

/* What the host could give away. */
uint64_t gpu_host_memory(void);

#endif

/* device-memory.h: how GPU plugins count memory: bytes against the limit that device_open was given, and the
 * host's free memory if a device takes its memory from there. */
#ifndef GPU_DEVICE_MEMORY_H
#define GPU_DEVICE_MEMORY_H

#include "plugin-api.h"

#define SMALL_MEMORY 4096 /* bytes: a few tables of rope's angles, and the rounding up of sizes */

struct gpu_budget {
    uint64_t limit; /* 0: none */
    uint64_t used;
};

/* Counts buffers, weights and scratch memory; ENGINE_ERROR_MEMORY if the limit is exceeded. */
int gpu_charge(const struct engine_host *host, struct gpu_budget *budget, uint64_t size, const char *what);
/* Takes back what was counted. */
void gpu_discharge(struct gpu_budget *budget, uint64_t size);

/* The host's available memory. */
uint64_t gpu_host_memory(void);

#endif

/* memory.h: memory of weights and buffers, in huge pages where the system has them. */
#ifndef CPU_MEMORY_H
#define CPU_MEMORY_H

#include <stddef.h>
#include <stdint.h>

struct region;

/* Zeroed memory, aligned to CPU_ALIGNMENT; NULL: there is none. *region is where the next allocation is tried
 * first: NULL before the first one and again after the last memory has been freed. Not thread-safe. */
void *memory_allocate(struct region **region, uint64_t size);
void memory_free(struct region **region, void *memory, uint64_t size);

#endif

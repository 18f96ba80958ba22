/* memory.c: memory of weights and buffers; see memory.h.
 *
 * A huge page holds one mapping only. Memory mapped allocation by allocation would therefore begin and end
 * with small pages, up to 2 MiB of them, and matmuls of a few columns, which read each weight once, would
 * wait for the page tables. So allocations of medium size are cut from regions, one after the other. A freed
 * one gives its pages back; a region ends with its last allocation. Small allocations come from malloc. */
#include "memory.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "cpu.h"
#include "types.h"

#define HUGE_PAGE   ((size_t)2 << 20)
#define REGION_SIZE ((size_t)64 << 20)  /* regions begin at multiples of it */
#define SMALL       ((size_t)256 << 10) /* below: malloc */
#define LARGE       (REGION_SIZE / 2)   /* from here on: a mapping of its own */

/* At the beginning of its memory. */
struct region {
    size_t used;   /* bytes from the beginning on */
    size_t n_live; /* allocations that haven't been freed */
};

/* New pages at a multiple of `alignment`, itself a multiple of the page size. */
static uint8_t *map(size_t size, size_t alignment)
{
    size_t whole = size + alignment;
    uint8_t *memory = mmap(NULL, whole, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) return NULL;
    size_t before = round_up((uintptr_t)memory, alignment) - (uintptr_t)memory;
    if (before > 0) munmap(memory, before);
    size_t kept = round_up(size, 4096);
    if (before + kept < whole) munmap(memory + before + kept, whole - before - kept);
    madvise(memory + before, size, MADV_HUGEPAGE); /* a hint: most systems support it */
    return memory + before;
}

static struct region *region_of(const void *memory)
{
    return (struct region *)((uintptr_t)memory / REGION_SIZE * REGION_SIZE);
}

void *memory_allocate(struct region **current, uint64_t wanted)
{
    if (wanted > SIZE_MAX / 2) return NULL;
    size_t size = round_up((size_t)wanted, CPU_ALIGNMENT);
    if (size < SMALL) {
        void *memory = aligned_alloc(CPU_ALIGNMENT, size);
        return memory ? memset(memory, 0, size) : NULL;
    }
    if (size >= LARGE) return map(size, HUGE_PAGE);
    struct region *region = *current;
    if (!region || size > REGION_SIZE - region->used) {
        region = (void *)map(REGION_SIZE, REGION_SIZE);
        if (!region) return NULL;
        region->used = round_up(sizeof *region, CPU_ALIGNMENT);
        *current = region;
    }
    uint8_t *memory = (uint8_t *)region + region->used;
    region->used += size;
    region->n_live++;
    return memory;
}

void memory_free(struct region **current, void *memory, uint64_t wanted)
{
    size_t size = round_up((size_t)wanted, CPU_ALIGNMENT);
    if (!memory || size < SMALL) {
        free(memory);
        return;
    }
    if (size >= LARGE) {
        munmap(memory, size);
        return;
    }
    struct region *region = region_of(memory);
    if (--region->n_live == 0) {
        if (region == *current) *current = NULL;
        munmap(region, REGION_SIZE);
        return;
    }
    uintptr_t begin = round_up((uintptr_t)memory, 4096), end = ((uintptr_t)memory + size) / 4096 * 4096;
    if (begin < end) madvise((void *)begin, end - begin, MADV_DONTNEED);
}

/* json-memory.c: see json-memory.h. */
#include "serve/json-memory.h"

#include <jansson.h>
#include <stdlib.h>

static _Atomic uint64_t n_lost;

uint64_t json_memory_lost(void)
{
    return n_lost;
}

void json_memory_lose(void)
{
    n_lost++;
}

static void *allocate(size_t size)
{
    void *memory = malloc(size);
    if (!memory) n_lost++;
    return memory;
}

void json_memory_begin(void)
{
    json_set_alloc_funcs(allocate, free);
}

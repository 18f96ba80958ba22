/* cache.c: see cache.h. */
#include "common/cache.h"

#include <stdlib.h>

#include "common/memory.h"

int cache_create(struct cache *cache)
{
    cache->slots = allocate_zeroed((size_t)1 << CACHE_BITS, sizeof *cache->slots);
    return cache->slots ? ENGINE_OK : fail_memory("word cache");
}

void cache_destroy(struct cache *cache)
{
    free(cache->slots);
    cache->slots = NULL;
}

/* cache.c: see cache.h. */
#include "kv/cache.h"

#include <stdlib.h>

struct kv_cache {
    uint32_t n_sequences, n_positions, max_blocks; /* of a sequence */
    uint32_t n_blocks;
    uint32_t *length; /* [n_sequences] */
    int32_t *blocks;  /* [n_sequences, max_blocks] */
    int32_t *free;    /* [n_blocks] stack of those that no sequence has; the next one to give is the last */
    uint32_t n_free;
};

static uint32_t blocks_for(uint32_t length)
{
    return length / KV_BLOCK_SIZE + (length % KV_BLOCK_SIZE != 0);
}

struct kv_cache *kv_create(uint32_t n_sequences, uint32_t n_positions)
{
    struct kv_cache *cache = calloc(1, sizeof *cache);
    if (!cache) return NULL;
    cache->n_sequences = n_sequences;
    cache->n_positions = n_positions;
    cache->max_blocks = blocks_for(n_positions);
    size_t n_blocks = (size_t)n_sequences * cache->max_blocks;
    cache->n_blocks = cache->n_free = (uint32_t)n_blocks;
    cache->length = calloc(n_sequences, sizeof *cache->length);
    cache->blocks = malloc(n_blocks * sizeof *cache->blocks);
    cache->free = malloc(n_blocks * sizeof *cache->free);
    if (n_blocks > INT32_MAX / KV_BLOCK_SIZE || !cache->length || !cache->blocks || !cache->free) {
        kv_destroy(cache);
        return NULL;
    }
    for (size_t i = 0; i < n_blocks; i++) cache->free[i] = (int32_t)(n_blocks - 1 - i);
    return cache;
}

void kv_destroy(struct kv_cache *cache)
{
    if (!cache) return;
    free(cache->length);
    free(cache->blocks);
    free(cache->free);
    free(cache);
}

uint32_t kv_block_count(const struct kv_cache *cache)
{
    return cache->n_blocks;
}

uint32_t kv_length(const struct kv_cache *cache, uint32_t sequence)
{
    return cache->length[sequence];
}

int32_t kv_append(struct kv_cache *cache, uint32_t sequence)
{
    uint32_t position = cache->length[sequence];
    if (position >= cache->n_positions) return -1;
    int32_t *block = &cache->blocks[(size_t)sequence * cache->max_blocks + position / KV_BLOCK_SIZE];
    if (position % KV_BLOCK_SIZE == 0)
        *block = cache->free[--cache->n_free]; /* there is one for each position */
    cache->length[sequence]++;
    return *block * KV_BLOCK_SIZE + (int32_t)(position % KV_BLOCK_SIZE);
}

void kv_truncate(struct kv_cache *cache, uint32_t sequence, uint32_t length)
{
    if (length >= cache->length[sequence]) return;
    const int32_t *blocks = kv_blocks(cache, sequence);
    for (uint32_t i = blocks_for(cache->length[sequence]); i > blocks_for(length); i--)
        cache->free[cache->n_free++] = blocks[i - 1];
    cache->length[sequence] = length;
}

const int32_t *kv_blocks(const struct kv_cache *cache, uint32_t sequence)
{
    return cache->blocks + (size_t)sequence * cache->max_blocks;
}

/* blocks.c: see blocks.h. Blocks are in one of three places: owned by sequences, idle (in the tree, without owners), or
 * free. */
#include "kv/blocks.h"

#include <stdlib.h>
#include <string.h>

#include "kv/cache.h"

/* ---- Beginning and end -------------------------------------------------------------------------------- */

bool blocks_create(struct block_pool *pool, uint32_t n_blocks)
{
    pool->n_blocks = pool->n_free = n_blocks;
    pool->seed = (uint64_t)(uintptr_t)pool; /* so that nobody can craft texts that share a bucket */
    for (pool->n_buckets = 1; pool->n_buckets < n_blocks;) pool->n_buckets *= 2;
    pool->blocks = calloc(n_blocks, sizeof *pool->blocks);
    pool->tokens = calloc((size_t)n_blocks * KV_BLOCK_SIZE, sizeof *pool->tokens);
    pool->free = calloc(n_blocks, sizeof *pool->free);
    pool->buckets = calloc(pool->n_buckets, sizeof *pool->buckets);
    pool->idle = (struct order){calloc(n_blocks, sizeof *pool->idle.links), NO_BLOCK, NO_BLOCK, 0};
    if (!pool->idle.links || !pool->blocks || !pool->tokens || !pool->free || !pool->buckets) return false;
    for (uint32_t i = 0; i < n_blocks; i++) pool->free[i] = (int32_t)(n_blocks - 1 - i);
    for (uint32_t i = 0; i < pool->n_buckets; i++) pool->buckets[i] = NO_BLOCK;
    return true;
}

void blocks_destroy(struct block_pool *pool)
{
    kv_window_destroy(pool->places);
    free(pool->blocks);
    free(pool->tokens);
    free(pool->free);
    free(pool->buckets);
    free(pool->idle.links);
}

/* ---- The tree ----------------------------------------------------------------------------------------- */

int32_t *blocks_tokens(const struct block_pool *pool, int32_t block)
{
    return pool->tokens + (size_t)block * KV_BLOCK_SIZE;
}

static uint64_t hash_tokens(const struct block_pool *pool, int32_t parent, const int32_t *tokens)
{
    uint64_t hash = parent == NO_BLOCK ? pool->seed ^ pool->variant : pool->blocks[parent].hash;
    for (int i = 0; i < KV_BLOCK_SIZE; i++) {
        hash = (hash ^ (uint32_t)tokens[i]) * 0x9e3779b97f4a7c15u;
        hash ^= hash >> 32;
    }
    return hash;
}

static int32_t *bucket_of(const struct block_pool *pool, uint64_t hash)
{
    return &pool->buckets[hash & (pool->n_buckets - 1)];
}

int32_t blocks_find(const struct block_pool *pool, int32_t parent, const int32_t *tokens)
{
    uint64_t hash = hash_tokens(pool, parent, tokens);
    int32_t b = *bucket_of(pool, hash);
    for (; b != NO_BLOCK; b = pool->blocks[b].next) {
        const struct block *block = &pool->blocks[b];
        if (block->hash == hash && block->parent == parent &&
            memcmp(blocks_tokens(pool, b), tokens, KV_BLOCK_SIZE * sizeof *tokens) == 0)
            break;
    }
    return b;
}

void blocks_insert(struct block_pool *pool, int32_t b, int32_t parent)
{
    struct block *block = &pool->blocks[b];
    block->is_known = true;
    block->parent = parent;
    block->n_children = 0;
    block->hash = hash_tokens(pool, parent, blocks_tokens(pool, b));
    if (parent != NO_BLOCK) pool->blocks[parent].n_children++;
    int32_t *bucket = bucket_of(pool, block->hash);
    block->next = *bucket;
    *bucket = b;
}

void blocks_take_out(struct block_pool *pool, int32_t b)
{
    struct block *block = &pool->blocks[b];
    int32_t *link = bucket_of(pool, block->hash);
    while (*link != b) link = &pool->blocks[*link].next;
    *link = block->next;
    if (block->parent != NO_BLOCK) pool->blocks[block->parent].n_children--;
    block->is_known = false;
}

/* ---- Owners ------------------------------------------------------------------------------------------- */

void blocks_own(struct block_pool *pool, int32_t b)
{
    if (pool->blocks[b].owners++ == 0) order_remove(&pool->idle, b);
}

void blocks_release(struct block_pool *pool, int32_t b)
{
    struct block *block = &pool->blocks[b];
    if (--block->owners > 0) return;
    if (block->is_known) {
        order_add_newest(&pool->idle, b);
    } else {
        if (pool->places) kv_window_drop(pool->places, b);
        pool->free[pool->n_free++] = b;
    }
}

int32_t blocks_take(struct block_pool *pool)
{
    int32_t b = NO_BLOCK;
    if (pool->n_free > 0) {
        b = pool->free[--pool->n_free];
    } else if (pool->idle.n > 0) {
        b = pool->idle.oldest;
        order_remove(&pool->idle, b);
        blocks_take_out(pool, b);
        if (pool->places) kv_window_drop(pool->places, b);
    }
    if (b != NO_BLOCK) pool->blocks[b].owners = 1;
    return b;
}

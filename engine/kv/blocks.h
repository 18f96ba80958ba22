/* blocks.h: the blocks that the sequences of a cache share: who owns them, and the tree in which full ones are found by their
 * tokens. cache.h says when. */
#ifndef ENGINE_KV_BLOCKS_H
#define ENGINE_KV_BLOCKS_H

#include <stdbool.h>
#include <stdint.h>

#include "kv/order.h"
#include "kv/window.h"

struct block {
    uint32_t owners;   /* sequences */
    bool is_known;     /* full, computed, and in the tree */
    bool is_generated; /* by few tokens at a time */
    int32_t parent;    /* the block before it, NO_BLOCK for the first of a text */
    uint32_t n_children;
    uint64_t hash; /* of its tokens and of all before them */
    int32_t next;  /* of the same bucket */
};

struct block_pool {
    uint32_t n_blocks;
    struct block *blocks; /* [n_blocks] */
    int32_t *tokens;      /* [n_blocks, KV_BLOCK_SIZE] */
    int32_t *free;        /* [n_blocks] stack of free blocks; the last one is given next */
    uint32_t n_free;
    struct order idle; /* the oldest is taken first */
    int32_t *buckets;  /* [n_buckets] of the tree's blocks, by hash */
    uint32_t n_buckets;
    uint64_t seed;
    uint64_t variant;         /* changes the hashes of first blocks, see kv_set_variant */
    struct kv_window *places; /* which the pool owns; NULL: no layer has a window */
};

/* Makes n_blocks free blocks of a zeroed pool. False: out of memory; blocks_destroy in either case. */
bool blocks_create(struct block_pool *pool, uint32_t n_blocks);
void blocks_destroy(struct block_pool *pool);

/* The tokens of a block, [KV_BLOCK_SIZE]. */
int32_t *blocks_tokens(const struct block_pool *pool, int32_t block);

/* The tree's block with these tokens after `parent`, or NO_BLOCK. A parent NO_BLOCK: at the beginning of a text. */
int32_t blocks_find(const struct block_pool *pool, int32_t parent, const int32_t *tokens);
void blocks_insert(struct block_pool *pool, int32_t block, int32_t parent);
/* Takes a block without children out of the tree. */
void blocks_take_out(struct block_pool *pool, int32_t block);

/* A block with one owner and no contents: a free one, or the one that has been idle longest. NO_BLOCK: all have owners. */
int32_t blocks_take(struct block_pool *pool);
/* Adds an owner to a block that is in the tree or has an owner. */
void blocks_own(struct block_pool *pool, int32_t block);
/* Takes an owner away. Sequences release their last blocks first, so idle children are older than their parents. */
void blocks_release(struct block_pool *pool, int32_t block);

#endif

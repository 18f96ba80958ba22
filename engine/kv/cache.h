/* cache.h: keeps track of which blocks of the paged key/value cache belong to which sequence, and of their
 * tokens. Holds no keys or values: those are in device buffers, one pair per layer, and block b has the same
 * place in each. After vLLM's PagedAttention (Kwon et al., arXiv 2309.06180).
 *
 * Sequences take blocks from one pool as they grow. A block may have several owners: sequences with a common
 * beginning. No sequence writes to a shared block: a sequence that appends to one gets its own copy first
 * (kv_copies). A full block that has been computed (kv_commit) is kept in a tree, as a child of the block
 * before it, so that a text with the same beginning as an earlier one finds its blocks by their tokens
 * (kv_reuse). Blocks without owners stay in the tree until the pool needs them: the least recently used
 * first, and children before their parents. */
#ifndef ENGINE_KV_CACHE_H
#define ENGINE_KV_CACHE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define KV_BLOCK_SIZE 32 /* positions of a block */

struct kv_cache;

/* A copy from block to block that must be made before the next batch runs. */
struct kv_copy {
    int32_t from, to;
    uint32_t sequence; /* now has `to` instead of `from` */
};

/* Creates n_sequences empty sequences of at most n_positions each, which share n_blocks blocks. NULL: out of
 * memory, or too many blocks. */
struct kv_cache *kv_create(uint32_t n_sequences, uint32_t n_positions, uint32_t n_blocks);
void kv_destroy(struct kv_cache *cache);

/* Blocks that `length` positions take. */
static inline uint32_t kv_blocks_for(uint32_t length)
{
    return length / KV_BLOCK_SIZE + (length % KV_BLOCK_SIZE != 0);
}

/* Blocks that no sequence owns. */
uint32_t kv_free_count(const struct kv_cache *cache);

/* How many of those are needed to append growth[s] positions to each sequence s. */
uint32_t kv_needed(struct kv_cache *cache, const uint32_t *growth);

/* The number of positions in a sequence. */
uint32_t kv_length(const struct kv_cache *cache, uint32_t sequence);

/* Appends a token to a sequence and returns its slot (block * KV_BLOCK_SIZE + place in the block), or -1 if
 * the sequence or the pool is full. */
int32_t kv_append(struct kv_cache *cache, uint32_t sequence, int32_t token);

/* The copies that appending has required since the last kv_copied, in the order in which they must be
 * made. */
const struct kv_copy *kv_copies(const struct kv_cache *cache, size_t *count);
void kv_copied(struct kv_cache *cache);
/* The copies failed: sequences forget the blocks that were to be copied to. */
void kv_copies_failed(struct kv_cache *cache);

/* All positions have been computed: from now on, full blocks can be found. A block that duplicates another
 * one is given back, and its sequence gets the other. */
void kv_commit(struct kv_cache *cache);

/* Forgets the positions from `length` on. */
void kv_truncate(struct kv_cache *cache, uint32_t sequence, uint32_t length);

/* Makes sequence `to` hold the first positions of `from`, at most `length`, in the same blocks. */
void kv_share(struct kv_cache *cache, uint32_t from, uint32_t to, uint32_t length);

/* Makes a sequence hold as much of the beginning of these tokens as it has itself, or as is found in whole
 * blocks. Returns the number of positions. */
uint32_t kv_reuse(struct kv_cache *cache, uint32_t sequence, const int32_t *tokens, uint32_t n_tokens);

/* Tokens first … first + count - 1 of a sequence. */
void kv_tokens(const struct kv_cache *cache, uint32_t sequence, uint32_t first, uint32_t count,
               int32_t *tokens);

/* The blocks of a sequence in order, kv_blocks_for(kv_length) of them. Valid until the sequence changes. */
const int32_t *kv_blocks(const struct kv_cache *cache, uint32_t sequence);

#endif

/* cache.h: which blocks of the paged key/value cache belong to which sequence. Holds no keys or values: those are in
 * device buffers, one pair a layer, in which block b is the same for all layers. After vLLM's PagedAttention (Kwon et
 * al., arXiv 2309.06180). */
#ifndef ENGINE_KV_CACHE_H
#define ENGINE_KV_CACHE_H

#include <stdbool.h>
#include <stdint.h>

#define KV_BLOCK_SIZE 32 /* positions of a block */

struct kv_cache;

/* Blocks for n_sequences sequences of n_positions each; NULL: out of memory. */
struct kv_cache *kv_create(uint32_t n_sequences, uint32_t n_positions);
void kv_destroy(struct kv_cache *cache);

uint32_t kv_block_count(const struct kv_cache *cache);

/* How many positions a sequence has. */
uint32_t kv_length(const struct kv_cache *cache, uint32_t sequence);

/* Appends a position to a sequence and returns its slot, block * KV_BLOCK_SIZE + place in it; -1 if the sequence is
 * full. */
int32_t kv_append(struct kv_cache *cache, uint32_t sequence);

/* Forgets the positions from `length` on. */
void kv_truncate(struct kv_cache *cache, uint32_t sequence, uint32_t length);

/* The blocks of a sequence in order, kv_length / KV_BLOCK_SIZE of them, rounded up. */
const int32_t *kv_blocks(const struct kv_cache *cache, uint32_t sequence);

#endif

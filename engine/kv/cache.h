/* cache.h: keeps track of which blocks of the paged key/value cache belong to which sequence, and of their
 * tokens. Holds no keys or values: those are in device buffers, one pair per layer, and block b has the same
 * place in each. After vLLM's PagedAttention (Kwon et al., arXiv 2309.06180).
 *
 * Sequences take blocks from one pool as they grow. A block may have several owners: sequences with a common
 * beginning. No sequence writes to a shared block: a sequence that appends to one gets its own copy first
 * (kv_copies). A full block that has been computed (kv_commit) is kept in a tree, as a child of the block
 * before it, so that a text with the same beginning as an earlier one finds its blocks by their tokens
 * (kv_reuse). Blocks without owners stay in the tree until the pool needs them: the least recently used
 * first, and children before their parents.
 *
 * Layers with a window keep less. Their storage is a second pool of places (kv_add_window), and a block has a
 * place there only while it is in reach of a sequence, that is, while the sequence's next positions can see
 * it through the window. After that it keeps the place until the pool needs it, so that a beginning can still
 * be found. A sequence that is cut back, copied or found again becomes only as long as its blocks in reach
 * still have places: it can't be continued from anywhere else.
 *
 * Models with states (kv_add_states) can continue a sequence only where its state is known: at its end, or at
 * a snapshot. One is kept of where a prompt begins and of where one ends (kv_begin). Cutting back and copying
 * end at the last such position, and blocks are not found by their tokens; kv_reuse looks at the sequences
 * and their snapshots instead. */
#ifndef ENGINE_KV_CACHE_H
#define ENGINE_KV_CACHE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define KV_BLOCK_SIZE 32 /* positions of a block */
/* A sequence that grew by single positions can be cut back by this many with any window: guesses that
 * were wrong. */
#define KV_REWIND 32
/* The window pool has places that no sequence has in reach, so that beginnings are found again: for each
 * sequence as many as its window takes, and at least this many. */
#define KV_KEPT_BLOCKS 32
/* A sequence that grows by fewer positions at once is being generated: a step reads more of a prompt. */
#define KV_PROMPT_PIECE 16

struct kv_cache;

/* A copy from block to block that must be made before the next batch runs. */
struct kv_copy {
    int32_t from, to;
    int32_t window_from, window_to; /* places, if there is a window pool */
    uint32_t sequence;              /* now has `to` instead of `from` */
};

/* Snapshots that all sequences share: for each one, and at least this many. */
#define KV_SNAPSHOTS 3

/* A copy from state to state, see kv_add_states. */
struct kv_state_copy {
    uint32_t from, to;
};

/* Creates n_sequences empty sequences of at most n_positions each, which share n_blocks blocks. NULL: out of
 * memory, or too many blocks. */
struct kv_cache *kv_create(uint32_t n_sequences, uint32_t n_positions, uint32_t n_blocks);
void kv_destroy(struct kv_cache *cache);

/* Adds a pool of n_places for layers that see at most `window` positions. The cache is empty. False: out of
 * memory. */
bool kv_add_window(struct kv_cache *cache, uint32_t window, uint32_t n_places);

/* The places for these sequences, of which n_batch positions grow at once: enough for what all have in reach,
 * and for what is kept; at most n_blocks. */
uint32_t kv_places_for(uint32_t window, uint32_t n_sequences, uint32_t n_batch, uint32_t n_blocks);

/* The number of states of n_sequences sequences, with their snapshots. State s is that of sequence s. */
static inline uint32_t kv_states_for(uint32_t n_sequences)
{
    return n_sequences + (n_sequences > KV_SNAPSHOTS ? n_sequences : KV_SNAPSHOTS);
}

/* Adds states to an empty cache. False: out of memory. */
bool kv_add_states(struct kv_cache *cache);

/* Before tokens are appended: growth[s] to each sequence s. Keeps snapshots of sequences where a prompt
 * begins (more than one token comes) or has ended (it grew by more than one before). */
void kv_begin(struct kv_cache *cache, const uint32_t *growth);

/* The copies of states that must be made before the next batch runs, in this order; and that they have been
 * made. kv_copies_failed concerns them too. */
const struct kv_state_copy *kv_state_copies(const struct kv_cache *cache, size_t *count);
void kv_states_made(struct kv_cache *cache);

/* Blocks that `length` positions take. */
static inline uint32_t kv_blocks_for(uint32_t length)
{
    return length / KV_BLOCK_SIZE + (length % KV_BLOCK_SIZE != 0);
}

/* Blocks that no sequence owns. */
uint32_t kv_free_count(const struct kv_cache *cache);
/* Those of them that hold nothing which could be found again. */
uint32_t kv_empty_count(const struct kv_cache *cache);

/* Keeps all but the first n_open blocks of a new cache from being used. Their memory is committed when they
 * are first written to; the caller of kv_open knows that it is free. */
void kv_close(struct kv_cache *cache, uint32_t n_open);
/* Blocks that are closed. No other function counts them. */
uint32_t kv_closed_count(const struct kv_cache *cache);
/* Opens n closed blocks. */
void kv_open(struct kv_cache *cache, uint32_t n);
/* Open blocks that have not been written to, or a few more. */
uint32_t kv_unwritten_count(const struct kv_cache *cache);

/* How many of those are needed to append growth[s] positions to each sequence s. */
uint32_t kv_needed(struct kv_cache *cache, const uint32_t *growth);

/* The number of positions in a sequence. */
uint32_t kv_length(const struct kv_cache *cache, uint32_t sequence);

/* Appends a token to a sequence and returns its slot (block * KV_BLOCK_SIZE + place in the block), or -1 if
 * the sequence or the pool is full. */
int32_t kv_append(struct kv_cache *cache, uint32_t sequence, int32_t token);

/* Whether a sequence ends within a block that others own too, so that appending takes a copy of it. */
bool kv_shares_last(const struct kv_cache *cache, uint32_t sequence);

/* The copies that appending has required since the last kv_copied, in the order in which they must be
 * made. */
const struct kv_copy *kv_copies(const struct kv_cache *cache, size_t *count);
void kv_copied(struct kv_cache *cache);
/* The copies failed: sequences forget the blocks that were to be copied to. */
void kv_copies_failed(struct kv_cache *cache);

/* All positions have been computed: from now on, full blocks can be found. A block that duplicates another
 * one is given back, and its sequence gets the other. Blocks that have left the reach of a sequence give up
 * their places. */
void kv_commit(struct kv_cache *cache);
/* The same, except of those sequences s for which is_pending[s]. */
void kv_commit_except(struct kv_cache *cache, const bool *is_pending);

/* From now on, what is computed differs from what was computed with other numbers here: blocks are found only
 * with the same number. At first it is 0. All sequences must be empty. */
void kv_set_variant(struct kv_cache *cache, uint64_t variant);

/* Forgets the positions from `length` on, and more if the rest can't be continued. */
void kv_truncate(struct kv_cache *cache, uint32_t sequence, uint32_t length);

/* Makes sequence `to` hold the first positions of `from`, at most `length`, in the same blocks; fewer if that
 * can't be continued. */
void kv_share(struct kv_cache *cache, uint32_t from, uint32_t to, uint32_t length);

/* How many of these tokens a sequence begins with. */
uint32_t kv_common(const struct kv_cache *cache, uint32_t sequence, const int32_t *tokens, uint32_t n_tokens);

/* Makes a sequence hold as much of the beginning of these tokens as it has itself, or as is found in whole
 * blocks, and can be continued. Returns the number of positions. */
uint32_t kv_reuse(struct kv_cache *cache, uint32_t sequence, const int32_t *tokens, uint32_t n_tokens);

/* Tokens first … first + count - 1 of a sequence. */
void kv_tokens(const struct kv_cache *cache, uint32_t sequence, uint32_t first, uint32_t count,
               int32_t *tokens);

/* The blocks of a sequence in order, kv_blocks_for(kv_length) of them. Valid until the sequence changes. */
const int32_t *kv_blocks(const struct kv_cache *cache, uint32_t sequence);

/* ---- With a window pool -------------------------------------------------------------------------------- */

/* The slot in the window pool of a position that kv_append has just given a slot. */
int32_t kv_window_slot(const struct kv_cache *cache, int32_t slot);

/* Writes the places of a sequence's blocks in reach to their numbers in `table`, and nothing elsewhere. */
void kv_window_table(const struct kv_cache *cache, uint32_t sequence, int32_t *table);

/* The first block from which on all of a sequence's blocks have places. 0 without a window pool. */
uint32_t kv_window_first(const struct kv_cache *cache, uint32_t sequence);

/* The block that this must not exceed for a sequence of this length to be continued. */
uint32_t kv_window_required(const struct kv_cache *cache, uint32_t length);

/* Gives an empty sequence tokens whose keys and values come from elsewhere: in layers with a window from
 * block *first on, which is raised if the pool has not as many places. False: no room; the sequence then has
 * some of the tokens. */
bool kv_restore(struct kv_cache *cache, uint32_t sequence, const int32_t *tokens, uint32_t n_tokens,
                uint32_t *first);

#endif

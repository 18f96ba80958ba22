/* internal.h: what the cache (cache.c) is made of: the order in which blocks are given up, the pool that
 * sequences share (blocks.c), the places of layers with a window (blocks.c), and the states of sequences
 * (states.c). cache.h says when. */
#ifndef ENGINE_KV_INTERNAL_H
#define ENGINE_KV_INTERNAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "kv/cache.h"

#define NO_BLOCK (-1)

/* ---- Orders -------------------------------------------------------------------------------------------- */

/* Blocks in the order in which they are to be given up; each knows its neighbours. */
struct order_link {
    int32_t older, newer; /* NO_BLOCK: there is none */
};

struct order {
    struct order_link *links; /* [n_blocks]; they count only for blocks in the order */
    int32_t oldest, newest;   /* NO_BLOCK: it is empty */
    uint32_t n;               /* its length */
};

/* ---- The pool ------------------------------------------------------------------------------------------ */

/* The blocks that sequences share: who owns them, and the tree in which full ones are found by their tokens.
 * A block is owned by sequences, idle (in the tree, without owners), or free. Blocks of the tree stay there
 * as long as their children. */
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
    uint32_t n_open;      /* the blocks before this one may be used */
    struct block *blocks; /* [n_blocks] */
    int32_t *tokens;      /* [n_blocks, KV_BLOCK_SIZE] */
    int32_t *free;        /* [n_blocks] stack of free blocks; the last one is given next */
    uint32_t n_free;
    uint32_t n_written; /* the most that were not free at once: at least as many have been written to */
    struct order idle;  /* the oldest is taken first */
    int32_t *buckets;   /* [n_buckets] of the tree's blocks, by hash */
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

/* The tree's block with these tokens after `parent`, or NO_BLOCK. A parent NO_BLOCK: at the beginning of a
 * text. */
int32_t blocks_find(const struct block_pool *pool, int32_t parent, const int32_t *tokens);
void blocks_insert(struct block_pool *pool, int32_t block, int32_t parent);
/* Takes a block without children out of the tree. */
void blocks_take_out(struct block_pool *pool, int32_t block);

/* A block with one owner and no contents: a free one, or the one that has been idle longest. NO_BLOCK: all
 * have owners. */
int32_t blocks_take(struct block_pool *pool);
/* Adds an owner to a block that is in the tree or has an owner. */
void blocks_own(struct block_pool *pool, int32_t block);
/* Takes an owner away. Sequences release their last blocks first, so idle children are older than their
 * parents. */
void blocks_release(struct block_pool *pool, int32_t block);

/* For assertions: checks the rules of the pool as a whole by further ones. True. */
bool blocks_are_sound(const struct block_pool *pool);

/* ---- Places of layers with a window -------------------------------------------------------------------- */

/* The second pool of the cache: storage of the layers with a window. They need fewer blocks than other
 * layers, because nothing reads positions that have left the window. A place is free, or belongs to one block
 * of the pool above. It stays while a sequence has the block in reach, and after that until another block
 * needs it: first those that were given up for good (kv_window_pass), then the least recently used. */
#define KV_NO_PLACE (-1)

struct kv_window;

/* n_places for n_blocks blocks. NULL: out of memory. */
struct kv_window *kv_window_create(uint32_t n_blocks, uint32_t n_places);
void kv_window_destroy(struct kv_window *window);

/* The place of a block, or KV_NO_PLACE. */
int32_t kv_window_place(const struct kv_window *window, int32_t block);
/* How many sequences have the block in reach. */
uint32_t kv_window_users(const struct kv_window *window, int32_t block);
/* Places that no sequence has in reach. */
uint32_t kv_window_free_count(const struct kv_window *window);

/* Gives a block without a place one, in reach of one sequence. False: all places are in reach. */
bool kv_window_take(struct kv_window *window, int32_t block);
/* One more sequence has a block in reach, one fewer. The block has a place. */
void kv_window_enter(struct kv_window *window, int32_t block);
void kv_window_leave(struct kv_window *window, int32_t block);
/* The same as kv_window_leave; without users, the block is the first to lose its place. */
void kv_window_pass(struct kv_window *window, int32_t block);
/* Block `to`, without a place, gets that of block `from`, with its users. */
void kv_window_move(struct kv_window *window, int32_t from, int32_t to);
/* Frees the place of a block that no sequence has in reach, if it has one. */
void kv_window_drop(struct kv_window *window, int32_t block);

/* The same of the places. Returns the users of all blocks together. */
uint64_t kv_window_count_users(const struct kv_window *window);

/* ---- States -------------------------------------------------------------------------------------------- */

/* The states of sequences whose model keeps them (convolutions and recurrences): what a token leaves for the
 * next one, of a fixed size. State s of a buffer belongs to sequence s and is that of its last position. A
 * state can't be cut back, so the buffer has room for snapshots as well: copies of states, each of a sequence
 * and a position. These are numbers and copies to be made, no data. */
struct kv_states;

/* n_snapshots: numbers n_sequences … are theirs. NULL: out of memory. */
struct kv_states *kv_states_create(uint32_t n_sequences, uint32_t n_snapshots);
void kv_states_destroy(struct kv_states *states);

/* The greatest position, at most `length`, at which the sequence's state is known: its own, or a snapshot's.
 * 0 always is: every text begins with zeros. */
uint32_t kv_states_known(const struct kv_states *states, uint32_t sequence, uint32_t length);

/* Tokens are being added: until kv_states_reached, the sequence's own state is that of no position. */
void kv_states_grow(struct kv_states *states, uint32_t sequence);
/* The sequence's own state is that of position `length`. */
void kv_states_reached(struct kv_states *states, uint32_t sequence, uint32_t length);

/* Makes a known position of `from` the state of sequence `to`, which may be the same. Snapshots of `to`
 * beyond it are forgotten. False: out of memory; nothing has changed. */
bool kv_states_go(struct kv_states *states, uint32_t from, uint32_t to, uint32_t position);

/* Keeps the sequence's state, of position `length`, as a snapshot, in place of the least recently used one.
 * Of positions within a prompt (is_within), a sequence has only the last: long prompts leave others
 * theirs. */
void kv_states_keep(struct kv_states *states, uint32_t sequence, uint32_t length, bool is_within);

const struct kv_state_copy *kv_states_copies(const struct kv_states *states, size_t *count);
void kv_states_copied(struct kv_states *states);
/* The copies were not made: snapshots and states that depend on them are of no position. */
void kv_states_failed(struct kv_states *states);

#endif

/* states.h: the states of sequences whose model keeps them (convolutions and recurrences): what a token leaves
 * for the next one, of a fixed size. State s of a buffer belongs to sequence s and is that of its last
 * position. A state can't be cut back, so the buffer has room for snapshots as well: copies of states, each of
 * a sequence and a position. Holds numbers and copies to be made, no data. Only cache.c uses this. */
#ifndef ENGINE_KV_STATES_H
#define ENGINE_KV_STATES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "kv/cache.h"

struct kv_states;

/* n_snapshots: numbers n_sequences … are theirs. NULL: out of memory. */
struct kv_states *kv_states_create(uint32_t n_sequences, uint32_t n_snapshots);
void kv_states_destroy(struct kv_states *states);

/* The greatest position, at most `length`, at which the sequence's state is known: its own, or a snapshot's. 0
 * always is: every text begins with zeros. */
uint32_t kv_states_known(const struct kv_states *states, uint32_t sequence, uint32_t length);

/* Tokens are being added: until kv_states_reached, the sequence's own state is that of no position. */
void kv_states_grow(struct kv_states *states, uint32_t sequence);
/* The sequence's own state is that of position `length`. */
void kv_states_reached(struct kv_states *states, uint32_t sequence, uint32_t length);

/* Makes a known position of `from` the state of sequence `to`, which may be the same. Snapshots of `to` beyond
 * it are forgotten. False: out of memory; nothing has changed. */
bool kv_states_go(struct kv_states *states, uint32_t from, uint32_t to, uint32_t position);

/* Keeps the sequence's state, of position `length`, as a snapshot, in place of the least recently used one. Of
 * positions within a prompt (is_within), a sequence has only the last: long prompts leave others theirs. */
void kv_states_keep(struct kv_states *states, uint32_t sequence, uint32_t length, bool is_within);

const struct kv_state_copy *kv_states_copies(const struct kv_states *states, size_t *count);
void kv_states_copied(struct kv_states *states);
/* The copies were not made: snapshots and states that depend on them are of no position. */
void kv_states_failed(struct kv_states *states);

#endif

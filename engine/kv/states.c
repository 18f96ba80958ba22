/* states.c: which positions the states of sequences are of, and the copies between them. Called by cache.c;
 * internal.h says more. */
#include <stdlib.h>
#include <string.h>

#include "common/array.h"
#include "common/assert.h"
#include "kv/internal.h"

#define NOWHERE UINT32_MAX /* of no position */

struct snapshot {
    uint32_t sequence, position; /* NOWHERE: free */
    uint64_t used;
    bool is_within; /* a prompt */
};

struct kv_states {
    uint32_t n_sequences, n_snapshots;
    uint32_t *at; /* [n_sequences] the position of each sequence's own state */
    struct snapshot *snapshots;
    uint64_t clock;
    struct kv_state_copy *copies; /* in the order in which they must be made */
    size_t n_copies, copies_capacity;
};

struct kv_states *kv_states_create(uint32_t n_sequences, uint32_t n_snapshots)
{
    struct kv_states *states = calloc(1, sizeof *states);
    if (!states) return NULL;
    states->n_sequences = n_sequences;
    states->n_snapshots = n_snapshots;
    states->at = calloc(n_sequences, sizeof *states->at);
    states->snapshots = calloc((size_t)n_snapshots + 1, sizeof *states->snapshots);
    if (!states->at || !states->snapshots) {
        kv_states_destroy(states);
        return NULL;
    }
    for (uint32_t i = 0; i < n_snapshots; i++) states->snapshots[i].position = NOWHERE;
    return states;
}

void kv_states_destroy(struct kv_states *states)
{
    if (!states) return;
    free(states->at);
    free(states->snapshots);
    free(states->copies);
    free(states);
}

/* The snapshot of the greatest position up to `length`; NULL: there is none. */
static struct snapshot *states_find(const struct kv_states *states, uint32_t sequence, uint32_t length)
{
    struct snapshot *best = NULL;
    for (uint32_t i = 0; i < states->n_snapshots; i++) {
        struct snapshot *snapshot = &states->snapshots[i];
        if (snapshot->position == NOWHERE || snapshot->sequence != sequence || snapshot->position > length)
            continue;
        if (!best || snapshot->position > best->position) best = snapshot;
    }
    return best;
}

uint32_t kv_states_known(const struct kv_states *states, uint32_t sequence, uint32_t length)
{
    ENGINE_ASSERT(sequence < states->n_sequences);
    const struct snapshot *snapshot = states_find(states, sequence, length);
    uint32_t known = snapshot ? snapshot->position : 0, own = states->at[sequence];
    return own != NOWHERE && own <= length && own > known ? own : known;
}

void kv_states_grow(struct kv_states *states, uint32_t sequence)
{
    states->at[sequence] = NOWHERE;
}

void kv_states_reached(struct kv_states *states, uint32_t sequence, uint32_t length)
{
    ENGINE_ASSERT(sequence < states->n_sequences);
    states->at[sequence] = length;
}

static bool add_copy(struct kv_states *states, uint32_t from, uint32_t to)
{
    ENGINE_ASSERT(from < states->n_sequences + states->n_snapshots);
    ENGINE_ASSERT(to < states->n_sequences + states->n_snapshots);
    if (!ARRAY_RESERVE(states->copies, states->copies_capacity, states->n_copies + 1)) return false;
    states->copies[states->n_copies++] = (struct kv_state_copy){from, to};
    return true;
}

static void states_forget(struct kv_states *states, uint32_t sequence, uint32_t beyond)
{
    for (uint32_t i = 0; i < states->n_snapshots; i++) {
        struct snapshot *snapshot = &states->snapshots[i];
        if (snapshot->position != NOWHERE && snapshot->sequence == sequence && snapshot->position > beyond)
            snapshot->position = NOWHERE;
    }
}

bool kv_states_go(struct kv_states *states, uint32_t from, uint32_t to, uint32_t position)
{
    if (position > 0 && !(from == to && states->at[from] == position)) {
        uint32_t source = from;
        if (states->at[from] != position) {
            struct snapshot *snapshot = states_find(states, from, position);
            ENGINE_ASSERT(snapshot && snapshot->position == position); /* it is known */
            snapshot->used = ++states->clock;
            source = states->n_sequences + (uint32_t)(snapshot - states->snapshots);
        }
        if (!add_copy(states, source, to)) return false;
    }
    states->at[to] = position;
    states_forget(states, to, position);
    return true;
}

/* The snapshot to give up for another one: a free one, the least recently used, or with is_within the
 * sequence's own of that kind. */
static struct snapshot *states_choose(const struct kv_states *states, uint32_t sequence, bool is_within)
{
    struct snapshot *chosen = NULL;
    for (uint32_t i = 0; i < states->n_snapshots; i++) {
        struct snapshot *snapshot = &states->snapshots[i];
        bool is_free = snapshot->position == NOWHERE;
        if (is_within && !is_free && snapshot->is_within && snapshot->sequence == sequence) return snapshot;
        if (!chosen || (chosen->position != NOWHERE && (is_free || snapshot->used < chosen->used)))
            chosen = snapshot;
    }
    return chosen;
}

void kv_states_keep(struct kv_states *states, uint32_t sequence, uint32_t length, bool is_within)
{
    const struct snapshot *same = states_find(states, sequence, length);
    if (states->at[sequence] != length || (same && same->position == length)) return;
    struct snapshot *chosen = states_choose(states, sequence, is_within);
    if (!chosen || !add_copy(states, sequence, states->n_sequences + (uint32_t)(chosen - states->snapshots)))
        return; /* without it, more is computed again */
    *chosen = (struct snapshot){sequence, length, ++states->clock, is_within};
}

const struct kv_state_copy *kv_states_copies(const struct kv_states *states, size_t *count)
{
    *count = states->n_copies;
    return states->copies;
}

void kv_states_copied(struct kv_states *states)
{
    states->n_copies = 0;
}

void kv_states_failed(struct kv_states *states)
{
    for (size_t i = 0; i < states->n_copies; i++) {
        uint32_t to = states->copies[i].to;
        if (to < states->n_sequences)
            states->at[to] = NOWHERE;
        else
            states->snapshots[to - states->n_sequences].position = NOWHERE;
    }
    states->n_copies = 0;
}

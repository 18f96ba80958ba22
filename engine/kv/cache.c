/* cache.c: see cache.h. The sequences; their blocks come from a pool (blocks.c), their states from
 * states.c. */
#include "kv/cache.h"

#include <stdlib.h>
#include <string.h>

#include "common/assert.h"
#include "kv/internal.h"

struct sequence {
    uint32_t length;
    uint32_t n_known; /* number of its leading blocks that are in the tree */
    uint32_t first;   /* its blocks from this one on are in its reach */
    uint32_t n_seen;  /* positions when it was last committed or shortened */
    uint32_t growth;  /* tokens of its last batch */
    int32_t *blocks;  /* [max_blocks] */
};

struct kv_cache {
    uint32_t n_sequences, n_positions;
    struct sequence *sequences; /* [n_sequences] */
    int32_t *tables;            /* [n_sequences, max_blocks] storage of the sequences' `blocks` */
    struct block_pool pool;
    uint32_t *appenders;    /* [n_blocks] zeros between calls of kv_needed */
    struct kv_copy *copies; /* [n_sequences] */
    size_t n_copies;
    uint32_t window;          /* positions; 0: no layer has one */
    struct kv_states *states; /* NULL: the model has none */
};

static struct sequence *sequence_at(const struct kv_cache *cache, uint32_t number)
{
    ENGINE_ASSERT(number < cache->n_sequences);
    return &cache->sequences[number];
}

static bool is_empty(const struct kv_cache *cache)
{
    for (uint32_t s = 0; s < cache->n_sequences; s++)
        if (cache->sequences[s].length > 0) return false;
    return true;
}

/* ---- Beginning and end -------------------------------------------------------------------------------- */

static bool cache_allocate(struct kv_cache *cache, uint32_t max_blocks, uint32_t n_blocks)
{
    size_t n_sequences = cache->n_sequences;
    cache->sequences = calloc(n_sequences, sizeof *cache->sequences);
    cache->tables = calloc(n_sequences * max_blocks, sizeof *cache->tables);
    cache->appenders = calloc(n_blocks, sizeof *cache->appenders);
    cache->copies = calloc(n_sequences, sizeof *cache->copies);
    return blocks_create(&cache->pool, n_blocks) && cache->sequences && cache->tables && cache->appenders &&
           cache->copies;
}

struct kv_cache *kv_create(uint32_t n_sequences, uint32_t n_positions, uint32_t n_blocks)
{
    struct kv_cache *cache = calloc(1, sizeof *cache);
    uint32_t max_blocks = kv_blocks_for(n_positions);
    if (!cache) return NULL;
    cache->n_sequences = n_sequences;
    cache->n_positions = n_positions;
    if (n_blocks > INT32_MAX / KV_BLOCK_SIZE || !cache_allocate(cache, max_blocks, n_blocks)) {
        kv_destroy(cache);
        return NULL;
    }
    for (uint32_t s = 0; s < n_sequences; s++)
        cache->sequences[s].blocks = cache->tables + (size_t)s * max_blocks;
    return cache;
}

bool kv_add_window(struct kv_cache *cache, uint32_t window, uint32_t n_places)
{
    ENGINE_ASSERT(is_empty(cache));
    cache->window = window;
    cache->pool.places = kv_window_create(cache->pool.n_blocks, n_places);
    return cache->pool.places != NULL;
}

bool kv_add_states(struct kv_cache *cache)
{
    ENGINE_ASSERT(is_empty(cache));
    cache->states =
        kv_states_create(cache->n_sequences, kv_states_for(cache->n_sequences) - cache->n_sequences);
    return cache->states != NULL;
}

uint32_t kv_places_for(uint32_t window, uint32_t n_sequences, uint32_t n_batch, uint32_t n_blocks)
{
    /* In a batch, a sequence has in reach what it had before it, which begins within a block, and its new
     * positions, which end within one. */
    uint64_t reach = kv_blocks_for(window + KV_REWIND) + 2, kept = kv_blocks_for(window);
    if (kept < KV_KEPT_BLOCKS) kept = KV_KEPT_BLOCKS;
    uint64_t n = n_sequences * (reach + kept) + kv_blocks_for(n_batch);
    return n < n_blocks ? (uint32_t)n : n_blocks;
}

void kv_destroy(struct kv_cache *cache)
{
    if (!cache) return;
    kv_states_destroy(cache->states);
    free(cache->sequences);
    free(cache->tables);
    free(cache->appenders);
    free(cache->copies);
    blocks_destroy(&cache->pool);
    free(cache);
}

void kv_set_variant(struct kv_cache *cache, uint64_t variant)
{
    ENGINE_ASSERT(is_empty(cache));
    cache->pool.variant = variant;
}

uint32_t kv_free_count(const struct kv_cache *cache)
{
    return cache->pool.n_free + cache->pool.idle.n;
}

uint32_t kv_empty_count(const struct kv_cache *cache)
{
    return cache->pool.n_free;
}

void kv_close(struct kv_cache *cache, uint32_t n_open)
{
    struct block_pool *pool = &cache->pool;
    ENGINE_ASSERT(pool->n_free == pool->n_blocks);
    ENGINE_ASSERT(n_open <= pool->n_blocks);
    pool->n_open = pool->n_free = n_open;
    for (uint32_t i = 0; i < n_open; i++) pool->free[i] = (int32_t)(n_open - 1 - i);
}

uint32_t kv_closed_count(const struct kv_cache *cache)
{
    return cache->pool.n_blocks - cache->pool.n_open;
}

void kv_open(struct kv_cache *cache, uint32_t n)
{
    struct block_pool *pool = &cache->pool;
    ENGINE_ASSERT(n <= kv_closed_count(cache));
    for (uint32_t i = n; i-- > 0;) pool->free[pool->n_free++] = (int32_t)(pool->n_open + i);
    pool->n_open += n;
}

uint32_t kv_unwritten_count(const struct kv_cache *cache)
{
    ENGINE_ASSERT(cache->pool.n_written <= cache->pool.n_open);
    return cache->pool.n_open - cache->pool.n_written;
}

/* ---- Windows ------------------------------------------------------------------------------------------ */

/* The first block that positions from `length` on can see through the window, after being cut back by
 * `rewind` positions. */
static uint32_t reach_of(const struct kv_cache *cache, uint32_t length, uint32_t rewind)
{
    uint32_t reach = cache->window + rewind;
    return length > reach ? (length - reach) / KV_BLOCK_SIZE : 0;
}

static bool has_place(const struct kv_cache *cache, int32_t b)
{
    return kv_window_place(cache->pool.places, b) != KV_NO_PLACE;
}

/* The longest beginning of a sequence, of at most `length` positions, that can be continued: all blocks in
 * its reach still have their places. */
static uint32_t continuable(const struct kv_cache *cache, const struct sequence *sequence, uint32_t length)
{
    while (cache->pool.places && length > 0) {
        uint32_t first = reach_of(cache, length, 0), i = kv_blocks_for(length);
        while (i > first && has_place(cache, sequence->blocks[i - 1])) i--;
        if (i == first) break;
        length = (i - 1) * KV_BLOCK_SIZE;
    }
    return length;
}

/* Takes blocks into a sequence's reach that belong there, as far as they have places, and gives up those
 * that have left it. Texts rarely continue from the middle of what was generated: the ends of prompts keep
 * their places instead. */
static void adjust_reach(struct kv_cache *cache, struct sequence *sequence)
{
    if (!cache->pool.places) return;
    uint32_t first = reach_of(cache, sequence->length, KV_REWIND);
    while (sequence->first > first && has_place(cache, sequence->blocks[sequence->first - 1]))
        kv_window_enter(cache->pool.places, sequence->blocks[--sequence->first]);
    for (; sequence->first < first; sequence->first++) {
        int32_t b = sequence->blocks[sequence->first];
        if (cache->pool.blocks[b].is_generated)
            kv_window_pass(cache->pool.places, b);
        else
            kv_window_leave(cache->pool.places, b);
    }
}

/* Has nothing in reach any more. */
static void give_up_reach(struct kv_cache *cache, struct sequence *sequence)
{
    if (!cache->pool.places) return;
    uint32_t n = kv_blocks_for(sequence->length);
    for (uint32_t i = n; i > sequence->first; i--)
        kv_window_leave(cache->pool.places, sequence->blocks[i - 1]);
    sequence->first = n;
}

/* Forgets the positions from `length` on, whether the rest can be continued or not. */
static void cache_cut(struct kv_cache *cache, struct sequence *sequence, uint32_t length)
{
    if (length >= sequence->length) return;
    for (uint32_t i = kv_blocks_for(sequence->length); i > kv_blocks_for(length); i--) {
        if (cache->pool.places && i > sequence->first)
            kv_window_leave(cache->pool.places, sequence->blocks[i - 1]);
        blocks_release(&cache->pool, sequence->blocks[i - 1]);
    }
    sequence->length = length;
    if (sequence->first > kv_blocks_for(length)) sequence->first = kv_blocks_for(length);
    if (sequence->n_known > length / KV_BLOCK_SIZE) sequence->n_known = length / KV_BLOCK_SIZE;
}

static uint32_t number_of(const struct kv_cache *cache, const struct sequence *sequence)
{
    return (uint32_t)(sequence - cache->sequences);
}

/* Shortens a sequence to what can be continued, with the states of sequence `from`. */
static void settle_from(struct kv_cache *cache, struct sequence *sequence, uint32_t from)
{
    uint32_t before;
    do {
        before = sequence->length;
        cache_cut(cache, sequence, continuable(cache, sequence, before));
        if (cache->states) cache_cut(cache, sequence, kv_states_known(cache->states, from, sequence->length));
    } while (sequence->length != before);
    if (cache->states && !kv_states_go(cache->states, from, number_of(cache, sequence), sequence->length)) {
        cache_cut(cache, sequence, 0);
        kv_states_go(cache->states, from, number_of(cache, sequence), 0);
    }
    sequence->n_seen = sequence->length;
    adjust_reach(cache, sequence);
}

static void settle(struct kv_cache *cache, struct sequence *sequence)
{
    settle_from(cache, sequence, number_of(cache, sequence));
}

int32_t kv_window_slot(const struct kv_cache *cache, int32_t slot)
{
    ENGINE_ASSERT(slot >= 0 && has_place(cache, slot / KV_BLOCK_SIZE));
    return kv_window_place(cache->pool.places, slot / KV_BLOCK_SIZE) * KV_BLOCK_SIZE + slot % KV_BLOCK_SIZE;
}

void kv_window_table(const struct kv_cache *cache, uint32_t s, int32_t *table)
{
    const struct sequence *sequence = sequence_at(cache, s);
    for (uint32_t i = sequence->first; i < kv_blocks_for(sequence->length); i++)
        table[i] = kv_window_place(cache->pool.places, sequence->blocks[i]);
}

uint32_t kv_window_first(const struct kv_cache *cache, uint32_t s)
{
    const struct sequence *sequence = sequence_at(cache, s);
    uint32_t i = cache->pool.places ? sequence->first : 0;
    while (i > 0 && has_place(cache, sequence->blocks[i - 1])) i--;
    return i;
}

uint32_t kv_window_required(const struct kv_cache *cache, uint32_t length)
{
    return cache->pool.places ? reach_of(cache, length, 0) : 0;
}

/* ---- Growing ------------------------------------------------------------------------------------------ */

/* blocks_take with a place in the window pool, in reach of one sequence. */
static int32_t take_with_place(struct kv_cache *cache)
{
    int32_t b = blocks_take(&cache->pool);
    if (b == NO_BLOCK || !cache->pool.places || kv_window_take(cache->pool.places, b)) return b;
    blocks_release(&cache->pool, b);
    return NO_BLOCK;
}

/* Whether other blocks of the tree continue from this one, so that its tokens can't change. */
static bool is_kept(const struct block *block)
{
    return block->is_known && block->n_children > 0;
}

uint32_t kv_needed(struct kv_cache *cache, const uint32_t *growth)
{
    uint32_t needed = 0;
    for (uint32_t s = 0; s < cache->n_sequences; s++) {
        const struct sequence *sequence = &cache->sequences[s];
        uint32_t length = sequence->length;
        if (growth[s] == 0) continue;
        needed += kv_blocks_for(length + growth[s]) - kv_blocks_for(length);
        if (length % KV_BLOCK_SIZE == 0) continue;
        int32_t b = sequence->blocks[length / KV_BLOCK_SIZE];
        cache->appenders[b]++;
        /* Of owners that all append to a block, the last can have it, or leaves it idle for another. */
        needed += cache->appenders[b] < cache->pool.blocks[b].owners;
    }
    for (uint32_t s = 0; s < cache->n_sequences; s++) {
        const struct sequence *sequence = &cache->sequences[s];
        if (growth[s] > 0 && sequence->length % KV_BLOCK_SIZE != 0)
            cache->appenders[sequence->blocks[sequence->length / KV_BLOCK_SIZE]] = 0;
    }
    return needed;
}

uint32_t kv_length(const struct kv_cache *cache, uint32_t sequence)
{
    return sequence_at(cache, sequence)->length;
}

bool kv_shares_last(const struct kv_cache *cache, uint32_t s)
{
    const struct sequence *sequence = sequence_at(cache, s);
    uint32_t length = sequence->length;
    return length % KV_BLOCK_SIZE != 0 &&
           cache->pool.blocks[sequence->blocks[length / KV_BLOCK_SIZE]].owners > 1;
}

/* Gives a sequence that continues inside block i a copy of it, unless nobody else needs the block. */
static bool make_own(struct kv_cache *cache, uint32_t s, uint32_t i)
{
    struct sequence *sequence = sequence_at(cache, s);
    int32_t b = sequence->blocks[i];
    struct block *block = &cache->pool.blocks[b];
    if (block->owners > 1 || is_kept(block)) {
        int32_t copy = take_with_place(cache);
        if (copy == NO_BLOCK) return false;
        memcpy(blocks_tokens(&cache->pool, copy), blocks_tokens(&cache->pool, b),
               KV_BLOCK_SIZE * sizeof *cache->pool.tokens);
        ENGINE_ASSERT(cache->n_copies < cache->n_sequences); /* one of each sequence until they are made */
        struct kv_copy *made = &cache->copies[cache->n_copies++];
        *made = (struct kv_copy){.from = b, .to = copy, .sequence = s};
        if (cache->pool.places) {
            made->window_from = kv_window_place(cache->pool.places, b);
            made->window_to = kv_window_place(cache->pool.places, copy);
            kv_window_leave(cache->pool.places, b);
        }
        sequence->blocks[i] = copy;
        blocks_release(&cache->pool, b);
    } else if (block->is_known) {
        blocks_take_out(&cache->pool, b);
    }
    return true;
}

int32_t kv_append(struct kv_cache *cache, uint32_t s, int32_t token)
{
    struct sequence *sequence = sequence_at(cache, s);
    uint32_t position = sequence->length, i = position / KV_BLOCK_SIZE, place = position % KV_BLOCK_SIZE;
    if (position >= cache->n_positions) return -1;
    if (place == 0) {
        int32_t b = i < sequence->first ? blocks_take(&cache->pool) : take_with_place(cache);
        if (b == NO_BLOCK) return -1;
        sequence->blocks[i] = b;
    } else if (!make_own(cache, s, i)) {
        return -1;
    }
    int32_t b = sequence->blocks[i];
    ENGINE_ASSERT(cache->pool.blocks[b].owners == 1); /* nobody writes to a shared block */
    ENGINE_ASSERT(!cache->pool.blocks[b].is_known);
    blocks_tokens(&cache->pool, b)[place] = token;
    sequence->length++;
    if (cache->states) kv_states_grow(cache->states, s);
    return b * KV_BLOCK_SIZE + (int32_t)place;
}

const struct kv_copy *kv_copies(const struct kv_cache *cache, size_t *count)
{
    *count = cache->n_copies;
    return cache->copies;
}

void kv_begin(struct kv_cache *cache, const uint32_t *growth)
{
    for (uint32_t s = 0; s < cache->n_sequences && cache->states; s++) {
        struct sequence *sequence = &cache->sequences[s];
        if (growth[s] == 0) continue;
        if (sequence->length > 0 && (growth[s] > 1 || sequence->growth > 1))
            kv_states_keep(cache->states, s, sequence->length, growth[s] > 1 && sequence->growth > 1);
        sequence->growth = growth[s];
    }
}

const struct kv_state_copy *kv_state_copies(const struct kv_cache *cache, size_t *count)
{
    *count = 0;
    return cache->states ? kv_states_copies(cache->states, count) : NULL;
}

void kv_states_made(struct kv_cache *cache)
{
    if (cache->states) kv_states_copied(cache->states);
}

void kv_copied(struct kv_cache *cache)
{
    cache->n_copies = 0;
}

void kv_copies_failed(struct kv_cache *cache)
{
    for (size_t c = 0; c < cache->n_copies; c++) {
        const struct sequence *sequence = &cache->sequences[cache->copies[c].sequence];
        for (uint32_t i = kv_blocks_for(sequence->length); i-- > 0;)
            if (sequence->blocks[i] == cache->copies[c].to)
                kv_truncate(cache, cache->copies[c].sequence, i * KV_BLOCK_SIZE);
    }
    cache->n_copies = 0;
    if (!cache->states) return;
    kv_states_failed(cache->states);
    for (uint32_t s = 0; s < cache->n_sequences; s++) settle(cache, &cache->sequences[s]);
}

/* Replaces block i of a sequence by `same`, which has the same contents, or had them if it has no place.
 * False: it has none, and that of the block has other users. */
static bool cache_replace(struct kv_cache *cache, struct sequence *sequence, uint32_t i, int32_t same)
{
    int32_t b = sequence->blocks[i];
    if (cache->pool.places && i >= sequence->first) {
        if (has_place(cache, same)) {
            kv_window_enter(cache->pool.places, same);
            kv_window_leave(cache->pool.places, b);
        } else if (kv_window_users(cache->pool.places, b) == 1) {
            kv_window_move(cache->pool.places, b, same);
        } else {
            return false;
        }
    }
    blocks_own(&cache->pool, same);
    blocks_release(&cache->pool, b);
    sequence->blocks[i] = same;
    return true;
}

static void commit_sequence(struct kv_cache *cache, struct sequence *sequence)
{
    bool generated = sequence->length < sequence->n_seen + KV_PROMPT_PIECE;
    sequence->n_seen = sequence->length;
    for (; sequence->n_known < sequence->length / KV_BLOCK_SIZE; sequence->n_known++) {
        uint32_t i = sequence->n_known;
        int32_t b = sequence->blocks[i], parent = i > 0 ? sequence->blocks[i - 1] : NO_BLOCK;
        int32_t same = blocks_find(&cache->pool, parent, blocks_tokens(&cache->pool, b));
        if (same == NO_BLOCK)
            blocks_insert(&cache->pool, b, parent);
        else if (same != b && !cache_replace(cache, sequence, i, same))
            break;
        struct block *block = &cache->pool.blocks[sequence->blocks[i]];
        block->is_generated = generated && (same == NO_BLOCK || block->is_generated);
    }
    adjust_reach(cache, sequence);
    if (cache->states) kv_states_reached(cache->states, number_of(cache, sequence), sequence->length);
}

/* ---- The rules as a whole: functions for assertions ---------------------------------------------------- */

static void check_sequence(const struct kv_cache *cache, const struct sequence *sequence)
{
    uint32_t n = kv_blocks_for(sequence->length);
    ENGINE_ASSERT(sequence->length <= cache->n_positions);
    ENGINE_ASSERT(sequence->n_known <= sequence->length / KV_BLOCK_SIZE);
    ENGINE_ASSERT(sequence->first <= n);
    for (uint32_t i = 0; i < n; i++) {
        const struct block *block = &cache->pool.blocks[sequence->blocks[i]];
        ENGINE_ASSERT(block->owners > 0);
        ENGINE_ASSERT(i >= sequence->n_known || block->is_known);
        ENGINE_ASSERT(!cache->pool.places || i < sequence->first || has_place(cache, sequence->blocks[i]));
    }
}

/* Blocks have as many owners as there are sequences with them, and places as many users as sequences that
 * have them in reach. */
static bool is_sound(const struct kv_cache *cache)
{
    uint64_t n_owners = 0, n_held = 0, n_in_reach = 0;
    ENGINE_ASSERT(blocks_are_sound(&cache->pool));
    for (uint32_t s = 0; s < cache->n_sequences; s++) {
        const struct sequence *sequence = &cache->sequences[s];
        check_sequence(cache, sequence);
        n_held += kv_blocks_for(sequence->length);
        n_in_reach += kv_blocks_for(sequence->length) - sequence->first;
    }
    for (uint32_t b = 0; b < cache->pool.n_blocks; b++) n_owners += cache->pool.blocks[b].owners;
    ENGINE_ASSERT(n_owners == n_held);
    ENGINE_ASSERT(!cache->pool.places || kv_window_count_users(cache->pool.places) == n_in_reach);
    return true;
}

void kv_commit(struct kv_cache *cache)
{
    kv_commit_except(cache, NULL);
}

void kv_commit_except(struct kv_cache *cache, const bool *is_pending)
{
    for (uint32_t s = 0; s < cache->n_sequences; s++)
        if (!is_pending || !is_pending[s]) commit_sequence(cache, &cache->sequences[s]);
    ENGINE_ASSERT(is_sound(cache));
}

/* ---- Sequences ---------------------------------------------------------------------------------------- */

void kv_truncate(struct kv_cache *cache, uint32_t s, uint32_t length)
{
    struct sequence *sequence = sequence_at(cache, s);
    if (length >= sequence->length) return;
    cache_cut(cache, sequence, length);
    settle(cache, sequence);
}

void kv_share(struct kv_cache *cache, uint32_t from, uint32_t to, uint32_t length)
{
    const struct sequence *source = sequence_at(cache, from);
    struct sequence *target = sequence_at(cache, to);
    kv_truncate(cache, to, to == from ? length : 0);
    if (to == from) return;
    if (length > source->length) length = source->length;
    for (uint32_t i = 0; i < kv_blocks_for(length); i++) {
        target->blocks[i] = source->blocks[i];
        blocks_own(&cache->pool, target->blocks[i]);
    }
    uint32_t n_full = length / KV_BLOCK_SIZE;
    target->length = length;
    target->first = kv_blocks_for(length);
    target->n_known = source->n_known < n_full ? source->n_known : n_full;
    target->growth = 0;
    settle_from(cache, target, from);
}

bool kv_restore(struct kv_cache *cache, uint32_t s, const int32_t *tokens, uint32_t n_tokens, uint32_t *first)
{
    struct sequence *sequence = sequence_at(cache, s);
    uint32_t n = kv_blocks_for(n_tokens);
    if (cache->pool.places) {
        uint32_t room = kv_window_free_count(cache->pool.places);
        if (n > room && *first < n - room) *first = n - room;
        if (*first > reach_of(cache, n_tokens, 0)) return false;
        sequence->first = *first;
    }
    uint32_t done = 0;
    while (done < n_tokens && kv_append(cache, s, tokens[done]) >= 0) done++;
    if (sequence->first > kv_blocks_for(done)) sequence->first = kv_blocks_for(done);
    return done == n_tokens;
}

uint32_t kv_common(const struct kv_cache *cache, uint32_t s, const int32_t *tokens, uint32_t n_tokens)
{
    const struct sequence *sequence = sequence_at(cache, s);
    uint32_t i = 0, most = sequence->length < n_tokens ? sequence->length : n_tokens;
    while (i < most &&
           blocks_tokens(&cache->pool, sequence->blocks[i / KV_BLOCK_SIZE])[i % KV_BLOCK_SIZE] == tokens[i])
        i++;
    return i;
}

/* kv_reuse with states: the longest known beginning of any sequence. */
static uint32_t reuse_state(struct kv_cache *cache, uint32_t s, const int32_t *tokens, uint32_t n_tokens)
{
    uint32_t best = s, most = 0;
    for (uint32_t i = 0; i < cache->n_sequences; i++) {
        uint32_t other = (s + i) % cache->n_sequences; /* its own first */
        uint32_t known = kv_states_known(cache->states, other, kv_common(cache, other, tokens, n_tokens));
        if (known <= most) continue;
        best = other;
        most = known;
    }
    kv_share(cache, best, s, most);
    return cache->sequences[s].length;
}

uint32_t kv_reuse(struct kv_cache *cache, uint32_t s, const int32_t *tokens, uint32_t n_tokens)
{
    struct sequence *sequence = sequence_at(cache, s);
    if (n_tokens > cache->n_positions) n_tokens = cache->n_positions;
    if (cache->states) return reuse_state(cache, s, tokens, n_tokens);
    cache_cut(cache, sequence, kv_common(cache, s, tokens, n_tokens));
    give_up_reach(cache, sequence);
    /* Matches continue from the last block in the tree, whether it is the sequence's own or another's. */
    uint32_t i = sequence->n_known;
    int32_t last = i > 0 ? sequence->blocks[i - 1] : NO_BLOCK;
    while ((i + 1) * KV_BLOCK_SIZE <= n_tokens) {
        int32_t b = blocks_find(&cache->pool, last, tokens + (size_t)i * KV_BLOCK_SIZE);
        if (b == NO_BLOCK) break;
        cache_cut(cache, sequence, i * KV_BLOCK_SIZE);
        blocks_own(&cache->pool, b);
        sequence->blocks[i++] = last = b;
        sequence->length = i * KV_BLOCK_SIZE;
        sequence->n_known = sequence->first = i;
    }
    settle(cache, sequence);
    return sequence->length;
}

void kv_tokens(const struct kv_cache *cache, uint32_t s, uint32_t first, uint32_t count, int32_t *tokens)
{
    const struct sequence *sequence = sequence_at(cache, s);
    ENGINE_ASSERT(first <= sequence->length && count <= sequence->length - first);
    for (uint32_t i = first; i < first + count; i++)
        *tokens++ = blocks_tokens(&cache->pool, sequence->blocks[i / KV_BLOCK_SIZE])[i % KV_BLOCK_SIZE];
}

const int32_t *kv_blocks(const struct kv_cache *cache, uint32_t sequence)
{
    return sequence_at(cache, sequence)->blocks;
}

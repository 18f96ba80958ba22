/* cache.c: see cache.h. Blocks are in one of three places: owned by sequences, idle (in the tree, without
 * owners), or free. */
#include "kv/cache.h"

#include <stdlib.h>
#include <string.h>

#include "kv/states.h"
#include "kv/window.h"

#define NONE (-1) /* no block */

struct block {
    uint32_t owners;   /* sequences */
    bool is_known;     /* full, computed, and in the tree */
    bool is_generated; /* by few tokens at a time */
    int32_t parent;    /* the block before it, NONE for the first of a text */
    uint32_t n_children;
    uint64_t hash; /* of its tokens and of all before them */
    int32_t next;  /* of the same bucket */
    /* Its neighbours among the idle. */
    int32_t older, newer;
};

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
    uint32_t n_blocks;
    struct block *blocks; /* [n_blocks] */
    int32_t *tokens;      /* [n_blocks, KV_BLOCK_SIZE] */
    int32_t *free;        /* [n_blocks] stack of free blocks; the last one is given next */
    uint32_t n_free;
    int32_t oldest, newest; /* of the idle */
    uint32_t n_idle;
    int32_t *buckets; /* [n_buckets] of the tree's blocks, by hash */
    uint32_t n_buckets;
    uint64_t seed;
    uint64_t variant;       /* changes the hashes of first blocks, see kv_set_variant */
    uint32_t *appenders;    /* [n_blocks] zeros between calls of kv_needed */
    struct kv_copy *copies; /* [n_sequences] */
    size_t n_copies;
    uint32_t window;          /* positions; 0: no layer has one */
    struct kv_window *places; /* NULL: no layer has a window */
    struct kv_states *states; /* NULL: the model has none */
};

/* ---- Beginning and end -------------------------------------------------------------------------------- */

static bool allocate(struct kv_cache *cache, uint32_t max_blocks)
{
    size_t n_blocks = cache->n_blocks, n_sequences = cache->n_sequences;
    for (cache->n_buckets = 1; cache->n_buckets < n_blocks;) cache->n_buckets *= 2;
    cache->sequences = calloc(n_sequences, sizeof *cache->sequences);
    cache->tables = calloc(n_sequences * max_blocks, sizeof *cache->tables);
    cache->blocks = calloc(n_blocks, sizeof *cache->blocks);
    cache->tokens = calloc(n_blocks * KV_BLOCK_SIZE, sizeof *cache->tokens);
    cache->free = calloc(n_blocks, sizeof *cache->free);
    cache->buckets = calloc(cache->n_buckets, sizeof *cache->buckets);
    cache->appenders = calloc(n_blocks, sizeof *cache->appenders);
    cache->copies = calloc(n_sequences, sizeof *cache->copies);
    return cache->sequences && cache->tables && cache->blocks && cache->tokens && cache->free &&
           cache->buckets && cache->appenders && cache->copies;
}

struct kv_cache *kv_create(uint32_t n_sequences, uint32_t n_positions, uint32_t n_blocks)
{
    struct kv_cache *cache = calloc(1, sizeof *cache);
    uint32_t max_blocks = kv_blocks_for(n_positions);
    if (!cache) return NULL;
    cache->n_sequences = n_sequences;
    cache->n_positions = n_positions;
    cache->n_blocks = cache->n_free = n_blocks;
    cache->oldest = cache->newest = NONE;
    cache->seed = (uint64_t)(uintptr_t)cache; /* so that nobody can craft texts that share a bucket */
    if (n_blocks > INT32_MAX / KV_BLOCK_SIZE || !allocate(cache, max_blocks)) {
        kv_destroy(cache);
        return NULL;
    }
    for (uint32_t s = 0; s < n_sequences; s++)
        cache->sequences[s].blocks = cache->tables + (size_t)s * max_blocks;
    for (uint32_t i = 0; i < n_blocks; i++) cache->free[i] = (int32_t)(n_blocks - 1 - i);
    for (uint32_t i = 0; i < cache->n_buckets; i++) cache->buckets[i] = NONE;
    return cache;
}

bool kv_add_window(struct kv_cache *cache, uint32_t window, uint32_t n_places)
{
    cache->window = window;
    cache->places = kv_window_create(cache->n_blocks, n_places);
    return cache->places != NULL;
}

bool kv_add_states(struct kv_cache *cache)
{
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
    kv_window_destroy(cache->places);
    kv_states_destroy(cache->states);
    free(cache->sequences);
    free(cache->tables);
    free(cache->blocks);
    free(cache->tokens);
    free(cache->free);
    free(cache->buckets);
    free(cache->appenders);
    free(cache->copies);
    free(cache);
}

/* ---- The tree ----------------------------------------------------------------------------------------- */

static int32_t *tokens_of(const struct kv_cache *cache, int32_t block)
{
    return cache->tokens + (size_t)block * KV_BLOCK_SIZE;
}

static uint64_t hash_tokens(const struct kv_cache *cache, int32_t parent, const int32_t *tokens)
{
    uint64_t hash = parent == NONE ? cache->seed ^ cache->variant : cache->blocks[parent].hash;
    for (int i = 0; i < KV_BLOCK_SIZE; i++) {
        hash = (hash ^ (uint32_t)tokens[i]) * 0x9e3779b97f4a7c15u;
        hash ^= hash >> 32;
    }
    return hash;
}

void kv_set_variant(struct kv_cache *cache, uint64_t variant)
{
    cache->variant = variant;
}

static int32_t *bucket_of(const struct kv_cache *cache, uint64_t hash)
{
    return &cache->buckets[hash & (cache->n_buckets - 1)];
}

/* The tree's block with these tokens after `parent`, or NONE. */
static int32_t find(const struct kv_cache *cache, int32_t parent, const int32_t *tokens)
{
    uint64_t hash = hash_tokens(cache, parent, tokens);
    int32_t b = *bucket_of(cache, hash);
    for (; b != NONE; b = cache->blocks[b].next) {
        const struct block *block = &cache->blocks[b];
        if (block->hash == hash && block->parent == parent &&
            memcmp(tokens_of(cache, b), tokens, KV_BLOCK_SIZE * sizeof *tokens) == 0)
            break;
    }
    return b;
}

static void insert(struct kv_cache *cache, int32_t b, int32_t parent)
{
    struct block *block = &cache->blocks[b];
    block->is_known = true;
    block->parent = parent;
    block->n_children = 0;
    block->hash = hash_tokens(cache, parent, tokens_of(cache, b));
    if (parent != NONE) cache->blocks[parent].n_children++;
    int32_t *bucket = bucket_of(cache, block->hash);
    block->next = *bucket;
    *bucket = b;
}

/* Takes a block without children out of the tree. */
static void take_out(struct kv_cache *cache, int32_t b)
{
    struct block *block = &cache->blocks[b];
    int32_t *link = bucket_of(cache, block->hash);
    while (*link != b) link = &cache->blocks[*link].next;
    *link = block->next;
    if (block->parent != NONE) cache->blocks[block->parent].n_children--;
    block->is_known = false;
}

/* ---- Owners ------------------------------------------------------------------------------------------- */

static void add_idle(struct kv_cache *cache, int32_t b)
{
    struct block *block = &cache->blocks[b];
    block->older = cache->newest;
    block->newer = NONE;
    if (cache->newest != NONE)
        cache->blocks[cache->newest].newer = b;
    else
        cache->oldest = b;
    cache->newest = b;
    cache->n_idle++;
}

static void remove_idle(struct kv_cache *cache, int32_t b)
{
    const struct block *block = &cache->blocks[b];
    if (block->older != NONE)
        cache->blocks[block->older].newer = block->newer;
    else
        cache->oldest = block->newer;
    if (block->newer != NONE)
        cache->blocks[block->newer].older = block->older;
    else
        cache->newest = block->older;
    cache->n_idle--;
}

/* Adds an owner to a block that is in the tree or has an owner. */
static void own(struct kv_cache *cache, int32_t b)
{
    if (cache->blocks[b].owners++ == 0) remove_idle(cache, b);
}

/* Sequences release their last blocks first, so idle children are older than their parents. */
static void release(struct kv_cache *cache, int32_t b)
{
    struct block *block = &cache->blocks[b];
    if (--block->owners > 0) return;
    if (block->is_known) {
        add_idle(cache, b);
    } else {
        if (cache->places) kv_window_drop(cache->places, b);
        cache->free[cache->n_free++] = b;
    }
}

/* A block with one owner and no contents; NONE: all have owners. */
static int32_t take(struct kv_cache *cache)
{
    int32_t b = NONE;
    if (cache->n_free > 0) {
        b = cache->free[--cache->n_free];
    } else if (cache->n_idle > 0) {
        b = cache->oldest;
        remove_idle(cache, b);
        take_out(cache, b);
        if (cache->places) kv_window_drop(cache->places, b);
    }
    if (b != NONE) cache->blocks[b].owners = 1;
    return b;
}

/* The same with a place in the window pool, in reach of one sequence. */
static int32_t take_with_place(struct kv_cache *cache)
{
    int32_t b = take(cache);
    if (b == NONE || !cache->places || kv_window_take(cache->places, b)) return b;
    release(cache, b);
    return NONE;
}

uint32_t kv_free_count(const struct kv_cache *cache)
{
    return cache->n_free + cache->n_idle;
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
    return kv_window_place(cache->places, b) != KV_NO_PLACE;
}

/* The longest beginning of a sequence, of at most `length` positions, that can be continued: all blocks in
 * its reach still have their places. */
static uint32_t continuable(const struct kv_cache *cache, const struct sequence *sequence, uint32_t length)
{
    while (cache->places && length > 0) {
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
    if (!cache->places) return;
    uint32_t first = reach_of(cache, sequence->length, KV_REWIND);
    while (sequence->first > first && has_place(cache, sequence->blocks[sequence->first - 1]))
        kv_window_enter(cache->places, sequence->blocks[--sequence->first]);
    for (; sequence->first < first; sequence->first++) {
        int32_t b = sequence->blocks[sequence->first];
        if (cache->blocks[b].is_generated)
            kv_window_pass(cache->places, b);
        else
            kv_window_leave(cache->places, b);
    }
}

/* Has nothing in reach any more. */
static void give_up_reach(struct kv_cache *cache, struct sequence *sequence)
{
    if (!cache->places) return;
    uint32_t n = kv_blocks_for(sequence->length);
    for (uint32_t i = n; i > sequence->first; i--) kv_window_leave(cache->places, sequence->blocks[i - 1]);
    sequence->first = n;
}

/* Forgets the positions from `length` on, whether the rest can be continued or not. */
static void cut(struct kv_cache *cache, struct sequence *sequence, uint32_t length)
{
    if (length >= sequence->length) return;
    for (uint32_t i = kv_blocks_for(sequence->length); i > kv_blocks_for(length); i--) {
        if (cache->places && i > sequence->first) kv_window_leave(cache->places, sequence->blocks[i - 1]);
        release(cache, sequence->blocks[i - 1]);
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
        cut(cache, sequence, continuable(cache, sequence, before));
        if (cache->states) cut(cache, sequence, kv_states_known(cache->states, from, sequence->length));
    } while (sequence->length != before);
    if (cache->states && !kv_states_go(cache->states, from, number_of(cache, sequence), sequence->length)) {
        cut(cache, sequence, 0);
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
    return kv_window_place(cache->places, slot / KV_BLOCK_SIZE) * KV_BLOCK_SIZE + slot % KV_BLOCK_SIZE;
}

void kv_window_table(const struct kv_cache *cache, uint32_t s, int32_t *table)
{
    const struct sequence *sequence = &cache->sequences[s];
    for (uint32_t i = sequence->first; i < kv_blocks_for(sequence->length); i++)
        table[i] = kv_window_place(cache->places, sequence->blocks[i]);
}

uint32_t kv_window_first(const struct kv_cache *cache, uint32_t s)
{
    const struct sequence *sequence = &cache->sequences[s];
    uint32_t i = cache->places ? sequence->first : 0;
    while (i > 0 && has_place(cache, sequence->blocks[i - 1])) i--;
    return i;
}

uint32_t kv_window_required(const struct kv_cache *cache, uint32_t length)
{
    return cache->places ? reach_of(cache, length, 0) : 0;
}

/* ---- Growing ------------------------------------------------------------------------------------------ */

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
        needed += cache->appenders[b] < cache->blocks[b].owners;
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
    return cache->sequences[sequence].length;
}

/* Gives a sequence that continues inside block i a copy of it, unless nobody else needs the block. */
static bool make_own(struct kv_cache *cache, uint32_t s, uint32_t i)
{
    struct sequence *sequence = &cache->sequences[s];
    int32_t b = sequence->blocks[i];
    struct block *block = &cache->blocks[b];
    if (block->owners > 1 || is_kept(block)) {
        int32_t copy = take_with_place(cache);
        if (copy == NONE) return false;
        memcpy(tokens_of(cache, copy), tokens_of(cache, b), KV_BLOCK_SIZE * sizeof *cache->tokens);
        struct kv_copy *made = &cache->copies[cache->n_copies++];
        *made = (struct kv_copy){.from = b, .to = copy, .sequence = s};
        if (cache->places) {
            made->window_from = kv_window_place(cache->places, b);
            made->window_to = kv_window_place(cache->places, copy);
            kv_window_leave(cache->places, b);
        }
        sequence->blocks[i] = copy;
        release(cache, b);
    } else if (block->is_known) {
        take_out(cache, b);
    }
    return true;
}

int32_t kv_append(struct kv_cache *cache, uint32_t s, int32_t token)
{
    struct sequence *sequence = &cache->sequences[s];
    uint32_t position = sequence->length, i = position / KV_BLOCK_SIZE, place = position % KV_BLOCK_SIZE;
    if (position >= cache->n_positions) return -1;
    if (place == 0) {
        int32_t b = i < sequence->first ? take(cache) : take_with_place(cache);
        if (b == NONE) return -1;
        sequence->blocks[i] = b;
    } else if (!make_own(cache, s, i)) {
        return -1;
    }
    int32_t b = sequence->blocks[i];
    tokens_of(cache, b)[place] = token;
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
static bool replace(struct kv_cache *cache, struct sequence *sequence, uint32_t i, int32_t same)
{
    int32_t b = sequence->blocks[i];
    if (cache->places && i >= sequence->first) {
        if (has_place(cache, same)) {
            kv_window_enter(cache->places, same);
            kv_window_leave(cache->places, b);
        } else if (kv_window_users(cache->places, b) == 1) {
            kv_window_move(cache->places, b, same);
        } else {
            return false;
        }
    }
    own(cache, same);
    release(cache, b);
    sequence->blocks[i] = same;
    return true;
}

static void commit_sequence(struct kv_cache *cache, struct sequence *sequence)
{
    bool generated = sequence->length < sequence->n_seen + KV_PROMPT_PIECE;
    sequence->n_seen = sequence->length;
    for (; sequence->n_known < sequence->length / KV_BLOCK_SIZE; sequence->n_known++) {
        uint32_t i = sequence->n_known;
        int32_t b = sequence->blocks[i], parent = i > 0 ? sequence->blocks[i - 1] : NONE;
        int32_t same = find(cache, parent, tokens_of(cache, b));
        if (same == NONE)
            insert(cache, b, parent);
        else if (same != b && !replace(cache, sequence, i, same))
            break;
        struct block *block = &cache->blocks[sequence->blocks[i]];
        block->is_generated = generated && (same == NONE || block->is_generated);
    }
    adjust_reach(cache, sequence);
    if (cache->states) kv_states_reached(cache->states, number_of(cache, sequence), sequence->length);
}

void kv_commit(struct kv_cache *cache)
{
    for (uint32_t s = 0; s < cache->n_sequences; s++) commit_sequence(cache, &cache->sequences[s]);
}

/* ---- Sequences ---------------------------------------------------------------------------------------- */

void kv_truncate(struct kv_cache *cache, uint32_t s, uint32_t length)
{
    struct sequence *sequence = &cache->sequences[s];
    if (length >= sequence->length) return;
    cut(cache, sequence, length);
    settle(cache, sequence);
}

void kv_share(struct kv_cache *cache, uint32_t from, uint32_t to, uint32_t length)
{
    const struct sequence *source = &cache->sequences[from];
    struct sequence *target = &cache->sequences[to];
    kv_truncate(cache, to, to == from ? length : 0);
    if (to == from) return;
    if (length > source->length) length = source->length;
    for (uint32_t i = 0; i < kv_blocks_for(length); i++) {
        target->blocks[i] = source->blocks[i];
        own(cache, target->blocks[i]);
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
    struct sequence *sequence = &cache->sequences[s];
    uint32_t n = kv_blocks_for(n_tokens);
    if (cache->places) {
        uint32_t room = kv_window_free_count(cache->places);
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
    const struct sequence *sequence = &cache->sequences[s];
    uint32_t i = 0, most = sequence->length < n_tokens ? sequence->length : n_tokens;
    while (i < most && tokens_of(cache, sequence->blocks[i / KV_BLOCK_SIZE])[i % KV_BLOCK_SIZE] == tokens[i])
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
    struct sequence *sequence = &cache->sequences[s];
    if (n_tokens > cache->n_positions) n_tokens = cache->n_positions;
    if (cache->states) return reuse_state(cache, s, tokens, n_tokens);
    cut(cache, sequence, kv_common(cache, s, tokens, n_tokens));
    give_up_reach(cache, sequence);
    /* Matches continue from the last block in the tree, whether it is the sequence's own or another's. */
    uint32_t i = sequence->n_known;
    int32_t last = i > 0 ? sequence->blocks[i - 1] : NONE;
    while ((i + 1) * KV_BLOCK_SIZE <= n_tokens) {
        int32_t b = find(cache, last, tokens + (size_t)i * KV_BLOCK_SIZE);
        if (b == NONE) break;
        cut(cache, sequence, i * KV_BLOCK_SIZE);
        own(cache, b);
        sequence->blocks[i++] = last = b;
        sequence->length = i * KV_BLOCK_SIZE;
        sequence->n_known = sequence->first = i;
    }
    settle(cache, sequence);
    return sequence->length;
}

void kv_tokens(const struct kv_cache *cache, uint32_t s, uint32_t first, uint32_t count, int32_t *tokens)
{
    const struct sequence *sequence = &cache->sequences[s];
    for (uint32_t i = first; i < first + count; i++)
        *tokens++ = tokens_of(cache, sequence->blocks[i / KV_BLOCK_SIZE])[i % KV_BLOCK_SIZE];
}

const int32_t *kv_blocks(const struct kv_cache *cache, uint32_t sequence)
{
    return cache->sequences[sequence].blocks;
}

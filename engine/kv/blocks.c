/* blocks.c: the blocks of the cache that sequences share, and the places that they have in the storage of
 * layers with a window. Called by cache.c; internal.h says what is what. */
#include <stdlib.h>
#include <string.h>

#include "common/assert.h"
#include "kv/internal.h"

/* ---- Orders -------------------------------------------------------------------------------------------- */

static bool order_create(struct order *order, uint32_t n_blocks)
{
    *order = (struct order){malloc(n_blocks * sizeof *order->links), NO_BLOCK, NO_BLOCK, 0};
    for (uint32_t b = 0; b < n_blocks && order->links; b++)
        order->links[b] = (struct order_link){NO_BLOCK, NO_BLOCK};
    return order->links != NULL;
}

static bool order_has(const struct order *order, int32_t block)
{
    const struct order_link *link = &order->links[block];
    int32_t before = link->older == NO_BLOCK ? order->oldest : order->links[link->older].newer;
    int32_t behind = link->newer == NO_BLOCK ? order->newest : order->links[link->newer].older;
    return before == block && behind == block;
}

/* Makes two neighbours of each other, either of which may be the end of the order. */
static void order_join(struct order *order, int32_t older, int32_t newer)
{
    if (older != NO_BLOCK)
        order->links[older].newer = newer;
    else
        order->oldest = newer;
    if (newer != NO_BLOCK)
        order->links[newer].older = older;
    else
        order->newest = older;
}

static void order_add(struct order *order, int32_t older, int32_t block, int32_t newer)
{
    ENGINE_ASSERT(!order_has(order, block));
    order_join(order, older, block);
    order_join(order, block, newer);
    order->n++;
}

static void order_add_newest(struct order *order, int32_t block)
{
    order_add(order, order->newest, block, NO_BLOCK);
}

static void order_add_oldest(struct order *order, int32_t block)
{
    order_add(order, NO_BLOCK, block, order->oldest);
}

static void order_remove(struct order *order, int32_t block)
{
    ENGINE_ASSERT(order_has(order, block));
    ENGINE_ASSERT(order->n > 0);
    order_join(order, order->links[block].older, order->links[block].newer);
    order->n--;
}

/* ---- Beginning and end -------------------------------------------------------------------------------- */

bool blocks_create(struct block_pool *pool, uint32_t n_blocks)
{
    pool->n_blocks = pool->n_open = pool->n_free = n_blocks;
    pool->seed = (uint64_t)(uintptr_t)pool; /* so that nobody can craft texts that share a bucket */
    for (pool->n_buckets = 1; pool->n_buckets < n_blocks;) pool->n_buckets *= 2;
    pool->blocks = calloc(n_blocks, sizeof *pool->blocks);
    pool->tokens = calloc((size_t)n_blocks * KV_BLOCK_SIZE, sizeof *pool->tokens);
    pool->free = calloc(n_blocks, sizeof *pool->free);
    pool->buckets = calloc(pool->n_buckets, sizeof *pool->buckets);
    if (!order_create(&pool->idle, n_blocks) || !pool->blocks || !pool->tokens || !pool->free ||
        !pool->buckets)
        return false;
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
    ENGINE_ASSERT(block >= 0 && (uint32_t)block < pool->n_blocks);
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
    ENGINE_ASSERT(!block->is_known);
    ENGINE_ASSERT(parent == NO_BLOCK || pool->blocks[parent].is_known);
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
    ENGINE_ASSERT(block->is_known);
    ENGINE_ASSERT(block->n_children == 0);
    int32_t *link = bucket_of(pool, block->hash);
    while (*link != b) link = &pool->blocks[*link].next;
    *link = block->next;
    if (block->parent != NO_BLOCK) pool->blocks[block->parent].n_children--;
    block->is_known = false;
}

/* ---- Owners ------------------------------------------------------------------------------------------- */

void blocks_own(struct block_pool *pool, int32_t b)
{
    ENGINE_ASSERT(pool->blocks[b].owners > 0 || pool->blocks[b].is_known);
    if (pool->blocks[b].owners++ == 0) order_remove(&pool->idle, b);
}

void blocks_release(struct block_pool *pool, int32_t b)
{
    struct block *block = &pool->blocks[b];
    ENGINE_ASSERT(block->owners > 0);
    if (--block->owners > 0) return;
    if (block->is_known) {
        order_add_newest(&pool->idle, b);
    } else {
        if (pool->places) kv_window_drop(pool->places, b);
        ENGINE_ASSERT(pool->n_free < pool->n_blocks);
        pool->free[pool->n_free++] = b;
    }
}

int32_t blocks_take(struct block_pool *pool)
{
    int32_t b = NO_BLOCK;
    if (pool->n_free > 0) {
        b = pool->free[--pool->n_free];
        if (pool->n_open - pool->n_free > pool->n_written) pool->n_written = pool->n_open - pool->n_free;
    } else if (pool->idle.n > 0) {
        b = pool->idle.oldest;
        order_remove(&pool->idle, b);
        blocks_take_out(pool, b);
        if (pool->places) kv_window_drop(pool->places, b);
    }
    if (b == NO_BLOCK) return b;
    ENGINE_ASSERT(pool->blocks[b].owners == 0);
    ENGINE_ASSERT(!pool->blocks[b].is_known);
    pool->blocks[b].owners = 1;
    return b;
}

bool blocks_are_sound(const struct block_pool *pool)
{
    uint32_t n_owned = 0, n_children = 0, n_with_parents = 0;
    for (uint32_t b = 0; b < pool->n_blocks; b++) {
        const struct block *block = &pool->blocks[b];
        n_owned += block->owners > 0;
        if (!block->is_known) continue;
        n_children += block->n_children;
        if (block->parent == NO_BLOCK) continue;
        n_with_parents++;
        ENGINE_ASSERT(pool->blocks[block->parent].is_known);
        ENGINE_ASSERT(pool->blocks[block->parent].n_children > 0);
    }
    for (uint32_t i = 0; i < pool->n_free; i++) {
        const struct block *block = &pool->blocks[pool->free[i]];
        ENGINE_ASSERT(block->owners == 0 && !block->is_known);
    }
    uint32_t n_idle = 0;
    for (int32_t b = pool->idle.oldest; b != NO_BLOCK; b = pool->idle.links[b].newer) {
        ENGINE_ASSERT(pool->blocks[b].owners == 0 && pool->blocks[b].is_known);
        n_idle++;
    }
    ENGINE_ASSERT(n_idle == pool->idle.n);
    ENGINE_ASSERT(n_owned + n_idle + pool->n_free == pool->n_open);
    ENGINE_ASSERT(n_children == n_with_parents);
    return true;
}

/* ---- Places of layers with a window -------------------------------------------------------------------- */

struct member {
    int32_t place;
    uint32_t users;
};

struct kv_window {
    uint32_t n_blocks, n_places;
    struct member *members; /* [n_blocks] */
    int32_t *free;          /* [n_places] stack of free places; the last one is given next */
    uint32_t n_free;
    struct order unused; /* the oldest loses its place first */
};

struct kv_window *kv_window_create(uint32_t n_blocks, uint32_t n_places)
{
    struct kv_window *window = calloc(1, sizeof *window);
    if (!window) return NULL;
    window->members = calloc(n_blocks, sizeof *window->members);
    window->free = calloc(n_places, sizeof *window->free);
    if (!order_create(&window->unused, n_blocks) || !window->members || !window->free) {
        kv_window_destroy(window);
        return NULL;
    }
    for (uint32_t b = 0; b < n_blocks; b++) window->members[b].place = KV_NO_PLACE;
    for (uint32_t i = 0; i < n_places; i++) window->free[i] = (int32_t)(n_places - 1 - i);
    window->n_blocks = n_blocks;
    window->n_places = window->n_free = n_places;
    return window;
}

void kv_window_destroy(struct kv_window *window)
{
    if (!window) return;
    free(window->members);
    free(window->free);
    free(window->unused.links);
    free(window);
}

int32_t kv_window_place(const struct kv_window *window, int32_t block)
{
    return window->members[block].place;
}

uint32_t kv_window_users(const struct kv_window *window, int32_t block)
{
    return window->members[block].users;
}

uint32_t kv_window_free_count(const struct kv_window *window)
{
    return window->n_free + window->unused.n;
}

bool kv_window_take(struct kv_window *window, int32_t block)
{
    if (window->n_free == 0 && window->unused.n > 0) kv_window_drop(window, window->unused.oldest);
    if (window->n_free == 0) return false;
    ENGINE_ASSERT(window->members[block].place == KV_NO_PLACE);
    ENGINE_ASSERT(window->members[block].users == 0);
    window->members[block].place = window->free[--window->n_free];
    window->members[block].users = 1;
    return true;
}

void kv_window_enter(struct kv_window *window, int32_t block)
{
    ENGINE_ASSERT(window->members[block].place != KV_NO_PLACE);
    if (window->members[block].users++ == 0) order_remove(&window->unused, block);
}

void kv_window_leave(struct kv_window *window, int32_t block)
{
    ENGINE_ASSERT(window->members[block].users > 0);
    if (--window->members[block].users == 0) order_add_newest(&window->unused, block);
}

void kv_window_pass(struct kv_window *window, int32_t block)
{
    ENGINE_ASSERT(window->members[block].users > 0);
    if (--window->members[block].users == 0) order_add_oldest(&window->unused, block);
}

void kv_window_move(struct kv_window *window, int32_t from, int32_t to)
{
    ENGINE_ASSERT(window->members[from].place != KV_NO_PLACE);
    ENGINE_ASSERT(window->members[to].place == KV_NO_PLACE);
    window->members[to].place = window->members[from].place;
    window->members[to].users = window->members[from].users;
    window->members[from].place = KV_NO_PLACE;
    window->members[from].users = 0;
}

void kv_window_drop(struct kv_window *window, int32_t block)
{
    struct member *member = &window->members[block];
    if (member->place == KV_NO_PLACE) return;
    ENGINE_ASSERT(member->users == 0);
    ENGINE_ASSERT(window->n_free < window->n_places);
    order_remove(&window->unused, block);
    window->free[window->n_free++] = member->place;
    member->place = KV_NO_PLACE;
}

uint64_t kv_window_count_users(const struct kv_window *window)
{
    uint64_t n_users = 0;
    uint32_t n_used = 0;
    for (uint32_t b = 0; b < window->n_blocks; b++) {
        const struct member *member = &window->members[b];
        ENGINE_ASSERT(member->users == 0 || member->place != KV_NO_PLACE);
        ENGINE_ASSERT(member->place < (int32_t)window->n_places);
        n_users += member->users;
        n_used += member->users > 0;
    }
    ENGINE_ASSERT(n_used + window->unused.n + window->n_free == window->n_places);
    return n_users;
}

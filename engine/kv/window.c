/* window.c: see window.h. A place is free, or belongs to one block. Blocks with a place but without users are
 * in a list, in the order in which they lose it. */
#include "kv/window.h"

#include <stdlib.h>

#include "kv/order.h"

struct member {
    int32_t place;
    uint32_t users;
};

struct kv_window {
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
    window->unused = (struct order){calloc(n_blocks, sizeof *window->unused.links), NO_BLOCK, NO_BLOCK, 0};
    if (!window->members || !window->free || !window->unused.links) {
        kv_window_destroy(window);
        return NULL;
    }
    for (uint32_t b = 0; b < n_blocks; b++) window->members[b].place = KV_NO_PLACE;
    for (uint32_t i = 0; i < n_places; i++) window->free[i] = (int32_t)(n_places - 1 - i);
    window->n_free = n_places;
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
    window->members[block].place = window->free[--window->n_free];
    window->members[block].users = 1;
    return true;
}

void kv_window_enter(struct kv_window *window, int32_t block)
{
    if (window->members[block].users++ == 0) order_remove(&window->unused, block);
}

void kv_window_leave(struct kv_window *window, int32_t block)
{
    if (--window->members[block].users == 0) order_add_newest(&window->unused, block);
}

void kv_window_pass(struct kv_window *window, int32_t block)
{
    if (--window->members[block].users == 0) order_add_oldest(&window->unused, block);
}

void kv_window_move(struct kv_window *window, int32_t from, int32_t to)
{
    window->members[to].place = window->members[from].place;
    window->members[to].users = window->members[from].users;
    window->members[from].place = KV_NO_PLACE;
    window->members[from].users = 0;
}

void kv_window_drop(struct kv_window *window, int32_t block)
{
    struct member *member = &window->members[block];
    if (member->place == KV_NO_PLACE) return;
    order_remove(&window->unused, block);
    window->free[window->n_free++] = member->place;
    member->place = KV_NO_PLACE;
}

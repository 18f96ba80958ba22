/* window.c: see window.h. A place is free, or belongs to one block. Blocks with a place but without users are
 * in a list, in the order in which they lose it. */
#include "kv/window.h"

#include <stdlib.h>

#define NONE (-1) /* no block */

struct member {
    int32_t place;
    uint32_t users;
    int32_t older, newer; /* its neighbours in the list; the oldest loses its place first */
};

struct kv_window {
    struct member *members; /* [n_blocks] */
    int32_t *free;          /* [n_places] stack of free places; the last one is given next */
    uint32_t n_free;
    int32_t oldest, newest; /* of the list */
    uint32_t n_unused;      /* its length */
};

struct kv_window *kv_window_create(uint32_t n_blocks, uint32_t n_places)
{
    struct kv_window *window = calloc(1, sizeof *window);
    if (!window) return NULL;
    window->members = calloc(n_blocks, sizeof *window->members);
    window->free = calloc(n_places, sizeof *window->free);
    if (!window->members || !window->free) {
        kv_window_destroy(window);
        return NULL;
    }
    for (uint32_t b = 0; b < n_blocks; b++) window->members[b].place = KV_NO_PLACE;
    for (uint32_t i = 0; i < n_places; i++) window->free[i] = (int32_t)(n_places - 1 - i);
    window->n_free = n_places;
    window->oldest = window->newest = NONE;
    return window;
}

void kv_window_destroy(struct kv_window *window)
{
    if (!window) return;
    free(window->members);
    free(window->free);
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
    return window->n_free + window->n_unused;
}

static void add_unused(struct kv_window *window, int32_t block)
{
    struct member *member = &window->members[block];
    member->older = window->newest;
    member->newer = NONE;
    if (window->newest != NONE)
        window->members[window->newest].newer = block;
    else
        window->oldest = block;
    window->newest = block;
    window->n_unused++;
}

static void add_as_oldest(struct kv_window *window, int32_t block)
{
    struct member *member = &window->members[block];
    member->older = NONE;
    member->newer = window->oldest;
    if (window->oldest != NONE)
        window->members[window->oldest].older = block;
    else
        window->newest = block;
    window->oldest = block;
    window->n_unused++;
}

static void remove_unused(struct kv_window *window, int32_t block)
{
    const struct member *member = &window->members[block];
    if (member->older != NONE)
        window->members[member->older].newer = member->newer;
    else
        window->oldest = member->newer;
    if (member->newer != NONE)
        window->members[member->newer].older = member->older;
    else
        window->newest = member->older;
    window->n_unused--;
}

bool kv_window_take(struct kv_window *window, int32_t block)
{
    if (window->n_free == 0 && window->oldest != NONE) kv_window_drop(window, window->oldest);
    if (window->n_free == 0) return false;
    window->members[block].place = window->free[--window->n_free];
    window->members[block].users = 1;
    return true;
}

void kv_window_enter(struct kv_window *window, int32_t block)
{
    if (window->members[block].users++ == 0) remove_unused(window, block);
}

void kv_window_leave(struct kv_window *window, int32_t block)
{
    if (--window->members[block].users == 0) add_unused(window, block);
}

void kv_window_pass(struct kv_window *window, int32_t block)
{
    if (--window->members[block].users == 0) add_as_oldest(window, block);
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
    remove_unused(window, block);
    window->free[window->n_free++] = member->place;
    member->place = KV_NO_PLACE;
}

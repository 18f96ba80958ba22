/* window.h: the second pool of the cache: storage of the layers with a window. They need fewer blocks than
 * other layers, because nothing reads positions that have left the window. A block of cache.h may have a
 * place in this pool. The place stays while a sequence has the block in reach, and after that until another block
 * needs it: first those that were given up for good (kv_window_pass), then the least recently used. Only
 * cache.c uses this. */
#ifndef ENGINE_KV_WINDOW_H
#define ENGINE_KV_WINDOW_H

#include <stdbool.h>
#include <stdint.h>

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

#endif

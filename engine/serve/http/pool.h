/* pool.h: worker threads with a line of work before them. */
#ifndef ENGINE_SERVE_HTTP_POOL_H
#define ENGINE_SERVE_HTTP_POOL_H

#include <stdbool.h>
#include <stddef.h>

struct pool;

/* `most` pieces of work may wait. Returns an enum engine_status, with command_error's message. */
int pool_create(size_t n_threads, size_t most, struct pool **pool);
/* Has `run` called by a worker. False: too much is waiting, unless `always`. */
bool pool_add(struct pool *pool, void (*run)(void *user), void *user, bool always);
/* Waits until all work is done. */
void pool_destroy(struct pool *pool);

#endif

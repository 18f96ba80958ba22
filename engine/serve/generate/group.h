/* group.h: the requests that an exchange makes to its model's queue: as many at once as it takes, the next
 * when one is done. A group lives until each request that was submitted has had its last event; whichever
 * thread takes that ends the exchange. If the client goes away, the requests are cancelled, which takes at
 * most a token's time. */
#ifndef ENGINE_SERVE_GENERATE_GROUP_H
#define ENGINE_SERVE_GENERATE_GROUP_H

#include <pthread.h>
#include <stdatomic.h>

#include "serve/generate/mistake.h"
#include "serve/http/exchange.h"

struct group;

struct group_member {
    struct group *group;
    atomic_ullong id; /* of the queue's request; 0: not submitted yet */
};

/* The first member of a struct that is freed by `finish`. */
struct group {
    struct exchange *exchange;
    struct group_member *members; /* [n] */
    size_t n;
    struct api_error error; /* under the lock */

    /* Fills in request `i`, but for its event and user; `sampler` is room for its options. Under the lock. */
    void (*fill)(struct group *group, size_t i, struct engine_request *request,
                 struct engine_sampler_options *sampler);
    /* The queue has taken the first requests: what fails from now on comes as an event. Under the lock; NULL:
     * nothing to do. */
    void (*queued)(struct group *group);
    /* Takes an event of request `i`. Under the lock. */
    void (*take)(struct group *group, size_t i, const struct engine_event *event);
    /* All requests are done, or there is an error: ends the exchange, and then frees the group, which the
     * client's going away may touch until the exchange has ended. */
    void (*finish)(struct group *group);
    /* The field to blame if the queue refuses a request, with its message; NULL: none. */
    const char *(*param)(const struct group *group, const char *message);

    /* group.c's */
    pthread_mutex_t lock;
    size_t n_submitted, n_running;
    atomic_bool gone;
    atomic_size_t n_uses; /* requests without their last event, and the thread that submits them */
};

/* A group of zeroed memory, without members. False: out of memory. */
bool group_init(struct group *group, struct exchange *exchange);
/* Makes room for `n` requests. False: an error. */
bool group_room(struct group *group, size_t n, struct api_error *error);
/* Before group_run, for work that comes first: notices from now on if the client goes away. After
 * group_room. */
void group_watch(struct group *group);
/* Whether it has. */
bool group_is_gone(struct group *group);
/* Submits the requests, unless there is an error. The group and the exchange are no longer the caller's. */
void group_submit(struct group *group);
void group_free(struct group *group);

/* Under the lock: cancels one request. */
void group_cancel(struct group *group, size_t i);
/* Under the lock: what an event that ends a request before its time means for all. */
void group_fail(struct group *group, const struct engine_event *event);
/* Under the lock: the same for another reason. */
void group_fail_with(struct group *group, unsigned status, const char *message);

#endif

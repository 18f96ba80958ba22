/* group.c: the requests that an exchange makes to its model's queue. See generation.h. */
#include "serve/generate/generation.h"

#include <stdlib.h>

#include "common/assert.h"
#include "common/lock.h"
#include "serve/http/http.h"
#include "serve/models/models.h"

#define MAX_RUNNING 64 /* requests that the queue has at once */

bool group_init(struct group *group, struct exchange *exchange)
{
    group->exchange = exchange;
    group->error = api_error_none(exchange);
    return lock_init(&group->lock) == 0;
}

bool group_room(struct group *group, size_t n, struct api_error *error)
{
    group->members = calloc(n, sizeof *group->members);
    if (!group->members) return api_error_memory(error);
    group->n = n;
    for (size_t i = 0; i < n; i++) group->members[i].group = group;
    return true;
}

void group_free(struct group *group)
{
    free(group->members);
    pthread_mutex_destroy(&group->lock);
}

/* ---- What goes wrong ---- */

void group_cancel(struct group *group, size_t i)
{
    uint64_t id = atomic_load(&group->members[i].id);
    if (id) served_cancel(exchange_model(group->exchange), id); /* it may have ended meanwhile */
}

static void cancel_all(struct group *group)
{
    for (size_t i = 0; i < group->n; i++) group_cancel(group, i);
}

void group_fail_with(struct group *group, unsigned status, const char *message)
{
    if (group->error.status) return;
    api_error_in(&group->error, NULL, "%s", message);
    group->error.status = status;
    cancel_all(group);
}

/* A request was cancelled, or never submitted. */
static void fail_cancelled(struct group *group)
{
    if (atomic_load(&group->gone))
        group_fail_with(group, GONE_STATUS, GONE_MESSAGE);
    else
        group_fail_with(group, 500, "the server is shutting down");
}

/* The status of HTTP for that of a request that failed. */
static unsigned http_status_of(int status)
{
    if (status == ENGINE_ERROR_DATA) return 400;
    return status == ENGINE_ERROR_MEMORY ? OUT_OF_MEMORY_STATUS : 500;
}

void group_fail(struct group *group, const struct engine_event *event)
{
    if (event->reason == ENGINE_DONE_CANCELLED)
        fail_cancelled(group);
    else
        group_fail_with(group, http_status_of(event->status), event->message);
}

/* Takes no lock: the caller may hold one that exchange_send waits for. */
static void group_client_is_gone(void *user)
{
    struct group *group = user;
    atomic_store(&group->gone, true);
    cancel_all(group);
}

void group_watch(struct group *group)
{
    exchange_when_gone(group->exchange, group_client_is_gone, group);
}

bool group_is_gone(struct group *group)
{
    return atomic_load(&group->gone);
}

/* ---- Requests ---- */

static void drop_use(struct group *group)
{
    size_t before = atomic_fetch_sub(&group->n_uses, 1);
    ENGINE_ASSERT(before > 0);
    if (before != 1) return;
    ENGINE_ASSERT(group->n_running == 0 && group->n_submitted <= group->n);
    if (group->n_submitted < group->n && atomic_load(&group->gone)) fail_cancelled(group);
    group->finish(group);
}

static void group_take_event(void *user, const struct engine_event *event);

/* Under the lock: submits requests, as many as may run at once. If the queue takes no more, the rest follows
 * when one of them is done; if it takes none, that is the answer. */
static void group_submit_some(struct group *group)
{
    ENGINE_ASSERT(lock_is_mine(&group->lock));
    while (group->n_submitted < group->n && group->n_running < MAX_RUNNING && !group->error.status &&
           !atomic_load(&group->gone)) {
        struct group_member *member = &group->members[group->n_submitted];
        struct engine_request request = {.struct_size = sizeof request};
        struct engine_sampler_options sampler;
        uint64_t id;
        group->fill(group, group->n_submitted, &request, &sampler);
        request.event = group_take_event;
        request.user = member;
        atomic_fetch_add(&group->n_uses, 1);
        int status = served_submit(group->exchange, &request, &id);
        if (status) {
            atomic_fetch_sub(&group->n_uses, 1); /* never the last: the caller has one */
            if (status == ENGINE_ERROR_BUSY && group->n_running > 0) return;
            api_error_of_engine(&group->error, status, group->param(group, engine_error_message()));
            cancel_all(group);
            return;
        }
        atomic_store(&member->id, id);
        group->n_submitted++;
        group->n_running++;
    }
}

static void group_take_event(void *user, const struct engine_event *event)
{
    struct group_member *member = user;
    struct group *group = member->group;
    bool done = event->kind == ENGINE_EVENT_DONE;
    pthread_mutex_lock(&group->lock);
    ENGINE_ASSERT(member >= group->members && member < group->members + group->n);
    group->take(group, (size_t)(member - group->members), event);
    if (done) {
        ENGINE_ASSERT(group->n_running > 0);
        group->n_running--;
        group_submit_some(group);
    }
    pthread_mutex_unlock(&group->lock);
    if (done) drop_use(group);
}

void group_submit(struct group *group)
{
    atomic_store(&group->n_uses, 1);
    if (!group->error.status) {
        group_watch(group);
        pthread_mutex_lock(&group->lock);
        group_submit_some(group);
        if (group->queued && group->n_submitted > 0 && !group->error.status) group->queued(group);
        pthread_mutex_unlock(&group->lock);
        if (atomic_load(&group->gone)) cancel_all(group);
    }
    drop_use(group);
}

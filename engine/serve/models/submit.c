/* submit.c: requests to a model's queue, and the thread that runs it. An adapter's scale is the context's, so requests with
 * different adapters take turns: as soon as one waits for another adapter, later ones wait behind it, whatever theirs is;
 * when the queue is empty, all that wait for the same adapter as the first one start together. */
#include <stdlib.h>
#include <string.h>

#include "commands/common.h"
#include "common/clock.h"
#include "serve/life.h"
#include "serve/log.h"
#include "serve/metrics.h"
#include "serve/models/inside.h"
#include "serve/models/request-copy.h"

struct ride {
    struct ride *next, *previous;
    struct served *served;
    struct exchange *exchange;
    uint64_t id, queue_id;       /* queue_id 0: it waits for its adapter */
    struct engine_request *held; /* what it will submit then */
    int adapter;
    bool cancelled; /* while it waits */
    void (*event)(void *user, const struct engine_event *event);
    void *user;
    double submitted, last_token; /* seconds_now; last_token 0: none yet */
};

/* ---- Events -------------------------------------------------------------------------------------------- */

/* With the lock. */
static void unlink_ride(struct ride *ride)
{
    struct served_inside *inside = ride->served->inside;
    if (ride->next) ride->next->previous = ride->previous;
    if (ride->previous)
        ride->previous->next = ride->next;
    else
        inside->rides = ride->next;
}

static void measure(struct ride *ride, const struct engine_event *event)
{
    struct metrics *metrics = ride->served->inside->server->metrics;
    double now = seconds_now();
    if (event->kind == ENGINE_EVENT_TOKEN) {
        if (ride->last_token > 0)
            metrics_between_tokens(metrics, now - ride->last_token);
        else
            metrics_first_token(metrics, now - ride->submitted);
        ride->last_token = now;
    }
    if (event->kind != ENGINE_EVENT_DONE) return;
    exchange_count(ride->exchange, event->n_prompt, event->n_reused, event->n_generated);
    metrics_tokens(metrics, event->n_prompt, event->n_reused, event->n_generated);
}

static void free_ride(struct ride *ride)
{
    exchange_release(ride->exchange);
    free(ride->held);
    free(ride);
}

static void take_event(void *user, const struct engine_event *event)
{
    struct ride *ride = user;
    struct served_inside *inside = ride->served->inside;
    struct engine_event known = *event;
    bool done = event->kind == ENGINE_EVENT_DONE;
    measure(ride, event);
    known.request = ride->id;
    known.user = ride->user;
    if (done && event->reason == ENGINE_DONE_FAILED && event->status == ENGINE_ERROR_GONE)
        life_end(inside->server, event->message);
    if (done && event->reason == ENGINE_DONE_FAILED && event->status == ENGINE_ERROR_DEVICE)
        models_fail(inside->server->models, ride->served, event->message);
    if (done) {
        pthread_mutex_lock(&inside->lock);
        unlink_ride(ride);
        inside->n_running--;
        pthread_mutex_unlock(&inside->lock);
    }
    ride->event(ride->user, &known);
    if (done) free_ride(ride);
}

/* The last event of a ride that never got to the queue. */
static void end_held(struct ride *ride, enum engine_done_reason reason, int status, const char *message)
{
    struct engine_event event = {.struct_size = sizeof event,
                                 .request = ride->id,
                                 .kind = ENGINE_EVENT_DONE,
                                 .token = -1,
                                 .user = ride->user,
                                 .text = {"", 0},
                                 .reason = reason,
                                 .stop = -1,
                                 .status = status,
                                 .message = message,
                                 .sequence = -1};
    ride->event(ride->user, &event);
    free_ride(ride);
}

/* ---- Running ------------------------------------------------------------------------------------------- */

/* With the lock: the ride that has waited longest, with this adapter; NULL if there is none. */
static struct ride *oldest_held(const struct served_inside *inside, const int *adapter)
{
    struct ride *oldest = NULL;
    for (struct ride *ride = inside->rides; ride; ride = ride->next)
        if (ride->queue_id == 0 && (!adapter || ride->adapter == *adapter)) oldest = ride;
    return oldest;
}

/* With the lock, which is given back meanwhile: applies the adapter of the oldest ride that waits, and starts all with it. */
static void start_held(struct served *served)
{
    struct served_inside *inside = served->inside;
    struct ride *ride = oldest_held(inside, NULL);
    int adapter = ride->adapter, status = ENGINE_OK;
    if (adapter != inside->adapter) {
        float *scales = calloc(inside->n_adapters, sizeof *scales);
        if (scales && adapter >= 0) scales[adapter] = inside->adapters[adapter].scale;
        status = scales ? engine_context_set_adapter_scales(served->context, scales, inside->n_adapters)
                        : ENGINE_ERROR_MEMORY;
        free(scales);
        if (!status) inside->adapter = adapter;
    }
    while ((ride = oldest_held(inside, &adapter))) {
        int submitted = status;
        inside->n_held--;
        if (!status && !ride->cancelled) {
            submitted = engine_queue_submit(served->queue, ride->held, &ride->queue_id);
            if (!submitted) {
                inside->n_running++;
                continue;
            }
        }
        unlink_ride(ride);
        pthread_mutex_unlock(&inside->lock);
        if (ride->cancelled)
            end_held(ride, ENGINE_DONE_CANCELLED, ENGINE_OK, "");
        else
            end_held(ride, ENGINE_DONE_FAILED, submitted, engine_error_message());
        pthread_mutex_lock(&inside->lock);
    }
}

void *served_run(void *user)
{
    struct served *served = user;
    struct served_inside *inside = served->inside;
    pthread_mutex_lock(&inside->lock);
    for (;;) {
        while (inside->n_running == 0 && inside->n_held == 0 && !inside->stopping)
            pthread_cond_wait(&inside->changed, &inside->lock);
        if (inside->n_running == 0 && inside->n_held > 0) start_held(served);
        if (inside->n_running == 0 && inside->n_held == 0 && inside->stopping) break;
        pthread_mutex_unlock(&inside->lock);
        int status = engine_queue_run(served->queue, ENGINE_QUEUE_IDLE);
        if (status) server_log("model %s: %s", served->name, engine_error_message());
        pthread_mutex_lock(&inside->lock);
    }
    pthread_mutex_unlock(&inside->lock);
    return NULL;
}

void served_stop(struct served *served)
{
    struct served_inside *inside = served->inside;
    pthread_mutex_lock(&inside->lock);
    inside->stopping = true;
    for (struct ride *ride = inside->rides; ride; ride = ride->next) {
        if (ride->queue_id == 0)
            ride->cancelled = true;
        else
            engine_queue_cancel(served->queue, ride->queue_id);
    }
    pthread_cond_signal(&inside->changed);
    pthread_mutex_unlock(&inside->lock);
}

/* ---- Submitting ---------------------------------------------------------------------------------------- */

/* With the lock. */
static int start(struct served *served, struct ride *ride, const struct engine_request *request)
{
    struct served_inside *inside = served->inside;
    bool goes_now = inside->n_held == 0 && ride->adapter == inside->adapter;
    if (inside->stopping) return command_error(ENGINE_ERROR_BUSY, "the server is shutting down");
    if (goes_now) {
        int status = engine_queue_submit(served->queue, request, &ride->queue_id);
        if (status) return status;
        inside->n_running++;
    } else {
        if (inside->n_held >= inside->server->arguments->n_waiting)
            return command_error(ENGINE_ERROR_BUSY, "too many requests are waiting");
        ride->held = request_copy(request);
        if (!ride->held) return command_error(ENGINE_ERROR_MEMORY, "out of memory (request)");
        inside->n_held++;
    }
    pthread_cond_signal(&inside->changed);
    return ENGINE_OK;
}

int served_submit(struct exchange *exchange, const struct engine_request *request, uint64_t *id)
{
    struct served *served = exchange_model(exchange);
    struct served_inside *inside = served->inside;
    struct engine_request known = *request;
    struct ride *ride = calloc(1, sizeof *ride);
    if (!ride) return command_error(ENGINE_ERROR_MEMORY, "out of memory (request)");
    ride->served = served;
    ride->exchange = exchange_hold(exchange);
    ride->adapter = exchange_adapter(exchange);
    ride->event = request->event;
    ride->user = request->user;
    ride->submitted = seconds_now();
    known.event = take_event;
    known.user = ride;
    pthread_mutex_lock(&inside->lock);
    ride->id = ++inside->n_rides;
    int status = start(served, ride, &known);
    if (!status) {
        if (id) *id = ride->id;
        ride->next = inside->rides;
        if (ride->next) ride->next->previous = ride;
        inside->rides = ride;
    }
    pthread_mutex_unlock(&inside->lock);
    if (status) free_ride(ride);
    return status;
}

int served_cancel(struct served *served, uint64_t id)
{
    struct served_inside *inside = served->inside;
    int status = ENGINE_ERROR_NOT_FOUND;
    pthread_mutex_lock(&inside->lock);
    struct ride *ride = inside->rides;
    while (ride && ride->id != id) ride = ride->next;
    if (ride && ride->queue_id == 0) {
        ride->cancelled = true;
        status = ENGINE_OK;
    } else if (ride) {
        status = engine_queue_cancel(served->queue, ride->queue_id);
    }
    pthread_mutex_unlock(&inside->lock);
    return status;
}

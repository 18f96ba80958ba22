/* jobs.c: jobs, which are requests to a model's queue, and the thread that runs it. An adapter's scale is the
 * context's, so jobs with different adapters take turns: as soon as one waits for another adapter, later ones
 * wait behind it, whatever theirs is; when the queue is empty, all that wait for the same adapter as the
 * first one start together. */
#include "io/messages.h"
#include "serve/models/internal.h"

#include <stdlib.h>
#include <string.h>

#include "common/assert.h"
#include "common/clock.h"
#include "common/lock.h"
#include "serve/server.h"

struct job {
    struct job *next, *previous;
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
static void job_unlink(struct job *job)
{
    struct model_slot *slot = job->served->slot;
    ENGINE_ASSERT(lock_is_mine(&slot->lock));
    if (job->next) job->next->previous = job->previous;
    if (job->previous)
        job->previous->next = job->next;
    else
        slot->jobs = job->next;
}

static void job_measure(struct job *job, const struct engine_event *event)
{
    struct metrics *metrics = job->served->slot->server->metrics;
    double now = seconds_now();
    if (event->kind == ENGINE_EVENT_TOKEN) {
        if (job->last_token > 0)
            metrics_between_tokens(metrics, now - job->last_token);
        else
            metrics_first_token(metrics, now - job->submitted);
        job->last_token = now;
    }
    if (event->kind != ENGINE_EVENT_DONE) return;
    exchange_count(job->exchange, event->n_prompt, event->n_reused, event->n_generated);
    metrics_tokens(metrics, event->n_prompt, event->n_reused, event->n_generated);
}

static void job_free(struct job *job)
{
    exchange_release(job->exchange);
    free(job->held);
    free(job);
}

static void job_take_event(void *user, const struct engine_event *event)
{
    struct job *job = user;
    struct model_slot *slot = job->served->slot;
    struct engine_event known = *event;
    bool done = event->kind == ENGINE_EVENT_DONE;
    job_measure(job, event);
    known.request = job->id;
    known.user = job->user;
    if (done && event->reason == ENGINE_DONE_FAILED && event->status == ENGINE_ERROR_GONE)
        server_end(slot->server, event->message);
    if (done && event->reason == ENGINE_DONE_FAILED && event->status == ENGINE_ERROR_DEVICE)
        models_fail(slot->server->models, job->served, event->message);
    if (done) {
        pthread_mutex_lock(&slot->lock);
        job_unlink(job);
        ENGINE_ASSERT(slot->n_running > 0);
        slot->n_running--;
        pthread_mutex_unlock(&slot->lock);
    }
    job->event(job->user, &known);
    if (done) job_free(job);
}

/* The last event of a job that never got to the queue. */
static void job_end_held(struct job *job, enum engine_done_reason reason, int status, const char *message)
{
    struct engine_event event = {.struct_size = sizeof event,
                                 .request = job->id,
                                 .kind = ENGINE_EVENT_DONE,
                                 .token = -1,
                                 .user = job->user,
                                 .text = {"", 0},
                                 .reason = reason,
                                 .stop = -1,
                                 .status = status,
                                 .message = message,
                                 .sequence = -1};
    job->event(job->user, &event);
    job_free(job);
}

/* ---- Running ------------------------------------------------------------------------------------------- */

/* With the lock: the job that has waited longest, with this adapter; NULL if there is none. */
static struct job *oldest_held(const struct model_slot *slot, const int *adapter)
{
    struct job *oldest = NULL;
    ENGINE_ASSERT(lock_is_mine(&slot->lock));
    for (struct job *job = slot->jobs; job; job = job->next)
        if (job->queue_id == 0 && (!adapter || job->adapter == *adapter)) oldest = job;
    return oldest;
}

/* With the lock, which is given back meanwhile: applies the adapter of the oldest job that waits, and starts
 * all with it. */
static void start_held(struct served *served)
{
    struct model_slot *slot = served->slot;
    struct job *job = oldest_held(slot, NULL);
    int adapter = job->adapter, status = ENGINE_OK;
    ENGINE_ASSERT(slot->n_running == 0); /* the scales are those of the whole context */
    ENGINE_ASSERT(adapter >= -1 && adapter < (int)slot->n_adapters);
    if (adapter != slot->adapter) {
        float *scales = calloc(slot->n_adapters, sizeof *scales);
        if (scales && adapter >= 0) scales[adapter] = slot->adapters[adapter].scale;
        status = scales ? engine_context_set_adapter_scales(served->context, scales, slot->n_adapters)
                        : ENGINE_ERROR_MEMORY;
        free(scales);
        if (!status) slot->adapter = adapter;
    }
    while ((job = oldest_held(slot, &adapter))) {
        int submitted = status;
        ENGINE_ASSERT(slot->n_held > 0 && job->held);
        slot->n_held--;
        if (!status && !job->cancelled) {
            submitted = engine_queue_submit(served->queue, job->held, &job->queue_id);
            if (!submitted) {
                slot->n_running++;
                continue;
            }
        }
        job_unlink(job);
        pthread_mutex_unlock(&slot->lock);
        if (job->cancelled)
            job_end_held(job, ENGINE_DONE_CANCELLED, ENGINE_OK, "");
        else
            job_end_held(job, ENGINE_DONE_FAILED, submitted, engine_error_message());
        pthread_mutex_lock(&slot->lock);
    }
}

void *served_run(void *user)
{
    struct served *served = user;
    struct model_slot *slot = served->slot;
    pthread_mutex_lock(&slot->lock);
    for (;;) {
        while (slot->n_running == 0 && slot->n_held == 0 && !slot->stopping)
            pthread_cond_wait(&slot->changed, &slot->lock);
        if (slot->n_running == 0 && slot->n_held > 0) start_held(served);
        if (slot->n_running == 0 && slot->n_held == 0 && slot->stopping) break;
        pthread_mutex_unlock(&slot->lock);
        int status = engine_queue_run(served->queue, ENGINE_QUEUE_IDLE);
        if (status) server_log("model %s: %s", served->name, engine_error_message());
        pthread_mutex_lock(&slot->lock);
    }
    pthread_mutex_unlock(&slot->lock);
    return NULL;
}

void served_stop(struct served *served)
{
    struct model_slot *slot = served->slot;
    pthread_mutex_lock(&slot->lock);
    slot->stopping = true;
    for (struct job *job = slot->jobs; job; job = job->next) {
        if (job->queue_id == 0)
            job->cancelled = true;
        else
            engine_queue_cancel(served->queue, job->queue_id);
    }
    pthread_cond_signal(&slot->changed);
    pthread_mutex_unlock(&slot->lock);
}

/* ---- Copies of requests that wait ---------------------------------------------------------------------- */

struct piece {
    char *data; /* NULL: only counts */
    size_t used;
};

/* Copies an array to the end of the piece. Returns the copy; NULL while counting, or if there is nothing to
 * copy. */
static void *piece_put(struct piece *piece, const void *from, size_t size)
{
    size_t at = piece->used;
    if (!from) return NULL;
    piece->used += (size + 15) / 16 * 16;
    if (!piece->data) return NULL;
    if (size > 0) memcpy(piece->data + at, from, size);
    return piece->data + at;
}

static const struct engine_string *piece_put_texts(struct piece *piece, const struct engine_string *texts,
                                                   size_t n)
{
    struct engine_string *copies = piece_put(piece, texts, n * sizeof *texts);
    for (size_t i = 0; texts && i < n; i++) {
        const char *copy = piece_put(piece, texts[i].data, texts[i].length);
        if (copies) copies[i].data = copy;
    }
    return copies;
}

static void piece_put_sampler(struct piece *piece, const struct engine_sampler_options *from,
                              struct engine_sampler_options *to)
{
    struct engine_sampler_options copy = *from;
    copy.samplers = piece_put(piece, from->samplers, from->samplers ? strlen(from->samplers) + 1 : 0);
    copy.logit_bias = piece_put(piece, from->logit_bias, from->n_logit_bias * sizeof *from->logit_bias);
    copy.dry_breakers = piece_put_texts(piece, from->dry_breakers, from->n_dry_breakers);
    copy.ban = piece_put_texts(piece, from->ban, from->n_ban);
    if (to) *to = copy;
}

static struct engine_request *piece_put_request(struct piece *piece, const struct engine_request *from)
{
    struct engine_request *to = piece_put(piece, from, sizeof *from);
    struct engine_request copy = *from;
    copy.tokens = piece_put(piece, from->tokens, from->n_tokens * sizeof *from->tokens);
    copy.stop = piece_put_texts(piece, from->stop, from->n_stop);
    copy.stop_tokens = piece_put(piece, from->stop_tokens, from->n_stop_tokens * sizeof *from->stop_tokens);
    size_t n_types = from->token_types ? from->n_tokens : 0;
    copy.token_types = piece_put(piece, from->token_types, n_types * sizeof *from->token_types);
    if (from->sampler) {
        struct engine_sampler_options *sampler = piece_put(piece, from->sampler, sizeof *from->sampler);
        piece_put_sampler(piece, from->sampler, sampler);
        copy.sampler = sampler;
    }
    if (to) *to = copy;
    return to;
}

/* A copy with everything that the request points to, except its grammar and its user, in one piece for
 * free(); NULL: out of memory. It is written twice: first to count its bytes, then into a piece of memory. */
static struct engine_request *request_copy(const struct engine_request *request)
{
    struct piece piece = {0};
    piece_put_request(&piece, request);
    piece.data = malloc(piece.used);
    piece.used = 0;
    if (!piece.data) return NULL;
    struct engine_request *copy = piece_put_request(&piece, request);
    ENGINE_ASSERT((char *)copy == piece.data); /* for free() */
    return copy;
}

/* ---- Submitting ---------------------------------------------------------------------------------------- */

/* With the lock. */
static int job_start(struct served *served, struct job *job, const struct engine_request *request)
{
    struct model_slot *slot = served->slot;
    bool goes_now = slot->n_held == 0 && job->adapter == slot->adapter;
    ENGINE_ASSERT(lock_is_mine(&slot->lock));
    if (slot->stopping) return command_error(ENGINE_ERROR_BUSY, "the server is shutting down");
    if (goes_now) {
        int status = engine_queue_submit(served->queue, request, &job->queue_id);
        if (status) return status;
        slot->n_running++;
    } else {
        if (slot->n_held >= slot->server->arguments->n_waiting)
            return command_error(ENGINE_ERROR_BUSY, "too many requests are waiting");
        job->held = request_copy(request);
        if (!job->held) return command_error(ENGINE_ERROR_MEMORY, "out of memory (request)");
        slot->n_held++;
    }
    pthread_cond_signal(&slot->changed);
    return ENGINE_OK;
}

int served_submit(struct exchange *exchange, const struct engine_request *request, uint64_t *id)
{
    struct served *served = exchange_model(exchange);
    struct model_slot *slot = served->slot;
    struct engine_request known = *request;
    struct job *job = calloc(1, sizeof *job);
    if (!job) return command_error(ENGINE_ERROR_MEMORY, "out of memory (request)");
    job->served = served;
    job->exchange = exchange_hold(exchange);
    job->adapter = exchange_adapter(exchange);
    job->event = request->event;
    job->user = request->user;
    job->submitted = seconds_now();
    known.event = job_take_event;
    known.user = job;
    pthread_mutex_lock(&slot->lock);
    job->id = ++slot->n_jobs;
    int status = job_start(served, job, &known);
    if (!status) {
        if (id) *id = job->id;
        job->next = slot->jobs;
        if (job->next) job->next->previous = job;
        slot->jobs = job;
    }
    pthread_mutex_unlock(&slot->lock);
    if (status) job_free(job);
    return status;
}

int served_cancel(struct served *served, uint64_t id)
{
    struct model_slot *slot = served->slot;
    int status = ENGINE_ERROR_NOT_FOUND;
    pthread_mutex_lock(&slot->lock);
    struct job *job = slot->jobs;
    while (job && job->id != id) job = job->next;
    if (job && job->queue_id == 0) {
        job->cancelled = true;
        status = ENGINE_OK;
    } else if (job) {
        status = engine_queue_cancel(served->queue, job->queue_id);
    }
    pthread_mutex_unlock(&slot->lock);
    return status;
}

/* run.c: the thread that runs the queue: takes in requests, plans each step, and runs it. */
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "common/array.h"
#include "common/clock.h"
#include "queue/internal.h"

#define STEP_SECONDS 0.25 /* the target for steps that read prompts while other requests decode */
#define LEAST_CHUNK  16

/* ---- Requests that come and go ---- */

/* Higher priorities before lower ones; within one, older before younger. */
static bool ranks_before(const struct request *a, const struct request *b)
{
    return a->priority != b->priority ? a->priority > b->priority : a->id < b->id;
}

static void take_in(struct engine_queue *queue, struct request *request)
{
    struct requests *active = &queue->active;
    ENGINE_ASSERT(active->count < active->capacity); /* see take_incoming */
    size_t at = active->count++;
    for (; at > 0 && ranks_before(request, active->items[at - 1]); at--)
        active->items[at] = active->items[at - 1];
    active->items[at] = request;
}

static bool make_room(struct engine_queue *queue, size_t count)
{
    return ARRAY_RESERVE(queue->active.items, queue->active.capacity, count) &&
           ARRAY_RESERVE(queue->plan, queue->plan_capacity, count);
}

/* Under the lock. False: memory runs out, and the requests stay where they are. */
static bool take_incoming(struct engine_queue *queue)
{
    struct requests *incoming = &queue->incoming;
    ENGINE_ASSERT(lock_is_mine(&queue->lock));
    if (!make_room(queue, queue->active.count + incoming->count)) return false;
    for (size_t i = 0; i < incoming->count; i++) take_in(queue, incoming->items[i]);
    incoming->count = 0;
    return true;
}

/* Under the lock. */
static void count_active(struct engine_queue *queue)
{
    uint32_t n_running = 0;
    ENGINE_ASSERT(lock_is_mine(&queue->lock));
    for (size_t i = 0; i < queue->active.count; i++) n_running += queue->active.items[i]->sequence >= 0;
    queue->counts.n_running = n_running;
    queue->counts.n_waiting = (uint32_t)(queue->active.count + queue->incoming.count) - n_running;
    queue->counts.n_cached = queue->info.n_cache - cache_free(queue);
    queue->counts.n_kept = cache_count_kept(queue);
}

static void give_sequence_back(struct engine_queue *queue, struct request *request)
{
    if (request->sequence < 0) return;
    ENGINE_ASSERT(queue->sequences[request->sequence].used);
    request->kind->give_back(queue, request);
    request->sequence = -1;
    request->n_cached = 0;
}

void queue_let_go(struct engine_queue *queue, struct request *request)
{
    give_sequence_back(queue, request);
    requests_remove(&queue->active, request);
    queue->is_settled = false;
    pthread_mutex_lock(&queue->lock);
    queue->counts.n_done++;
    queue->counts.n_generated += request->n_generated;
    queue->counts.n_guessed += request->n_guessed;
    queue->counts.n_accepted += request->n_accepted;
    ENGINE_ASSERT(!request->done);
    request->done = true;
    if (!request->first_event) { /* no event was kept, or all have been taken */
        requests_remove(&queue->all, request);
        request_destroy(queue, request);
    }
    pthread_mutex_unlock(&queue->lock);
}

void queue_end(struct engine_queue *queue, struct request *request, enum engine_done_reason reason,
               int status)
{
    request_finish(queue, request, reason, status);
    queue_let_go(queue, request);
}

/* Ends the requests that have not been taken in. */
static void end_incoming(struct engine_queue *queue, enum engine_done_reason reason, int status)
{
    pthread_mutex_lock(&queue->lock);
    struct requests incoming = queue->incoming;
    queue->incoming = (struct requests){0};
    pthread_mutex_unlock(&queue->lock);
    for (size_t i = 0; i < incoming.count; i++) {
        if (status) error_memory("queue"); /* a callback may have set another message */
        queue_end(queue, incoming.items[i], reason, status);
    }
    free(incoming.items);
}

static void drop_cancelled(struct engine_queue *queue, bool all)
{
    for (size_t i = queue->active.count; i-- > 0;) {
        struct request *request = queue->active.items[i];
        if (all || atomic_load(&request->cancelled))
            queue_end(queue, request, ENGINE_DONE_CANCELLED, ENGINE_OK);
    }
}

/* ---- Planning ---- */

static void queue_describe(const struct engine_queue *queue, const struct request *request,
                           struct step_request *plan)
{
    size_t pending = request->n_tokens - request->n_cached;
    ENGINE_ASSERT(request->kind->describe || request->n_cached < request->n_tokens);
    *plan = (struct step_request){
        .priority = request->priority,
        .running = request->sequence >= 0,
        .decoding = request->sequence >= 0 && pending == 1 && request->n_cached > 0,
        .n_cached = request->n_cached,
        .n_pending = pending,
    };
    if (request->kind->describe) request->kind->describe(queue, request, plan);
}

/* A sequence for the request that starts next, with the part of its prompt found in the cache. */
struct start {
    struct request *request; /* NULL: there is none */
    uint32_t sequence;
    size_t n_cached;
};

#define MAX_CANDIDATES 16

/* Takes the part of a waiting request's prompt that is in the cache. False: it waits for another request,
 * whose prompt begins alike and is being read. */
static bool queue_prepare(const struct engine_queue *queue, struct start *start, struct step_request *plan,
                          struct step_limits *limits)
{
    const struct request *request = start->request;
    uint64_t n_free = cache_free(queue);
    start->n_cached = cache_reuse(queue, start->sequence, request);
    if (cache_soon_has_more(queue, request, start->n_cached)) {
        cache_clear(queue, start->sequence);
        return false;
    }
    uint64_t n_left = cache_free(queue);
    plan->n_cached = start->n_cached;
    plan->n_unowned = n_left < n_free ? (size_t)(n_free - n_left) : 0;
    if (cache_copies(queue, start->sequence)) plan->n_unowned += queue->info.cache_block;
    plan->n_pending = request->n_tokens - start->n_cached;
    limits->free_positions = n_left < n_free ? n_free : n_left; /* a kept sequence may have become shorter */
    return true;
}

/* Prepares the start of the first waiting request. This comes before planning, because the part of its prompt
 * in the cache needs no room. */
static struct start prepare_start(struct engine_queue *queue, struct step_limits *limits)
{
    struct start start = {0};
    size_t candidates = 0;
    for (size_t i = 0; i < queue->active.count; i++) {
        struct request *request = queue->active.items[i];
        struct step_request *plan = &queue->plan[i];
        if (request->sequence >= 0) continue;
        plan->held = start.request || candidates++ >= MAX_CANDIDATES;
        if (plan->held) continue;
        if (!cache_choose(queue, request, &start.sequence)) break;
        start.request = request;
        plan->held = !queue_prepare(queue, &start, plan, limits);
        if (plan->held) start.request = NULL;
    }
    return start;
}

static int begin_request(struct engine_queue *queue, const struct start *start)
{
    struct request *request = start->request;
    ENGINE_ASSERT(start->sequence < queue->info.n_sequences && !queue->sequences[start->sequence].used);
    request->sequence = (int32_t)start->sequence;
    request->n_cached = start->n_cached;
    request->is_encoded = false;
    queue->sequences[start->sequence] = (struct sequence){.used = true};
    if (request->kind->start) request->kind->start(queue, request);
    if (queue->draft) draft_begin(queue->draft, request);
    if (request->started == 0) {
        request->started = seconds_now();
        request->n_reused = (uint32_t)start->n_cached;
        request->most_read = start->n_cached;
        pthread_mutex_lock(&queue->lock);
        queue->counts.n_reused += request->n_reused;
        pthread_mutex_unlock(&queue->lock);
    }
    return request->kind->begin ? request->kind->begin(queue, request) : ENGINE_OK;
}

static void put_back(struct engine_queue *queue, struct request *request)
{
    give_sequence_back(queue, request);
    pthread_mutex_lock(&queue->lock);
    queue->counts.n_put_back++;
    pthread_mutex_unlock(&queue->lock);
}

static struct step_limits limits_of(const struct engine_queue *queue)
{
    return (struct step_limits){
        .n_sequences = queue->info.n_sequences,
        .block = queue->info.cache_block,
        .free_positions = cache_free(queue),
        .n_batch = queue->info.n_batch,
        .n_chunk = queue->n_chunk,
        .whole = queue->info.is_encoder,
    };
}

/* Ends a request that has the whole cache to itself and needs more: the cache is as large as it may become,
 * or blocks of it are closed because their memory isn't free. */
static void end_without_room(struct engine_queue *queue, struct request *request)
{
    const struct engine_context *context = queue->context;
    const uint32_t n_closed = kv_closed_count(context->kv);
    int status = ENGINE_OK;
    if (n_closed > 0)
        status =
            error_raise(ENGINE_ERROR_MEMORY,
                        "there is memory for %u positions of the cache at present, and the text needs more",
                        (context->plan->n_blocks - n_closed) * queue->info.cache_block);
    queue_end(queue, request, status ? ENGINE_DONE_FAILED : ENGINE_DONE_CONTEXT, status);
}

/* One action of the plan. Kept sequences give way before a request does. */
static enum step_action take_action(struct engine_queue *queue)
{
    size_t which = 0;
    for (size_t i = 0; i < queue->active.count; i++)
        queue_describe(queue, queue->active.items[i], &queue->plan[i]);
    struct step_limits limits = limits_of(queue);
    struct start start = prepare_start(queue, &limits);
    enum step_action action = step_plan(queue->plan, queue->active.count, &limits, &which);
    if (action != STEP_START && start.request) cache_clear(queue, start.sequence);
    bool crowded = action == STEP_PUT_BACK || action == STEP_FULL || (action == STEP_RUN && start.request);
    if (crowded && cache_give_up(queue)) return STEP_AGAIN;
    if (action == STEP_START) {
        int status = begin_request(queue, &start);
        if (status) queue_end(queue, start.request, ENGINE_DONE_FAILED, status);
    } else if (action == STEP_PUT_BACK) {
        put_back(queue, queue->active.items[which]);
    } else if (action == STEP_FULL) {
        end_without_room(queue, queue->active.items[which]);
    }
    return action;
}

/* Starts and puts back requests until a step can run. STEP_NOTHING: there are none. */
static enum step_action take_actions(struct engine_queue *queue)
{
    enum step_action action;
    do action = take_action(queue);
    while (action != STEP_NOTHING && action != STEP_RUN);
    queue->is_settled = true;
    for (size_t i = 0; i < queue->active.count; i++) {
        const struct request *request = queue->active.items[i];
        if (request->sequence >= 0 && request->n_cached < request->n_prompt) queue->is_settled = false;
    }
    return action;
}

/* ---- Steps ---- */

/* Slow steps read shorter pieces of prompts while other requests decode; quick ones read longer pieces. */
static void adapt_chunk(struct engine_queue *queue, const struct queue_step *step, double seconds)
{
    bool mixed = step->n_prompt > 0 && step->n_prompt < step->n_tokens;
    if (queue->n_chunk_fixed > 0 || !mixed) return;
    if (seconds > STEP_SECONDS && queue->n_chunk > LEAST_CHUNK)
        queue->n_chunk /= 2;
    else if (seconds < STEP_SECONDS / 3 && step->n_prompt == queue->n_chunk &&
             queue->n_chunk < queue->info.n_batch)
        queue->n_chunk *= 2;
}

void queue_count_cached(struct engine_queue *queue)
{
    for (size_t i = 0; i < queue->active.count; i++) {
        struct request *request = queue->active.items[i];
        if (request->sequence >= 0) request->kind->count_cached(queue, request);
    }
}

/* Plans and decodes until the context accepts the step. The cache may have less room than planned, when
 * requests share blocks that they continue in: then the last in rank makes room. Where it isn't the cache
 * that lacks room but the machine, that helps nothing, and a request that has made room may be started again
 * at once: so the tries are counted. */
static enum step_action decode_next(struct engine_queue *queue, struct queue_step *step)
{
    size_t n_left = 2 * queue->active.count + 2;
    for (bool guess = true;; n_left--) {
        enum step_action action = take_actions(queue);
        if (action == STEP_NOTHING) return action;
        struct step_limits limits = limits_of(queue);
        int status = guess ? guess_step(queue, &limits) : ENGINE_OK;
        if (status) {
            step_fail(queue, status);
            return STEP_FULL;
        }
        *step = step_planned(queue);
        status = step_run(queue, step);
        if (!status) return STEP_RUN;
        queue_count_cached(queue);
        guess = false;
        if (status == ENGINE_ERROR_MEMORY && n_left > 0 && (step->n_guess > 0 || cache_give_up(queue)))
            continue;
        size_t last = queue->active.count, n_running = 0;
        for (size_t i = 0; i < queue->active.count; i++)
            if (queue->active.items[i]->sequence >= 0) last = i, n_running++;
        if (status == ENGINE_ERROR_MEMORY && n_running > 1 && n_left > 0) {
            put_back(queue, queue->active.items[last]);
            continue;
        }
        step_fail(queue, status);
        return STEP_FULL;
    }
}

/* For assertions: the rules of requests and sequences between two steps. Each sequence that is used is one of
 * a running request. */
static bool is_sound(const struct engine_queue *queue)
{
    uint32_t n_used = 0, n_held = 0;
    for (uint32_t s = 0; s < queue->info.n_sequences; s++) {
        ENGINE_ASSERT(!queue->sequences[s].used || queue->sequences[s].kept == 0);
        n_used += queue->sequences[s].used;
    }
    for (size_t i = 0; i < queue->active.count; i++) {
        const struct request *request = queue->active.items[i];
        ENGINE_ASSERT(i == 0 || ranks_before(queue->active.items[i - 1], request));
        ENGINE_ASSERT(!request->done);
        ENGINE_ASSERT(request->n_prompt <= request->n_tokens && request->n_tokens <= request->capacity);
        ENGINE_ASSERT(request->sequence >= 0 || request->n_cached == 0);
        if (request->sequence >= 0) n_held += request->kind->count_sequences(request);
    }
    ENGINE_ASSERT(n_used == n_held);
    return true;
}

void queue_publish(struct engine_queue *queue, bool any, size_t n_prompt)
{
    ENGINE_ASSERT(is_sound(queue));
    pthread_mutex_lock(&queue->lock);
    queue->counts.n_steps += any;
    queue->counts.n_prompt += n_prompt;
    count_active(queue);
    if (queue->events_kept) pthread_cond_broadcast(&queue->events);
    queue->events_kept = false;
    pthread_mutex_unlock(&queue->lock);
}

static void run_step(struct engine_queue *queue)
{
    struct queue_step step;
    double start = seconds_now();
    bool any = decode_next(queue, &step) == STEP_RUN;
    if (any) {
        adapt_chunk(queue, &step, seconds_now() - start);
        step_hand_out(queue, &step);
    }
    queue_publish(queue, any, any ? step.n_prompt : 0);
}

/* ---- Running ---- */

/* Waits until there is work. False: the queue's run is over. Takes in new requests, under the lock; those
 * that memory runs out for fail. */
static bool wait_for_work(struct engine_queue *queue, enum engine_queue_until until, bool *drop)
{
    pthread_mutex_lock(&queue->lock);
    for (;;) {
        bool taken = take_incoming(queue);
        *drop = queue->dropping;
        if (taken && (queue->active.count > 0 || queue->stopping || until != ENGINE_QUEUE_STOPPED)) break;
        if (taken) {
            pthread_cond_wait(&queue->work, &queue->lock);
            continue;
        }
        pthread_mutex_unlock(&queue->lock);
        end_incoming(queue, ENGINE_DONE_FAILED, ENGINE_ERROR_MEMORY);
        queue_publish(queue, false, 0);
        pthread_mutex_lock(&queue->lock);
    }
    bool any = queue->active.count > 0;
    pthread_mutex_unlock(&queue->lock);
    return any;
}

void queue_drop_all(struct engine_queue *queue)
{
    end_incoming(queue, ENGINE_DONE_CANCELLED, ENGINE_OK);
    drop_cancelled(queue, true);
    pthread_mutex_lock(&queue->lock);
    count_active(queue);
    pthread_cond_broadcast(&queue->events);
    pthread_mutex_unlock(&queue->lock);
}

int engine_queue_run(struct engine_queue *queue, enum engine_queue_until until)
{
    if (until < ENGINE_QUEUE_STOPPED || until > ENGINE_QUEUE_DONE)
        return error_raise(ENGINE_ERROR_ARGUMENT, "a queue can't be run until %d", (int)until);
    pthread_mutex_lock(&queue->lock);
    bool running = queue->running;
    queue->running = true;
    pthread_mutex_unlock(&queue->lock);
    if (running) return error_raise(ENGINE_ERROR_ARGUMENT, "the queue is running already");

    bool drop, more = true;
    const uint64_t n_done = queue->counts.n_done; /* only this thread changes it */
    while (more && wait_for_work(queue, until, &drop)) {
        drop_cancelled(queue, drop);
        run_step(queue);
        more = until != ENGINE_QUEUE_STEP;
        if (more) groups_run(queue, until == ENGINE_QUEUE_DONE ? n_done : UINT64_MAX);
        if (until == ENGINE_QUEUE_DONE) more = queue->counts.n_done == n_done;
    }
    pthread_mutex_lock(&queue->lock);
    queue->running = false;
    if (queue->stopping) pthread_cond_broadcast(&queue->events);
    pthread_mutex_unlock(&queue->lock);
    return ENGINE_OK;
}

/* run.c: the thread that runs the queue: takes in requests, plans each step, decodes, and distributes the
 * logits. */
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "common/clock.h"
#include "queue/beams.h"
#include "queue/queue.h"

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
    struct requests *active = &queue->active; /* has room: see take_incoming */
    size_t at = active->count++;
    for (; at > 0 && ranks_before(request, active->items[at - 1]); at--)
        active->items[at] = active->items[at - 1];
    active->items[at] = request;
}

static bool make_room(struct engine_queue *queue, size_t count)
{
    struct requests *active = &queue->active;
    if (count > active->capacity) {
        size_t capacity = count + count / 2;
        struct request **grown = realloc(active->items, capacity * sizeof(struct request *));
        if (!grown) return false;
        active->items = grown;
        active->capacity = capacity;
    }
    if (count > queue->n_plan) {
        struct step_request *grown = realloc(queue->plan, count * 2 * sizeof *grown);
        if (!grown) return false;
        queue->plan = grown;
        queue->n_plan = count * 2;
    }
    return true;
}

/* Under the lock. Requests that memory runs out for stay where they are until there is some. */
static void take_incoming(struct engine_queue *queue)
{
    struct requests *incoming = &queue->incoming;
    if (!make_room(queue, queue->active.count + incoming->count)) return;
    for (size_t i = 0; i < incoming->count; i++) take_in(queue, incoming->items[i]);
    incoming->count = 0;
}

/* Under the lock. */
static void count_active(struct engine_queue *queue)
{
    uint32_t n_running = 0;
    for (size_t i = 0; i < queue->active.count; i++) n_running += queue->active.items[i]->sequence >= 0;
    queue->counts.n_running = n_running;
    queue->counts.n_waiting = (uint32_t)(queue->active.count + queue->incoming.count) - n_running;
    queue->counts.n_cached = queue->info.n_cache - cache_free(queue);
    queue->counts.n_kept = cache_count_kept(queue);
}

static void give_sequence_back(struct engine_queue *queue, struct request *request)
{
    if (request->sequence < 0) return;
    if (request->beams)
        beams_give_back(queue, request);
    else if (request->kept)
        cache_keep(queue, (uint32_t)request->sequence, request->n_cached);
    else
        cache_clear(queue, (uint32_t)request->sequence);
    request->sequence = -1;
    request->n_cached = 0;
}

/* After its last event. Requests with callbacks are then gone; others stay until their events have been
 * taken. */
static void let_go(struct engine_queue *queue, struct request *request)
{
    give_sequence_back(queue, request);
    requests_remove(&queue->active, request);
    pthread_mutex_lock(&queue->lock);
    queue->counts.n_done++;
    queue->counts.n_generated += request->n_generated;
    queue->counts.n_guessed += request->n_guessed;
    queue->counts.n_accepted += request->n_accepted;
    request->done = true;
    if (!request->first_event) { /* no event was kept, or all have been taken */
        requests_remove(&queue->all, request);
        request_destroy(queue, request);
    }
    pthread_mutex_unlock(&queue->lock);
}

static void end_request(struct engine_queue *queue, struct request *request, enum engine_done_reason reason,
                        int status)
{
    request_finish(queue, request, reason, status);
    let_go(queue, request);
}

static void drop_cancelled(struct engine_queue *queue, bool all)
{
    for (size_t i = queue->active.count; i-- > 0;) {
        struct request *request = queue->active.items[i];
        if (all || atomic_load(&request->cancelled))
            end_request(queue, request, ENGINE_DONE_CANCELLED, ENGINE_OK);
    }
}

/* ---- Planning ---- */

static void describe(const struct engine_queue *queue, const struct request *request,
                     struct step_request *plan)
{
    size_t pending = request->n_tokens - request->n_cached;
    *plan = (struct step_request){
        .priority = request->priority,
        .running = request->sequence >= 0,
        .decoding = request->sequence >= 0 && pending == 1 && request->n_cached > 0,
        .n_cached = request->n_cached,
        .n_pending = pending,
    };
    if (request->beams) beams_describe(queue, request, plan);
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
static bool prepare(const struct engine_queue *queue, struct start *start, struct step_request *plan,
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
        plan->held = !prepare(queue, &start, plan, limits);
        if (plan->held) start.request = NULL;
    }
    return start;
}

static int begin_request(struct engine_queue *queue, const struct start *start)
{
    struct request *request = start->request;
    request->sequence = (int32_t)start->sequence;
    request->n_cached = start->n_cached;
    request->is_encoded = false;
    queue->sequences[start->sequence] = (struct sequence){.used = true};
    if (request->beams) beams_begin(queue, request);
    if (queue->draft) draft_begin(queue->draft, request);
    if (request->started == 0) {
        request->started = seconds_now();
        request->n_reused = (uint32_t)start->n_cached;
        request->most_read = start->n_cached;
        pthread_mutex_lock(&queue->lock);
        queue->counts.n_reused += request->n_reused;
        pthread_mutex_unlock(&queue->lock);
    }
    return request_begin(queue, request);
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

/* One action of the plan. Kept sequences give way before a request does. */
static enum plan_action plan_once(struct engine_queue *queue)
{
    size_t which = 0;
    for (size_t i = 0; i < queue->active.count; i++) describe(queue, queue->active.items[i], &queue->plan[i]);
    struct step_limits limits = limits_of(queue);
    struct start start = prepare_start(queue, &limits);
    enum plan_action action = plan_step(queue->plan, queue->active.count, &limits, &which);
    if (action != PLAN_START && start.request) cache_clear(queue, start.sequence);
    bool crowded = action == PLAN_PUT_BACK || action == PLAN_FULL || (action == PLAN_RUN && start.request);
    if (crowded && cache_give_up(queue)) return PLAN_AGAIN;
    if (action == PLAN_START) {
        int status = begin_request(queue, &start);
        if (status) end_request(queue, start.request, ENGINE_DONE_FAILED, status);
    } else if (action == PLAN_PUT_BACK) {
        put_back(queue, queue->active.items[which]);
    } else if (action == PLAN_FULL) {
        end_request(queue, queue->active.items[which], ENGINE_DONE_CONTEXT, ENGINE_OK);
    }
    return action;
}

/* Starts and puts back requests until a step can run. PLAN_NOTHING: there are none. */
static enum plan_action plan_next(struct engine_queue *queue)
{
    enum plan_action action;
    do action = plan_once(queue);
    while (action != PLAN_NOTHING && action != PLAN_RUN);
    return action;
}

/* ---- Steps ---- */

/* What a step does. */
struct step {
    size_t n_tokens, n_prompt; /* in total, and of prompts */
    size_t n_guess;            /* in all, guessed */
    size_t n_wanted;           /* rows of logits */
    bool pools;                /* it computes embeddings, and needs the states of tokens */
};

static int make_logits_room(struct engine_queue *queue, const struct step *step)
{
    if (step->n_wanted <= queue->n_logits_room) return ENGINE_OK;
    float *grown = realloc(queue->logits, step->n_wanted * queue->info.n_vocab * sizeof *grown);
    if (!grown) return error_memory("logits");
    queue->logits = grown;
    queue->n_logits_room = step->n_wanted;
    return ENGINE_OK;
}

static int make_states_room(struct engine_queue *queue, const struct step *step)
{
    if (!step->pools || step->n_tokens <= queue->n_states_room) return ENGINE_OK;
    float *grown = realloc(queue->states, step->n_tokens * queue->info.n_embd * sizeof *grown);
    if (!grown) return error_memory("embeddings");
    queue->states = grown;
    queue->n_states_room = step->n_tokens;
    return ENGINE_OK;
}

/* Tokens of a request in the planned step. */
static size_t count_tokens(const struct step_request *plan)
{
    return plan->n_now * (1 + plan->n_growing) + plan->n_guess;
}

/* Rows of logits by which a request chooses in this step: none unless it reaches its last token, whose logits choose the next
 * one. */
static size_t count_rows(const struct request *request, const struct step_request *plan)
{
    if (plan->n_now == 0 || plan->n_now < plan->n_pending || request->pooling) return 0;
    return request->beams ? beams_count_rows(request) : 1 + plan->n_guess;
}

/* How many of the planned tokens score a token of the prompt: a number of them in a row, from *first on. */
static size_t count_scores(const struct request *request, const struct step_request *plan, size_t *first)
{
    size_t end = request->n_cached + plan->n_now;
    if (end > request->n_prompt - 1) end = request->n_prompt - 1;
    *first = request_next_score(request);
    return *first < end ? end - *first : 0;
}

static struct step size_up(const struct engine_queue *queue)
{
    struct step step = {0};
    for (size_t i = 0; i < queue->active.count; i++) {
        const struct step_request *plan = &queue->plan[i];
        step.n_tokens += count_tokens(plan);
        step.pools |= plan->n_now > 0 && queue->active.items[i]->pooling;
        step.n_guess += plan->n_guess;
        if (!plan->decoding) step.n_prompt += plan->n_now;
        size_t first_score;
        step.n_wanted += count_scores(queue->active.items[i], plan, &first_score);
        step.n_wanted += count_rows(queue->active.items[i], plan);
    }
    return step;
}

/* The planned tokens of one request. */
static bool fill_batch(struct step_batch *batch, const struct request *request,
                       const struct step_request *plan)
{
    bool wanted = count_rows(request, plan) > 0, good = true;
    if (request->beams) return beams_fill(batch, request, plan);
    size_t first_score, n_scores = count_scores(request, plan, &first_score);
    for (size_t i = 0; i < plan->n_now && good; i++) {
        size_t position = request->n_cached + i;
        bool scores = n_scores > 0 && position >= first_score && position < first_score + n_scores;
        good = step_batch_add(batch, request->tokens[position], request->sequence,
                              scores || (wanted && i + 1 == plan->n_now));
        if (good && request->token_types) batch->types[batch->count - 1] = request->token_types[position];
    }
    for (size_t i = 0; i < plan->n_guess && good; i++)
        good = step_batch_add(batch, request->guesses.tokens[i], request->sequence, wanted);
    return good;
}

/* Lets the encoder read the source texts of requests whose first step this is. */
static int encode_sources(struct engine_queue *queue)
{
    struct step_batch *batch = &queue->batch;
    bool good = true;
    batch->count = 0;
    for (size_t i = 0; i < queue->active.count && good; i++) {
        const struct request *request = queue->active.items[i];
        if (queue->plan[i].n_now == 0 || request->is_encoded) continue;
        for (size_t t = 0; t < request->n_source && good; t++)
            good = step_batch_add(batch, request->source[t], request->sequence, false);
    }
    if (!good) return error_memory("batch");
    int status = batch->count > 0 ? step_batch_encode(batch, queue->context) : ENGINE_OK;
    for (size_t i = 0; i < queue->active.count && !status; i++)
        if (queue->plan[i].n_now > 0) queue->active.items[i]->is_encoded = true;
    return status;
}

/* Decodes the planned tokens. */
static int decode(struct engine_queue *queue, const struct step *step)
{
    int status = make_logits_room(queue, step);
    if (!status) status = make_states_room(queue, step);
    if (!status && queue->info.has_source) status = encode_sources(queue);
    queue->batch.count = 0;
    for (size_t i = 0; i < queue->active.count && !status; i++)
        if (!fill_batch(&queue->batch, queue->active.items[i], &queue->plan[i]))
            status = error_memory("batch");
    if (status) return status;
    return step_batch_decode(&queue->batch, queue->context, step->n_wanted > 0 ? queue->logits : NULL,
                             step->pools ? queue->states : NULL, step->n_prompt == 0 ? &queue->costs : NULL);
}

/* Fails the requests of a failed step. The message is this thread's, and each callback may set a new one. */
static void fail_step(struct engine_queue *queue, int status)
{
    char message[512];
    strncpy(message, error_message(), sizeof message - 1);
    message[sizeof message - 1] = '\0';
    for (size_t i = queue->active.count; i-- > 0;) {
        if (queue->plan[i].n_now == 0) continue;
        error_raise(status, "%s", message);
        end_request(queue, queue->active.items[i], ENGINE_DONE_FAILED, status);
    }
}

/* Gives rows of logits to requests that have reached their end; others report the progress of their prompts.
 * From the last rank to the first, so that requests that leave don't move the others. */
static void hand_out(struct engine_queue *queue, const struct step *step)
{
    size_t row = step->n_wanted, token = step->n_tokens;
    for (size_t i = queue->active.count; i-- > 0;) {
        const struct step_request *plan = &queue->plan[i];
        struct request *request = queue->active.items[i];
        token -= count_tokens(plan);
        if (plan->n_now == 0) continue;
        size_t first_score, n_scores = count_scores(request, plan, &first_score);
        size_t n_rows = count_rows(request, plan);
        row -= n_scores + n_rows;
        float *scores = queue->logits + row * queue->info.n_vocab,
              *logits = scores + n_scores * queue->info.n_vocab;
        if (request->pooling)
            request_pool(queue, request, queue->states + token * queue->info.n_embd, plan->n_now);
        if (request->beams)
            beams_computed(queue, request, plan);
        else
            request->n_cached += plan->n_now;
        size_t n_read = request->n_cached < request->n_prompt ? request->n_cached : request->n_prompt;
        bool further = n_read > request->most_read;
        if (further) request->most_read = n_read;
        if (n_scores > 0 && !request_score(queue, request, scores, n_scores)) {
            let_go(queue, request);
            continue;
        }
        bool pooled = request->pooling && request->n_cached == request->n_prompt;
        if (n_rows == 0 && !pooled) {
            if (further) request_tell_progress(queue, request);
            continue;
        }
        if (request->prompt_read == 0) request->prompt_read = seconds_now();
        bool goes_on = request->beams ? beams_take_logits(queue, request, logits)
                       : pooled       ? request_take_logits(queue, request, NULL)
                                      : guess_check(queue, request, logits);
        if (!goes_on) let_go(queue, request);
    }
}

/* Slow steps read shorter pieces of prompts while other requests decode; quick ones read longer pieces. */
static void adapt_chunk(struct engine_queue *queue, const struct step *step, double seconds)
{
    bool mixed = step->n_prompt > 0 && step->n_prompt < step->n_tokens;
    if (queue->n_chunk_fixed > 0 || !mixed) return;
    if (seconds > STEP_SECONDS && queue->n_chunk > LEAST_CHUNK)
        queue->n_chunk /= 2;
    else if (seconds < STEP_SECONDS / 3 && step->n_prompt == queue->n_chunk &&
             queue->n_chunk < queue->info.n_batch)
        queue->n_chunk *= 2;
}

/* After a failure, sequences may be shorter than before. */
static void count_cached(struct engine_queue *queue)
{
    for (size_t i = 0; i < queue->active.count; i++) {
        struct request *request = queue->active.items[i];
        if (request->sequence < 0) continue;
        if (request->beams) {
            beams_count_cached(queue, request);
            continue;
        }
        size_t length = engine_sequence_length(queue->context, (uint32_t)request->sequence);
        if (length < request->n_cached) request->n_cached = length;
    }
}

/* Plans and decodes until the context accepts the step. The cache may have less room than planned, when
 * requests share blocks that they continue in: then the last in rank makes room. */
static enum plan_action decode_next(struct engine_queue *queue, struct step *step)
{
    for (bool guess = true;;) {
        enum plan_action action = plan_next(queue);
        if (action == PLAN_NOTHING) return action;
        struct step_limits limits = limits_of(queue);
        int status = guess ? guess_step(queue, &limits) : ENGINE_OK;
        if (status) {
            fail_step(queue, status);
            return PLAN_FULL;
        }
        *step = size_up(queue);
        status = decode(queue, step);
        if (!status) return PLAN_RUN;
        count_cached(queue);
        guess = false;
        if (status == ENGINE_ERROR_MEMORY && (step->n_guess > 0 || cache_give_up(queue))) continue;
        size_t last = queue->active.count, n_running = 0;
        for (size_t i = 0; i < queue->active.count; i++)
            if (queue->active.items[i]->sequence >= 0) last = i, n_running++;
        if (status == ENGINE_ERROR_MEMORY && n_running > 1) {
            put_back(queue, queue->active.items[last]);
            continue;
        }
        fail_step(queue, status);
        return PLAN_FULL;
    }
}

static void run_step(struct engine_queue *queue)
{
    struct step step;
    double start = seconds_now();
    bool any = decode_next(queue, &step) == PLAN_RUN;
    if (any) {
        adapt_chunk(queue, &step, seconds_now() - start);
        hand_out(queue, &step);
    }
    pthread_mutex_lock(&queue->lock);
    queue->counts.n_steps += any;
    queue->counts.n_prompt += any ? step.n_prompt : 0;
    count_active(queue);
    if (queue->events_kept) pthread_cond_broadcast(&queue->events);
    queue->events_kept = false;
    pthread_mutex_unlock(&queue->lock);
}

/* ---- Running ---- */

/* Waits until there is work. False: the queue's run is over. Takes in new requests, under the lock. */
static bool wait_for_work(struct engine_queue *queue, enum engine_queue_until until, bool *drop)
{
    pthread_mutex_lock(&queue->lock);
    for (;;) {
        take_incoming(queue);
        *drop = queue->dropping;
        if (queue->active.count > 0 || queue->stopping || until != ENGINE_QUEUE_STOPPED) break;
        pthread_cond_wait(&queue->work, &queue->lock);
    }
    bool any = queue->active.count > 0;
    pthread_mutex_unlock(&queue->lock);
    return any;
}

void queue_drop_all(struct engine_queue *queue)
{
    pthread_mutex_lock(&queue->lock);
    take_incoming(queue);
    pthread_mutex_unlock(&queue->lock);
    drop_cancelled(queue, true);
    pthread_mutex_lock(&queue->lock);
    count_active(queue);
    pthread_cond_broadcast(&queue->events);
    pthread_mutex_unlock(&queue->lock);
}

int engine_queue_run(struct engine_queue *queue, enum engine_queue_until until)
{
    if (until < ENGINE_QUEUE_STOPPED || until > ENGINE_QUEUE_STEP)
        return error_raise(ENGINE_ERROR_ARGUMENT, "a queue can't be run until %d", (int)until);
    pthread_mutex_lock(&queue->lock);
    bool running = queue->running;
    queue->running = true;
    pthread_mutex_unlock(&queue->lock);
    if (running) return error_raise(ENGINE_ERROR_ARGUMENT, "the queue is running already");

    bool drop;
    while (wait_for_work(queue, until, &drop)) {
        drop_cancelled(queue, drop);
        run_step(queue);
        if (until == ENGINE_QUEUE_STEP) break;
    }
    pthread_mutex_lock(&queue->lock);
    queue->running = false;
    if (queue->stopping) pthread_cond_broadcast(&queue->events);
    pthread_mutex_unlock(&queue->lock);
    return ENGINE_OK;
}

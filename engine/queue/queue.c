/* queue.c: creates and destroys queues, and answers the calls that any thread may make. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/error.h"
#include "common/array.h"
#include "queue/internal.h"

#define DEFAULT_WAITING 1024
#define FIRST_CHUNK     64
#define MAX_ENDS        1024

/* ---- Lists ---- */

bool requests_add(struct requests *list, struct request *request)
{
    if (!ARRAY_RESERVE(list->items, list->capacity, list->count + 1)) return false;
    list->items[list->count++] = request;
    return true;
}

void requests_remove(struct requests *list, const struct request *request)
{
    size_t at = 0;
    while (at < list->count && list->items[at] != request) at++;
    if (at == list->count) return;
    memmove(&list->items[at], &list->items[at + 1], (list->count - at - 1) * sizeof *list->items);
    list->count--;
}

/* Under the lock. Ids grow, so the list is sorted by id. */
static struct request *queue_find(const struct engine_queue *queue, uint64_t id)
{
    ENGINE_ASSERT(lock_is_mine(&queue->lock));
    const struct requests *all = &queue->all;
    size_t low = 0, high = all->count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (all->items[middle]->id < id)
            low = middle + 1;
        else
            high = middle;
    }
    return low < all->count && all->items[low]->id == id ? all->items[low] : NULL;
}

/* ---- Creation ---- */

/* The tokens that end a text, as far as the metadata name them: all that is known without a tokenizer. */
static int read_end_tokens(struct engine_queue *queue)
{
    static const char list[] = "tokenizer.hf.eos_token_ids";
    static const char *const keys[] = {"tokenizer.ggml.eos_token_id", "tokenizer.ggml.eot_token_id"};
    const struct engine_metadata *metadata = engine_model_metadata(queue->context->plan->model);
    size_t count = 0;
    if (metadata->get_count(metadata->context, list, &count) != ENGINE_OK || count > MAX_ENDS) count = 0;
    queue->end_tokens = calloc(count + 2, sizeof *queue->end_tokens);
    if (!queue->end_tokens) return error_memory("tokens that end a text");
    for (size_t i = 0; i < count + 2; i++) {
        int64_t id = -1;
        int status = i < count ? metadata->get_integers(metadata->context, list, i, 1, &id)
                               : metadata->get_integer(metadata->context, keys[i - count], &id);
        if (status == ENGINE_OK && id >= 0 && id < (int64_t)queue->n_sampled)
            queue->end_tokens[queue->n_end_tokens++] = (int32_t)id;
    }
    return ENGINE_OK;
}

/* A model without a tokenizer can still take and give tokens. */
static int open_tokenizer(struct engine_queue *queue)
{
    const struct engine_tokenizer_api *api;
    int status = engine_model_tokenizer(queue->context->plan->model, &api, &queue->tokenizer);
    queue->n_sampled = queue->info.n_vocab;
    queue->vocabulary.struct_size = sizeof queue->vocabulary;
    if (!status) status = api->info(queue->tokenizer, &queue->vocabulary);
    if (status == ENGINE_ERROR_MEMORY) return status;
    if (status) {
        queue->tokenizer_status = status;
        strncpy(queue->tokenizer_message, error_message(), sizeof queue->tokenizer_message - 1);
        return read_end_tokens(queue);
    }
    queue->api = api;
    /* A model may have more rows than tokens, to round their number, and a file more tokens than rows. */
    if (queue->vocabulary.n_tokens < queue->n_sampled) queue->n_sampled = queue->vocabulary.n_tokens;
    return ENGINE_OK;
}

static int create_locks(struct engine_queue *queue)
{
    pthread_condattr_t monotonic;
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC); /* engine_queue_poll waits this long */
    int failed = lock_init(&queue->lock) != 0;
    failed |= pthread_cond_init(&queue->work, NULL) != 0;
    failed |= pthread_cond_init(&queue->events, &monotonic) != 0;
    pthread_condattr_destroy(&monotonic);
    return failed ? error_memory("queue") : ENGINE_OK;
}

static int take_guesses(struct engine_queue *queue, const struct engine_queue_options *options)
{
    queue->lookup = options->lookup != 0;
    queue->n_guess_least = options->n_guess_least;
    queue->n_guess_most =
        options->n_guess_most && options->n_guess_most < PACE_MAX ? options->n_guess_most : PACE_MAX;
    if (queue->n_guess_least > queue->n_guess_most)
        return error_raise(ENGINE_ERROR_ARGUMENT, "guesses of at least %u tokens and at most %u",
                           queue->n_guess_least, queue->n_guess_most);
    if ((options->lookup || options->draft) && queue->context->plan->n_states > 0)
        return error_raise(
            ENGINE_ERROR_UNSUPPORTED,
            "no guesses (--lookup, --draft) for a recurrent model: what a wrong one changes in "
            "its state can't be taken back");
    if (options->draft && queue->info.has_source)
        return error_raise(ENGINE_ERROR_UNSUPPORTED,
                           "no draft model (--draft) for a model with an encoder and a decoder");
    return options->draft ? draft_create(queue, options->draft, &queue->draft) : ENGINE_OK;
}

int engine_queue_create(struct engine_context *context, const struct engine_queue_options *options,
                        struct engine_queue **out)
{
    struct engine_queue_options known = {.struct_size = sizeof known};
    if (options) {
        int status = SIZED_CHECK(options, engine_queue_options, n_chunk);
        if (status) return status;
        sized_read(&known, sizeof known, options);
    }
    struct engine_queue *queue = calloc(1, sizeof *queue);
    if (!queue) return error_memory("queue");
    queue->context = context;
    queue->info.struct_size = sizeof queue->info;
    queue->n_waiting_most = known.n_waiting ? known.n_waiting : DEFAULT_WAITING;
    queue->n_chunk_fixed = known.n_chunk;
    queue->n_chunk = known.n_chunk ? known.n_chunk : FIRST_CHUNK;
    int status = engine_context_get_info(context, &queue->info);
    if (!status) queue->sequences = calloc(queue->info.n_sequences, sizeof *queue->sequences);
    if (!status && !queue->sequences) status = error_memory("queue");
    if (!status) status = create_locks(queue);
    if (status) {
        free(queue->sequences);
        free(queue);
        return status;
    }
    for (uint32_t s = 0; s < queue->info.n_sequences; s++)
        if (engine_sequence_length(context, s) > 0) queue->sequences[s].kept = ++queue->n_kept;
    status = open_tokenizer(queue);
    if (!status) status = take_guesses(queue, &known);
    if (!status) status = head_create(context->plan->model, &queue->head);
    if (!status) status = dense_create(context->plan->model, &queue->dense);
    if (status) {
        engine_queue_destroy(queue);
        return status;
    }
    *out = queue;
    return ENGINE_OK;
}

void engine_queue_destroy(struct engine_queue *queue)
{
    if (!queue) return;
    engine_queue_stop(queue, 1);
    queue_drop_all(queue);
    for (size_t i = 0; i < queue->all.count; i++) request_destroy(queue, queue->all.items[i]);
    free(queue->all.items);
    free(queue->incoming.items);
    free(queue->active.items);
    free(queue->sequences);
    free(queue->plan);
    step_batch_free(&queue->batch);
    for (int i = 0; i <= PLAN_MAX_GROUPS; i++) free(queue->logits[i].items);
    free(queue->states);
    free(queue->end_tokens);
    draft_destroy(queue->draft);
    head_free(queue->head);
    dense_free(queue->dense);
    pthread_cond_destroy(&queue->events);
    pthread_cond_destroy(&queue->work);
    pthread_mutex_destroy(&queue->lock);
    free(queue);
}

/* ---- Requests ---- */

/* Under the lock. */
static int put_in_line(struct engine_queue *queue, struct request *request)
{
    ENGINE_ASSERT(lock_is_mine(&queue->lock));
    if (queue->stopping) return error_raise(ENGINE_ERROR_BUSY, "the queue takes no more requests");
    if (queue->counts.n_waiting >= queue->n_waiting_most)
        return error_raise(ENGINE_ERROR_BUSY, "%u requests are waiting already; try again later",
                           queue->counts.n_waiting);
    if (!requests_add(&queue->all, request)) return error_memory("queue");
    if (!requests_add(&queue->incoming, request)) {
        queue->all.count--;
        return error_memory("queue");
    }
    request->id = ++queue->last_id; /* the largest of `all`: see find */
    queue->counts.n_waiting++;
    queue->counts.n_requests++;
    pthread_cond_signal(&queue->work);
    return ENGINE_OK;
}

int engine_queue_submit(struct engine_queue *queue, const struct engine_request *given, uint64_t *id)
{
    struct request *request;
    int status = request_create(queue, given, &request);
    if (status) return status;
    uint64_t own = 0;
    pthread_mutex_lock(&queue->lock);
    status = put_in_line(queue, request);
    if (!status) own = request->id; /* once the lock is released it may be gone */
    pthread_mutex_unlock(&queue->lock);
    if (status)
        request_destroy(queue, request);
    else if (id)
        *id = own;
    return status;
}

static int no_request(uint64_t id)
{
    return error_raise(ENGINE_ERROR_NOT_FOUND, "there is no request %llu, or it is done",
                       (unsigned long long)id);
}

int engine_queue_cancel(struct engine_queue *queue, uint64_t id)
{
    pthread_mutex_lock(&queue->lock);
    struct request *request = queue_find(queue, id);
    bool found = request && !request->done;
    if (found) atomic_store(&request->cancelled, true);
    pthread_mutex_unlock(&queue->lock);
    return found ? ENGINE_OK : no_request(id);
}

void engine_queue_stop(struct engine_queue *queue, int drop)
{
    pthread_mutex_lock(&queue->lock);
    queue->stopping = true;
    if (drop) queue->dropping = true;
    pthread_cond_broadcast(&queue->work);
    pthread_cond_broadcast(&queue->events);
    pthread_mutex_unlock(&queue->lock);
}

int engine_queue_get_info(struct engine_queue *queue, struct engine_queue_info *info)
{
    int status = SIZED_CHECK(info, engine_queue_info, n_generated);
    if (status) return status;
    pthread_mutex_lock(&queue->lock);
    struct engine_queue_info known = queue->counts;
    pthread_mutex_unlock(&queue->lock);
    known.n_context = queue->info.n_context;
    known.n_sequences = queue->info.n_sequences;
    known.n_cache = queue->info.n_cache;
    sized_write(info, &known, sizeof known);
    return ENGINE_OK;
}

/* ---- Events ---- */

/* Under the lock: the request whose event a poll takes; NULL: there is none yet. *any: whether one will or
 * may come. */
static struct request *find_event(const struct engine_queue *queue, uint64_t id, bool *any)
{
    ENGINE_ASSERT(lock_is_mine(&queue->lock));
    if (id != 0) {
        struct request *request = queue_find(queue, id);
        *any = request && !request->event && !(request->done && !request->first_event);
        return *any && request->first_event ? request : NULL;
    }
    *any = !queue->stopping;
    for (size_t i = 0; i < queue->all.count; i++) {
        struct request *request = queue->all.items[i];
        if (request->event) continue;
        *any = *any || !request->done;
        if (request->first_event) return request;
    }
    return NULL;
}

/* Under the lock. The last event takes the request with it. */
static struct engine_event *take_event(struct engine_queue *queue, struct request *request)
{
    struct kept_event *kept = request->first_event;
    ENGINE_ASSERT(lock_is_mine(&queue->lock));
    request->first_event = kept->next;
    if (!kept->next) request->last_event = NULL;
    if (request->done && !kept->next) {
        requests_remove(&queue->all, request);
        request_destroy(queue, request);
    }
    return &kept->event;
}

static struct timespec time_after(int milliseconds)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    time.tv_sec += milliseconds / 1000;
    time.tv_nsec += milliseconds % 1000 * 1000000L;
    if (time.tv_nsec >= 1000000000L) {
        time.tv_sec++;
        time.tv_nsec -= 1000000000L;
    }
    return time;
}

int engine_queue_poll(struct engine_queue *queue, uint64_t id, int milliseconds, struct engine_event **event)
{
    struct timespec until = time_after(milliseconds > 0 ? milliseconds : 0);
    struct request *request;
    bool any, late = milliseconds == 0;
    *event = NULL;
    pthread_mutex_lock(&queue->lock);
    while (!(request = find_event(queue, id, &any)) && any && !late) {
        if (milliseconds < 0)
            pthread_cond_wait(&queue->events, &queue->lock);
        else
            late = pthread_cond_timedwait(&queue->events, &queue->lock, &until) == ETIMEDOUT;
    }
    if (request) *event = take_event(queue, request);
    pthread_mutex_unlock(&queue->lock);
    if (*event || any) return ENGINE_OK;
    if (id != 0) return no_request(id);
    return error_raise(ENGINE_ERROR_NOT_FOUND, "the queue is stopped, and all events have been taken");
}

void engine_event_free(struct engine_event *event)
{
    free(event); /* see struct kept_event */
}

/* request.c: one request of the queue as it runs: its events and its end. request-create.c makes it. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "common/clock.h"
#include "internal.h"
#include "queue/internal.h"

/* ---- Events ---- */

/* Appends a copy of some bytes to those of a kept event. */
static void *request_append(struct kept_event *kept, size_t *used, const void *bytes, size_t size)
{
    void *copy = kept->bytes + *used;
    if (size > 0) memcpy(copy, bytes, size);
    *used += size;
    return copy;
}

static size_t size_of_beams(const struct engine_event *event)
{
    size_t size = event->n_beams * sizeof *event->beams;
    for (uint32_t i = 0; i < event->n_beams; i++)
        size += event->beams[i].n_tokens * sizeof(int32_t) + event->beams[i].text.length;
    return size;
}

static size_t size_of_embedding(const struct engine_event *event)
{
    return (size_t)event->n_embd * event->n_rows * sizeof *event->embedding;
}

/* A copy of an event for engine_queue_poll, followed by what it points to: first what has to be aligned. */
static struct kept_event *keep_event(const struct engine_event *event)
{
    size_t length = strlen(event->message), top = event->n_top * sizeof *event->top, used = 0,
           embedding = size_of_embedding(event),
           size = sizeof(struct kept_event) + top + embedding + size_of_beams(event) + event->text.length +
                  length + 2;
    struct kept_event *kept = malloc(size);
    if (!kept) return NULL;
    kept->event = *event;
    kept->next = NULL;
    struct engine_beam *beams = request_append(kept, &used, event->beams, event->n_beams * sizeof *beams);
    if (event->n_beams > 0) kept->event.beams = beams;
    void *copy = request_append(kept, &used, event->top, top);
    if (top > 0) kept->event.top = copy;
    copy = request_append(kept, &used, event->embedding, embedding);
    if (embedding > 0) kept->event.embedding = copy;
    for (uint32_t i = 0; i < event->n_beams; i++)
        beams[i].tokens = request_append(kept, &used, beams[i].tokens, beams[i].n_tokens * sizeof(int32_t));
    for (uint32_t i = 0; i < event->n_beams; i++)
        beams[i].text.data = request_append(kept, &used, beams[i].text.data, beams[i].text.length);
    kept->event.text.data = request_append(kept, &used, event->text.data, event->text.length);
    request_append(kept, &used, "", 1);
    kept->event.message = request_append(kept, &used, event->message, length + 1);
    ENGINE_ASSERT(used == size - sizeof *kept);
    return kept;
}

/* The last event of a request that has lost one. */
static struct kept_event *take_spare(struct request *request, const struct engine_event *event)
{
    struct kept_event *kept = request->spare;
    ENGINE_ASSERT(kept); /* there is one last event */
    request->spare = NULL;
    *kept = (struct kept_event){.event = {
                                    .struct_size = sizeof kept->event,
                                    .request = event->request,
                                    .kind = ENGINE_EVENT_DONE,
                                    .token = -1,
                                    .user = event->user,
                                    .text = {.data = ""},
                                    .stop = -1,
                                    .sequence = -1,
                                    .reason = ENGINE_DONE_FAILED,
                                    .status = ENGINE_ERROR_MEMORY,
                                    .message = "out of memory (events)",
                                }};
    return kept;
}

/* Where there is no memory for a kept event, the request fails: what follows would have a hole. */
static struct kept_event *keep_or_fail(struct request *request, const struct engine_event *event)
{
    struct kept_event *kept = request->has_lost_event ? NULL : keep_event(event);
    if (kept) return kept;
    request->has_lost_event = true;
    atomic_store(&request->cancelled, true);
    if (event->kind != ENGINE_EVENT_DONE) return NULL;
    request->kept = false; /* the event can't name the sequence */
    return take_spare(request, event);
}

void request_hand_over(struct engine_queue *queue, struct request *request, struct engine_event *event)
{
    if (request->event) {
        request->event(request->user, event);
        return;
    }
    ENGINE_ASSERT(!request->done); /* nothing comes after the last event */
    struct kept_event *kept = keep_or_fail(request, event);
    pthread_mutex_lock(&queue->lock);
    if (kept) {
        if (request->last_event)
            request->last_event->next = kept;
        else
            request->first_event = kept;
        request->last_event = kept;
    }
    queue->events_kept = true;
    pthread_mutex_unlock(&queue->lock);
}

struct engine_event request_event(const struct request *request, uint32_t kind)
{
    struct engine_event event = {
        .struct_size = sizeof event,
        .request = request->id,
        .kind = kind,
        .token = -1,
        .user = request->user,
        .text = {.data = ""},
        .n_prompt = (uint32_t)(request->source ? request->n_source : request->most_read),
        .n_reused = request->n_reused,
        .n_generated = request->n_generated,
        .n_guessed = request->n_guessed,
        .n_accepted = request->n_accepted,
        .stop = -1,
        .message = "",
        .sequence = -1,
    };
    double now = seconds_now();
    event.wait_seconds = (request->started > 0 ? request->started : now) - request->submitted;
    if (request->started > 0)
        event.prompt_seconds = (request->prompt_read > 0 ? request->prompt_read : now) - request->started;
    if (request->prompt_read > 0) event.text_seconds = now - request->prompt_read;
    return event;
}

void request_tell_progress(struct engine_queue *queue, struct request *request, uint32_t kind)
{
    if (!(request->flags & ENGINE_REQUEST_PROGRESS)) return;
    struct engine_event event = request_event(request, kind);
    request_hand_over(queue, request, &event);
}

/* ---- The end ---- */

/* `stop`: the stop text that has ended the request; otherwise -1, and the text held back is sent. */
static void request_finish_with(struct engine_queue *queue, struct request *request,
                                enum engine_done_reason reason, int status, int32_t stop)
{
    const struct request_kind *kind = request->kind;
    struct engine_string text = {0};
    char message[512] = "";
    bool flush = stop < 0 && kind->flush && reason != ENGINE_DONE_FAILED;
    int flushed = flush ? kind->flush(queue, request, &text, &stop) : ENGINE_OK;
    if (flushed) {
        reason = ENGINE_DONE_FAILED;
        status = flushed;
    }
    if (stop >= 0 && reason != ENGINE_DONE_CANCELLED) reason = ENGINE_DONE_STOP;
    if (kind->collect && reason != ENGINE_DONE_FAILED && (status = kind->collect(queue, request, reason)))
        reason = ENGINE_DONE_FAILED;
    if (reason == ENGINE_DONE_FAILED) strncpy(message, error_message(), sizeof message - 1);

    struct engine_event event = request_event(request, ENGINE_EVENT_DONE);
    if (text.length > 0) event.text = text;
    event.reason = reason;
    event.stop = reason == ENGINE_DONE_STOP ? stop : -1;
    event.incomplete =
        request->choice.match && engine_match_get_state(request->choice.match) == ENGINE_MATCH_INCOMPLETE;
    event.status = reason == ENGINE_DONE_FAILED ? status : ENGINE_OK;
    event.message = message;
    request->kept = request->flags & ENGINE_REQUEST_KEEP && reason != ENGINE_DONE_FAILED &&
                    request->sequence >= 0 && request->n_cached > 0;
    if (request->kept) event.sequence = request->sequence;
    if (kind->complete && reason != ENGINE_DONE_FAILED) kind->complete(queue, request, &event);
    request_hand_over(queue, request, &event);
}

void request_finish(struct engine_queue *queue, struct request *request, enum engine_done_reason reason,
                    int status)
{
    request_finish_with(queue, request, reason, status, -1);
}

void request_finish_stopped(struct engine_queue *queue, struct request *request, int32_t stop)
{
    request_finish_with(queue, request, ENGINE_DONE_STOP, ENGINE_OK, stop);
}

/* ---- Kinds with one sequence ---- */

uint32_t request_count_sequences(const struct request *request)
{
    (void)request;
    return 1;
}

void request_give_back(struct engine_queue *queue, struct request *request)
{
    if (request->kept)
        cache_keep(queue, (uint32_t)request->sequence, request->n_cached);
    else
        cache_clear(queue, (uint32_t)request->sequence);
}

void request_computed(struct engine_queue *queue, struct request *request, const struct step_request *plan,
                      const float *states)
{
    (void)queue, (void)states;
    request->n_cached += plan->n_now;
}

void request_count_cached(const struct engine_queue *queue, struct request *request)
{
    size_t length = engine_sequence_length(queue->context, (uint32_t)request->sequence);
    if (length < request->n_cached) request->n_cached = length;
}

size_t request_next_score(const struct request *request)
{
    return request->kind->next_score ? request->kind->next_score(request) : SIZE_MAX;
}

/* request.c: one request of the queue as it runs: its tokens, text and events. request-create.c makes it. */
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "common/array.h"
#include "common/clock.h"
#include "internal.h"
#include "queue/queue.h"
#include "sample/sampler.h"

#define MAX_STOP_TEXTS 256
#define MAX_STOP_BYTES 4096 /* of one of them */

/* ---- Stop texts ---- */

int stop_texts_create(struct stop_texts *stop, const struct engine_string *texts, size_t n_texts)
{
    *stop = (struct stop_texts){0};
    if (n_texts == 0) return ENGINE_OK;
    if (!texts || n_texts > MAX_STOP_TEXTS)
        return error_raise(ENGINE_ERROR_ARGUMENT, "%zu stop texts: at most %d", n_texts, MAX_STOP_TEXTS);
    stop->texts = calloc(n_texts, sizeof *stop->texts);
    if (!stop->texts) return error_memory("stop texts");
    for (size_t i = 0; i < n_texts; i++) {
        if (!texts[i].data || texts[i].length == 0 || texts[i].length > MAX_STOP_BYTES) {
            size_t length = texts[i].data ? texts[i].length : 0;
            stop_texts_destroy(stop);
            return error_raise(ENGINE_ERROR_ARGUMENT, "stop text %zu has %zu bytes; it should have 1 to %d",
                               i, length, MAX_STOP_BYTES);
        }
        char *copy = malloc(texts[i].length);
        if (!copy) {
            stop_texts_destroy(stop);
            return error_memory("stop texts");
        }
        memcpy(copy, texts[i].data, texts[i].length);
        stop->texts[i] = (struct engine_string){copy, texts[i].length};
        stop->n_texts++;
        if (texts[i].length > stop->longest) stop->longest = texts[i].length;
    }
    return ENGINE_OK;
}

void stop_texts_destroy(struct stop_texts *stop)
{
    for (size_t i = 0; i < stop->n_texts; i++) free((char *)(size_t)stop->texts[i].data);
    free(stop->texts);
    free(stop->held.data);
    *stop = (struct stop_texts){0};
}

/* How many bytes of the held text from a position on agree with a stop text, up to the end of either. 0: they
 * differ. */
static size_t agreement(const struct stop_texts *stop, const struct engine_string *text, size_t at)
{
    size_t left = stop->held.size - at, n = text->length < left ? text->length : left;
    return memcmp(stop->held.data + at, text->data, n) == 0 ? n : 0;
}

int stop_texts_add(struct stop_texts *stop, const char *text, size_t length, bool last,
                   struct engine_string *certain, int32_t *which)
{
    *which = -1;
    ENGINE_ASSERT(stop->n_handed <= stop->held.size);
    if (stop->n_handed > 0)
        memmove(stop->held.data, stop->held.data + stop->n_handed, stop->held.size - stop->n_handed);
    stop->held.size -= stop->n_handed;
    stop->n_handed = 0;
    if (!text_buffer_add(&stop->held, text, length)) return error_memory("text");

    size_t from = stop->held.size,
           begin = 0; /* the first byte to hold back; with a complete stop text, where that begins */
    size_t end = SIZE_MAX;
    for (size_t at = 0; at < stop->held.size; at++)
        for (size_t i = 0; i < stop->n_texts; i++) {
            size_t agreed = agreement(stop, &stop->texts[i], at);
            if (agreed > 0 && at < from) from = at;
            if (agreed < stop->texts[i].length || at + agreed >= end) continue;
            *which = (int32_t)i;
            begin = at;
            end = at + agreed;
        }
    if (*which >= 0) from = begin;
    if (last && *which < 0) from = stop->held.size;
    *certain = (struct engine_string){stop->held.data ? stop->held.data : "", from};
    stop->n_handed = from;
    return ENGINE_OK;
}

/* ---- Events ---- */

/* Appends a copy of some bytes to those of a kept event. */
static void *append(struct kept_event *kept, size_t *used, const void *bytes, size_t size)
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
    struct engine_beam *beams = append(kept, &used, event->beams, event->n_beams * sizeof *beams);
    if (event->n_beams > 0) kept->event.beams = beams;
    void *copy = append(kept, &used, event->top, top);
    if (top > 0) kept->event.top = copy;
    copy = append(kept, &used, event->embedding, embedding);
    if (embedding > 0) kept->event.embedding = copy;
    for (uint32_t i = 0; i < event->n_beams; i++)
        beams[i].tokens = append(kept, &used, beams[i].tokens, beams[i].n_tokens * sizeof(int32_t));
    for (uint32_t i = 0; i < event->n_beams; i++)
        beams[i].text.data = append(kept, &used, beams[i].text.data, beams[i].text.length);
    kept->event.text.data = append(kept, &used, event->text.data, event->text.length);
    append(kept, &used, "", 1);
    kept->event.message = append(kept, &used, event->message, length + 1);
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

static void hand_over(struct engine_queue *queue, struct request *request, struct engine_event *event)
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

static struct engine_event new_event(const struct request *request, uint32_t kind)
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

void request_tell_progress(struct engine_queue *queue, struct request *request)
{
    if (!(request->flags & ENGINE_REQUEST_PROGRESS)) return;
    struct engine_event event = new_event(request, ENGINE_EVENT_PROMPT);
    hand_over(queue, request, &event);
}

void request_tell_beams(struct engine_queue *queue, struct request *request)
{
    if (!(request->flags & ENGINE_REQUEST_PROGRESS)) return;
    struct engine_event event = new_event(request, ENGINE_EVENT_BEAMS);
    hand_over(queue, request, &event);
}

static void tell_logprob(const struct request *request, int32_t token, struct engine_event *event)
{
    event->logprob = logprobs_of(&request->logprobs, token);
    event->top = request->logprobs.top;
    event->n_top =
        request->n_logprobs < request->logprobs.n_found ? request->n_logprobs : request->logprobs.n_found;
}

size_t request_next_score(const struct request *request)
{
    if (request->n_scored == request->n_score) return SIZE_MAX;
    return request->n_prompt - request->n_score + request->n_scored - 1;
}

bool request_score(struct engine_queue *queue, struct request *request, const float *logits, size_t count)
{
    ENGINE_ASSERT(count <= request->n_score - request->n_scored);
    for (size_t i = 0; i < count; i++) {
        int status = logprobs_check(logits + i * queue->info.n_vocab, queue->info.n_vocab);
        if (status) {
            request_finish(queue, request, ENGINE_DONE_FAILED, status);
            return false;
        }
        struct engine_event event = new_event(request, ENGINE_EVENT_SCORE);
        event.token = request->tokens[request_next_score(request) + 1];
        logprobs_read(&request->logprobs, logits + i * queue->info.n_vocab);
        tell_logprob(request, event.token, &event);
        request->n_scored++;
        hand_over(queue, request, &event);
    }
    return true;
}

uint32_t request_width(const struct engine_queue *queue, uint32_t pooling)
{
    if (pooling == ENGINE_POOLING_RANK) return queue->head->n_labels;
    return pooling == ENGINE_POOLING_TOKENS || !queue->dense ? queue->info.n_embd : queue->dense->n_out;
}

/* Which state the embedding is made of. */
static uint32_t state_of(const struct engine_queue *queue, const struct request *request)
{
    return request->pooling == ENGINE_POOLING_RANK ? queue->head->pooling : request->pooling;
}

void request_pool(const struct engine_queue *queue, struct request *request, const float *states,
                  size_t count)
{
    size_t n_embd = queue->info.n_embd, first = request->n_cached;
    uint32_t pooling = state_of(queue, request);
    ENGINE_ASSERT(first + count <= request->n_prompt);
    if (first == 0)
        memset(request->pooled, 0, n_embd * sizeof *request->pooled); /* it may have been put back */
    if (request->pooling == ENGINE_POOLING_TOKENS) {
        memcpy(request->embedding + first * n_embd, states, count * n_embd * sizeof *states);
        return;
    }
    for (size_t i = 0; i < count; i++)
        for (size_t n = 0; n < n_embd; n++) {
            double value = (double)states[i * n_embd + n];
            if (pooling == ENGINE_POOLING_MEAN)
                request->pooled[n] += value;
            else if (pooling == ENGINE_POOLING_LAST || first + i == 0)
                request->pooled[n] = value;
        }
}

static void add_embedding(const struct engine_queue *queue, struct request *request,
                          struct engine_event *event)
{
    double count = state_of(queue, request) == ENGINE_POOLING_MEAN ? (double)request->n_prompt : 1;
    bool all = request->pooling == ENGINE_POOLING_TOKENS, ranks = request->pooling == ENGINE_POOLING_RANK;
    for (size_t n = 0; n < queue->info.n_embd && !all; n++) request->pooled[n] /= count;
    if (ranks)
        head_apply(queue->head, request->pooled, request->embedding);
    else if (!all && queue->dense)
        dense_apply(queue->dense, request->pooled, request->embedding);
    else
        for (size_t n = 0; n < queue->info.n_embd && !all; n++)
            request->embedding[n] = (float)request->pooled[n];
    event->embedding = request->embedding;
    event->n_embd = request_width(queue, request->pooling);
    event->n_rows = all ? (uint32_t)request->n_prompt : 1;
}

/* Sends the text held back, even if the bytes of its last character are incomplete. */
static int flush_text(const struct engine_queue *queue, struct request *request, struct engine_string *text,
                      int32_t *stop)
{
    struct engine_string rest = {0};
    int status = queue->api->decode_end(request->decoder, &rest);
    if (status) return status;
    return stop_texts_add(&request->stop, rest.data, rest.length, true, text, stop);
}

/* The best text is the request's. */
static void add_beams(struct request *request, struct engine_event *event)
{
    event->beams = beams_results(request, &event->n_beams);
    if (event->n_beams == 0) return;
    const struct engine_beam *best = &event->beams[0];
    event->text = best->text;
    event->incomplete = beams_are_incomplete(request);
    event->n_generated = request->n_generated = (uint32_t)best->n_tokens;
    if (event->reason != ENGINE_DONE_CANCELLED) event->reason = best->reason;
}

/* `stop`: the stop text that has ended the request, with the text before it as `text`; otherwise -1, and the
 * text held back is sent. */
static void finish(struct engine_queue *queue, struct request *request, enum engine_done_reason reason,
                   int status, int32_t stop, struct engine_string text)
{
    char message[512] = "";
    bool flush = stop < 0 && request->decoder && reason != ENGINE_DONE_FAILED;
    int flushed = flush ? flush_text(queue, request, &text, &stop) : ENGINE_OK;
    if (flushed) {
        reason = ENGINE_DONE_FAILED;
        status = flushed;
    }
    if (stop >= 0 && reason != ENGINE_DONE_CANCELLED) reason = ENGINE_DONE_STOP;
    if (request->beams && reason != ENGINE_DONE_FAILED && (status = beams_collect(queue, request, reason)))
        reason = ENGINE_DONE_FAILED;
    if (reason == ENGINE_DONE_FAILED) strncpy(message, error_message(), sizeof message - 1);

    struct engine_event event = new_event(request, ENGINE_EVENT_DONE);
    if (text.length > 0) event.text = text;
    event.reason = reason;
    event.stop = reason == ENGINE_DONE_STOP ? stop : -1;
    event.incomplete = request->match && engine_match_get_state(request->match) == ENGINE_MATCH_INCOMPLETE;
    event.status = reason == ENGINE_DONE_FAILED ? status : ENGINE_OK;
    event.message = message;
    request->kept = request->flags & ENGINE_REQUEST_KEEP && reason != ENGINE_DONE_FAILED &&
                    request->sequence >= 0 && request->n_cached > 0;
    if (request->kept) event.sequence = request->sequence;
    if (request->beams && reason != ENGINE_DONE_FAILED) add_beams(request, &event);
    if (request->pooling && reason == ENGINE_DONE_LIMIT) add_embedding(queue, request, &event);
    hand_over(queue, request, &event);
}

void request_finish(struct engine_queue *queue, struct request *request, enum engine_done_reason reason,
                    int status)
{
    finish(queue, request, reason, status, -1, (struct engine_string){0});
}

/* ---- Tokens ---- */

static int find_end_tokens(struct engine_queue *queue)
{
    queue->end_tokens = calloc(queue->n_sampled, sizeof *queue->end_tokens);
    if (!queue->end_tokens) return error_memory("tokens that end a text");
    for (uint32_t id = 0; id < queue->n_sampled; id++)
        if (queue->api->attributes(queue->tokenizer, (int32_t)id) & ENGINE_TOKEN_END)
            queue->end_tokens[queue->n_end_tokens++] = (int32_t)id;
    return ENGINE_OK;
}

int request_never_end(struct engine_queue *queue, const struct request *request, float *logits)
{
    if (!(request->flags & ENGINE_REQUEST_IGNORE_END)) return ENGINE_OK;
    int status = queue->end_tokens || !queue->api ? ENGINE_OK : find_end_tokens(queue);
    for (size_t i = 0; i < queue->n_end_tokens && !status; i++) logits[queue->end_tokens[i]] = -INFINITY;
    return status;
}

static bool is_stop_token(const struct request *request, int32_t token)
{
    for (size_t i = 0; i < request->n_stop_tokens; i++)
        if (request->stop_tokens[i] == token) return true;
    return false;
}

/* A token that begins a text also ends the one before. */
uint32_t request_ends(const struct engine_queue *queue, const struct request *request, int32_t token)
{
    if (is_stop_token(request, token)) return ENGINE_DONE_STOP;
    bool ends = false;
    if (request->flags & ENGINE_REQUEST_IGNORE_END) return 0;
    for (size_t i = 0; i < queue->n_end_tokens && !queue->api; i++) ends |= queue->end_tokens[i] == token;
    if (queue->api)
        ends = token == queue->vocabulary.bos ||
               queue->api->attributes(queue->tokenizer, token) & ENGINE_TOKEN_END;
    return ends ? ENGINE_DONE_END : 0;
}

static int add_token(struct request *request, int32_t token)
{
    if (!ARRAY_RESERVE(request->tokens, request->capacity, request->n_tokens + 1))
        return error_memory("tokens");
    request->tokens[request->n_tokens++] = token;
    request->n_generated++;
    engine_sampler_accept(request->sampler, token);
    return request->match ? engine_match_accept(request->match, token) : ENGINE_OK;
}

static int choose(struct engine_queue *queue, struct request *request, float *logits, int32_t *token)
{
    if (request->n_logprobs > 0) logprobs_read(&request->logprobs, logits);
    int status = request->match ? engine_match_apply(request->match, logits, queue->n_sampled) : ENGINE_OK;
    if (!status) status = request_never_end(queue, request, logits);
    if (status) return status;
    status = engine_sample(request->sampler, logits, token);
    /* The grammar has left tokens that the model finds possible. */
    if (status == ENGINE_ERROR_DATA && request->match)
        status = error_raise(ENGINE_ERROR_DATA,
                             "nothing can follow: all tokens that the grammar allows here are banned, by a "
                             "banned text, a logit bias, or because the text must not end");
    return status;
}

/* The text of a token, as far as it is certain. */
static int text_of(const struct engine_queue *queue, struct request *request, int32_t token,
                   struct engine_string *text, int32_t *stop)
{
    *text = (struct engine_string){.data = ""};
    *stop = -1;
    if (!request->decoder) return ENGINE_OK;
    struct engine_string added;
    int status = queue->api->decode(request->decoder, token, &added);
    return status ? status : stop_texts_add(&request->stop, added.data, added.length, false, text, stop);
}

/* Whether the grammar lets nothing follow. */
static bool is_final(const struct request *request)
{
    return request->match && engine_match_get_state(request->match) == ENGINE_MATCH_FINAL;
}

/* Makes a chosen token part of the text. True if the request continues. */
static bool take_token(struct engine_queue *queue, struct request *request, int32_t token)
{
    struct engine_event event;
    struct engine_string text;
    int32_t stop;
    ENGINE_ASSERT(token >= 0 && (uint32_t)token < queue->n_sampled);
    int status = add_token(request, token);
    if (!status) status = text_of(queue, request, token, &text, &stop);
    if (status) {
        request_finish(queue, request, ENGINE_DONE_FAILED, status);
        return false;
    }
    event = new_event(request, ENGINE_EVENT_TOKEN);
    if (request->n_logprobs > 0) tell_logprob(request, token, &event);
    event.token = token;
    event.text = text;
    hand_over(queue, request, &event);
    if (stop >= 0)
        finish(queue, request, ENGINE_DONE_STOP, ENGINE_OK, stop, (struct engine_string){0});
    else if (is_final(request))
        request_finish(queue, request, ENGINE_DONE_END, ENGINE_OK);
    else if (request->n_generated == request->max_tokens)
        request_finish(queue, request, ENGINE_DONE_LIMIT, ENGINE_OK);
    else if (request->n_tokens > queue->info.n_context)
        request_finish(queue, request, ENGINE_DONE_CONTEXT, ENGINE_OK);
    else
        return true;
    return false;
}

/* A grammar may name the token that ends the text. Then the text is complete if it is the grammar's last
 * one. */
static int accept_end(struct request *request, int32_t token)
{
    if (!request->match || engine_match_get_state(request->match) != ENGINE_MATCH_INCOMPLETE)
        return ENGINE_OK;
    return engine_match_accept(request->match, token);
}

bool request_take_logits(struct engine_queue *queue, struct request *request, float *logits)
{
    int32_t token = -1;
    bool none = request->flags & ENGINE_REQUEST_NO_TOKENS;
    bool ended = !none && is_final(request); /* only the empty text fits */
    int status = none || ended ? ENGINE_OK : choose(queue, request, logits, &token);
    uint32_t reason = none || ended || status ? 0 : request_ends(queue, request, token);
    if (reason) status = accept_end(request, token);
    if (none)
        request_finish(queue, request, ENGINE_DONE_LIMIT, ENGINE_OK);
    else if (ended)
        request_finish(queue, request, ENGINE_DONE_END, ENGINE_OK);
    else if (status)
        request_finish(queue, request, ENGINE_DONE_FAILED, status);
    else if (reason)
        request_finish(queue, request, (enum engine_done_reason)reason, ENGINE_OK);
    else
        return take_token(queue, request, token);
    return false;
}

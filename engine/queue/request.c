/* request.c: one request of the queue: its options, tokens, text and events. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/sized.h"
#include "queue/queue.h"
#include "sample/sampler.h"

/* ---- Creation ---- */

static int check_tokens(const struct engine_queue *queue, const struct engine_request *given)
{
    const struct engine_context_info *info = &queue->info;
    if (!given->tokens || given->n_tokens == 0)
        return error_raise(ENGINE_ERROR_ARGUMENT, "the prompt is empty: it needs one token at least");
    if (given->n_tokens > info->n_context)
        return error_raise(
            ENGINE_ERROR_ARGUMENT,
            "the prompt has %zu tokens, the context takes %u: make it larger (-c) or the prompt shorter",
            given->n_tokens, info->n_context);
    for (size_t i = 0; i < given->n_tokens; i++)
        if (given->tokens[i] < 0 || (uint32_t)given->tokens[i] >= info->n_vocab)
            return error_raise(ENGINE_ERROR_ARGUMENT,
                               "token %zu of the prompt is %d, but the model has %u: 0 to %u", i,
                               given->tokens[i], info->n_vocab, info->n_vocab - 1);
    return ENGINE_OK;
}

static int check_request(const struct engine_queue *queue, const struct engine_request *given)
{
    const uint32_t known =
        ENGINE_REQUEST_PROGRESS | ENGINE_REQUEST_IGNORE_END | ENGINE_REQUEST_NO_TEXT | ENGINE_REQUEST_SPECIAL;
    if (given->flags & ~known)
        return error_raise(ENGINE_ERROR_ARGUMENT, "a request with the unknown flags 0x%x",
                           given->flags & ~known);
    if (!(given->flags & ENGINE_REQUEST_NO_TEXT) && !queue->api)
        return error_raise(queue->tokenizer_status, "%s", queue->tokenizer_message);
    if (given->flags & ENGINE_REQUEST_NO_TEXT && given->n_stop > 0)
        return error_raise(ENGINE_ERROR_ARGUMENT, "stop texts for a request without text");
    if (given->n_stop_tokens > 0 && !given->stop_tokens)
        return error_raise(ENGINE_ERROR_ARGUMENT, "%zu stop tokens, but the list is NULL",
                           given->n_stop_tokens);
    return check_tokens(queue, given);
}

/* A copy of `count` tokens with room for at least one; NULL: out of memory. */
static int32_t *copy_tokens(const int32_t *tokens, size_t count)
{
    int32_t *copy = calloc(count > 0 ? count : 1, sizeof *copy);
    if (copy && count > 0) memcpy(copy, tokens, count * sizeof *copy);
    return copy;
}

int request_create(const struct engine_queue *queue, const struct engine_request *given,
                   struct request **request)
{
    struct engine_request known;
    int status = SIZED_CHECK(given, engine_request, user);
    if (status) return status;
    sized_read(&known, sizeof known, given);
    status = check_request(queue, &known);
    if (status) return status;
    struct request *created = calloc(1, sizeof *created);
    if (!created) return error_memory("request");
    created->priority = known.priority;
    created->flags = known.flags;
    created->max_tokens = known.max_tokens;
    created->event = known.event;
    created->user = known.user;
    created->sequence = -1;
    created->sampler_options.struct_size = sizeof created->sampler_options;
    if (known.sampler) status = sampler_read_options(known.sampler, &created->sampler_options);
    if (!status) status = stop_texts_create(&created->stop, known.stop, known.n_stop);
    if (status) goto cleanup;
    created->tokens = copy_tokens(known.tokens, known.n_tokens);
    created->n_tokens = created->n_prompt = created->capacity = known.n_tokens;
    created->stop_tokens = copy_tokens(known.stop_tokens, known.n_stop_tokens);
    created->n_stop_tokens = known.n_stop_tokens;
    if (!created->tokens || !created->stop_tokens) {
        status = error_memory("request");
        goto cleanup;
    }
    created->submitted = queue_seconds();
    *request = created;
    created = NULL;

cleanup:
    request_destroy(queue, created);
    return status;
}

void request_destroy(const struct engine_queue *queue, struct request *request)
{
    if (!request) return;
    for (struct kept_event *event = request->first_event, *next; event; event = next) {
        next = event->next;
        free(event);
    }
    if (request->decoder) queue->api->decoder_destroy(request->decoder);
    engine_sampler_destroy(request->sampler);
    lookup_destroy(request->lookup);
    stop_texts_destroy(&request->stop);
    free(request->stop_tokens);
    free(request->tokens);
    free(request);
}

int request_begin(struct engine_queue *queue, struct request *request)
{
    if (request->sampler) return ENGINE_OK;
    int status = engine_sampler_create(&request->sampler_options, queue->n_sampled, &request->sampler);
    bool text = !(request->flags & ENGINE_REQUEST_NO_TEXT);
    if (!status) status = guess_begin(queue, request);
    if (!status && text)
        status = queue->api->decoder_create(queue->tokenizer, (request->flags & ENGINE_REQUEST_SPECIAL) != 0,
                                            &request->decoder);
    /* The decoder sees the prompt, so that the generated text is spaced as a continuation. */
    for (size_t i = 0; i < request->n_prompt && !status; i++) {
        struct engine_string ignored;
        engine_sampler_accept(request->sampler, request->tokens[i]);
        if (text) status = queue->api->decode(request->decoder, request->tokens[i], &ignored);
    }
    return status;
}

/* ---- Events ---- */

/* A copy of an event for engine_queue_poll, followed by its texts. */
static struct kept_event *keep_event(const struct engine_event *event)
{
    size_t length = strlen(event->message),
           size = sizeof(struct kept_event) + event->text.length + length + 2;
    struct kept_event *kept = malloc(size);
    if (!kept) return NULL;
    kept->event = *event;
    kept->next = NULL;
    if (event->text.length > 0) memcpy(kept->bytes, event->text.data, event->text.length);
    kept->bytes[event->text.length] = '\0';
    kept->event.text.data = kept->bytes;
    kept->event.message = memcpy(kept->bytes + event->text.length + 1, event->message, length + 1);
    return kept;
}

/* Out of memory, a kept event is lost; the next poll then learns that the request is done. */
static void hand_over(struct engine_queue *queue, struct request *request, struct engine_event *event)
{
    if (request->event) {
        request->event(request->user, event);
        return;
    }
    struct kept_event *kept = keep_event(event);
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
        .n_prompt = (uint32_t)request->most_read,
        .n_reused = request->n_reused,
        .n_generated = request->n_generated,
        .n_guessed = request->n_guessed,
        .n_accepted = request->n_accepted,
        .stop = -1,
        .message = "",
    };
    double now = queue_seconds();
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

/* Sends the text held back, even if the bytes of its last character are incomplete. */
static int flush_text(const struct engine_queue *queue, struct request *request, struct engine_string *text,
                      int32_t *stop)
{
    struct engine_string rest = {0};
    int status = queue->api->decode_end(request->decoder, &rest);
    if (status) return status;
    return stop_texts_add(&request->stop, rest.data, rest.length, true, text, stop);
}

/* `stop`: the stop text that has ended the request, with the text before it as `text`; otherwise -1, and the
 * text held back is sent. */
static void finish(struct engine_queue *queue, struct request *request, enum engine_done_reason reason,
                   int status, int32_t stop, struct engine_string text)
{
    char message[512] = "";
    bool flush = stop < 0 && request->decoder && reason != ENGINE_DONE_FAILED;
    if (flush && flush_text(queue, request, &text, &stop)) {
        reason = ENGINE_DONE_FAILED;
        status = ENGINE_ERROR;
    }
    if (stop >= 0 && reason != ENGINE_DONE_CANCELLED) reason = ENGINE_DONE_STOP;
    if (reason == ENGINE_DONE_FAILED) strncpy(message, error_message(), sizeof message - 1);

    struct engine_event event = new_event(request, ENGINE_EVENT_DONE);
    if (text.length > 0) event.text = text;
    event.reason = reason;
    event.stop = reason == ENGINE_DONE_STOP ? stop : -1;
    event.status = reason == ENGINE_DONE_FAILED ? status : ENGINE_OK;
    event.message = message;
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

static int never_end(struct engine_queue *queue, float *logits)
{
    int status = queue->end_tokens || !queue->api ? ENGINE_OK : find_end_tokens(queue);
    for (size_t i = 0; i < queue->n_end_tokens && !status; i++) logits[queue->end_tokens[i]] = -INFINITY;
    return status;
}

/* A token that begins a text also ends the one before. */
static bool ends_text(const struct engine_queue *queue, const struct request *request, int32_t token)
{
    if (request->flags & ENGINE_REQUEST_IGNORE_END || !queue->api) return false;
    return token == queue->vocabulary.bos ||
           queue->api->attributes(queue->tokenizer, token) & ENGINE_TOKEN_END;
}

static bool is_stop_token(const struct request *request, int32_t token)
{
    for (size_t i = 0; i < request->n_stop_tokens; i++)
        if (request->stop_tokens[i] == token) return true;
    return false;
}

static int add_token(struct request *request, int32_t token)
{
    if (request->n_tokens == request->capacity) {
        size_t capacity = request->capacity * 2;
        int32_t *grown = realloc(request->tokens, capacity * sizeof *grown);
        if (!grown) return error_memory("tokens");
        request->tokens = grown;
        request->capacity = capacity;
    }
    request->tokens[request->n_tokens++] = token;
    request->n_generated++;
    engine_sampler_accept(request->sampler, token);
    return ENGINE_OK;
}

static int choose(struct engine_queue *queue, struct request *request, float *logits, int32_t *token)
{
    int status = request->flags & ENGINE_REQUEST_IGNORE_END ? never_end(queue, logits) : ENGINE_OK;
    return status ? status : engine_sample(request->sampler, logits, token);
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

/* Makes a chosen token part of the text. True if the request continues. */
static bool take_token(struct engine_queue *queue, struct request *request, int32_t token)
{
    struct engine_event event;
    struct engine_string text;
    int32_t stop;
    int status = add_token(request, token);
    if (!status) status = text_of(queue, request, token, &text, &stop);
    if (status) {
        request_finish(queue, request, ENGINE_DONE_FAILED, status);
        return false;
    }
    event = new_event(request, ENGINE_EVENT_TOKEN);
    event.token = token;
    event.text = text;
    hand_over(queue, request, &event);
    if (stop >= 0)
        finish(queue, request, ENGINE_DONE_STOP, ENGINE_OK, stop, (struct engine_string){0});
    else if (request->n_generated == request->max_tokens)
        request_finish(queue, request, ENGINE_DONE_LIMIT, ENGINE_OK);
    else if (request->n_tokens > queue->info.n_context)
        request_finish(queue, request, ENGINE_DONE_CONTEXT, ENGINE_OK);
    else
        return true;
    return false;
}

bool request_take_logits(struct engine_queue *queue, struct request *request, float *logits)
{
    int32_t token = -1;
    bool none = request->flags & ENGINE_REQUEST_NO_TOKENS;
    int status = none ? ENGINE_OK : choose(queue, request, logits, &token);
    if (none)
        request_finish(queue, request, ENGINE_DONE_LIMIT, ENGINE_OK);
    else if (status)
        request_finish(queue, request, ENGINE_DONE_FAILED, status);
    else if (is_stop_token(request, token))
        request_finish(queue, request, ENGINE_DONE_STOP, ENGINE_OK);
    else if (ends_text(queue, request, token))
        request_finish(queue, request, ENGINE_DONE_END, ENGINE_OK);
    else
        return take_token(queue, request, token);
    return false;
}

/* request.c: one request of the queue: its options, tokens, text and events. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/sized.h"
#include "context/context.h"
#include "internal.h"
#include "queue/beams.h"
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
            "the prompt has %zu tokens, the context takes %u: make it larger (%s) or the prompt shorter",
            given->n_tokens, info->n_context, queue->context->plan->cache_limits ? "--cache-size" : "-c");
    for (size_t i = 0; i < given->n_tokens; i++)
        if (given->tokens[i] < 0 || (uint32_t)given->tokens[i] >= info->n_vocab)
            return error_raise(ENGINE_ERROR_ARGUMENT,
                               "token %zu of the prompt is %d, but the model has %u: 0 to %u", i,
                               given->tokens[i], info->n_vocab, info->n_vocab - 1);
    return ENGINE_OK;
}

/* A match for the request's grammar. A prompt of nothing but control tokens has no text. */
static int create_match(const struct engine_queue *queue, const struct engine_request *given,
                        struct engine_match **match)
{
    bool begins = true;
    if (!given->grammar) return ENGINE_OK;
    if (!grammar_is_for(given->grammar, queue->context->plan->model))
        return error_raise(ENGINE_ERROR_ARGUMENT, "the request's grammar was made for another model");
    size_t begun = given->n_tokens - given->n_begun; /* where the grammar's text begins */
    for (size_t i = 0; i < begun && begins && queue->api; i++)
        begins = queue->api->attributes(queue->tokenizer, given->tokens[i]) & ENGINE_TOKEN_CONTROL;
    int status = engine_match_create(given->grammar, begins, match);
    for (size_t i = begun; i < given->n_tokens && !status; i++)
        status = engine_match_accept(*match, given->tokens[i]);
    return status;
}

static int check_pooling(const struct engine_queue *queue, const struct engine_request *given)
{
    uint32_t n_types = queue->context->plan->info.n_types;
    if (given->pooling > ENGINE_POOLING_TOKENS)
        return error_raise(ENGINE_ERROR_ARGUMENT, "%u is not a kind of pooling", given->pooling);
    if (given->pooling == ENGINE_POOLING_RANK && !queue->head)
        return error_raise(ENGINE_ERROR_UNSUPPORTED,
                           "%s: the model has no classification head (cls.output.weight), "
                           "so it gives no scores",
                           model_path(queue->context->plan->model->model));
    if (!given->pooling && queue->info.is_encoder)
        return error_raise(ENGINE_ERROR_UNSUPPORTED, "%s", ENCODER_WRITES_NOTHING);
    if (given->pooling && (!(given->flags & ENGINE_REQUEST_NO_TOKENS) || given->n_score > 0 ||
                           given->n_beams > 1 || given->grammar))
        return error_raise(ENGINE_ERROR_ARGUMENT,
                           "a request for an embedding needs ENGINE_REQUEST_NO_TOKENS, "
                           "and no beams, n_score or grammar");
    if (given->token_types && !given->pooling)
        return error_raise(ENGINE_ERROR_ARGUMENT, "a request with token_types needs `pooling`");
    for (size_t i = 0; given->token_types && i < given->n_tokens; i++)
        if (given->token_types[i] != 0 &&
            (given->token_types[i] < 0 || (uint32_t)given->token_types[i] >= n_types))
            return error_raise(ENGINE_ERROR_ARGUMENT, "token %zu has the type %d, but the model has %u types",
                               i, given->token_types[i], n_types);
    return ENGINE_OK;
}

/* The source text of a request, not copied. */
struct source {
    const int32_t *tokens;
    size_t n_tokens;
};

/* Where the model has an encoder: what is given as the prompt becomes the source, and the decoder's tokens the
 * prompt. */
static int take_source(const struct engine_queue *queue, struct engine_request *known, struct source *source)
{
    *source = (struct source){0};
    if (!queue->info.has_source && known->n_decoder_tokens > 0)
        return error_raise(ENGINE_ERROR_ARGUMENT, "decoder_tokens for a model that has only one text");
    if (!queue->info.has_source) return ENGINE_OK;
    int status = check_tokens(queue, known);
    if (status) return status;
    if (known->pooling || known->n_score > 0 || known->flags & ENGINE_REQUEST_KEEP)
        return error_raise(
            ENGINE_ERROR_UNSUPPORTED,
            "the model has an encoder and a decoder: its prompts are not scored and not kept, and have "
            "no embeddings");
    *source = (struct source){known->tokens, known->n_tokens};
    known->tokens = known->n_decoder_tokens > 0 ? known->decoder_tokens : &queue->info.start_token;
    known->n_tokens = known->n_decoder_tokens > 0 ? known->n_decoder_tokens : 1;
    return ENGINE_OK;
}

static int check_request(const struct engine_queue *queue, const struct engine_request *given)
{
    const uint32_t known = ENGINE_REQUEST_PROGRESS | ENGINE_REQUEST_IGNORE_END | ENGINE_REQUEST_NO_TEXT |
                           ENGINE_REQUEST_SPECIAL | ENGINE_REQUEST_NO_TOKENS | ENGINE_REQUEST_KEEP;
    if (given->flags & ~known)
        return error_raise(ENGINE_ERROR_ARGUMENT, "a request with the unknown flags 0x%x",
                           given->flags & ~known);
    if (!(given->flags & ENGINE_REQUEST_NO_TEXT) && !queue->api)
        return error_raise(queue->tokenizer_status, "%s", queue->tokenizer_message);
    if (given->flags & ENGINE_REQUEST_NO_TEXT && given->n_stop > 0)
        return error_raise(ENGINE_ERROR_ARGUMENT, "stop texts for a request without text");
    int pooling = check_pooling(queue, given);
    if (pooling) return pooling;
    if (given->n_logprobs > LOGPROBS_MOST)
        return error_raise(ENGINE_ERROR_ARGUMENT, "n_logprobs is %u; it must be at most %d",
                           given->n_logprobs, LOGPROBS_MOST);
    if (given->n_begun > given->n_tokens)
        return error_raise(ENGINE_ERROR_ARGUMENT, "n_begun is %u, but the prompt has %zu tokens",
                           given->n_begun, given->n_tokens);
    if (given->n_stop_tokens > 0 && !given->stop_tokens)
        return error_raise(ENGINE_ERROR_ARGUMENT, "%zu stop tokens, but the list is NULL",
                           given->n_stop_tokens);
    int status = check_tokens(queue, given);
    if (!status && given->n_score >= given->n_tokens)
        status = error_raise(
            ENGINE_ERROR_ARGUMENT,
            "n_score is %u, but of %zu tokens at most %zu can be scored: nothing precedes the first",
            given->n_score, given->n_tokens, given->n_tokens - 1);
    return status;
}

/* A copy of `count` tokens with room for at least one; NULL: out of memory. */
static int32_t *copy_tokens(const int32_t *tokens, size_t count)
{
    int32_t *copy = calloc(count > 0 ? count : 1, sizeof *copy);
    if (copy && count > 0) memcpy(copy, tokens, count * sizeof *copy);
    return copy;
}

/* Numbers in a row of a request's embedding. */
static uint32_t width_of(const struct engine_queue *queue, uint32_t pooling)
{
    if (pooling == ENGINE_POOLING_RANK) return queue->head->n_labels;
    return pooling == ENGINE_POOLING_TOKENS || !queue->dense ? queue->info.n_embd : queue->dense->n_out;
}

int request_create(const struct engine_queue *queue, const struct engine_request *given,
                   struct request **request)
{
    struct engine_request known;
    int status = SIZED_CHECK(given, engine_request, user);
    if (status) return status;
    sized_read(&known, sizeof known, given);
    struct source source;
    status = take_source(queue, &known, &source);
    if (!status) status = check_request(queue, &known);
    if (status) return status;
    struct request *created = calloc(1, sizeof *created);
    if (!created) return error_memory("request");
    created->priority = known.priority;
    created->flags = known.flags;
    created->max_tokens = known.max_tokens;
    created->n_logprobs = known.n_logprobs;
    created->n_score = known.n_score;
    created->pooling = known.pooling;
    created->event = known.event;
    created->user = known.user;
    created->sequence = -1;
    static const struct engine_sampler_options greedy = {.struct_size = sizeof greedy};
    status = sampler_settings_read(known.sampler ? known.sampler : &greedy, &created->sampler_settings);
    if (!status) status = sampler_check_tokens(&created->sampler_settings, queue->n_sampled);
    if (!status) status = beams_create(queue, &known, created, &created->beams);
    if (!status) status = stop_texts_create(&created->stop, known.stop, known.n_stop);
    if (!status) status = create_match(queue, &known, &created->match);
    if (status) goto cleanup;
    created->tokens = copy_tokens(known.tokens, known.n_tokens);
    created->n_tokens = created->n_prompt = created->capacity = known.n_tokens;
    created->stop_tokens = copy_tokens(known.stop_tokens, known.n_stop_tokens);
    created->n_stop_tokens = known.n_stop_tokens;
    created->source = source.n_tokens > 0 ? copy_tokens(source.tokens, source.n_tokens) : NULL;
    created->n_source = source.n_tokens;
    if (known.pooling) {
        created->pooled = calloc(queue->info.n_embd, sizeof *created->pooled);
        size_t n_rows = known.pooling == ENGINE_POOLING_TOKENS ? known.n_tokens : 1;
        created->embedding = calloc(n_rows * width_of(queue, known.pooling), sizeof *created->embedding);
        if (known.token_types) created->token_types = copy_tokens(known.token_types, known.n_tokens);
    }
    if (!created->tokens || !created->stop_tokens || (source.n_tokens > 0 && !created->source) ||
        (known.pooling && (!created->pooled || !created->embedding)) ||
        (known.token_types && !created->token_types)) {
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
    sampler_settings_free(&request->sampler_settings);
    engine_match_destroy(request->match);
    logprobs_destroy(&request->logprobs);
    lookup_destroy(request->lookup);
    beams_destroy(request->beams);
    stop_texts_destroy(&request->stop);
    free(request->pooled);
    free(request->embedding);
    free(request->token_types);
    free(request->stop_tokens);
    free(request->source);
    free(request->tokens);
    free(request);
}

int request_begin(struct engine_queue *queue, struct request *request)
{
    if (request->sampler || request->beams) return ENGINE_OK;
    const struct token_texts *texts = NULL;
    int status = ENGINE_OK;
    if (sampler_needs_texts(&request->sampler_settings))
        status = model_token_texts(queue->context->plan->model, &texts);
    if (!status)
        status = sampler_create(&request->sampler_settings, queue->n_sampled, texts, &request->sampler);
    bool text = !(request->flags & ENGINE_REQUEST_NO_TEXT);
    if (!status && request->n_score > 0)
        status = logprobs_create(&request->logprobs, queue->info.n_vocab, request->n_logprobs);
    else if (!status && request->n_logprobs > 0)
        status = logprobs_create(&request->logprobs, queue->n_sampled, request->n_logprobs);
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
        .n_prompt = (uint32_t)(request->source ? request->n_source : request->most_read),
        .n_reused = request->n_reused,
        .n_generated = request->n_generated,
        .n_guessed = request->n_guessed,
        .n_accepted = request->n_accepted,
        .stop = -1,
        .message = "",
        .sequence = -1,
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
    event->n_embd = width_of(queue, request->pooling);
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
    if (flush && flush_text(queue, request, &text, &stop)) {
        reason = ENGINE_DONE_FAILED;
        status = ENGINE_ERROR;
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
    if (request->flags & ENGINE_REQUEST_IGNORE_END || !queue->api) return 0;
    bool ends =
        token == queue->vocabulary.bos || queue->api->attributes(queue->tokenizer, token) & ENGINE_TOKEN_END;
    return ends ? ENGINE_DONE_END : 0;
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

/* A grammar may name the token that ends the text. Then the text is complete if it is the grammar's last one. */
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

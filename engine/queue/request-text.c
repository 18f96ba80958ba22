/* request-text.c: requests that write a text, and those that have tokens of their prompts scored before they
 * do: how tokens are chosen, and become text. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "common/array.h"
#include "internal.h"
#include "queue/internal.h"
#include "sample/sampler.h"

/* ---- Stop texts ---- */

#define MAX_STOP_TEXTS 256
#define MAX_STOP_BYTES 4096 /* of one of them */

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

/* ---- Creation and the first turn ---- */

static int create_text(const struct engine_queue *queue, const struct engine_request *given,
                       struct request *created)
{
    (void)queue;
    created->text.n_logprobs = given->n_logprobs;
    created->text.n_begun = given->n_begun;
    created->text.n_scores = given->n_score;
    int status = stop_texts_create(&created->text.stop, given->stop, given->n_stop);
    return status ? status : thought_create(given, &created->text.thought);
}

static void destroy_text(const struct engine_queue *queue, struct request *request)
{
    if (request->text.decoder) queue->api->decoder_destroy(request->text.decoder);
    engine_sampler_destroy(request->text.sampler);
    thought_free(&request->text.thought);
    logprobs_destroy(&request->text.logprobs);
    lookup_destroy(request->text.lookup);
    stop_texts_destroy(&request->text.stop);
}

/* Makes a sampler and a decoder that have seen the prompt, and what else it takes to write a text. */
static int begin_text(struct engine_queue *queue, struct request *request)
{
    if (request->text.sampler) return ENGINE_OK;
    const struct token_texts *texts = NULL;
    int status = ENGINE_OK;
    if (sampler_needs_texts(&request->choice.settings))
        status = model_token_texts(queue->context->plan->model, &texts);
    if (!status)
        status = sampler_create(&request->choice.settings, queue->n_sampled, texts, &request->text.sampler);
    bool text = !(request->flags & ENGINE_REQUEST_NO_TEXT);
    if (!status && request->text.n_scores > 0)
        status = logprobs_create(&request->text.logprobs, queue->info.n_vocab, request->text.n_logprobs);
    else if (!status && request->text.n_logprobs > 0)
        status = logprobs_create(&request->text.logprobs, queue->n_sampled, request->text.n_logprobs);
    if (!status) status = guess_begin(queue, request);
    if (!status && text)
        status = queue->api->decoder_create(queue->tokenizer, (request->flags & ENGINE_REQUEST_SPECIAL) != 0,
                                            &request->text.decoder);
    /* The decoder sees the prompt, so that the generated text is spaced as a continuation. */
    for (size_t i = 0; i < request->n_prompt && !status; i++) {
        struct engine_string said = {0};
        engine_sampler_accept(request->text.sampler, request->tokens[i]);
        if (text) status = queue->api->decode(request->text.decoder, request->tokens[i], &said);
        if (!status && i >= request->n_prompt - request->text.n_begun)
            status = thought_add(queue, &request->text.thought, request->tokens[i], &said);
    }
    return status ? status : thought_begin(queue, &request->text.thought);
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
    for (size_t i = 0; i < request->choice.n_stop_tokens; i++)
        if (request->choice.stop_tokens[i] == token) return true;
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

static void tell_logprob(const struct request *request, int32_t token, struct engine_event *event)
{
    event->logprob = logprobs_of(&request->text.logprobs, token);
    event->top = request->text.logprobs.top;
    event->n_top = request->text.n_logprobs < request->text.logprobs.n_found ? request->text.n_logprobs
                                                                             : request->text.logprobs.n_found;
}

static int add_token(struct request *request, int32_t token)
{
    if (!ARRAY_RESERVE(request->tokens, request->capacity, request->n_tokens + 1))
        return error_memory("tokens");
    request->tokens[request->n_tokens++] = token;
    request->n_generated++;
    engine_sampler_accept(request->text.sampler, token);
    return request->choice.match ? engine_match_accept(request->choice.match, token) : ENGINE_OK;
}

static int text_choose(struct engine_queue *queue, struct request *request, float *logits, int32_t *token)
{
    if (request->text.n_logprobs > 0) logprobs_read(&request->text.logprobs, logits);
    int status = request->choice.match ? engine_match_apply(request->choice.match, logits, queue->n_sampled)
                                       : ENGINE_OK;
    if (!status) status = request_never_end(queue, request, logits);
    if (status) return status;
    if (thought_next(&request->text.thought, token) &&
        (!request->choice.match || logits[*token] > -INFINITY)) /* a grammar goes first */
        return ENGINE_OK;
    status = engine_sample(request->text.sampler, logits, token);
    /* The grammar has left tokens that the model finds possible. */
    if (status == ENGINE_ERROR_DATA && request->choice.match)
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
    if (!request->text.decoder) return ENGINE_OK;
    struct engine_string added;
    int status = queue->api->decode(request->text.decoder, token, &added);
    if (!status) status = thought_add(queue, &request->text.thought, token, &added);
    return status ? status : stop_texts_add(&request->text.stop, added.data, added.length, false, text, stop);
}

/* Whether the grammar lets nothing follow. */
static bool is_final(const struct request *request)
{
    return request->choice.match && engine_match_get_state(request->choice.match) == ENGINE_MATCH_FINAL;
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
    event = request_event(request, ENGINE_EVENT_TOKEN);
    if (request->text.n_logprobs > 0) tell_logprob(request, token, &event);
    event.token = token;
    event.text = text;
    request_hand_over(queue, request, &event);
    if (stop >= 0)
        request_finish_stopped(queue, request, stop);
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
    if (!request->choice.match || engine_match_get_state(request->choice.match) != ENGINE_MATCH_INCOMPLETE)
        return ENGINE_OK;
    return engine_match_accept(request->choice.match, token);
}

bool request_take_logits(struct engine_queue *queue, struct request *request, float *logits)
{
    int32_t token = -1;
    bool none = request->flags & ENGINE_REQUEST_NO_TOKENS;
    bool ended = !none && is_final(request); /* only the empty text fits */
    int status = none || ended ? ENGINE_OK : text_choose(queue, request, logits, &token);
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

/* Even if the bytes of its last character are incomplete. */
static int flush_text(const struct engine_queue *queue, struct request *request, struct engine_string *text,
                      int32_t *stop)
{
    struct engine_string rest = {0};
    if (!request->text.decoder) return ENGINE_OK;
    int status = queue->api->decode_end(request->text.decoder, &rest);
    if (status) return status;
    return stop_texts_add(&request->text.stop, rest.data, rest.length, true, text, stop);
}

static size_t count_text_rows(const struct request *request, const struct step_request *plan)
{
    (void)request;
    return 1 + plan->n_guess;
}

/* Guesses follow the last pending token; the logits of each are wanted. */
static bool fill_text(struct step_batch *batch, const struct request *request,
                      const struct step_request *plan)
{
    ENGINE_ASSERT(plan->n_guess == 0 || (plan->n_now > 0 && plan->n_now == plan->n_pending));
    bool good = step_fill(batch, request, plan);
    for (size_t i = 0; i < plan->n_guess && good; i++)
        good = step_batch_add(batch, request->text.guesses.tokens[i], request->sequence, true);
    return good;
}

const struct request_kind request_text = {
    .decodes = true,
    .create = create_text,
    .destroy = destroy_text,
    .begin = begin_text,
    .count_sequences = request_count_sequences,
    .give_back = request_give_back,
    .count_rows = count_text_rows,
    .fill = fill_text,
    .computed = request_computed,
    .count_cached = request_count_cached,
    .take = guess_check,
    .flush = flush_text,
};

/* ---- Scores ---- */

static size_t next_to_score(const struct request *request)
{
    if (request->text.n_scored == request->text.n_scores) return SIZE_MAX;
    return request->n_prompt - request->text.n_scores + request->text.n_scored - 1;
}

static bool score_tokens(struct engine_queue *queue, struct request *request, const float *logits,
                         size_t count)
{
    ENGINE_ASSERT(count <= request->text.n_scores - request->text.n_scored);
    for (size_t i = 0; i < count; i++) {
        int status = logprobs_check(logits + i * queue->info.n_vocab, queue->info.n_vocab);
        if (status) {
            request_finish(queue, request, ENGINE_DONE_FAILED, status);
            return false;
        }
        struct engine_event event = request_event(request, ENGINE_EVENT_SCORE);
        event.token = request->tokens[next_to_score(request) + 1];
        logprobs_read(&request->text.logprobs, logits + i * queue->info.n_vocab);
        tell_logprob(request, event.token, &event);
        request->text.n_scored++;
        request_hand_over(queue, request, &event);
    }
    return true;
}

const struct request_kind request_scored = {
    .decodes = true,
    .create = create_text,
    .destroy = destroy_text,
    .begin = begin_text,
    .count_sequences = request_count_sequences,
    .give_back = request_give_back,
    .count_rows = count_text_rows,
    .fill = fill_text,
    .computed = request_computed,
    .count_cached = request_count_cached,
    .next_score = next_to_score,
    .score = score_tokens,
    .take = guess_check,
    .flush = flush_text,
};

/* request-create.c: makes a request of the queue from what the caller asks for, which is checked here; and
 * its end. */
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "common/clock.h"
#include "context/context.h"
#include "internal.h"
#include "queue/internal.h"
#include "sample/sampler.h"

static int check_tokens(const struct engine_queue *queue, const struct engine_request *given)
{
    const struct engine_context_info *info = &queue->info;
    if (!given->tokens || given->n_tokens == 0)
        return error_raise(ENGINE_ERROR_ARGUMENT, "the prompt is empty: it needs one token at least");
    if (given->n_tokens > info->n_context)
        return error_raise(
            ENGINE_ERROR_ARGUMENT,
            "the prompt has %zu tokens, the context takes %u: make it larger (%s) or the prompt shorter",
            given->n_tokens, info->n_context, plan_context_option(queue->context->plan));
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

/* Where the model has an encoder: what is given as the prompt becomes the source, and the decoder's tokens
 * the prompt. */
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
    if (given->reply && (!(given->flags & ENGINE_REQUEST_SPECIAL) || given->flags & ENGINE_REQUEST_NO_TEXT ||
                         given->n_beams > 1))
        return error_raise(ENGINE_ERROR_ARGUMENT,
                           "a request with `reply` needs ENGINE_REQUEST_SPECIAL, a text, and no beams");
    int pooling = check_pooling(queue, given);
    if (pooling) return pooling;
    if (given->n_logprobs > MAX_LOGPROBS)
        return error_raise(ENGINE_ERROR_ARGUMENT, "n_logprobs is %u; it must be at most %d",
                           given->n_logprobs, MAX_LOGPROBS);
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

int32_t *request_copy_tokens(const int32_t *tokens, size_t count)
{
    int32_t *copy = calloc(count > 0 ? count : 1, sizeof *copy);
    if (copy && count > 0) memcpy(copy, tokens, count * sizeof *copy);
    return copy;
}

static const struct request_kind *kind_of(const struct engine_request *given)
{
    if (given->pooling) return &request_pooled;
    if (given->n_beams > 1) return &request_beams;
    return given->n_score > 0 ? &request_scored : &request_text;
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
    created->kind = kind_of(&known);
    created->event = known.event;
    created->user = known.user;
    created->sequence = -1;
    static const struct engine_sampler_options greedy = {.struct_size = sizeof greedy};
    status = sampler_settings_read(known.sampler ? known.sampler : &greedy, &created->choice.settings);
    if (!status) status = sampler_check_tokens(&created->choice.settings, queue->n_sampled);
    if (!status) status = created->kind->create(queue, &known, created);
    if (!status) status = create_match(queue, &known, &created->choice.match);
    if (status) goto cleanup;
    created->tokens = request_copy_tokens(known.tokens, known.n_tokens);
    created->n_tokens = created->n_prompt = created->capacity = known.n_tokens;
    created->choice.stop_tokens = request_copy_tokens(known.stop_tokens, known.n_stop_tokens);
    created->choice.n_stop_tokens = known.n_stop_tokens;
    created->source = source.n_tokens > 0 ? request_copy_tokens(source.tokens, source.n_tokens) : NULL;
    created->n_source = source.n_tokens;
    if (!known.event) created->spare = malloc(sizeof *created->spare);
    if ((!known.event && !created->spare) || !created->tokens || !created->choice.stop_tokens ||
        (source.n_tokens > 0 && !created->source)) {
        status = error_memory("request");
        goto cleanup;
    }
    created->submitted = seconds_now();
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
    request->kind->destroy(queue, request);
    sampler_settings_free(&request->choice.settings);
    engine_match_destroy(request->choice.match);
    free(request->spare);
    free(request->choice.stop_tokens);
    free(request->source);
    free(request->tokens);
    free(request);
}

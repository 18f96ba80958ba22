/* draft.c: a smaller model with the same vocabulary guesses how texts continue. Its context has a sequence
 * for each of the queue's, with the same number. It always takes its most likely token, because its output is
 * only a guess. */
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "context/context.h"
#include "queue/internal.h"

struct draft {
    struct engine_context *context;
    struct engine_context_info info;
    struct engine_sampler *sampler; /* takes the most likely token */
    struct step_costs costs;
    struct step_batch batch; /* of a round */
    float *logits;           /* [n_sequences, n_vocab] */
};

/* ---- Creation ---- */

/* Vocabularies are the same if all tokens are spelled alike. Models without a tokenizer have only numbers. */
static int check_vocabulary(const struct engine_queue *queue, const struct draft *draft)
{
    const struct engine_tokenizer_api *api;
    struct engine_tokenizer *tokenizer;
    if (draft->info.n_vocab < queue->n_sampled)
        return error_raise(ENGINE_ERROR_ARGUMENT,
                           "the draft model has %u tokens, the model %u; both need the same vocabulary",
                           draft->info.n_vocab, queue->n_sampled);
    if (!queue->api) return ENGINE_OK;
    int status = engine_model_tokenizer(draft->context->plan->model, &api, &tokenizer);
    if (status) return error_wrap(status, "draft model");
    for (uint32_t id = 0; id < queue->n_sampled; id++) {
        struct engine_string ours, theirs;
        status = queue->api->piece(queue->tokenizer, (int32_t)id, &ours);
        if (status) return status;
        if (api->piece(tokenizer, (int32_t)id, &theirs) || ours.length != theirs.length ||
            memcmp(ours.data, theirs.data, ours.length) != 0)
            return error_raise(ENGINE_ERROR_ARGUMENT,
                               "token %u of the draft model is not the model's '%.*s'; both need the same "
                               "vocabulary",
                               id, (int)(ours.length < 100 ? ours.length : 100), ours.data);
    }
    return ENGINE_OK;
}

static int check_context(const struct engine_queue *queue, const struct draft *draft)
{
    if (draft->context == queue->context)
        return error_raise(ENGINE_ERROR_ARGUMENT, "the draft model needs a context of its own");
    if (draft->info.n_sequences < queue->info.n_sequences)
        return error_raise(ENGINE_ERROR_ARGUMENT,
                           "the draft model's context has %u sequences; it needs %u, as many as the model's",
                           draft->info.n_sequences, queue->info.n_sequences);
    for (uint32_t s = 0; s < draft->info.n_sequences; s++)
        if (engine_sequence_length(draft->context, s) > 0)
            return error_raise(ENGINE_ERROR_ARGUMENT,
                               "sequence %u of the draft model's context has %u tokens; a queue needs them "
                               "empty",
                               s, engine_sequence_length(draft->context, s));
    return ENGINE_OK;
}

int draft_create(const struct engine_queue *queue, struct engine_context *context, struct draft **draft)
{
    struct draft *created = calloc(1, sizeof *created);
    if (!created) return error_memory("draft model");
    created->context = context;
    created->info.struct_size = sizeof created->info;
    int status = engine_context_get_info(context, &created->info);
    if (!status && context->plan->n_states > 0)
        status = error_raise(ENGINE_ERROR_UNSUPPORTED, "draft model: recurrent models are not supported");
    if (!status) status = check_context(queue, created);
    if (!status) status = check_vocabulary(queue, created);
    struct engine_sampler_options greedy = {.struct_size = sizeof greedy};
    if (!status) status = engine_sampler_create(&greedy, queue->n_sampled, &created->sampler);
    if (!status) {
        created->logits = calloc(queue->info.n_sequences, created->info.n_vocab * sizeof *created->logits);
        if (!created->logits) status = error_memory("draft model");
    }
    if (status) {
        draft_destroy(created);
        return status;
    }
    *draft = created;
    return ENGINE_OK;
}

void draft_destroy(struct draft *draft)
{
    if (!draft) return;
    free(draft->logits);
    step_batch_free(&draft->batch);
    engine_sampler_destroy(draft->sampler);
    free(draft);
}

/* ---- Rounds ---- */

static size_t n_known(const struct draft *draft, const struct request *request)
{
    return engine_sequence_length(draft->context, (uint32_t)request->sequence);
}

void draft_seconds(const struct draft *draft, const struct request *request, double *once, double *each)
{
    size_t known = n_known(draft, request), from = known > request->n_prompt ? known : request->n_prompt;
    *each = costs_of(&draft->costs, 1);
    /* Text that it has not read. Its prompt is read when it starts. */
    size_t n_behind = request->n_tokens > from + 1 ? request->n_tokens - from - 1 : 0;
    double many = costs_of(&draft->costs, 1 + (n_behind < COST_COLUMNS ? n_behind : COST_COLUMNS - 1));
    *once = many - *each;
    if (n_behind >= COST_COLUMNS) *once *= (double)n_behind / COST_COLUMNS;
}

/* Requests that want another guess in round `round`. */
static bool takes_part(const struct request *request, size_t round)
{
    return request->kind->decodes && request->text.guesses.count > round &&
           request->text.guesses.source == PACE_DRAFT;
}

/* The tokens that a request adds to a round: first all that the draft model hasn't seen, then guess after
 * guess. */
static bool add_pending(struct draft *draft, const struct request *request, size_t round)
{
    int32_t sequence = request->sequence;
    bool good = true;
    if (round > 0)
        return step_batch_add(&draft->batch, request->text.guesses.tokens[round - 1], sequence, true);
    for (size_t i = n_known(draft, request); i < request->n_tokens && good; i++)
        good = step_batch_add(&draft->batch, request->tokens[i], sequence, i + 1 == request->n_tokens);
    return good;
}

static int fill_batch(struct draft *draft, const struct requests *requests, size_t round)
{
    draft->batch.count = 0;
    for (size_t i = 0; i < requests->count; i++)
        if (takes_part(requests->items[i], round) && !add_pending(draft, requests->items[i], round))
            return error_memory("draft model");
    return ENGINE_OK;
}

static int run_round(struct draft *draft, const struct requests *requests, size_t round)
{
    int status = step_batch_decode(&draft->batch, draft->context, draft->logits, NULL, &draft->costs);
    float *row = draft->logits;
    for (size_t i = 0; i < requests->count && !status; i++) {
        struct request *request = requests->items[i];
        if (!takes_part(request, round)) continue;
        status = engine_sample(draft->sampler, row, &request->text.guesses.tokens[round]);
        row += draft->info.n_vocab;
    }
    return status;
}

/* Its cache is full: the requests of this round continue without it, so that others have room. */
static void leave_out(struct draft *draft, const struct requests *requests, size_t round)
{
    for (size_t i = 0; i < requests->count; i++) {
        struct request *request = requests->items[i];
        if (!takes_part(request, round)) continue;
        request->text.no_draft = true;
        request->text.guesses.count = 0;
        engine_sequence_truncate(draft->context, (uint32_t)request->sequence, 0);
    }
}

int draft_guess(struct draft *draft, const struct requests *requests)
{
    for (size_t i = 0; i < requests->count; i++) { /* its context may be smaller */
        struct request *request = requests->items[i];
        if (!takes_part(request, 0)) continue;
        size_t room =
            draft->info.n_context > request->n_tokens ? draft->info.n_context - request->n_tokens : 0;
        if (request->text.guesses.count > room) request->text.guesses.count = room;
        draft_truncate(draft, (uint32_t)request->sequence,
                       request->n_tokens - 1); /* after a step that was planned again */
        if (n_known(draft, request) == 0) {
            uint32_t n_found;
            int status = engine_sequence_reuse(draft->context, (uint32_t)request->sequence, request->tokens,
                                               request->n_tokens, &n_found);
            if (status) return status;
        }
    }
    for (size_t round = 0; round < PACE_MAX; round++) {
        int status = fill_batch(draft, requests, round);
        if (status || draft->batch.count == 0) return status;
        status = run_round(draft, requests, round);
        if (status == ENGINE_ERROR_MEMORY)
            leave_out(draft, requests, round);
        else if (status)
            return error_wrap(status, "draft model");
    }
    return ENGINE_OK;
}

void draft_begin(const struct draft *draft, const struct request *request)
{
    uint32_t n_found;
    engine_sequence_reuse(draft->context, (uint32_t)request->sequence, request->tokens, request->n_tokens,
                          &n_found);
}

void draft_truncate(const struct draft *draft, uint32_t sequence, size_t n_tokens)
{
    engine_sequence_truncate(draft->context, sequence, (uint32_t)n_tokens);
}

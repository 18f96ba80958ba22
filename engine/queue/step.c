/* step.c: one step of the queue, as queue->plan says: its tokens, its logits, and what requests get of them;
 * and batches of tokens, which the draft model runs, too. Called by run.c, groups.c and draft.c. */
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "common/array.h"
#include "common/clock.h"
#include "context/context.h"
#include "queue/internal.h"

/* ---- Batches ---- */

/* The arrays have the same room; one that has more after a failure is of no harm. */
static bool batch_make_room(struct step_batch *batch)
{
    size_t tokens = batch->room, sequences = tokens, types = tokens, wanted = tokens,
           needed = batch->count + 1;
    if (!ARRAY_RESERVE(batch->tokens, tokens, needed) ||
        !ARRAY_RESERVE(batch->sequences, sequences, needed) || !ARRAY_RESERVE(batch->types, types, needed) ||
        !ARRAY_RESERVE(batch->wanted, wanted, needed))
        return false;
    batch->room = tokens;
    return true;
}

bool step_batch_add(struct step_batch *batch, int32_t token, int32_t sequence, bool wanted)
{
    if (!batch_make_room(batch)) return false;
    batch->tokens[batch->count] = token;
    batch->sequences[batch->count] = sequence;
    batch->types[batch->count] = 0;
    batch->wanted[batch->count++] = wanted;
    return true;
}

int step_batch_encode(const struct step_batch *batch, struct engine_context *context)
{
    const struct engine_batch tokens = {
        .struct_size = sizeof tokens,
        .n_tokens = batch->count,
        .tokens = batch->tokens,
        .sequences = batch->sequences,
    };
    return engine_encode(context, &tokens);
}

static struct engine_batch batch_of(const struct step_batch *batch)
{
    return (struct engine_batch){
        .struct_size = sizeof(struct engine_batch),
        .n_tokens = batch->count,
        .tokens = batch->tokens,
        .sequences = batch->sequences,
        .wanted = batch->wanted,
        .token_types = batch->types,
    };
}

int step_batch_start(const struct step_batch *batch, struct engine_context *context, float *logits)
{
    struct engine_batch tokens = batch_of(batch);
    return context_start(context, &tokens, logits);
}

int step_batch_decode(const struct step_batch *batch, struct engine_context *context, float *logits,
                      float *states, struct step_costs *costs)
{
    struct engine_batch tokens = batch_of(batch);
    tokens.states = states;
    uint64_t n_prepared = context->n_prepared;
    double start = seconds_now();
    int status = engine_decode(context, &tokens, logits);
    if (!status && costs && context->n_prepared == n_prepared)
        costs_measured(costs, batch->count, seconds_now() - start);
    return status;
}

void step_batch_free(struct step_batch *batch)
{
    free(batch->tokens);
    free(batch->sequences);
    free(batch->types);
    free(batch->wanted);
}

/* ---- Steps ---- */

/* Room for n rows of `width` numbers: exactly, since they are large. */
static bool make_rows(float **items, size_t *capacity, size_t n, size_t width)
{
    size_t needed;
    return !__builtin_mul_overflow(n, width, &needed) && ARRAY_FIT(*items, *capacity, needed);
}

static int make_logits_room(struct engine_queue *queue, const struct queue_step *step)
{
    ENGINE_ASSERT(step->flight <= PLAN_MAX_GROUPS);
    struct rows *rows = &queue->logits[step->flight];
    bool made = make_rows(&rows->items, &rows->capacity, step->n_wanted, queue->info.n_vocab);
    return made ? ENGINE_OK : error_memory("logits");
}

static int make_states_room(struct engine_queue *queue, const struct queue_step *step)
{
    if (!step->pools) return ENGINE_OK;
    bool made = make_rows(&queue->states, &queue->states_capacity, step->n_tokens, queue->info.n_embd);
    return made ? ENGINE_OK : error_memory("embeddings");
}

/* Tokens of a request in the planned step. */
static size_t count_tokens(const struct step_request *plan)
{
    return plan->n_now * (1 + plan->n_growing) + plan->n_guess;
}

/* Rows of logits by which a request chooses in this step: none unless it reaches its last token, whose logits
 * choose the next one. */
static size_t count_rows(const struct request *request, const struct step_request *plan)
{
    bool all = plan->n_now > 0 && plan->n_now >= plan->n_pending;
    return all ? request->kind->count_rows(request, plan) : 0;
}

/* How many of the planned tokens score a token of the prompt: a number of them in a row, from *first on. */
static size_t count_scores(const struct request *request, const struct step_request *plan, size_t *first)
{
    size_t end = request->n_cached + plan->n_now;
    if (end > request->n_prompt - 1) end = request->n_prompt - 1;
    *first = request_next_score(request);
    return *first < end ? end - *first : 0;
}

struct queue_step step_planned(const struct engine_queue *queue)
{
    struct queue_step step = {0};
    ENGINE_ASSERT(queue->active.count <= queue->plan_capacity);
    for (size_t i = 0; i < queue->active.count; i++) {
        const struct step_request *plan = &queue->plan[i];
        step.n_tokens += count_tokens(plan);
        step.pools |= plan->n_now > 0 && queue->active.items[i]->kind->pools;
        step.n_guess += plan->n_guess;
        if (!plan->decoding) step.n_prompt += plan->n_now;
        size_t first_score;
        step.n_wanted += count_scores(queue->active.items[i], plan, &first_score);
        step.n_wanted += count_rows(queue->active.items[i], plan);
    }
    return step;
}

bool step_fill(struct step_batch *batch, const struct request *request, const struct step_request *plan)
{
    bool wanted = count_rows(request, plan) > 0, good = true;
    size_t first_score, n_scores = count_scores(request, plan, &first_score);
    for (size_t i = 0; i < plan->n_now && good; i++) {
        size_t position = request->n_cached + i;
        bool scores = n_scores > 0 && position >= first_score && position < first_score + n_scores;
        good = step_batch_add(batch, request->tokens[position], request->sequence,
                              scores || (wanted && i + 1 == plan->n_now));
    }
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

/* Makes room for what the step gives, and fills the batch with its tokens. */
static int step_prepare(struct engine_queue *queue, const struct queue_step *step)
{
    int status = make_logits_room(queue, step);
    if (!status) status = make_states_room(queue, step);
    if (!status && queue->info.has_source) status = encode_sources(queue);
    queue->batch.count = 0;
    for (size_t i = 0; i < queue->active.count && !status; i++)
        if (!queue->active.items[i]->kind->fill(&queue->batch, queue->active.items[i], &queue->plan[i]))
            status = error_memory("batch");
    ENGINE_ASSERT(status || queue->batch.count == step->n_tokens);
    return status;
}

int step_run(struct engine_queue *queue, const struct queue_step *step)
{
    int status = step_prepare(queue, step);
    if (status) return status;
    return step_batch_decode(&queue->batch, queue->context,
                             step->n_wanted > 0 ? queue->logits[0].items : NULL,
                             step->pools ? queue->states : NULL, step->n_prompt == 0 ? &queue->costs : NULL);
}

int step_start(struct engine_queue *queue, const struct queue_step *step)
{
    int status = step_prepare(queue, step);
    return status ? status
                  : step_batch_start(&queue->batch, queue->context, queue->logits[step->flight].items);
}

/* The message is this thread's, and each callback may set a new one. */
void step_fail(struct engine_queue *queue, int status)
{
    char message[512];
    strncpy(message, error_message(), sizeof message - 1);
    message[sizeof message - 1] = '\0';
    for (size_t i = queue->active.count; i-- > 0;) {
        if (queue->plan[i].n_now == 0) continue;
        error_raise(status, "%s", message);
        queue_end(queue, queue->active.items[i], ENGINE_DONE_FAILED, status);
    }
}

/* A row of the step's logits; NULL where no request wants any. */
static float *logits_row(struct engine_queue *queue, const struct queue_step *step, size_t row)
{
    float *logits = queue->logits[step->flight].items;
    return logits == NULL ? NULL : logits + row * queue->info.n_vocab;
}

/* From the last rank to the first, so that requests that leave don't move the others. */
void step_hand_out(struct engine_queue *queue, const struct queue_step *step)
{
    size_t row = step->n_wanted, token = step->n_tokens;
    for (size_t i = queue->active.count; i-- > 0;) {
        const struct step_request *plan = &queue->plan[i];
        struct request *request = queue->active.items[i];
        ENGINE_ASSERT(token >= count_tokens(plan));
        token -= count_tokens(plan);
        if (plan->n_now == 0) continue;
        size_t first_score, n_scores = count_scores(request, plan, &first_score);
        size_t n_rows = count_rows(request, plan);
        ENGINE_ASSERT(row >= n_scores + n_rows);
        row -= n_scores + n_rows;
        float *scores = logits_row(queue, step, row), *logits = logits_row(queue, step, row + n_scores);
        const float *states = request->kind->pools ? queue->states + token * queue->info.n_embd : NULL;
        request->kind->computed(queue, request, plan, states);
        size_t n_read = request->n_cached < request->n_prompt ? request->n_cached : request->n_prompt;
        bool further = n_read > request->most_read;
        if (further) request->most_read = n_read;
        if (n_scores > 0 && !request->kind->score(queue, request, scores, n_scores)) {
            queue_let_go(queue, request);
            continue;
        }
        bool pooled = request->kind->pools && request->n_cached == request->n_prompt;
        if (n_rows == 0 && !pooled) {
            if (further) request_tell_progress(queue, request, ENGINE_EVENT_PROMPT);
            continue;
        }
        if (request->prompt_read == 0) request->prompt_read = seconds_now();
        if (!request->kind->take(queue, request, logits)) queue_let_go(queue, request);
    }
    ENGINE_ASSERT(row == 0 && token == 0);
}

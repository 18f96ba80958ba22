/* request-pooled.c: requests for embeddings, and for the scores of a classification head: they only read
 * their prompt, and pool its states. */
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "queue/internal.h"

uint32_t request_width(const struct engine_queue *queue, uint32_t pooling)
{
    if (pooling == ENGINE_POOLING_RANK) return queue->head->n_labels;
    return pooling == ENGINE_POOLING_TOKENS || !queue->dense ? queue->info.n_embd : queue->dense->n_out;
}

/* Which state the embedding is made of. */
static uint32_t state_of(const struct engine_queue *queue, const struct request *request)
{
    return request->pooled.pooling == ENGINE_POOLING_RANK ? queue->head->pooling : request->pooled.pooling;
}

static void pool_states(struct engine_queue *queue, struct request *request, const struct step_request *plan,
                        const float *states)
{
    size_t n_embd = queue->info.n_embd, first = request->n_cached, count = plan->n_now;
    uint32_t pooling = state_of(queue, request);
    ENGINE_ASSERT(first + count <= request->n_prompt);
    request_computed(queue, request, plan, states);
    if (first == 0)
        memset(request->pooled.sums, 0,
               n_embd * sizeof *request->pooled.sums); /* it may have been put back */
    if (request->pooled.pooling == ENGINE_POOLING_TOKENS) {
        memcpy(request->pooled.embedding + first * n_embd, states, count * n_embd * sizeof *states);
        return;
    }
    for (size_t i = 0; i < count; i++)
        for (size_t n = 0; n < n_embd; n++) {
            double value = (double)states[i * n_embd + n];
            if (pooling == ENGINE_POOLING_MEAN)
                request->pooled.sums[n] += value;
            else if (pooling == ENGINE_POOLING_LAST || first + i == 0)
                request->pooled.sums[n] = value;
        }
}

static void add_embedding(const struct engine_queue *queue, struct request *request,
                          struct engine_event *event)
{
    if (event->reason != ENGINE_DONE_LIMIT) return; /* it ended early */
    double count = state_of(queue, request) == ENGINE_POOLING_MEAN ? (double)request->n_prompt : 1;
    bool all = request->pooled.pooling == ENGINE_POOLING_TOKENS,
         ranks = request->pooled.pooling == ENGINE_POOLING_RANK;
    for (size_t n = 0; n < queue->info.n_embd && !all; n++) request->pooled.sums[n] /= count;
    if (ranks)
        head_apply(queue->head, request->pooled.sums, request->pooled.embedding);
    else if (!all && queue->dense)
        dense_apply(queue->dense, request->pooled.sums, request->pooled.embedding);
    else
        for (size_t n = 0; n < queue->info.n_embd && !all; n++)
            request->pooled.embedding[n] = (float)request->pooled.sums[n];
    event->embedding = request->pooled.embedding;
    event->n_embd = request_width(queue, request->pooled.pooling);
    event->n_rows = all ? (uint32_t)request->n_prompt : 1;
}

static int create_pooled(const struct engine_queue *queue, const struct engine_request *given,
                         struct request *request)
{
    struct pooled_part *pool = &request->pooled;
    size_t n_rows = given->pooling == ENGINE_POOLING_TOKENS ? given->n_tokens : 1;
    pool->pooling = given->pooling;
    pool->sums = calloc(queue->info.n_embd, sizeof *pool->sums);
    pool->embedding = calloc(n_rows * request_width(queue, given->pooling), sizeof *pool->embedding);
    if (given->token_types) pool->types = request_copy_tokens(given->token_types, given->n_tokens);
    bool good = pool->sums && pool->embedding && (pool->types || !given->token_types);
    return good ? ENGINE_OK : error_memory("request");
}

static void destroy_pooled(const struct engine_queue *queue, struct request *request)
{
    (void)queue;
    free(request->pooled.sums);
    free(request->pooled.embedding);
    free(request->pooled.types);
}

static size_t count_pooled_rows(const struct request *request, const struct step_request *plan)
{
    (void)request, (void)plan;
    return 0;
}

static bool fill_pooled(struct step_batch *batch, const struct request *request,
                        const struct step_request *plan)
{
    size_t first = batch->count;
    if (!step_fill(batch, request, plan)) return false;
    for (size_t i = 0; i < plan->n_now && request->pooled.types; i++)
        batch->types[first + i] = request->pooled.types[request->n_cached + i];
    return true;
}

static bool take_pooled(struct engine_queue *queue, struct request *request, float *logits)
{
    (void)logits;
    request_finish(queue, request, ENGINE_DONE_LIMIT, ENGINE_OK);
    return false;
}

const struct request_kind request_pooled = {
    .pools = true,
    .create = create_pooled,
    .destroy = destroy_pooled,
    .count_sequences = request_count_sequences,
    .give_back = request_give_back,
    .count_rows = count_pooled_rows,
    .fill = fill_pooled,
    .computed = pool_states,
    .count_cached = request_count_cached,
    .take = take_pooled,
    .complete = add_embedding,
};

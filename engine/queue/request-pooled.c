/* request-pooled.c: requests for embeddings, and for the scores of a classification head: they only read
 * their prompt, and pool its states. */
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "queue/queue.h"

uint32_t request_width(const struct engine_queue *queue, uint32_t pooling)
{
    if (pooling == ENGINE_POOLING_RANK) return queue->head->n_labels;
    return pooling == ENGINE_POOLING_TOKENS || !queue->dense ? queue->info.n_embd : queue->dense->n_out;
}

/* Which state the embedding is made of. */
static uint32_t state_of(const struct engine_queue *queue, const struct request *request)
{
    return request->pool.pooling == ENGINE_POOLING_RANK ? queue->head->pooling : request->pool.pooling;
}

static void pool_states(struct engine_queue *queue, struct request *request, const struct step_request *plan,
                        const float *states)
{
    size_t n_embd = queue->info.n_embd, first = request->n_cached, count = plan->n_now;
    uint32_t pooling = state_of(queue, request);
    ENGINE_ASSERT(first + count <= request->n_prompt);
    request_computed(queue, request, plan, states);
    if (first == 0)
        memset(request->pool.sums, 0, n_embd * sizeof *request->pool.sums); /* it may have been put back */
    if (request->pool.pooling == ENGINE_POOLING_TOKENS) {
        memcpy(request->pool.embedding + first * n_embd, states, count * n_embd * sizeof *states);
        return;
    }
    for (size_t i = 0; i < count; i++)
        for (size_t n = 0; n < n_embd; n++) {
            double value = (double)states[i * n_embd + n];
            if (pooling == ENGINE_POOLING_MEAN)
                request->pool.sums[n] += value;
            else if (pooling == ENGINE_POOLING_LAST || first + i == 0)
                request->pool.sums[n] = value;
        }
}

static void add_embedding(const struct engine_queue *queue, struct request *request,
                          struct engine_event *event)
{
    if (event->reason != ENGINE_DONE_LIMIT) return; /* it ended early */
    double count = state_of(queue, request) == ENGINE_POOLING_MEAN ? (double)request->n_prompt : 1;
    bool all = request->pool.pooling == ENGINE_POOLING_TOKENS,
         ranks = request->pool.pooling == ENGINE_POOLING_RANK;
    for (size_t n = 0; n < queue->info.n_embd && !all; n++) request->pool.sums[n] /= count;
    if (ranks)
        head_apply(queue->head, request->pool.sums, request->pool.embedding);
    else if (!all && queue->dense)
        dense_apply(queue->dense, request->pool.sums, request->pool.embedding);
    else
        for (size_t n = 0; n < queue->info.n_embd && !all; n++)
            request->pool.embedding[n] = (float)request->pool.sums[n];
    event->embedding = request->pool.embedding;
    event->n_embd = request_width(queue, request->pool.pooling);
    event->n_rows = all ? (uint32_t)request->n_prompt : 1;
}

static int create_pooled(const struct engine_queue *queue, const struct engine_request *given,
                         struct request *request)
{
    struct request_pool *pool = &request->pool;
    size_t n_rows = given->pooling == ENGINE_POOLING_TOKENS ? given->n_tokens : 1;
    pool->pooling = given->pooling;
    pool->sums = calloc(queue->info.n_embd, sizeof *pool->sums);
    pool->embedding = calloc(n_rows * request_width(queue, given->pooling), sizeof *pool->embedding);
    if (given->token_types) pool->types = request_copy_tokens(given->token_types, given->n_tokens);
    bool good = pool->sums && pool->embedding && (pool->types || !given->token_types);
    return good ? ENGINE_OK : error_memory("request");
}

static void destroy_pooled(struct request *request)
{
    free(request->pool.sums);
    free(request->pool.embedding);
    free(request->pool.types);
}

static size_t count_pooled_rows(const struct request *request, const struct step_request *plan)
{
    (void)request, (void)plan;
    return 0;
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
    .begin = request_text_begin,
    .give_back = request_give_back,
    .count_rows = count_pooled_rows,
    .fill = step_fill,
    .computed = pool_states,
    .count_cached = request_count_cached,
    .take = take_pooled,
    .complete = add_embedding,
};

/* cache.c: what the queue asks of the context's cache, in one place. */
#include "kv/cache.h"

#include "queue/queue.h"

uint32_t cache_block(const struct engine_queue *queue)
{
    (void)queue;
    return KV_BLOCK_SIZE;
}

/* Each sequence has blocks of its own for the whole context. */
static uint64_t blocks_of_sequence(const struct engine_queue *queue)
{
    return ((uint64_t)queue->info.n_context + KV_BLOCK_SIZE - 1) / KV_BLOCK_SIZE;
}

uint64_t cache_size(const struct engine_queue *queue)
{
    return blocks_of_sequence(queue) * queue->info.n_sequences * KV_BLOCK_SIZE;
}

uint64_t cache_free(const struct engine_queue *queue)
{
    uint64_t used = 0;
    for (uint32_t s = 0; s < queue->info.n_sequences; s++)
        used += ((uint64_t)engine_sequence_length(queue->context, s) + KV_BLOCK_SIZE - 1) / KV_BLOCK_SIZE;
    return cache_size(queue) - used * KV_BLOCK_SIZE;
}

int cache_reuse(const struct engine_queue *queue, uint32_t sequence, const int32_t *tokens, size_t n_tokens,
                size_t *n_reused)
{
    (void)queue, (void)sequence, (void)tokens, (void)n_tokens;
    *n_reused = 0;
    return ENGINE_OK;
}

void cache_truncate(const struct engine_queue *queue, uint32_t sequence, size_t length)
{
    engine_sequence_truncate(queue->context, sequence, (uint32_t)length);
}

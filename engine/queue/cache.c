/* cache.c: everything the queue asks of the context's cache, in one place. */
#include "queue/queue.h"

uint64_t cache_free(const struct engine_queue *queue)
{
    return engine_cache_free(queue->context);
}

size_t cache_reuse(const struct engine_queue *queue, uint32_t sequence, const struct request *request)
{
    uint32_t n_found = 0;
    int status =
        engine_sequence_reuse(queue->context, sequence, request->tokens, request->n_tokens, &n_found);
    return status ? 0 : n_found; /* without the cached part the whole prompt is computed */
}

void cache_clear(const struct engine_queue *queue, uint32_t sequence)
{
    engine_sequence_truncate(queue->context, sequence, 0);
}

/* Number of leading tokens that two requests share. */
static size_t common(const struct request *a, const struct request *b)
{
    size_t n = a->n_tokens < b->n_tokens ? a->n_tokens : b->n_tokens, i = 0;
    while (i < n && a->tokens[i] == b->tokens[i]) i++;
    return i;
}

bool cache_soon_has_more(const struct engine_queue *queue, const struct request *request, size_t n_found)
{
    uint32_t block = queue->info.cache_block;
    for (size_t i = 0; i < queue->active.count; i++) {
        const struct request *other = queue->active.items[i];
        if (other->sequence < 0 || other->n_cached >= other->n_prompt) continue;
        size_t n = common(request, other);
        if (n == request->n_tokens) n--; /* the last token is computed anyway */
        n -= n % block;
        if (n > n_found && n > other->n_cached - other->n_cached % block) return true;
    }
    return false;
}

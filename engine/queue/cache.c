/* cache.c: everything the queue asks of the context's cache, in one place. */
#include "kv/cache.h"
#include "context/context.h"
#include "queue/internal.h"

uint64_t cache_free(const struct engine_queue *queue)
{
    return engine_cache_free(queue->context);
}

/* The tokens of a request that may be taken from the cache, because neither their logits nor their states are
 * needed. */
static size_t most_reused(const struct request *request)
{
    size_t next_score = request_next_score(request);
    if (request->kind->pools) return 0; /* every state is needed */
    return next_score < SIZE_MAX ? next_score : request->n_tokens - 1;
}

/* Shares the beginning of the kept sequence that has most in common with the request, if that is more than
 * the tokens n_found that whole blocks have; returns how many. */
static uint32_t share_kept(const struct engine_queue *queue, uint32_t sequence, const struct request *request,
                           uint32_t n_found)
{
    const struct kv_cache *kv = queue->context->kv;
    uint32_t best = sequence, most = n_found;
    for (uint32_t s = 0; s < queue->info.n_sequences; s++) {
        if (s == sequence || queue->sequences[s].used || queue->sequences[s].kept == 0) continue;
        uint32_t n = kv_common(kv, s, request->tokens, (uint32_t)most_reused(request));
        if (n <= most) continue;
        best = s;
        most = n;
    }
    if (best == sequence || engine_sequence_copy(queue->context, best, sequence, most)) return n_found;
    uint32_t n_shared = kv_length(kv, sequence);
    /* With a window, less of it may be left to go on from. */
    if (n_shared < n_found &&
        engine_sequence_reuse(queue->context, sequence, request->tokens, most_reused(request) + 1, &n_shared))
        return 0;
    return n_shared;
}

size_t cache_reuse(const struct engine_queue *queue, uint32_t sequence, const struct request *request)
{
    uint32_t n_found = 0;
    if (request->source) { /* what is in the cache is about another text */
        engine_sequence_truncate(queue->context, sequence, 0);
        return 0;
    }
    int status =
        engine_sequence_reuse(queue->context, sequence, request->tokens, most_reused(request) + 1, &n_found);
    if (status) return 0; /* without the cached part the whole prompt is computed */
    /* States are found in all sequences as it is. */
    return queue->context->plan->n_states > 0 ? n_found : share_kept(queue, sequence, request, n_found);
}

bool cache_copies(const struct engine_queue *queue, uint32_t sequence)
{
    return kv_shares_last(queue->context->kv, sequence);
}

void cache_clear(const struct engine_queue *queue, uint32_t sequence)
{
    ENGINE_ASSERT(sequence < queue->info.n_sequences);
    queue->sequences[sequence] = (struct sequence){0};
    engine_sequence_truncate(queue->context, sequence, 0);
    if (queue->draft) draft_truncate(queue->draft, sequence, 0);
}

/* ---- Kept sequences ---- */

void cache_keep(struct engine_queue *queue, uint32_t sequence, size_t n_tokens)
{
    ENGINE_ASSERT(sequence < queue->info.n_sequences);
    ENGINE_ASSERT(queue->sequences[sequence].used);
    queue->sequences[sequence] = (struct sequence){.kept = ++queue->n_kept};
    engine_sequence_truncate(queue->context, sequence, (uint32_t)n_tokens);
    if (queue->draft) draft_truncate(queue->draft, sequence, n_tokens);
}

/* How well a sequence suits a request: by `kind`, then by `common`, then by `kept`. */
struct fit {
    enum { GIVES_WAY, FREE, CONTINUED } kind;
    uint32_t common; /* tokens at the beginning of both */
    uint64_t kept;   /* the one that was kept first gives way */
};

static struct fit fit_of(const struct engine_queue *queue, const struct request *request, uint32_t s)
{
    const struct kv_cache *kv = queue->context->kv;
    uint64_t kept = queue->sequences[s].kept;
    if (kept == 0) return (struct fit){.kind = FREE};
    uint32_t common = kv_common(kv, s, request->tokens, (uint32_t)request->n_tokens);
    return (struct fit){common == kv_length(kv, s) ? CONTINUED : GIVES_WAY, common, kept};
}

static bool fits_better(const struct fit *a, const struct fit *b)
{
    if (a->kind != b->kind) return a->kind > b->kind;
    return a->common != b->common ? a->common > b->common : a->kept < b->kept;
}

bool cache_choose(const struct engine_queue *queue, const struct request *request, uint32_t *sequence)
{
    struct fit best;
    bool any = false;
    for (uint32_t s = 0; s < queue->info.n_sequences; s++) {
        if (queue->sequences[s].used) continue;
        struct fit fit = fit_of(queue, request, s);
        if (any && !fits_better(&fit, &best)) continue;
        any = true;
        best = fit;
        *sequence = s;
    }
    return any;
}

/* The sequence that was kept first; n_sequences: none is. */
static uint32_t first_kept(const struct engine_queue *queue)
{
    uint64_t first = UINT64_MAX;
    uint32_t which = queue->info.n_sequences;
    for (uint32_t s = 0; s < queue->info.n_sequences; s++)
        if (queue->sequences[s].kept > 0 && queue->sequences[s].kept < first)
            first = queue->sequences[which = s].kept;
    return which;
}

uint32_t cache_take(const struct engine_queue *queue)
{
    uint32_t which = 0;
    while (which < queue->info.n_sequences &&
           (queue->sequences[which].used || queue->sequences[which].kept > 0))
        which++;
    if (which == queue->info.n_sequences) which = first_kept(queue);
    ENGINE_ASSERT(which < queue->info.n_sequences); /* the plan counts them */
    cache_clear(queue, which);
    queue->sequences[which].used = true;
    return which;
}

bool cache_give_up(const struct engine_queue *queue)
{
    uint32_t which = first_kept(queue);
    if (which < queue->info.n_sequences) cache_clear(queue, which);
    return which < queue->info.n_sequences;
}

uint32_t cache_count_kept(const struct engine_queue *queue)
{
    uint32_t count = 0;
    for (uint32_t s = 0; s < queue->info.n_sequences; s++) count += queue->sequences[s].kept > 0;
    return count;
}

/* ---- What others read ---- */

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
    if (queue->context->plan->n_states > 0 || request->source) return false; /* no blocks are found */
    for (size_t i = 0; i < queue->active.count; i++) {
        const struct request *other = queue->active.items[i];
        if (other->sequence < 0 || other->n_cached >= other->n_prompt) continue;
        size_t n = common(request, other);
        if (n > most_reused(request)) n = most_reused(request);
        n -= n % block;
        if (n > n_found && n > other->n_cached - other->n_cached % block) return true;
    }
    return false;
}

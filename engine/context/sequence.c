/* sequence.c: sequences as programs see them: their length, their tokens, and what they share. */
#include "base/error.h"
#include "context/context.h"

int check_sequence(const struct engine_context *context, uint32_t sequence)
{
    if (sequence < context->plan->n_sequences) return ENGINE_OK;
    return error_raise(ENGINE_ERROR_ARGUMENT, "there is no sequence %u, only %u sequences", sequence,
                       context->plan->n_sequences);
}

/* Makes copies of states at once, so that their number doesn't grow. Sequences that lack theirs are emptied. */
static int copy_states(struct engine_context *context)
{
    int status = context_copy_states(context);
    if (status) kv_copies_failed(context->kv);
    return status;
}

int engine_sequence_truncate(struct engine_context *context, uint32_t sequence, uint32_t position)
{
    int status = check_sequence(context, sequence);
    if (status) return status;
    kv_truncate(context->kv, sequence, position);
    return copy_states(context);
}

uint32_t engine_sequence_length(const struct engine_context *context, uint32_t sequence)
{
    return check_sequence(context, sequence) ? 0 : kv_length(context->kv, sequence);
}

int engine_sequence_tokens(const struct engine_context *context, uint32_t sequence, uint32_t first,
                           uint32_t count, int32_t *tokens)
{
    int status = check_sequence(context, sequence);
    if (status) return status;
    uint32_t length = kv_length(context->kv, sequence);
    if (first > length || count > length - first)
        return error_raise(ENGINE_ERROR_ARGUMENT, "%u tokens from %u on of a sequence of %u", count, first,
                           length);
    kv_tokens(context->kv, sequence, first, count, tokens);
    return ENGINE_OK;
}

int engine_sequence_copy(struct engine_context *context, uint32_t from, uint32_t to, uint32_t n_positions)
{
    int status = check_sequence(context, from);
    if (!status) status = check_sequence(context, to);
    if (status) return status;
    kv_share(context->kv, from, to, n_positions);
    if (context->sources) kv_share(context->sources, from, to, UINT32_MAX);
    return copy_states(context);
}

int engine_sequence_reuse(struct engine_context *context, uint32_t sequence, const int32_t *tokens,
                          size_t n_tokens, uint32_t *n_found)
{
    int status = check_sequence(context, sequence);
    if (status) return status;
    if (context->plan->info.is_encoder) n_tokens = 0; /* a state depends on what follows, too */
    size_t most = n_tokens > 0 ? n_tokens - 1 : 0;    /* the last one has to run to give logits */
    kv_reuse(context->kv, sequence, tokens, most < UINT32_MAX ? (uint32_t)most : UINT32_MAX);
    status = copy_states(context);
    *n_found = kv_length(context->kv, sequence);
    return status;
}

uint32_t engine_cache_free(const struct engine_context *context)
{
    return kv_free_count(context->kv) * KV_BLOCK_SIZE;
}

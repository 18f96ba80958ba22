/* batch.c: checks a batch, cuts it into parts that fit, and runs them through prepared graphs. */
#include <string.h>

#include "base/error.h"
#include "base/sized.h"
#include "context/context.h"

static uint32_t sequence_of(const struct engine_batch *batch, size_t i)
{
    return batch->sequences ? (uint32_t)batch->sequences[i] : 0;
}

static bool is_wanted(const struct engine_batch *batch, size_t i)
{
    return batch->wanted ? batch->wanted[i] != 0 : i + 1 == batch->n_tokens;
}

/* Checks the whole batch before anything runs. */
static int check_batch(const struct engine_context *context, const struct engine_batch *batch)
{
    const struct engine_plan *plan = context->plan;
    uint32_t *growth = context->growth;
    memset(growth, 0, plan->n_sequences * sizeof *growth);
    for (size_t i = 0; i < batch->n_tokens; i++) {
        uint32_t sequence = sequence_of(batch, i);
        if (sequence >= plan->n_sequences)
            return error_raise(ENGINE_ERROR_ARGUMENT,
                               "token %zu belongs to sequence %d, but there are %u sequences", i,
                               (int)sequence, plan->n_sequences);
        if (batch->tokens[i] < 0 || (uint32_t)batch->tokens[i] >= plan->info.n_vocab)
            return error_raise(ENGINE_ERROR_ARGUMENT, "token %zu is %d, but the vocabulary has %u tokens", i,
                               batch->tokens[i], plan->info.n_vocab);
        uint32_t position = kv_length(context->kv, sequence) + growth[sequence]++;
        if (batch->positions && (uint32_t)batch->positions[i] != position)
            return error_raise(ENGINE_ERROR_ARGUMENT,
                               "token %zu is at position %d of its sequence; it must be at %u", i,
                               batch->positions[i], position);
        if (position >= plan->n_context)
            return error_raise(ENGINE_ERROR_ARGUMENT,
                               "the context of %u tokens is full; enlarge it (option -c, n_context)",
                               plan->n_context);
    }
    if (kv_needed(context->kv, growth) > kv_free_count(context->kv))
        return error_raise(
            ENGINE_ERROR_MEMORY,
            "the cache of %u tokens for all sequences is full; enlarge it (option --cache-size, n_cache)",
            plan->n_blocks * KV_BLOCK_SIZE);
    return ENGINE_OK;
}

/* Block tables are as wide as the longest sequence needs, rounded up to a power of two, so that growing text
 * rarely changes the shape of the graph. */
static uint32_t table_width(const struct engine_context *context)
{
    uint32_t longest = 1, max = kv_blocks_for(context->plan->n_context), width = 8;
    for (uint32_t s = 0; s < context->plan->n_sequences; s++)
        if (kv_length(context->kv, s) > longest) longest = kv_length(context->kv, s);
    while (width < max && (uint64_t)width * KV_BLOCK_SIZE < longest) width *= 2;
    return width < max ? width : max;
}

/* How many tokens from `first` on go through the graph together: at most a batch, and no more logits than
 * fit. */
static uint32_t count_part(const struct engine_context *context, const struct engine_batch *batch,
                           size_t first, bool logits)
{
    const struct engine_plan *plan = context->plan;
    uint32_t count = 0, n_outputs = 0;
    while (count < plan->n_batch && first + count < batch->n_tokens) {
        if (logits && is_wanted(batch, first + count) && n_outputs++ == plan->max_outputs) break;
        count++;
    }
    return count;
}

/* Writes the factor of the family's queries at a position, if its graphs take that as an input. */
static void write_query_scale(const struct engine_plan *plan, uint32_t position, int32_t *input)
{
    if (!plan->info.query_scale) return;
    float scale = plan->info.query_scale(plan->hparams, position);
    memcpy(input, &scale, sizeof scale); /* inputs are stored as 32-bit numbers, whatever their type */
}

/* Gives each sequence that continues inside a shared block its own copy of it, in all caches. */
static int copy_blocks(struct engine_context *context)
{
    const struct engine_plan *plan = context->plan;
    size_t count;
    const struct kv_copy *copies = kv_copies(context->kv, &count);
    for (size_t i = 0; i < plan->n_caches && count > 0; i++) {
        uint32_t d = plan->device[plan->caches[i].entry];
        const struct engine_backend *backend = device_at(context, d)->backend;
        struct engine_buffer *cache = context->executor.caches[i];
        uint64_t size = plan->caches[i].size / plan->n_blocks;
        for (size_t c = 0; c < count; c++) {
            int status = backend->copy(context->executor.streams[d], cache, (uint64_t)copies[c].to * size,
                                       cache, (uint64_t)copies[c].from * size, size);
            if (status) return error_wrap(status, "%s: cache", device_at(context, d)->name);
        }
    }
    kv_copied(context->kv);
    return ENGINE_OK;
}

/* Fills up a shape: padding tokens that attend to nothing, that nobody attends to and that are not kept, and
 * extra rows of logits, which are not read. */
static void fill_shape(int32_t *const *inputs, uint32_t n_tokens, uint32_t n_wanted,
                       const struct shape_key *key)
{
    for (uint32_t i = n_tokens; i < key->n_tokens; i++) {
        for (int input = 0; input < INPUT_COUNT; input++)
            if (input != INPUT_BLOCK_TABLE && input != INPUT_OUTPUT_ROWS)
                inputs[input][i] = inputs[input][n_tokens - 1];
        inputs[INPUT_POSITIONS][i] = inputs[INPUT_SLOTS][i] = -1;
    }
    for (uint32_t i = n_wanted; i < key->n_outputs; i++) inputs[INPUT_OUTPUT_ROWS][i] = 0;
}

/* Runs tokens first … first+count-1, see count_part. Advances *logits past what was written. */
static int run_part(struct engine_context *context, const struct engine_batch *batch, size_t first,
                    uint32_t count, float **logits)
{
    const struct engine_plan *plan = context->plan;
    int32_t **inputs = context->inputs;
    uint32_t n_wanted = 0;
    for (uint32_t i = 0; i < count; i++) {
        uint32_t sequence = sequence_of(batch, first + i);
        inputs[INPUT_TOKENS][i] = batch->tokens[first + i];
        inputs[INPUT_SEQUENCES][i] = (int32_t)sequence;
        inputs[INPUT_POSITIONS][i] = (int32_t)kv_length(context->kv, sequence);
        inputs[INPUT_POSITION_ROWS][i] = inputs[INPUT_POSITIONS][i];
        write_query_scale(plan, kv_length(context->kv, sequence), &inputs[INPUT_QUERY_SCALES][i]);
        inputs[INPUT_SLOTS][i] = kv_append(context->kv, sequence, inputs[INPUT_TOKENS][i]);
        if (*logits && is_wanted(batch, first + i)) inputs[INPUT_OUTPUT_ROWS][n_wanted++] = (int32_t)i;
    }
    struct shape_key key = shape_for(plan, count, n_wanted);
    key.table_width = table_width(context);
    fill_shape(inputs, count, n_wanted, &key);
    for (uint32_t s = 0; s < plan->n_sequences; s++) {
        uint32_t n = kv_blocks_for(kv_length(context->kv, s));
        memcpy(&inputs[INPUT_BLOCK_TABLE][(size_t)s * key.table_width], kv_blocks(context->kv, s),
               n * sizeof(int32_t));
    }
    struct prepared *prepared;
    int status = prepared_for(context, &key, &prepared);
    if (!status) status = copy_blocks(context);
    if (!status)
        status = prepared_run(&context->executor, prepared, (const void *const *)inputs, *logits, n_wanted);
    if (!status) kv_commit(context->kv);
    if (!status && n_wanted > 0) *logits += (size_t)n_wanted * plan->info.n_vocab;
    return status;
}

/* Runs a checked batch, part by part. */
static int run_batch(struct engine_context *context, const struct engine_batch *batch, float *logits)
{
    int status = ENGINE_OK;
    for (size_t first = 0; first < batch->n_tokens && !status;) {
        uint32_t count = count_part(context, batch, first, logits != NULL);
        status = run_part(context, batch, first, count, &logits);
        first += count;
    }
    return status;
}

int engine_decode(struct engine_context *context, const struct engine_batch *batch, float *logits)
{
    const struct engine_plan *plan = context->plan;
    struct engine_batch known;
    int status = SIZED_CHECK(batch, engine_batch, wanted);
    if (status) return status;
    sized_read(&known, sizeof known, batch);
    status = check_batch(context, &known);
    if (status) return status;
    for (uint32_t s = 0; s < plan->n_sequences; s++) context->lengths[s] = kv_length(context->kv, s);
    status = run_batch(context, &known, logits);
    if (!status) return ENGINE_OK;
    /* Restore the state before the batch, as far as possible. */
    for (uint32_t s = 0; s < plan->n_sequences; s++) kv_truncate(context->kv, s, context->lengths[s]);
    kv_copies_failed(context->kv);
    return status;
}

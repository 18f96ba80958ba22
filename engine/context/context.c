/* context.c: creates, describes and destroys contexts, models on their devices; sequences as programs see
 * them: their length, their tokens, and what they share; and the scales of adapters. */
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "context/context.h"

static int create_inputs(struct engine_context *context)
{
    const struct engine_plan *plan = context->plan;
    size_t sizes[INPUT_COUNT];
    for (int i = 0; i < INPUT_COUNT; i++) sizes[i] = plan->n_batch;
    sizes[INPUT_REACH] *= 2;
    sizes[INPUT_OUTPUT_ROWS] = plan->max_outputs;
    sizes[INPUT_BLOCK_TABLE] = (size_t)plan->n_sequences * kv_blocks_for(plan->n_context);
    if (plan->n_window_blocks > 0) sizes[INPUT_WINDOW_TABLE] = sizes[INPUT_BLOCK_TABLE];
    if (plan->info.has_source) sizes[INPUT_SOURCE_TABLE] = sizes[INPUT_BLOCK_TABLE];
    for (int i = 0; i < GRAPH_PERIODS; i++)
        if (plan->info.periods[i] > 0) sizes[INPUT_POOLED_TABLE + i] = sizes[INPUT_BLOCK_TABLE];
    for (int i = 0; i < INPUT_COUNT; i++) {
        context->inputs[i] = calloc(sizes[i], sizeof *context->inputs[i]);
        if (!context->inputs[i]) return error_memory("inputs");
    }
    context->lengths = calloc(plan->n_sequences, sizeof *context->lengths);
    context->growth = calloc(plan->n_sequences, sizeof *context->growth);
    context->is_pending = calloc(plan->n_sequences, sizeof *context->is_pending);
    bool whole = context->lengths && context->growth && context->is_pending;
    for (int i = 0; i < PLAN_MAX_GROUPS && whole; i++) {
        context->flights[i].lengths = calloc(plan->n_sequences, sizeof *context->flights[i].lengths);
        whole = context->flights[i].lengths != NULL;
    }
    return whole ? ENGINE_OK : error_memory("inputs");
}

static int create_cache(struct engine_context *context)
{
    const struct engine_plan *plan = context->plan;
    context->kv = kv_create(plan->n_sequences, plan->n_context, plan->n_blocks);
    if (!context->kv) return error_memory("cache");
    kv_close(context->kv, plan->n_ready_blocks);
    room_claim(context);
    if (plan->n_window_blocks > 0 && !kv_add_window(context->kv, plan->info.window, plan->n_window_blocks))
        return error_memory("cache");
    if (plan->n_states > 0 && !kv_add_states(context->kv)) return error_memory("states");
    if (!plan->info.has_source) return ENGINE_OK;
    context->sources = kv_create(plan->n_sequences, plan->n_context, plan->n_source_blocks);
    if (!context->sources) return error_memory("cache");
    return ENGINE_OK;
}

int engine_context_create(struct engine_model *model, const struct engine_context_options *options,
                          struct engine_context **out)
{
    struct engine_context_options known;
    int status = plan_read_context_options(options, &known);
    if (status) return status;
    struct engine_context *context = calloc(1, sizeof *context);
    if (!context) return error_memory("context");
    status = engine_plan_create(model, &known, &context->plan);
    if (status) {
        free(context);
        return status;
    }
    context->executor.set = &context->plan->set;
    status = context_load(context, &known); /* which may shorten the context */
    if (!status) status = create_cache(context);
    if (!status) status = create_inputs(context);
    if (!status) status = context_set_scales(context, known.adapter_scales);
    if (status) {
        engine_context_destroy(context);
        return status;
    }
    report_placement(context->plan);
    *out = context;
    return ENGINE_OK;
}

void engine_context_destroy(struct engine_context *context)
{
    if (!context) return;
    prepared_forget(context);
    context_unload(context);
    for (int i = 0; i < INPUT_COUNT; i++) free(context->inputs[i]);
    free(context->lengths);
    free(context->growth);
    free(context->is_pending);
    for (int i = 0; i < PLAN_MAX_GROUPS; i++) free(context->flights[i].lengths);
    free(context->executor.staging);
    if (context->kv) room_give_up(context);
    kv_destroy(context->kv);
    kv_destroy(context->sources);
    engine_plan_destroy(context->plan);
    free(context);
}

const struct engine_plan *engine_context_plan(const struct engine_context *context)
{
    return context->plan;
}

int engine_context_get_info(const struct engine_context *context, struct engine_context_info *info)
{
    int status = SIZED_CHECK(info, engine_context_info, n_threads);
    if (status) return status;
    const struct engine_plan *plan = context->plan;
    struct engine_context_info known = {
        .n_vocab = plan->info.n_vocab,
        .n_embd = plan->info.n_embd,
        .is_encoder = plan->info.is_encoder,
        .n_context = plan->n_context,
        .n_batch = plan->n_batch,
        .n_sequences = plan->n_sequences,
        .n_threads = plan->n_threads,
        .n_cache = plan->n_blocks * KV_BLOCK_SIZE,
        .cache_block = KV_BLOCK_SIZE,
        .has_source = plan->info.has_source,
        .start_token = plan->info.has_source ? plan->info.start_token : -1,
    };
    sized_write(info, &known, sizeof known);
    return ENGINE_OK;
}

/* ---- Sequences ----------------------------------------------------------------------------------------- */

int check_sequence(const struct engine_context *context, uint32_t sequence)
{
    if (sequence < context->plan->n_sequences) return ENGINE_OK;
    return error_raise(ENGINE_ERROR_ARGUMENT, "there is no sequence %u, only %u sequences", sequence,
                       context->plan->n_sequences);
}

/* Makes copies of states at once, so that their number doesn't grow. Sequences that lack theirs are
 * emptied. */
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
    return (kv_free_count(context->kv) + room_openable(context)) * KV_BLOCK_SIZE;
}

/* ---- Adapters ---------------------------------------------------------------------------------------- */

/* Scales are numbers in the operations of graphs, so the prepared graphs go when one changes, and sequences
 * that were computed with others can't be continued. */
int context_set_scales(struct engine_context *context, const float *scales)
{
    struct engine_plan *plan = context->plan;
    bool changed = false;
    for (size_t i = 0; i < plan->n_adapters; i++) {
        float scale = scales ? scales[i] : 1;
        int status = plan_check_scale(scale);
        if (status) return status;
        if (scale != plan->adapters[i].scale) changed = true;
    }
    if (!changed) return ENGINE_OK;
    for (size_t i = 0; i < plan->n_adapters; i++) plan->adapters[i].scale = scales ? scales[i] : 1;
    prepared_forget(context);
    for (uint32_t s = 0; s < plan->n_sequences; s++) kv_truncate(context->kv, s, 0);
    kv_set_variant(context->kv, context_adapters_hash(context));
    return ENGINE_OK;
}

int engine_context_set_adapter_scales(struct engine_context *context, const float *scales, size_t n_scales)
{
    if (n_scales != context->plan->n_adapters)
        return error_raise(ENGINE_ERROR_ARGUMENT, "%zu scales for %zu adapters", n_scales,
                           context->plan->n_adapters);
    return context_set_scales(context, scales);
}

const struct engine_adapter *engine_context_adapter(const struct engine_context *context, size_t index,
                                                    float *scale)
{
    const struct engine_plan *plan = context->plan;
    if (index >= plan->n_adapters) return NULL;
    *scale = plan->adapters[index].scale;
    return plan->adapter_handles[index];
}

/* context.c: creates, describes and destroys contexts: models on their devices. */
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/sized.h"
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
    status = create_cache(context);
    if (!status) status = create_inputs(context);
    if (!status) status = context_load(context, &known);
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

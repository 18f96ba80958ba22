/* prepared.c: the prepared graphs of the last few shapes, and the arenas they share. */
#include <string.h>

#include "base/error.h"
#include "common/assert.h"
#include "context/context.h"

void prepared_forget(struct engine_context *context)
{
    ENGINE_ASSERT(context->n_flights == 0 || !context->executor.is_running); /* nothing replays recordings */
    for (int i = 0; i < MAX_PREPARED; i++) {
        prepared_destroy(&context->executor, context->graphs[i].prepared);
        context->graphs[i].prepared = NULL;
    }
}

/* Makes the arenas large enough for a schedule. All prepared graphs refer to them, so they are dropped when
 * one grows. */
static int grow_arenas(struct engine_context *context, const struct schedule *schedule)
{
    for (uint32_t d = 0; d < context->plan->set.n_devices; d++) {
        const struct open_device *device = device_at(context, d);
        struct engine_buffer *larger;
        if (schedule->arena[d] <= context->arena_size[d]) continue;
        int status = executor_wait(&context->executor);
        if (!status) status = device->backend->buffer_create(device->handle, schedule->arena[d], &larger);
        if (status) return error_wrap(status, "%s: activations", device->name);
        prepared_forget(context);
        device->backend->buffer_destroy(context->executor.arenas[d]);
        context->executor.arenas[d] = larger;
        context->arena_size[d] = schedule->arena[d];
    }
    return ENGINE_OK;
}

#define MAX_STEP 16 /* most tokens of padding, plus one */

/* Padding tokens cost as much as real ones: up to 16 tokens are taken as they are, more are rounded up by
 * less than an eighth. Rows of logits cost a small part of that, so their number is rounded up to a power of
 * two if it is below that of the tokens. */
struct shape_key shape_for(const struct engine_plan *plan, uint32_t n_tokens, uint32_t n_outputs)
{
    uint32_t step = 1, power = 1;
    while (step < MAX_STEP && step * 16 < n_tokens) step *= 2;
    while (power < n_outputs) power *= 2;
    struct shape_key key = {.n_tokens = (n_tokens + step - 1) / step * step};
    if (key.n_tokens > plan->n_batch) key.n_tokens = plan->n_batch;
    key.n_outputs = n_outputs == n_tokens ? key.n_tokens : power;
    if (key.n_outputs > key.n_tokens) key.n_outputs = key.n_tokens;
    if (key.n_outputs > plan->max_outputs) key.n_outputs = plan->max_outputs;
    ENGINE_ASSERT(key.n_tokens >= n_tokens && key.n_outputs >= n_outputs);
    return key;
}

/* For assertions: whether the arenas are large enough for a schedule. */
static bool fits_arenas(const struct engine_context *context, const struct schedule *schedule)
{
    for (uint32_t d = 0; d < context->plan->set.n_devices; d++)
        if (schedule->arena[d] > context->arena_size[d]) return false;
    return true;
}

int prepared_for(struct engine_context *context, const struct shape_key *key, struct prepared **prepared)
{
    struct cached_graph *oldest = &context->graphs[0];
    for (int i = 0; i < MAX_PREPARED; i++) {
        struct cached_graph *graph = &context->graphs[i];
        if (graph->prepared && memcmp(&graph->key, key, sizeof *key) == 0) {
            graph->last_used = ++context->clock;
            *prepared = graph->prepared;
            return ENGINE_OK;
        }
        if (!graph->prepared || (oldest->prepared && graph->last_used < oldest->last_used)) oldest = graph;
    }
    struct schedule *schedule;
    int status = plan_schedule(context->plan, key, &schedule);
    if (status) return status;
    status = grow_arenas(context, schedule);
    if (status) {
        schedule_destroy(schedule);
        return status;
    }
    if (oldest->prepared) status = executor_wait(&context->executor);
    if (status) {
        schedule_destroy(schedule);
        return status;
    }
    prepared_destroy(&context->executor, oldest->prepared);
    oldest->prepared = NULL;
    status = prepared_create(&context->executor, schedule, &oldest->prepared);
    if (status) return status;
    context->n_prepared++;
    oldest->key = *key;
    oldest->last_used = ++context->clock;
    *prepared = oldest->prepared;
    ENGINE_ASSERT(fits_arenas(context, prepared_schedule(*prepared)));
    return ENGINE_OK;
}

/* step-batch.c: see step-batch.h. */
#include "queue/step-batch.h"

#include <stdlib.h>

#include "common/clock.h"
#include "context/context.h"
#include "queue/queue.h"

static bool grow(void **array, size_t size, size_t count)
{
    void *grown = realloc(*array, size * count);
    if (grown) *array = grown;
    return grown != NULL;
}

bool step_batch_add(struct step_batch *batch, int32_t token, int32_t sequence, bool wanted)
{
    if (batch->count == batch->room) {
        size_t room = batch->room * 2 + 64;
        if (!grow((void **)&batch->tokens, sizeof *batch->tokens, room) ||
            !grow((void **)&batch->sequences, sizeof *batch->sequences, room) ||
            !grow((void **)&batch->types, sizeof *batch->types, room) ||
            !grow((void **)&batch->wanted, sizeof *batch->wanted, room))
            return false;
        batch->room = room;
    }
    batch->tokens[batch->count] = token;
    batch->sequences[batch->count] = sequence;
    batch->types[batch->count] = 0;
    batch->wanted[batch->count++] = wanted;
    return true;
}

int step_batch_encode(const struct step_batch *batch, struct engine_context *context)
{
    const struct engine_batch tokens = {
        .struct_size = sizeof tokens,
        .n_tokens = batch->count,
        .tokens = batch->tokens,
        .sequences = batch->sequences,
    };
    return engine_encode(context, &tokens);
}

static struct engine_batch batch_of(const struct step_batch *batch)
{
    return (struct engine_batch){
        .struct_size = sizeof(struct engine_batch),
        .n_tokens = batch->count,
        .tokens = batch->tokens,
        .sequences = batch->sequences,
        .wanted = batch->wanted,
        .token_types = batch->types,
    };
}

int step_batch_start(const struct step_batch *batch, struct engine_context *context, float *logits)
{
    struct engine_batch tokens = batch_of(batch);
    return context_start(context, &tokens, logits);
}

int step_batch_decode(const struct step_batch *batch, struct engine_context *context, float *logits,
                      float *states, struct step_costs *costs)
{
    struct engine_batch tokens = batch_of(batch);
    tokens.states = states;
    uint64_t n_prepared = context->n_prepared;
    double start = seconds_now();
    int status = engine_decode(context, &tokens, logits);
    if (!status && costs && context->n_prepared == n_prepared)
        costs_measured(costs, batch->count, seconds_now() - start);
    return status;
}

void step_batch_free(struct step_batch *batch)
{
    free(batch->tokens);
    free(batch->sequences);
    free(batch->types);
    free(batch->wanted);
}

/* step-batch.h: the tokens of a step, of the model or of the draft model, and what the step costs. */
#ifndef ENGINE_QUEUE_STEP_BATCH_H
#define ENGINE_QUEUE_STEP_BATCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "engine.h"
#include "queue/pace.h"

/* Zeroed: empty. To begin anew, set `count` to 0. */
struct step_batch {
    int32_t *tokens, *sequences; /* [count], room for [room] */
    int32_t *types;              /* of tokens */
    uint8_t *wanted;
    size_t count, room;
};

/* Adds the next token of a sequence, of type 0. False: out of memory. */
bool step_batch_add(struct step_batch *batch, int32_t token, int32_t sequence, bool wanted);

/* Lets the encoder read the tokens as source texts, see engine_encode. */
int step_batch_encode(const struct step_batch *batch, struct engine_context *context);

/* Decodes, and measures what a step of so many tokens costs; not the first of a shape, which costs more.
 * `costs` NULL: not
 * measured. `states` as in struct engine_batch. */
int step_batch_decode(const struct step_batch *batch, struct engine_context *context, float *logits,
                      float *states, struct step_costs *costs);

/* Starts decoding, see context_start. */
int step_batch_start(const struct step_batch *batch, struct engine_context *context, float *logits);

void step_batch_free(struct step_batch *batch);

#endif

/* op-conv.c: causal convolution of each channel, over a sequence's tokens and what its state holds of earlier
 * ones. */
#include <string.h>

#include "kernels.h"
#include "ops.h"
#include "states.h"

enum { CHANNELS = 256 }; /* of a task */

struct conv_step {
    struct view input, output;
    struct states_view states;
    const float *weight; /* [taps, n] */
    size_t taps;
};

struct conv_part {
    const struct conv_step *step;
    const struct work *work;
    const float *weights; /* [CHANNELS, taps] */
    size_t first, n;      /* channels */
};

/* The inputs that token t of a run sees, those before the first token being zeros or the state's. */
static void find_inputs(const struct conv_part *part, const struct states_run *run, size_t t,
                        const float **inputs)
{
    static const float zeros[CHANNELS];
    const struct conv_step *step = part->step;
    size_t n = step->input.ne[0], past = step->taps - 1;
    for (size_t i = 0; i <= past; i++) {
        const float *state = (const float *)(const void *)run->state + (t + i) * n + part->first;
        if (t + i >= past)
            inputs[i] = (const float *)view_row_at(&step->input, run->first + t + i - past) + part->first;
        else
            inputs[i] = run->begins ? zeros : state;
    }
}

/* The last taps - 1 inputs become the state. Going up, a row is read before it is overwritten. */
static void keep_inputs(const struct conv_part *part, const struct states_run *run)
{
    const float *inputs[OP_MAX_TAPS];
    find_inputs(part, run, run->n, inputs);
    for (size_t i = 0; i + 1 < part->step->taps; i++) {
        float *to = (float *)(void *)run->state + i * part->step->input.ne[0] + part->first;
        memmove(to, inputs[i], part->n * sizeof *to);
    }
}

static void run_conv(const void *args, const struct work *work, size_t task)
{
    const struct conv_step *step = args;
    struct conv_part part = {step, work, (const float *)(void *)work->own, task * CHANNELS, CHANNELS};
    if (part.n > step->input.ne[0] - part.first) part.n = step->input.ne[0] - part.first;
    float *weights = (float *)(void *)work->own;
    for (size_t c = 0; c < part.n; c++)
        for (size_t i = 0; i < step->taps; i++)
            weights[i * CHANNELS + c] = step->weight[(part.first + c) * step->taps + i];
    for (struct states_run run = {0}; states_next(work, &step->states, &run);) {
        for (size_t t = 0; t < run.n; t++) {
            const float *inputs[OP_MAX_TAPS];
            float *out = (float *)view_row_at(&step->output, run.first + t) + part.first;
            if (!run.has_state) {
                memset(out, 0, part.n * sizeof *out);
                continue;
            }
            find_inputs(&part, &run, t, inputs);
            work->kernels->weighted_rows(inputs, weights, CHANNELS, step->taps, part.n, out);
        }
        if (run.has_state) keep_inputs(&part, &run);
    }
}

int op_conv(const struct request *request, const void *arguments, struct list *list)
{
    const struct engine_op_conv *args = arguments;
    struct conv_step step = {0};
    int status = view_check(request, args->input, "input", VIEW_F32, &step.input);
    if (!status) status = view_check(request, args->output, "output", VIEW_F32, &step.output);
    if (!status) status = values_check(request, args->weight, "weight", &step.weight);
    if (!status) status = states_check(request, args->positions, args->states, args->state, 2, &step.states);
    if (status || request->planning) return status;
    size_t n = step.input.ne[0];
    step.taps = args->weight->ne[0];
    struct conv_step *added = list_add(list, run_conv, (n + CHANNELS - 1) / CHANNELS, sizeof *added);
    if (!added) return ENGINE_ERROR_MEMORY;
    *added = step;
    list_reserve_own(list, CHANNELS * step.taps * sizeof(float));
    list_reads(list, &step.input);
    list_writes(list, &step.output);
    states_declare(list, &step.states);
    return ENGINE_OK;
}

/* op-rope.c: rotary position embedding. Two steps: a table of cosines and sines for each token, times the
 * magnitude, in double precision (once for all layers, queries and keys), then the turning of each head.
 *
 * Slot: float32 [tokens][n_dims]: the cosines of the n_dims / 2 pairs, then the sines. */
#include <math.h>
#include <string.h>

#include "kernels.h"
#include "ops.h"

enum { TABLE_TOKENS = 32 /* of one task */, KEY_KIND = 100 };

struct table_step {
    struct view positions;
    size_t n_dims;
    double theta, position_scale, magnitude;
    const float *factors;
};

static void run_table(const void *args, const struct work *work, size_t task)
{
    const struct table_step *step = args;
    size_t n_pairs = step->n_dims / 2, begin = task * TABLE_TOKENS, n_tokens = step->positions.ne[0];
    size_t end = begin + TABLE_TOKENS < n_tokens ? begin + TABLE_TOKENS : n_tokens;
    const int32_t *positions = (const int32_t *)(const void *)step->positions.data;
    double *frequencies = (double *)(void *)work->own; /* [n_pairs] radians per position */
    for (size_t i = 0; i < n_pairs; i++) {
        frequencies[i] = step->position_scale * pow(step->theta, -2 * (double)i / (double)step->n_dims);
        if (step->factors) frequencies[i] /= (double)step->factors[i];
    }
    for (size_t t = begin; t < end; t++) {
        float *table = (float *)(void *)work->slots[SLOT_ROPE] + t * step->n_dims;
        for (size_t i = 0; i < n_pairs; i++) {
            double angle = positions[t] * frequencies[i];
            table[i] = (float)(step->magnitude * cos(angle));
            table[n_pairs + i] = (float)(step->magnitude * sin(angle));
        }
    }
}

struct rope_step {
    struct view input, output; /* [head_dim, n_heads, tokens] */
    size_t n_dims;
    bool halves;
    struct row_tasks tasks;
};

static void run_rope(const void *args, const struct work *work, size_t task)
{
    const struct rope_step *step = args;
    size_t n_dims = step->n_dims, rest = step->input.ne[0] - n_dims;
    for (size_t t = task * step->tasks.rows_per_task; t < row_task_end(step->tasks, task); t++) {
        const float *table = (const float *)(const void *)work->slots[SLOT_ROPE] + t * n_dims;
        for (size_t h = 0; h < step->input.ne[1]; h++) {
            const float *in = view_row(&step->input, h, t, 0);
            float *out = view_row(&step->output, h, t, 0);
            if (step->halves)
                work->kernels->rope_halves(in, table, out, n_dims / 2);
            else
                work->kernels->rope_adjacent(in, table, out, n_dims / 2);
            if (out != in) memcpy(out + n_dims, in + n_dims, rest * sizeof *out);
        }
    }
}

static int append(const struct engine_op_rope *args, struct list *list, const struct view *positions,
                  const float *factors, const struct rope_step *rope)
{
    struct table_step table = {
        .positions = *positions,
        .n_dims = args->n_dims,
        .theta = (double)args->theta,
        .position_scale = args->position_scale == 0 ? 1 : (double)args->position_scale,
        .magnitude = args->magnitude == 0 ? 1 : (double)args->magnitude,
        .factors = factors,
    };
    const struct prepared_key key = {.kind = KEY_KIND,
                                     .n = args->n_dims,
                                     .numbers = {table.theta, table.position_scale, table.magnitude},
                                     .values = factors,
                                     .input = *positions};
    size_t n_tokens = positions->ne[0];
    if (!list_is_prepared(list, SLOT_ROPE, &key)) {
        struct table_step *step =
            list_add(list, run_table, (n_tokens + TABLE_TOKENS - 1) / TABLE_TOKENS, sizeof *step);
        if (!step) return ENGINE_ERROR_MEMORY;
        *step = table;
        list_reserve_own(list, args->n_dims / 2 * sizeof(double));
        list_reserve_slot(list, SLOT_ROPE, n_tokens * args->n_dims * sizeof(float));
        list_reads(list, positions);
        list_writes_slot(list, SLOT_ROPE);
        list_set_prepared(list, SLOT_ROPE, &key);
    }
    struct rope_step *step = list_add(list, run_rope, row_task_count(rope->tasks), sizeof *step);
    if (!step) return ENGINE_ERROR_MEMORY;
    *step = *rope;
    list_reads(list, &rope->input);
    list_reads_slot(list, SLOT_ROPE);
    list_writes(list, &rope->output);
    return ENGINE_OK;
}

int op_rope(const struct request *request, const void *arguments, struct list *list)
{
    const struct engine_op_rope *args = arguments;
    struct rope_step step = {.n_dims = args->n_dims, .halves = args->pairs == ENGINE_ROPE_HALVES};
    struct view positions;
    const float *factors;
    int status = view_check(request, args->input, "input", VIEW_F32, &step.input);
    if (!status) status = view_check(request, args->output, "output", VIEW_F32, &step.output);
    if (!status) status = view_check(request, args->positions, "positions", VIEW_I32, &positions);
    if (!status) status = values_check(request, args->factors, "factors", &factors);
    if (status) return status;
    if (args->pairs != ENGINE_ROPE_HALVES && args->pairs != ENGINE_ROPE_ADJACENT)
        return refuse(request, ENGINE_ERROR_UNSUPPORTED, "rope: unknown pairs %u", args->pairs);
    if (args->reserved)
        return refuse(request, ENGINE_ERROR_UNSUPPORTED, "rope: the arguments are from a later version");
    if (!isfinite(args->magnitude))
        return refuse(request, ENGINE_ERROR_ARGUMENT, "rope: magnitude is %g; it must be finite",
                      (double)args->magnitude);
    if (!(args->theta > 0)) return refuse(request, ENGINE_ERROR_ARGUMENT, "rope: theta must be above 0");
    if (request->planning) return ENGINE_OK;
    const size_t *ne = step.input.ne;
    step.tasks = row_tasks(ne[2], ne[0] * ne[1] * sizeof(float));
    return append(args, list, &positions, factors, &step);
}

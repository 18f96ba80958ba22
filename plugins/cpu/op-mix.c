/* op-mix.c: streams of states: rows of a token that are mixed by numbers of the token (mix), and the numbers
 * of hyper-connections (hyper). */
#include <math.h>

#include "kernels.h"
#include "ops.h"

/* ---- Mix ----------------------------------------------------------------------------------------------- */

enum { MIX_MOST = 64 }; /* rows that are added up */

struct mix_step {
    struct view input, weights, addend, scales, output; /* scales: of a weight, the stride 0 */
    struct row_tasks tasks;                             /* a row is a token */
};

/* The rows that make output row k of a token, and their shares. Returns their number. */
static size_t mix_rows(const struct mix_step *step, size_t token, size_t k, const float **rows, float *shares)
{
    size_t n = 0;
    if (step->weights.data) {
        const float *weights = view_row(&step->weights, k, token, 0);
        for (; n < step->input.ne[1]; n++) {
            rows[n] = view_row(&step->input, n, token, 0);
            shares[n] = weights[n];
        }
    } else {
        rows[n] = view_row(&step->input, k, token, 0);
        shares[n++] = 1;
    }
    if (step->addend.data) {
        rows[n] = view_row(&step->addend, token, 0, 0);
        shares[n++] = ((const float *)view_row(&step->scales, token, 0, 0))[k];
    }
    return n;
}

static void run_mix(const void *args, const struct work *work, size_t task)
{
    const struct mix_step *step = args;
    const float *rows[MIX_MOST + 1];
    float shares[MIX_MOST + 1];
    for (size_t t = task * step->tasks.rows_per_task; t < row_task_end(step->tasks, task); t++)
        for (size_t k = 0; k < step->output.ne[1]; k++) {
            size_t n = mix_rows(step, t, k, rows, shares);
            work->kernels->sum_rows(rows, shares, n, step->output.ne[0], view_row(&step->output, k, t, 0));
        }
}

/* A number for each output row: of each token, or of all. */
static int check_scales(const struct request *request, const struct engine_tensor *scales, size_t n_tokens,
                        struct view *view)
{
    const float *values;
    if (!scales->weight) {
        int status = view_check(request, scales, "scales", VIEW_F32, view);
        if (view->ne[1] == 1) view->ne[1] = n_tokens, view->nb[1] = 0;
        return status;
    }
    int status = values_check(request, scales, "scales", &values);
    *view = (struct view){.type = ENGINE_TYPE_F32, .data = (uint8_t *)(uintptr_t)values};
    return status;
}

int op_mix(const struct request *request, const void *arguments, struct list *list)
{
    const struct engine_op_mix *args = arguments;
    struct mix_step step = {0};
    int status = view_check(request, args->input, "input", VIEW_F32, &step.input);
    if (!status) status = view_check(request, args->output, "output", VIEW_F32, &step.output);
    if (status) return status;
    const size_t n = step.input.ne[0], n_in = step.input.ne[1], n_tokens = step.input.ne[2],
                 n_out = step.output.ne[1];
    if (args->weights) status = view_check(request, args->weights, "weights", VIEW_F32, &step.weights);
    if (args->addend && !status) status = view_check(request, args->addend, "addend", VIEW_F32, &step.addend);
    if (args->addend && !status) status = check_scales(request, args->scales, n_tokens, &step.scales);
    if (status) return status;
    if (n_in > MIX_MOST) return refuse(request, ENGINE_ERROR_UNSUPPORTED, "mix: %zu rows", n_in);
    if (request->planning) return ENGINE_OK;
    step.tasks = row_tasks(n_tokens, n * n_out * sizeof(float));
    struct mix_step *added = list_add(list, run_mix, row_task_count(step.tasks), sizeof *added);
    if (!added) return ENGINE_ERROR_MEMORY;
    *added = step;
    list_reads(list, &step.input);
    if (step.weights.data) list_reads(list, &step.weights);
    if (step.addend.data) list_reads(list, &step.addend);
    if (step.addend.data && !args->scales->weight) list_reads(list, &step.scales);
    list_writes(list, &step.output);
    return ENGINE_OK;
}

/* ---- Hyper --------------------------------------------------------------------------------------------- */

struct hyper_step {
    struct view input, output;
    const float *scale, *base;
    size_t n;
    uint32_t n_iterations;
    float epsilon;
    struct row_tasks tasks; /* a row is a token */
};

static float sigmoid(float x)
{
    return 1 / (1 + expf(-x));
}

/* Divides n numbers, `stride` apart, by their sum plus epsilon. */
static void normalise(float *x, size_t n, size_t stride, float epsilon)
{
    float sum = epsilon;
    for (size_t i = 0; i < n; i++) sum += x[i * stride];
    for (size_t i = 0; i < n; i++) x[i * stride] /= sum;
}

/* The softmax of n numbers, plus epsilon. */
static void soften(float *x, size_t n, float epsilon)
{
    float max = x[0], sum = 0;
    for (size_t i = 1; i < n; i++) max = fmaxf(max, x[i]);
    for (size_t i = 0; i < n; i++) sum += x[i] = expf(x[i] - max);
    for (size_t i = 0; i < n; i++) x[i] = x[i] / sum + epsilon;
}

static void hyper_matrix(const struct hyper_step *step, const float *x, const float *base, float *out)
{
    const size_t n = step->n;
    float matrix[OP_MAX_STREAMS * OP_MAX_STREAMS];
    for (size_t i = 0; i < n * n; i++) matrix[i] = step->scale[2] * x[i] + base[i];
    for (size_t j = 0; j < n; j++) soften(matrix + j * n, n, step->epsilon);
    for (uint32_t i = 0; i < step->n_iterations; i++) {
        for (size_t j = 0; i > 0 && j < n; j++) normalise(matrix + j * n, n, 1, step->epsilon);
        for (size_t k = 0; k < n; k++) normalise(matrix + k, n, n, step->epsilon);
    }
    for (size_t j = 0; j < n; j++)
        for (size_t k = 0; k < n; k++) out[k * n + j] = matrix[j * n + k];
}

static void run_hyper(const void *args, const struct work *work, size_t task)
{
    (void)work;
    const struct hyper_step *step = args;
    const size_t n = step->n;
    for (size_t t = task * step->tasks.rows_per_task; t < row_task_end(step->tasks, task); t++) {
        const float *x = view_row(&step->input, t, 0, 0);
        float *out = view_row(&step->output, t, 0, 0);
        for (size_t i = 0; i < n; i++)
            out[i] = sigmoid(step->scale[0] * x[i] + step->base[i]) + step->epsilon;
        if (step->input.ne[0] == n) continue;
        for (size_t i = n; i < 2 * n; i++) out[i] = 2 * sigmoid(step->scale[1] * x[i] + step->base[i]);
        hyper_matrix(step, x + 2 * n, step->base + 2 * n, out + 2 * n);
    }
}

int op_hyper(const struct request *request, const void *arguments, struct list *list)
{
    const struct engine_op_hyper *args = arguments;
    struct hyper_step step = {.n = args->n, .n_iterations = args->n_iterations, .epsilon = args->epsilon};
    int status = view_check(request, args->input, "input", VIEW_F32, &step.input);
    if (!status) status = view_check(request, args->output, "output", VIEW_F32, &step.output);
    if (status) return status;
    const size_t n_tokens = step.input.ne[1], width = step.input.ne[0];
    if (args->n_iterations == 0 || args->n_iterations > 1000 || !(args->epsilon >= 0) ||
        !isfinite(args->epsilon))
        return refuse(request, ENGINE_ERROR_ARGUMENT, "hyper: %u iterations, epsilon %g", args->n_iterations,
                      (double)args->epsilon);
    if (args->reserved)
        return refuse(request, ENGINE_ERROR_UNSUPPORTED, "hyper: the arguments are from a later version");
    status = values_check(request, args->scale, "scale", &step.scale);
    if (!status) status = values_check(request, args->base, "base", &step.base);
    if (status || request->planning) return status;
    step.tasks = row_tasks(n_tokens, width * (width == step.n ? 1 : args->n_iterations) * sizeof(float));
    struct hyper_step *added = list_add(list, run_hyper, row_task_count(step.tasks), sizeof *added);
    if (!added) return ENGINE_ERROR_MEMORY;
    *added = step;
    list_reads(list, &step.input);
    list_writes(list, &step.output);
    return ENGINE_OK;
}

/* op-rows.c: the operations that work on one row at a time: norm, add, mul, activate, concat. */
#include <math.h>
#include <string.h>

#include "activations.h"
#include "kernels.h"
#include "ops.h"

enum rows_op { ROWS_ADD, ROWS_MUL, ROWS_ACTIVATE, ROWS_NORM };

/* out = op of the rows of a and b. */
struct rows_step {
    enum rows_op op;
    uint32_t kind; /* of activation or norm */
    struct row_tasks tasks;
    struct view a, out;
    struct view b;      /* of a's shape; absent where b_row is or none is needed */
    const float *b_row; /* one row for all, or NULL */
    const float *bias;
    bool b_is_number; /* rows of b have one element */
    float epsilon;
    struct curve curve;
};

static void run_row(const struct rows_step *step, const struct kernels *kernels, size_t row)
{
    const float *a = view_row_at(&step->a, row);
    const float *b = step->b.data ? view_row_at(&step->b, row) : step->b_row;
    float *out = view_row_at(&step->out, row);
    size_t n = step->a.ne[0];
    switch (step->op) {
    case ROWS_ADD:
        if (step->b_is_number)
            kernels->add_number(a, *b, out, n);
        else
            kernels->add(a, b, out, n);
        break;
    case ROWS_MUL:
        if (step->b_is_number)
            kernels->mul_number(a, *b, out, n);
        else
            kernels->mul(a, b, out, n);
        break;
    case ROWS_ACTIVATE: kernels->activate(step->kind, &step->curve, a, b, out, n); break;
    case ROWS_NORM: kernels->norm(step->kind, step->epsilon, a, b, step->bias, out, n); break;
    }
}

static void run_rows(const void *args, const struct work *work, size_t task)
{
    const struct rows_step *step = args;
    for (size_t row = task * step->tasks.rows_per_task; row < row_task_end(step->tasks, task); row++)
        run_row(step, work->kernels, row);
}

static int append_rows(struct list *list, struct rows_step *step)
{
    step->tasks = row_tasks(view_rows(&step->a), step->a.ne[0] * sizeof(float));
    struct rows_step *added = list_add(list, run_rows, row_task_count(step->tasks), sizeof *added);
    if (!added) return ENGINE_ERROR_MEMORY;
    *added = *step;
    list_reads(list, &step->a);
    if (step->b.data) list_reads(list, &step->b);
    list_writes(list, &step->out);
    return ENGINE_OK;
}

/* Input and output, both F32. */
static int check_in_out(const struct request *request, const struct engine_tensor *input,
                        const char *input_name, const struct engine_tensor *output, struct rows_step *step)
{
    int status = view_check(request, input, input_name, VIEW_F32, &step->a);
    if (!status) status = view_check(request, output, "output", VIEW_F32, &step->out);
    return status;
}

/* An activation of a's shape, of one row, or of one number for each of a's rows; or a weight of one row. */
static int check_second(const struct request *request, const struct engine_tensor *b, struct rows_step *step)
{
    if (b->weight) return values_check(request, b, "b", &step->b_row);
    int status = view_check(request, b, "b", VIEW_F32, &step->b);
    if (status) return status;
    const size_t *ne = step->a.ne;
    if (view_rows(&step->b) == 1 && step->b.ne[0] == ne[0]) {
        for (int i = 1; i < 4; i++) step->b.ne[i] = ne[i], step->b.nb[i] = 0;
        return ENGINE_OK;
    }
    step->b_is_number = step->b.ne[0] == 1;
    return ENGINE_OK;
}

static int binary(const struct request *request, const struct engine_op_binary *args, struct list *list,
                  enum rows_op op)
{
    struct rows_step step = {.op = op};
    int status = check_in_out(request, args->a, "a", args->output, &step);
    if (!status) status = check_second(request, args->b, &step);
    return status || request->planning ? status : append_rows(list, &step);
}

int op_add(const struct request *request, const void *args, struct list *list)
{
    return binary(request, args, list, ROWS_ADD);
}

int op_mul(const struct request *request, const void *args, struct list *list)
{
    return binary(request, args, list, ROWS_MUL);
}

/* The numbers are there where the activation takes them, and nowhere else. */
static int check_numbers(const struct request *request, const struct engine_op_activate *args)
{
    bool is_xielu = args->activation == ENGINE_ACTIVATION_XIELU,
         is_gated = args->activation == ENGINE_ACTIVATION_SWIGLU_CLAMPED;
    bool takes_limit = !activation_is_plain(args->activation) && args->activation != ENGINE_ACTIVATION_EXP;
    bool takes_alpha = is_gated || is_xielu;
    if (takes_limit ? !(args->limit > 0) || !isfinite(args->limit) : args->limit != 0)
        return refuse(request, ENGINE_ERROR_ARGUMENT, "activate: activation %u cannot use limit %g",
                      args->activation, (double)args->limit);
    if (takes_alpha ? !isfinite(args->alpha) : args->alpha != 0)
        return refuse(request, ENGINE_ERROR_ARGUMENT, "activate: activation %u cannot use alpha %g",
                      args->activation, (double)args->alpha);
    if (is_xielu ? !isfinite(args->beta) || !isfinite(args->gamma) : args->beta != 0 || args->gamma != 0)
        return refuse(request, ENGINE_ERROR_ARGUMENT, "activate: activation %u cannot use beta %g, gamma %g",
                      args->activation, (double)args->beta, (double)args->gamma);
    if ((is_gated || args->activation == ENGINE_ACTIVATION_SILU_CLAMPED) && !args->factor)
        return refuse(request, ENGINE_ERROR_ARGUMENT, "activate: activation %u needs a factor",
                      args->activation);
    return ENGINE_OK;
}

int op_activate(const struct request *request, const void *arguments, struct list *list)
{
    const struct engine_op_activate *args = arguments;
    struct rows_step step = {.op = ROWS_ACTIVATE,
                             .kind = args->activation,
                             .curve = {args->limit, args->alpha, args->beta, args->gamma}};
    int status = check_in_out(request, args->input, "input", args->output, &step);
    if (!status && args->factor) status = view_check(request, args->factor, "factor", VIEW_F32, &step.b);
    if (status) return status;
    if (args->reserved)
        return refuse(request, ENGINE_ERROR_UNSUPPORTED, "activate: the arguments are from a later version");
    if (!activation_is_known(args->activation))
        return refuse(request, ENGINE_ERROR_UNSUPPORTED, "activate: unknown activation %u", args->activation);
    status = check_numbers(request, args);
    return status || request->planning ? status : append_rows(list, &step);
}

int op_norm(const struct request *request, const void *arguments, struct list *list)
{
    const struct engine_op_norm *args = arguments;
    struct rows_step step = {.op = ROWS_NORM, .kind = args->kind, .epsilon = args->epsilon};
    int status = check_in_out(request, args->input, "input", args->output, &step);
    if (!status) status = values_check(request, args->weight, "weight", &step.b_row);
    if (!status) status = values_check(request, args->bias, "bias", &step.bias);
    if (status) return status;
    if (args->kind != ENGINE_NORM_RMS && args->kind != ENGINE_NORM_LAYER)
        return refuse(request, ENGINE_ERROR_UNSUPPORTED, "norm: unknown kind %u", args->kind);
    return request->planning ? ENGINE_OK : append_rows(list, &step);
}

/* ---- Concat -------------------------------------------------------------------------------------------- */

struct concat_step {
    struct view a, b, output; /* b: of a's heads, the stride 0 where it has one row for all */
    struct row_tasks tasks;
};

static void run_concat(const void *args, const struct work *work, size_t task)
{
    (void)work;
    const struct concat_step *step = args;
    size_t n_a = step->a.ne[0], n_b = step->b.ne[0];
    for (size_t row = task * step->tasks.rows_per_task; row < row_task_end(step->tasks, task); row++) {
        float *out = view_row_at(&step->output, row);
        memcpy(out, view_row_at(&step->a, row), n_a * sizeof *out);
        memcpy(out + n_a, view_row_at(&step->b, row), n_b * sizeof *out);
    }
}

int op_concat(const struct request *request, const void *arguments, struct list *list)
{
    const struct engine_op_concat *args = arguments;
    struct concat_step step = {0};
    int status = view_check(request, args->a, "a", VIEW_F32, &step.a);
    if (!status) status = view_check(request, args->b, "b", VIEW_F32, &step.b);
    if (!status) status = view_check(request, args->output, "output", VIEW_F32, &step.output);
    if (status || request->planning) return status;
    step.tasks = row_tasks(view_rows(&step.output), step.output.ne[0] * sizeof(float));
    if (step.b.ne[1] == 1) step.b.ne[1] = step.a.ne[1], step.b.nb[1] = 0;
    struct concat_step *added = list_add(list, run_concat, row_task_count(step.tasks), sizeof *added);
    if (!added) return ENGINE_ERROR_MEMORY;
    *added = step;
    list_reads(list, &step.a);
    list_reads(list, &step.b);
    list_writes(list, &step.output);
    return ENGINE_OK;
}

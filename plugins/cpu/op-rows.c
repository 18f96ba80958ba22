/* op-rows.c: the operations that work on one row at a time: norm, add, mul, activate, concat.
 *
 * Operations that follow each other become the links of one step: a task takes some units (the rows of some
 * tokens, as a rule) through all links while the caches hold them, and threads meet once. A link is added
 * only if no unit touches what another one writes. */
#include <math.h>
#include <stdatomic.h>
#include <string.h>

#include "activations.h"
#include "common/assert.h"
#include "kernels.h"
#include "ops.h"
#include "pool.h"

enum { MAX_LINKS = 16 /* of a step */ };

#ifdef ENGINE_ASSERTIONS
/* Operations that became a link of the step before, which no result shows: for test-cpu-links.c. */
__attribute__((visibility("default"))) atomic_ulong cpu_rows_joined;
#endif

enum rows_op { ROWS_ADD, ROWS_MUL, ROWS_ACTIVATE, ROWS_NORM };

/* out = op of the rows of a and b. */
struct rows_link {
    enum rows_op op;
    uint32_t kind; /* of activation or norm */
    size_t rows;   /* of a unit */
    struct view a, out;
    struct view b;      /* of a's shape; absent where b_row is or none is needed */
    const float *b_row; /* one row for all, or NULL */
    const float *bias;
    bool b_is_number; /* rows of b have one element */
    float epsilon;
    struct curve curve;
};

struct rows_step {
    struct row_tasks tasks; /* a row is a unit */
    size_t n_links;
    struct rows_link links[];
};

static void run_row(const struct rows_link *link, const struct kernels *kernels, const float *a,
                    const float *b, float *out)
{
    size_t n = link->a.ne[0];
    switch (link->op) {
    case ROWS_ADD:
        if (link->b_is_number)
            kernels->add_number(a, *b, out, n);
        else
            kernels->add(a, b, out, n);
        break;
    case ROWS_MUL:
        if (link->b_is_number)
            kernels->mul_number(a, *b, out, n);
        else
            kernels->mul(a, b, out, n);
        break;
    case ROWS_ACTIVATE: kernels->activate(link->kind, &link->curve, a, b, out, n); break;
    case ROWS_NORM: kernels->norm(link->kind, link->epsilon, a, b, link->bias, out, n); break;
    }
}

/* Rows first … first + n - 1. */
static void run_link(const struct rows_link *link, const struct kernels *kernels, size_t first, size_t n)
{
    for (size_t n_here; n > 0; first += n_here, n -= n_here) {
        n_here = link->a.ne[1] - first % link->a.ne[1]; /* that are a stride apart */
        if (n_here > n) n_here = n;
        const uint8_t *a = view_row_at(&link->a, first);
        const uint8_t *b = link->b.data ? view_row_at(&link->b, first) : (const uint8_t *)link->b_row;
        uint8_t *out = view_row_at(&link->out, first);
        for (size_t i = 0; i < n_here; i++, a += link->a.nb[1], out += link->out.nb[1]) {
            run_row(link, kernels, (const float *)(const void *)a, (const float *)(const void *)b,
                    (float *)(void *)out);
            if (link->b.data) b += link->b.nb[1];
        }
    }
}

static void run_rows(const void *args, const struct work *work, size_t task)
{
    const struct rows_step *step = args;
    for (size_t unit = task * step->tasks.rows_per_task; unit < row_task_end(step->tasks, task); unit++)
        for (size_t i = 0; i < step->n_links; i++) {
            const struct rows_link *link = &step->links[i];
            run_link(link, work->kernels, unit * link->rows, link->rows);
        }
}

/* ---- Links --------------------------------------------------------------------------------------------- */

/* Where the first unit of `rows` rows is, and where the next ones are. False: they are not a stride apart. */
static bool find_units(const struct view *view, size_t rows, size_t *extent, size_t *stride)
{
    int d = 1;
    *extent = view->ne[0] * sizeof(float);
    for (; d < 4 && rows % view->ne[d] == 0 && (rows > 1 || view->ne[d] == 1); rows /= view->ne[d++])
        *extent += (view->ne[d] - 1) * view->nb[d];
    *stride = 0;
    if (d == 4) return rows == 1; /* the view is one unit */
    if (view->ne[d] % rows != 0) return false;
    *extent += (rows - 1) * view->nb[d];
    *stride = rows * view->nb[d];
    size_t next = view->ne[d] * view->nb[d];
    for (d++; d < 4; next *= view->ne[d++])
        if (view->ne[d] > 1 && view->nb[d] != next) return false;
    return true;
}

/* Whether what a unit reads or writes of one view is apart from what others do of the other. */
static bool is_apart(const struct view *x, size_t x_rows, const struct view *y, size_t y_rows)
{
    if (!x->data || !y->data || x->data + x->bytes <= y->data || y->data + y->bytes <= x->data) return true;
    size_t x_extent, y_extent, x_stride, y_stride;
    if (!find_units(x, x_rows, &x_extent, &x_stride) || !find_units(y, y_rows, &y_extent, &y_stride) ||
        x_stride != y_stride)
        return false;
    const uint8_t *begin = x->data < y->data ? x->data : y->data;
    const uint8_t *x_end = x->data + x_extent, *y_end = y->data + y_extent;
    return (size_t)((x_end > y_end ? x_end : y_end) - begin) <= x_stride;
}

/* Whether `link` can follow `earlier`, with so many units. */
static bool is_local(const struct rows_link *earlier, const struct rows_link *link, size_t n_units)
{
    if (n_units == 1) return true; /* one task does all, in order */
    size_t rows = view_rows(&earlier->a) / n_units, own = view_rows(&link->a) / n_units;
    return is_apart(&earlier->out, rows, &link->a, own) && is_apart(&earlier->out, rows, &link->b, own) &&
           is_apart(&earlier->out, rows, &link->out, own) && is_apart(&earlier->a, rows, &link->out, own) &&
           is_apart(&earlier->b, rows, &link->out, own);
}

static struct row_tasks tasks_of(const struct rows_link *link, size_t n_units)
{
    return row_tasks(n_units, view_rows(&link->a) / n_units * link->a.ne[0] * sizeof(float));
}

/* Adds a link to the step just added; false: it needs a step of its own. */
static bool join(const struct request *request, struct list *list, const struct rows_link *link)
{
    struct rows_step *step = list_extend(list, run_rows, 0);
    if (!step || step->n_links == MAX_LINKS) return false;
    size_t n_rows = view_rows(&link->a), n_units = step->tasks.n_rows;
    if (n_rows < n_units) n_units = n_rows;
    if (n_rows % n_units != 0 || step->tasks.n_rows % n_units != 0) return false;
    struct row_tasks tasks = tasks_of(link, n_units), alone = tasks_of(link, n_rows);
    for (size_t i = 0; i < step->n_links; i++) {
        if (!is_local(&step->links[i], link, n_units)) return false;
        struct row_tasks other = tasks_of(&step->links[i], n_units);
        if (other.rows_per_task < tasks.rows_per_task) tasks = other;
    }
    /* Threads must not lack tasks that they have without it. */
    size_t n_tasks = row_task_count(tasks);
    if (n_tasks < 2 * (size_t)pool_threads(request->device->pool) &&
        (n_tasks < row_task_count(step->tasks) || n_tasks < row_task_count(alone)))
        return false;
    step = list_extend(list, run_rows, sizeof *link);
    if (!step) return false;
    step->links[step->n_links++] = *link;
    step->tasks = tasks;
    for (size_t i = 0; i < step->n_links; i++) step->links[i].rows = view_rows(&step->links[i].a) / n_units;
    list_set_tasks(list, n_tasks);
#ifdef ENGINE_ASSERTIONS
    atomic_fetch_add(&cpu_rows_joined, 1);
#endif
    return true;
}

static int append_rows(const struct request *request, struct list *list, const struct rows_link *link)
{
    if (!join(request, list, link)) {
        struct row_tasks tasks = tasks_of(link, view_rows(&link->a));
        struct rows_step *step = list_add(list, run_rows, row_task_count(tasks), sizeof *step + sizeof *link);
        if (!step) return ENGINE_ERROR_MEMORY;
        step->tasks = tasks;
        step->n_links = 1;
        step->links[0] = *link;
        step->links[0].rows = 1;
    }
    list_reads(list, &link->a);
    if (link->b.data) list_reads(list, &link->b);
    list_writes(list, &link->out);
    return ENGINE_OK;
}

/* ---- Checks -------------------------------------------------------------------------------------------- */

/* Input and output, both F32. */
static int check_in_out(const struct request *request, const struct engine_tensor *input,
                        const char *input_name, const struct engine_tensor *output, struct rows_link *link)
{
    int status = view_check(request, input, input_name, VIEW_F32, &link->a);
    if (!status) status = view_check(request, output, "output", VIEW_F32, &link->out);
    return status;
}

/* An activation of a's shape, of one row, or of one number for each of a's rows; or a weight of one row. */
static int check_second(const struct request *request, const struct engine_tensor *b, struct rows_link *link)
{
    if (b->weight) return values_check(request, b, "b", &link->b_row);
    int status = view_check(request, b, "b", VIEW_F32, &link->b);
    if (status) return status;
    const size_t *ne = link->a.ne;
    if (view_rows(&link->b) == 1 && link->b.ne[0] == ne[0]) {
        for (int i = 1; i < 4; i++) link->b.ne[i] = ne[i], link->b.nb[i] = 0;
        return ENGINE_OK;
    }
    link->b_is_number = link->b.ne[0] == 1;
    return ENGINE_OK;
}

static int binary(const struct request *request, const struct engine_op_binary *args, struct list *list,
                  enum rows_op op)
{
    struct rows_link link = {.op = op};
    int status = check_in_out(request, args->a, "a", args->output, &link);
    if (!status) status = check_second(request, args->b, &link);
    return status || request->planning ? status : append_rows(request, list, &link);
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
    struct rows_link link = {.op = ROWS_ACTIVATE,
                             .kind = args->activation,
                             .curve = {args->limit, args->alpha, args->beta, args->gamma}};
    int status = check_in_out(request, args->input, "input", args->output, &link);
    if (!status && args->factor) status = view_check(request, args->factor, "factor", VIEW_F32, &link.b);
    if (status) return status;
    if (args->reserved)
        return refuse(request, ENGINE_ERROR_UNSUPPORTED, "activate: the arguments are from a later version");
    if (!activation_is_known(args->activation))
        return refuse(request, ENGINE_ERROR_UNSUPPORTED, "activate: unknown activation %u", args->activation);
    status = check_numbers(request, args);
    return status || request->planning ? status : append_rows(request, list, &link);
}

int op_norm(const struct request *request, const void *arguments, struct list *list)
{
    const struct engine_op_norm *args = arguments;
    struct rows_link link = {.op = ROWS_NORM, .kind = args->kind, .epsilon = args->epsilon};
    int status = check_in_out(request, args->input, "input", args->output, &link);
    if (!status) status = values_check(request, args->weight, "weight", &link.b_row);
    if (!status) status = values_check(request, args->bias, "bias", &link.bias);
    if (status) return status;
    if (args->kind != ENGINE_NORM_RMS && args->kind != ENGINE_NORM_LAYER)
        return refuse(request, ENGINE_ERROR_UNSUPPORTED, "norm: unknown kind %u", args->kind);
    return request->planning ? ENGINE_OK : append_rows(request, list, &link);
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

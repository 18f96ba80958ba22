/* op-concat.c: rows of two inputs put together. */
#include <string.h>

#include "ops.h"

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
    if (status) return status;
    const size_t *a = step.a.ne, *b = step.b.ne;
    status = shape_check(request, &step.a, "a", a[0], a[1], a[2], 1);
    if (!status) status = shape_check(request, &step.b, "b", b[0], b[1] == 1 ? 1 : a[1], a[2], 1);
    if (!status) status = shape_check(request, &step.output, "output", a[0] + b[0], a[1], a[2], 1);
    if (status || request->planning) return status;
    step.tasks = row_tasks(view_rows(&step.output), step.output.ne[0] * sizeof(float));
    if (b[1] == 1) step.b.ne[1] = a[1], step.b.nb[1] = 0;
    struct concat_step *added = list_add(list, run_concat, row_task_count(step.tasks), sizeof *added);
    if (!added) return ENGINE_ERROR_MEMORY;
    *added = step;
    list_reads(list, &step.a);
    list_reads(list, &step.b);
    list_writes(list, &step.output);
    return ENGINE_OK;
}

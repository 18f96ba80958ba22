/* ops.h: the operations. Each has one function, op_NAME, which checks what operands_check has not and appends
 * the operation's steps, unless the engine only asks whether they are supported (request->planning; list is
 * then NULL). `args` is the operation's complete struct: members that the writer did not know are zero. */
#ifndef CPU_OPS_H
#define CPU_OPS_H

#include "common/ops.h"
#include "list.h"
#include "operand.h"

#define PROTOTYPE(number, name, ...)                                                                         \
    int op_##name(const struct request *request, const void *args, struct list *list);
OPERATIONS(PROTOTYPE)
#undef PROTOTYPE

/* Tasks of operations over independent rows: enough rows in each to make the cost of taking a task small. */
struct row_tasks {
    size_t n_rows, rows_per_task;
};
static inline struct row_tasks row_tasks(size_t n_rows, size_t row_bytes)
{
    size_t per_task = 16384 / (row_bytes + 1) + 1;
    return (struct row_tasks){n_rows, per_task};
}
static inline size_t row_task_count(struct row_tasks tasks)
{
    return (tasks.n_rows + tasks.rows_per_task - 1) / tasks.rows_per_task;
}
static inline size_t row_task_end(struct row_tasks tasks, size_t task)
{
    size_t end = (task + 1) * tasks.rows_per_task;
    return end < tasks.n_rows ? end : tasks.n_rows;
}

#endif

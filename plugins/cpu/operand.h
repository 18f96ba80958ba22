/* operand.h: checks the tensors of operations and makes plain views of them. */
#ifndef CPU_OPERAND_H
#define CPU_OPERAND_H

#include "common/ops.h"
#include "cpu.h"

/* A tensor in memory. `bytes` is the distance from its first byte to its end. */
struct view {
    uint32_t type;
    uint8_t *data; /* NULL during `supports` */
    size_t ne[4];
    size_t nb[4];
    size_t bytes;
};

/* The context of a check. While planning, handles are absent and refusals are silent. */
struct request {
    struct engine_device *device;
    bool planning;
    const char *op; /* "matmul", for messages */
};

/* Refuses an operation: `return refuse(request, ENGINE_ERROR_…, "…")`. */
#define refuse(request, status, ...)                                                                         \
    ((request)->planning ? (int)(status) : cpu_host->fail((int)(status), __VA_ARGS__))

/* Checks that an operation's tensors are there and have shapes that match (op_misfit). It comes before the
 * checks below, which look at types, strides and handles only. */
int operands_check(const struct request *request, uint32_t op, const union op_args *args);

/* An activation, input tensor or cache: in a buffer, with contiguous rows, of one of the types in `types`
 * (bits of VIEW_…). `name` is the argument's. */
enum view_types { VIEW_F32 = 1, VIEW_I32 = 2, VIEW_F16 = 4, VIEW_Q8_0 = 8 };
int view_check(const struct request *request, const struct engine_tensor *tensor, const char *name,
               unsigned types, struct view *view);

/* A weight of the right device, type and shape that was made for `use` (enum engine_weight_use). *weight is
 * NULL while planning. */
int weight_check(const struct request *request, const struct engine_tensor *tensor, const char *name,
                 uint32_t use, const struct engine_weight **weight);

/* The values of an F32 weight. *values is NULL while planning, or if the tensor is absent. */
int values_check(const struct request *request, const struct engine_tensor *tensor, const char *name,
                 const float **values);

/* The float32 or int32 values of row (i1, i2, i3). */
static inline void *view_row(const struct view *view, size_t i1, size_t i2, size_t i3)
{
    return view->data + i1 * view->nb[1] + i2 * view->nb[2] + i3 * view->nb[3];
}

/* Rows of a view, and row number i of them. */
static inline size_t view_rows(const struct view *view)
{
    return view->ne[1] * view->ne[2] * view->ne[3];
}
static inline void *view_row_at(const struct view *view, size_t i)
{
    size_t i1 = i % view->ne[1], i23 = i / view->ne[1];
    return view_row(view, i1, i23 % view->ne[2], i23 / view->ne[2]);
}

#endif

/* operand.c: checks tensors; see operand.h. */
#include "operand.h"

#include "types.h"

/* What a tensor of a type looks like: length and bytes of its blocks. */
static bool view_block(uint32_t type, unsigned types, size_t *length, size_t *size)
{
    *length = 1;
    switch (type) {
    case ENGINE_TYPE_F32: *size = 4; return types & VIEW_F32;
    case ENGINE_TYPE_I32: *size = 4; return types & VIEW_I32;
    case ENGINE_TYPE_F16: *size = 2; return types & VIEW_F16;
    case ENGINE_TYPE_Q8_0: *length = 32, *size = 34; return types & VIEW_Q8_0;
    default: return false;
    }
}

/* The bytes from the first element to the end of the last; false on overflow. */
static bool view_extent(const struct engine_tensor *tensor, size_t row_size, uint64_t *bytes)
{
    *bytes = row_size;
    for (int i = 1; i < 4; i++) {
        uint64_t step;
        if (tensor->ne[i] > 1 && (__builtin_mul_overflow(tensor->ne[i] - 1, tensor->nb[i], &step) ||
                                  __builtin_add_overflow(*bytes, step, bytes)))
            return false;
    }
    return *bytes <= SIZE_MAX / 2;
}

/* Before anything but its size is read of a tensor. */
static int tensor_check(const struct request *request, const struct engine_tensor *tensor, const char *name)
{
    if (tensor->struct_size < sizeof *tensor)
        return refuse(request, ENGINE_ERROR_ARGUMENT, "%s: the tensor struct of '%s' is too small",
                      request->op, name);
    uint64_t count = 1;
    for (int i = 0; i < 4; i++)
        if (tensor->ne[i] == 0 || __builtin_mul_overflow(count, tensor->ne[i], &count) ||
            count > UINT64_MAX / 64)
            return refuse(request, ENGINE_ERROR_ARGUMENT, "%s: the shape of '%s' is empty or too large",
                          request->op, name);
    return ENGINE_OK;
}

int operands_check(const struct request *request, uint32_t op, const union op_args *args)
{
    int status = ENGINE_OK;
    for (const struct op_operand *operand = op_operands(op); operand->name && !status; operand++) {
        const struct engine_tensor *tensor = op_given(args, operand);
        if (tensor)
            status = tensor_check(request, tensor, operand->name);
        else if (!(operand->flags & OP_OPTIONAL))
            status =
                refuse(request, ENGINE_ERROR_ARGUMENT, "%s: '%s' is missing", request->op, operand->name);
    }
    const char *misfit = status ? NULL : op_misfit(op, args);
    if (!misfit) return status;
    char shapes[OP_SHAPES_TEXT] = "";
    if (!request->planning) op_print_shapes(op, args, shapes, sizeof shapes);
    return refuse(request, ENGINE_ERROR_ARGUMENT, "%s: %s: %s", request->op, misfit, shapes);
}

int view_check(const struct request *request, const struct engine_tensor *tensor, const char *name,
               unsigned types, struct view *view)
{
    size_t block_length, block_size;
    if (!view_block(tensor->type, types, &block_length, &block_size))
        return refuse(request, ENGINE_ERROR_UNSUPPORTED, "%s: '%s' cannot have type %u", request->op, name,
                      tensor->type);
    if (tensor->ne[0] % block_length != 0 || tensor->nb[0] != block_size)
        return refuse(request, ENGINE_ERROR_UNSUPPORTED,
                      "%s: the rows of '%s' must be contiguous and consist of whole blocks", request->op,
                      name);
    unsigned step = tensor->type == ENGINE_TYPE_F32 || tensor->type == ENGINE_TYPE_I32 ? 4 : 2;
    for (int i = 1; i < 4; i++)
        if (tensor->ne[i] > 1 && (tensor->nb[i] % step != 0 || tensor->nb[i] == 0))
            return refuse(request, ENGINE_ERROR_UNSUPPORTED, "%s: stride %d of '%s' is not a multiple of %u",
                          request->op, i, name, step);
    uint64_t bytes;
    if (!view_extent(tensor, tensor->ne[0] / block_length * block_size, &bytes))
        return refuse(request, ENGINE_ERROR_ARGUMENT, "%s: '%s' is too large", request->op, name);
    *view = (struct view){.type = tensor->type, .bytes = bytes};
    for (int i = 0; i < 4; i++) view->ne[i] = tensor->ne[i], view->nb[i] = tensor->nb[i];
    if (request->planning) return ENGINE_OK;
    const struct engine_buffer *buffer = tensor->buffer;
    if (!buffer || buffer->device != request->device)
        return refuse(request, ENGINE_ERROR_ARGUMENT, "%s: '%s' is not in a buffer of this device",
                      request->op, name);
    if (tensor->offset > buffer->size || bytes > buffer->size - tensor->offset || tensor->offset % step != 0)
        return refuse(request, ENGINE_ERROR_ARGUMENT, "%s: '%s' extends beyond its buffer or is misaligned",
                      request->op, name);
    view->data = buffer->data + tensor->offset;
    return ENGINE_OK;
}

int weight_check(const struct request *request, const struct engine_tensor *tensor, const char *name,
                 uint32_t use, const struct engine_weight **weight)
{
    *weight = NULL;
    const struct weight_type *type = weight_type(tensor->type);
    if (!type || tensor->ne[0] % type->block_length != 0)
        return refuse(request, ENGINE_ERROR_UNSUPPORTED, "%s: '%s' has an unsupported type", request->op,
                      name);
    if (request->planning) return ENGINE_OK;
    const struct engine_weight *given = tensor->weight;
    if (!given || given->device != request->device)
        return refuse(request, ENGINE_ERROR_ARGUMENT, "%s: '%s' is not a weight of this device", request->op,
                      name);
    bool same = given->type == type;
    for (int i = 0; i < 4; i++) same = same && given->ne[i] == tensor->ne[i];
    if (!same)
        return refuse(request, ENGINE_ERROR_ARGUMENT, "%s: '%s' has another type or shape than its weight",
                      request->op, name);
    uint64_t n_matrices = use == ENGINE_WEIGHT_MATRICES ? tensor->ne[2] : 1;
    bool packed = use == ENGINE_WEIGHT_MATMUL || use == ENGINE_WEIGHT_MATRICES;
    if (given->n_matrices != n_matrices || (packed ? !given->packed : !given->packed && !given->plain))
        return refuse(request, ENGINE_ERROR_ARGUMENT, "%s: '%s' was not created for this use", request->op,
                      name);
    *weight = given;
    return ENGINE_OK;
}

int values_check(const struct request *request, const struct engine_tensor *tensor, const char *name,
                 const float **values)
{
    *values = NULL;
    if (!tensor) return ENGINE_OK;
    const struct engine_weight *weight;
    int status = weight_check(request, tensor, name, ENGINE_WEIGHT_VALUES, &weight);
    if (status) return status;
    if (tensor->type != ENGINE_TYPE_F32)
        return refuse(request, ENGINE_ERROR_UNSUPPORTED, "%s: '%s' must be F32", request->op, name);
    if (request->planning) return ENGINE_OK;
    if (!weight->plain)
        return refuse(request, ENGINE_ERROR_ARGUMENT, "%s: '%s' was not created for its values", request->op,
                      name);
    *values = (const float *)(const void *)weight->plain;
    return ENGINE_OK;
}

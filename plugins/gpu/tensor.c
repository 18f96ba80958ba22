/* tensor.c: see tensor.h. */
#include "tensor.h"

#include <string.h>

#include "common/sized.h"
#include "plugin-types.h"

bool gpu_type_block(uint32_t type, uint32_t *length, uint32_t *size)
{
    switch (type) {
    case ENGINE_TYPE_F32:
    case ENGINE_TYPE_F16:
    case ENGINE_TYPE_BF16:
    case ENGINE_TYPE_Q8_0:
    case ENGINE_TYPE_Q4_0:
    case ENGINE_TYPE_Q4_1:
    case ENGINE_TYPE_Q5_0:
    case ENGINE_TYPE_Q5_1:
    case ENGINE_TYPE_MXFP4:
    case ENGINE_TYPE_Q2_K:
    case ENGINE_TYPE_Q3_K:
    case ENGINE_TYPE_Q4_K:
    case ENGINE_TYPE_Q5_K:
    case ENGINE_TYPE_Q6_K:
    case ENGINE_TYPE_IQ4_NL:
    case ENGINE_TYPE_IQ4_XS: {
        const struct engine_layout *layout = engine_layout_of(type);
        *length = layout->length, *size = layout->size;
        return true;
    }
    case ENGINE_TYPE_I32: *length = 1, *size = 4; return true; /* ids are no weights */
    default: return false;
    }
}

static int check_type(const struct gpu_request *request, const struct gpu_operand *operand, uint32_t type)
{
    bool known = operand->flags & IS_I32 ? type == ENGINE_TYPE_I32
                 : operand->flags & IS_CACHE
                     ? type == ENGINE_TYPE_F32 || type == ENGINE_TYPE_F16 || type == ENGINE_TYPE_Q8_0
                     : type == ENGINE_TYPE_F32;
    if (known) return ENGINE_OK;
    return gpu_refuse(request, ENGINE_ERROR_UNSUPPORTED, "%s: type %u of %s is not supported", request->op,
                      type, operand->name);
}

/* The extent of a tensor in a buffer, with arithmetic that can't overflow: all counts are below 2^31 and the
 * extent is within max_tensor. */
static int check_extent(const struct gpu_request *request, const struct gpu_operand *operand,
                        struct gpu_view *view)
{
    uint32_t length, size;
    if (!gpu_type_block(view->type, &length, &size) || view->ne[0] % length != 0)
        return gpu_refuse(request, ENGINE_ERROR_ARGUMENT, "%s: rows of %s are not whole blocks", request->op,
                          operand->name);
    uint64_t bytes = view->ne[0] / length * size;
    if (view->nb[0] != size ||
        (bytes % 4 != 0 && view->ne[1] * view->ne[2] * view->ne[3] > 1 && view->nb[1] % 2))
        return gpu_refuse(request, ENGINE_ERROR_UNSUPPORTED, "%s: the elements of %s are not contiguous",
                          request->op, operand->name);
    for (int i = 1; i < 4; i++) {
        uint64_t reach;
        if (view->ne[i] == 1) continue;
        if (view->type != ENGINE_TYPE_Q8_0 && view->nb[i] % 4 != 0)
            return gpu_refuse(request, ENGINE_ERROR_UNSUPPORTED, "%s: strides of %s are not multiples of 4",
                              request->op, operand->name);
        if (__builtin_mul_overflow(view->nb[i], view->ne[i] - 1, &reach) ||
            __builtin_add_overflow(bytes, reach, &bytes))
            bytes = UINT64_MAX;
        if (bytes > request->limits->max_tensor) break;
    }
    if (bytes > request->limits->max_tensor)
        return gpu_refuse(request, ENGINE_ERROR_UNSUPPORTED,
                          "%s: %s is too large for a kernel of this device", request->op, operand->name);
    view->bytes = bytes;
    return ENGINE_OK;
}

static int check_handles(const struct gpu_request *request, const struct gpu_operand *operand,
                         const struct engine_tensor *tensor, const struct gpu_view *view)
{
    const struct gpu_weight *weight = (const void *)tensor->weight;
    const struct gpu_buffer *buffer = (const void *)tensor->buffer;
    if (weight) {
        if (weight->device != request->device || weight->type != view->type ||
            memcmp(weight->ne, view->ne, sizeof view->ne) != 0 || !(weight->uses & operand->use))
            return gpu_refuse(request, ENGINE_ERROR_ARGUMENT,
                              "%s: %s is a weight of another device, type, shape or use", request->op,
                              operand->name);
        return ENGINE_OK;
    }
    if (!buffer || buffer->device != request->device)
        return gpu_refuse(request, ENGINE_ERROR_ARGUMENT, "%s: %s is not on this device", request->op,
                          operand->name);
    if (view->offset % 4 != 0 || view->offset > buffer->size || view->bytes > buffer->size - view->offset)
        return gpu_refuse(request, ENGINE_ERROR_ARGUMENT, "%s: %s extends beyond its buffer", request->op,
                          operand->name);
    return ENGINE_OK;
}

/* While planning, the type tells which of the two a tensor is: activations are F32. */
int gpu_check_tensor(const struct gpu_request *request, const struct gpu_operand *operand,
                     const struct engine_tensor *tensor, struct gpu_view *view)
{
    struct engine_tensor copy;
    memset(view, 0, sizeof *view);
    if (!tensor) {
        if (operand->flags & OPTIONAL) return ENGINE_OK;
        return gpu_refuse(request, ENGINE_ERROR_ARGUMENT, "%s: no %s", request->op, operand->name);
    }
    sized_read(&copy, sizeof copy, tensor);
    *view = (struct gpu_view){.present = true,
                              .type = copy.type,
                              .offset = copy.offset,
                              .buffer = copy.buffer,
                              .weight = copy.weight};
    uint64_t n = 1;
    for (int i = 0; i < 4; i++) {
        view->ne[i] = copy.ne[i];
        view->nb[i] = copy.nb[i];
        bool too_many =
            copy.ne[i] == 0 || copy.ne[i] > MAX_ELEMENTS || __builtin_mul_overflow(n, copy.ne[i], &n);
        if (too_many)
            return gpu_refuse(request, ENGINE_ERROR_UNSUPPORTED, "%s: %s is empty or too large", request->op,
                              operand->name);
    }
    bool may_be_weight = operand->flags & IS_WEIGHT, may_be_buffer = operand->flags & IN_BUFFER;
    view->is_weight = may_be_weight &&
                      (copy.weight || (request->planning && (!may_be_buffer || operand->flags & ANY_TYPE)));
    int status = ENGINE_OK;
    if (view->is_weight && operand->flags & ANY_TYPE) {
        if (!request->limits->weight_type(copy.type))
            return gpu_refuse(request, ENGINE_ERROR_UNSUPPORTED, "%s: type %u of %s is not supported",
                              request->op, copy.type, operand->name);
    } else {
        status = check_type(request, operand, copy.type);
    }
    if (!status && !view->is_weight) status = check_extent(request, operand, view);
    if (!status && !request->planning) status = check_handles(request, operand, &copy, view);
    return status;
}

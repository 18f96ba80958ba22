/* operand.c: see operand.h. First one tensor of an operation, then what each operation asks beyond the rules
 * of common/ops.h. */
#include "operand.h"

#include <string.h>

#include "common/sized.h"
#include "plugin-types.h"

#define MAX_ELEMENTS (UINT32_MAX / 2) /* kernels count in 32 bits */

/* Of a scan: heads and values that fit the numbers of workgroups that every device has. */
enum { MAX_SCAN_HEADS = 65535, MAX_SCAN_VALUES = 1 << 20 };

/* ---- One tensor ---------------------------------------------------------------------------------------- */

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

static int check_type(const struct gpu_request *request, const struct op_operand *operand, uint32_t type)
{
    if (op_takes(operand, type)) return ENGINE_OK;
    return gpu_refuse(request, ENGINE_ERROR_UNSUPPORTED, "%s: type %u of %s is not supported", request->op,
                      type, operand->name);
}

/* The extent of a tensor in a buffer, with arithmetic that can't overflow: all counts are below 2^31 and the
 * extent is within max_tensor. */
static int check_extent(const struct gpu_request *request, const struct op_operand *operand,
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

static int check_handles(const struct gpu_request *request, const struct op_operand *operand,
                         const struct engine_tensor *tensor, const struct gpu_view *view)
{
    const struct gpu_weight *weight = (const void *)tensor->weight;
    const struct gpu_buffer *buffer = (const void *)tensor->buffer;
    if (weight) {
        if (weight->device != request->device || weight->type != view->type ||
            memcmp(weight->ne, view->ne, sizeof view->ne) != 0 || !(weight->uses & operand->uses))
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

/* Fills in the view of an operand; `tensor` may be NULL. While planning, the type tells whether a tensor that
 * may be a weight or an activation is one: activations are F32. */
static int check_tensor(const struct gpu_request *request, const struct op_operand *operand,
                        const struct engine_tensor *tensor, struct gpu_view *view)
{
    struct engine_tensor copy;
    memset(view, 0, sizeof *view);
    if (!tensor) {
        if (operand->flags & OP_OPTIONAL) return ENGINE_OK;
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
    bool any_type = operand->types & OP_WEIGHT_TYPES,
         may_be_buffer = !operand->uses || operand->flags & OP_EITHER;
    view->is_weight = operand->uses && (copy.weight || (request->planning && (!may_be_buffer || any_type)));
    int status = ENGINE_OK;
    if (view->is_weight && any_type) {
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

/* ---- Operations ---------------------------------------------------------------------------------------- */

/* Activations that can follow a matrix product. */
static bool is_plain(uint32_t activation)
{
    return activation <= ENGINE_ACTIVATION_SOFTPLUS;
}

static int check_fused_activation(const struct gpu_request *request, uint32_t activation)
{
    if (is_plain(activation)) return ENGINE_OK;
    return gpu_refuse(request, ENGINE_ERROR_UNSUPPORTED, "%s: activation %u cannot follow it", request->op,
                      activation);
}

/* Whether a weight was made for this use. One matrix for one token may be of either use. */
static bool has_use(const struct gpu_call *call, const struct gpu_view *view)
{
    const struct gpu_weight *weight = (const void *)view->weight;
    bool either =
        view->ne[2] == 1 && call->views[OPERAND(matmul, input)].ne[1] == 1 && call->matrices == OP_ONE_MATRIX;
    return !weight || either ||
           weight->uses & (call->matrices == OP_ONE_MATRIX ? ENGINE_WEIGHT_MATMUL : ENGINE_WEIGHT_MATRICES);
}

static int check_matmul(const struct gpu_request *request, struct gpu_call *call)
{
    const struct gpu_view *v = call->views, *weight = &v[OPERAND(matmul, weight)],
                          *gate = &v[OPERAND(matmul, gate)];
    call->matrices = op_matrices(&call->args.matmul);
    if (gate->present && gate->type != weight->type)
        return gpu_refuse(request, ENGINE_ERROR_UNSUPPORTED, "matmul: weight and gate have different types");
    if (call->matrices == OP_MATRIX_PER_EXPERT && weight->ne[2] > request->limits->max_experts)
        return gpu_refuse(request, ENGINE_ERROR_UNSUPPORTED, "matmul: %llu experts are too many",
                          (unsigned long long)weight->ne[2]);
    if (!has_use(call, weight) || !has_use(call, gate))
        return gpu_refuse(request, ENGINE_ERROR_ARGUMENT, "matmul: a weight was created for another use");
    return check_fused_activation(request, call->args.matmul.activation);
}

/* Bytes of a row without gaps. */
static uint64_t row_size(const struct gpu_view *view)
{
    uint32_t length = 1, size = 0;
    gpu_type_block(view->type, &length, &size);
    return view->ne[0] / length * size;
}

/* Kernels number a cache's rows: whether each begins `step` bytes after the one before. */
static bool has_step(const struct gpu_view *view, uint64_t step)
{
    for (int i = 1; i < 4; i++) {
        if (view->ne[i] > 1 && view->nb[i] != step) return false;
        step *= view->ne[i];
    }
    return true;
}

static int check_cache(const struct gpu_request *request, const struct gpu_view *cache, uint64_t step)
{
    uint64_t rows = cache->ne[1] * cache->ne[2];
    if (!has_step(cache, step))
        return gpu_refuse(request, ENGINE_ERROR_UNSUPPORTED, "%s: a cache with gaps is not supported",
                          request->op);
    if (cache->type == ENGINE_TYPE_F16 && cache->ne[0] % 2 != 0)
        return gpu_refuse(request, ENGINE_ERROR_UNSUPPORTED,
                          "%s: odd head dimensions are not supported in float16", request->op);
    if (rows > MAX_ELEMENTS || cache->ne[0] > request->limits->max_head_dim)
        return gpu_refuse(request, ENGINE_ERROR_UNSUPPORTED, "%s: heads of %llu values are too large",
                          request->op, (unsigned long long)cache->ne[0]);
    return ENGINE_OK;
}

static int check_attention(const struct gpu_request *request, struct gpu_call *call)
{
    const struct gpu_view *k = &call->views[OPERAND(attention, k)], *v = &call->views[OPERAND(attention, v)];
    const struct engine_op_attention *args = &call->args.attention;
    if (args->weights || args->picked)
        return gpu_refuse(request, ENGINE_ERROR_UNSUPPORTED,
                          "attention: weights and picked positions are not supported");
    if (args->earlier || args->logsums)
        return gpu_refuse(request, ENGINE_ERROR_UNSUPPORTED, "attention: parts are not supported");
    if (!(args->softcap >= 0) || (args->chunk > 0 && args->window > 0))
        return gpu_refuse(request, ENGINE_ERROR_ARGUMENT,
                          "attention: softcap is negative, or chunk and window are combined");
    call->key_step = row_size(k);
    call->value_step =
        has_step(v, row_size(v)) || v->type != k->type || v->ne[0] > k->ne[0] ? row_size(v) : call->key_step;
    int status = check_cache(request, k, call->key_step);
    return status ? status : check_cache(request, v, call->value_step);
}

static int check_cache_write(const struct gpu_request *request, struct gpu_call *call)
{
    const struct gpu_view *cache = &call->views[OPERAND(cache_write, cache)];
    return check_cache(request, cache, row_size(cache));
}

static int check_reserved(const struct gpu_request *request, uint32_t reserved)
{
    if (reserved == 0) return ENGINE_OK;
    return gpu_refuse(request, ENGINE_ERROR_UNSUPPORTED, "%s: the arguments are from a later version",
                      request->op);
}

static int check_rope(const struct gpu_request *request, struct gpu_call *call)
{
    const struct engine_op_rope *args = &call->args.rope;
    if (args->pairs != ENGINE_ROPE_ADJACENT && args->pairs != ENGINE_ROPE_HALVES)
        return gpu_refuse(request, ENGINE_ERROR_UNSUPPORTED, "rope: unknown pairs %u", args->pairs);
    return check_reserved(request, args->reserved);
}

static int check_norm(const struct gpu_request *request, struct gpu_call *call)
{
    if (call->args.norm.kind == ENGINE_NORM_RMS || call->args.norm.kind == ENGINE_NORM_LAYER)
        return ENGINE_OK;
    return gpu_refuse(request, ENGINE_ERROR_UNSUPPORTED, "norm: unknown kind %u", call->args.norm.kind);
}

static int check_activate(const struct gpu_request *request, struct gpu_call *call)
{
    const struct engine_op_activate *args = &call->args.activate;
    if (args->activation > ENGINE_ACTIVATION_EXP)
        return gpu_refuse(request, ENGINE_ERROR_UNSUPPORTED, "activate: unknown activation %u",
                          args->activation);
    bool is_gated_unit = args->activation == ENGINE_ACTIVATION_SWIGLU_CLAMPED;
    bool takes_limit = !is_plain(args->activation) && args->activation != ENGINE_ACTIVATION_EXP;
    if ((!takes_limit ? args->limit != 0 : !(args->limit > 0)) || (!is_gated_unit && args->alpha != 0) ||
        (is_gated_unit && !args->factor) || args->beta != 0 || args->gamma != 0)
        return gpu_refuse(request, ENGINE_ERROR_ARGUMENT,
                          "activate: limit, alpha or factor do not suit activation %u", args->activation);
    return check_reserved(request, args->reserved);
}

static int check_route(const struct gpu_request *request, struct gpu_call *call)
{
    const struct engine_op_route *args = &call->args.route;
    uint64_t n = args->logits->ne[0], n_used = args->ids->ne[0];
    if (args->function > ENGINE_ROUTE_SIGMOID || args->group_score > ENGINE_ROUTE_GROUP_TOP2)
        return gpu_refuse(request, ENGINE_ERROR_UNSUPPORTED, "route: unknown function");
    if (args->chosen)
        return gpu_refuse(request, ENGINE_ERROR_UNSUPPORTED, "route: given experts are not supported");
    if (n > request->limits->max_experts)
        return gpu_refuse(request, ENGINE_ERROR_UNSUPPORTED, "route: %llu experts are too many",
                          (unsigned long long)n);
    uint64_t group = args->n_groups > 1 ? n / args->n_groups : n;
    if ((args->n_groups > 1 && (n % args->n_groups != 0 || n_used > group * args->n_groups_used)) ||
        args->n_groups_used > args->n_groups ||
        (args->n_groups > 0 && args->group_score == ENGINE_ROUTE_GROUP_TOP2 && group < 2))
        return gpu_refuse(request, ENGINE_ERROR_ARGUMENT, "route: the groups do not suit the experts");
    if (args->normalise > 1 || !(args->floor >= 0))
        return gpu_refuse(request, ENGINE_ERROR_ARGUMENT, "route: normalise or floor are out of range");
    return check_reserved(request, args->reserved);
}

static int check_state(const struct gpu_request *request, const struct gpu_view *state)
{
    if (has_step(state, row_size(state))) return ENGINE_OK;
    return gpu_refuse(request, ENGINE_ERROR_UNSUPPORTED, "%s: the state has gaps", request->op);
}

static int check_conv(const struct gpu_request *request, struct gpu_call *call)
{
    return check_state(request, &call->views[OPERAND(conv, state)]);
}

static int check_scan(const struct gpu_request *request, struct gpu_call *call)
{
    const struct gpu_view *v = call->views;
    if (v[OPERAND(scan, v)].ne[0] > MAX_SCAN_VALUES || v[OPERAND(scan, v)].ne[1] > MAX_SCAN_HEADS)
        return gpu_refuse(request, ENGINE_ERROR_UNSUPPORTED, "scan: too many values or heads");
    int status = check_state(request, &v[OPERAND(scan, state)]);
    return status ? status : check_reserved(request, call->args.scan.reserved);
}

/* Beyond the shapes. */
static int (*const checks[])(const struct gpu_request *request, struct gpu_call *call) = {
    [ENGINE_OP_MATMUL] = check_matmul,
    [ENGINE_OP_ATTENTION] = check_attention,
    [ENGINE_OP_CACHE_WRITE] = check_cache_write,
    [ENGINE_OP_ROPE] = check_rope,
    [ENGINE_OP_NORM] = check_norm,
    [ENGINE_OP_ACTIVATE] = check_activate,
    [ENGINE_OP_ROUTE] = check_route,
    [ENGINE_OP_CONV] = check_conv,
    [ENGINE_OP_SCAN] = check_scan,
};

static int check_shapes(const struct gpu_request *request, const struct gpu_call *call)
{
    const char *misfit = op_misfit(call->op, &call->args);
    if (!misfit) return ENGINE_OK;
    char shapes[OP_SHAPES_TEXT] = "";
    if (!request->planning) op_print_shapes(call->op, &call->args, shapes, sizeof shapes);
    return gpu_refuse(request, ENGINE_ERROR_ARGUMENT, "%s: %s: %s", request->op, misfit, shapes);
}

int gpu_check(struct gpu_request *request, uint32_t op, const void *args, struct gpu_call *call)
{
    const struct op_info *info = op_info(op);
    request->op = "operation";
    if (!info || !request->limits->has_kernel(op))
        return gpu_refuse(request, ENGINE_ERROR_UNSUPPORTED, "unknown operation %u", op);
    request->op = info->title;
    size_t size = args ? sized_size(args) : 0;
    if (size < sizeof size)
        return gpu_refuse(request, ENGINE_ERROR_ARGUMENT, "%s: no arguments", info->title);
    if (!sized_rest_is_zero(args, info->size))
        return gpu_refuse(request, ENGINE_ERROR_UNSUPPORTED, "%s: the arguments are from a later version",
                          info->title);
    memset(call, 0, sizeof *call);
    call->op = op;
    sized_read(&call->args, info->size, args);
    for (size_t i = 0; info->operands[i].name; i++) {
        const struct op_operand *operand = &info->operands[i];
        int status = check_tensor(request, operand, op_given(&call->args, operand), &call->views[i]);
        if (status) return status;
    }
    int status = check_shapes(request, call);
    bool has_more = op < sizeof checks / sizeof *checks && checks[op];
    return status || !has_more ? status : checks[op](request, call);
}

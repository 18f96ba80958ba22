/* ops.c: operations as dispatches of shaders. */
#include <stdlib.h>
#include <string.h>

#include "builder.h"

/* Invocations of a workgroup, a multiple of 4. */
#define ROUTE_LANES 64

/* ---- Attention's cache --------------------------------------------------------------------------------- */

static int cache_write(struct builder *builder, const struct gpu_call *call)
{
    const struct gpu_view *v = call->views, *input = &v[OPERAND(cache_write, input)],
                          *cache = &v[OPERAND(cache_write, cache)];
    uint64_t step = cache->type == ENGINE_TYPE_F32 ? 1 : cache->type == ENGINE_TYPE_F16 ? 2 : 32;
    builder->dispatch.key.shader = cache->type == ENGINE_TYPE_F32   ? SHADER_CACHE_WRITE_F32
                                   : cache->type == ENGINE_TYPE_F16 ? SHADER_CACHE_WRITE_F16
                                                                    : SHADER_CACHE_WRITE_Q8_0;
    struct cache_write_parameters p = {.head_dim = (uint32_t)input->ne[0],
                                       .n_heads = (uint32_t)input->ne[1],
                                       .n_tokens = (uint32_t)input->ne[2],
                                       .block_size = (uint32_t)cache->ne[1]};
    BIND_ROWS(builder, 0, input, ACCESS_READ, p, input);
    p.slots_offset = bind_view(builder, 1, &v[OPERAND(cache_write, slots)], ACCESS_READ);
    p.cache_offset = bind_view(builder, 2, cache, ACCESS_READ | ACCESS_WRITE);
    SET_PARAMETERS(builder, p);
    set_shape(builder, input);
    builder->dispatch.bytes = 2 * input->bytes; /* of float32, at most */
    spread(builder, input->ne[0] / step * input->ne[1] * input->ne[2]);
    return add(builder);
}

/* ---- Rows ---------------------------------------------------------------------------------------------- */

static int rope(struct builder *builder, const struct gpu_call *call)
{
    const struct gpu_view *v = call->views, *input = &v[OPERAND(rope, input)];
    const struct engine_op_rope *args = &call->args.rope;
    const struct engine_weight *factors = v[OPERAND(rope, factors)].weight;
    void *memory;
    int status = rope_table_get(vulkan_host, builder->device, &builder->device->rope_tables, args, factors,
                                factors ? factors->values : NULL, &memory);
    if (status) return status;
    const struct memory_range *table = memory;
    builder->dispatch.key.shader = SHADER_ROPE;
    builder->dispatch.key.constants[1] = args->pairs == ENGINE_ROPE_HALVES;
    struct rope_parameters p = {.head_dim = (uint32_t)input->ne[0],
                                .n_heads = (uint32_t)input->ne[1],
                                .n_tokens = (uint32_t)input->ne[2],
                                .n_dims = (uint32_t)args->n_dims,
                                .magnitude = args->magnitude == 0 ? 1 : args->magnitude};
    BIND_ROWS(builder, 0, input, ACCESS_READ, p, input);
    BIND_ROWS(builder, 3, &v[OPERAND(rope, output)], ACCESS_WRITE, p, output);
    p.positions_offset = bind_view(builder, 1, &v[OPERAND(rope, positions)], ACCESS_READ);
    SET_PARAMETERS(builder, p);
    bind_range(builder, 2, table, 0, table->size, ACCESS_CONSTANT);
    spread(builder, (input->ne[0] - args->n_dims / 2) * input->ne[1] * input->ne[2]);
    return add(builder);
}

/* Values of a row that an invocation of a norm keeps in registers, at most. */
#define NORM_VALUES 16

/* Invocations of a norm's workgroup: a GPU waits for memory less often the more there are, as long as each
 * has a few values. */
static uint32_t norm_lanes(const struct engine_device *device, uint64_t n)
{
    uint32_t lanes = 64;
    while (lanes < device->max_norm_lanes && 8 * (uint64_t)lanes <= n) lanes *= 2;
    return lanes;
}

static int norm(struct builder *builder, const struct gpu_call *call)
{
    const struct gpu_view *v = call->views, *input = &v[OPERAND(norm, input)],
                          *weight = &v[OPERAND(norm, weight)], *bias = &v[OPERAND(norm, bias)];
    enum shader shader = builder->device->subgroups ? SHADER_NORM_SUBGROUPS : SHADER_NORM;
    uint32_t lanes = norm_lanes(builder->device, input->ne[0]);
    uint64_t values = (input->ne[0] + lanes - 1) / lanes;
    builder->dispatch.key = (struct pipeline_key){
        .shader = shader,
        .constants = {lanes, weight->present, bias->present, call->args.norm.kind == ENGINE_NORM_LAYER,
                      values <= NORM_VALUES ? (uint32_t)values : 0}};
    struct norm_parameters p = {.n = (uint32_t)input->ne[0],
                                .n1 = (uint32_t)input->ne[1],
                                .n2 = (uint32_t)input->ne[2],
                                .epsilon = call->args.norm.epsilon};
    BIND_ROWS(builder, 0, input, ACCESS_READ, p, input);
    BIND_ROWS(builder, 2, &v[OPERAND(norm, output)], ACCESS_WRITE, p, output);
    SET_PARAMETERS(builder, p);
    if (weight->present) bind_values(builder, 1, weight);
    if (bias->present) bind_values(builder, 3, bias);
    builder->dispatch.groups[0] = least(input->ne[1] * input->ne[2], builder->device->max_groups[0]);
    builder->dispatch.groups[1] = 1;
    return add(builder);
}

/* The use of b in shaders/rows.comp. */
enum { B_ABSENT, B_SUMMAND, B_FACTOR, B_BEHIND };

_Static_assert((int)OPERAND(activate, factor) == (int)OPERAND(binary, b) &&
                   (int)OPERAND(activate, output) == (int)OPERAND(binary, output),
               "rows takes both");
_Static_assert((int)OPERAND(concat, b) == (int)OPERAND(binary, b) &&
                   (int)OPERAND(concat, output) == (int)OPERAND(binary, output),
               "rows takes both");

/* ENGINE_OP_ADD, MUL, ACTIVATE and CONCAT, whose operands are in the same order. b may be a row, or one
 * number for each row, that is repeated, or absent. */
static int rows(struct builder *builder, const struct gpu_call *call)
{
    const struct gpu_view *v = call->views, *a = &v[OPERAND(binary, a)], *b = &v[OPERAND(binary, b)],
                          *output = &v[OPERAND(binary, output)];
    const struct engine_op_activate *args = call->op == ENGINE_OP_ACTIVATE ? &call->args.activate : NULL;
    uint32_t join = !b->present                    ? B_ABSENT
                    : call->op == ENGINE_OP_ADD    ? B_SUMMAND
                    : call->op == ENGINE_OP_CONCAT ? B_BEHIND
                                                   : B_FACTOR;
    builder->dispatch.key = (struct pipeline_key){
        .shader = SHADER_ROWS, .constants = {0, args ? args->activation : ENGINE_ACTIVATION_NONE, join}};
    struct rows_parameters p = {.n = (uint32_t)output->ne[0],
                                .n1 = (uint32_t)output->ne[1],
                                .n2 = (uint32_t)output->ne[2],
                                .n_a = (uint32_t)a->ne[0],
                                .limit = args ? args->limit : 0,
                                .alpha = args ? args->alpha : 0};
    BIND_ROWS(builder, 0, a, ACCESS_READ, p, a);
    BIND_ROWS(builder, 2, output, ACCESS_WRITE, p, output);
    if (b->present) {
        p.b_offset = bind_values(builder, 1, b);
        p.b_stride0 = stride(b, 0);
        p.b_stride1 = stride(b, 1);
        p.b_stride2 = stride(b, 2);
    }
    SET_PARAMETERS(builder, p);
    spread(builder, output->ne[0] * output->ne[1] * output->ne[2]);
    return add(builder);
}

/* ---- Route --------------------------------------------------------------------------------------------- */

static int route(struct builder *builder, const struct gpu_call *call)
{
    const struct gpu_view *v = call->views, *logits = &v[OPERAND(route, logits)],
                          *bias = &v[OPERAND(route, bias)];
    const struct engine_op_route *args = &call->args.route;
    builder->dispatch.key = (struct pipeline_key){
        .shader = SHADER_ROUTE,
        .constants = {ROUTE_LANES, args->function == ENGINE_ROUTE_SIGMOID, bias->present,
                      args->group_score == ENGINE_ROUTE_GROUP_TOP2, args->normalise}};
    struct route_parameters p = {
        .n = (uint32_t)logits->ne[0],
        .n_tokens = (uint32_t)logits->ne[1],
        .n_used = (uint32_t)v[OPERAND(route, ids)].ne[0],
        .n_groups = args->n_groups > 1 ? (uint32_t)args->n_groups : 1,
        .n_groups_used = args->n_groups > 1 ? (uint32_t)args->n_groups_used : 1,
        .logits_stride = stride(logits, 1),
        .ids_stride = stride(&v[OPERAND(route, ids)], 1),
        .weights_stride = stride(&v[OPERAND(route, weights)], 1),
        .least = args->floor,
        .scale = args->scale == 0 ? 1 : args->scale,
    };
    p.logits_offset = bind_view(builder, 0, logits, ACCESS_READ);
    p.ids_offset = bind_view(builder, 2, &v[OPERAND(route, ids)], ACCESS_WRITE);
    p.weights_offset = bind_view(builder, 3, &v[OPERAND(route, weights)], ACCESS_WRITE);
    SET_PARAMETERS(builder, p);
    if (bias->present) bind_values(builder, 1, bias);
    builder->dispatch.groups[0] = least(logits->ne[1], builder->device->max_groups[0]);
    builder->dispatch.groups[1] = 1;
    return add(builder);
}

/* ---- Get rows ------------------------------------------------------------------------------------------ */

static int get_rows(struct builder *builder, const struct gpu_call *call)
{
    const struct gpu_view *v = call->views, *source = &v[OPERAND(get_rows, source)],
                          *output = &v[OPERAND(get_rows, output)];
    const struct engine_weight *weight = source->weight;
    builder->dispatch.key.shader =
        weight ? weight_type(source->type)->first + GET_ROWS : SHADER_GET_ROWS_ACTIVATION;
    struct get_rows_parameters p = {.n = (uint32_t)output->ne[0],
                                    .count = (uint32_t)output->ne[1],
                                    .n_rows = (uint32_t)source->ne[1],
                                    .output_stride = stride(output, 1)};
    if (!weight) {
        p.source_offset = bind_view(builder, 0, source, ACCESS_READ);
        p.source_stride = stride(source, 1);
    }
    p.rows_offset = bind_view(builder, 2, &v[OPERAND(get_rows, rows)], ACCESS_READ);
    p.output_offset = bind_view(builder, 3, output, ACCESS_WRITE);
    SET_PARAMETERS(builder, p);
    builder->dispatch.bytes = 2 * output->bytes; /* of float32, at most */
    spread(builder, (output->ne[0] + 31) / 32 * output->ne[1]);
    if (!weight) return add(builder);
    uint64_t part = panels_in_part(builder->device, weight);
    for (uint64_t panel = 0; panel < weight->n_panels; panel += part) {
        uint64_t count = weight->n_panels - panel < part ? weight->n_panels - panel : part;
        bind_panels(builder, 0, weight, panel, count);
        p.first_row = (uint32_t)(panel * PANEL_ROWS);
        p.n_rows = (uint32_t)(count * PANEL_ROWS);
        SET_PARAMETERS(builder, p);
        int status = add(builder);
        if (status) return status;
    }
    return ENGINE_OK;
}

/* -------------------------------------------------------------------------------------------------------- */

/* An operation without one is refused. */
static int (*const builders[])(struct builder *builder, const struct gpu_call *call) = {
    [ENGINE_OP_MATMUL] = op_matmul,
    [ENGINE_OP_ATTENTION] = op_attention,
    [ENGINE_OP_CACHE_WRITE] = cache_write,
    [ENGINE_OP_ROPE] = rope,
    [ENGINE_OP_NORM] = norm,
    [ENGINE_OP_GET_ROWS] = get_rows,
    [ENGINE_OP_ADD] = rows,
    [ENGINE_OP_MUL] = rows,
    [ENGINE_OP_ACTIVATE] = rows,
    [ENGINE_OP_ROUTE] = route,
    [ENGINE_OP_CONCAT] = rows,
    [ENGINE_OP_CONV] = op_conv,
    [ENGINE_OP_SCAN] = op_scan,
};

bool op_has_kernel(uint32_t op)
{
    return op < sizeof builders / sizeof *builders && builders[op];
}

static struct gpu_request make_request(struct engine_device *device, bool planning)
{
    return (struct gpu_request){vulkan_host, device, &device->limits, planning, NULL};
}

int op_supports(struct engine_device *device, uint32_t op, const void *args)
{
    struct gpu_request request = make_request(device, true);
    struct gpu_call call;
    return gpu_check(&request, op, args, &call) == ENGINE_OK;
}

/* Scratch memory. Rope's angles, which exist besides it, are part of the result for both ROPE and MATMUL:
 * only the largest result counts. */
int op_memory(struct engine_device *device, uint32_t op, const void *args, uint64_t *bytes)
{
    struct gpu_request request = make_request(device, true);
    struct gpu_call call;
    int status = gpu_check(&request, op, args, &call);
    if (status) return vulkan_host->fail(status, "cannot tell the memory of an unsupported operation");
    uint64_t scratch = 0;
    if (op == ENGINE_OP_ATTENTION) scratch = op_attention_scratch(device, &call);
    if (op == ENGINE_OP_MATMUL) scratch = op_matmul_scratch(device, &call);
    *bytes = op == ENGINE_OP_ROPE || op == ENGINE_OP_ATTENTION || scratch > 0 ? SMALL_MEMORY : 0;
    if (scratch > 0) *bytes += memory_size(scratch);
    return ENGINE_OK;
}

int op_append(struct engine_device *device, struct commands *commands, uint32_t op, const void *args)
{
    struct gpu_request request = make_request(device, false);
    struct gpu_call call;
    struct builder builder = {.device = device, .commands = commands};
    int status = gpu_check(&request, op, args, &call);
    if (status) return status;
    const struct op_operand *operands = op_operands(op);
    for (uint32_t i = 0; operands[i].name; i++)
        if (operands[i].role == OP_OUT && call.views[i].present) set_shape(&builder, &call.views[i]);
    return builders[op](&builder, &call);
}

/* ops.c: operations as dispatches of shaders. */
#include <stdlib.h>
#include <string.h>

#include "builder.h"

/* Invocations of a workgroup, multiples of 4. */
#define ATTENTION_LANES 64
#define ROUTE_LANES     64

/* Attention is split where heads times tokens are few, into parts of that many positions or more. */
#define FEW_HEADS       512
#define MAX_SPLITS      16
#define SPLIT_POSITIONS 256

/* ---- Attention and its cache --------------------------------------------------------------------------- */

static enum shader attention_shader(const struct engine_device *device, uint32_t k, uint32_t v)
{
    static const enum shader shaders[3][3] = {
        {SHADER_ATTENTION_F32_F32, SHADER_ATTENTION_F32_F16, SHADER_ATTENTION_F32_Q8_0},
        {SHADER_ATTENTION_F16_F32, SHADER_ATTENTION_F16_F16, SHADER_ATTENTION_F16_Q8_0},
        {SHADER_ATTENTION_Q8_0_F32, SHADER_ATTENTION_Q8_0_F16, SHADER_ATTENTION_Q8_0_Q8_0}};
    int row = k == ENGINE_TYPE_F32 ? 0 : k == ENGINE_TYPE_F16 ? 1 : 2;
    int column = v == ENGINE_TYPE_F32 ? 0 : v == ENGINE_TYPE_F16 ? 1 : 2;
    return shaders[row][column] + (device->subgroups ? 1 : 0);
}

/* How many workgroups share the positions of a head: enough of SPLIT_POSITIONS each, where heads and tokens
 * alone are too few to fill a GPU. The block table's width says how far back tokens may look. */
static uint32_t attention_splits(const struct engine_device *device, const struct gpu_call *call)
{
    const struct gpu_view *q = &call->views[OPERAND(attention, q)];
    uint64_t heads = q->ne[1] * q->ne[2];
    uint64_t reach =
        call->views[OPERAND(attention, block_table)].ne[0] * call->views[OPERAND(attention, k)].ne[1];
    if (call->args.attention.window > 0) reach = least(reach, call->args.attention.window);
    if (call->args.attention.chunk > 0) reach = least(reach, call->args.attention.chunk);
    if (!device->splits || heads > FEW_HEADS || q->ne[1] * MAX_SPLITS > device->max_groups[0]) return 1;
    uint64_t splits = reach / SPLIT_POSITIONS;
    return splits < 1 ? 1 : least(splits, MAX_SPLITS);
}

/* Bytes of the caches that a call reads once: of each sequence, as far back as its blocks reach. */
static uint64_t cache_bytes(const struct gpu_call *call, uint64_t reach)
{
    const struct gpu_view *k = &call->views[OPERAND(attention, k)], *v = &call->views[OPERAND(attention, v)];
    uint64_t rows = reach * call->views[OPERAND(attention, block_table)].ne[1] * k->ne[2],
             most = k->ne[1] * k->ne[2] * k->ne[3];
    return (uint64_t)((double)(k->bytes + v->bytes) * (double)(rows < most ? rows : most) / (double)most);
}

/* Scratch memory of a split attention: enough for as many tokens and splits as these heads are ever split
 * for, so that it doesn't grow as contexts do. */
static uint64_t attention_scratch(const struct gpu_call *call)
{
    uint64_t n_heads = call->views[OPERAND(attention, q)].ne[1], tokens = FEW_HEADS / n_heads;
    return n_heads * tokens * MAX_SPLITS * (call->views[OPERAND(attention, v)].ne[0] + 2) * 4;
}

/* The second half of a split attention. */
static int join(struct builder *builder, const struct gpu_call *call, const struct memory_range *parts)
{
    const struct gpu_view *v = call->views, *q = &v[OPERAND(attention, q)];
    struct builder second = {.device = builder->device, .commands = builder->commands};
    second.dispatch.key = builder->dispatch.key;
    second.dispatch.key.shader = SHADER_ATTENTION_JOIN;
    second.dispatch.key.constants[1] = second.dispatch.key.constants[2] = 0;
    second.dispatch.key.constants[5] = second.dispatch.key.constants[7] = 0;
    struct attention_join_parameters p = {.n_heads = (uint32_t)q->ne[1], .n_tokens = (uint32_t)q->ne[2]};
    p.positions_offset = bind_view(&second, 5, &v[OPERAND(attention, positions)], ACCESS_READ);
    BIND_ROWS(&second, 6, &v[OPERAND(attention, output)], ACCESS_WRITE, p, output);
    SET_PARAMETERS(&second, p);
    bind_range(&second, 7, parts, 0, parts->size, ACCESS_READ);
    second.dispatch.bindings[0] = second.dispatch.bindings[5]; /* placeholder for unused ones */
    if (v[OPERAND(attention, sinks)].present) bind_values(&second, 0, &v[OPERAND(attention, sinks)]);
    second.dispatch.groups[0] = (uint32_t)q->ne[1];
    second.dispatch.groups[1] = builder->dispatch.groups[1];
    return add(&second);
}

static int attention(struct builder *builder, const struct gpu_call *call)
{
    const struct gpu_view *v = call->views, *q = &v[OPERAND(attention, q)], *k = &v[OPERAND(attention, k)];
    const struct gpu_view *slopes = &v[OPERAND(attention, slopes)], *sinks = &v[OPERAND(attention, sinks)],
                          *biases = &v[OPERAND(attention, distance_bias)];
    const struct engine_op_attention *args = &call->args.attention;
    uint32_t value_dim = (uint32_t)v[OPERAND(attention, v)].ne[0],
             splits = attention_splits(builder->device, call);
    const struct memory_range *parts = NULL;
    if (splits > 1) {
        int status = scratch_get(builder->device, attention_scratch(call), &parts);
        if (status) return status;
        bind_range(builder, 7, parts, 0, parts->size, ACCESS_WRITE);
    }
    builder->dispatch.key = (struct pipeline_key){
        .shader = attention_shader(builder->device, k->type, v[OPERAND(attention, v)].type),
        .constants = {ATTENTION_LANES, (value_dim + ATTENTION_LANES - 1) / ATTENTION_LANES,
                      (uint32_t)q->ne[0], splits, value_dim,
                      slopes->present   ? 1
                      : biases->present ? 2
                                        : 0,
                      sinks->present, args->softcap > 0}};
    const struct gpu_view *positions = &v[OPERAND(attention, positions)],
                          *table = &v[OPERAND(attention, block_table)];
    uint32_t v_type = v[OPERAND(attention, v)].type, v_unit = v_type == ENGINE_TYPE_F32   ? 4
                                                              : v_type == ENGINE_TYPE_F16 ? 2
                                                                                          : 1;
    struct attention_parameters p = {
        .n_heads = (uint32_t)q->ne[1],
        .n_kv_heads = (uint32_t)k->ne[2],
        .n_tokens = (uint32_t)q->ne[2],
        .block_size = (uint32_t)k->ne[1],
        .table_stride = stride(table, 1),
        .scale = args->scale,
        .window = (uint32_t)args->window,
        .chunk = (uint32_t)args->chunk,
        .softcap = args->softcap,
        .last_step = positions->ne[1] == 2 ? stride(positions, 1) : 0,
        .v_step = (uint32_t)(call->value_step / v_unit),
        .n_biases = biases->present ? (uint32_t)(biases->ne[0] / 2) : 0,
    };
    BIND_ROWS(builder, 0, q, ACCESS_READ, p, q);
    p.k_offset = bind_view(builder, 1, k, ACCESS_READ);
    p.v_offset = bind_view(builder, 2, &v[OPERAND(attention, v)], ACCESS_READ);
    p.table_offset = bind_view(builder, 3, table, ACCESS_READ);
    p.sequences_offset = bind_view(builder, 4, &v[OPERAND(attention, sequences)], ACCESS_READ);
    p.positions_offset = bind_view(builder, 5, positions, ACCESS_READ);
    BIND_ROWS(builder, 6, &v[OPERAND(attention, output)], ACCESS_WRITE, p, output);
    SET_PARAMETERS(builder, p);
    if (sinks->present && splits == 1) bind_values(builder, 7, sinks);
    if (slopes->present || biases->present) bind_values(builder, 8, slopes->present ? slopes : biases);
    if (q->ne[1] > builder->device->max_groups[0])
        return vulkan_host->fail(ENGINE_ERROR_UNSUPPORTED, "attention: too many heads");
    uint64_t reach = table->ne[0] * k->ne[1]; /* at most so many positions */
    builder->dispatch.flops = 2 * q->ne[1] * q->ne[2] * reach * (q->ne[0] + value_dim);
    builder->dispatch.bytes = cache_bytes(call, reach) + q->bytes + v[OPERAND(attention, output)].bytes;
    set_shape(builder, q);
    builder->dispatch.shape[3] = (uint32_t)reach;
    builder->dispatch.groups[0] = (uint32_t)q->ne[1] * splits;
    builder->dispatch.groups[1] = least(q->ne[2], builder->device->max_groups[1]);
    int status = add(builder);
    return status || splits == 1 ? status : join(builder, call, parts);
}

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
    [ENGINE_OP_ATTENTION] = attention,
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
    if (op == ENGINE_OP_ATTENTION && attention_splits(device, &call) > 1) scratch = attention_scratch(&call);
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

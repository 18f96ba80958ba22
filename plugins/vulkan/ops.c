/* ops.c: operations as dispatches of shaders. The push constants are in the order of the shader's
 * Parameters. */
#include <stdlib.h>
#include <string.h>

#include "builder.h"

/* Invocations of a workgroup, multiples of 4. */
#define NORM_LANES      64
#define ATTENTION_LANES 64
#define ROUTE_LANES     64

/* Attention is split where heads times tokens are few, into parts of that many positions or more. */
#define FEW_HEADS       512
#define MOST_SPLITS     16
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
    if (!device->splits || heads > FEW_HEADS || q->ne[1] * MOST_SPLITS > device->max_groups[0]) return 1;
    uint64_t splits = reach / SPLIT_POSITIONS;
    return splits < 1 ? 1 : least(splits, MOST_SPLITS);
}

/* Scratch memory of a split attention: enough for as many tokens and splits as these heads are ever split
 * for, so that it doesn't grow as contexts do. */
static uint64_t attention_scratch(const struct gpu_call *call)
{
    uint64_t n_heads = call->views[OPERAND(attention, q)].ne[1], tokens = FEW_HEADS / n_heads;
    return n_heads * tokens * MOST_SPLITS * (call->views[OPERAND(attention, v)].ne[0] + 2) * 4;
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
    push(&second, q->ne[1]);
    push(&second, q->ne[2]);
    push(&second, bind_view(&second, 5, &v[OPERAND(attention, positions)], ACCESS_READ));
    bind_rows(&second, 6, &v[OPERAND(attention, output)], ACCESS_WRITE);
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
    push(builder, q->ne[1]);
    push(builder, k->ne[2]);
    push(builder, q->ne[2]);
    push(builder, k->ne[1]);
    push(builder, stride(&v[OPERAND(attention, block_table)], 1));
    bind_rows(builder, 0, q, ACCESS_READ);
    push(builder, bind_view(builder, 1, k, ACCESS_READ));
    push(builder, bind_view(builder, 2, &v[OPERAND(attention, v)], ACCESS_READ));
    push(builder, bind_view(builder, 3, &v[OPERAND(attention, block_table)], ACCESS_READ));
    push(builder, bind_view(builder, 4, &v[OPERAND(attention, sequences)], ACCESS_READ));
    push(builder, bind_view(builder, 5, &v[OPERAND(attention, positions)], ACCESS_READ));
    bind_rows(builder, 6, &v[OPERAND(attention, output)], ACCESS_WRITE);
    push_float(builder, args->scale);
    push(builder, args->window);
    push(builder, args->chunk);
    push_float(builder, args->softcap);
    push(builder,
         v[OPERAND(attention, positions)].ne[1] == 2 ? stride(&v[OPERAND(attention, positions)], 1) : 0);
    push(builder, call->value_step / (v[OPERAND(attention, v)].type == ENGINE_TYPE_F32   ? 4
                                      : v[OPERAND(attention, v)].type == ENGINE_TYPE_F16 ? 2
                                                                                         : 1));
    push(builder, biases->present ? biases->ne[0] / 2 : 0);
    if (sinks->present && splits == 1) bind_values(builder, 7, sinks);
    if (slopes->present || biases->present) bind_values(builder, 8, slopes->present ? slopes : biases);
    if (q->ne[1] > builder->device->max_groups[0])
        return vulkan_host->fail(ENGINE_ERROR_UNSUPPORTED, "attention: too many heads");
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
    push(builder, input->ne[0]);
    push(builder, input->ne[1]);
    push(builder, input->ne[2]);
    push(builder, cache->ne[1]);
    bind_rows(builder, 0, input, ACCESS_READ);
    push(builder, bind_view(builder, 1, &v[OPERAND(cache_write, slots)], ACCESS_READ));
    push(builder, bind_view(builder, 2, cache, ACCESS_READ | ACCESS_WRITE));
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
    push(builder, input->ne[0]);
    push(builder, input->ne[1]);
    push(builder, input->ne[2]);
    push(builder, args->n_dims);
    bind_rows(builder, 0, input, ACCESS_READ);
    bind_rows(builder, 3, &v[OPERAND(rope, output)], ACCESS_WRITE);
    push(builder, bind_view(builder, 1, &v[OPERAND(rope, positions)], ACCESS_READ));
    push_float(builder, args->magnitude == 0 ? 1 : args->magnitude);
    bind_range(builder, 2, table, 0, table->size, ACCESS_CONSTANT);
    spread(builder, (input->ne[0] - args->n_dims / 2) * input->ne[1] * input->ne[2]);
    return add(builder);
}

static int norm(struct builder *builder, const struct gpu_call *call)
{
    const struct gpu_view *v = call->views, *input = &v[OPERAND(norm, input)],
                          *weight = &v[OPERAND(norm, weight)], *bias = &v[OPERAND(norm, bias)];
    enum shader shader = builder->device->subgroups ? SHADER_NORM_SUBGROUPS : SHADER_NORM;
    builder->dispatch.key = (struct pipeline_key){
        .shader = shader,
        .constants = {NORM_LANES, weight->present, bias->present, call->args.norm.kind == ENGINE_NORM_LAYER}};
    push(builder, input->ne[0]);
    push(builder, input->ne[1]);
    push(builder, input->ne[2]);
    bind_rows(builder, 0, input, ACCESS_READ);
    bind_rows(builder, 2, &v[OPERAND(norm, output)], ACCESS_WRITE);
    push_float(builder, call->args.norm.epsilon);
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
    push(builder, output->ne[0]);
    push(builder, output->ne[1]);
    push(builder, output->ne[2]);
    bind_rows(builder, 0, a, ACCESS_READ);
    bind_rows(builder, 2, output, ACCESS_WRITE);
    push(builder, b->present ? bind_values(builder, 1, b) : 0);
    push(builder, b->present ? stride(b, 0) : 0);
    push(builder, b->present ? stride(b, 1) : 0);
    push(builder, b->present ? stride(b, 2) : 0);
    push(builder, a->ne[0]);
    push_float(builder, args ? args->limit : 0);
    push_float(builder, args ? args->alpha : 0);
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
    push(builder, logits->ne[0]);
    push(builder, logits->ne[1]);
    push(builder, v[OPERAND(route, ids)].ne[0]);
    push(builder, args->n_groups > 1 ? args->n_groups : 1);
    push(builder, args->n_groups > 1 ? args->n_groups_used : 1);
    push(builder, bind_view(builder, 0, logits, ACCESS_READ));
    push(builder, stride(logits, 1));
    push(builder, bind_view(builder, 2, &v[OPERAND(route, ids)], ACCESS_WRITE));
    push(builder, stride(&v[OPERAND(route, ids)], 1));
    push(builder, bind_view(builder, 3, &v[OPERAND(route, weights)], ACCESS_WRITE));
    push(builder, stride(&v[OPERAND(route, weights)], 1));
    push_float(builder, args->floor);
    push_float(builder, args->scale == 0 ? 1 : args->scale);
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
    push(builder, output->ne[0]);
    push(builder, output->ne[1]);
    uint32_t first_row = builder->n_push;
    push(builder, 0);
    push(builder, source->ne[1]);
    push(builder, weight ? 0 : bind_view(builder, 0, source, ACCESS_READ));
    push(builder, weight ? 0 : stride(source, 1));
    push(builder, bind_view(builder, 2, &v[OPERAND(get_rows, rows)], ACCESS_READ));
    push(builder, bind_view(builder, 3, output, ACCESS_WRITE));
    push(builder, stride(output, 1));
    spread(builder, (output->ne[0] + 31) / 32 * output->ne[1]);
    if (!weight) return add(builder);
    uint64_t part = panels_in_part(builder->device, weight);
    for (uint64_t panel = 0; panel < weight->n_panels; panel += part) {
        uint64_t count = weight->n_panels - panel < part ? weight->n_panels - panel : part;
        bind_panels(builder, 0, weight, panel, count);
        builder->dispatch.push[first_row] = (uint32_t)(panel * PANEL_ROWS);
        builder->dispatch.push[first_row + 1] = (uint32_t)(count * PANEL_ROWS);
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
    return builders[op](&builder, &call);
}

/* ops.c: operations as dispatches of shaders. The push constants are in the order of the shader's Parameters. */
#include <stdlib.h>
#include <string.h>

#include "commands.h"

#define ROW_LANES        64 /* invocations of a workgroup: element-wise operations, */
#define NORM_LANES       64 /* norms (a multiple of 4), */
#define ATTENTION_LANES  64 /* attention: a multiple of 4 */
#define PANEL_ROWS       32 /* rows in a panel of a weight */
#define MATMUL_FIRST_ROW 3  /* number of a push constant */

/* Attention is split where heads times tokens are few, into parts of that many positions or more. */
#define FEW_HEADS       512
#define MOST_SPLITS     16
#define SPLIT_POSITIONS 256

/* Columns and panels that workgroups of shaders/matmul-*.glsl take. */
#define SUBGROUP_PARTS     4 /* workgroups for a panel */
#define TILED_TOKENS       32
#define TILED_PANELS       2
#define COOPERATIVE_TOKENS 64
#define ADDRESS_TOKENS     8

/* A dispatch that is being put together. */
struct builder {
    struct engine_device *device;
    struct commands *commands;
    struct dispatch dispatch;
    uint32_t n_push;
};

/* ---- Parts of a dispatch ------------------------------------------------------------------------------------------ */

static void push(struct builder *builder, uint64_t value)
{
    builder->dispatch.push[builder->n_push++] = (uint32_t)value;
}

static void push_float(struct builder *builder, float value)
{
    memcpy(&builder->dispatch.push[builder->n_push++], &value, sizeof value);
}

static void bind_range(struct builder *builder, int number, const struct memory_range *range, uint64_t offset,
                       uint64_t size, unsigned access)
{
    builder->dispatch.bindings[number] =
        (struct binding){memory_buffer(range), range->offset + offset, size, access, memory_address(range)};
}

/* Binds a tensor in a buffer. Returns the word at which it begins in the binding. */
static uint32_t bind_view(struct builder *builder, int number, const struct gpu_view *view, unsigned access)
{
    uint64_t start = view->offset & ~(uint64_t)255, end = (view->offset + view->bytes + 15) & ~(uint64_t)15;
    bind_range(builder, number, &view->buffer->range, start, end - start, access);
    return (uint32_t)((view->offset - start) / 4);
}

/* The stride of a dimension in words; 0 where there is just one element. */
static uint32_t stride(const struct gpu_view *view, int dimension)
{
    return view->ne[dimension] == 1 ? 0 : (uint32_t)(view->nb[dimension] / 4);
}

/* Binds a tensor and pushes its offset and strides. */
static void bind_rows(struct builder *builder, int number, const struct gpu_view *view, unsigned access)
{
    push(builder, bind_view(builder, number, view, access));
    push(builder, stride(view, 1));
    push(builder, stride(view, 2));
}

/* Binds plain values: a weight or an activation. Returns the word at which they begin. */
static uint32_t bind_values(struct builder *builder, int number, const struct gpu_view *view)
{
    if (!view->weight) return bind_view(builder, number, view, ACCESS_READ);
    bind_range(builder, number, &view->weight->range, 0, memory_size(view->ne[0] * view->ne[1] * 4),
               ACCESS_CONSTANT);
    return 0;
}

static uint32_t least(uint64_t a, uint32_t b)
{
    return a < b ? (uint32_t)a : b;
}

/* Workgroups for `n` elements; kernels go on in strides where that is more than a device takes. */
static void spread(struct builder *builder, uint64_t n)
{
    builder->dispatch.key.constants[0] = ROW_LANES;
    builder->dispatch.groups[0] = least((n + ROW_LANES - 1) / ROW_LANES, builder->device->max_groups[0]);
    builder->dispatch.groups[1] = 1;
}

static int add(struct builder *builder)
{
    return commands_dispatch(builder->commands, &builder->dispatch);
}

/* ---- Weights in parts --------------------------------------------------------------------------------------------- */

/* Panels of a weight that can be bound at once: an even number, so that parts begin where bindings may. */
static uint64_t panels_in_part(const struct engine_device *device, const struct engine_weight *weight)
{
    uint64_t panels = device->max_range / weight->panel_size;
    uint64_t most = device->max_groups[0] / SUBGROUP_PARTS;
    if (panels > most) panels = most;
    if (panels >= weight->n_panels) return weight->n_panels;
    return panels & ~(uint64_t)1;
}

/* Binds panels first … first+count-1 as bindings number (values) and number+1 (scales). */
static void bind_panels(struct builder *builder, int number, const struct engine_weight *weight,
                        uint64_t first, uint64_t count)
{
    bind_range(builder, number, &weight->range, first * weight->panel_size, count * weight->panel_size,
               ACCESS_CONSTANT);
    if (weight->scale_size)
        bind_range(builder, number + 1, &weight->range,
                   weight->n_panels * weight->panel_size + first * weight->scale_size,
                   count * weight->scale_size, ACCESS_CONSTANT);
}

/* ---- Matmul ------------------------------------------------------------------------------------------------------- */

/* A form of shaders/matmul.comp. */
struct matmul_form {
    enum shader shader;
    uint32_t tokens, panels; /* of a workgroup */
    uint32_t parts;          /* workgroups for those */
};

static struct matmul_form matmul_form(const struct engine_device *device, uint32_t type, uint32_t tokens)
{
    enum shader first = weight_type(type)->first;
    if (tokens == 1 && device->shuffles && !device->addresses)
        return (struct matmul_form){first + MATMUL_ONE_SUBGROUPS, 1, 1, SUBGROUP_PARTS};
    if (tokens == 1)
        return (struct matmul_form){first + (device->addresses ? MATMUL_ONE_ADDRESS : MATMUL_ONE), 1, 1, 1};
    if (device->addresses) return (struct matmul_form){first + MATMUL_MANY_ADDRESS, ADDRESS_TOKENS, 1, 1};
    if (device->cooperative && type != ENGINE_TYPE_F32)
        return (struct matmul_form){first + MATMUL_COOPERATIVE, COOPERATIVE_TOKENS, TILED_PANELS, 1};
    enum shader tiled = first + MATMUL_TILED;
    if (device->dot && type == ENGINE_TYPE_Q8_0)
        tiled = SHADER_MATMUL_Q8_0_DOT;
    else if (device->dot && type == ENGINE_TYPE_Q4_0)
        tiled = SHADER_MATMUL_Q4_0_DOT;
    else if (device->half && type != ENGINE_TYPE_F32 &&
             type != ENGINE_TYPE_F16) /* those are exact as they are */
        tiled = first + MATMUL_HALF;
    return (struct matmul_form){tiled, TILED_TOKENS, TILED_PANELS, 1};
}

/* The constants of shaders/matmul-cooperative.glsl. */
static void set_matrices(struct builder *builder)
{
    const struct cooperative *sizes = &builder->device->physical->cooperative;
    struct pipeline_key *key = &builder->dispatch.key;
    key->constants[6] = sizes->rows;
    key->constants[7] = sizes->columns;
    key->constants[8] = sizes->depth;
    key->constants[9] = sizes->region_rows;
    key->constants[10] = sizes->region_columns;
    key->full_subgroups = 1;
    key->subgroup_size = sizes->subgroup;
}

/* Pushes where a binding begins. */
static void push_address(struct builder *builder, int number)
{
    const struct binding *binding = &builder->dispatch.bindings[number];
    uint64_t address = binding->address ? binding->address + binding->offset : 0;
    push(builder, address & UINT32_MAX);
    push(builder, address >> 32);
}

/* Adds the dispatches of a matmul that is put together but for its weights: one for each part that can be bound. Parts
 * write other rows than those before them, but wait for them all the same: that is little beside reading a binding full of
 * weights. */
static int add_parts(struct builder *builder, const struct matmul_form *form,
                     const struct engine_weight *weight, const struct engine_weight *gate)
{
    uint64_t part = panels_in_part(builder->device, weight);
    uint32_t n_push = builder->n_push;
    for (uint64_t panel = 0; panel < weight->n_panels; panel += part) {
        uint64_t count = weight->n_panels - panel < part ? weight->n_panels - panel : part;
        bind_panels(builder, 0, weight, panel, count);
        if (gate) bind_panels(builder, 2, gate, panel, count);
        builder->dispatch.push[MATMUL_FIRST_ROW] = (uint32_t)(panel * PANEL_ROWS);
        builder->dispatch.groups[0] = (uint32_t)((count + form->panels - 1) / form->panels) * form->parts;
        builder->n_push = n_push + 1; /* addresses are in pairs of words */
        for (int number = 0; number < 5 && builder->device->addresses; number++)
            push_address(builder, number);
        int status = add(builder);
        if (status) return status;
    }
    return ENGINE_OK;
}

static int matmul(struct builder *builder, const struct gpu_call *call)
{
    const struct gpu_view *v = call->views, *input = &v[GPU_MATMUL_INPUT], *output = &v[GPU_MATMUL_OUTPUT];
    const struct gpu_view *residual = &v[GPU_MATMUL_RESIDUAL];
    const struct engine_weight *gate = v[GPU_MATMUL_GATE].weight;
    uint32_t k = (uint32_t)input->ne[0], rows = (uint32_t)output->ne[0], tokens = (uint32_t)input->ne[1];
    struct matmul_form form = matmul_form(builder->device, v[GPU_MATMUL_WEIGHT].type, tokens);
    bool aligned = input->offset % 16 == 0 && (tokens == 1 || input->nb[1] % 16 == 0);

    builder->dispatch.key = (struct pipeline_key){
        .shader = form.shader,
        .constants = {builder->device->k_slices, aligned, gate != NULL, v[GPU_MATMUL_BIAS].present,
                      residual->present, call->args.matmul.activation, builder->device->unrolled},
        .full_subgroups = form.parts > 1};
    if (form.shader == weight_type(v[GPU_MATMUL_WEIGHT].type)->first + MATMUL_COOPERATIVE)
        set_matrices(builder);
    push(builder, k);
    push(builder, rows);
    push(builder, tokens);
    push(builder, 0); /* MATMUL_FIRST_ROW */
    push(builder, bind_view(builder, 4, input, ACCESS_READ));
    push(builder, stride(input, 1));
    push(builder, bind_view(builder, 5, output, ACCESS_WRITE));
    push(builder, stride(output, 1));
    push(builder, residual->present ? bind_view(builder, 7, residual, ACCESS_READ) : 0);
    push(builder, residual->present ? stride(residual, 1) : 0);
    push_float(builder, call->args.matmul.scale == 0 ? 1 : call->args.matmul.scale);
    if (v[GPU_MATMUL_BIAS].present) bind_values(builder, 6, &v[GPU_MATMUL_BIAS]);

    uint64_t groups = (tokens + (uint64_t)form.tokens - 1) / form.tokens;
    if (groups > builder->device->max_groups[1])
        return vulkan_host->fail(ENGINE_ERROR_UNSUPPORTED, "matmul: %u columns are too many", tokens);
    builder->dispatch.groups[1] = (uint32_t)groups;
    return add_parts(builder, &form, v[GPU_MATMUL_WEIGHT].weight, gate);
}

/* ---- Attention and its cache -------------------------------------------------------------------------------------- */

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

/* How many workgroups share the positions of a head: enough of SPLIT_POSITIONS each, where heads and tokens alone are too
 * few to fill a GPU. The block table's width says how far back tokens may look. */
static uint32_t attention_splits(const struct engine_device *device, const struct gpu_call *call)
{
    const struct gpu_view *q = &call->views[GPU_ATTENTION_Q];
    uint64_t heads = q->ne[1] * q->ne[2];
    uint64_t reach = call->views[GPU_ATTENTION_BLOCK_TABLE].ne[0] * call->views[GPU_ATTENTION_K].ne[1];
    if (call->args.attention.window > 0) reach = least(reach, call->args.attention.window);
    if (call->args.attention.chunk > 0) reach = least(reach, call->args.attention.chunk);
    if (!device->splits || heads > FEW_HEADS || q->ne[1] * MOST_SPLITS > device->max_groups[0]) return 1;
    uint64_t splits = reach / SPLIT_POSITIONS;
    return splits < 1 ? 1 : least(splits, MOST_SPLITS);
}

/* Scratch memory of a split attention: enough for as many tokens and splits as these heads are ever split for, so that it
 * doesn't grow as contexts do. */
static uint64_t attention_scratch(const struct gpu_call *call)
{
    uint64_t n_heads = call->views[GPU_ATTENTION_Q].ne[1], tokens = FEW_HEADS / n_heads;
    return n_heads * tokens * MOST_SPLITS * (call->views[GPU_ATTENTION_V].ne[0] + 2) * 4;
}

/* The second half of a split attention. */
static int join(struct builder *builder, const struct gpu_call *call, const struct memory_range *parts)
{
    const struct gpu_view *v = call->views, *q = &v[GPU_ATTENTION_Q];
    struct builder second = {.device = builder->device, .commands = builder->commands};
    second.dispatch.key = builder->dispatch.key;
    second.dispatch.key.shader = SHADER_ATTENTION_JOIN;
    second.dispatch.key.constants[1] = second.dispatch.key.constants[2] = 0;
    second.dispatch.key.constants[5] = second.dispatch.key.constants[7] = 0;
    push(&second, q->ne[1]);
    push(&second, q->ne[2]);
    push(&second, bind_view(&second, 5, &v[GPU_ATTENTION_POSITIONS], ACCESS_READ));
    bind_rows(&second, 6, &v[GPU_ATTENTION_OUTPUT], ACCESS_WRITE);
    bind_range(&second, 7, parts, 0, parts->size, ACCESS_READ);
    second.dispatch.bindings[0] = second.dispatch.bindings[5]; /* stands in for those that aren't used */
    if (v[GPU_ATTENTION_SINKS].present) bind_values(&second, 0, &v[GPU_ATTENTION_SINKS]);
    second.dispatch.groups[0] = (uint32_t)q->ne[1];
    second.dispatch.groups[1] = builder->dispatch.groups[1];
    return add(&second);
}

static int attention(struct builder *builder, const struct gpu_call *call)
{
    const struct gpu_view *v = call->views, *q = &v[GPU_ATTENTION_Q], *k = &v[GPU_ATTENTION_K];
    const struct gpu_view *slopes = &v[GPU_ATTENTION_SLOPES], *sinks = &v[GPU_ATTENTION_SINKS];
    const struct engine_op_attention *args = &call->args.attention;
    uint32_t value_dim = (uint32_t)v[GPU_ATTENTION_V].ne[0], splits = attention_splits(builder->device, call);
    const struct memory_range *parts = NULL;
    if (splits > 1) {
        int status = scratch_get(builder->device, attention_scratch(call), &parts);
        if (status) return status;
        bind_range(builder, 7, parts, 0, parts->size, ACCESS_WRITE);
    }
    builder->dispatch.key = (struct pipeline_key){
        .shader = attention_shader(builder->device, k->type, v[GPU_ATTENTION_V].type),
        .constants = {ATTENTION_LANES, (value_dim + ATTENTION_LANES - 1) / ATTENTION_LANES,
                      (uint32_t)q->ne[0], splits, value_dim, slopes->present, sinks->present,
                      args->softcap > 0}};
    push(builder, q->ne[1]);
    push(builder, k->ne[2]);
    push(builder, q->ne[2]);
    push(builder, k->ne[1]);
    push(builder, stride(&v[GPU_ATTENTION_BLOCK_TABLE], 1));
    bind_rows(builder, 0, q, ACCESS_READ);
    push(builder, bind_view(builder, 1, k, ACCESS_READ));
    push(builder, bind_view(builder, 2, &v[GPU_ATTENTION_V], ACCESS_READ));
    push(builder, bind_view(builder, 3, &v[GPU_ATTENTION_BLOCK_TABLE], ACCESS_READ));
    push(builder, bind_view(builder, 4, &v[GPU_ATTENTION_SEQUENCES], ACCESS_READ));
    push(builder, bind_view(builder, 5, &v[GPU_ATTENTION_POSITIONS], ACCESS_READ));
    bind_rows(builder, 6, &v[GPU_ATTENTION_OUTPUT], ACCESS_WRITE);
    push_float(builder, args->scale);
    push(builder, args->window);
    push(builder, args->chunk);
    push_float(builder, args->softcap);
    push(builder, call->value_step / (v[GPU_ATTENTION_V].type == ENGINE_TYPE_F32   ? 4
                                      : v[GPU_ATTENTION_V].type == ENGINE_TYPE_F16 ? 2
                                                                                   : 1));
    if (sinks->present && splits == 1) bind_values(builder, 7, sinks);
    if (slopes->present) bind_values(builder, 8, slopes);
    if (q->ne[1] > builder->device->max_groups[0])
        return vulkan_host->fail(ENGINE_ERROR_UNSUPPORTED, "attention: too many heads");
    builder->dispatch.groups[0] = (uint32_t)q->ne[1] * splits;
    builder->dispatch.groups[1] = least(q->ne[2], builder->device->max_groups[1]);
    int status = add(builder);
    return status || splits == 1 ? status : join(builder, call, parts);
}

static int cache_write(struct builder *builder, const struct gpu_call *call)
{
    const struct gpu_view *v = call->views, *input = &v[GPU_CACHE_WRITE_INPUT],
                          *cache = &v[GPU_CACHE_WRITE_CACHE];
    uint64_t step = cache->type == ENGINE_TYPE_F32 ? 1 : cache->type == ENGINE_TYPE_F16 ? 2 : 32;
    builder->dispatch.key.shader = cache->type == ENGINE_TYPE_F32   ? SHADER_CACHE_WRITE_F32
                                   : cache->type == ENGINE_TYPE_F16 ? SHADER_CACHE_WRITE_F16
                                                                    : SHADER_CACHE_WRITE_Q8_0;
    push(builder, input->ne[0]);
    push(builder, input->ne[1]);
    push(builder, input->ne[2]);
    push(builder, cache->ne[1]);
    bind_rows(builder, 0, input, ACCESS_READ);
    push(builder, bind_view(builder, 1, &v[GPU_CACHE_WRITE_SLOTS], ACCESS_READ));
    push(builder, bind_view(builder, 2, cache, ACCESS_READ | ACCESS_WRITE));
    spread(builder, input->ne[0] / step * input->ne[1] * input->ne[2]);
    return add(builder);
}

/* ---- Rows --------------------------------------------------------------------------------------------------------- */

static int rope(struct builder *builder, const struct gpu_call *call)
{
    const struct gpu_view *v = call->views, *input = &v[GPU_ROPE_INPUT];
    const struct engine_op_rope *args = &call->args.rope;
    const struct memory_range *table;
    int status = rope_table_get(builder->device, args, v[GPU_ROPE_FACTORS].weight, &table);
    if (status) return status;
    builder->dispatch.key.shader = SHADER_ROPE;
    builder->dispatch.key.constants[1] = args->pairs == ENGINE_ROPE_HALVES;
    push(builder, input->ne[0]);
    push(builder, input->ne[1]);
    push(builder, input->ne[2]);
    push(builder, args->n_dims);
    bind_rows(builder, 0, input, ACCESS_READ);
    bind_rows(builder, 3, &v[GPU_ROPE_OUTPUT], ACCESS_WRITE);
    push(builder, bind_view(builder, 1, &v[GPU_ROPE_POSITIONS], ACCESS_READ));
    push_float(builder, args->magnitude == 0 ? 1 : args->magnitude);
    bind_range(builder, 2, table, 0, table->size, ACCESS_CONSTANT);
    spread(builder, (input->ne[0] - args->n_dims / 2) * input->ne[1] * input->ne[2]);
    return add(builder);
}

static int norm(struct builder *builder, const struct gpu_call *call)
{
    const struct gpu_view *v = call->views, *input = &v[GPU_NORM_INPUT], *weight = &v[GPU_NORM_WEIGHT],
                          *bias = &v[GPU_NORM_BIAS];
    enum shader shader = builder->device->subgroups ? SHADER_NORM_SUBGROUPS : SHADER_NORM;
    builder->dispatch.key = (struct pipeline_key){
        .shader = shader,
        .constants = {NORM_LANES, weight->present, bias->present, call->args.norm.kind == ENGINE_NORM_LAYER}};
    push(builder, input->ne[0]);
    push(builder, input->ne[1]);
    push(builder, input->ne[2]);
    bind_rows(builder, 0, input, ACCESS_READ);
    bind_rows(builder, 2, &v[GPU_NORM_OUTPUT], ACCESS_WRITE);
    push_float(builder, call->args.norm.epsilon);
    if (weight->present) bind_values(builder, 1, weight);
    if (bias->present) bind_values(builder, 3, bias);
    builder->dispatch.groups[0] = least(input->ne[1] * input->ne[2], builder->device->max_groups[0]);
    builder->dispatch.groups[1] = 1;
    return add(builder);
}

/* What b of shaders/rows.comp is for. */
enum { B_ABSENT, B_SUMMAND, B_FACTOR, B_BEHIND };

/* ENGINE_OP_ADD, MUL, ACTIVATE and CONCAT, whose operands are in the same order. b may be one row or one number for each
 * row, which is repeated, or absent. */
static int rows(struct builder *builder, const struct gpu_call *call)
{
    const struct gpu_view *v = call->views, *a = &v[GPU_BINARY_A], *b = &v[GPU_BINARY_B],
                          *output = &v[GPU_BINARY_OUTPUT];
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

/* ---- Get rows ----------------------------------------------------------------------------------------------------- */

static int get_rows(struct builder *builder, const struct gpu_call *call)
{
    const struct gpu_view *v = call->views, *source = &v[GPU_GET_ROWS_SOURCE],
                          *output = &v[GPU_GET_ROWS_OUTPUT];
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
    push(builder, bind_view(builder, 2, &v[GPU_GET_ROWS_ROWS], ACCESS_READ));
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

/* ------------------------------------------------------------------------------------------------------------------ */

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

/* Scratch memory; rope's angles, which stay beside it, are in either operation's answer, as only the largest counts. */
int op_memory(struct engine_device *device, uint32_t op, const void *args, uint64_t *bytes)
{
    struct gpu_request request = make_request(device, true);
    struct gpu_call call;
    int status = gpu_check(&request, op, args, &call);
    if (status) return vulkan_host->fail(status, "memory of an operation that isn't supported");
    *bytes = op == ENGINE_OP_ROPE || op == ENGINE_OP_ATTENTION ? SMALL_MEMORY : 0;
    if (op == ENGINE_OP_ATTENTION && attention_splits(device, &call) > 1)
        *bytes += memory_size(attention_scratch(&call));
    return ENGINE_OK;
}

int op_append(struct engine_device *device, struct commands *commands, uint32_t op, const void *args)
{
    struct gpu_request request = make_request(device, false);
    struct gpu_call call;
    struct builder builder = {.device = device, .commands = commands};
    int status = gpu_check(&request, op, args, &call);
    if (status) return status;
    switch (op) {
    case ENGINE_OP_MATMUL: return matmul(&builder, &call);
    case ENGINE_OP_ATTENTION: return attention(&builder, &call);
    case ENGINE_OP_CACHE_WRITE: return cache_write(&builder, &call);
    case ENGINE_OP_ROPE: return rope(&builder, &call);
    case ENGINE_OP_NORM: return norm(&builder, &call);
    case ENGINE_OP_GET_ROWS: return get_rows(&builder, &call);
    default: return rows(&builder, &call);
    }
}

/* ops.c: operations as launches of kernels. The parameter structs are those of the kernels' sources, word for word. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "launch.h"

#define GROUP      64u /* work-items of a group: rows, norms, attention */
#define ONE_SLICES 4u  /* that share out a long sum, where one column is multiplied */
#define GROUP_ROWS 128
#define MOST_HEADS 8 /* of a work-item of attention */
#define CHUNK      32
#define ITEMS_EACH 4 /* work-items of element-wise kernels for each of a processor's units */

/* A launch that is being put together. */
struct builder {
    struct engine_device *device;
    struct launches *recording;
    struct launch launch;
};

/* ---- Parts of a launch --------------------------------------------------------------------------------------------- */

static uint32_t add_memory(struct builder *builder, cl_mem memory)
{
    builder->launch.memories[builder->launch.n_memories++] = memory;
    return 0;
}

static void add_scratch(struct builder *builder, uint64_t size)
{
    builder->launch.scratch_size = size;
    builder->launch.scratch |= 1u << builder->launch.n_memories;
    add_memory(builder, NULL);
}

/* Adds a tensor in a buffer. Returns the word at which it begins. */
static uint32_t add_view(struct builder *builder, const struct gpu_view *view)
{
    add_memory(builder, view->buffer->memory);
    return (uint32_t)(view->offset / 4);
}

/* Adds plain values: a weight, a row of an activation, or nothing. Returns the word at which they begin. */
static uint32_t add_values(struct builder *builder, const struct gpu_view *view)
{
    if (!view->present) return add_memory(builder, NULL);
    return view->weight ? add_memory(builder, view->weight->parts[0].memory) : add_view(builder, view);
}

/* The stride of a dimension in words; 0 where there is just one element. */
static uint32_t stride(const struct gpu_view *view, int dimension)
{
    return view->ne[dimension] == 1 ? 0 : (uint32_t)(view->nb[dimension] / 4);
}

struct shape {
    uint32_t n, n1, n2;
};

struct rows_view {
    uint32_t offset, stride1, stride2;
};

static struct shape shape_of(const struct gpu_view *view)
{
    return (struct shape){(uint32_t)view->ne[0], (uint32_t)view->ne[1], (uint32_t)view->ne[2]};
}

static struct rows_view rows_view(uint32_t offset, const struct gpu_view *view)
{
    return (struct rows_view){offset, stride(view, 1), stride(view, 2)};
}

static void set_parameters(struct builder *builder, const void *parameters, size_t size)
{
    memcpy(builder->launch.parameters, parameters, size);
    builder->launch.parameters_size = (uint32_t)size;
}

static int get_kernel(struct builder *builder, enum source source, const char *options, const char *name,
                      size_t group_size)
{
    return kernel_get(builder->device, source, options, name, group_size, &builder->launch.kernel);
}

static void set_size(struct builder *builder, uint32_t n_dimensions, size_t groups0, size_t groups1,
                     size_t group0, size_t group1)
{
    struct launch *launch = &builder->launch;
    launch->n_dimensions = n_dimensions;
    launch->group[0] = group0, launch->group[1] = group1;
    launch->global[0] = groups0 * group0, launch->global[1] = groups1 * group1;
}

/* Work-items for `items`; element-wise kernels go on in strides where those are fewer. */
static void spread(struct builder *builder, uint64_t items)
{
    const struct engine_device *device = builder->device;
    uint64_t most = device->vectors ? (uint64_t)device->listed->units * ITEMS_EACH : (uint64_t)1 << 20;
    uint64_t group = device->vectors ? 1 : GROUP, groups = (items + group - 1) / group;
    set_size(builder, 1, (size_t)(groups < most ? groups : most), 1, (size_t)group, 1);
}

/* Runs the launch or keeps it. */
static int finish(struct builder *builder)
{
    struct launches *recording = builder->recording;
    if (!recording) return launch_run(builder->device, &builder->launch);
    if (recording->count == recording->room) {
        size_t room = 2 * recording->room + 16;
        struct launch *items = realloc(recording->items, room * sizeof *items);
        if (!items) return opencl_host->fail(ENGINE_ERROR_MEMORY, "no memory for a recording");
        recording->items = items;
        recording->room = room;
    }
    recording->items[recording->count++] = builder->launch;
    return ENGINE_OK;
}

static struct builder another(const struct builder *builder)
{
    return (struct builder){.device = builder->device, .recording = builder->recording};
}

/* ---- Matmul -------------------------------------------------------------------------------------------------------- */

/* How a matmul is cut up. Its tiles are in scratch memory: 32 values for each chunk and column, and behind them, where
 * these are bytes, 16 bytes about each. */
struct matmul_form {
    uint32_t tokens; /* columns of a tile */
    bool integers;
    uint32_t n_chunks;
    uint64_t about; /* where that begins, in bytes */
    uint64_t size;  /* of the tiles, in bytes */
};

static bool is_plain(uint32_t type)
{
    return type == ENGINE_TYPE_F32 || type == ENGINE_TYPE_F16 || type == ENGINE_TYPE_BF16;
}

/* Puts the columns into tiles. */
static int tile_inputs(const struct builder *builder, const struct gpu_view *input,
                       const struct matmul_form *form)
{
    struct builder tiles = another(builder);
    uint64_t tokens = input->ne[1];
    struct {
        uint32_t k, tokens, n_chunks, tile;
        uint32_t input_offset, input_stride, about_offset;
    } p = {.k = (uint32_t)input->ne[0],
           .tokens = (uint32_t)tokens,
           .n_chunks = form->n_chunks,
           .tile = form->tokens,
           .input_stride = stride(input, 1),
           .about_offset = (uint32_t)(form->about / 16)};
    p.input_offset = add_view(&tiles, input);
    add_scratch(&tiles, form->size);
    if (form->integers) add_scratch(&tiles, form->size);
    set_parameters(&tiles, &p, sizeof p);
    spread(&tiles, form->n_chunks * tokens);
    int status = get_kernel(&tiles, SOURCE_INPUTS, "", form->integers ? "tile_bytes" : "tile_floats",
                            builder->device->vectors ? 1 : GROUP);
    return status ? status : finish(&tiles);
}

static struct matmul_form matmul_form(const struct engine_device *device, const struct gpu_view *input,
                                      uint32_t type)
{
    struct matmul_form form = {.tokens = 1, .n_chunks = (uint32_t)((input->ne[0] + CHUNK - 1) / CHUNK)};
    form.integers = device->integers && !is_plain(type);
    if (input->ne[1] > 1) form.tokens = !device->vectors ? 16 : form.integers ? 32 : 16;
    uint64_t places = (input->ne[1] + form.tokens - 1) / form.tokens * form.tokens * form.n_chunks;
    form.about = form.integers ? places * CHUNK : 0;
    form.size = form.integers ? places * (CHUNK + 16) : places * CHUNK * sizeof(float);
    return form;
}

static void size_matmul(struct builder *builder, const struct matmul_form *form, uint64_t panels,
                        uint64_t tiles)
{
    if (builder->device->vectors)
        set_size(builder, 2, (size_t)tiles, (size_t)panels, 1, 1);
    else if (form->tokens == 1)
        set_size(builder, 2, (size_t)panels, 1, PANEL_ROWS, ONE_SLICES);
    else
        set_size(builder, 2, (size_t)(panels * PANEL_ROWS + GROUP_ROWS - 1) / GROUP_ROWS, (size_t)tiles,
                 GROUP_ROWS, 1);
}

static int matmul(struct builder *builder, const struct gpu_call *call)
{
    const struct gpu_view *v = call->views, *input = &v[GPU_MATMUL_INPUT], *output = &v[GPU_MATMUL_OUTPUT];
    const struct gpu_view *residual = &v[GPU_MATMUL_RESIDUAL], *bias = &v[GPU_MATMUL_BIAS];
    const struct engine_weight *weight = v[GPU_MATMUL_WEIGHT].weight, *gate = v[GPU_MATMUL_GATE].weight;
    struct matmul_form form = matmul_form(builder->device, input, weight->base.type);
    char options[128];
    int status = tile_inputs(builder, input, &form);
    snprintf(options, sizeof options, "-DTYPE=%u -DTOKENS=%u -DSLICES=%u %s", weight->base.type, form.tokens,
             ONE_SLICES,
             form.integers ? "-DINTEGERS -DINPUT=int -DINPUT_WORDS=8" : "-DINPUT=float -DINPUT_WORDS=32");
    if (!status)
        status =
            get_kernel(builder, SOURCE_MATMUL, options, "matmul", builder->device->vectors ? 1 : GROUP_ROWS);
    struct {
        uint32_t n_chunks, rows, tokens;
        uint32_t first_row, end_row;
        uint32_t output_offset, output_stride;
        uint32_t residual_offset, residual_stride, about_offset;
        uint32_t has_gate, has_bias, has_residual, is_silu;
        float scale;
    } p = {.n_chunks = form.n_chunks,
           .rows = (uint32_t)output->ne[0],
           .tokens = (uint32_t)input->ne[1],
           .output_offset = (uint32_t)(output->offset / 4),
           .output_stride = stride(output, 1),
           .residual_offset = (uint32_t)(residual->offset / 4),
           .residual_stride = residual->present ? stride(residual, 1) : 0,
           .about_offset = (uint32_t)(form.about / 16),
           .has_gate = gate != NULL,
           .has_bias = bias->present,
           .has_residual = residual->present,
           .is_silu = call->args.matmul.activation == ENGINE_ACTIVATION_SILU,
           .scale = call->args.matmul.scale == 0 ? 1 : call->args.matmul.scale};
    for (uint32_t i = 0; i < weight->n_parts && !status; i++) {
        const struct weight_part *part = &weight->parts[i];
        builder->launch.n_memories = 0;
        add_memory(builder, part->memory);
        add_memory(builder, gate ? gate->parts[i].memory : NULL);
        add_scratch(builder, form.size);
        add_scratch(builder, form.size);
        add_memory(builder, bias->present ? bias->weight->parts[0].memory : NULL);
        add_memory(builder, residual->present ? residual->buffer->memory : NULL);
        add_memory(builder, output->buffer->memory);
        p.first_row = (uint32_t)(part->first_panel * PANEL_ROWS);
        uint64_t end = (part->first_panel + part->n_panels) * PANEL_ROWS;
        p.end_row = end < p.rows ? (uint32_t)end : p.rows;
        set_parameters(builder, &p, sizeof p);
        size_matmul(builder, &form, part->n_panels, (p.tokens + form.tokens - 1) / form.tokens);
        status = finish(builder);
    }
    return status;
}

/* ---- Attention and its cache --------------------------------------------------------------------------------------- */

static int attention(struct builder *builder, const struct gpu_call *call)
{
    const struct gpu_view *v = call->views, *q = &v[GPU_ATTENTION_Q], *k = &v[GPU_ATTENTION_K];
    const struct gpu_view *output = &v[GPU_ATTENTION_OUTPUT];
    uint32_t n_heads = (uint32_t)q->ne[1], shared = n_heads / (uint32_t)k->ne[2], heads = 1;
    char options[128];
    for (uint32_t n = 2; n <= MOST_HEADS; n++)
        if (builder->device->vectors && shared % n == 0) heads = n;
    snprintf(options, sizeof options, "-DTYPE_K=%u -DTYPE_V=%u -DHEAD_DIM=%u -DHEADS=%u -DGROUP=%u", k->type,
             v[GPU_ATTENTION_V].type, (unsigned)q->ne[0], heads, GROUP);
    int status =
        get_kernel(builder, SOURCE_ATTENTION, options, "attention", builder->device->vectors ? 1 : GROUP);
    if (status) return status;
    struct {
        uint32_t n_heads, n_kv_heads, n_tokens, block_size, table_stride;
        uint32_t q_offset, q_stride1, q_stride2;
        uint32_t k_offset, v_offset, table_offset, sequences_offset, positions_offset;
        uint32_t output_offset, output_stride1, output_stride2;
        float scale;
        uint32_t window;
    } p = {.n_heads = n_heads,
           .n_kv_heads = (uint32_t)k->ne[2],
           .n_tokens = (uint32_t)q->ne[2],
           .block_size = (uint32_t)k->ne[1],
           .table_stride = stride(&v[GPU_ATTENTION_BLOCK_TABLE], 1),
           .q_stride1 = stride(q, 1),
           .q_stride2 = stride(q, 2),
           .output_stride1 = stride(output, 1),
           .output_stride2 = stride(output, 2),
           .scale = call->args.attention.scale,
           .window = call->args.attention.window};
    p.q_offset = add_view(builder, q);
    p.k_offset = add_view(builder, k);
    p.v_offset = add_view(builder, &v[GPU_ATTENTION_V]);
    p.table_offset = add_view(builder, &v[GPU_ATTENTION_BLOCK_TABLE]);
    p.sequences_offset = add_view(builder, &v[GPU_ATTENTION_SEQUENCES]);
    p.positions_offset = add_view(builder, &v[GPU_ATTENTION_POSITIONS]);
    p.output_offset = add_view(builder, output);
    set_parameters(builder, &p, sizeof p);
    set_size(builder, 1, (size_t)(n_heads / heads * q->ne[2]), 1, builder->device->vectors ? 1 : GROUP, 1);
    return finish(builder);
}

/* Kernels of rows.cl. */
static int rows_kernel(struct builder *builder, const char *name)
{
    char options[32];
    snprintf(options, sizeof options, "-DGROUP=%u", GROUP);
    return get_kernel(builder, SOURCE_ROWS, options, name, builder->device->vectors ? 1 : GROUP);
}

static int cache_write(struct builder *builder, const struct gpu_call *call)
{
    const struct gpu_view *v = call->views, *input = &v[GPU_CACHE_WRITE_INPUT],
                          *cache = &v[GPU_CACHE_WRITE_CACHE];
    struct {
        struct shape shape;
        struct rows_view input;
        uint32_t slots_offset, block_size;
        uint32_t type, cache_offset;
    } p = {.shape = shape_of(input), .block_size = (uint32_t)cache->ne[1], .type = cache->type};
    p.input = rows_view(add_view(builder, input), input);
    p.slots_offset = add_view(builder, &v[GPU_CACHE_WRITE_SLOTS]);
    p.cache_offset = add_view(builder, cache);
    set_parameters(builder, &p, sizeof p);
    spread(builder, (input->ne[0] + 31) / 32 * input->ne[1] * input->ne[2]);
    int status = rows_kernel(builder, "cache_write");
    return status ? status : finish(builder);
}

/* ---- Rows ---------------------------------------------------------------------------------------------------------- */

static int rope(struct builder *builder, const struct gpu_call *call)
{
    const struct gpu_view *v = call->views, *input = &v[GPU_ROPE_INPUT], *output = &v[GPU_ROPE_OUTPUT];
    const struct engine_op_rope *args = &call->args.rope;
    cl_mem table;
    struct {
        struct shape shape;
        struct rows_view input, output;
        uint32_t n_dims, halves, positions_offset;
    } p = {.shape = shape_of(input), .n_dims = args->n_dims, .halves = args->pairs == ENGINE_ROPE_HALVES};
    int status = rope_table_get(builder->device, args, v[GPU_ROPE_FACTORS].weight, &table);
    if (!status) status = rows_kernel(builder, "rope");
    if (status) return status;
    p.input = rows_view(add_view(builder, input), input);
    p.positions_offset = add_view(builder, &v[GPU_ROPE_POSITIONS]);
    add_memory(builder, table);
    p.output = rows_view(add_view(builder, output), output);
    set_parameters(builder, &p, sizeof p);
    spread(builder, (input->ne[0] - args->n_dims / 2) * input->ne[2]);
    return finish(builder);
}

static int norm(struct builder *builder, const struct gpu_call *call)
{
    const struct gpu_view *v = call->views, *input = &v[GPU_NORM_INPUT], *output = &v[GPU_NORM_OUTPUT];
    uint64_t n_rows = input->ne[1] * input->ne[2];
    struct {
        struct shape shape;
        struct rows_view input, output;
        uint32_t has_weight;
        float epsilon;
    } p = {.shape = shape_of(input),
           .has_weight = v[GPU_NORM_WEIGHT].present,
           .epsilon = call->args.norm.epsilon};
    p.input = rows_view(add_view(builder, input), input);
    add_values(builder, &v[GPU_NORM_WEIGHT]);
    p.output = rows_view(add_view(builder, output), output);
    set_parameters(builder, &p, sizeof p);
    spread(builder, builder->device->vectors ? n_rows : n_rows * GROUP);
    int status = rows_kernel(builder, "norm");
    return status ? status : finish(builder);
}

/* output = a op b; b may be one row that is repeated, or absent. */
static int rows(struct builder *builder, const struct gpu_call *call)
{
    const struct gpu_view *v = call->views, *a = &v[GPU_BINARY_A], *b = &v[GPU_BINARY_B],
                          *output = &v[GPU_BINARY_OUTPUT];
    enum gpu_rows_op op = gpu_rows_op(call);
    uint64_t lanes = builder->device->vectors ? 16 : 1;
    struct {
        struct shape shape;
        struct rows_view a, b, output;
        uint32_t op;
    } p = {.shape = shape_of(a), .op = op};
    p.a = rows_view(add_view(builder, a), a);
    p.b = b->present ? rows_view(add_values(builder, b), b)
                     : (struct rows_view){add_memory(builder, NULL), 0, 0};
    p.output = rows_view(add_view(builder, output), output);
    set_parameters(builder, &p, sizeof p);
    spread(builder, (a->ne[0] + lanes - 1) / lanes * a->ne[1] * a->ne[2]);
    int status = rows_kernel(builder, "rows");
    return status ? status : finish(builder);
}

/* ---- Get rows ------------------------------------------------------------------------------------------------------ */

static int pick_rows(struct builder *builder, const struct gpu_view *source, const struct gpu_view *which,
                     const struct gpu_view *output)
{
    struct {
        uint32_t n, count;
        uint32_t source_offset, source_stride, rows_offset, output_offset, output_stride;
    } p = {.n = (uint32_t)output->ne[0],
           .count = (uint32_t)output->ne[1],
           .source_stride = stride(source, 1),
           .output_stride = stride(output, 1)};
    p.source_offset = add_view(builder, source);
    p.rows_offset = add_view(builder, which);
    p.output_offset = add_view(builder, output);
    set_parameters(builder, &p, sizeof p);
    spread(builder, output->ne[0] * output->ne[1]);
    int status = rows_kernel(builder, "pick_rows");
    return status ? status : finish(builder);
}

static int get_rows(struct builder *builder, const struct gpu_call *call)
{
    const struct gpu_view *v = call->views, *which = &v[GPU_GET_ROWS_ROWS], *output = &v[GPU_GET_ROWS_OUTPUT];
    const struct engine_weight *weight = v[GPU_GET_ROWS_SOURCE].weight;
    char options[32];
    if (!weight) return pick_rows(builder, &v[GPU_GET_ROWS_SOURCE], which, output);
    snprintf(options, sizeof options, "-DTYPE=%u", weight->base.type);
    int status =
        get_kernel(builder, SOURCE_GET_ROWS, options, "get_rows", builder->device->vectors ? 1 : GROUP);
    struct {
        uint32_t n, count;
        uint32_t first_row, end_row;
        uint32_t rows_offset;
        uint32_t output_offset, output_stride;
    } p = {
        .n = (uint32_t)output->ne[0], .count = (uint32_t)output->ne[1], .output_stride = stride(output, 1)};
    for (uint32_t i = 0; i < weight->n_parts && !status; i++) {
        const struct weight_part *part = &weight->parts[i];
        builder->launch.n_memories = 0;
        add_memory(builder, part->memory);
        p.rows_offset = add_view(builder, which);
        p.output_offset = add_view(builder, output);
        p.first_row = (uint32_t)(part->first_panel * PANEL_ROWS);
        p.end_row = (uint32_t)((part->first_panel + part->n_panels) * PANEL_ROWS);
        set_parameters(builder, &p, sizeof p);
        spread(builder, (output->ne[0] + CHUNK - 1) / CHUNK * output->ne[1]);
        status = finish(builder);
    }
    return status;
}

/* -------------------------------------------------------------------------------------------------------------------- */

static struct gpu_request make_request(struct engine_device *device, bool planning)
{
    return (struct gpu_request){opencl_host, device, &device->limits, planning, NULL};
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
    if (status) return opencl_host->fail(status, "memory of an operation that isn't supported");
    *bytes = op == ENGINE_OP_ROPE || op == ENGINE_OP_MATMUL ? SMALL_MEMORY : 0;
    if (op == ENGINE_OP_MATMUL)
        *bytes += matmul_form(device, &call.views[GPU_MATMUL_INPUT], call.views[GPU_MATMUL_WEIGHT].type).size;
    return ENGINE_OK;
}

static int append(struct engine_device *device, struct launches *recording, const struct gpu_call *call)
{
    struct builder builder = {.device = device, .recording = recording};
    switch (call->op) {
    case ENGINE_OP_MATMUL: return matmul(&builder, call);
    case ENGINE_OP_ATTENTION: return attention(&builder, call);
    case ENGINE_OP_CACHE_WRITE: return cache_write(&builder, call);
    case ENGINE_OP_ROPE: return rope(&builder, call);
    case ENGINE_OP_NORM: return norm(&builder, call);
    case ENGINE_OP_GET_ROWS: return get_rows(&builder, call);
    default: return rows(&builder, call);
    }
}

int op_append(struct engine_device *device, struct launches *recording, uint32_t op, const void *args)
{
    struct gpu_request request = make_request(device, false);
    struct gpu_call call;
    int status = gpu_check(&request, op, args, &call);
    if (!status) status = append(device, recording, &call);
    /* Kernels are built before anything of the operation's output is written. */
    return status && device_takes_vectors(device) ? append(device, recording, &call) : status;
}

int op_try(struct engine_device *device)
{
    struct builder builder = {.device = device};
    int status = rows_kernel(&builder, "norm");
    return status && device_takes_vectors(device) ? rows_kernel(&builder, "norm") : status;
}

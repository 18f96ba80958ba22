/* op-attention.c: ENGINE_OP_ATTENTION, in one of two forms: shaders/attention-rows.comp takes the heads of
 * some tokens that read the same keys, shaders/attention.comp a single head of a token. Where a GPU has
 * little to do and contexts are long, several workgroups share the positions, and
 * shaders/attention-join.comp combines their sums. */
#include "builder.h"

#define HEAD_LANES 64  /* invocations of shaders/attention.comp */
#define ROWS_LANES 128 /* of shaders/attention-rows.comp */
#define MAX_ROWS   16  /* that it takes */
#define MAX_GROUPS 8

/* Positions of a part of a split attention, at least; workgroups beyond which nothing is split. */
#define HEAD_POSITIONS 256
#define ROWS_POSITIONS ROWS_LANES
#define ENOUGH_GROUPS  512
#define MAX_SPLITS     64

/* Up to this number, each token has workgroups of its own: they may be those of several sequences. */
#define FEW_TOKENS 16

/* How an attention is cut up. */
struct attention_form {
    uint32_t rows;       /* that shaders/attention-rows.comp has room for; 0: shaders/attention.comp */
    uint32_t block_rows; /* that a workgroup takes */
    uint32_t vectors, groups, units; /* see shaders/attention-rows.comp */
    uint64_t blocks;                 /* workgroups of a head of the cache */
    uint32_t splits;
};

static enum shader attention_shader(const struct engine_device *device, uint32_t k, uint32_t v, bool rows)
{
    static const enum shader shaders[3][3] = {
        {SHADER_ATTENTION_F32_F32, SHADER_ATTENTION_F32_F16, SHADER_ATTENTION_F32_Q8_0},
        {SHADER_ATTENTION_F16_F32, SHADER_ATTENTION_F16_F16, SHADER_ATTENTION_F16_Q8_0},
        {SHADER_ATTENTION_Q8_0_F32, SHADER_ATTENTION_Q8_0_F16, SHADER_ATTENTION_Q8_0_Q8_0}};
    int row = k == ENGINE_TYPE_F32 ? 0 : k == ENGINE_TYPE_F16 ? 1 : 2;
    int column = v == ENGINE_TYPE_F32 ? 0 : v == ENGINE_TYPE_F16 ? 1 : 2;
    return shaders[row][column] + (rows ? 2 : device->subgroups ? 1 : 0);
}

/* Whether rows of a cache can be read in pieces of 16 bytes of keys and of four values. */
static bool is_aligned(const struct gpu_call *call)
{
    const struct gpu_view *k = &call->views[OPERAND(attention, k)], *v = &call->views[OPERAND(attention, v)];
    bool keys = k->ne[0] % 8 == 0 && k->offset % 16 == 0;
    bool values = v->ne[0] % 8 == 0 && v->offset % 16 == 0 && call->value_step % 16 == 0;
    if (k->type == ENGINE_TYPE_Q8_0) keys = k->ne[0] % 32 == 0 && k->offset % 4 == 0;
    if (v->type == ENGINE_TYPE_Q8_0) values = v->ne[0] % 32 == 0 && v->offset % 4 == 0;
    return keys && values;
}

/* Bytes of shared memory of shaders/attention-rows.comp. */
static uint64_t shared_size(uint64_t rows, uint64_t head_dim, uint64_t value_dim)
{
    uint64_t longest = head_dim > value_dim ? head_dim : value_dim, quads = (rows + 3) / 4;
    uint64_t stride = quads > 1 ? quads + 1 : 1;
    return rows * longest * 4 + ROWS_LANES * stride * 16 + UINT64_C(8) * ROWS_LANES + quads * 16 + rows * 16;
}

/* Chooses the rows of a workgroup: as many as there are and fit. */
static void choose_rows(const struct engine_device *device, const struct gpu_call *call,
                        struct attention_form *form)
{
    const struct gpu_view *q = &call->views[OPERAND(attention, q)];
    uint64_t heads = q->ne[1] / call->views[OPERAND(attention, k)].ne[2], head_dim = q->ne[0],
             value_dim = call->views[OPERAND(attention, v)].ne[0];
    uint64_t wanted = q->ne[2] <= FEW_TOKENS ? heads : heads * q->ne[2];
    uint64_t quads = value_dim / 4, most = device->physical->properties.limits.maxComputeSharedMemorySize;
    form->vectors = (uint32_t)((quads + ROWS_LANES - 1) / ROWS_LANES);
    while (quads % form->vectors != 0) form->vectors++;
    form->rows = 1;
    while (form->rows < MAX_ROWS && form->rows < wanted && 2 * form->rows * form->vectors <= MAX_ROWS &&
           shared_size(UINT64_C(2) * form->rows, head_dim, value_dim) <= most)
        form->rows *= 2;
    form->groups = (uint32_t)(ROWS_LANES / (quads / form->vectors));
    if (form->groups > MAX_GROUPS) form->groups = MAX_GROUPS;
    form->units = form->rows == MAX_ROWS ? 2 : 4;
    while (head_dim / 8 % form->units != 0) form->units /= 2;
    /* Whole tokens, if they fit; of few tokens one. */
    uint64_t tokens = q->ne[2] <= FEW_TOKENS ? 1 : form->rows / heads;
    form->block_rows = heads < form->rows && tokens > 0 ? (uint32_t)(tokens * heads) : form->rows;
    form->blocks = (heads * q->ne[2] + form->block_rows - 1) / form->block_rows;
}

static struct attention_form attention_form(const struct engine_device *device, const struct gpu_call *call)
{
    const struct gpu_view *q = &call->views[OPERAND(attention, q)], *k = &call->views[OPERAND(attention, k)];
    const struct engine_op_attention *args = &call->args.attention;
    struct attention_form form = {.blocks = q->ne[2]};
    uint64_t heads = q->ne[1], positions = HEAD_POSITIONS;
    /* Drivers that run shaders on the CPU take long to compile so much that is unrolled. */
    if (device->splits && is_aligned(call) &&
        shared_size(1, q->ne[0], call->views[OPERAND(attention, v)].ne[0]) <=
            device->physical->properties.limits.maxComputeSharedMemorySize) {
        choose_rows(device, call, &form);
        heads = k->ne[2];
        positions = ROWS_POSITIONS;
    }
    /* The block table's width says how far back tokens may look. */
    uint64_t reach = call->views[OPERAND(attention, block_table)].ne[0] * k->ne[1];
    if (args->window > 0) reach = least(reach, args->window);
    if (args->chunk > 0) reach = least(reach, args->chunk);
    uint64_t most = ENOUGH_GROUPS / (heads * form.blocks), splits = reach / positions;
    if (splits > most) splits = most;
    if (splits > MAX_SPLITS) splits = MAX_SPLITS;
    form.splits =
        device->splits && splits > 1 && heads * splits <= device->max_groups[0] ? (uint32_t)splits : 1;
    return form;
}

/* Scratch memory of a split attention: enough for as many tokens and splits as these heads are ever split
 * for, so that it doesn't grow as contexts do. */
uint64_t op_attention_scratch(const struct engine_device *device, const struct gpu_call *call)
{
    struct attention_form form = attention_form(device, call);
    if (form.splits == 1) return 0;
    uint64_t rows = form.rows > 0 ? MAX_ROWS : 1;
    return ENOUGH_GROUPS * rows * (call->views[OPERAND(attention, v)].ne[0] + 2) * 4;
}

/* Bytes of the caches that a call reads once: of each sequence, as far back as its blocks reach. */
static uint64_t cache_bytes(const struct gpu_call *call, uint64_t reach)
{
    const struct gpu_view *k = &call->views[OPERAND(attention, k)], *v = &call->views[OPERAND(attention, v)];
    uint64_t rows = reach * call->views[OPERAND(attention, block_table)].ne[1] * k->ne[2],
             most = k->ne[1] * k->ne[2] * k->ne[3];
    return (uint64_t)((double)(k->bytes + v->bytes) * (double)(rows < most ? rows : most) / (double)most);
}

/* The second half of a split attention. */
static int join(struct builder *builder, const struct gpu_call *call, uint32_t splits,
                const struct memory_range *parts)
{
    const struct gpu_view *v = call->views, *q = &v[OPERAND(attention, q)];
    struct builder second = {.device = builder->device, .commands = builder->commands};
    second.dispatch.key =
        (struct pipeline_key){.shader = SHADER_ATTENTION_JOIN,
                              .constants = {HEAD_LANES, [4] = (uint32_t)v[OPERAND(attention, v)].ne[0],
                                            [6] = v[OPERAND(attention, sinks)].present}};
    struct attention_join_parameters p = {
        .n_heads = (uint32_t)q->ne[1], .n_tokens = (uint32_t)q->ne[2], .splits = splits};
    p.positions_offset = bind_view(&second, 5, &v[OPERAND(attention, positions)], ACCESS_READ);
    BIND_ROWS(&second, 6, &v[OPERAND(attention, output)], ACCESS_WRITE, p, output);
    SET_PARAMETERS(&second, p);
    bind_range(&second, 7, parts, 0, parts->size, ACCESS_READ);
    second.dispatch.bindings[0] = second.dispatch.bindings[5]; /* placeholder for unused ones */
    if (v[OPERAND(attention, sinks)].present) bind_values(&second, 0, &v[OPERAND(attention, sinks)]);
    second.dispatch.groups[0] = (uint32_t)q->ne[1];
    second.dispatch.groups[1] = least(q->ne[2], builder->device->max_groups[1]);
    return add(&second);
}

static void set_constants(struct builder *builder, const struct gpu_call *call,
                          const struct attention_form *form)
{
    const struct gpu_view *v = call->views;
    struct pipeline_key *key = &builder->dispatch.key;
    uint32_t value_dim = (uint32_t)v[OPERAND(attention, v)].ne[0],
             head_dim = (uint32_t)v[OPERAND(attention, q)].ne[0];
    *key = (struct pipeline_key){.shader = attention_shader(builder->device, v[OPERAND(attention, k)].type,
                                                            v[OPERAND(attention, v)].type, form->rows > 0)};
    key->constants[4] = value_dim;
    key->constants[5] = v[OPERAND(attention, slopes)].present          ? 1
                        : v[OPERAND(attention, distance_bias)].present ? 2
                                                                       : 0;
    key->constants[6] = v[OPERAND(attention, sinks)].present;
    key->constants[7] = call->args.attention.softcap > 0;
    if (form->rows > 0) {
        key->constants[1] = form->rows;
        key->constants[2] = head_dim;
        key->constants[3] = form->units;
        key->constants[8] = form->vectors;
        key->constants[9] = form->groups;
    } else {
        key->constants[0] = HEAD_LANES;
        key->constants[1] = (value_dim + HEAD_LANES - 1) / HEAD_LANES;
        key->constants[2] = head_dim;
    }
}

int op_attention(struct builder *builder, const struct gpu_call *call)
{
    const struct gpu_view *v = call->views, *q = &v[OPERAND(attention, q)], *k = &v[OPERAND(attention, k)];
    const struct gpu_view *slopes = &v[OPERAND(attention, slopes)], *sinks = &v[OPERAND(attention, sinks)],
                          *biases = &v[OPERAND(attention, distance_bias)];
    const struct engine_op_attention *args = &call->args.attention;
    const struct attention_form form = attention_form(builder->device, call);
    const struct memory_range *parts = NULL;
    if (form.splits > 1) {
        int status = scratch_get(builder->device, op_attention_scratch(builder->device, call), &parts);
        if (status) return status;
        bind_range(builder, 7, parts, 0, parts->size, ACCESS_WRITE);
    }
    set_constants(builder, call, &form);
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
        .splits = form.splits,
        .block_rows = form.block_rows,
    };
    BIND_ROWS(builder, 0, q, ACCESS_READ, p, q);
    p.k_offset = bind_view(builder, 1, k, ACCESS_READ);
    p.v_offset = bind_view(builder, 2, &v[OPERAND(attention, v)], ACCESS_READ);
    p.table_offset = bind_view(builder, 3, table, ACCESS_READ);
    p.sequences_offset = bind_view(builder, 4, &v[OPERAND(attention, sequences)], ACCESS_READ);
    p.positions_offset = bind_view(builder, 5, positions, ACCESS_READ);
    BIND_ROWS(builder, 6, &v[OPERAND(attention, output)], ACCESS_WRITE, p, output);
    SET_PARAMETERS(builder, p);
    if (sinks->present && form.splits == 1) bind_values(builder, 7, sinks);
    if (slopes->present || biases->present) bind_values(builder, 8, slopes->present ? slopes : biases);
    uint64_t heads = form.rows > 0 ? k->ne[2] : q->ne[1];
    if (heads > builder->device->max_groups[0])
        return vulkan_host->fail(ENGINE_ERROR_UNSUPPORTED, "attention: too many heads");
    uint64_t reach = table->ne[0] * k->ne[1]; /* at most so many positions */
    builder->dispatch.flops = 2 * q->ne[1] * q->ne[2] * reach * (q->ne[0] + v[OPERAND(attention, v)].ne[0]);
    builder->dispatch.bytes = cache_bytes(call, reach) + q->bytes + v[OPERAND(attention, output)].bytes;
    const uint32_t shape[MAX_SHAPE] = {(uint32_t)q->ne[0], (uint32_t)q->ne[1], (uint32_t)q->ne[2],
                                       (uint32_t)reach};
    memcpy(builder->dispatch.shape, shape, sizeof shape);
    builder->dispatch.groups[0] = (uint32_t)heads * form.splits;
    builder->dispatch.groups[1] = least(form.blocks, builder->device->max_groups[1]);
    int status = add(builder);
    return status || form.splits == 1 ? status : join(builder, call, form.splits, parts);
}

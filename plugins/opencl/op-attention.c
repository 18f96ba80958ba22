/* op-attention.c: attention, and what it reads: the cache. */
#include <stdio.h>

#include "builder.h"

#define MAX_HEADS 8   /* of a work-item of attention, */
#define MAX_PARTS 128 /* and vectors of their queries */

/* Positions of a part of a split attention, at least; work-groups beyond which nothing is split. */
#define SPLIT_POSITIONS 128
#define ENOUGH_GROUPS   512
#define MAX_SPLITS      64

/* Of the heads that share keys and values, how many a work-item takes. */
static uint32_t heads_together(uint32_t shared, uint64_t head_dim)
{
    uint32_t heads = 1;
    for (uint32_t n = 2; n <= MAX_HEADS; n++)
        if (shared % n == 0 && n * ((head_dim + 15) / 16) <= MAX_PARTS) heads = n;
    return heads;
}

/* Elements from one row of values to the next. */
static uint32_t value_row(const struct gpu_call *call)
{
    uint32_t length = 1, size = 1;
    gpu_type_block(call->views[OPERAND(attention, v)].type, &length, &size);
    return (uint32_t)(call->value_step / size * length);
}

/* How many work-groups share the positions of a head of a token. */
static uint32_t attention_splits(const struct engine_device *device, const struct gpu_call *call)
{
    const struct gpu_view *v = call->views, *q = &v[OPERAND(attention, q)];
    const struct engine_op_attention *args = &call->args.attention;
    /* The block table's width says how far back tokens may look. */
    uint64_t splits = ENOUGH_GROUPS / (q->ne[1] * q->ne[2]),
             reach = v[OPERAND(attention, block_table)].ne[0] * v[OPERAND(attention, k)].ne[1];
    if (device->vectors) return 1;
    if (args->window > 0 && args->window < reach) reach = args->window;
    if (args->chunk > 0 && args->chunk < reach) reach = args->chunk;
    if (splits > reach / SPLIT_POSITIONS) splits = reach / SPLIT_POSITIONS;
    if (splits > MAX_SPLITS) splits = MAX_SPLITS;
    return splits > 1 ? (uint32_t)splits : 1;
}

/* Enough for as many heads as are ever split, so that it doesn't grow as contexts do. */
uint64_t attention_memory(const struct engine_device *device, const struct gpu_call *call)
{
    uint64_t value_dim = call->views[OPERAND(attention, v)].ne[0];
    return attention_splits(device, call) > 1 ? ENOUGH_GROUPS * (value_dim + 2) * sizeof(float) : 0;
}

/* Whether keys can be read in pieces of 16 bytes. */
static bool is_aligned(const struct gpu_view *k)
{
    return k->ne[0] % 8 == 0 && k->offset % 16 == 0;
}

struct attention_parameters {
    uint32_t n_heads, n_kv_heads, n_tokens, block_size, table_stride;
    uint32_t q_offset, q_stride1, q_stride2;
    uint32_t k_offset, v_offset, table_offset, sequences_offset, positions_offset;
    uint32_t output_offset, output_stride1, output_stride2;
    float scale, softcap;
    uint32_t window, chunk;
    uint32_t has_slopes, has_sinks;
    uint32_t last_step, n_biases;
    uint32_t splits;
};

/* The second half of a split attention. */
static int join(const struct builder *builder, const struct gpu_call *call, const char *options,
                const struct attention_parameters *p)
{
    const struct gpu_view *v = call->views;
    struct builder second = another(builder);
    int status = get_kernel(&second, SOURCE_ATTENTION, options, "attention_join", GROUP);
    if (status) return status;
    add_scratch(&second, attention_memory(builder->device, call));
    add_view(&second, &v[OPERAND(attention, positions)]);
    add_values(&second, &v[OPERAND(attention, sinks)]);
    add_view(&second, &v[OPERAND(attention, output)]);
    set_parameters(&second, p, sizeof *p);
    set_size(&second, 1, (size_t)p->n_heads * p->n_tokens, 1, GROUP, 1);
    return finish(&second);
}

int attention(struct builder *builder, const struct gpu_call *call)
{
    const struct gpu_view *v = call->views, *q = &v[OPERAND(attention, q)], *k = &v[OPERAND(attention, k)];
    const struct gpu_view *output = &v[OPERAND(attention, output)];
    const struct engine_op_attention *args = &call->args.attention;
    uint32_t n_heads = (uint32_t)q->ne[1];
    bool vectors = builder->device->vectors;
    uint32_t heads = vectors ? heads_together(n_heads / (uint32_t)k->ne[2], q->ne[0]) : 1;
    char options[144];
    snprintf(options, sizeof options,
             "-DTYPE_K=%u -DTYPE_V=%u -DHEAD_DIM=%u -DVALUE_DIM=%u -DVALUE_ROW=%u -DHEADS=%u -DGROUP=%u%s",
             k->type, v[OPERAND(attention, v)].type, (unsigned)k->ne[0],
             (unsigned)v[OPERAND(attention, v)].ne[0], value_row(call), heads, GROUP,
             !vectors && is_aligned(k) ? " -DALIGNED" : "");
    int status = get_kernel(builder, SOURCE_ATTENTION, options, "attention", vectors ? 1 : GROUP);
    if (status) return status;
    struct attention_parameters p = {.n_heads = n_heads,
                                     .n_kv_heads = (uint32_t)k->ne[2],
                                     .n_tokens = (uint32_t)q->ne[2],
                                     .block_size = (uint32_t)k->ne[1],
                                     .table_stride = stride(&v[OPERAND(attention, block_table)], 1),
                                     .q_stride1 = stride(q, 1),
                                     .q_stride2 = stride(q, 2),
                                     .output_stride1 = stride(output, 1),
                                     .output_stride2 = stride(output, 2),
                                     .scale = args->scale,
                                     .softcap = args->softcap,
                                     .window = args->window,
                                     .chunk = args->chunk,
                                     .has_slopes = v[OPERAND(attention, slopes)].present,
                                     .has_sinks = v[OPERAND(attention, sinks)].present,
                                     .splits = attention_splits(builder->device, call)};
    if (v[OPERAND(attention, positions)].ne[1] == 2)
        p.last_step = stride(&v[OPERAND(attention, positions)], 1);
    p.q_offset = add_view(builder, q);
    p.k_offset = add_view(builder, k);
    p.v_offset = add_view(builder, &v[OPERAND(attention, v)]);
    p.table_offset = add_view(builder, &v[OPERAND(attention, block_table)]);
    p.sequences_offset = add_view(builder, &v[OPERAND(attention, sequences)]);
    p.positions_offset = add_view(builder, &v[OPERAND(attention, positions)]);
    if (v[OPERAND(attention, distance_bias)].present) {
        p.has_slopes = 2;
        p.n_biases = (uint32_t)(v[OPERAND(attention, distance_bias)].ne[0] / 2);
    }
    add_values(builder,
               &v[p.has_slopes == 2 ? OPERAND(attention, distance_bias) : OPERAND(attention, slopes)]);
    add_values(builder, &v[OPERAND(attention, sinks)]);
    p.output_offset = add_view(builder, output);
    if (p.splits > 1)
        add_scratch(builder, attention_memory(builder->device, call));
    else if (!vectors)
        add_memory(builder, NULL);
    set_parameters(builder, &p, sizeof p);
    set_size(builder, 1, (size_t)(n_heads / heads * q->ne[2]) * p.splits, 1, vectors ? 1 : GROUP, 1);
    status = finish(builder);
    return status || p.splits == 1 ? status : join(builder, call, options, &p);
}

int cache_write(struct builder *builder, const struct gpu_call *call)
{
    const struct gpu_view *v = call->views, *input = &v[OPERAND(cache_write, input)],
                          *cache = &v[OPERAND(cache_write, cache)];
    struct {
        struct shape shape;
        struct rows_view input;
        uint32_t slots_offset, block_size;
        uint32_t type, cache_offset;
    } p = {.shape = shape_of(input), .block_size = (uint32_t)cache->ne[1], .type = cache->type};
    p.input = rows_view(add_view(builder, input), input);
    p.slots_offset = add_view(builder, &v[OPERAND(cache_write, slots)]);
    p.cache_offset = add_view(builder, cache);
    set_parameters(builder, &p, sizeof p);
    spread(builder, (input->ne[0] + 31) / 32 * input->ne[1] * input->ne[2]);
    int status = get_group_kernel(builder, SOURCE_ROWS, "cache_write");
    return status ? status : finish(builder);
}

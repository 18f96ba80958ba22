/* op-rows.c: operations that go through rows: norms, rope, what is done element by element, rows of a matrix,
 * the router. */
#include <stdio.h>

#include "builder.h"

#define CHUNK 32

int rope(struct builder *builder, const struct gpu_call *call)
{
    const struct gpu_view *v = call->views, *input = &v[OPERAND(rope, input)],
                          *output = &v[OPERAND(rope, output)];
    const struct engine_op_rope *args = &call->args.rope;
    const struct engine_weight *factors = v[OPERAND(rope, factors)].weight;
    void *table;
    struct {
        struct shape shape;
        struct rows_view input, output;
        uint32_t n_dims, halves, positions_offset;
        float magnitude;
    } p = {.shape = shape_of(input),
           .n_dims = args->n_dims,
           .halves = args->pairs == ENGINE_ROPE_HALVES,
           .magnitude = args->magnitude == 0 ? 1 : args->magnitude};
    int status = rope_table_get(opencl_host, builder->device, &builder->device->rope_tables, args, factors,
                                factors ? factors->values : NULL, &table);
    if (!status) status = get_group_kernel(builder, SOURCE_ROWS, "rope");
    if (status) return status;
    p.input = rows_view(add_view(builder, input), input);
    p.positions_offset = add_view(builder, &v[OPERAND(rope, positions)]);
    add_memory(builder, table);
    p.output = rows_view(add_view(builder, output), output);
    set_parameters(builder, &p, sizeof p);
    spread(builder, (input->ne[0] - args->n_dims / 2) * input->ne[2]);
    return finish(builder);
}

int norm(struct builder *builder, const struct gpu_call *call)
{
    const struct gpu_view *v = call->views, *input = &v[OPERAND(norm, input)],
                          *output = &v[OPERAND(norm, output)];
    uint64_t n_rows = input->ne[1] * input->ne[2];
    struct {
        struct shape shape;
        struct rows_view input, output;
        uint32_t is_layer, has_weight, has_bias;
        float epsilon;
    } p = {.shape = shape_of(input),
           .is_layer = call->args.norm.kind == ENGINE_NORM_LAYER,
           .has_bias = v[OPERAND(norm, bias)].present,
           .has_weight = v[OPERAND(norm, weight)].present,
           .epsilon = call->args.norm.epsilon};
    p.input = rows_view(add_view(builder, input), input);
    add_values(builder, &v[OPERAND(norm, weight)]);
    add_values(builder, &v[OPERAND(norm, bias)]);
    p.output = rows_view(add_view(builder, output), output);
    set_parameters(builder, &p, sizeof p);
    spread(builder, builder->device->vectors ? n_rows : n_rows * GROUP);
    int status = get_group_kernel(builder, SOURCE_ROWS, "norm");
    return status ? status : finish(builder);
}

/* ---- Element by element -------------------------------------------------------------------------------- */

enum rows_op { ROWS_ADD, ROWS_MUL, ROWS_ACTIVATE, ROWS_GATED };

struct rows_parameters {
    struct shape shape;
    struct rows_view a, b, output;
    uint32_t b_is_one;
    uint32_t op, activation;
    float limit, alpha;
};

/* Fills in everything except the kind of operation. b may be a row that is repeated, or absent. */
static int rows(struct builder *builder, const struct gpu_view *a, const struct gpu_view *b,
                const struct gpu_view *output, struct rows_parameters *p)
{
    uint64_t lanes = builder->device->vectors ? 16 : 1;
    p->shape = shape_of(a);
    p->a = rows_view(add_view(builder, a), a);
    p->b = b->present ? rows_view(add_values(builder, b), b)
                      : (struct rows_view){add_memory(builder, NULL), 0, 0};
    p->b_is_one = b->present && b->ne[0] == 1;
    p->output = rows_view(add_view(builder, output), output);
    set_parameters(builder, p, sizeof *p);
    spread(builder, (a->ne[0] + lanes - 1) / lanes * a->ne[1] * a->ne[2]);
    int status = get_group_kernel(builder, SOURCE_ROWS, "rows");
    return status ? status : finish(builder);
}

/* Copies both parts, the rows of b again and again where it has one for each token. */
static int concat(struct builder *builder, const struct gpu_call *call)
{
    const struct gpu_view *v = call->views, *a = &v[OPERAND(concat, a)], *b = &v[OPERAND(concat, b)],
                          none = {0};
    struct rows_parameters p = {.op = ROWS_ACTIVATE, .activation = ENGINE_ACTIVATION_NONE};
    struct builder second = another(builder);
    struct gpu_view repeated = *b, output = v[OPERAND(concat, output)];
    int status = rows(builder, a, &none, &output, &p);
    if (b->ne[1] == 1) repeated.nb[1] = 0;
    repeated.ne[1] = a->ne[1];
    output.offset += a->ne[0] * sizeof(float);
    return status ? status : rows(&second, &repeated, &none, &output, &p);
}

static int activate(struct builder *builder, const struct gpu_call *call)
{
    const struct gpu_view *v = call->views, *factor = &v[OPERAND(activate, factor)];
    const struct engine_op_activate *args = &call->args.activate;
    struct rows_parameters p = {.op = factor->present ? ROWS_GATED : ROWS_ACTIVATE,
                                .activation = args->activation,
                                .limit = args->limit,
                                .alpha = args->alpha};
    return rows(builder, &v[OPERAND(activate, input)], factor, &v[OPERAND(activate, output)], &p);
}

int element_wise(struct builder *builder, const struct gpu_call *call)
{
    const struct gpu_view *v = call->views;
    struct rows_parameters p = {.op = call->op == ENGINE_OP_ADD ? ROWS_ADD : ROWS_MUL};
    if (call->op == ENGINE_OP_CONCAT) return concat(builder, call);
    if (call->op == ENGINE_OP_ACTIVATE) return activate(builder, call);
    return rows(builder, &v[OPERAND(binary, a)], &v[OPERAND(binary, b)], &v[OPERAND(binary, output)], &p);
}

/* ---- Get rows ------------------------------------------------------------------------------------------ */

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
    int status = get_group_kernel(builder, SOURCE_ROWS, "pick_rows");
    return status ? status : finish(builder);
}

int get_rows(struct builder *builder, const struct gpu_call *call)
{
    const struct gpu_view *v = call->views, *which = &v[OPERAND(get_rows, rows)],
                          *output = &v[OPERAND(get_rows, output)];
    const struct engine_weight *weight = v[OPERAND(get_rows, source)].weight;
    char options[32];
    if (!weight) return pick_rows(builder, &v[OPERAND(get_rows, source)], which, output);
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

/* ---- Route --------------------------------------------------------------------------------------------- */

int route(struct builder *builder, const struct gpu_call *call)
{
    const struct gpu_view *v = call->views, *logits = &v[OPERAND(route, logits)],
                          *ids = &v[OPERAND(route, ids)];
    const struct gpu_view *weights = &v[OPERAND(route, weights)];
    const struct engine_op_route *args = &call->args.route;
    struct {
        uint32_t n_experts, n_used, n_tokens;
        uint32_t logits_offset, logits_stride, ids_offset, ids_stride, weights_offset, weights_stride;
        uint32_t has_bias, function, n_groups, n_groups_used, group_score, normalise;
        float floor, scale;
    } p = {.n_experts = (uint32_t)logits->ne[0],
           .n_used = (uint32_t)ids->ne[0],
           .n_tokens = (uint32_t)logits->ne[1],
           .logits_stride = stride(logits, 1),
           .ids_stride = stride(ids, 1),
           .weights_stride = stride(weights, 1),
           .has_bias = v[OPERAND(route, bias)].present,
           .function = args->function,
           .n_groups = args->n_groups,
           .n_groups_used = args->n_groups_used,
           .group_score = args->group_score,
           .normalise = args->normalise,
           .floor = args->floor,
           .scale = args->scale == 0 ? 1 : args->scale};
    p.logits_offset = add_view(builder, logits);
    add_values(builder, &v[OPERAND(route, bias)]);
    p.ids_offset = add_view(builder, ids);
    p.weights_offset = add_view(builder, weights);
    set_parameters(builder, &p, sizeof p);
    set_size(builder, 1, p.n_tokens, 1, builder->device->vectors ? 1 : GROUP, 1);
    int status = get_group_kernel(builder, SOURCE_EXPERTS, "route");
    return status ? status : finish(builder);
}

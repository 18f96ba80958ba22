/* nodes.c: the operations of a graph. Each function makes the output and adds a node; whether the operands'
 * shapes match is common/ops.h's rule. See graph.h. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "common/assert.h"
#include "graph/internal.h"
#include "model/model.h"

/* Whether all operands exist. A missing one without an earlier error is a bug of the family. */
static bool have(struct graph *graph, const char *op, const struct value *a, const struct value *b)
{
    if (!graph->status && (!a || !b)) graph_fail(graph, "%s lacks an operand", op);
    return !graph->status;
}

static struct value *add_activation(struct graph *graph, uint64_t ne0, uint64_t ne1, uint64_t ne2)
{
    return graph_add_value(graph, VALUE_ACTIVATION, ENGINE_TYPE_F32, (uint64_t[4]){ne0, ne1, ne2, 1});
}

/* A new activation of a value's shape. */
static struct value *add_like(struct graph *graph, const struct value *value)
{
    const uint64_t *ne = value->tensor.ne;
    return add_activation(graph, ne[0], ne[1], ne[2]);
}

static const struct engine_tensor *tensor_of(const struct value *value)
{
    return value ? &value->tensor : NULL;
}

/* The use that the weight at this operand is loaded for. */
static uint32_t use_of(const struct node *node, const struct op_operand *operand)
{
    const struct engine_op_matmul *args = &node->args.matmul;
    if (operand->uses != OP_PRODUCT) return operand->uses;
    return op_matrices(args) == OP_ONE_MATRIX ? ENGINE_WEIGHT_MATMUL : ENGINE_WEIGHT_MATRICES;
}

/* Fails: the numbers of a model's file don't fit together. The first weight is named. */
static void fail_misfit(struct graph *graph, uint32_t op, const union op_args *args, const char *misfit)
{
    char weight[200] = "", shapes[OP_SHAPES_TEXT];
    for (const struct op_operand *operand = op_operands(op); operand->name && !weight[0]; operand++) {
        const struct engine_tensor *tensor = op_given(args, operand);
        if (tensor && value_of(tensor)->kind == VALUE_WEIGHT)
            snprintf(weight, sizeof weight, "%s of %" PRIu64 " x %" PRIu64 " x %" PRIu64 ": ",
                     graph->weights[value_of(tensor)->index].tensor->name, tensor->ne[0], tensor->ne[1],
                     tensor->ne[2]);
    }
    op_print_shapes(op, args, shapes, sizeof shapes);
    graph_fail(graph, "%s: %s%s: %s", op_info(op)->title, weight, misfit, shapes);
}

/* Adds a node, and returns what it makes (the first output); NULL after an error. */
static struct value *add_node(struct graph *graph, uint32_t op, const union op_args *args)
{
    struct node node = {.op = op, .layer = graph->layer, .args = *args};
    struct value *output = NULL;
    if (graph->status) return NULL;
    node.args.struct_size = op_info(op)->size;
    const char *misfit = op_misfit(op, &node.args);
    if (misfit) {
        fail_misfit(graph, op, &node.args, misfit);
        return NULL;
    }
    for (const struct op_operand *operand = op_operands(op); operand->name; operand++) {
        const struct engine_tensor *tensor = op_given(&node.args, operand);
        if (tensor && value_of(tensor)->kind == VALUE_WEIGHT)
            graph->weights[value_of(tensor)->index].uses |= use_of(&node, operand);
        if (operand->role == OP_OUT && !output) output = value_of(tensor);
    }
    if (graph->is_other) return output;
    if (!graph_grow(graph, &graph->nodes, graph->n_nodes, sizeof *graph->nodes)) return NULL;
    graph->nodes[graph->n_nodes++] = node;
    return output;
}

/* ---- Rows ---------------------------------------------------------------------------------------------- */

struct value *graph_get_rows(struct graph *graph, struct value *source, struct value *rows)
{
    if (!have(graph, "get rows", source, rows)) return NULL;
    struct value *output = add_activation(graph, source->tensor.ne[0], rows->tensor.ne[0], 1);
    if (!output) return NULL;
    output = add_node(
        graph, ENGINE_OP_GET_ROWS,
        &(union op_args){
            .get_rows = {.source = &source->tensor, .rows = &rows->tensor, .output = &output->tensor}});
    return graph_adapt(graph, &(struct adapted){.weight = source, .input = rows, .is_rows = true}, output);
}

struct value *graph_wanted(struct graph *graph, struct value *value)
{
    if (graph->shape.n_tokens == 1 && graph->shape.n_outputs == 1) return value; /* as in decode */
    return graph_get_rows(graph, value, graph_input(graph, INPUT_OUTPUT_ROWS));
}

struct value *graph_norm(struct graph *graph, struct value *input, struct value *weight, struct value *bias,
                         uint32_t kind, float epsilon)
{
    if (!have(graph, "norm", input, input)) return NULL;
    struct value *output = add_like(graph, input);
    if (!output) return NULL;
    return add_node(graph, ENGINE_OP_NORM,
                    &(union op_args){.norm = {.input = &input->tensor,
                                              .output = &output->tensor,
                                              .weight = tensor_of(weight),
                                              .kind = kind,
                                              .epsilon = epsilon,
                                              .bias = tensor_of(bias)}});
}

static struct value *binary(struct graph *graph, uint32_t op, struct value *a, struct value *b)
{
    if (!have(graph, op_info(op)->title, a, b)) return NULL;
    struct value *output = add_like(graph, a);
    if (!output) return NULL;
    return add_node(
        graph, op, &(union op_args){.binary = {.a = &a->tensor, .b = &b->tensor, .output = &output->tensor}});
}

struct value *graph_add(struct graph *graph, struct value *a, struct value *b)
{
    return binary(graph, ENGINE_OP_ADD, a, b);
}

struct value *graph_mul(struct graph *graph, struct value *a, struct value *b)
{
    return binary(graph, ENGINE_OP_MUL, a, b);
}

static void fill_number(const void *user, float *values, uint64_t n)
{
    for (uint64_t i = 0; i < n; i++) values[i] = *(const float *)user;
}

struct value *graph_constant(struct graph *graph, uint64_t n, float number)
{
    char name[64];
    snprintf(name, sizeof name, "all_%a_%" PRIu64, (double)number, n);
    return graph_numbers(graph, n, name, fill_number, &number);
}

static bool reads(const struct node *node, const struct value *value)
{
    for (const struct op_operand *operand = op_operands(node->op); operand->name; operand++) {
        const struct engine_tensor *tensor = op_given(&node->args, operand);
        if (operand->role & OP_IN && tensor && value_of(tensor)->root == value->root) return true;
    }
    return false;
}

/* Whether a sum is of a product and what an adapter adds to it. */
static bool adds_change(const struct graph *graph, const struct node *node)
{
    const struct value *change = value_of(node->args.binary.b);
    for (size_t i = graph->n_nodes; i-- > 0;) {
        const struct engine_op_matmul *args = &graph->nodes[i].args.matmul;
        if (graph->nodes[i].op == ENGINE_OP_MATMUL && args->output == &change->tensor)
            return graph->weights[value_of(args->weight)->index].changes != NO_WEIGHT;
    }
    return false;
}

/* Scales the product that makes a value, if one of the first n_nodes nodes is a product that can take a
 * factor and nothing has read it yet; with what adapters add to it. */
static bool scale_product(struct graph *graph, size_t n_nodes, const struct value *value, float factor)
{
    for (size_t i = n_nodes; i-- > 0;) {
        struct node *node = &graph->nodes[i];
        struct engine_op_matmul *args = &node->args.matmul;
        if (node->op == ENGINE_OP_MATMUL && args->output == &value->tensor) {
            if (args->bias || args->activation) return false;
            args->scale = (args->scale == 0 ? 1 : args->scale) * factor;
            return true;
        }
        if (node->op == ENGINE_OP_ADD && node->args.binary.output == &value->tensor)
            return adds_change(graph, node) &&
                   scale_product(graph, i, value_of(node->args.binary.a), factor) &&
                   scale_product(graph, i, value_of(node->args.binary.b), factor);
        if (reads(node, value)) return false;
    }
    return false;
}

struct value *graph_scale(struct graph *graph, struct value *value, float factor)
{
    if (factor == 1 || !have(graph, "scale", value, value)) return value;
    if (graph->is_other)
        return value; /* where it counts, the product takes the factor: weights are the same */
    if (factor != 0 && scale_product(graph, graph->n_nodes, value, factor)) return value;
    return graph_mul(graph, value, graph_constant(graph, value->tensor.ne[0], factor));
}

struct value *graph_activate_curve(struct graph *graph, struct value *input, struct value *factor,
                                   uint32_t activation, const struct curve_options *options)
{
    if (!have(graph, "activate", input, input)) return NULL;
    struct value *output = add_like(graph, input);
    if (!output) return NULL;
    return add_node(graph, ENGINE_OP_ACTIVATE,
                    &(union op_args){.activate = {.input = &input->tensor,
                                                  .factor = tensor_of(factor),
                                                  .output = &output->tensor,
                                                  .activation = activation,
                                                  .limit = options->limit,
                                                  .alpha = options->alpha,
                                                  .beta = options->beta,
                                                  .gamma = options->gamma}});
}

struct value *graph_activate_limited(struct graph *graph, struct value *input, struct value *factor,
                                     uint32_t activation, float limit, float alpha)
{
    return graph_activate_curve(graph, input, factor, activation,
                                &(struct curve_options){.limit = limit, .alpha = alpha});
}

struct value *graph_activate(struct graph *graph, struct value *input, struct value *factor,
                             uint32_t activation)
{
    return graph_activate_limited(graph, input, factor, activation, 0, 0);
}

struct value *graph_concat(struct graph *graph, struct value *a, struct value *b)
{
    if (!have(graph, "concat", a, b)) return NULL;
    const uint64_t *x = a->tensor.ne, *y = b->tensor.ne;
    struct value *output = add_activation(graph, x[0] + y[0], x[1], x[2]);
    if (!output) return NULL;
    return add_node(
        graph, ENGINE_OP_CONCAT,
        &(union op_args){.concat = {.a = &a->tensor, .b = &b->tensor, .output = &output->tensor}});
}

struct value *graph_join(struct graph *graph, struct value *const *parts, uint32_t n)
{
    struct value *all = parts[0];
    for (uint32_t i = 1; i < n; i++) all = graph_concat(graph, all, parts[i]);
    return all;
}

struct value *graph_repeat(struct graph *graph, struct value *input, uint32_t n)
{
    struct value *all = input;
    for (uint32_t i = 1; i < n; i++) all = graph_concat(graph, all, input);
    return all;
}

/* ---- Matrix products ----------------------------------------------------------------------------------- */

struct value *graph_matmul(struct graph *graph, struct value *weight, struct value *input)
{
    if (!have(graph, "matmul", weight, input)) return NULL;
    const uint64_t *w = weight->tensor.ne, *x = input->tensor.ne;
    struct value *output = add_activation(graph, w[1], x[1], 1);
    if (!output) return NULL;
    output = add_node(
        graph, ENGINE_OP_MATMUL,
        &(union op_args){
            .matmul = {.weight = &weight->tensor, .input = &input->tensor, .output = &output->tensor}});
    return graph_adapt(graph, &(struct adapted){.weight = weight, .input = input}, output);
}

struct value *graph_matmul_heads(struct graph *graph, struct value *weight, struct value *input)
{
    if (!have(graph, "matmul of heads", weight, input)) return NULL;
    const uint64_t *w = weight->tensor.ne, *x = input->tensor.ne;
    if (w[2] == 1 && x[1] == 1) { /* of one head: [k, 1, columns] -> [k, columns] */
        uint64_t columns = x[2];
        struct value *output = graph_matmul(graph, weight, graph_reshape(graph, input, x[0], columns, 1));
        return graph_reshape(graph, output, w[1], 1, columns);
    }
    struct value *output = add_activation(graph, w[1], w[2], x[2]);
    if (!output) return NULL;
    return add_node(
        graph, ENGINE_OP_MATMUL,
        &(union op_args){
            .matmul = {.weight = &weight->tensor, .input = &input->tensor, .output = &output->tensor}});
}

struct value *graph_matmul_experts(struct graph *graph, struct value *weight, struct value *bias,
                                   struct value *input, const struct routes *routes, bool mix)
{
    if (!have(graph, "experts", weight, input) || !have(graph, "experts", routes->ids, routes->weights))
        return NULL;
    uint64_t n_used = routes->ids->tensor.ne[0], columns = routes->ids->tensor.ne[1];
    if (input->tensor.ne[1] == columns && input->tensor.ne[2] == 1 && (n_used > 1 || columns > 1))
        input = graph_reshape(graph, input, input->tensor.ne[0], 1, columns);
    if (!input) return NULL;
    uint64_t n_rows = weight->tensor.ne[1];
    struct value *output =
        mix ? add_activation(graph, n_rows, columns, 1) : add_activation(graph, n_rows, n_used, columns);
    if (!output) return NULL;
    graph->weights[weight->index].matrices_read = (uint32_t)n_used;
    output = add_node(graph, ENGINE_OP_MATMUL,
                      &(union op_args){.matmul = {.weight = &weight->tensor,
                                                  .input = &input->tensor,
                                                  .output = &output->tensor,
                                                  .bias = tensor_of(bias),
                                                  .experts = &routes->ids->tensor,
                                                  .mix = mix ? &routes->weights->tensor : NULL}});
    return graph_adapt(
        graph, &(struct adapted){.weight = weight, .input = input, .routes = routes, .mix = mix}, output);
}

struct routes graph_route(struct graph *graph, struct value *logits, const struct route_options *options)
{
    struct routes none = {0}, routes;
    if (!have(graph, "route", logits, logits)) return none;
    uint64_t columns = logits->tensor.ne[1];
    routes.ids = graph_add_value(graph, VALUE_ACTIVATION, ENGINE_TYPE_I32,
                                 (uint64_t[4]){options->n_used, columns, 1, 1});
    routes.weights = add_activation(graph, options->n_used, columns, 1);
    if (!routes.ids || !routes.weights) return none;
    add_node(graph, ENGINE_OP_ROUTE,
             &(union op_args){.route = {.logits = &logits->tensor,
                                        .bias = tensor_of(options->bias),
                                        .ids = &routes.ids->tensor,
                                        .weights = &routes.weights->tensor,
                                        .function = options->function,
                                        .n_groups = options->n_groups,
                                        .n_groups_used = options->n_groups_used,
                                        .group_score = options->group_score,
                                        .normalise = options->normalise,
                                        .floor = options->floor,
                                        .scale = options->scale,
                                        .chosen = tensor_of(options->chosen)}});
    return graph->status ? none : routes;
}

/* ---- Positions ----------------------------------------------------------------------------------------- */

struct value *graph_rope(struct graph *graph, struct value *input, const struct rope_options *options)
{
    enum graph_input where = options->positions ? options->positions : INPUT_POSITIONS;
    struct value *positions = graph_input(graph, where), *factors = options->factors;
    if (!have(graph, "rope", input, positions)) return NULL;
    struct value *output = add_like(graph, input);
    if (!output) return NULL;
    return add_node(graph, ENGINE_OP_ROPE,
                    &(union op_args){.rope = {.input = &input->tensor,
                                              .positions = &positions->tensor,
                                              .output = &output->tensor,
                                              .factors = tensor_of(factors),
                                              .n_dims = options->n_dims,
                                              .pairs = options->pairs,
                                              .theta = options->theta,
                                              .position_scale = options->position_scale,
                                              .magnitude = options->magnitude}});
}

/* ---- Attention ----------------------------------------------------------------------------------------- */

static bool is_windowed(const struct graph *graph, const struct value *cache)
{
    ENGINE_ASSERT(cache->kind == VALUE_CACHE && cache->index < graph->n_caches);
    return graph->caches[cache->index].windowed;
}

/* The number of a cache's period, or -1 if its rows are positions. */
static int pooled_number(const struct graph *graph, const struct value *cache)
{
    return (int)graph->caches[cache->index].period - 1;
}

/* The last row of a cache that tokens see: at their position, or of the last block that has ended. */
static enum graph_input positions_of(const struct graph *graph, const struct value *cache)
{
    int number = pooled_number(graph, cache);
    return number >= 0 ? (enum graph_input)(INPUT_POOLED_LAST + number) : INPUT_POSITIONS;
}

/* The input that has the blocks of a cache's sequences. A row of a longer period is in one of several
 * blocks. */
static enum graph_input table_of(const struct graph *graph, const struct value *cache)
{
    const struct graph_cache *of = &graph->caches[cache->index];
    if (of->period && graph->periods[of->period - 1] > graph->shape.block_size)
        return (enum graph_input)(INPUT_POOLED_TABLE + of->period - 1);
    return of->windowed              ? INPUT_WINDOW_TABLE
           : of->pool == POOL_SOURCE ? INPUT_SOURCE_TABLE
                                     : INPUT_BLOCK_TABLE;
}

static bool is_source(const struct graph *graph, const struct value *cache)
{
    return graph->caches[cache->index].pool == POOL_SOURCE;
}

void graph_cache_write(struct graph *graph, struct value *cache, struct value *input)
{
    if (!have(graph, "cache write", cache, input)) return;
    int number = pooled_number(graph, cache);
    enum graph_input where = number >= 0                 ? (enum graph_input)(INPUT_POOLED_SLOTS + number)
                             : is_windowed(graph, cache) ? INPUT_WINDOW_SLOTS
                             : is_source(graph, cache)   ? INPUT_SOURCE_SLOTS
                                                         : INPUT_SLOTS;
    struct value *slots = graph_input(graph, where);
    if (!slots) return;
    add_node(graph, ENGINE_OP_CACHE_WRITE,
             &(union op_args){
                 .cache_write = {.input = &input->tensor, .slots = &slots->tensor, .cache = &cache->tensor}});
}

/* Where the weights of the current layer's attention go, if the shape asks for them. */
static struct value *watched_weights(struct graph *graph, const struct value *q, const struct value *k,
                                     const struct value *table)
{
    const struct graph_shape *shape = &graph->shape;
    if (!(shape->watch & WATCH_ATTENTION) || graph->layer < shape->watch_layer ||
        graph->layer - shape->watch_layer >= shape->watch_n_layers)
        return NULL;
    struct value *weights =
        add_activation(graph, table->tensor.ne[0] * k->tensor.ne[1], q->tensor.ne[1], q->tensor.ne[2]);
    graph_watch(graph, WATCH_ATTENTION, graph->layer, weights);
    return weights;
}

struct value *graph_attention(struct graph *graph, struct value *q, struct value *k, struct value *v,
                              const struct attention_options *options)
{
    if (!have(graph, "attention", q, k)) return NULL;
    enum graph_input where = positions_of(graph, k);
    struct value *table = graph_input(graph, table_of(graph, k)),
                 *sequences = graph_input(graph, INPUT_SEQUENCES);
    if (is_source(graph, k))
        where = INPUT_SOURCE_LAST;
    else if (options->both_ways)
        where = options->window > 0 || options->chunk > 0 || options->slopes || options->distance_bias
                    ? INPUT_REACH
                    : INPUT_LAST_POSITIONS;
    else if (graph->shape.pictures & PICTURES_SPANS)
        where = INPUT_REACH;
    struct value *positions = graph_input(graph, where);
    if (!have(graph, "attention", v, table) || !sequences || !positions) return NULL;
    struct value *output = add_activation(graph, v->tensor.ne[0], q->tensor.ne[1], q->tensor.ne[2]);
    bool is_part = options->earlier || options->logsums;
    struct value *weights = is_part ? NULL : watched_weights(graph, q, k, table);
    struct value *logsums =
        options->logsums ? add_activation(graph, q->tensor.ne[1], q->tensor.ne[2], 1) : NULL;
    if (!output || graph->status) return NULL;
    if (options->logsums) *options->logsums = logsums;
    return add_node(graph, ENGINE_OP_ATTENTION,
                    &(union op_args){.attention = {.q = &q->tensor,
                                                   .k = &k->tensor,
                                                   .v = &v->tensor,
                                                   .block_table = &table->tensor,
                                                   .sequences = &sequences->tensor,
                                                   .positions = &positions->tensor,
                                                   .output = &output->tensor,
                                                   .scale = options->scale,
                                                   .window = options->window,
                                                   .slopes = tensor_of(options->slopes),
                                                   .sinks = tensor_of(options->sinks),
                                                   .softcap = options->softcap,
                                                   .chunk = options->chunk,
                                                   .weights = tensor_of(weights),
                                                   .distance_bias = tensor_of(options->distance_bias),
                                                   .picked = tensor_of(options->picked),
                                                   .earlier = tensor_of(options->earlier),
                                                   .earlier_logsums = tensor_of(options->earlier_logsums),
                                                   .logsums = tensor_of(logsums)}});
}

struct value *graph_pick(struct graph *graph, struct value *q, struct value *weights, struct value *k,
                         uint64_t n)
{
    if (!have(graph, "pick", k, k)) return NULL;
    struct value *table = graph_input(graph, table_of(graph, k)),
                 *sequences = graph_input(graph, INPUT_SEQUENCES),
                 *positions = graph_input(graph, positions_of(graph, k));
    if (!have(graph, "pick", q, k) || !have(graph, "pick", weights, table) || !sequences || !positions)
        return NULL;
    struct value *picked =
        graph_add_value(graph, VALUE_ACTIVATION, ENGINE_TYPE_I32, (uint64_t[4]){n, q->tensor.ne[2], 1, 1});
    if (!picked) return NULL;
    return add_node(graph, ENGINE_OP_PICK,
                    &(union op_args){.pick = {.q = &q->tensor,
                                              .k = &k->tensor,
                                              .weights = &weights->tensor,
                                              .block_table = &table->tensor,
                                              .sequences = &sequences->tensor,
                                              .positions = &positions->tensor,
                                              .picked = &picked->tensor}});
}

struct value *graph_last_picked(const struct graph *graph)
{
    for (size_t i = graph->n_nodes; i-- > 0;)
        if (graph->nodes[i].op == ENGINE_OP_PICK) return value_of(graph->nodes[i].args.pick.picked);
    return NULL;
}

struct value *graph_pool_blocks(struct graph *graph, struct value *cache, struct value *bias)
{
    if (!have(graph, "pool", cache, bias)) return NULL;
    struct value *table = graph_input(graph, table_of(graph, cache)),
                 *sequences = graph_input(graph, INPUT_SEQUENCES),
                 *positions = graph_input(graph, INPUT_POSITIONS);
    if (!have(graph, "pool", table, sequences) || !positions) return NULL;
    struct value *output = add_activation(graph, cache->tensor.ne[0], graph->shape.n_tokens, 1);
    if (!output) return NULL;
    return add_node(graph, ENGINE_OP_POOL,
                    &(union op_args){.pool = {.cache = &cache->tensor,
                                              .bias = &bias->tensor,
                                              .block_table = &table->tensor,
                                              .sequences = &sequences->tensor,
                                              .positions = &positions->tensor,
                                              .output = &output->tensor}});
}

/* ---- Streams ------------------------------------------------------------------------------------------- */

struct value *graph_mix(struct graph *graph, struct value *streams, struct value *weights,
                        struct value *addend, struct value *scales)
{
    if (!have(graph, "mix", streams, streams)) return NULL;
    const uint64_t *x = streams->tensor.ne, n_out = weights ? weights->tensor.ne[1] : x[1];
    struct value *output = add_activation(graph, x[0], n_out, x[2]);
    if (!output) return NULL;
    return add_node(graph, ENGINE_OP_MIX,
                    &(union op_args){.mix = {.input = &streams->tensor,
                                             .weights = tensor_of(weights),
                                             .addend = tensor_of(addend),
                                             .scales = tensor_of(scales),
                                             .output = &output->tensor}});
}

struct value *graph_hyper(struct graph *graph, struct value *input, const struct hyper_options *options)
{
    if (!have(graph, "hyper", input, options->scale) || !have(graph, "hyper", input, options->base))
        return NULL;
    struct value *output = add_like(graph, input);
    if (!output) return NULL;
    return add_node(graph, ENGINE_OP_HYPER,
                    &(union op_args){.hyper = {.input = &input->tensor,
                                               .scale = &options->scale->tensor,
                                               .base = &options->base->tensor,
                                               .output = &output->tensor,
                                               .n = options->n,
                                               .n_iterations = options->n_iterations,
                                               .epsilon = options->epsilon}});
}

/* ---- States -------------------------------------------------------------------------------------------- */

struct value *graph_conv(struct graph *graph, struct value *input, struct value *weight, struct value *state)
{
    struct value *positions = graph_input(graph, INPUT_POSITIONS), *states = graph_input(graph, INPUT_STATES);
    if (!have(graph, "conv", input, weight) || !have(graph, "conv", state, positions) || !states) return NULL;
    struct value *output = add_like(graph, input);
    if (!output) return NULL;
    return add_node(graph, ENGINE_OP_CONV,
                    &(union op_args){.conv = {.input = &input->tensor,
                                              .weight = &weight->tensor,
                                              .positions = &positions->tensor,
                                              .states = &states->tensor,
                                              .state = &state->tensor,
                                              .output = &output->tensor}});
}

struct value *graph_scan(struct graph *graph, const struct scan_operands *x, struct value *state)
{
    struct value *positions = graph_input(graph, INPUT_POSITIONS), *states = graph_input(graph, INPUT_STATES);
    if (!have(graph, "scan", x->q, x->k) || !have(graph, "scan", x->v, state) || !positions || !states)
        return NULL;
    struct value *output = add_like(graph, x->v);
    if (!output) return NULL;
    return add_node(graph, ENGINE_OP_SCAN,
                    &(union op_args){.scan = {.q = &x->q->tensor,
                                              .k = &x->k->tensor,
                                              .v = &x->v->tensor,
                                              .decay = tensor_of(x->decay),
                                              .rates = tensor_of(x->rates),
                                              .a = tensor_of(x->a),
                                              .b = tensor_of(x->b),
                                              .erase = tensor_of(x->erase),
                                              .bonus = tensor_of(x->bonus),
                                              .positions = &positions->tensor,
                                              .states = &states->tensor,
                                              .state = &state->tensor,
                                              .output = &output->tensor,
                                              .scale = x->scale}});
}

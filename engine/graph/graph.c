/* graph.c: see graph.h. */
#include "graph/graph.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "model/types.h"

struct graph *graph_create(const struct model *model, const struct graph_shape *shape)
{
    struct graph *graph = calloc(1, sizeof *graph);
    if (!graph) {
        fail_memory("graph");
        return NULL;
    }
    graph->model = model;
    graph->shape = *shape;
    graph->layer = NO_LAYER;
    return graph;
}

void graph_destroy(struct graph *graph)
{
    if (!graph) return;
    for (size_t i = 0; i < graph->n_values; i++) free(graph->values[i]);
    free(graph->values);
    free(graph->nodes);
    free(graph->weights);
    free(graph);
}

/* Makes room for one more element of an array whose capacity is the power of two that holds its count. */
static bool grow(struct graph *graph, void **array, size_t count, size_t size)
{
    if (count & (count - 1)) return true;
    void *grown = realloc(*array, (count ? 2 * count : 1) * size);
    if (!grown) {
        graph->status = fail_memory("graph");
        return false;
    }
    *array = grown;
    return true;
}

/* ---- Values ------------------------------------------------------------------------------------------------------ */

/* A dense value of this type and shape. */
static struct value *add_value(struct graph *graph, enum value_kind kind, uint32_t type, const uint64_t ne[4])
{
    if (graph->status || !grow(graph, (void **)&graph->values, graph->n_values, sizeof *graph->values))
        return NULL;
    struct value *value = calloc(1, sizeof *value);
    const struct type_info *info = type_info(type);
    if (!value || !info) {
        free(value);
        graph->status = fail_memory("graph");
        return NULL;
    }
    struct engine_tensor *tensor = &value->tensor;
    tensor->struct_size = sizeof *tensor;
    tensor->type = type;
    memcpy(tensor->ne, ne, sizeof tensor->ne);
    tensor->nb[0] = info->block_size;
    tensor->nb[1] = ne[0] / info->block_length * info->block_size;
    tensor->nb[2] = tensor->nb[1] * ne[1];
    tensor->nb[3] = tensor->nb[2] * ne[2];
    value->kind = kind;
    value->root = value;
    value->id = (uint32_t)graph->n_values;
    graph->values[graph->n_values++] = value;
    return value;
}

static struct value *add_activation(struct graph *graph, uint64_t ne0, uint64_t ne1, uint64_t ne2)
{
    return add_value(graph, VALUE_ACTIVATION, ENGINE_TYPE_F32, (uint64_t[4]){ne0, ne1, ne2, 1});
}

static struct value *add_weight(struct graph *graph, const struct model_tensor *tensor)
{
    struct value *value = add_value(graph, VALUE_WEIGHT, tensor->type, tensor->ne);
    if (!value || !grow(graph, (void **)&graph->weights, graph->n_weights, sizeof *graph->weights))
        return NULL;
    value->index = (uint32_t)graph->n_weights;
    graph->weights[graph->n_weights++] =
        (struct graph_weight){.tensor = tensor, .value = value, .layer = graph->layer};
    return value;
}

static struct value *find_weight(struct graph *graph, uint64_t ne0, uint64_t ne1, bool optional,
                                 const char *name)
{
    if (graph->status) return NULL;
    const struct model_tensor *tensor = model_tensor_find(graph->model, name);
    if (!tensor && optional) return NULL;
    if (!tensor) {
        graph->status =
            fail(ENGINE_ERROR_DATA, "%s: the tensor %s is missing", model_path(graph->model), name);
        return NULL;
    }
    if (tensor->ne[0] != ne0 || tensor->ne[1] != ne1 || tensor->ne[2] != 1 || tensor->ne[3] != 1) {
        const uint64_t *ne = tensor->ne;
        graph->status = fail(ENGINE_ERROR_DATA,
                             "%s: the tensor %s is %" PRIu64 " x %" PRIu64 " x %" PRIu64 " x %" PRIu64
                             ", should be %" PRIu64 " x %" PRIu64,
                             model_path(graph->model), name, ne[0], ne[1], ne[2], ne[3], ne0, ne1);
        return NULL;
    }
    return add_weight(graph, tensor);
}

#define FORMAT_NAME(name, format)                                                                            \
    char name[128];                                                                                          \
    va_list args;                                                                                            \
    va_start(args, format);                                                                                  \
    vsnprintf(name, sizeof name, format, args);                                                              \
    va_end(args)

struct value *graph_weight(struct graph *graph, uint64_t ne0, uint64_t ne1, const char *format, ...)
{
    FORMAT_NAME(name, format);
    return find_weight(graph, ne0, ne1, false, name);
}

struct value *graph_weight_optional(struct graph *graph, uint64_t ne0, uint64_t ne1, const char *format, ...)
{
    FORMAT_NAME(name, format);
    return find_weight(graph, ne0, ne1, true, name);
}

struct value *graph_weight_again(struct graph *graph, struct value *weight)
{
    return weight ? add_weight(graph, graph->weights[weight->index].tensor) : NULL;
}

struct value *graph_input(struct graph *graph, enum graph_input input)
{
    if (graph->inputs[input]) return graph->inputs[input];
    const struct graph_shape *shape = &graph->shape;
    uint64_t ne[4] = {shape->n_tokens, 1, 1, 1};
    if (input == INPUT_OUTPUT_ROWS) ne[0] = shape->n_outputs;
    if (input == INPUT_BLOCK_TABLE) {
        ne[0] = shape->table_width;
        ne[1] = shape->n_sequences;
    }
    struct value *value = add_value(graph, VALUE_INPUT, ENGINE_TYPE_I32, ne);
    if (value) value->index = (uint32_t)input;
    return graph->inputs[input] = value;
}

struct value *graph_cache(struct graph *graph, uint32_t layer, uint32_t which, uint64_t head_dim,
                          uint64_t n_kv_heads)
{
    const struct graph_shape *shape = &graph->shape;
    uint64_t row;
    if (graph->status) return NULL;
    if (!type_row_size(shape->cache_type, head_dim, &row)) {
        graph->status =
            fail(ENGINE_ERROR_UNSUPPORTED,
                 "%s: heads of %llu values don't fit a %s cache; use --cache-type f16 or f32",
                 model_path(graph->model), (unsigned long long)head_dim, type_info(shape->cache_type)->name);
        return NULL;
    }
    uint64_t ne[4] = {head_dim, shape->block_size, n_kv_heads, shape->n_blocks};
    struct value *value = add_value(graph, VALUE_CACHE, shape->cache_type, ne);
    if (value) value->index = 2 * layer + which;
    return value;
}

struct value *graph_reshape(struct graph *graph, struct value *value, uint64_t ne0, uint64_t ne1,
                            uint64_t ne2)
{
    if (!value) return NULL;
    struct value *view = add_activation(graph, ne0, ne1, ne2);
    if (!view) return NULL;
    view->kind = value->kind;
    view->index = value->index;
    view->root = value->root;
    view->view_offset = value->view_offset;
    return view;
}

/* ---- Nodes ------------------------------------------------------------------------------------------------------- */

static void add_node(struct graph *graph, uint32_t op, const union op_args *args)
{
    if (graph->status || !grow(graph, (void **)&graph->nodes, graph->n_nodes, sizeof *graph->nodes)) return;
    struct node *node = &graph->nodes[graph->n_nodes++];
    *node = (struct node){.op = op, .layer = graph->layer, .args = *args};
    node->args.struct_size = op_info(op)->size;
    for (const struct op_operand *input = op_info(op)->inputs; input->offset; input++) {
        const struct engine_tensor *tensor = *op_tensor(&node->args, input->offset);
        if (tensor && value_of(tensor)->kind == VALUE_WEIGHT)
            graph->weights[value_of(tensor)->index].uses |= input->uses;
    }
}

struct value *graph_get_rows(struct graph *graph, struct value *source, struct value *rows)
{
    if (!source || !rows) return NULL;
    struct value *output = add_activation(graph, source->tensor.ne[0], rows->tensor.ne[0], 1);
    if (!output) return NULL;
    add_node(graph, ENGINE_OP_GET_ROWS,
             &(union op_args){.get_rows = {0, &source->tensor, &rows->tensor, &output->tensor}});
    return output;
}

struct value *graph_wanted(struct graph *graph, struct value *value)
{
    if (graph->shape.n_tokens == 1 && graph->shape.n_outputs == 1) return value; /* as in decode */
    return graph_get_rows(graph, value, graph_input(graph, INPUT_OUTPUT_ROWS));
}

struct value *graph_matmul(struct graph *graph, struct value *weight, struct value *input)
{
    if (!weight || !input) return NULL;
    struct value *output = add_activation(graph, weight->tensor.ne[1], input->tensor.ne[1], 1);
    if (!output) return NULL;
    add_node(graph, ENGINE_OP_MATMUL,
             &(union op_args){
                 .matmul = {.weight = &weight->tensor, .input = &input->tensor, .output = &output->tensor}});
    return output;
}

struct value *graph_norm(struct graph *graph, struct value *input, struct value *weight, float epsilon)
{
    if (!input || !weight) return NULL;
    struct value *output = add_activation(graph, input->tensor.ne[0], input->tensor.ne[1], 1);
    if (!output) return NULL;
    add_node(graph, ENGINE_OP_NORM,
             &(union op_args){
                 .norm = {0, &input->tensor, &output->tensor, &weight->tensor, ENGINE_NORM_RMS, epsilon}});
    return output;
}

struct value *graph_add(struct graph *graph, struct value *a, struct value *b)
{
    if (!a || !b) return NULL;
    struct value *output = add_activation(graph, a->tensor.ne[0], a->tensor.ne[1], a->tensor.ne[2]);
    if (!output) return NULL;
    add_node(graph, ENGINE_OP_ADD, &(union op_args){.binary = {0, &a->tensor, &b->tensor, &output->tensor}});
    return output;
}

struct value *graph_activate(struct graph *graph, struct value *input, struct value *factor,
                             uint32_t activation)
{
    if (!input || !factor) return NULL;
    struct value *output = add_activation(graph, input->tensor.ne[0], input->tensor.ne[1], 1);
    if (!output) return NULL;
    add_node(
        graph, ENGINE_OP_ACTIVATE,
        &(union op_args){.activate = {0, &input->tensor, &factor->tensor, &output->tensor, activation, 0}});
    return output;
}

struct value *graph_rope(struct graph *graph, struct value *input, const struct rope_options *options)
{
    struct value *positions = graph_input(graph, INPUT_POSITIONS);
    if (!input || !positions) return NULL;
    const uint64_t *ne = input->tensor.ne;
    struct value *output = add_activation(graph, ne[0], ne[1], ne[2]);
    if (!output) return NULL;
    add_node(graph, ENGINE_OP_ROPE,
             &(union op_args){.rope = {.input = &input->tensor,
                                       .positions = &positions->tensor,
                                       .output = &output->tensor,
                                       .factors = options->factors ? &options->factors->tensor : NULL,
                                       .n_dims = options->n_dims,
                                       .pairs = options->pairs,
                                       .theta = options->theta,
                                       .position_scale = options->position_scale}});
    return output;
}

void graph_cache_write(struct graph *graph, struct value *cache, struct value *input)
{
    struct value *slots = graph_input(graph, INPUT_SLOTS);
    if (!cache || !input || !slots) return;
    add_node(graph, ENGINE_OP_CACHE_WRITE,
             &(union op_args){.cache_write = {0, &input->tensor, &slots->tensor, &cache->tensor}});
}

struct value *graph_attention(struct graph *graph, struct value *q, struct value *k, struct value *v,
                              float scale, uint32_t window)
{
    struct value *table = graph_input(graph, INPUT_BLOCK_TABLE);
    struct value *sequences = graph_input(graph, INPUT_SEQUENCES);
    struct value *positions = graph_input(graph, INPUT_POSITIONS);
    if (!q || !k || !v || !table || !sequences || !positions) return NULL;
    struct value *output = add_activation(graph, v->tensor.ne[0], q->tensor.ne[1], q->tensor.ne[2]);
    if (!output) return NULL;
    add_node(graph, ENGINE_OP_ATTENTION,
             &(union op_args){.attention = {.q = &q->tensor,
                                            .k = &k->tensor,
                                            .v = &v->tensor,
                                            .block_table = &table->tensor,
                                            .sequences = &sequences->tensor,
                                            .positions = &positions->tensor,
                                            .output = &output->tensor,
                                            .scale = scale,
                                            .window = window}});
    return output;
}

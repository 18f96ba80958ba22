/* assign.c: builds the graph of a shape, chooses a device for each node from the placement of weights and
 * caches, and schedules it. */
#include <stdlib.h>

#include "base/error.h"
#include "common/assert.h"
#include "kv/cache.h"
#include "model/types.h"
#include "plan/internal.h"

bool plan_supports(void *user, uint32_t device, uint32_t op, const union op_args *args)
{
    const struct engine_plan *plan = user;
    const struct open_device *d = &plan->set.devices[device];
    return d->backend->supports(d->handle, op, args) == 1;
}

int plan_build_graph(const struct engine_plan *plan, const struct shape_key *key, struct graph **out)
{
    /* An eye's graph has whole rows. */
    const uint32_t n_merged = plan->info.n_merged ? plan->info.n_merged : 1,
                   n_tokens = (key->n_tokens + n_merged - 1) / n_merged * n_merged;
    struct graph_shape shape = {
        .n_tokens = n_tokens,
        .n_outputs = key->n_outputs,
        .n_sequences = plan->n_sequences,
        .table_width = key->table_width,
        .cache_type = plan->cache_type,
        .block_size = KV_BLOCK_SIZE,
        .n_blocks = plan->n_blocks,
        .n_window_blocks = plan->n_window_blocks,
        .n_states = plan->n_states,
        .n_context = plan->n_context,
        .encodes = key->encodes != 0,
        .source_width = key->source_width,
        .n_text_blocks = plan->n_text_blocks,
        .n_source_blocks = plan->n_source_blocks,
        .watch = plan->watch.kinds | key->watch,
        .watch_layer = plan->watch.layer,
        .watch_n_layers = plan->watch.n_layers,
        .pictures = key->pictures,
        .row_width = plan->info.row_width,
        .chunk = key->chunk,
    };
    struct graph *graph = graph_create(plan->model->model, plan->derived, &shape);
    if (!graph) return ENGINE_ERROR_MEMORY;
    graph->adapters = plan->adapters;
    graph->n_adapters = plan->n_adapters;
    plan->architecture->build(graph, plan->hparams);
    int status = graph->status;
    if (status)
        graph_destroy(graph);
    else
        *out = graph;
    return status;
}

struct shape_key plan_full_shape(const struct engine_plan *plan, uint32_t n_tokens, uint32_t n_outputs,
                                 bool encodes)
{
    uint32_t width = plan_full_table_width(plan);
    return (struct shape_key){.n_tokens = n_tokens,
                              .n_outputs = n_outputs,
                              .table_width = width,
                              .source_width = plan->info.has_source ? width : 0,
                              .encodes = encodes,
                              /* whose weights graphs without pictures don't use */
                              .pictures = plan->info.has_axes && plan->sees ? PICTURES_AXES : 0};
}

uint32_t plan_full_table_width(const struct engine_plan *plan)
{
    return kv_blocks_for(plan->n_context);
}

uint32_t plan_table_width(const struct engine_plan *plan, uint32_t n_blocks)
{
    uint32_t max = plan_full_table_width(plan), width = 8;
    ENGINE_ASSERT(n_blocks <= max);
    while (width < max && width < n_blocks) width *= 2;
    return width < max ? width : max;
}

const struct value *plan_anchor(const struct node *node)
{
    for (const struct op_operand *operand = op_operands(node->op); operand->name; operand++) {
        const struct engine_tensor *tensor = op_given(&node->args, operand);
        if (operand->flags & OP_PLACES && tensor && value_of(tensor)->kind == VALUE_WEIGHT)
            return value_of(tensor);
    }
    return NULL;
}

/* The operand by which a node without a weight runs, if it doesn't run with its layer: one that it follows,
 * or its first. */
static const struct op_operand *leading_operand(const struct node *node)
{
    const struct op_operand *operands = op_operands(node->op), *operand = operands;
    while (operand->name && !(operand->flags & OP_FOLLOWED)) operand++;
    return operand->name ? operand : operands;
}

const struct plan_cache *plan_cache_of(const struct engine_plan *plan, const struct node *node)
{
    for (const struct op_operand *operand = op_operands(node->op); operand->name; operand++) {
        const struct engine_tensor *tensor = op_given(&node->args, operand);
        if (!(operand->flags & (OP_CACHE | OP_STATE)) || !tensor) continue;
        const struct value *cache = value_of(tensor);
        ENGINE_ASSERT(cache->kind == VALUE_CACHE && cache->index < plan->n_caches);
        return &plan->caches[cache->index];
    }
    return NULL;
}

/* Where a node without a weight should run: nodes that touch the cache run with the cache; sums of a layer
 * run where its attention is, that is, where its norms are; everything else runs where an operand is made.
 * `made[id]` is the device of each value. */
static uint32_t wanted_device(const struct engine_plan *plan, const struct node *node, const uint32_t *made)
{
    const struct value *weight = plan_anchor(node);
    if (weight) return plan->device[weight->index];
    const struct plan_cache *cache = plan_cache_of(plan, node);
    if (cache) return plan->device[cache->entry];
    const struct op_operand *leader = leading_operand(node);
    bool at_layer = !(leader->flags & OP_FOLLOWED) && node->layer != NO_LAYER;
    ENGINE_ASSERT(!at_layer || node->layer < plan->info.n_layers);
    if (at_layer) return plan->device[plan->layer_entry[node->layer]];
    return made[value_of(op_given(&node->args, leader))->root->id];
}

/* Sets the device of every node: the wanted one, or the CPU if that one doesn't support the operation. */
static int assign_devices(const struct engine_plan *plan, struct graph *graph)
{
    uint32_t *made = calloc(graph->n_values, sizeof *made);
    int status = made ? ENGINE_OK : error_memory("graph");
    for (size_t i = 0; i < graph->n_nodes && !status; i++) {
        struct node *node = &graph->nodes[i];
        const struct op_info *info = op_info(node->op);
        node->device = wanted_device(plan, node, made);
        ENGINE_ASSERT(node->device < plan->set.n_devices);
        void *asked = (void *)(uintptr_t)plan;
        if (node->device != 0 && !plan_supports(asked, node->device, node->op, &node->args)) {
            if (plan_anchor(node) || plan_cache_of(plan, node)) { /* its weight or cache can't be moved now */
                status = error_raise(ENGINE_ERROR,
                                     "%s ran %s for another number of tokens, but cannot for this one",
                                     plan->set.devices[node->device].name, info->name);
                break;
            }
            node->device = 0;
        }
        if (node->device == 0 && !plan_supports(asked, 0, node->op, &node->args)) {
            const struct value *weight = plan_anchor(node);
            const char *path = model_path(plan->model->model);
            if (weight)
                status = error_raise(ENGINE_ERROR_UNSUPPORTED,
                                     "%s: the cpu backend cannot run %s with %s, of type %s", path,
                                     info->name, graph->weights[weight->index].tensor->name,
                                     type_info(weight->tensor.type)->name);
            else
                status = error_raise(ENGINE_ERROR_UNSUPPORTED,
                                     "%s: the cpu backend cannot run %s of this shape", path, info->name);
        }
        for (const struct op_operand *operand = info->operands; operand->name; operand++) {
            const struct engine_tensor *tensor = op_given(&node->args, operand);
            if (tensor && operand->role & OP_OUT) made[value_of(tensor)->root->id] = node->device;
        }
    }
    free(made);
    return status;
}

int plan_schedule(const struct engine_plan *plan, const struct shape_key *key, struct schedule **schedule)
{
    struct graph *graph;
    int status = plan_build_graph(plan, key, &graph);
    if (status) return status;
    status = assign_devices(plan, graph);
    if (!status) status = graph_fuse(graph, plan_supports, (void *)(uintptr_t)plan);
    if (!status) return schedule_create(graph, plan->alignment, schedule);
    graph_destroy(graph);
    return status;
}

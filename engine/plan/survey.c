/* survey.c: what a plan is made from: the entries of its weights and caches, what each device can run of the graph
 * (`supports`), and what things take there (`weight_size`, `op_memory`). */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "model/types.h"
#include "plan/steps.h"

struct engine_weight_desc plan_weight_desc(const struct model_tensor *tensor, uint32_t uses)
{
    struct engine_weight_desc desc = {
        .struct_size = sizeof desc,
        .name = tensor->name,
        .type = tensor->type,
        .type_name = type_info(tensor->type)->name,
        .uses = uses,
        .data_is_kept = 1,
        .data_size = tensor->size,
    };
    memcpy(desc.ne, tensor->ne, sizeof desc.ne);
    return desc;
}

/* Clears the bits of devices that can't run the nodes of this graph from the entries of their weights and caches. */
static void ask_support(struct engine_plan *plan, const struct graph *graph)
{
    for (size_t i = 0; i < graph->n_nodes; i++) {
        const struct node *node = &graph->nodes[i];
        const struct value *weight = anchor(node);
        bool cache = touches_cache(node);
        if (!weight && !cache) continue;
        struct place_tensor *entry = &plan->entries[weight ? weight->index : plan->n_weights + node->layer];
        for (uint32_t d = 1; d < plan->set.n_devices; d++)
            if (entry->can & 1u << d && !plan_supports(plan, d, node->op, &node->args))
                entry->can &= ~(1u << d);
    }
}

static void ask_sizes(struct engine_plan *plan)
{
    for (size_t i = 0; i < plan->n_weights; i++) {
        struct place_tensor *entry = &plan->entries[i];
        struct engine_weight_desc desc = plan_weight_desc(plan->tensors[i], plan->uses[i]);
        for (uint32_t d = 0; d < plan->set.n_devices && plan->uses[i]; d++) {
            const struct open_device *device = &plan->set.devices[d];
            uint64_t bytes = 0;
            int status = device->backend->weight_size(device->handle, &desc, &bytes);
            if (status && d > 0) entry->can &= ~(1u << d);
            entry->bytes[d] = bytes;
        }
    }
}

uint64_t working_memory(const struct engine_plan *plan, const struct graph *graph, uint32_t device, bool all)
{
    const struct open_device *d = &plan->set.devices[device];
    uint64_t most = 0;
    if (!ENGINE_HAS(d->backend, op_memory) || !d->backend->op_memory) return 0;
    for (size_t i = 0; i < graph->n_nodes; i++) {
        const struct node *node = &graph->nodes[i];
        uint64_t bytes = 0;
        if (all ? !plan_supports((void *)(uintptr_t)plan, device, node->op, &node->args)
                : node->device != device)
            continue;
        if (d->backend->op_memory(d->handle, node->op, &node->args, &bytes) == ENGINE_OK && bytes > most)
            most = bytes;
    }
    return most;
}

/* Layers share a tensor (rope factors), or one has two roles (a tied embedding). */
static size_t find_group(const struct engine_plan *plan, size_t i)
{
    size_t k = 0;
    while (plan->tensors[k] != plan->tensors[i]) k++;
    return k;
}

static int add_entries(struct engine_plan *plan, const struct graph *graph)
{
    uint32_t n_layers = plan->hparams.n_layers;
    plan->n_weights = graph->n_weights;
    size_t n = plan->n_weights + n_layers;
    plan->entries = calloc(n, sizeof *plan->entries);
    plan->tensors = calloc(plan->n_weights, sizeof *plan->tensors);
    plan->uses = calloc(plan->n_weights, sizeof *plan->uses);
    plan->device = calloc(n, sizeof *plan->device);
    if (!plan->entries || !plan->tensors || !plan->uses || !plan->device) return fail_memory("plan");
    for (size_t i = 0; i < n; i++) plan->entries[i].can = (1u << plan->set.n_devices) - 1;

    for (size_t i = 0; i < plan->n_weights; i++) {
        const struct graph_weight *weight = &graph->weights[i];
        struct place_tensor *entry = &plan->entries[i];
        plan->tensors[i] = weight->tensor;
        plan->uses[i] = weight->uses;
        entry->name = strdup(weight->tensor->name);
        entry->layer = weight->layer;
        entry->part = weight->layer != NO_LAYER           ? PLACE_LAYER
                      : weight->uses & ENGINE_WEIGHT_ROWS ? PLACE_EMBEDDING
                                                          : PLACE_OUTPUT;
        entry->group = find_group(plan, i);
        if (!entry->name) return fail_memory("plan");
    }
    uint64_t cache_bytes[2] = {0};
    for (size_t i = 0; i < graph->n_values; i++)
        if (graph->values[i]->kind == VALUE_CACHE && graph->values[i]->index < 2)
            cache_bytes[graph->values[i]->index] =
                graph->values[i]->tensor.nb[3] * graph->values[i]->tensor.ne[3];
    for (uint32_t layer = 0; layer < n_layers; layer++) {
        struct place_tensor *entry = &plan->entries[plan->n_weights + layer];
        char name[32];
        snprintf(name, sizeof name, "blk.%u.cache", layer);
        entry->name = strdup(name);
        entry->layer = layer;
        entry->part = PLACE_LAYER;
        entry->group = plan->n_weights + layer;
        if (!entry->name) return fail_memory("plan");
        for (uint32_t d = 0; d < plan->set.n_devices; d++) {
            uint64_t max = plan->set.devices[d].info.max_buffer;
            entry->bytes[d] = cache_bytes[0] + cache_bytes[1];
            if (d > 0 && max && (cache_bytes[0] > max || cache_bytes[1] > max)) entry->can &= ~(1u << d);
        }
    }
    return ENGINE_OK;
}

int estimate_activations(struct engine_plan *plan)
{
    uint32_t width = full_table_width(plan);
    struct graph *graph;
    struct schedule *schedule;
    int status = build_graph(plan, plan->n_batch, plan->max_outputs, width, &graph);
    if (status) return status;
    for (uint32_t d = 0; d < plan->set.n_devices; d++)
        plan->working[d] = working_memory(plan, graph, d, true);
    status = schedule_create(graph, plan->alignment, &schedule);
    if (status) return status;
    for (uint32_t d = 0; d < plan->set.n_devices; d++) plan->activations[d] = schedule->arena[0];
    schedule_destroy(schedule);
    return ENGINE_OK;
}

int survey(struct engine_plan *plan)
{
    uint32_t width = full_table_width(plan);
    struct graph *one = NULL, *many = NULL;
    int status = build_graph(plan, 1, 1, width, &one);
    if (!status) status = build_graph(plan, plan->n_batch, plan->max_outputs, width, &many);
    if (!status) status = add_entries(plan, one);
    if (!status) {
        ask_support(plan, one);
        ask_support(plan, many);
        ask_sizes(plan);
        status = estimate_activations(plan);
    }
    graph_destroy(one);
    graph_destroy(many);
    return status;
}

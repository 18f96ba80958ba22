/* survey.c: gathers the input of a plan: the entries of its weights and caches, the parts of the graph that
 * each device can run (`supports`), and the memory they take there (`weight_size`, `op_memory`). */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "common/assert.h"
#include "model/types.h"
#include "plan/internal.h"

struct engine_weight_desc plan_weight_desc(const struct model_tensor *tensor, uint32_t uses)
{
    struct engine_weight_desc desc = {
        .struct_size = sizeof desc,
        .name = tensor->name,
        .type = tensor->type,
        .type_name = type_info(tensor->type)->name,
        .uses = uses,
        .data_is_kept = tensor->data != NULL, /* tensors assembled from parts are not kept */
        .data_size = tensor->size,
        .exact_inputs = tensor->is_exact,
    };
    memcpy(desc.ne, tensor->ne, sizeof desc.ne);
    return desc;
}

/* The entry that decides where a node runs: its weight's or its cache's; NULL if the node runs where others
 * do. */
static struct place_tensor *entry_of(struct engine_plan *plan, const struct node *node)
{
    const struct value *weight = plan_anchor(node);
    if (weight) return &plan->entries[weight->index];
    const struct plan_cache *cache = plan_cache_of(plan, node);
    return cache ? &plan->entries[cache->entry] : NULL;
}

/* Clears the bits of devices that can't run the nodes of this graph from the nodes' entries. */
static void ask_support(struct engine_plan *plan, const struct graph *graph)
{
    for (size_t i = 0; i < graph->n_nodes; i++) {
        const struct node *node = &graph->nodes[i];
        struct place_tensor *entry = entry_of(plan, node);
        for (uint32_t d = 1; entry && d < plan->set.n_devices; d++)
            if (place_can(entry, d) && !plan_supports(plan, d, node->op, &node->args)) place_forbid(entry, d);
    }
}

static void ask_sizes(struct engine_plan *plan)
{
    for (size_t i = 0; i < plan->n_weights; i++) {
        struct place_tensor *entry = &plan->entries[i];
        const struct plan_weight *weight = &plan->weights[i];
        struct engine_weight_desc desc = plan_weight_desc(weight->tensor, weight->uses);
        for (uint32_t d = 0; d < plan->set.n_devices && weight->uses; d++) {
            const struct open_device *device = &plan->set.devices[d];
            uint64_t bytes = 0;
            int status = device->backend->weight_size(device->handle, &desc, &bytes);
            if (status && d > 0) place_forbid(entry, d);
            entry->bytes[d] = bytes;
        }
    }
}

/* Makes a weight follow the entry that its node follows: a bias its matrix, slopes the cache. */
static void survey_follow(struct engine_plan *plan, size_t weight, struct place_tensor *leader)
{
    struct place_tensor *entry = &plan->entries[weight];
    ENGINE_ASSERT(&plan->entries[leader->leader] == leader); /* those that follow have no followers */
    if (entry == leader || entry->leader != weight) return;
    entry->leader = (size_t)(leader - plan->entries);
    entry->next = leader->next;
    leader->next = weight;
    for (int w = 0; w < PLACE_MAX_DEVICES / 64; w++) leader->can[w] &= entry->can[w];
}

static void find_followers(struct engine_plan *plan, const struct graph *graph)
{
    for (size_t i = 0; i < graph->n_nodes; i++) {
        const struct node *node = &graph->nodes[i];
        struct place_tensor *leader = entry_of(plan, node);
        for (const struct op_operand *operand = op_operands(node->op); leader && operand->name; operand++) {
            const struct engine_tensor *tensor = op_given(&node->args, operand);
            if (tensor && value_of(tensor)->kind == VALUE_WEIGHT)
                survey_follow(plan, value_of(tensor)->index, leader);
        }
    }
    for (size_t i = 0; i < graph->n_weights; i++)
        if (graph->weights[i].changes != NO_WEIGHT)
            survey_follow(plan, i, &plan->entries[plan->entries[graph->weights[i].changes].leader]);
}

uint64_t plan_working_memory(const struct engine_plan *plan, const struct graph *graph, uint32_t device,
                             bool all)
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
    while (plan->weights[k].tensor != plan->weights[i].tensor) k++;
    return k;
}

/* Counts the layers that have caches. The caches of a layer are adjacent in the graph. */
static size_t count_cached_layers(const struct graph *graph)
{
    size_t count = 0;
    for (size_t c = 0; c < graph->n_caches; c++)
        count += c == 0 || graph->caches[c].layer != graph->caches[c - 1].layer;
    return count;
}

void plan_forget(struct engine_plan *plan)
{
    for (size_t i = 0; plan->entries && i < plan->n_entries; i++)
        free((char *)(uintptr_t)plan->entries[i].name);
    free(plan->entries);
    free(plan->device);
    free(plan->weights);
    free(plan->caches);
    free(plan->layer_entry);
    plan->entries = NULL, plan->device = NULL, plan->weights = NULL, plan->caches = NULL;
    plan->layer_entry = NULL;
    plan->n_entries = plan->n_weights = plan->n_caches = 0;
}

static int create_lists(struct engine_plan *plan, const struct graph *graph)
{
    plan->n_weights = graph->n_weights;
    plan->n_caches = graph->n_caches;
    plan->n_entries = graph->n_weights + count_cached_layers(graph);
    plan->entries = calloc(plan->n_entries, sizeof *plan->entries);
    plan->device = calloc(plan->n_entries, sizeof *plan->device);
    plan->weights = calloc(plan->n_weights, sizeof *plan->weights);
    plan->caches = calloc(plan->n_caches + 1, sizeof *plan->caches);
    plan->layer_entry = calloc(plan->info.n_layers, sizeof *plan->layer_entry);
    bool whole = plan->entries && plan->device && plan->weights && plan->caches && plan->layer_entry;
    return whole ? ENGINE_OK : error_memory("plan");
}

/* Fills the fields that all entries have. */
static int start_entry(struct engine_plan *plan, size_t i, const char *name, uint32_t layer,
                       enum place_part part)
{
    plan->entries[i] = (struct place_tensor){
        .name = strdup(name),
        .part = part,
        .layer = layer,
        .group = i,
        .leader = i,
        .next = PLACE_NONE,
    };
    for (uint32_t d = 0; d < plan->set.n_devices; d++) plan->entries[i].can[d / 64] |= UINT64_C(1) << d % 64;
    return plan->entries[i].name ? ENGINE_OK : error_memory("plan");
}

static int add_weights(struct engine_plan *plan, const struct graph *graph)
{
    bool before_layers = true;
    for (size_t i = 0; i < plan->n_weights; i++) {
        const struct graph_weight *weight = &graph->weights[i];
        enum place_part part = weight->layer != NO_LAYER ? PLACE_LAYER
                               : before_layers           ? PLACE_EMBEDDING
                                                         : PLACE_OUTPUT;
        if (part == PLACE_LAYER && before_layers) before_layers = false;
        plan->weights[i] = (struct plan_weight){weight->tensor, weight->uses, weight->matrices_read,
                                                weight->changes != NO_WEIGHT};
        int status = start_entry(plan, i, weight->tensor->name, weight->layer, part);
        if (status) return status;
        plan->entries[i].group = find_group(plan, i);
        plan->entries[i].experts = weight->matrices_read > 0;
    }
    for (size_t i = plan->n_weights; i-- > 0;)
        ENGINE_ASSERT(graph->weights[i].layer == NO_LAYER || graph->weights[i].layer < plan->info.n_layers);
    for (size_t i = plan->n_weights; i-- > 0;)
        if (graph->weights[i].layer != NO_LAYER) plan->layer_entry[graph->weights[i].layer] = i;
    return ENGINE_OK;
}

static int add_caches(struct engine_plan *plan, const struct graph *graph)
{
    size_t entry = plan->n_weights - 1;
    for (size_t c = 0; c < plan->n_caches; c++) {
        const struct graph_cache *cache = &graph->caches[c];
        uint64_t size = cache->value->tensor.nb[3] * cache->value->tensor.ne[3];
        if (c == 0 || cache->layer != graph->caches[c - 1].layer) {
            char name[32];
            snprintf(name, sizeof name, "blk.%u.cache", cache->layer);
            int status = start_entry(plan, ++entry, name, cache->layer, PLACE_LAYER);
            if (status) return status;
            plan->layer_entry[cache->layer] = entry;
        }
        ENGINE_ASSERT(entry < plan->n_entries);
        plan->caches[c] = (struct plan_cache){
            .entry = entry,
            .size = size,
            .row_size = cache->value->tensor.nb[1],
            .n_rows = (uint32_t)cache->value->tensor.ne[1],
            .period = cache->period ? graph->periods[cache->period - 1] : 0,
            .n_blocks = cache->is_state ? plan->n_states : (uint32_t)cache->value->tensor.ne[3],
            .pool = cache->pool,
            .windowed = cache->windowed,
            .is_state = cache->is_state,
        };
        for (uint32_t d = 0; d < plan->set.n_devices; d++) {
            uint64_t max = plan->set.devices[d].info.max_buffer;
            plan->entries[entry].bytes[d] += size;
            if (d > 0 && max && size > max) place_forbid(&plan->entries[entry], d);
        }
    }
    return ENGINE_OK;
}

/* Raises the estimates to what a batch of this shape needs. */
static int estimate(struct engine_plan *plan, const struct shape_key *key)
{
    struct graph *graph;
    struct schedule *schedule;
    int status = plan_build_graph(plan, key, &graph);
    if (status) return status;
    for (uint32_t d = 0; d < plan->set.n_devices; d++) {
        uint64_t working = plan_working_memory(plan, graph, d, true);
        if (working > plan->working[d]) plan->working[d] = working;
    }
    status = schedule_create(graph, plan->alignment, &schedule);
    if (status) return status;
    for (uint32_t d = 0; d < plan->set.n_devices; d++)
        if (schedule->arena[0] > plan->activations[d]) plan->activations[d] = schedule->arena[0];
    schedule_destroy(schedule);
    return ENGINE_OK;
}

int plan_estimate_activations(struct engine_plan *plan)
{
    const struct shape_key most = plan_full_shape(plan, plan->n_batch, plan->max_outputs, false),
                           encoded = plan_full_shape(plan, plan->n_batch, 1, true);
    memset(plan->activations, 0, sizeof plan->activations);
    memset(plan->working, 0, sizeof plan->working);
    int status = estimate(plan, &most);
    return status || !plan->info.has_source ? status : estimate(plan, &encoded);
}

/* Does `take` with the graph of one token, or with that of the largest batch. */
static int with_graph(struct engine_plan *plan, bool encodes, bool one,
                      void (*take)(struct engine_plan *plan, const struct graph *graph))
{
    struct shape_key key = plan_full_shape(plan, plan->n_batch, encodes ? 1 : plan->max_outputs, encodes);
    if (one) key.n_tokens = key.n_outputs = 1;
    struct graph *graph;
    int status = plan_build_graph(plan, &key, &graph);
    if (status) return status;
    take(plan, graph);
    graph_destroy(graph);
    return ENGINE_OK;
}

/* Some layers of hybrid models have no attention, and those with pooled rows attend in two parts whose
 * weights nobody hands out. Only the graph shows which: finds the last layer that has weights, if that was
 * asked for, and fails if no layer that was asked for has any. */
static int check_watched_attention(struct engine_plan *plan)
{
    struct plan_watch *watch = &plan->watch;
    const struct shape_key key = plan_full_shape(plan, 1, 1, false);
    struct graph *graph;
    const char *why = plan->info.has_states ? "recurrent" : "made of two parts";
    if (!(watch->kinds & WATCH_ATTENTION) || (!plan->info.has_states && plan->info.periods[0] == 0))
        return ENGINE_OK;
    int status = plan_build_graph(plan, &key, &graph);
    if (status) return status;
    uint32_t last = NO_LAYER, n_watched = 0;
    for (size_t i = 0; i < graph->n_nodes; i++) {
        uint32_t layer = graph->nodes[i].layer;
        const struct engine_op_attention *args = &graph->nodes[i].args.attention;
        if (graph->nodes[i].op != ENGINE_OP_ATTENTION || args->earlier || args->logsums) continue;
        last = layer;
        n_watched += layer >= watch->layer && layer - watch->layer < watch->n_layers;
    }
    graph_destroy(graph);
    if (last == NO_LAYER)
        return error_raise(ENGINE_ERROR_UNSUPPORTED, "no attention to watch: %s models are %s",
                           plan->architecture->name, why);
    if (watch->last)
        watch->layer = last;
    else if (n_watched == 0)
        return error_raise(ENGINE_ERROR_ARGUMENT,
                           "layer %u has no attention to watch: it is %s; the last one that has is %u",
                           watch->layer, why, last);
    return ENGINE_OK;
}

int plan_survey(struct engine_plan *plan)
{
    const struct shape_key key = plan_full_shape(plan, 1, 1, false);
    struct graph *one = NULL;
    int n_graphs = plan->info.has_source ? 2 : 1, status = check_watched_attention(plan);
    if (!status) status = plan_build_graph(plan, &key, &one);
    if (!status) status = create_lists(plan, one);
    if (!status) status = add_weights(plan, one);
    if (!status) status = add_caches(plan, one);
    graph_destroy(one);
    for (int i = 0; i < n_graphs && !status; i++) {
        status = with_graph(plan, i == 1, true, ask_support);
        if (!status) status = with_graph(plan, i == 1, false, ask_support);
    }
    if (!status) ask_sizes(plan);
    for (int i = 0; i < n_graphs && !status; i++) status = with_graph(plan, i == 1, true, find_followers);
    return status ? status : plan_estimate_activations(plan);
}

/* plan.c: see plan.h. Devices are asked here what they can run (`supports`) and what a weight takes (`weight_size`); the
 * answers go to place.c, and its decision back into the graphs as the device of each node. */
#include "plan.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/error.h"
#include "base/log.h"
#include "kv/cache.h"
#include "measure.h"
#include "model/types.h"

#define DEFAULT_CONTEXT 4096
#define DEFAULT_BATCH   512
#define MAX_BATCH       65536
#define MAX_SEQUENCES   4096
#define MAX_OUTPUTS     64 /* unless there are more sequences: vocabularies are large, and logits take memory */

/* ---- Nodes on devices -------------------------------------------------------------------------------------------- */

static bool supports(void *user, uint32_t device, uint32_t op, const union op_args *args)
{
    const struct engine_plan *plan = user;
    const struct open_device *d = &plan->set.devices[device];
    return d->backend->supports(d->handle, op, args) == 1;
}

static int build_graph(const struct engine_plan *plan, uint32_t n_tokens, uint32_t n_outputs, uint32_t width,
                       struct graph **out)
{
    struct graph_shape shape = {
        .n_tokens = n_tokens,
        .n_outputs = n_outputs,
        .n_sequences = plan->n_sequences,
        .table_width = width,
        .cache_type = plan->cache_type,
        .block_size = KV_BLOCK_SIZE,
        .n_blocks = plan->n_blocks,
    };
    struct graph *graph = graph_create(plan->model->model, &shape);
    if (!graph) return ENGINE_ERROR_MEMORY;
    plan->architecture->build(graph, &plan->hparams);
    int status = graph->status;
    if (status)
        graph_destroy(graph);
    else
        *out = graph;
    return status;
}

/* The weight that decides where a node runs: a matrix, norm, bias, embedding; NULL for what has none. */
static const struct value *anchor(const struct node *node)
{
    const union op_args *args = &node->args;
    const struct engine_tensor *weight = NULL;
    if (node->op == ENGINE_OP_MATMUL) weight = args->matmul.weight;
    if (node->op == ENGINE_OP_NORM) weight = args->norm.weight;
    if (node->op == ENGINE_OP_GET_ROWS) weight = args->get_rows.source;
    if (node->op == ENGINE_OP_ROPE) weight = args->rope.factors;
    if (node->op == ENGINE_OP_ADD || node->op == ENGINE_OP_MUL) weight = args->binary.b;
    return weight && value_of(weight)->kind == VALUE_WEIGHT ? value_of(weight) : NULL;
}

/* Where a node without a weight should run: what touches the cache with the cache; sums of a layer where its attention
 * is, which is where its norms are; all else where its first operand is made. `made[id]` is the device of each value. */
static uint32_t wanted_device(const struct engine_plan *plan, const struct node *node, const uint32_t *made)
{
    const struct value *weight = anchor(node);
    if (weight) return plan->device[weight->index];
    bool at_layer = node->op != ENGINE_OP_ACTIVATE && node->layer != NO_LAYER;
    if (at_layer) return plan->device[plan->n_weights + node->layer];
    return made[value_of(
                    *op_tensor((union op_args *)(uintptr_t)&node->args, op_info(node->op)->inputs[0].offset))
                    ->root->id];
}

static bool touches_cache(const struct node *node)
{
    return node->op == ENGINE_OP_ATTENTION || node->op == ENGINE_OP_CACHE_WRITE;
}

/* Sets the device of every node: the wanted one, or the CPU if it doesn't do the operation. */
static int assign_devices(const struct engine_plan *plan, struct graph *graph)
{
    uint32_t *made = calloc(graph->n_values, sizeof *made);
    int status = made ? ENGINE_OK : fail_memory("graph");
    for (size_t i = 0; i < graph->n_nodes && !status; i++) {
        struct node *node = &graph->nodes[i];
        const struct op_info *info = op_info(node->op);
        node->device = wanted_device(plan, node, made);
        void *asked = (void *)(uintptr_t)plan;
        if (node->device != 0 && !supports(asked, node->device, node->op, &node->args)) {
            if (anchor(node) || touches_cache(node)) { /* what it needs is there and can't be moved now */
                status =
                    fail(ENGINE_ERROR, "%s ran %s for another number of tokens, but doesn't for this one",
                         plan->set.devices[node->device].name, info->name);
                break;
            }
            node->device = 0;
        }
        if (node->device == 0 && !supports(asked, 0, node->op, &node->args)) {
            const struct value *weight = anchor(node);
            const char *path = model_path(plan->model->model);
            if (weight)
                status =
                    fail(ENGINE_ERROR_UNSUPPORTED, "%s: the cpu backend can't run %s with %s, of type %s",
                         path, info->name, graph->weights[weight->index].tensor->name,
                         type_info(weight->tensor.type)->name);
            else
                status = fail(ENGINE_ERROR_UNSUPPORTED, "%s: the cpu backend can't run %s of its shape", path,
                              info->name);
        }
        made[value_of(*op_tensor(&node->args, info->output))->root->id] = node->device;
    }
    free(made);
    return status;
}

int plan_schedule(const struct engine_plan *plan, uint32_t n_tokens, uint32_t n_outputs, uint32_t width,
                  struct schedule **schedule)
{
    struct graph *graph;
    int status = build_graph(plan, n_tokens, n_outputs, width, &graph);
    if (status) return status;
    status = assign_devices(plan, graph);
    if (!status) status = graph_fuse(graph, supports, (void *)(uintptr_t)plan);
    if (!status) return schedule_create(graph, plan->alignment, schedule);
    graph_destroy(graph);
    return status;
}

/* ---- What devices can, and what things take ---------------------------------------------------------------------- */

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
            if (entry->can & 1u << d && !supports(plan, d, node->op, &node->args)) entry->can &= ~(1u << d);
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

/* The most that an operation of the graph takes on a device beyond its operands: of those that run there, or of `all`. */
static uint64_t working_memory(const struct engine_plan *plan, const struct graph *graph, uint32_t device,
                               bool all)
{
    const struct open_device *d = &plan->set.devices[device];
    uint64_t most = 0;
    if (!ENGINE_HAS(d->backend, op_memory) || !d->backend->op_memory) return 0;
    for (size_t i = 0; i < graph->n_nodes; i++) {
        const struct node *node = &graph->nodes[i];
        uint64_t bytes = 0;
        if (all ? !supports((void *)(uintptr_t)plan, device, node->op, &node->args) : node->device != device)
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

/* What the largest batch's activations would take if everything ran on one device: the estimate that placement starts
 * from. */
static int estimate_activations(struct engine_plan *plan, uint32_t width)
{
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

static uint32_t table_width(const struct engine_plan *plan)
{
    return plan->n_blocks / plan->n_sequences;
}

static int survey(struct engine_plan *plan)
{
    uint32_t width = table_width(plan);
    struct graph *one = NULL, *many = NULL;
    int status = build_graph(plan, 1, 1, width, &one);
    if (!status) status = build_graph(plan, plan->n_batch, plan->max_outputs, width, &many);
    if (!status) status = add_entries(plan, one);
    if (!status) {
        ask_support(plan, one);
        ask_support(plan, many);
        ask_sizes(plan);
        status = estimate_activations(plan, width);
    }
    graph_destroy(one);
    graph_destroy(many);
    return status;
}

/* ---- Placing ----------------------------------------------------------------------------------------------------- */

static void decide(struct engine_plan *plan)
{
    struct place_device devices[PLACE_MAX_DEVICES];
    for (uint32_t d = 0; d < plan->set.n_devices; d++)
        devices[d] =
            (struct place_device){plan->set.devices[d].name, plan->set.devices[d].budget,
                                  plan->activations[d] + plan->working[d], plan->set.devices[d].speed};
    struct place_request request = {
        .devices = devices,
        .n_devices = plan->set.n_devices,
        .tensors = plan->entries,
        .n_tensors = plan->n_weights + plan->hparams.n_layers,
        .rules = plan->rules,
        .n_rules = plan->n_rules,
        .n_layers = plan->hparams.n_layers,
        .offload = plan->offload,
    };
    plan->n_offloaded = place_tensors(&request, plan->device, plan->used);
}

/* Replaces the estimate of activations by what this placement really needs. Returns true if a device then is over its
 * budget. */
static int measure(struct engine_plan *plan, bool *over)
{
    struct schedule *batch = NULL, *token = NULL;
    int status = plan_schedule(plan, plan->n_batch, plan->max_outputs, table_width(plan), &batch);
    if (!status) status = plan_schedule(plan, 1, 1, table_width(plan), &token);
    *over = false;
    if (!status) {
        for (uint32_t d = 0; d < plan->set.n_devices; d++) {
            uint64_t estimate = plan->used[d] ? plan->activations[d] + plan->working[d] : 0;
            uint64_t one = working_memory(plan, token->graph, d, false);
            const struct open_device *device = &plan->set.devices[d];
            plan->activations[d] = batch->arena[d];
            plan->working[d] = working_memory(plan, batch->graph, d, false);
            if (plan->working[d] < one) plan->working[d] = one;
            if (d > 0) plan->used[d] -= estimate;
            plan->used[d] += plan->activations[d] + plan->working[d];
            if (d > 0 && device->budget != PLACE_NO_LIMIT && plan->used[d] > device->budget) *over = true;
        }
        plan->n_copies = token->n_copies;
        plan->copy_bytes = token->copy_bytes;
    }
    schedule_destroy(batch);
    schedule_destroy(token);
    return status;
}

int plan_place(struct engine_plan *plan)
{
    uint32_t wanted = plan->offload;
    bool over = true;
    int status = ENGINE_OK;
    if (plan->set.n_devices == 1) plan->offload = 0;
    /* Each round offers fewer layers; with none, only rules can fill a device, and those are the user's wish. */
    while (!status && over) {
        decide(plan);
        status = measure(plan, &over);
        if (status || !over || plan->offload == 0) break;
        plan->offload = plan->n_offloaded > 0 ? plan->n_offloaded - 1 : 0;
        status = estimate_activations(plan, table_width(plan));
    }
    plan->offload = wanted;
    return status;
}

/* ---- Options ----------------------------------------------------------------------------------------------------- */

static int read_cache_type(const char *name, uint32_t *type)
{
    *type = ENGINE_TYPE_F16;
    if (!name) return ENGINE_OK;
    bool known =
        strcasecmp(name, "f16") == 0 || strcasecmp(name, "f32") == 0 || strcasecmp(name, "q8_0") == 0;
    if (!known || !type_by_name(name, type))
        return fail(ENGINE_ERROR_ARGUMENT, "cache type '%s': should be f16, f32 or q8_0", name);
    return ENGINE_OK;
}

static int read_rules(struct engine_plan *plan, const char *const *place)
{
    size_t count = 0;
    while (place && place[count]) count++;
    if (count == 0) return ENGINE_OK;
    plan->rules = calloc(count, sizeof *plan->rules);
    if (!plan->rules) return fail_memory("plan");
    for (size_t i = 0; i < count; i++) {
        const char *equals = strrchr(place[i], '=');
        if (!equals || equals == place[i])
            return fail(ENGINE_ERROR_ARGUMENT, "--place %s: should be PATTERN=DEVICE, like 'blk.*.ffn_*=cpu'",
                        place[i]);
        struct place_rule *rule = &plan->rules[plan->n_rules];
        if (!devices_find(&plan->set, equals + 1, &rule->device))
            return fail(ENGINE_ERROR_ARGUMENT, "--place %s: no device %s in use; `engine devices` lists them",
                        place[i], equals + 1);
        rule->pattern = strndup(place[i], (size_t)(equals - place[i]));
        if (!rule->pattern) return fail_memory("plan");
        plan->n_rules++;
    }
    return ENGINE_OK;
}

/* The configuration's settings. config.c has checked their values. */
static int32_t configured_offload(const struct engine *engine)
{
    const char *text = engine_setting(engine, "", "offload");
    if (!text || strcmp(text, "auto") == 0) return ENGINE_OFFLOAD_AUTO;
    return strcmp(text, "all") == 0 ? ENGINE_OFFLOAD_ALL : (int32_t)strtol(text, NULL, 10);
}

static uint32_t configured_threads(const struct engine *engine)
{
    const char *text = engine_setting(engine, "", "threads");
    return text ? (uint32_t)strtoul(text, NULL, 10) : 0;
}

static int read_offload(struct engine_plan *plan, const struct engine_context_options *options)
{
    int32_t offload = options->offload ? *options->offload : configured_offload(plan->model->engine);
    if (offload < ENGINE_OFFLOAD_ALL)
        return fail(ENGINE_ERROR_ARGUMENT, "offload %d: should be a number of layers, auto or all", offload);
    plan->offload_is_auto = offload == ENGINE_OFFLOAD_AUTO;
    plan->offload = offload < 0 ? PLACE_ALL : (uint32_t)offload;
    return ENGINE_OK;
}

static int read_sizes(struct engine_plan *plan, const struct engine_context_options *options)
{
    uint32_t trained = plan->hparams.n_context;
    plan->n_context = options->n_context          ? options->n_context
                      : trained < DEFAULT_CONTEXT ? trained
                                                  : DEFAULT_CONTEXT;
    plan->n_batch = options->n_batch ? options->n_batch : DEFAULT_BATCH;
    plan->n_sequences = options->n_sequences ? options->n_sequences : 1;
    if (plan->n_batch > plan->n_context) plan->n_batch = plan->n_context;
    plan->max_outputs = plan->n_batch < MAX_OUTPUTS ? plan->n_batch : MAX_OUTPUTS;
    if (plan->max_outputs < plan->n_sequences) plan->max_outputs = plan->n_sequences;
    if (plan->n_batch > MAX_BATCH)
        return fail(ENGINE_ERROR_ARGUMENT, "a batch of %u tokens: at most %d", plan->n_batch, MAX_BATCH);
    if (plan->n_sequences > MAX_SEQUENCES)
        return fail(ENGINE_ERROR_ARGUMENT, "%u sequences: at most %d", plan->n_sequences, MAX_SEQUENCES);
    if (plan->n_context > INT32_MAX / KV_BLOCK_SIZE / plan->n_sequences)
        return fail(ENGINE_ERROR_ARGUMENT, "a context of %u positions for %u sequences is too large",
                    plan->n_context, plan->n_sequences);
    if (plan->n_context > trained)
        log_line(ENGINE_LOG_WARNING,
                 "a context of %u positions, but the model was trained for %u; expect nonsense "
                 "beyond that",
                 plan->n_context, trained);
    plan->n_blocks = (plan->n_context + KV_BLOCK_SIZE - 1) / KV_BLOCK_SIZE * plan->n_sequences;
    return ENGINE_OK;
}

/* One line for each wish that names nothing, or more than a device has. */
static void report_wishes(const struct engine_plan *plan)
{
    for (size_t r = 0; r < plan->n_rules; r++) {
        size_t i = 0, n = plan->n_weights + plan->hparams.n_layers;
        while (i < n && !place_matches(plan->rules[r].pattern, plan->entries[i].name)) i++;
        if (i == n)
            log_line(ENGINE_LOG_WARNING, "--place %s=%s: the model has nothing of such a name",
                     plan->rules[r].pattern, plan->set.devices[plan->rules[r].device].name);
    }
    for (uint32_t d = 1; d < plan->set.n_devices; d++)
        if (plan->used[d] > plan->set.devices[d].budget)
            log_line(ENGINE_LOG_WARNING,
                     "%s: what --place puts there takes %" PRIu64 " bytes, more than its budget of %" PRIu64,
                     plan->set.devices[d].name, plan->used[d], plan->set.devices[d].budget);
}

/* One line where less was offloaded than was asked for, or where a wish could not be met. */
static void report(const struct engine_plan *plan)
{
    uint32_t n_layers = plan->hparams.n_layers;
    uint32_t wanted = plan->offload < n_layers ? plan->offload : n_layers;
    for (size_t i = 0; i < plan->n_weights; i++) {
        size_t r = 0;
        while (r < plan->n_rules && !place_matches(plan->rules[r].pattern, plan->entries[i].name)) r++;
        if (r < plan->n_rules && !(plan->entries[i].can & 1u << plan->rules[r].device))
            log_line(ENGINE_LOG_WARNING, "%s (%s) can't run on %s; it stays on the CPU",
                     plan->entries[i].name, type_info(plan->tensors[i]->type)->name,
                     plan->set.devices[plan->rules[r].device].name);
    }
    report_wishes(plan);
    if (plan->set.n_devices == 1 || plan->n_offloaded == wanted) return;
    if (plan->n_offloaded == 0)
        log_line(ENGINE_LOG_WARNING, "no layer fits on %s%s; the model runs on the CPU",
                 plan->set.devices[1].name, plan->set.n_devices > 2 ? " or the other devices" : "");
    else
        log_line(plan->offload_is_auto ? ENGINE_LOG_INFO : ENGINE_LOG_WARNING,
                 "%u of %u layers fit on the devices; the others run on the CPU", plan->n_offloaded, wanted);
}

void read_context_options(const struct engine_context_options *given, struct engine_context_options *known)
{
    *known = (struct engine_context_options){.struct_size = sizeof *known};
    if (given) memcpy(known, given, given->struct_size < sizeof *known ? given->struct_size : sizeof *known);
}

int engine_plan_create(struct engine_model *model, const struct engine_context_options *given,
                       struct engine_plan **out)
{
    struct engine_context_options known, *options = &known;
    read_context_options(given, &known);
    struct engine_plan *plan = calloc(1, sizeof *plan);
    if (!plan) return fail_memory("plan");
    plan->model = model;
    plan->architecture = architecture_of(model->model);
    int status = plan->architecture ? plan->architecture->read(model->model, &plan->hparams)
                                    : ENGINE_ERROR_UNSUPPORTED;
    if (!status) status = read_sizes(plan, options);
    if (!status) status = read_cache_type(options->cache_type, &plan->cache_type);
    if (!status) status = read_offload(plan, options);
    struct device_request request = {options->backends, options->memory, options->n_threads};
    if (!request.backends) request.backends = engine_setting(model->engine, "", "backend");
    if (!request.n_threads) request.n_threads = configured_threads(model->engine);
    if (!status) status = devices_open(model->engine, &request, &plan->set);
    plan->n_threads = request.n_threads ? request.n_threads : plan->set.devices[0].info.n_threads;
    for (uint32_t d = 0; d < plan->set.n_devices; d++)
        plan->alignment[d] = plan->set.devices[d].info.alignment ? plan->set.devices[d].info.alignment : 64;
    if (!status && plan->set.n_devices > 2 && plan->offload > 0) measure_speeds(&plan->set);
    if (!status) status = read_rules(plan, options->place);
    if (!status) status = survey(plan);
    if (!status) status = plan_place(plan);
    if (status) {
        engine_plan_destroy(plan);
        return status;
    }
    report(plan);
    *out = plan;
    return ENGINE_OK;
}

void engine_plan_destroy(struct engine_plan *plan)
{
    if (!plan) return;
    for (size_t i = 0; plan->entries && i < plan->n_weights + plan->hparams.n_layers; i++)
        free((char *)(uintptr_t)plan->entries[i].name);
    for (size_t i = 0; i < plan->n_rules; i++) free((char *)(uintptr_t)plan->rules[i].pattern);
    devices_close(&plan->set);
    free(plan->entries);
    free(plan->tensors);
    free(plan->uses);
    free(plan->device);
    free(plan->rules);
    free(plan);
}

/* ---- The plan as a table ----------------------------------------------------------------------------------------- */

size_t engine_plan_tensor_count(const struct engine_plan *plan)
{
    return plan->n_weights + plan->hparams.n_layers;
}

void engine_plan_tensor_at(const struct engine_plan *plan, size_t index, struct engine_plan_tensor *out)
{
    const struct place_tensor *entry = &plan->entries[index];
    uint32_t device = plan->device[index];
    *out = (struct engine_plan_tensor){
        .name = entry->name,
        .type_name = type_info(index < plan->n_weights ? plan->tensors[index]->type : plan->cache_type)->name,
        .device = plan->set.devices[device].name,
        .bytes = place_bytes(plan->entries, plan->device, index),
    };
}

size_t engine_plan_device_count(const struct engine_plan *plan)
{
    return plan->set.n_devices;
}

void engine_plan_device_at(const struct engine_plan *plan, size_t index, struct engine_plan_device *out)
{
    const struct open_device *device = &plan->set.devices[index];
    *out = (struct engine_plan_device){
        .name = device->name,
        .description = device->info.description,
        .budget = device->budget,
        .activations = plan->activations[index] + plan->working[index],
    };
    for (size_t i = 0; i < engine_plan_tensor_count(plan); i++) {
        struct engine_plan_tensor tensor;
        if (plan->device[i] != index) continue;
        engine_plan_tensor_at(plan, i, &tensor);
        if (i < plan->n_weights) {
            out->weights += tensor.bytes;
        } else {
            out->cache += tensor.bytes;
            out->n_layers++;
        }
    }
}

void engine_plan_get_totals(const struct engine_plan *plan, struct engine_plan_totals *out)
{
    *out = (struct engine_plan_totals){
        .n_layers = plan->hparams.n_layers,
        .copies = (uint32_t)plan->n_copies,
        .copy_bytes = plan->copy_bytes,
    };
    for (size_t i = 0; i < plan->n_weights; i++) {
        uint32_t device = plan->device[i];
        if (plan->uses[i] & ENGINE_WEIGHT_ROWS)
            out->read_bytes += plan->tensors[i]->size / plan->tensors[i]->ne[1];
        else
            out->read_bytes += plan->uses[i] ? plan->entries[i].bytes[device] : 0;
    }
    for (uint32_t layer = 0; layer < plan->hparams.n_layers; layer++)
        out->cache += plan->entries[plan->n_weights + layer].bytes[plan->device[plan->n_weights + layer]];
}

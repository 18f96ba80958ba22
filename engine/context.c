/* context.c: a model on its devices: weights and cache are loaded by a plan, batches run through prepared graphs. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/log.h"
#include "graph/execute.h"
#include "kv/cache.h"
#include "plan.h"

#define MAX_PREPARED 8   /* graphs of different shapes that are kept */
#define REASON_SIZE  512 /* bytes of what a device says */

/* A model tensor on a device. Roles of a tensor that meet on one device share it. */
struct loaded {
    const struct model_tensor *tensor;
    uint32_t device;
    uint32_t uses;
    struct engine_weight *weight; /* NULL until it is loaded */
};

struct shape_key {
    uint32_t n_tokens, n_outputs, table_width;
};

struct cached_graph {
    struct shape_key key;
    struct prepared *prepared;
    uint64_t last_used;
};

struct engine_context {
    struct engine_plan *plan;
    struct executor executor;
    struct loaded *loaded;
    size_t n_loaded;
    struct kv_cache *kv;
    uint64_t arena_size[PLACE_MAX_DEVICES];
    /* Working memory, held free while weights are loaded. */
    struct engine_buffer *reserved[PLACE_MAX_DEVICES];
    struct cached_graph graphs[MAX_PREPARED];
    uint64_t clock;

    /* The inputs of a batch; sizes as graph_input gives them for the largest batch. */
    int32_t *inputs[INPUT_COUNT];
};

static const struct open_device *device_at(const struct engine_context *context, uint32_t number)
{
    return &context->plan->set.devices[number];
}

/* ---- Loading ----------------------------------------------------------------------------------------------------- */

static void release_reserved(struct engine_context *context)
{
    for (uint32_t d = 0; d < context->plan->set.n_devices; d++) {
        device_at(context, d)->backend->buffer_destroy(context->reserved[d]);
        context->reserved[d] = NULL;
    }
}

static void unload(struct engine_context *context)
{
    for (size_t i = 0; i < context->n_loaded; i++) {
        const struct loaded *loaded = &context->loaded[i];
        if (loaded->weight) device_at(context, loaded->device)->backend->weight_destroy(loaded->weight);
    }
    free(context->loaded);
    context->loaded = NULL;
    context->n_loaded = 0;
    release_reserved(context);

    struct executor *executor = &context->executor;
    for (uint32_t i = 0; executor->caches && i < 2 * context->plan->hparams.n_layers; i++) {
        uint32_t device = context->plan->device[context->plan->n_weights + i / 2];
        device_at(context, device)->backend->buffer_destroy(executor->caches[i]);
    }
    for (uint32_t d = 0; d < context->plan->set.n_devices; d++) {
        const struct engine_backend *backend = device_at(context, d)->backend;
        backend->buffer_destroy(executor->arenas[d]);
        backend->stream_destroy(executor->streams[d]);
        executor->arenas[d] = NULL;
        executor->streams[d] = NULL;
    }
    free(executor->weights);
    free(executor->caches);
    executor->weights = NULL;
    executor->caches = NULL;
}

static struct loaded *find_loaded(const struct engine_context *context, const struct model_tensor *tensor,
                                  uint32_t device)
{
    for (size_t k = 0; k < context->n_loaded; k++)
        if (context->loaded[k].tensor == tensor && context->loaded[k].device == device)
            return &context->loaded[k];
    return NULL;
}

/* Whether a device keeps a tensor in one piece for these uses too. */
static bool takes_uses(const struct engine_context *context, const struct loaded *loaded, uint32_t uses)
{
    const struct open_device *device = device_at(context, loaded->device);
    struct engine_weight_desc desc = plan_weight_desc(loaded->tensor, loaded->uses | uses);
    uint64_t bytes;
    return device->backend->weight_size(device->handle, &desc, &bytes) == ENGINE_OK;
}

/* Lists what the plan wants on each device. */
static int list_weights(struct engine_context *context)
{
    const struct engine_plan *plan = context->plan;
    context->loaded = calloc(plan->n_weights, sizeof *context->loaded);
    context->executor.weights = calloc(plan->n_weights, sizeof(struct engine_weight *));
    context->executor.caches = calloc(2 * (size_t)plan->hparams.n_layers, sizeof(struct engine_buffer *));
    if (!context->loaded || !context->executor.weights || !context->executor.caches)
        return fail_memory("weights");
    for (size_t i = 0; i < plan->n_weights; i++) {
        if (plan->uses[i] == 0) continue;
        struct loaded *loaded = find_loaded(context, plan->tensors[i], plan->device[i]);
        if (!loaded || !takes_uses(context, loaded, plan->uses[i])) {
            loaded = &context->loaded[context->n_loaded++];
            *loaded = (struct loaded){.tensor = plan->tensors[i], .device = plan->device[i]};
        }
        loaded->uses |= plan->uses[i];
    }
    return ENGINE_OK;
}

/* Ties the roles of the graph's weights to what was loaded. */
static void bind_weights(struct engine_context *context)
{
    const struct engine_plan *plan = context->plan;
    for (size_t i = 0; i < plan->n_weights; i++)
        for (size_t k = 0; k < context->n_loaded; k++) {
            const struct loaded *loaded = &context->loaded[k];
            if (loaded->tensor == plan->tensors[i] && loaded->device == plan->device[i] &&
                (loaded->uses & plan->uses[i]) == plan->uses[i])
                context->executor.weights[i] = loaded->weight;
        }
}

/* Names the device in the message and keeps its number where memory ran out. */
static int failed_on(const struct engine_context *context, uint32_t device, const char *what, int status,
                     uint32_t *full_device)
{
    if (status == ENGINE_ERROR_MEMORY) *full_device = device;
    return fail_because(status, "%s: %s", device_at(context, device)->name, what);
}

static int load_weights(struct engine_context *context, const struct engine_context_options *options,
                        uint64_t loaded_on[PLACE_MAX_DEVICES], uint32_t *full_device)
{
    uint64_t total = 0, done = 0;
    for (size_t i = 0; i < context->n_loaded; i++) total += context->loaded[i].tensor->size;
    for (size_t i = 0; i < context->n_loaded; i++) {
        struct loaded *loaded = &context->loaded[i];
        const struct open_device *device = device_at(context, loaded->device);
        struct engine_weight_desc desc = plan_weight_desc(loaded->tensor, loaded->uses);
        uint64_t bytes = 0;
        device->backend->weight_size(device->handle, &desc, &bytes);
        desc.data = loaded->tensor->data;
        int status = device->backend->weight_create(device->handle, &desc, &loaded->weight);
        if (status) return failed_on(context, loaded->device, loaded->tensor->name, status, full_device);
        loaded_on[loaded->device] += bytes;
        model_tensor_release(context->plan->model->model, loaded->tensor);
        done += loaded->tensor->size;
        if (options->progress && options->progress(options->user, done, total))
            return fail(ENGINE_ERROR, "loading was stopped");
    }
    return ENGINE_OK;
}

/* Creates a buffer and counts what now is on its device. */
static int create_buffer(const struct engine_context *context, uint32_t number, const char *what,
                         uint64_t size, struct engine_buffer **buffer, uint64_t loaded_on[PLACE_MAX_DEVICES],
                         uint32_t *full_device)
{
    const struct open_device *device = device_at(context, number);
    int status = device->backend->buffer_create(device->handle, size, buffer);
    if (status) return failed_on(context, number, what, status, full_device);
    loaded_on[number] += size;
    return ENGINE_OK;
}

/* Arenas, caches, and a buffer in the place of the working memory, which a backend takes only while the first batch runs:
 * a device that has no room for it shows that here, where less can still be placed there. */
static int create_buffers(struct engine_context *context, uint64_t loaded_on[PLACE_MAX_DEVICES],
                          uint32_t *full_device)
{
    const struct engine_plan *plan = context->plan;
    struct executor *executor = &context->executor;
    for (uint32_t d = 0; d < plan->set.n_devices; d++) {
        if (d > 0 && plan->used[d] == 0) continue;
        const struct open_device *device = device_at(context, d);
        int status = device->backend->stream_create(device->handle, &executor->streams[d]);
        if (status) return failed_on(context, d, "stream", status, full_device);
        context->arena_size[d] = plan->activations[d] ? plan->activations[d] : 1;
        status = create_buffer(context, d, "activations", context->arena_size[d], &executor->arenas[d],
                               loaded_on, full_device);
        if (!status && plan->working[d] > 0)
            status = create_buffer(context, d, "working memory", plan->working[d], &context->reserved[d],
                                   loaded_on, full_device);
        if (status) return status;
    }
    for (uint32_t i = 0; i < 2 * plan->hparams.n_layers; i++) {
        size_t entry = plan->n_weights + i / 2;
        uint32_t d = plan->device[entry];
        int status = create_buffer(context, d, plan->entries[entry].name, plan->entries[entry].bytes[d] / 2,
                                   &executor->caches[i], loaded_on, full_device);
        if (status) return status;
    }
    return ENGINE_OK;
}

/* Unloads everything and lowers the budget of a device to what went in, so that less is placed there; `reason` becomes
 * what the device said. Ends with `status` where that changes nothing: wishes by --place don't heed budgets. */
static int place_less(struct engine_context *context, uint32_t full_device, uint64_t loaded, int status,
                      char reason[REASON_SIZE])
{
    struct engine_plan *plan = context->plan;
    uint64_t used = plan->used[full_device], missing = used > loaded ? used - loaded : used;
    uint64_t less = missing > used / 16 ? missing : used / 16 + 1;
    unload(context);
    plan->set.devices[full_device].budget = used > less ? used - less : 0;
    snprintf(reason, REASON_SIZE, "%s", error_message());
    int placed = plan_place(plan);
    if (placed) return placed;
    return plan->used[full_device] >= used ? fail(status, "%s", reason) : ENGINE_OK;
}

static void tell_of_less(const struct engine_plan *plan, uint32_t device, const char *reason)
{
    struct engine_plan_device placed;
    engine_plan_device_at(plan, device, &placed);
    log_line(ENGINE_LOG_WARNING, "%s; offloading less: %u of %u layers on %s", reason, placed.n_layers,
             plan->hparams.n_layers, placed.name);
}

/* Loads by the plan. Where a device turns out to have less memory than it said, its budget becomes what went in, the
 * rest is placed anew, and loading starts again; that is told once, in the end. */
static int load(struct engine_context *context, const struct engine_context_options *options)
{
    char reason[REASON_SIZE] = "";
    uint32_t short_device = 0;
    for (;;) {
        uint64_t loaded_on[PLACE_MAX_DEVICES] = {0};
        uint32_t full_device = 0;
        error_clear();
        int status = list_weights(context);
        if (!status) status = create_buffers(context, loaded_on, &full_device);
        if (!status) status = load_weights(context, options, loaded_on, &full_device);
        if (!status) {
            release_reserved(context);
            bind_weights(context);
            if (short_device != 0) tell_of_less(context->plan, short_device, reason);
            return ENGINE_OK;
        }
        if (full_device == 0) return status;
        status = place_less(context, full_device, loaded_on[full_device], status, reason);
        if (status) return status;
        short_device = full_device;
    }
}

/* ---- Creation ---------------------------------------------------------------------------------------------------- */

static int create_inputs(struct engine_context *context)
{
    const struct engine_plan *plan = context->plan;
    size_t sizes[INPUT_COUNT];
    for (int i = 0; i < INPUT_COUNT; i++) sizes[i] = plan->n_batch;
    sizes[INPUT_OUTPUT_ROWS] = plan->max_outputs;
    sizes[INPUT_BLOCK_TABLE] = plan->n_blocks;
    for (int i = 0; i < INPUT_COUNT; i++) {
        context->inputs[i] = calloc(sizes[i], sizeof *context->inputs[i]);
        if (!context->inputs[i]) return fail_memory("inputs");
    }
    return ENGINE_OK;
}

int engine_context_create(struct engine_model *model, const struct engine_context_options *options,
                          struct engine_context **out)
{
    struct engine_context *context = calloc(1, sizeof *context);
    if (!context) return fail_memory("context");
    struct engine_context_options known;
    read_context_options(options, &known);
    int status = engine_plan_create(model, &known, &context->plan);
    if (status) {
        free(context);
        return status;
    }
    context->executor.set = &context->plan->set;
    context->kv = kv_create(context->plan->n_sequences, context->plan->n_context);
    if (!context->kv) status = fail_memory("cache");
    if (!status) status = create_inputs(context);
    if (!status) status = load(context, &known);
    if (status) {
        engine_context_destroy(context);
        return status;
    }
    *out = context;
    return ENGINE_OK;
}

static void forget_graphs(struct engine_context *context)
{
    for (int i = 0; i < MAX_PREPARED; i++) {
        prepared_destroy(&context->executor, context->graphs[i].prepared);
        context->graphs[i].prepared = NULL;
    }
}

void engine_context_destroy(struct engine_context *context)
{
    if (!context) return;
    forget_graphs(context);
    unload(context);
    for (int i = 0; i < INPUT_COUNT; i++) free(context->inputs[i]);
    free(context->executor.staging);
    kv_destroy(context->kv);
    engine_plan_destroy(context->plan);
    free(context);
}

const struct engine_plan *engine_context_plan(const struct engine_context *context)
{
    return context->plan;
}

void engine_context_get_info(const struct engine_context *context, struct engine_context_info *info)
{
    const struct engine_plan *plan = context->plan;
    struct engine_context_info full = {
        .struct_size = info->struct_size,
        .n_vocab = plan->hparams.n_vocab,
        .n_context = plan->n_context,
        .n_batch = plan->n_batch,
        .n_sequences = plan->n_sequences,
        .n_threads = plan->n_threads,
    };
    memcpy(info, &full, info->struct_size < sizeof full ? info->struct_size : sizeof full);
}

/* ---- Graphs by shape --------------------------------------------------------------------------------------------- */

/* Makes the arenas large enough for a schedule. All prepared graphs refer to them, so they go when one grows. */
static int grow_arenas(struct engine_context *context, const struct schedule *schedule)
{
    for (uint32_t d = 0; d < context->plan->set.n_devices; d++) {
        const struct open_device *device = device_at(context, d);
        struct engine_buffer *larger;
        if (schedule->arena[d] <= context->arena_size[d]) continue;
        int status = device->backend->buffer_create(device->handle, schedule->arena[d], &larger);
        if (status) return fail_because(status, "%s: activations", device->name);
        forget_graphs(context);
        device->backend->buffer_destroy(context->executor.arenas[d]);
        context->executor.arenas[d] = larger;
        context->arena_size[d] = schedule->arena[d];
    }
    return ENGINE_OK;
}

/* The prepared graph of a shape: a kept one, or a new one in the place of the one that was not used for longest. */
static int graph_for(struct engine_context *context, const struct shape_key *key, struct prepared **prepared)
{
    struct cached_graph *oldest = &context->graphs[0];
    for (int i = 0; i < MAX_PREPARED; i++) {
        struct cached_graph *graph = &context->graphs[i];
        if (graph->prepared && memcmp(&graph->key, key, sizeof *key) == 0) {
            graph->last_used = ++context->clock;
            *prepared = graph->prepared;
            return ENGINE_OK;
        }
        if (!graph->prepared || (oldest->prepared && graph->last_used < oldest->last_used)) oldest = graph;
    }
    struct schedule *schedule;
    int status = plan_schedule(context->plan, key->n_tokens, key->n_outputs, key->table_width, &schedule);
    if (status) return status;
    status = grow_arenas(context, schedule);
    if (status) {
        schedule_destroy(schedule);
        return status;
    }
    prepared_destroy(&context->executor, oldest->prepared);
    oldest->prepared = NULL;
    status = prepare(&context->executor, schedule, &oldest->prepared);
    if (status) return status;
    oldest->key = *key;
    oldest->last_used = ++context->clock;
    *prepared = oldest->prepared;
    return ENGINE_OK;
}

/* ---- Running ----------------------------------------------------------------------------------------------------- */

static uint32_t sequence_of(const struct engine_batch *batch, size_t i)
{
    return batch->sequences ? (uint32_t)batch->sequences[i] : 0;
}

static bool is_wanted(const struct engine_batch *batch, size_t i)
{
    return batch->wanted ? batch->wanted[i] != 0 : i + 1 == batch->n_tokens;
}

/* Checks the whole batch before anything runs. `lengths` [n_sequences] is scratch. */
static int check_batch(const struct engine_context *context, const struct engine_batch *batch,
                       uint32_t *lengths)
{
    const struct engine_plan *plan = context->plan;
    for (uint32_t s = 0; s < plan->n_sequences; s++) lengths[s] = kv_length(context->kv, s);
    for (size_t i = 0; i < batch->n_tokens; i++) {
        uint32_t sequence = sequence_of(batch, i);
        if (sequence >= plan->n_sequences)
            return fail(ENGINE_ERROR_ARGUMENT, "token %zu is of sequence %d, but there are %u", i,
                        (int)sequence, plan->n_sequences);
        if (batch->tokens[i] < 0 || (uint32_t)batch->tokens[i] >= plan->hparams.n_vocab)
            return fail(ENGINE_ERROR_ARGUMENT, "token %zu is %d, but the vocabulary has %u", i,
                        batch->tokens[i], plan->hparams.n_vocab);
        if (batch->positions && (uint32_t)batch->positions[i] != lengths[sequence])
            return fail(ENGINE_ERROR_ARGUMENT, "token %zu is at position %d of its sequence, should be %u", i,
                        batch->positions[i], lengths[sequence]);
        if (lengths[sequence]++ >= plan->n_context)
            return fail(ENGINE_ERROR_ARGUMENT,
                        "the context is full: %u positions; a larger one (-c) takes more text",
                        plan->n_context);
    }
    return ENGINE_OK;
}

/* Block tables are as wide as the longest sequence needs, rounded up to a power of two, so that a growing text changes
 * the shape of the graph only now and then. */
static uint32_t table_width(const struct engine_context *context)
{
    uint32_t longest = 1, max = context->plan->n_blocks / context->plan->n_sequences, width = 8;
    for (uint32_t s = 0; s < context->plan->n_sequences; s++)
        if (kv_length(context->kv, s) > longest) longest = kv_length(context->kv, s);
    while (width < max && (uint64_t)width * KV_BLOCK_SIZE < longest) width *= 2;
    return width < max ? width : max;
}

/* How many of the tokens from `first` on go through the graph together: as many as a batch takes, and their logits. */
static uint32_t count_part(const struct engine_context *context, const struct engine_batch *batch,
                           size_t first, bool logits)
{
    const struct engine_plan *plan = context->plan;
    uint32_t count = 0, n_outputs = 0;
    while (count < plan->n_batch && first + count < batch->n_tokens) {
        if (logits && is_wanted(batch, first + count) && n_outputs++ == plan->max_outputs) break;
        count++;
    }
    return count;
}

/* Runs tokens first … first+count-1, see count_part. *logits moves on behind what was written. */
static int run_part(struct engine_context *context, const struct engine_batch *batch, size_t first,
                    uint32_t count, float **logits)
{
    const struct engine_plan *plan = context->plan;
    int32_t **inputs = context->inputs;
    struct shape_key key = {.n_tokens = count};
    for (uint32_t i = 0; i < count; i++) {
        uint32_t sequence = sequence_of(batch, first + i);
        inputs[INPUT_TOKENS][i] = batch->tokens[first + i];
        inputs[INPUT_SEQUENCES][i] = (int32_t)sequence;
        inputs[INPUT_POSITIONS][i] = (int32_t)kv_length(context->kv, sequence);
        inputs[INPUT_SLOTS][i] = kv_append(context->kv, sequence);
        if (*logits && is_wanted(batch, first + i)) inputs[INPUT_OUTPUT_ROWS][key.n_outputs++] = (int32_t)i;
    }
    bool any = key.n_outputs > 0;
    if (!any)
        inputs[INPUT_OUTPUT_ROWS][key.n_outputs++] = 0; /* a graph has at least one row; it isn't read */

    key.table_width = table_width(context);
    for (uint32_t s = 0; s < plan->n_sequences; s++) {
        uint32_t n = (kv_length(context->kv, s) + KV_BLOCK_SIZE - 1) / KV_BLOCK_SIZE;
        memcpy(&inputs[INPUT_BLOCK_TABLE][(size_t)s * key.table_width], kv_blocks(context->kv, s),
               n * sizeof(int32_t));
    }
    struct prepared *prepared;
    int status = graph_for(context, &key, &prepared);
    if (!status)
        status = execute(&context->executor, prepared, (const int32_t *const *)inputs, any ? *logits : NULL);
    if (!status && any) *logits += (size_t)key.n_outputs * plan->hparams.n_vocab;
    return status;
}

/* Runs a batch that has been checked, part by part. */
static int run_batch(struct engine_context *context, const struct engine_batch *batch, float *logits)
{
    int status = ENGINE_OK;
    for (size_t first = 0; first < batch->n_tokens && !status;) {
        uint32_t count = count_part(context, batch, first, logits != NULL);
        status = run_part(context, batch, first, count, &logits);
        first += count;
    }
    return status;
}

int engine_decode(struct engine_context *context, const struct engine_batch *batch, float *logits)
{
    const struct engine_plan *plan = context->plan;
    struct engine_batch known = {0};
    memcpy(&known, batch, batch->struct_size < sizeof known ? batch->struct_size : sizeof known);
    uint32_t *lengths = malloc(plan->n_sequences * sizeof *lengths);
    if (!lengths) return fail_memory("batch");
    int status = check_batch(context, &known, lengths);
    for (uint32_t s = 0; s < plan->n_sequences; s++) lengths[s] = kv_length(context->kv, s);
    if (!status) status = run_batch(context, &known, logits);
    if (status) /* as if nothing had run */
        for (uint32_t s = 0; s < plan->n_sequences; s++) kv_truncate(context->kv, s, lengths[s]);
    free(lengths);
    return status;
}

static int check_sequence(const struct engine_context *context, uint32_t sequence)
{
    if (sequence < context->plan->n_sequences) return ENGINE_OK;
    return fail(ENGINE_ERROR_ARGUMENT, "there is no sequence %u, only %u of them", sequence,
                context->plan->n_sequences);
}

int engine_sequence_truncate(struct engine_context *context, uint32_t sequence, uint32_t position)
{
    int status = check_sequence(context, sequence);
    if (!status) kv_truncate(context->kv, sequence, position);
    return status;
}

uint32_t engine_sequence_length(const struct engine_context *context, uint32_t sequence)
{
    return check_sequence(context, sequence) ? 0 : kv_length(context->kv, sequence);
}

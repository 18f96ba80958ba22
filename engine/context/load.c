/* load.c: loads a context by its plan: streams, arenas, caches and weights on their devices. Places less on a
 * device that turns out to have less memory than it reported. */
#include <stdio.h>
#include <stdlib.h>

#include "base/error.h"
#include "base/log.h"
#include "common/assert.h"
#include "context/context.h"

#define REASON_SIZE 512 /* bytes of a device's message */

static void release_reserved(struct engine_context *context)
{
    for (uint32_t d = 0; d < context->plan->set.n_devices; d++) {
        device_at(context, d)->backend->buffer_destroy(context->reserved[d]);
        context->reserved[d] = NULL;
    }
}

void context_unload(struct engine_context *context)
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
    for (size_t i = 0; executor->caches && i < context->plan->n_caches; i++) {
        uint32_t device = context->plan->device[context->plan->caches[i].entry];
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

/* Whether a device also keeps a tensor in one piece for these uses. */
static bool takes_uses(const struct engine_context *context, const struct loaded *loaded, uint32_t uses)
{
    const struct open_device *device = device_at(context, loaded->device);
    struct engine_weight_desc desc = plan_weight_desc(loaded->tensor, loaded->uses | uses);
    uint64_t bytes;
    return device->backend->weight_size(device->handle, &desc, &bytes) == ENGINE_OK;
}

/* Lists what the plan puts on each device. */
static int list_weights(struct engine_context *context)
{
    const struct engine_plan *plan = context->plan;
    context->loaded = calloc(plan->n_weights, sizeof *context->loaded);
    context->executor.weights = calloc(plan->n_weights, sizeof(struct engine_weight *));
    context->executor.caches = calloc(plan->n_caches + 1, sizeof(struct engine_buffer *));
    if (!context->loaded || !context->executor.weights || !context->executor.caches)
        return error_memory("weights");
    for (size_t i = 0; i < plan->n_weights; i++) {
        const struct plan_weight *weight = &plan->weights[i];
        if (weight->uses == 0) continue;
        struct loaded *loaded = find_loaded(context, weight->tensor, plan->device[i]);
        if (!loaded || !takes_uses(context, loaded, weight->uses)) {
            ENGINE_ASSERT(context->n_loaded < plan->n_weights);
            loaded = &context->loaded[context->n_loaded++];
            *loaded = (struct loaded){.tensor = weight->tensor, .device = plan->device[i]};
        }
        loaded->uses |= weight->uses;
    }
    return ENGINE_OK;
}

/* Binds the roles of the graph's weights to the loaded tensors. */
static void bind_weights(struct engine_context *context)
{
    const struct engine_plan *plan = context->plan;
    for (size_t i = 0; i < plan->n_weights; i++)
        for (size_t k = 0; k < context->n_loaded; k++) {
            const struct loaded *loaded = &context->loaded[k];
            const struct plan_weight *weight = &plan->weights[i];
            if (loaded->tensor == weight->tensor && loaded->device == plan->device[i] &&
                (loaded->uses & weight->uses) == weight->uses)
                context->executor.weights[i] = loaded->weight;
        }
    for (size_t i = 0; i < plan->n_weights; i++)
        ENGINE_ASSERT(plan->weights[i].uses == 0 || context->executor.weights[i]);
}

/* Names the device in the message; remembers its number if memory ran out. */
static int failed_on(const struct engine_context *context, uint32_t device, const char *what, int status,
                     uint32_t *full_device)
{
    if (status == ENGINE_ERROR_MEMORY) *full_device = device;
    return error_wrap(status, "%s: %s", device_at(context, device)->name, what);
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
        void *gathered;
        int status = model_tensor_gather(loaded->tensor, context->plan->n_threads, &desc.data, &gathered);
        if (status) return status;
        status = device->backend->weight_create(device->handle, &desc, &loaded->weight);
        free(gathered);
        if (status) return failed_on(context, loaded->device, loaded->tensor->name, status, full_device);
        loaded_on[loaded->device] += bytes;
        model_tensor_release(context->plan->model->model, loaded->tensor);
        done += loaded->tensor->size;
        if (options->progress && options->progress(options->user, done, total))
            return error_raise(ENGINE_ERROR, "loading was stopped");
    }
    return ENGINE_OK;
}

/* Creates a buffer and counts it as used on its device. */
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

/* Arenas, caches, and a stand-in buffer for the working memory that a backend allocates only during the first
 * batch: a device without room for it fails here, while less can still be placed on it. */
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
    for (size_t i = 0; i < plan->n_caches; i++) {
        const struct plan_cache *cache = &plan->caches[i];
        int status = create_buffer(context, plan->device[cache->entry], plan->entries[cache->entry].name,
                                   cache->size, &executor->caches[i], loaded_on, full_device);
        if (status) return status;
    }
    return ENGINE_OK;
}

/* Unloads everything and lowers the budget of a device to what fitted, so that less is placed there; `reason`
 * becomes the device's message. Ends with `status` if that changes nothing: --place ignores budgets. */
static int place_less(struct engine_context *context, uint32_t full_device, uint64_t loaded, int status,
                      char reason[REASON_SIZE])
{
    struct engine_plan *plan = context->plan;
    uint64_t used = plan->used[full_device], missing = used > loaded ? used - loaded : used;
    uint64_t less = missing > used / 16 ? missing : used / 16 + 1;
    context_unload(context);
    plan->set.devices[full_device].budget = used > less ? used - less : 0;
    snprintf(reason, REASON_SIZE, "%s", error_message());
    int placed = plan_place(plan);
    if (placed) return placed;
    return plan->used[full_device] >= used ? error_raise(status, "%s", reason) : ENGINE_OK;
}

static void tell_of_less(const struct engine_plan *plan, uint32_t device, const char *reason)
{
    struct engine_plan_device placed;
    engine_plan_device_at(plan, device, &placed);
    log_line(ENGINE_LOG_WARNING, "%s; offloading fewer layers: %u of %u on %s", reason, placed.n_layers,
             plan->info.n_layers, placed.name);
}

int context_load(struct engine_context *context, const struct engine_context_options *options)
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

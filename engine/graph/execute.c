/* execute.c: runs schedules; see schedule.h. */
#include "graph/schedule.h"

#include <stdlib.h>

#include "base/error.h"
#include "common/array.h"
#include "common/assert.h"
#include "model/types.h"

struct prepared {
    struct schedule *schedule;
    struct engine_recording **recordings; /* [n_steps], NULL for copies and for backends that don't record */
    size_t n_lasting; /* steps up to the last one that writes to a cache: what follows is for logits */
};

static const struct open_device *device_at(const struct executor *executor, uint32_t number)
{
    ENGINE_ASSERT(number < executor->set->n_devices);
    return &executor->set->devices[number];
}

/* Makes sure that a device's failure has a message: backends should leave one. */
static int on_device(const struct executor *executor, uint32_t number, int status)
{
    if (!status || error_message()[0]) return status;
    return error_raise(status, "%s failed without a reason", device_at(executor, number)->name);
}

static bool records(const struct engine_backend *backend)
{
    return ENGINE_HAS(backend, recording_destroy) && backend->record_begin && backend->record_end &&
           backend->replay && backend->recording_destroy;
}

/* ---- Preparing ----------------------------------------------------------------------------------------- */

static void bind_values(const struct executor *executor, struct schedule *schedule)
{
    struct graph *graph = schedule->graph;
    for (size_t i = 0; i < schedule->n_storages; i++) {
        const struct storage *storage = &schedule->storages[i];
        ENGINE_ASSERT(executor->arenas[storage->device]);
        ENGINE_ASSERT(storage->offset + storage->size <= schedule->arena[storage->device]);
        storage->value->tensor.buffer = executor->arenas[storage->device];
        storage->value->tensor.offset = storage->offset;
    }
    for (size_t i = 0; i < graph->n_values; i++) {
        struct value *value = graph->values[i];
        if (value->kind == VALUE_WEIGHT) value->tensor.weight = executor->weights[value->index];
        if (value->kind == VALUE_CACHE) value->tensor.buffer = executor->caches[value->index];
        ENGINE_ASSERT(value->root->root == value->root);
        if (value->root != value) {
            value->tensor.buffer = value->root->tensor.buffer;
            value->tensor.offset = value->root->tensor.offset + value->view_offset;
        }
    }
}

static int enqueue_run(const struct executor *executor, const struct schedule *schedule,
                       const struct schedule_step *step)
{
    const struct engine_backend *backend = device_at(executor, step->device)->backend;
    for (size_t i = 0; i < step->n_nodes; i++) {
        const struct node *node = &schedule->graph->nodes[step->first_node + i];
        int status = backend->enqueue(executor->streams[step->device], node->op, &node->args);
        if (status) return error_wrap(status, "%s", op_info(node->op)->name);
    }
    return ENGINE_OK;
}

static int record_step(const struct executor *executor, const struct schedule *schedule,
                       const struct schedule_step *step, struct engine_recording **recording)
{
    const struct engine_backend *backend = device_at(executor, step->device)->backend;
    struct engine_stream *stream = executor->streams[step->device];
    int status = backend->record_begin(stream);
    if (status) return status;
    int enqueued = enqueue_run(executor, schedule, step);
    status = backend->record_end(stream, recording);
    return enqueued ? enqueued : status;
}

int prepared_create(const struct executor *executor, struct schedule *schedule, struct prepared **prepared)
{
    struct prepared *made = calloc(1, sizeof *made);
    struct engine_recording **recordings = calloc(schedule->n_steps + 1, sizeof *recordings);
    if (!made || !recordings) {
        free(made);
        free(recordings);
        schedule_destroy(schedule);
        return error_memory("schedule");
    }
    made->schedule = schedule;
    made->recordings = recordings;
    made->n_lasting = schedule_lasting(schedule);
    error_clear();
    bind_values(executor, schedule);
    for (size_t i = 0; i < schedule->n_steps; i++) {
        const struct schedule_step *step = &schedule->steps[i];
        if (step->kind != SCHEDULE_RUN || !records(device_at(executor, step->device)->backend)) continue;
        int status = on_device(executor, step->device, record_step(executor, schedule, step, &recordings[i]));
        if (status) {
            prepared_destroy(executor, made);
            return status;
        }
    }
    *prepared = made;
    return ENGINE_OK;
}

void prepared_destroy(const struct executor *executor, struct prepared *prepared)
{
    if (!prepared) return;
    for (size_t i = 0; i < prepared->schedule->n_steps; i++) {
        const struct engine_backend *backend =
            device_at(executor, prepared->schedule->steps[i].device)->backend;
        if (prepared->recordings[i]) backend->recording_destroy(prepared->recordings[i]);
    }
    schedule_destroy(prepared->schedule);
    free(prepared->recordings);
    free(prepared);
}

const struct schedule *prepared_schedule(const struct prepared *prepared)
{
    return prepared->schedule;
}

/* ---- Running ------------------------------------------------------------------------------------------- */

static void *host_pointer(const struct executor *executor, const struct storage *storage)
{
    const struct engine_backend *backend = device_at(executor, storage->device)->backend;
    uint8_t *start =
        backend->buffer_pointer ? backend->buffer_pointer(executor->arenas[storage->device]) : NULL;
    return start ? start + storage->offset : NULL;
}

/* Reads the first `size` bytes of a storage. */
static int read_storage(const struct executor *executor, const struct storage *storage, void *target,
                        uint64_t size)
{
    const struct engine_backend *backend = device_at(executor, storage->device)->backend;
    struct engine_stream *stream = executor->streams[storage->device];
    int status = backend->read(stream, executor->arenas[storage->device], storage->offset, target, size);
    if (!status) status = backend->stream_wait(stream);
    return on_device(executor, storage->device, status);
}

static int write_storage(const struct executor *executor, const struct storage *storage, const void *source)
{
    const struct engine_backend *backend = device_at(executor, storage->device)->backend;
    return on_device(executor, storage->device,
                     backend->write(executor->streams[storage->device], executor->arenas[storage->device],
                                    storage->offset, source, storage->size));
}

static int grow_staging(struct executor *executor, uint64_t size)
{
    return ARRAY_FIT(executor->staging, executor->staging_size, size)
               ? ENGINE_OK
               : error_memory("copies between devices");
}

/* Reads a storage into the staging memory. */
static int read_staged(struct executor *executor, const struct storage *storage)
{
    int status = grow_staging(executor, storage->size);
    return status ? status : read_storage(executor, storage, executor->staging, storage->size);
}

/* Lets the backend of both devices copy. ENGINE_ERROR_UNSUPPORTED: it doesn't. */
static int copy_between(struct executor *executor, const struct storage *source, const struct storage *target)
{
    const struct engine_backend *backend = device_at(executor, source->device)->backend;
    if (device_at(executor, target->device)->backend != backend || !ENGINE_HAS(backend, copy_between) ||
        !backend->copy_between)
        return ENGINE_ERROR_UNSUPPORTED;
    int status = backend->copy_between(executor->streams[source->device], executor->arenas[source->device],
                                       source->offset, executor->streams[target->device],
                                       executor->arenas[target->device], target->offset, source->size);
    executor->unflushed[source->device] = true;
    return status == ENGINE_ERROR_UNSUPPORTED ? status : on_device(executor, target->device, status);
}

/* From device to device by the shortest way: as the backend of both does it, from memory that the host can
 * access, into such memory, or through the staging memory. */
static int copy_storage(struct executor *executor, const struct storage *source, const struct storage *target)
{
    const struct engine_backend *from = device_at(executor, source->device)->backend;
    const struct engine_backend *to = device_at(executor, target->device)->backend;
    ENGINE_ASSERT(source->device != target->device);
    ENGINE_ASSERT(source->size == target->size);
    int copied = copy_between(executor, source, target);
    if (copied != ENGINE_ERROR_UNSUPPORTED) return copied;
    const void *seen_source = host_pointer(executor, source);
    void *seen_target = host_pointer(executor, target);
    if (seen_source) {
        int status = from->stream_wait(executor->streams[source->device]);
        return status ? on_device(executor, source->device, status)
                      : write_storage(executor, target, seen_source);
    }
    if (seen_target) {
        int status = to->stream_wait(executor->streams[target->device]);
        return status ? on_device(executor, target->device, status)
                      : read_storage(executor, source, seen_target, source->size);
    }
    int status = read_staged(executor, source);
    return status ? status : write_storage(executor, target, executor->staging);
}

/* Hands out a watched value from where it is, or through the staging memory. */
static int hand_out(struct executor *executor, const struct schedule *schedule,
                    const struct schedule_step *step, const struct watcher *watcher)
{
    const struct storage *storage = &schedule->storages[step->source];
    ENGINE_ASSERT(watcher && step->target < schedule->graph->n_watches);
    const void *seen = host_pointer(executor, storage);
    int status =
        seen ? on_device(
                   executor, step->device,
                   device_at(executor, step->device)->backend->stream_wait(executor->streams[step->device]))
             : read_staged(executor, storage);
    if (status) return status;
    return watcher->take(watcher, &schedule->graph->watches[step->target], seen ? seen : executor->staging);
}

/* Bytes from a tensor's first element to its last. */
static uint64_t extent(const struct engine_tensor *tensor)
{
    uint64_t size = tensor->ne[0] * type_info(tensor->type)->block_size;
    for (int i = 1; i < 4; i++) size += (tensor->ne[i] - 1) * tensor->nb[i];
    return size;
}

/* Reads an operand in the executor's arena to a place in the staging memory, which is large enough, unless
 * the host sees it. */
static int read_operand(const struct executor *executor, uint32_t device, const struct engine_tensor *tensor,
                        uint64_t place, const uint8_t **data)
{
    const struct engine_backend *backend = device_at(executor, device)->backend;
    struct engine_stream *stream = executor->streams[device];
    ENGINE_ASSERT(place + extent(tensor) <= executor->staging_size);
    const uint8_t *start = backend->buffer_pointer ? backend->buffer_pointer(tensor->buffer) : NULL;
    int status = ENGINE_OK;
    *data = start ? start + tensor->offset : executor->staging + place;
    if (!start)
        status =
            backend->read(stream, tensor->buffer, tensor->offset, executor->staging + place, extent(tensor));
    if (!status) status = backend->stream_wait(stream);
    return on_device(executor, device, status);
}

/* Hands out the input of a product, and its experts. */
static int hand_out_input(struct executor *executor, const struct graph *graph,
                          const struct schedule_step *step, const struct watcher *watcher)
{
    const struct node *node = &graph->nodes[step->first_node];
    const struct engine_op_matmul *args = &node->args.matmul;
    ENGINE_ASSERT(node->op == ENGINE_OP_MATMUL && watcher && watcher->take_input);
    const uint8_t *data, *ids = NULL;
    uint64_t place = (extent(args->input) + 63) / 64 * 64;
    int status = grow_staging(executor, place + (args->experts ? extent(args->experts) : 0));
    if (!status) status = read_operand(executor, step->device, args->input, 0, &data);
    if (!status && args->experts) status = read_operand(executor, step->device, args->experts, place, &ids);
    return status ? status
                  : watcher->take_input(watcher, graph, node, data, (const int32_t *)(const void *)ids);
}

/* Submits what other devices have to do before this one begins, which may take the host's time. */
static int flush_others(struct executor *executor, uint32_t device)
{
    int status = ENGINE_OK;
    for (uint32_t d = 0; d < executor->set->n_devices && !status; d++) {
        if (d == device || !executor->unflushed[d]) continue;
        status = on_device(executor, d, device_at(executor, d)->backend->stream_flush(executor->streams[d]));
        executor->unflushed[d] = false;
    }
    return status;
}

static int run_step(struct executor *executor, struct prepared *prepared, size_t number,
                    const struct watcher *watcher)
{
    const struct schedule *schedule = prepared->schedule;
    const struct schedule_step *step = &schedule->steps[number];
    if (step->kind == SCHEDULE_WATCH) return hand_out(executor, schedule, step, watcher);
    if (step->kind == SCHEDULE_INPUT) return hand_out_input(executor, schedule->graph, step, watcher);
    if (step->kind == SCHEDULE_COPY)
        return copy_storage(executor, &schedule->storages[step->source], &schedule->storages[step->target]);
    int status = flush_others(executor, step->device);
    if (status) return status;
    const struct engine_backend *backend = device_at(executor, step->device)->backend;
    struct engine_stream *stream = executor->streams[step->device];
    struct engine_recording *recording = prepared->recordings[number];
    ENGINE_ASSERT(stream && step->first_node + step->n_nodes <= schedule->graph->n_nodes);
    status = recording ? backend->replay(stream, recording) : enqueue_run(executor, schedule, step);
    executor->unflushed[step->device] = true;
    return on_device(executor, step->device, status);
}

/* Enqueues reading the first bytes of the logits. */
static int read_result(struct executor *executor, const struct storage *storage, float *logits, uint64_t size)
{
    const struct engine_backend *backend = device_at(executor, storage->device)->backend;
    executor->unflushed[storage->device] = true;
    return on_device(executor, storage->device,
                     backend->read(executor->streams[storage->device], executor->arenas[storage->device],
                                   storage->offset, logits, size));
}

int prepared_start(struct executor *executor, struct prepared *prepared,
                   const void *const inputs[INPUT_COUNT], float *logits, uint32_t n_rows,
                   const struct watcher *watcher)
{
    const struct schedule *schedule = prepared->schedule;
    const struct storage *result = NULL;
    int status = ENGINE_OK;
    error_clear(); /* so that a message comes from this run */
    executor->is_running = true;
    for (size_t i = 0; i < schedule->n_storages && !status; i++) {
        const struct storage *storage = &schedule->storages[i];
        if (storage->value == schedule->graph->logits) result = storage;
        if (storage->value->kind == VALUE_INPUT)
            status = write_storage(executor, storage, inputs[storage->value->index]);
    }
    ENGINE_ASSERT(status || n_rows == 0 || (result && n_rows <= result->value->tensor.ne[1]));
    for (size_t i = 0; i < (n_rows > 0 ? schedule->n_steps : prepared->n_lasting) && !status; i++)
        status = run_step(executor, prepared, i, watcher);
    if (!status && n_rows > 0)
        status = read_result(executor, result, logits, n_rows * result->value->tensor.nb[1]);
    return status ? status : flush_others(executor, PLACE_MAX_DEVICES);
}

int executor_wait(struct executor *executor)
{
    int status = ENGINE_OK;
    if (!executor->is_running) return ENGINE_OK;
    for (uint32_t d = 0; d < executor->set->n_devices; d++) {
        if (!executor->streams[d]) continue;
        int waited = device_at(executor, d)->backend->stream_wait(executor->streams[d]);
        executor->unflushed[d] = false;
        if (!status) status = on_device(executor, d, waited);
    }
    executor->is_running = false;
    return status;
}

int executor_mark(struct executor *executor, uint64_t marks[PLACE_MAX_DEVICES])
{
    int status = ENGINE_OK;
    for (uint32_t d = 0; d < executor->set->n_devices && !status; d++) {
        const struct engine_backend *backend = device_at(executor, d)->backend;
        if (executor->streams[d] && backend_marks(backend))
            status = on_device(executor, d, backend->stream_mark(executor->streams[d], &marks[d]));
    }
    return status;
}

int executor_wait_for(struct executor *executor, const uint64_t marks[PLACE_MAX_DEVICES])
{
    int status = ENGINE_OK;
    for (uint32_t d = 0; d < executor->set->n_devices; d++) {
        const struct engine_backend *backend = device_at(executor, d)->backend;
        struct engine_stream *stream = executor->streams[d];
        if (!stream) continue;
        int waited = backend_marks(backend) ? backend->stream_wait_for(stream, marks[d])
                                            : backend->stream_wait(stream);
        if (!status) status = on_device(executor, d, waited);
    }
    return status;
}

int prepared_run(struct executor *executor, struct prepared *prepared, const void *const inputs[INPUT_COUNT],
                 float *logits, uint32_t n_rows, const struct watcher *watcher)
{
    int status = prepared_start(executor, prepared, inputs, logits, n_rows, watcher);
    int waited = executor_wait(executor); /* leave nothing pending, even after an error */
    return status ? status : waited;
}

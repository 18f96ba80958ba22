/* stream.c: streams and recordings at workers (see remote.h). */
#include <stdlib.h>
#include <string.h>

#include "operation.h"
#include "remote.h"

/* Where the bytes of a read go. */
struct target {
    void *data;
    uint64_t size;
};

struct engine_stream {
    struct engine_device *device;
    uint32_t number;
    bool is_dirty;          /* something has been added since the last wait */
    struct target *targets; /* [n_targets] of reads since the last wait */
    size_t n_targets, capacity;
    bool is_recording;
    struct bytes operations; /* recorded */
    struct bytes accepted;   /* the operation that the worker took last: it takes it again */
};

struct engine_recording {
    struct engine_device *device;
    uint32_t number;
};

int stream_create(struct engine_device *device, struct engine_stream **out)
{
    struct worker *worker = device->worker;
    struct reader reader;
    struct engine_stream *stream = calloc(1, sizeof *stream);
    if (!stream) return mpi_host->fail(ENGINE_ERROR_MEMORY, "out of memory (stream)");
    stream->device = device;
    pthread_mutex_lock(&worker->lock);
    size_t begun = command_begin(worker, COMMAND_STREAM_CREATE);
    bytes_add_u32(&worker->out, device->number);
    command_end(worker, begun);
    int status = worker_ask(worker, &reader);
    if (!status) stream->number = read_u32(&reader);
    if (!status) status = worker_read_all(worker, &reader);
    pthread_mutex_unlock(&worker->lock);
    if (status)
        free(stream);
    else
        *out = stream;
    return status;
}

void stream_destroy(struct engine_stream *stream)
{
    if (!stream) return;
    stream_wait(stream);
    worker_tell(stream->device->worker, COMMAND_DESTROY, stream->number);
    bytes_free(&stream->operations);
    bytes_free(&stream->accepted);
    free(stream->targets);
    free(stream);
}

/* ---- Operations ------------------------------------------------------------------------------------------- */

/* The number of a tensor's memory at the worker. */
static int name_tensor(void *user, const struct engine_tensor *tensor, uint32_t *place, uint32_t *number)
{
    const struct engine_stream *stream = user;
    const struct engine_device *owner = NULL;
    if (tensor->weight) {
        *place = PLACE_WEIGHT;
        *number = tensor->weight->number;
        owner = tensor->weight->device;
    } else if (tensor->buffer) {
        *place = PLACE_BUFFER;
        *number = tensor->buffer->number;
        owner = tensor->buffer->device;
    }
    return owner == stream->device
               ? ENGINE_OK
               : mpi_host->fail(ENGINE_ERROR_ARGUMENT, "an operand is in no memory of this device");
}

/* Adds an operation that runs at once. The worker says whether it takes it; one like the last it takes unasked. Lock
 * held. */
static int add_operation(struct engine_stream *stream, uint32_t op, const void *args)
{
    struct worker *worker = stream->device->worker;
    struct bytes bytes = {0};
    struct reader reader;
    int status = operation_add(&bytes, op, args, name_tensor, stream, mpi_host->fail);
    if (status) {
        bytes_free(&bytes);
        return status;
    }
    const struct bytes *accepted = &stream->accepted;
    bool is_known =
        accepted->data && accepted->size == bytes.size && memcmp(accepted->data, bytes.data, bytes.size) == 0;
    size_t begun = command_begin(worker, COMMAND_ENQUEUE);
    bytes_add_u32(&worker->out, stream->number);
    bytes_add(&worker->out, bytes.data, bytes.size);
    command_end(worker, begun);
    stream->is_dirty = true;
    status = is_known ? worker_relieve(worker) : worker_ask(worker, &reader);
    if (status || is_known) {
        bytes_free(&bytes);
        return status;
    }
    bytes_free(&stream->accepted);
    stream->accepted = bytes;
    return worker_read_all(worker, &reader);
}

int stream_enqueue(struct engine_stream *stream, uint32_t op, const void *args)
{
    if (stream->is_recording) {
        const size_t before = stream->operations.size;
        int status = operation_add(&stream->operations, op, args, name_tensor, stream, mpi_host->fail);
        if (status) stream->operations.size = before;
        return status;
    }
    pthread_mutex_lock(&stream->device->worker->lock);
    int status = add_operation(stream, op, args);
    pthread_mutex_unlock(&stream->device->worker->lock);
    return status;
}

/* ---- Transfers -------------------------------------------------------------------------------------------- */

static int check_range(const struct engine_stream *stream, const struct engine_buffer *buffer,
                       uint64_t offset, uint64_t size, const char *what)
{
    if (stream->is_recording)
        return mpi_host->fail(ENGINE_ERROR_ARGUMENT, "%s: not allowed while recording", what);
    if (!buffer || buffer->device != stream->device)
        return mpi_host->fail(ENGINE_ERROR_ARGUMENT, "%s: the buffer belongs to another device", what);
    if (offset > buffer->size || size > buffer->size - offset)
        return mpi_host->fail(ENGINE_ERROR_ARGUMENT, "%s: the range extends beyond the end of the buffer",
                              what);
    return ENGINE_OK;
}

int stream_write(struct engine_stream *stream, struct engine_buffer *buffer, uint64_t offset,
                 const void *source, uint64_t size)
{
    struct worker *worker = stream->device->worker;
    int status = check_range(stream, buffer, offset, size, "write");
    pthread_mutex_lock(&worker->lock);
    for (uint64_t at = 0; at < size && !status;) {
        uint64_t part = size - at < PROTOCOL_PART ? size - at : PROTOCOL_PART;
        size_t begun = command_begin(worker, COMMAND_WRITE);
        bytes_add_u32(&worker->out, stream->number);
        bytes_add_u32(&worker->out, buffer->number);
        bytes_add_u64(&worker->out, offset + at);
        bytes_add(&worker->out, (const uint8_t *)source + at, (size_t)part);
        command_end(worker, begun);
        status = worker_relieve(worker);
        at += part;
        stream->is_dirty = true;
    }
    pthread_mutex_unlock(&worker->lock);
    return status;
}

static int add_target(struct engine_stream *stream, void *data, uint64_t size)
{
    if (stream->n_targets == stream->capacity) {
        size_t capacity = stream->capacity ? 2 * stream->capacity : 8;
        struct target *targets = realloc(stream->targets, capacity * sizeof *targets);
        if (!targets) return mpi_host->fail(ENGINE_ERROR_MEMORY, "out of memory (read)");
        stream->targets = targets;
        stream->capacity = capacity;
    }
    stream->targets[stream->n_targets++] = (struct target){data, size};
    return ENGINE_OK;
}

int stream_read(struct engine_stream *stream, struct engine_buffer *buffer, uint64_t offset, void *target,
                uint64_t size)
{
    struct worker *worker = stream->device->worker;
    int status = check_range(stream, buffer, offset, size, "read");
    if (!status && size > 0) status = add_target(stream, target, size);
    if (status || size == 0) return status;
    pthread_mutex_lock(&worker->lock);
    size_t begun = command_begin(worker, COMMAND_READ);
    bytes_add_u32(&worker->out, stream->number);
    bytes_add_u32(&worker->out, buffer->number);
    bytes_add_u64(&worker->out, offset);
    bytes_add_u64(&worker->out, size);
    command_end(worker, begun);
    stream->is_dirty = true;
    pthread_mutex_unlock(&worker->lock);
    return ENGINE_OK;
}

int stream_copy(struct engine_stream *stream, struct engine_buffer *target, uint64_t target_offset,
                struct engine_buffer *source, uint64_t source_offset, uint64_t size)
{
    struct worker *worker = stream->device->worker;
    int status = check_range(stream, target, target_offset, size, "copy");
    if (!status) status = check_range(stream, source, source_offset, size, "copy");
    if (status || size == 0) return status;
    pthread_mutex_lock(&worker->lock);
    size_t begun = command_begin(worker, COMMAND_COPY);
    bytes_add_u32(&worker->out, stream->number);
    bytes_add_u32(&worker->out, target->number);
    bytes_add_u64(&worker->out, target_offset);
    bytes_add_u32(&worker->out, source->number);
    bytes_add_u64(&worker->out, source_offset);
    bytes_add_u64(&worker->out, size);
    command_end(worker, begun);
    stream->is_dirty = true;
    pthread_mutex_unlock(&worker->lock);
    return ENGINE_OK;
}

int stream_flush(struct engine_stream *stream)
{
    (void)stream; /* see remote.h */
    return ENGINE_OK;
}

int stream_wait(struct engine_stream *stream)
{
    struct worker *worker = stream->device->worker;
    struct reader reader;
    if (!stream->is_dirty) return ENGINE_OK;
    pthread_mutex_lock(&worker->lock);
    size_t begun = command_begin(worker, COMMAND_WAIT);
    bytes_add_u32(&worker->out, stream->number);
    command_end(worker, begun);
    int status = worker_ask(worker, &reader);
    for (size_t i = 0; i < stream->n_targets && !status; i++) {
        const uint8_t *bytes = read_bytes(&reader, stream->targets[i].size);
        if (!bytes) break;
        memcpy(stream->targets[i].data, bytes, (size_t)stream->targets[i].size);
    }
    if (!status) status = worker_read_all(worker, &reader);
    pthread_mutex_unlock(&worker->lock);
    stream->n_targets = 0;
    stream->is_dirty = false;
    return status;
}

/* ---- Recordings ------------------------------------------------------------------------------------------- */

int stream_record_begin(struct engine_stream *stream)
{
    if (stream->is_recording) return mpi_host->fail(ENGINE_ERROR_ARGUMENT, "the stream is already recording");
    stream->is_recording = true;
    stream->operations.size = 0;
    stream->operations.failed = false;
    return ENGINE_OK;
}

int stream_record_end(struct engine_stream *stream, struct engine_recording **out)
{
    struct worker *worker = stream->device->worker;
    struct reader reader;
    if (!stream->is_recording) return mpi_host->fail(ENGINE_ERROR_ARGUMENT, "the stream is not recording");
    stream->is_recording = false;
    struct engine_recording *recording = calloc(1, sizeof *recording);
    if (!recording) return mpi_host->fail(ENGINE_ERROR_MEMORY, "out of memory (recording)");
    recording->device = stream->device;
    pthread_mutex_lock(&worker->lock);
    size_t begun = command_begin(worker, COMMAND_RECORD);
    bytes_add_u32(&worker->out, stream->number);
    bytes_add(&worker->out, stream->operations.data, stream->operations.size);
    command_end(worker, begun);
    int status = worker_ask(worker, &reader);
    if (!status) recording->number = read_u32(&reader);
    if (!status) status = worker_read_all(worker, &reader);
    pthread_mutex_unlock(&worker->lock);
    if (status)
        free(recording);
    else
        *out = recording;
    return status;
}

int stream_replay(struct engine_stream *stream, struct engine_recording *recording)
{
    struct worker *worker = stream->device->worker;
    if (stream->is_recording)
        return mpi_host->fail(ENGINE_ERROR_ARGUMENT, "replay: not allowed while recording");
    if (recording->device != stream->device)
        return mpi_host->fail(ENGINE_ERROR_ARGUMENT, "replay: the recording belongs to another device");
    pthread_mutex_lock(&worker->lock);
    size_t begun = command_begin(worker, COMMAND_REPLAY);
    bytes_add_u32(&worker->out, stream->number);
    bytes_add_u32(&worker->out, recording->number);
    command_end(worker, begun);
    stream->is_dirty = true;
    pthread_mutex_unlock(&worker->lock);
    return ENGINE_OK;
}

void recording_destroy(struct engine_recording *recording)
{
    if (!recording) return;
    worker_tell(recording->device->worker, COMMAND_DESTROY, recording->number);
    free(recording);
}

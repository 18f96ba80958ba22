/* stream.c: streams and recordings at workers (see remote.h). */
#include <stdlib.h>
#include <string.h>

#include "common/array.h"
#include "operation.h"
#include "remote.h"

/* Where the bytes of a read go. */
struct target {
    void *data;
    uint64_t size;
};

struct targets {
    struct target *items; /* [n] */
    size_t n, capacity;
};

/* What was flushed together, until its reply has been waited for. */
struct flushed {
    struct flushed *next;
    struct reply reply;
    struct targets targets;
};

struct engine_stream {
    struct engine_device *device;
    uint32_t number;
    bool is_dirty;                 /* something has been added since the last flush */
    struct targets targets;        /* of reads since then */
    struct flushed *first, **last; /* not waited for yet */
    uint64_t n_flushed, n_taken;   /* ever, with something in it; marks are such numbers */
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
    workers_lock();
    size_t begun = command_begin(worker, COMMAND_STREAM_CREATE);
    bytes_add_u32(&worker->out, device->number);
    command_end(worker, begun);
    int status = worker_ask(worker, &reader);
    if (!status) stream->number = read_u32(&reader);
    if (!status) status = worker_read_all(worker, &reader);
    workers_unlock();
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
    free(stream->targets.items);
    free(stream);
}

/* ---- Operations ---------------------------------------------------------------------------------------- */

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

/* Adds an operation that runs at once. The worker says whether it takes it; one like the last it takes
 * unasked. Lock held. */
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
    workers_lock();
    int status = add_operation(stream, op, args);
    workers_unlock();
    return status;
}

/* ---- Transfers ----------------------------------------------------------------------------------------- */

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
    workers_lock();
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
    workers_unlock();
    return status;
}

static int add_target(struct targets *targets, void *data, uint64_t size)
{
    if (!ARRAY_RESERVE(targets->items, targets->capacity, targets->n + 1))
        return mpi_host->fail(ENGINE_ERROR_MEMORY, "out of memory (read)");
    targets->items[targets->n++] = (struct target){data, size};
    return ENGINE_OK;
}

int stream_read(struct engine_stream *stream, struct engine_buffer *buffer, uint64_t offset, void *target,
                uint64_t size)
{
    struct worker *worker = stream->device->worker;
    int status = check_range(stream, buffer, offset, size, "read");
    if (!status && size > 0) status = add_target(&stream->targets, target, size);
    if (status || size == 0) return status;
    workers_lock();
    size_t begun = command_begin(worker, COMMAND_READ);
    bytes_add_u32(&worker->out, stream->number);
    bytes_add_u32(&worker->out, buffer->number);
    bytes_add_u64(&worker->out, offset);
    bytes_add_u64(&worker->out, size);
    command_end(worker, begun);
    stream->is_dirty = true;
    workers_unlock();
    return ENGINE_OK;
}

int stream_copy(struct engine_stream *stream, struct engine_buffer *target, uint64_t target_offset,
                struct engine_buffer *source, uint64_t source_offset, uint64_t size)
{
    struct worker *worker = stream->device->worker;
    int status = check_range(stream, target, target_offset, size, "copy");
    if (!status) status = check_range(stream, source, source_offset, size, "copy");
    if (status || size == 0) return status;
    workers_lock();
    size_t begun = command_begin(worker, COMMAND_COPY);
    bytes_add_u32(&worker->out, stream->number);
    bytes_add_u32(&worker->out, target->number);
    bytes_add_u64(&worker->out, target_offset);
    bytes_add_u32(&worker->out, source->number);
    bytes_add_u64(&worker->out, source_offset);
    bytes_add_u64(&worker->out, size);
    command_end(worker, begun);
    stream->is_dirty = true;
    workers_unlock();
    return ENGINE_OK;
}

/* A copy that the worker makes between two of its devices. */
static int add_pass(const struct engine_stream *source, const struct engine_buffer *from,
                    uint64_t from_offset, const struct engine_stream *target, const struct engine_buffer *to,
                    uint64_t to_offset, uint64_t size)
{
    struct worker *worker = source->device->worker;
    size_t begun = command_begin(worker, COMMAND_PASS);
    bytes_add_u32(&worker->out, source->number);
    bytes_add_u32(&worker->out, from->number);
    bytes_add_u64(&worker->out, from_offset);
    bytes_add_u32(&worker->out, target->number);
    bytes_add_u32(&worker->out, to->number);
    bytes_add_u64(&worker->out, to_offset);
    bytes_add_u64(&worker->out, size);
    command_end(worker, begun);
    return worker_relieve(worker);
}

/* SEND or TAKE; `rank`: of the other worker. */
static void add_part(const struct engine_stream *stream, enum command command,
                     const struct engine_buffer *buffer, uint64_t offset, uint64_t size, int rank)
{
    struct worker *worker = stream->device->worker;
    size_t begun = command_begin(worker, command);
    bytes_add_u32(&worker->out, stream->number);
    bytes_add_u32(&worker->out, buffer->number);
    bytes_add_u64(&worker->out, offset);
    bytes_add_u64(&worker->out, size);
    bytes_add_u32(&worker->out, (uint32_t)rank);
    command_end(worker, begun);
}

/* Workers hand the bytes on themselves. */
int stream_pass(struct engine_stream *source, struct engine_buffer *from, uint64_t from_offset,
                struct engine_stream *target, struct engine_buffer *to, uint64_t to_offset, uint64_t size)
{
    struct worker *one = source->device->worker, *other = target->device->worker;
    int status = check_range(source, from, from_offset, size, "copy");
    if (!status) status = check_range(target, to, to_offset, size, "copy");
    if (status || size == 0) return status;
    workers_lock();
    if (one == other) {
        status = add_pass(source, from, from_offset, target, to, to_offset, size);
    } else {
        add_part(source, COMMAND_SEND, from, from_offset, size, other->rank);
        add_part(target, COMMAND_TAKE, to, to_offset, size, one->rank);
        one->sends = other->takes = true;
    }
    source->is_dirty = target->is_dirty = true;
    workers_unlock();
    return status;
}

/* ---- Waiting ------------------------------------------------------------------------------------------- */

/* Sends what has been added, and asks for what was to be read. Lock held. */
static int stream_send(struct engine_stream *stream)
{
    struct worker *worker = stream->device->worker;
    if (!stream->is_dirty || stream->is_recording) return ENGINE_OK;
    struct flushed *flushed = calloc(1, sizeof *flushed);
    if (!flushed) return mpi_host->fail(ENGINE_ERROR_MEMORY, "out of memory (flush)");
    size_t begun = command_begin(worker, COMMAND_WAIT);
    bytes_add_u32(&worker->out, stream->number);
    command_end(worker, begun);
    flushed->targets = stream->targets;
    stream->targets = (struct targets){0};
    stream->is_dirty = false;
    int status = worker_send(worker, &flushed->reply);
    if (status) {
        free(flushed->targets.items);
        free(flushed);
        return status;
    }
    *(stream->first ? stream->last : &stream->first) = flushed;
    stream->last = &flushed->next;
    stream->n_flushed++;
    return ENGINE_OK;
}

int stream_flush(struct engine_stream *stream)
{
    workers_lock();
    int status = stream_send(stream);
    workers_unlock();
    return status;
}

/* Waits for what was flushed, and puts what was read where it belongs. Lock held. */
static int stream_take(struct engine_stream *stream, struct flushed *flushed)
{
    struct worker *worker = stream->device->worker;
    struct reader reader;
    int status = worker_await(worker, &flushed->reply);
    if (!status) status = worker_read_reply(worker, &flushed->reply.bytes, &reader);
    if (status) return status;
    for (size_t i = 0; i < flushed->targets.n; i++) {
        const struct target *target = &flushed->targets.items[i];
        const uint8_t *bytes = read_bytes(&reader, target->size);
        if (!bytes) break;
        memcpy(target->data, bytes, (size_t)target->size);
    }
    return worker_read_all(worker, &reader);
}

/* Waits for what was flushed first, until so much has been waited for. `status`: of what went before. Lock
 * held. */
static int take_until(struct engine_stream *stream, uint64_t n_taken, int status)
{
    while (stream->first && stream->n_taken < n_taken) {
        struct flushed *flushed = stream->first;
        /* Only the first failure has a message. */
        int taken =
            status ? worker_await(stream->device->worker, &flushed->reply) : stream_take(stream, flushed);
        if (!status) status = taken;
        stream->first = flushed->next;
        stream->n_taken++;
        bytes_free(&flushed->reply.bytes);
        free(flushed->targets.items);
        free(flushed);
    }
    return status;
}

int stream_wait(struct engine_stream *stream)
{
    workers_lock();
    int status = take_until(stream, UINT64_MAX, stream_send(stream));
    workers_unlock();
    return status;
}

int stream_mark(struct engine_stream *stream, uint64_t *mark)
{
    workers_lock();
    int status = stream_send(stream);
    *mark = stream->n_flushed;
    workers_unlock();
    return status;
}

int stream_wait_for(struct engine_stream *stream, uint64_t mark)
{
    workers_lock();
    int status = take_until(stream, mark, ENGINE_OK);
    workers_unlock();
    return status;
}

int stream_done(struct engine_stream *stream, int *done)
{
    workers_lock();
    int status = stream_send(stream);
    bool is_here = true;
    for (const struct flushed *at = stream->first; at && is_here && !status; at = at->next)
        status = worker_look(&at->reply, &is_here);
    if (!status) *done = is_here;
    workers_unlock();
    return status;
}

/* ---- Recordings ---------------------------------------------------------------------------------------- */

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
    workers_lock();
    size_t begun = command_begin(worker, COMMAND_RECORD);
    bytes_add_u32(&worker->out, stream->number);
    bytes_add(&worker->out, stream->operations.data, stream->operations.size);
    command_end(worker, begun);
    int status = worker_ask(worker, &reader);
    if (!status) recording->number = read_u32(&reader);
    if (!status) status = worker_read_all(worker, &reader);
    workers_unlock();
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
    workers_lock();
    size_t begun = command_begin(worker, COMMAND_REPLAY);
    bytes_add_u32(&worker->out, stream->number);
    bytes_add_u32(&worker->out, recording->number);
    command_end(worker, begun);
    stream->is_dirty = true;
    workers_unlock();
    return ENGINE_OK;
}

void recording_destroy(struct engine_recording *recording)
{
    if (!recording) return;
    worker_tell(recording->device->worker, COMMAND_DESTROY, recording->number);
    free(recording);
}

/* work-run.c: what a worker's streams do: operations, transfers, recordings (see work.h). */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "work.h"

/* ---- Operations ---------------------------------------------------------------------------------------- */

/* Bytes of an element, or of a block of 32 with *block. 0: no type of activations or caches. */
static uint64_t size_of_type(uint32_t type, uint64_t *block)
{
    *block = type == ENGINE_TYPE_Q8_0 ? 32 : 1;
    switch (type) {
    case ENGINE_TYPE_F32:
    case ENGINE_TYPE_I32: return 4;
    case ENGINE_TYPE_F16: return 2;
    case ENGINE_TYPE_Q8_0: return 34;
    default: return 0;
    }
}

/* Whether all of a tensor lies within a buffer of `size` bytes. */
static bool is_within(const struct engine_tensor *tensor, uint64_t size)
{
    uint64_t block, end = tensor->offset, part;
    uint64_t element = size_of_type(tensor->type, &block);
    if (!element || tensor->ne[0] % block || tensor->nb[0] != element) return false;
    for (int d = 0; d < 4; d++)
        if (tensor->ne[d] == 0) return false;
    if (__builtin_mul_overflow(tensor->ne[0] / block, element, &part) ||
        __builtin_add_overflow(end, part, &end))
        return false;
    for (int d = 1; d < 4; d++)
        if (__builtin_mul_overflow(tensor->ne[d] - 1, tensor->nb[d], &part) ||
            __builtin_add_overflow(end, part, &end))
            return false;
    return end <= size;
}

/* Whether a tensor has no more elements than the weight that it names. */
static bool is_of_weight(const struct engine_tensor *tensor, const struct thing *weight)
{
    uint64_t asked = 1, there = 1;
    for (int d = 0; d < 4; d++)
        if (__builtin_mul_overflow(asked, tensor->ne[d], &asked) ||
            __builtin_mul_overflow(there, weight->ne[d], &there))
            return false;
    return tensor->type == weight->type && tensor->offset == 0 && asked <= there;
}

/* Turns places and numbers into handles of a device. */
static int find_operands(struct work *work, struct operation *operation, uint32_t device)
{
    for (uint32_t i = 0; i < operation->n_tensors; i++) {
        struct engine_tensor *tensor = &operation->tensors[i];
        bool is_weight = operation->places[i] == PLACE_WEIGHT;
        if (!is_weight && operation->places[i] != PLACE_BUFFER) return work_malformed(work);
        const struct thing *thing =
            work_find(work, operation->numbers[i], is_weight ? THING_WEIGHT : THING_BUFFER);
        if (!thing || thing->device != device) return work_malformed(work);
        if (is_weight ? !is_of_weight(tensor, thing) : !is_within(tensor, thing->size))
            return work_fail(work, ENGINE_ERROR_ARGUMENT, "an operand of operation %u doesn't fit its memory",
                             operation->op);
        if (is_weight)
            tensor->weight = thing->of.weight;
        else
            tensor->buffer = thing->of.buffer;
    }
    return ENGINE_OK;
}

static int enqueue(struct work *work, const struct thing *stream, struct reader *reader)
{
    struct operation operation;
    if (!operation_read(reader, &operation)) return work_malformed(work);
    int status = find_operands(work, &operation, stream->device);
    if (status) return status;
    return work_failed(work, stream->backend->enqueue(stream->of.stream, operation.op, &operation.args));
}

/* ---- Transfers ----------------------------------------------------------------------------------------- */

bool work_has_range(const struct thing *buffer, uint64_t offset, uint64_t size)
{
    return offset <= buffer->size && size <= buffer->size - offset;
}

const struct thing *work_buffer(struct work *work, const struct thing *stream, uint32_t number)
{
    const struct thing *buffer = work_find(work, number, THING_BUFFER);
    if (buffer && buffer->device == stream->device) return buffer;
    work_malformed(work);
    return NULL;
}

static int write_buffer(struct work *work, const struct thing *stream, struct reader *reader)
{
    const struct thing *buffer = work_buffer(work, stream, read_u32(reader));
    uint64_t offset = read_u64(reader), size = reader->left;
    const uint8_t *data = read_bytes(reader, size);
    if (!buffer || reader->failed || !work_has_range(buffer, offset, size)) return work_malformed(work);
    return work_failed(work,
                       stream->backend->write(stream->of.stream, buffer->of.buffer, offset, data, size));
}

static int read_buffer(struct work *work, struct thing *stream, struct reader *reader)
{
    const struct thing *buffer = work_buffer(work, stream, read_u32(reader));
    uint64_t offset = read_u64(reader), size = read_u64(reader);
    if (!buffer || reader->failed || !work_has_range(buffer, offset, size)) return work_malformed(work);
    struct read_bytes *bytes = malloc(sizeof *bytes + (size_t)size);
    if (!bytes) return work_fail(work, ENGINE_ERROR_MEMORY, "out of memory (read)");
    bytes->next = NULL;
    bytes->size = size;
    if (stream->reads)
        stream->last_read->next = bytes;
    else
        stream->reads = bytes;
    stream->last_read = bytes;
    return work_failed(
        work, stream->backend->read(stream->of.stream, buffer->of.buffer, offset, bytes->data, size));
}

static int copy_buffer(struct work *work, const struct thing *stream, struct reader *reader)
{
    const struct thing *target = work_buffer(work, stream, read_u32(reader));
    uint64_t target_offset = read_u64(reader);
    const struct thing *source = work_buffer(work, stream, read_u32(reader));
    uint64_t source_offset = read_u64(reader), size = read_u64(reader);
    if (!target || !source || reader->failed || !work_has_range(target, target_offset, size) ||
        !work_has_range(source, source_offset, size))
        return work_malformed(work);
    return work_failed(work, stream->backend->copy(stream->of.stream, target->of.buffer, target_offset,
                                                   source->of.buffer, source_offset, size));
}

/* ---- Recordings ---------------------------------------------------------------------------------------- */

static bool can_record(const struct engine_backend *backend)
{
    return ENGINE_HAS(backend, recording_destroy) && backend->record_begin && backend->record_end &&
           backend->replay && backend->recording_destroy;
}

static int replay(struct work *work, const struct thing *stream, struct reader *reader)
{
    const struct thing *recording = work_find(work, read_u32(reader), THING_RECORDING);
    if (!recording || reader->failed || recording->device != stream->device) return work_malformed(work);
    if (recording->of.recording)
        return work_failed(work, stream->backend->replay(stream->of.stream, recording->of.recording));
    struct reader operations = {.at = recording->operations.data, .left = recording->operations.size};
    int status = ENGINE_OK;
    while (operations.left > 0 && !status) status = enqueue(work, stream, &operations);
    return status;
}

/* Checks the operations of a recording, keeps them, and notes what they use. */
static int keep_operations(struct work *work, struct thing *recording, struct reader *reader)
{
    struct operation operation;
    struct reader all = *reader;
    for (int counts = 1; counts >= 0; counts--) {
        struct reader operations = all;
        size_t n = 0;
        while (operations.left > 0) {
            if (!operation_read(&operations, &operation)) return work_malformed(work);
            int status = find_operands(work, &operation, recording->device);
            if (status) return status;
            for (uint32_t i = 0; i < operation.n_tensors && !counts; i++) {
                work->things[operation.numbers[i] - 1]->users++;
                recording->used[n + i] = operation.numbers[i];
                recording->n_used++;
            }
            n += operation.n_tensors;
        }
        if (counts) recording->used = malloc((n + 1) * sizeof *recording->used);
        if (!recording->used) return work_fail(work, ENGINE_ERROR_MEMORY, "out of memory (recording)");
    }
    bytes_add(&recording->operations, all.at, all.left);
    read_bytes(reader, reader->left);
    return recording->operations.failed ? work_fail(work, ENGINE_ERROR_MEMORY, "out of memory (recording)")
                                        : ENGINE_OK;
}

/* Gives the operations to a backend that records. */
static int work_record_operations(struct work *work, const struct thing *stream, struct thing *recording)
{
    struct reader operations = {.at = recording->operations.data, .left = recording->operations.size};
    struct engine_recording *made = NULL;
    char text[PROTOCOL_TEXT];
    int status = work_failed(work, stream->backend->record_begin(stream->of.stream));
    if (status) return status;
    while (operations.left > 0 && !status) status = enqueue(work, stream, &operations);
    memcpy(text, work->text, sizeof text);
    int ended = work_failed(work, stream->backend->record_end(stream->of.stream, &made));
    if (status) memcpy(work->text, text, sizeof text);
    if (status && !ended) stream->backend->recording_destroy(made);
    if (!status && !ended) recording->of.recording = made;
    return status ? status : ended;
}

int work_record(struct work *work, struct reader *reader, struct bytes *answer)
{
    uint32_t number;
    const struct thing *stream = work_find(work, read_u32(reader), THING_STREAM);
    if (!stream || reader->failed) return work_malformed(work);
    struct thing *recording = work_add(work, THING_RECORDING, stream->device, &number);
    if (!recording) return work_fail(work, ENGINE_ERROR_MEMORY, "out of memory (recording)");
    int status = keep_operations(work, recording, reader);
    if (!status && can_record(stream->backend)) status = work_record_operations(work, stream, recording);
    if (status)
        work_remove(work, number);
    else
        bytes_add_u32(answer, number);
    if (status) read_bytes(reader, reader->left);
    return status;
}

/* ---- Streams ------------------------------------------------------------------------------------------- */

int work_in_stream(struct work *work, enum command command, struct reader *reader, bool replies)
{
    int status;
    struct thing *stream = work_find(work, read_u32(reader), THING_STREAM);
    if (!stream) return work_malformed(work);
    bool asks = command == COMMAND_ENQUEUE && replies;
    if (stream->status && !asks) {
        read_bytes(reader, reader->left);
        return ENGINE_OK;
    }
    stream->is_dirty = true;
    switch (command) {
    case COMMAND_ENQUEUE: status = enqueue(work, stream, reader); break;
    case COMMAND_WRITE: status = write_buffer(work, stream, reader); break;
    case COMMAND_READ: status = read_buffer(work, stream, reader); break;
    case COMMAND_COPY: status = copy_buffer(work, stream, reader); break;
    default: status = replay(work, stream, reader); break;
    }
    if (!status || asks || work->is_broken) return status;
    work_leave(work, stream, status);
    return ENGINE_OK;
}

int work_wait(struct work *work, struct reader *reader, struct bytes *answer)
{
    struct thing *stream = work_find(work, read_u32(reader), THING_STREAM);
    if (!stream || reader->failed) return work_malformed(work);
    int status = stream->backend->stream_wait(stream->of.stream);
    if (stream->status) {
        status = stream->status;
        work->origin = stream->origin;
        memcpy(work->text, stream->text, sizeof work->text);
    } else {
        status = work_failed(work, status);
    }
    stream->is_dirty = false;
    stream->status = ENGINE_OK;
    while (stream->reads) {
        struct read_bytes *next = stream->reads->next;
        if (!status) bytes_add(answer, stream->reads->data, (size_t)stream->reads->size);
        free(stream->reads);
        stream->reads = next;
    }
    return status;
}

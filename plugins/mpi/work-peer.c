/* work-peer.c: what a worker's devices give to others: to its own, and to those of other workers (see
 * work.h). */
#include <string.h>

#include "work.h"

/* Waits for what a stream has been told, and adds the bytes of a buffer to `bytes`. A status, with a text. */
static int read_now(struct work *work, const struct thing *stream, const struct thing *buffer,
                    uint64_t offset, uint64_t size, struct bytes *bytes)
{
    void *place = bytes_grow(bytes, (size_t)size);
    if (!place) return work_fail(work, ENGINE_ERROR_MEMORY, "out of memory (copy)");
    int status = stream->backend->read(stream->of.stream, buffer->of.buffer, offset, place, size);
    int waited = stream->backend->stream_wait(stream->of.stream);
    return work_failed(work, status ? status : waited);
}

/* A message for another worker: what a stream has computed, or why it has not. */
static void make_message(struct work *work, struct thing *stream, const struct thing *buffer, uint64_t offset,
                         uint64_t size, struct bytes *message)
{
    bytes_add_u32(message, ENGINE_OK);
    if (!stream->status) work_leave(work, stream, read_now(work, stream, buffer, offset, size, message));
    if (!stream->status) return;
    bytes_free(message);
    bytes_add_u32(message, (uint32_t)stream->status);
    bytes_add_u32(message, stream->origin ? stream->origin : (uint32_t)work->peers->rank);
    bytes_add_text(message, stream->text);
}

static int send_part(struct work *work, struct thing *stream, const struct thing *buffer, uint64_t offset,
                     uint64_t size, int rank)
{
    char error[PROTOCOL_TEXT];
    struct bytes message = {0};
    make_message(work, stream, buffer, offset, size, &message);
    if (work->peers->send(rank, &message, error)) return ENGINE_OK;
    return work_fail(work, ENGINE_ERROR_DEVICE, "nothing can be sent to worker %d: %s", rank, error);
}

/* What another worker has sent: ENGINE_OK, and the bytes are left to read; or why it could not. */
static int open_message(struct work *work, struct reader *reader, uint64_t size, int rank)
{
    uint32_t status = read_u32(reader);
    if (status == ENGINE_OK && !reader->failed && reader->left == size) return ENGINE_OK;
    uint32_t origin = read_u32(reader);
    read_text(reader, work->text, sizeof work->text);
    if (status == ENGINE_OK || reader->failed || origin == 0 || origin >= (uint32_t)work->peers->size)
        return work_fail(work, ENGINE_ERROR_DATA, "worker %d sent something that makes no sense", rank);
    work->origin = origin;
    return status <= ENGINE_ERROR_BUSY ? (int)status : ENGINE_ERROR;
}

static int take_part(struct work *work, const struct thing *stream, const struct thing *buffer,
                     uint64_t offset, uint64_t size, int rank)
{
    char error[PROTOCOL_TEXT];
    struct bytes message = {0};
    if (!work->peers->take(rank, &message, error))
        return work_fail(work, ENGINE_ERROR_DEVICE, "nothing comes from worker %d: %s", rank, error);
    struct reader reader = {.at = message.data, .left = message.size};
    int status = open_message(work, &reader, size, rank);
    if (!status && !stream->status)
        status = work_failed(
            work, stream->backend->write(stream->of.stream, buffer->of.buffer, offset, reader.at, size));
    bytes_free(&message);
    return status;
}

int work_with_peer(struct work *work, enum command command, struct reader *reader)
{
    struct thing *stream = work_find(work, read_u32(reader), THING_STREAM);
    const struct thing *buffer = stream ? work_buffer(work, stream, read_u32(reader)) : NULL;
    uint64_t offset = read_u64(reader), size = read_u64(reader);
    uint32_t rank = read_u32(reader);
    if (!buffer || reader->failed || !work_has_range(buffer, offset, size)) return work_malformed(work);
    if (rank == 0 || rank >= (uint32_t)work->peers->size || rank == (uint32_t)work->peers->rank)
        return work_malformed(work);
    stream->is_dirty = true;
    int status = command == COMMAND_SEND ? send_part(work, stream, buffer, offset, size, (int)rank)
                                         : take_part(work, stream, buffer, offset, size, (int)rank);
    work_leave(work, stream, status);
    return ENGINE_OK;
}

int work_pass(struct work *work, struct reader *reader, struct bytes *answer)
{
    struct bytes bytes = {0};
    (void)answer;
    struct thing *source = work_find(work, read_u32(reader), THING_STREAM);
    const struct thing *from = source ? work_buffer(work, source, read_u32(reader)) : NULL;
    uint64_t from_offset = read_u64(reader);
    struct thing *target = from ? work_find(work, read_u32(reader), THING_STREAM) : NULL;
    const struct thing *to = target ? work_buffer(work, target, read_u32(reader)) : NULL;
    uint64_t to_offset = read_u64(reader), size = read_u64(reader);
    if (!to || reader->failed || !work_has_range(from, from_offset, size) ||
        !work_has_range(to, to_offset, size))
        return work_malformed(work);
    source->is_dirty = target->is_dirty = true;
    if (!source->status) work_leave(work, source, read_now(work, source, from, from_offset, size, &bytes));
    if (source->status) {
        work->origin = source->origin;
        memcpy(work->text, source->text, sizeof work->text);
        work_leave(work, target, source->status);
    } else if (!target->status) {
        work_leave(work, target,
                   work_failed(work, target->backend->write(target->of.stream, to->of.buffer, to_offset,
                                                            bytes.data, size)));
    }
    bytes_free(&bytes);
    return ENGINE_OK;
}

/* stream.c: streams and recordings. A stream is a list of steps that runs, in the calling thread and the
 * device's others, when it is flushed or at a transfer; a recording is a list that is kept. */
#include <stdlib.h>
#include <string.h>

#include "cpu.h"
#include "list.h"
#include "pool.h"
#include "types.h"

/* Bytes of a task; as many as one thread copies. */
enum { COPY_PART = 256 * 1024, COPY_ALONE = 2 * COPY_PART };

struct engine_stream {
    struct engine_device *device;
    struct list *list;                  /* what is enqueued */
    struct engine_recording *recording; /* between record_begin and record_end */
    int status;                         /* the first error since the last wait */
    const char *message;
};

struct engine_recording {
    struct engine_device *device;
    struct list *list;
};

int stream_create(struct engine_device *device, struct engine_stream **out)
{
    struct engine_stream *stream = calloc(1, sizeof *stream);
    if (!stream) return cpu_host->fail(ENGINE_ERROR_MEMORY, "out of memory (stream)");
    stream->device = device;
    stream->list = list_create();
    if (!stream->list) {
        free(stream);
        return ENGINE_ERROR_MEMORY;
    }
    *out = stream;
    return ENGINE_OK;
}

void stream_destroy(struct engine_stream *stream)
{
    if (!stream) return;
    stream_flush(stream);
    recording_destroy(stream->recording);
    list_destroy(stream->list);
    free(stream);
}

static void stream_run(struct engine_stream *stream, struct list *list)
{
    const char *message;
    int status = list_run(list, stream->device, &message);
    if (!status || stream->status) return;
    stream->status = status;
    stream->message = message;
}

int stream_flush(struct engine_stream *stream)
{
    if (!list_is_empty(stream->list)) {
        stream_run(stream, stream->list);
        list_clear(stream->list);
    }
    return ENGINE_OK;
}

int stream_wait(struct engine_stream *stream)
{
    stream_flush(stream);
    int status = stream->status;
    if (!status) return ENGINE_OK;
    stream->status = ENGINE_OK;
    return cpu_host->fail(status, "%s", stream->message);
}

int stream_enqueue(struct engine_stream *stream, uint32_t op, const void *args)
{
    return op_append(stream->device, stream->recording ? stream->recording->list : stream->list, op, args);
}

/* A transfer's range within a buffer. */
static int range_check(const struct engine_stream *stream, const struct engine_buffer *buffer,
                       uint64_t offset, uint64_t size, const char *what)
{
    if (stream->recording)
        return cpu_host->fail(ENGINE_ERROR_ARGUMENT, "%s: not allowed while recording", what);
    if (!buffer || buffer->device != stream->device)
        return cpu_host->fail(ENGINE_ERROR_ARGUMENT, "%s: the buffer belongs to another device", what);
    if (offset > buffer->size || size > buffer->size - offset)
        return cpu_host->fail(ENGINE_ERROR_ARGUMENT, "%s: the range extends beyond the end of the buffer",
                              what);
    return ENGINE_OK;
}

/* ---- Transfers ------------------------------------------------------------------------------------- */

struct copying {
    uint8_t *to;
    const uint8_t *from;
    size_t size;
    bool opened;
};

/* One phase, with a task for each part. */
static size_t open_copying(void *context)
{
    struct copying *copying = context;
    size_t n = copying->opened ? 0 : (copying->size + COPY_PART - 1) / COPY_PART;
    copying->opened = true;
    return n;
}

static void copy_part(void *context, unsigned thread, size_t part)
{
    (void)thread;
    const struct copying *copying = context;
    size_t first = part * COPY_PART;
    memcpy(copying->to + first, copying->from + first, smaller(COPY_PART, copying->size - first));
}

/* Much, such as the logits of many sequences, is copied by all threads. */
static void stream_copy_bytes(struct engine_device *device, void *to, const void *from, size_t size)
{
    static const struct pool_work copy_parts = {open_copying, copy_part};
    struct copying copying = {.to = to, .from = from, .size = size};
    if (size <= COPY_ALONE)
        memcpy(to, from, size);
    else
        pool_run(device->pool, &copy_parts, &copying);
}

int stream_write(struct engine_stream *stream, struct engine_buffer *buffer, uint64_t offset,
                 const void *source, uint64_t size)
{
    int status = range_check(stream, buffer, offset, size, "write");
    if (status || size == 0) return status;
    stream_flush(stream);
    stream_copy_bytes(stream->device, buffer->data + offset, source, size);
    return ENGINE_OK;
}

int stream_read(struct engine_stream *stream, struct engine_buffer *buffer, uint64_t offset, void *target,
                uint64_t size)
{
    int status = range_check(stream, buffer, offset, size, "read");
    if (status || size == 0) return status;
    stream_flush(stream);
    stream_copy_bytes(stream->device, target, buffer->data + offset, size);
    return ENGINE_OK;
}

int stream_copy(struct engine_stream *stream, struct engine_buffer *target, uint64_t target_offset,
                struct engine_buffer *source, uint64_t source_offset, uint64_t size)
{
    int status = range_check(stream, target, target_offset, size, "copy");
    if (!status) status = range_check(stream, source, source_offset, size, "copy");
    if (status || size == 0) return status;
    stream_flush(stream);
    memmove(target->data + target_offset, source->data + source_offset, size);
    return ENGINE_OK;
}

int stream_copy_between(struct engine_stream *source, struct engine_buffer *from, uint64_t from_offset,
                        struct engine_stream *target, struct engine_buffer *to, uint64_t to_offset,
                        uint64_t size)
{
    int status = range_check(target, to, to_offset, size, "copy");
    if (!status) status = range_check(source, from, from_offset, size, "copy");
    if (status || size == 0) return status;
    stream_flush(source);
    stream_flush(target);
    memmove(to->data + to_offset, from->data + from_offset, size);
    if (!source->status || target->status) return ENGINE_OK;
    target->status = source->status;
    target->message = source->message;
    return ENGINE_OK;
}

int stream_done(struct engine_stream *stream, int *done)
{
    stream_flush(stream);
    *done = 1;
    return ENGINE_OK;
}

int stream_record_begin(struct engine_stream *stream)
{
    if (stream->recording) return cpu_host->fail(ENGINE_ERROR_ARGUMENT, "the stream is already recording");
    struct engine_recording *recording = calloc(1, sizeof *recording);
    if (!recording) return cpu_host->fail(ENGINE_ERROR_MEMORY, "out of memory (recording)");
    recording->device = stream->device;
    recording->list = list_create();
    if (!recording->list) {
        free(recording);
        return ENGINE_ERROR_MEMORY;
    }
    stream->recording = recording;
    return ENGINE_OK;
}

int stream_record_end(struct engine_stream *stream, struct engine_recording **recording)
{
    if (!stream->recording) return cpu_host->fail(ENGINE_ERROR_ARGUMENT, "the stream is not recording");
    *recording = stream->recording;
    stream->recording = NULL;
    return ENGINE_OK;
}

int stream_replay(struct engine_stream *stream, struct engine_recording *recording)
{
    if (stream->recording)
        return cpu_host->fail(ENGINE_ERROR_ARGUMENT, "replay: not allowed while recording");
    if (!recording || recording->device != stream->device)
        return cpu_host->fail(ENGINE_ERROR_ARGUMENT, "replay: the recording belongs to another device");
    stream_flush(stream);
    if (!list_is_empty(recording->list)) stream_run(stream, recording->list);
    return ENGINE_OK;
}

void recording_destroy(struct engine_recording *recording)
{
    if (!recording) return;
    list_destroy(recording->list);
    free(recording);
}

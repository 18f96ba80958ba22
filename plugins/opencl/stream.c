/* stream.c: streams and recordings. All streams of a device go through its one queue; a recording is a list
 * of launches. Transfers take the shortest way that the device allows: a copy by the host if buffers are in
 * host memory, in place if host and device share memory, otherwise through the queue. */
#include <stdlib.h>
#include <string.h>

#include "common/assert.h"
#include "launch.h"

struct engine_stream {
    struct engine_device *device;
    struct engine_recording *recording;
};

struct engine_recording {
    struct engine_device *device;
    struct launches launches;
};

int stream_create(struct engine_device *device, struct engine_stream **out)
{
    struct engine_stream *stream = calloc(1, sizeof *stream);
    if (!stream) return opencl_host->fail(ENGINE_ERROR_MEMORY, "out of memory (stream)");
    stream->device = device;
    *out = stream;
    return ENGINE_OK;
}

void stream_destroy(struct engine_stream *stream)
{
    if (!stream) return;
    stream_wait(stream);
    recording_destroy(stream->recording);
    free(stream);
}

int stream_flush(struct engine_stream *stream)
{
    return stream->device->n_commands > 0 ? opencl_error(cl.clFlush(stream->device->queue), "flush")
                                          : ENGINE_OK;
}

int stream_wait(struct engine_stream *stream)
{
    return device_finish(stream->device);
}

int stream_done(struct engine_stream *stream, int *done)
{
    return device_is_done(stream->device, done);
}

int stream_enqueue(struct engine_stream *stream, uint32_t op, const void *args)
{
    return op_append(stream->device, stream->recording ? &stream->recording->launches : NULL, op, args);
}

int launch_run(struct engine_device *device, const struct launch *launch)
{
    cl_int error = CL_SUCCESS;
    cl_kernel kernel = launch->kernel->handle;
    cl_uint n = launch->n_memories;
    cl_event *event;
    ENGINE_ASSERT(n <= MAX_MEMORIES && launch->scratch >> n == 0); /* scratch is among the arguments */
    int status = scratch_reserve(device, launch->scratch_size);
    if (!status) status = command_begin(device, launch->kernel->name, &event);
    if (status) return status;
    for (cl_uint i = 0; i < n && error == CL_SUCCESS; i++) {
        const cl_mem *memory = launch->scratch & 1u << i ? &device->scratch.memory : &launch->memories[i];
        error = cl.clSetKernelArg(kernel, i, sizeof(cl_mem), memory);
    }
    if (error == CL_SUCCESS)
        error = cl.clSetKernelArg(kernel, n, launch->parameters_size, launch->parameters);
    if (error == CL_SUCCESS)
        error = cl.clEnqueueNDRangeKernel(device->queue, kernel, launch->n_dimensions, NULL, launch->global,
                                          launch->group, 0, NULL, event);
    return opencl_error(error, launch->kernel->name);
}

/* ---- Transfers ----------------------------------------------------------------------------------------- */

/* A transfer's range within a buffer. */
static int check_range(const struct engine_stream *stream, const struct engine_buffer *buffer,
                       uint64_t offset, uint64_t size, const char *what)
{
    if (stream->recording)
        return opencl_host->fail(ENGINE_ERROR_ARGUMENT, "%s: not allowed while recording", what);
    if (!buffer || buffer->base.device != stream->device)
        return opencl_host->fail(ENGINE_ERROR_ARGUMENT, "%s: the buffer belongs to another device", what);
    if (offset > buffer->base.size || size > buffer->base.size - offset)
        return opencl_host->fail(ENGINE_ERROR_ARGUMENT, "%s: the range extends beyond the end of the buffer",
                                 what);
    return ENGINE_OK;
}

int stream_write(struct engine_stream *stream, struct engine_buffer *buffer, uint64_t offset,
                 const void *source, uint64_t size)
{
    int status = check_range(stream, buffer, offset, size, "write");
    if (status || size == 0) return status;
    if (!buffer->pointer) return memory_write(stream->device, buffer->memory, offset, source, size);
    status = device_finish(stream->device);
    if (!status) memcpy(buffer->pointer + offset, source, (size_t)size);
    return status;
}

int stream_read(struct engine_stream *stream, struct engine_buffer *buffer, uint64_t offset, void *target,
                uint64_t size)
{
    struct engine_device *device = stream->device;
    int status = check_range(stream, buffer, offset, size, "read");
    void *mapped = NULL;
    if (status || size == 0) return status;
    if (buffer->pointer) {
        status = device_finish(device);
        if (!status) memcpy(target, buffer->pointer + offset, (size_t)size);
        return status;
    }
    if (!device->listed->shares_memory) {
        cl_event *event;
        status = command_begin(device, "read", &event);
        if (status) return status;
        return opencl_error(cl.clEnqueueReadBuffer(device->queue, buffer->memory, CL_FALSE, (size_t)offset,
                                                   (size_t)size, target, 0, NULL, event),
                            "read");
    }
    status = memory_map(device, buffer->memory, offset, size, true, &mapped);
    if (status) return status;
    memcpy(target, mapped, (size_t)size);
    return memory_unmap(device, buffer->memory, mapped);
}

int stream_copy(struct engine_stream *stream, struct engine_buffer *target, uint64_t target_offset,
                struct engine_buffer *source, uint64_t source_offset, uint64_t size)
{
    int status = check_range(stream, target, target_offset, size, "copy");
    cl_event *event;
    if (!status) status = check_range(stream, source, source_offset, size, "copy");
    if (status || size == 0) return status;
    status = command_begin(stream->device, "copy", &event);
    if (status) return status;
    return opencl_error(cl.clEnqueueCopyBuffer(stream->device->queue, source->memory, target->memory,
                                               (size_t)source_offset, (size_t)target_offset, (size_t)size, 0,
                                               NULL, event),
                        "copy");
}

int stream_copy_between(struct engine_stream *source, struct engine_buffer *from, uint64_t from_offset,
                        struct engine_stream *target, struct engine_buffer *to, uint64_t to_offset,
                        uint64_t size)
{
    int status = check_range(source, from, from_offset, size, "copy");
    if (!status) status = check_range(target, to, to_offset, size, "copy");
    if (status || size == 0) return status;
    if (source->device == target->device) return stream_copy(target, to, to_offset, from, from_offset, size);
    return device_copy(source->device, from->memory, from_offset, target->device, to->memory, to_offset,
                       size);
}

/* ---- Recordings ---------------------------------------------------------------------------------------- */

int stream_record_begin(struct engine_stream *stream)
{
    if (stream->recording) return opencl_host->fail(ENGINE_ERROR_ARGUMENT, "the stream is already recording");
    stream->recording = calloc(1, sizeof *stream->recording);
    if (!stream->recording) return opencl_host->fail(ENGINE_ERROR_MEMORY, "out of memory (recording)");
    stream->recording->device = stream->device;
    return ENGINE_OK;
}

int stream_record_end(struct engine_stream *stream, struct engine_recording **out)
{
    if (!stream->recording) return opencl_host->fail(ENGINE_ERROR_ARGUMENT, "the stream is not recording");
    *out = stream->recording;
    stream->recording = NULL;
    return ENGINE_OK;
}

int stream_replay(struct engine_stream *stream, struct engine_recording *recording)
{
    int status = ENGINE_OK;
    if (stream->recording)
        return opencl_host->fail(ENGINE_ERROR_ARGUMENT, "replay: not allowed while recording");
    if (recording->device != stream->device)
        return opencl_host->fail(ENGINE_ERROR_ARGUMENT, "replay: the recording belongs to another device");
    for (size_t i = 0; i < recording->launches.count && !status; i++)
        status = launch_run(stream->device, &recording->launches.items[i]);
    return status;
}

void recording_destroy(struct engine_recording *recording)
{
    if (!recording) return;
    free(recording->launches.items);
    free(recording);
}

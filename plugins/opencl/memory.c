/* memory.c: device memory, transfers, buffers, scratch memory. */
#include <stdlib.h>
#include <string.h>

#include "device.h"

/* Devices that the host shares memory with get memory that both see; where that holds at any time, its
 * address. */
int memory_allocate(struct engine_device *device, uint64_t size, const char *what, cl_mem *memory,
                    uint8_t **pointer)
{
    cl_int error;
    void *shared = NULL;
    if (size > device->largest)
        return opencl_host->fail(ENGINE_ERROR_MEMORY, "%s: %llu bytes exceed the device's largest allocation",
                                 what, (unsigned long long)size);
    if (pointer) *pointer = NULL;
    if (pointer && device->listed->has_pointers)
        shared =
            cl.clSVMAlloc(device->context, CL_MEM_READ_WRITE | CL_MEM_SVM_FINE_GRAIN_BUFFER, (size_t)size, 0);
    cl_mem_flags flags = CL_MEM_READ_WRITE;
    if (shared)
        flags |= CL_MEM_USE_HOST_PTR;
    else if (device->listed->shares_memory)
        flags |= CL_MEM_ALLOC_HOST_PTR;
    *memory = cl.clCreateBuffer(device->context, flags, (size_t)size, shared, &error);
    if (error == CL_SUCCESS) {
        if (pointer) *pointer = shared;
        return ENGINE_OK;
    }
    *memory = NULL;
    if (shared) cl.clSVMFree(device->context, shared);
    return opencl_error(error, what);
}

void memory_free(struct engine_device *device, cl_mem memory, uint8_t *pointer)
{
    if (memory) cl.clReleaseMemObject(memory);
    if (pointer) cl.clSVMFree(device->context, pointer);
}

int memory_map(struct engine_device *device, cl_mem memory, uint64_t offset, uint64_t size, bool read,
               void **pointer)
{
    cl_int error;
    cl_event *event;
    cl_map_flags flags = read ? CL_MAP_READ : CL_MAP_WRITE_INVALIDATE_REGION;
    int status = command_begin(device, "map", &event);
    if (status) return status;
    *pointer = cl.clEnqueueMapBuffer(device->queue, memory, CL_TRUE, flags, (size_t)offset, (size_t)size, 0,
                                     NULL, event, &error);
    return opencl_error(error, "map");
}

int memory_unmap(struct engine_device *device, cl_mem memory, void *pointer)
{
    cl_event *event;
    int status = command_begin(device, "unmap", &event);
    if (status) return status;
    return opencl_error(cl.clEnqueueUnmapMemObject(device->queue, memory, pointer, 0, NULL, event), "unmap");
}

int memory_write(struct engine_device *device, cl_mem memory, uint64_t offset, const void *source,
                 uint64_t size)
{
    void *mapped;
    cl_event *event;
    int status;
    if (!device->listed->shares_memory) {
        status = command_begin(device, "write", &event);
        if (status) return status;
        return opencl_error(cl.clEnqueueWriteBuffer(device->queue, memory, CL_TRUE, (size_t)offset,
                                                    (size_t)size, source, 0, NULL, event),
                            "write");
    }
    status = memory_map(device, memory, offset, size, false, &mapped);
    if (status) return status;
    memcpy(mapped, source, (size_t)size);
    return memory_unmap(device, memory, mapped);
}

/* ---- Buffers ------------------------------------------------------------------------------------------- */

static int fill_with_zeros(struct engine_device *device, const struct engine_buffer *buffer)
{
    const uint32_t zero = 0;
    if (buffer->pointer) {
        memset(buffer->pointer, 0, (size_t)buffer->base.size);
        return ENGINE_OK;
    }
    size_t size = (size_t)(buffer->base.size + 3) & ~(size_t)3;
    cl_event *event;
    int status = command_begin(device, "fill", &event);
    if (status) return status;
    cl_int error =
        cl.clEnqueueFillBuffer(device->queue, buffer->memory, &zero, sizeof zero, 0, size, 0, NULL, event);
    return error ? opencl_error(error, "fill") : device_finish(device);
}

int buffer_create(struct engine_device *device, uint64_t size, struct engine_buffer **out)
{
    if (size == 0) return opencl_host->fail(ENGINE_ERROR_ARGUMENT, "the buffer size is 0");
    struct engine_buffer *buffer = calloc(1, sizeof *buffer);
    if (!buffer) return opencl_host->fail(ENGINE_ERROR_MEMORY, "out of memory (buffer)");
    buffer->base = (struct gpu_buffer){device, size};
    int status = gpu_charge(opencl_host, &device->budget, size, "buffer");
    if (status) {
        free(buffer);
        return status;
    }
    status = memory_allocate(device, size < UINT64_MAX - 3 ? (size + 3) & ~(uint64_t)3 : size, "buffer",
                             &buffer->memory, &buffer->pointer);
    if (!status) status = fill_with_zeros(device, buffer);
    if (status) {
        buffer_destroy(buffer);
        return status;
    }
    *out = buffer;
    return ENGINE_OK;
}

void buffer_destroy(struct engine_buffer *buffer)
{
    if (!buffer) return;
    struct engine_device *device = buffer->base.device;
    memory_free(device, buffer->memory, buffer->pointer);
    gpu_discharge(&device->budget, buffer->base.size);
    free(buffer);
}

void *buffer_pointer(struct engine_buffer *buffer)
{
    return buffer->pointer;
}

/* The smaller memory is freed first, so that two never exist. */
int scratch_reserve(struct engine_device *device, uint64_t size)
{
    struct scratch *scratch = &device->scratch;
    if (size <= scratch->size) return ENGINE_OK;
    int status = device_finish(device);
    if (status) return status;
    memory_free(device, scratch->memory, NULL);
    gpu_discharge(&device->budget, scratch->size);
    *scratch = (struct scratch){0};
    status = gpu_charge(opencl_host, &device->budget, size, "scratch memory");
    if (status) return status;
    status = memory_allocate(device, size, "scratch memory", &scratch->memory, NULL);
    if (status)
        gpu_discharge(&device->budget, size);
    else
        scratch->size = size;
    return status;
}

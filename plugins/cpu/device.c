/* device.c: opening the device, its memory, its buffers. */
#include <stdlib.h>
#include <string.h>

#include "common/sized.h"
#include "cpu.h"
#include "isa.h"
#include "memory.h"
#include "pool.h"
#include "system.h"
#include "types.h"

enum { MAX_THREADS = 1024 };

/* ---- Memory ---------------------------------------------------------------------------------------- */

void *device_allocate(struct engine_device *device, uint64_t size, const char *what)
{
    if (device->memory_limit &&
        (device->memory_used > device->memory_limit || size > device->memory_limit - device->memory_used)) {
        cpu_host->fail(ENGINE_ERROR_MEMORY, "%s: %llu bytes exceed what is left of the limit of %llu", what,
                       (unsigned long long)size, (unsigned long long)device->memory_limit);
        return NULL;
    }
    void *memory = memory_allocate(&device->region, size);
    if (!memory) {
        cpu_host->fail(ENGINE_ERROR_MEMORY, "%s: out of memory (%llu bytes)", what, (unsigned long long)size);
        return NULL;
    }
    device->memory_used += size;
    return memory;
}

void device_free(struct engine_device *device, void *memory, uint64_t size)
{
    if (!memory) return;
    memory_free(&device->region, memory, size);
    device->memory_used -= size;
}

int device_reserve_scratch(struct engine_device *device, size_t size)
{
    if (size <= device->scratch_size) return ENGINE_OK;
    memory_free(&device->region, device->scratch, device->scratch_size);
    device->scratch_size = 0;
    device->scratch = memory_allocate(&device->region, size);
    if (!device->scratch) return ENGINE_ERROR_MEMORY;
    device->scratch_size = size;
    return ENGINE_OK;
}

/* ---- The device ------------------------------------------------------------------------------------ */

int device_open(uint32_t index, const struct engine_device_options *options, struct engine_device **out)
{
    if (index != 0) return cpu_host->fail(ENGINE_ERROR_ARGUMENT, "there is no device %u", index);
    struct engine_device_options given = {0};
    if (options) sized_read(&given, sizeof given, options);
    unsigned n_threads = given.n_threads ? given.n_threads : system_cores();
    if (n_threads > MAX_THREADS)
        return cpu_host->fail(ENGINE_ERROR_ARGUMENT, "%u threads requested; at most %d are supported",
                              n_threads, MAX_THREADS);
    struct engine_device *device = calloc(1, sizeof *device);
    if (!device) return cpu_host->fail(ENGINE_ERROR_MEMORY, "out of memory (device)");
    device->memory_limit = given.memory_limit;
    int status = ENGINE_ERROR_ARGUMENT;
    device->kernels = isa_kernels();
    if (device->kernels) status = pool_create(n_threads, &device->pool);
    if (status) {
        free(device);
        return status;
    }
    *out = device;
    return ENGINE_OK;
}

void device_close(struct engine_device *device)
{
    if (!device) return;
    pool_destroy(device->pool);
    memory_free(&device->region, device->scratch, device->scratch_size);
    free(device);
}

/* ---- Buffers --------------------------------------------------------------------------------------- */

int buffer_create(struct engine_device *device, uint64_t size, struct engine_buffer **out)
{
    if (size == 0) return cpu_host->fail(ENGINE_ERROR_ARGUMENT, "the buffer size is 0");
    struct engine_buffer *buffer = calloc(1, sizeof *buffer);
    if (!buffer) return cpu_host->fail(ENGINE_ERROR_MEMORY, "out of memory (buffer)");
    *buffer = (struct engine_buffer){device, device_allocate(device, size, "buffer"), size};
    if (!buffer->data) {
        free(buffer);
        return ENGINE_ERROR_MEMORY;
    }
    *out = buffer;
    return ENGINE_OK;
}

void buffer_destroy(struct engine_buffer *buffer)
{
    if (!buffer) return;
    device_free(buffer->device, buffer->data, buffer->size);
    free(buffer);
}

void *buffer_pointer(struct engine_buffer *buffer)
{
    return buffer->data;
}

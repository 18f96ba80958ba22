/* idle.c: a backend plugin that has devices and does nothing, for tests of listing. Its devices are "0" (16
 * GiB, a tab in its description), "1.5", a second "0", and "x". */
#include <stdio.h>
#include <string.h>

#include "plugin-api.h"

static const struct engine_host *host;

static int device_count(uint32_t *count)
{
    if (host->setting("idle", "absent")) return host->fail(ENGINE_ERROR_NOT_FOUND, "no driver for idling");
    if (host->setting("idle", "fail")) return host->fail(ENGINE_ERROR_DEVICE, "the driver is on strike");
    *count = 4;
    return ENGINE_OK;
}

static int device_info(uint32_t index, struct engine_device_info *info)
{
    static const char *const ids[] = {"0", "1.5", "0", "x"};
    snprintf(info->id, sizeof info->id, "%s", ids[index]);
    snprintf(info->description, sizeof info->description, "Idle\tdevice");
    info->kind = ENGINE_DEVICE_GPU;
    info->memory_free = (uint64_t)12 << 30;
    info->memory_total = index == 0 ? (uint64_t)16 << 30 : 0;
    return ENGINE_OK;
}

static int no_device(uint32_t index, const struct engine_device_options *options,
                     struct engine_device **device)
{
    (void)index, (void)options, (void)device;
    return host->fail(ENGINE_ERROR_UNSUPPORTED, "can't be opened");
}

/* All that takes a device or what belongs to one: there is none. */
static void no_close(struct engine_device *device)
{
    (void)device;
}

static int no_support(struct engine_device *device, uint32_t op, const void *args)
{
    (void)device, (void)op, (void)args;
    return 0;
}

static int no_weight_size(struct engine_device *device, const struct engine_weight_desc *desc,
                          uint64_t *bytes)
{
    (void)device, (void)desc, (void)bytes;
    return ENGINE_ERROR_UNSUPPORTED;
}

static int no_buffer(struct engine_device *device, uint64_t size, struct engine_buffer **buffer)
{
    (void)device, (void)size, (void)buffer;
    return ENGINE_ERROR_UNSUPPORTED;
}

static void no_buffer_destroy(struct engine_buffer *buffer)
{
    (void)buffer;
}

static int no_weight(struct engine_device *device, const struct engine_weight_desc *desc,
                     struct engine_weight **weight)
{
    (void)device, (void)desc, (void)weight;
    return ENGINE_ERROR_UNSUPPORTED;
}

static void no_weight_destroy(struct engine_weight *weight)
{
    (void)weight;
}

static int no_stream(struct engine_device *device, struct engine_stream **stream)
{
    (void)device, (void)stream;
    return ENGINE_ERROR_UNSUPPORTED;
}

static void no_stream_destroy(struct engine_stream *stream)
{
    (void)stream;
}

static int no_enqueue(struct engine_stream *stream, uint32_t op, const void *args)
{
    (void)stream, (void)op, (void)args;
    return ENGINE_ERROR_UNSUPPORTED;
}

static int no_write(struct engine_stream *stream, struct engine_buffer *buffer, uint64_t offset,
                    const void *source, uint64_t size)
{
    (void)stream, (void)buffer, (void)offset, (void)source, (void)size;
    return ENGINE_ERROR_UNSUPPORTED;
}

static int no_read(struct engine_stream *stream, struct engine_buffer *buffer, uint64_t offset, void *target,
                   uint64_t size)
{
    (void)stream, (void)buffer, (void)offset, (void)target, (void)size;
    return ENGINE_ERROR_UNSUPPORTED;
}

static int no_copy(struct engine_stream *stream, struct engine_buffer *target, uint64_t target_offset,
                   struct engine_buffer *source, uint64_t source_offset, uint64_t size)
{
    (void)stream, (void)target, (void)target_offset, (void)source, (void)source_offset, (void)size;
    return ENGINE_ERROR_UNSUPPORTED;
}

static int no_wait(struct engine_stream *stream)
{
    (void)stream;
    return ENGINE_ERROR_UNSUPPORTED;
}

static const struct engine_backend backend = {
    .struct_size = sizeof backend,
    .device_count = device_count,
    .device_info = device_info,
    .device_open = no_device,
    .device_close = no_close,
    .supports = no_support,
    .weight_size = no_weight_size,
    .buffer_create = no_buffer,
    .buffer_destroy = no_buffer_destroy,
    .weight_create = no_weight,
    .weight_destroy = no_weight_destroy,
    .stream_create = no_stream,
    .stream_destroy = no_stream_destroy,
    .enqueue = no_enqueue,
    .write = no_write,
    .read = no_read,
    .copy = no_copy,
    .stream_flush = no_wait,
    .stream_wait = no_wait,
};

static const struct engine_plugin plugin = {
    .struct_size = sizeof plugin,
    .abi_major = ENGINE_ABI_MAJOR,
    .abi_minor = ENGINE_ABI_MINOR,
    .kind = ENGINE_PLUGIN_BACKEND,
    .name = "idle",
    .version = "0.9",
    .license = "MIT",
    .description = "Devices that do nothing, for tests",
    .backend = &backend,
};

const struct engine_plugin *engine_plugin_entry(const struct engine_host *services)
{
    host = services;
    return &plugin;
}

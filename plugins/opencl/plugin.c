/* plugin.c: the entry point, and the names of devices. */
#include <stdio.h>
#include <string.h>

#include "common/sized.h"
#include "device.h"

const struct engine_host *opencl_host;

static int device_count(uint32_t *count)
{
    const struct listed_device *devices;
    uint32_t listed = 0;
    int status = list_devices(&devices, &listed);
    if (status) return status;
    if (listed == 0) return fail_without_devices();
    *count = listed;
    return ENGINE_OK;
}

static uint32_t kind_of(const struct listed_device *device)
{
    if (device->type & CL_DEVICE_TYPE_CPU) return ENGINE_DEVICE_CPU;
    if (device->type & CL_DEVICE_TYPE_GPU)
        return device->shares_memory ? ENGINE_DEVICE_INTEGRATED_GPU : ENGINE_DEVICE_GPU;
    return ENGINE_DEVICE_ACCELERATOR;
}

static int device_info(uint32_t index, struct engine_device_info *info)
{
    const struct listed_device *devices;
    uint32_t count;
    int status = list_devices(&devices, &count);
    if (status) return status;
    if (index >= count) return opencl_host->fail(ENGINE_ERROR_ARGUMENT, "there is no device %u", index);
    const struct listed_device *device = &devices[index];
    struct engine_device_info answer = {
        .kind = kind_of(device), .max_buffer = device->max_allocation, .alignment = 256};
    memcpy(answer.id, device->id, sizeof answer.id);
    memcpy(answer.pci_address, device->pci_address, sizeof answer.pci_address);
    memcpy(answer.uuid, device->uuid, sizeof answer.uuid);
    snprintf(answer.description, sizeof answer.description, "%.64s, %.10s, %.40s", device->name,
             device->version, device->driver);
    listed_memory(device, &answer.memory_free, &answer.memory_total);
    sized_write(info, &answer, sizeof answer);
    return ENGINE_OK;
}

static const struct engine_backend backend = {
    .struct_size = sizeof backend,
    .device_count = device_count,
    .device_info = device_info,
    .device_open = device_open,
    .device_close = device_close,
    .supports = op_supports,
    .weight_size = weight_size,
    .buffer_create = buffer_create,
    .buffer_destroy = buffer_destroy,
    .buffer_pointer = buffer_pointer,
    .weight_create = weight_create,
    .weight_destroy = weight_destroy,
    .stream_create = stream_create,
    .stream_destroy = stream_destroy,
    .enqueue = stream_enqueue,
    .write = stream_write,
    .read = stream_read,
    .copy = stream_copy,
    .stream_flush = stream_flush,
    .stream_wait = stream_wait,
    .record_begin = stream_record_begin,
    .record_end = stream_record_end,
    .replay = stream_replay,
    .recording_destroy = recording_destroy,
    .op_memory = op_memory,
    .stream_done = stream_done,
    .copy_between = stream_copy_between,
};

static const struct engine_plugin plugin = {
    .struct_size = sizeof plugin,
    .abi_major = ENGINE_ABI_MAJOR,
    .abi_minor = ENGINE_ABI_MINOR,
    .kind = ENGINE_PLUGIN_BACKEND,
    .name = "opencl",
    .version = "0.1.0",
    .license = "MIT",
    .description = "Runs on any device with a driver for OpenCL 1.2 or later",
    .backend = &backend,
};

const struct engine_plugin *engine_plugin_entry(const struct engine_host *host)
{
    /* Read here as well, so that the engine can tell at once which ones are misspelt. */
    static const char *const settings[] = {"kernels", "integers"};
    opencl_host = host;
    for (size_t i = 0; i < sizeof settings / sizeof *settings; i++) host->setting(plugin.name, settings[i]);
    return &plugin;
}

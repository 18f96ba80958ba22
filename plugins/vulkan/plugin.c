/* plugin.c: the entry point, and the names of devices. */
#include <stdio.h>
#include <string.h>

#include "common/sized.h"
#include "device.h"

#define RANK 1 /* before OpenCL, whose kernels for GPUs do less */

const struct engine_host *vulkan_host;

static int device_count(uint32_t *count)
{
    const struct physical_device *devices;
    uint32_t found = 0;
    int status = instance_devices(&devices, &found);
    if (status) return status;
    if (found == 0)
        return vulkan_host->fail(ENGINE_ERROR_NOT_FOUND,
                                 "there is no device with a Vulkan 1.1 driver; on Debian, install "
                                 "mesa-vulkan-drivers or your GPU vendor's driver");
    *count = found;
    return ENGINE_OK;
}

static uint32_t kind_of(const struct physical_device *device)
{
    switch (device->properties.deviceType) {
    case VK_PHYSICAL_DEVICE_TYPE_CPU: return ENGINE_DEVICE_CPU;
    case VK_PHYSICAL_DEVICE_TYPE_DISCRETE_GPU:
    case VK_PHYSICAL_DEVICE_TYPE_VIRTUAL_GPU: return ENGINE_DEVICE_GPU;
    case VK_PHYSICAL_DEVICE_TYPE_INTEGRATED_GPU: return ENGINE_DEVICE_INTEGRATED_GPU;
    default: return ENGINE_DEVICE_ACCELERATOR;
    }
}

static int device_info(uint32_t index, struct engine_device_info *info)
{
    const struct physical_device *devices;
    uint32_t count;
    int status = instance_devices(&devices, &count);
    if (!status) status = validation_status();
    if (status) return status;
    if (index >= count) return vulkan_host->fail(ENGINE_ERROR_ARGUMENT, "there is no device %u", index);
    const struct physical_device *device = &devices[index];
    struct engine_device_info found = {.kind = kind_of(device), .alignment = 256};
    uint32_t version = device->properties.apiVersion;
    snprintf(found.id, sizeof found.id, "%u", index);
    snprintf(found.description, sizeof found.description, "%.80s, Vulkan %u.%u%s%.24s",
             device->properties.deviceName, VK_API_VERSION_MAJOR(version), VK_API_VERSION_MINOR(version),
             device->driver[0] ? ", " : "", device->driver);
    physical_memory(device, &found.memory_free, &found.memory_total);
    found.max_buffer = device->max_buffer;
    found.rank = RANK;
    memcpy(found.pci_address, device->pci_address, sizeof found.pci_address);
    memcpy(found.uuid, device->uuid, sizeof found.uuid);
    sized_write(info, &found, sizeof found);
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
    .name = "vulkan",
    .version = "0.1.0",
    .license = "MIT",
    .description = "Runs on GPUs and any other device with a driver for Vulkan 1.1 or later",
    .backend = &backend,
};

const struct engine_plugin *engine_plugin_entry(const struct engine_host *host)
{
    /* Read here as well, so that the engine can tell at once which ones are misspelt. */
    static const char *const settings[] = {"matmul", "few_columns", "subgroups", "submission", "validation"};
    vulkan_host = host;
    for (size_t i = 0; i < sizeof settings / sizeof *settings; i++) host->setting(plugin.name, settings[i]);
    return &plugin;
}

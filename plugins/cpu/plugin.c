/* plugin.c: the entry point, and the only device: the processor. */
#include <stdio.h>
#include <string.h>

#include "common/sized.h"
#include "cpu.h"
#include "isa.h"
#include "system.h"

const struct engine_host *cpu_host;

static int device_count(uint32_t *count)
{
    *count = 1;
    return ENGINE_OK;
}

static int device_info(uint32_t index, struct engine_device_info *info)
{
    if (index != 0) return cpu_host->fail(ENGINE_ERROR_ARGUMENT, "there is no device %u", index);
    const struct kernels *kernels = isa_kernels();
    if (!kernels) return ENGINE_ERROR_ARGUMENT;
    unsigned cores = system_cores();
    struct engine_device_info found = {.kind = ENGINE_DEVICE_CPU,
                                       .alignment = CPU_ALIGNMENT,
                                       .n_threads = cores,
                                       .flags = ENGINE_DEVICE_BATCH_INVARIANT};
    char name[80];
    system_processor_name(name, sizeof name);
    snprintf(found.description, sizeof found.description, "%s, %s, %u thread%s", name, kernels->name, cores,
             cores == 1 ? "" : "s");
    system_memory(&found.memory_free, &found.memory_total);
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
    .stream_done = stream_done,
    .copy_between = stream_copy_between,
    .stream_wait = stream_wait,
    .record_begin = stream_record_begin,
    .record_end = stream_record_end,
    .replay = stream_replay,
    .recording_destroy = recording_destroy,
};

static const struct engine_plugin plugin = {
    .struct_size = sizeof plugin,
    .abi_major = ENGINE_ABI_MAJOR,
    .abi_minor = ENGINE_ABI_MINOR,
    .kind = ENGINE_PLUGIN_BACKEND,
    .name = "cpu",
    .version = "0.1.0",
    .license = "MIT",
    .description = "Runs on the CPU, with its vector instructions and all its cores",
    .backend = &backend,
};

const struct engine_plugin *engine_plugin_entry(const struct engine_host *host)
{
    cpu_host = host;
    host->setting(plugin.name, "integers"); /* so that the engine can tell at once which ones are misspelt */
    return &plugin;
}

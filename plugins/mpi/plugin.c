/* plugin.c: the entry point. */
#include "remote.h"

const struct engine_host *mpi_host;

static const struct engine_backend backend = {
    .struct_size = sizeof backend,
    .device_count = device_count,
    .device_info = device_info,
    .device_open = device_open,
    .device_close = device_close,
    .supports = device_supports,
    .weight_size = device_weight_size,
    .buffer_create = buffer_create,
    .buffer_destroy = buffer_destroy,
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
    .op_memory = device_op_memory,
    .serve = serve,
    .traffic = device_traffic,
    .stream_done = stream_done,
    .copy_between = stream_pass,
    .stream_mark = stream_mark,
    .stream_wait_for = stream_wait_for,
};

static const struct engine_plugin plugin = {
    .struct_size = sizeof plugin,
    .abi_major = ENGINE_ABI_MAJOR,
    .abi_minor = ENGINE_ABI_MINOR,
    .kind = ENGINE_PLUGIN_BACKEND,
    .name = "mpi",
    .version = MPI_PLUGIN_VERSION,
    .license = "MIT",
    .description = "Runs on the devices of other machines, through MPI",
    .backend = &backend,
};

const struct engine_plugin *engine_plugin_entry(const struct engine_host *host)
{
    mpi_host = host;
    host->setting(plugin.name, "timeout"); /* so that the engine can tell which settings are misspelt */
    return &plugin;
}

/* copies.c: measures the cost of copies on a backend's device: writing bytes to it and reading them back,
 * with a wait after each, and copying within its memory. Used for docs/performance.md and by tools/gpu/check:
 *
 *   cc -O2 -I. -o /tmp/copies tools/bench/copies.c -ldl && /tmp/copies build/lib/engine/plugins/vulkan.so
 *   8192 */
#include <dlfcn.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "plugin-api.h"

static int fail(int status, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    vfprintf(stderr, format, arguments);
    va_end(arguments);
    fputc('\n', stderr);
    return status;
}

static void no_log(enum engine_log_level level, const char *format, ...)
{
    (void)level, (void)format;
}

static const char *no_setting(const char *plugin, const char *key)
{
    (void)plugin, (void)key;
    return NULL;
}

static const char *no_folder(void)
{
    return NULL;
}

static double seconds(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

/* Seconds that one run of a transfer takes: the mean of as many as fill a quarter of a second. */
struct transfer {
    const struct engine_backend *api;
    struct engine_stream *stream;
    struct engine_buffer *buffer, *other;
    void *bytes;
    uint64_t size;
};

static int write_once(struct transfer *t)
{
    int status = t->api->write(t->stream, t->buffer, 0, t->bytes, t->size);
    return status ? status : t->api->stream_wait(t->stream);
}

static int read_once(struct transfer *t)
{
    int status = t->api->read(t->stream, t->buffer, 0, t->bytes, t->size);
    return status ? status : t->api->stream_wait(t->stream);
}

/* Waited for once in eight: what the memory does, not what a submission costs. */
static int copy_eight_times(struct transfer *t)
{
    int status = ENGINE_OK;
    for (int i = 0; i < 8 && !status; i++)
        status = t->api->copy(t->stream, t->other, 0, t->buffer, 0, t->size);
    return status ? status : t->api->stream_wait(t->stream);
}

static int measure(struct transfer *t, int (*run)(struct transfer *), double *taken)
{
    int status = run(t), times = 0;
    double start = seconds(), now = start;
    for (; !status && (now - start < 0.25 || times < 3); times++, now = seconds()) status = run(t);
    *taken = (now - start) / times;
    return status;
}

int main(int count, char **arguments)
{
    static const struct engine_host host = {sizeof host, ENGINE_ABI_MAJOR, ENGINE_ABI_MINOR, fail,
                                            no_log,      no_setting,       no_folder};
    if (count != 3 && count != 4) return fail(2, "usage: copies PLUGIN.so BYTES [DEVICE]");
    void *library = dlopen(arguments[1], RTLD_NOW);
    if (!library) return fail(1, "%s", dlerror());
    const struct engine_plugin *(*entry)(const struct engine_host *);
    *(void **)&entry = dlsym(library, ENGINE_ENTRY_SYMBOL);
    const struct engine_plugin *plugin = entry ? entry(&host) : NULL;
    struct transfer t = {.size = strtoull(arguments[2], NULL, 10)};
    uint32_t n_devices = 0, index = count == 4 ? (uint32_t)strtoul(arguments[3], NULL, 10) : 0;
    struct engine_device *device;
    t.bytes = calloc(1, t.size);
    if (!plugin || !t.bytes) return 1;
    t.api = plugin->backend;
    if (t.api->device_count(&n_devices) || index >= n_devices) return fail(1, "no such device");
    if (t.api->device_open(index, NULL, &device) || t.api->stream_create(device, &t.stream) ||
        t.api->buffer_create(device, t.size, &t.buffer) || t.api->buffer_create(device, t.size, &t.other))
        return 1;
    double written, read, copied;
    if (measure(&t, write_once, &written) || measure(&t, read_once, &read) ||
        measure(&t, copy_eight_times, &copied))
        return 1;
    double size = (double)t.size;
    printf("%.0f bytes: written in %.1f us (%.4g B/s), read in %.1f us (%.4g B/s), copied within the device "
           "in %.1f us "
           "(%.4g B/s, read and written)\n",
           size, 1e6 * written, size / written, 1e6 * read, size / read, 1e6 * copied / 8,
           16 * size / copied);
    t.api->buffer_destroy(t.other);
    t.api->buffer_destroy(t.buffer);
    t.api->stream_destroy(t.stream);
    t.api->device_close(device);
    free(t.bytes);
    return 0;
}

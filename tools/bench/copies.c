/* copies.c: what a copy across the border of a backend's device costs: bytes written to it, and read back from it, waited
 * for each time. For docs/performance.md:
 *
 *   cc -O2 -I. -o /tmp/copies tools/bench/copies.c -ldl && /tmp/copies build/lib/engine/plugins/vulkan.so 8192 */
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

int main(int count, char **arguments)
{
    static const struct engine_host host = {sizeof host, ENGINE_ABI_MAJOR, ENGINE_ABI_MINOR, fail,
                                            no_log,      no_setting,       no_folder};
    if (count != 3) return fail(2, "usage: copies PLUGIN.so BYTES");
    void *library = dlopen(arguments[1], RTLD_NOW);
    if (!library) return fail(1, "%s", dlerror());
    const struct engine_plugin *(*entry)(const struct engine_host *);
    *(void **)&entry = dlsym(library, ENGINE_ENTRY_SYMBOL);
    const struct engine_plugin *plugin = entry ? entry(&host) : NULL;
    uint64_t size = strtoull(arguments[2], NULL, 10);
    struct engine_device *device;
    struct engine_stream *stream;
    struct engine_buffer *buffer;
    uint32_t n_devices = 0;
    void *bytes = calloc(1, size);
    if (!plugin || !bytes) return 1;
    const struct engine_backend *api = plugin->backend;
    if (api->device_count(&n_devices) || n_devices == 0) return fail(1, "no device");
    if (api->device_open(0, NULL, &device) || api->stream_create(device, &stream) ||
        api->buffer_create(device, size, &buffer))
        return 1;
    enum { TIMES = 2000 };
    double start = seconds();
    for (int i = 0; i < TIMES; i++)
        if (api->write(stream, buffer, 0, bytes, size) || api->stream_wait(stream)) return 1;
    double written = seconds();
    for (int i = 0; i < TIMES; i++)
        if (api->read(stream, buffer, 0, bytes, size) || api->stream_wait(stream)) return 1;
    double read = seconds();
    printf("%llu bytes: written in %.1f us, read in %.1f us\n", (unsigned long long)size,
           1e6 * (written - start) / TIMES, 1e6 * (read - written) / TIMES);
    api->buffer_destroy(buffer);
    api->stream_destroy(stream);
    api->device_close(device);
    free(bytes);
    return 0;
}

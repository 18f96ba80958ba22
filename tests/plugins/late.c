/* late.c: the backend `late`: two devices, each of which is the CPU plugin's, but as far away as another
 * process: the host sees none of their memory, and what it reads comes when it waits for it, a part of a
 * stream before the rest. With it, tests compute several steps at once without a cluster. LATE_CPU: the path
 * of the CPU plugin.
 *
 * Settings: fail = N: waiting for the Nth mark fails; full = waits, marks: memory runs out in each wait for a
 * mark, or in setting one. */
#include <dlfcn.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "plugin-api.h"

/* What was read, until the host waits for it. */
struct late_read {
    struct late_read *next;
    void *target;
    uint64_t size, mark;
    uint8_t bytes[];
};

struct late_stream {
    struct engine_stream *stream; /* of the CPU plugin */
    uint64_t n_marks, n_waited;
    struct late_read *first, **last;
};

static const struct engine_host *host;
static const struct engine_backend *cpu;
static struct engine_backend backend;
static atomic_long n_waits;

/* Which of the two a device is: devices are the CPU plugin's. */
enum { MOST_OPEN = 16 };
static struct {
    const struct engine_device *device;
    uint32_t index;
} opened[MOST_OPEN];

/* The most marks that a stream had at once, and how many there were in all: for tests. */
__attribute__((visibility("default"))) atomic_ulong late_most, late_all;

static struct late_stream *late_of(struct engine_stream *stream)
{
    return (struct late_stream *)(void *)stream;
}

static struct engine_stream *cpu_of(struct engine_stream *stream)
{
    return late_of(stream)->stream;
}

static int device_count(uint32_t *count)
{
    *count = 2;
    return ENGINE_OK;
}

static int device_info(uint32_t index, struct engine_device_info *info)
{
    int status = cpu->device_info(0, info);
    snprintf(info->id, sizeof info->id, "%u", index);
    info->link_latency = 1000;
    info->link_bandwidth = 1000000000;
    return status;
}

static int device_open(uint32_t index, const struct engine_device_options *options,
                       struct engine_device **device)
{
    int status = cpu->device_open(0, options, device);
    for (int i = 0; i < MOST_OPEN && !status; i++) {
        if (opened[i].device) continue;
        opened[i].device = *device;
        opened[i].index = index;
        return ENGINE_OK;
    }
    return status ? status : host->fail(ENGINE_ERROR_DEVICE, "too many are open");
}

static void device_close(struct engine_device *device)
{
    for (int i = 0; i < MOST_OPEN; i++)
        if (opened[i].device == device) opened[i].device = NULL;
    cpu->device_close(device);
}

/* Each is in a process of its own. */
static int device_traffic(struct engine_device *device, struct engine_traffic *traffic)
{
    for (uint32_t i = 0; i < MOST_OPEN; i++)
        if (opened[i].device == device) traffic->peer = 1 + opened[i].index;
    return ENGINE_OK;
}

static int stream_create(struct engine_device *device, struct engine_stream **stream)
{
    struct late_stream *made = calloc(1, sizeof *made);
    if (!made) return host->fail(ENGINE_ERROR_MEMORY, "out of memory");
    int status = cpu->stream_create(device, &made->stream);
    made->last = &made->first;
    if (status)
        free(made);
    else
        *stream = (struct engine_stream *)(void *)made;
    return status;
}

static int enqueue(struct engine_stream *stream, uint32_t op, const void *args)
{
    return cpu->enqueue(cpu_of(stream), op, args);
}

static int write_buffer(struct engine_stream *stream, struct engine_buffer *buffer, uint64_t offset,
                        const void *source, uint64_t size)
{
    return cpu->write(cpu_of(stream), buffer, offset, source, size);
}

static int read_buffer(struct engine_stream *stream, struct engine_buffer *buffer, uint64_t offset,
                       void *target, uint64_t size)
{
    struct late_stream *late = late_of(stream);
    struct late_read *read = malloc(sizeof *read + size);
    if (!read) return host->fail(ENGINE_ERROR_MEMORY, "out of memory");
    *read = (struct late_read){.target = target, .size = size, .mark = late->n_marks + 1};
    int status = cpu->read(late->stream, buffer, offset, read->bytes, size);
    if (status) {
        free(read);
        return status;
    }
    *late->last = read;
    late->last = &read->next;
    return ENGINE_OK;
}

static int copy_buffer(struct engine_stream *stream, struct engine_buffer *target, uint64_t target_offset,
                       struct engine_buffer *source, uint64_t source_offset, uint64_t size)
{
    return cpu->copy(cpu_of(stream), target, target_offset, source, source_offset, size);
}

static int copy_between(struct engine_stream *source, struct engine_buffer *from, uint64_t from_offset,
                        struct engine_stream *target, struct engine_buffer *to, uint64_t to_offset,
                        uint64_t size)
{
    return cpu->copy_between(cpu_of(source), from, from_offset, cpu_of(target), to, to_offset, size);
}

static int stream_flush(struct engine_stream *stream)
{
    return cpu->stream_flush(cpu_of(stream));
}

static int expect_room(const char *what)
{
    const char *full = host->setting("late", "full");
    return full && strcmp(full, what) == 0 ? host->fail(ENGINE_ERROR_MEMORY, "late is full") : ENGINE_OK;
}

static int stream_mark(struct engine_stream *stream, uint64_t *mark)
{
    struct late_stream *late = late_of(stream);
    int status = expect_room("marks");
    if (status) return status;
    *mark = ++late->n_marks;
    atomic_fetch_add(&late_all, 1);
    if (late->n_marks - late->n_waited > atomic_load(&late_most))
        atomic_store(&late_most, late->n_marks - late->n_waited);
    return cpu->stream_flush(late->stream);
}

/* Transfers to the host before a mark. */
static void give(struct late_stream *late, uint64_t mark)
{
    while (late->first && late->first->mark <= mark) {
        struct late_read *read = late->first;
        memcpy(read->target, read->bytes, read->size);
        late->first = read->next;
        if (!late->first) late->last = &late->first;
        free(read);
    }
}

static int stream_wait_for(struct engine_stream *stream, uint64_t mark)
{
    struct late_stream *late = late_of(stream);
    const char *fail = host->setting("late", "fail");
    if (late->n_waited < mark) late->n_waited = mark;
    give(late, mark);
    if (fail && atomic_fetch_add(&n_waits, 1) + 1 == strtol(fail, NULL, 10))
        return host->fail(ENGINE_ERROR_DEVICE, "late is too late");
    int status = expect_room("waits");
    return status ? status : cpu->stream_wait(late->stream);
}

static int stream_wait(struct engine_stream *stream)
{
    struct late_stream *late = late_of(stream);
    give(late, UINT64_MAX);
    late->n_waited = late->n_marks;
    return cpu->stream_wait(late->stream);
}

static void stream_destroy(struct engine_stream *stream)
{
    if (!stream) return;
    stream_wait(stream);
    cpu->stream_destroy(cpu_of(stream));
    free(late_of(stream));
}

static int record_begin(struct engine_stream *stream)
{
    return cpu->record_begin(cpu_of(stream));
}

static int record_end(struct engine_stream *stream, struct engine_recording **recording)
{
    return cpu->record_end(cpu_of(stream), recording);
}

static int replay(struct engine_stream *stream, struct engine_recording *recording)
{
    return cpu->replay(cpu_of(stream), recording);
}

static const struct engine_plugin plugin = {
    .struct_size = sizeof plugin,
    .abi_major = ENGINE_ABI_MAJOR,
    .abi_minor = ENGINE_ABI_MINOR,
    .kind = ENGINE_PLUGIN_BACKEND,
    .name = "late",
    .version = "1.0",
    .license = "MIT",
    .description = "Test: the CPU twice, from far away",
    .backend = &backend,
};

/* The CPU plugin stays loaded, as its devices may outlive this one's. */
const struct engine_plugin *engine_plugin_entry(const struct engine_host *given)
{
    void *library = dlopen(LATE_CPU, RTLD_NOW | RTLD_LOCAL);
    void *symbol = library ? dlsym(library, "engine_plugin_entry") : NULL;
    const struct engine_plugin *(*entry)(const struct engine_host *given);
    host = given;
    if (!symbol) return NULL;
    memcpy(&entry, &symbol, sizeof entry);
    cpu = entry(given)->backend;
    backend = *cpu;
    backend.struct_size = sizeof backend;
    backend.device_count = device_count;
    backend.device_info = device_info;
    backend.device_open = device_open;
    backend.device_close = device_close;
    backend.traffic = device_traffic;
    backend.buffer_pointer = NULL;
    backend.stream_create = stream_create;
    backend.stream_destroy = stream_destroy;
    backend.enqueue = enqueue;
    backend.write = write_buffer;
    backend.read = read_buffer;
    backend.copy = copy_buffer;
    backend.copy_between = copy_between;
    backend.stream_flush = stream_flush;
    backend.stream_wait = stream_wait;
    backend.stream_done = NULL;
    backend.record_begin = record_begin;
    backend.record_end = record_end;
    backend.replay = replay;
    backend.stream_mark = stream_mark;
    backend.stream_wait_for = stream_wait_for;
    return &plugin;
}

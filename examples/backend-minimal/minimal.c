/* minimal.c: a compute backend in one file. It computes matrix products only, with weights of every type,
 * which it keeps as float32; the engine runs all other operations on the CPU, with copies in between.
 * Commands run as soon as they are enqueued. MIT licence. */
#include <plugin-api.h>
#include <plugin-types.h>
#include <stdlib.h>
#include <string.h>
/* clang-format off */
static const struct engine_host *host;
#define FAIL(status, ...) host->fail(ENGINE_ERROR_##status, __VA_ARGS__)

struct engine_device { uint64_t used, limit; }; /* bytes */
/* Also the contents of a struct engine_weight: its values as float32, row by row. */
struct engine_buffer { struct engine_device *device; uint64_t size; char *data; };

static int device_count(uint32_t *count) { *count = 1; return ENGINE_OK; }
static int device_info(uint32_t index, struct engine_device_info *info)
{
    struct engine_device_info found = {
        .struct_size = info->struct_size, .id = "0", .description = "plain C loops", .kind = ENGINE_DEVICE_ACCELERATOR,
        .memory_free = (uint64_t)1 << 30, .memory_total = (uint64_t)1 << 30, .alignment = 64};
    if (index != 0) return FAIL(ARGUMENT, "there is no device %u", index);
    memcpy(info, &found, info->struct_size < sizeof found ? info->struct_size : sizeof found);
    return ENGINE_OK;
}
static int device_open(uint32_t index, const struct engine_device_options *options, struct engine_device **device)
{
    struct engine_device *made = calloc(1, sizeof *made);
    if (index != 0 || !made) return free(made), FAIL(ARGUMENT, "there is no device %u, or no memory", index);
    made->limit = (uint64_t)1 << 30;
    if (options && ENGINE_HAS(options, memory_limit) && options->memory_limit) made->limit = options->memory_limit;
    *device = made;
    return ENGINE_OK;
}
static void device_close(struct engine_device *device) { free(device); }

static int buffer_create(struct engine_device *device, uint64_t size, struct engine_buffer **buffer)
{
    if (size > device->limit - device->used) return FAIL(MEMORY, "%llu bytes exceed the limit", (unsigned long long)size);
    struct engine_buffer *made = calloc(1, sizeof *made);
    char *data = calloc(1, size);
    if (!made || !data) return free(made), free(data), FAIL(MEMORY, "out of memory");
    *made = (struct engine_buffer){device, size, data};
    device->used += size;
    *buffer = made;
    return ENGINE_OK;
}
static void buffer_destroy(struct engine_buffer *buffer)
{
    if (buffer) buffer->device->used -= buffer->size, free(buffer->data);
    free(buffer);
}

static int weight_size(struct engine_device *device, const struct engine_weight_desc *desc, uint64_t *bytes)
{
    const struct engine_layout *layout = engine_layout_of(desc->type); (void)device;
    const uint64_t *ne = desc->ne;
    if (!layout || ne[0] % layout->length || desc->uses != ENGINE_WEIGHT_MATMUL || ne[0] >> 30 || ne[1] >> 30 || ne[2] != 1 || ne[3] != 1)
        return ENGINE_ERROR_UNSUPPORTED;
    *bytes = ne[0] * ne[1] * 4;
    return ENGINE_OK;
}
static int weight_create(struct engine_device *device, const struct engine_weight_desc *desc,
                         struct engine_weight **weight)
{
    struct engine_buffer *made; uint64_t size;
    if (weight_size(device, desc, &size)) return FAIL(UNSUPPORTED, "%s: unsupported weight", desc->name);
    const struct engine_layout *layout = engine_layout_of(desc->type);
    if (desc->data_size < engine_weight_bytes(layout, size / 4)) return FAIL(ARGUMENT, "%s: data is missing", desc->name);
    int status = buffer_create(device, size, &made);
    if (status != ENGINE_OK) return status;
    engine_weight_to_float(layout, desc->data, size / 4, (float *)(void *)made->data);
    *weight = (struct engine_weight *)made;
    return ENGINE_OK;
}
static void weight_destroy(struct engine_weight *weight) { buffer_destroy((struct engine_buffer *)weight); }

static int supports(struct engine_device *device, uint32_t op, const void *args)
{
    const struct engine_op_matmul *m = args; (void)device;
    if (op != ENGINE_OP_MATMUL || m->gate || m->bias || m->residual || m->activation || m->scale != 0) return 0;
    for (size_t i = sizeof *m; i < m->struct_size; i++) /* fields of a later version */
        if (((const char *)args)[i]) return 0;
    const struct engine_tensor *w = m->weight, *x = m->input, *y = m->output;
    return w && x && y && engine_layout_of(w->type) && x->type == ENGINE_TYPE_F32 &&
           y->type == ENGINE_TYPE_F32 && x->ne[0] == w->ne[0] && y->ne[0] == w->ne[1] && y->ne[1] == x->ne[1] &&
           x->nb[0] == 4 && y->nb[0] == 4 && w->ne[2] * w->ne[3] * x->ne[2] * x->ne[3] * y->ne[2] * y->ne[3] == 1;
}
static int enqueue(struct engine_stream *stream, uint32_t op, const void *args)
{
    const struct engine_op_matmul *m = args;
    if (!supports((struct engine_device *)stream, op, args)) return FAIL(UNSUPPORTED, "not supported");
    const struct engine_tensor *w = m->weight, *in = m->input, *out = m->output;
    for (uint64_t t = 0; t < in->ne[1]; t++) {
        const float *x = (const float *)(const void *)(in->buffer->data + in->offset + t * in->nb[1]);
        float *y = (float *)(void *)(out->buffer->data + out->offset + t * out->nb[1]);
        const float *row = (const float *)(const void *)((const struct engine_buffer *)w->weight)->data;
        for (uint64_t r = 0; r < w->ne[1]; r++, row += w->ne[0]) {
            double sum = 0;
            for (uint64_t i = 0; i < w->ne[0]; i++) sum += (double)row[i] * (double)x[i];
            y[r] = (float)sum;
        }
    }
    return ENGINE_OK;
}

static int stream_create(struct engine_device *device, struct engine_stream **stream)
{
    *stream = (struct engine_stream *)device; /* a stream has nothing of its own */
    return ENGINE_OK;
}
static void stream_destroy(struct engine_stream *stream) { (void)stream; }
static int stream_end(struct engine_stream *stream) { (void)stream; return ENGINE_OK; }

static int transfer(struct engine_buffer *buffer, uint64_t offset, void *target, const void *source, uint64_t size)
{
    if (offset > buffer->size || size > buffer->size - offset) return FAIL(ARGUMENT, "beyond the end of the buffer");
    memmove(target ? target : buffer->data + offset, source ? source : buffer->data + offset, size);
    return ENGINE_OK;
}
static int write_buffer(struct engine_stream *stream, struct engine_buffer *to, uint64_t offset, const void *source,
                        uint64_t size) { (void)stream; return transfer(to, offset, NULL, source, size); }
static int read_buffer(struct engine_stream *stream, struct engine_buffer *from, uint64_t offset, void *target,
                       uint64_t size) { (void)stream; return transfer(from, offset, target, NULL, size); }
static int copy_buffer(struct engine_stream *stream, struct engine_buffer *to, uint64_t to_offset,
                       struct engine_buffer *from, uint64_t from_offset, uint64_t size)
{
    int status = transfer(to, to_offset, NULL, NULL, size); (void)stream; /* whether it reaches that far */
    return status ? status : transfer(from, from_offset, to->data + to_offset, NULL, size);
}

static const struct engine_backend backend = {
    .struct_size = sizeof backend, .device_count = device_count, .device_info = device_info,
    .device_open = device_open, .device_close = device_close, .supports = supports, .weight_size = weight_size,
    .buffer_create = buffer_create, .buffer_destroy = buffer_destroy, .weight_create = weight_create,
    .weight_destroy = weight_destroy, .stream_create = stream_create, .stream_destroy = stream_destroy,
    .enqueue = enqueue, .write = write_buffer, .read = read_buffer, .copy = copy_buffer, .stream_flush = stream_end,
    .stream_wait = stream_end};
static const struct engine_plugin plugin = {
    sizeof plugin, ENGINE_ABI_MAJOR, ENGINE_ABI_MINOR, ENGINE_PLUGIN_BACKEND, "minimal", "1.0", "MIT",
    "matrix products in plain C loops", &backend, NULL};
const struct engine_plugin *engine_plugin_entry(const struct engine_host *services) { host = services; return &plugin; }

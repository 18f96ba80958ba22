// backend.cpp: a backend in C++, matrix products in F32 alone, to see that plugins written in C++ load and
// conform.
#include <plugin-api.h>

#include <cstdlib>
#include <cstring>
#include <new>

struct engine_device {
    uint64_t used, limit;
};

struct engine_buffer {
    engine_device *device;
    uint64_t size;
    char *data;
};

struct engine_weight {
    engine_buffer *values;
};

struct engine_stream {
    engine_device *device;
};

namespace
{

const engine_host *host;

int device_count(uint32_t *count)
{
    *count = 1;
    return ENGINE_OK;
}

int device_info(uint32_t index, engine_device_info *info)
{
    if (index != 0) return host->fail(ENGINE_ERROR_ARGUMENT, "there is no device %u", index);
    engine_device_info found{};
    found.struct_size = info->struct_size;
    std::strcpy(found.id, "0");
    std::strcpy(found.description, "loops in C++");
    found.kind = ENGINE_DEVICE_ACCELERATOR;
    found.memory_free = found.memory_total = uint64_t(1) << 30;
    std::memcpy(info, &found, info->struct_size < sizeof found ? info->struct_size : sizeof found);
    return ENGINE_OK;
}

int device_open(uint32_t index, const engine_device_options *options, engine_device **device)
{
    if (index != 0) return host->fail(ENGINE_ERROR_ARGUMENT, "there is no device %u", index);
    uint64_t limit = options && ENGINE_HAS(options, memory_limit) ? options->memory_limit : 0;
    auto *made = new (std::nothrow) engine_device{0, limit ? limit : uint64_t(1) << 30};
    if (!made) return host->fail(ENGINE_ERROR_MEMORY, "out of memory");
    *device = made;
    return ENGINE_OK;
}

void device_close(engine_device *device)
{
    delete device;
}

int buffer_create(engine_device *device, uint64_t size, engine_buffer **buffer)
{
    if (size > device->limit - device->used) return host->fail(ENGINE_ERROR_MEMORY, "more than the limit");
    auto *data = static_cast<char *>(std::calloc(1, size));
    auto *made = new (std::nothrow) engine_buffer{device, size, data};
    if (!made || !data) {
        delete made;
        std::free(data);
        return host->fail(ENGINE_ERROR_MEMORY, "out of memory");
    }
    device->used += size;
    *buffer = made;
    return ENGINE_OK;
}

void buffer_destroy(engine_buffer *buffer)
{
    if (!buffer) return;
    buffer->device->used -= buffer->size;
    std::free(buffer->data);
    delete buffer;
}

int weight_size(engine_device *, const engine_weight_desc *desc, uint64_t *bytes)
{
    if (desc->type != ENGINE_TYPE_F32 || desc->uses != ENGINE_WEIGHT_MATMUL || desc->ne[0] >> 30 ||
        desc->ne[1] >> 30 || desc->ne[2] != 1 || desc->ne[3] != 1)
        return ENGINE_ERROR_UNSUPPORTED;
    *bytes = desc->ne[0] * desc->ne[1] * sizeof(float);
    return ENGINE_OK;
}

int weight_create(engine_device *device, const engine_weight_desc *desc, engine_weight **weight)
{
    uint64_t size;
    if (weight_size(device, desc, &size))
        return host->fail(ENGINE_ERROR_UNSUPPORTED, "%s: not kept", desc->name);
    if (desc->data_size < size) return host->fail(ENGINE_ERROR_ARGUMENT, "%s: data is missing", desc->name);
    engine_buffer *values;
    int status = buffer_create(device, size, &values);
    if (status != ENGINE_OK) return status;
    std::memcpy(values->data, desc->data, size);
    *weight = new engine_weight{values};
    return ENGINE_OK;
}

void weight_destroy(engine_weight *weight)
{
    if (weight) buffer_destroy(weight->values);
    delete weight;
}

int stream_create(engine_device *device, engine_stream **stream)
{
    *stream = new engine_stream{device};
    return ENGINE_OK;
}

void stream_destroy(engine_stream *stream)
{
    delete stream;
}

int stream_done(engine_stream *)
{
    return ENGINE_OK;
}

bool is_matrix(const engine_tensor *tensor, uint64_t rows, uint64_t columns)
{
    return tensor && tensor->type == ENGINE_TYPE_F32 && tensor->ne[0] == rows && tensor->ne[1] == columns &&
           tensor->ne[2] == 1 && tensor->ne[3] == 1 && tensor->nb[0] == 4;
}

int supports(engine_device *, uint32_t op, const void *args)
{
    auto *m = static_cast<const engine_op_matmul *>(args);
    if (op != ENGINE_OP_MATMUL || m->gate || m->bias || m->residual || m->activation || m->scale < 0 ||
        m->scale > 0)
        return 0;
    for (size_t i = sizeof *m; i < m->struct_size; i++)
        if (static_cast<const char *>(args)[i]) return 0;
    return m->weight && m->input && is_matrix(m->weight, m->input->ne[0], m->weight->ne[1]) &&
           is_matrix(m->input, m->weight->ne[0], m->input->ne[1]) &&
           is_matrix(m->output, m->weight->ne[1], m->input->ne[1]);
}

const float *column(const engine_tensor *tensor, uint64_t t)
{
    return reinterpret_cast<const float *>(tensor->buffer->data + tensor->offset + t * tensor->nb[1]);
}

int enqueue(engine_stream *stream, uint32_t op, const void *args)
{
    if (!supports(stream->device, op, args)) return host->fail(ENGINE_ERROR_UNSUPPORTED, "not supported");
    auto *m = static_cast<const engine_op_matmul *>(args);
    auto *weight = reinterpret_cast<const float *>(m->weight->weight->values->data);
    for (uint64_t t = 0; t < m->input->ne[1]; t++) {
        const float *x = column(m->input, t);
        auto *y = const_cast<float *>(column(m->output, t));
        for (uint64_t row = 0; row < m->weight->ne[1]; row++) {
            double sum = 0;
            for (uint64_t i = 0; i < m->weight->ne[0]; i++)
                sum += double(weight[row * m->weight->ne[0] + i]) * double(x[i]);
            y[row] = float(sum);
        }
    }
    return ENGINE_OK;
}

int check_range(const engine_buffer *buffer, uint64_t offset, uint64_t size)
{
    if (offset <= buffer->size && size <= buffer->size - offset) return ENGINE_OK;
    return host->fail(ENGINE_ERROR_ARGUMENT, "beyond the end of a buffer");
}

int write_buffer(engine_stream *, engine_buffer *buffer, uint64_t offset, const void *source, uint64_t size)
{
    int status = check_range(buffer, offset, size);
    if (status == ENGINE_OK) std::memcpy(buffer->data + offset, source, size);
    return status;
}

int read_buffer(engine_stream *, engine_buffer *buffer, uint64_t offset, void *target, uint64_t size)
{
    int status = check_range(buffer, offset, size);
    if (status == ENGINE_OK) std::memcpy(target, buffer->data + offset, size);
    return status;
}

int copy_buffer(engine_stream *stream, engine_buffer *target, uint64_t target_offset, engine_buffer *source,
                uint64_t source_offset, uint64_t size)
{
    int status = check_range(source, source_offset, size);
    return status ? status : write_buffer(stream, target, target_offset, source->data + source_offset, size);
}

engine_backend make_backend()
{
    engine_backend made{};
    made.struct_size = sizeof made;
    made.device_count = device_count;
    made.device_info = device_info;
    made.device_open = device_open;
    made.device_close = device_close;
    made.supports = supports;
    made.weight_size = weight_size;
    made.buffer_create = buffer_create;
    made.buffer_destroy = buffer_destroy;
    made.weight_create = weight_create;
    made.weight_destroy = weight_destroy;
    made.stream_create = stream_create;
    made.stream_destroy = stream_destroy;
    made.enqueue = enqueue;
    made.write = write_buffer;
    made.read = read_buffer;
    made.copy = copy_buffer;
    made.stream_flush = stream_done;
    made.stream_wait = stream_done;
    return made;
}

} // namespace

extern "C" const engine_plugin *engine_plugin_entry(const engine_host *services)
{
    static const engine_backend backend = make_backend();
    static engine_plugin plugin{};
    host = services;
    plugin.struct_size = sizeof plugin;
    plugin.abi_major = ENGINE_ABI_MAJOR;
    plugin.abi_minor = ENGINE_ABI_MINOR;
    plugin.kind = ENGINE_PLUGIN_BACKEND;
    plugin.name = "plus";
    plugin.version = "1.0";
    plugin.license = "MIT";
    plugin.description = "matrix products in C++";
    plugin.backend = &backend;
    return &plugin;
}

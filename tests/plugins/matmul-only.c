/* matmul-only.c: the backend `toy` (or of another TOY_NAME), which does nothing but matrix products, and lies
 * about its memory: it claims a terabyte and gives as many bytes to weights as the setting `memory` of its
 * section says (none: without end). With it tests run a model split over two devices, most operations of
 * which the second one doesn't do.
 *
 * Settings: memory = BYTES; fail = OPERATIONS (after so many products the device fails); working = BYTES of a
 * product; pci, uuid, rank: what hardware it says it is; closed = yes: it can't be opened. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "plugin-api.h"

struct engine_device {
    uint64_t used, limit; /* bytes of weights */
    long left;            /* products until it fails; -1: it never does */
};

struct engine_buffer {
    uint8_t *data;
};

struct engine_weight {
    struct engine_device *device;
    uint64_t k, rows;
    float *values; /* [k, rows] */
};

struct engine_stream {
    struct engine_device *device;
    int status;
};

#ifndef TOY_NAME
#define TOY_NAME "toy"
#endif

static const struct engine_host *host;

/* ---- Devices ------------------------------------------------------------------------------------------- */

static int device_count(uint32_t *count)
{
    *count = 1;
    return ENGINE_OK;
}

static int device_info(uint32_t index, struct engine_device_info *info)
{
    (void)index;
    strcpy(info->id, "0");
    strcpy(info->description, "matrix products, one at a time");
    info->kind = ENGINE_DEVICE_ACCELERATOR;
    info->memory_free = info->memory_total = (uint64_t)1 << 40;
    info->max_buffer = 0;
    info->alignment = 256;
    const char *pci = host->setting(TOY_NAME, "pci"), *uuid = host->setting(TOY_NAME, "uuid"),
               *rank = host->setting(TOY_NAME, "rank");
    if (pci) snprintf(info->pci_address, sizeof info->pci_address, "%s", pci);
    if (uuid) memcpy(info->uuid, uuid, strnlen(uuid, sizeof info->uuid));
    if (rank) info->rank = (uint32_t)strtoul(rank, NULL, 10);
    return ENGINE_OK;
}

static int device_open(uint32_t index, const struct engine_device_options *options,
                       struct engine_device **device)
{
    (void)index, (void)options;
    if (host->setting(TOY_NAME, "closed")) return host->fail(ENGINE_ERROR_DEVICE, "closed today");
    struct engine_device *opened = calloc(1, sizeof *opened);
    if (!opened) return host->fail(ENGINE_ERROR_MEMORY, "out of memory");
    const char *memory = host->setting(TOY_NAME, "memory"), *fail = host->setting(TOY_NAME, "fail");
    opened->limit = memory ? strtoull(memory, NULL, 10) : UINT64_MAX;
    opened->left = fail ? strtol(fail, NULL, 10) : -1;
    *device = opened;
    return ENGINE_OK;
}

static void device_close(struct engine_device *device)
{
    free(device);
}

/* ---- Weights ------------------------------------------------------------------------------------------- */

static float from_half(uint16_t half)
{
    uint32_t sign = (uint32_t)(half & 0x8000) << 16, exponent = half >> 10 & 31, mantissa = half & 0x3ff,
             bits;
    float value;
    if (exponent == 0) {
        value = (float)mantissa * 0x1p-24f;
        return sign ? -value : value;
    }
    bits = sign | (exponent == 31 ? 255u << 23 : (exponent + 112) << 23) | mantissa << 13;
    memcpy(&value, &bits, sizeof value);
    return value;
}

static uint64_t row_bytes(uint32_t type, uint64_t k)
{
    switch (type) {
    case ENGINE_TYPE_F32: return 4 * k;
    case ENGINE_TYPE_F16:
    case ENGINE_TYPE_BF16: return 2 * k;
    case ENGINE_TYPE_Q8_0: return k / 32 * 34;
    case ENGINE_TYPE_Q4_0: return k / 32 * 18;
    default: return 0;
    }
}

static float element(uint32_t type, const uint8_t *row, uint64_t i)
{
    uint16_t half;
    uint32_t bits;
    float value;
    switch (type) {
    case ENGINE_TYPE_F32: memcpy(&value, row + 4 * i, 4); return value;
    case ENGINE_TYPE_F16: memcpy(&half, row + 2 * i, 2); return from_half(half);
    case ENGINE_TYPE_BF16:
        memcpy(&half, row + 2 * i, 2);
        bits = (uint32_t)half << 16;
        memcpy(&value, &bits, 4);
        return value;
    case ENGINE_TYPE_Q8_0:
        row += i / 32 * 34;
        memcpy(&half, row, 2);
        return from_half(half) * (float)(int8_t)row[2 + i % 32];
    default: /* Q4_0: the low nibbles are the first half of the block */
        row += i / 32 * 18;
        memcpy(&half, row, 2);
        return from_half(half) * (float)((i % 32 < 16 ? row[2 + i % 16] & 15 : row[2 + i % 16] >> 4) - 8);
    }
}

static int weight_size(struct engine_device *device, const struct engine_weight_desc *desc, uint64_t *bytes)
{
    (void)device;
    if (desc->uses != ENGINE_WEIGHT_MATMUL || row_bytes(desc->type, desc->ne[0]) == 0)
        return ENGINE_ERROR_UNSUPPORTED;
    *bytes = desc->ne[0] * desc->ne[1] * sizeof(float);
    return ENGINE_OK;
}

static int weight_create(struct engine_device *device, const struct engine_weight_desc *desc,
                         struct engine_weight **weight)
{
    uint64_t bytes = 0;
    if (weight_size(device, desc, &bytes)) return host->fail(ENGINE_ERROR_UNSUPPORTED, "%s", desc->name);
    if (bytes > device->limit - device->used)
        return host->fail(ENGINE_ERROR_MEMORY, "only %llu bytes, in truth",
                          (unsigned long long)device->limit);
    struct engine_weight *made = calloc(1, sizeof *made);
    float *values = malloc(bytes);
    if (!made || !values) {
        free(made);
        free(values);
        return host->fail(ENGINE_ERROR_MEMORY, "out of memory");
    }
    *made = (struct engine_weight){device, desc->ne[0], desc->ne[1], values};
    for (uint64_t row = 0; row < made->rows; row++)
        for (uint64_t i = 0; i < made->k; i++)
            values[row * made->k + i] =
                element(desc->type, (const uint8_t *)desc->data + row * row_bytes(desc->type, made->k), i);
    device->used += bytes;
    *weight = made;
    return ENGINE_OK;
}

static void weight_destroy(struct engine_weight *weight)
{
    if (!weight) return;
    weight->device->used -= weight->k * weight->rows * sizeof(float);
    free(weight->values);
    free(weight);
}

/* ---- Buffers ------------------------------------------------------------------------------------------- */

static int buffer_create(struct engine_device *device, uint64_t size, struct engine_buffer **buffer)
{
    (void)device;
    struct engine_buffer *made = calloc(1, sizeof *made);
    uint8_t *data = calloc(1, size);
    if (!made || !data) {
        free(made);
        free(data);
        return host->fail(ENGINE_ERROR_MEMORY, "out of memory");
    }
    made->data = data;
    *buffer = made;
    return ENGINE_OK;
}

static void buffer_destroy(struct engine_buffer *buffer)
{
    if (buffer) free(buffer->data);
    free(buffer);
}

/* ---- Streams: everything runs at once ------------------------------------------------------------------ */

static int stream_create(struct engine_device *device, struct engine_stream **stream)
{
    struct engine_stream *made = calloc(1, sizeof *made);
    if (!made) return host->fail(ENGINE_ERROR_MEMORY, "out of memory");
    made->device = device;
    *stream = made;
    return ENGINE_OK;
}

static void stream_destroy(struct engine_stream *stream)
{
    free(stream);
}

/* Whether the fields behind those that this header knows are zero: a newer host may ask for more than we
 * do. */
static int rest_is_zero(const struct engine_op_matmul *args)
{
    for (size_t i = sizeof *args; i < args->struct_size; i++)
        if (((const uint8_t *)args)[i]) return 0;
    return 1;
}

static int supports(struct engine_device *device, uint32_t op, const void *args)
{
    (void)device;
    if (op != ENGINE_OP_MATMUL || !rest_is_zero(args)) return 0;
    const struct engine_op_matmul *m = args;
    return !m->gate && !m->bias && !m->residual && !m->activation && m->scale == 0 &&
           row_bytes(m->weight->type, m->weight->ne[0]) > 0 && m->input->nb[0] == 4 && m->output->nb[0] == 4;
}

static int enqueue(struct engine_stream *stream, uint32_t op, const void *args)
{
    if (!supports(stream->device, op, args)) return host->fail(ENGINE_ERROR_UNSUPPORTED, "operation %u", op);
    if (stream->device->left == 0)
        stream->status = ENGINE_ERROR_DEVICE;
    else if (stream->device->left > 0)
        stream->device->left--;
    const struct engine_op_matmul *m = args;
    const struct engine_weight *weight = m->weight->weight;
    for (uint64_t t = 0; t < m->input->ne[1]; t++) {
        const float *x = (const void *)(m->input->buffer->data + m->input->offset + t * m->input->nb[1]);
        float *y = (void *)(m->output->buffer->data + m->output->offset + t * m->output->nb[1]);
        for (uint64_t row = 0; row < weight->rows; row++) {
            double sum = 0;
            for (uint64_t i = 0; i < weight->k; i++)
                sum += (double)weight->values[row * weight->k + i] * (double)x[i];
            y[row] = (float)sum;
        }
    }
    return ENGINE_OK;
}

static int write_buffer(struct engine_stream *stream, struct engine_buffer *buffer, uint64_t offset,
                        const void *source, uint64_t size)
{
    (void)stream;
    memcpy(buffer->data + offset, source, size);
    return ENGINE_OK;
}

static int read_buffer(struct engine_stream *stream, struct engine_buffer *buffer, uint64_t offset,
                       void *target, uint64_t size)
{
    (void)stream;
    memcpy(target, buffer->data + offset, size);
    return ENGINE_OK;
}

static int copy_buffer(struct engine_stream *stream, struct engine_buffer *target, uint64_t target_offset,
                       struct engine_buffer *source, uint64_t source_offset, uint64_t size)
{
    (void)stream;
    memcpy(target->data + target_offset, source->data + source_offset, size);
    return ENGINE_OK;
}

static int stream_flush(struct engine_stream *stream)
{
    (void)stream;
    return ENGINE_OK;
}

static int stream_wait(struct engine_stream *stream)
{
    int status = stream->status;
    stream->status = ENGINE_OK;
    return status ? host->fail(status, "the toy broke") : ENGINE_OK;
}

static int op_memory(struct engine_device *device, uint32_t op, const void *args, uint64_t *bytes)
{
    const char *working = host->setting(TOY_NAME, "working");
    if (!supports(device, op, args)) return host->fail(ENGINE_ERROR_UNSUPPORTED, "operation %u", op);
    *bytes = working ? strtoull(working, NULL, 10) : 0;
    return ENGINE_OK;
}

static const struct engine_backend backend = {
    .struct_size = sizeof backend,
    .device_count = device_count,
    .device_info = device_info,
    .device_open = device_open,
    .device_close = device_close,
    .supports = supports,
    .weight_size = weight_size,
    .buffer_create = buffer_create,
    .buffer_destroy = buffer_destroy,
    .weight_create = weight_create,
    .weight_destroy = weight_destroy,
    .stream_create = stream_create,
    .stream_destroy = stream_destroy,
    .enqueue = enqueue,
    .write = write_buffer,
    .read = read_buffer,
    .copy = copy_buffer,
    .stream_flush = stream_flush,
    .stream_wait = stream_wait,
    .op_memory = op_memory,
};

static const struct engine_plugin plugin = {
    .struct_size = sizeof plugin,
    .abi_major = ENGINE_ABI_MAJOR,
    .abi_minor = ENGINE_ABI_MINOR,
    .kind = ENGINE_PLUGIN_BACKEND,
    .name = TOY_NAME,
    .version = "1.0",
    .license = "MIT",
    .description = "nothing but matrix products, for tests",
    .backend = &backend,
};

const struct engine_plugin *engine_plugin_entry(const struct engine_host *services)
{
    host = services;
    return &plugin;
}

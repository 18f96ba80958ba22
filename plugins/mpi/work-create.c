/* work-create.c: what a worker's messages create and destroy: devices, buffers, weights, streams (see work.h). */
#include <stdlib.h>
#include <string.h>

#include "copies.h"
#include "work.h"

static int no_memory(struct work *work, const char *what)
{
    return work_fail(work, ENGINE_ERROR_MEMORY, "out of memory (%s)", what);
}

/* ---- Devices ---------------------------------------------------------------------------------------------- */

int work_open(struct work *work, struct reader *reader, struct bytes *answer)
{
    uint32_t number, index = read_u32(reader), n_threads = read_u32(reader);
    uint64_t memory_limit = read_u64(reader);
    if (reader->failed || index >= work->service->n_devices) return work_malformed(work);
    const struct engine_served_device *served = work->service->devices[index];
    struct engine_device_options options = {.struct_size = sizeof options,
                                            .n_threads = work->service->n_threads ? work->service->n_threads
                                                                                  : n_threads,
                                            .memory_limit = memory_limit};
    struct engine_device *device;
    int status = work_failed(work, served->backend->device_open(served->index, &options, &device));
    if (status) return status;
    struct thing *thing = work_add(work, THING_DEVICE, 0, &number);
    if (!thing) {
        served->backend->device_close(device);
        return no_memory(work, "device");
    }
    thing->backend = served->backend;
    thing->of.device = device;
    bytes_add_u32(answer, number);
    return ENGINE_OK;
}

int work_close(struct work *work, struct reader *reader, struct bytes *answer)
{
    uint32_t number = read_u32(reader);
    (void)answer;
    if (!work_find(work, number, THING_DEVICE)) return work_malformed(work);
    for (size_t i = 0; i < work->n_things; i++) {
        const struct thing *thing = work->things[i];
        if (thing && thing->kind != THING_DEVICE && thing->device == number) return work_malformed(work);
    }
    if (work->coming_device == number) return work_malformed(work);
    work_remove(work, number);
    return ENGINE_OK;
}

/* Reads a device and an operation without handles. NULL: malformed. */
static const struct thing *read_question(struct work *work, struct reader *reader,
                                         struct operation *operation)
{
    const struct thing *device = work_find(work, read_u32(reader), THING_DEVICE);
    if (!device || !operation_read(reader, operation)) return NULL;
    for (uint32_t i = 0; i < operation->n_tensors; i++)
        if (operation->places[i] != PLACE_NOTHING) return NULL;
    return device;
}

int work_supports(struct work *work, struct reader *reader, struct bytes *answer)
{
    struct operation operation;
    const struct thing *device = read_question(work, reader, &operation);
    if (!device) return work_malformed(work);
    bytes_add_u64(answer, device->backend->supports(device->of.device, operation.op, &operation.args) == 1);
    return ENGINE_OK;
}

int work_op_memory(struct work *work, struct reader *reader, struct bytes *answer)
{
    struct operation operation;
    uint64_t bytes = 0;
    const struct thing *device = read_question(work, reader, &operation);
    if (!device) return work_malformed(work);
    if (ENGINE_HAS(device->backend, op_memory) && device->backend->op_memory) {
        int status = device->backend->op_memory(device->of.device, operation.op, &operation.args, &bytes);
        if (status) return work_failed(work, status);
    }
    bytes_add_u64(answer, bytes);
    return ENGINE_OK;
}

/* ---- Memory ----------------------------------------------------------------------------------------------- */

int work_buffer_create(struct work *work, struct reader *reader, struct bytes *answer)
{
    uint32_t number, device_number = read_u32(reader);
    const struct thing *device = work_find(work, device_number, THING_DEVICE);
    uint64_t size = read_u64(reader);
    if (!device || reader->failed) return work_malformed(work);
    if (size == 0) return work_fail(work, ENGINE_ERROR_ARGUMENT, "a buffer of no bytes");
    struct engine_buffer *buffer;
    int status = work_failed(work, device->backend->buffer_create(device->of.device, size, &buffer));
    if (status) return status;
    struct thing *thing = work_add(work, THING_BUFFER, device_number, &number);
    if (!thing) {
        device->backend->buffer_destroy(buffer);
        return no_memory(work, "buffer");
    }
    thing->of.buffer = buffer;
    thing->size = size;
    bytes_add_u32(answer, number);
    return ENGINE_OK;
}

int work_weight_size(struct work *work, struct reader *reader, struct bytes *answer)
{
    struct engine_weight_desc desc;
    char texts[2][256];
    uint64_t bytes = 0;
    const struct thing *device = work_find(work, read_u32(reader), THING_DEVICE);
    weight_read(reader, &desc, texts);
    if (!device || reader->failed) return work_malformed(work);
    int status = work_failed(work, device->backend->weight_size(device->of.device, &desc, &bytes));
    if (!status) bytes_add_u64(answer, bytes);
    return status;
}

int work_weight_begin(struct work *work, struct reader *reader, struct bytes *answer)
{
    uint32_t number = read_u32(reader);
    (void)answer;
    if (!work_find(work, number, THING_DEVICE) || work->coming_device) return work_malformed(work);
    weight_read(reader, &work->coming, work->coming_texts);
    if (reader->failed) return work_malformed(work);
    work->coming_device = number;
    work->coming_size = 0;
    work->coming_status = ENGINE_OK;
    work->coming_data =
        work->coming.data_size <= SIZE_MAX ? malloc((size_t)work->coming.data_size + 1) : NULL;
    if (!work->coming_data) work->coming_status = ENGINE_ERROR_MEMORY;
    return ENGINE_OK;
}

int work_weight_data(struct work *work, struct reader *reader, struct bytes *answer)
{
    (void)answer;
    uint64_t size = reader->left;
    if (!work->coming_device || size > work->coming.data_size - work->coming_size)
        return work_malformed(work);
    const uint8_t *data = read_bytes(reader, size);
    if (work->coming_data && size > 0) memcpy(work->coming_data + work->coming_size, data, (size_t)size);
    work->coming_size += size;
    return ENGINE_OK;
}

static int create_weight(struct work *work, struct bytes *answer)
{
    uint32_t number;
    struct engine_weight *weight;
    const struct thing *device = work->things[work->coming_device - 1];
    work->coming.data = work->coming_data;
    if (work->coming_status) return no_memory(work, "weight");
    int status = work_failed(work, device->backend->weight_create(device->of.device, &work->coming, &weight));
    if (status) return status;
    struct thing *thing = work_add(work, THING_WEIGHT, work->coming_device, &number);
    if (!thing) {
        device->backend->weight_destroy(weight);
        return no_memory(work, "weight");
    }
    thing->of.weight = weight;
    thing->type = work->coming.type;
    memcpy(thing->ne, work->coming.ne, sizeof thing->ne);
    bytes_add_u32(answer, number);
    return ENGINE_OK;
}

int work_weight_end(struct work *work, struct reader *reader, struct bytes *answer)
{
    (void)reader;
    if (!work->coming_device || work->coming_size != work->coming.data_size) return work_malformed(work);
    int status = create_weight(work, answer);
    free(work->coming_data);
    work->coming_data = NULL;
    work->coming_device = 0;
    return status;
}

int work_stream_create(struct work *work, struct reader *reader, struct bytes *answer)
{
    uint32_t number, device_number = read_u32(reader);
    const struct thing *device = work_find(work, device_number, THING_DEVICE);
    struct engine_stream *stream;
    if (!device || reader->failed) return work_malformed(work);
    int status = work_failed(work, device->backend->stream_create(device->of.device, &stream));
    if (status) return status;
    struct thing *thing = work_add(work, THING_STREAM, device_number, &number);
    if (!thing) {
        device->backend->stream_destroy(stream);
        return no_memory(work, "stream");
    }
    thing->of.stream = stream;
    bytes_add_u32(answer, number);
    return ENGINE_OK;
}

int work_drop(struct work *work, struct reader *reader, struct bytes *answer)
{
    uint32_t number = read_u32(reader);
    (void)answer;
    const struct thing *thing = number > 0 && number <= work->n_things ? work->things[number - 1] : NULL;
    if (!thing || thing->kind == THING_DEVICE || thing->users > 0) return work_malformed(work);
    work_settle(work, thing->device);
    work_remove(work, number);
    return ENGINE_OK;
}

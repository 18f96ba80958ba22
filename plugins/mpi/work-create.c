/* work-create.c: what a worker's messages create and destroy: devices, buffers, weights, streams (see
 * work.h). */
#include <stdlib.h>
#include <string.h>

#include "copies.h"
#include "hash.h"
#include "work.h"

static int no_memory(struct work *work, const char *what)
{
    return work_fail(work, ENGINE_ERROR_MEMORY, "out of memory (%s)", what);
}

/* ---- Devices ------------------------------------------------------------------------------------------- */

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

/* ---- Memory -------------------------------------------------------------------------------------------- */

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

static int create_weight(struct work *work, uint32_t device_number, const struct engine_weight_desc *desc,
                         uint32_t *number)
{
    struct engine_weight *weight;
    const struct thing *device = work->things[device_number - 1];
    int status = work_failed(work, device->backend->weight_create(device->of.device, desc, &weight));
    if (status) return status;
    struct thing *thing = work_add(work, THING_WEIGHT, device_number, number);
    if (!thing) {
        device->backend->weight_destroy(weight);
        return no_memory(work, "weight");
    }
    thing->of.weight = weight;
    thing->type = desc->type;
    memcpy(thing->ne, desc->ne, sizeof thing->ne);
    return ENGINE_OK;
}

/* Whether the model of this process has these bytes. ENGINE_ERROR_DATA: it has others by that name and of
 * that shape. */
static int find_own(struct work *work, const struct engine_weight_desc *desc, const uint64_t words[2],
                    const void **data)
{
    const struct engine_service *service = work->service;
    struct engine_weight_desc own = {.struct_size = sizeof own};
    *data = NULL;
    if (!ENGINE_HAS(service, reserved) || !service->tensor) return ENGINE_OK;
    bool is_there = service->tensor(service->context, desc->name, &own) == ENGINE_OK &&
                    own.type == desc->type && own.data_size == desc->data_size &&
                    memcmp(own.ne, desc->ne, sizeof own.ne) == 0;
    if (!is_there && service->needs_local)
        return work_fail(work, ENGINE_ERROR_DATA,
                         "%s is not in its own model (--weights local), or has another type or shape there",
                         desc->name);
    if (!is_there) return ENGINE_OK;
    const struct hash hash = hash_of(own.data, (size_t)own.data_size);
    if (memcmp(hash.words, words, sizeof hash.words) != 0)
        return work_fail(
            work, ENGINE_ERROR_DATA,
            "%s differs in its own model (-m), which is another one: give the worker the same, or "
            "none (--weights send)",
            desc->name);
    *data = own.data;
    return ENGINE_OK;
}

int work_weight_offer(struct work *work, struct reader *reader, struct bytes *answer)
{
    struct engine_weight_desc desc;
    char texts[2][256];
    uint32_t number = 0, device = read_u32(reader);
    if (!work_find(work, device, THING_DEVICE)) return work_malformed(work);
    weight_read(reader, &desc, texts);
    const uint64_t first = read_u64(reader), words[2] = {first, read_u64(reader)};
    if (reader->failed) return work_malformed(work);
    int status = find_own(work, &desc, words, &desc.data);
    if (status) return status;
    bytes_add_u32(answer, desc.data != NULL);
    if (!desc.data) return ENGINE_OK;
    desc.data_is_kept = 1; /* the model outlives all weights */
    status = create_weight(work, device, &desc, &number);
    bytes_add_u32(answer, number);
    return status;
}

int work_weight_end(struct work *work, struct reader *reader, struct bytes *answer)
{
    (void)reader;
    if (!work->coming_device || work->coming_size != work->coming.data_size) return work_malformed(work);
    uint32_t number = 0;
    work->coming.data = work->coming_data;
    int status = work->coming_status ? no_memory(work, "weight")
                                     : create_weight(work, work->coming_device, &work->coming, &number);
    if (!status) bytes_add_u32(answer, number);
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

/* memory.c: buffers and weights at workers (see remote.h). */
#include <stdlib.h>

#include "common/sized.h"
#include "copies.h"
#include "hash.h"
#include "remote.h"

/* Ends the command that creates something and asks for its number. Lock held. */
static int ask_number(struct worker *worker, size_t begun, uint32_t *number)
{
    struct reader reader;
    command_end(worker, begun);
    int status = worker_ask(worker, &reader);
    if (status) return status;
    *number = read_u32(&reader);
    return worker_read_all(worker, &reader);
}

int buffer_create(struct engine_device *device, uint64_t size, struct engine_buffer **out)
{
    struct worker *worker = device->worker;
    struct engine_buffer *buffer = calloc(1, sizeof *buffer);
    if (!buffer) return mpi_host->fail(ENGINE_ERROR_MEMORY, "out of memory (buffer)");
    *buffer = (struct engine_buffer){.device = device, .size = size};
    workers_lock();
    size_t begun = command_begin(worker, COMMAND_BUFFER_CREATE);
    bytes_add_u32(&worker->out, device->number);
    bytes_add_u64(&worker->out, size);
    int status = ask_number(worker, begun, &buffer->number);
    workers_unlock();
    if (status)
        free(buffer);
    else
        *out = buffer;
    return status;
}

void buffer_destroy(struct engine_buffer *buffer)
{
    if (!buffer) return;
    worker_tell(buffer->device->worker, COMMAND_DESTROY, buffer->number);
    free(buffer);
}

/* The data goes in parts, which are sent as they become many. */
static int send_weight(struct engine_device *device, const struct engine_weight_desc *desc, uint32_t *number)
{
    struct worker *worker = device->worker;
    size_t begun = command_begin(worker, COMMAND_WEIGHT_BEGIN);
    bytes_add_u32(&worker->out, device->number);
    weight_add(&worker->out, desc);
    command_end(worker, begun);
    for (uint64_t at = 0; at < desc->data_size;) {
        uint64_t part = desc->data_size - at < PROTOCOL_PART ? desc->data_size - at : PROTOCOL_PART;
        begun = command_begin(worker, COMMAND_WEIGHT_DATA);
        bytes_add(&worker->out, (const uint8_t *)desc->data + at, (size_t)part);
        command_end(worker, begun);
        int status = worker_relieve(worker);
        if (status) return status;
        at += part;
    }
    return ask_number(worker, command_begin(worker, COMMAND_WEIGHT_END), number);
}

/* Asks whether the worker has the weight itself. Short ones are sent at once: asking takes as long. */
static int offer_weight(struct engine_device *device, const struct engine_weight_desc *desc, bool *is_there,
                        uint32_t *number)
{
    struct worker *worker = device->worker;
    struct reader reader;
    *is_there = false;
    if (!worker->has_model || desc->data_size < PROTOCOL_SHORT) return ENGINE_OK;
    workers_unlock(); /* this takes a while, with weights on disk */
    const struct hash hash = hash_of(desc->data, (size_t)desc->data_size);
    workers_lock();
    size_t begun = command_begin(worker, COMMAND_WEIGHT_OFFER);
    bytes_add_u32(&worker->out, device->number);
    weight_add(&worker->out, desc);
    bytes_add(&worker->out, hash.words, sizeof hash.words);
    command_end(worker, begun);
    int status = worker_ask(worker, &reader);
    if (status) return status;
    *is_there = read_u32(&reader) == 1;
    if (*is_there) *number = read_u32(&reader);
    return worker_read_all(worker, &reader);
}

int weight_create(struct engine_device *device, const struct engine_weight_desc *given,
                  struct engine_weight **out)
{
    struct engine_weight_desc desc = {.struct_size = sizeof desc};
    struct engine_weight *weight = calloc(1, sizeof *weight);
    if (!weight) return mpi_host->fail(ENGINE_ERROR_MEMORY, "out of memory (weight)");
    sized_read(&desc, sizeof desc, given);
    weight->device = device;
    workers_lock();
    bool is_there;
    int status = offer_weight(device, &desc, &is_there, &weight->number);
    if (!status && !is_there) status = send_weight(device, &desc, &weight->number);
    workers_unlock();
    if (status)
        free(weight);
    else
        *out = weight;
    return status;
}

void weight_destroy(struct engine_weight *weight)
{
    if (!weight) return;
    worker_tell(weight->device->worker, COMMAND_DESTROY, weight->number);
    free(weight);
}

/* device.c: the workers' devices (see remote.h). */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/message-bytes.h"
#include "common/sized.h"
#include "copies.h"
#include "hash.h"
#include "operation.h"
#include "remote.h"

int device_count(uint32_t *count)
{
    int status = workers_find();
    if (status) return status;
    *count = 0;
    for (uint32_t i = 0; i < workers_count(); i++) *count += worker_at(i)->n_devices;
    return ENGINE_OK;
}

/* The worker of the plugin's device `index`; *index becomes the worker's own. */
static struct worker *find_device(uint32_t *index)
{
    for (uint32_t i = 0; i < workers_count(); i++) {
        struct worker *worker = worker_at(i);
        if (*index < worker->n_devices) return worker;
        *index -= worker->n_devices;
    }
    mpi_host->fail(ENGINE_ERROR_ARGUMENT, "there is no device %u more than the workers have", *index);
    return NULL;
}

int device_info(uint32_t index, struct engine_device_info *info)
{
    struct engine_device_info answer = {.struct_size = sizeof answer};
    struct reader reader;
    struct worker *worker = find_device(&index);
    if (!worker) return ENGINE_ERROR_ARGUMENT;
    workers_lock();
    size_t begun = command_begin(worker, COMMAND_INFO);
    bytes_add_u32(&worker->out, index);
    command_end(worker, begun);
    int status = worker_ask(worker, &reader);
    if (!status) info_read(&reader, &answer);
    if (!status) status = worker_read_all(worker, &reader);
    workers_unlock();
    if (status) return status;
    /* As many devices as workers may have the same name; what follows the plugin's name tells them apart. */
    int length = snprintf(answer.id, sizeof answer.id, "%d.%s", worker->rank, worker->names[index]);
    if (length >= (int)sizeof answer.id)
        return worker_fail(worker, ENGINE_ERROR_UNSUPPORTED, "the name of its device %s is too long",
                           worker->names[index]);
    char description[sizeof answer.description];
    memcpy(description, answer.description, sizeof description);
    snprintf(answer.description, sizeof answer.description, "%.40s: %.80s", worker->host, description);
    answer.link_latency = worker->link_latency;
    answer.link_bandwidth = worker->link_bandwidth;
    sized_write(info, &answer, sizeof answer);
    return ENGINE_OK;
}

int device_open(uint32_t index, const struct engine_device_options *options, struct engine_device **out)
{
    struct engine_device_options known = {.struct_size = sizeof known};
    struct reader reader;
    if (options) sized_read(&known, sizeof known, options);
    struct worker *worker = find_device(&index);
    struct engine_device *device = worker ? calloc(1, sizeof *device) : NULL;
    if (!worker) return ENGINE_ERROR_ARGUMENT;
    if (!device) return mpi_host->fail(ENGINE_ERROR_MEMORY, "out of memory (device)");
    *device = (struct engine_device){.worker = worker, .index = index};
    workers_lock();
    size_t begun = command_begin(worker, COMMAND_OPEN);
    bytes_add_u32(&worker->out, index);
    bytes_add_u32(&worker->out, known.n_threads);
    bytes_add_u64(&worker->out, known.memory_limit);
    command_end(worker, begun);
    int status = worker_ask(worker, &reader);
    if (!status) device->number = read_u32(&reader);
    if (!status) status = worker_read_all(worker, &reader);
    workers_unlock();
    if (status)
        free(device);
    else
        *out = device;
    return status;
}

void device_close(struct engine_device *device)
{
    if (!device) return;
    const struct worker *worker = device->worker;
    worker_tell(device->worker, COMMAND_CLOSE, device->number);
    mpi_host->log(ENGINE_LOG_INFO,
                  "worker %d on %s: %" PRIu64 " messages (%" PRIu64 " bytes), %" PRIu64 " replies (%" PRIu64
                  " bytes)",
                  worker->rank, worker->host, worker->n_messages, worker->bytes_out, worker->n_replies,
                  worker->bytes_in);
    free(device);
}

/* ---- Questions ----------------------------------------------------------------------------------------- */

/* Asks the worker something whose answer depends on the question alone. Most layers of a model ask the same.
 * The question begins at `begun` in the worker's message, behind the open device's number, which doesn't
 * count. */
static int ask_once(struct engine_device *device, enum command command, size_t begun, uint64_t *answer)
{
    struct worker *worker = device->worker;
    struct reader reader;
    const size_t skipped = begun - sizeof(uint32_t);
    if (worker->out.failed) return worker_ask(worker, &reader);
    const uint32_t head[2] = {command, device->index};
    struct bytes question = {0};
    bytes_add(&question, head, sizeof head);
    bytes_add(&question, worker->out.data + begun + sizeof(uint64_t) + sizeof(uint32_t),
              worker->out.size - begun - sizeof(uint64_t) - sizeof(uint32_t));
    uint64_t hash = hash_of(question.data, question.failed ? 0 : question.size).words[0];
    struct known_answer *known = &worker->known[hash % KNOWN_ANSWERS];
    if (!question.failed && known->question.data && known->hash == hash &&
        known->question.size == question.size &&
        memcmp(known->question.data, question.data, question.size) == 0) {
        worker->out.size = skipped; /* the command isn't sent */
        if (skipped == 2 * sizeof(uint32_t)) worker->out.size = 0;
        bytes_free(&question);
        *answer = known->answer;
        return (int)known->status;
    }
    command_end(worker, begun);
    int status = worker_ask(worker, &reader);
    if (!status) *answer = read_u64(&reader);
    if (!status) status = worker_read_all(worker, &reader);
    if (question.failed || (status && status != ENGINE_ERROR_UNSUPPORTED)) {
        bytes_free(&question);
        return status;
    }
    bytes_free(&known->question);
    *known = (struct known_answer){
        .hash = hash, .question = question, .answer = status ? 0 : *answer, .status = (uint32_t)status};
    return status;
}

/* A failure without a message, because the caller needs none. */
static int no_message(int status, const char *format, ...)
{
    (void)format;
    return status;
}

static int ask_operation(struct engine_device *device, enum command command, uint32_t op, const void *args,
                         uint64_t *answer)
{
    struct worker *worker = device->worker;
    workers_lock();
    const size_t before = worker->out.size;
    size_t begun = command_begin(worker, command);
    bytes_add_u32(&worker->out, device->number);
    int status = operation_add(&worker->out, op, args, NULL, NULL, no_message);
    if (status)
        worker->out.size = before;
    else
        status = ask_once(device, command, begun, answer);
    workers_unlock();
    return status;
}

int device_supports(struct engine_device *device, uint32_t op, const void *args)
{
    uint64_t answer = 0;
    int status = ask_operation(device, COMMAND_SUPPORTS, op, args, &answer);
    /* Of a lost worker, this answer has no place for a message. What is done next has, and says what
     * happened. */
    if (status == ENGINE_ERROR_GONE) return 1;
    return status == ENGINE_OK && answer == 1;
}

int device_op_memory(struct engine_device *device, uint32_t op, const void *args, uint64_t *bytes)
{
    uint64_t answer = 0;
    int status = ask_operation(device, COMMAND_OP_MEMORY, op, args, &answer);
    if (!status) *bytes = answer;
    return status;
}

int device_weight_size(struct engine_device *device, const struct engine_weight_desc *desc, uint64_t *bytes)
{
    struct worker *worker = device->worker;
    struct engine_weight_desc asked = {.struct_size = sizeof asked};
    uint64_t answer = 0;
    sized_read(&asked, sizeof asked, desc);
    asked.name = "";
    workers_lock();
    size_t begun = command_begin(worker, COMMAND_WEIGHT_SIZE);
    bytes_add_u32(&worker->out, device->number);
    weight_add(&worker->out, &asked);
    int status = ask_once(device, COMMAND_WEIGHT_SIZE, begun, &answer);
    workers_unlock();
    if (!status) *bytes = answer;
    return status;
}

int device_traffic(struct engine_device *device, struct engine_traffic *traffic)
{
    struct engine_traffic known = message_bytes();
    known.peer = (uint32_t)device->worker->rank;
    sized_write(traffic, &known, sizeof known);
    return ENGINE_OK;
}

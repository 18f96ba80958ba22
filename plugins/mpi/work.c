/* work.c: messages and the table of things (see work.h). */
#include "work.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/array.h"
#include "common/assert.h"
#include "copies.h"

/* ---- Failures ------------------------------------------------------------------------------------------ */

int work_fail(struct work *work, int status, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(work->text, sizeof work->text, format, arguments);
    va_end(arguments);
    return status;
}

int work_failed(struct work *work, int status)
{
    if (!status) return ENGINE_OK;
    const char *message = work->service->message();
    snprintf(work->text, sizeof work->text, "%s", message ? message : "");
    return status;
}

int work_malformed(struct work *work)
{
    work->is_broken = true;
    return work_fail(work, ENGINE_ERROR_DATA, "it got a message that makes no sense");
}

/* ---- Things -------------------------------------------------------------------------------------------- */

struct thing *work_find(struct work *work, uint32_t number, enum thing_kind kind)
{
    struct thing *thing = number > 0 && number <= work->n_things ? work->things[number - 1] : NULL;
    if (thing && thing->kind == kind) return thing;
    work_malformed(work);
    return NULL;
}

struct thing *work_add(struct work *work, enum thing_kind kind, uint32_t device, uint32_t *number)
{
    size_t place = 0;
    struct thing *thing = calloc(1, sizeof *thing);
    while (place < work->n_things && work->things[place]) place++;
    if (thing && place == work->n_things) {
        size_t n = work->n_things;
        if (n < UINT32_MAX / 2 && ARRAY_RESERVE(work->things, n, place + 1)) {
            memset(work->things + place, 0, (n - place) * sizeof(*work->things));
            work->n_things = n;
        }
    }
    if (!thing || place >= work->n_things) {
        free(thing);
        return NULL;
    }
    ENGINE_ASSERT(!work->things[place]);
    ENGINE_ASSERT(device <= work->n_things);
    work->things[place] = thing;
    thing->kind = kind;
    thing->device = device ? device : (uint32_t)place + 1;
    if (device) thing->backend = work->things[device - 1]->backend;
    *number = (uint32_t)place + 1;
    return thing;
}

static void destroy_stream(struct thing *thing)
{
    if (thing->of.stream) thing->backend->stream_destroy(thing->of.stream);
    while (thing->reads) {
        struct read_bytes *next = thing->reads->next;
        free(thing->reads);
        thing->reads = next;
    }
}

static void destroy_recording(struct work *work, struct thing *thing)
{
    if (thing->of.recording) thing->backend->recording_destroy(thing->of.recording);
    for (size_t i = 0; i < thing->n_used; i++) work->things[thing->used[i] - 1]->users--;
    free(thing->used);
    bytes_free(&thing->operations);
}

void work_remove(struct work *work, uint32_t number)
{
    struct thing *thing = work->things[number - 1];
    switch (thing->kind) {
    case THING_DEVICE: thing->backend->device_close(thing->of.device); break;
    case THING_BUFFER: thing->backend->buffer_destroy(thing->of.buffer); break;
    case THING_WEIGHT: thing->backend->weight_destroy(thing->of.weight); break;
    case THING_STREAM: destroy_stream(thing); break;
    case THING_RECORDING: destroy_recording(work, thing); break;
    case THING_NONE: break;
    }
    free(thing);
    work->things[number - 1] = NULL;
}

void work_settle(struct work *work, uint32_t device)
{
    for (size_t i = 0; i < work->n_things; i++) {
        struct thing *thing = work->things[i];
        if (!thing || thing->kind != THING_STREAM || thing->device != device || !thing->is_dirty) continue;
        int status = thing->backend->stream_wait(thing->of.stream);
        thing->is_dirty = false;
        work->origin = 0;
        work_leave(work, thing, work_failed(work, status));
    }
}

void work_leave(const struct work *work, struct thing *stream, int status)
{
    if (!status || stream->status) return;
    stream->status = status;
    stream->origin = work->origin;
    memcpy(stream->text, work->text, sizeof stream->text);
}

struct work *work_create(const struct engine_service *service, const struct work_peers *peers,
                         const char *host)
{
    struct work *work = calloc(1, sizeof *work);
    if (!work) return NULL;
    work->service = service;
    work->peers = peers;
    work->host = host;
    return work;
}

void work_destroy(struct work *work)
{
    /* Each after what uses it. */
    static const enum thing_kind order[] = {THING_RECORDING, THING_STREAM, THING_BUFFER, THING_WEIGHT,
                                            THING_DEVICE};
    if (!work) return;
    for (size_t i = 0; i < work->n_things; i++)
        if (work->things[i] && work->things[i]->kind == THING_DEVICE) work_settle(work, (uint32_t)i + 1);
    for (size_t k = 0; k < sizeof order / sizeof *order; k++)
        for (size_t i = 0; i < work->n_things; i++)
            if (work->things[i] && work->things[i]->kind == order[k]) work_remove(work, (uint32_t)i + 1);
    free(work->coming_data);
    free(work->things);
    free(work);
}

/* ---- Messages ------------------------------------------------------------------------------------------ */

static int hello(struct work *work, struct reader *reader, struct bytes *answer)
{
    char version[64];
    const struct engine_service *service = work->service;
    uint32_t protocol = read_u32(reader), major = read_u32(reader), minor = read_u32(reader);
    read_text(reader, version, sizeof version);
    if (reader->failed) return work_malformed(work);
    (void)protocol, (void)major, (void)minor; /* rank 0 compares, and says what differs */
    bytes_add_u32(answer, PROTOCOL_VERSION);
    bytes_add_u32(answer, service->abi_major);
    bytes_add_u32(answer, service->abi_minor);
    bytes_add_text(answer, MPI_PLUGIN_VERSION);
    bytes_add_text(answer, work->host);
    bytes_add_u32(answer, ENGINE_HAS(service, reserved) && service->tensor != NULL);
    bytes_add_u32(answer, service->n_devices < PROTOCOL_DEVICES ? service->n_devices : PROTOCOL_DEVICES);
    for (uint32_t i = 0; i < service->n_devices && i < PROTOCOL_DEVICES; i++)
        bytes_add_text(answer, service->devices[i]->name);
    return ENGINE_OK;
}

static int echo(struct work *work, struct reader *reader, struct bytes *answer)
{
    (void)work, (void)answer;
    read_bytes(reader, reader->left);
    return ENGINE_OK;
}

static int info(struct work *work, struct reader *reader, struct bytes *answer)
{
    struct engine_device_info info = {.struct_size = sizeof info};
    uint32_t index = read_u32(reader);
    if (reader->failed || index >= work->service->n_devices) return work_malformed(work);
    const struct engine_served_device *device = work->service->devices[index];
    int status = work_failed(work, device->backend->device_info(device->index, &info));
    if (status) return status;
    info.description[sizeof info.description - 1] = '\0';
    info_add(answer, &info);
    return ENGINE_OK;
}

static work_command *const commands[] = {
    [COMMAND_HELLO] = hello,
    [COMMAND_ECHO] = echo,
    [COMMAND_INFO] = info,
    [COMMAND_OPEN] = work_open,
    [COMMAND_CLOSE] = work_close,
    [COMMAND_SUPPORTS] = work_supports,
    [COMMAND_OP_MEMORY] = work_op_memory,
    [COMMAND_WEIGHT_SIZE] = work_weight_size,
    [COMMAND_BUFFER_CREATE] = work_buffer_create,
    [COMMAND_WEIGHT_OFFER] = work_weight_offer,
    [COMMAND_WEIGHT_BEGIN] = work_weight_begin,
    [COMMAND_WEIGHT_DATA] = work_weight_data,
    [COMMAND_WEIGHT_END] = work_weight_end,
    [COMMAND_STREAM_CREATE] = work_stream_create,
    [COMMAND_DESTROY] = work_drop,
    [COMMAND_RECORD] = work_record,
    [COMMAND_PASS] = work_pass,
    [COMMAND_WAIT] = work_wait,
    [COMMAND_END] = NULL,
};

/* Does one command. `replies`: it is the last of a message that wants a reply. */
static int do_command(struct work *work, uint32_t command, struct reader *reader, bool replies,
                      struct bytes *answer)
{
    int status;
    work->text[0] = '\0';
    work->origin = 0;
    switch (command) {
    case COMMAND_SEND:
    case COMMAND_TAKE: status = work_with_peer(work, command, reader); break;
    case COMMAND_ENQUEUE:
    case COMMAND_WRITE:
    case COMMAND_READ:
    case COMMAND_COPY:
    case COMMAND_REPLAY: status = work_in_stream(work, command, reader, replies); break;
    default:
        if (command >= sizeof commands / sizeof *commands || !commands[command]) return work_malformed(work);
        status = commands[command](work, reader, answer);
    }
    return reader->left > 0 && !work->is_broken ? work_malformed(work) : status;
}

enum work_next work_do(struct work *work, const uint8_t *message, size_t size, struct bytes *reply)
{
    struct reader reader = {.at = message, .left = size};
    struct bytes answer = {0};
    bool begins = read_u32(&reader) == PROTOCOL_MAGIC;
    uint32_t wants_reply = read_u32(&reader);
    int status = begins && wants_reply <= 1 && !work->is_broken ? ENGINE_OK : work_malformed(work);
    while (reader.left > 0 && !work->is_broken) {
        uint32_t command = read_u32(&reader);
        struct reader part = read_part(&reader, read_u64(&reader));
        if (command == COMMAND_END && !part.failed) {
            bytes_free(&answer);
            return WORK_ENDS;
        }
        answer.size = 0;
        status = part.failed ? work_malformed(work)
                             : do_command(work, command, &part, wants_reply && reader.left == 0, &answer);
    }
    if (wants_reply != 1) {
        bytes_free(&answer);
        return WORK_CONTINUES;
    }
    if (!status && answer.failed) status = work_fail(work, ENGINE_ERROR_MEMORY, "out of memory (reply)");
    reply->size = 0;
    reply->failed = false;
    bytes_add_u32(reply, (uint32_t)status);
    bytes_add_u32(reply, status ? work->origin : 0);
    bytes_add_text(reply, status ? work->text : "");
    if (!status) bytes_add(reply, answer.data, answer.size);
    bytes_free(&answer);
    return WORK_REPLIES;
}

/* stream.c: streams and recordings. A stream fills one of a few primary command buffers, which is submitted
 * when it is flushed. A recording is a secondary command buffer that primaries execute: once for each
 * replay. */
#include <stdlib.h>
#include <string.h>

#include "common/array.h"
#include "common/assert.h"
#include "stream.h"
#include "times.h"

#define INLINE_SIZE   65536u /* writes up to here travel in the command buffer */
#define READBACK_SIZE (4u << 20)

/* The commands of a recording, in parts that are submitted one by one. */
struct engine_recording {
    struct commands *parts;
    uint32_t n_parts;
    int status; /* of the first part that has lost operations */
};

/* ---- Slots --------------------------------------------------------------------------------------------- */

static int create_commands(struct engine_device *device, VkCommandBufferLevel level,
                           struct commands *commands)
{
    VkCommandBufferAllocateInfo allocate = {.sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_ALLOCATE_INFO,
                                            .commandPool = device->command_pool,
                                            .level = level,
                                            .commandBufferCount = 1};
    commands->device = device;
    return vulkan_error(vk.vkAllocateCommandBuffers(device->handle, &allocate, &commands->handle),
                        "commands");
}

static int wait_slot(struct engine_stream *stream, struct slot *slot)
{
    if (!slot->pending) return ENGINE_OK;
    slot->pending = false;
    VkResult result = submission_wait(stream->device, &slot->submission);
    if (slot->number > stream->done) stream->done = slot->number; /* the queue keeps their order */
    return vulkan_error(result, "wait");
}

static int add_slot(struct engine_stream *stream)
{
    ENGINE_ASSERT(stream->n_slots < MAX_SLOTS);
    struct slot *slot = &stream->slots[stream->n_slots];
    VkFenceCreateInfo fence = {.sType = VK_STRUCTURE_TYPE_FENCE_CREATE_INFO};
    int status = vulkan_error(vk.vkCreateFence(stream->device->handle, &fence, NULL, &slot->submission.fence),
                              "stream");
    if (!status) status = create_commands(stream->device, VK_COMMAND_BUFFER_LEVEL_PRIMARY, &slot->commands);
    if (status)
        vk.vkDestroyFence(stream->device->handle, slot->submission.fence, NULL);
    else
        stream->n_slots++;
    return status;
}

static bool is_over(const struct engine_stream *stream, const struct slot *slot)
{
    return !slot->pending || submission_is_over(stream->device, &slot->submission);
}

/* Chooses a slot that is free, else a new one, else the one that was submitted first. */
static int choose_slot(struct engine_stream *stream)
{
    uint32_t first = 0;
    for (uint32_t i = 0; i < stream->n_slots; i++) {
        if (stream->slots[i].number < stream->slots[first].number) first = i;
        if (!is_over(stream, &stream->slots[i])) continue;
        stream->current = i;
        return ENGINE_OK;
    }
    stream->current = stream->n_slots < MAX_SLOTS ? stream->n_slots : first;
    return stream->current == stream->n_slots ? add_slot(stream) : ENGINE_OK;
}

int stream_open(struct engine_stream *stream, struct commands **commands)
{
    int status = stream->open ? ENGINE_OK : choose_slot(stream);
    if (status) return status;
    struct slot *slot = &stream->slots[stream->current];
    *commands = &slot->commands;
    if (stream->open) return ENGINE_OK;
    status = wait_slot(stream, slot);
    if (!status) status = commands_reset(&slot->commands);
    if (status) return status;
    VkCommandBufferBeginInfo begin = {.sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_BEGIN_INFO,
                                      .flags = VK_COMMAND_BUFFER_USAGE_ONE_TIME_SUBMIT_BIT};
    VkResult result = vk.vkBeginCommandBuffer(slot->commands.handle, &begin);
    if (result != VK_SUCCESS) return vulkan_error(result, "commands");
    slot->commands.bound = VK_NULL_HANDLE;
    slot->commands.seconds = 0;
    slot->submission.awaits = NULL;
    commands_barrier(&slot->commands, false);
    stream->open = true;
    return ENGINE_OK;
}

static bool is_idle(const struct engine_stream *stream)
{
    return !stream->open && !stream->running;
}

int stream_create(struct engine_device *device, struct engine_stream **out)
{
    struct engine_stream *stream = calloc(1, sizeof *stream);
    if (!stream) return vulkan_host->fail(ENGINE_ERROR_MEMORY, "out of memory (stream)");
    stream->device = device;
    int status = ENGINE_OK;
    while (stream->n_slots < SLOTS && !status) status = add_slot(stream);
    /* Done now rather than at the first read, so that a lack of memory shows while less can still be placed
     * on the device. */
    if (!status && !memory_is_seen(device, MEMORY_DEVICE))
        status = memory_allocate(device, MEMORY_STAGING, READBACK_SIZE, "readback", &stream->readback);
    if (status) {
        stream_destroy(stream);
        return status;
    }
    *out = stream;
    return ENGINE_OK;
}

void stream_destroy(struct engine_stream *stream)
{
    if (!stream) return;
    stream_wait(stream);
    recording_destroy(stream->recording);
    between_end(stream);
    for (uint32_t i = 0; i < stream->n_slots; i++) {
        struct slot *slot = &stream->slots[i];
        commands_destroy(&slot->commands);
        vk.vkDestroyFence(stream->device->handle, slot->submission.fence, NULL);
    }
    memory_free(stream->device, &stream->readback);
    free(stream);
}

/* ---- Running ------------------------------------------------------------------------------------------- */

int stream_flush(struct engine_stream *stream)
{
    if (!stream->open) return ENGINE_OK;
    struct slot *slot = &stream->slots[stream->current];
    ENGINE_ASSERT(!slot->pending); /* it was waited for before it was opened */
    commands_barrier(&slot->commands, true);
    stream->open = false;
    slot->submission.commands = slot->commands.handle;
    times_run(&slot->commands);
    VkResult result = vk.vkEndCommandBuffer(slot->commands.handle);
    if (result == VK_SUCCESS) result = submission_add(stream->device, &slot->submission);
    slot->pending = result == VK_SUCCESS;
    if (slot->pending) slot->number = ++stream->n_submitted;
    stream->running = stream->running || slot->pending;
    return vulkan_error(result, "submit");
}

int stream_wait(struct engine_stream *stream)
{
    int status = stream_flush(stream);
    for (uint32_t i = 0; i < stream->n_slots; i++) {
        int waited = wait_slot(stream, &stream->slots[i]);
        if (!status) status = waited;
    }
    stream->running = false;
    if (!status) status = between_status(stream);
    for (uint32_t i = 0; i < stream->n_reads && !status; i++) {
        const struct pending_read *read = &stream->reads[i];
        memcpy(read->target, memory_pointer(&stream->readback) + read->offset, read->size);
    }
    stream->n_reads = 0;
    stream->readback_used = 0;
    return status ? status : validation_status();
}

/* A lost device is done: the wait says so. */
int stream_done(struct engine_stream *stream, int *done)
{
    int status = stream_flush(stream);
    *done = 1;
    for (uint32_t i = 0; i < stream->n_slots && *done; i++) *done = is_over(stream, &stream->slots[i]);
    return status;
}

/* ---- Recordings ---------------------------------------------------------------------------------------- */

static int add_part(struct engine_device *device, struct engine_recording *recording)
{
    if (!ARRAY_GROW(recording->parts, recording->n_parts))
        return vulkan_host->fail(ENGINE_ERROR_MEMORY, "out of memory (recording)");
    struct commands *part = &recording->parts[recording->n_parts];
    *part = (struct commands){.defers = true};
    VkCommandBufferInheritanceInfo inheritance = {.sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_INHERITANCE_INFO};
    VkCommandBufferBeginInfo begin = {.sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_BEGIN_INFO,
                                      .flags = VK_COMMAND_BUFFER_USAGE_SIMULTANEOUS_USE_BIT,
                                      .pInheritanceInfo = &inheritance};
    int status = create_commands(device, VK_COMMAND_BUFFER_LEVEL_SECONDARY, part);
    if (!status) status = vulkan_error(vk.vkBeginCommandBuffer(part->handle, &begin), "recording");
    if (status)
        commands_destroy(part);
    else
        recording->n_parts++;
    return status;
}

/* The part to which the recording's next operation is added: a new one where the last one is as much as is
 * submitted at once. */
static int recording_part(struct engine_recording *recording, struct commands **part)
{
    struct commands *last = &recording->parts[recording->n_parts - 1];
    const VkCommandBuffer handle = last->handle; /* adding a part moves them */
    int status = ENGINE_OK;
    if (last->seconds > last->device->submission) {
        status = commands_settle(last);
        if (!status)
            status = add_part(last->device, recording); /* then the last part is the one that is open */
        if (!status) status = vulkan_error(vk.vkEndCommandBuffer(handle), "recording");
        if (!recording->status) recording->status = status;
    }
    *part = &recording->parts[recording->n_parts - 1];
    return status;
}

int stream_record_begin(struct engine_stream *stream)
{
    if (stream->recording) return vulkan_host->fail(ENGINE_ERROR_ARGUMENT, "the stream is already recording");
    struct engine_recording *recording = calloc(1, sizeof *recording);
    if (!recording) return vulkan_host->fail(ENGINE_ERROR_MEMORY, "out of memory (recording)");
    int status = add_part(stream->device, recording);
    if (status) {
        recording_destroy(recording);
        return status;
    }
    stream->recording = recording;
    return ENGINE_OK;
}

int stream_record_end(struct engine_stream *stream, struct engine_recording **out)
{
    struct engine_recording *recording = stream->recording;
    if (!recording) return vulkan_host->fail(ENGINE_ERROR_ARGUMENT, "the stream is not recording");
    struct commands *last = &recording->parts[recording->n_parts - 1];
    stream->recording = NULL;
    int status = commands_settle(last);
    if (!status) status = vulkan_error(vk.vkEndCommandBuffer(last->handle), "recording");
    if (!status && recording->status)
        status = vulkan_host->fail(recording->status, "the recording has lost operations");
    if (status) {
        recording_destroy(recording);
        return status;
    }
    *out = recording;
    return ENGINE_OK;
}

/* The last replay's times, before the next one writes over them. */
static int take_times(struct engine_stream *stream, struct commands *part)
{
    if (!times_are_due(part)) return ENGINE_OK;
    int status = stream_flush(stream);
    device_wait_idle(stream->device);
    times_take(part);
    return status;
}

int stream_replay(struct engine_stream *stream, struct engine_recording *recording)
{
    struct commands *commands;
    int status = ENGINE_OK;
    if (stream->recording)
        return vulkan_host->fail(ENGINE_ERROR_ARGUMENT, "replay: not allowed while recording");
    if (recording->parts[0].device != stream->device)
        return vulkan_host->fail(ENGINE_ERROR_ARGUMENT, "replay: the recording belongs to another device");
    for (uint32_t i = 0; i < recording->n_parts; i++) {
        struct commands *part = &recording->parts[i];
        status = take_times(stream, part);
        if (!status) status = stream_open(stream, &commands);
        if (!status && commands->seconds > 0 &&
            commands->seconds + part->seconds > stream->device->submission) {
            status = stream_flush(stream);
            if (!status) status = stream_open(stream, &commands);
        }
        if (status) return status;
        commands_barrier(commands, false);
        times_run(part);
        vk.vkCmdExecuteCommands(commands->handle, 1, &part->handle);
        commands_barrier(commands, false);
        commands->bound = VK_NULL_HANDLE; /* state doesn't outlast the secondary buffer */
        commands->seconds += part->seconds;
    }
    return status;
}

void recording_destroy(struct engine_recording *recording)
{
    if (!recording) return;
    for (uint32_t i = 0; i < recording->n_parts; i++) commands_destroy(&recording->parts[i]);
    free(recording->parts);
    free(recording);
}

/* ---- Operations ---------------------------------------------------------------------------------------- */

int stream_enqueue(struct engine_stream *stream, uint32_t op, const void *args)
{
    struct commands *commands;
    int status =
        stream->recording ? recording_part(stream->recording, &commands) : stream_open(stream, &commands);
    if (!status) status = op_append(stream->device, commands, op, args);
    bool is_enough = !status && !stream->recording && commands->seconds > stream->device->submission;
    return is_enough ? stream_flush(stream) : status;
}

/* ---- Transfers ----------------------------------------------------------------------------------------- */

int stream_check_range(const struct engine_stream *stream, const struct engine_buffer *buffer,
                       uint64_t offset, uint64_t size, const char *what)
{
    if (stream->recording)
        return vulkan_host->fail(ENGINE_ERROR_ARGUMENT, "%s: not allowed while recording", what);
    if (!buffer || buffer->base.device != stream->device)
        return vulkan_host->fail(ENGINE_ERROR_ARGUMENT, "%s: the buffer belongs to another device", what);
    if (offset > buffer->base.size || size > buffer->base.size - offset)
        return vulkan_host->fail(ENGINE_ERROR_ARGUMENT, "%s: the range extends beyond the end of the buffer",
                                 what);
    return ENGINE_OK;
}

int stream_write(struct engine_stream *stream, struct engine_buffer *buffer, uint64_t offset,
                 const void *source, uint64_t size)
{
    struct commands *commands;
    int status = stream_check_range(stream, buffer, offset, size, "write");
    if (status || size == 0) return status;
    uint8_t *mapped = memory_pointer(&buffer->range);
    bool fits_inline = size <= INLINE_SIZE && size % 4 == 0 && offset % 4 == 0;
    if (mapped && (!fits_inline || is_idle(stream))) {
        if (!is_idle(stream)) status = stream_wait(stream);
        if (!status) memcpy(mapped + offset, source, size);
        return status;
    }
    if (!fits_inline) { /* reads of it go through the queue, too */
        status = stream_flush(stream);
        return status ? status : upload_bytes(stream->device, &buffer->range, offset, source, size);
    }
    status = stream_open(stream, &commands);
    if (status) return status;
    commands_barrier(commands, false);
    vk.vkCmdUpdateBuffer(commands->handle, memory_buffer(&buffer->range), buffer->range.offset + offset, size,
                         source);
    commands_barrier(commands, false);
    return ENGINE_OK;
}

/* Puts up to READBACK_SIZE bytes on their way. */
static int read_part(struct engine_stream *stream, struct engine_buffer *buffer, uint64_t offset,
                     void *target, uint64_t size)
{
    struct commands *commands;
    int status = ENGINE_OK;
    if (stream->n_reads == MAX_READS || size > READBACK_SIZE - stream->readback_used)
        status = stream_wait(stream);
    if (!status) status = stream_open(stream, &commands);
    if (status) return status;
    commands_barrier(commands, false);
    VkBufferCopy copy = {buffer->range.offset + offset, stream->readback.offset + stream->readback_used,
                         size};
    vk.vkCmdCopyBuffer(commands->handle, memory_buffer(&buffer->range), memory_buffer(&stream->readback), 1,
                       &copy);
    ENGINE_ASSERT(stream->n_reads < MAX_READS);
    ENGINE_ASSERT(size <= READBACK_SIZE - stream->readback_used);
    stream->reads[stream->n_reads++] = (struct pending_read){target, stream->readback_used, size};
    stream->readback_used += size;
    return ENGINE_OK;
}

int stream_read(struct engine_stream *stream, struct engine_buffer *buffer, uint64_t offset, void *target,
                uint64_t size)
{
    int status = stream_check_range(stream, buffer, offset, size, "read");
    const uint8_t *mapped = memory_pointer(&buffer->range);
    if (status || size == 0) return status;
    if (mapped) {
        status = stream_wait(stream);
        if (!status) memcpy(target, mapped + offset, size);
        return status;
    }
    for (uint64_t done = 0; done < size && !status; done += READBACK_SIZE)
        status = read_part(stream, buffer, offset + done, (uint8_t *)target + done,
                           size - done < READBACK_SIZE ? size - done : READBACK_SIZE);
    return status;
}

int stream_copy(struct engine_stream *stream, struct engine_buffer *target, uint64_t target_offset,
                struct engine_buffer *source, uint64_t source_offset, uint64_t size)
{
    struct commands *commands;
    int status = stream_check_range(stream, target, target_offset, size, "copy");
    if (!status) status = stream_check_range(stream, source, source_offset, size, "copy");
    if (status || size == 0) return status;
    status = stream_open(stream, &commands);
    if (status) return status;
    commands_barrier(commands, false);
    VkBufferCopy copy = {source->range.offset + source_offset, target->range.offset + target_offset, size};
    vk.vkCmdCopyBuffer(commands->handle, memory_buffer(&source->range), memory_buffer(&target->range), 1,
                       &copy);
    commands_barrier(commands, false);
    return ENGINE_OK;
}

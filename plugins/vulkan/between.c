/* between.c: copies from one device to another. No memory belongs to both, so the bytes go through host
 * memory of each: a command of the source's stream puts them into an outlet, a thread of that stream, the
 * carrier, takes them from there to an inlet of the target's stream, whose commands for them are held back
 * until then (submit.c). The caller waits for nobody. A carrier takes things in the order of their
 * submission, and nothing waits for what comes later, so all of them come to an end.
 *
 * An outlet belongs to the source's stream and an inlet to the target's, whose devices may be used by
 * different threads. What the carrier shares with these is guarded by the lock of the device that it belongs
 * to. */
#include <stdlib.h>
#include <string.h>

#include "common/assert.h"
#include "common/lock.h"
#include "stream.h"

struct inlet {
    struct inlet *next;
    struct memory_range range;
    uint64_t emptied; /* by this submission of its stream */
    /* Under the lock. */
    bool awaits;     /* a carrier has yet to come */
    VkResult result; /* the first error of one that has */
};

/* A place for bytes that leave, and what to do with them. */
struct outlet {
    struct outlet *next;
    struct memory_range range;
    struct submission filled; /* behind that of the bytes */
    uint64_t size;
    struct engine_device *target;
    struct inlet *inlet;
    uint64_t number; /* of the passage, in the order of submission; under the lock */
};

struct carrier {
    struct engine_device *device;
    pthread_t thread;
    /* Under the lock. */
    struct outlet *outlets;
    uint64_t n_sent, n_carried; /* passages */
    bool ends;                  /* as soon as all are carried */
};

/* ---- The carrier --------------------------------------------------------------------------------------- */

/* Whatever happens, the target goes on: it fails when it is waited for. */
static void carry(struct engine_device *source, struct outlet *outlet)
{
    struct engine_device *target = outlet->target;
    struct inlet *inlet = outlet->inlet;
    const VkResult result = submission_wait(source, &outlet->filled);
    if (result == VK_SUCCESS)
        memcpy(memory_pointer(&inlet->range), memory_pointer(&outlet->range), (size_t)outlet->size);
    pthread_mutex_lock(&target->lock);
    if (inlet->result == VK_SUCCESS) inlet->result = result;
    inlet->awaits = false;
    submission_go_on(target);
    pthread_mutex_unlock(&target->lock);
}

/* Under the lock: the outlet of the passage that is to be carried next. */
static struct outlet *next_outlet(const struct carrier *carrier)
{
    struct outlet *outlet = carrier->outlets;
    ENGINE_ASSERT(lock_is_mine(&carrier->device->lock));
    ENGINE_ASSERT(carrier->n_carried < carrier->n_sent);
    while (outlet && outlet->number != carrier->n_carried + 1) outlet = outlet->next;
    ENGINE_ASSERT(outlet);
    return outlet;
}

static void *carrier_main(void *argument)
{
    struct carrier *carrier = argument;
    struct engine_device *device = carrier->device;
    pthread_mutex_lock(&device->lock);
    for (;;) {
        while (carrier->n_carried == carrier->n_sent && !carrier->ends)
            pthread_cond_wait(&device->changed, &device->lock);
        if (carrier->n_carried == carrier->n_sent) break;
        struct outlet *outlet = next_outlet(carrier);
        pthread_mutex_unlock(&device->lock);
        carry(device, outlet);
        pthread_mutex_lock(&device->lock);
        carrier->n_carried++;
    }
    pthread_mutex_unlock(&device->lock);
    return NULL;
}

static int need_carrier(struct engine_stream *stream)
{
    if (stream->carrier) return ENGINE_OK;
    struct carrier *carrier = calloc(1, sizeof *carrier);
    if (!carrier) return vulkan_host->fail(ENGINE_ERROR_MEMORY, "out of memory (copy to another device)");
    carrier->device = stream->device;
    if (pthread_create(&carrier->thread, NULL, carrier_main, carrier) != 0) {
        free(carrier);
        return vulkan_host->fail(ENGINE_ERROR_MEMORY, "no thread can be started (copy to another device)");
    }
    stream->carrier = carrier;
    return ENGINE_OK;
}

/* ---- Outlets and inlets -------------------------------------------------------------------------------- */

/* At least `size` bytes that the host sees. */
static int need_range(struct engine_device *device, uint64_t size, struct memory_range *range)
{
    if (range->block && range->size >= size) return ENGINE_OK;
    memory_free(device, range);
    return memory_allocate(device, MEMORY_STAGING, size, "copy between devices", range);
}

static int create_outlet(struct engine_stream *stream, struct outlet **out)
{
    struct engine_device *device = stream->device;
    const VkFenceCreateInfo fence = {.sType = VK_STRUCTURE_TYPE_FENCE_CREATE_INFO};
    struct outlet *outlet = calloc(1, sizeof *outlet);
    if (!outlet) return vulkan_host->fail(ENGINE_ERROR_MEMORY, "out of memory (copy to another device)");
    VkResult result = vk.vkCreateFence(device->handle, &fence, NULL, &outlet->filled.fence);
    if (result != VK_SUCCESS) {
        free(outlet);
        return vulkan_error(result, "copy to another device");
    }
    pthread_mutex_lock(&device->lock);
    outlet->next = stream->carrier->outlets;
    stream->carrier->outlets = outlet;
    pthread_mutex_unlock(&device->lock);
    *out = outlet;
    return ENGINE_OK;
}

/* Under the lock: an outlet whose bytes have been carried, or NULL. */
static struct outlet *find_outlet(const struct carrier *carrier)
{
    struct outlet *outlet = carrier->outlets;
    ENGINE_ASSERT(lock_is_mine(&carrier->device->lock));
    while (outlet && outlet->number > carrier->n_carried) outlet = outlet->next;
    return outlet;
}

/* An outlet whose bytes have been carried, or a new one. */
static int need_outlet(struct engine_stream *stream, uint64_t size, struct outlet **out)
{
    const struct carrier *carrier = stream->carrier;
    struct engine_device *device = stream->device;
    pthread_mutex_lock(&device->lock);
    struct outlet *outlet = find_outlet(carrier);
    pthread_mutex_unlock(&device->lock);
    int status = outlet ? ENGINE_OK : create_outlet(stream, &outlet);
    *out = outlet;
    return status ? status : need_range(device, size, &outlet->range);
}

/* Under the lock: an inlet that is empty, or NULL. */
static struct inlet *find_inlet(const struct engine_stream *stream)
{
    struct inlet *inlet = stream->inlets;
    ENGINE_ASSERT(lock_is_mine(&stream->device->lock));
    while (inlet && (inlet->awaits || inlet->emptied > stream->done)) inlet = inlet->next;
    return inlet;
}

/* An inlet that is empty, or a new one. */
static int need_inlet(struct engine_stream *stream, uint64_t size, struct inlet **out)
{
    struct engine_device *device = stream->device;
    pthread_mutex_lock(&device->lock);
    struct inlet *inlet = find_inlet(stream);
    pthread_mutex_unlock(&device->lock);
    *out = inlet;
    if (inlet) return need_range(device, size, &inlet->range);
    *out = inlet = calloc(1, sizeof *inlet);
    if (!inlet) return vulkan_host->fail(ENGINE_ERROR_MEMORY, "out of memory (copy from another device)");
    inlet->next = stream->inlets;
    stream->inlets = inlet;
    return need_range(device, size, &inlet->range);
}

int between_status(struct engine_stream *stream)
{
    VkResult first = VK_SUCCESS;
    pthread_mutex_lock(&stream->device->lock);
    for (struct inlet *inlet = stream->inlets; inlet; inlet = inlet->next) {
        if (first == VK_SUCCESS) first = inlet->result;
        inlet->result = VK_SUCCESS;
    }
    pthread_mutex_unlock(&stream->device->lock);
    return vulkan_error(first, "copy from another device");
}

static void end_carrier(struct engine_device *device, struct carrier *carrier)
{
    pthread_mutex_lock(&device->lock);
    carrier->ends = true;
    pthread_cond_broadcast(&device->changed);
    pthread_mutex_unlock(&device->lock);
    pthread_join(carrier->thread, NULL);
    for (struct outlet *next, *outlet = carrier->outlets; outlet; outlet = next) {
        next = outlet->next;
        memory_free(device, &outlet->range);
        vk.vkDestroyFence(device->handle, outlet->filled.fence, NULL);
        free(outlet);
    }
    free(carrier);
}

void between_end(struct engine_stream *stream)
{
    struct engine_device *device = stream->device;
    if (stream->carrier) end_carrier(device, stream->carrier);
    for (struct inlet *next, *inlet = stream->inlets; inlet; inlet = next) {
        next = inlet->next;
        pthread_mutex_lock(&device->lock);
        while (inlet->awaits) pthread_cond_wait(&device->changed, &device->lock);
        pthread_mutex_unlock(&device->lock);
        memory_free(device, &inlet->range);
        free(inlet);
    }
}

/* ---- The copy ------------------------------------------------------------------------------------------ */

static void add_copy(struct commands *commands, const struct memory_range *from, uint64_t from_offset,
                     const struct memory_range *to, uint64_t to_offset, uint64_t size)
{
    const VkBufferCopy copy = {from->offset + from_offset, to->offset + to_offset, size};
    commands_barrier(commands, false);
    vk.vkCmdCopyBuffer(commands->handle, memory_buffer(from), memory_buffer(to), 1, &copy);
    commands_barrier(commands, false);
}

/* Submits the source's part, and tells the carrier. */
static int send(struct engine_stream *source, const struct engine_buffer *from, uint64_t from_offset,
                struct outlet *outlet)
{
    struct engine_device *device = source->device, *target = outlet->target;
    struct carrier *carrier = source->carrier;
    struct commands *commands;
    int status = stream_open(source, &commands);
    if (status) return status;
    add_copy(commands, &from->range, from_offset, &outlet->range, 0, outlet->size);
    status = stream_flush(source);
    if (!status) status = vulkan_error(submission_add(device, &outlet->filled), "copy to another device");
    if (status) return status;
    pthread_mutex_lock(&target->lock);
    outlet->inlet->awaits = true;
    pthread_mutex_unlock(&target->lock);
    pthread_mutex_lock(&device->lock);
    outlet->number = ++carrier->n_sent;
    pthread_cond_broadcast(&device->changed);
    pthread_mutex_unlock(&device->lock);
    return ENGINE_OK;
}

/* Adds the target's part, which begins a submission, so that nothing before it waits. */
static int between_receive(struct engine_stream *target, const struct engine_buffer *to, uint64_t to_offset,
                           struct inlet *inlet, uint64_t size)
{
    struct commands *commands;
    int status = stream_open(target, &commands);
    if (status) return status;
    target->slots[target->current].submission.awaits = &inlet->awaits;
    inlet->emptied = target->n_submitted + 1;
    add_copy(commands, &inlet->range, 0, &to->range, to_offset, size);
    return ENGINE_OK;
}

/* Both go through the device's one queue. */
static int copy_within(struct engine_stream *source, struct engine_buffer *from, uint64_t from_offset,
                       struct engine_stream *target, struct engine_buffer *to, uint64_t to_offset,
                       uint64_t size)
{
    int status = source == target ? ENGINE_OK : stream_flush(source);
    if (!status) status = stream_copy(target, to, to_offset, from, from_offset, size);
    return status || source == target ? status : stream_flush(target);
}

int stream_copy_between(struct engine_stream *source, struct engine_buffer *from, uint64_t from_offset,
                        struct engine_stream *target, struct engine_buffer *to, uint64_t to_offset,
                        uint64_t size)
{
    struct outlet *outlet = NULL;
    struct inlet *inlet = NULL;
    int status = stream_check_range(source, from, from_offset, size, "copy");
    if (!status) status = stream_check_range(target, to, to_offset, size, "copy");
    if (status || size == 0) return status;
    if (source->device == target->device)
        return copy_within(source, from, from_offset, target, to, to_offset, size);
    status = stream_flush(target);
    if (!status) status = need_carrier(source);
    if (!status) status = need_outlet(source, size, &outlet);
    if (!status) status = need_inlet(target, size, &inlet);
    if (status) return status;
    outlet->size = size;
    outlet->target = target->device;
    outlet->inlet = inlet;
    status = send(source, from, from_offset, outlet);
    return status ? status : between_receive(target, to, to_offset, inlet, size);
}

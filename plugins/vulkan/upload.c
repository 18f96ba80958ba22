/* upload.c: transfers from the host outside of streams, through a ring of staging buffers of fixed size, or
 * directly into memory that the host can access. */
#include <string.h>

#include "device.h"

int upload_setup(struct engine_device *device)
{
    for (int i = 0; i < UPLOAD_SLOTS; i++) {
        struct upload_slot *slot = &device->uploads[i];
        VkFenceCreateInfo fence = {.sType = VK_STRUCTURE_TYPE_FENCE_CREATE_INFO};
        VkCommandBufferAllocateInfo commands = {.sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_ALLOCATE_INFO,
                                                .commandPool = device->command_pool,
                                                .level = VK_COMMAND_BUFFER_LEVEL_PRIMARY,
                                                .commandBufferCount = 1};
        VkResult result = vk.vkCreateFence(device->handle, &fence, NULL, &slot->submission.fence);
        if (result == VK_SUCCESS)
            result = vk.vkAllocateCommandBuffers(device->handle, &commands, &slot->submission.commands);
        if (result != VK_SUCCESS) return vulkan_error(result, "uploads");
    }
    return ENGINE_OK;
}

static int wait_for(struct engine_device *device, struct upload_slot *slot)
{
    if (!slot->pending) return ENGINE_OK;
    slot->pending = false;
    return vulkan_error(submission_wait(device, &slot->submission), "upload");
}

void upload_teardown(struct engine_device *device)
{
    for (int i = 0; i < UPLOAD_SLOTS; i++) {
        struct upload_slot *slot = &device->uploads[i];
        wait_for(device, slot);
        vk.vkDestroyFence(device->handle, slot->submission.fence, NULL);
        memory_free(device, &slot->staging);
    }
}

int upload_begin(struct engine_device *device, struct upload_slot **slot)
{
    struct upload_slot *next = &device->uploads[device->next_upload++ % UPLOAD_SLOTS];
    int status = wait_for(device, next);
    if (!status && !next->staging.block)
        status = memory_allocate(device, MEMORY_STAGING, UPLOAD_SIZE, "uploads", &next->staging);
    *slot = next;
    return status;
}

/* A barrier between everything before and everything after. */
static void barrier(VkCommandBuffer commands)
{
    VkMemoryBarrier all = {.sType = VK_STRUCTURE_TYPE_MEMORY_BARRIER,
                           .srcAccessMask = VK_ACCESS_MEMORY_WRITE_BIT,
                           .dstAccessMask = VK_ACCESS_MEMORY_READ_BIT | VK_ACCESS_MEMORY_WRITE_BIT};
    vk.vkCmdPipelineBarrier(commands, VK_PIPELINE_STAGE_ALL_COMMANDS_BIT, VK_PIPELINE_STAGE_ALL_COMMANDS_BIT,
                            0, 1, &all, 0, NULL, 0, NULL);
}

static VkResult upload_begin_slot(struct upload_slot *slot)
{
    VkCommandBufferBeginInfo info = {.sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_BEGIN_INFO,
                                     .flags = VK_COMMAND_BUFFER_USAGE_ONE_TIME_SUBMIT_BIT};
    VkResult result = vk.vkBeginCommandBuffer(slot->submission.commands, &info);
    if (result == VK_SUCCESS) barrier(slot->submission.commands);
    return result;
}

static int upload_submit_slot(struct engine_device *device, struct upload_slot *slot)
{
    VkResult result = vk.vkEndCommandBuffer(slot->submission.commands);
    if (result == VK_SUCCESS) result = submission_add(device, &slot->submission);
    slot->pending = result == VK_SUCCESS;
    return vulkan_error(result, "upload");
}

int upload_submit(struct engine_device *device, struct upload_slot *slot, const struct memory_range *target,
                  uint64_t offset, uint64_t size)
{
    VkResult result = upload_begin_slot(slot);
    if (result != VK_SUCCESS) return vulkan_error(result, "upload");
    VkBufferCopy copy = {slot->staging.offset, target->offset + offset, size};
    vk.vkCmdCopyBuffer(slot->submission.commands, memory_buffer(&slot->staging), memory_buffer(target), 1,
                       &copy);
    return upload_submit_slot(device, slot);
}

int upload_bytes(struct engine_device *device, const struct memory_range *target, uint64_t offset,
                 const void *source, uint64_t size)
{
    const uint8_t *bytes = source;
    while (size > 0) {
        struct upload_slot *slot;
        uint64_t part = size < UPLOAD_SIZE ? size : UPLOAD_SIZE;
        int status = upload_begin(device, &slot);
        if (status) return status;
        memcpy(memory_pointer(&slot->staging), bytes, part);
        status = upload_submit(device, slot, target, offset, part);
        if (status) return status;
        bytes += part;
        offset += part;
        size -= part;
    }
    return ENGINE_OK;
}

int upload_zeros(struct engine_device *device, const struct memory_range *target)
{
    uint8_t *mapped = memory_pointer(target);
    if (mapped) {
        memset(mapped, 0, target->size);
        return ENGINE_OK;
    }
    struct upload_slot *slot = &device->uploads[device->next_upload++ % UPLOAD_SLOTS];
    int status = wait_for(device, slot);
    if (status) return status;
    VkResult result = upload_begin_slot(slot);
    if (result != VK_SUCCESS) return vulkan_error(result, "buffer");
    vk.vkCmdFillBuffer(slot->submission.commands, memory_buffer(target), target->offset, target->size, 0);
    return upload_submit_slot(device, slot);
}

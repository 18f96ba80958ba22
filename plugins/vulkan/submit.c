/* submit.c: a device's queue. Submissions reach it in the order in which they come. One that waits for bytes
 * of another device is held back until these are here, and so are those behind it; the carrier that brings
 * them (between.c) then submits them all. */
#include "common/assert.h"
#include "common/lock.h"
#include "device.h"

static void submit(struct engine_device *device, struct submission *submission)
{
    const VkSubmitInfo info = {.sType = VK_STRUCTURE_TYPE_SUBMIT_INFO,
                               .commandBufferCount = 1,
                               .pCommandBuffers = &submission->commands};
    ENGINE_ASSERT(lock_is_mine(&device->lock)); /* a queue is used by one thread at a time */
    submission->result =
        vk.vkQueueSubmit(device->queue, submission->commands ? 1 : 0, &info, submission->fence);
    submission->is_held = false;
}

static bool may_go(const struct submission *submission)
{
    return !submission->awaits || !*submission->awaits;
}

int submission_setup(struct engine_device *device)
{
    if (lock_init(&device->lock) != 0) return vulkan_host->fail(ENGINE_ERROR_MEMORY, "out of memory (queue)");
    if (pthread_cond_init(&device->changed, NULL) != 0) {
        pthread_mutex_destroy(&device->lock);
        return vulkan_host->fail(ENGINE_ERROR_MEMORY, "out of memory (queue)");
    }
    device->last_held = &device->held;
    return ENGINE_OK;
}

void submission_teardown(struct engine_device *device)
{
    if (!device->last_held) return;
    pthread_cond_destroy(&device->changed);
    pthread_mutex_destroy(&device->lock);
}

VkResult submission_add(struct engine_device *device, struct submission *submission)
{
    pthread_mutex_lock(&device->lock);
    if (!device->held && may_go(submission)) {
        submit(device, submission);
    } else {
        submission->result = VK_SUCCESS;
        submission->is_held = true;
        submission->next = NULL;
        *device->last_held = submission;
        device->last_held = &submission->next;
    }
    const VkResult result = submission->result;
    pthread_mutex_unlock(&device->lock);
    return result;
}

void submission_go_on(struct engine_device *device)
{
    ENGINE_ASSERT(lock_is_mine(&device->lock));
    while (device->held && may_go(device->held)) {
        struct submission *submission = device->held;
        device->held = submission->next;
        submit(device, submission);
    }
    if (!device->held) device->last_held = &device->held;
    pthread_cond_broadcast(&device->changed);
}

/* Waits until it has been submitted. */
static VkResult wait_for_queue(struct engine_device *device, const struct submission *submission)
{
    pthread_mutex_lock(&device->lock);
    while (submission->is_held) pthread_cond_wait(&device->changed, &device->lock);
    const VkResult result = submission->result;
    pthread_mutex_unlock(&device->lock);
    return result;
}

VkResult submission_wait(struct engine_device *device, struct submission *submission)
{
    VkResult result = wait_for_queue(device, submission);
    if (result == VK_SUCCESS)
        result = vk.vkWaitForFences(device->handle, 1, &submission->fence, VK_TRUE, UINT64_MAX);
    return result == VK_SUCCESS ? vk.vkResetFences(device->handle, 1, &submission->fence) : result;
}

bool submission_is_over(struct engine_device *device, const struct submission *submission)
{
    pthread_mutex_lock(&device->lock);
    const bool is_held = submission->is_held;
    const VkResult result = submission->result;
    pthread_mutex_unlock(&device->lock);
    if (is_held) return false;
    return result != VK_SUCCESS || vk.vkGetFenceStatus(device->handle, submission->fence) != VK_NOT_READY;
}

void device_wait_idle(struct engine_device *device)
{
    pthread_mutex_lock(&device->lock);
    while (device->held) pthread_cond_wait(&device->changed, &device->lock);
    vk.vkDeviceWaitIdle(device->handle);
    pthread_mutex_unlock(&device->lock);
}

/* commands.c: see commands.h. */
#include "commands.h"

#include <stdlib.h>
#include <string.h>

#include "common/array.h"
#include "common/assert.h"
#include "times.h"

#define SETS_PER_POOL 64

struct descriptor_pool {
    struct descriptor_pool *next;
    VkDescriptorPool handle;
    uint32_t used;
};

/* ---- Descriptor sets ----------------------------------------------------------------------------------- */

static int add_pool(struct commands *commands)
{
    struct descriptor_pool *pool = calloc(1, sizeof *pool);
    if (!pool) return vulkan_host->fail(ENGINE_ERROR_MEMORY, "out of memory (descriptors)");
    VkDescriptorPoolSize size = {VK_DESCRIPTOR_TYPE_STORAGE_BUFFER, SETS_PER_POOL * MAX_BINDINGS};
    VkDescriptorPoolCreateInfo create = {.sType = VK_STRUCTURE_TYPE_DESCRIPTOR_POOL_CREATE_INFO,
                                         .maxSets = SETS_PER_POOL,
                                         .poolSizeCount = 1,
                                         .pPoolSizes = &size};
    VkResult result = vk.vkCreateDescriptorPool(commands->device->handle, &create, NULL, &pool->handle);
    if (result != VK_SUCCESS) {
        free(pool);
        return vulkan_error(result, "descriptors");
    }
    pool->next = commands->pools;
    commands->pools = pool;
    return ENGINE_OK;
}

static void drop_pool(struct commands *commands)
{
    struct descriptor_pool *pool = commands->pools;
    commands->pools = pool->next;
    vk.vkDestroyDescriptorPool(commands->device->handle, pool->handle, NULL);
    free(pool);
}

int commands_reset(struct commands *commands)
{
    times_take(commands);
    times_reset(commands);
    while (commands->pools && commands->pools->next) drop_pool(commands);
    if (!commands->pools) return ENGINE_OK;
    commands->pools->used = 0;
    return vulkan_error(vk.vkResetDescriptorPool(commands->device->handle, commands->pools->handle, 0),
                        "descriptors");
}

void commands_destroy(struct commands *commands)
{
    times_take(commands);
    times_drop(commands);
    free(commands->waiting);
    commands->waiting = NULL;
    while (commands->pools) drop_pool(commands);
    if (commands->handle)
        vk.vkFreeCommandBuffers(commands->device->handle, commands->device->command_pool, 1,
                                &commands->handle);
    commands->handle = VK_NULL_HANDLE;
}

/* A set with the dispatch's buffers; bindings that it doesn't use get the first one's. */
static int make_set(struct commands *commands, const struct dispatch *dispatch, VkDescriptorSet *set)
{
    if (!commands->pools || commands->pools->used == SETS_PER_POOL) {
        int status = add_pool(commands);
        if (status) return status;
    }
    VkDescriptorSetAllocateInfo allocate = {.sType = VK_STRUCTURE_TYPE_DESCRIPTOR_SET_ALLOCATE_INFO,
                                            .descriptorPool = commands->pools->handle,
                                            .descriptorSetCount = 1,
                                            .pSetLayouts = &commands->device->set_layout};
    VkResult result = vk.vkAllocateDescriptorSets(commands->device->handle, &allocate, set);
    if (result != VK_SUCCESS) return vulkan_error(result, "descriptors");
    commands->pools->used++;
    VkDescriptorBufferInfo buffers[MAX_BINDINGS];
    for (int i = 0; i < MAX_BINDINGS; i++) {
        const struct binding *binding = &dispatch->bindings[dispatch->bindings[i].buffer ? i : 0];
        buffers[i] = (VkDescriptorBufferInfo){binding->buffer, binding->offset, binding->size};
    }
    VkWriteDescriptorSet write = {.sType = VK_STRUCTURE_TYPE_WRITE_DESCRIPTOR_SET,
                                  .dstSet = *set,
                                  .descriptorCount = MAX_BINDINGS,
                                  .descriptorType = VK_DESCRIPTOR_TYPE_STORAGE_BUFFER,
                                  .pBufferInfo = buffers};
    vk.vkUpdateDescriptorSets(commands->device->handle, 1, &write, 0, NULL);
    return ENGINE_OK;
}

/* ---- Barriers ------------------------------------------------------------------------------------------ */

void commands_barrier(struct commands *commands, bool host)
{
    VkMemoryBarrier all = {.sType = VK_STRUCTURE_TYPE_MEMORY_BARRIER,
                           .srcAccessMask = VK_ACCESS_MEMORY_WRITE_BIT,
                           .dstAccessMask = VK_ACCESS_MEMORY_READ_BIT | VK_ACCESS_MEMORY_WRITE_BIT};
    VkPipelineStageFlags stages = VK_PIPELINE_STAGE_ALL_COMMANDS_BIT;
    vk.vkCmdPipelineBarrier(commands->handle, stages, host ? stages | VK_PIPELINE_STAGE_HOST_BIT : stages, 0,
                            1, &all, 0, NULL, 0, NULL);
    commands->n_touched = 0;
    commands->kept.is_kept = false; /* transfers write without dispatches */
}

static bool overlap(const struct binding *a, const struct binding *b)
{
    return a->buffer == b->buffer && a->offset < b->offset + b->size && b->offset < a->offset + a->size;
}

/* Forgets the dispatch that is kept if this one overwrites what it read or wrote. */
static void forget_kept(struct commands *commands, const struct dispatch *dispatch)
{
    struct kept_dispatch *kept = &commands->kept;
    for (int i = 0; i < MAX_BINDINGS && kept->is_kept; i++) {
        const struct binding *binding = &dispatch->bindings[i];
        if (binding->buffer && binding->access & ACCESS_WRITE)
            kept->is_kept = !overlap(binding, &kept->dispatch.bindings[0]) &&
                            !overlap(binding, &kept->dispatch.bindings[1]);
    }
}

static bool conflicts(const struct commands *commands, const struct binding *binding)
{
    for (uint32_t i = 0; i < commands->n_touched; i++) {
        const struct touched *touched = &commands->touched[i];
        if (touched->buffer == binding->buffer && binding->offset < touched->end &&
            touched->start < binding->offset + binding->size &&
            (touched->access | binding->access) & ACCESS_WRITE)
            return true;
    }
    return false;
}

static bool is_tracked(const struct binding *binding)
{
    return binding->buffer && !(binding->access & ACCESS_CONSTANT);
}

/* A barrier where the dispatch reads what was written or writes what was touched since the last one. */
static void order(struct commands *commands, const struct dispatch *dispatch)
{
    bool needed = commands->n_touched + MAX_BINDINGS > MAX_TOUCHED;
    for (int i = 0; i < MAX_BINDINGS && !needed; i++)
        needed = is_tracked(&dispatch->bindings[i]) && conflicts(commands, &dispatch->bindings[i]);
    if (needed) {
        times_barrier(commands);
        VkMemoryBarrier shaders = {.sType = VK_STRUCTURE_TYPE_MEMORY_BARRIER,
                                   .srcAccessMask = VK_ACCESS_SHADER_WRITE_BIT,
                                   .dstAccessMask = VK_ACCESS_SHADER_READ_BIT | VK_ACCESS_SHADER_WRITE_BIT};
        vk.vkCmdPipelineBarrier(commands->handle, VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT,
                                VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT, 0, 1, &shaders, 0, NULL, 0, NULL);
        commands->n_touched = 0;
    }
    for (int i = 0; i < MAX_BINDINGS; i++) {
        const struct binding *binding = &dispatch->bindings[i];
        ENGINE_ASSERT(commands->n_touched < MAX_TOUCHED);
        if (is_tracked(binding))
            commands->touched[commands->n_touched++] = (struct touched){
                binding->buffer, binding->offset, binding->offset + binding->size, binding->access};
    }
}

uint64_t dispatch_bytes(const struct dispatch *dispatch)
{
    uint64_t bytes = 0;
    if (dispatch->bytes > 0) return dispatch->bytes;
    for (int i = 0; i < MAX_BINDINGS; i++)
        if (dispatch->bindings[i].buffer) bytes += dispatch->bindings[i].size;
    return bytes;
}

double dispatch_seconds(const struct engine_device *device, const struct dispatch *dispatch)
{
    double reading = (double)dispatch_bytes(dispatch) / device->speed.bytes,
           products = (double)dispatch->flops / device->speed.flops;
    return reading > products ? reading : products;
}

static int commands_record(struct commands *commands, const struct dispatch *dispatch)
{
    VkPipeline pipeline;
    VkDescriptorSet set;
    int status = pipeline_get(commands->device, &dispatch->key, &pipeline);
    if (!status) status = make_set(commands, dispatch, &set);
    if (status) return status;
    order(commands, dispatch);
    if (commands->device->times) status = times_begin(commands, dispatch);
    if (status) return status;
    if (pipeline != commands->bound)
        vk.vkCmdBindPipeline(commands->handle, VK_PIPELINE_BIND_POINT_COMPUTE, pipeline);
    commands->bound = pipeline;
    vk.vkCmdBindDescriptorSets(commands->handle, VK_PIPELINE_BIND_POINT_COMPUTE,
                               commands->device->pipeline_layout, 0, 1, &set, 0, NULL);
    vk.vkCmdPushConstants(commands->handle, commands->device->pipeline_layout, VK_SHADER_STAGE_COMPUTE_BIT, 0,
                          MAX_PUSH, dispatch->push);
    vk.vkCmdDispatch(commands->handle, dispatch->groups[0], dispatch->groups[1], 1);
    if (commands->device->times) times_end(commands);
    return ENGINE_OK;
}

int commands_dispatch(struct commands *commands, const struct dispatch *dispatch)
{
    ENGINE_ASSERT(dispatch->groups[0] <= commands->device->max_groups[0]);
    ENGINE_ASSERT(dispatch->groups[1] <= commands->device->max_groups[1]);
    commands->seconds += dispatch_seconds(commands->device, dispatch);
    forget_kept(commands, dispatch);
    if (!commands->defers) return commands_record(commands, dispatch);
    if (!ARRAY_GROW(commands->waiting, commands->n_waiting))
        return vulkan_host->fail(ENGINE_ERROR_MEMORY, "out of memory (recording)");
    commands->waiting[commands->n_waiting++] = *dispatch;
    return ENGINE_OK;
}

int commands_settle(struct commands *commands)
{
    int status = ENGINE_OK;
    for (uint32_t i = 0; i < commands->n_waiting && !status; i++)
        status = pipeline_want(commands->device, &commands->waiting[i].key);
    int made = pipelines_make(commands->device);
    if (!status) status = made;
    for (uint32_t i = 0; i < commands->n_waiting && !status; i++)
        status = commands_record(commands, &commands->waiting[i]);
    free(commands->waiting);
    commands->waiting = NULL;
    commands->n_waiting = 0;
    return status;
}

static bool is_same(const struct dispatch *a, const struct dispatch *b)
{
    bool same = memcmp(&a->key, &b->key, sizeof a->key) == 0 && memcmp(a->push, b->push, sizeof a->push) == 0;
    for (int i = 0; i < 2; i++)
        same = same && a->bindings[i].buffer == b->bindings[i].buffer &&
               a->bindings[i].offset == b->bindings[i].offset && a->bindings[i].size == b->bindings[i].size;
    return same;
}

int commands_dispatch_once(struct commands *commands, const struct dispatch *dispatch)
{
    ENGINE_ASSERT(dispatch->bindings[0].access == ACCESS_READ);
    ENGINE_ASSERT(dispatch->bindings[1].access == ACCESS_WRITE);
    if (commands->kept.is_kept && is_same(&commands->kept.dispatch, dispatch)) return ENGINE_OK;
    int status = commands_dispatch(commands, dispatch);
    commands->kept = (struct kept_dispatch){!status, *dispatch};
    return status;
}

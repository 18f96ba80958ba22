/* memory.c: device memory in a few large blocks, each bound to one VkBuffer. Ranges are found first fit in a
 * sorted list of gaps. Blocks grow with the memory in use, so that little is allocated in vain. */
#include <stdlib.h>
#include <string.h>

#include "common/array.h"
#include "common/assert.h"
#include "device.h"

#define ALIGNMENT   256u /* at least as large as any device's minStorageBufferOffsetAlignment */
#define LEAST_BLOCK (1u << 20)
#define MAX_BLOCK   (64u << 20)

struct gap {
    uint64_t offset, size;
};

struct memory_block {
    struct memory_block *next;
    enum memory_kind kind;
    VkDeviceMemory memory;
    VkBuffer buffer;
    uint64_t size;
    uint64_t address; /* 0: shaders don't use addresses */
    uint8_t *mapped;  /* NULL: the host doesn't see it */
    struct gap *gaps; /* sorted by offset, no two touch */
    size_t n_gaps, max_gaps;
};

uint64_t memory_size(uint64_t size)
{
    return size > UINT64_MAX - ALIGNMENT ? UINT64_MAX : (size + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
}

VkBuffer memory_buffer(const struct memory_range *range)
{
    return range->block->buffer;
}

uint64_t memory_address(const struct memory_range *range)
{
    return range->block->address;
}

uint8_t *memory_pointer(const struct memory_range *range)
{
    return range->block->mapped ? range->block->mapped + range->offset : NULL;
}

/* ---- Types of memory ----------------------------------------------------------------------------------- */

static bool find_type(struct engine_device *device, uint32_t usable, VkMemoryPropertyFlags flags,
                      uint32_t *type)
{
    VkPhysicalDeviceMemoryProperties2 properties = {
        .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_MEMORY_PROPERTIES_2};
    vk.vkGetPhysicalDeviceMemoryProperties2(device->physical->handle, &properties);
    for (uint32_t i = 0; i < properties.memoryProperties.memoryTypeCount; i++) {
        if (!(usable & 1u << i) ||
            (properties.memoryProperties.memoryTypes[i].propertyFlags & flags) != flags)
            continue;
        *type = i;
        return true;
    }
    return false;
}

static const VkMemoryPropertyFlags seen =
    VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT | VK_MEMORY_PROPERTY_HOST_COHERENT_BIT;

static VkResult create_buffer(struct engine_device *device, uint64_t size, VkBuffer *buffer)
{
    VkBufferCreateInfo create = {.sType = VK_STRUCTURE_TYPE_BUFFER_CREATE_INFO,
                                 .size = size,
                                 .usage = VK_BUFFER_USAGE_STORAGE_BUFFER_BIT |
                                          VK_BUFFER_USAGE_TRANSFER_SRC_BIT |
                                          VK_BUFFER_USAGE_TRANSFER_DST_BIT |
                                          (device->addresses ? VK_BUFFER_USAGE_SHADER_DEVICE_ADDRESS_BIT : 0),
                                 .sharingMode = VK_SHARING_MODE_EXCLUSIVE};
    return vk.vkCreateBuffer(device->handle, &create, NULL, buffer);
}

int memory_choose(struct engine_device *device)
{
    VkBuffer buffer;
    VkMemoryRequirements needs;
    VkResult result = create_buffer(device, ALIGNMENT, &buffer);
    if (result != VK_SUCCESS) return vulkan_error(result, "memory");
    vk.vkGetBufferMemoryRequirements(device->handle, buffer, &needs);
    vk.vkDestroyBuffer(device->handle, buffer, NULL);
    /* On a device that shares the host's memory there is no need for staging. */
    VkPhysicalDeviceType kind = device->physical->properties.deviceType;
    bool shares = kind == VK_PHYSICAL_DEVICE_TYPE_CPU || kind == VK_PHYSICAL_DEVICE_TYPE_INTEGRATED_GPU;
    VkMemoryPropertyFlags local = VK_MEMORY_PROPERTY_DEVICE_LOCAL_BIT,
                          cached = VK_MEMORY_PROPERTY_HOST_CACHED_BIT;
    uint32_t *type = device->memory_type;
    bool found = (shares && find_type(device, needs.memoryTypeBits, local | seen, &type[MEMORY_DEVICE])) ||
                 find_type(device, needs.memoryTypeBits, local, &type[MEMORY_DEVICE]) ||
                 find_type(device, needs.memoryTypeBits, 0, &type[MEMORY_DEVICE]);
    found = found && (find_type(device, needs.memoryTypeBits, seen | cached, &type[MEMORY_STAGING]) ||
                      find_type(device, needs.memoryTypeBits, seen, &type[MEMORY_STAGING]));
    return found ? ENGINE_OK
                 : vulkan_host->fail(ENGINE_ERROR_UNSUPPORTED, "the device has no memory for buffers");
}

/* ---- Blocks -------------------------------------------------------------------------------------------- */

static void destroy_block(struct engine_device *device, struct memory_block *block)
{
    vk.vkDestroyBuffer(device->handle, block->buffer, NULL);
    vk.vkFreeMemory(device->handle, block->memory, NULL);
    free(block->gaps);
    free(block);
}

bool memory_is_seen(const struct engine_device *device, enum memory_kind kind)
{
    VkPhysicalDeviceMemoryProperties2 properties = {
        .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_MEMORY_PROPERTIES_2};
    vk.vkGetPhysicalDeviceMemoryProperties2(device->physical->handle, &properties);
    VkMemoryPropertyFlags flags =
        properties.memoryProperties.memoryTypes[device->memory_type[kind]].propertyFlags;
    VkPhysicalDeviceType type = device->physical->properties.deviceType;
    bool shares = type == VK_PHYSICAL_DEVICE_TYPE_CPU || type == VK_PHYSICAL_DEVICE_TYPE_INTEGRATED_GPU;
    return (flags & seen) == seen && (shares || kind == MEMORY_STAGING);
}

static VkResult fill_block(struct engine_device *device, struct memory_block *block)
{
    VkMemoryRequirements needs;
    VkResult result = create_buffer(device, block->size, &block->buffer);
    if (result != VK_SUCCESS) return result;
    vk.vkGetBufferMemoryRequirements(device->handle, block->buffer, &needs);
    VkMemoryAllocateFlagsInfo addressed = {.sType = VK_STRUCTURE_TYPE_MEMORY_ALLOCATE_FLAGS_INFO,
                                           .flags = VK_MEMORY_ALLOCATE_DEVICE_ADDRESS_BIT};
    VkMemoryAllocateInfo allocate = {.sType = VK_STRUCTURE_TYPE_MEMORY_ALLOCATE_INFO,
                                     .allocationSize = needs.size,
                                     .memoryTypeIndex = device->memory_type[block->kind]};
    if (device->addresses) allocate.pNext = &addressed;
    result = vk.vkAllocateMemory(device->handle, &allocate, NULL, &block->memory);
    if (result == VK_SUCCESS) result = vk.vkBindBufferMemory(device->handle, block->buffer, block->memory, 0);
    if (result == VK_SUCCESS && device->addresses) {
        VkBufferDeviceAddressInfo info = {.sType = VK_STRUCTURE_TYPE_BUFFER_DEVICE_ADDRESS_INFO,
                                          .buffer = block->buffer};
        block->address = vk.vkGetBufferDeviceAddress(device->handle, &info);
    }
    if (result == VK_SUCCESS && memory_is_seen(device, block->kind)) {
        void *mapped;
        result = vk.vkMapMemory(device->handle, block->memory, 0, VK_WHOLE_SIZE, 0, &mapped);
        if (result == VK_SUCCESS) block->mapped = mapped;
    }
    return result;
}

static VkResult create_block(struct engine_device *device, enum memory_kind kind, uint64_t size,
                             struct memory_block **out)
{
    struct memory_block *block = calloc(1, sizeof *block);
    if (block) block->gaps = calloc(8, sizeof *block->gaps);
    if (!block || !block->gaps) {
        free(block);
        return VK_ERROR_OUT_OF_HOST_MEMORY;
    }
    block->kind = kind;
    block->size = size;
    block->max_gaps = 8;
    VkResult result = fill_block(device, block);
    if (result != VK_SUCCESS) {
        destroy_block(device, block);
        return result;
    }
    block->gaps[block->n_gaps++] = (struct gap){0, size};
    block->next = device->blocks;
    device->blocks = block;
    *out = block;
    return VK_SUCCESS;
}

/* For assertions: whether no byte of a range is in a gap. */
static bool is_taken(const struct memory_block *block, const struct memory_range *range)
{
    for (size_t i = 0; i < block->n_gaps; i++)
        if (block->gaps[i].offset < range->offset + range->size &&
            range->offset < block->gaps[i].offset + block->gaps[i].size)
            return false;
    return true;
}

static bool memory_take(struct memory_block *block, uint64_t size, struct memory_range *range)
{
    for (size_t i = 0; i < block->n_gaps; i++) {
        struct gap *gap = &block->gaps[i];
        if (gap->size < size) continue;
        *range = (struct memory_range){block, gap->offset, size};
        gap->offset += size;
        gap->size -= size;
        if (gap->size == 0) memmove(gap, gap + 1, (--block->n_gaps - i) * sizeof *gap);
        return true;
    }
    return false;
}

/* The rule of struct memory_block, and that ranges keep the alignment. */
static void check_gaps(const struct memory_block *block)
{
    for (size_t i = 0; i < block->n_gaps; i++) {
        const struct gap *gap = &block->gaps[i];
        ENGINE_ASSERT(gap->size > 0 && gap->size <= block->size && gap->offset <= block->size - gap->size);
        ENGINE_ASSERT(i == 0 || gap[-1].offset + gap[-1].size < gap->offset);
        ENGINE_ASSERT(gap->offset % ALIGNMENT == 0);
    }
}

/* The size of a new block for `rounded` bytes: more than that, unless less is left of the memory limit. The
 * last of a limit comes in one block: gaps at the ends of several, into which nothing fits, would take the
 * sum above it. */
static uint64_t block_size(const struct engine_device *device, enum memory_kind kind, uint64_t in_use,
                           uint64_t rounded)
{
    uint64_t usual = in_use / 8 / ALIGNMENT * ALIGNMENT, limit = device->budget.limit;
    usual = usual < LEAST_BLOCK ? LEAST_BLOCK : usual > MAX_BLOCK ? MAX_BLOCK : usual;
    if (kind == MEMORY_DEVICE && limit) {
        uint64_t left = limit > in_use ? (limit - in_use) / ALIGNMENT * ALIGNMENT : 0;
        if (usual > left || left <= MAX_BLOCK) usual = left;
    }
    return rounded > usual ? rounded : usual;
}

int memory_allocate(struct engine_device *device, enum memory_kind kind, uint64_t size, const char *what,
                    struct memory_range *range)
{
    uint64_t in_use = 0, rounded = memory_size(size);
    struct memory_block *block;
    for (block = device->blocks; block; block = block->next) {
        if (block->kind != kind) continue;
        if (memory_take(block, rounded, range)) return ENGINE_OK;
        in_use += block->size;
    }
    uint64_t usual = block_size(device, kind, in_use, rounded);
    VkResult result = VK_ERROR_OUT_OF_DEVICE_MEMORY;
    if (rounded <= device->physical->max_buffer) {
        result = create_block(device, kind, usual, &block);
        if (result != VK_SUCCESS && rounded < usual) result = create_block(device, kind, rounded, &block);
    }
    if (result != VK_SUCCESS) return vulkan_error(result, what);
    memory_take(block, rounded, range);
    check_gaps(block);
    return ENGINE_OK;
}

/* Puts the gap back where it was, joined with its neighbours. Where there's no memory for one more gap, the
 * range stays out of use until its block goes. */
static void put_back(struct memory_block *block, const struct memory_range *range)
{
    size_t i = 0;
    while (i < block->n_gaps && block->gaps[i].offset < range->offset) i++;
    bool before = i > 0 && block->gaps[i - 1].offset + block->gaps[i - 1].size == range->offset;
    bool behind = i < block->n_gaps && range->offset + range->size == block->gaps[i].offset;
    if (before) {
        block->gaps[i - 1].size += range->size;
        if (!behind) return;
        block->gaps[i - 1].size += block->gaps[i].size;
        memmove(&block->gaps[i], &block->gaps[i + 1], (--block->n_gaps - i) * sizeof *block->gaps);
        return;
    }
    if (behind) {
        block->gaps[i].offset = range->offset;
        block->gaps[i].size += range->size;
        return;
    }
    if (!ARRAY_RESERVE(block->gaps, block->max_gaps, block->n_gaps + 1)) return;
    memmove(&block->gaps[i + 1], &block->gaps[i], (block->n_gaps++ - i) * sizeof *block->gaps);
    block->gaps[i] = (struct gap){range->offset, range->size};
}

void memory_free(struct engine_device *device, struct memory_range *range)
{
    struct memory_block *block = range->block;
    if (!block) return;
    ENGINE_ASSERT(is_taken(block, range));
    put_back(block, range);
    check_gaps(block);
    range->block = NULL;
    if (block->n_gaps != 1 || block->gaps[0].size != block->size) return;
    struct memory_block **link = &device->blocks;
    while (*link != block) link = &(*link)->next;
    *link = block->next;
    destroy_block(device, block);
}

/* vulkan-layer.c: a Vulkan layer that stands between the plugin and the driver and makes a machine that isn't
 * here, or one that breaks. ENGINE_TEST_VULKAN says how, in words with spaces between them:
 *
 *   discrete      devices say that they are GPUs with memory of their own
 *   plain         they can't add over subgroups
 *   timeless      their queues have no time stamps
 *   range=BYTES   they bind no more of a buffer than that
 *   shared=BYTES  their workgroups have no more shared memory than that
 *   memory=BYTES  no more can be allocated
 *   count         the number of submissions is said at the end, on standard error
 *   peak          the same for the most bytes that were allocated at once
 *   pipelines=N   no more pipelines can be made than that
 *   submit=N      the Nth submission finds no memory; lost=N: it finds the device lost
 *   unwaited=N    the Nth wait for a fence finds the device lost
 *   once          the device that is lost is replaced by the next one that is created, which works
 *
 * One instance and one device in a process are all that it serves. tests/CMakeLists.txt writes its
 * manifest. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define VK_NO_PROTOTYPES
#include <vulkan/vk_layer.h>
#include <vulkan/vulkan.h>

#define EXPORT __attribute__((visibility("default")))

static struct {
    PFN_vkGetInstanceProcAddr instance_function;
    PFN_vkGetDeviceProcAddr device_function;
    PFN_vkGetPhysicalDeviceProperties properties;
    PFN_vkGetPhysicalDeviceProperties2 properties2;
    PFN_vkGetPhysicalDeviceQueueFamilyProperties families;
    PFN_vkCreateDevice create_device;
    PFN_vkAllocateMemory allocate;
    PFN_vkFreeMemory free;
    PFN_vkCreateComputePipelines create_pipelines;
    PFN_vkQueueSubmit submit;
    PFN_vkWaitForFences wait;
} next;

static atomic_uint submissions, waits, pipelines;
static atomic_bool was_lost, is_new; /* a device; its successor */

/* What is allocated. */
#define MAX_ALLOCATIONS 1024
static struct {
    pthread_mutex_t lock;
    VkDeviceMemory memory[MAX_ALLOCATIONS];
    unsigned long long size[MAX_ALLOCATIONS], total, peak;
} taken = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* ---- What is asked for --------------------------------------------------------------------------------- */

/* Where `word` stands in ENGINE_TEST_VULKAN, behind it; or NULL. */
static const char *wanted(const char *word)
{
    const char *text = getenv("ENGINE_TEST_VULKAN"), *found = text ? strstr(text, word) : NULL;
    return found ? found + strlen(word) : NULL;
}

static unsigned long long number(const char *word, unsigned long long otherwise)
{
    const char *found = wanted(word);
    return found ? strtoull(found, NULL, 10) : otherwise;
}

static void change(VkPhysicalDeviceProperties *properties)
{
    unsigned long long range = number("range=", properties->limits.maxStorageBufferRange);
    if (range < properties->limits.maxStorageBufferRange)
        properties->limits.maxStorageBufferRange = (uint32_t)range;
    unsigned long long shared = number("shared=", properties->limits.maxComputeSharedMemorySize);
    if (shared < properties->limits.maxComputeSharedMemorySize)
        properties->limits.maxComputeSharedMemorySize = (uint32_t)shared;
    if (wanted("discrete")) properties->deviceType = VK_PHYSICAL_DEVICE_TYPE_DISCRETE_GPU;
}

/* ---- Functions ----------------------------------------------------------------------------------------- */

static VKAPI_ATTR void VKAPI_CALL get_properties(VkPhysicalDevice device,
                                                 VkPhysicalDeviceProperties *properties)
{
    next.properties(device, properties);
    change(properties);
}

static VKAPI_ATTR void VKAPI_CALL get_properties2(VkPhysicalDevice device,
                                                  VkPhysicalDeviceProperties2 *properties)
{
    next.properties2(device, properties);
    change(&properties->properties);
    for (VkBaseOutStructure *part = properties->pNext; part; part = part->pNext) {
        if (part->sType != VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SUBGROUP_PROPERTIES || !wanted("plain"))
            continue;
        ((VkPhysicalDeviceSubgroupProperties *)part)->supportedOperations = VK_SUBGROUP_FEATURE_BASIC_BIT;
    }
}

static VKAPI_ATTR void VKAPI_CALL get_families(VkPhysicalDevice device, uint32_t *count,
                                               VkQueueFamilyProperties *families)
{
    next.families(device, count, families);
    for (uint32_t i = 0; families && i < *count; i++)
        if (wanted("timeless")) families[i].timestampValidBits = 0;
}

static VKAPI_ATTR VkResult VKAPI_CALL allocate_memory(VkDevice device, const VkMemoryAllocateInfo *info,
                                                      const VkAllocationCallbacks *callbacks,
                                                      VkDeviceMemory *memory)
{
    unsigned long long limit = number("memory=", UINT64_MAX);
    VkResult result = VK_ERROR_OUT_OF_DEVICE_MEMORY;
    pthread_mutex_lock(&taken.lock);
    int place = 0;
    while (place < MAX_ALLOCATIONS && taken.size[place] > 0) place++;
    if (place < MAX_ALLOCATIONS && taken.total <= limit && info->allocationSize <= limit - taken.total)
        result = next.allocate(device, info, callbacks, memory);
    if (result == VK_SUCCESS) {
        taken.memory[place] = *memory;
        taken.size[place] = info->allocationSize;
        taken.total += info->allocationSize;
        if (taken.total > taken.peak) taken.peak = taken.total;
    }
    pthread_mutex_unlock(&taken.lock);
    return result;
}

static VKAPI_ATTR void VKAPI_CALL free_memory(VkDevice device, VkDeviceMemory memory,
                                              const VkAllocationCallbacks *callbacks)
{
    pthread_mutex_lock(&taken.lock);
    for (int i = 0; i < MAX_ALLOCATIONS; i++) {
        if (taken.size[i] == 0 || taken.memory[i] != memory) continue;
        taken.total -= taken.size[i];
        taken.size[i] = 0;
    }
    pthread_mutex_unlock(&taken.lock);
    next.free(device, memory, callbacks);
}

static VKAPI_ATTR VkResult VKAPI_CALL create_pipelines(VkDevice device, VkPipelineCache cache, uint32_t count,
                                                       const VkComputePipelineCreateInfo *infos,
                                                       const VkAllocationCallbacks *callbacks,
                                                       VkPipeline *handles)
{
    if (atomic_fetch_add(&pipelines, count) < number("pipelines=", UINT64_MAX))
        return next.create_pipelines(device, cache, count, infos, callbacks, handles);
    memset(handles, 0, count * sizeof *handles);
    return VK_ERROR_OUT_OF_HOST_MEMORY;
}

static VKAPI_ATTR VkResult VKAPI_CALL queue_submit(VkQueue queue, uint32_t count, const VkSubmitInfo *submits,
                                                   VkFence fence)
{
    unsigned mine = atomic_fetch_add(&submissions, 1);
    if (mine >= number("submit=", UINT64_MAX)) return VK_ERROR_OUT_OF_DEVICE_MEMORY;
    if (mine >= number("lost=", UINT64_MAX) && !atomic_load(&is_new)) {
        atomic_store(&was_lost, true);
        return VK_ERROR_DEVICE_LOST;
    }
    return next.submit(queue, count, submits, fence);
}

static VKAPI_ATTR VkResult VKAPI_CALL wait_for_fences(VkDevice device, uint32_t count, const VkFence *fences,
                                                      VkBool32 all, uint64_t timeout)
{
    VkResult result = next.wait(device, count, fences, all, timeout); /* a lost device does nothing more */
    return atomic_fetch_add(&waits, 1) < number("unwaited=", UINT64_MAX) ? result : VK_ERROR_DEVICE_LOST;
}

__attribute__((destructor)) static void say_counts(void)
{
    if (wanted("count") && atomic_load(&submissions) > 0)
        fprintf(stderr, "submissions: %u\n", atomic_load(&submissions));
    if (wanted("peak") && taken.peak > 0) fprintf(stderr, "peak: %llu\n", taken.peak);
}

/* ---- The chain of layers ------------------------------------------------------------------------------- */

/* The loader's note for us in a chain of creation structs. */
static void *link_info(const void *chain, VkStructureType type)
{
    for (VkLayerInstanceCreateInfo *info = *(VkLayerInstanceCreateInfo **)(uintptr_t)chain; info;
         info = (VkLayerInstanceCreateInfo *)(uintptr_t)info->pNext)
        if (info->sType == type && info->function == VK_LAYER_LINK_INFO) return info;
    return NULL;
}

static VKAPI_ATTR VkResult VKAPI_CALL create_instance(const VkInstanceCreateInfo *info,
                                                      const VkAllocationCallbacks *callbacks,
                                                      VkInstance *instance)
{
    VkLayerInstanceCreateInfo *link = link_info(&info->pNext, VK_STRUCTURE_TYPE_LOADER_INSTANCE_CREATE_INFO);
    if (!link) return VK_ERROR_INITIALIZATION_FAILED;
    next.instance_function = link->u.pLayerInfo->pfnNextGetInstanceProcAddr;
    link->u.pLayerInfo = link->u.pLayerInfo->pNext;
    PFN_vkCreateInstance create =
        (PFN_vkCreateInstance)next.instance_function(VK_NULL_HANDLE, "vkCreateInstance");
    VkResult result = create(info, callbacks, instance);
    if (result != VK_SUCCESS) return result;
    next.properties =
        (PFN_vkGetPhysicalDeviceProperties)next.instance_function(*instance, "vkGetPhysicalDeviceProperties");
    next.properties2 = (PFN_vkGetPhysicalDeviceProperties2)next.instance_function(
        *instance, "vkGetPhysicalDeviceProperties2");
    next.families = (PFN_vkGetPhysicalDeviceQueueFamilyProperties)next.instance_function(
        *instance, "vkGetPhysicalDeviceQueueFamilyProperties");
    next.create_device = (PFN_vkCreateDevice)next.instance_function(*instance, "vkCreateDevice");
    return VK_SUCCESS;
}

static VKAPI_ATTR VkResult VKAPI_CALL create_device(VkPhysicalDevice physical, const VkDeviceCreateInfo *info,
                                                    const VkAllocationCallbacks *callbacks, VkDevice *device)
{
    VkLayerDeviceCreateInfo *link = link_info(&info->pNext, VK_STRUCTURE_TYPE_LOADER_DEVICE_CREATE_INFO);
    if (!link) return VK_ERROR_INITIALIZATION_FAILED;
    next.device_function = link->u.pLayerInfo->pfnNextGetDeviceProcAddr;
    link->u.pLayerInfo = link->u.pLayerInfo->pNext;
    VkResult result = next.create_device(physical, info, callbacks, device);
    if (result != VK_SUCCESS) return result;
    if (atomic_load(&was_lost) && wanted("once")) atomic_store(&is_new, true);
    next.allocate = (PFN_vkAllocateMemory)next.device_function(*device, "vkAllocateMemory");
    next.free = (PFN_vkFreeMemory)next.device_function(*device, "vkFreeMemory");
    next.create_pipelines =
        (PFN_vkCreateComputePipelines)next.device_function(*device, "vkCreateComputePipelines");
    next.submit = (PFN_vkQueueSubmit)next.device_function(*device, "vkQueueSubmit");
    next.wait = (PFN_vkWaitForFences)next.device_function(*device, "vkWaitForFences");
    return VK_SUCCESS;
}

static PFN_vkVoidFunction ours(const char *name);

static VKAPI_ATTR PFN_vkVoidFunction VKAPI_CALL device_function(VkDevice device, const char *name)
{
    PFN_vkVoidFunction function = ours(name);
    return function ? function : next.device_function(device, name);
}

static VKAPI_ATTR PFN_vkVoidFunction VKAPI_CALL instance_function(VkInstance instance, const char *name)
{
    PFN_vkVoidFunction function = ours(name);
    if (function) return function;
    return next.instance_function ? next.instance_function(instance, name) : NULL;
}

static PFN_vkVoidFunction ours(const char *name)
{
    static const struct {
        const char *name;
        PFN_vkVoidFunction function;
    } functions[] = {
        {"vkGetInstanceProcAddr", (PFN_vkVoidFunction)instance_function},
        {"vkGetDeviceProcAddr", (PFN_vkVoidFunction)device_function},
        {"vkCreateInstance", (PFN_vkVoidFunction)create_instance},
        {"vkCreateDevice", (PFN_vkVoidFunction)create_device},
        {"vkGetPhysicalDeviceProperties", (PFN_vkVoidFunction)get_properties},
        {"vkGetPhysicalDeviceProperties2", (PFN_vkVoidFunction)get_properties2},
        {"vkGetPhysicalDeviceQueueFamilyProperties", (PFN_vkVoidFunction)get_families},
        {"vkAllocateMemory", (PFN_vkVoidFunction)allocate_memory},
        {"vkFreeMemory", (PFN_vkVoidFunction)free_memory},
        {"vkCreateComputePipelines", (PFN_vkVoidFunction)create_pipelines},
        {"vkQueueSubmit", (PFN_vkVoidFunction)queue_submit},
        {"vkWaitForFences", (PFN_vkVoidFunction)wait_for_fences},
    };
    for (size_t i = 0; i < sizeof functions / sizeof *functions; i++)
        if (strcmp(functions[i].name, name) == 0) return functions[i].function;
    return NULL;
}

EXPORT VKAPI_ATTR VkResult VKAPI_CALL
vkNegotiateLoaderLayerInterfaceVersion(VkNegotiateLayerInterface *layer);
EXPORT VKAPI_ATTR VkResult VKAPI_CALL vkNegotiateLoaderLayerInterfaceVersion(VkNegotiateLayerInterface *layer)
{
    layer->loaderLayerInterfaceVersion = 2;
    layer->pfnGetInstanceProcAddr = instance_function;
    layer->pfnGetDeviceProcAddr = device_function;
    layer->pfnGetPhysicalDeviceProcAddr = NULL;
    return VK_SUCCESS;
}

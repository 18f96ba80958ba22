/* pipeline.c: compute pipelines, made when they are first used. All have the same layout: storage buffers and
 * push constants. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cache-file.h"
#include "common/assert.h"
#include "device.h"

/* The key of the compiled pipelines of earlier runs, and their file. */
struct pipelines_key {
    uint32_t vendor, device, driver_version, api_version;
    uint8_t device_uuid[VK_UUID_SIZE], cache_uuid[VK_UUID_SIZE];
    char name[2 * VK_UUID_SIZE + 16];
};

static struct cache_key make_key(const struct physical_device *physical, struct pipelines_key *key)
{
    const VkPhysicalDeviceProperties *properties = &physical->properties;
    memset(key, 0, sizeof *key);
    key->vendor = properties->vendorID;
    key->device = properties->deviceID;
    key->driver_version = properties->driverVersion;
    key->api_version = properties->apiVersion;
    memcpy(key->device_uuid, physical->uuid, VK_UUID_SIZE);
    memcpy(key->cache_uuid, properties->pipelineCacheUUID, VK_UUID_SIZE);
    int length = snprintf(key->name, sizeof key->name, "vulkan-");
    for (unsigned i = 0; i < VK_UUID_SIZE; i++)
        length += snprintf(key->name + length, sizeof key->name - (size_t)length, "%02x", physical->uuid[i]);
    return (struct cache_key){key->name, key, sizeof *key};
}

int pipeline_setup(struct engine_device *device)
{
    VkDescriptorSetLayoutBinding bindings[MAX_BINDINGS];
    for (uint32_t i = 0; i < MAX_BINDINGS; i++)
        bindings[i] = (VkDescriptorSetLayoutBinding){.binding = i,
                                                     .descriptorType = VK_DESCRIPTOR_TYPE_STORAGE_BUFFER,
                                                     .descriptorCount = 1,
                                                     .stageFlags = VK_SHADER_STAGE_COMPUTE_BIT};
    VkDescriptorSetLayoutCreateInfo set = {.sType = VK_STRUCTURE_TYPE_DESCRIPTOR_SET_LAYOUT_CREATE_INFO,
                                           .bindingCount = MAX_BINDINGS,
                                           .pBindings = bindings};
    VkResult result = vk.vkCreateDescriptorSetLayout(device->handle, &set, NULL, &device->set_layout);
    if (result != VK_SUCCESS) return vulkan_error(result, "pipelines");
    VkPushConstantRange push = {VK_SHADER_STAGE_COMPUTE_BIT, 0, MAX_PUSH};
    VkPipelineLayoutCreateInfo layout = {.sType = VK_STRUCTURE_TYPE_PIPELINE_LAYOUT_CREATE_INFO,
                                         .setLayoutCount = 1,
                                         .pSetLayouts = &device->set_layout,
                                         .pushConstantRangeCount = 1,
                                         .pPushConstantRanges = &push};
    result = vk.vkCreatePipelineLayout(device->handle, &layout, NULL, &device->pipeline_layout);
    if (result != VK_SUCCESS) return vulkan_error(result, "pipelines");
    struct pipelines_key space;
    struct cache_key key = make_key(device->physical, &space);
    void *data = cache_file_read(vulkan_host, &key, &device->pipeline_cache_size);
    VkPipelineCacheCreateInfo cache = {.sType = VK_STRUCTURE_TYPE_PIPELINE_CACHE_CREATE_INFO,
                                       .initialDataSize = data ? device->pipeline_cache_size : 0,
                                       .pInitialData = data};
    result = vk.vkCreatePipelineCache(device->handle, &cache, NULL, &device->pipeline_cache);
    free(data);
    return vulkan_error(result, "pipelines");
}

/* Saves the compiled pipelines if there are more than in the file. */
static void save_cache(struct engine_device *device)
{
    struct pipelines_key space;
    struct cache_key key = make_key(device->physical, &space);
    size_t size = 0;
    if (vk.vkGetPipelineCacheData(device->handle, device->pipeline_cache, &size, NULL) != VK_SUCCESS ||
        size <= device->pipeline_cache_size)
        return;
    void *data = malloc(size);
    if (data && vk.vkGetPipelineCacheData(device->handle, device->pipeline_cache, &size, data) == VK_SUCCESS)
        cache_file_write(vulkan_host, &key, data, size);
    free(data);
}

void pipeline_teardown(struct engine_device *device)
{
    if (device->pipeline_cache && device->pipelines) save_cache(device);
    for (struct pipeline *next; device->pipelines; device->pipelines = next) {
        next = device->pipelines->next;
        vk.vkDestroyPipeline(device->handle, device->pipelines->handle, NULL);
        free(device->pipelines);
    }
    vk.vkDestroyPipelineCache(device->handle, device->pipeline_cache, NULL);
    vk.vkDestroyPipelineLayout(device->handle, device->pipeline_layout, NULL);
    vk.vkDestroyDescriptorSetLayout(device->handle, device->set_layout, NULL);
}

static VkResult pipeline_create_handle(struct engine_device *device, const struct pipeline_key *key,
                                       VkPipeline *handle)
{
    bool counted = device->physical->has_statistics;
    VkShaderModule module;
    VkShaderModuleCreateInfo code = {.sType = VK_STRUCTURE_TYPE_SHADER_MODULE_CREATE_INFO,
                                     .codeSize = shader_codes[key->shader].size,
                                     .pCode = shader_codes[key->shader].words};
    VkResult result = vk.vkCreateShaderModule(device->handle, &code, NULL, &module);
    if (result != VK_SUCCESS) return result;
    VkSpecializationMapEntry entries[MAX_CONSTANTS];
    for (uint32_t i = 0; i < MAX_CONSTANTS; i++)
        entries[i] = (VkSpecializationMapEntry){i, i * (uint32_t)sizeof(uint32_t), sizeof(uint32_t)};
    VkSpecializationInfo constants = {MAX_CONSTANTS, entries, sizeof key->constants, key->constants};
    VkPipelineShaderStageRequiredSubgroupSizeCreateInfo subgroups = {
        .sType = VK_STRUCTURE_TYPE_PIPELINE_SHADER_STAGE_REQUIRED_SUBGROUP_SIZE_CREATE_INFO,
        .requiredSubgroupSize = key->subgroup_size};
    VkComputePipelineCreateInfo info = {
        .sType = VK_STRUCTURE_TYPE_COMPUTE_PIPELINE_CREATE_INFO,
        .flags = counted ? VK_PIPELINE_CREATE_CAPTURE_STATISTICS_BIT_KHR |
                               VK_PIPELINE_CREATE_CAPTURE_INTERNAL_REPRESENTATIONS_BIT_KHR
                         : 0,
        .stage = {.sType = VK_STRUCTURE_TYPE_PIPELINE_SHADER_STAGE_CREATE_INFO,
                  .pNext = key->subgroup_size ? &subgroups : NULL,
                  .flags =
                      key->full_subgroups ? VK_PIPELINE_SHADER_STAGE_CREATE_REQUIRE_FULL_SUBGROUPS_BIT : 0,
                  .stage = VK_SHADER_STAGE_COMPUTE_BIT,
                  .module = module,
                  .pName = "main",
                  .pSpecializationInfo = &constants},
        .layout = device->pipeline_layout};
    VkPipelineCache cache = counted ? VK_NULL_HANDLE : device->pipeline_cache; /* which may lack statistics */
    result = vk.vkCreateComputePipelines(device->handle, cache, 1, &info, NULL, handle);
    vk.vkDestroyShaderModule(device->handle, module, NULL);
    if (result == VK_SUCCESS && counted) statistics_write(device, key, *handle);
    return result;
}

static struct pipeline *find_pipeline(const struct engine_device *device, const struct pipeline_key *key)
{
    struct pipeline *pipeline = device->pipelines;
    while (pipeline && memcmp(&pipeline->key, key, sizeof *key) != 0) pipeline = pipeline->next;
    return pipeline;
}

int pipeline_want(struct engine_device *device, const struct pipeline_key *key)
{
    if (find_pipeline(device, key)) return ENGINE_OK;
    struct pipeline *pipeline = calloc(1, sizeof *pipeline);
    if (!pipeline) return vulkan_host->fail(ENGINE_ERROR_MEMORY, "out of memory (pipeline)");
    pipeline->key = *key;
    pipeline->next = device->pipelines;
    device->pipelines = pipeline;
    return ENGINE_OK;
}

/* Pipelines that several threads compile: those of a device from the first on that have no handle. */
struct making {
    struct engine_device *device;
    struct pipeline **pipelines; /* [count] */
    uint32_t count;
    atomic_uint next; /* the first that no thread has taken */
};

static void *make_some(void *argument)
{
    struct making *making = argument;
    for (uint32_t i; (i = atomic_fetch_add(&making->next, 1)) < making->count;) {
        struct pipeline *pipeline = making->pipelines[i];
        pipeline->result = pipeline_create_handle(making->device, &pipeline->key, &pipeline->handle);
    }
    return NULL;
}

/* This thread is one of them; without others it takes longer. */
static void make_all(struct making *making)
{
    enum { MOST = 16 };
    pthread_t threads[MOST];
    long processors = sysconf(_SC_NPROCESSORS_ONLN);
    bool is_cpu = making->device->physical->properties.deviceType == VK_PHYSICAL_DEVICE_TYPE_CPU;
    uint32_t others = is_cpu || processors < 2 ? 0 : (uint32_t)processors - 1, n = 0;
    if (others > MOST) others = MOST;
    while (n < others && n + 1 < making->count && pthread_create(&threads[n], NULL, make_some, making) == 0)
        n++;
    make_some(making);
    while (n > 0) pthread_join(threads[--n], NULL);
}

/* Forgets pipelines that could not be compiled. Returns the first one's reason. */
static VkResult forget_failures(struct engine_device *device)
{
    VkResult result = VK_SUCCESS;
    for (struct pipeline **link = &device->pipelines; *link;) {
        struct pipeline *pipeline = *link;
        if (pipeline->result == VK_SUCCESS) {
            link = &pipeline->next;
            continue;
        }
        result = pipeline->result;
        *link = pipeline->next;
        free(pipeline);
    }
    return result;
}

int pipelines_make(struct engine_device *device)
{
    struct making making = {.device = device};
    uint32_t count = 0;
    for (const struct pipeline *p = device->pipelines; p; p = p->next) count += !p->handle;
    if (count == 0) return ENGINE_OK;
    making.pipelines = calloc(count, sizeof(struct pipeline *));
    if (!making.pipelines) return vulkan_host->fail(ENGINE_ERROR_MEMORY, "out of memory (pipelines)");
    for (struct pipeline *p = device->pipelines; p; p = p->next)
        if (!p->handle) making.pipelines[making.count++] = p;
    make_all(&making);
    free(making.pipelines);
    return vulkan_error(forget_failures(device), "cannot compile a shader");
}

int pipeline_get(struct engine_device *device, const struct pipeline_key *key, VkPipeline *handle)
{
    struct pipeline *pipeline = find_pipeline(device, key);
    if (!pipeline || !pipeline->handle) {
        int status = pipeline_want(device, key);
        if (!status) status = pipelines_make(device); /* which may fail because of another one */
        pipeline = find_pipeline(device, key);
        if (!pipeline || !pipeline->handle) {
            ENGINE_ASSERT(status != ENGINE_OK);
            return status;
        }
    }
    *handle = pipeline->handle;
    return ENGINE_OK;
}

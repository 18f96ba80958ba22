/* pipeline.c: compute pipelines, made when they are first used. All have the same layout: storage buffers and
 * push constants. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cache-file.h"
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

int pipeline_get(struct engine_device *device, const struct pipeline_key *key, VkPipeline *handle)
{
    for (struct pipeline *pipeline = device->pipelines; pipeline; pipeline = pipeline->next) {
        if (memcmp(&pipeline->key, key, sizeof *key) != 0) continue;
        *handle = pipeline->handle;
        return ENGINE_OK;
    }
    struct pipeline *pipeline = calloc(1, sizeof *pipeline);
    if (!pipeline) return vulkan_host->fail(ENGINE_ERROR_MEMORY, "out of memory (pipeline)");
    VkResult result = pipeline_create_handle(device, key, &pipeline->handle);
    if (result != VK_SUCCESS) {
        free(pipeline);
        return vulkan_error(result, "cannot compile a shader");
    }
    pipeline->key = *key;
    pipeline->next = device->pipelines;
    device->pipelines = pipeline;
    *handle = pipeline->handle;
    return ENGINE_OK;
}

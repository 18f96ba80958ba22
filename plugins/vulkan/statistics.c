/* statistics.c: what the driver's compiler made of each pipeline: registers, spills, instructions, and the
 * code itself, as far as the driver tells. ENGINE_VULKAN_STATISTICS names a folder, in which each pipeline
 * gets a file when it is made; tools/gpu/chips reads them. The files hold lines:
 *
 *   shader NAME
 *   constants N …            the specialisation constants, by their ids
 *   executable NAME SUBGROUP
 *   statistic VALUE NAME
 *   code NAME                the driver's own text follows, up to the next such line
 *
 * Compiled pipelines of earlier runs are not used meanwhile, since they may lack what is counted. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "device.h"

static const char *statistics_folder(void)
{
    const char *folder = getenv("ENGINE_VULKAN_STATISTICS");
    return folder && *folder ? folder : NULL;
}

bool statistics_are_wanted(VkPhysicalDevice device)
{
    VkPhysicalDevicePipelineExecutablePropertiesFeaturesKHR statistics = {
        .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PIPELINE_EXECUTABLE_PROPERTIES_FEATURES_KHR};
    VkPhysicalDeviceFeatures2 features = {.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_FEATURES_2,
                                          .pNext = &statistics};
    if (!statistics_folder() || !vk.vkGetPipelineExecutablePropertiesKHR ||
        !vk.vkGetPipelineExecutableStatisticsKHR || !vk.vkGetPipelineExecutableInternalRepresentationsKHR)
        return false;
    vk.vkGetPhysicalDeviceFeatures2(device, &features);
    return statistics.pipelineExecutableInfo;
}

static void write_value(FILE *file, const VkPipelineExecutableStatisticKHR *statistic)
{
    const VkPipelineExecutableStatisticValueKHR *value = &statistic->value;
    switch (statistic->format) {
    case VK_PIPELINE_EXECUTABLE_STATISTIC_FORMAT_BOOL32_KHR:
        fprintf(file, "statistic %d %s\n", value->b32 != 0, statistic->name);
        break;
    case VK_PIPELINE_EXECUTABLE_STATISTIC_FORMAT_INT64_KHR:
        fprintf(file, "statistic %" PRIi64 " %s\n", value->i64, statistic->name);
        break;
    case VK_PIPELINE_EXECUTABLE_STATISTIC_FORMAT_UINT64_KHR:
        fprintf(file, "statistic %" PRIu64 " %s\n", value->u64, statistic->name);
        break;
    default: fprintf(file, "statistic %g %s\n", value->f64, statistic->name); break;
    }
}

static void write_statistics(FILE *file, const struct engine_device *device,
                             const VkPipelineExecutableInfoKHR *executable)
{
    uint32_t count = 0;
    if (vk.vkGetPipelineExecutableStatisticsKHR(device->handle, executable, &count, NULL) != VK_SUCCESS)
        return;
    VkPipelineExecutableStatisticKHR *statistics = calloc(count + 1, sizeof *statistics);
    for (uint32_t i = 0; statistics && i < count; i++)
        statistics[i].sType = VK_STRUCTURE_TYPE_PIPELINE_EXECUTABLE_STATISTIC_KHR;
    if (!statistics ||
        vk.vkGetPipelineExecutableStatisticsKHR(device->handle, executable, &count, statistics) != VK_SUCCESS)
        count = 0;
    for (uint32_t i = 0; i < count; i++) write_value(file, &statistics[i]);
    free(statistics);
}

static void write_code(FILE *file, const struct engine_device *device,
                       const VkPipelineExecutableInfoKHR *executable)
{
    uint32_t count = 0;
    if (vk.vkGetPipelineExecutableInternalRepresentationsKHR(device->handle, executable, &count, NULL) !=
        VK_SUCCESS)
        return;
    VkPipelineExecutableInternalRepresentationKHR *codes = calloc(count + 1, sizeof *codes);
    for (uint32_t i = 0; codes && i < count; i++)
        codes[i].sType = VK_STRUCTURE_TYPE_PIPELINE_EXECUTABLE_INTERNAL_REPRESENTATION_KHR;
    /* Asked twice: for the sizes, and then for the texts. */
    VkResult result = codes ? vk.vkGetPipelineExecutableInternalRepresentationsKHR(device->handle, executable,
                                                                                   &count, codes)
                            : VK_ERROR_OUT_OF_HOST_MEMORY;
    for (uint32_t i = 0; result == VK_SUCCESS && i < count; i++)
        codes[i].pData = codes[i].isText ? calloc(1, codes[i].dataSize + 1) : NULL;
    if (result == VK_SUCCESS)
        result =
            vk.vkGetPipelineExecutableInternalRepresentationsKHR(device->handle, executable, &count, codes);
    for (uint32_t i = 0; i < count && codes; i++) {
        if (result == VK_SUCCESS && codes[i].isText && codes[i].pData)
            fprintf(file, "code %s\n%s\n", codes[i].name, (const char *)codes[i].pData);
        free(codes[i].pData);
    }
    free(codes);
}

static FILE *open_file(const struct pipeline_key *key)
{
    char path[4096];
    int length = snprintf(path, sizeof path, "%s/%s-", statistics_folder(), shader_codes[key->shader].name);
    for (uint32_t i = 0; i < MAX_CONSTANTS && length < (int)sizeof path; i++)
        length += snprintf(path + length, sizeof path - (size_t)length, "%" PRIu32 ".", key->constants[i]);
    if (length < (int)sizeof path)
        length +=
            snprintf(path + length, sizeof path - (size_t)length, "%" PRIu32 ".txt", key->subgroup_size);
    if (length >= (int)sizeof path) return NULL;
    FILE *file = fopen(path, "w");
    if (!file) vulkan_host->log(ENGINE_LOG_WARNING, "cannot write %s: %s", path, strerror(errno));
    return file;
}

void statistics_write(const struct engine_device *device, const struct pipeline_key *key, VkPipeline pipeline)
{
    FILE *file = open_file(key);
    if (!file) return;
    fprintf(file, "shader %s\nconstants", shader_codes[key->shader].name);
    for (uint32_t i = 0; i < MAX_CONSTANTS; i++) fprintf(file, " %" PRIu32, key->constants[i]);
    fprintf(file, "\n");
    VkPipelineInfoKHR info = {.sType = VK_STRUCTURE_TYPE_PIPELINE_INFO_KHR, .pipeline = pipeline};
    VkPipelineExecutablePropertiesKHR properties[4] = {
        {0}}; /* compute pipelines have one executable, or one a width */
    uint32_t count = sizeof properties / sizeof *properties;
    for (uint32_t i = 0; i < count; i++)
        properties[i].sType = VK_STRUCTURE_TYPE_PIPELINE_EXECUTABLE_PROPERTIES_KHR;
    VkResult result = vk.vkGetPipelineExecutablePropertiesKHR(device->handle, &info, &count, properties);
    for (uint32_t i = 0; (result == VK_SUCCESS || result == VK_INCOMPLETE) && i < count; i++) {
        VkPipelineExecutableInfoKHR executable = {.sType = VK_STRUCTURE_TYPE_PIPELINE_EXECUTABLE_INFO_KHR,
                                                  .pipeline = pipeline,
                                                  .executableIndex = i};
        fprintf(file, "executable %s %" PRIu32 "\n", properties[i].name, properties[i].subgroupSize);
        write_statistics(file, device, &executable);
        write_code(file, device, &executable);
    }
    fclose(file);
}

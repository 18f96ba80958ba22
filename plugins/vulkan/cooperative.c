/* cooperative.c: which cooperative matrices shaders/matmul-cooperative.glsl uses on a device. */
#include <stdlib.h>

#include "device.h"

#define INVOCATIONS 128 /* of a workgroup; it makes a tile of this many rows and columns: */
#define TILE        64
#define DEPTH       32                                              /* values of k at once */
#define STAGED      (3 * TILE * (DEPTH + 8) * 2 + 2 * TILE * 4 + 4) /* shared memory besides the slots */
#define INTEL       0x8086

static bool has_features(const struct physical_device *device)
{
    VkPhysicalDeviceCooperativeMatrixFeaturesKHR matrices = {
        .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_COOPERATIVE_MATRIX_FEATURES_KHR};
    VkPhysicalDeviceVulkan13Features later = {.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_3_FEATURES,
                                              .pNext = &matrices};
    VkPhysicalDeviceVulkan12Features newer = {.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_2_FEATURES,
                                              .pNext = &later};
    VkPhysicalDeviceFeatures2 features = {.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_FEATURES_2,
                                          .pNext = &newer};
    vk.vkGetPhysicalDeviceFeatures2(device->handle, &features);
    /* Device scope: in this memory model the atomics of group.comp and cache-write.comp need it. */
    return matrices.cooperativeMatrix && newer.shaderFloat16 && newer.vulkanMemoryModel &&
           newer.vulkanMemoryModelDeviceScope && later.subgroupSizeControl && later.computeFullSubgroups;
}

/* The size of subgroups that use matrices, and whether a pipeline has to ask for it: not where the device has
 * one size only, since some drivers (NVK) let nobody ask there. 0 if compute shaders can't use matrices or
 * can't get this size. */
static uint32_t subgroup_size(const struct physical_device *device, bool *asks)
{
    VkPhysicalDeviceCooperativeMatrixPropertiesKHR matrices = {
        .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_COOPERATIVE_MATRIX_PROPERTIES_KHR};
    VkPhysicalDeviceVulkan13Properties later = {
        .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_3_PROPERTIES, .pNext = &matrices};
    VkPhysicalDeviceSubgroupProperties subgroups = {
        .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SUBGROUP_PROPERTIES, .pNext = &later};
    VkPhysicalDeviceProperties2 properties = {.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PROPERTIES_2,
                                              .pNext = &subgroups};
    vk.vkGetPhysicalDeviceProperties2(device->handle, &properties);
    *asks = later.minSubgroupSize != later.maxSubgroupSize;
    VkShaderStageFlags stages = matrices.cooperativeMatrixSupportedStages;
    if (*asks) stages &= later.requiredSubgroupSizeStages;
    if (!(stages & VK_SHADER_STAGE_COMPUTE_BIT)) return 0;
    /* Intel's devices multiply in their smallest subgroups, and say another size here. */
    uint32_t size = properties.properties.vendorID == INTEL ? later.minSubgroupSize : subgroups.subgroupSize;
    bool fits = size >= later.minSubgroupSize && size <= later.maxSubgroupSize && size > 0 &&
                INVOCATIONS % size == 0 && INVOCATIONS / size <= later.maxComputeWorkgroupSubgroups;
    return fits ? size : 0;
}

/* How subgroups share out a tile in matrices of a size; false where they can't. */
static bool share_out(const struct physical_device *device, uint32_t subgroup, bool asks,
                      const VkCooperativeMatrixPropertiesKHR *size, struct cooperative *cooperative)
{
    if (size->AType != VK_COMPONENT_TYPE_FLOAT16_KHR || size->BType != VK_COMPONENT_TYPE_FLOAT16_KHR ||
        size->CType != VK_COMPONENT_TYPE_FLOAT32_KHR || size->ResultType != VK_COMPONENT_TYPE_FLOAT32_KHR ||
        size->saturatingAccumulation || size->scope != VK_SCOPE_SUBGROUP_KHR)
        return false;
    uint32_t rows = size->MSize, columns = size->NSize, depth = size->KSize;
    uint32_t subgroups = INVOCATIONS / subgroup, across = subgroups > 8 ? 4 : subgroups > 1 ? 2 : 1;
    if (subgroups / across > TILE || rows == 0 || columns == 0 || depth % 4 != 0 || depth == 0) return false;
    uint32_t region_rows = TILE / (subgroups / across), region_columns = TILE / across;
    if (region_rows % rows != 0 || region_columns % columns != 0 || DEPTH % depth != 0) return false;
    /* Twice, for the gate's sums. */
    uint64_t slots = (uint64_t)subgroups * rows * columns * sizeof(float) * 2;
    if (STAGED + slots > device->properties.limits.maxComputeSharedMemorySize) return false;
    *cooperative =
        (struct cooperative){rows, columns, depth, region_rows, region_columns, asks ? subgroup : 0};
    return true;
}

void cooperative_find(struct physical_device *device)
{
    bool is_built = shader_codes[SHADER_MATMUL_Q4_0_COOPERATIVE].words != NULL;
    if (!is_built || !vk.vkGetPhysicalDeviceCooperativeMatrixPropertiesKHR || !has_features(device)) return;
    bool asks;
    uint32_t count = 0, subgroup = subgroup_size(device, &asks);
    if (subgroup == 0 ||
        vk.vkGetPhysicalDeviceCooperativeMatrixPropertiesKHR(device->handle, &count, NULL) != VK_SUCCESS)
        return;
    VkCooperativeMatrixPropertiesKHR *sizes = calloc(count, sizeof *sizes);
    if (!sizes) return;
    for (uint32_t i = 0; i < count; i++) sizes[i].sType = VK_STRUCTURE_TYPE_COOPERATIVE_MATRIX_PROPERTIES_KHR;
    VkResult result = vk.vkGetPhysicalDeviceCooperativeMatrixPropertiesKHR(device->handle, &count, sizes);
    /* Drivers list their preferred sizes first. */
    for (uint32_t i = 0; result == VK_SUCCESS && i < count; i++)
        if (share_out(device, subgroup, asks, &sizes[i], &device->cooperative)) break;
    free(sizes);
}

/* functions.h: the Vulkan functions that the plugin calls, in lists: those that exist without an instance,
 * the others, and those that may be missing. The loader is opened at run time, so that a machine without one
 * gets a message instead of a linker's. */
#ifndef VULKAN_FUNCTIONS_H
#define VULKAN_FUNCTIONS_H

#define VK_NO_PROTOTYPES
#include <vulkan/vulkan.h>

#include "cooperative.h"

#define VULKAN_GLOBAL_FUNCTIONS(F)                                                                           \
    F(vkEnumerateInstanceVersion)                                                                            \
    F(vkEnumerateInstanceExtensionProperties)                                                                \
    F(vkEnumerateInstanceLayerProperties)                                                                    \
    F(vkCreateInstance)

#define VULKAN_FUNCTIONS(F)                                                                                  \
    F(vkDestroyInstance)                                                                                     \
    F(vkEnumeratePhysicalDevices)                                                                            \
    F(vkGetPhysicalDeviceProperties)                                                                         \
    F(vkGetPhysicalDeviceProperties2)                                                                        \
    F(vkGetPhysicalDeviceFeatures2)                                                                          \
    F(vkGetPhysicalDeviceMemoryProperties2)                                                                  \
    F(vkGetPhysicalDeviceQueueFamilyProperties)                                                              \
    F(vkEnumerateDeviceExtensionProperties)                                                                  \
    F(vkCreateDevice)                                                                                        \
    F(vkDestroyDevice)                                                                                       \
    F(vkGetDeviceQueue)                                                                                      \
    F(vkDeviceWaitIdle)                                                                                      \
    F(vkAllocateMemory)                                                                                      \
    F(vkFreeMemory)                                                                                          \
    F(vkMapMemory)                                                                                           \
    F(vkCreateBuffer)                                                                                        \
    F(vkDestroyBuffer)                                                                                       \
    F(vkGetBufferMemoryRequirements)                                                                         \
    F(vkBindBufferMemory)                                                                                    \
    F(vkCreateShaderModule)                                                                                  \
    F(vkDestroyShaderModule)                                                                                 \
    F(vkCreateDescriptorSetLayout)                                                                           \
    F(vkDestroyDescriptorSetLayout)                                                                          \
    F(vkCreatePipelineLayout)                                                                                \
    F(vkDestroyPipelineLayout)                                                                               \
    F(vkCreatePipelineCache)                                                                                 \
    F(vkDestroyPipelineCache)                                                                                \
    F(vkGetPipelineCacheData)                                                                                \
    F(vkCreateComputePipelines)                                                                              \
    F(vkDestroyPipeline)                                                                                     \
    F(vkCreateDescriptorPool)                                                                                \
    F(vkDestroyDescriptorPool)                                                                               \
    F(vkResetDescriptorPool)                                                                                 \
    F(vkAllocateDescriptorSets)                                                                              \
    F(vkUpdateDescriptorSets)                                                                                \
    F(vkCreateCommandPool)                                                                                   \
    F(vkDestroyCommandPool)                                                                                  \
    F(vkAllocateCommandBuffers)                                                                              \
    F(vkFreeCommandBuffers)                                                                                  \
    F(vkBeginCommandBuffer)                                                                                  \
    F(vkEndCommandBuffer)                                                                                    \
    F(vkCmdBindPipeline)                                                                                     \
    F(vkCmdBindDescriptorSets)                                                                               \
    F(vkCmdPushConstants)                                                                                    \
    F(vkCmdDispatch)                                                                                         \
    F(vkCmdPipelineBarrier)                                                                                  \
    F(vkCmdCopyBuffer)                                                                                       \
    F(vkCmdUpdateBuffer)                                                                                     \
    F(vkCmdFillBuffer)                                                                                       \
    F(vkCmdExecuteCommands)                                                                                  \
    F(vkCmdResetQueryPool)                                                                                   \
    F(vkCmdWriteTimestamp)                                                                                   \
    F(vkCreateQueryPool)                                                                                     \
    F(vkDestroyQueryPool)                                                                                    \
    F(vkGetQueryPoolResults)                                                                                 \
    F(vkCreateFence)                                                                                         \
    F(vkDestroyFence)                                                                                        \
    F(vkResetFences)                                                                                         \
    F(vkGetFenceStatus)                                                                                      \
    F(vkWaitForFences)                                                                                       \
    F(vkQueueSubmit)

/* Those of later versions and extensions: NULL where the loader is older. */
#define VULKAN_LATER_FUNCTIONS(F)                                                                            \
    F(vkGetBufferDeviceAddress)                                                                              \
    F(vkGetPipelineExecutablePropertiesKHR)                                                                  \
    F(vkGetPipelineExecutableStatisticsKHR)                                                                  \
    F(vkGetPipelineExecutableInternalRepresentationsKHR)                                                     \
    F(vkGetPhysicalDeviceCooperativeMatrixPropertiesKHR)

struct vulkan_functions {
    PFN_vkGetInstanceProcAddr vkGetInstanceProcAddr;
#define VULKAN_MEMBER(name) PFN_##name name;
    VULKAN_GLOBAL_FUNCTIONS(VULKAN_MEMBER)
    VULKAN_FUNCTIONS(VULKAN_MEMBER)
    VULKAN_LATER_FUNCTIONS(VULKAN_MEMBER)
#undef VULKAN_MEMBER
};

#endif

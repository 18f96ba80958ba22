/* instance.c: the Vulkan loader and the instance, made once in a process and kept until its end: drivers
 * start threads and register handlers that don't bear being unloaded. Also the list of devices, and the
 * validation layers ([vulkan] validation = on, or "gpu" for GPU-assisted validation too;
 * ENGINE_VULKAN_VALIDATION overrides it). */
#include <dlfcn.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "device.h"

#define LEAST_VERSION VK_API_VERSION_1_1
#define LAYER         "VK_LAYER_KHRONOS_validation"

struct vulkan_functions vk;

static struct {
    bool made;
    int status;
    char message[480]; /* why it couldn't be made */
    VkInstance handle;
    uint32_t version; /* of Vulkan that we said we use */
    struct physical_device *devices;
    uint32_t n_devices;
} instance;

static struct {
    atomic_uint count;
    char message[480]; /* the first one */
} complaints;

/* The status that a VkResult amounts to, and its words. */
static int instance_describe(VkResult result, const char *what, char *message, size_t size)
{
    switch (result) {
    case VK_SUCCESS: return ENGINE_OK;
    case VK_ERROR_OUT_OF_HOST_MEMORY:
    case VK_ERROR_TOO_MANY_OBJECTS:
        snprintf(message, size, "%s: out of host memory", what);
        return ENGINE_ERROR_MEMORY;
    case VK_ERROR_OUT_OF_DEVICE_MEMORY:
    case VK_ERROR_OUT_OF_POOL_MEMORY:
    case VK_ERROR_FRAGMENTED_POOL:
        snprintf(message, size, "%s: out of device memory", what);
        return ENGINE_ERROR_MEMORY;
    case VK_ERROR_DEVICE_LOST:
        snprintf(message, size, "%s: the device was lost (the driver has reset it, or it was unplugged)",
                 what);
        return ENGINE_ERROR_DEVICE;
    default: snprintf(message, size, "%s: Vulkan error %d", what, (int)result); return ENGINE_ERROR_DEVICE;
    }
}

int vulkan_error(VkResult result, const char *what)
{
    char message[480];
    int status = instance_describe(result, what, message, sizeof message);
    return status ? vulkan_host->fail(status, "%s", message) : ENGINE_OK;
}

/* Keeps the reason why there is no instance, for all later calls. */
static int keep_reason(int status, const char *message)
{
    snprintf(instance.message, sizeof instance.message, "%s", message);
    return status;
}

/* ---- Loader -------------------------------------------------------------------------------------------- */

static int loader_open(void)
{
    if (vk.vkGetInstanceProcAddr) return ENGINE_OK;
    void *library = dlopen("libvulkan.so.1", RTLD_NOW | RTLD_LOCAL);
    if (!library)
        return vulkan_host->fail(ENGINE_ERROR_NOT_FOUND,
                                 "there is no Vulkan loader (libvulkan.so.1); on Debian, install libvulkan1 "
                                 "and mesa-vulkan-drivers or your GPU vendor's driver");
    *(void **)&vk.vkGetInstanceProcAddr = dlsym(library, "vkGetInstanceProcAddr");
    bool complete = vk.vkGetInstanceProcAddr != NULL;
#define LOAD(name)                                                                                           \
    if (complete) vk.name = (PFN_##name)(void (*)(void))vk.vkGetInstanceProcAddr(NULL, #name);               \
    complete = complete && vk.name;
    VULKAN_GLOBAL_FUNCTIONS(LOAD)
#undef LOAD
    if (complete) return ENGINE_OK;
    vk.vkGetInstanceProcAddr = NULL;
    dlclose(library);
    return vulkan_host->fail(ENGINE_ERROR_NOT_FOUND,
                             "the Vulkan loader (libvulkan.so.1) is older than Vulkan 1.1");
}

/* ---- Validation ---------------------------------------------------------------------------------------- */

static VKAPI_ATTR VkBool32 VKAPI_CALL complain(VkDebugUtilsMessageSeverityFlagBitsEXT severity,
                                               VkDebugUtilsMessageTypeFlagsEXT types,
                                               const VkDebugUtilsMessengerCallbackDataEXT *data, void *user)
{
    (void)user, (void)types;
    if (severity & VK_DEBUG_UTILS_MESSAGE_SEVERITY_ERROR_BIT_EXT ||
        types & VK_DEBUG_UTILS_MESSAGE_TYPE_VALIDATION_BIT_EXT) {
        if (atomic_fetch_add(&complaints.count, 1) == 0)
            snprintf(complaints.message, sizeof complaints.message, "%s", data->pMessage);
        vulkan_host->log(ENGINE_LOG_ERROR, "validation: %s", data->pMessage);
    }
    return VK_FALSE;
}

int validation_status(void)
{
    unsigned count = atomic_load(&complaints.count);
    if (count == 0) return ENGINE_OK;
    return vulkan_host->fail(ENGINE_ERROR, "validation: %u messages, the first: %s", count,
                             complaints.message);
}

enum { VALIDATION_OFF, VALIDATION_ON, VALIDATION_GPU };

static const char *validation_setting(void)
{
    const char *text = getenv("ENGINE_VULKAN_VALIDATION");
    if (!text || !*text) text = vulkan_host->setting("vulkan", "validation");
    return text ? text : "off";
}

/* Any other text is off until a device is opened, which it then prevents. */
static int wanted_validation(void)
{
    const char *text = validation_setting();
    return strcmp(text, "gpu") == 0  ? VALIDATION_GPU
           : strcmp(text, "on") == 0 ? VALIDATION_ON
                                     : VALIDATION_OFF;
}

int validation_check_setting(void)
{
    const char *text = validation_setting();
    if (wanted_validation() || strcmp(text, "off") == 0) return ENGINE_OK;
    return vulkan_host->fail(ENGINE_ERROR_ARGUMENT, "validation = %s: choose \"off\", \"on\" or \"gpu\"",
                             text);
}

static bool has_layer(void)
{
    VkLayerProperties layers[64];
    uint32_t count = 64;
    VkResult result = vk.vkEnumerateInstanceLayerProperties(&count, layers);
    for (uint32_t i = 0; (result == VK_SUCCESS || result == VK_INCOMPLETE) && i < count; i++)
        if (strcmp(layers[i].layerName, LAYER) == 0) return true;
    return false;
}

/* ---- Devices ------------------------------------------------------------------------------------------- */

static bool find_queue(struct physical_device *device)
{
    VkQueueFamilyProperties families[16];
    uint32_t count = 16, found = UINT32_MAX;
    vk.vkGetPhysicalDeviceQueueFamilyProperties(device->handle, &count, families);
    for (uint32_t i = 0; i < count; i++) {
        if (!(families[i].queueFlags & VK_QUEUE_COMPUTE_BIT) || families[i].queueCount == 0) continue;
        bool compute_only = !(families[i].queueFlags & VK_QUEUE_GRAPHICS_BIT);
        if (found == UINT32_MAX || compute_only) found = i;
        if (compute_only) break;
    }
    device->queue_family = found;
    if (found != UINT32_MAX) device->time_bits = families[found].timestampValidBits;
    return found != UINT32_MAX;
}

static bool has_extension(VkPhysicalDevice handle, const char *name)
{
    uint32_t count = 0;
    bool found = false;
    if (vk.vkEnumerateDeviceExtensionProperties(handle, NULL, &count, NULL) != VK_SUCCESS || count == 0)
        return false;
    VkExtensionProperties *extensions = calloc(count, sizeof *extensions);
    if (extensions && vk.vkEnumerateDeviceExtensionProperties(handle, NULL, &count, extensions) == VK_SUCCESS)
        for (uint32_t i = 0; i < count; i++)
            if (strcmp(extensions[i].extensionName, name) == 0) found = true;
    free(extensions);
    return found;
}

/* Whether both device and loader have that version. */
static bool has_version(const struct physical_device *device, uint32_t version)
{
    return device->properties.apiVersion >= version && instance.version >= version;
}

/* What Vulkan 1.2 adds: arithmetic in float16, reading at addresses. */
static void find_newer_features(struct physical_device *device)
{
    VkPhysicalDeviceVulkan12Features later = {.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_2_FEATURES};
    VkPhysicalDeviceFeatures2 features = {.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_FEATURES_2,
                                          .pNext = &later};
    if (!has_version(device, VK_API_VERSION_1_2)) return;
    vk.vkGetPhysicalDeviceFeatures2(device->handle, &features);
    device->has_half = later.shaderFloat16;
    device->has_addresses =
        later.bufferDeviceAddress && features.features.shaderInt64 && vk.vkGetBufferDeviceAddress;
}

/* What Vulkan 1.3 adds: dot products of four bytes in words, full subgroups. */
static void find_later_features(struct physical_device *device)
{
    VkPhysicalDeviceVulkan13Features later = {.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_3_FEATURES};
    VkPhysicalDeviceFeatures2 features = {.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_FEATURES_2,
                                          .pNext = &later};
    VkPhysicalDeviceVulkan13Properties speed = {.sType =
                                                    VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_3_PROPERTIES};
    VkPhysicalDeviceProperties2 properties = {.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PROPERTIES_2,
                                              .pNext = &speed};
    if (!has_version(device, VK_API_VERSION_1_3)) return;
    vk.vkGetPhysicalDeviceFeatures2(device->handle, &features);
    vk.vkGetPhysicalDeviceProperties2(device->handle, &properties);
    device->has_shuffles = later.computeFullSubgroups;
    device->has_dot = later.shaderIntegerDotProduct;
    device->fast_dot = device->has_dot && speed.integerDotProduct4x8BitPackedSignedAccelerated;
}

static void find_address(struct physical_device *device)
{
    VkPhysicalDevicePCIBusInfoPropertiesEXT pci = {
        .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PCI_BUS_INFO_PROPERTIES_EXT};
    VkPhysicalDeviceProperties2 properties = {.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PROPERTIES_2,
                                              .pNext = &pci};
    if (!has_extension(device->handle, VK_EXT_PCI_BUS_INFO_EXTENSION_NAME)) return;
    vk.vkGetPhysicalDeviceProperties2(device->handle, &properties);
    gpu_pci_address(device->pci_address, pci.pciDomain, pci.pciBus, pci.pciDevice, pci.pciFunction);
}

/* Whether the device can run our kernels; fills the rest of *device. */
static bool instance_survey(struct physical_device *device)
{
    VkPhysicalDeviceMaintenance3Properties maintenance = {
        .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_MAINTENANCE_3_PROPERTIES};
    VkPhysicalDeviceDriverProperties driver = {.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_DRIVER_PROPERTIES};
    VkPhysicalDeviceMaintenance4Properties buffers = {
        .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_MAINTENANCE_4_PROPERTIES, .maxBufferSize = UINT64_MAX};
    VkPhysicalDeviceSubgroupProperties subgroups = {
        .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SUBGROUP_PROPERTIES, .pNext = &maintenance};
    VkPhysicalDeviceIDProperties id = {.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_ID_PROPERTIES,
                                       .pNext = &subgroups};
    VkPhysicalDeviceProperties2 properties = {.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PROPERTIES_2,
                                              .pNext = &id};
    vk.vkGetPhysicalDeviceProperties(device->handle, &device->properties);
    if (device->properties.apiVersion < LEAST_VERSION) return false;
    bool says_driver = has_version(device, VK_API_VERSION_1_2);
    if (says_driver) maintenance.pNext = &driver;
    if (has_version(device, VK_API_VERSION_1_3)) driver.pNext = &buffers;
    vk.vkGetPhysicalDeviceProperties2(device->handle, &properties);
    if (says_driver) snprintf(device->driver, sizeof device->driver, "%s", driver.driverName);
    memcpy(device->uuid, id.deviceUUID, sizeof device->uuid);
    find_address(device);
    find_newer_features(device);
    find_later_features(device);
    VkSubgroupFeatureFlags needed = VK_SUBGROUP_FEATURE_BASIC_BIT | VK_SUBGROUP_FEATURE_ARITHMETIC_BIT;
    device->has_subgroups = (subgroups.supportedStages & VK_SHADER_STAGE_COMPUTE_BIT) &&
                            (subgroups.supportedOperations & needed) == needed;
    device->has_shuffles = device->has_shuffles && device->has_subgroups && subgroups.subgroupSize >= 8 &&
                           subgroups.subgroupSize <= 128 &&
                           (subgroups.supportedOperations & VK_SUBGROUP_FEATURE_SHUFFLE_BIT);
    device->subgroup = subgroups.subgroupSize;
    if (has_version(device, VK_API_VERSION_1_3) &&
        has_extension(device->handle, VK_KHR_COOPERATIVE_MATRIX_EXTENSION_NAME))
        cooperative_find(device);
    device->max_buffer = maintenance.maxMemoryAllocationSize < buffers.maxBufferSize
                             ? maintenance.maxMemoryAllocationSize
                             : buffers.maxBufferSize;
    device->has_budget = has_extension(device->handle, VK_EXT_MEMORY_BUDGET_EXTENSION_NAME);
    device->has_statistics =
        has_extension(device->handle, VK_KHR_PIPELINE_EXECUTABLE_PROPERTIES_EXTENSION_NAME) &&
        statistics_are_wanted(device->handle);
    const VkPhysicalDeviceLimits *limits = &device->properties.limits;
    return limits->maxPerStageDescriptorStorageBuffers >= MAX_BINDINGS &&
           limits->maxComputeWorkGroupInvocations >= 128 && limits->maxPushConstantsSize >= MAX_PUSH &&
           find_queue(device);
}

static int list_devices(void)
{
    uint32_t count = 0;
    VkResult result = vk.vkEnumeratePhysicalDevices(instance.handle, &count, NULL);
    if (result == VK_ERROR_INITIALIZATION_FAILED || count == 0) return ENGINE_OK; /* no driver */
    VkPhysicalDevice *handles = calloc(count, sizeof *handles);
    instance.devices = calloc(count, sizeof *instance.devices);
    if (!handles || !instance.devices) result = VK_ERROR_OUT_OF_HOST_MEMORY;
    if (result == VK_SUCCESS) result = vk.vkEnumeratePhysicalDevices(instance.handle, &count, handles);
    for (uint32_t i = 0; (result == VK_SUCCESS || result == VK_INCOMPLETE) && i < count; i++) {
        struct physical_device *device = &instance.devices[instance.n_devices];
        *device = (struct physical_device){.handle = handles[i]};
        if (instance_survey(device)) instance.n_devices++;
    }
    free(handles);
    if (result == VK_INCOMPLETE) return ENGINE_OK;
    return instance_describe(result, "devices", instance.message, sizeof instance.message);
}

/* ---- Instance ------------------------------------------------------------------------------------------ */

static int create_instance(void)
{
    uint32_t version = VK_API_VERSION_1_0;
    int validation = wanted_validation();
    if (vk.vkEnumerateInstanceVersion(&version) != VK_SUCCESS || version < LEAST_VERSION)
        return keep_reason(ENGINE_ERROR_NOT_FOUND, "the Vulkan loader is older than Vulkan 1.1");
    if (validation && !has_layer())
        return keep_reason(ENGINE_ERROR, "validation is on, but there is no " LAYER
                                         "; on Debian, install vulkan-validationlayers");
    instance.version = version < VK_API_VERSION_1_3 ? version : VK_API_VERSION_1_3;
    VkValidationFeatureEnableEXT enabled[] = {
        VK_VALIDATION_FEATURE_ENABLE_SYNCHRONIZATION_VALIDATION_EXT,
        VK_VALIDATION_FEATURE_ENABLE_GPU_ASSISTED_EXT,
        VK_VALIDATION_FEATURE_ENABLE_GPU_ASSISTED_RESERVE_BINDING_SLOT_EXT};
    VkValidationFeaturesEXT features = {.sType = VK_STRUCTURE_TYPE_VALIDATION_FEATURES_EXT,
                                        .enabledValidationFeatureCount = validation == VALIDATION_GPU ? 3 : 1,
                                        .pEnabledValidationFeatures = enabled};
    VkDebugUtilsMessengerCreateInfoEXT messenger = {
        .sType = VK_STRUCTURE_TYPE_DEBUG_UTILS_MESSENGER_CREATE_INFO_EXT,
        .pNext = &features,
        .messageSeverity =
            VK_DEBUG_UTILS_MESSAGE_SEVERITY_ERROR_BIT_EXT | VK_DEBUG_UTILS_MESSAGE_SEVERITY_WARNING_BIT_EXT,
        .messageType =
            VK_DEBUG_UTILS_MESSAGE_TYPE_GENERAL_BIT_EXT | VK_DEBUG_UTILS_MESSAGE_TYPE_VALIDATION_BIT_EXT,
        .pfnUserCallback = complain,
    };
    const char *layers[] = {LAYER}, *extensions[] = {VK_EXT_DEBUG_UTILS_EXTENSION_NAME};
    VkApplicationInfo application = {.sType = VK_STRUCTURE_TYPE_APPLICATION_INFO,
                                     .pApplicationName = "engine",
                                     .apiVersion = instance.version};
    VkInstanceCreateInfo create = {.sType = VK_STRUCTURE_TYPE_INSTANCE_CREATE_INFO,
                                   .pNext = validation ? &messenger : NULL,
                                   .pApplicationInfo = &application,
                                   .enabledLayerCount = validation ? 1 : 0,
                                   .ppEnabledLayerNames = layers,
                                   .enabledExtensionCount = validation ? 1 : 0,
                                   .ppEnabledExtensionNames = extensions};
    VkResult result = vk.vkCreateInstance(&create, NULL, &instance.handle);
    if (result == VK_ERROR_INCOMPATIBLE_DRIVER) return ENGINE_OK; /* no driver: no devices */
    if (result != VK_SUCCESS)
        return keep_reason(ENGINE_ERROR_NOT_FOUND, "Vulkan does not start; is a driver's or layer's manifest "
                                                   "damaged? (VK_LOADER_DEBUG=all shows details)");
    bool complete = true;
#define LOAD(name)                                                                                           \
    vk.name = (PFN_##name)(void (*)(void))vk.vkGetInstanceProcAddr(instance.handle, #name);                  \
    complete = complete && vk.name;
    VULKAN_FUNCTIONS(LOAD)
#undef LOAD
#define LOAD(name) vk.name = (PFN_##name)(void (*)(void))vk.vkGetInstanceProcAddr(instance.handle, #name);
    VULKAN_LATER_FUNCTIONS(LOAD)
#undef LOAD
    if (!complete)
        return keep_reason(ENGINE_ERROR_NOT_FOUND, "the Vulkan loader lacks functions of Vulkan 1.1");
    if (!validation) return list_devices();
    PFN_vkCreateDebugUtilsMessengerEXT create_messenger = (PFN_vkCreateDebugUtilsMessengerEXT)(void (*)(
        void))vk.vkGetInstanceProcAddr(instance.handle, "vkCreateDebugUtilsMessengerEXT");
    VkDebugUtilsMessengerEXT handle; /* lives as long as the instance */
    messenger.pNext = NULL;
    if (create_messenger) create_messenger(instance.handle, &messenger, NULL, &handle);
    return list_devices();
}

int instance_devices(const struct physical_device **devices, uint32_t *count)
{
    if (!instance.made) {
        int status = loader_open();
        if (status) return status;
        instance.status = create_instance();
        instance.made = true;
    }
    if (instance.status) return vulkan_host->fail(instance.status, "%s", instance.message);
    *devices = instance.devices;
    *count = instance.n_devices;
    return ENGINE_OK;
}

/* ---- Free memory --------------------------------------------------------------------------------------- */

void physical_memory(const struct physical_device *device, uint64_t *bytes_free, uint64_t *bytes_total)
{
    VkPhysicalDeviceMemoryBudgetPropertiesEXT budget = {
        .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_MEMORY_BUDGET_PROPERTIES_EXT};
    VkPhysicalDeviceMemoryProperties2 properties = {.sType =
                                                        VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_MEMORY_PROPERTIES_2,
                                                    .pNext = device->has_budget ? &budget : NULL};
    vk.vkGetPhysicalDeviceMemoryProperties2(device->handle, &properties);
    *bytes_free = *bytes_total = 0;
    for (uint32_t i = 0; i < properties.memoryProperties.memoryHeapCount; i++) {
        const VkMemoryHeap *heap = &properties.memoryProperties.memoryHeaps[i];
        if (!(heap->flags & VK_MEMORY_HEAP_DEVICE_LOCAL_BIT) || heap->size <= *bytes_total) continue;
        uint64_t used = budget.heapUsage[i], limit = budget.heapBudget[i];
        *bytes_total = heap->size;
        *bytes_free = !device->has_budget ? heap->size : limit > used ? limit - used : 0;
    }
    VkPhysicalDeviceType type = device->properties.deviceType;
    if (type == VK_PHYSICAL_DEVICE_TYPE_CPU || type == VK_PHYSICAL_DEVICE_TYPE_INTEGRATED_GPU) {
        uint64_t available = gpu_host_memory();
        if (*bytes_free > available) *bytes_free = available;
    }
}

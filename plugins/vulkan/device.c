/* device.c: opening a device, and its buffers. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/sized.h"
#include "device.h"
#include "times.h"

#define MAX_HEAD_DIM                                                                                         \
    1024 /* what shaders/attention.comp keeps in registers: 16 values in each of 64 invocations */

#define MAX_EXPERTS 1024 /* what shaders/route.comp and group.comp keep in shared memory */

static int create_device(struct engine_device *device)
{
    const char *extensions[3];
    uint32_t n_extensions = 0;
    if (device->physical->has_budget) extensions[n_extensions++] = VK_EXT_MEMORY_BUDGET_EXTENSION_NAME;
    if (device->cooperative) extensions[n_extensions++] = VK_KHR_COOPERATIVE_MATRIX_EXTENSION_NAME;
    if (device->physical->has_statistics)
        extensions[n_extensions++] = VK_KHR_PIPELINE_EXECUTABLE_PROPERTIES_EXTENSION_NAME;
    float priority = 1;
    VkDeviceQueueCreateInfo queue = {.sType = VK_STRUCTURE_TYPE_DEVICE_QUEUE_CREATE_INFO,
                                     .queueFamilyIndex = device->physical->queue_family,
                                     .queueCount = 1,
                                     .pQueuePriorities = &priority};
    VkPhysicalDeviceCooperativeMatrixFeaturesKHR matrices = {
        .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_COOPERATIVE_MATRIX_FEATURES_KHR,
        .cooperativeMatrix = true};
    VkPhysicalDevicePipelineExecutablePropertiesFeaturesKHR statistics = {
        .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PIPELINE_EXECUTABLE_PROPERTIES_FEATURES_KHR,
        .pipelineExecutableInfo = true};
    VkPhysicalDeviceVulkan13Features later = {.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_3_FEATURES,
                                              .shaderIntegerDotProduct = device->dot,
                                              .subgroupSizeControl = device->cooperative,
                                              .computeFullSubgroups =
                                                  device->shuffles || device->cooperative};
    VkPhysicalDeviceVulkan12Features newer = {.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_2_FEATURES,
                                              .bufferDeviceAddress = device->addresses,
                                              .shaderFloat16 = device->half || device->cooperative,
                                              .vulkanMemoryModel = device->cooperative,
                                              .vulkanMemoryModelDeviceScope = device->cooperative};
    VkPhysicalDeviceFeatures2 wanted = {.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_FEATURES_2,
                                        .features = {.shaderInt64 = device->addresses}};
    VkDeviceCreateInfo create = {.sType = VK_STRUCTURE_TYPE_DEVICE_CREATE_INFO,
                                 .queueCreateInfoCount = 1,
                                 .pQueueCreateInfos = &queue,
                                 .enabledExtensionCount = n_extensions,
                                 .ppEnabledExtensionNames = extensions};
    void **end = &wanted.pNext;
    if (device->addresses || device->half || device->cooperative) {
        *end = &newer;
        end = &newer.pNext;
    }
    if (device->dot || device->shuffles || device->cooperative) {
        *end = &later;
        end = &later.pNext;
    }
    if (device->cooperative) {
        *end = &matrices;
        end = &matrices.pNext;
    }
    if (device->physical->has_statistics) *end = &statistics;
    if (wanted.pNext) create.pNext = &wanted;
    VkResult result = vk.vkCreateDevice(device->physical->handle, &create, NULL, &device->handle);
    if (result != VK_SUCCESS) return vulkan_error(result, device->physical->properties.deviceName);
    vk.vkGetDeviceQueue(device->handle, device->physical->queue_family, 0, &device->queue);
    VkCommandPoolCreateInfo pool = {.sType = VK_STRUCTURE_TYPE_COMMAND_POOL_CREATE_INFO,
                                    .flags = VK_COMMAND_POOL_CREATE_RESET_COMMAND_BUFFER_BIT,
                                    .queueFamilyIndex = device->physical->queue_family};
    result = vk.vkCreateCommandPool(device->handle, &pool, NULL, &device->command_pool);
    return vulkan_error(result, "commands");
}

static void read_limits(struct engine_device *device)
{
    const VkPhysicalDeviceLimits *limits = &device->physical->properties.limits;
    device->max_range = limits->maxStorageBufferRange;
    device->max_groups[0] = limits->maxComputeWorkGroupCount[0];
    device->max_groups[1] = limits->maxComputeWorkGroupCount[1];
    /* A range may start at 256 bytes before a tensor at most, see bind_view in ops.c. */
    device->limits.max_tensor = device->max_range - 256;
    device->limits.max_head_dim = MAX_HEAD_DIM;
    device->limits.max_experts = MAX_EXPERTS;
    device->limits.weight_type = weight_type_known;
    device->limits.has_kernel = op_has_kernel;
    bool is_cpu = device->physical->properties.deviceType == VK_PHYSICAL_DEVICE_TYPE_CPU;
    device->splits = !is_cpu;
    uint32_t invocations = limits->maxComputeWorkGroupInvocations;
    if (invocations > limits->maxComputeWorkGroupSize[0]) invocations = limits->maxComputeWorkGroupSize[0];
    device->few_rows = invocations >= 32 * FEW_SHARES ? 32 : invocations >= 16 * FEW_SHARES ? 16 : 8;
    device->max_norm_lanes = 64;
    while (!is_cpu && 2 * device->max_norm_lanes <= invocations && device->max_norm_lanes < 1024)
        device->max_norm_lanes *= 2;
    /* Drivers that run shaders on the CPU take long to compile them. */
    device->unrolled = is_cpu ? 4 : 32;
}

/* Chooses the form of matmul: [vulkan] matmul = auto, address, tiled, half, dot or cooperative;
 * ENGINE_VULKAN_MATMUL overrides it. */
static int choose_matmul(struct engine_device *device)
{
    const struct physical_device *physical = device->physical;
    bool has_cooperative = physical->cooperative.rows > 0;
    const char *text = getenv("ENGINE_VULKAN_MATMUL");
    if (!text || !*text) text = vulkan_host->setting("vulkan", "matmul");
    if (!text || strcmp(text, "auto") == 0) {
        bool is_cpu = physical->properties.deviceType == VK_PHYSICAL_DEVICE_TYPE_CPU;
        device->addresses = is_cpu && physical->has_addresses;
        device->dot = !is_cpu && physical->fast_dot;
        device->half = !is_cpu && physical->has_half;
        device->cooperative = !is_cpu && has_cooperative;
        return ENGINE_OK;
    }
    device->addresses = strcmp(text, "address") == 0;
    device->dot = strcmp(text, "dot") == 0;
    device->half = strcmp(text, "half") == 0;
    device->cooperative = strcmp(text, "cooperative") == 0;
    if (!device->addresses && !device->dot && !device->half && !device->cooperative &&
        strcmp(text, "tiled") != 0)
        return vulkan_host->fail(
            ENGINE_ERROR_ARGUMENT,
            "matmul = %s: choose \"auto\", \"address\", \"tiled\", \"half\", \"dot\" or \"cooperative\"",
            text);
    if (device->cooperative && !has_cooperative && !shader_codes[SHADER_MATMUL_Q4_0_COOPERATIVE].words)
        return vulkan_host->fail(ENGINE_ERROR_UNSUPPORTED,
                                 "matmul = cooperative: the plugin was built with a glslc that cannot "
                                 "compile cooperative matrices");
    if ((device->addresses && !physical->has_addresses) || (device->dot && !physical->has_dot) ||
        (device->half && !physical->has_half) || (device->cooperative && !has_cooperative))
        return vulkan_host->fail(ENGINE_ERROR_UNSUPPORTED, "matmul = %s: %s does not support it", text,
                                 physical->properties.deviceName);
    return ENGINE_OK;
}

/* Chooses up to how many columns a weight is read once by workgroups of few rows (shaders/matmul-few.glsl)
 * instead of going through tiles: [vulkan] few_columns = auto or 1 … 16; ENGINE_VULKAN_FEW_COLUMNS overrides
 * it.
 *
 * The answer is the same for all kinds of GPUs, with cooperative matrices or without. Tiles have 32 or 64
 * columns, whose products are computed even if most of them don't exist. A workgroup takes 64 rows of a tile
 * and walks through all of k, with two barriers for each 32 values: a matrix of 4096 rows has 64 workgroups,
 * too few to keep a large GPU's memory busy. Workgroups of matmul-few.glsl have fewer rows, divide k, need no
 * barrier before the end, and compute no more columns than the next power of two. At 16 columns they need
 * half the products of a tile of 32; the sums of more would not fit into registers. Software drivers have a
 * form of their own for any number of columns (shaders/matmul-address.glsl). */
static int choose_few_columns(struct engine_device *device)
{
    const char *text = getenv("ENGINE_VULKAN_FEW_COLUMNS");
    if (!text || !*text) text = vulkan_host->setting("vulkan", "few_columns");
    device->few_columns = MAX_FEW_COLUMNS;
    if (!text || strcmp(text, "auto") == 0) return ENGINE_OK;
    char *end;
    unsigned long columns = strtoul(text, &end, 10);
    if (*text < '1' || *text > '9' || *end || columns > MAX_FEW_COLUMNS)
        return vulkan_host->fail(ENGINE_ERROR_ARGUMENT,
                                 "few_columns = %s: choose \"auto\" or a number from 1 to %d", text,
                                 MAX_FEW_COLUMNS);
    device->few_columns = (uint32_t)columns;
    return ENGINE_OK;
}

/* Chooses whether workgroups add over subgroups: [vulkan] subgroups = auto, on or off;
 * ENGINE_VULKAN_SUBGROUPS overrides it. */
static int choose_subgroups(struct engine_device *device)
{
    const struct physical_device *physical = device->physical;
    const char *text = getenv("ENGINE_VULKAN_SUBGROUPS");
    if (!text || !*text) text = vulkan_host->setting("vulkan", "subgroups");
    bool is_auto = !text || strcmp(text, "auto") == 0;
    device->subgroups = is_auto ? physical->has_subgroups : strcmp(text, "on") == 0;
    if (!is_auto && !device->subgroups && strcmp(text, "off") != 0)
        return vulkan_host->fail(ENGINE_ERROR_ARGUMENT, "subgroups = %s: choose \"auto\", \"on\" or \"off\"",
                                 text);
    if (device->subgroups && !physical->has_subgroups)
        return vulkan_host->fail(ENGINE_ERROR_UNSUPPORTED,
                                 "subgroups = on: %s does not support subgroup arithmetic",
                                 physical->properties.deviceName);
    device->shuffles = device->subgroups && physical->has_shuffles;
    return ENGINE_OK;
}

/* Chooses how much is submitted at once: [vulkan] submission = auto, off, or seconds of a slow device's work;
 * ENGINE_VULKAN_SUBMISSION overrides it. Drivers and desktops give up on a GPU that is busy with one
 * submission for a few seconds (Windows after 2, amdgpu and i915 after 10), and nobody else can draw
 * meanwhile. Software drivers can wait. */
static int choose_submission(struct engine_device *device)
{
    const char *text = getenv("ENGINE_VULKAN_SUBMISSION");
    VkPhysicalDeviceType type = device->physical->properties.deviceType;
    bool is_large = type == VK_PHYSICAL_DEVICE_TYPE_DISCRETE_GPU;
    device->speed.flops = is_large ? 4e12 : 4e11;
    device->speed.bytes = is_large ? 1e11 : 2e10;
    if (!text || !*text) text = vulkan_host->setting("vulkan", "submission");
    device->submission = type == VK_PHYSICAL_DEVICE_TYPE_CPU ? HUGE_VAL : 0.2;
    if (!text || strcmp(text, "auto") == 0) return ENGINE_OK;
    char *end;
    device->submission = strcmp(text, "off") == 0 ? HUGE_VAL : strtod(text, &end);
    if (device->submission > 0 && (device->submission == HUGE_VAL || !*end)) return ENGINE_OK;
    return vulkan_host->fail(ENGINE_ERROR_ARGUMENT,
                             "submission = %s: choose \"auto\", \"off\" or seconds such as 0.2", text);
}

/* ---- Tables of rope ------------------------------------------------------------------------------------ */

static void destroy_table(struct engine_device *device, void *memory)
{
    struct memory_range *range = memory;
    memory_free(device, range);
    free(range);
}

static int create_table(struct engine_device *device, const uint64_t *turns, uint64_t size, void **memory)
{
    struct memory_range *range = calloc(1, sizeof *range);
    if (!range) return vulkan_host->fail(ENGINE_ERROR_MEMORY, "out of memory (rope angles)");
    int status = memory_allocate(device, MEMORY_DEVICE, size, "rope", range);
    uint8_t *mapped = status ? NULL : memory_pointer(range);
    if (mapped)
        memcpy(mapped, turns, size); /* no command reads the table yet */
    else if (!status)
        status = upload_bytes(device, range, 0, turns, size);
    if (status)
        destroy_table(device, range);
    else
        *memory = range;
    return status;
}

/* ---- The device ---------------------------------------------------------------------------------------- */

int device_open(uint32_t index, const struct engine_device_options *options, struct engine_device **out)
{
    const struct physical_device *devices;
    uint32_t count;
    int status = instance_devices(&devices, &count);
    if (status) return status;
    if (index >= count) return vulkan_host->fail(ENGINE_ERROR_ARGUMENT, "there is no device %u", index);
    struct engine_device_options given = {0};
    if (options) sized_read(&given, sizeof given, options);
    struct engine_device *device = calloc(1, sizeof *device);
    if (!device) return vulkan_host->fail(ENGINE_ERROR_MEMORY, "out of memory (device)");
    device->physical = &devices[index];
    device->rope_tables = (struct rope_tables){NULL, create_table, destroy_table};
    device->budget.limit = given.memory_limit;
    status = validation_check_setting();
    if (!status) status = choose_matmul(device);
    if (!status) status = choose_few_columns(device);
    if (!status) status = choose_subgroups(device);
    if (!status) status = choose_submission(device);
    if (!status) status = submission_setup(device);
    if (!status) status = create_device(device);
    if (!status) {
        read_limits(device);
        status = memory_choose(device);
    }
    if (!status) status = upload_setup(device);
    if (!status) status = pipeline_setup(device);
    if (!status) status = times_setup(device);
    if (!status) status = validation_status();
    if (status) {
        device_close(device);
        return status;
    }
    *out = device;
    return ENGINE_OK;
}

int scratch_get(struct engine_device *device, uint64_t size, const struct memory_range **range)
{
    if (!device->scratch || device->scratch->range.size < size) {
        struct scratch *scratch = calloc(1, sizeof *scratch);
        if (!scratch) return vulkan_host->fail(ENGINE_ERROR_MEMORY, "out of memory (scratch memory)");
        int status = gpu_charge(vulkan_host, &device->budget, size, "scratch memory");
        if (!status) {
            status = memory_allocate(device, MEMORY_DEVICE, size, "scratch memory", &scratch->range);
            if (status) gpu_discharge(&device->budget, size);
        }
        if (status) {
            free(scratch);
            return status;
        }
        scratch->next = device->scratch;
        device->scratch = scratch;
    }
    *range = &device->scratch->range;
    return ENGINE_OK;
}

static void scratch_free(struct engine_device *device)
{
    for (struct scratch *next; device->scratch; device->scratch = next) {
        next = device->scratch->next;
        memory_free(device, &device->scratch->range);
        free(device->scratch);
    }
}

void device_close(struct engine_device *device)
{
    if (!device) return;
    if (device->handle) {
        device_wait_idle(device);
        rope_tables_forget(device, &device->rope_tables, NULL);
        scratch_free(device);
        upload_teardown(device);
        pipeline_teardown(device);
        times_teardown(device);
        vk.vkDestroyCommandPool(device->handle, device->command_pool, NULL);
        vk.vkDestroyDevice(device->handle, NULL);
    }
    submission_teardown(device);
    free(device);
}

/* ---- Buffers ------------------------------------------------------------------------------------------- */

int buffer_create(struct engine_device *device, uint64_t size, struct engine_buffer **out)
{
    if (size == 0) return vulkan_host->fail(ENGINE_ERROR_ARGUMENT, "the buffer size is 0");
    struct engine_buffer *buffer = calloc(1, sizeof *buffer);
    if (!buffer) return vulkan_host->fail(ENGINE_ERROR_MEMORY, "out of memory (buffer)");
    buffer->base = (struct gpu_buffer){device, size};
    int status = gpu_charge(vulkan_host, &device->budget, size, "buffer");
    if (status) {
        free(buffer);
        return status;
    }
    status = memory_allocate(device, MEMORY_DEVICE, size, "buffer", &buffer->range);
    if (!status) status = upload_zeros(device, &buffer->range);
    if (status) {
        buffer_destroy(buffer);
        return status;
    }
    *out = buffer;
    return ENGINE_OK;
}

void buffer_destroy(struct engine_buffer *buffer)
{
    if (!buffer) return;
    struct engine_device *device = buffer->base.device;
    device_wait_idle(device); /* its zeros may be under way */
    memory_free(device, &buffer->range);
    gpu_discharge(&device->budget, buffer->base.size);
    free(buffer);
}

/* The host can map a GPU's own memory, but reads of it are too slow for that. */
void *buffer_pointer(struct engine_buffer *buffer)
{
    VkPhysicalDeviceType type = buffer->base.device->physical->properties.deviceType;
    bool shared = type == VK_PHYSICAL_DEVICE_TYPE_CPU || type == VK_PHYSICAL_DEVICE_TYPE_INTEGRATED_GPU;
    return shared ? memory_pointer(&buffer->range) : NULL;
}

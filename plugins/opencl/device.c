/* device.c: opening a device, and what is chosen for it. */
#include <stdlib.h>
#include <string.h>

#include "common/sized.h"
#include "device.h"

#define MAX_HEAD_DIM 1024 /* attention keeps heads in registers */
#define MAX_EXPERTS  512  /* and the router their scores in local memory, see kernels/experts.cl */

/* The kernels for GPUs need at least these. */
#define LEAST_GROUP 128  /* work-items of a group, */
#define LEAST_LOCAL 8192 /* and local memory */

/* A setting of the section [opencl], which an environment variable overrides; NULL: "auto". */
static const char *setting(const char *key, const char *variable)
{
    const char *text = getenv(variable);
    if (!text || !*text) text = opencl_host->setting("opencl", key);
    return text && strcmp(text, "auto") != 0 ? text : NULL;
}

static bool processor_has_vnni(void)
{
#if defined(__x86_64__)
    return __builtin_cpu_supports("avx512vnni") && __builtin_cpu_supports("avx512bw");
#else
    return false;
#endif
}

/* [opencl] integers = auto, on or off. */
static int choose_integers(struct engine_device *device)
{
    const char *integers = setting("integers", "ENGINE_OPENCL_INTEGERS");
    device->integers = integers          ? strcmp(integers, "on") == 0
                       : device->vectors ? device->vnni
                                         : device->listed->has_dot;
    device->small_integers = integers && device->integers;
    if (integers && !device->integers && strcmp(integers, "off") != 0)
        return opencl_host->fail(ENGINE_ERROR_ARGUMENT, "integers = %s: choose \"auto\", \"on\" or \"off\"",
                                 integers);
    return ENGINE_OK;
}

/* [opencl] kernels = auto, vectors or groups. */
static int choose_kernels(struct engine_device *device)
{
    const struct listed_device *listed = device->listed;
    const char *kernels = setting("kernels", "ENGINE_OPENCL_KERNELS");
    bool is_cpu = listed->type & CL_DEVICE_TYPE_CPU;
    uint64_t group = listed->max_group < listed->max_items ? listed->max_group : listed->max_items;
    bool takes_groups = group >= LEAST_GROUP && listed->local_size >= LEAST_LOCAL;
    device->few_rows = group >= 512 ? 32 : group >= 256 ? 16 : 8;
    device->vectors = kernels ? strcmp(kernels, "vectors") == 0 : is_cpu || !takes_groups;
    if (kernels && !device->vectors && strcmp(kernels, "groups") != 0)
        return opencl_host->fail(ENGINE_ERROR_ARGUMENT,
                                 "kernels = %s: choose \"auto\", \"vectors\" or \"groups\"", kernels);
    if (!device->vectors && !takes_groups)
        return opencl_host->fail(ENGINE_ERROR_UNSUPPORTED, "kernels = groups: the groups of %s are too small",
                                 listed->name);
    /* A processor's driver that compiles with clang takes its instructions by name; PoCL is one. */
    device->vnni = device->vectors && is_cpu && listed->is_pocl && processor_has_vnni();
    return choose_integers(device);
}

bool device_takes_vectors(struct engine_device *device)
{
    if (!device->groups_are_too_large || device->vectors || setting("kernels", "ENGINE_OPENCL_KERNELS"))
        return false;
    device->vectors = true;
    choose_integers(device);
    opencl_host->log(ENGINE_LOG_INFO, "%s uses kernels = vectors: its groups are too small for the others",
                     device->listed->name);
    return true;
}

static int create_queue(struct engine_device *device)
{
    cl_int error;
    const cl_context_properties properties[] = {CL_CONTEXT_PLATFORM,
                                                (cl_context_properties)device->listed->platform, 0};
    device->context = cl.clCreateContext(properties, 1, &device->listed->handle, NULL, NULL, &error);
    if (error != CL_SUCCESS) return opencl_error(error, device->listed->name);
    device->queue = cl.clCreateCommandQueue(device->context, device->listed->handle, 0, &error);
    return opencl_error(error, device->listed->name);
}

static void destroy_table(struct engine_device *device, void *memory)
{
    memory_free(device, memory, NULL);
}

static int create_table(struct engine_device *device, const uint64_t *turns, uint64_t size, void **memory)
{
    cl_mem made = NULL;
    int status = memory_allocate(device, size, "rope", &made, NULL);
    if (!status) status = memory_write(device, made, 0, turns, size);
    if (status)
        memory_free(device, made, NULL);
    else
        *memory = made;
    return status;
}

int device_open(uint32_t index, const struct engine_device_options *options, struct engine_device **out)
{
    const struct listed_device *devices;
    uint32_t count;
    int status = list_devices(&devices, &count);
    if (status) return status;
    if (index >= count) return opencl_host->fail(ENGINE_ERROR_ARGUMENT, "there is no device %u", index);
    struct engine_device_options given = {0};
    if (options) sized_read(&given, sizeof given, options);
    struct engine_device *device = calloc(1, sizeof *device);
    if (!device) return opencl_host->fail(ENGINE_ERROR_MEMORY, "out of memory (device)");
    device->listed = &devices[index];
    device->rope_tables = (struct rope_tables){NULL, create_table, destroy_table};
    device->budget.limit = given.memory_limit;
    device->largest = device->listed->max_allocation;
    device->limits = (struct gpu_limits){.max_tensor = device->largest,
                                         .max_head_dim = MAX_HEAD_DIM,
                                         .max_experts = MAX_EXPERTS,
                                         .weight_type = weight_type_known,
                                         .has_kernel = op_has_kernel};
    status = choose_kernels(device);
    if (!status) status = create_queue(device);
    if (!status) status = op_try(device);
    if (status) {
        device_close(device);
        return status;
    }
    *out = device;
    return ENGINE_OK;
}

void device_close(struct engine_device *device)
{
    if (!device) return;
    device_finish(device);
    copies_settle();
    rope_tables_forget(device, &device->rope_tables, NULL);
    memory_free(device, device->scratch.memory, NULL);
    programs_release(device);
    if (device->queue) cl.clReleaseCommandQueue(device->queue);
    if (device->context) cl.clReleaseContext(device->context);
    free(device);
}

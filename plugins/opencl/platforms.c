/* platforms.c: the OpenCL loader and the devices of all platforms, listed once in a process. */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/array.h"
#include "device.h"

/* Of cl_ext.h, which not every installation has in full. */
#define DEVICE_FREE_MEMORY 0x4039  /* CL_DEVICE_GLOBAL_FREE_MEMORY_AMD: KiB */
#define DEVICE_DOT_FORMS   0x1073  /* CL_DEVICE_INTEGER_DOT_PRODUCT_CAPABILITIES_KHR */
#define DOT_FORM_VECTORS   2       /* CL_DEVICE_INTEGER_DOT_PRODUCT_INPUT_4x8BIT_KHR */
#define DEVICE_DOT_SPEED   0x1074  /* CL_DEVICE_INTEGER_DOT_PRODUCT_ACCELERATION_PROPERTIES_8BIT_KHR */
#define NO_PLATFORMS       (-1001) /* CL_PLATFORM_NOT_FOUND_KHR */

#define MAX_BYTES (UINT64_C(16) << 30) /* of an allocation: kernels count words in 32 bits */

struct opencl_functions cl;

static struct {
    bool made;
    struct listed_device *devices;
    uint32_t n_devices;
    size_t capacity;
    char left_out[200]; /* the first device that can't be used, and why; "" if there is none */
} found;

int opencl_error(cl_int error, const char *what)
{
    switch (error) {
    case CL_SUCCESS: return ENGINE_OK;
    case CL_OUT_OF_HOST_MEMORY: return opencl_host->fail(ENGINE_ERROR_MEMORY, "%s: out of host memory", what);
    case CL_MEM_OBJECT_ALLOCATION_FAILURE:
    case CL_INVALID_BUFFER_SIZE:
        return opencl_host->fail(ENGINE_ERROR_MEMORY, "%s: out of device memory", what);
    case CL_OUT_OF_RESOURCES:
        return opencl_host->fail(ENGINE_ERROR_MEMORY, "%s: the device is out of resources or memory", what);
    case CL_DEVICE_NOT_AVAILABLE:
        return opencl_host->fail(ENGINE_ERROR_DEVICE,
                                 "%s: the device was lost (the driver has reset it, or it was unplugged)",
                                 what);
    default: return opencl_host->fail(ENGINE_ERROR_DEVICE, "%s: OpenCL error %d", what, (int)error);
    }
}

static int open_loader(void)
{
    if (cl.clGetPlatformIDs) return ENGINE_OK;
    void *library = dlopen("libOpenCL.so.1", RTLD_NOW | RTLD_LOCAL);
    if (!library)
        return opencl_host->fail(ENGINE_ERROR_NOT_FOUND,
                                 "there is no OpenCL loader (libOpenCL.so.1); on Debian, install "
                                 "ocl-icd-libopencl1 and your device's driver, or pocl-opencl-icd");
    bool complete = true;
#define LOAD(name)                                                                                           \
    *(void **)&cl.name = dlsym(library, #name);                                                              \
    complete = complete && cl.name;
    OPENCL_FUNCTIONS(LOAD)
#undef LOAD
#define LOAD(name) *(void **)&cl.name = dlsym(library, #name);
    OPENCL_LATER_FUNCTIONS(LOAD)
#undef LOAD
    if (complete) return ENGINE_OK;
    memset(&cl, 0, sizeof cl);
    dlclose(library);
    return opencl_host->fail(ENGINE_ERROR_NOT_FOUND,
                             "the OpenCL loader (libOpenCL.so.1) is older than OpenCL 1.2");
}

/* ---- What a device says of itself ---------------------------------------------------------------------- */

static void get_text(cl_device_id device, cl_device_info what, char *text, size_t size)
{
    size_t length = 0;
    text[0] = '\0';
    if (cl.clGetDeviceInfo(device, what, 0, NULL, &length) != CL_SUCCESS || length == 0) return;
    char *all = malloc(length);
    if (all && cl.clGetDeviceInfo(device, what, length, all, NULL) == CL_SUCCESS)
        snprintf(text, size, "%.*s", (int)length, all);
    free(all);
}

/* A number of 32 or 64 bits, or a size; 0 where the device doesn't say. */
static uint64_t get_number(cl_device_id device, cl_device_info what)
{
    uint64_t number = 0;
    size_t size = 0;
    if (cl.clGetDeviceInfo(device, what, sizeof number, &number, &size) != CL_SUCCESS) return 0;
    uint32_t small;
    memcpy(&small, &number, sizeof small);
    return size == sizeof small ? small : number;
}

bool has_extension(cl_device_id device, const char *name)
{
    char all[8192];
    size_t length = strlen(name);
    get_text(device, CL_DEVICE_EXTENSIONS, all, sizeof all);
    for (const char *at = all; (at = strstr(at, name)); at += length)
        if ((at == all || at[-1] == ' ') && (at[length] == ' ' || at[length] == '\0')) return true;
    return false;
}

/* Why the device can't run our kernels; NULL if it can. */
static const char *obstacle(cl_device_id device, unsigned version)
{
    char profile[32];
    get_text(device, CL_DEVICE_PROFILE, profile, sizeof profile);
    if (version < 12) return "its driver is older than OpenCL 1.2";
    if (strcmp(profile, "FULL_PROFILE") != 0)
        return "it has only OpenCL's embedded profile, which is less accurate";
    if (!get_number(device, CL_DEVICE_AVAILABLE)) return "its driver reports it as unavailable";
    if (!get_number(device, CL_DEVICE_COMPILER_AVAILABLE)) return "its driver has no compiler";
    if (!get_number(device, CL_DEVICE_ENDIAN_LITTLE)) return "it is big-endian";
    if (!get_number(device, CL_DEVICE_MAX_WORK_GROUP_SIZE) ||
        !get_number(device, CL_DEVICE_MAX_MEM_ALLOC_SIZE))
        return "its driver does not report its limits";
    return NULL;
}

/* How large the first dimension of a group may be. */
static void find_items(struct listed_device *device)
{
    size_t most[16] = {0}; /* three dimensions, as a rule */
    if (cl.clGetDeviceInfo(device->handle, CL_DEVICE_MAX_WORK_ITEM_SIZES, sizeof most, most, NULL) !=
        CL_SUCCESS)
        most[0] = 1;
    device->max_items = most[0];
}

/* Fills the rest of *device. Returns whether it can run our kernels. */
static bool platforms_survey(struct listed_device *device)
{
    unsigned major = 0, minor = 0;
    cl_device_id handle = device->handle;
    get_text(handle, CL_DEVICE_NAME, device->name, sizeof device->name);
    get_text(handle, CL_DEVICE_VERSION, device->version, sizeof device->version);
    int numbers = sscanf(device->version, "OpenCL %u.%u", &major, &minor);
    const char *why = obstacle(handle, numbers == 2 ? major * 10 + minor : 0);
    if (why) {
        opencl_host->log(ENGINE_LOG_INFO, "%s is not used: %s", device->name, why);
        if (!found.left_out[0])
            snprintf(found.left_out, sizeof found.left_out, "%.120s is not used: %s", device->name, why);
        return false;
    }
    get_text(handle, CL_DRIVER_VERSION, device->driver, sizeof device->driver);
    find_identity(device);
    device->type = get_number(handle, CL_DEVICE_TYPE);
    device->units = (uint32_t)get_number(handle, CL_DEVICE_MAX_COMPUTE_UNITS);
    device->max_group = get_number(handle, CL_DEVICE_MAX_WORK_GROUP_SIZE);
    find_items(device);
    device->local_size = get_number(handle, CL_DEVICE_LOCAL_MEM_SIZE);
    device->max_allocation = get_number(handle, CL_DEVICE_MAX_MEM_ALLOC_SIZE);
    if (device->max_allocation > MAX_BYTES) device->max_allocation = MAX_BYTES;
    device->memory = get_number(handle, CL_DEVICE_GLOBAL_MEM_SIZE);
    device->shares_memory = get_number(handle, CL_DEVICE_HOST_UNIFIED_MEMORY);
    device->has_pointers = device->shares_memory && major >= 2 && cl.clSVMAlloc && cl.clSVMFree &&
                           (get_number(handle, CL_DEVICE_SVM_CAPABILITIES) & CL_DEVICE_SVM_FINE_GRAIN_BUFFER);
    device->has_free_memory = has_extension(handle, "cl_amd_device_attribute_query");
    device->has_subgroups = major >= 3 && has_extension(handle, "cl_khr_subgroups");
    device->has_half = has_extension(handle, "cl_khr_fp16");
    cl_bool accelerated[6] = {0};
    device->has_dot =
        major >= 3 && has_extension(handle, "cl_khr_integer_dot_product") &&
        (get_number(handle, DEVICE_DOT_FORMS) & DOT_FORM_VECTORS) &&
        cl.clGetDeviceInfo(handle, DEVICE_DOT_SPEED, sizeof accelerated, accelerated, NULL) == CL_SUCCESS &&
        accelerated[2]; /* of unsigned with signed bytes */
    return true;
}

/* ---- The list ------------------------------------------------------------------------------------------ */

static int add_devices(cl_platform_id platform, uint32_t number)
{
    char version[128] = "", name[128] = "";
    cl_uint count = 0;
    cl_int error = cl.clGetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, 0, NULL, &count);
    if (error != CL_SUCCESS || count == 0) return ENGINE_OK; /* a driver without its hardware */
    cl_device_id *handles = calloc(count, sizeof *handles);
    if (!handles || !ARRAY_RESERVE(found.devices, found.capacity, found.n_devices + (size_t)count)) {
        free(handles);
        return opencl_host->fail(ENGINE_ERROR_MEMORY, "out of memory (list of devices)");
    }
    cl.clGetPlatformInfo(platform, CL_PLATFORM_VERSION, sizeof version - 1, version, NULL);
    cl.clGetPlatformInfo(platform, CL_PLATFORM_NAME, sizeof name - 1, name, NULL);
    error = cl.clGetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, count, handles, NULL);
    for (cl_uint i = 0; error == CL_SUCCESS && i < count; i++) {
        struct listed_device *device = &found.devices[found.n_devices];
        *device = (struct listed_device){.platform = platform, .handle = handles[i]};
        snprintf(device->id, sizeof device->id, "%u.%u", number % 1000, i % 1000);
        memcpy(device->platform_version, version, sizeof version);
        device->is_pocl = strcmp(name, "Portable Computing Language") == 0;
        if (platforms_survey(device)) found.n_devices++;
    }
    free(handles);
    return ENGINE_OK;
}

int list_devices(const struct listed_device **devices, uint32_t *count)
{
    int status = open_loader();
    if (status) return status;
    if (!found.made) {
        cl_uint n_platforms = 0;
        found.n_devices = 0; /* of an attempt that ended without memory */
        cl_int error = cl.clGetPlatformIDs(0, NULL, &n_platforms);
        if (error != CL_SUCCESS && error != NO_PLATFORMS) return opencl_error(error, "platforms");
        cl_platform_id *platforms = calloc((size_t)n_platforms + 1, sizeof *platforms);
        if (!platforms) return opencl_host->fail(ENGINE_ERROR_MEMORY, "out of memory (list of platforms)");
        if (n_platforms > 0)
            status = opencl_error(cl.clGetPlatformIDs(n_platforms, platforms, NULL), "platforms");
        for (cl_uint i = 0; !status && i < n_platforms; i++) status = add_devices(platforms[i], i);
        free(platforms);
        if (status) return status;
        found.made = true;
    }
    *devices = found.devices;
    *count = found.n_devices;
    return ENGINE_OK;
}

int fail_without_devices(void)
{
    if (found.left_out[0]) return opencl_host->fail(ENGINE_ERROR_NOT_FOUND, "%s", found.left_out);
    return opencl_host->fail(
        ENGINE_ERROR_NOT_FOUND,
        "there is no device with an OpenCL 1.2 driver; on Debian, install your device's driver, or "
        "pocl-opencl-icd for the processor");
}

void listed_memory(const struct listed_device *device, uint64_t *bytes_free, uint64_t *bytes_total)
{
    size_t kib[2] = {0};
    *bytes_free = *bytes_total = device->memory;
    if (device->has_free_memory &&
        cl.clGetDeviceInfo(device->handle, DEVICE_FREE_MEMORY, sizeof kib, kib, NULL) == CL_SUCCESS)
        *bytes_free = (uint64_t)kib[0] * 1024;
    if (device->shares_memory || device->type & CL_DEVICE_TYPE_CPU) {
        uint64_t available = gpu_host_memory();
        if (*bytes_free > available) *bytes_free = available;
    }
}

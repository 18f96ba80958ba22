/* opencl-shim.c: a libOpenCL.so.1 that stands between the plugin and the real one and makes a machine that
 * isn't here, or one that breaks. ENGINE_TEST_OPENCL says how, in words with spaces between them:
 *
 *   discrete          devices say that they are GPUs with memory of their own
 *   pointers=no       they have no fine-grained buffers
 *   group=N           their work-groups have at most N work-items
 *   kernel=N          a built kernel's work-groups have at most N work-items
 *   items=N           a dimension of a group has at most N
 *   pci               they are at the PCI address 0000:0a:0b.1
 *   profile, compiler they have the embedded profile; they have no compiler
 *   allocation=BYTES  they allocate no more at once
 *   memory=BYTES      no more can be allocated in all
 *   run=N             the Nth kernel finds no memory
 *   lost=N            the Nth kernel finds the device lost
 *   fails=N           the Nth kernel ends with error -9999, which only its event says
 *   build             no program compiles, and the log is long
 *
 * For x86-64, where a jump is all that it takes to pass a call on. */
#include <dlfcn.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "functions.h"

#define DEVICE_PCI 0x410f /* CL_DEVICE_PCI_BUS_INFO_KHR */
#define EXPORT     __attribute__((visibility("default")))
#define SHIMMED(F)                                                                                           \
    F(clGetDeviceInfo)                                                                                       \
    F(clCreateBuffer)                                                                                        \
    F(clReleaseMemObject)                                                                                    \
    F(clEnqueueNDRangeKernel)                                                                                \
    F(clGetKernelWorkGroupInfo)                                                                              \
    F(clGetEventInfo)                                                                                        \
    F(clBuildProgram)                                                                                        \
    F(clGetProgramBuildInfo)
#define PASSED_ON(F)                                                                                         \
    F(clGetPlatformIDs)                                                                                      \
    F(clGetPlatformInfo)                                                                                     \
    F(clGetDeviceIDs)                                                                                        \
    F(clCreateContext)                                                                                       \
    F(clReleaseContext)                                                                                      \
    F(clCreateCommandQueue)                                                                                  \
    F(clReleaseCommandQueue)                                                                                 \
    F(clCreateProgramWithSource)                                                                             \
    F(clCreateProgramWithBinary)                                                                             \
    F(clGetProgramInfo)                                                                                      \
    F(clReleaseProgram)                                                                                      \
    F(clCreateKernel)                                                                                        \
    F(clReleaseKernel)                                                                                       \
    F(clReleaseEvent)                                                                                        \
    F(clSetKernelArg)                                                                                        \
    F(clEnqueueReadBuffer)                                                                                   \
    F(clEnqueueWriteBuffer)                                                                                  \
    F(clEnqueueCopyBuffer)                                                                                   \
    F(clEnqueueFillBuffer)                                                                                   \
    F(clEnqueueMapBuffer)                                                                                    \
    F(clEnqueueUnmapMemObject)                                                                               \
    F(clCreateUserEvent)                                                                                     \
    F(clSetUserEventStatus)                                                                                  \
    F(clSetEventCallback)                                                                                    \
    F(clFlush)                                                                                               \
    F(clFinish)                                                                                              \
    F(clSVMAlloc)                                                                                            \
    F(clSVMFree)

#define DECLARE(name) __attribute__((visibility("hidden"))) void *real_##name;
SHIMMED(DECLARE)
PASSED_ON(DECLARE)
#undef DECLARE
#define JUMP(name)                                                                                           \
    __asm__(".text\n.globl " #name "\n.type " #name ", @function\n" #name ": jmp *real_" #name "(%rip)\n");
PASSED_ON(JUMP)
#undef JUMP
#define REAL(name) ((__typeof__(&name))real_##name)

/* Where `word` stands in ENGINE_TEST_OPENCL, behind it; or NULL. */
static const char *wanted(const char *word)
{
    const char *text = getenv("ENGINE_TEST_OPENCL"), *found = text ? strstr(text, word) : NULL;
    return found ? found + strlen(word) : NULL;
}

static unsigned long long number(const char *word, unsigned long long otherwise)
{
    const char *found = wanted(word);
    return found ? strtoull(found, NULL, 10) : otherwise;
}

__attribute__((constructor)) static void open_real(void)
{
    const char *path = getenv("ENGINE_TEST_OPENCL_LIBRARY");
    void *library = dlopen(path ? path : "", RTLD_NOW | RTLD_LOCAL);
    if (!library) return;
#define FIND(name) real_##name = dlsym(library, #name);
    SHIMMED(FIND)
    PASSED_ON(FIND)
#undef FIND
}

/* ---- Devices ------------------------------------------------------------------------------------------- */

static void put(void *value, size_t size, uint64_t number)
{
    memcpy(value, &number, size < sizeof number ? size : sizeof number);
}

/* Answers a question with a text. */
static cl_int put_text(const char *text, size_t size, void *value, size_t *needed)
{
    size_t length = strlen(text) + 1;
    if (needed) *needed = length;
    if (value && size < length) return CL_INVALID_VALUE;
    if (value) memcpy(value, text, length);
    return CL_SUCCESS;
}

/* The real extensions and the one for PCI addresses. */
static cl_int put_extensions(cl_device_id device, size_t size, void *value, size_t *needed)
{
    char text[8192] = "";
    cl_int error = REAL(clGetDeviceInfo)(device, CL_DEVICE_EXTENSIONS, sizeof text - 32, text, NULL);
    strcat(text, " cl_khr_pci_bus_info");
    return error ? error : put_text(text, size, value, needed);
}

static cl_int put_address(size_t size, void *value)
{
    static const uint32_t address[] = {0, 10, 11, 1};
    if (size < sizeof address) return CL_INVALID_VALUE;
    memcpy(value, address, sizeof address);
    return CL_SUCCESS;
}

EXPORT cl_int clGetDeviceInfo(cl_device_id device, cl_device_info what, size_t size, void *value,
                              size_t *needed)
{
    if (what == CL_DEVICE_PROFILE && wanted("profile"))
        return put_text("EMBEDDED_PROFILE", size, value, needed);
    if (what == CL_DEVICE_EXTENSIONS && wanted("pci")) return put_extensions(device, size, value, needed);
    if (what == DEVICE_PCI && wanted("pci")) return put_address(size, value);
    cl_int error = REAL(clGetDeviceInfo)(device, what, size, value, needed);
    if (error != CL_SUCCESS || !value) return error;
    switch (what) {
    case CL_DEVICE_TYPE:
        if (wanted("discrete")) put(value, size, CL_DEVICE_TYPE_GPU);
        break;
    case CL_DEVICE_HOST_UNIFIED_MEMORY:
        if (wanted("discrete")) put(value, sizeof(cl_bool), CL_FALSE);
        break;
    case CL_DEVICE_SVM_CAPABILITIES:
        if (wanted("pointers=no")) put(value, size, 0);
        break;
    case CL_DEVICE_MAX_WORK_GROUP_SIZE:
        if (wanted("group=")) put(value, size, number("group=", 0));
        break;
    case CL_DEVICE_MAX_WORK_ITEM_SIZES:
        for (size_t i = 0; wanted("items=") && i < 3; i++) ((size_t *)value)[i] = number("items=", 0);
        break;
    case CL_DEVICE_COMPILER_AVAILABLE:
        if (wanted("compiler")) put(value, size < sizeof(cl_bool) ? size : sizeof(cl_bool), CL_FALSE);
        break;
    case CL_DEVICE_MAX_MEM_ALLOC_SIZE:
        if (wanted("allocation=")) put(value, size, number("allocation=", 0));
        break;
    default: break;
    }
    return error;
}

/* ---- Memory -------------------------------------------------------------------------------------------- */

#define MAX_BUFFERS 4096
static struct {
    cl_mem memory[MAX_BUFFERS];
    unsigned long long size[MAX_BUFFERS], total;
} taken;

EXPORT cl_mem clCreateBuffer(cl_context context, cl_mem_flags flags, size_t size, void *host, cl_int *error)
{
    unsigned long long limit = number("memory=", UINT64_MAX);
    int place = 0;
    while (place < MAX_BUFFERS && taken.memory[place]) place++;
    if (place == MAX_BUFFERS || taken.total > limit || size > limit - taken.total) {
        *error = CL_MEM_OBJECT_ALLOCATION_FAILURE;
        return NULL;
    }
    cl_mem memory = REAL(clCreateBuffer)(context, flags, size, host, error);
    if (memory) {
        taken.memory[place] = memory;
        taken.size[place] = size;
        taken.total += size;
    }
    return memory;
}

EXPORT cl_int clReleaseMemObject(cl_mem memory)
{
    for (int i = 0; i < MAX_BUFFERS; i++) {
        if (taken.memory[i] != memory) continue;
        taken.memory[i] = NULL;
        taken.total -= taken.size[i];
        break;
    }
    return REAL(clReleaseMemObject)(memory);
}

/* ---- Programs and kernels ------------------------------------------------------------------------------ */

EXPORT cl_int clBuildProgram(cl_program program, cl_uint n, const cl_device_id *devices, const char *options,
                             void(CL_CALLBACK *notify)(cl_program, void *), void *user)
{
    if (wanted("build")) return CL_BUILD_PROGRAM_FAILURE;
    return REAL(clBuildProgram)(program, n, devices, options, notify, user);
}

EXPORT cl_int clGetProgramBuildInfo(cl_program program, cl_device_id device, cl_program_build_info what,
                                    size_t size, void *value, size_t *needed)
{
    char text[4096] = "a warning\n";
    if (!wanted("build") || what != CL_PROGRAM_BUILD_LOG)
        return REAL(clGetProgramBuildInfo)(program, device, what, size, value, needed);
    for (int i = 0; i < 100; i++) sprintf(text + strlen(text), "  line %d: Error: no such thing\r\n", i);
    return put_text(text, size, value, needed);
}

EXPORT cl_int clGetKernelWorkGroupInfo(cl_kernel kernel, cl_device_id device, cl_kernel_work_group_info what,
                                       size_t size, void *value, size_t *needed)
{
    cl_int error = REAL(clGetKernelWorkGroupInfo)(kernel, device, what, size, value, needed);
    if (error == CL_SUCCESS && value && what == CL_KERNEL_WORK_GROUP_SIZE)
        put(value, size, number("kernel=", number("group=", *(size_t *)value)));
    return error;
}

static cl_event failed; /* of the kernel that fails */

EXPORT cl_int clGetEventInfo(cl_event event, cl_event_info what, size_t size, void *value, size_t *needed)
{
    cl_int error = REAL(clGetEventInfo)(event, what, size, value, needed);
    if (error == CL_SUCCESS && value && event == failed && what == CL_EVENT_COMMAND_EXECUTION_STATUS)
        *(cl_int *)value = -9999;
    return error;
}

EXPORT cl_int clEnqueueNDRangeKernel(cl_command_queue queue, cl_kernel kernel, cl_uint dimensions,
                                     const size_t *offset, const size_t *global, const size_t *group,
                                     cl_uint n_events, const cl_event *events, cl_event *event)
{
    static atomic_ullong runs;
    unsigned long long run = atomic_fetch_add(&runs, 1), items = 1;
    for (cl_uint i = 0; i < dimensions; i++) {
        items *= group[i];
        if (group[i] > number("items=", UINT64_MAX)) return CL_INVALID_WORK_ITEM_SIZE;
    }
    if (items > number("kernel=", number("group=", UINT64_MAX))) return CL_INVALID_WORK_GROUP_SIZE;
    if (run >= number("run=", UINT64_MAX)) return CL_MEM_OBJECT_ALLOCATION_FAILURE;
    if (run >= number("lost=", UINT64_MAX)) return CL_DEVICE_NOT_AVAILABLE;
    cl_int error = REAL(clEnqueueNDRangeKernel)(queue, kernel, dimensions, offset, global, group, n_events,
                                                events, event);
    if (error == CL_SUCCESS && event && run == number("fails=", UINT64_MAX)) failed = *event;
    return error;
}

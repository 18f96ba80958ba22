/* opencl-shim.c: a libOpenCL.so.1 that stands between the plugin and the real one and makes a machine that isn't here, or
 * one that breaks. ENGINE_TEST_OPENCL says how, in words with spaces between them:
 *
 *   discrete          devices say that they are GPUs with memory of their own
 *   pointers=no       they have no fine-grained buffers
 *   group=N           their work-groups have no more work-items than that
 *   allocation=BYTES  they allocate no more at once
 *   memory=BYTES      no more can be allocated in all
 *   run=N             the Nth kernel finds no memory; lost=N: it finds the device lost
 *   build             no program compiles
 *
 * For x86-64, where a jump is all that it takes to pass a call on. */
#include <dlfcn.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "functions.h"

#define EXPORT __attribute__((visibility("default")))
#define SHIMMED(F)                                                                                           \
    F(clGetDeviceInfo)                                                                                       \
    F(clCreateBuffer)                                                                                        \
    F(clReleaseMemObject)                                                                                    \
    F(clEnqueueNDRangeKernel)                                                                                \
    F(clBuildProgram)
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
    F(clGetProgramBuildInfo)                                                                                 \
    F(clReleaseProgram)                                                                                      \
    F(clCreateKernel)                                                                                        \
    F(clReleaseKernel)                                                                                       \
    F(clSetKernelArg)                                                                                        \
    F(clGetKernelWorkGroupInfo)                                                                              \
    F(clEnqueueReadBuffer)                                                                                   \
    F(clEnqueueWriteBuffer)                                                                                  \
    F(clEnqueueCopyBuffer)                                                                                   \
    F(clEnqueueFillBuffer)                                                                                   \
    F(clEnqueueMapBuffer)                                                                                    \
    F(clEnqueueUnmapMemObject)                                                                               \
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

/* ---- Devices ------------------------------------------------------------------------------------------------------- */

static void put(void *value, size_t size, uint64_t number)
{
    memcpy(value, &number, size < sizeof number ? size : sizeof number);
}

EXPORT cl_int clGetDeviceInfo(cl_device_id device, cl_device_info what, size_t size, void *value,
                              size_t *needed)
{
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
    case CL_DEVICE_MAX_MEM_ALLOC_SIZE:
        if (wanted("allocation=")) put(value, size, number("allocation=", 0));
        break;
    default: break;
    }
    return error;
}

/* ---- Memory -------------------------------------------------------------------------------------------------------- */

#define MOST_BUFFERS 4096
static struct {
    cl_mem memory[MOST_BUFFERS];
    unsigned long long size[MOST_BUFFERS], total;
} taken;

EXPORT cl_mem clCreateBuffer(cl_context context, cl_mem_flags flags, size_t size, void *host, cl_int *error)
{
    unsigned long long limit = number("memory=", UINT64_MAX);
    int place = 0;
    while (place < MOST_BUFFERS && taken.memory[place]) place++;
    if (place == MOST_BUFFERS || taken.total > limit || size > limit - taken.total) {
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
    for (int i = 0; i < MOST_BUFFERS; i++) {
        if (taken.memory[i] != memory) continue;
        taken.memory[i] = NULL;
        taken.total -= taken.size[i];
        break;
    }
    return REAL(clReleaseMemObject)(memory);
}

/* ---- Programs and kernels ------------------------------------------------------------------------------------------ */

EXPORT cl_int clBuildProgram(cl_program program, cl_uint n, const cl_device_id *devices, const char *options,
                             void(CL_CALLBACK *notify)(cl_program, void *), void *user)
{
    if (wanted("build")) return CL_BUILD_PROGRAM_FAILURE;
    return REAL(clBuildProgram)(program, n, devices, options, notify, user);
}

EXPORT cl_int clEnqueueNDRangeKernel(cl_command_queue queue, cl_kernel kernel, cl_uint dimensions,
                                     const size_t *offset, const size_t *global, const size_t *group,
                                     cl_uint n_events, const cl_event *events, cl_event *event)
{
    static atomic_ullong runs;
    unsigned long long run = atomic_fetch_add(&runs, 1);
    if (run >= number("run=", UINT64_MAX)) return CL_MEM_OBJECT_ALLOCATION_FAILURE;
    if (run >= number("lost=", UINT64_MAX)) return CL_DEVICE_NOT_AVAILABLE;
    return REAL(clEnqueueNDRangeKernel)(queue, kernel, dimensions, offset, global, group, n_events, events,
                                        event);
}

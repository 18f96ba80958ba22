/* functions.h: the OpenCL functions that the plugin calls. The loader is opened at run time, so that a
 * machine without one gets a message instead of a linker's. */
#ifndef OPENCL_FUNCTIONS_H
#define OPENCL_FUNCTIONS_H

#define CL_TARGET_OPENCL_VERSION          300
#define CL_USE_DEPRECATED_OPENCL_1_2_APIS /* clCreateCommandQueue: all that OpenCL 1.2 has */
#include <CL/cl.h>

#define OPENCL_FUNCTIONS(F)                                                                                  \
    F(clGetPlatformIDs)                                                                                      \
    F(clGetPlatformInfo)                                                                                     \
    F(clGetDeviceIDs)                                                                                        \
    F(clGetDeviceInfo)                                                                                       \
    F(clCreateContext)                                                                                       \
    F(clReleaseContext)                                                                                      \
    F(clCreateCommandQueue)                                                                                  \
    F(clReleaseCommandQueue)                                                                                 \
    F(clCreateBuffer)                                                                                        \
    F(clReleaseMemObject)                                                                                    \
    F(clCreateProgramWithSource)                                                                             \
    F(clCreateProgramWithBinary)                                                                             \
    F(clBuildProgram)                                                                                        \
    F(clGetProgramInfo)                                                                                      \
    F(clGetProgramBuildInfo)                                                                                 \
    F(clReleaseProgram)                                                                                      \
    F(clCreateKernel)                                                                                        \
    F(clReleaseKernel)                                                                                       \
    F(clSetKernelArg)                                                                                        \
    F(clGetKernelWorkGroupInfo)                                                                              \
    F(clGetEventInfo)                                                                                        \
    F(clReleaseEvent)                                                                                        \
    F(clEnqueueNDRangeKernel)                                                                                \
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
    F(clFinish)

/* Those of OpenCL 2.0. */
#define OPENCL_LATER_FUNCTIONS(F)                                                                            \
    F(clSVMAlloc)                                                                                            \
    F(clSVMFree)

struct opencl_functions {
#define DECLARE(name) __typeof__(&name) name;
    OPENCL_FUNCTIONS(DECLARE)
    OPENCL_LATER_FUNCTIONS(DECLARE)
#undef DECLARE
};

#endif

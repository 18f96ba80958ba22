/* between.c: copies from one device to another. Each has a context of its own, so no command sees both: the
 * bytes go through host memory. Nobody waits: the target's queue stops at an event that is set when the
 * source's queue has put them there. */
#include <stdatomic.h>
#include <stdlib.h>
#include <time.h>

#include "common/assert.h"
#include "device.h"

static atomic_uint under_way; /* calls of `arrived` that have yet to come */

/* The bytes are there, or will never be. `user`: the event at which the target's queue stops, which ends
 * here. */
static void CL_CALLBACK arrived(cl_event event, cl_int state, void *user)
{
    cl_event gate = user;
    (void)event;
    cl.clSetUserEventStatus(gate, state < 0 ? state : CL_COMPLETE);
    cl.clReleaseEvent(gate);
    unsigned before = atomic_fetch_sub(&under_way, 1);
    ENGINE_ASSERT(before > 0);
}

void copies_settle(void)
{
    const struct timespec nap = {.tv_nsec = 1000000};
    for (int i = 0; i < 1000 && atomic_load(&under_way) > 0; i++) nanosleep(&nap, NULL);
}

/* Puts the bytes on their way to host memory, after which `gate` opens; it always does then. */
static int between_fetch(struct engine_device *device, cl_mem memory, uint64_t offset, uint64_t size,
                         void *staging, cl_event gate)
{
    cl_event *event;
    int status = command_begin(device, "copy to another device", &event);
    if (status) return status;
    cl_int error = cl.clEnqueueReadBuffer(device->queue, memory, CL_FALSE, (size_t)offset, (size_t)size,
                                          staging, 0, NULL, event);
    if (error != CL_SUCCESS) return opencl_error(error, "copy to another device");
    atomic_fetch_add(&under_way, 1);
    error = cl.clSetEventCallback(*event, CL_COMPLETE, arrived, gate);
    if (error == CL_SUCCESS) {
        cl.clFlush(device->queue); /* its error is that of the wait, too */
        return ENGINE_OK;
    }
    atomic_fetch_sub(&under_way, 1);
    device_finish(device);
    return opencl_error(error, "copy to another device");
}

int device_copy(struct engine_device *source, cl_mem from, uint64_t from_offset, struct engine_device *target,
                cl_mem to, uint64_t to_offset, uint64_t size)
{
    cl_int error;
    cl_event *event;
    ENGINE_ASSERT(source != target);
    void *staging = malloc((size_t)size);
    if (!staging) return opencl_host->fail(ENGINE_ERROR_MEMORY, "out of memory (copy)");
    cl_event gate = cl.clCreateUserEvent(target->context, &error);
    int status = opencl_error(error, "copy");
    if (!status) status = command_begin(target, "copy from another device", &event);
    if (!status) {
        struct command *command = &target->commands[target->n_commands - 1];
        ENGINE_ASSERT(event == &command->event);
        command->staging = staging; /* until the target's queue is waited for */
        status = opencl_error(cl.clEnqueueWriteBuffer(target->queue, to, CL_FALSE, (size_t)to_offset,
                                                      (size_t)size, staging, 1, &gate, event),
                              "copy from another device");
        if (!status) status = between_fetch(source, from, from_offset, size, staging, gate);
        if (!status) return ENGINE_OK;
        cl.clSetUserEventStatus(gate, CL_INVALID_OPERATION);
    } else {
        free(staging);
    }
    if (gate) cl.clReleaseEvent(gate);
    return status;
}

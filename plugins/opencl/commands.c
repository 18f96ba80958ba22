/* commands.c: the commands that a device has not been waited for. Each command has its own event: a finished
 * queue does not mean that every command succeeded. */
#include <stdio.h>
#include <stdlib.h>

#include "common/assert.h"
#include "device.h"

int command_begin(struct engine_device *device, const char *what, cl_event **event)
{
    int status = device->n_commands == MAX_COMMANDS ? device_finish(device) : ENGINE_OK;
    if (status) return status;
    ENGINE_ASSERT(device->n_commands < MAX_COMMANDS);
    struct command *command = &device->commands[device->n_commands++];
    *command = (struct command){.what = what};
    *event = &command->event;
    return ENGINE_OK;
}

/* Forgets a command. Returns the error that it ended with. */
static cl_int command_end(struct command *command)
{
    cl_int state = CL_COMPLETE;
    if (!command->event) return CL_SUCCESS; /* it could not be enqueued, which was said then */
    cl_int error =
        cl.clGetEventInfo(command->event, CL_EVENT_COMMAND_EXECUTION_STATUS, sizeof state, &state, NULL);
    cl.clReleaseEvent(command->event);
    return error == CL_SUCCESS && state < 0 ? state : error;
}

int device_finish(struct engine_device *device)
{
    cl_int first = CL_SUCCESS;
    const char *failed = NULL;
    if (device->n_commands == 0) return ENGINE_OK;
    cl_int finished = cl.clFinish(device->queue);
    for (uint32_t i = 0; i < device->n_commands; i++) {
        cl_int error = command_end(&device->commands[i]);
        free(device->commands[i].staging);
        if (first != CL_SUCCESS || error == CL_SUCCESS) continue;
        first = error;
        failed = device->commands[i].what;
    }
    device->n_commands = 0;
    if (!failed) return opencl_error(finished, "wait");
    char what[64];
    snprintf(what, sizeof what, "%s, while running", failed);
    return opencl_error(first, what);
}

int device_is_done(struct engine_device *device, int *done)
{
    cl_int state = CL_COMPLETE;
    *done = 1;
    if (device->n_commands == 0) return ENGINE_OK;
    cl_int error = cl.clFlush(device->queue);
    /* The queue keeps their order, so the last that could be enqueued will do. */
    uint32_t last = device->n_commands;
    while (last > 0 && !device->commands[last - 1].event) last--;
    if (error == CL_SUCCESS && last > 0)
        error = cl.clGetEventInfo(device->commands[last - 1].event, CL_EVENT_COMMAND_EXECUTION_STATUS,
                                  sizeof state, &state, NULL);
    *done = state <= CL_COMPLETE;
    return opencl_error(error, "flush");
}

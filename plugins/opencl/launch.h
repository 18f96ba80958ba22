/* launch.h: kernels with their arguments, run at once or kept in a recording. */
#ifndef OPENCL_LAUNCH_H
#define OPENCL_LAUNCH_H

#include "device.h"

#define MAX_MEMORIES   13
#define MAX_PARAMETERS 128 /* bytes */

struct launch {
    const struct kernel *kernel;
    cl_mem memories[MAX_MEMORIES]; /* the first arguments; NULL: not used */
    uint64_t scratch_size;         /* of the scratch memory that it uses */
    uint32_t scratch; /* bit i: argument i is the device's scratch memory at the time of the launch */
    uint32_t n_memories;
    uint32_t parameters_size; /* of the struct that is the last argument */
    uint32_t parameters[MAX_PARAMETERS / 4];
    uint32_t n_dimensions;
    size_t global[2], group[2];
};

struct launches {
    struct launch *items;
    size_t count, room;
};

int launch_run(struct engine_device *device, const struct launch *launch);

/* ops.c: checks an operation and runs its kernels, or adds them to `recording` if that isn't NULL. */
int op_append(struct engine_device *device, struct launches *recording, uint32_t op, const void *args);

#endif

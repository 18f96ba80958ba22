/* ops.c: checks operations and passes them to the functions that launch their kernels; tells what a device
 * supports and how much memory it takes. */
#include "builder.h"

/* An operation without one is refused. */
static int (*const builders[])(struct builder *builder, const struct gpu_call *call) = {
    [ENGINE_OP_MATMUL] = matmul,    [ENGINE_OP_ATTENTION] = attention, [ENGINE_OP_CACHE_WRITE] = cache_write,
    [ENGINE_OP_ROPE] = rope,        [ENGINE_OP_NORM] = norm,           [ENGINE_OP_GET_ROWS] = get_rows,
    [ENGINE_OP_ADD] = element_wise, [ENGINE_OP_MUL] = element_wise,    [ENGINE_OP_ACTIVATE] = element_wise,
    [ENGINE_OP_ROUTE] = route,      [ENGINE_OP_CONCAT] = element_wise, [ENGINE_OP_CONV] = conv,
    [ENGINE_OP_SCAN] = scan,
};

bool op_has_kernel(uint32_t op)
{
    return op < sizeof builders / sizeof *builders && builders[op];
}

static struct gpu_request make_request(struct engine_device *device, bool planning)
{
    return (struct gpu_request){opencl_host, device, &device->limits, planning, NULL};
}

int op_supports(struct engine_device *device, uint32_t op, const void *args)
{
    struct gpu_request request = make_request(device, true);
    struct gpu_call call;
    return gpu_check(&request, op, args, &call) == ENGINE_OK;
}

/* Scratch memory. Rope's angles, which exist besides it, are part of the result for both ROPE and MATMUL:
 * only the largest result counts. */
int op_memory(struct engine_device *device, uint32_t op, const void *args, uint64_t *bytes)
{
    struct gpu_request request = make_request(device, true);
    struct gpu_call call;
    int status = gpu_check(&request, op, args, &call);
    if (status) return opencl_host->fail(status, "cannot tell the memory of an unsupported operation");
    uint64_t scratch = op == ENGINE_OP_MATMUL      ? matmul_memory(device, &call)
                       : op == ENGINE_OP_ATTENTION ? attention_memory(device, &call)
                                                   : 0;
    *bytes = op == ENGINE_OP_ROPE || op == ENGINE_OP_MATMUL || scratch > 0 ? scratch + SMALL_MEMORY : 0;
    return ENGINE_OK;
}

static int append(struct engine_device *device, struct launches *recording, const struct gpu_call *call)
{
    struct builder builder = {.device = device, .recording = recording};
    return builders[call->op](&builder, call);
}

int op_append(struct engine_device *device, struct launches *recording, uint32_t op, const void *args)
{
    struct gpu_request request = make_request(device, false);
    struct gpu_call call;
    int status = gpu_check(&request, op, args, &call);
    if (!status) status = append(device, recording, &call);
    /* Kernels are built before anything of the operation's output is written. */
    return status && device_takes_vectors(device) ? append(device, recording, &call) : status;
}

int op_try(struct engine_device *device)
{
    struct builder builder = {.device = device};
    int status = get_group_kernel(&builder, SOURCE_ROWS, "norm");
    return status && device_takes_vectors(device) ? get_group_kernel(&builder, SOURCE_ROWS, "norm") : status;
}

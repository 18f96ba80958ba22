/* ops.c: the table of operations, and the copy of an argument struct that they work with. */
#include "ops.h"

#include <string.h>

#include "common/op-args.h"
#include "common/sized.h"

struct op {
    const char *name;
    size_t args_size;
    int (*function)(const struct request *request, const void *args, struct list *list);
};

static const struct op ops[] = {
    [ENGINE_OP_MATMUL] = {"matmul", sizeof(struct engine_op_matmul), op_matmul},
    [ENGINE_OP_ATTENTION] = {"attention", sizeof(struct engine_op_attention), op_attention},
    [ENGINE_OP_CACHE_WRITE] = {"cache write", sizeof(struct engine_op_cache_write), op_cache_write},
    [ENGINE_OP_ROPE] = {"rope", sizeof(struct engine_op_rope), op_rope},
    [ENGINE_OP_NORM] = {"norm", sizeof(struct engine_op_norm), op_norm},
    [ENGINE_OP_GET_ROWS] = {"get rows", sizeof(struct engine_op_get_rows), op_get_rows},
    [ENGINE_OP_ADD] = {"add", sizeof(struct engine_op_binary), op_add},
    [ENGINE_OP_MUL] = {"mul", sizeof(struct engine_op_binary), op_mul},
    [ENGINE_OP_ACTIVATE] = {"activate", sizeof(struct engine_op_activate), op_activate},
    [ENGINE_OP_ROUTE] = {"route", sizeof(struct engine_op_route), op_route},
    [ENGINE_OP_CONCAT] = {"concat", sizeof(struct engine_op_concat), op_concat},
    [ENGINE_OP_CONV] = {"conv", sizeof(struct engine_op_conv), op_conv},
    [ENGINE_OP_SCAN] = {"scan", sizeof(struct engine_op_scan), op_scan},
};

static int call(struct engine_device *device, bool planning, struct list *list, uint32_t op, const void *args)
{
    struct request request = {device, planning, "operation"};
    if (op >= sizeof ops / sizeof *ops || !ops[op].function)
        return refuse(&request, ENGINE_ERROR_UNSUPPORTED, "unknown operation %u", op);
    request.op = ops[op].name;
    size_t size = args ? *(const size_t *)args : 0;
    if (size < sizeof size) return refuse(&request, ENGINE_ERROR_ARGUMENT, "%s: no arguments", request.op);
    if (size > ops[op].args_size && !sized_rest_is_zero(args, ops[op].args_size))
        return refuse(&request, ENGINE_ERROR_UNSUPPORTED, "%s: the arguments are from a later version",
                      request.op);
    union op_args copy = {0};
    memcpy(&copy, args, size < ops[op].args_size ? size : ops[op].args_size);
    return ops[op].function(&request, &copy, list);
}

int op_supports(struct engine_device *device, uint32_t op, const void *args)
{
    return call(device, true, NULL, op, args) == ENGINE_OK;
}

int op_append(struct engine_device *device, struct list *list, uint32_t op, const void *args)
{
    return call(device, false, list, op, args);
}

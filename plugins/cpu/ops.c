/* ops.c: the table of operations, and the copy of an argument struct that they work with. */
#include "ops.h"

#include "common/sized.h"

#define FUNCTION(number, name, ...) [ENGINE_OP_##number] = op_##name,

static int (*const functions[])(const struct request *request, const void *args,
                                struct list *list) = {OPERATIONS(FUNCTION)};

static int call(struct engine_device *device, bool planning, struct list *list, uint32_t op, const void *args)
{
    struct request request = {device, planning, "operation"};
    const struct op_info *info = op_info(op);
    if (!info) return refuse(&request, ENGINE_ERROR_UNSUPPORTED, "unknown operation %u", op);
    request.op = info->title;
    size_t size = args ? sized_size(args) : 0;
    if (size < sizeof size) return refuse(&request, ENGINE_ERROR_ARGUMENT, "%s: no arguments", request.op);
    if (!sized_rest_is_zero(args, info->size))
        return refuse(&request, ENGINE_ERROR_UNSUPPORTED, "%s: the arguments are from a later version",
                      request.op);
    union op_args copy;
    sized_read(&copy, info->size, args);
    int status = operands_check(&request, op, &copy);
    return status ? status : functions[op](&request, &copy, list);
}

int op_supports(struct engine_device *device, uint32_t op, const void *args)
{
    return call(device, true, NULL, op, args) == ENGINE_OK;
}

int op_append(struct engine_device *device, struct list *list, uint32_t op, const void *args)
{
    return call(device, false, list, op, args);
}

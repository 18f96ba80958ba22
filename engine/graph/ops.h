/* ops.h: the operations of plugin-api.h as data: the operands of each argument struct and their offsets. Code
 * that walks a graph (placement, fusion, scheduling, execution) uses this table instead of a switch over
 * operations. */
#ifndef ENGINE_GRAPH_OPS_H
#define ENGINE_GRAPH_OPS_H

#include <stdbool.h>
#include <stddef.h>

#include "common/op-args.h"

struct op_operand {
    size_t offset; /* of the tensor pointer in the argument struct */
    bool in_place; /* the output may be the same tensor as this one */
    uint32_t uses; /* enum engine_weight_use, if the operand is a weight */
};

#define OP_MAX_INPUTS  11
#define OP_MAX_OUTPUTS 2

struct op_info {
    const char *name;
    size_t size; /* of the argument struct */
    /* Offsets of the outputs' tensor pointers, terminated by 0. The first is never NULL. */
    size_t outputs[OP_MAX_OUTPUTS + 1];
    struct op_operand inputs[OP_MAX_INPUTS + 1]; /* terminated by one with offset 0 */
};

/* NULL if the number is not an operation. */
const struct op_info *graph_op_info(uint32_t op);

/* The tensor pointer at `offset` in an argument struct. */
static inline const struct engine_tensor **op_tensor(union op_args *args, size_t offset)
{
    return (const struct engine_tensor **)(void *)((char *)args + offset);
}

#endif

/* tensor.h: one tensor of an operation, checked and made into a plain view: for operand.c, which knows the operations. */
#ifndef GPU_TENSOR_H
#define GPU_TENSOR_H

#include "operand.h"

#define MAX_ELEMENTS (UINT32_MAX / 2) /* kernels count in 32 bits */

/* What an operand may be. */
enum { IN_BUFFER = 1, IS_WEIGHT = 2, OPTIONAL = 4, IS_I32 = 8, IS_CACHE = 16, ANY_TYPE = 32 };

/* An operand of an operation. */
struct gpu_operand {
    const char *name;
    size_t offset;  /* of the pointer in the argument struct */
    unsigned flags; /* what this argument may be */
    uint32_t use;   /* of a weight */
};

/* Fills in the view of an operand. `tensor` may be NULL if the operand is optional. */
int gpu_check_tensor(const struct gpu_request *request, const struct gpu_operand *operand,
                     const struct engine_tensor *tensor, struct gpu_view *view);

#endif

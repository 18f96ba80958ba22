/* operand.h: operations as the GPU plugins take them: argument structs copied as far as their writer knew
 * them, tensors checked and made into plain views. Shared by the backends whose kernels address memory in
 * 32-bit words. Nothing here depends on a driver: a plugin's engine_buffer and engine_weight begin with the
 * structs below. */
#ifndef GPU_OPERAND_H
#define GPU_OPERAND_H

#include <stdbool.h>

#include "common/ops.h"

/* The first member of a plugin's struct engine_buffer. */
struct gpu_buffer {
    struct engine_device *device;
    uint64_t size;
};

/* The first member of a plugin's struct engine_weight. */
struct gpu_weight {
    struct engine_device *device;
    uint32_t type, uses;
    uint64_t ne[4];
};

/* A device's capabilities; filled by the plugin. */
struct gpu_limits {
    uint64_t max_tensor;                /* bytes of an activation or cache that a kernel can address */
    uint32_t max_head_dim;              /* of attention */
    uint32_t max_experts;               /* of a router, of matmul */
    bool (*weight_type)(uint32_t type); /* of matmul and get-rows */
    bool (*has_kernel)(uint32_t op);    /* whether the plugin has a kernel for the operation */
};

/* The context of a check. While planning, handles are absent and refusals are silent. */
struct gpu_request {
    const struct engine_host *host;
    struct engine_device *device;
    const struct gpu_limits *limits;
    bool planning;
    const char *op; /* "matmul", for messages; set by gpu_check */
};

/* Refuses an operation: `return gpu_refuse(request, ENGINE_ERROR_…, "…")`. */
#define gpu_refuse(request, status, ...)                                                                     \
    ((request)->planning ? (int)(status) : (request)->host->fail((int)(status), __VA_ARGS__))

/* A tensor. The elements of a row are contiguous; strides and offset of buffers are multiples of 4. */
struct gpu_view {
    bool present;
    uint32_t type;
    uint64_t ne[4], nb[4];
    uint64_t bytes; /* from its first byte to its last */
    uint64_t offset;
    struct engine_buffer *buffer;       /* NULL while planning, and for weights */
    const struct engine_weight *weight; /* NULL while planning, and for tensors in a buffer */
    bool is_weight;
};

/* A checked operation. */
struct gpu_call {
    uint32_t op;
    struct gpu_view views[OP_MAX_OPERANDS]; /* at the numbers from OPERAND */
    union op_args args;                     /* of its tensors, use the views */
    enum op_matrices matrices;              /* of MATMUL */
    uint64_t key_step;                      /* of ATTENTION: bytes from one row of a cache to the next */
    uint64_t value_step;                    /* of v; the same as k's if v is a part of k */
};

/* Checks an operation against the rules of plugin-api.h and the device's limits, and fills *call. */
int gpu_check(struct gpu_request *request, uint32_t op, const void *args, struct gpu_call *call);

/* Elements and bytes of a block of a type that GPU plugins know; false for others. */
bool gpu_type_block(uint32_t type, uint32_t *length, uint32_t *size);

#endif

/* operand.h: operations as the GPU plugins take them: argument structs copied as far as their writer knew
 * them, tensors checked and made into plain views. Shared by the backends whose kernels address memory in
 * 32-bit words. Nothing here depends on a driver: a plugin's engine_buffer and engine_weight begin with the
 * structs below. */
#ifndef GPU_OPERAND_H
#define GPU_OPERAND_H

#include <stdbool.h>

#include "common/op-args.h"

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

/* Operands, in the order of the argument structs. */
enum {
    GPU_MATMUL_WEIGHT,
    GPU_MATMUL_INPUT,
    GPU_MATMUL_OUTPUT,
    GPU_MATMUL_GATE,
    GPU_MATMUL_BIAS,
    GPU_MATMUL_RESIDUAL,
    GPU_MATMUL_EXPERTS,
    GPU_MATMUL_MIX
};
enum {
    GPU_ATTENTION_Q,
    GPU_ATTENTION_K,
    GPU_ATTENTION_V,
    GPU_ATTENTION_BLOCK_TABLE,
    GPU_ATTENTION_SEQUENCES,
    GPU_ATTENTION_POSITIONS,
    GPU_ATTENTION_OUTPUT,
    GPU_ATTENTION_SLOPES,
    GPU_ATTENTION_SINKS,
    GPU_ATTENTION_WEIGHTS,
    GPU_ATTENTION_BIASES
};
enum { GPU_CACHE_WRITE_INPUT, GPU_CACHE_WRITE_SLOTS, GPU_CACHE_WRITE_CACHE };
enum { GPU_ROPE_INPUT, GPU_ROPE_POSITIONS, GPU_ROPE_OUTPUT, GPU_ROPE_FACTORS };
enum { GPU_NORM_INPUT, GPU_NORM_OUTPUT, GPU_NORM_WEIGHT, GPU_NORM_BIAS };
enum { GPU_GET_ROWS_SOURCE, GPU_GET_ROWS_ROWS, GPU_GET_ROWS_OUTPUT };
enum { GPU_BINARY_A, GPU_BINARY_B, GPU_BINARY_OUTPUT };
enum { GPU_ACTIVATE_INPUT, GPU_ACTIVATE_FACTOR, GPU_ACTIVATE_OUTPUT };
enum { GPU_ROUTE_LOGITS, GPU_ROUTE_BIAS, GPU_ROUTE_IDS, GPU_ROUTE_WEIGHTS };
enum { GPU_CONCAT_A, GPU_CONCAT_B, GPU_CONCAT_OUTPUT };
enum {
    GPU_CONV_INPUT,
    GPU_CONV_WEIGHT,
    GPU_CONV_POSITIONS,
    GPU_CONV_STATES,
    GPU_CONV_STATE,
    GPU_CONV_OUTPUT
};
enum {
    GPU_SCAN_Q,
    GPU_SCAN_K,
    GPU_SCAN_V,
    GPU_SCAN_DECAY,
    GPU_SCAN_RATES,
    GPU_SCAN_A,
    GPU_SCAN_B,
    GPU_SCAN_ERASE,
    GPU_SCAN_BONUS,
    GPU_SCAN_POSITIONS,
    GPU_SCAN_STATES,
    GPU_SCAN_STATE,
    GPU_SCAN_OUTPUT
};
#define GPU_MAX_OPERANDS 13

/* The matrices of its weight that a matmul uses. */
enum gpu_matrices { GPU_ONE_MATRIX, GPU_MATRIX_PER_HEAD, GPU_MATRIX_PER_EXPERT };

/* A checked operation. */
struct gpu_call {
    uint32_t op;
    struct gpu_view views[GPU_MAX_OPERANDS];
    union op_args args;         /* don't use its tensor pointers: see views */
    enum gpu_matrices matrices; /* of MATMUL */
    uint64_t key_step;          /* of ATTENTION: bytes from one row of a cache to the next */
    uint64_t value_step;        /* of v; the same as k's if v is a part of k */
};

/* Checks an operation against the rules of plugin-api.h and the device's limits, and fills *call. */
int gpu_check(struct gpu_request *request, uint32_t op, const void *args, struct gpu_call *call);

/* Elements and bytes of a block of a type that GPU plugins know; false for others. */
bool gpu_type_block(uint32_t type, uint32_t *length, uint32_t *size);

#endif

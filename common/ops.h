/* ops.h: the operations of plugin-api.h as data: name, struct, and the struct's operands in their order.
 * Whoever walks the operands of an operation reads this: graphs, placing and scheduling, the conformance
 * suite, and the plugins. tests/tools/operations compares each row with the header. */
#ifndef COMMON_OPS_H
#define COMMON_OPS_H

#include <stdbool.h>

#include "plugin-api.h"

/* The argument struct of any operation. */
union op_args {
    size_t struct_size; /* the first field of each */
    struct engine_op_matmul matmul;
    struct engine_op_attention attention;
    struct engine_op_cache_write cache_write;
    struct engine_op_rope rope;
    struct engine_op_norm norm;
    struct engine_op_get_rows get_rows;
    struct engine_op_binary binary;
    struct engine_op_activate activate;
    struct engine_op_route route;
    struct engine_op_concat concat;
    struct engine_op_conv conv;
    struct engine_op_scan scan;
    struct engine_op_pick pick;
    struct engine_op_mix mix;
    struct engine_op_hyper hyper;
    struct engine_op_pool pool;
};

enum op_role { OP_IN = 1, OP_OUT = 2, OP_BOTH = OP_IN | OP_OUT };

/* Element types of an operand; bits. */
enum op_types {
    OP_F32 = 1,
    OP_I32 = 2,
    OP_F16 = 4,
    OP_Q8_0 = 8,
    OP_WEIGHT_TYPES = 16, /* if it is a weight: any */
    OP_ANY = OP_F32 | OP_WEIGHT_TYPES,
    OP_CACHED = OP_F32 | OP_F16 | OP_Q8_0
};

enum op_flags {
    OP_OPTIONAL = 1,
    OP_EITHER = 2,    /* a weight or an activation; other operands with uses are weights */
    OP_IN_PLACE = 4,  /* the first output may be the same tensor */
    OP_PLACES = 8,    /* if it is a weight, the operation runs on its device */
    OP_FOLLOWED = 16, /* an activation: the operation runs where it was made */
    OP_CACHE = 32,    /* belongs to a layer's cache: the operation runs where that is */
    OP_STATE = 64     /* the same of a layer's states */
};

#define OP_PRODUCT (ENGINE_WEIGHT_MATMUL | ENGINE_WEIGHT_MATRICES)

/* clang-format off */

/* Each operation: its number, its name, its name in messages, and whose struct it has. */
#define OPERATIONS(OP)                                   \
    OP(MATMUL,      matmul,      "matmul",      matmul)      \
    OP(ATTENTION,   attention,   "attention",   attention)   \
    OP(CACHE_WRITE, cache_write, "cache write", cache_write) \
    OP(ROPE,        rope,        "rope",        rope)        \
    OP(NORM,        norm,        "norm",        norm)        \
    OP(GET_ROWS,    get_rows,    "get rows",    get_rows)    \
    OP(ADD,         add,         "add",         binary)      \
    OP(MUL,         mul,         "mul",         binary)      \
    OP(ACTIVATE,    activate,    "activate",    activate)    \
    OP(ROUTE,       route,       "route",       route)       \
    OP(CONCAT,      concat,      "concat",      concat)      \
    OP(CONV,        conv,        "conv",        conv)        \
    OP(SCAN,        scan,        "scan",        scan)        \
    OP(PICK,        pick,        "pick",        pick)        \
    OP(MIX,         mix,         "mix",         mix)         \
    OP(HYPER,       hyper,       "hyper",       hyper)       \
    OP(POOL,        pool,        "pool",        pool)

/* The operands of each struct, in its order: role, types, flags, and what a weight is used for. */
#define OPERANDS_OF_matmul(X)                                                       \
    X(matmul, weight,   OP_IN,  OP_ANY, OP_PLACES,   OP_PRODUCT)                    \
    X(matmul, input,    OP_IN,  OP_F32, 0,           0)                             \
    X(matmul, output,   OP_OUT, OP_F32, 0,           0)                             \
    X(matmul, gate,     OP_IN,  OP_ANY, OP_OPTIONAL, OP_PRODUCT)                    \
    X(matmul, bias,     OP_IN,  OP_F32, OP_OPTIONAL, ENGINE_WEIGHT_VALUES)          \
    X(matmul, residual, OP_IN,  OP_F32, OP_OPTIONAL | OP_IN_PLACE, 0)               \
    X(matmul, experts,  OP_IN,  OP_I32, OP_OPTIONAL, 0)                             \
    X(matmul, mix,      OP_IN,  OP_F32, OP_OPTIONAL, 0)
#define OPERANDS_OF_attention(X)                                                    \
    X(attention, q,             OP_IN,  OP_F32,    0,           0)                  \
    X(attention, k,             OP_IN,  OP_CACHED, OP_CACHE,    0)                  \
    X(attention, v,             OP_IN,  OP_CACHED, OP_CACHE,    0)                  \
    X(attention, block_table,   OP_IN,  OP_I32,    0,           0)                  \
    X(attention, sequences,     OP_IN,  OP_I32,    0,           0)                  \
    X(attention, positions,     OP_IN,  OP_I32,    0,           0)                  \
    X(attention, output,        OP_OUT, OP_F32,    0,           0)                  \
    X(attention, slopes,        OP_IN,  OP_F32,    OP_OPTIONAL, ENGINE_WEIGHT_VALUES) \
    X(attention, sinks,         OP_IN,  OP_F32,    OP_OPTIONAL, ENGINE_WEIGHT_VALUES) \
    X(attention, weights,       OP_OUT, OP_F32,    OP_OPTIONAL, 0)                  \
    X(attention, distance_bias, OP_IN,  OP_F32,    OP_OPTIONAL, ENGINE_WEIGHT_VALUES) \
    X(attention, picked,        OP_IN,  OP_I32,    OP_OPTIONAL, 0) \
    X(attention, earlier,       OP_IN,  OP_F32,    OP_OPTIONAL, 0)                  \
    X(attention, earlier_logsums, OP_IN, OP_F32,   OP_OPTIONAL, 0)                  \
    X(attention, logsums,       OP_OUT, OP_F32,    OP_OPTIONAL, 0)
#define OPERANDS_OF_cache_write(X)                                                  \
    X(cache_write, input, OP_IN,  OP_F32,    0,        0)                           \
    X(cache_write, slots, OP_IN,  OP_I32,    0,        0)                           \
    X(cache_write, cache, OP_OUT, OP_CACHED, OP_CACHE, 0)
#define OPERANDS_OF_rope(X)                                                         \
    X(rope, input,     OP_IN,  OP_F32, OP_IN_PLACE, 0)                              \
    X(rope, positions, OP_IN,  OP_I32, 0,           0)                              \
    X(rope, output,    OP_OUT, OP_F32, 0,           0)                              \
    X(rope, factors,   OP_IN,  OP_F32, OP_OPTIONAL | OP_PLACES, ENGINE_WEIGHT_VALUES)
#define OPERANDS_OF_norm(X)                                                         \
    X(norm, input,  OP_IN,  OP_F32, OP_IN_PLACE, 0)                                 \
    X(norm, output, OP_OUT, OP_F32, 0,           0)                                 \
    X(norm, weight, OP_IN,  OP_F32, OP_OPTIONAL | OP_PLACES, ENGINE_WEIGHT_VALUES)  \
    X(norm, bias,   OP_IN,  OP_F32, OP_OPTIONAL, ENGINE_WEIGHT_VALUES)
#define OPERANDS_OF_get_rows(X)                                                     \
    X(get_rows, source, OP_IN,  OP_ANY, OP_EITHER | OP_PLACES, ENGINE_WEIGHT_ROWS) \
    X(get_rows, rows,   OP_IN,  OP_I32, 0, 0)                                       \
    X(get_rows, output, OP_OUT, OP_F32, 0, 0)
#define OPERANDS_OF_binary(X)                                                       \
    X(binary, a,      OP_IN,  OP_F32, OP_IN_PLACE, 0)                               \
    X(binary, b,      OP_IN,  OP_F32, OP_EITHER | OP_IN_PLACE | OP_PLACES, ENGINE_WEIGHT_VALUES) \
    X(binary, output, OP_OUT, OP_F32, 0,           0)
#define OPERANDS_OF_activate(X)                                                     \
    X(activate, input,  OP_IN,  OP_F32, OP_IN_PLACE | OP_FOLLOWED, 0)               \
    X(activate, factor, OP_IN,  OP_F32, OP_OPTIONAL | OP_IN_PLACE, 0)               \
    X(activate, output, OP_OUT, OP_F32, 0, 0)
#define OPERANDS_OF_route(X)                                                        \
    X(route, logits,  OP_IN,  OP_F32, 0, 0)                                         \
    X(route, bias,    OP_IN,  OP_F32, OP_OPTIONAL | OP_PLACES, ENGINE_WEIGHT_VALUES) \
    X(route, ids,     OP_OUT, OP_I32, 0, 0)                                         \
    X(route, weights, OP_OUT, OP_F32, 0, 0)                                         \
    X(route, chosen,  OP_IN,  OP_F32, OP_OPTIONAL, 0)
#define OPERANDS_OF_concat(X)                                                       \
    X(concat, a,      OP_IN,  OP_F32, 0, 0)                                         \
    X(concat, b,      OP_IN,  OP_F32, 0, 0)                                         \
    X(concat, output, OP_OUT, OP_F32, 0, 0)
#define OPERANDS_OF_conv(X)                                                         \
    X(conv, input,     OP_IN,   OP_F32, 0,        0)                                \
    X(conv, weight,    OP_IN,   OP_F32, 0,        ENGINE_WEIGHT_VALUES)             \
    X(conv, positions, OP_IN,   OP_I32, 0,        0)                                \
    X(conv, states,    OP_IN,   OP_I32, 0,        0)                                \
    X(conv, state,     OP_BOTH, OP_F32, OP_STATE, 0)                                \
    X(conv, output,    OP_OUT,  OP_F32, 0,        0)
#define OPERANDS_OF_scan(X)                                                         \
    X(scan, q,         OP_IN,   OP_F32, 0,           0)                             \
    X(scan, k,         OP_IN,   OP_F32, 0,           0)                             \
    X(scan, v,         OP_IN,   OP_F32, 0,           0)                             \
    X(scan, decay,     OP_IN,   OP_F32, OP_OPTIONAL, 0)                             \
    X(scan, rates,     OP_IN,   OP_F32, OP_OPTIONAL, ENGINE_WEIGHT_VALUES)          \
    X(scan, a,         OP_IN,   OP_F32, OP_OPTIONAL, 0)                             \
    X(scan, b,         OP_IN,   OP_F32, OP_OPTIONAL, 0)                             \
    X(scan, erase,     OP_IN,   OP_F32, OP_OPTIONAL, 0)                             \
    X(scan, bonus,     OP_IN,   OP_F32, OP_OPTIONAL, ENGINE_WEIGHT_VALUES)          \
    X(scan, positions, OP_IN,   OP_I32, 0,           0)                             \
    X(scan, states,    OP_IN,   OP_I32, 0,           0)                             \
    X(scan, state,     OP_BOTH, OP_F32, OP_STATE,    0)                             \
    X(scan, output,    OP_OUT,  OP_F32, 0,           0)
#define OPERANDS_OF_pick(X)                                                         \
    X(pick, q,           OP_IN,  OP_F32,    0,        0)                            \
    X(pick, k,           OP_IN,  OP_CACHED, OP_CACHE, 0)                            \
    X(pick, weights,     OP_IN,  OP_F32,    0,        0)                            \
    X(pick, block_table, OP_IN,  OP_I32,    0,        0)                            \
    X(pick, sequences,   OP_IN,  OP_I32,    0,        0)                            \
    X(pick, positions,   OP_IN,  OP_I32,    0,        0)                            \
    X(pick, picked,      OP_OUT, OP_I32,    0,        0)

#define OPERANDS_OF_mix(X)                                                          \
    X(mix, input,   OP_IN,  OP_F32, OP_FOLLOWED, 0)                                 \
    X(mix, weights, OP_IN,  OP_F32, OP_OPTIONAL, 0)                                 \
    X(mix, addend,  OP_IN,  OP_F32, OP_OPTIONAL, 0)                                 \
    X(mix, scales,  OP_IN,  OP_F32, OP_OPTIONAL | OP_EITHER | OP_PLACES, ENGINE_WEIGHT_VALUES) \
    X(mix, output,  OP_OUT, OP_F32, 0,           0)
#define OPERANDS_OF_hyper(X)                                                        \
    X(hyper, input,  OP_IN,  OP_F32, 0,         0)                                  \
    X(hyper, scale,  OP_IN,  OP_F32, OP_PLACES, ENGINE_WEIGHT_VALUES)               \
    X(hyper, base,   OP_IN,  OP_F32, 0,         ENGINE_WEIGHT_VALUES)               \
    X(hyper, output, OP_OUT, OP_F32, 0,         0)
#define OPERANDS_OF_pool(X)                                                         \
    X(pool, cache,       OP_IN,  OP_CACHED, OP_CACHE, 0)                            \
    X(pool, bias,        OP_IN,  OP_F32,    0,        ENGINE_WEIGHT_VALUES)         \
    X(pool, block_table, OP_IN,  OP_I32,    0,        0)                            \
    X(pool, sequences,   OP_IN,  OP_I32,    0,        0)                            \
    X(pool, positions,   OP_IN,  OP_I32,    0,        0)                            \
    X(pool, output,      OP_OUT, OP_F32,    0,        0)

/* The number of an operand among those of its struct: OPERAND(matmul, weight). */
#define OPERAND(args, field) OPERAND_##args##_##field
#define NUMBER(args, field, ...) OPERAND(args, field),
enum { OPERANDS_OF_matmul(NUMBER) };
enum { OPERANDS_OF_attention(NUMBER) };
enum { OPERANDS_OF_cache_write(NUMBER) };
enum { OPERANDS_OF_rope(NUMBER) };
enum { OPERANDS_OF_norm(NUMBER) };
enum { OPERANDS_OF_get_rows(NUMBER) };
enum { OPERANDS_OF_binary(NUMBER) };
enum { OPERANDS_OF_activate(NUMBER) };
enum { OPERANDS_OF_route(NUMBER) };
enum { OPERANDS_OF_concat(NUMBER) };
enum { OPERANDS_OF_conv(NUMBER) };
enum { OPERANDS_OF_scan(NUMBER) };
enum { OPERANDS_OF_pick(NUMBER) };
enum { OPERANDS_OF_mix(NUMBER) };
enum { OPERANDS_OF_hyper(NUMBER) };
enum { OPERANDS_OF_pool(NUMBER) };
#undef NUMBER
/* clang-format on */

#define OP_MAX_OPERANDS 15

struct op_operand {
    const char *name;
    size_t offset; /* of the tensor pointer in the struct */
    enum op_role role;
    unsigned types, flags; /* bits of enum op_types, enum op_flags */
    uint32_t uses;         /* of a weight: bits of enum engine_weight_use; 0: it is none */
};

struct op_info {
    const char *name, *title;                        /* "cache_write"; "cache write", for messages */
    size_t size;                                     /* of the struct */
    struct op_operand operands[OP_MAX_OPERANDS + 1]; /* up to one without a name */
    const char *(*misfit)(const union op_args *args);
};

/* NULL if the number is not an operation. */
const struct op_info *op_info(uint32_t op);
/* [OP_MAX_OPERANDS + 1] those of info->operands; none if the number is not an operation. */
const struct op_operand *op_operands(uint32_t op);

/* Whether some operand has one of these flags and one of these roles. */
bool op_has(uint32_t op, unsigned flags, enum op_role role);

/* Whether a tensor that is no weight may have this type. */
bool op_takes(const struct op_operand *operand, uint32_t type);

/* What is wrong with the shapes of an operation's tensors and with which of them are there, as
 * plugin-api.h has it; NULL: nothing. It reads neither strides nor types, and of numbers only those that
 * shapes depend on. */
const char *op_misfit(uint32_t op, const union op_args *args);

/* Writes the shapes of the operands that are there, for messages about a misfit, as far as they fit: "weight
 * [64, 20], input [64, 3], …". `size` is above 0; OP_SHAPES_TEXT suffices for most. */
enum { OP_SHAPES_TEXT = 400 };
void op_print_shapes(uint32_t op, const union op_args *args, char *text, size_t size);

/* The matrices of its weight that a product uses. It reads what experts there are, and the dimensions of
 * weight and input. */
enum op_matrices { OP_ONE_MATRIX, OP_MATRIX_PER_HEAD, OP_MATRIX_PER_EXPERT };
enum op_matrices op_matrices(const struct engine_op_matmul *args);

/* The fewest and the most taps of a convolution, the most keys of a scan, and the most streams of
 * hyper-connections. */
enum { OP_MIN_TAPS = 2, OP_MAX_TAPS = 16, OP_MAX_KEYS = 256, OP_MAX_STREAMS = 16 };

/* Where an operand's pointer is in a struct that has all operands. */
static inline const struct engine_tensor **op_tensor(union op_args *args, const struct op_operand *operand)
{
    return (const struct engine_tensor **)(void *)((char *)args + operand->offset);
}

/* The operand, or NULL. */
static inline const struct engine_tensor *op_given(const union op_args *args,
                                                   const struct op_operand *operand)
{
    return *(const struct engine_tensor *const *)(const void *)((const char *)args + operand->offset);
}

#endif

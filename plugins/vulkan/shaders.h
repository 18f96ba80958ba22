/* shaders.h: the shaders' numbers and code. CMakeLists.txt lists the source of each and makes the table. */
#ifndef VULKAN_SHADERS_H
#define VULKAN_SHADERS_H
#include <stddef.h>
#include <stdint.h>
/* For each type of weights, in this order. */
#define WEIGHT_SHADERS(type)                                                                                 \
    SHADER_MATMUL_##type##_FEW, SHADER_MATMUL_##type##_SUBGROUPS, SHADER_MATMUL_##type##_FEW_INTEGERS,       \
        SHADER_MATMUL_##type##_SUBGROUPS_INTEGERS, SHADER_MATMUL_##type##_TILED,                             \
        SHADER_MATMUL_##type##_HALF, SHADER_MATMUL_##type##_COOPERATIVE, SHADER_MATMUL_##type##_ADDRESS,     \
        SHADER_GET_ROWS_##type
/* Their places in that order. */
enum {
    MATMUL_FEW,
    MATMUL_SUBGROUPS,
    MATMUL_FEW_INTEGERS,
    MATMUL_SUBGROUPS_INTEGERS,
    MATMUL_TILED,
    MATMUL_HALF,
    MATMUL_COOPERATIVE,
    MATMUL_ADDRESS,
    GET_ROWS
};
/* Attention and norm with _SUBGROUPS follow the same ones without. */
enum shader {
    WEIGHT_SHADERS(F32),
    WEIGHT_SHADERS(F16),
    WEIGHT_SHADERS(BF16),
    WEIGHT_SHADERS(Q8_0),
    WEIGHT_SHADERS(Q4_0),
    WEIGHT_SHADERS(Q4_1),
    WEIGHT_SHADERS(Q5_0),
    WEIGHT_SHADERS(Q5_1),
    WEIGHT_SHADERS(Q2_K),
    WEIGHT_SHADERS(Q3_K),
    WEIGHT_SHADERS(Q4_K),
    WEIGHT_SHADERS(Q5_K),
    WEIGHT_SHADERS(Q6_K),
    WEIGHT_SHADERS(IQ4_NL),
    WEIGHT_SHADERS(IQ4_XS),
    WEIGHT_SHADERS(MXFP4),
    SHADER_MATMUL_Q8_0_DOT,
    SHADER_MATMUL_Q4_0_DOT,
    SHADER_GET_ROWS_ACTIVATION,
    SHADER_CACHE_WRITE_F32,
    SHADER_ATTENTION_F32_F32,
    SHADER_ATTENTION_F32_F32_SUBGROUPS,
    SHADER_ATTENTION_F32_F16,
    SHADER_ATTENTION_F32_F16_SUBGROUPS,
    SHADER_ATTENTION_F32_Q8_0,
    SHADER_ATTENTION_F32_Q8_0_SUBGROUPS,
    SHADER_CACHE_WRITE_F16,
    SHADER_ATTENTION_F16_F32,
    SHADER_ATTENTION_F16_F32_SUBGROUPS,
    SHADER_ATTENTION_F16_F16,
    SHADER_ATTENTION_F16_F16_SUBGROUPS,
    SHADER_ATTENTION_F16_Q8_0,
    SHADER_ATTENTION_F16_Q8_0_SUBGROUPS,
    SHADER_CACHE_WRITE_Q8_0,
    SHADER_ATTENTION_Q8_0_F32,
    SHADER_ATTENTION_Q8_0_F32_SUBGROUPS,
    SHADER_ATTENTION_Q8_0_F16,
    SHADER_ATTENTION_Q8_0_F16_SUBGROUPS,
    SHADER_ATTENTION_Q8_0_Q8_0,
    SHADER_ATTENTION_Q8_0_Q8_0_SUBGROUPS,
    SHADER_ATTENTION_JOIN,
    SHADER_ROWS,
    SHADER_NORM,
    SHADER_NORM_SUBGROUPS,
    SHADER_ROPE,
    SHADER_ROUTE,
    SHADER_GROUP,
    SHADER_MIX,
    SHADER_ROUND_COLUMNS,
    SHADER_CONV,
    SHADER_SCAN,
    SHADER_COUNT
};
struct shader_code {
    const char *name;      /* of SHADER_…, in small letters */
    const uint32_t *words; /* NULL: not built, because glslc can't compile it */
    size_t size;           /* bytes */
};
extern const struct shader_code shader_codes[SHADER_COUNT];
#endif

/* types.c: see types.h. The sizes are those of GGUF files. */
#include "model/types.h"

#include <stddef.h>
#include <strings.h>

#include "base/checked.h"

/* Indexed by enum engine_type; numbers that the engine doesn't know have no name. */
static const struct type_info types[] = {
    [ENGINE_TYPE_F32] = {"F32", 1, 4},           [ENGINE_TYPE_F16] = {"F16", 1, 2},
    [ENGINE_TYPE_Q4_0] = {"Q4_0", 32, 18},       [ENGINE_TYPE_Q4_1] = {"Q4_1", 32, 20},
    [ENGINE_TYPE_Q5_0] = {"Q5_0", 32, 22},       [ENGINE_TYPE_Q5_1] = {"Q5_1", 32, 24},
    [ENGINE_TYPE_Q8_0] = {"Q8_0", 32, 34},       [ENGINE_TYPE_Q2_K] = {"Q2_K", 256, 84},
    [ENGINE_TYPE_Q3_K] = {"Q3_K", 256, 110},     [ENGINE_TYPE_Q4_K] = {"Q4_K", 256, 144},
    [ENGINE_TYPE_Q5_K] = {"Q5_K", 256, 176},     [ENGINE_TYPE_Q6_K] = {"Q6_K", 256, 210},
    [ENGINE_TYPE_Q8_K] = {"Q8_K", 256, 292},     [ENGINE_TYPE_IQ2_XXS] = {"IQ2_XXS", 256, 66},
    [ENGINE_TYPE_IQ2_XS] = {"IQ2_XS", 256, 74},  [ENGINE_TYPE_IQ3_XXS] = {"IQ3_XXS", 256, 98},
    [ENGINE_TYPE_IQ1_S] = {"IQ1_S", 256, 50},    [ENGINE_TYPE_IQ4_NL] = {"IQ4_NL", 32, 18},
    [ENGINE_TYPE_IQ3_S] = {"IQ3_S", 256, 110},   [ENGINE_TYPE_IQ2_S] = {"IQ2_S", 256, 82},
    [ENGINE_TYPE_IQ4_XS] = {"IQ4_XS", 256, 136}, [ENGINE_TYPE_I8] = {"I8", 1, 1},
    [ENGINE_TYPE_I16] = {"I16", 1, 2},           [ENGINE_TYPE_I32] = {"I32", 1, 4},
    [ENGINE_TYPE_I64] = {"I64", 1, 8},           [ENGINE_TYPE_F64] = {"F64", 1, 8},
    [ENGINE_TYPE_IQ1_M] = {"IQ1_M", 256, 56},    [ENGINE_TYPE_BF16] = {"BF16", 1, 2},
    [ENGINE_TYPE_TQ1_0] = {"TQ1_0", 256, 54},    [ENGINE_TYPE_TQ2_0] = {"TQ2_0", 256, 66},
    [ENGINE_TYPE_MXFP4] = {"MXFP4", 32, 17},
};
#define N_TYPES (sizeof types / sizeof types[0])

/* Types that GGUF withdrew, keeps for activations, or added later. */
static const struct {
    uint32_t type;
    const char *name;
} foreign_types[] = {
    {4, "Q4_2"},        {5, "Q4_3"},      {9, "Q8_1"},        {31, "Q4_0_4_4"},
    {32, "Q4_0_4_8"},   {33, "Q4_0_8_8"}, {36, "IQ4_NL_4_4"}, {37, "IQ4_NL_4_8"},
    {38, "IQ4_NL_8_8"}, {40, "NVFP4"},    {41, "Q1_0"},       {42, "Q2_0"},
};

const struct type_info *type_info(uint32_t type)
{
    return type < N_TYPES && types[type].name ? &types[type] : NULL;
}

bool type_by_name(const char *name, uint32_t *type)
{
    for (uint32_t i = 0; i < N_TYPES; i++) {
        if (types[i].name && strcasecmp(types[i].name, name) == 0) {
            *type = i;
            return true;
        }
    }
    return false;
}

const char *type_foreign_name(uint32_t type)
{
    for (size_t i = 0; i < sizeof foreign_types / sizeof foreign_types[0]; i++)
        if (foreign_types[i].type == type) return foreign_types[i].name;
    return "unknown";
}

bool type_row_size(uint32_t type, uint64_t n, uint64_t *size)
{
    const struct type_info *info = type_info(type);
    if (!info || n % info->block_length != 0) return false;
    return !checked_mul(n / info->block_length, info->block_size, size);
}

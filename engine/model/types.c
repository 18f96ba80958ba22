/* types.c: see types.h. The sizes are those of GGUF files. */
#include "model/types.h"

#include <stddef.h>
#include <strings.h>

#include "base/checked.h"
#include "plugin-types.h"

/* Indexed by enum engine_type; numbers unknown to the engine have no name. */
#define PLAIN(NAME, name, length, size)                      [ENGINE_TYPE_##NAME] = {#NAME, length, size},
#define BLOCK(NAME, name, length, size, sub, offset, levels) PLAIN(NAME, name, length, size)
/* clang-format off */
static const struct type_info types[] = {
    ENGINE_PLAIN_TYPES(PLAIN)
    ENGINE_BLOCK_TYPES(BLOCK)
    PLAIN(I8, i8, 1, 1)
    PLAIN(I16, i16, 1, 2)
    PLAIN(I32, i32, 1, 4)
    PLAIN(I64, i64, 1, 8)
    PLAIN(F64, f64, 1, 8)
};
/* clang-format on */
#define N_TYPES (sizeof types / sizeof types[0])

/* Types that GGUF has withdrawn, reserves for activations, or added later. */
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

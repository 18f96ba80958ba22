/* types.c: the table of weight types. A new type: its functions in a file type-*.c, a line here, an index in
 * types.h, and `unpack` in kernels/scalar-unpack.c (and, for speed, kernels/unpack.h). */
#include "types.h"

#include "plugin-api.h"
#include "type-functions.h"

static const struct weight_type types[N_WEIGHT_TYPES] = {
    /* clang-format off */
    {ENGINE_TYPE_F32,  "F32",  WEIGHT_F32,  1,  4,  TILE_F32,  0,   0,   f32_panel_size,  f32_pack,  f32_to_float},
    {ENGINE_TYPE_F16,  "F16",  WEIGHT_F16,  1,  2,  TILE_F32,  0,   0,   f16_panel_size,  f16_pack,  f16_to_float},
    {ENGINE_TYPE_BF16, "BF16", WEIGHT_BF16, 1,  2,  TILE_F32,  0,   0,   bf16_panel_size, bf16_pack, bf16_to_float},
    {ENGINE_TYPE_Q8_0, "Q8_0", WEIGHT_Q8_0, 32, 34, TILE_INT8, 128, 255, q8_0_panel_size, q8_0_pack, q8_0_to_float},
    {ENGINE_TYPE_Q4_0, "Q4_0", WEIGHT_Q4_0, 32, 18, TILE_INT8, 8,   15,  q4_0_panel_size, q4_0_pack, q4_0_to_float},
    /* clang-format on */
};

const struct weight_type *weight_type(uint32_t type)
{
    for (size_t i = 0; i < N_WEIGHT_TYPES; i++)
        if (types[i].type == type) return &types[i];
    return NULL;
}

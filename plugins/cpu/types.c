/* types.c: the table of weight types. A new integer type: a function that reads its blocks in plugin-types.h,
 * its format and its name in formats.h, a line here; kernels come by themselves. */
#include "types.h"

#include "plugin-types.h"
#include "type-functions.h"

#define FLOAT(NAME, name, size)                                                                              \
    {                                                                                                        \
        ENGINE_TYPE_##NAME, #NAME, WEIGHT_##NAME, 1, size, TILE_F32, CHUNK, NULL, NULL, name##_chunk_size,   \
            name##_pack                                                                                      \
    }
#define INT8(NAME, name, format, length, size)                                                               \
    {                                                                                                        \
        ENGINE_TYPE_##NAME, #NAME, WEIGHT_##NAME, length, size, TILE_INT8, 0, &format, engine_read_##name,   \
            int8_chunk_size, int8_pack                                                                       \
    }
#define EXACT(NAME, name, size)                                                                              \
    {                                                                                                        \
        ENGINE_TYPE_##NAME, #NAME, WEIGHT_##NAME##_EXACT, 32, size, TILE_F32, EXACT_RUN, &format_##name,     \
            engine_read_##name, int8_chunk_size, int8_pack                                                   \
    }

static const struct weight_type types[] = {
    FLOAT(F32, f32, 4),
    FLOAT(F16, f16, 2),
    FLOAT(BF16, bf16, 2),
    INT8(Q8_0, q8_0, format_q8_0, 32, 34),
    INT8(Q4_0, q4_0, format_q4_0, 32, 18),
    INT8(Q4_1, q4_1, format_q4_1, 32, 20),
    INT8(Q5_0, q5_0, format_q5_0, 32, 22),
    INT8(Q5_1, q5_1, format_q5_1, 32, 24),
    INT8(Q2_K, q2_k, format_q2_k, 256, 84),
    INT8(Q3_K, q3_k, format_q3_k, 256, 110),
    INT8(Q4_K, q4_k, format_q4_k, 256, 144),
    INT8(Q5_K, q5_k, format_q5_k, 256, 176),
    INT8(Q6_K, q6_k, format_q6_k, 256, 210),
    INT8(IQ4_NL, iq4_nl, format_iq4_nl, 32, 18),
    INT8(IQ4_XS, iq4_xs, format_iq4_xs, 256, 136),
    INT8(MXFP4, mxfp4, format_mxfp4, 32, 17),
    INT8(IQ2_XXS, iq2_xxs, format_raw32, 256, 66),
    INT8(IQ2_XS, iq2_xs, format_raw16, 256, 74),
    INT8(IQ2_S, iq2_s, format_raw16, 256, 82),
    INT8(IQ3_XXS, iq3_xxs, format_raw32, 256, 98),
    INT8(IQ3_S, iq3_s, format_raw32, 256, 110),
    INT8(IQ1_S, iq1_s, format_raw32, 256, 50),
    INT8(IQ1_M, iq1_m, format_raw16, 256, 56),
    INT8(TQ1_0, tq1_0, format_raw32, 256, 54),
    INT8(TQ2_0, tq2_0, format_raw32, 256, 66),
    INT8(Q8_K, q8_k, format_raw32, 256, 292),
};

static const struct weight_type exact_types[] = {
    EXACT(Q4_0, q4_0, 18),
    EXACT(MXFP4, mxfp4, 17),
};

const struct weight_type *weight_type(uint32_t type)
{
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        if (types[i].type == type) return &types[i];
    return NULL;
}

const struct weight_type *weight_type_exact(const struct weight_type *type)
{
    if (type->kind == TILE_F32) return type;
    for (size_t i = 0; i < sizeof exact_types / sizeof *exact_types; i++)
        if (exact_types[i].type == type->type) return &exact_types[i];
    return weight_type(ENGINE_TYPE_F32);
}

void weight_to_float(const struct weight_type *type, const uint8_t *row, size_t n, float *values)
{
    engine_weight_to_float(engine_layout_of(type->type), row, n, values);
}

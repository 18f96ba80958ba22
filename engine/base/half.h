/* half.h: float32 to bfloat16 and to float16 in memory; plugin-types.h has the other conversions. Rounds to
 * nearest, ties to even. */
#ifndef ENGINE_BASE_HALF_H
#define ENGINE_BASE_HALF_H

#include "plugin-types.h"

/* Not for NaN. */
static inline uint16_t bfloat_from_float(float value)
{
    uint32_t bits = engine_bits_of_float(value);
    return (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

/* The float16 is stored at `to`; what it stands for is returned. */
static inline float store_half(uint8_t *to, float value)
{
    uint16_t half = engine_f32_to_f16(value);
    memcpy(to, &half, sizeof half);
    return engine_f16_to_f32(half);
}

#endif

/* half.h: float32 to bfloat16 and to float16 in memory, which rounds to nearest, ties to even; and numbers of
 * any float type in memory. plugin-types.h has the other conversions. */
#ifndef ENGINE_BASE_HALF_H
#define ENGINE_BASE_HALF_H

#include <stdbool.h>

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

static inline bool is_float_type(uint32_t type)
{
    return type == ENGINE_TYPE_F32 || type == ENGINE_TYPE_F16 || type == ENGINE_TYPE_BF16;
}

/* Number i of data of such a type, aligned to nothing. */
static inline float float_at(uint32_t type, const void *data, uint64_t i)
{
    uint16_t half;
    float number;
    if (type == ENGINE_TYPE_F32) {
        memcpy(&number, (const uint8_t *)data + 4 * i, sizeof number);
        return number;
    }
    memcpy(&half, (const uint8_t *)data + 2 * i, sizeof half);
    return type == ENGINE_TYPE_F16 ? engine_f16_to_f32(half) : engine_bf16_to_f32(half);
}

#endif

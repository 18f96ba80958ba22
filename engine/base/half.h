/* half.h: float16 and bfloat16 to float32 and back. Rounds to nearest, ties to even. */
#ifndef ENGINE_BASE_HALF_H
#define ENGINE_BASE_HALF_H

#include <stdint.h>
#include <string.h>

static inline float float_of_bits(uint32_t bits)
{
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

static inline uint32_t bits_of_float(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

static inline float half_to_float(uint16_t half)
{
    uint32_t sign = (uint32_t)(half & 0x8000) << 16, magnitude = half & 0x7fff;
    if (magnitude >= 0x7c00) return float_of_bits(sign | 0x7f800000 | (magnitude & 0x3ff) << 13);
    /* The exponent goes from a bias of 15 to one of 127 by a product, which takes subnormal numbers along. */
    return float_of_bits(sign | bits_of_float(float_of_bits(magnitude << 13) * 0x1p112f));
}

static inline uint16_t half_from_float(float value)
{
    uint32_t bits = bits_of_float(value), sign = bits >> 16 & 0x8000, magnitude = bits & 0x7fffffff;
    if (magnitude > 0x7f800000) return (uint16_t)(sign | 0x7e00);  /* NaN */
    if (magnitude >= 0x477ff000) return (uint16_t)(sign | 0x7c00); /* rounds to 65536 or more: infinity */
    if (magnitude < 0x38800000) {
        /* Below 2^-14: subnormal. The sum with 0.5 rounds to a multiple of 2^-24. */
        uint32_t rounded = bits_of_float(float_of_bits(magnitude) + 0.5f);
        return (uint16_t)(sign | (rounded - 0x3f000000));
    }
    magnitude += 0xfff + (magnitude >> 13 & 1);
    return (uint16_t)(sign | (magnitude - ((127 - 15) << 23)) >> 13);
}

static inline float bfloat_to_float(uint16_t bfloat)
{
    return float_of_bits((uint32_t)bfloat << 16);
}

/* Not for NaN. */
static inline uint16_t bfloat_from_float(float value)
{
    uint32_t bits = bits_of_float(value);
    return (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

/* The float16 is stored at `to`; what it stands for is returned. */
static inline float store_half(uint8_t *to, float value)
{
    uint16_t half = half_from_float(value);
    memcpy(to, &half, sizeof half);
    return half_to_float(half);
}

#endif

/* half.h: float16 and bfloat16 to float32 and back, in portable C. Rounds to nearest, ties to even. */
#ifndef CPU_HALF_H
#define CPU_HALF_H

#include <stdint.h>
#include <string.h>

static inline float bits_to_float(uint32_t bits)
{
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

static inline uint32_t float_to_bits(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

static inline float f16_to_f32(uint16_t half)
{
    uint32_t sign = (uint32_t)(half & 0x8000) << 16, magnitude = half & 0x7fff;
    if (magnitude >= 0x7c00) /* infinity, NaN */
        return bits_to_float(sign | 0x7f800000 | (magnitude & 0x3ff) << 13);
    if (magnitude < 0x0400) { /* subnormal: a multiple of 2^-24 */
        float value = (float)magnitude * 0x1p-24f;
        return sign ? -value : value;
    }
    return bits_to_float(sign | ((magnitude << 13) + ((127 - 15) << 23)));
}

static inline uint16_t f32_to_f16(float value)
{
    uint32_t bits = float_to_bits(value), sign = bits >> 16 & 0x8000, magnitude = bits & 0x7fffffff;
    if (magnitude > 0x7f800000) return (uint16_t)(sign | 0x7e00);  /* NaN */
    if (magnitude >= 0x477ff000) return (uint16_t)(sign | 0x7c00); /* rounds to 65536 or more: infinity */
    if (magnitude <
        0x38800000) { /* below 2^-14: subnormal; adding 0.5 leaves the rounded multiple of 2^-24 */
        uint32_t rounded = float_to_bits(bits_to_float(magnitude) + 0.5f);
        return (uint16_t)(sign | (rounded - 0x3f000000));
    }
    magnitude += 0xfff + (magnitude >> 13 & 1); /* half of the last place kept, less one unless that is odd */
    return (uint16_t)(sign | (magnitude - ((127 - 15) << 23)) >> 13);
}

static inline float bf16_to_f32(uint16_t half)
{
    return bits_to_float((uint32_t)half << 16);
}

/* 2^(code - 128), subnormal for 0 and 1; and its code. */
static inline float power_to_f32(uint8_t code)
{
    return bits_to_float(code < 2 ? 0x00200000u << code : (uint32_t)(code - 1) << 23);
}

static inline uint8_t power_code(float power)
{
    uint32_t bits = float_to_bits(power);
    return bits < 0x00800000 ? bits == 0x00400000 : (uint8_t)((bits >> 23) + 1);
}

static inline uint16_t load_u16(const void *from)
{
    uint16_t value;
    memcpy(&value, from, sizeof value);
    return value;
}

static inline void store_u16(void *to, uint16_t value)
{
    memcpy(to, &value, sizeof value);
}

#endif

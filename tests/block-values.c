/* block-values.c: see block-values.h. */
#include "block-values.h"

#include <string.h>

#include "base/half.h"
#include "plugin-api.h"

static float half_at(const uint8_t *at)
{
    uint16_t half;
    memcpy(&half, at, 2);
    return half_to_float(half);
}

/* Value i of 32 nibbles in 16 bytes. */
static int nibble(const uint8_t *bytes, size_t i)
{
    return bytes[i % 16] >> (i / 16 * 4) & 15;
}

/* Bit i. */
static int bit(const uint8_t *bytes, size_t i)
{
    return bytes[i / 8] >> i % 8 & 1;
}

static float short_block_value(uint32_t type, const uint8_t *b, size_t i)
{
    static const int8_t levels[16] = {-127, -104, -83, -65, -49, -35, -22, -10,
                                      1,    13,   25,  38,  53,  69,  89,  113};
    float d = half_at(b);
    switch (type) {
    case ENGINE_TYPE_Q8_0: return d * (float)(int8_t)b[2 + i];
    case ENGINE_TYPE_Q4_0: return d * (float)(nibble(b + 2, i) - 8);
    case ENGINE_TYPE_Q4_1: return d * (float)nibble(b + 4, i) + half_at(b + 2);
    case ENGINE_TYPE_Q5_0: return d * (float)((nibble(b + 6, i) | bit(b + 2, i) << 4) - 16);
    case ENGINE_TYPE_Q5_1: return d * (float)(nibble(b + 8, i) | bit(b + 4, i) << 4) + half_at(b + 2);
    default: return d * (float)levels[nibble(b + 2, i)];
    }
}

/* Scale and min j of Q4_K and Q5_K. */
static void scale_and_min(const uint8_t *packed, size_t j, int *scale, int *min)
{
    *scale = j < 4 ? packed[j] & 63 : (packed[j + 4] & 15) | packed[j - 4] >> 6 << 4;
    *min = j < 4 ? packed[j + 4] & 63 : packed[j + 4] >> 4 | packed[j] >> 6 << 4;
}

static float long_block_value(uint32_t type, const uint8_t *b, size_t i)
{
    static const int8_t levels[16] = {-127, -104, -83, -65, -49, -35, -22, -10,
                                      1,    13,   25,  38,  53,  69,  89,  113};
    size_t half = i / 128, column = i % 32, quarter = i % 128 / 32; /* of the half */
    int q, scale, min;
    switch (type) {
    case ENGINE_TYPE_Q2_K:
        q = b[16 + 32 * half + column] >> 2 * quarter & 3;
        return half_at(b + 80) * (float)(b[i / 16] & 15) * (float)q -
               half_at(b + 82) * (float)(b[i / 16] >> 4);
    case ENGINE_TYPE_Q3_K:
        q = (b[32 + 32 * half + column] >> 2 * quarter & 3) - (b[column] >> i / 32 & 1 ? 0 : 4);
        scale = (b[96 + i / 16 % 8] >> i / 128 * 4 & 15) | (b[104 + i / 16 % 4] >> i / 64 * 2 & 3) << 4;
        return half_at(b + 108) * (float)(scale - 32) * (float)q;
    case ENGINE_TYPE_Q4_K:
        scale_and_min(b + 4, i / 32, &scale, &min);
        q = b[16 + i / 64 * 32 + column] >> i / 32 % 2 * 4 & 15;
        return half_at(b) * (float)scale * (float)q - half_at(b + 2) * (float)min;
    case ENGINE_TYPE_Q5_K:
        scale_and_min(b + 4, i / 32, &scale, &min);
        q = (b[48 + i / 64 * 32 + column] >> i / 32 % 2 * 4 & 15) | (b[16 + column] >> i / 32 & 1) << 4;
        return half_at(b) * (float)scale * (float)q - half_at(b + 2) * (float)min;
    case ENGINE_TYPE_Q6_K:
        q = (b[64 * half + i % 64] >> quarter / 2 * 4 & 15) | (b[128 + 32 * half + column] >> 2 * quarter & 3)
                                                                  << 4;
        return half_at(b + 208) * (float)(int8_t)b[192 + i / 16] * (float)(q - 32);
    default:
        scale = (b[4 + i / 64] >> i / 32 % 2 * 4 & 15) | (b[2 + i / 128] >> i / 32 % 4 * 2 & 3) << 4;
        return half_at(b) * (float)(scale - 32) * (float)levels[nibble(b + 8 + i / 32 * 16, column)];
    }
}

size_t block_values(uint32_t type, const uint8_t *block, float *values)
{
    switch (type) {
    case ENGINE_TYPE_Q8_0:
    case ENGINE_TYPE_Q4_0:
    case ENGINE_TYPE_Q4_1:
    case ENGINE_TYPE_Q5_0:
    case ENGINE_TYPE_Q5_1:
    case ENGINE_TYPE_IQ4_NL:
        for (size_t i = 0; i < 32; i++) values[i] = short_block_value(type, block, i);
        return 32;
    case ENGINE_TYPE_Q2_K:
    case ENGINE_TYPE_Q3_K:
    case ENGINE_TYPE_Q4_K:
    case ENGINE_TYPE_Q5_K:
    case ENGINE_TYPE_Q6_K:
    case ENGINE_TYPE_IQ4_XS:
        for (size_t i = 0; i < 256; i++) values[i] = long_block_value(type, block, i);
        return 256;
    default: return 0;
    }
}

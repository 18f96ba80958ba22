/* plugin-types.h: reads weights of every type that GGUF files have. For backends.
 *
 * weight_create receives a tensor as it is in the file: rows of blocks, one after the other. docs/types.md
 * describes the blocks byte by byte. This header does the same in C; the engine's own CPU backend and the
 * conformance suite use it. Everything is `static inline`: include the header where you need it, there is
 * nothing to link. A backend that keeps weights as float32 needs two calls:
 *
 *     const struct engine_layout *layout = engine_layout_of(desc->type);
 *     if (!layout || desc->ne[0] % layout->length != 0) return ENGINE_ERROR_UNSUPPORTED;
 *     …
 *     engine_weight_to_float(layout, desc->data, n, values);
 *
 * A backend that repacks blocks calls layout->read for each of them and takes codes and scales from struct
 * engine_block.
 *
 * Numbers in files are little-endian and need not be aligned; the code reads them byte by byte. It works in
 * C11 and C++.
 *
 * SPDX-License-Identifier: MIT. This header may be copied into any project. */
#ifndef ENGINE_PLUGIN_TYPES_H
#define ENGINE_PLUGIN_TYPES_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "plugin-api.h"
#include "plugin-type-grids.h"

/* --------------------------------------------------------------------------------------------------------
 * float16 and bfloat16
 */

static inline float engine_float_of_bits(uint32_t bits)
{
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

static inline uint32_t engine_bits_of_float(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

static inline float engine_f16_to_f32(uint16_t half)
{
    uint32_t sign = (uint32_t)(half & 0x8000) << 16, magnitude = half & 0x7fff;
    if (magnitude >= 0x7c00) /* infinity, NaN */
        return engine_float_of_bits(sign | 0x7f800000 | (magnitude & 0x3ff) << 13);
    if (magnitude < 0x0400) { /* subnormal: a multiple of 2^-24 */
        float value = (float)magnitude * (1.0f / 16777216);
        return sign ? -value : value;
    }
    return engine_float_of_bits(sign | ((magnitude << 13) + ((127 - 15) << 23)));
}

/* The nearest float16, ties to even. */
static inline uint16_t engine_f32_to_f16(float value)
{
    uint32_t bits = engine_bits_of_float(value), sign = bits >> 16 & 0x8000, magnitude = bits & 0x7fffffff;
    if (magnitude > 0x7f800000) return (uint16_t)(sign | 0x7e00);  /* NaN */
    if (magnitude >= 0x477ff000) return (uint16_t)(sign | 0x7c00); /* rounds to 65536 or more: infinity */
    if (magnitude < 0x38800000) {
        /* Below 2^-14: subnormal. The sum with 0.5 rounds to a multiple of 2^-24. */
        uint32_t rounded = engine_bits_of_float(engine_float_of_bits(magnitude) + 0.5f);
        return (uint16_t)(sign | (rounded - 0x3f000000));
    }
    magnitude += 0xfff + (magnitude >> 13 & 1); /* half of the last place kept, less one unless that is odd */
    return (uint16_t)(sign | (magnitude - ((127 - 15) << 23)) >> 13);
}

static inline float engine_bf16_to_f32(uint16_t half)
{
    return engine_float_of_bits((uint32_t)half << 16);
}

/* MXFP4's scale: 2^(code - 128), half of what the file's code stands for, because the levels are doubled. */
static inline float engine_power_to_f32(uint8_t code)
{
    return engine_float_of_bits(code < 2 ? 0x00200000u << code : (uint32_t)(code - 1) << 23);
}

static inline uint16_t engine_load_u16(const uint8_t *from)
{
    return (uint16_t)(from[0] | from[1] << 8);
}

static inline uint32_t engine_load_u32(const uint8_t *from)
{
    return from[0] | (uint32_t)from[1] << 8 | (uint32_t)from[2] << 16 | (uint32_t)from[3] << 24;
}

static inline float engine_load_f16(const uint8_t *from)
{
    return engine_f16_to_f32(engine_load_u16(from));
}

/* --------------------------------------------------------------------------------------------------------
 * An unpacked block
 */

/* Value i of a block is
 *
 *     k * (d * scales[i / sub]) - dmin * mins[i / sub],   k = levels[q[i]], or q[i] - offset without levels,
 *
 * in float32, in this order: only the subtraction rounds. `sub`, `offset` and `levels` are the type's (struct
 * engine_layout). A block of 32 values fills q[0 … 31], scales[0] and mins[0]; one of 256 fills all of q, and
 * 256 / sub scales and mins. */
struct engine_block {
    uint8_t q[256]; /* codes */
    float d, dmin;
    int8_t scales[16];
    uint8_t mins[16];
};

/* The levels of the types that look up four-bit codes in a table. */
#define ENGINE_LEVELS_IQ4                                                                                    \
    {                                                                                                        \
        -127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113                             \
    }
#define ENGINE_LEVELS_MXFP4                                                                                  \
    {                                                                                                        \
        0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12                                              \
    } /* doubled */

static inline void engine_set_one_scale(struct engine_block *block, float d, float dmin)
{
    block->d = d;
    block->dmin = dmin;
    memset(block->scales, 1, sizeof block->scales);
    memset(block->mins, 1, sizeof block->mins);
}

static inline void engine_set_scale(struct engine_block *block, float d)
{
    block->d = d;
    block->dmin = 0;
    memset(block->mins, 0, sizeof block->mins);
}

/* Codes of two bits, 64 bytes: the lowest bits of 32 bytes are 32 values, the next ones the 32 after them. */
static inline void engine_read_pairs(const uint8_t *from, uint8_t *q)
{
    for (size_t half = 0; half < 2; half++, from += 32)
        for (unsigned shift = 0; shift < 8; shift += 2, q += 32)
            for (size_t i = 0; i < 32; i++) q[i] = from[i] >> shift & 3;
}

/* 256 codes of four bits, 128 bytes: of each `run` bytes first the low halves, then the high ones. */
static inline void engine_read_nibbles(const uint8_t *from, size_t run, uint8_t *q)
{
    for (size_t first = 0; first < 128; first += run, from += run, q += 2 * run)
        for (size_t i = 0; i < run; i++) {
            q[i] = from[i] & 15;
            q[run + i] = from[i] >> 4;
        }
}

/* --------------------------------------------------------------------------------------------------------
 * Blocks of 32 values
 */

/* 32 four-bit codes: first the low halves of 16 bytes, then the high ones. */
static inline void engine_read_codes(const uint8_t *from, uint8_t *q)
{
    for (int i = 0; i < 16; i++) {
        q[i] = from[i] & 15;
        q[16 + i] = from[i] >> 4;
    }
}

static inline void engine_read_fifth_bits(const uint8_t *from, uint8_t *q)
{
    for (int i = 0; i < 32; i++) q[i] |= (uint8_t)((from[i / 8] >> i % 8 & 1) << 4);
}

static inline void engine_read_q8_0(const uint8_t *from, struct engine_block *block)
{
    engine_set_one_scale(block, engine_load_f16(from), 0);
    for (int i = 0; i < 32; i++) block->q[i] = from[2 + i] ^ 0x80;
}

static inline void engine_read_q4_0(const uint8_t *from, struct engine_block *block)
{
    engine_set_one_scale(block, engine_load_f16(from), 0);
    engine_read_codes(from + 2, block->q);
}

static inline void engine_read_q4_1(const uint8_t *from, struct engine_block *block)
{
    engine_set_one_scale(block, engine_load_f16(from), -engine_load_f16(from + 2));
    engine_read_codes(from + 4, block->q);
}

static inline void engine_read_q5_0(const uint8_t *from, struct engine_block *block)
{
    engine_set_one_scale(block, engine_load_f16(from), 0);
    engine_read_codes(from + 6, block->q);
    engine_read_fifth_bits(from + 2, block->q);
}

static inline void engine_read_q5_1(const uint8_t *from, struct engine_block *block)
{
    engine_set_one_scale(block, engine_load_f16(from), -engine_load_f16(from + 2));
    engine_read_codes(from + 8, block->q);
    engine_read_fifth_bits(from + 4, block->q);
}

static inline void engine_read_iq4_nl(const uint8_t *from, struct engine_block *block)
{
    engine_read_q4_0(from, block);
}

static inline void engine_read_mxfp4(const uint8_t *from, struct engine_block *block)
{
    engine_set_one_scale(block, engine_power_to_f32(from[0]), 0);
    engine_read_codes(from + 1, block->q);
}

/* --------------------------------------------------------------------------------------------------------
 * Blocks of 256 values: the K types and IQ4_XS, whose scales are quantised in turn
 */

static inline void engine_read_q2_k(const uint8_t *from, struct engine_block *block)
{
    block->d = engine_load_f16(from + 80);
    block->dmin = engine_load_f16(from + 82);
    for (size_t i = 0; i < 16; i++) {
        block->scales[i] = (int8_t)(from[i] & 15);
        block->mins[i] = from[i] >> 4;
    }
    engine_read_pairs(from + 16, block->q);
}

static inline void engine_read_q3_k(const uint8_t *from, struct engine_block *block)
{
    const uint8_t *scales = from + 96;
    engine_set_scale(block, engine_load_f16(from + 108));
    for (size_t i = 0; i < 16; i++) {
        int low = scales[i % 8] >> (i < 8 ? 0 : 4) & 15, high = scales[8 + i % 4] >> 2 * (i / 4) & 3;
        block->scales[i] = (int8_t)((low | high << 4) - 32);
    }
    engine_read_pairs(from + 32, block->q);
    for (size_t i = 0; i < 256; i++) block->q[i] |= (uint8_t)((from[i % 32] >> i / 32 & 1) << 2);
}

/* Eight six-bit scales and eight six-bit mins in twelve bytes. */
static inline void engine_read_scales_and_mins(const uint8_t *from, struct engine_block *block)
{
    for (size_t i = 0; i < 4; i++) {
        block->scales[i] = (int8_t)(from[i] & 63);
        block->mins[i] = from[4 + i] & 63;
        block->scales[4 + i] = (int8_t)((from[8 + i] & 15) | from[i] >> 6 << 4);
        block->mins[4 + i] = (uint8_t)(from[8 + i] >> 4 | from[4 + i] >> 6 << 4);
    }
}

static inline void engine_read_q4_k(const uint8_t *from, struct engine_block *block)
{
    block->d = engine_load_f16(from);
    block->dmin = engine_load_f16(from + 2);
    engine_read_scales_and_mins(from + 4, block);
    engine_read_nibbles(from + 16, 32, block->q);
}

static inline void engine_read_q5_k(const uint8_t *from, struct engine_block *block)
{
    block->d = engine_load_f16(from);
    block->dmin = engine_load_f16(from + 2);
    engine_read_scales_and_mins(from + 4, block);
    engine_read_nibbles(from + 48, 32, block->q);
    for (size_t i = 0; i < 256; i++) block->q[i] |= (uint8_t)((from[16 + i % 32] >> i / 32 & 1) << 4);
}

static inline void engine_read_q6_k(const uint8_t *from, struct engine_block *block)
{
    uint8_t high[256];
    engine_set_scale(block, engine_load_f16(from + 208));
    memcpy(block->scales, from + 192, 16);
    engine_read_nibbles(from, 64, block->q);
    engine_read_pairs(from + 128, high);
    for (size_t i = 0; i < 256; i++) block->q[i] |= (uint8_t)(high[i] << 4);
}

static inline void engine_read_iq4_xs(const uint8_t *from, struct engine_block *block)
{
    uint16_t high = engine_load_u16(from + 2);
    engine_set_scale(block, engine_load_f16(from));
    for (size_t i = 0; i < 8; i++) {
        int low = from[4 + i / 2] >> 4 * (i % 2) & 15;
        block->scales[i] = (int8_t)((low | (high >> 2 * i & 3) << 4) - 32);
    }
    engine_read_nibbles(from + 8, 16, block->q);
}

/* --------------------------------------------------------------------------------------------------------
 * Blocks of 256 values: ternary types and Q8_K
 */

/* The base-3 digits of n bytes: the first digits of all bytes, then the second ones, and so on. A byte holds
 * a fraction: multiplied by 3, what overflows 255 is the next digit. Returns where the next values go. */
static inline uint8_t *engine_read_digits(const uint8_t *from, size_t n, size_t digits, uint8_t *q)
{
    for (uint8_t power = 1; digits-- > 0; power = (uint8_t)(power * 3), q += n)
        for (size_t i = 0; i < n; i++) q[i] = (uint8_t)(((uint8_t)(from[i] * power) * 3 >> 8) + 127);
    return q;
}

static inline void engine_read_tq1_0(const uint8_t *from, struct engine_block *block)
{
    engine_set_one_scale(block, engine_load_f16(from + 52), 0);
    uint8_t *q = engine_read_digits(from, 32, 5, block->q);
    q = engine_read_digits(from + 32, 16, 5, q);
    engine_read_digits(from + 48, 4, 4, q);
}

static inline void engine_read_tq2_0(const uint8_t *from, struct engine_block *block)
{
    engine_set_one_scale(block, engine_load_f16(from + 64), 0);
    engine_read_pairs(from, block->q);
    for (size_t i = 0; i < 256; i++) block->q[i] = (uint8_t)(block->q[i] + 127);
}

static inline void engine_read_q8_k(const uint8_t *from, struct engine_block *block)
{
    engine_set_one_scale(block, engine_float_of_bits(engine_load_u32(from)), 0);
    for (size_t i = 0; i < 256; i++) block->q[i] = from[4 + i] ^ 0x80;
}

/* --------------------------------------------------------------------------------------------------------
 * Blocks of 256 values: the IQ types whose values come from grids
 *
 * An index into a grid stands for eight values (IQ3: four); their signs are stored separately. Where seven
 * sign bits are stored for eight values, the eighth makes the number of minus signs even. The code handles
 * eight values at once, one per byte of a 64-bit word, the first value in the lowest byte. No sum or product
 * below carries into the next byte.
 */

#define ENGINE_EACH(byte) (0x0101010101010101u * (uint64_t)(byte))

/* Expands eight two-bit codes to bytes. */
static inline uint64_t engine_spread_eight(uint16_t codes)
{
    uint64_t word = codes;
    word = (word | word << 24) & 0x000000ff000000ff;
    word = (word | word << 12) & 0x000f000f000f000f;
    return (word | word << 6) & ENGINE_EACH(3);
}

/* Expands two times four three-bit codes to bytes. */
static inline uint64_t engine_spread_fours(uint16_t first, uint16_t second)
{
    uint64_t word = first | (uint64_t)second << 32;
    word = (word | word << 10) & 0x003f003f003f003f; /* each half: abcd -> ab cd */
    return (word | word << 5) & ENGINE_EACH(7);
}

/* 128 + value, or 128 - value where the bit of `signs` is set. value < 128. */
static inline uint64_t engine_with_signs(uint64_t values, uint8_t signs)
{
    uint64_t bits = ENGINE_EACH(signs) & 0x8040201008040201; /* 0 or one bit in each byte */
    uint64_t minus = ((bits + ENGINE_EACH(0x7f)) >> 7 & ENGINE_EACH(1)) * 0x7f; /* 0 or 127 */
    return (values ^ minus) + (ENGINE_EACH(0x80) - minus);
}

static inline uint8_t engine_even_signs(uint32_t seven)
{
    seven &= 127;
#if defined(__GNUC__)
    uint32_t odd = (uint32_t)__builtin_parity(seven);
#else
    uint32_t odd = seven ^ seven >> 4;
    odd ^= odd >> 2;
    odd = (odd ^ odd >> 1) & 1;
#endif
    return (uint8_t)(seven | odd << 7);
}

static inline void engine_store_eight(struct engine_block *block, size_t index, uint64_t values)
{
#if defined(__BYTE_ORDER__) && __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
    memcpy(block->q + 8 * index, &values, 8); /* the same, and not every compiler sees it */
#else
    for (size_t i = 0; i < 8; i++) block->q[8 * index + i] = (uint8_t)(values >> 8 * i);
#endif
}

/* Four-bit scales, two to a byte, the low one first: 2 s + 1. */
static inline void engine_read_odd_scales(struct engine_block *block, const uint8_t *from, size_t n)
{
    for (size_t i = 0; i < n; i++) block->scales[i] = (int8_t)(2 * (from[i / 2] >> 4 * (i % 2) & 15) + 1);
}

/* IQ2: codes 0, 1, 2 are 8, 25, 43. */
static inline uint64_t engine_iq2_values(uint16_t codes)
{
    uint64_t code = engine_spread_eight(codes);
    return ENGINE_EACH(8) + code * 17 + (code >> 1 & ENGINE_EACH(1));
}

static inline void engine_read_iq2_xxs(const uint8_t *from, struct engine_block *block)
{
    engine_set_scale(block, engine_load_f16(from) / 8);
    for (size_t i = 0; i < 8; i++) {
        const uint8_t *indices = from + 2 + 8 * i;
        uint32_t signs = engine_load_u32(indices + 4);
        block->scales[i] = (int8_t)(2 * (signs >> 28) + 1);
        for (size_t j = 0; j < 4; j++)
            engine_store_eight(block, 4 * i + j,
                               engine_with_signs(engine_iq2_values(engine_iq2_xxs_grid[indices[j]]),
                                                 engine_even_signs(signs >> 7 * j)));
    }
}

static inline void engine_read_iq2_xs(const uint8_t *from, struct engine_block *block)
{
    engine_set_scale(block, engine_load_f16(from) / 8);
    engine_read_odd_scales(block, from + 66, 16);
    for (size_t i = 0; i < 32; i++) {
        uint16_t entry = engine_load_u16(from + 2 + 2 * i);
        engine_store_eight(block, i,
                           engine_with_signs(engine_iq2_values(engine_iq2_xs_grid[entry & 511]),
                                             engine_even_signs(entry >> 9)));
    }
}

static inline void engine_read_iq2_s(const uint8_t *from, struct engine_block *block)
{
    const uint8_t *low = from + 2, *signs = low + 32, *high = signs + 32;
    engine_set_scale(block, engine_load_f16(from) / 8);
    engine_read_odd_scales(block, high + 8, 16);
    for (size_t i = 0; i < 32; i++) {
        size_t index = low[i] | ((unsigned)high[i / 4] >> 2 * (i % 4) & 3u) << 8;
        engine_store_eight(block, i,
                           engine_with_signs(engine_iq2_values(engine_iq2_s_grid[index]), signs[i]));
    }
}

/* IQ3_XXS: codes 0 to 7 are 4, 12, 20, 28, 36, 44, 52, 62. */
static inline uint64_t engine_iq3_xxs_values(uint16_t first, uint16_t second)
{
    uint64_t code = engine_spread_fours(first, second), seven = (code + ENGINE_EACH(1)) >> 3 & ENGINE_EACH(1);
    return ENGINE_EACH(4) + code * 8 + seven * 2;
}

static inline void engine_read_iq3_xxs(const uint8_t *from, struct engine_block *block)
{
    const uint8_t *indices = from + 2;
    engine_set_scale(block, engine_load_f16(from) / 4);
    for (size_t i = 0; i < 8; i++) {
        uint32_t signs = engine_load_u32(from + 66 + 4 * i);
        block->scales[i] = (int8_t)(2 * (signs >> 28) + 1);
        for (size_t j = 0; j < 4; j++, indices += 2) {
            uint64_t values =
                engine_iq3_xxs_values(engine_iq3_xxs_grid[indices[0]], engine_iq3_xxs_grid[indices[1]]);
            engine_store_eight(block, 4 * i + j,
                               engine_with_signs(values, engine_even_signs(signs >> 7 * j)));
        }
    }
}

/* IQ3_S: codes 0 to 7 are 1, 3, 5, … 15. */
static inline void engine_read_iq3_s(const uint8_t *from, struct engine_block *block)
{
    const uint8_t *low = from + 2, *high = low + 64, *signs = high + 8;
    engine_set_scale(block, engine_load_f16(from));
    engine_read_odd_scales(block, signs + 32, 8);
    for (size_t i = 0; i < 32; i++) {
        uint32_t bits = (uint32_t)high[i / 4] >> 2 * (i % 4);
        size_t first = low[2 * i] | (bits & 1) << 8, second = low[2 * i + 1] | (bits & 2) << 7;
        uint64_t values =
            ENGINE_EACH(1) + engine_spread_fours(engine_iq3_s_grid[first], engine_iq3_s_grid[second]) * 2;
        engine_store_eight(block, i, engine_with_signs(values, signs[i]));
    }
}

/* IQ1: codes 0, 1, 2 are -1, 0, 1, all shifted by 1/8 up or down. Stores eight times that, plus 128. */
static inline uint64_t engine_iq1_values(size_t index, int down)
{
    return (down ? ENGINE_EACH(119) : ENGINE_EACH(121)) + engine_spread_eight(engine_iq1_grid[index]) * 8;
}

static inline void engine_read_iq1_s(const uint8_t *from, struct engine_block *block)
{
    const uint8_t *low = from + 2;
    engine_set_scale(block, engine_load_f16(from) / 8);
    for (size_t i = 0; i < 8; i++) {
        uint32_t bits = engine_load_u16(from + 34 + 2 * i);
        block->scales[i] = (int8_t)(2 * (bits >> 12 & 7) + 1);
        for (size_t j = 0; j < 4; j++)
            engine_store_eight(
                block, 4 * i + j,
                engine_iq1_values(low[4 * i + j] | (bits >> 3 * j & 7) << 8, (bits & 0x8000) != 0));
    }
}

static inline void engine_read_iq1_m(const uint8_t *from, struct engine_block *block)
{
    const uint8_t *high = from + 32, *scales = high + 16;
    uint32_t d = 0;
    for (size_t i = 0; i < 4; i++) {
        uint32_t bits = engine_load_u16(scales + 2 * i);
        d |= bits >> 12 << 4 * i;
        for (size_t j = 0; j < 4; j++) block->scales[4 * i + j] = (int8_t)(2 * (bits >> 3 * j & 7) + 1);
    }
    engine_set_scale(block, engine_f16_to_f32((uint16_t)d) / 8);
    for (size_t i = 0; i < 32; i++) {
        uint32_t bits = (uint32_t)high[i / 2] >> 4 * (i % 2);
        engine_store_eight(block, i, engine_iq1_values(from[i] | (bits & 7) << 8, (bits & 8) != 0));
    }
}

/* --------------------------------------------------------------------------------------------------------
 * All types of weights
 */

/* X(NAME, name, values of a block, bytes of a block, sub, offset, levels) for each type. Plain types have
 * blocks of one value, and no function to unpack a block. */
#define ENGINE_PLAIN_TYPES(X)                                                                                \
    X(F32, f32, 1, 4)                                                                                        \
    X(F16, f16, 1, 2)                                                                                        \
    X(BF16, bf16, 1, 2)
#define ENGINE_BLOCK_TYPES(X)                                                                                \
    X(Q8_0, q8_0, 32, 34, 32, 128, NULL)                                                                     \
    X(Q4_0, q4_0, 32, 18, 32, 8, NULL)                                                                       \
    X(Q4_1, q4_1, 32, 20, 32, 0, NULL)                                                                       \
    X(Q5_0, q5_0, 32, 22, 32, 16, NULL)                                                                      \
    X(Q5_1, q5_1, 32, 24, 32, 0, NULL)                                                                       \
    X(Q2_K, q2_k, 256, 84, 16, 0, NULL)                                                                      \
    X(Q3_K, q3_k, 256, 110, 16, 4, NULL)                                                                     \
    X(Q4_K, q4_k, 256, 144, 32, 0, NULL)                                                                     \
    X(Q5_K, q5_k, 256, 176, 32, 0, NULL)                                                                     \
    X(Q6_K, q6_k, 256, 210, 16, 32, NULL)                                                                    \
    X(Q8_K, q8_k, 256, 292, 32, 128, NULL)                                                                   \
    X(IQ4_NL, iq4_nl, 32, 18, 32, 0, iq4)                                                                    \
    X(IQ4_XS, iq4_xs, 256, 136, 32, 0, iq4)                                                                  \
    X(MXFP4, mxfp4, 32, 17, 32, 0, mxfp4)                                                                    \
    X(IQ2_XXS, iq2_xxs, 256, 66, 32, 128, NULL)                                                              \
    X(IQ2_XS, iq2_xs, 256, 74, 16, 128, NULL)                                                                \
    X(IQ2_S, iq2_s, 256, 82, 16, 128, NULL)                                                                  \
    X(IQ3_XXS, iq3_xxs, 256, 98, 32, 128, NULL)                                                              \
    X(IQ3_S, iq3_s, 256, 110, 32, 128, NULL)                                                                 \
    X(IQ1_S, iq1_s, 256, 50, 32, 128, NULL)                                                                  \
    X(IQ1_M, iq1_m, 256, 56, 16, 128, NULL)                                                                  \
    X(TQ1_0, tq1_0, 256, 54, 32, 128, NULL)                                                                  \
    X(TQ2_0, tq2_0, 256, 66, 32, 128, NULL)

struct engine_layout {
    uint32_t type;        /* enum engine_type */
    const char *name;     /* "Q4_K" */
    uint32_t length;      /* values of a block: 1, 32 or 256; divides a row's length */
    uint32_t size;        /* bytes of a block */
    uint32_t sub;         /* values that share a scale: 16 or 32; 0 for plain types */
    int32_t offset;       /* subtracted from each code if there are no levels */
    const int8_t *levels; /* [16] what the codes stand for, or NULL */
    /* Unpacks a block; NULL for plain types: F32, F16, BF16. */
    void (*read)(const uint8_t *from, struct engine_block *block);
};

/* The type at `index` in the list of all types; NULL after the last. */
static inline const struct engine_layout *engine_layout_at(size_t index)
{
    static const int8_t iq4[16] = ENGINE_LEVELS_IQ4, mxfp4[16] = ENGINE_LEVELS_MXFP4;
#define ENGINE_PLAIN(NAME, name, length, size) {ENGINE_TYPE_##NAME, #NAME, length, size, 0, 0, NULL, NULL},
#define ENGINE_BLOCK(NAME, name, length, size, sub, offset, levels)                                          \
    {ENGINE_TYPE_##NAME, #NAME, length, size, sub, offset, levels, engine_read_##name},
    static const struct engine_layout layouts[] = {ENGINE_PLAIN_TYPES(ENGINE_PLAIN)
                                                       ENGINE_BLOCK_TYPES(ENGINE_BLOCK)};
#undef ENGINE_PLAIN
#undef ENGINE_BLOCK
    return index < sizeof layouts / sizeof *layouts ? &layouts[index] : NULL;
}

/* The layout of a type; NULL if weights don't use it or this header doesn't know it. */
static inline const struct engine_layout *engine_layout_of(uint32_t type)
{
    size_t i = 0;
    while (engine_layout_at(i) && engine_layout_at(i)->type != type) i++;
    return engine_layout_at(i);
}

/* The bytes of n values; n is a multiple of layout->length. */
static inline uint64_t engine_weight_bytes(const struct engine_layout *layout, uint64_t n)
{
    return n / layout->length * layout->size;
}

/* Converts n values, a multiple of layout->length, to float32: bit for bit what ENGINE_OP_GET_ROWS must
 * give. */
static inline void engine_weight_to_float(const struct engine_layout *layout, const void *from, size_t n,
                                          float *values)
{
    const uint8_t *at = (const uint8_t *)from;
    if (layout->type == ENGINE_TYPE_F32) {
        for (size_t i = 0; i < n; i++) values[i] = engine_float_of_bits(engine_load_u32(at + 4 * i));
    } else if (layout->type == ENGINE_TYPE_F16) {
        for (size_t i = 0; i < n; i++) values[i] = engine_load_f16(at + 2 * i);
    } else if (layout->type == ENGINE_TYPE_BF16) {
        for (size_t i = 0; i < n; i++) values[i] = engine_bf16_to_f32(engine_load_u16(at + 2 * i));
    } else {
        for (; n >= layout->length; n -= layout->length, at += layout->size, values += layout->length) {
            struct engine_block block;
            layout->read(at, &block);
            for (size_t i = 0; i < layout->length; i++) {
                int k = layout->levels ? layout->levels[block.q[i]] : block.q[i] - layout->offset;
                float value = (float)k * (block.d * (float)block.scales[i / layout->sub]);
                values[i] = value - block.dmin * (float)block.mins[i / layout->sub];
            }
        }
    }
}

#endif

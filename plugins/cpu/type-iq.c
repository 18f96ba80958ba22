/* type-iq.c: reads blocks of the IQ types that draw their values from grids: in files an index stands for eight (IQ3:
 * four) values at once, signs apart.
 *
 * Blocks in files, all of 256 values; numbers are little-endian, d is a float16:
 *   IQ2_XXS  d, 8 x { 4 indices of 8 bits; 32 bits: 4 x 7 of signs, 4 of scale }
 *   IQ2_XS   d, 32 x { 9 bits of index, 7 of signs }, 16 scales of 4 bits
 *   IQ2_S    d, 32 low bytes of indices, 32 bytes of signs, 32 x 2 high bits of indices, 16 scales of 4 bits
 *   IQ3_XXS  d, 64 indices of 8 bits, 8 x { 4 x 7 bits of signs, 4 of scale }
 *   IQ3_S    d, 64 low bytes of indices, 64 high bits, 32 bytes of signs, 8 scales of 4 bits
 *   IQ1_S    d, 32 low bytes of indices, 8 x { 4 x 3 high bits, 3 bits of scale, 1 of shift }
 *   IQ1_M    32 low bytes of indices, 32 x { 3 high bits, 1 of shift }, 4 x { 4 x 3 bits of scale, 4 bits of d }
 * Of eight signs only seven are stored where 7 bits are: the eighth makes the count of minuses even.
 *
 * Everything is done for eight values at once, a byte each in a 64-bit word, the first value in the lowest byte. No
 * sum or product below carries from one byte into the next. */
#include <stdbool.h>
#include <stddef.h>
#include <string.h>

#include "block.h"
#include "half.h"
#include "iq-grids.h"

#define EACH(byte) (0x0101010101010101u * (uint64_t)(byte))

/* Eight codes of two bits, to bytes. */
static uint64_t spread_eight(uint16_t codes)
{
    uint64_t word = codes;
    word = (word | word << 24) & 0x000000ff000000ff;
    word = (word | word << 12) & 0x000f000f000f000f;
    return (word | word << 6) & EACH(3);
}

/* Two times four codes of three bits, to bytes. */
static uint64_t spread_fours(uint16_t first, uint16_t second)
{
    uint64_t word = first | (uint64_t)second << 32;
    word = (word | word << 10) & 0x003f003f003f003f; /* each half: abcd -> ab cd */
    return (word | word << 5) & EACH(7);
}

/* 128 + value or, where the bit of `signs` is set, 128 - value. value < 128. */
static uint64_t with_signs(uint64_t values, uint8_t signs)
{
    uint64_t bits = EACH(signs) & 0x8040201008040201;             /* 0 or one bit in each byte */
    uint64_t minus = ((bits + EACH(0x7f)) >> 7 & EACH(1)) * 0x7f; /* 0 or 127 */
    return (values ^ minus) + (EACH(0x80) - minus);
}

static uint8_t even_signs(uint32_t seven)
{
    seven &= 127;
    return (uint8_t)(seven | (uint32_t)__builtin_parity(seven) << 7);
}

static void store_eight(struct block *block, size_t index, uint64_t values)
{
    memcpy(block->q + 8 * index, &values, 8);
}

static uint32_t load_u32(const uint8_t *from)
{
    uint32_t value;
    memcpy(&value, from, sizeof value);
    return value;
}

static void set_scale(struct block *block, float d)
{
    block->d = d;
    block->dmin = 0;
    memset(block->mins, 0, sizeof block->mins);
}

/* Of 4 bits, two to a byte, the low one first: 2 s + 1. */
static void read_scales(struct block *block, const uint8_t *from, size_t n)
{
    for (size_t i = 0; i < n; i++) block->scales[i] = (int8_t)(2 * (from[i / 2] >> 4 * (i % 2) & 15) + 1);
}

/* ---- IQ2: the values are 8, 25, 43 ---- */

static uint64_t iq2_values(uint16_t codes)
{
    uint64_t code = spread_eight(codes);
    return EACH(8) + code * 17 + (code >> 1 & EACH(1));
}

void iq2_xxs_read(const uint8_t *from, struct block *block)
{
    set_scale(block, f16_to_f32(load_u16(from)) / 8);
    for (size_t i = 0; i < 8; i++) {
        const uint8_t *indices = from + 2 + 8 * i;
        uint32_t signs = load_u32(indices + 4);
        block->scales[i] = (int8_t)(2 * (signs >> 28) + 1);
        for (size_t j = 0; j < 4; j++)
            store_eight(block, 4 * i + j,
                        with_signs(iq2_values(iq2_xxs_grid[indices[j]]), even_signs(signs >> 7 * j)));
    }
}

void iq2_xs_read(const uint8_t *from, struct block *block)
{
    set_scale(block, f16_to_f32(load_u16(from)) / 8);
    read_scales(block, from + 66, 16);
    for (size_t i = 0; i < 32; i++) {
        uint16_t entry = load_u16(from + 2 + 2 * i);
        store_eight(block, i, with_signs(iq2_values(iq2_xs_grid[entry & 511]), even_signs(entry >> 9)));
    }
}

void iq2_s_read(const uint8_t *from, struct block *block)
{
    const uint8_t *low = from + 2, *signs = low + 32, *high = signs + 32;
    set_scale(block, f16_to_f32(load_u16(from)) / 8);
    read_scales(block, high + 8, 16);
    for (size_t i = 0; i < 32; i++) {
        size_t index = low[i] | ((unsigned)high[i / 4] >> 2 * (i % 4) & 3u) << 8;
        store_eight(block, i, with_signs(iq2_values(iq2_s_grid[index]), signs[i]));
    }
}

/* ---- IQ3 ---- */

/* 4, 12, 20, 28, 36, 44, 52, 62 */
static uint64_t iq3_xxs_values(uint16_t first, uint16_t second)
{
    uint64_t code = spread_fours(first, second), seven = (code + EACH(1)) >> 3 & EACH(1);
    return EACH(4) + code * 8 + seven * 2;
}

void iq3_xxs_read(const uint8_t *from, struct block *block)
{
    const uint8_t *indices = from + 2;
    set_scale(block, f16_to_f32(load_u16(from)) / 4);
    for (size_t i = 0; i < 8; i++) {
        uint32_t signs = load_u32(from + 66 + 4 * i);
        block->scales[i] = (int8_t)(2 * (signs >> 28) + 1);
        for (size_t j = 0; j < 4; j++, indices += 2) {
            uint64_t values = iq3_xxs_values(iq3_xxs_grid[indices[0]], iq3_xxs_grid[indices[1]]);
            store_eight(block, 4 * i + j, with_signs(values, even_signs(signs >> 7 * j)));
        }
    }
}

/* The values are 1, 3, 5 … 15. */
void iq3_s_read(const uint8_t *from, struct block *block)
{
    const uint8_t *low = from + 2, *high = low + 64, *signs = high + 8;
    set_scale(block, f16_to_f32(load_u16(from)));
    read_scales(block, signs + 32, 8);
    for (size_t i = 0; i < 32; i++) {
        uint32_t bits = (uint32_t)high[i / 4] >> 2 * (i % 4);
        size_t first = low[2 * i] | (bits & 1) << 8, second = low[2 * i + 1] | (bits & 2) << 7;
        uint64_t values = EACH(1) + spread_fours(iq3_s_grid[first], iq3_s_grid[second]) * 2;
        store_eight(block, i, with_signs(values, signs[i]));
    }
}

/* ---- IQ1: the values are -1, 0, 1, all of them moved by 1/8 up or down ---- */

/* Eight times the value, plus 128. */
static uint64_t iq1_values(size_t index, bool down)
{
    return (down ? EACH(119) : EACH(121)) + spread_eight(iq1_grid[index]) * 8;
}

void iq1_s_read(const uint8_t *from, struct block *block)
{
    const uint8_t *low = from + 2;
    set_scale(block, f16_to_f32(load_u16(from)) / 8);
    for (size_t i = 0; i < 8; i++) {
        uint32_t bits = load_u16(from + 34 + 2 * i);
        block->scales[i] = (int8_t)(2 * (bits >> 12 & 7) + 1);
        for (size_t j = 0; j < 4; j++)
            store_eight(block, 4 * i + j,
                        iq1_values(low[4 * i + j] | (bits >> 3 * j & 7) << 8, bits & 0x8000));
    }
}

void iq1_m_read(const uint8_t *from, struct block *block)
{
    const uint8_t *high = from + 32, *scales = high + 16;
    uint32_t d = 0;
    for (size_t i = 0; i < 4; i++) {
        uint32_t bits = load_u16(scales + 2 * i);
        d |= bits >> 12 << 4 * i;
        for (size_t j = 0; j < 4; j++) block->scales[4 * i + j] = (int8_t)(2 * (bits >> 3 * j & 7) + 1);
    }
    set_scale(block, f16_to_f32((uint16_t)d) / 8);
    for (size_t i = 0; i < 32; i++) {
        uint32_t bits = (uint32_t)high[i / 2] >> 4 * (i % 2);
        store_eight(block, i, iq1_values(from[i] | (bits & 7) << 8, bits & 8));
    }
}

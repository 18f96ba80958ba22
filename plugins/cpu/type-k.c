/* type-k.c: reads blocks of the K types and of IQ4_XS: 256 weights, their scales quantised in turn. d and dmin are
 * float16.
 *
 *   Q2_K    16 bytes: scale (low 4 bits) and min of 16 columns; 64 bytes of 2 bits; d, dmin
 *   Q3_K    32 bytes of third bits; 64 bytes of 2 bits; 12 bytes: 16 scales of 6 bits, less 32; d
 *   Q4_K    d, dmin; 12 bytes: scales and mins of 32 columns, 6 bits each; 128 bytes of 4 bits
 *   Q5_K    d, dmin; 12 bytes likewise; 32 bytes of fifth bits; 128 bytes of 4 bits
 *   Q6_K    128 bytes of 4 bits; 64 bytes of 2 bits; 16 int8 scales; d
 *   IQ4_XS  d, 16 bits of scales, 4 bytes of scales: 8 scales of 6 bits, less 32; 128 bytes of 4 bits
 *
 * Columns in bytes: 2 bits: the lowest of 32 bytes are 32 columns, the next ones the 32 behind them. 4 bits: of 32
 * bytes (Q6_K: 64; IQ4_XS: 16) first the low halves, then the high ones. */
#include <stddef.h>
#include <string.h>

#include "block.h"
#include "half.h"

/* Codes of 2 bits, 64 bytes. */
static void read_pairs(const uint8_t *from, uint8_t *q)
{
    for (size_t half = 0; half < 2; half++, from += 32)
        for (unsigned shift = 0; shift < 8; shift += 2, q += 32)
            for (size_t i = 0; i < 32; i++) q[i] = from[i] >> shift & 3;
}

/* Codes of 4 bits, `run` bytes together. */
static void read_nibbles(const uint8_t *from, size_t run, uint8_t *q)
{
    for (size_t first = 0; first < 128; first += run, from += run, q += 2 * run)
        for (size_t i = 0; i < run; i++) {
            q[i] = from[i] & 15;
            q[run + i] = from[i] >> 4;
        }
}

void q2_k_read(const uint8_t *from, struct block *block)
{
    block->d = f16_to_f32(load_u16(from + 80));
    block->dmin = f16_to_f32(load_u16(from + 82));
    for (size_t i = 0; i < 16; i++) {
        block->scales[i] = (int8_t)(from[i] & 15);
        block->mins[i] = from[i] >> 4;
    }
    read_pairs(from + 16, block->q);
}

void q3_k_read(const uint8_t *from, struct block *block)
{
    const uint8_t *scales = from + 96;
    block->d = f16_to_f32(load_u16(from + 108));
    block->dmin = 0;
    for (size_t i = 0; i < 16; i++) {
        int low = scales[i % 8] >> (i < 8 ? 0 : 4) & 15, high = scales[8 + i % 4] >> 2 * (i / 4) & 3;
        block->scales[i] = (int8_t)((low | high << 4) - 32);
        block->mins[i] = 0;
    }
    read_pairs(from + 32, block->q);
    for (size_t i = 0; i < 256; i++) block->q[i] |= (uint8_t)((from[i % 32] >> i / 32 & 1) << 2);
}

/* 8 scales and 8 mins of 6 bits in 12 bytes. */
static void read_scales_and_mins(const uint8_t *from, struct block *block)
{
    for (size_t i = 0; i < 4; i++) {
        block->scales[i] = (int8_t)(from[i] & 63);
        block->mins[i] = from[4 + i] & 63;
        block->scales[4 + i] = (int8_t)((from[8 + i] & 15) | from[i] >> 6 << 4);
        block->mins[4 + i] = (uint8_t)(from[8 + i] >> 4 | from[4 + i] >> 6 << 4);
    }
}

void q4_k_read(const uint8_t *from, struct block *block)
{
    block->d = f16_to_f32(load_u16(from));
    block->dmin = f16_to_f32(load_u16(from + 2));
    read_scales_and_mins(from + 4, block);
    read_nibbles(from + 16, 32, block->q);
}

void q5_k_read(const uint8_t *from, struct block *block)
{
    block->d = f16_to_f32(load_u16(from));
    block->dmin = f16_to_f32(load_u16(from + 2));
    read_scales_and_mins(from + 4, block);
    read_nibbles(from + 48, 32, block->q);
    for (size_t i = 0; i < 256; i++) block->q[i] |= (uint8_t)((from[16 + i % 32] >> i / 32 & 1) << 4);
}

void q6_k_read(const uint8_t *from, struct block *block)
{
    uint8_t high[256];
    block->d = f16_to_f32(load_u16(from + 208));
    block->dmin = 0;
    memcpy(block->scales, from + 192, 16);
    memset(block->mins, 0, sizeof block->mins);
    read_nibbles(from, 64, block->q);
    read_pairs(from + 128, high);
    for (size_t i = 0; i < 256; i++) block->q[i] |= (uint8_t)(high[i] << 4);
}

void iq4_xs_read(const uint8_t *from, struct block *block)
{
    uint16_t high = load_u16(from + 2);
    block->d = f16_to_f32(load_u16(from));
    block->dmin = 0;
    for (size_t i = 0; i < 8; i++) {
        int low = from[4 + i / 2] >> 4 * (i % 2) & 15;
        block->scales[i] = (int8_t)((low | (high >> 2 * i & 3) << 4) - 32);
        block->mins[i] = 0;
    }
    read_nibbles(from + 8, 16, block->q);
}

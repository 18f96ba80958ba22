/* type-legacy.c: reads blocks of 32 weights with one scale. d and m are float16, codes of 4 bits lie in 16 bytes: the
 * low ones are columns 0 … 15, the high ones 16 … 31; 5-bit types have the fifth bits of columns 0 … 31 in a word.
 *
 *   Q8_0    d, 32 int8: q * d
 *   Q4_0    d, codes: (q - 8) * d             Q4_1   d, m, codes: q * d + m
 *   Q5_0    d, bits, codes: (q - 16) * d      Q5_1   d, m, bits, codes: q * d + m
 *   IQ4_NL  d, codes: level[q] * d */
#include <string.h>

#include "block.h"
#include "half.h"

static void read_scales(float d, float m, struct block *block)
{
    block->d = d;
    block->dmin = -m;
    block->scales[0] = 1;
    block->mins[0] = 1;
}

static void read_codes(const uint8_t *from, uint8_t *q)
{
    for (int i = 0; i < 16; i++) {
        q[i] = from[i] & 15;
        q[16 + i] = from[i] >> 4;
    }
}

static void read_fifth_bits(const uint8_t *from, uint8_t *q)
{
    for (int i = 0; i < 32; i++) q[i] |= (uint8_t)((from[i / 8] >> i % 8 & 1) << 4);
}

static float half_at(const uint8_t *from)
{
    return f16_to_f32(load_u16(from));
}

void q8_0_read(const uint8_t *from, struct block *block)
{
    read_scales(half_at(from), 0, block);
    for (int i = 0; i < 32; i++) block->q[i] = from[2 + i] ^ 0x80;
}

void q4_0_read(const uint8_t *from, struct block *block)
{
    read_scales(half_at(from), 0, block);
    read_codes(from + 2, block->q);
}

void q4_1_read(const uint8_t *from, struct block *block)
{
    read_scales(half_at(from), half_at(from + 2), block);
    read_codes(from + 4, block->q);
}

void q5_0_read(const uint8_t *from, struct block *block)
{
    read_scales(half_at(from), 0, block);
    read_codes(from + 6, block->q);
    read_fifth_bits(from + 2, block->q);
}

void q5_1_read(const uint8_t *from, struct block *block)
{
    read_scales(half_at(from), half_at(from + 2), block);
    read_codes(from + 8, block->q);
    read_fifth_bits(from + 4, block->q);
}

void iq4_nl_read(const uint8_t *from, struct block *block)
{
    q4_0_read(from, block);
}

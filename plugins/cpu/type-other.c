/* type-other.c: reads blocks of ternary weights, of Q8_K and of MXFP4.
 *
 * Blocks in files; d is a float16 but where said:
 *   TQ1_0   256 values: 48 bytes of five digits to the base 3, 4 bytes of four, d. A byte holds a fraction, rounded up
 *           to 1/256, whose first digit behind the point is the first value: times 3, the digit is what passes 255.
 *           The first digits of 32 bytes are columns 0 … 31, the second ones 32 … 63, and so on; then the digits of the
 *           other 16 bytes likewise, then those of the last 4.
 *   TQ2_0   256 values: 64 bytes of four codes of two bits, d. The lowest codes of 32 bytes are 32 columns.
 *   Q8_K    d as float32, 256 int8, 16 sums of 16 values (int16), which nobody needs here
 *   MXFP4   the exponent of d (one byte; d is a power of two), 16 bytes of codes of 4 bits: the low ones are columns
 *           0 … 15, the high ones 16 … 31 */
#include <stddef.h>
#include <string.h>

#include "block.h"
#include "half.h"

static void one_scale(struct block *block, float d)
{
    block->d = d;
    block->dmin = 0;
    memset(block->scales, 1, sizeof block->scales);
    memset(block->mins, 0, sizeof block->mins);
}

/* The digits of n bytes, the first digits of all of them first. Returns where the next values go. */
static uint8_t *read_digits(const uint8_t *from, size_t n, size_t digits, uint8_t *q)
{
    for (uint8_t power = 1; digits-- > 0; power = (uint8_t)(power * 3), q += n)
        for (size_t i = 0; i < n; i++) q[i] = (uint8_t)((uint8_t)(from[i] * power) * 3 >> 8) + 127;
    return q;
}

void tq1_0_read(const uint8_t *from, struct block *block)
{
    one_scale(block, f16_to_f32(load_u16(from + 52)));
    uint8_t *q = read_digits(from, 32, 5, block->q);
    q = read_digits(from + 32, 16, 5, q);
    read_digits(from + 48, 4, 4, q);
}

void tq2_0_read(const uint8_t *from, struct block *block)
{
    one_scale(block, f16_to_f32(load_u16(from + 64)));
    for (size_t i = 0; i < 8; i++)
        for (size_t j = 0; j < 32; j++)
            block->q[32 * i + j] = (uint8_t)((from[i / 4 * 32 + j] >> 2 * (i % 4) & 3) + 127);
}

void q8_k_read(const uint8_t *from, struct block *block)
{
    float d;
    memcpy(&d, from, sizeof d);
    one_scale(block, d);
    for (size_t i = 0; i < 256; i++) block->q[i] = from[4 + i] ^ 0x80;
}

void mxfp4_read(const uint8_t *from, struct block *block)
{
    one_scale(block, power_to_f32(from[0]));
    for (size_t i = 0; i < 16; i++) {
        block->q[i] = from[1 + i] & 15;
        block->q[16 + i] = from[1 + i] >> 4;
    }
}

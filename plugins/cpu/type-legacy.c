/* type-legacy.c: weights in blocks of 32 with one float16 scale each.
 *
 * Blocks in files:   Q8_0  d, 32 int8:    q * d          Q4_0  d, 16 bytes: (nibble - 8) * d, the low nibbles
 *                                                        columns 0 … 15, the high ones 16 … 31
 * A panel is [n_blocks][PANEL] scales, float16, then [n_blocks] blocks of quants:
 *   Q8_0   [8][PANEL][4] bytes, q + 128, so that they are unsigned
 *   Q4_0   [4][PANEL][4] bytes; byte [j][row][c] has column 4 j + c in its low nibble, 16 + 4 j + c in its
 *          high one, as in the file */
#include <string.h>

#include "half.h"
#include "type-functions.h"
#include "types.h"

enum { BLOCK = 32 };

size_t q8_0_panel_size(size_t k)
{
    size_t n_blocks = k / BLOCK;
    return PANEL_SCALES_SIZE(n_blocks) + n_blocks * BLOCK * PANEL;
}

void q8_0_pack(const uint8_t *rows, size_t row_size, size_t n_rows, size_t k, uint8_t *panel)
{
    size_t n_blocks = k / BLOCK;
    uint8_t *quants = panel + PANEL_SCALES_SIZE(n_blocks);
    for (size_t b = 0; b < n_blocks; b++)
        for (size_t r = 0; r < n_rows; r++) {
            const uint8_t *block = rows + r * row_size + b * 34;
            memcpy(panel + (b * PANEL + r) * 2, block, 2);
            for (size_t j = 0; j < 8; j++) {
                uint32_t four;
                memcpy(&four, block + 2 + 4 * j, 4);
                four ^= 0x80808080;
                memcpy(quants + ((b * 8 + j) * PANEL + r) * 4, &four, 4);
            }
        }
}

void q8_0_to_float(const uint8_t *row, size_t n, float *values)
{
    for (size_t b = 0; b < n / BLOCK; b++, row += 34) {
        float d = f16_to_f32(load_u16(row));
        for (size_t i = 0; i < BLOCK; i++) values[b * BLOCK + i] = d * (float)(int8_t)row[2 + i];
    }
}

size_t q4_0_panel_size(size_t k)
{
    size_t n_blocks = k / BLOCK;
    return PANEL_SCALES_SIZE(n_blocks) + n_blocks * BLOCK / 2 * PANEL;
}

void q4_0_pack(const uint8_t *rows, size_t row_size, size_t n_rows, size_t k, uint8_t *panel)
{
    size_t n_blocks = k / BLOCK;
    uint8_t *quants = panel + PANEL_SCALES_SIZE(n_blocks);
    for (size_t b = 0; b < n_blocks; b++)
        for (size_t r = 0; r < n_rows; r++) {
            const uint8_t *block = rows + r * row_size + b * 18;
            memcpy(panel + (b * PANEL + r) * 2, block, 2);
            for (size_t j = 0; j < 4; j++)
                memcpy(quants + ((b * 4 + j) * PANEL + r) * 4, block + 2 + 4 * j, 4);
        }
}

void q4_0_to_float(const uint8_t *row, size_t n, float *values)
{
    for (size_t b = 0; b < n / BLOCK; b++, row += 18) {
        float d = f16_to_f32(load_u16(row));
        for (size_t i = 0; i < BLOCK / 2; i++) {
            values[b * BLOCK + i] = d * (float)((row[2 + i] & 15) - 8);
            values[b * BLOCK + 16 + i] = d * (float)((row[2 + i] >> 4) - 8);
        }
    }
}

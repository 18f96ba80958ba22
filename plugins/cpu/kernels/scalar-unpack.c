/* scalar-unpack.c: panels to tiles in plain C. The layouts are described in type-*.c. */
#include "half.h"
#include "scalar.h"

void scalar_unpack_f32(const uint8_t *panel, size_t k, size_t first, size_t n, struct tile *tile)
{
    (void)k, (void)n;
    tile->x = (const float *)(const void *)panel + first * PANEL;
}

void scalar_unpack_f16(const uint8_t *panel, size_t k, size_t first, size_t n, struct tile *tile)
{
    (void)k;
    for (size_t i = 0; i < n * PANEL; i++)
        tile->x_store[i] = f16_to_f32(load_u16(panel + (first * PANEL + i) * 2));
    tile->x = tile->x_store;
}

void scalar_unpack_bf16(const uint8_t *panel, size_t k, size_t first, size_t n, struct tile *tile)
{
    (void)k;
    for (size_t i = 0; i < n; i++)
        for (size_t r = 0; r < PANEL; r++) {
            size_t at = ((first + i) / 2 * PANEL + r) * 4 + (first + i) % 2 * 2;
            tile->x_store[i * PANEL + r] = bf16_to_f32(load_u16(panel + at));
        }
    tile->x = tile->x_store;
}

/* The float16 scales of n blocks, in front of a panel. */
static void unpack_scales(const uint8_t *panel, size_t first_block, size_t n_blocks, struct tile *tile)
{
    for (size_t i = 0; i < n_blocks * PANEL; i++)
        tile->scales_store[i] = f16_to_f32(load_u16(panel + (first_block * PANEL + i) * 2));
    tile->scales = tile->scales_store;
    tile->mins = NULL;
}

void scalar_unpack_q8_0(const uint8_t *panel, size_t k, size_t first, size_t n, struct tile *tile)
{
    unpack_scales(panel, first / 32, n / 32, tile);
    tile->q = panel + PANEL_SCALES_SIZE(k / 32) + first * PANEL;
}

void scalar_unpack_q4_0(const uint8_t *panel, size_t k, size_t first, size_t n, struct tile *tile)
{
    unpack_scales(panel, first / 32, n / 32, tile);
    const uint8_t *quants = panel + PANEL_SCALES_SIZE(k / 32) + first * PANEL / 2;
    for (size_t b = 0; b < n / 32; b++)
        for (size_t i = 0; i < 16 * PANEL; i++) {
            tile->q_store[b * 32 * PANEL + i] = quants[b * 16 * PANEL + i] & 15;
            tile->q_store[b * 32 * PANEL + 16 * PANEL + i] = quants[b * 16 * PANEL + i] >> 4;
        }
    tile->q = tile->q_store;
}

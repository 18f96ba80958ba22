/* unpack.h: template of the functions that turn panels into tiles. The layouts are described in type-*.c.
 * Expects vec-*.h, vec.h. */
#include "scalar.h"

static void unpack_f16(const uint8_t *panel, size_t k, size_t first, size_t n, struct tile *tile)
{
    (void)k;
    panel += first * PANEL * 2;
    for (size_t i = 0; i < n * PANEL; i += LANES) vf_store(tile->x_store + i, vf_from_f16(panel + 2 * i));
    tile->x = tile->x_store;
}

static void unpack_bf16(const uint8_t *panel, size_t k, size_t first, size_t n, struct tile *tile)
{
    (void)k;
    panel += first * PANEL * 2; /* first is even */
    float *x = tile->x_store;
    for (size_t i = 0; i < n; i += 2, x += 2 * PANEL, panel += 4 * PANEL)
        for (size_t part = 0; part < PANEL; part += LANES) {
            vf_store(x + part, vf_from_bf16_even(panel + 4 * part));
            if (i + 1 < n) vf_store(x + PANEL + part, vf_from_bf16_odd(panel + 4 * part));
        }
    tile->x = tile->x_store;
}

/* The float16 scales of n blocks, in front of a panel. */
static inline void unpack_scales(const uint8_t *panel, size_t first_block, size_t n_blocks, struct tile *tile)
{
    panel += first_block * PANEL * 2;
    for (size_t i = 0; i < n_blocks * PANEL; i += LANES)
        vf_store(tile->scales_store + i, vf_from_f16(panel + 2 * i));
    tile->scales = tile->scales_store;
    tile->mins = NULL;
}

static void unpack_q8_0(const uint8_t *panel, size_t k, size_t first, size_t n, struct tile *tile)
{
    unpack_scales(panel, first / 32, n / 32, tile);
    tile->q = panel + PANEL_SCALES_SIZE(k / 32) + first * PANEL;
}

static void unpack_q4_0(const uint8_t *panel, size_t k, size_t first, size_t n, struct tile *tile)
{
    unpack_scales(panel, first / 32, n / 32, tile);
    const uint8_t *quants = panel + PANEL_SCALES_SIZE(k / 32) + first * PANEL / 2;
    uint8_t *q = tile->q_store;
    for (size_t b = 0; b < n / 32; b++, quants += 16 * PANEL, q += 32 * PANEL)
        for (size_t i = 0; i < 16 * PANEL; i += 4 * LANES) {
            vb both = vb_load(quants + i);
            vb_store(q + i, vb_low_nibbles(both));
            vb_store(q + 16 * PANEL + i, vb_high_nibbles(both));
        }
    tile->q = tile->q_store;
}

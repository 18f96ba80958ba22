/* unpack.h: template of the functions that turn chunks of float types into tiles. The layouts are described
 * in type-float.c; those of integer types are in int8.h. Expects vec-*.h, vec.h. */

static void unpack_f16(const struct weight_type *type, const uint8_t *chunk, size_t n, struct tile *tile)
{
    (void)type;
    for (size_t i = 0; i < n * PANEL; i += LANES) vf_store(tile->x_store + i, vf_from_f16(chunk + 2 * i));
    tile->x = tile->x_store;
}

static void unpack_bf16(const struct weight_type *type, const uint8_t *chunk, size_t n, struct tile *tile)
{
    (void)type;
    float *x = tile->x_store;
    for (size_t i = 0; i < n; i += 2, x += 2 * PANEL, chunk += 4 * PANEL)
        for (size_t part = 0; part < PANEL; part += LANES) {
            vf_store(x + part, vf_from_bf16_even(chunk + 4 * part));
            if (i + 1 < n) vf_store(x + PANEL + part, vf_from_bf16_odd(chunk + 4 * part));
        }
    tile->x = tile->x_store;
}

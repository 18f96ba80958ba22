/* scalar-unpack.c: chunks to tiles in plain C. The layouts are described in type-float.c and pack.h. */
#include <string.h>

#include "half.h"
#include "pack.h"
#include "scalar.h"

void scalar_unpack_f32(const struct weight_type *type, const uint8_t *chunk, size_t n, struct tile *tile)
{
    (void)type, (void)n;
    tile->x = (const float *)(const void *)chunk;
}

void scalar_unpack_f16(const struct weight_type *type, const uint8_t *chunk, size_t n, struct tile *tile)
{
    (void)type;
    for (size_t i = 0; i < n * PANEL; i++) tile->x_store[i] = engine_load_f16(chunk + 2 * i);
    tile->x = tile->x_store;
}

void scalar_unpack_bf16(const struct weight_type *type, const uint8_t *chunk, size_t n, struct tile *tile)
{
    (void)type;
    for (size_t i = 0; i < n; i++)
        for (size_t r = 0; r < PANEL; r++)
            tile->x_store[i * PANEL + r] =
                engine_bf16_to_f32(engine_load_u16(chunk + (i / 2 * PANEL + r) * 4 + i % 2 * 2));
    tile->x = tile->x_store;
}

/* Rows of blocks as they are in files. */
static void unpack_raw(const struct weight_type *type, const uint8_t *chunk, size_t n, struct tile *tile)
{
    size_t n_scales = n / type->format->sub;
    for (size_t r = 0; r < PANEL; r++) {
        struct engine_block block;
        type->read(chunk + r * type->block_size, &block);
        for (size_t i = 0; i < n / 4; i++) memcpy(tile->q_store + (i * PANEL + r) * 4, block.q + 4 * i, 4);
        for (size_t s = 0; s < n_scales; s++)
            tile->scales_store[s * PANEL + r] = block.d * (float)block.scales[s];
    }
}

/* Bits of column i of a row's group, packed `bits` to a column. */
static unsigned packed_bits(const uint8_t *from, unsigned bits, size_t i, size_t row)
{
    size_t j = i / 4, v = bits == 4 ? j % 4 : j * bits / 8, part = bits == 4 ? j / 4 : j % (8 / bits);
    return (unsigned)from[(v * PANEL + row) * 4 + i % 4] >> part * bits & ((1u << bits) - 1);
}

static void unpack_codes(const struct format *format, const uint8_t *group, uint8_t *q)
{
    const uint8_t *behind = group + GROUP * PANEL / 8 * (size_t)format->base;
    for (size_t i = 0; i < GROUP; i++)
        for (size_t r = 0; r < PANEL; r++) {
            unsigned code = packed_bits(group, format->base, i, r);
            if (format->high) code |= packed_bits(behind, format->high, i, r) << format->base;
            q[(i / 4 * PANEL + r) * 4 + i % 4] = format->values ? format->values[code] : (uint8_t)code;
        }
}

static void unpack_scales(const struct format *format, const uint8_t *chunk, size_t n, struct tile *tile)
{
    struct chunk_layout layout = chunk_layout(format, n);
    bool small = format->block == 32, nibbles = format->scales == SCALES_NIBBLES;
    for (size_t s = 0; s < n / format->sub; s++)
        for (size_t r = 0; r < PANEL; r++) {
            size_t at = s * PANEL + r, d_at = small ? at : r;
            float d = format->scales == SCALES_POWER ? engine_power_to_f32(chunk[d_at])
                                                     : engine_load_f16(chunk + 2 * d_at);
            float dmin = format->mins ? -engine_load_f16(chunk + layout.dmin + 2 * d_at) : 0;
            int scale = small ? 1 : (int8_t)chunk[layout.scales + at],
                min = small || !format->mins ? 1 : chunk[layout.mins + at];
            if (nibbles) min = (uint8_t)scale >> 4, scale &= 15;
            tile->scales_store[at] = d * (float)scale;
            tile->mins_store[at] = dmin * (float)min;
        }
}

void scalar_unpack_int8(const struct weight_type *type, const uint8_t *chunk, size_t n, struct tile *tile)
{
    const struct format *format = type->format;
    if (format->scales == SCALES_RAW) {
        unpack_raw(type, chunk, n, tile);
    } else {
        unpack_scales(format, chunk, n, tile);
        const uint8_t *group = chunk + chunk_layout(format, n).quants;
        for (size_t i = 0; i < n; i += GROUP, group += group_size(format))
            unpack_codes(format, group, tile->q_store + i * PANEL);
    }
    tile->q = tile->q_store;
    tile->nibbles = false;
    tile->scales = tile->scales_store;
    tile->mins = format->mins ? tile->mins_store : NULL;
}

void scalar_unpack_exact(const struct weight_type *type, const uint8_t *chunk, size_t n, struct tile *tile)
{
    _Alignas(64) uint8_t memory[INT8_STORE_SIZE];
    struct tile codes = tile_in(memory);
    scalar_unpack_int8(type, chunk, n, &codes);
    for (size_t i = 0; i < n; i++)
        for (size_t r = 0; r < PANEL; r++)
            tile->x_store[i * PANEL + r] = (float)(tile_code(&codes, i, r) - type->format->offset) *
                                           codes.scales[i / type->format->sub * PANEL + r];
    tile->x = tile->x_store;
}

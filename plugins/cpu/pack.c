/* pack.c: packs blocks of the integer types, see pack.h. */
#include "pack.h"

#include <string.h>

#include "half.h"
#include "type-functions.h"

size_t int8_chunk_size(const struct weight_type *type, size_t n)
{
    if (type->format->scales == SCALES_RAW) return round_up(PANEL * type->block_size, 64);
    return chunk_layout(type->format, n).size;
}

/* Four columns of a row, a byte each; j: which four of a group. */
static uint32_t four_codes(const uint8_t *q, size_t j)
{
    uint32_t four;
    memcpy(&four, q + 4 * j, 4);
    return four;
}

/* `bits` bits, from bit `shift` on, of the codes of a group of columns, to their place in the panel. */
static inline void pack_bits(const uint8_t *q, unsigned shift, unsigned bits, uint8_t *to)
{
    uint32_t mask = 0x01010101u * ((1u << bits) - 1);
    for (size_t v = 0; v < bits; v++, to += PANEL * 4) {
        uint32_t word = 0;
        for (size_t part = 0; part < 8 / bits; part++) {
            size_t j = bits == 4 ? v + 4 * part : 8 / bits * v + part;
            word |= (four_codes(q, j) >> shift & mask) << part * bits;
        }
        memcpy(to, &word, sizeof word);
    }
}

/* The codes of a row's group; base and high are constants in each copy. */
static void pack_codes(const struct format *format, const uint8_t *q, uint8_t *to)
{
    uint8_t *behind = to + GROUP * PANEL / 8 * (size_t)format->base;
    switch (format->base) {
    case 8: pack_bits(q, 0, 8, to); break;
    case 4: pack_bits(q, 0, 4, to); break;
    default: pack_bits(q, 0, 2, to); break;
    }
    if (format->high == 1) pack_bits(q, format->base, 1, behind);
    if (format->high == 2) pack_bits(q, format->base, 2, behind);
}

/* The scales of block number b of a row's chunk. */
static void pack_scales(const struct format *format, const struct chunk_layout *layout,
                        const struct engine_block *block, size_t b, size_t row, uint8_t *chunk)
{
    size_t at = b * PANEL + row;
    if (format->scales == SCALES_POWER) {
        chunk[at] = power_code(block->d);
        return;
    }
    store_u16(chunk + 2 * at, engine_f32_to_f16(block->d));
    if (format->mins) store_u16(chunk + layout->dmin + 2 * at, engine_f32_to_f16(block->dmin));
    if (format->block == 32) return;
    for (size_t i = 0; i < (size_t)format->block / format->sub; i++) {
        uint8_t *scale = chunk + layout->scales + i * PANEL + row;
        *scale = (uint8_t)block->scales[i];
        if (format->scales == SCALES_NIBBLES)
            *scale |= (uint8_t)(block->mins[i] << 4);
        else if (format->mins)
            chunk[layout->mins + i * PANEL + row] = block->mins[i];
    }
}

void int8_pack(const struct weight_type *type, const uint8_t *rows, size_t row_size, size_t n_rows, size_t n,
               uint8_t *chunk)
{
    const struct format *format = type->format;
    if (format->scales == SCALES_RAW) {
        for (size_t r = 0; r < n_rows; r++)
            memcpy(chunk + r * type->block_size, rows + r * row_size, type->block_size);
        return;
    }
    struct chunk_layout layout = chunk_layout(format, n);
    for (size_t r = 0; r < n_rows; r++)
        for (size_t b = 0; b < n / format->block; b++) {
            struct engine_block block;
            type->read(rows + r * row_size + b * type->block_size, &block);
            pack_scales(format, &layout, &block, b, r, chunk);
            for (size_t i = 0; i < format->block; i += GROUP) {
                size_t group = (b * format->block + i) / GROUP;
                pack_codes(format, block.q + i, chunk + layout.quants + group * group_size(format) + r * 4);
            }
        }
}

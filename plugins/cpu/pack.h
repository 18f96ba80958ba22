/* pack.h: the layout of a chunk of an integer type, see types.h. The parts follow one another; each begins on
 * a cache line:
 *   d       SCALES_F16: float16 [n / 32][PANEL]; SCALES_POWER: bytes [n / 32][PANEL]; otherwise float16
 *           [PANEL]
 *   dmin    the same, float16; for types with mins
 *   scales  int8 [n / sub][PANEL]; SCALES_NIBBLES: the min's 4 bits above the scale's; absent for blocks of
 *           32
 *   mins    uint8 [n / sub][PANEL]; absent for blocks of 32 and for SCALES_NIBBLES
 *   quants  for each GROUP of columns the base bits of all codes, then the high bits. In both, byte
 *           [v][row][c] holds bits of the columns 4 j + c, so that a shift and a mask give a vector [row][c]
 *           for one j:
 *             8 bits  j = v             4 bits  j = v, and above it j = v + 4
 *             2 bits  j = 4 v, and above it 4 v + 1, 4 v + 2, 4 v + 3           1 bit  bit j
 * SCALES_RAW: the blocks of the rows as they are in the file, [PANEL][block_size]. */
#ifndef CPU_PACK_H
#define CPU_PACK_H

#include "types.h"

struct chunk_layout {
    size_t dmin, scales, mins, quants, size; /* offsets in bytes; d is at 0 */
};

static inline size_t group_size(const struct format *format)
{
    return GROUP * PANEL / 8 * (size_t)(format->base + format->high);
}

static inline struct chunk_layout chunk_layout(const struct format *format, size_t n)
{
    bool small = format->block == 32, own_mins = format->mins && !small && format->scales != SCALES_NIBBLES;
    size_t n_d = small ? n / 32 : 1, d_size = (format->scales == SCALES_POWER ? 1 : 2) * n_d * PANEL;
    size_t scales_size = small ? 0 : n / format->sub * PANEL;
    struct chunk_layout layout;
    layout.dmin = round_up(d_size, 64);
    layout.scales = layout.dmin + (format->mins ? round_up(d_size, 64) : 0);
    layout.mins = layout.scales + round_up(scales_size, 64);
    layout.quants = layout.mins + (own_mins ? round_up(scales_size, 64) : 0);
    layout.size = layout.quants + n / GROUP * group_size(format);
    return layout;
}

#endif

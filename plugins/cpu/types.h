/* types.h: the weight types, and how weights are packed.
 *
 * A packed weight is a series of panels of PANEL rows (the last one padded with rows of zeros). Within a panel
 * the values that the same column has in all rows lie side by side, so that a vector of PANEL lanes works on
 * PANEL rows at once and one broadcast activation meets them all; one token and many use the same panels.
 *
 * A panel is never computed with directly: `unpack` (kernels.h) turns up to CHUNK of its columns into a tile,
 * one of two kinds whatever the type, so that a new type needs no new matmul:
 *   TILE_F32    x[i][row], float32, the values themselves;
 *   TILE_INT8   q[i / 4][row][i % 4], unsigned bytes, and for every `group` columns scales[.][row] and, for
 *               types that have them, mins[.][row]: the value is (q - offset) * scale - min.
 * Where a panel holds a tile's arrays as they are, the tile points into the panel. */
#ifndef CPU_TYPES_H
#define CPU_TYPES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define PANEL ((size_t)16)  /* rows */
#define CHUNK ((size_t)256) /* most columns of a tile; a multiple of every type's block length */
#define GROUP ((size_t)32)  /* activations that share a scale when they are int8 */

enum tile_kind { TILE_F32 = 1, TILE_INT8 = 2 };

struct tile {
    const float *x;      /* [n][PANEL] */
    const uint8_t *q;    /* [n / 4][PANEL][4] */
    const float *scales; /* [n / group][PANEL] */
    const float *mins;   /* [n / group][PANEL]; NULL: none */
    /* Where unpack puts what it has to make; a thread's scratch memory. */
    float *x_store;      /* [CHUNK][PANEL] */
    uint8_t *q_store;    /* [CHUNK / 4][PANEL][4] */
    float *scales_store; /* [CHUNK / 16][PANEL] */
    float *mins_store;   /* [CHUNK / 16][PANEL] */
};
/* Bytes of the four stores. */
#define TILE_STORE_SIZE (CHUNK * PANEL * (sizeof(float) + 1) + 2 * (CHUNK / 16) * PANEL * sizeof(float))

/* Index of a type in tables. */
enum weight_type_index { WEIGHT_F32, WEIGHT_F16, WEIGHT_BF16, WEIGHT_Q8_0, WEIGHT_Q4_0, N_WEIGHT_TYPES };

struct weight_type {
    uint32_t type; /* enum engine_type */
    const char *name;
    enum weight_type_index index;
    size_t block_length; /* columns of a block, in files */
    size_t block_size;   /* its bytes */
    enum tile_kind kind;
    uint8_t offset; /* of TILE_INT8 */
    uint8_t most;   /* largest q of TILE_INT8 */

    /* Bytes of a packed panel of k columns; a multiple of CPU_ALIGNMENT. */
    size_t (*panel_size)(size_t k);
    /* Packs `n_rows` rows (1 … PANEL) of k columns, which are row_size bytes apart. */
    void (*pack)(const uint8_t *rows, size_t row_size, size_t n_rows, size_t k, uint8_t *panel);
    /* Turns n values, a multiple of block_length, of a row as it is in files into float32. */
    void (*to_float)(const uint8_t *row, size_t n, float *values);
};

/* NULL for a type that isn't there. */
const struct weight_type *weight_type(uint32_t type);

/* Bytes of a row of k columns in files. k is a multiple of block_length. */
static inline size_t weight_row_size(const struct weight_type *type, size_t k)
{
    return k / type->block_length * type->block_size;
}

static inline size_t round_up(size_t value, size_t multiple)
{
    return (value + multiple - 1) / multiple * multiple;
}

/* Where the scales of a panel of TILE_INT8 types end and the quants begin: both parts are aligned. */
#define PANEL_SCALES_SIZE(n_blocks) (((n_blocks)*PANEL * sizeof(uint16_t) + 63) / 64 * 64)

#endif

/* types.h: the weight types, and how weights are packed.
 *
 * A packed weight is a series of panels of PANEL rows (the last one padded with rows of zeros). Within a
 * panel the values of one column are adjacent for all rows, so that a vector of PANEL lanes works on PANEL
 * rows at once with one broadcast activation. Few tokens and many use the same panels.
 *
 * A panel is a series of chunks of CHUNK columns (the last one may be shorter). Each chunk is self-contained,
 * scales first, then the quants, so that a panel is read from start to end. pack.h describes the layout of a
 * chunk.
 *
 * Many tokens: `unpack` (kernels.h) turns a chunk into a tile. There are two kinds of tiles for all types, so
 * that a new type needs no new matmul:
 *   TILE_F32    x[i][row], float32, the values themselves;
 *   TILE_INT8   q[i / 4][row][i % 4], unsigned bytes, and for every `sub` columns scales[.][row] and, for
 *               types with mins, mins[.][row]: the value is (q - offset) * scale - min.
 * If a chunk holds a tile's arrays unchanged, the tile points into the chunk.
 *
 * A few tokens: types with a packing of their own are multiplied chunk by chunk, without tiles (`few` in
 * kernels.h). */
#ifndef CPU_TYPES_H
#define CPU_TYPES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "formats.h"

#define PANEL ((size_t)16)  /* rows */
#define CHUNK ((size_t)256) /* most columns of a tile; a multiple of every type's block length */
#define GROUP ((size_t)32)  /* int8 activations that share a scale */
/* Columns of EXACT_TYPES whose products are summed by themselves, so that four sums can be made at once. */
#define EXACT_RUN ((size_t)64)

struct engine_block;

enum tile_kind { TILE_F32 = 1, TILE_INT8 = 2 };

struct tile {
    const float *x;      /* [n][PANEL] */
    const uint8_t *q;    /* [n / 4][PANEL][4] */
    const float *scales; /* [n / sub][PANEL] */
    const float *mins;   /* [n / sub][PANEL], negated, to be added; NULL: none */
    /* memory that int8_tiles prefetches meanwhile: this many cache lines for each GROUP */
    const uint8_t *ahead;
    size_t ahead_lines;
    bool nibbles; /* q: codes of 4 bits as in chunks (pack.h), if int8_tiles takes them in this form */
    /* Where unpack puts what it has to make; scratch memory of a thread. */
    float *x_store;      /* [CHUNK][PANEL] */
    uint8_t *q_store;    /* [CHUNK / 4][PANEL][4] */
    float *scales_store; /* [CHUNK / 16][PANEL] */
    float *mins_store;   /* [CHUNK / 16][PANEL] */
};
/* Bytes of the stores of a tile of either kind and of TILE_INT8, and a tile whose stores are in memory of
 * that size. The store of floats overlaps the other three. */
#define TILE_STORE_SIZE (CHUNK * PANEL * sizeof(float))
#define INT8_STORE_SIZE (2 * (CHUNK / 16) * PANEL * sizeof(float) + CHUNK * PANEL)
static inline struct tile tile_in(uint8_t *memory)
{
    float *x = (float *)(void *)memory, *mins = x + CHUNK / 16 * PANEL;
    return (struct tile){.x_store = x,
                         .scales_store = x,
                         .mins_store = mins,
                         .q_store = (uint8_t *)(mins + CHUNK / 16 * PANEL)};
}

/* q of column i. */
static inline uint8_t tile_code(const struct tile *tile, size_t i, size_t row)
{
    if (!tile->nibbles) return tile->q[(i / 4 * PANEL + row) * 4 + i % 4];
    size_t j = i % GROUP / 4;
    uint8_t two = tile->q[i / GROUP * GROUP * PANEL / 2 + (j % 4 * PANEL + row) * 4 + i % 4];
    return j < 4 ? two & 15 : two >> 4;
}

/* Index of a type in tables. */
enum weight_type_index {
    WEIGHT_F32,
    WEIGHT_F16,
    WEIGHT_BF16,
#define X(NAME, name) WEIGHT_##NAME,
    INT8_TYPES(X)
#undef X
#define X(NAME, name) WEIGHT_##NAME##_EXACT,
        EXACT_TYPES(X)
#undef X
            N_WEIGHT_TYPES
};

struct weight_type {
    uint32_t type; /* enum engine_type */
    const char *name;
    enum weight_type_index index;
    size_t block_length; /* columns of a block, in files */
    size_t block_size;   /* its bytes */
    enum tile_kind kind;
    size_t run; /* of TILE_F32: columns whose products are summed before they join the others */
    const struct format *format; /* of integer types */
    /* Integer types: decodes a block of a file. */
    void (*read)(const uint8_t *from, struct engine_block *block);

    /* Bytes of a chunk of n columns; a multiple of CPU_ALIGNMENT. */
    size_t (*chunk_size)(const struct weight_type *type, size_t n);
    /* Packs n columns of `n_rows` rows (1 … PANEL), which are row_size bytes apart, into a zeroed chunk. */
    void (*pack)(const struct weight_type *type, const uint8_t *rows, size_t row_size, size_t n_rows,
                 size_t n, uint8_t *chunk);
};

/* NULL for an unknown type. */
const struct weight_type *weight_type(uint32_t type);
/* What a type is packed as for products with float32 inputs: its codes as they are, but with tiles of floats,
 * if it is one of EXACT_TYPES; float types themselves; otherwise F32. */
const struct weight_type *weight_type_exact(const struct weight_type *type);

/* Converts n values, a multiple of block_length, of a row as in files to float32. */
void weight_to_float(const struct weight_type *type, const uint8_t *row, size_t n, float *values);

/* Bytes of a row of k columns in files. k is a multiple of block_length. */
static inline size_t weight_row_size(const struct weight_type *type, size_t k)
{
    return k / type->block_length * type->block_size;
}

/* Bytes of a packed panel of k columns. */
static inline size_t weight_panel_size(const struct weight_type *type, size_t k)
{
    size_t size = k / CHUNK * type->chunk_size(type, CHUNK);
    return k % CHUNK ? size + type->chunk_size(type, k % CHUNK) : size;
}

static inline size_t smaller(size_t a, size_t b)
{
    return a < b ? a : b;
}

static inline size_t round_up(size_t value, size_t multiple)
{
    return (value + multiple - 1) / multiple * multiple;
}

#endif

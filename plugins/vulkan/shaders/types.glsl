// types.glsl: the weight types, by their numbers in plugin-api.h. A shader that reads weights is compiled for
// each, with TYPE defined.
#define TYPE_F32    0
#define TYPE_F16    1
#define TYPE_Q4_0   2
#define TYPE_Q4_1   3
#define TYPE_Q5_0   6
#define TYPE_Q5_1   7
#define TYPE_Q8_0   8
#define TYPE_Q2_K   10
#define TYPE_Q3_K   11
#define TYPE_Q4_K   12
#define TYPE_Q5_K   13
#define TYPE_Q6_K   14
#define TYPE_IQ4_NL 20
#define TYPE_IQ4_XS 23
#define TYPE_BF16   30
#define TYPE_MXFP4  39

// Values in one uvec4 of the types without scales.
#if TYPE == TYPE_F32
#define UNIT 4
#else
#define UNIT 8
#endif

// Values that unpack.glsl makes at a time. Software drivers compile slowly if many are unrolled.
#if defined(ADDRESS) && (TYPE == TYPE_F32 || TYPE == TYPE_F16 || TYPE == TYPE_BF16)
#define CHUNK 8
#else
#define CHUNK 32
#endif

// Quantised types: values and memory of a block, see weight.c. A value is scale * (code - ZERO) + least;
// scale and least belong to 32 values or, with HALVES, to 16. Codes are bytes, of two's complement with
// SIGNED. With LOOKUP the code is the value that belongs to a number of 4 bits.
#if TYPE == TYPE_Q4_0
#define BLOCK       32
#define BLOCK_QUADS 1
#define SIGNED
#elif TYPE == TYPE_Q8_0
#define BLOCK       32
#define BLOCK_QUADS 2
#define SIGNED
#elif TYPE == TYPE_IQ4_NL || TYPE == TYPE_MXFP4
#define BLOCK       32
#define BLOCK_QUADS 1
#define LOOKUP
#define SIGNED
#elif TYPE == TYPE_IQ4_XS
#define BLOCK       256
#define BLOCK_QUADS 8
#define LOOKUP
#define SIGNED
#elif TYPE == TYPE_Q4_K
#define BLOCK       256
#define BLOCK_QUADS 9
#define HAS_LEAST
#elif TYPE == TYPE_Q5_K
#define BLOCK       256
#define BLOCK_QUADS 11
#define HAS_LEAST
#elif TYPE == TYPE_Q6_K
#define BLOCK       256
#define BLOCK_QUADS 13
#define HALVES
#define ZERO        32
#elif TYPE == TYPE_Q4_1
#define BLOCK       32
#define BLOCK_WORDS 5
#define HAS_LEAST
#elif TYPE == TYPE_Q5_0
#define BLOCK       32
#define BLOCK_WORDS 6
#define ZERO        16
#elif TYPE == TYPE_Q5_1
#define BLOCK       32
#define BLOCK_WORDS 6
#define HAS_LEAST
#elif TYPE == TYPE_Q2_K
#define BLOCK       256
#define BLOCK_WORDS 21
#define HALVES
#define HAS_LEAST
#elif TYPE == TYPE_Q3_K
#define BLOCK       256
#define BLOCK_WORDS 28
#define HALVES
#define ZERO        4
#endif
#ifdef BLOCK
#define PARTS_OF_BLOCK (BLOCK / 32)
#else
#define PARTS_OF_BLOCK 1
#endif
#ifndef ZERO
#define ZERO 0
#endif

#if TYPE == TYPE_IQ4_NL || TYPE == TYPE_IQ4_XS
const int nibble_values[16] = int[](-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113);
#elif TYPE == TYPE_MXFP4
// E2M1, doubled
const int nibble_values[16] = int[](0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12);
#endif

// 32 values of a row: value i is in byte i % 4 of word i / 4.
struct codes {
    uint words[8];
    float scale[2], least[2]; // of the first and the second 16
};

// Where the 32 values of a chunk are in memory.
struct chunk_place {
    uint base;  // of the block: its quad or word
    uint apart; // what it has behind all panels: a word
    uint shift; // in that word
    uint part;  // number of the chunk in the block, or of the even one before it in blocks of 256
};

#ifdef BLOCK
chunk_place chunk_place_of(uint panel, uint row, uint k, uint chunk)
{
    uint n_blocks = k / BLOCK, block = chunk / PARTS_OF_BLOCK, number = panel * n_blocks + block;
#ifdef BLOCK_QUADS
    uint base = number * (BLOCK_QUADS * 32) + row;
#else
    uint base = number * (BLOCK_WORDS * 32) + row;
#endif
#if TYPE == TYPE_IQ4_XS
    uint apart = (number * 32 + row) * 2;
#else // two blocks have a word
    uint apart = (panel * ((n_blocks + 1) / 2) + block / 2) * 32 + row;
#endif
    return chunk_place(base, apart, block % 2 * 16, chunk % PARTS_OF_BLOCK / 2 * 2);
}

// Goes on by a number of chunks, whole blocks.
void advance(inout chunk_place at, uint chunks)
{
    uint blocks = chunks / PARTS_OF_BLOCK;
#ifdef BLOCK_QUADS
    at.base += blocks * (BLOCK_QUADS * 32);
#else
    at.base += blocks * (BLOCK_WORDS * 32);
#endif
#if TYPE == TYPE_IQ4_XS
    at.apart += blocks * 64;
#else
    at.apart += blocks * 16;
#endif
}
#else
chunk_place chunk_place_of(uint panel, uint row, uint k, uint chunk)
{
    return chunk_place(0, 0, 0, 0);
}
void advance(inout chunk_place at, uint chunks) {}
#endif

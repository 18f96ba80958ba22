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

// Types kept as the words of their file's blocks: values and words of a block, see weight.c.
#if TYPE == TYPE_Q4_1 || TYPE == TYPE_IQ4_NL || TYPE == TYPE_MXFP4
#define BLOCK 32
#define BLOCK_WORDS 5
#elif TYPE == TYPE_Q5_0 || TYPE == TYPE_Q5_1
#define BLOCK 32
#define BLOCK_WORDS 6
#elif TYPE == TYPE_Q2_K
#define BLOCK 256
#define BLOCK_WORDS 21
#elif TYPE == TYPE_Q3_K
#define BLOCK 256
#define BLOCK_WORDS 28
#elif TYPE == TYPE_Q4_K
#define BLOCK 256
#define BLOCK_WORDS 36
#elif TYPE == TYPE_Q5_K
#define BLOCK 256
#define BLOCK_WORDS 44
#elif TYPE == TYPE_Q6_K
#define BLOCK 256
#define BLOCK_WORDS 53
#elif TYPE == TYPE_IQ4_XS
#define BLOCK 256
#define BLOCK_WORDS 34
#endif

#if TYPE == TYPE_IQ4_NL || TYPE == TYPE_IQ4_XS
const float nibble_values[16] = float[](-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113);
#elif TYPE == TYPE_MXFP4
// E2M1, doubled
const float nibble_values[16] = float[](0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12);
#endif

/* formats.h: the common properties of the integer weight types and their differences, as constants that the
 * compiler sees: kernels take the format as an argument, which is folded away in the copy for each type.
 *
 * A value is (q - offset) * scale - min; q is the code in the file or, for types with a table,
 * values[code]. */
#ifndef CPU_FORMATS_H
#define CPU_FORMATS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* How scales (and mins) are packed. */
enum scale_kind {
    SCALES_F16,     /* a float16 for each block of 32 */
    SCALES_POWER,   /* a power of two for each block of 32: its exponent + 128, a byte */
    SCALES_INT8,    /* a float16 for 256 columns, times an int8 for each `sub` of them */
    SCALES_NIBBLES, /* the same, times 4 bits, with 4 bits above them times another float16 for mins */
    SCALES_RAW      /* blocks stay as they are in files, and `read` decodes them each time */
};

/* How the inputs of a product are rounded to int8 (`quantize` in kernels.h). */
enum rounding {
    ROUND_FITTED, /* by the scale that fits each group best */
    ROUND_Q8_0,   /* to blocks of Q8_0, as ggml does */
    N_ROUNDINGS
};

struct format {
    enum scale_kind scales;
    uint16_t block; /* columns of a block in files: 32 or 256 */
    uint8_t sub;    /* columns that share a scale: 16 or 32 */
    bool mins;
    uint8_t base, high; /* bits of a code: those packed first (2, 4, 8), those packed after them (0, 1, 2) */
    uint8_t offset, most;  /* most: the largest q. If it is above 127, offset is 128 */
    const uint8_t *values; /* [16] */
    enum rounding rounding;
};

/* Doubled values of the 4-bit float E2M1, and the levels of IQ4; both plus 128. */
static const uint8_t values_mxfp4[16] = {128, 129, 130, 131, 132, 134, 136, 140,
                                         128, 127, 126, 125, 124, 122, 120, 116};
static const uint8_t values_iq4[16] = {1,   24,  45,  63,  79,  93,  106, 118,
                                       129, 141, 153, 166, 181, 197, 217, 241};

/* What a code of 4 bits stands for before it is scaled, as float32; for EXACT_TYPES. */
static const float floats_q4_0[16] = {-8, -7, -6, -5, -4, -3, -2, -1, 0, 1, 2, 3, 4, 5, 6, 7};
static const float floats_mxfp4[16] = {0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12};

/* clang-format off */
/*                                   scales       block sub  mins base high off most  values       rounding */
static const struct format
    format_q8_0    = {SCALES_F16,     32,  32, false, 8, 0, 128, 255, NULL,        ROUND_Q8_0},
    format_q4_0    = {SCALES_F16,     32,  32, false, 4, 0,   8,  15, NULL,        ROUND_FITTED},
    format_q4_1    = {SCALES_F16,     32,  32, true,  4, 0,   0,  15, NULL,        ROUND_FITTED},
    format_q5_0    = {SCALES_F16,     32,  32, false, 4, 1,  16,  31, NULL,        ROUND_FITTED},
    format_q5_1    = {SCALES_F16,     32,  32, true,  4, 1,   0,  31, NULL,        ROUND_FITTED},
    format_q2_k    = {SCALES_NIBBLES, 256, 16, true,  2, 0,   0,   3, NULL,        ROUND_FITTED},
    format_q3_k    = {SCALES_INT8,    256, 16, false, 2, 1,   4,   7, NULL,        ROUND_FITTED},
    format_q4_k    = {SCALES_INT8,    256, 32, true,  4, 0,   0,  15, NULL,        ROUND_FITTED},
    format_q5_k    = {SCALES_INT8,    256, 32, true,  4, 1,   0,  31, NULL,        ROUND_FITTED},
    format_q6_k    = {SCALES_INT8,    256, 16, false, 4, 2,  32,  63, NULL,        ROUND_FITTED},
    format_iq4_nl  = {SCALES_F16,     32,  32, false, 4, 0, 128, 255, values_iq4,  ROUND_FITTED},
    format_iq4_xs  = {SCALES_INT8,    256, 32, false, 4, 0, 128, 255, values_iq4,  ROUND_FITTED},
    format_mxfp4   = {SCALES_POWER,   32,  32, false, 4, 0, 128, 255, values_mxfp4, ROUND_FITTED},
    format_raw32   = {SCALES_RAW,     256, 32, false, 8, 0, 128, 255, NULL,        ROUND_FITTED},
    format_raw16   = {SCALES_RAW,     256, 16, false, 8, 0, 128, 255, NULL,        ROUND_FITTED};
/* clang-format on */

/* The integer types by name of constants and functions: first those with a packing of their own, then the
 * others. */
#define PACKED_TYPES(X)                                                                                      \
    X(Q8_0, q8_0)                                                                                            \
    X(Q4_0, q4_0)                                                                                            \
    X(Q4_1, q4_1)                                                                                            \
    X(Q5_0, q5_0)                                                                                            \
    X(Q5_1, q5_1)                                                                                            \
    X(Q2_K, q2_k)                                                                                            \
    X(Q3_K, q3_k)                                                                                            \
    X(Q4_K, q4_k)                                                                                            \
    X(Q5_K, q5_k)                                                                                            \
    X(Q6_K, q6_k)                                                                                            \
    X(IQ4_NL, iq4_nl)                                                                                        \
    X(IQ4_XS, iq4_xs)                                                                                        \
    X(MXFP4, mxfp4)
#define RAW_TYPES(X)                                                                                         \
    X(IQ2_XXS, iq2_xxs)                                                                                      \
    X(IQ2_XS, iq2_xs)                                                                                        \
    X(IQ2_S, iq2_s)                                                                                          \
    X(IQ3_XXS, iq3_xxs)                                                                                      \
    X(IQ3_S, iq3_s)                                                                                          \
    X(IQ1_S, iq1_s)                                                                                          \
    X(IQ1_M, iq1_m)                                                                                          \
    X(TQ1_0, tq1_0)                                                                                          \
    X(TQ2_0, tq2_0)                                                                                          \
    X(Q8_K, q8_k)
#define INT8_TYPES(X) PACKED_TYPES(X) RAW_TYPES(X)
/* Those that can also be multiplied without rounding inputs (engine_weight_desc.exact_inputs). Codes have 4
 * bits, blocks 32 columns. */
#define EXACT_TYPES(X)                                                                                       \
    X(Q4_0, q4_0)                                                                                            \
    X(MXFP4, mxfp4)

#endif

/* kernels.h: the arithmetic, one table of functions for each instruction set.
 *
 * Kernels know nothing of tensors, threads or operations: they take plain pointers and counts, and cannot
 * fail. Every table is complete. kernels/scalar-*.c are the reference, plain C; the others are made from the
 * templates kernels/{tiles,unpack,rows,attention}.h over the vectors of kernels/vec-*.h.
 *
 * The order of a sum depends only on the operation's shapes, never on how many tokens or rows a call is
 * given: a token's result is the same to the bit in any batch. */
#ifndef CPU_KERNELS_H
#define CPU_KERNELS_H

#include <stddef.h>
#include <stdint.h>

#include "types.h"

#define QUANTIZE_TRIES 6      /* see quantize */
#define QUANTIZE_LEAST 1e-30F /* groups without a larger value become zeros */
#define QUANTIZE_MAX   8.3e6F /* the scale of groups with a larger value is out of float16's range */
#define TILE_TOKENS    12     /* most tokens that a tile kernel takes at once */
#define SCAN_COLUMNS   32     /* columns of a state that `scan` takes at once */
#define SCAN_KEYS      8      /* its rows that meet all tokens of a piece before the next ones do */
#define TILE_CHUNKS    2      /* most chunks whose tiles a tile kernel takes in one call */

/* Activations for a TILE_INT8 matmul, T tokens interleaved: value = q * scale. */
struct int8_activations {
    int8_t *q;         /* [n / 4][T][4] */
    float *scales;     /* [n / GROUP][T] */
    int32_t *minus[2]; /* negated sums of q: of each group, [n / GROUP][T], and of each half of a group */
};

/* The activations at column `first` (a multiple of GROUP) of token `token`, which begins a set of n_tokens.
 * Sets follow one another; the tokens of a set are interleaved and have k columns each. */
static inline struct int8_activations int8_at(const struct int8_activations *all, size_t k, size_t first,
                                              size_t token, size_t n_tokens)
{
    size_t group = token * (k / GROUP) + first / GROUP * n_tokens;
    return (struct int8_activations){all->q + token * k + first * n_tokens,
                                     all->scales + group,
                                     {all->minus[0] + group, all->minus[1] + 2 * group}};
}

/* Input of int8_tiles: columns first … first + n - 1 of n_tokens tokens in sets (see below); the last
 * set may be smaller. */
struct int8_part {
    struct int8_activations all;
    size_t k, first, n, n_tokens;
};

/* Turns a chunk of n columns into a tile. */
typedef void unpack_function(const struct weight_type *type, const uint8_t *chunk, size_t n,
                             struct tile *tile);
/* sums[t][row] = panel of k columns x a few interleaved tokens: int8 activations or, for one token and
 * TILE_F32, the float32 input itself. The panel is read once, at the speed of memory, and unpacked in
 * registers. `tile` is scratch memory. */
typedef void few_function(const uint8_t *panel, size_t k, const struct int8_activations *activations,
                          const float *input, size_t n_tokens, struct tile *tile, float *sums);

typedef void quantize_function(const float *const *x, size_t n_tokens, size_t n,
                               const struct int8_activations *out);

/* Tokens of one state and SCAN_COLUMNS columns of its head, for `scan`: the formula is that of
 * ENGINE_OP_SCAN. Strides are floats: from token to token, of the state from row to row. */
struct scan_piece {
    size_t n_tokens, key_dim;
    const float *q, *k, *a, *b; /* rows of key_dim; a and b NULL: absent */
    size_t q_stride, k_stride, a_stride, b_stride;
    size_t keys_stride; /* from SCAN_KEYS keys of q and k to the next ones; SCAN_KEYS if there is an a */
    const float *v;     /* [SCAN_COLUMNS, n_tokens] */
    const float *erase; /* [n_tokens]; used with a */
    size_t n_decay;     /* 1, key_dim; 0: there is none, or rates give it */
    const float *decay; /* [n_decay, n_tokens], already exp of it */
    const float *rates; /* [SCAN_COLUMNS, key_dim], or NULL */
    const float *steps; /* [SCAN_COLUMNS, n_tokens]: the decay, with rates */
    const float *bonus; /* [key_dim], or NULL */
    float scale;
    float *state; /* [SCAN_COLUMNS, key_dim] */
    size_t state_stride;
    float *out; /* [SCAN_COLUMNS, n_tokens] */
};

/* The numbers of an activation that takes any, as in engine_op_activate. */
struct curve {
    float limit, alpha, beta, gamma;
};

typedef void rows_function(const uint8_t *from, size_t stride, size_t n_rows, size_t n, float *to,
                           size_t n_padded);

struct kernels {
    const char *name; /* of the instruction set, as in ENGINE_CPU_ISA */
    /* Interleaved tokens of a set for f32_tile and int8_tiles; at most TILE_TOKENS. The last is for types
     * whose tiles are nibbles without mins. */
    size_t f32_tile_tokens, int8_tile_tokens, nibble_tile_tokens;
    size_t int8_few_tokens; /* most tokens of int8 activations that `few` takes; at most int8_tile_tokens */
    size_t int8_panels_at_once; /* 1 or 2: the best number of panels for int8_tiles */

    /* Matmul. */
    unpack_function *unpack[N_WEIGHT_TYPES];
    few_function *few[N_WEIGHT_TYPES]; /* NULL: a few tokens are computed like many */
    /* sums[t][row] += tile x activations [n][n_tokens], over n columns. */
    void (*f32_tile)(const float *x, const float *activations, size_t n, size_t n_tokens, float *sums);
    /* The same for up to int8_panels_at_once panels: sums[panel][t][row] += tiles [chunk][panel] x a part of
     * up to TILE_CHUNKS chunks. */
    void (*int8_tiles)(const struct tile *tiles, size_t n_panels, const struct weight_type *type,
                       const struct int8_part *part, float *const *sums);
    /* Convert n values of each token of a set to int8, with a scale for each GROUP, whose largest value
     * becomes 127.
     * ROUND_FITTED: or one of the QUANTIZE_TRIES - 1 numbers below it if the group rounds better that way,
     * and the scale that fits the rounded values best, which reduces the error by a tenth.
     * ROUND_Q8_0: the scale is the largest value / 127, rounded to float16 within its range.
     * Results go to `out`, interleaved; n is a multiple of GROUP. A group with a NaN or an infinity gets a
     * scale that is none either. */
    quantize_function *quantize[N_ROUNDINGS];

    /* Rows of n values. Outputs may be the same as inputs. */
    void (*add)(const float *a, const float *b, float *out, size_t n);
    void (*mul)(const float *a, const float *b, float *out, size_t n);
    void (*add_number)(const float *a, float b, float *out, size_t n);
    void (*mul_number)(const float *a, float b, float *out, size_t n);
    /* out = activation (of activations.h) of x, times the activation's form of factor (for SWIGLU_CLAMPED
     * and SILU_CLAMPED; otherwise factor itself) unless factor is NULL. curve: NULL is zeros. */
    void (*activate)(uint32_t activation, const struct curve *curve, const float *x, const float *factor,
                     float *out, size_t n);
    /* kind: enum engine_norm_kind; weight and bias may be NULL. */
    void (*norm)(uint32_t kind, float epsilon, const float *x, const float *weight, const float *bias,
                 float *out, size_t n);
    /* Turns pairs: table[i] = cos, table[n_pairs + i] = sin of pair i's angle. */
    void (*rope_adjacent)(const float *x, const float *table, float *out, size_t n_pairs);
    void (*rope_halves)(const float *x, const float *table, float *out, size_t n_pairs);

    /* Converts a row of n values to the cache's types. Q8_0: n is a multiple of 32. */
    void (*f32_to_f16)(const float *from, uint8_t *to, size_t n);
    void (*f32_to_q8_0)(const float *from, uint8_t *to, size_t n);
    /* The reverse: n_rows rows of n values, `stride` bytes apart, become rows of n_padded values, a multiple
     * of PANEL, padded with zeros. */
    rows_function *f32_rows, *f16_rows, *q8_0_rows;

    /* Attention. n (the length of rows of q, keys and values) and all strides are multiples of PANEL; rows
     * are padded with zeros; scratch pointers are aligned to 64 bytes. scores[i][j] = scale * q[i] .
     * keys[j] */
    void (*attention_scores)(const float *q, size_t n_q, const float *keys, size_t n_keys, size_t n,
                             float scale, float *scores, size_t scores_stride);
    /* The same for keys in F16, `stride` bytes apart. */
    void (*attention_scores_f16)(const float *q, size_t n_q, const uint8_t *keys, size_t stride,
                                 size_t n_keys, size_t n, float scale, float *scores, size_t scores_stride);
    /* scores[j] -= slope * (distance - j), n a multiple of PANEL */
    void (*subtract_slope)(float *scores, size_t n, float slope, float distance);
    /* out[j] = sum over i of weights[i] * max(0, rows[i][j]), j < n, a multiple of PANEL */
    void (*sum_positive)(const float *rows, size_t stride, const float *weights, size_t n_rows, size_t n,
                         float *out);
    /* scores[j] = exp(scores[j] - max), n a multiple of PANEL; returns their sum. *max = their maximum, which
     * must not be -infinity. */
    float (*softmax)(float *scores, size_t n, float *max);
    /* out[i] += sum over j of weights[i][j] * values[j] */
    void (*attention_values)(const float *weights, size_t weights_stride, size_t n_q, const float *values,
                             size_t n_values, size_t n, float *out);
    /* The same for values in F16, `stride` bytes apart. */
    void (*attention_values_f16)(const float *weights, size_t weights_stride, size_t n_q,
                                 const uint8_t *values, size_t stride, size_t n_values, size_t n, float *out);
    /* out[r] = sum over s of weights[s] * rows[places[s]][r], rows of PANEL */
    void (*mix)(const float *rows, const uint32_t *places, const float *weights, size_t n, float *out);
    /* out[c] = sum over i < n_rows of weights[i * stride + c] * rows[i][c], c < n. Weights may be read to the
     * end of the last vector. */
    void (*weighted_rows)(const float *const *rows, const float *weights, size_t stride, size_t n_rows,
                          size_t n, float *out);
    void (*scan)(const struct scan_piece *piece);
    /* out[i] = exp(x[i]); out may be x */
    void (*exponentials)(const float *x, float *out, size_t n);
    /* out = out * a + x * b */
    void (*scale_add)(float *out, float a, const float *x, float b, size_t n);
    /* out[i] = sum over j < n_rows of weights[j] * rows[j][i], i < n; n_rows > 0 */
    void (*sum_rows)(const float *const *rows, const float *weights, size_t n_rows, size_t n, float *out);
};

/* The tables that were compiled, in isa.c's order of preference. */
extern const struct kernels kernels_scalar;
/* NULL is the address of those that a build leaves out (ENGINE_CPU_ISAS in CMakeLists.txt). */
#ifdef CPU_X86
extern const struct kernels kernels_avx2 __attribute__((weak)), kernels_avxvnni __attribute__((weak)),
    kernels_avx512 __attribute__((weak)), kernels_avx512vnni __attribute__((weak));
#endif
#ifdef CPU_ARM64
extern const struct kernels kernels_neon __attribute__((weak)), kernels_neondot __attribute__((weak));
#endif

#endif

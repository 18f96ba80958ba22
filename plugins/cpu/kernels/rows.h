/* rows.h: template of the kernels on rows: activations to int8, elementwise operations, norm, rope, the
 * cache's types. Expects vec-*.h, vec.h. Row ends that fill no vector go through a padded copy. */
#include <math.h>
#include <stdbool.h>
#include <string.h>

#include "half.h"
#include "plugin-api.h"

/* ---- Elementwise ----------------------------------------------------------------------------------- */

/* A function NAME(a, b, out, n): out = VF(a, b). */
#define ELEMENTWISE(name, vector_function)                                                                   \
    static void name(const float *a, const float *b, float *out, size_t n)                                   \
    {                                                                                                        \
        size_t i = 0;                                                                                        \
        for (; i + LANES <= n; i += LANES)                                                                   \
            vf_store(out + i, vector_function(vf_load(a + i), vf_load(b + i)));                              \
        if (i < n)                                                                                           \
            vf_store_end(out + i, n - i,                                                                     \
                         vector_function(vf_load_end(a + i, n - i), vf_load_end(b + i, n - i)));             \
    }

ELEMENTWISE(add, vf_add)
ELEMENTWISE(mul, vf_mul)
/* A function NAME(a, b, out, n): out = VF(a, b), b being one number. */
#define WITH_NUMBER(name, vector_function)                                                                   \
    static void name(const float *a, float b, float *out, size_t n)                                          \
    {                                                                                                        \
        vf number = vf_set1(b);                                                                              \
        size_t i = 0;                                                                                        \
        for (; i + LANES <= n; i += LANES) vf_store(out + i, vector_function(vf_load(a + i), number));       \
        if (i < n) vf_store_end(out + i, n - i, vector_function(vf_load_end(a + i, n - i), number));         \
    }

WITH_NUMBER(add_number, vf_add)
WITH_NUMBER(mul_number, vf_mul)

static void mix(const float *rows, const uint32_t *places, const float *weights, size_t n, float *out)
{
    for (size_t part = 0; part < PANEL; part += LANES) {
        vf sum = vf_zero();
        for (size_t s = 0; s < n; s++)
            sum = vf_fma(vf_load(rows + places[s] * PANEL + part), vf_set1(weights[s]), sum);
        vf_store(out + part, sum);
    }
}

static void scale_add(float *out, float a, const float *x, float b, size_t n)
{
    for (size_t i = 0; i < n; i += LANES)
        vf_store(out + i, vf_fma(vf_load(x + i), vf_set1(b), vf_mul(vf_load(out + i), vf_set1(a))));
}

static void sum_rows(const float *const *rows, const float *weights, size_t n_rows, size_t n, float *out)
{
    size_t i = 0;
    for (; i + LANES <= n; i += LANES) {
        vf sum = vf_mul(vf_load(rows[0] + i), vf_set1(weights[0]));
        for (size_t j = 1; j < n_rows; j++) sum = vf_fma(vf_load(rows[j] + i), vf_set1(weights[j]), sum);
        vf_store(out + i, sum);
    }
    if (i == n) return;
    vf sum = vf_mul(vf_load_end(rows[0] + i, n - i), vf_set1(weights[0]));
    for (size_t j = 1; j < n_rows; j++)
        sum = vf_fma(vf_load_end(rows[j] + i, n - i), vf_set1(weights[j]), sum);
    vf_store_end(out + i, n - i, sum);
}

/* ---- Norm ------------------------------------------------------------------------------------------ */

static float sum_of_squares(const float *x, size_t n)
{
    enum { ROWS = 2 }; /* virtual vectors summed at once */
    vf sum[ROWS * PARTS];
    UNROLL for (size_t p = 0; p < ROWS * PARTS; p++) sum[p] = vf_zero();
    size_t i = 0;
    for (; i + ROWS * PANEL <= n; i += ROWS * PANEL) UNROLL for (size_t p = 0; p < ROWS * PARTS; p++)
        {
            vf v = vf_load(x + i + p * LANES);
            sum[p] = vf_fma(v, v, sum[p]);
        }
    for (size_t p = 0; i < n; p++, i += LANES) {
        vf v = n - i < LANES ? vf_load_end(x + i, n - i) : vf_load(x + i);
        sum[p] = vf_fma(v, v, sum[p]);
    }
    UNROLL for (size_t p = 0; p < PARTS; p++) sum[p] = vf_add(sum[p], sum[PARTS + p]);
    return vec_sum(sum);
}

/* Sums of x - middle and of its square. */
static void sum_differences(const float *x, size_t n, float middle, float *sum, float *squares)
{
    vf sums[PARTS], square_sums[PARTS], from = vf_set1(middle);
    float middles[LANES];
    vf_store(middles, from);
    UNROLL for (size_t p = 0; p < PARTS; p++) sums[p] = square_sums[p] = vf_zero();
    size_t i = 0;
    for (; i + PANEL <= n; i += PANEL) UNROLL for (size_t p = 0; p < PARTS; p++)
        {
            vf v = vf_sub(vf_load(x + i + p * LANES), from);
            sums[p] = vf_add(sums[p], v);
            square_sums[p] = vf_fma(v, v, square_sums[p]);
        }
    for (size_t p = 0; i < n; p++, i += LANES) {
        bool end = n - i < LANES;
        vf v = end ? vf_sub(vf_load_end(x + i, n - i), vf_load_end(middles, n - i))
                   : vf_sub(vf_load(x + i), from);
        sums[p] = vf_add(sums[p], v);
        square_sums[p] = vf_fma(v, v, square_sums[p]);
    }
    *sum = vec_sum(sums);
    *squares = vec_sum(square_sums);
}

/* A row's mean and variance, in two passes; the second also corrects the rounding error of the first one's
 * mean (Chan, Golub, LeVeque: Algorithms for computing the sample variance, 1983). */
static void mean_and_variance(const float *x, size_t n, float *mean, float *variance)
{
    float sum, squares, count = (float)n;
    sum_differences(x, n, 0, &sum, &squares);
    float first = sum / count;
    sum_differences(x, n, first, &sum, &squares);
    float rest = sum / count;
    *mean = first + rest;
    *variance = fmaxf(squares / count - rest * rest, 0);
}

static void norm(uint32_t kind, float epsilon, const float *x, const float *weight, const float *bias,
                 float *out, size_t n)
{
    float mean = 0, variance;
    if (kind == ENGINE_NORM_LAYER)
        mean_and_variance(x, n, &mean, &variance);
    else
        variance = sum_of_squares(x, n) / (float)n;
    float scale = 1 / sqrtf(variance + epsilon);
    vf m = vf_set1(mean), s = vf_set1(scale);
    size_t i = 0;
    for (; i + LANES <= n; i += LANES) {
        vf v = vf_mul(vf_sub(vf_load(x + i), m), s);
        if (weight) v = vf_mul(v, vf_load(weight + i));
        vf_store(out + i, bias ? vf_add(v, vf_load(bias + i)) : v);
    }
    for (; i < n; i++) {
        float v = (x[i] - mean) * scale * (weight ? weight[i] : 1);
        out[i] = bias ? v + bias[i] : v;
    }
}

/* ---- Rope: the compiler's vectors do ----------------------------------------------------------------- */

static void rope_adjacent(const float *x, const float *table, float *out, size_t n_pairs)
{
    for (size_t i = 0; i < n_pairs; i++) {
        float c = table[i], s = table[n_pairs + i], a = x[2 * i], b = x[2 * i + 1];
        out[2 * i] = a * c - b * s;
        out[2 * i + 1] = a * s + b * c;
    }
}

static void rope_halves(const float *x, const float *table, float *out, size_t n_pairs)
{
    for (size_t i = 0; i < n_pairs; i++) {
        float c = table[i], s = table[n_pairs + i], a = x[i], b = x[n_pairs + i];
        out[i] = a * c - b * s;
        out[n_pairs + i] = a * s + b * c;
    }
}

/* ---- Activations to int8 --------------------------------------------------------------------------- */

/* A lane is a group of activations: LANES of them at once, columns[i] their values number i. */
struct groups {
    vf columns[GROUP];
};

static inline void load_groups(const float *x, struct groups *groups)
{
    for (size_t first = 0; first < GROUP; first += LANES) {
        vf *square = groups->columns + first;
        UNROLL for (size_t g = 0; g < LANES; g++) square[g] = vf_load(x + g * GROUP + first);
        vec_transpose(square);
    }
}

/* Rounds to whole numbers at x * inverse; *product = sum of x * q, *square = sum of q^2. The scale that fits
 * q best is product / square; it reduces the sum of x^2 by product^2 / square. */
static inline void round_groups(const struct groups *groups, vf inverse, vf *product, vf *square)
{
    vf products[4], squares[4];
    UNROLL for (size_t c = 0; c < 4; c++) products[c] = squares[c] = vf_zero();
    UNROLL for (size_t i = 0; i < GROUP; i++)
    {
        vf x = groups->columns[i], q = vf_round(vf_mul(x, inverse));
        products[i % 4] = vf_fma(x, q, products[i % 4]);
        squares[i % 4] = vf_fma(q, q, squares[i % 4]);
    }
    *product = vf_add(vf_add(products[0], products[1]), vf_add(products[2], products[3]));
    *square = vf_add(vf_add(squares[0], squares[1]), vf_add(squares[2], squares[3]));
}

/* These give the scale of each group, and the number to multiply values with before they become whole; max
 * is the largest value. A NaN gives a NaN scale. */
static inline vf fit_groups(const struct groups *groups, vf max, vf *best_inverse)
{
    vf best = vf_set1(-1), scale = vf_zero(), one = vf_div(vf_set1(1), max);
    for (float top = 127; top > 127 - QUANTIZE_TRIES; top--) {
        vf inverse = vf_mul(one, vf_set1(top)), product, square;
        round_groups(groups, inverse, &product, &square);
        vf ratio = vf_div(product, square), score = vf_mul(ratio, product); /* larger means a smaller error */
        scale = vf_if_above(score, best, ratio, scale);
        *best_inverse = vf_if_above(score, best, inverse, *best_inverse);
        best = vf_if_above(score, best, score, best);
    }
    return scale;
}

static inline vf scale_groups_as_q8_0(const struct groups *groups, vf max, vf *inverse)
{
    *inverse = vf_div(vf_set1(127), max);
    vf scale = vf_div(max, vf_set1(127)), number = vf_zero(); /* or NaN */
    UNROLL for (size_t i = 0; i < GROUP; i++) number = vf_fma(groups->columns[i], vf_zero(), number);
    uint8_t half[2 * LANES];
    vf_to_f16(half, scale);
    return vf_add(vf_if_above(max, vf_set1(QUANTIZE_MAX), scale, vf_from_f16(half)), number);
}

/* LANES groups of each token of a set, rounded: a vector for each place that the groups take in a set. */
struct rounded {
    vf q[GROUP / 4 * TILE_TOKENS]; /* [GROUP / 4][n_tokens], four bytes in a lane */
    vf scales[TILE_TOKENS];
    vf minus[2][2 * TILE_TOKENS]; /* [n_tokens], [2][n_tokens], int32 */
};

/* Token number t. */
static inline void round_token(const float *x, enum rounding rounding, size_t n_tokens, size_t t,
                               struct rounded *to)
{
    struct groups groups;
    load_groups(x, &groups);
    vf max = vf_zero(), inverse = vf_zero();
    UNROLL for (size_t i = 0; i < GROUP; i++) max = vf_max(vf_abs(groups.columns[i]), max);
    vf scale = rounding == ROUND_FITTED ? fit_groups(&groups, max, &inverse)
                                        : scale_groups_as_q8_0(&groups, max, &inverse);
    const vf least = vf_set1(QUANTIZE_LEAST);
    inverse = vf_if_above(max, least, inverse, vf_zero());
    to->scales[t] = vf_if_above(max, least, scale, vf_zero());
    const vf limit = vf_set1(127.0F * GROUP * 0.5F); /* of a half's sum */
    vi minus[2];
    UNROLL for (size_t half = 0; half < 2; half++)
    {
        vi sum = vi_zero();
        UNROLL for (size_t i = half * GROUP / 2; i < (half + 1) * GROUP / 2; i += 4)
        {
            vi q[4];
            UNROLL for (size_t c = 0; c < 4; c++)
            {
                q[c] = vi_from_vf(vf_mul(groups.columns[i + c], inverse));
                sum = vi_add(sum, q[c]);
            }
            to->q[i / 4 * n_tokens + t] = vi_as_vf(vi_bytes(q));
        }
        /* A NaN became some integer: its sum must be one that can be multiplied. */
        vf within = vf_max(vf_min(vi_to_vf(sum), limit), vf_sub(vf_zero(), limit));
        minus[half] = vi_from_vf(vf_sub(vf_zero(), within));
        to->minus[1][half * n_tokens + t] = vi_as_vf(minus[half]);
    }
    to->minus[0][t] = vi_as_vf(vi_add(minus[0], minus[1]));
}

/* to[lane][i] = lane of from[i], for n_lanes lanes and i < n; all of 4 bytes. */
static inline void interleave(const vf *from, size_t n, size_t n_lanes, void *to)
{
    float *out = to;
    if (n == 1) {
        memcpy(out, from, n_lanes * sizeof *out);
        return;
    }
    for (size_t i = 0; i < n; i += LANES) {
        vf square[LANES];
        size_t n_here = smaller(LANES, n - i);
        UNROLL for (size_t j = 0; j < LANES; j++) square[j] = j < n_here ? from[i + j] : vf_zero();
        vec_transpose(square);
        for (size_t lane = 0; lane < n_lanes; lane++)
            if (n_here == LANES)
                vf_store(out + lane * n + i, square[lane]);
            else
                vf_store_end(out + lane * n + i, n_here, square[lane]);
    }
}

static inline void quantize(const float *const *x, size_t n_tokens, size_t n, enum rounding rounding,
                            const struct int8_activations *out)
{
    struct rounded rounded;
    struct int8_activations at = *out;
    for (size_t first = 0; first < n; first += LANES * GROUP) {
        size_t n_groups = smaller(LANES, (n - first) / GROUP);
        for (size_t t = 0; t < n_tokens; t++) {
            const float *from = x[t] + first;
            float padded[LANES * GROUP];
            if (n_groups < LANES) {
                memset(padded, 0, sizeof padded);
                from = memcpy(padded, from, n_groups * GROUP * sizeof *from);
            }
            round_token(from, rounding, n_tokens, t, &rounded);
        }
        interleave(rounded.q, GROUP / 4 * n_tokens, n_groups, at.q);
        interleave(rounded.scales, n_tokens, n_groups, at.scales);
        at.q += LANES * GROUP * n_tokens;
        at.scales += LANES * n_tokens;
        for (size_t i = 0; i < 2; i++) {
            interleave(rounded.minus[i], (i + 1) * n_tokens, n_groups, at.minus[i]);
            at.minus[i] += (i + 1) * LANES * n_tokens;
        }
    }
}

static void quantize_fitted(const float *const *x, size_t n_tokens, size_t n,
                            const struct int8_activations *out)
{
    quantize(x, n_tokens, n, ROUND_FITTED, out);
}

static void quantize_q8_0(const float *const *x, size_t n_tokens, size_t n,
                          const struct int8_activations *out)
{
    quantize(x, n_tokens, n, ROUND_Q8_0, out);
}

/* ---- The cache's types ----------------------------------------------------------------------------- */

static void row_f32_to_f16(const float *from, uint8_t *to, size_t n)
{
    size_t i = 0;
    for (; i + LANES <= n; i += LANES) vf_to_f16(to + 2 * i, vf_load(from + i));
    for (; i < n; i++) store_u16(to + 2 * i, engine_f32_to_f16(from[i]));
}

/* The functions of cache rows: WHOLE(from) gives LANES values, END(from, n) n of them; SIZE bytes each. */
#define ROWS(name, size, whole, end)                                                                         \
    static void name(const uint8_t *from, size_t stride, size_t n_rows, size_t n, float *to,                 \
                     size_t n_padded)                                                                        \
    {                                                                                                        \
        for (size_t j = 0; j < n_rows; j++, from += stride, to += n_padded) {                                \
            size_t i = 0;                                                                                    \
            for (; i + LANES <= n; i += LANES) vf_store(to + i, whole(from + i * (size)));                   \
            if (i < n) vf_store(to + i, end(from + i * (size), n - i)), i += LANES;                          \
            for (; i < n_padded; i += LANES) vf_store(to + i, vf_zero());                                    \
        }                                                                                                    \
    }

static inline vf f32_whole(const uint8_t *from)
{
    return vf_load((const float *)(const void *)from);
}

static inline vf f32_end(const uint8_t *from, size_t n)
{
    return vf_load_end((const float *)(const void *)from, n);
}

ROWS(f32_rows, 4, f32_whole, f32_end)
ROWS(f16_rows, 2, vf_from_f16, vf_from_f16_end)
#undef ROWS

static void q8_0_rows(const uint8_t *from, size_t stride, size_t n_rows, size_t n, float *to, size_t n_padded)
{
    for (size_t j = 0; j < n_rows; j++, from += stride, to += n_padded) {
        const uint8_t *block = from;
        for (size_t first = 0; first < n; first += 32, block += 34) {
            vf d = vf_set1(engine_load_f16(block));
            UNROLL for (size_t i = 0; i < 32; i += LANES)
                vf_store(to + first + i, vf_mul(d, vf_from_i8(block + 2 + i)));
        }
        for (size_t i = n; i < n_padded; i += LANES) vf_store(to + i, vf_zero());
    }
}

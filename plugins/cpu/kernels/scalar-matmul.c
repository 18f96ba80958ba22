/* scalar-matmul.c: the matmul kernels in plain C, the reference for all others. */
#include <math.h>
#include <string.h>

#include "plugin-types.h"
#include "scalar.h"

void scalar_f32_tile(const float *x, const float *activations, size_t n, size_t n_tokens, float *sums)
{
    for (size_t t = 0; t < n_tokens; t++) {
        float sum[PANEL] = {0};
        for (size_t i = 0; i < n; i++)
            for (size_t r = 0; r < PANEL; r++) sum[r] += x[i * PANEL + r] * activations[i * n_tokens + t];
        for (size_t r = 0; r < PANEL; r++) sums[t * PANEL + r] += sum[r];
    }
}

/* The integer sums over a tile's columns first … first + n - 1, for one token and all rows. */
static void integer_sums(const uint8_t *q, const int8_t *activations, size_t n_tokens, size_t first, size_t n,
                         int32_t sum[PANEL])
{
    for (size_t i = first; i < first + n; i++)
        for (size_t r = 0; r < PANEL; r++)
            sum[r] += q[(i / 4 * PANEL + r) * 4 + i % 4] * activations[i / 4 * n_tokens * 4 + i % 4];
}

/* A chunk of n columns. */
static void int8_tile(const struct tile *tile, const struct format *format,
                      const struct int8_activations *activations, size_t n, size_t n_tokens, float *sums)
{
    size_t sub = format->sub, half = sub < GROUP;
    for (size_t s = 0; s < n / sub; s++)
        for (size_t t = 0; t < n_tokens; t++) {
            int32_t minus = activations->minus[half][s * n_tokens + t], sum[PANEL] = {0};
            float scale = activations->scales[s * sub / GROUP * n_tokens + t];
            integer_sums(tile->q, activations->q + t * 4, n_tokens, s * sub, sub, sum);
            for (size_t r = 0; r < PANEL; r++) {
                float product =
                    (float)(sum[r] + format->offset * minus) * tile->scales[s * PANEL + r] * scale;
                if (tile->mins) product += tile->mins[s * PANEL + r] * -(float)minus * scale;
                sums[t * PANEL + r] += product;
            }
        }
}

void scalar_int8_tiles(const struct tile *tiles, size_t n_panels, const struct weight_type *type,
                       const struct int8_part *part, float *const *sums)
{
    (void)n_panels; /* 1 */
    for (size_t t = 0, n_beside; t < part->n_tokens; t += n_beside) {
        n_beside = smaller(SCALAR_TILE_TOKENS, part->n_tokens - t);
        for (size_t i = 0; i < part->n; i += CHUNK) {
            struct int8_activations at = int8_at(&part->all, part->k, part->first + i, t, n_beside);
            int8_tile(&tiles[i / CHUNK], type->format, &at, smaller(CHUNK, part->n - i), n_beside,
                      sums[0] + t * PANEL);
        }
    }
}

/* Rounds a group at x * inverse, and fits the scale to the result by least squares. Returns the reduction of
 * the sum of squares: larger is better. The order of the sums is that of rows.h, so that all instruction sets
 * choose the same. */
static float round_group(const float *x, float inverse, int8_t q[GROUP], float *scale)
{
    float products[4] = {0}, squares[4] = {0};
    for (size_t i = 0; i < GROUP; i++) {
        float rounded = rintf(x[i] * inverse);
        q[i] = rounded >= -127 && rounded <= 127 ? (int8_t)rounded : 0; /* x may be no number */
        products[i % 4] = fmaf(x[i], rounded, products[i % 4]);
        squares[i % 4] = fmaf(rounded, rounded, squares[i % 4]);
    }
    float product = (products[0] + products[1]) + (products[2] + products[3]);
    *scale = product / ((squares[0] + squares[1]) + (squares[2] + squares[3]));
    return *scale * product;
}

/* These round a group, whose largest value is max, and return its scale. */
static float round_fitted(const float *x, float max, int8_t best[GROUP])
{
    float best_scale = 0, best_score = -1, scale;
    int8_t q[GROUP];
    for (float top = 127; top > 127 - QUANTIZE_TRIES; top--) {
        float score = round_group(x, 1 / max * top, q, &scale);
        if (score <= best_score) continue; /* NaN is kept */
        best_score = score;
        best_scale = scale;
        memcpy(best, q, GROUP);
    }
    return best_scale;
}

static float round_q8_0(const float *x, float max, int8_t q[GROUP])
{
    float unused, scale = max / 127, number = 0; /* or NaN */
    round_group(x, 127 / max, q, &unused);
    for (size_t i = 0; i < GROUP; i++) number = fmaf(x[i], 0, number);
    return (max > QUANTIZE_MAX ? scale : engine_f16_to_f32(engine_f32_to_f16(scale))) + number;
}

typedef float round_function(const float *x, float max, int8_t q[GROUP]);

static void quantize_token(const float *x, size_t n, size_t step, const struct int8_activations *out,
                           round_function *round)
{
    for (size_t g = 0; g < n / GROUP; g++, x += GROUP) {
        int8_t q[GROUP] = {0};
        float max = 0;
        for (size_t i = 0; i < GROUP; i++) max = fmaxf(max, fabsf(x[i]));
        out->scales[g * step] = max <= QUANTIZE_LEAST ? 0 : round(x, max, q);
        for (size_t i = 0; i < GROUP; i++) out->q[((g * GROUP + i) / 4 * step) * 4 + i % 4] = q[i];
        int32_t halves[2] = {0};
        for (size_t i = 0; i < GROUP; i++) halves[i / (GROUP / 2)] += q[i];
        out->minus[0][g * step] = -(halves[0] + halves[1]);
        for (size_t i = 0; i < 2; i++) out->minus[1][(2 * g + i) * step] = -halves[i];
    }
}

static void quantize(const float *const *x, size_t n_tokens, size_t n, const struct int8_activations *out,
                     round_function *round)
{
    for (size_t t = 0; t < n_tokens; t++) {
        const struct int8_activations token = {
            out->q + 4 * t, out->scales + t, {out->minus[0] + t, out->minus[1] + t}};
        quantize_token(x[t], n, n_tokens, &token, round);
    }
}

void scalar_quantize_fitted(const float *const *x, size_t n_tokens, size_t n,
                            const struct int8_activations *out)
{
    quantize(x, n_tokens, n, out, round_fitted);
}

void scalar_quantize_q8_0(const float *const *x, size_t n_tokens, size_t n,
                          const struct int8_activations *out)
{
    quantize(x, n_tokens, n, out, round_q8_0);
}

/* scalar.c: rows, cache and attention in plain C, and the table of the scalar kernels. */
#include "scalar.h"

#include <math.h>
#include <string.h>

#include "half.h"
#include "plugin-api.h"

static void add(const float *a, const float *b, float *out, size_t n)
{
    for (size_t i = 0; i < n; i++) out[i] = a[i] + b[i];
}

static void mul(const float *a, const float *b, float *out, size_t n)
{
    for (size_t i = 0; i < n; i++) out[i] = a[i] * b[i];
}

static void add_number(const float *a, float b, float *out, size_t n)
{
    for (size_t i = 0; i < n; i++) out[i] = a[i] + b;
}

static void mul_number(const float *a, float b, float *out, size_t n)
{
    for (size_t i = 0; i < n; i++) out[i] = a[i] * b;
}

static void norm(uint32_t kind, float epsilon, const float *x, const float *weight, const float *bias,
                 float *out, size_t n)
{
    double mean = 0, squares = 0;
    if (kind == ENGINE_NORM_LAYER) {
        for (size_t i = 0; i < n; i++) mean += (double)x[i];
        mean /= (double)n;
    }
    for (size_t i = 0; i < n; i++) squares += ((double)x[i] - mean) * ((double)x[i] - mean);
    double scale = 1 / sqrt(squares / (double)n + (double)epsilon);
    for (size_t i = 0; i < n; i++) {
        float v = (float)(((double)x[i] - mean) * scale) * (weight ? weight[i] : 1);
        out[i] = bias ? v + bias[i] : v;
    }
}

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

static void row_f32_to_f16(const float *from, uint8_t *to, size_t n)
{
    for (size_t i = 0; i < n; i++) store_u16(to + 2 * i, engine_f32_to_f16(from[i]));
}

void scalar_f32_to_q8_0(const float *from, uint8_t *to, size_t n)
{
    for (size_t b = 0; b < n / 32; b++, from += 32, to += 34) {
        float max = 0;
        for (size_t i = 0; i < 32; i++) max = fmaxf(max, fabsf(from[i]));
        float inverse = max > 0 ? 127 / max : 0;
        store_u16(to, engine_f32_to_f16(max / 127));
        for (size_t i = 0; i < 32; i++) {
            float scaled = fminf(fmaxf(from[i] * inverse, -127), 127); /* also where it is no number */
            to[2 + i] = (uint8_t)(int8_t)roundf(scaled);
        }
    }
}

static float f32_value(const uint8_t *row, size_t i)
{
    float value;
    memcpy(&value, row + i * sizeof value, sizeof value);
    return value;
}

static float f16_value(const uint8_t *row, size_t i)
{
    return engine_load_f16(row + 2 * i);
}

static float q8_0_value(const uint8_t *row, size_t i)
{
    const uint8_t *block = row + i / 32 * 34;
    return engine_load_f16(block) * (float)(int8_t)block[2 + i % 32];
}

/* The three functions of cache rows. */
#define ROWS(name, value)                                                                                    \
    static void name(const uint8_t *from, size_t stride, size_t n_rows, size_t n, float *to,                 \
                     size_t n_padded)                                                                        \
    {                                                                                                        \
        for (size_t j = 0; j < n_rows; j++, from += stride, to += n_padded)                                  \
            for (size_t i = 0; i < n_padded; i++) to[i] = i < n ? value(from, i) : 0;                        \
    }
ROWS(f32_rows, f32_value)
ROWS(f16_rows, f16_value)
ROWS(q8_0_rows, q8_0_value)
#undef ROWS

static void attention_scores(const float *q, size_t n_q, const float *keys, size_t n_keys, size_t n,
                             float scale, float *scores, size_t scores_stride)
{
    for (size_t i = 0; i < n_q; i++)
        for (size_t j = 0; j < n_keys; j++) {
            float lanes[PANEL] = {0}, sum = 0;
            for (size_t d = 0; d < n; d++) lanes[d % PANEL] += q[i * n + d] * keys[j * n + d];
            for (size_t d = 0; d < PANEL; d++) sum += lanes[d];
            scores[i * scores_stride + j] = sum * scale;
        }
}

static void attention_scores_f16(const float *q, size_t n_q, const uint8_t *keys, size_t stride,
                                 size_t n_keys, size_t n, float scale, float *scores, size_t scores_stride)
{
    for (size_t i = 0; i < n_q; i++)
        for (size_t j = 0; j < n_keys; j++) {
            float lanes[PANEL] = {0}, sum = 0;
            for (size_t d = 0; d < n; d++)
                lanes[d % PANEL] += q[i * n + d] * engine_load_f16(keys + j * stride + 2 * d);
            for (size_t d = 0; d < PANEL; d++) sum += lanes[d];
            scores[i * scores_stride + j] = sum * scale;
        }
}

static void subtract_slope(float *scores, size_t n, float slope, float distance)
{
    for (size_t j = 0; j < n; j++) scores[j] -= slope * fabsf(distance - (float)j);
}

static float softmax(float *scores, size_t n, float *max)
{
    float lanes[PANEL] = {0}, sum = 0;
    *max = -INFINITY;
    for (size_t j = 0; j < n; j++) *max = fmaxf(*max, scores[j]);
    for (size_t j = 0; j < n; j++) {
        scores[j] = expf(scores[j] - *max);
        lanes[j % PANEL] += scores[j];
    }
    for (size_t j = 0; j < PANEL; j++) sum += lanes[j];
    return sum;
}

static void attention_values(const float *weights, size_t weights_stride, size_t n_q, const float *values,
                             size_t n_values, size_t n, float *out)
{
    for (size_t i = 0; i < n_q; i++)
        for (size_t j = 0; j < n_values; j++)
            for (size_t d = 0; d < n; d++)
                out[i * n + d] += weights[i * weights_stride + j] * values[j * n + d];
}

static void attention_values_f16(const float *weights, size_t weights_stride, size_t n_q,
                                 const uint8_t *values, size_t stride, size_t n_values, size_t n, float *out)
{
    for (size_t i = 0; i < n_q; i++)
        for (size_t j = 0; j < n_values; j++)
            for (size_t d = 0; d < n; d++)
                out[i * n + d] +=
                    weights[i * weights_stride + j] * engine_load_f16(values + j * stride + 2 * d);
}

static void sum_positive(const float *rows, size_t stride, const float *weights, size_t n_rows, size_t n,
                         float *out)
{
    for (size_t j = 0; j < n; j++) {
        out[j] = 0;
        for (size_t i = 0; i < n_rows; i++)
            out[j] += weights[i] * (rows[i * stride + j] > 0 ? rows[i * stride + j] : 0);
    }
}

static void mix(const float *rows, const uint32_t *places, const float *weights, size_t n, float *out)
{
    float sums[PANEL] = {0};
    for (size_t s = 0; s < n; s++)
        for (size_t r = 0; r < PANEL; r++) sums[r] += weights[s] * rows[places[s] * PANEL + r];
    memcpy(out, sums, sizeof sums);
}

static void weighted_rows(const float *const *rows, const float *weights, size_t stride, size_t n_rows,
                          size_t n, float *out)
{
    for (size_t c = 0; c < n; c++) {
        float sum = 0;
        for (size_t i = 0; i < n_rows; i++) sum += rows[i][c] * weights[i * stride + c];
        out[c] = sum;
    }
}

static void exponentials(const float *x, float *out, size_t n)
{
    for (size_t i = 0; i < n; i++) out[i] = expf(x[i]);
}

static float scan_decay(const struct scan_piece *x, size_t t, size_t i, size_t j)
{
    if (x->rates) return expf(x->rates[i * SCAN_COLUMNS + j] * x->steps[t * SCAN_COLUMNS + j]);
    if (x->n_decay == 0) return 1;
    return x->decay[x->n_decay == 1 ? t : t * x->key_dim + i];
}

static void scan(const struct scan_piece *x)
{
    for (size_t t = 0; t < x->n_tokens; t++)
        for (size_t j = 0; j < SCAN_COLUMNS; j++) {
            const float *k = x->k + t * x->k_stride, *q = x->q + t * x->q_stride;
            float erased = 0, sum = 0, v = x->v[t * SCAN_COLUMNS + j];
            for (size_t i = 0; i < x->key_dim && x->a; i++)
                erased += x->a[t * x->a_stride + i] * x->state[i * x->state_stride + j];
            for (size_t i = 0; i < x->key_dim; i++) {
                float *s = &x->state[i * x->state_stride + j], before = *s;
                const size_t at = i / SCAN_KEYS * x->keys_stride + i % SCAN_KEYS;
                *s = scan_decay(x, t, i, j) * before + k[at] * v;
                if (x->a) *s += x->b[t * x->b_stride + i] * erased * x->erase[t];
                sum += q[at] * (x->bonus ? before + x->bonus[i] * k[at] * v : *s);
            }
            x->out[t * SCAN_COLUMNS + j] = sum * x->scale;
        }
}

static void sum_rows(const float *const *rows, const float *weights, size_t n_rows, size_t n, float *out)
{
    for (size_t i = 0; i < n; i++) {
        float sum = weights[0] * rows[0][i];
        for (size_t j = 1; j < n_rows; j++) sum += weights[j] * rows[j][i];
        out[i] = sum;
    }
}

static void scale_add(float *out, float a, const float *x, float b, size_t n)
{
    for (size_t i = 0; i < n; i++) out[i] = out[i] * a + x[i] * b;
}

const struct kernels kernels_scalar = {
    .name = "scalar",
    .f32_tile_tokens = SCALAR_TILE_TOKENS,
    .int8_tile_tokens = SCALAR_TILE_TOKENS,
    .nibble_tile_tokens = SCALAR_TILE_TOKENS,
    .unpack = {[WEIGHT_F32] = scalar_unpack_f32,
               [WEIGHT_F16] = scalar_unpack_f16,
               [WEIGHT_BF16] = scalar_unpack_bf16,
#define X(NAME, name) [WEIGHT_##NAME] = scalar_unpack_int8,
               INT8_TYPES(X)
#undef X
#define X(NAME, name) [WEIGHT_##NAME##_EXACT] = scalar_unpack_exact,
                   EXACT_TYPES(X)
#undef X
    },
    .f32_tile = scalar_f32_tile,
    .int8_panels_at_once = 1,
    .int8_tiles = scalar_int8_tiles,
    .quantize = {[ROUND_FITTED] = scalar_quantize_fitted, [ROUND_Q8_0] = scalar_quantize_q8_0},
    .add = add,
    .mul = mul,
    .add_number = add_number,
    .mul_number = mul_number,
    .activate = scalar_activate,
    .norm = norm,
    .rope_adjacent = rope_adjacent,
    .rope_halves = rope_halves,
    .f32_to_f16 = row_f32_to_f16,
    .f32_to_q8_0 = scalar_f32_to_q8_0,
    .f32_rows = f32_rows,
    .f16_rows = f16_rows,
    .q8_0_rows = q8_0_rows,
    .attention_scores = attention_scores,
    .attention_scores_f16 = attention_scores_f16,
    .subtract_slope = subtract_slope,
    .sum_positive = sum_positive,
    .softmax = softmax,
    .attention_values = attention_values,
    .attention_values_f16 = attention_values_f16,
    .mix = mix,
    .weighted_rows = weighted_rows,
    .scan = scan,
    .exponentials = exponentials,
    .scale_add = scale_add,
    .sum_rows = sum_rows,
};

/* simd.h: all kernels over vectors of the compiler (GCC's and Clang's vector extensions), a template: avx2.c, avx512.c and
 * their VNNI forms include it after they have defined
 *
 *   LANES                  float32 values in a vector: 8 or 16
 *   TABLE, NAME            the table to define, and its name for ENGINE_CPU_ISA
 *   F32_TOKENS, INT8_TOKENS  tokens beside each other, as many as sums fit into registers
 *   dot4(sum, q, x)        32-bit lanes: sum + the four products of unsigned bytes of q and signed bytes of x
 *   load_f16(p), store_f16(p, v)   LANES halves to floats and back
 *   add_lanes(v)           the sum of the lanes
 *
 * Sums run over columns in the same order however many tokens there are. */
#include <immintrin.h>
#include <math.h>
#include <string.h>

#include "half.h"
#include "scalar.h"

#define ALWAYS_INLINE static inline __attribute__((always_inline))
#define PARTS         (PANEL / LANES) /* vectors that hold a column of a panel */

typedef float floats __attribute__((vector_size(LANES * 4)));
typedef int32_t ints __attribute__((vector_size(LANES * 4)));
typedef uint32_t words __attribute__((vector_size(LANES * 4)));

ALWAYS_INLINE floats load_f32(const float *from)
{
    floats v;
    memcpy(&v, from, sizeof v);
    return v;
}

ALWAYS_INLINE void store_f32(float *to, floats v)
{
    memcpy(to, &v, sizeof v);
}

ALWAYS_INLINE ints load_i32(const void *from)
{
    ints v;
    memcpy(&v, from, sizeof v);
    return v;
}

ALWAYS_INLINE floats all_f32(float x)
{
    return x - (floats){0};
}

ALWAYS_INLINE ints all_i32(int32_t x)
{
    return x - (ints){0};
}

ALWAYS_INLINE floats to_float(ints v)
{
    return __builtin_convertvector(v, floats);
}

ALWAYS_INLINE floats choose(ints mask, floats yes, floats no)
{
    return (floats)((mask & (ints)yes) | (~mask & (ints)no));
}

/* The first n values, zeros behind them; and the way back. */
ALWAYS_INLINE floats load_some(const float *from, size_t n)
{
    floats v = {0};
    memcpy(&v, from, n * sizeof(float));
    return v;
}

ALWAYS_INLINE void store_some(float *to, floats v, size_t n)
{
    memcpy(to, &v, n * sizeof(float));
}

/* exp by 2^n * e^r with |r| <= ln(2) / 2, and a polynomial for e^r (Cephes' expf); within 2 units in the last place. */
ALWAYS_INLINE floats exp_f32(floats x)
{
    floats most = all_f32(88.0f), least = all_f32(-87.3f);
    x = choose(x > most, most, x);
    floats underflow = choose(x < least, least, x);
    floats shifter = all_f32(0x1.8p23f); /* adding it rounds to a whole number */
    floats n = underflow * 1.44269504088896341f + shifter;
    ints exponent = (ints)n << 23;
    n -= shifter;
    floats r = underflow - n * 0.693359375f;
    r = r - n * -2.12194440e-4f;
    floats p = all_f32(1.9875691500e-4f);
    p = p * r + 1.3981999507e-3f;
    p = p * r + 8.3334519073e-3f;
    p = p * r + 4.1665795894e-2f;
    p = p * r + 1.6666665459e-1f;
    p = p * r + 5.0000001201e-1f;
    p = p * r * r + r + 1.0f;
    return (floats)((ints)p + exponent);
}

/* ---- Panels to tiles ---------------------------------------------------------------------------------------------- */

static void unpack_f16(const uint8_t *panel, size_t k, size_t first, size_t n, struct tile *tile)
{
    (void)k;
    const uint8_t *from = panel + first * PANEL * 2;
    for (size_t i = 0; i < n * PANEL; i += LANES) store_f32(tile->x_store + i, load_f16(from + 2 * i));
    tile->x = tile->x_store;
}

/* Two columns share a word: the even one is its low half. */
static void unpack_bf16(const uint8_t *panel, size_t k, size_t first, size_t n, struct tile *tile)
{
    if (first % 2 != 0) { /* not for chunks, just for single elements */
        scalar_unpack_bf16(panel, k, first, n, tile);
        return;
    }
    const uint8_t *from = panel + first / 2 * PANEL * 4;
    size_t i = 0;
    for (; i + 1 < n; i += 2, from += PANEL * 4)
        for (size_t part = 0; part < PARTS; part++) {
            words both = (words)load_i32(from + part * LANES * 4);
            store_f32(tile->x_store + i * PANEL + part * LANES, (floats)(both << 16));
            store_f32(tile->x_store + (i + 1) * PANEL + part * LANES, (floats)(both & 0xffff0000u));
        }
    for (size_t part = 0; i < n && part < PARTS; part++)
        store_f32(tile->x_store + i * PANEL + part * LANES,
                  (floats)((words)load_i32(from + part * LANES * 4) << 16));
    tile->x = tile->x_store;
}

static void unpack_scales(const uint8_t *panel, size_t first_block, size_t n_blocks, struct tile *tile)
{
    const uint8_t *from = panel + first_block * PANEL * 2;
    for (size_t i = 0; i < n_blocks * PANEL; i += LANES)
        store_f32(tile->scales_store + i, load_f16(from + 2 * i));
    tile->scales = tile->scales_store;
    tile->mins = NULL;
}

static void unpack_q8_0(const uint8_t *panel, size_t k, size_t first, size_t n, struct tile *tile)
{
    unpack_scales(panel, first / 32, n / 32, tile);
    tile->q = panel + PANEL_SCALES_SIZE(k / 32) + first * PANEL;
}

static void unpack_q4_0(const uint8_t *panel, size_t k, size_t first, size_t n, struct tile *tile)
{
    unpack_scales(panel, first / 32, n / 32, tile);
    const uint8_t *from = panel + PANEL_SCALES_SIZE(k / 32) + first * PANEL / 2;
    uint8_t *to = tile->q_store;
    for (size_t b = 0; b < n / 32; b++, from += 16 * PANEL, to += 32 * PANEL)
        for (size_t i = 0; i < 16 * PANEL; i += (size_t)LANES * 4) {
            words both = (words)load_i32(from + i), low = both & 0x0f0f0f0fu, high = both >> 4 & 0x0f0f0f0fu;
            memcpy(to + i, &low, sizeof low);
            memcpy(to + 16 * PANEL + i, &high, sizeof high);
        }
    tile->q = tile->q_store;
}

/* ---- Matmul ------------------------------------------------------------------------------------------------------- */

/* T is a constant wherever this is inlined, so that the sums stay in registers. */
ALWAYS_INLINE void f32_tokens(const float *x, const float *activations, size_t n, const size_t T, float *sums)
{
    floats sum[F32_TOKENS][PARTS] = {{{0}}};
    for (size_t i = 0; i < n; i++, x += PANEL, activations += T) {
        floats column[PARTS];
        for (size_t part = 0; part < PARTS; part++) column[part] = load_f32(x + part * LANES);
        for (size_t t = 0; t < T; t++)
            for (size_t part = 0; part < PARTS; part++) sum[t][part] += column[part] * activations[t];
    }
    for (size_t t = 0; t < T; t++)
        for (size_t part = 0; part < PARTS; part++) {
            float *to = sums + t * PANEL + part * LANES;
            store_f32(to, load_f32(to) + sum[t][part]);
        }
}

ALWAYS_INLINE void int8_tokens(const struct tile *tile, int offset,
                               const struct int8_activations *activations, size_t n, const size_t T,
                               float *sums)
{
    const uint8_t *q = tile->q;
    const int8_t *x = activations->q;
    floats total[INT8_TOKENS][PARTS];
    for (size_t t = 0; t < T; t++)
        for (size_t part = 0; part < PARTS; part++)
            total[t][part] = load_f32(sums + t * PANEL + part * LANES);
    for (size_t g = 0; g < n / GROUP; g++) {
        ints sum[INT8_TOKENS][PARTS] = {{{0}}};
        for (size_t i = 0; i < GROUP / 4; i++, q += PANEL * 4, x += T * 4) {
            ints column[PARTS];
            for (size_t part = 0; part < PARTS; part++) column[part] = load_i32(q + part * LANES * 4);
            for (size_t t = 0; t < T; t++) {
                int32_t four;
                memcpy(&four, x + t * 4, 4);
                for (size_t part = 0; part < PARTS; part++)
                    sum[t][part] = dot4(sum[t][part], column[part], all_i32(four));
            }
        }
        for (size_t part = 0; part < PARTS; part++) {
            floats scale = load_f32(tile->scales + g * PANEL + part * LANES);
            floats min = tile->mins ? load_f32(tile->mins + g * PANEL + part * LANES) : (floats){0};
            for (size_t t = 0; t < T; t++) {
                int32_t token_sum = activations->sums[g * T + t];
                floats product = to_float(sum[t][part] - offset * token_sum) * scale - min * (float)token_sum;
                total[t][part] += product * activations->scales[g * T + t];
            }
        }
    }
    for (size_t t = 0; t < T; t++)
        for (size_t part = 0; part < PARTS; part++)
            store_f32(sums + t * PANEL + part * LANES, total[t][part]);
}

#define FOR_TOKENS(call, most)                                                                               \
    switch (n_tokens) {                                                                                      \
    case 1: call(1); break;                                                                                  \
    case 2: call(2); break;                                                                                  \
    case 3: call(3); break;                                                                                  \
    case 4: call(4); break;                                                                                  \
    case 5: call(most < 5 ? 1 : 5); break;                                                                   \
    case 6: call(most < 6 ? 1 : 6); break;                                                                   \
    case 7: call(most < 7 ? 1 : 7); break;                                                                   \
    case 8: call(most < 8 ? 1 : 8); break;                                                                   \
    case 9: call(most < 9 ? 1 : 9); break;                                                                   \
    case 10: call(most < 10 ? 1 : 10); break;                                                                \
    case 11: call(most < 11 ? 1 : 11); break;                                                                \
    case 12: call(most < 12 ? 1 : 12); break;                                                                \
    default: break;                                                                                          \
    }

static void f32_tile(const float *x, const float *activations, size_t n, size_t n_tokens, float *sums)
{
#define CALL(T) f32_tokens(x, activations, n, T, sums)
    FOR_TOKENS(CALL, F32_TOKENS)
#undef CALL
}

static void int8_tile(const struct tile *tile, int offset, const struct int8_activations *activations,
                      size_t n, size_t n_tokens, float *sums){
#define CALL(T) int8_tokens(tile, offset, activations, n, T, sums)
    FOR_TOKENS(CALL, INT8_TOKENS)
#undef CALL
}

/* See scalar_quantize, whose results these are but for the last bit of a scale. */
ALWAYS_INLINE float round_group(const floats x[GROUP / LANES], float inverse, floats rounded[GROUP / LANES],
                                float *scale)
{
    floats product = {0}, square = {0}, error = {0}, shifter = all_f32(0x1.8p23f);
    for (size_t i = 0; i < GROUP / LANES; i++) {
        rounded[i] = x[i] * inverse + shifter - shifter;
        product += x[i] * rounded[i];
        square += rounded[i] * rounded[i];
    }
    *scale = add_lanes(product) / add_lanes(square);
    for (size_t i = 0; i < GROUP / LANES; i++) {
        floats off = x[i] - rounded[i] * *scale;
        error += off * off;
    }
    return add_lanes(error);
}

static void quantize(const float *from, size_t n, size_t step, const struct int8_activations *out)
{
    for (size_t g = 0; g < n / GROUP; g++, from += GROUP) {
        floats x[GROUP / LANES], rounded[GROUP / LANES], best[GROUP / LANES] = {{0}};
        floats largest = {0};
        float max = 0, best_scale = 0, best_error = INFINITY, scale;
        for (size_t i = 0; i < GROUP / LANES; i++) {
            x[i] = load_f32(from + i * LANES);
            floats size = choose(x[i] < 0, -x[i], x[i]);
            largest = choose(size > largest, size, largest);
        }
        for (size_t i = 0; i < LANES; i++) max = largest[i] > max ? largest[i] : max;
        for (float top = 127; max > 0 && max < INFINITY && top > 127 - QUANTIZE_TRIES; top--) {
            float error = round_group(x, top / max, rounded, &scale);
            if (!(error < best_error)) continue;
            best_error = error;
            best_scale = scale;
            memcpy(best, rounded, sizeof best);
        }
        int32_t total = 0;
        for (size_t i = 0; i < GROUP / LANES; i++) {
            int8_t q[LANES];
            for (size_t c = 0; c < LANES; c++) total += q[c] = (int8_t)best[i][c];
            for (size_t c = 0; c < LANES; c += 4)
                memcpy(out->q + ((g * GROUP + i * LANES + c) / 4 * step) * 4, q + c, 4);
        }
        out->scales[g * step] = best_scale;
        out->sums[g * step] = total;
    }
}

/* ---- Rows --------------------------------------------------------------------------------------------------------- */

/* Runs `expression` of a and b over rows of n values, the last ones padded. */
#define OVER_ROWS(expression)                                                                                \
    size_t i = 0;                                                                                            \
    for (; i + LANES <= n; i += LANES) {                                                                     \
        floats a = load_f32(x + i), b = load_f32(y + i);                                                     \
        store_f32(out + i, expression);                                                                      \
    }                                                                                                        \
    if (i < n) {                                                                                             \
        floats a = load_some(x + i, n - i), b = load_some(y + i, n - i);                                     \
        store_some(out + i, expression, n - i);                                                              \
    }

static void add(const float *x, const float *y, float *out, size_t n)
{
    OVER_ROWS(a + b)
}

static void mul(const float *x, const float *y, float *out, size_t n){OVER_ROWS(a * b)}

ALWAYS_INLINE floats silu_f32(floats x)
{
    return x / (1.0f + exp_f32(-x));
}

static void silu(const float *x, float *out, size_t n)
{
    const float *y = x;
    OVER_ROWS(((void)b, silu_f32(a)))
}

static void silu_mul(const float *x, const float *y, float *out, size_t n)
{
    OVER_ROWS(silu_f32(a) * b)
}

static void rms_norm(const float *x, const float *weight, float *out, size_t n, float epsilon)
{
    typedef double doubles __attribute__((vector_size(LANES * 8)));
    doubles square = {0};
    size_t i = 0;
    for (; i < n; i += LANES) {
        floats some = i + LANES <= n ? load_f32(x + i) : load_some(x + i, n - i);
        doubles wide = __builtin_convertvector(some, doubles);
        square += wide * wide;
    }
    double sum = 0;
    for (size_t c = 0; c < LANES; c++) sum += square[c];
    float scale = (float)(1 / sqrt(sum / (double)n + (double)epsilon));
    for (i = 0; i + LANES <= n; i += LANES) {
        floats a = load_f32(x + i) * scale;
        store_f32(out + i, weight ? a * load_f32(weight + i) : a);
    }
    for (; i < n; i++) out[i] = x[i] * scale * (weight ? weight[i] : 1);
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

static void row_f16_to_f32(const uint8_t *from, float *to, size_t n)
{
    size_t i = 0;
    for (; i + LANES <= n; i += LANES) store_f32(to + i, load_f16(from + 2 * i));
    for (; i < n; i++) to[i] = f16_to_f32(load_u16(from + 2 * i));
}

static void row_f32_to_f16(const float *from, uint8_t *to, size_t n)
{
    size_t i = 0;
    for (; i + LANES <= n; i += LANES) store_f16(to + 2 * i, load_f32(from + i));
    for (; i < n; i++) store_u16(to + 2 * i, f32_to_f16(from[i]));
}

static void row_q8_0_to_f32(const uint8_t *from, float *to, size_t n)
{
    typedef int8_t bytes __attribute__((vector_size(LANES)));
    for (size_t b = 0; b < n / 32; b++, from += 34) {
        float d = f16_to_f32(load_u16(from));
        for (size_t i = 0; i < 32; i += LANES) {
            bytes q;
            memcpy(&q, from + 2 + i, sizeof q);
            store_f32(to + b * 32 + i, d * to_float(__builtin_convertvector(q, ints)));
        }
    }
}

/* ---- Attention: rows are multiples of PANEL long ------------------------------------------------------------------ */

static void attention_scores(const float *q, size_t n_q, const float *keys, size_t n_keys, size_t n,
                             float scale, float *scores, size_t scores_stride)
{
    for (size_t i = 0; i < n_q; i++, q += n)
        for (size_t j = 0; j < n_keys; j++) {
            floats sum[PARTS] = {{0}};
            const float *key = keys + j * n;
            for (size_t d = 0; d < n; d += PANEL)
                for (size_t part = 0; part < PARTS; part++)
                    sum[part] += load_f32(q + d + part * LANES) * load_f32(key + d + part * LANES);
            for (size_t part = 1; part < PARTS; part++) sum[0] += sum[part];
            scores[i * scores_stride + j] = add_lanes(sum[0]) * scale;
        }
}

static float softmax(float *scores, size_t n, float *max)
{
    floats most = all_f32(-INFINITY), sum = {0};
    float largest = -INFINITY;
    for (size_t j = 0; j < n; j += LANES) {
        floats s = load_f32(scores + j);
        most = choose(s > most, s, most);
    }
    for (size_t c = 0; c < LANES; c++) largest = most[c] > largest ? most[c] : largest;
    for (size_t j = 0; j < n; j += LANES) {
        floats s = load_f32(scores + j), e = exp_f32(s - largest);
        e = choose(s == -INFINITY, (floats){0}, e); /* exp_f32 ends above 0 */
        store_f32(scores + j, e);
        sum += e;
    }
    *max = largest;
    return add_lanes(sum);
}

static void attention_values(const float *weights, size_t weights_stride, size_t n_q, const float *values,
                             size_t n_values, size_t n, float *out)
{
    for (size_t i = 0; i < n_q; i++, weights += weights_stride, out += n)
        for (size_t d = 0; d < n; d += PANEL) {
            floats sum[PARTS];
            for (size_t part = 0; part < PARTS; part++) sum[part] = load_f32(out + d + part * LANES);
            for (size_t j = 0; j < n_values; j++)
                for (size_t part = 0; part < PARTS; part++)
                    sum[part] += weights[j] * load_f32(values + j * n + d + part * LANES);
            for (size_t part = 0; part < PARTS; part++) store_f32(out + d + part * LANES, sum[part]);
        }
}

static void scale_add(float *out, float a, const float *x, float b, size_t n)
{
    size_t i = 0;
    for (; i + LANES <= n; i += LANES) store_f32(out + i, load_f32(out + i) * a + load_f32(x + i) * b);
    for (; i < n; i++) out[i] = out[i] * a + x[i] * b;
}

const struct kernels TABLE = {
    .name = NAME,
    .f32_tile_tokens = F32_TOKENS,
    .int8_tile_tokens = INT8_TOKENS,
    .unpack =
        {
            [WEIGHT_F32] = scalar_unpack_f32, /* points into the panel */
            [WEIGHT_F16] = unpack_f16,
            [WEIGHT_BF16] = unpack_bf16,
            [WEIGHT_Q8_0] = unpack_q8_0,
            [WEIGHT_Q4_0] = unpack_q4_0,
        },
    .f32_tile = f32_tile,
    .int8_tile = int8_tile,
    .quantize = quantize,
    .add = add,
    .mul = mul,
    .silu = silu,
    .silu_mul = silu_mul,
    .rms_norm = rms_norm,
    .rope_adjacent = rope_adjacent,
    .rope_halves = rope_halves,
    .f16_to_f32 = row_f16_to_f32,
    .f32_to_f16 = row_f32_to_f16,
    .q8_0_to_f32 = row_q8_0_to_f32,
    .f32_to_q8_0 = scalar_f32_to_q8_0,
    .attention_scores = attention_scores,
    .softmax = softmax,
    .attention_values = attention_values,
    .scale_add = scale_add,
};

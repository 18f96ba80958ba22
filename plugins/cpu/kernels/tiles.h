/* tiles.h: template of the matmul kernels of float types, and parts shared with those of integer types
 * (int8.h). Expects vec-*.h, vec.h, and
 *   F32_TILE_TOKENS, INT8_TILE_TOKENS   number of tokens whose sums fit in registers, at most TILE_TOKENS
 *   INT8_TILE_PAIRS                     two tiles of integers are multiplied with the tokens at once
 * The code is copied for each number of tokens, which is a constant in the copy.
 *
 * A token's sum over a row is made in the same order for any number of tokens: float32 products of a tile one
 * after the other, then added to the sum of the previous tiles; integer products of a group exactly, then
 * times both scales and added to the sum. */
#include <string.h>

#define FLATTEN static inline __attribute__((always_inline))

/* A few tokens read weights at the speed of memory: prefetch this many bytes ahead. */
enum { PREFETCH_AHEAD = 4096 };

FLATTEN void prefetch_lines(const uint8_t *from, const size_t n)
{
    for (size_t i = 0; i < n; i++) __builtin_prefetch(from + i * 64);
}

/* Into the second cache only, which can wait for more lines at once than the first. */
FLATTEN void prefetch_lines_near(const uint8_t *from, const size_t n)
{
    for (size_t i = 0; i < n; i++) __builtin_prefetch(from + i * 64, 0, 2);
}

/* Calls function(…, 1 … 12, …) for n_tokens. */
#define FOR_TOKENS(most, n_tokens, call)                                                                     \
    switch (n_tokens) {                                                                                      \
    case 1: call(1); break;                                                                                  \
    case 2: call(2); break;                                                                                  \
    case 3: call(3); break;                                                                                  \
    case 4: call(4); break;                                                                                  \
    case 5:                                                                                                  \
        if ((most) >= 5) call(5);                                                                            \
        break;                                                                                               \
    case 6:                                                                                                  \
        if ((most) >= 6) call(6);                                                                            \
        break;                                                                                               \
    case 7:                                                                                                  \
        if ((most) >= 7) call(7);                                                                            \
        break;                                                                                               \
    case 8:                                                                                                  \
        if ((most) >= 8) call(8);                                                                            \
        break;                                                                                               \
    case 9:                                                                                                  \
        if ((most) >= 9) call(9);                                                                            \
        break;                                                                                               \
    case 10:                                                                                                 \
        if ((most) >= 10) call(10);                                                                          \
        break;                                                                                               \
    case 11:                                                                                                 \
        if ((most) >= 11) call(11);                                                                          \
        break;                                                                                               \
    case 12:                                                                                                 \
        if ((most) >= 12) call(12);                                                                          \
        break;                                                                                               \
    default: break;                                                                                          \
    }

FLATTEN void f32_tile_of(const float *x, const float *activations, size_t n, const size_t n_tokens,
                         float *sums)
{
    vf sum[TILE_TOKENS][PARTS];
    UNROLL for (size_t t = 0; t < n_tokens; t++) UNROLL for (size_t p = 0; p < PARTS; p++) sum[t][p] =
        vf_zero();
    for (size_t i = 0; i < n; i++, x += PANEL, activations += n_tokens) {
        vf w[PARTS];
        UNROLL for (size_t p = 0; p < PARTS; p++) w[p] = vf_load(x + p * LANES);
        UNROLL for (size_t t = 0; t < n_tokens; t++)
        {
            vf a = vf_set1(activations[t]);
            UNROLL for (size_t p = 0; p < PARTS; p++) sum[t][p] = vf_fma(w[p], a, sum[t][p]);
        }
    }
    UNROLL for (size_t t = 0; t < n_tokens; t++) UNROLL for (size_t p = 0; p < PARTS; p++)
    {
        float *to = sums + t * PANEL + p * LANES;
        vf_store(to, vf_add(vf_load(to), sum[t][p]));
    }
}

static void f32_tile(const float *x, const float *activations, size_t n, size_t n_tokens, float *sums)
{
#define CALL(count) f32_tile_of(x, activations, n, count, sums)
    FOR_TOKENS(F32_TILE_TOKENS, n_tokens, CALL)
#undef CALL
}

/* ---- One token: chunks ----------------------------------------------------------------------------- */

/* The float32 sums of a chunk of n columns for one token, `columns` of them at once. */
typedef void columns_function(const uint8_t *from, const float *input, vf sum[PARTS]);

FLATTEN void add_f32(const uint8_t *from, const float *input, vf sum[PARTS])
{
    UNROLL for (size_t p = 0; p < PARTS; p++) sum[p] =
        vf_fma(vf_load((const float *)(const void *)from + p * LANES), vf_set1(input[0]), sum[p]);
}

FLATTEN void add_f16(const uint8_t *from, const float *input, vf sum[PARTS])
{
    UNROLL for (size_t p = 0; p < PARTS; p++) sum[p] =
        vf_fma(vf_from_f16(from + 2 * p * LANES), vf_set1(input[0]), sum[p]);
}

FLATTEN void add_bf16_even(const uint8_t *from, const float *input, vf sum[PARTS])
{
    UNROLL for (size_t p = 0; p < PARTS; p++) sum[p] =
        vf_fma(vf_from_bf16_even(from + 4 * p * LANES), vf_set1(input[0]), sum[p]);
}

FLATTEN void add_bf16(const uint8_t *from, const float *input, vf sum[PARTS])
{
    add_bf16_even(from, input, sum);
    UNROLL for (size_t p = 0; p < PARTS; p++) sum[p] =
        vf_fma(vf_from_bf16_odd(from + 4 * p * LANES), vf_set1(input[1]), sum[p]);
}

/* Chunk after chunk; `size` bytes hold `step` columns, `last` takes an odd last one. */
FLATTEN void float_token(const uint8_t *panel, size_t k, const float *input, columns_function *add,
                         const size_t step, const size_t size, columns_function *last, float *sums)
{
    vf total[PARTS];
    UNROLL for (size_t p = 0; p < PARTS; p++) total[p] = vf_zero();
    for (size_t first = 0; first < k; first += CHUNK) {
        vf sum[PARTS];
        UNROLL for (size_t p = 0; p < PARTS; p++) sum[p] = vf_zero();
        size_t n = smaller(CHUNK, k - first), i = 0;
        for (; i + step <= n; i += step, panel += size) {
            if (i * (size / step) % 64 == 0) prefetch_lines(panel + PREFETCH_AHEAD, 1);
            add(panel, input + first + i, sum);
        }
        if (i < n) last(panel, input + first + i, sum);
        UNROLL for (size_t p = 0; p < PARTS; p++) total[p] = vf_add(total[p], sum[p]);
    }
    UNROLL for (size_t p = 0; p < PARTS; p++) vf_store(sums + p * LANES, total[p]);
}

static void few_f32(const uint8_t *panel, size_t k, const struct int8_activations *activations,
                    const float *input, size_t n_tokens, struct tile *tile, float *sums)
{
    (void)activations, (void)n_tokens, (void)tile;
    float_token(panel, k, input, add_f32, 1, PANEL * 4, NULL, sums);
}

static void few_f16(const uint8_t *panel, size_t k, const struct int8_activations *activations,
                    const float *input, size_t n_tokens, struct tile *tile, float *sums)
{
    (void)activations, (void)n_tokens, (void)tile;
    float_token(panel, k, input, add_f16, 1, PANEL * 2, NULL, sums);
}

static void few_bf16(const uint8_t *panel, size_t k, const struct int8_activations *activations,
                     const float *input, size_t n_tokens, struct tile *tile, float *sums)
{
    (void)activations, (void)n_tokens, (void)tile;
    float_token(panel, k, input, add_bf16, 2, PANEL * 4, add_bf16_even, sums);
}

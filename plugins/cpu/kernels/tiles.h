/* tiles.h: template of the matmul tile kernels. Expects vec-*.h, vec.h, and
 *   F32_TILE_TOKENS, INT8_TILE_TOKENS   how many tokens' sums the registers hold, at most TILE_TOKENS
 * For each number of tokens there is a copy of the code in which it is a constant.
 *
 * A token's sum over a row is made in the same order whatever the number of tokens: float32 products of a tile
 * one after the other, then added to the sum of the tiles before; integer products of a group exactly, then
 * times both scales and added to the sum. */
#include <string.h>

#define FLATTEN static inline __attribute__((always_inline))

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

/* ---- float32 --------------------------------------------------------------------------------------- */

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

/* ---- int8 ------------------------------------------------------------------------------------------ */

static inline int32_t load_four(const int8_t *from)
{
    int32_t four;
    memcpy(&four, from, 4);
    return four;
}

/* The integer sums of one group: sum[t] += q (LANES rows of a tile, rows of 4 bytes) x activations. `pairs`:
 * how many sums of two products an int16 takes without overflow, as 8 bytes are multiplied after each other;
 * 0: not even one, the bytes have all 8 bits. */
#if VEC_DOT4
FLATTEN void group_sums(const uint8_t *q, const int8_t *activations, const size_t n_tokens,
                        const size_t pairs, vi *sum)
{
    (void)pairs;
    UNROLL for (size_t j = 0; j < GROUP / 4; j++)
    {
        vb w = vb_load(q + j * PANEL * 4);
        UNROLL for (size_t t = 0; t < n_tokens; t++) sum[t] =
            vb_dot4(sum[t], w, load_four(activations + (j * n_tokens + t) * 4));
    }
}
#else
FLATTEN void group_sums(const uint8_t *q, const int8_t *activations, const size_t n_tokens,
                        const size_t pairs, vi *sum)
{
    const size_t run = pairs ? pairs : 1;
    UNROLL for (size_t first = 0; first < GROUP / 4; first += run)
    {
        vb short_sum[TILE_TOKENS];
        UNROLL for (size_t j = first; j < first + run; j++)
        {
            vb w = vb_load(q + j * PANEL * 4), sign = w;
            if (!pairs) {
                sign = vb_flip_signs(w); /* q - 128 */
                w = vb_abs(sign);
            }
            UNROLL for (size_t t = 0; t < n_tokens; t++)
            {
                vb a = vi_set1(load_four(activations + (j * n_tokens + t) * 4));
                vb two = vb_dot2(w, pairs ? a : vb_with_sign(a, sign));
                short_sum[t] = j == first ? two : vb_add16(short_sum[t], two);
            }
        }
        UNROLL for (size_t t = 0; t < n_tokens; t++) sum[t] = vi_add(sum[t], vb_widen(short_sum[t]));
    }
}
#endif

FLATTEN void int8_tile_of(const struct tile *tile, int offset, const struct int8_activations *activations,
                          size_t n, const size_t n_tokens, const size_t pairs, float *sums)
{
    /* sum of (q - offset) * a = sum of q * a - offset * sum of a */
    int32_t start[CHUNK / GROUP * TILE_TOKENS];
    for (size_t i = 0; i < n / GROUP * n_tokens; i++) start[i] = -offset * activations->sums[i];
    for (size_t part = 0; part < PANEL; part += LANES) {
        vf total[TILE_TOKENS];
        UNROLL for (size_t t = 0; t < n_tokens; t++) total[t] = vf_load(sums + t * PANEL + part);
        for (size_t g = 0; g < n / GROUP; g++) {
            vi sum[TILE_TOKENS];
            UNROLL for (size_t t = 0; t < n_tokens; t++) sum[t] = vi_set1(start[g * n_tokens + t]);
            group_sums(tile->q + g * GROUP * PANEL + part * 4, activations->q + g * GROUP * n_tokens,
                       n_tokens, pairs, sum);
            vf scale = vf_load(tile->scales + g * PANEL + part);
            const float *scales = activations->scales + g * n_tokens;
            UNROLL for (size_t t = 0; t < n_tokens; t++) total[t] =
                vf_fma(vi_to_vf(sum[t]), vf_mul(scale, vf_set1(scales[t])), total[t]);
        }
        UNROLL for (size_t t = 0; t < n_tokens; t++) vf_store(sums + t * PANEL + part, total[t]);
    }
}

#if VEC_DOT4
static void int8_tile(const struct tile *tile, const struct weight_type *type,
                      const struct int8_activations *activations, size_t n, size_t n_tokens, float *sums)
{
#define CALL(count) int8_tile_of(tile, type->offset, activations, n, count, 8, sums)
    FOR_TOKENS(INT8_TILE_TOKENS, n_tokens, CALL)
#undef CALL
}
#else
static void int8_tile_4_bits(const struct tile *tile, int offset, const struct int8_activations *activations,
                             size_t n, size_t n_tokens, float *sums)
{
#define CALL(count) int8_tile_of(tile, offset, activations, n, count, 8, sums)
    FOR_TOKENS(INT8_TILE_TOKENS, n_tokens, CALL)
#undef CALL
}

static void int8_tile_8_bits(const struct tile *tile, int offset, const struct int8_activations *activations,
                             size_t n, size_t n_tokens, float *sums)
{
    (void)offset; /* 128, which flipping signs takes off */
#define CALL(count) int8_tile_of(tile, 0, activations, n, count, 0, sums)
    FOR_TOKENS(INT8_TILE_TOKENS, n_tokens, CALL)
#undef CALL
}

static void int8_tile(const struct tile *tile, const struct weight_type *type,
                      const struct int8_activations *activations, size_t n, size_t n_tokens, float *sums)
{
    if (type->most < 16)
        int8_tile_4_bits(tile, type->offset, activations, n, n_tokens, sums);
    else
        int8_tile_8_bits(tile, type->offset, activations, n, n_tokens, sums);
}
#endif

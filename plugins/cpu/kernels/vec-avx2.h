/* vec-avx2.h: vectors of 8 lanes, AVX2 with FMA and F16C; see vec.h. */
#ifndef CPU_KERNELS_VEC_AVX2_H
#define CPU_KERNELS_VEC_AVX2_H

#include <immintrin.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "unroll.h"

#define LANES ((size_t)8)

typedef __m256 vf;
typedef __m256i vi;
typedef __m256i vb;

static inline vf vf_zero(void)
{
    return _mm256_setzero_ps();
}
static inline vf vf_set1(float x)
{
    return _mm256_set1_ps(x);
}
static inline vf vf_load(const float *from)
{
    return _mm256_loadu_ps(from);
}
static inline void vf_store(float *to, vf x)
{
    _mm256_storeu_ps(to, x);
}
/* The first n < LANES values, then zeros; nothing else is touched. */
static inline vf vf_load_end(const float *from, size_t n)
{
    float padded[LANES] = {0};
    memcpy(padded, from, n * sizeof *from);
    return vf_load(padded);
}
static inline void vf_store_end(float *to, size_t n, vf x)
{
    float padded[LANES];
    vf_store(padded, x);
    memcpy(to, padded, n * sizeof *to);
}
static inline vf vf_add(vf a, vf b)
{
    return _mm256_add_ps(a, b);
}
static inline vf vf_sub(vf a, vf b)
{
    return _mm256_sub_ps(a, b);
}
static inline vf vf_mul(vf a, vf b)
{
    return _mm256_mul_ps(a, b);
}
static inline vf vf_div(vf a, vf b)
{
    return _mm256_div_ps(a, b);
}
static inline vf vf_fma(vf a, vf b, vf c)
{
    return _mm256_fmadd_ps(a, b, c);
}
static inline vf vf_min(vf a, vf b)
{
    return _mm256_min_ps(a, b);
}
static inline vf vf_max(vf a, vf b)
{
    return _mm256_max_ps(a, b);
}
static inline vf vf_abs(vf x)
{
    return _mm256_andnot_ps(_mm256_set1_ps(-0.0f), x);
}
static inline vf vf_round(vf x)
{
    return _mm256_round_ps(x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
}
/* Lane by lane: unless a <= b, x; otherwise y. */
static inline vf vf_if_above(vf a, vf b, vf x, vf y)
{
    return _mm256_blendv_ps(y, x, _mm256_cmp_ps(a, b, _CMP_NLE_UQ));
}
/* n within -252 … 254: in two steps, each a power of two that float32 has. */
static inline vf vf_scale_2(vf x, vf n)
{
    __m256i whole = _mm256_cvtps_epi32(n), half = _mm256_srai_epi32(whole, 1);
    __m256i bias = _mm256_set1_epi32(127);
    __m256i first = _mm256_slli_epi32(_mm256_add_epi32(half, bias), 23);
    __m256i second = _mm256_slli_epi32(_mm256_add_epi32(_mm256_sub_epi32(whole, half), bias), 23);
    return _mm256_mul_ps(_mm256_mul_ps(x, _mm256_castsi256_ps(first)), _mm256_castsi256_ps(second));
}
static inline vf vf_from_f16(const uint8_t *from)
{
    return _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)(const void *)from));
}
static inline vf vf_from_f16_end(const uint8_t *from, size_t n)
{
    uint8_t padded[2 * LANES] = {0};
    memcpy(padded, from, 2 * n);
    return vf_from_f16(padded);
}
static inline void vf_to_f16(uint8_t *to, vf x)
{
    _mm_storeu_si128((__m128i *)(void *)to, _mm256_cvtps_ph(x, _MM_FROUND_TO_NEAREST_INT));
}
static inline vf vf_from_i8(const uint8_t *from)
{
    return _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(_mm_loadl_epi64((const __m128i *)(const void *)from)));
}
static inline vf vf_from_bf16_even(const uint8_t *from)
{
    return _mm256_castsi256_ps(
        _mm256_slli_epi32(_mm256_loadu_si256((const __m256i *)(const void *)from), 16));
}
static inline vf vf_from_bf16_odd(const uint8_t *from)
{
    return _mm256_castsi256_ps(_mm256_and_si256(_mm256_loadu_si256((const __m256i *)(const void *)from),
                                                _mm256_set1_epi32((int)0xffff0000)));
}

static inline vi vi_zero(void)
{
    return _mm256_setzero_si256();
}
static inline vi vi_set1(int32_t x)
{
    return _mm256_set1_epi32(x);
}
static inline vi vi_add(vi a, vi b)
{
    return _mm256_add_epi32(a, b);
}
static inline vf vi_to_vf(vi x)
{
    return _mm256_cvtepi32_ps(x);
}
/* The same bits. */
static inline vf vi_as_vf(vi x)
{
    return _mm256_castsi256_ps(x);
}

static inline vi vi_from_vf(vf x)
{
    return _mm256_cvtps_epi32(x);
}
static inline void vi_store(int32_t *to, vi x)
{
    _mm256_storeu_si256((__m256i *)(void *)to, x);
}
/* The low bytes of x[0] … x[3], interleaved lane by lane. */
static inline vi vi_bytes(const vi x[4])
{
    const __m256i low = _mm256_set1_epi32(255);
    __m256i a =
        _mm256_or_si256(_mm256_and_si256(x[0], low), _mm256_slli_epi32(_mm256_and_si256(x[1], low), 8));
    __m256i b = _mm256_or_si256(_mm256_and_si256(x[2], low), _mm256_slli_epi32(x[3], 8));
    return _mm256_or_si256(a, _mm256_slli_epi32(b, 16));
}

static inline vb vb_load(const uint8_t *from)
{
    return _mm256_loadu_si256((const __m256i *)(const void *)from);
}
static inline void vb_store(uint8_t *to, vb x)
{
    _mm256_storeu_si256((__m256i *)(void *)to, x);
}
static inline vb vb_or(vb a, vb b)
{
    return _mm256_or_si256(a, b);
}
/* `width` bits of each byte, from bit `from` on, moved to bit `to`; the others 0. */
static inline vb vb_bits(vb x, unsigned from, unsigned width, unsigned to)
{
    typedef uint16_t words __attribute__((vector_size(32)));
    words moved = from >= to ? (words)x >> (from - to) : (words)x << (to - from);
    return _mm256_and_si256((vb)moved, _mm256_set1_epi8((char)(((1u << width) - 1) << to)));
}
/* table[code] for each byte, a code below 16. */
static inline vb vb_lookup(vb codes, const uint8_t table[16])
{
    __m128i all = _mm_loadu_si128((const __m128i *)(const void *)table);
    return _mm256_shuffle_epi8(_mm256_broadcastsi128_si256(all), codes);
}
/* table[code], the code in four bits of each lane, from bit `from` on. */
static inline vf vf_lookup(vb codes, unsigned from, const float table[16])
{
    __m256i code = _mm256_srli_epi32(codes, (int)from); /* three bits choose a value, the fourth the half */
    __m256 low = _mm256_permutevar8x32_ps(_mm256_loadu_ps(table), code);
    __m256 high = _mm256_permutevar8x32_ps(_mm256_loadu_ps(table + 8), code);
    return _mm256_blendv_ps(low, high, _mm256_castsi256_ps(_mm256_slli_epi32(codes, 28 - (int)from)));
}
static inline vb vb_flip_signs(vb x)
{
    return _mm256_xor_si256(x, _mm256_set1_epi8(-128));
}

#if defined(__AVXVNNI__)
#define VEC_DOT4 1
#define VEC_MAX  255
static inline vi vb_dot4(vi sum, vb unsigned_bytes, int32_t signed_bytes)
{
    return _mm256_dpbusd_avx_epi32(sum, unsigned_bytes, _mm256_set1_epi32(signed_bytes));
}
#else
#define VEC_DOT4 0
#define VEC_MAX  127
static inline vb vb_dot2(vb unsigned_bytes, vb signed_bytes)
{
    return _mm256_maddubs_epi16(unsigned_bytes, signed_bytes);
}
static inline vb vb_add16(vb a, vb b)
{
    return _mm256_add_epi16(a, b);
}
static inline vi vb_widen(vb sums)
{
    return _mm256_madd_epi16(sums, _mm256_set1_epi16(1));
}
/* The same for signed bytes, -128 among them. */
static inline vb vb_dot2_signed(vb weights, vb activations)
{
    return vb_dot2(_mm256_abs_epi8(weights), _mm256_sign_epi8(activations, weights));
}
#endif

/* Sums of virtual vectors of 16 lanes, in the order that vec.h gives. */
static inline __m128 vec_sum_halves(const vf x[2])
{
    __m256 a = _mm256_add_ps(x[0], x[1]);
    return _mm_add_ps(_mm256_castps256_ps128(a), _mm256_extractf128_ps(a, 1));
}

static inline float vec_sum(const vf x[2])
{
    __m128 b = vec_sum_halves(x);
    b = _mm_add_ps(b, _mm_movehl_ps(b, b));
    return _mm_cvtss_f32(_mm_add_ss(b, _mm_movehdup_ps(b)));
}

static inline float vec_max(const vf x[2])
{
    __m256 a = _mm256_max_ps(x[0], x[1]);
    __m128 b = _mm_max_ps(_mm256_castps256_ps128(a), _mm256_extractf128_ps(a, 1));
    b = _mm_max_ps(b, _mm_movehl_ps(b, b));
    return _mm_cvtss_f32(_mm_max_ss(b, _mm_movehdup_ps(b)));
}

/* Lane j of x[i] and lane i of x[j] change places: 4 x 4 in each half, then the halves. */
static inline void vec_transpose(vf x[8])
{
    __m256 y[8];
    UNROLL for (size_t i = 0; i < 8; i += 4)
    {
        __m256 a = _mm256_unpacklo_ps(x[i], x[i + 1]), b = _mm256_unpackhi_ps(x[i], x[i + 1]);
        __m256 c = _mm256_unpacklo_ps(x[i + 2], x[i + 3]), d = _mm256_unpackhi_ps(x[i + 2], x[i + 3]);
        y[i] = _mm256_shuffle_ps(a, c, 0x44);
        y[i + 1] = _mm256_shuffle_ps(a, c, 0xee);
        y[i + 2] = _mm256_shuffle_ps(b, d, 0x44);
        y[i + 3] = _mm256_shuffle_ps(b, d, 0xee);
    }
    UNROLL for (size_t i = 0; i < 4; i++)
    {
        x[i] = _mm256_permute2f128_ps(y[i], y[i + 4], 0x20);
        x[i + 4] = _mm256_permute2f128_ps(y[i], y[i + 4], 0x31);
    }
}

/* One row of four sums. */
#define SCORE_ROWS ((size_t)1)
typedef __m128 four_sums;
static inline void vec_sums(const vf x[1][4][2], four_sums sums[1])
{
    __m128 quarter[4], half[2];
    UNROLL for (size_t i = 0; i < 4; i++) quarter[i] = vec_sum_halves(x[0][i]);
    UNROLL for (size_t i = 0; i < 2; i++) half[i] =
        _mm_add_ps(_mm_shuffle_ps(quarter[2 * i], quarter[2 * i + 1], 0x44),
                   _mm_shuffle_ps(quarter[2 * i], quarter[2 * i + 1], 0xee));
    sums[0] = _mm_add_ps(_mm_shuffle_ps(half[0], half[1], 0x88), _mm_shuffle_ps(half[0], half[1], 0xdd));
}
static inline void store_scaled(float *to, four_sums x, float scale)
{
    _mm_storeu_ps(to, _mm_mul_ps(x, _mm_set1_ps(scale)));
}

#endif

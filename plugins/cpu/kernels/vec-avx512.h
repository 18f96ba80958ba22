/* vec-avx512.h: vectors of 16 lanes, AVX-512 F, BW, DQ, VL; see vec.h. */
#ifndef CPU_KERNELS_VEC_AVX512_H
#define CPU_KERNELS_VEC_AVX512_H

#include <immintrin.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "unroll.h"

#define LANES ((size_t)16)

typedef __m512 vf;
typedef __m512i vi;
typedef __m512i vb;

static inline vf vf_zero(void)
{
    return _mm512_setzero_ps();
}
static inline vf vf_set1(float x)
{
    return _mm512_set1_ps(x);
}
static inline vf vf_load(const float *from)
{
    return _mm512_loadu_ps(from);
}
static inline void vf_store(float *to, vf x)
{
    _mm512_storeu_ps(to, x);
}
/* The first n < LANES values, then zeros; nothing else is touched. */
static inline vf vf_load_end(const float *from, size_t n)
{
    return _mm512_maskz_loadu_ps((__mmask16)((1u << n) - 1), from);
}
static inline void vf_store_end(float *to, size_t n, vf x)
{
    _mm512_mask_storeu_ps(to, (__mmask16)((1u << n) - 1), x);
}
static inline vf vf_add(vf a, vf b)
{
    return _mm512_add_ps(a, b);
}
static inline vf vf_sub(vf a, vf b)
{
    return _mm512_sub_ps(a, b);
}
static inline vf vf_mul(vf a, vf b)
{
    return _mm512_mul_ps(a, b);
}
static inline vf vf_div(vf a, vf b)
{
    return _mm512_div_ps(a, b);
}
static inline vf vf_fma(vf a, vf b, vf c)
{
    return _mm512_fmadd_ps(a, b, c);
}
static inline vf vf_min(vf a, vf b)
{
    return _mm512_min_ps(a, b);
}
static inline vf vf_max(vf a, vf b)
{
    return _mm512_max_ps(a, b);
}
static inline vf vf_abs(vf x)
{
    return _mm512_abs_ps(x);
}
static inline vf vf_round(vf x)
{
    return _mm512_roundscale_ps(x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
}
/* Lane by lane: unless a <= b, x; otherwise y. */
static inline vf vf_if_above(vf a, vf b, vf x, vf y)
{
    return _mm512_mask_mov_ps(y, _mm512_cmp_ps_mask(a, b, _CMP_NLE_UQ), x);
}
static inline vf vf_scale_2(vf x, vf n)
{
    return _mm512_scalef_ps(x, n);
}
static inline vf vf_from_f16(const uint8_t *from)
{
    return _mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *)(const void *)from));
}
static inline vf vf_from_f16_end(const uint8_t *from, size_t n)
{
    return _mm512_cvtph_ps(_mm256_maskz_loadu_epi16((__mmask16)((1u << n) - 1), from));
}
static inline void vf_to_f16(uint8_t *to, vf x)
{
    _mm256_storeu_si256((__m256i *)(void *)to, _mm512_cvtps_ph(x, _MM_FROUND_TO_NEAREST_INT));
}
static inline vf vf_from_i8(const uint8_t *from)
{
    return _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(_mm_loadu_si128((const __m128i *)(const void *)from)));
}
static inline vf vf_from_bf16_even(const uint8_t *from)
{
    return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_loadu_si512(from), 16));
}
static inline vf vf_from_bf16_odd(const uint8_t *from)
{
    return _mm512_castsi512_ps(
        _mm512_and_si512(_mm512_loadu_si512(from), _mm512_set1_epi32((int)0xffff0000)));
}

static inline vi vi_zero(void)
{
    return _mm512_setzero_si512();
}
static inline vi vi_set1(int32_t x)
{
    return _mm512_set1_epi32(x);
}
static inline vi vi_add(vi a, vi b)
{
    return _mm512_add_epi32(a, b);
}
static inline vf vi_to_vf(vi x)
{
    return _mm512_cvtepi32_ps(x);
}
/* The same bits. */
static inline vf vi_as_vf(vi x)
{
    return _mm512_castsi512_ps(x);
}

static inline vi vi_from_vf(vf x)
{
    return _mm512_cvtps_epi32(x);
}
static inline void vi_store(int32_t *to, vi x)
{
    _mm512_storeu_si512(to, x);
}
/* The low bytes of x[0] … x[3], interleaved lane by lane. */
static inline vi vi_bytes(const vi x[4])
{
    const __m512i low = _mm512_set1_epi32(255);
    __m512i a =
        _mm512_or_si512(_mm512_and_si512(x[0], low), _mm512_slli_epi32(_mm512_and_si512(x[1], low), 8));
    __m512i b = _mm512_or_si512(_mm512_and_si512(x[2], low), _mm512_slli_epi32(x[3], 8));
    return _mm512_or_si512(a, _mm512_slli_epi32(b, 16));
}

static inline vb vb_load(const uint8_t *from)
{
    return _mm512_loadu_si512(from);
}
static inline void vb_store(uint8_t *to, vb x)
{
    _mm512_storeu_si512(to, x);
}
static inline vb vb_or(vb a, vb b)
{
    return _mm512_or_si512(a, b);
}
/* `width` bits of each byte, from bit `from` on, moved to bit `to`; the others 0. */
static inline vb vb_bits(vb x, unsigned from, unsigned width, unsigned to)
{
    typedef uint16_t words __attribute__((vector_size(64)));
    words moved = from >= to ? (words)x >> (from - to) : (words)x << (to - from);
    return _mm512_and_si512((vb)moved, _mm512_set1_epi8((char)(((1u << width) - 1) << to)));
}
/* table[code] for each byte, a code below 16. */
static inline vb vb_lookup(vb codes, const uint8_t table[16])
{
    __m128i all = _mm_loadu_si128((const __m128i *)(const void *)table);
    return _mm512_shuffle_epi8(_mm512_broadcast_i32x4(all), codes);
}
/* table[code], the code in four bits of each lane, from bit `from` on. */
static inline vf vf_lookup(vb codes, unsigned from, const float table[16])
{
    return _mm512_permutexvar_ps(_mm512_srli_epi32(codes, from), _mm512_loadu_ps(table));
}
static inline vb vb_flip_signs(vb x)
{
    return _mm512_xor_si512(x, _mm512_set1_epi8(-128));
}

#if defined(__AVX512VNNI__)
#define VEC_DOT4 1
#define VEC_MAX  255
static inline vi vb_dot4(vi sum, vb unsigned_bytes, int32_t signed_bytes)
{
    return _mm512_dpbusd_epi32(sum, unsigned_bytes, _mm512_set1_epi32(signed_bytes));
}
#else
#define VEC_DOT4 0
#define VEC_MAX  127
static inline vb vb_dot2(vb unsigned_bytes, vb signed_bytes)
{
    return _mm512_maddubs_epi16(unsigned_bytes, signed_bytes);
}
static inline vb vb_add16(vb a, vb b)
{
    return _mm512_add_epi16(a, b);
}
static inline vi vb_widen(vb sums)
{
    return _mm512_madd_epi16(sums, _mm512_set1_epi16(1));
}
/* The same for signed bytes, -128 among them. */
static inline vb vb_dot2_signed(vb weights, vb activations)
{
    __mmask64 negative = _mm512_movepi8_mask(weights);
    return vb_dot2(_mm512_abs_epi8(weights),
                   _mm512_mask_sub_epi8(activations, negative, _mm512_setzero_si512(), activations));
}
#endif

/* Sums of virtual vectors of 16 lanes, in the order that vec.h gives. */
static inline float vec_sum(const vf x[1])
{
    __m256 a = _mm256_add_ps(_mm512_castps512_ps256(x[0]), _mm512_extractf32x8_ps(x[0], 1));
    __m128 b = _mm_add_ps(_mm256_castps256_ps128(a), _mm256_extractf128_ps(a, 1));
    b = _mm_add_ps(b, _mm_movehl_ps(b, b));
    return _mm_cvtss_f32(_mm_add_ss(b, _mm_movehdup_ps(b)));
}

static inline float vec_max(const vf x[1])
{
    return _mm512_reduce_max_ps(x[0]);
}

/* Lane j of x[i] and lane i of x[j] change places: 4 x 4 in each quarter, then the quarters. */
static inline void vec_transpose(vf x[16])
{
    __m512 y[16];
    UNROLL for (size_t i = 0; i < 16; i += 4)
    {
        __m512 a = _mm512_unpacklo_ps(x[i], x[i + 1]), b = _mm512_unpackhi_ps(x[i], x[i + 1]);
        __m512 c = _mm512_unpacklo_ps(x[i + 2], x[i + 3]), d = _mm512_unpackhi_ps(x[i + 2], x[i + 3]);
        y[i] = _mm512_shuffle_ps(a, c, 0x44);
        y[i + 1] = _mm512_shuffle_ps(a, c, 0xee);
        y[i + 2] = _mm512_shuffle_ps(b, d, 0x44);
        y[i + 3] = _mm512_shuffle_ps(b, d, 0xee);
    }
    UNROLL for (size_t i = 0; i < 4; i++)
    {
        __m512 a = _mm512_shuffle_f32x4(y[i], y[i + 4], 0x88), b = _mm512_shuffle_f32x4(y[i], y[i + 4], 0xdd);
        __m512 c = _mm512_shuffle_f32x4(y[i + 8], y[i + 12], 0x88);
        __m512 d = _mm512_shuffle_f32x4(y[i + 8], y[i + 12], 0xdd);
        x[i] = _mm512_shuffle_f32x4(a, c, 0x88);
        x[i + 4] = _mm512_shuffle_f32x4(b, d, 0x88);
        x[i + 8] = _mm512_shuffle_f32x4(a, c, 0xdd);
        x[i + 12] = _mm512_shuffle_f32x4(b, d, 0xdd);
    }
}

/* Four rows of four sums each. */
#define SCORE_ROWS ((size_t)4)
typedef __m128 four_sums;
static inline void vec_sums(const vf x[4][4][1], four_sums sums[4])
{
    __m512 quarter[4]; /* [row]: 128-bit lanes of columns 0 … 3, four partial sums in each */
    UNROLL for (size_t i = 0; i < 4; i++)
    {
        __m512 a = _mm512_add_ps(_mm512_shuffle_f32x4(x[i][0][0], x[i][1][0], 0x44),
                                 _mm512_shuffle_f32x4(x[i][0][0], x[i][1][0], 0xee));
        __m512 b = _mm512_add_ps(_mm512_shuffle_f32x4(x[i][2][0], x[i][3][0], 0x44),
                                 _mm512_shuffle_f32x4(x[i][2][0], x[i][3][0], 0xee));
        quarter[i] = _mm512_add_ps(_mm512_shuffle_f32x4(a, b, 0x88), _mm512_shuffle_f32x4(a, b, 0xdd));
    }
    __m512 half[2]; /* in each lane: two partial sums of each of two rows */
    UNROLL for (size_t i = 0; i < 2; i++) half[i] =
        _mm512_add_ps(_mm512_shuffle_ps(quarter[2 * i], quarter[2 * i + 1], 0x44),
                      _mm512_shuffle_ps(quarter[2 * i], quarter[2 * i + 1], 0xee));
    /* Lane c now gets the sums of column c for rows 0 … 3; transpose. */
    __m512 all =
        _mm512_add_ps(_mm512_shuffle_ps(half[0], half[1], 0x88), _mm512_shuffle_ps(half[0], half[1], 0xdd));
    const __m512i transposed = _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
    all = _mm512_permutexvar_ps(transposed, all);
    sums[0] = _mm512_castps512_ps128(all);
    sums[1] = _mm512_extractf32x4_ps(all, 1);
    sums[2] = _mm512_extractf32x4_ps(all, 2);
    sums[3] = _mm512_extractf32x4_ps(all, 3);
}
static inline void store_scaled(float *to, four_sums x, float scale)
{
    _mm_storeu_ps(to, _mm_mul_ps(x, _mm_set1_ps(scale)));
}

#endif

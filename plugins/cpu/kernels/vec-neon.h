/* vec-neon.h: vectors of 4 lanes, NEON as every 64-bit ARM processor has it, and its dot products where the
 * compiler may use them (ARMv8.2's dotprod); see vec.h. */
#ifndef CPU_KERNELS_VEC_NEON_H
#define CPU_KERNELS_VEC_NEON_H

#include <arm_neon.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "unroll.h"

#define LANES ((size_t)4)

typedef float32x4_t vf;
typedef int32x4_t vi;
typedef int32x4_t vb; /* one type for all whole numbers, as the templates expect from x86 */

static inline vf vf_zero(void)
{
    return vdupq_n_f32(0);
}
static inline vf vf_set1(float x)
{
    return vdupq_n_f32(x);
}
static inline vf vf_load(const float *from)
{
    return vld1q_f32(from);
}
static inline void vf_store(float *to, vf x)
{
    vst1q_f32(to, x);
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
    return vaddq_f32(a, b);
}
static inline vf vf_sub(vf a, vf b)
{
    return vsubq_f32(a, b);
}
static inline vf vf_mul(vf a, vf b)
{
    return vmulq_f32(a, b);
}
static inline vf vf_div(vf a, vf b)
{
    return vdivq_f32(a, b);
}
static inline vf vf_fma(vf a, vf b, vf c)
{
    return vfmaq_f32(c, a, b);
}
/* Unlike x86's, NaN where either is. */
static inline vf vf_min(vf a, vf b)
{
    return vminq_f32(a, b);
}
static inline vf vf_max(vf a, vf b)
{
    return vmaxq_f32(a, b);
}
static inline vf vf_abs(vf x)
{
    return vabsq_f32(x);
}
static inline vf vf_round(vf x)
{
    return vrndnq_f32(x);
}
/* Lane by lane: unless a <= b, x; otherwise y. */
static inline vf vf_if_above(vf a, vf b, vf x, vf y)
{
    return vbslq_f32(vcleq_f32(a, b), y, x);
}
/* n within -252 … 254: in two steps, each a power of two that float32 has. */
static inline vf vf_scale_2(vf x, vf n)
{
    int32x4_t whole = vcvtnq_s32_f32(n), half = vshrq_n_s32(whole, 1), bias = vdupq_n_s32(127);
    int32x4_t first = vshlq_n_s32(vaddq_s32(half, bias), 23);
    int32x4_t second = vshlq_n_s32(vaddq_s32(vsubq_s32(whole, half), bias), 23);
    return vmulq_f32(vmulq_f32(x, vreinterpretq_f32_s32(first)), vreinterpretq_f32_s32(second));
}
static inline vf vf_from_f16(const uint8_t *from)
{
    return vcvt_f32_f16(vreinterpret_f16_u8(vld1_u8(from)));
}
static inline vf vf_from_f16_end(const uint8_t *from, size_t n)
{
    uint8_t padded[2 * LANES] = {0};
    memcpy(padded, from, 2 * n);
    return vf_from_f16(padded);
}
static inline void vf_to_f16(uint8_t *to, vf x)
{
    vst1_u8(to, vreinterpret_u8_f16(vcvt_f16_f32(x)));
}
static inline vf vf_from_i8(const uint8_t *from)
{
    int32_t four;
    memcpy(&four, from, sizeof four);
    int16x8_t words = vmovl_s8(vreinterpret_s8_s32(vdup_n_s32(four)));
    return vcvtq_f32_s32(vmovl_s16(vget_low_s16(words)));
}
static inline vf vf_from_bf16_even(const uint8_t *from)
{
    return vreinterpretq_f32_u32(vshlq_n_u32(vreinterpretq_u32_u8(vld1q_u8(from)), 16));
}
static inline vf vf_from_bf16_odd(const uint8_t *from)
{
    return vreinterpretq_f32_u32(vandq_u32(vreinterpretq_u32_u8(vld1q_u8(from)), vdupq_n_u32(0xffff0000)));
}

static inline vi vi_zero(void)
{
    return vdupq_n_s32(0);
}
static inline vi vi_set1(int32_t x)
{
    return vdupq_n_s32(x);
}
static inline vi vi_add(vi a, vi b)
{
    return vaddq_s32(a, b);
}
static inline vf vi_to_vf(vi x)
{
    return vcvtq_f32_s32(x);
}
/* The same bits. */
static inline vf vi_as_vf(vi x)
{
    return vreinterpretq_f32_s32(x);
}
static inline vi vi_from_vf(vf x)
{
    return vcvtnq_s32_f32(x);
}
static inline void vi_store(int32_t *to, vi x)
{
    vst1q_s32(to, x);
}
/* The low bytes of x[0] … x[3], interleaved lane by lane. */
static inline vi vi_bytes(const vi x[4])
{
    return vsliq_n_s32(vsliq_n_s32(vsliq_n_s32(x[0], x[1], 8), x[2], 16), x[3], 24);
}

static inline vb vb_load(const uint8_t *from)
{
    return vreinterpretq_s32_u8(vld1q_u8(from));
}
static inline void vb_store(uint8_t *to, vb x)
{
    vst1q_u8(to, vreinterpretq_u8_s32(x));
}
static inline vb vb_or(vb a, vb b)
{
    return vorrq_s32(a, b);
}
/* `width` bits of each byte, from bit `from` on, moved to bit `to`; the others 0. */
static inline vb vb_bits(vb x, unsigned from, unsigned width, unsigned to)
{
    uint8x16_t bytes = vreinterpretq_u8_s32(x);
    uint8x16_t moved = from >= to ? bytes >> (uint8_t)(from - to) : bytes << (uint8_t)(to - from);
    if (from + width == 8 && to == 0) return vreinterpretq_s32_u8(moved); /* nothing else is left */
    return vreinterpretq_s32_u8(vandq_u8(moved, vdupq_n_u8((uint8_t)(((1u << width) - 1) << to))));
}
/* table[code] for each byte, a code below 16. */
static inline vb vb_lookup(vb codes, const uint8_t table[16])
{
    return vreinterpretq_s32_u8(vqtbl1q_u8(vld1q_u8(table), vreinterpretq_u8_s32(codes)));
}
/* table[code], the code in four bits of each lane, from bit `from` on. */
static inline vf vf_lookup(vb codes, unsigned from, const float table[16])
{
    const uint8_t *bytes = (const uint8_t *)(const void *)table;
    uint32x4_t code =
        vandq_u32(vshlq_u32(vreinterpretq_u32_s32(codes), vdupq_n_s32(-(int)from)), vdupq_n_u32(15));
    uint32x4_t places = vmlaq_u32(vdupq_n_u32(0x03020100), code, vdupq_n_u32(0x04040404));
    uint8x16x4_t all = {{vld1q_u8(bytes), vld1q_u8(bytes + 16), vld1q_u8(bytes + 32), vld1q_u8(bytes + 48)}};
    return vreinterpretq_f32_u8(vqtbl4q_u8(all, vreinterpretq_u8_u32(places)));
}
static inline vb vb_flip_signs(vb x)
{
    return veorq_s32(x, vdupq_n_s32((int32_t)0x80808080));
}

#define VEC_MAX 127 /* products are of signed bytes only */

#if defined(__ARM_FEATURE_DOTPROD)
#define VEC_DOT4 2
/* sum[t] += weights x activations [n_tokens][4]; one instruction takes a token's four from a vector of four
 * tokens. */
static inline __attribute__((always_inline)) void
vb_dot4_tokens(vi *sum, vb weights, const int8_t *activations, const size_t n_tokens)
{
    int8x16_t w = vreinterpretq_s8_s32(weights);
    UNROLL for (size_t t = 0; t < n_tokens / 4 * 4; t += 4)
    {
        int8x16_t a = vld1q_s8(activations + t * 4);
        sum[t] = vdotq_laneq_s32(sum[t], w, a, 0);
        sum[t + 1] = vdotq_laneq_s32(sum[t + 1], w, a, 1);
        sum[t + 2] = vdotq_laneq_s32(sum[t + 2], w, a, 2);
        sum[t + 3] = vdotq_laneq_s32(sum[t + 3], w, a, 3);
    }
    UNROLL for (size_t t = n_tokens / 4 * 4; t < n_tokens; t++)
    {
        int32_t four;
        memcpy(&four, activations + t * 4, sizeof four);
        sum[t] = vdotq_s32(sum[t], w, vreinterpretq_s8_s32(vdupq_n_s32(four)));
    }
}
#else
#define VEC_DOT4 0
static inline vb vb_dot2(vb weights, vb activations)
{
    int8x16_t w = vreinterpretq_s8_s32(weights), a = vreinterpretq_s8_s32(activations);
    int16x8_t low = vmull_s8(vget_low_s8(w), vget_low_s8(a)), high = vmull_high_s8(w, a);
    return vreinterpretq_s32_s16(vpaddq_s16(low, high));
}
static inline vb vb_dot2_signed(vb weights, vb activations)
{
    return vb_dot2(weights, activations);
}
static inline vb vb_add16(vb a, vb b)
{
    return vreinterpretq_s32_s16(vaddq_s16(vreinterpretq_s16_s32(a), vreinterpretq_s16_s32(b)));
}
static inline vi vb_widen(vb sums)
{
    return vpaddlq_s16(vreinterpretq_s16_s32(sums));
}
#endif

/* Sums of virtual vectors of 16 lanes, in the order that vec.h gives. */
static inline vf vec_sum_halves(const vf x[4])
{
    return vaddq_f32(vaddq_f32(x[0], x[2]), vaddq_f32(x[1], x[3]));
}

static inline float vec_sum(const vf x[4])
{
    vf quarter = vec_sum_halves(x);
    float32x2_t half = vadd_f32(vget_low_f32(quarter), vget_high_f32(quarter));
    return vget_lane_f32(half, 0) + vget_lane_f32(half, 1);
}

static inline float vec_max(const vf x[4])
{
    return vmaxvq_f32(vmaxq_f32(vmaxq_f32(x[0], x[1]), vmaxq_f32(x[2], x[3])));
}

/* Lane j of x[i] and lane i of x[j] change places: 2 x 2 first, then pairs of lanes. */
static inline void vec_transpose(vf x[4])
{
    float64x2_t a = vreinterpretq_f64_f32(vtrn1q_f32(x[0], x[1]));
    float64x2_t b = vreinterpretq_f64_f32(vtrn2q_f32(x[0], x[1]));
    float64x2_t c = vreinterpretq_f64_f32(vtrn1q_f32(x[2], x[3]));
    float64x2_t d = vreinterpretq_f64_f32(vtrn2q_f32(x[2], x[3]));
    x[0] = vreinterpretq_f32_f64(vtrn1q_f64(a, c));
    x[1] = vreinterpretq_f32_f64(vtrn1q_f64(b, d));
    x[2] = vreinterpretq_f32_f64(vtrn2q_f64(a, c));
    x[3] = vreinterpretq_f32_f64(vtrn2q_f64(b, d));
}

/* One row of four sums. */
#define SCORE_ROWS ((size_t)1)
typedef vf four_sums;
static inline void vec_sums(const vf x[1][4][4], four_sums sums[1])
{
    float64x2_t quarter[4];
    vf half[2]; /* two partial sums of each of two columns */
    UNROLL for (size_t i = 0; i < 4; i++) quarter[i] = vreinterpretq_f64_f32(vec_sum_halves(x[0][i]));
    UNROLL for (size_t i = 0; i < 2; i++) half[i] =
        vaddq_f32(vreinterpretq_f32_f64(vtrn1q_f64(quarter[2 * i], quarter[2 * i + 1])),
                  vreinterpretq_f32_f64(vtrn2q_f64(quarter[2 * i], quarter[2 * i + 1])));
    sums[0] = vpaddq_f32(half[0], half[1]);
}
static inline void store_scaled(float *to, four_sums x, float scale)
{
    vf_store(to, vf_mul(x, vf_set1(scale)));
}

#endif

/* lanes.h: vector arithmetic for the types with searched scales: four sub-blocks of a block side by side.
 *
 * A block of 256 values is transposed: x[g * n + i] holds value i of the sub-blocks 4 g … 4 g + 3, of n
 * values each. Each step then treats four sub-blocks at once, in vectors that every current processor has
 * (GCC's and clang's vector types). Sums run over i, one by one in each lane, and then over the lanes in
 * order, so that the same values give the same blocks everywhere. */
#ifndef ENGINE_QUANTIZE_LANES_H
#define ENGINE_QUANTIZE_LANES_H

#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#if defined(__SSE2__)
#include <emmintrin.h>
#elif defined(__ARM_NEON)
#include <arm_neon.h>
#endif

#define LANES      4
#define MAX_GROUPS 4 /* of lanes, in a block */

typedef float lane __attribute__((vector_size(16)));
typedef int32_t lane_mask __attribute__((vector_size(16)));

/* The functions below and their callers are compiled separately for each type, with its numbers as
 * constants. */
#define INLINE static inline __attribute__((always_inline))

/* A sub-block whose values are all smaller than this counts as zeros: no float16 scale is that small. */
#define SMALLEST_PEAK 1e-15f

INLINE lane splat(float value)
{
    return (lane){value, value, value, value};
}

INLINE lane pick(lane_mask mask, lane yes, lane no)
{
    return (lane)((mask & (lane_mask)yes) | (~mask & (lane_mask)no));
}

INLINE lane smaller(lane a, lane b)
{
#if defined(__SSE2__)
    return (lane)_mm_min_ps((__m128)a, (__m128)b);
#elif defined(__ARM_NEON)
    return (lane)vminq_f32((float32x4_t)a, (float32x4_t)b);
#else
    return pick(a < b, a, b);
#endif
}

INLINE lane larger(lane a, lane b)
{
#if defined(__SSE2__)
    return (lane)_mm_max_ps((__m128)a, (__m128)b);
#elif defined(__ARM_NEON)
    return (lane)vmaxq_f32((float32x4_t)a, (float32x4_t)b);
#else
    return pick(a > b, a, b);
#endif
}

INLINE lane clamp(lane value, float least, float most)
{
    return smaller(larger(value, splat(least)), splat(most));
}

/* To the nearest integer, for absolute values up to 2^22. */
INLINE lane nearest(lane value)
{
    return (value + 12582912.0f) - 12582912.0f;
}

INLINE lane size_of(lane value)
{
    return (lane)((lane_mask)value & 0x7fffffff);
}

/* 1 / value, or 0 for 0. */
INLINE lane inverse_of(lane value)
{
    return pick(value != 0, 1 / value, splat(0));
}

INLINE float inverse(float value)
{
    return value != 0 ? 1 / value : 0;
}

INLINE float sum(const lane *values, size_t groups)
{
    float total = 0;
    for (size_t g = 0; g < groups; g++)
        for (size_t j = 0; j < LANES; j++) total += values[g][j];
    return total;
}

INLINE void turn(const float *values, size_t n, size_t groups, lane *x)
{
    for (size_t g = 0; g < groups; g++, values += LANES * n)
        for (size_t i = 0; i < n; i++)
            x[g * n + i] = (lane){values[i], values[n + i], values[2 * n + i], values[3 * n + i]};
}

/* The weights of block b, or NULL. */
INLINE const float *block_weights(const float *weights, size_t b)
{
    return weights ? weights + 256 * b : NULL;
}

/* What the error of x[i] counts. w NULL: 1; callers are compiled for either case. */
INLINE lane weight_of(const lane *w, size_t i)
{
    return w ? w[i] : splat(1);
}

/* w, or NULL if there is none, moved on to the next four sub-blocks. */
INLINE const lane *weights_at(const lane *w, size_t i)
{
    return w ? w + i : NULL;
}

#endif

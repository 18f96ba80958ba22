/* vec-256.h: what simd.h needs of AVX2, FMA and F16C. */
#include <immintrin.h>
#include <stdint.h>
#include <string.h>

#define LANES 8

static inline __m256 load_f16_256(const uint8_t *from)
{
    return _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)(const void *)from));
}

static inline void store_f16_256(uint8_t *to, __m256 v)
{
    _mm_storeu_si128((__m128i *)(void *)to, _mm256_cvtps_ph(v, _MM_FROUND_TO_NEAREST_INT));
}

static inline float add_lanes_256(__m256 v)
{
    __m128 four = _mm_add_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1));
    __m128 two = _mm_add_ps(four, _mm_movehl_ps(four, four));
    return _mm_cvtss_f32(_mm_add_ss(two, _mm_shuffle_ps(two, two, 1)));
}

#define load_f16(from)   (floats) load_f16_256(from)
#define store_f16(to, v) store_f16_256(to, (__m256)(v))
#define add_lanes(v)     add_lanes_256((__m256)(v))

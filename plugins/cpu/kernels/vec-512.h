/* vec-512.h: what simd.h needs of AVX-512 F, BW, DQ, VL. */
#include <immintrin.h>
#include <stdint.h>
#include <string.h>

#define LANES 16

static inline __m512 load_f16_512(const uint8_t *from)
{
    return _mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *)(const void *)from));
}

static inline void store_f16_512(uint8_t *to, __m512 v)
{
    _mm256_storeu_si256((__m256i *)(void *)to, _mm512_cvtps_ph(v, _MM_FROUND_TO_NEAREST_INT));
}

static inline float add_lanes_512(__m512 v)
{
    return _mm512_reduce_add_ps(v);
}

#define load_f16(from)   (floats) load_f16_512(from)
#define store_f16(to, v) store_f16_512(to, (__m512)(v))
#define add_lanes(v)     add_lanes_512((__m512)(v))

/* avx2.c: kernels for AVX2, FMA and F16C: nearly every x86 processor since 2013. */
#include "kernels/vec-256.h"

#define TABLE       kernels_avx2
#define NAME        "avx2"
#define F32_TOKENS  6
#define INT8_TOKENS 4

/* Pairs of byte products would not fit 16 bits (255 * 127 * 2), so even and odd bytes are multiplied as 16-bit numbers,
 * each pair of whose products is added to 32 bits. */
static inline __m256i dot4_256(__m256i sum, __m256i q, __m256i x)
{
    __m256i low = _mm256_set1_epi16(0xff);
    __m256i even = _mm256_madd_epi16(_mm256_and_si256(q, low), _mm256_srai_epi16(_mm256_slli_epi16(x, 8), 8));
    __m256i odd = _mm256_madd_epi16(_mm256_srli_epi16(q, 8), _mm256_srai_epi16(x, 8));
    return _mm256_add_epi32(sum, _mm256_add_epi32(even, odd));
}
#define dot4(sum, q, x) (ints) dot4_256((__m256i)(sum), (__m256i)(q), (__m256i)(x))

#include "kernels/simd.h"

/* avx512.c: kernels for AVX-512 without VNNI: Skylake-X. */
#include "kernels/vec-512.h"

#define TABLE       kernels_avx512
#define NAME        "avx512"
#define F32_TOKENS  12
#define INT8_TOKENS 8

/* See avx2.c. */
static inline __m512i dot4_512(__m512i sum, __m512i q, __m512i x)
{
    __m512i low = _mm512_set1_epi16(0xff);
    __m512i even = _mm512_madd_epi16(_mm512_and_si512(q, low), _mm512_srai_epi16(_mm512_slli_epi16(x, 8), 8));
    __m512i odd = _mm512_madd_epi16(_mm512_srli_epi16(q, 8), _mm512_srai_epi16(x, 8));
    return _mm512_add_epi32(sum, _mm512_add_epi32(even, odd));
}
#define dot4(sum, q, x) (ints) dot4_512((__m512i)(sum), (__m512i)(q), (__m512i)(x))

#include "kernels/simd.h"

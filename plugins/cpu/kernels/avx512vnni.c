/* avx512vnni.c: kernels for AVX-512 with VNNI: Intel's servers since Cascade Lake, AMD's processors since Zen 4. */
#include "kernels/vec-512.h"

#define TABLE       kernels_avx512vnni
#define NAME        "avx512vnni"
#define F32_TOKENS  12
#define INT8_TOKENS 12

#define dot4(sum, q, x) (ints) _mm512_dpbusd_epi32((__m512i)(sum), (__m512i)(q), (__m512i)(x))

#include "kernels/simd.h"

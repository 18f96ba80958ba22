/* avxvnni.c: kernels for AVX2 with AVX-VNNI: Intel's processors without AVX-512 since 2021. */
#include "kernels/vec-256.h"

#define TABLE       kernels_avxvnni
#define NAME        "avxvnni"
#define F32_TOKENS  6
#define INT8_TOKENS 5

#define dot4(sum, q, x) (ints) _mm256_dpbusd_avx_epi32((__m256i)(sum), (__m256i)(q), (__m256i)(x))

#include "kernels/simd.h"

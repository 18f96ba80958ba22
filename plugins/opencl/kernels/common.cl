// common.cl: precedes every program: the two forms in which kernels are compiled, and arithmetic.
//
// With VECTORS defined a kernel is for processors with vector registers: a work-item is a group of its own
// and takes 16 rows at a time in the lanes of a vector. Without it, the kernel is for GPUs: neighbouring
// work-items take neighbouring rows. Kernels for rows of weights are written once, in terms of W, I and F:
// words, integers and floats of 16 rows or of one.

#ifdef VECTORS
#define LANES 16
typedef uint16 W;
typedef int16 I;
typedef float16 F;
#define AS_F(x) as_float16(x)
#define AS_I(x) as_int16(x)
#define AS_W(x) as_uint16(x)
#define LOAD_WORDS(pointer) (*(global const uint16 *)(pointer)) // aligned: rows come in panels of 32
#ifdef __has_builtin
#if __has_builtin(__builtin_convertvector)
#define TO_F(x)  __builtin_convertvector(x, float16)
#define WIDEN(x) __builtin_convertvector(x, uint16)
#endif
#endif
#ifndef TO_F
#define TO_F(x)  convert_float16(x)
#define WIDEN(x) convert_uint16(x)
#endif
#else
#define LANES 1
typedef uint W;
typedef int I;
typedef float F;
#define AS_F(x) as_float(x)
#define AS_I(x) as_int(x)
#define AS_W(x) as_uint(x)
#define LOAD_WORDS(pointer) (*(pointer))
#define TO_F(x) convert_float(x)
#endif

// For short loops: arrays indexed in them stay in registers.
#define UNROLL _Pragma("unroll")

// Element types, by their numbers in plugin-api.h.
#define TYPE_F32    0
#define TYPE_F16    1
#define TYPE_Q4_0   2
#define TYPE_Q4_1   3
#define TYPE_Q5_0   6
#define TYPE_Q5_1   7
#define TYPE_Q8_0   8
#define TYPE_Q2_K   10
#define TYPE_Q3_K   11
#define TYPE_Q4_K   12
#define TYPE_Q5_K   13
#define TYPE_Q6_K   14
#define TYPE_IQ4_NL 20
#define TYPE_IQ4_XS 23
#define TYPE_BF16   30
#define TYPE_MXFP4  39

#ifdef HALF
#pragma OPENCL EXTENSION cl_khr_fp16 : enable
#endif

// The float16 in the low half of a word.
F half_value(W word)
{
#if defined(HALF) && !defined(VECTORS)
    return convert_float(as_half((ushort)word));
#else
    W magnitude = word & 0x7fff;
    F normal = AS_F((magnitude << 13) + 0x38000000);
    F denormal = TO_F(AS_I(magnitude)) * 0x1p-24f;
    F infinite = AS_F(magnitude << 13 | 0x7f800000);
    F value = magnitude < 0x400 ? denormal : magnitude >= 0x7c00 ? infinite : normal;
    return AS_F(AS_W(value) | (word & 0x8000) << 16);
#endif
}


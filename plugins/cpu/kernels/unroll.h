/* unroll.h: UNROLL precedes loops over tokens, rows or parts of a vector whose arrays must end up in
 * registers. */
#ifndef CPU_KERNELS_UNROLL_H
#define CPU_KERNELS_UNROLL_H

#if defined(__clang__)
#define UNROLL _Pragma("unroll")
#else
#define UNROLL _Pragma("GCC unroll 32")
#endif

#endif

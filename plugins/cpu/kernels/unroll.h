/* unroll.h: what compilers have to be told about unrolled loops.
 *
 * UNROLL precedes loops over tokens, rows or parts of a vector whose arrays must end up in registers.
 *
 * KEEP_POINTER makes a loop's pointer a value of its own: GCC otherwise gives each of thirty loads at
 * constant distances from it an index of its own, more than there are registers.
 * KEEP_VECTOR keeps sums of whole numbers in the order written: GCC otherwise makes a tree of them, whose
 * leaves don't fit into registers either. */
#ifndef CPU_KERNELS_UNROLL_H
#define CPU_KERNELS_UNROLL_H

#if defined(__clang__)
#define UNROLL _Pragma("unroll")
#else
#define UNROLL _Pragma("GCC unroll 32")
#endif

#if defined(__aarch64__)
#define VECTOR_REGISTER "+w"
#else
#define VECTOR_REGISTER "+v"
#endif
#define KEEP_POINTER(pointer) __asm__("" : "+r"(pointer))
#define KEEP_VECTOR(vector)   __asm__("" : VECTOR_REGISTER(vector))

#endif

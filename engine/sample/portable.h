/* portable.h: arithmetic that gives the same bits on every machine, for the sampler, whose choices depend on
 * the last bit of a sum. libm's exp differs between systems, so this is our own. It relies on IEEE 754
 * float64 with each +, -, * and / rounded separately, to nearest: no x87 registers, no contraction to fused
 * multiply-adds (engine/CMakeLists.txt forbids it for this folder), no -ffast-math. */
#ifndef ENGINE_SAMPLE_PORTABLE_H
#define ENGINE_SAMPLE_PORTABLE_H

#include <stdint.h>

/* e^x for x <= 0, within two units in the last place; 0 below -708, where results would lose bits. */
double portable_exp(double x);

/* The natural logarithm of a normal number x > 0, within two units in the last place (or of 2^-53 near 1). */
double portable_log(double x);

/* The next 64 random bits, by splitmix64 (Steele, Lea, Flood: Fast Splittable Pseudorandom Number Generators,
 * 2014). *state starts as the seed, which may have any value. */
uint64_t portable_random(uint64_t *state);

/* The same as a number in [0, 1), a multiple of 2^-53. */
double portable_random_unit(uint64_t *state);

#endif

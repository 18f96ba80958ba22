/* numbers.h: repeatable random numbers, and float16, for the conformance suite. */
#ifndef ENGINE_CHECK_NUMBERS_H
#define ENGINE_CHECK_NUMBERS_H

#include <stddef.h>
#include <stdint.h>

/* Uniform in 0 … 2^32-1; roughly normal with deviation 1. */
uint32_t random_bits(uint64_t *seed);
float random_normal(uint64_t *seed);
float *random_floats(uint64_t *seed, size_t n); /* normal, in new memory; NULL: no memory */
/* Of either sign, one to five quarters of `size`. */
double random_scale(uint64_t *seed, double size);
void random_bytes(uint64_t *seed, uint8_t *at, size_t n);

/* float16. half_of rounds to nearest, ties to even. */
double half_value(uint16_t half);
uint16_t half_of(double value);
void put_half(uint8_t *at, double value);
double get_half(const uint8_t *at);

#endif

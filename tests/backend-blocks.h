/* backend-blocks.h: blocks of the quantised types beyond Q8_0 and Q4_0, for backend-types.c: random ones, and what they
 * mean in double precision, from GGUF's definitions. */
#ifndef TESTS_BACKEND_BLOCKS_H
#define TESTS_BACKEND_BLOCKS_H

#include "backend-types.h"

/* backend-types.c */
void test_put_half(uint8_t *at, double value);
double test_get_half(const uint8_t *at);
void test_random_bytes(uint64_t *seed, uint8_t *at, size_t n);
double test_random_scale(uint64_t *seed, double size);

extern const struct test_type test_blocks[];
extern const size_t n_test_blocks;

#endif

/* block-values.h: what the blocks of quantised types mean, value by value, written down as plainly as can be: for tests
 * of what reads and writes such blocks. tests/test-quantize.c compares it with gguf-py. */
#ifndef TESTS_BLOCK_VALUES_H
#define TESTS_BLOCK_VALUES_H

#include <stddef.h>
#include <stdint.h>

/* The values of a block of Q8_0, Q4_0, Q4_1, Q5_0, Q5_1, Q2_K, Q3_K, Q4_K, Q5_K, Q6_K, IQ4_NL or IQ4_XS. Returns how many
 * there are, 0 for another type. */
size_t block_values(uint32_t type, const uint8_t *block, float *values);

#endif

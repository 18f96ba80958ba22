/* backend-types.h: the weight types that backend tests know: their blocks, random data, and what a block means
 * in double precision, written from the formats' definitions. */
#ifndef TESTS_BACKEND_TYPES_H
#define TESTS_BACKEND_TYPES_H

#include <stddef.h>
#include <stdint.h>

struct test_type {
    uint32_t type;
    const char *name;
    size_t block_length, block_size;
    /* Fills a block whose values are of the order of 1. NULL: not a type of weights. */
    void (*randomise)(uint64_t *seed, uint8_t *block);
    void (*values)(const uint8_t *block, double *values);
};

/* Ends the test if there is none. */
const struct test_type *test_type(uint32_t type);

#endif

/* formats.h: the types that the conformance suite knows: their blocks, random data, and what a block means in double
 * precision, written down from the formats' definitions. The functions take types that format_of knows. */
#ifndef ENGINE_CHECK_FORMATS_H
#define ENGINE_CHECK_FORMATS_H

#include <stddef.h>
#include <stdint.h>

struct format {
    uint32_t type; /* enum engine_type */
    const char *name;
    size_t block_length, block_size; /* values, bytes */
    /* Fills a block whose values are of the order of 1. NULL: not a type of weights. */
    void (*randomise)(uint64_t *seed, uint8_t *block);
    void (*values)(const uint8_t *block, double *values);
};

const struct format *format_of(uint32_t type); /* NULL: unknown */
const struct format *format_at(size_t index);  /* one after the other; NULL behind the last */

/* Bytes of a dense row of n elements. */
uint64_t format_bytes(uint32_t type, uint64_t n);
/* Random weights as in files, in new memory: rows of k elements. NULL: no memory. */
void *random_weight(uint64_t *seed, uint32_t type, uint64_t k, uint64_t rows);
/* What such weights (or cache rows) mean: n elements, in new memory. NULL: no memory. */
double *weight_values(uint32_t type, const void *data, size_t n);

#endif

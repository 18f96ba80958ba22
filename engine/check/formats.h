/* formats.h: repeatable random numbers, and the types that the conformance suite knows: random data of
 * theirs, and its values in double precision. plugin-types.h unpacks the blocks, as it does for plugins; its
 * results are compared with gguf-py (case-hashed.c, tests/common/test-types.c). The functions take types that
 * format_of knows. */
#ifndef ENGINE_CHECK_FORMATS_H
#define ENGINE_CHECK_FORMATS_H

#include <stdbool.h>
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

/* ---- Types ---- */

struct format {
    uint32_t type; /* enum engine_type */
    const char *name;
    size_t block_length, block_size; /* values, bytes */
    bool is_weight;                  /* a type of weights */
    struct format_half {
        size_t offset;
        double size; /* of a random number; 0: there is none */
    } halves[2];     /* the block's float16 numbers, random ones sized so that its values are about 1 */
};

const struct format *format_of(uint32_t type); /* NULL: unknown */
const struct format *format_at(size_t index);  /* the list of all; NULL after the last */

/* Bytes of a dense row of n elements. */
uint64_t format_bytes(uint32_t type, uint64_t n);
/* At least n elements, in whole blocks. */
uint32_t format_whole(const struct format *format, uint32_t n);
/* What the input of products may be rounded by, relative: to the type of weights that aren't quantised. */
double format_input_rounding(uint32_t type);
/* Random weights as in files, in new memory: rows of k elements. NULL: no memory. */
void *random_weight(uint64_t *seed, uint32_t type, uint64_t k, uint64_t rows);
/* The values of one block. */
void block_values(const struct format *format, const uint8_t *block, double *values);
/* The values of such weights (or cache rows): n elements, in new memory. NULL: no memory. */
double *weight_values(uint32_t type, const void *data, size_t n);

#endif

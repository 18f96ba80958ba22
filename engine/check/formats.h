/* formats.h: the types that the conformance suite knows: random data, and what it means in double precision.
 * plugin-types.h takes the blocks apart, as it does for plugins; what it makes of them is compared with
 * gguf-py (case-hashed.c, tests/test-types.c). The functions take types that format_of knows. */
#ifndef ENGINE_CHECK_FORMATS_H
#define ENGINE_CHECK_FORMATS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct format {
    uint32_t type; /* enum engine_type */
    const char *name;
    size_t block_length, block_size; /* values, bytes */
    bool is_weight;                  /* a type of weights */
    struct format_half {
        size_t offset;
        double size; /* of a random one; 0: there is none */
    } halves[2];     /* where a block has numbers in float16, by which its values become of the order of 1 */
};

const struct format *format_of(uint32_t type); /* NULL: unknown */
const struct format *format_at(size_t index);  /* one after the other; NULL behind the last */

/* Bytes of a dense row of n elements. */
uint64_t format_bytes(uint32_t type, uint64_t n);
/* Random weights as in files, in new memory: rows of k elements. NULL: no memory. */
void *random_weight(uint64_t *seed, uint32_t type, uint64_t k, uint64_t rows);
/* What one block means. */
void block_values(const struct format *format, const uint8_t *block, double *values);
/* What such weights (or cache rows) mean: n elements, in new memory. NULL: no memory. */
double *weight_values(uint32_t type, const void *data, size_t n);

#endif

/* checked.h: arithmetic on numbers that come from files. Each function returns true if the result did not
 * fit. */
#ifndef ENGINE_BASE_CHECKED_H
#define ENGINE_BASE_CHECKED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

static inline bool checked_add(uint64_t a, uint64_t b, uint64_t *sum)
{
    return __builtin_add_overflow(a, b, sum);
}

static inline bool checked_mul(uint64_t a, uint64_t b, uint64_t *product)
{
    return __builtin_mul_overflow(a, b, product);
}

/* The next multiple of `alignment`, a power of two. */
static inline bool checked_align(uint64_t value, uint64_t alignment, uint64_t *aligned)
{
    if (checked_add(value, alignment - 1, aligned)) return true;
    *aligned &= ~(alignment - 1);
    return false;
}

#endif

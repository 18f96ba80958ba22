/* values.h: a run of a tensor's values in another type. */
#ifndef ENGINE_QUANTIZE_VALUES_H
#define ENGINE_QUANTIZE_VALUES_H

#include <stddef.h>
#include <stdint.h>

#include "model/model.h"

enum values_result { VALUES_OK, VALUES_WRONG, VALUES_NO_MEMORY };

/* Converts values at … at + n - 1 of a tensor, counted through its rows and matrices, to `type`; `at` and n
 * are multiples of both types' block lengths. weights: [matrices, columns], see encode.h, or NULL. x: [n], scratch.
 * The result doesn't depend on how a tensor is cut. VALUES_WRONG: a value is not finite, or too large for the
 * type. */
enum values_result values_convert(const struct model_tensor *tensor, uint32_t type, const float *weights,
                                  uint64_t at, size_t n, float *x, uint8_t *bytes);

/* Values of a tensor, and bytes of n values of a type, a multiple of its block length. */
uint64_t values_count(const struct model_tensor *tensor);
size_t values_size(uint32_t type, uint64_t n);

#endif

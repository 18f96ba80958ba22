/* scalar.h: the kernels in plain C. Other tables use these where they have nothing faster. */
#ifndef CPU_KERNELS_SCALAR_H
#define CPU_KERNELS_SCALAR_H

#include "kernels.h"

enum { SCALAR_TILE_TOKENS = 4 };

unpack_function scalar_unpack_f32, scalar_unpack_f16, scalar_unpack_bf16;
unpack_function scalar_unpack_int8;  /* every integer type */
unpack_function scalar_unpack_exact; /* the same, to floats */

void scalar_f32_tile(const float *x, const float *activations, size_t n, size_t n_tokens, float *sums);
void scalar_int8_tiles(const struct tile *tiles, size_t n_panels, const struct weight_type *type,
                       const struct int8_part *part, float *const *sums);
quantize_function scalar_quantize_fitted, scalar_quantize_q8_0;
void scalar_activate(uint32_t kind, const struct curve *curve, const float *x, const float *factor,
                     float *out, size_t n);
void scalar_f32_to_q8_0(const float *from, uint8_t *to, size_t n);

#endif

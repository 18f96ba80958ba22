/* encode.h: converts float32 values to blocks of the types of GGUF files.
 *
 * The layouts are those that gguf-py's gguf.quants reads. Each function takes n values, a multiple of the
 * type's block length, all finite and no larger than encode_largest, and writes the blocks one after the
 * other. Its output depends only on the values and weights of each block: not on n, the processor or the
 * compiler. */
#ifndef ENGINE_QUANTIZE_ENCODE_H
#define ENGINE_QUANTIZE_ENCODE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* weights: [n], more than 0: what the squared error of each value counts; NULL: all the same. F16, BF16
 * and Q8_0 make no use of them. */
typedef void encode_function(const float *x, const float *weights, size_t n, uint8_t *blocks);

/* encode-plain.c: the same bits as every other program, if there are no weights. */
encode_function encode_f16, encode_bf16, encode_q8_0, encode_q4_0, encode_q4_1, encode_q5_0, encode_q5_1;
/* encode-scaled.c */
encode_function encode_q3_k, encode_q6_k, encode_iq4_nl, encode_iq4_xs;
/* encode-affine.c */
encode_function encode_q2_k, encode_q4_k, encode_q5_k;

/* NULL for a type that cannot be written. F32 can: it is a copy. */
encode_function *quantize_encoder(uint32_t type);

/* Whether the encoder of a type uses weights. */
bool encode_uses_weights(uint32_t type);

/* The largest absolute value that the encoder of a type accepts. */
float encode_largest(uint32_t type);

/* Whether values of a type can be read here. */
bool quantize_decodes(uint32_t type);

/* Converts n values of such a type, whole blocks as stored in files, to float32. */
void quantize_decode(uint32_t type, const uint8_t *from, size_t n, float *x);

/* Whether all scales of the blocks written are finite. They are not if a value was too large. */
bool quantize_encoded_is_finite(uint32_t type, const uint8_t *blocks, size_t n);

/* encode-weighted.c: the levels 0 … most of a block of 32 values near d q + m, with the least weighted
 * error that a search finds. d, m: the first to try; set to float16 numbers. `half`: m = -half d; 0: m is
 * free. */
void encode_weighted(const float *x, const float *weights, int most, int half, float *d, float *m,
                     uint8_t *q);

#endif

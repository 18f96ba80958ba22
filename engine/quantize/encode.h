/* encode.h: float32 values to blocks of the types of GGUF files.
 *
 * The layouts are those that gguf.quants of gguf-py reads. Each function takes n values, a multiple of the type's block
 * length, all of them finite and no larger than encode_largest, and writes the blocks one after the other. What it writes
 * depends on nothing but the values of each block: not on n, on the processor, or on the compiler. */
#ifndef ENGINE_QUANTIZE_ENCODE_H
#define ENGINE_QUANTIZE_ENCODE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef void encode_function(const float *x, size_t n, uint8_t *blocks);

/* encode-plain.c: what every program makes of the same values, to the bit. */
encode_function encode_f16, encode_bf16, encode_q8_0, encode_q4_0, encode_q4_1, encode_q5_0, encode_q5_1;
/* encode-scaled.c */
encode_function encode_q3_k, encode_q6_k, encode_iq4_nl, encode_iq4_xs;
/* encode-affine.c */
encode_function encode_q2_k, encode_q4_k, encode_q5_k;

/* NULL for a type that isn't written here. F32 is: it is a copy. */
encode_function *quantize_encoder(uint32_t type);

/* The largest size of a value that may be given to the encoder of a type. */
float encode_largest(uint32_t type);

/* Whether values of a type can be read here: F32, F16 or BF16. */
bool quantize_encodes_from(uint32_t type);

/* n values of such a type, as they are in files, to float32. */
void quantize_decode_plain(uint32_t type, const uint8_t *from, size_t n, float *x);

/* Whether all scales of the blocks that were written are finite: they are not where a value was too large. */
bool quantize_encoded_is_finite(uint32_t type, const uint8_t *blocks, size_t n);

#endif

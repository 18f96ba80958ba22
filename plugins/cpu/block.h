/* block.h: one block of a quantised type as it is in files, taken apart. */
#ifndef CPU_BLOCK_H
#define CPU_BLOCK_H

#include <stdint.h>

/* Value i = (values[q[i]] or q[i], less the type's offset) * (d * scales[i / sub]) - dmin * mins[i / sub], in float32,
 * in this order. sub: columns that share a scale, 16 or 32. Types in blocks of 32 fill q[0 … 31], scales[0] and mins[0];
 * those of 256 all of q, and 256 / sub scales and mins. */
struct block {
    uint8_t q[256]; /* the integer value plus the type's offset */
    float d, dmin;
    int8_t scales[16];
    uint8_t mins[16];
};

/* type-legacy.c, type-k.c; offsets and subs are in formats.h */
void q8_0_read(const uint8_t *from, struct block *block);
void q4_0_read(const uint8_t *from, struct block *block);
void q4_1_read(const uint8_t *from, struct block *block);
void q5_0_read(const uint8_t *from, struct block *block);
void q5_1_read(const uint8_t *from, struct block *block);
void iq4_nl_read(const uint8_t *from, struct block *block);
void q2_k_read(const uint8_t *from, struct block *block);
void q3_k_read(const uint8_t *from, struct block *block);
void q4_k_read(const uint8_t *from, struct block *block);
void q5_k_read(const uint8_t *from, struct block *block);
void q6_k_read(const uint8_t *from, struct block *block);
void iq4_xs_read(const uint8_t *from, struct block *block);

/* type-iq.c. Offset 128. */
void iq2_xxs_read(const uint8_t *from, struct block *block); /* sub 32 */
void iq2_xs_read(const uint8_t *from, struct block *block);  /* sub 16 */
void iq2_s_read(const uint8_t *from, struct block *block);   /* sub 16 */
void iq3_xxs_read(const uint8_t *from, struct block *block); /* sub 32 */
void iq3_s_read(const uint8_t *from, struct block *block);   /* sub 32 */
void iq1_s_read(const uint8_t *from, struct block *block);   /* sub 32; q is eight times the value */
void iq1_m_read(const uint8_t *from, struct block *block);   /* sub 16; q is eight times the value */

/* type-other.c. Offset 128, sub 32; q of MXFP4 is the code, 0 … 15, of the value. */
void tq1_0_read(const uint8_t *from, struct block *block);
void tq2_0_read(const uint8_t *from, struct block *block);
void q8_k_read(const uint8_t *from, struct block *block);
void mxfp4_read(const uint8_t *from, struct block *block);

#endif

// unpack.cl: 32 values of rows of a weight of TYPE. weight.c describes the layout of weights in memory,
// llama.cpp's GGUF the meaning of blocks. A quantised value is scale * (code - ZERO) + least, its code a
// byte; scale and least belong to 32 values or, with HALVES, to 16.

#if TYPE == TYPE_F32
#define BLOCK 32
#define BLOCK_WORDS 32
#elif TYPE == TYPE_F16 || TYPE == TYPE_BF16
#define BLOCK 32
#define BLOCK_WORDS 16
#elif TYPE == TYPE_Q8_0
#define BLOCK 64
#define BLOCK_WORDS 17
#define ZERO 128
#elif TYPE == TYPE_Q4_0
#define BLOCK 64
#define BLOCK_WORDS 9
#define ZERO 8
#elif TYPE == TYPE_Q4_1
#define BLOCK 32
#define BLOCK_WORDS 5
#define HAS_LEAST
#elif TYPE == TYPE_Q5_0
#define BLOCK 32
#define BLOCK_WORDS 6
#define ZERO 16
#elif TYPE == TYPE_Q5_1
#define BLOCK 32
#define BLOCK_WORDS 6
#define HAS_LEAST
#elif TYPE == TYPE_Q2_K
#define BLOCK 256
#define BLOCK_WORDS 21
#define HALVES
#define HAS_LEAST
#elif TYPE == TYPE_Q3_K
#define BLOCK 256
#define BLOCK_WORDS 28
#define HALVES
#define ZERO 4
#elif TYPE == TYPE_Q4_K
#define BLOCK 256
#define BLOCK_WORDS 36
#define HAS_LEAST
#elif TYPE == TYPE_Q5_K
#define BLOCK 256
#define BLOCK_WORDS 44
#define HAS_LEAST
#elif TYPE == TYPE_Q6_K
#define BLOCK 256
#define BLOCK_WORDS 53
#define HALVES
#define ZERO 32
#elif TYPE == TYPE_IQ4_NL || TYPE == TYPE_MXFP4
#define BLOCK 32
#define BLOCK_WORDS 5
#define ZERO 128
#elif TYPE == TYPE_IQ4_XS
#define BLOCK 256
#define BLOCK_WORDS 34
#define ZERO 128
#endif
#ifndef ZERO
#define ZERO 0
#endif

#define PLAIN (TYPE == TYPE_F32 || TYPE == TYPE_F16 || TYPE == TYPE_BF16)
#define PANEL 32

// Word n of the block that begins at `block`, of the current rows.
#define AT(n) LOAD_WORDS(block + (n) * PANEL)

// `rows` points to the first word of the current rows in their panel.
global const uint *block_of(global const uint *rows, uint chunk)
{
    return rows + (size_t)(chunk / (BLOCK / 32)) * (BLOCK_WORDS * PANEL);
}

#if PLAIN
void unpack_values(global const uint *rows, uint chunk, F values[32])
{
    global const uint *block = block_of(rows, chunk);
#if TYPE == TYPE_F32
    UNROLL for (uint i = 0; i < 32; i++) values[i] = AS_F(AT(i));
#else
    UNROLL for (uint i = 0; i < 16; i++) {
        W pair = AT(i);
#if TYPE == TYPE_F16
        values[2 * i] = half_value(pair);
        values[2 * i + 1] = half_value(pair >> 16);
#else
        values[2 * i] = AS_F(pair << 16);
        values[2 * i + 1] = AS_F(pair & 0xffff0000);
#endif
    }
#endif
}
#else

#if TYPE == TYPE_IQ4_NL || TYPE == TYPE_IQ4_XS
constant uchar nibble_codes[16] = {1,   24,  45,  63,  79,  93,  106, 118,
                                   129, 141, 153, 166, 181, 197, 217, 241}; // ZERO + the table's values
#elif TYPE == TYPE_MXFP4
constant uchar nibble_codes[16] = {128, 129, 130, 131, 132, 134, 136, 140,
                                   128, 127, 126, 125, 124, 122, 120, 116}; // E2M1, doubled
#endif

#if TYPE == TYPE_IQ4_NL || TYPE == TYPE_IQ4_XS || TYPE == TYPE_MXFP4
// Looks up the four nibbles in the low halves of a word's bytes, by choosing bit after bit among the table's
// entries.
W look_up(W nibbles)
{
    W chosen[8];
    W bit = (nibbles & 0x01010101) * 255;
    UNROLL for (uint i = 0; i < 8; i++) {
        uint a = nibble_codes[2 * i] * 0x01010101u, b = nibble_codes[2 * i + 1] * 0x01010101u;
        chosen[i] = (bit & (a ^ b)) ^ a;
    }
    UNROLL for (uint level = 1; level < 4; level++) {
        bit = (nibbles >> level & 0x01010101) * 255;
        UNROLL for (uint i = 0; i < 8u >> level; i++)
            chosen[i] = (bit & (chosen[2 * i] ^ chosen[2 * i + 1])) ^ chosen[2 * i];
    }
    return chosen[0];
}
#endif

// The codes of values 32 chunk ..., four in a word, and their scales.
void unpack_codes(global const uint *rows, uint chunk, W codes[8], F scale[2], F least[2])
{
    global const uint *block = block_of(rows, chunk);
    uint part = chunk % (BLOCK / 32);
#if TYPE == TYPE_Q8_0
    scale[0] = half_value(AT(0) >> (16 * part) & 0xffff);
    UNROLL for (uint i = 0; i < 8; i++) codes[i] = AT(1 + 8 * part + i);
#elif TYPE == TYPE_Q4_0
    scale[0] = half_value(AT(0) >> (16 * part) & 0xffff);
    UNROLL for (uint i = 0; i < 4; i++) {
        W word = AT(1 + 4 * part + i);
        codes[i] = word & 0x0f0f0f0f;
        codes[4 + i] = word >> 4 & 0x0f0f0f0f;
    }
#elif TYPE == TYPE_Q4_1 || TYPE == TYPE_Q5_0 || TYPE == TYPE_Q5_1
    W head = AT(0);
    scale[0] = half_value(head & 0xffff);
#ifdef HAS_LEAST
    least[0] = half_value(head >> 16);
#endif
    UNROLL for (uint i = 0; i < 4; i++) {
        W word = AT(BLOCK_WORDS - 4 + i);
        codes[i] = word & 0x0f0f0f0f;
        codes[4 + i] = word >> 4 & 0x0f0f0f0f;
    }
#if TYPE != TYPE_Q4_1
    W fifth = AT(1); // bit i: the fifth bit of value i
    UNROLL for (uint i = 0; i < 8; i++) {
        W bits = fifth >> (4 * i) & 15;
        codes[i] |= (bits & 1) << 4 | (bits & 2) << 11 | (bits & 4) << 18 | (bits & 8) << 25;
    }
#endif
#elif TYPE == TYPE_IQ4_NL || TYPE == TYPE_MXFP4 || TYPE == TYPE_IQ4_XS
    uint first = 1;
#if TYPE == TYPE_IQ4_NL
    scale[0] = half_value(AT(0) & 0xffff);
#elif TYPE == TYPE_MXFP4
    W exponent = AT(0) & 255; // of half the scale, because the values are doubled
    scale[0] = AS_F(exponent < 2 ? (W)(0x00200000) << exponent : (exponent - 1) << 23);
#else
    first = 2 + 4 * part;
    W head = AT(0);
    I level = AS_I((AT(1) >> (4 * part) & 15) | (head >> (16 + 2 * part) & 3) << 4);
    scale[0] = half_value(head & 0xffff) * TO_F(level - 32);
#endif
    UNROLL for (uint i = 0; i < 4; i++) {
        W word = AT(first + i);
        codes[i] = look_up(word & 0x0f0f0f0f);
        codes[4 + i] = look_up(word >> 4 & 0x0f0f0f0f);
    }
#elif TYPE == TYPE_Q2_K
    W head = AT(20), levels = AT(part / 2) >> (16 * (part % 2)); // levels of the two groups of 16
    F d = half_value(head & 0xffff), m = half_value(head >> 16);
    UNROLL for (uint i = 0; i < 2; i++) {
        scale[i] = d * TO_F(AS_I(levels >> (8 * i) & 15));
        least[i] = -m * TO_F(AS_I(levels >> (8 * i + 4) & 15));
    }
    UNROLL for (uint i = 0; i < 8; i++) codes[i] = AT(4 + 8 * (part / 4) + i) >> (2 * (part % 4)) & 0x03030303;
#elif TYPE == TYPE_Q3_K
    F d = half_value(AT(27) & 0xffff);
    // Group s of 16 has a level of 6 bits: 4 in bytes s % 8, 2 in bytes 8 + s % 4.
    W low = AT(24 + part / 2 % 2) >> (4 * (part / 4) + 16 * (part % 2));
    W high = AT(26) >> (2 * (part / 2) + 16 * (part % 2));
    UNROLL for (uint i = 0; i < 2; i++)
        scale[i] = d * TO_F(AS_I((low >> (8 * i) & 15) | (high >> (8 * i) & 3) << 4) - 32);
    UNROLL for (uint i = 0; i < 8; i++)
        codes[i] = (AT(8 + 8 * (part / 4) + i) >> (2 * (part % 4)) & 0x03030303) |
                   (AT(i) >> part & 0x01010101) << 2;
#elif TYPE == TYPE_Q4_K || TYPE == TYPE_Q5_K
    W head = AT(0);
    // Twelve bytes hold eight pairs of 6 bits, scale and minimum: four in whole bytes, four in the remaining
    // bits.
    uint shift = 8 * (part % 4);
    W a = AT(1) >> shift, b = AT(2) >> shift, c = AT(3) >> shift;
    W level = part < 4 ? a & 63 : (c & 15) | (a >> 6 & 3) << 4;
    W minimum = part < 4 ? b & 63 : (c >> 4 & 15) | (b >> 6 & 3) << 4;
    scale[0] = half_value(head & 0xffff) * TO_F(AS_I(level));
    least[0] = -half_value(head >> 16) * TO_F(AS_I(minimum));
    UNROLL for (uint i = 0; i < 8; i++) {
#if TYPE == TYPE_Q4_K
        codes[i] = AT(4 + 8 * (part / 2) + i) >> (4 * (part % 2)) & 0x0f0f0f0f;
#else
        codes[i] = (AT(12 + 8 * (part / 2) + i) >> (4 * (part % 2)) & 0x0f0f0f0f) |
                   (AT(4 + i) >> part & 0x01010101) << 4;
#endif
    }
#elif TYPE == TYPE_Q6_K
    F d = half_value(AT(52) & 0xffff);
    W levels = AT(48 + part / 2) >> (16 * (part % 2));
    uint in_half = part % 4;
    UNROLL for (uint i = 0; i < 2; i++) scale[i] = d * TO_F(AS_I(levels << (24 - 8 * i)) >> 24);
    UNROLL for (uint i = 0; i < 8; i++)
        codes[i] = (AT(16 * (part / 4) + 8 * (in_half % 2) + i) >> (4 * (in_half / 2)) & 0x0f0f0f0f) |
                   (AT(32 + 8 * (part / 4) + i) >> (2 * in_half) & 0x03030303) << 4;
#endif
}

// The same as floats.
void unpack_values(global const uint *rows, uint chunk, F values[32])
{
    W codes[8];
    F scale[2], least[2];
    unpack_codes(rows, chunk, codes, scale, least);
    UNROLL for (uint i = 0; i < 32; i++) {
#ifdef HALVES
        uint group = i / 16;
#else
        uint group = 0;
#endif
        values[i] = TO_F(AS_I(codes[i / 4] >> (8 * (i % 4)) & 255) - ZERO) * scale[group];
#ifdef HAS_LEAST
        values[i] += least[group];
#endif
    }
}
#endif

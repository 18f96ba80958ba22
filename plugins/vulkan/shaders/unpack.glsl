// unpack.glsl: CHUNK values of a row of a weight as float32. Included once for each weight that a kernel
// reads, with these defined: UNPACK (the function's name), QUAD(i) (the weight's words 4 i … 4 i + 3),
// WORD(i) (word i), SCALE_PAIR(i) (for types with separate scales). weight.c describes the layout of weights
// in memory, llama.cpp's GGUF the meaning of blocks.
//
// w: the values from CHUNK * chunk on of row `row` of the panel, zeros after the end of the row.

void UNPACK(uint panel, uint row, uint k, uint chunk, out vec4 w[CHUNK / 4])
{
#if TYPE == TYPE_F32 || TYPE == TYPE_F16 || TYPE == TYPE_BF16
    uint n_units = (k + UNIT - 1) / UNIT;
    [[unroll]] for (uint j = 0; j < CHUNK / UNIT; j++) {
        uint unit = chunk * (CHUNK / UNIT) + j;
        uvec4 words = uvec4(0);
        if (unit < n_units) words = QUAD((panel * n_units + unit) * 32 + row);
#if TYPE == TYPE_F32
        w[j] = uintBitsToFloat(words);
#elif TYPE == TYPE_F16
        w[2 * j] = vec4(unpackHalf2x16(words.x), unpackHalf2x16(words.y));
        w[2 * j + 1] = vec4(unpackHalf2x16(words.z), unpackHalf2x16(words.w));
#else
        uvec4 low = words << 16, high = words & 0xffff0000u;
        w[2 * j] = uintBitsToFloat(uvec4(low.x, high.x, low.y, high.y));
        w[2 * j + 1] = uintBitsToFloat(uvec4(low.z, high.z, low.w, high.w));
#endif
    }
#elif TYPE == TYPE_Q4_0 || TYPE == TYPE_Q8_0
    uint n_blocks = k / 32, n_pairs = (n_blocks + 1) / 2;
    uint pair = SCALE_PAIR((panel * n_pairs + chunk / 2) * 32 + row);
    float scale = unpackHalf2x16(chunk % 2 == 0 ? pair : pair >> 16).x;
#if TYPE == TYPE_Q4_0
    uvec4 words = QUAD((panel * n_blocks + chunk) * 32 + row);
    [[unroll]] for (uint i = 0; i < 4; i++) {
        // Nibbles are in two's complement: shift them to the top of the word, and back with their sign.
        w[i] = vec4((ivec4(words[i]) << ivec4(28, 20, 12, 4)) >> 28) * scale;
        w[4 + i] = vec4((ivec4(words[i]) << ivec4(24, 16, 8, 0)) >> 28) * scale;
    }
#else
    [[unroll]] for (uint j = 0; j < 2; j++) {
        uvec4 words = QUAD(((panel * n_blocks + chunk) * 2 + j) * 32 + row);
        [[unroll]] for (uint i = 0; i < 4; i++)
            w[4 * j + i] = vec4((ivec4(words[i]) << ivec4(24, 16, 8, 0)) >> 24) * scale;
    }
#endif
#else
    const uint parts = BLOCK / 32;
    const uvec4 bytes = uvec4(0, 8, 16, 24);
    uint n_blocks = k / BLOCK, part = chunk % parts;
    uint base = (panel * n_blocks + chunk / parts) * BLOCK_WORDS * 32 + row;
#define AT(n) WORD(base + (n) * 32)
#if TYPE == TYPE_Q4_1 || TYPE == TYPE_Q5_0 || TYPE == TYPE_Q5_1
    vec2 scales = unpackHalf2x16(AT(0));
#if TYPE == TYPE_Q4_1
    const uint first = 1;
    uint fifth = 0;
#else
    const uint first = 2;
    uint fifth = AT(1); // bit i: the fifth bit of value i
#endif
#if TYPE == TYPE_Q5_0
    scales.y = -16 * scales.x;
#endif
    [[unroll]] for (uint i = 0; i < 4; i++) {
        uint word = AT(first + i);
        uvec4 low = uvec4(word) >> bytes & 15, high = uvec4(word) >> (bytes + 4) & 15;
#if TYPE != TYPE_Q4_1
        low |= (uvec4(fifth) >> (4 * i + uvec4(0, 1, 2, 3)) & 1) << 4;
        high |= (uvec4(fifth) >> (16 + 4 * i + uvec4(0, 1, 2, 3)) & 1) << 4;
#endif
        w[i] = vec4(low) * scales.x + scales.y;
        w[4 + i] = vec4(high) * scales.x + scales.y;
    }
#elif TYPE == TYPE_IQ4_NL || TYPE == TYPE_MXFP4 || TYPE == TYPE_IQ4_XS
#if TYPE == TYPE_IQ4_NL
    const uint first = 1;
    float scale = unpackHalf2x16(AT(0)).x;
#elif TYPE == TYPE_MXFP4
    const uint first = 1;
    uint exponent = AT(0) & 255; // of half the scale, because the values are doubled
    float scale = uintBitsToFloat(exponent < 2 ? 0x00200000u << exponent : (exponent - 1) << 23);
#else
    uint first = 2 + 4 * part, head = AT(0);
    int level = int(AT(1) >> (4 * part) & 15 | (head >> (16 + 2 * part) & 3) << 4);
    float scale = unpackHalf2x16(head).x * float(level - 32);
#endif
    [[unroll]] for (uint i = 0; i < 4; i++) {
        uint word = AT(first + i);
        [[unroll]] for (uint j = 0; j < 4; j++) {
            w[i][j] = scale * nibble_values[word >> (8 * j) & 15];
            w[4 + i][j] = scale * nibble_values[word >> (8 * j + 4) & 15];
        }
    }
#elif TYPE == TYPE_Q2_K
    vec2 scales = unpackHalf2x16(AT(20));
    uint levels = AT(part / 2) >> (16 * (part % 2)); // of the two groups of 16
    [[unroll]] for (uint i = 0; i < 8; i++) {
        uint level = levels >> (8 * (i / 4));
        uvec4 q = uvec4(AT(4 + 8 * (part / 4) + i)) >> (bytes + 2 * (part % 4)) & 3;
        w[i] = vec4(q) * (scales.x * float(level & 15)) - scales.y * float(level >> 4 & 15);
    }
#elif TYPE == TYPE_Q3_K
    float scale = unpackHalf2x16(AT(27)).x;
    // Group s of 16 has a level of 6 bits: 4 in bytes s % 8, 2 in bytes 8 + s % 4.
    uint low = AT(24 + part / 2 % 2) >> (4 * (part / 4) + 16 * (part % 2));
    uint high = AT(26) >> (2 * (part / 2) + 16 * (part % 2));
    [[unroll]] for (uint i = 0; i < 8; i++) {
        uint level = low >> (8 * (i / 4)) & 15 | (high >> (8 * (i / 4)) & 3) << 4;
        uvec4 q = uvec4(AT(8 + 8 * (part / 4) + i)) >> (bytes + 2 * (part % 4)) & 3;
        q |= (uvec4(AT(i)) >> (bytes + part) & 1) << 2;
        w[i] = (vec4(q) - 4) * (scale * (float(level) - 32));
    }
#elif TYPE == TYPE_Q4_K || TYPE == TYPE_Q5_K
    vec2 scales = unpackHalf2x16(AT(0));
    // Twelve bytes hold eight pairs of 6 bits, scale and minimum: four in whole bytes, four in the remaining
    // bits.
    uint shift = 8 * (part % 4), a = AT(1) >> shift, b = AT(2) >> shift, c = AT(3) >> shift;
    uint scale = part < 4 ? a & 63 : c & 15 | (a >> 6 & 3) << 4;
    uint least = part < 4 ? b & 63 : c >> 4 & 15 | (b >> 6 & 3) << 4;
    float d = scales.x * float(scale), m = scales.y * float(least);
    [[unroll]] for (uint i = 0; i < 8; i++) {
#if TYPE == TYPE_Q4_K
        uvec4 q = uvec4(AT(4 + 8 * (part / 2) + i)) >> (bytes + 4 * (part % 2)) & 15;
#else
        uvec4 q = uvec4(AT(12 + 8 * (part / 2) + i)) >> (bytes + 4 * (part % 2)) & 15;
        q |= (uvec4(AT(4 + i)) >> (bytes + part) & 1) << 4;
#endif
        w[i] = vec4(q) * d - m;
    }
#elif TYPE == TYPE_Q6_K
    float scale = unpackHalf2x16(AT(52)).x;
    int levels = int(AT(48 + part / 2) >> (16 * (part % 2)));
    uint in_half = part % 4;
    [[unroll]] for (uint i = 0; i < 8; i++) {
        float level = float(levels << (24 - 8 * (i / 4)) >> 24);
        uvec4 q = uvec4(AT(16 * (part / 4) + 8 * (in_half % 2) + i)) >> (bytes + 4 * (in_half / 2)) & 15;
        q |= (uvec4(AT(32 + 8 * (part / 4) + i)) >> (bytes + 2 * in_half) & 3) << 4;
        w[i] = (vec4(q) - 32) * (scale * level);
    }
#endif
#undef AT
#endif
}
#undef UNPACK
#undef QUAD
#undef WORD
#undef SCALE_PAIR

// unpack.glsl: CHUNK values of a row of a weight as float32, and 32 values of a quantised one as codes.
// Included once for each weight that a kernel reads, with these defined: UNPACK and FETCH (the functions'
// names), QUAD(i) (the weight's words 4 i … 4 i + 3), PAIR(i) (words 2 i and 2 i + 1), WORD(i) (word i),
// APART(i) (word i of what is stored behind all panels). weight.c describes the layout of weights in memory,
// llama.cpp's GGUF the meaning of blocks.

#ifdef BLOCK
// second: 1: the chunk after the one at that place, in blocks of 256; else 0.
void FETCH(chunk_place at, uint second, out codes c)
{
    uint base = at.base, part = at.part + second;
#define AT(n) WORD(base + (n) * 32)
#if TYPE == TYPE_Q4_0 || TYPE == TYPE_Q8_0 || TYPE == TYPE_IQ4_NL || TYPE == TYPE_MXFP4 || TYPE == TYPE_Q6_K
    uint apart = APART(at.apart) >> at.shift;
#endif
#if TYPE == TYPE_Q4_0
    uvec4 words = QUAD(base);
    [[unroll]] for (uint i = 0; i < 4; i++) { // each at the top of its byte: sixteen times its value
        c.words[i] = words[i] << 4 & 0xf0f0f0f0u;
        c.words[4 + i] = words[i] & 0xf0f0f0f0u;
    }
    c.scale[0] = unpackHalf2x16(apart).x / 16;
#elif TYPE == TYPE_Q8_0
    uvec4 low = QUAD(base), high = QUAD(base + 32);
    [[unroll]] for (uint i = 0; i < 4; i++) {
        c.words[i] = low[i];
        c.words[4 + i] = high[i];
    }
    c.scale[0] = unpackHalf2x16(apart).x;
#elif defined(LOOKUP)
    uvec4 words = QUAD(base + part * 32);
#ifdef PAIRED
    [[unroll]] for (uint i = 0; i < 8; i++) {
        uint both = words[i / 2] >> (i % 2 * 16);
        c.words[i] = PAIRED[both & 255] + (PAIRED[both >> 8 & 255] << 16);
    }
#else // eight numbers are in each of the first four words
    [[unroll]] for (uint i = 0; i < 4; i++) c.words[i] = words[i];
#endif
#if TYPE == TYPE_IQ4_NL
    c.scale[0] = unpackHalf2x16(apart).x;
#elif TYPE == TYPE_MXFP4
    uint exponent = apart & 255; // of half the scale, because the values are doubled
    c.scale[0] = uintBitsToFloat(exponent < 2 ? 0x00200000u << exponent : (exponent - 1) << 23);
#else
    uint head = APART(at.apart);
    int level = int(APART(at.apart + 1) >> (4 * part) & 15 | (head >> (16 + 2 * part) & 3) << 4);
    c.scale[0] = unpackHalf2x16(head).x * float(level - 32);
#endif
#elif TYPE == TYPE_Q4_K || TYPE == TYPE_Q5_K
    // The first quad has scales and minima of 6 bits: word 1 four bits of each scale, word 2 of each minimum,
    // word 3 the other two of both.
    uvec4 head = QUAD(base), words = QUAD(base + (BLOCK_QUADS - 8 + part) * 32);
    vec2 scales = unpackHalf2x16(head.x);
    uint upper = head.w >> (4 * part);
    uint scale = head.y >> (4 * part) & 15 | (upper & 3) << 4, least = head.z >> (4 * part) & 15 | (upper & 12) << 2;
    c.scale[0] = scales.x * float(scale);
    c.least[0] = -(scales.y * float(least));
    [[unroll]] for (uint i = 0; i < 4; i++) {
        c.words[i] = words[i] & 0x0f0f0f0fu;
        c.words[4 + i] = words[i] >> 4 & 0x0f0f0f0fu;
    }
#if TYPE == TYPE_Q5_K
    // Bits i of the bytes are word i's.
    uint fifth = PAIR((base + (1 + at.part / 4) * 32) * 2 + at.part % 4 / 2)[second];
    [[unroll]] for (uint i = 0; i < 8; i++)
        c.words[i] |= (i < 4 ? fifth << (4 - i) : fifth >> (i - 4)) & 0x10101010u;
#endif
#elif TYPE == TYPE_Q6_K
    uint levels = WORD(base * 4 + at.part / 2) >> (second * 16);
    uvec4 both = QUAD(base + (1 + at.part / 2) * 32); // bits 2 i and 2 i + 1 of the bytes are word i's
    uint high[2] = uint[](second == 0 ? both.x : both.z, second == 0 ? both.y : both.w);
    uvec4 words = QUAD(base + (5 + part) * 32);
    float scale = unpackHalf2x16(apart).x;
    c.scale[0] = scale * float(int(levels << 24) >> 24);
    c.scale[1] = scale * float(int(levels << 16) >> 24);
    [[unroll]] for (uint i = 0; i < 4; i++) {
        c.words[i] = words[i] & 0x0f0f0f0fu;
        c.words[4 + i] = words[i] >> 4 & 0x0f0f0f0fu;
    }
    [[unroll]] for (uint i = 0; i < 8; i++) {
        uint bits = high[i / 4], first = 2 * (i % 4);
        c.words[i] |= (first < 4 ? bits << (4 - first) : bits >> (first - 4)) & 0x30303030u;
    }
#elif TYPE == TYPE_Q4_1 || TYPE == TYPE_Q5_0 || TYPE == TYPE_Q5_1
    vec2 scales = unpackHalf2x16(AT(0));
#if TYPE == TYPE_Q4_1
    const uint first = 1;
#else
    const uint first = 2;
    uint fifth = AT(1); // bit i: the fifth bit of value i
#endif
    c.scale[0] = scales.x;
    c.least[0] = scales.y;
    [[unroll]] for (uint i = 0; i < 4; i++) {
        uint word = AT(first + i);
        c.words[i] = word & 0x0f0f0f0fu;
        c.words[4 + i] = word >> 4 & 0x0f0f0f0fu;
    }
#if TYPE != TYPE_Q4_1
    [[unroll]] for (uint i = 0; i < 8; i++) // a factor that puts four bits into the bytes
        c.words[i] |= (fifth >> (4 * i) & 15) * 0x02040810u & 0x10101010u;
#endif
#elif TYPE == TYPE_Q2_K
    vec2 scales = unpackHalf2x16(AT(20));
    uint levels = AT(part / 2) >> (16 * (part % 2)); // of the two groups of 16
    [[unroll]] for (uint i = 0; i < 2; i++) {
        c.scale[i] = scales.x * float(levels >> (8 * i) & 15);
        c.least[i] = -(scales.y * float(levels >> (8 * i + 4) & 15));
    }
    [[unroll]] for (uint i = 0; i < 8; i++)
        c.words[i] = AT(4 + 8 * (part / 4) + i) >> (2 * (part % 4)) & 0x03030303u;
#elif TYPE == TYPE_Q3_K
    float scale = unpackHalf2x16(AT(27)).x;
    // Group s of 16 has a level of 6 bits: 4 in bytes s % 8, 2 in bytes 8 + s % 4.
    uint low = AT(24 + part / 2 % 2) >> (4 * (part / 4) + 16 * (part % 2));
    uint high = AT(26) >> (2 * (part / 2) + 16 * (part % 2));
    [[unroll]] for (uint i = 0; i < 2; i++)
        c.scale[i] = scale * (float(low >> (8 * i) & 15 | (high >> (8 * i) & 3) << 4) - 32);
    [[unroll]] for (uint i = 0; i < 8; i++)
        c.words[i] = AT(8 + 8 * (part / 4) + i) >> (2 * (part % 4)) & 0x03030303u |
                     (AT(i) >> part & 0x01010101u) << 2;
#endif
#undef AT
}
#endif

// w: the values from CHUNK * chunk on of row `row` of the panel, zeros after the end of the row.
void UNPACK(uint panel, uint row, uint k, uint chunk, out vec4 w[CHUNK / 4])
{
#ifdef BLOCK
    codes c;
    FETCH(chunk_place_of(panel, row, k, chunk), PARTS_OF_BLOCK > 1 ? chunk % 2 : 0, c);
    [[unroll]] for (uint i = 0; i < 8; i++) {
#ifdef LOOKUP
        [[unroll]] for (uint j = 0; j < 4; j++)
            w[i][j] = c.scale[0] * float(nibble_values[c.words[i / 2] >> (16 * (i % 2) + 4 * j) & 15]);
#else
#ifdef HALVES
        uint side = i / 4;
#else
        const uint side = 0;
#endif
#ifdef SIGNED
        vec4 values = vec4((ivec4(c.words[i]) << ivec4(24, 16, 8, 0)) >> 24);
#else
        vec4 values = vec4(uvec4(c.words[i]) >> uvec4(0, 8, 16, 24) & 255) - ZERO;
#endif
#ifdef HAS_LEAST
        w[i] = values * c.scale[side] + c.least[side];
#else
        w[i] = values * c.scale[side];
#endif
#endif
    }
#else
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
#endif
}
#undef UNPACK
#undef FETCH
#undef QUAD
#undef PAIR
#undef WORD
#undef APART

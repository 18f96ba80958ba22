// dot.glsl: rows of a weight times columns of the input. Included once for each weight that a kernel reads, with DOT
// (name of the function) and WEIGHT, SCALES (names of the buffers) defined; see layout.h for how weights lie in memory.
//
// Each invocation sums one row for TOKENS columns over every slices-th part of k. Only the weights differ from
// invocation to invocation: inputs are read at addresses that a whole subgroup shares.

void DOT(uint panel, uint lane, uint slice, uint first, inout float sums[TOKENS])
{
#if TYPE == TYPE_Q4_0 || TYPE == TYPE_Q8_0
    uint n_blocks = p.k / 32, n_units = (n_blocks + 1) / 2;
    for (uint unit = slice; unit < n_units; unit += SLICES) {
        vec2 scales = unpackHalf2x16(SCALES[(panel * n_units + unit) * 32 + lane]);
        for (uint half_unit = 0; half_unit < 2; half_unit++) {
            uint block = 2 * unit + half_unit;
            if (block >= n_blocks) break;
            float part[TOKENS];
            [[unroll]] for (uint t = 0; t < TOKENS; t++) part[t] = 0;
#if TYPE == TYPE_Q4_0
            uvec4 words = WEIGHT[(panel * n_blocks + block) * 32 + lane];
            [[unroll]] for (uint i = 0; i < 4; i++) {
                // Nibbles are in two's complement: to the top of the word, and back with their sign.
                ivec4 low = ivec4(words[i]) << ivec4(28, 20, 12, 4), high = ivec4(words[i]) << ivec4(24, 16, 8, 0);
                vec4 w0 = vec4(low >> 28), w1 = vec4(high >> 28);
                [[unroll]] for (uint t = 0; t < TOKENS; t++) {
                    part[t] = dot4(w0, input4(first, t, block * 32 + 4 * i), part[t]);
                    part[t] = dot4(w1, input4(first, t, block * 32 + 16 + 4 * i), part[t]);
                }
            }
#else
            [[unroll]] for (uint j = 0; j < 2; j++) {
                uvec4 words = WEIGHT[((panel * n_blocks + block) * 2 + j) * 32 + lane];
                [[unroll]] for (uint i = 0; i < 4; i++) {
                    vec4 w = vec4((ivec4(words[i]) << ivec4(24, 16, 8, 0)) >> 24);
                    [[unroll]] for (uint t = 0; t < TOKENS; t++)
                        part[t] = dot4(w, input4(first, t, block * 32 + 16 * j + 4 * i), part[t]);
                }
            }
#endif
            float scale = half_unit == 0 ? scales.x : scales.y;
            [[unroll]] for (uint t = 0; t < TOKENS; t++) sums[t] = fma(scale, part[t], sums[t]);
        }
    }
#else
    uint n_units = (p.k + UNIT - 1) / UNIT, n_whole = p.k / UNIT;
    for (uint unit = slice; unit < n_units; unit += SLICES) {
        uvec4 words = WEIGHT[(panel * n_units + unit) * 32 + lane];
        [[unroll]] for (uint i = 0; i < UNIT; i += 4) {
#if TYPE == TYPE_F32
            vec4 w = uintBitsToFloat(words);
#elif TYPE == TYPE_F16
            vec4 w = vec4(unpackHalf2x16(words[i / 2]), unpackHalf2x16(words[i / 2 + 1]));
#else
            uvec2 pair = uvec2(words[i / 2], words[i / 2 + 1]);
            vec4 w = uintBitsToFloat(uvec4(pair.x << 16, pair.x & 0xffff0000u, pair.y << 16, pair.y & 0xffff0000u));
#endif
            if (unit < n_whole) {
                [[unroll]] for (uint t = 0; t < TOKENS; t++)
                    sums[t] = dot4(w, input4(first, t, unit * UNIT + i), sums[t]);
            } else {
                [[unroll]] for (uint t = 0; t < TOKENS; t++)
                    sums[t] = dot4(w, input_tail(first, t, unit * UNIT + i), sums[t]);
            }
        }
    }
#endif
}
#undef DOT
#undef WEIGHT
#undef SCALES

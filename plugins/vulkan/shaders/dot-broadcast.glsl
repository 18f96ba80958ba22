// dot-broadcast.glsl: dot.glsl for devices on which registers are cheap and reads are dear: software drivers. A subgroup
// of 8 reads each value of the input once, one value per invocation, and broadcasts it from there. An invocation sums
// ROWS rows, 32 / ROWS apart, for TOKENS columns; `sums` is [token][row].

void DOT(uint panel, uint lane, uint slice, uint first, inout float sums[TOKENS * ROWS])
{
    const uint apart = 32 / ROWS;
    for (uint start = 0; start < p.k; start += 32) {
        float x[4][TOKENS];
        [[unroll]] for (uint i = 0; i < 4; i++)
            [[unroll]] for (uint t = 0; t < TOKENS; t++) {
                uint at = start + 8 * i + gl_SubgroupInvocationID;
                x[i][t] = at < p.k ? inputs[column(first, t) + at] : 0;
            }
        vec4 w[ROWS];
#if TYPE == TYPE_Q4_0 || TYPE == TYPE_Q8_0
        uint n_blocks = p.k / 32, n_units = (n_blocks + 1) / 2, block = start / 32;
        float scales[ROWS];
        [[unroll]] for (uint r = 0; r < ROWS; r++) {
            uint pair = SCALES[(panel * n_units + block / 2) * 32 + lane + r * apart];
            scales[r] = unpackHalf2x16(block % 2 == 0 ? pair : pair >> 16).x;
        }
#if TYPE == TYPE_Q4_0
        uvec4 words[ROWS];
        [[unroll]] for (uint r = 0; r < ROWS; r++)
            words[r] = WEIGHT[(panel * n_blocks + block) * 32 + lane + r * apart];
        [[unroll]] for (uint i = 0; i < 4; i++) {
            [[unroll]] for (uint r = 0; r < ROWS; r++)
                w[r] = vec4((ivec4(words[r][i]) << ivec4(28, 20, 12, 4)) >> 28) * scales[r];
            add_products(i % 2, w, x[i / 2], sums);
            [[unroll]] for (uint r = 0; r < ROWS; r++)
                w[r] = vec4((ivec4(words[r][i]) << ivec4(24, 16, 8, 0)) >> 28) * scales[r];
            add_products(i % 2, w, x[2 + i / 2], sums);
        }
#else
        [[unroll]] for (uint j = 0; j < 2; j++) {
            uvec4 words[ROWS];
            [[unroll]] for (uint r = 0; r < ROWS; r++)
                words[r] = WEIGHT[((panel * n_blocks + block) * 2 + j) * 32 + lane + r * apart];
            [[unroll]] for (uint i = 0; i < 4; i++) {
                [[unroll]] for (uint r = 0; r < ROWS; r++)
                    w[r] = vec4((ivec4(words[r][i]) << ivec4(24, 16, 8, 0)) >> 24) * scales[r];
                add_products(i % 2, w, x[2 * j + i / 2], sums);
            }
        }
#endif
#else
        uint n_units = (p.k + UNIT - 1) / UNIT;
        [[unroll]] for (uint j = 0; j < 32 / UNIT; j++) {
            uint unit = start / UNIT + j;
            if (unit < n_units) {
                uvec4 words[ROWS];
                [[unroll]] for (uint r = 0; r < ROWS; r++)
                    words[r] = WEIGHT[(panel * n_units + unit) * 32 + lane + r * apart];
                [[unroll]] for (uint i = 0; i < UNIT; i += 4) {
                    [[unroll]] for (uint r = 0; r < ROWS; r++) {
#if TYPE == TYPE_F32
                        w[r] = uintBitsToFloat(words[r]);
#elif TYPE == TYPE_F16
                        w[r] = vec4(unpackHalf2x16(words[r][i / 2]), unpackHalf2x16(words[r][i / 2 + 1]));
#else
                        uvec2 pair = uvec2(words[r][i / 2], words[r][i / 2 + 1]);
                        w[r] = uintBitsToFloat(
                            uvec4(pair.x << 16, pair.x & 0xffff0000u, pair.y << 16, pair.y & 0xffff0000u));
#endif
                    }
                    add_products((j * UNIT + i) / 4 % 2, w, x[(j * UNIT + i) / 8], sums);
                }
            }
        }
#endif
    }
}
#undef DOT
#undef WEIGHT
#undef SCALES

// matmul-dot.glsl: matmul-tiled.glsl for Q8_0 and Q4_0 on devices with fast dot products of four signed
// bytes. For each 32 values of k the columns are rounded to 15 bits with a scale of their own: 128 times one
// signed byte plus another. A single byte would make Q4_0's logits worse than necessary.
#include "dot-of-bytes.glsl"
layout(local_size_x = 128) in;

#define TILE_ROWS   64
#define TILE_TOKENS 32
#define STRIDE      9 // of 8 words, so that neighbouring rows are in different banks

shared int weights[TILE_ROWS * STRIDE];
shared float weight_levels[TILE_ROWS];
shared int columns[2 * TILE_TOKENS * STRIDE]; // high bytes, then low ones
shared float column_levels[TILE_TOKENS];

// The quants of a block of the weight, and their scale.
void fetch_block(bool gate, uint panel, uint row, uint chunk, out int words[8], out float level)
{
    uint n_blocks = p.k / 32, at = (panel * ((n_blocks + 1) / 2) + chunk / 2) * 32 + row;
    uint pair = gate ? gate_scales[at] : weight_scales[at];
    level = unpackHalf2x16(chunk % 2 == 0 ? pair : pair >> 16).x;
#if TYPE == TYPE_Q8_0
    [[unroll]] for (uint j = 0; j < 2; j++) {
        uint quad = ((panel * n_blocks + chunk) * 2 + j) * 32 + row;
        ivec4 quants = ivec4(gate ? gate_quads[quad] : weight_quads[quad]);
        [[unroll]] for (uint i = 0; i < 4; i++) words[4 * j + i] = quants[i];
    }
#else
    uint quad = (panel * n_blocks + chunk) * 32 + row;
    uvec4 nibbles = gate ? gate_quads[quad] : weight_quads[quad];
    [[unroll]] for (uint i = 0; i < 4; i++) { // each at the top of its byte: sixteen times its value
        words[i] = int(nibbles[i] << 4 & 0xf0f0f0f0u);
        words[4 + i] = int(nibbles[i] & 0xf0f0f0f0u);
    }
    level /= 16;
#endif
}

int pack_bytes(ivec4 bytes)
{
    bytes &= 255;
    return bytes.x | bytes.y << 8 | bytes.z << 16 | bytes.w << 24;
}

void round_column(uint start, uint chunk, uint column)
{
    vec4 x[8];
    float most = 0;
    [[unroll]] for (uint i = 0; i < 8; i++) {
        x[i] = input4(start, chunk * 32 + 4 * i);
        vec4 size = abs(x[i]);
        most = max(most, max(max(size.x, size.y), max(size.z, size.w)));
    }
    const float steps = 127 * 128;
    column_levels[column] = most / steps;
    [[unroll]] for (uint i = 0; i < 8; i++) {
        ivec4 q = most > 0 ? ivec4(round(x[i] / most * steps)) : ivec4(0);
        ivec4 high = (q + 64) >> 7; // -127 … 127; the remainder is -64 … 63
        columns[column * STRIDE + i] = pack_bytes(high);
        columns[(TILE_TOKENS + column) * STRIDE + i] = pack_bytes(q - (high << 7));
    }
}

void sum_tile(bool gate, uint panel, uint lane, uint first, inout float sums[4][4])
{
    uint row = lane % 16, token = lane / 16; // the first of each four, which are 16 and 8 apart
    uint start = column(first + lane % TILE_TOKENS); // of the column that this invocation fetches
    for (uint chunk = 0; chunk * 32 < p.k; chunk++) {
        int words[8];
        barrier(); // the previous contents have been used
        if (lane < TILE_ROWS) {
            // Beyond the last bound panel, the last is read again: finish drops its rows.
            uint mine = panel + (first_row + (panel + lane / 32) * 32 < p.rows ? lane / 32 : 0);
            fetch_block(gate, mine, lane % 32, chunk, words, weight_levels[lane]);
            [[unroll]] for (uint i = 0; i < 8; i++) weights[lane * STRIDE + i] = words[i];
        } else if (lane < TILE_ROWS + TILE_TOKENS) {
            round_column(start, chunk, lane - TILE_ROWS);
        }
        barrier();
        ivec2 parts[4][4]; // with high and low bytes
        [[unroll]] for (uint r = 0; r < 4; r++)
            [[unroll]] for (uint t = 0; t < 4; t++) parts[r][t] = ivec2(0);
        [[unroll]] for (uint i = 0; i < 8; i++) {
            int w[4];
            ivec2 x[4];
            [[unroll]] for (uint j = 0; j < 4; j++) {
                w[j] = weights[(row + 16 * j) * STRIDE + i];
                uint at = (token + 8 * j) * STRIDE + i;
                x[j] = ivec2(columns[at], columns[TILE_TOKENS * STRIDE + at]);
            }
            [[unroll]] for (uint r = 0; r < 4; r++)
                [[unroll]] for (uint t = 0; t < 4; t++)
                    parts[r][t] += ivec2(dot_of_bytes(w[r], x[t].x, 0), dot_of_bytes(w[r], x[t].y, 0));
        }
        [[unroll]] for (uint r = 0; r < 4; r++)
            [[unroll]] for (uint t = 0; t < 4; t++) {
                float level = weight_levels[row + 16 * r] * column_levels[token + 8 * t];
                sums[r][t] = fma(level, float((parts[r][t].x << 7) + parts[r][t].y), sums[r][t]);
            }
    }
}

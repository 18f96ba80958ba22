// matmul-half.glsl: matmul-tiled.glsl with products in float16, two at once, for devices that compute those
// faster. For each 32 values of k, the values of a row and of a column are divided by powers of two of their
// own, so that none overflows and small ones keep their bits; after every RUN pairs the sums are carried on
// in float32. A matmul's error is about 5e-4 of its size: a tenth of the error of rounding activations to
// int8, and more than llama.cpp's for weights in float16, which therefore use the other form.
#extension GL_EXT_shader_explicit_arithmetic_types_float16 : enable
layout(local_size_x = 128) in;

#define TILE_ROWS   64
#define TILE_TOKENS 32
#define PAIRS       16
#define STRIDE      17 // of a row of 16 pairs, so that neighbouring rows are in different banks
#define RUN         8

shared f16vec2 weights[TILE_ROWS * STRIDE];
shared float weight_levels[TILE_ROWS];
shared f16vec2 columns[TILE_TOKENS * STRIDE];
shared float column_levels[TILE_TOKENS];

// The power of two below the largest size; 2^-100 if all are practically zero.
float level_of(vec4 x[8])
{
    vec4 most = abs(x[0]);
    [[unroll]] for (uint i = 1; i < 8; i++) most = max(most, abs(x[i]));
    float all = max(max(max(most.x, most.y), max(most.z, most.w)), uintBitsToFloat(27u << 23));
    return uintBitsToFloat(min(floatBitsToUint(all) & 0x7f800000u, 253u << 23));
}

float inverse_of(float power)
{
    return uintBitsToFloat((254u << 23) - floatBitsToUint(power));
}

void sum_tile(bool gate, uint panel, uint lane, uint first, inout float sums[4][4])
{
    uint row = lane % 16, token = lane / 16; // the first of each four, which are 16 and 8 apart
    uint start = column(first + lane % TILE_TOKENS); // of the column that this invocation fetches
    for (uint chunk = 0; chunk * 32 < p.k; chunk++) {
        barrier(); // the previous contents have been used
        if (lane < TILE_ROWS) {
            vec4 w[8];
            // Beyond the last bound panel, the last is read again: finish drops its rows.
            uint mine = panel + (first_row + (panel + lane / 32) * 32 < p.rows ? lane / 32 : 0);
            if (gate)
                unpack_gate(mine, lane % 32, p.k, chunk, w);
            else
                unpack_weight(mine, lane % 32, p.k, chunk, w);
            float level = level_of(w), inverse = inverse_of(level);
            weight_levels[lane] = level;
            [[unroll]] for (uint i = 0; i < PAIRS; i++)
                weights[lane * STRIDE + i] = f16vec2(vec2(w[i / 2][i % 2 * 2], w[i / 2][i % 2 * 2 + 1]) * inverse);
        } else if (lane < TILE_ROWS + TILE_TOKENS) {
            vec4 x[8];
            uint column = lane - TILE_ROWS;
            [[unroll]] for (uint i = 0; i < 8; i++) x[i] = input4(start, chunk * 32 + 4 * i);
            float level = level_of(x), inverse = inverse_of(level);
            column_levels[column] = level;
            [[unroll]] for (uint i = 0; i < PAIRS; i++)
                columns[column * STRIDE + i] = f16vec2(vec2(x[i / 2][i % 2 * 2], x[i / 2][i % 2 * 2 + 1]) * inverse);
        }
        barrier();
        float all[4][4];
        [[unroll]] for (uint r = 0; r < 4; r++)
            [[unroll]] for (uint t = 0; t < 4; t++) all[r][t] = 0;
        [[unroll]] for (uint start = 0; start < PAIRS; start += RUN) {
            f16vec2 parts[4][4];
            [[unroll]] for (uint r = 0; r < 4; r++)
                [[unroll]] for (uint t = 0; t < 4; t++) parts[r][t] = f16vec2(0);
            [[unroll]] for (uint i = start; i < start + RUN; i++) {
                f16vec2 w[4], x[4];
                [[unroll]] for (uint j = 0; j < 4; j++) {
                    w[j] = weights[(row + 16 * j) * STRIDE + i];
                    x[j] = columns[(token + 8 * j) * STRIDE + i];
                }
                [[unroll]] for (uint r = 0; r < 4; r++)
                    [[unroll]] for (uint t = 0; t < 4; t++) parts[r][t] = fma(w[r], x[t], parts[r][t]);
            }
            [[unroll]] for (uint r = 0; r < 4; r++)
                [[unroll]] for (uint t = 0; t < 4; t++) all[r][t] += float(parts[r][t].x) + float(parts[r][t].y);
        }
        [[unroll]] for (uint r = 0; r < 4; r++)
            [[unroll]] for (uint t = 0; t < 4; t++) {
                float level = weight_levels[row + 16 * r] * column_levels[token + 8 * t];
                sums[r][t] = fma(level, all[r][t], sums[r][t]);
            }
    }
}

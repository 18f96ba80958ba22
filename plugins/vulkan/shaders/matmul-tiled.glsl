// matmul-tiled.glsl: a workgroup computes 64 rows for 32 columns. For each 32 values of k, half of its
// invocations unpack a row of the weight each into shared memory, the others fetch the input; then each
// invocation sums 4 rows for 4 columns. Every device has these 12.5 KiB of shared memory and 128 invocations.
layout(local_size_x = 128) in;

#define TILE_ROWS   64
#define TILE_TOKENS 32
#define STRIDE      33 // of a row of 32 values, so that neighbouring rows are in different banks

layout(constant_id = 6) const uint UNROLLED = 32; // values of k whose products are unrolled: a divisor of 32

shared float weights[TILE_ROWS * STRIDE];
shared float columns[TILE_TOKENS * STRIDE];

void sum_tile(bool gate, uint panel, uint lane, uint first, inout float sums[4][4])
{
    uint row = lane % 16, token = lane / 16; // the first of each four, which are 16 and 8 apart
    uint starts[4]; // of the columns that this invocation fetches
    [[unroll]] for (uint i = 0; i < 4; i++) starts[i] = column(first + 8 * i + lane % TILE_ROWS / 8);
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
            [[unroll]] for (uint i = 0; i < 32; i++) weights[lane * STRIDE + i] = w[i / 4][i % 4];
        } else {
            uint quad = lane % 8;
            [[unroll]] for (uint t = 0; t < 4; t++) {
                uint at = (8 * t + (lane - TILE_ROWS) / 8) * STRIDE + 4 * quad;
                vec4 x = input4(starts[t], chunk * 32 + 4 * quad);
                [[unroll]] for (uint i = 0; i < 4; i++) columns[at + i] = x[i];
            }
        }
        barrier();
        for (uint begin = 0; begin < 32; begin += UNROLLED)
            [[unroll]] for (uint i = 0; i < UNROLLED; i++) {
                float w[4], x[4];
                [[unroll]] for (uint j = 0; j < 4; j++) {
                    w[j] = weights[(row + 16 * j) * STRIDE + begin + i];
                    x[j] = columns[(token + 8 * j) * STRIDE + begin + i];
                }
                [[unroll]] for (uint r = 0; r < 4; r++)
                    [[unroll]] for (uint t = 0; t < 4; t++) sums[r][t] = fma(w[r], x[t], sums[r][t]);
            }
    }
}

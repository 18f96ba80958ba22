// matmul-address.glsl: for drivers that run shaders on the CPU, a vector of invocations at a time. There a read at an
// address that all share is one instruction, while reads through bindings are checked one by one, and barriers are dear. So
// each invocation sums ROWS rows for TOKENS columns by itself, and reads the input at addresses.
layout(local_size_x = 32 / ROWS) in;

const uint APART = 32 / ROWS; // rows of an invocation

void unpack_rows(bool gate, uint panel, uint lane, uint chunk, out vec4 w[ROWS][8])
{
    [[unroll]] for (uint r = 0; r < ROWS; r++) {
        if (gate)
            unpack_gate(panel, lane + r * APART, p.k, chunk, w[r]);
        else
            unpack_weight(panel, lane + r * APART, p.k, chunk, w[r]);
    }
}

void sum_rows(bool gate, uint panel, uint lane, uint first, inout float sums[TOKENS][ROWS])
{
    uint n_whole = p.k / 32;
    vec4 w[ROWS][8];
    for (uint chunk = 0; chunk < n_whole; chunk++) {
        unpack_rows(gate, panel, lane, chunk, w);
        [[unroll]] for (uint i = 0; i < 32; i++)
            [[unroll]] for (uint t = 0; t < TOKENS; t++) {
                float x = p.inputs.value[column(first + t) + chunk * 32 + i];
                [[unroll]] for (uint r = 0; r < ROWS; r++) sums[t][r] = fma(w[r][i / 4][i % 4], x, sums[t][r]);
            }
    }
#if TYPE == TYPE_F32 || TYPE == TYPE_F16 || TYPE == TYPE_BF16
    if (n_whole * 32 == p.k) return;
    unpack_rows(gate, panel, lane, n_whole, w);
    [[unroll]] for (uint i = 0; i < 32; i++)
        if (n_whole * 32 + i < p.k)
            [[unroll]] for (uint t = 0; t < TOKENS; t++) {
                float x = p.inputs.value[column(first + t) + n_whole * 32 + i];
                [[unroll]] for (uint r = 0; r < ROWS; r++) sums[t][r] = fma(w[r][i / 4][i % 4], x, sums[t][r]);
            }
#endif
}

void main()
{
    uint lane = gl_LocalInvocationID.x, panel = gl_WorkGroupID.x, first = gl_WorkGroupID.y * TOKENS;
    float sums[TOKENS][ROWS], gates[TOKENS][ROWS];
    [[unroll]] for (uint t = 0; t < TOKENS; t++)
        [[unroll]] for (uint r = 0; r < ROWS; r++) sums[t][r] = gates[t][r] = 0;
    sum_rows(false, panel, lane, first, sums);
    if (GATED) sum_rows(true, panel, lane, first, gates);
    [[unroll]] for (uint r = 0; r < ROWS; r++)
        [[unroll]] for (uint t = 0; t < TOKENS; t++)
            finish(sums[t][r], gates[t][r], p.first_row + panel * 32 + lane + r * APART, first + t);
}

// matmul-address.glsl: for drivers that run shaders on the CPU, a vector of invocations at a time. There a
// read at an address that all share is one instruction, while reads through bindings are checked one by one,
// and barriers are expensive. So each invocation sums ROWS rows for TOKENS columns by itself, and reads the
// input at addresses. Such drivers also compile long code slowly: weight and gate share the same code.
layout(local_size_x = 32 / ROWS) in;

layout(constant_id = 6) const uint TOKENS = 1;

const uint APART = 32 / ROWS; // rows of an invocation

#if TYPE == TYPE_F32 || TYPE == TYPE_F16 || TYPE == TYPE_BF16
// Value i of a row.
float value_at(uint panel, uint row, uint i)
{
    uint n_units = (p.k + UNIT - 1) / UNIT, words = ((panel * n_units + i / UNIT) * 32 + row) * 4;
#if TYPE == TYPE_F32
    return uintBitsToFloat(Words(words_at).word[words + i % 4]);
#else
    uint bits = Words(words_at).word[words + i % 8 / 2] >> i % 2 * 16;
#if TYPE == TYPE_F16
    return unpackHalf2x16(bits).x;
#else
    return uintBitsToFloat(bits << 16);
#endif
#endif
}
#endif

void sum_rows(uint panel, uint lane, uint columns[TOKENS], uint k, inout float sums[TOKENS][ROWS])
{
    uint n_whole = k / CHUNK;
    for (uint chunk = 0; chunk < n_whole; chunk++) {
        vec4 w[ROWS][CHUNK / 4];
        [[unroll]] for (uint r = 0; r < ROWS; r++) unpack(panel, lane + r * APART, k, chunk, w[r]);
        [[unroll]] for (uint i = 0; i < CHUNK; i++)
            [[unroll]] for (uint t = 0; t < TOKENS; t++) {
                float x = Values(p.inputs).value[columns[t] + chunk * CHUNK + i];
                [[unroll]] for (uint r = 0; r < ROWS; r++) sums[t][r] = fma(w[r][i / 4][i % 4], x, sums[t][r]);
            }
    }
#if TYPE == TYPE_F32 || TYPE == TYPE_F16 || TYPE == TYPE_BF16
    for (uint i = n_whole * CHUNK; i < k; i++) {
        float w[ROWS];
        [[unroll]] for (uint r = 0; r < ROWS; r++) w[r] = value_at(panel, lane + r * APART, i);
        [[unroll]] for (uint t = 0; t < TOKENS; t++) {
            float x = Values(p.inputs).value[columns[t] + i];
            [[unroll]] for (uint r = 0; r < ROWS; r++) sums[t][r] = fma(w[r], x, sums[t][r]);
        }
    }
#endif
}

void main()
{
    uint lane = gl_LocalInvocationID.x, panel = gl_WorkGroupID.x, first;
    if (!begin(panel, TOKENS, first)) return;
    uint k = p.k, columns[TOKENS];
    uint64_t words = p.weight, scales = p.weight_scales, gate_words = p.gate, gate_scales = p.gate_scales;
    float sums[TOKENS][ROWS], gates[TOKENS][ROWS];
    [[unroll]] for (uint t = 0; t < TOKENS; t++) {
        columns[t] = column(first + t);
        [[unroll]] for (uint r = 0; r < ROWS; r++) sums[t][r] = gates[t][r] = 0;
    }
    if (GATED) {
        [[dont_unroll]] for (uint pass = 0; pass < 2; pass++) { // the gate, then the weight
            words_at = pass == 0 ? gate_words : words;
            scales_at = pass == 0 ? gate_scales : scales;
            [[unroll]] for (uint t = 0; t < TOKENS; t++)
                [[unroll]] for (uint r = 0; r < ROWS; r++) {
                    gates[t][r] = sums[t][r];
                    sums[t][r] = 0;
                }
            sum_rows(panel, lane, columns, k, sums);
        }
    } else {
        words_at = words;
        scales_at = scales;
        sum_rows(panel, lane, columns, k, sums);
    }
    [[unroll]] for (uint r = 0; r < ROWS; r++)
        [[unroll]] for (uint t = 0; t < TOKENS; t++)
            finish(sums[t][r], gates[t][r], first_row + panel * 32 + lane + r * APART, first + t);
}

// matmul-one.glsl: a workgroup computes 32 rows, one panel of the weight, for one column; its SLICES divide
// k.
layout(local_size_x = 32, local_size_y_id = 0) in;

shared float slices[SLICES * 32];

// Adds up the slices' sums; the result is in the first one.
float add_slices(float sum, uint lane, uint slice)
{
    if (SLICES == 1) return sum;
    barrier();
    slices[slice * 32 + lane] = sum;
    barrier();
    if (slice == 0)
        for (uint s = 1; s < SLICES; s++) sum += slices[s * 32 + lane];
    return sum;
}

void main()
{
    uint lane = gl_LocalInvocationID.x, slice = SLICES > 1 ? gl_LocalInvocationID.y : 0;
    uint panel = gl_WorkGroupID.x, token;
    if (!begin(panel, 1, token)) return;
    uint start = column(token);
    float sum = 0, gate = 0;
    for (uint chunk = slice; chunk * 32 < p.k; chunk += SLICES) {
        vec4 w[8], g[8];
        unpack_weight(panel, lane, p.k, chunk, w);
        if (GATED) unpack_gate(panel, lane, p.k, chunk, g);
        [[unroll]] for (uint i = 0; i < 8; i++) {
            vec4 x = input4(start, chunk * 32 + 4 * i);
            sum = dot4(w[i], x, sum);
            if (GATED) gate = dot4(g[i], x, gate);
        }
    }
    sum = add_slices(sum, lane, slice);
    if (GATED) gate = add_slices(gate, lane, slice);
    if (slice == 0) finish(sum, gate, first_row + panel * 32 + lane, token);
}

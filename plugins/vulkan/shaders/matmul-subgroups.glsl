// matmul-subgroups.glsl: one column, on devices with full subgroups of 8 invocations or more: a workgroup
// computes a quarter of a panel. Eight neighbours own eight rows, so that they read whole sectors of memory;
// a subgroup's sums of a row are added by shuffles. matmul-few.glsl adds in the same order.
#extension GL_KHR_shader_subgroup_basic : require
#extension GL_KHR_shader_subgroup_shuffle : require
layout(local_size_x = 128) in;

#define ROWS   8
#define PARTS  (32 / ROWS) // of a panel
#define SHARES (128 / ROWS) // of k

shared float partial[128]; // [subgroup][row]

// Adds up the sums of a row's invocations; the result is in the first subgroup.
float add_shares(float sum, uint row)
{
    for (uint apart = ROWS; apart < gl_SubgroupSize; apart *= 2) sum += subgroupShuffleXor(sum, apart);
    barrier(); // the previous contents have been used
    if (gl_SubgroupInvocationID < ROWS) partial[gl_SubgroupID * ROWS + row] = sum;
    barrier();
    if (gl_SubgroupID == 0)
        for (uint s = 1; s < gl_NumSubgroups; s++) sum += partial[s * ROWS + row];
    return sum;
}

void main()
{
    uint invocation = gl_SubgroupID * gl_SubgroupSize + gl_SubgroupInvocationID;
    uint row = invocation % ROWS, share = invocation / ROWS;
    uint panel = gl_WorkGroupID.x / PARTS, token;
    if (!begin(panel, 1, token)) return;
    uint start = column(token);
    uint lane = gl_WorkGroupID.x % PARTS * ROWS + row; // of the panel
    float sum = 0, gate = 0;
    start_weights(invocation, ROWS * SHARES);
    chunk_place at = chunk_place_of(panel, lane, p.k, share * AT_A_TIME);
    uint n_chunks = (p.k + 31) / 32;
    for (uint chunk = share * AT_A_TIME; chunk < n_chunks; chunk += SHARES * AT_A_TIME) {
        [[unroll]] for (uint i = 0; i < AT_A_TIME; i++) {
            weights w, g;
            read_weight(panel, lane, chunk + i, at, i, w);
            if (GATED) read_gate(panel, lane, chunk + i, at, i, g);
            add_products(w, g, start, chunk + i, sum, gate);
        }
        advance(at, SHARES * AT_A_TIME);
    }
    sum = add_shares(sum, row);
    if (GATED) gate = add_shares(gate, row);
    if (share == 0) finish(sum, gate, first_row + panel * 32 + lane, token);
}

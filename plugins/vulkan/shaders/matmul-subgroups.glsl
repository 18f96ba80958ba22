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
    for (uint chunk = share; chunk * 32 < p.k; chunk += SHARES) {
        vec4 w[8], g[8];
        unpack_weight(panel, lane, p.k, chunk, w);
        if (GATED) unpack_gate(panel, lane, p.k, chunk, g);
        [[unroll]] for (uint i = 0; i < 8; i++) {
            vec4 x = input4(start, chunk * 32 + 4 * i);
            sum = dot4(w[i], x, sum);
            if (GATED) gate = dot4(g[i], x, gate);
        }
    }
    sum = add_shares(sum, row);
    if (GATED) gate = add_shares(gate, row);
    if (share == 0) finish(sum, gate, first_row + panel * 32 + lane, token);
}

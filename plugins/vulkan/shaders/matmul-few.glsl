// matmul-few.glsl: a workgroup computes ROWS rows of a panel for COLUMNS columns. Each row has SHARES
// invocations, which divide k. What an invocation has unpacked it multiplies with all columns, so that a
// weight is read and unpacked once. Input is read from the caches: neighbours, which own neighbouring rows,
// read the same address.
layout(local_size_x_id = 0) in; // ROWS * SHARES

layout(constant_id = 6) const uint COLUMNS = 1;
layout(constant_id = 7) const uint ROWS = 8; // a divisor of 32
// Sums of this many shares are added in pairs, then one after the other: the order of matmul-subgroups.glsl,
// so that a column's result doesn't depend on how many there are.
layout(constant_id = 8) const uint RUN = 1;

const uint SHARES = 16, PARTS = 32 / ROWS;
const uint AT_ONCE = COLUMNS < 4 ? COLUMNS : 4; // columns in shared memory; every device has these 16 KiB

shared float partial[(GATED ? 2 : 1) * AT_ONCE * SHARES * ROWS]; // [sums, gates][column][share][row]

// Adds up what the shares of a row have left at `base`.
float add_shares(uint base, uint row)
{
    float sums[SHARES];
    [[unroll]] for (uint s = 0; s < SHARES; s++) sums[s] = partial[(base + s) * ROWS + row];
    [[unroll]] for (uint apart = 1; apart < RUN; apart *= 2)
        [[unroll]] for (uint s = 0; s < SHARES; s += 2 * apart) sums[s] += sums[s + apart];
    float sum = sums[0];
    [[unroll]] for (uint s = RUN; s < SHARES; s += RUN) sum += sums[s];
    return sum;
}

void main()
{
    uint row = gl_LocalInvocationID.x % ROWS, share = gl_LocalInvocationID.x / ROWS;
    uint panel = gl_WorkGroupID.x / PARTS, first, starts[COLUMNS];
    uint lane = gl_WorkGroupID.x % PARTS * ROWS + row; // of the panel
    float sums[COLUMNS], gates[COLUMNS];
    if (!begin(panel, COLUMNS, first)) return;
    [[unroll]] for (uint t = 0; t < COLUMNS; t++) {
        starts[t] = column(first + t);
        sums[t] = gates[t] = 0;
    }
    start_weights(gl_LocalInvocationID.x, ROWS * SHARES);
    chunk_place at = chunk_place_of(panel, lane, p.k, share * AT_A_TIME);
    uint n_chunks = (p.k + 31) / 32;
    for (uint chunk = share * AT_A_TIME; chunk < n_chunks; chunk += SHARES * AT_A_TIME) {
        [[unroll]] for (uint i = 0; i < AT_A_TIME; i++) {
            weights w, g;
            read_weight(panel, lane, chunk + i, at, i, w);
            if (GATED) read_gate(panel, lane, chunk + i, at, i, g);
            [[unroll]] for (uint t = 0; t < COLUMNS; t++)
                add_products(w, g, starts[t], chunk + i, sums[t], gates[t]);
        }
        advance(at, SHARES * AT_A_TIME);
    }
    [[unroll]] for (uint done = 0; done < COLUMNS; done += AT_ONCE) {
        barrier(); // the previous contents have been used
        [[unroll]] for (uint t = 0; t < AT_ONCE; t++) {
            partial[(t * SHARES + share) * ROWS + row] = sums[done + t];
            if (GATED) partial[((AT_ONCE + t) * SHARES + share) * ROWS + row] = gates[done + t];
        }
        barrier();
        if (share < AT_ONCE)
            finish(add_shares(share * SHARES, row), GATED ? add_shares((AT_ONCE + share) * SHARES, row) : 0,
                   first_row + panel * 32 + lane, first + done + share);
    }
}

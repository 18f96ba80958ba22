// matmul-tile.glsl: the frame of the forms that compute tiles of 64 rows and 32 columns.
void main()
{
    uint lane = gl_LocalInvocationID.x, panel = gl_WorkGroupID.x * 2, first;
    if (!begin(panel, TILE_TOKENS, first)) return;
    float sums[4][4], gates[4][4];
    [[unroll]] for (uint r = 0; r < 4; r++)
        [[unroll]] for (uint t = 0; t < 4; t++) sums[r][t] = gates[r][t] = 0;
    sum_tile(false, panel, lane, first, sums);
    if (GATED) sum_tile(true, panel, lane, first, gates);
    [[unroll]] for (uint r = 0; r < 4; r++)
        [[unroll]] for (uint t = 0; t < 4; t++)
            finish(sums[r][t], gates[r][t], first_row + panel * 32 + lane % 16 + 16 * r,
                   first + lane / 16 + 8 * t);
}

// matmul-cooperative.glsl: a workgroup makes 64 rows for 64 columns with cooperative matrices: float16 times
// float16, sums in float32. Each 32 values of k are staged in shared memory, where subgroups fetch the
// matrices of their region of the tile.
//
// Each invocation stages one row or one column, divided by a power of two of its own that scales the largest
// of the first 32 values to 2^6 … 2^7. As long as it scales those of later ones to LEAST … MOST, nothing
// overflows, and values below float16's normal numbers don't matter. Beyond that, which is rare, all sums so
// far are added to the totals, and new powers of two are chosen. The only other error is the rounding of
// values to 11 bits. Weights in float16 keep all their bits; for them the columns do too, because they are
// staged in two parts: the upper 11 bits, and the others.
#extension GL_EXT_shader_explicit_arithmetic_types_float16 : enable
#extension GL_KHR_cooperative_matrix : require
#extension GL_KHR_memory_scope_semantics : require
#extension GL_KHR_shader_subgroup_basic : require
layout(local_size_x = 128) in;

// The size of a device's product, rows x k by k x columns, and a subgroup's region: cooperative.c chooses
// them.
layout(constant_id = 6) const uint ROWS = 16;
layout(constant_id = 7) const uint COLUMNS = 16;
layout(constant_id = 8) const uint DEPTH = 16;
layout(constant_id = 9) const uint REGION_ROWS = 32;
layout(constant_id = 10) const uint REGION_COLUMNS = 32;

#if TYPE == TYPE_F16
#define PARTS 2 // of the columns
#else
#define PARTS 1
#endif
#define TILE    64
#define STRIDE  10 // of a row of 8 f16vec4; a multiple of 16 bytes, as matrices are fetched from there
#define LEAST   0.0625
#define MOST    32768.0
#define NOTHING uintBitsToFloat(27u << 23) // 2^-100: as good as zero

const uint ACROSS = REGION_COLUMNS / COLUMNS, DOWN = REGION_ROWS / ROWS; // matrices of a region
const uint PIECES = DOWN * ACROSS;
const uint SLOT = ROWS * COLUMNS;
const uint SUBGROUPS = TILE / REGION_ROWS * (TILE / REGION_COLUMNS);

#define SUMS coopmat<float, gl_ScopeSubgroup, ROWS, COLUMNS, gl_MatrixUseAccumulator>

shared f16vec4 operands[(1 + PARTS) * TILE * STRIDE];   // rows, then columns
shared float levels[2 * TILE];                          // of rows, then of columns
// [sums or gates][subgroup][column][row] of one matrix
shared float slots[(GATED ? 2 : 1) * SUBGROUPS * SLOT];
shared uint flushed;                                    // the last chunk that needed other powers of two

uint region_row()
{
    return gl_SubgroupID / (TILE / REGION_COLUMNS) * REGION_ROWS;
}

uint region_column()
{
    return gl_SubgroupID % (TILE / REGION_COLUMNS) * REGION_COLUMNS;
}

float largest(vec4 v[8])
{
    vec4 most = abs(v[0]);
    [[unroll]] for (uint i = 1; i < 8; i++) most = max(most, abs(v[i]));
    return max(max(most.x, most.y), max(most.z, most.w));
}

// The power of two that scales it to 2^6 … 2^7.
float level_of(float most)
{
    return uintBitsToFloat((floatBitsToUint(max(most, NOTHING)) & 0x7f800000u) - (6u << 23));
}

float inverse_of(float power)
{
    return uintBitsToFloat((254u << 23) - floatBitsToUint(power));
}

// 32 values of the row or column that an invocation stages.
void fetch(bool gate, uint panel, uint lane, uint start, uint chunk, out vec4 v[8])
{
    if (lane < TILE) {
        // Beyond the last bound panel, the last is read again: finish drops its rows.
        uint mine = panel + (first_row + (panel + lane / 32) * 32 < p.rows ? lane / 32 : 0);
        if (gate)
            unpack_gate(mine, lane % 32, p.k, chunk, v);
        else
            unpack_weight(mine, lane % 32, p.k, chunk, v);
    } else {
        [[unroll]] for (uint i = 0; i < 8; i++) v[i] = input4(start, chunk * 32 + 4 * i);
    }
}

// Stages them.
void stage(uint lane, vec4 v[8], float inverse)
{
    [[unroll]] for (uint i = 0; i < 8; i++) {
        vec4 whole = v[i] * inverse, high = whole;
        if (PARTS > 1 && lane >= TILE) {
            high = uintBitsToFloat(floatBitsToUint(whole) & 0xffffe000u); // 11 bits
            operands[(TILE + lane) * STRIDE + i] = f16vec4(whole - high);
        }
        operands[lane * STRIDE + i] = f16vec4(high);
    }
}

// Adds sums, multiplied by the levels of their rows and columns, to totals; `level` is the invocation's own.
void flush(uint lane, float level, inout SUMS sums[PIECES], inout SUMS totals[PIECES])
{
    uint slot = gl_SubgroupID * SLOT;
    levels[lane] = level;
    barrier();
    [[unroll]] for (uint i = 0; i < PIECES; i++) {
        uint row = region_row() + i / ACROSS * ROWS, column = region_column() + i % ACROSS * COLUMNS;
        subgroupBarrier(); // the previous contents have been used
        coopMatStore(sums[i], slots, slot, ROWS, gl_CooperativeMatrixLayoutColumnMajor);
        subgroupBarrier();
        for (uint e = gl_SubgroupInvocationID; e < SLOT; e += gl_SubgroupSize)
            slots[slot + e] *= levels[row + e % ROWS] * levels[TILE + column + e / ROWS];
        subgroupBarrier();
        coopMatLoad(sums[i], slots, slot, ROWS, gl_CooperativeMatrixLayoutColumnMajor);
        totals[i] += sums[i];
        sums[i] = SUMS(0);
    }
}

// Adds the products of the 32 values in shared memory.
void multiply(inout SUMS sums[PIECES])
{
    [[unroll]] for (uint k = 0; k < 32; k += DEPTH) {
        coopmat<float16_t, gl_ScopeSubgroup, ROWS, DEPTH, gl_MatrixUseA> w[DOWN];
        [[unroll]] for (uint r = 0; r < DOWN; r++)
            coopMatLoad(w[r], operands, (region_row() + r * ROWS) * STRIDE + k / 4, STRIDE,
                        gl_CooperativeMatrixLayoutRowMajor);
        [[unroll]] for (uint part = 1; part <= PARTS; part++)
            [[unroll]] for (uint c = 0; c < ACROSS; c++) {
                coopmat<float16_t, gl_ScopeSubgroup, DEPTH, COLUMNS, gl_MatrixUseB> x;
                coopMatLoad(x, operands, (part * TILE + region_column() + c * COLUMNS) * STRIDE + k / 4, STRIDE,
                            gl_CooperativeMatrixLayoutColumnMajor);
                [[unroll]] for (uint r = 0; r < DOWN; r++)
                    sums[r * ACROSS + c] = coopMatMulAdd(w[r], x, sums[r * ACROSS + c]);
            }
    }
}

void sum_tile(bool gate, uint panel, uint lane, uint first, inout SUMS totals[PIECES])
{
    SUMS sums[PIECES];
    float level = 1; // of the values that this invocation stages
    uint start = column(first + lane % TILE); // of the column that it stages, if it is one
    [[unroll]] for (uint i = 0; i < PIECES; i++) sums[i] = totals[i] = SUMS(0);
    if (lane == 0) flushed = 0;
    for (uint chunk = 0; chunk * 32 < p.k; chunk++) {
        vec4 v[8];
        fetch(gate, panel, lane, start, chunk, v);
        float most = largest(v), size = most * inverse_of(level);
        if (chunk == 0) level = level_of(most);
        bool is_outside = chunk > 0 && most > NOTHING && (size < LEAST || size >= MOST);
        if (is_outside) atomicMax(flushed, chunk);
        barrier(); // the previous contents have been used
        if (chunk > 0 && flushed == chunk) flush(lane, level, sums, totals);
        if (is_outside) level = level_of(most);
        stage(lane, v, inverse_of(level));
        barrier();
        multiply(sums);
    }
    flush(lane, level, sums, totals);
}

void main()
{
    uint lane = gl_LocalInvocationID.x, panel = gl_WorkGroupID.x * 2, first;
    if (!begin(panel, TILE, first)) return;
    uint slot = gl_SubgroupID * SLOT, second = SUBGROUPS * SLOT + slot;
    SUMS sums[PIECES], gates[PIECES];
    sum_tile(false, panel, lane, first, sums);
    if (GATED) sum_tile(true, panel, lane, first, gates);
    [[unroll]] for (uint i = 0; i < PIECES; i++) {
        uint row = first_row + panel * 32 + region_row() + i / ACROSS * ROWS;
        uint column = first + region_column() + i % ACROSS * COLUMNS;
        subgroupBarrier(); // the previous contents have been used
        coopMatStore(sums[i], slots, slot, ROWS, gl_CooperativeMatrixLayoutColumnMajor);
        if (GATED) coopMatStore(gates[i], slots, second, ROWS, gl_CooperativeMatrixLayoutColumnMajor);
        subgroupBarrier();
        for (uint e = gl_SubgroupInvocationID; e < SLOT; e += gl_SubgroupSize)
            finish(slots[slot + e], GATED ? slots[second + e] : 0, row + e % ROWS, column + e / ROWS);
    }
}

// matmul.cl: ENGINE_OP_MATMUL for weights of TYPE. inputs.cl has put the input into tiles of TOKENS columns:
// [tile] [chunk of 32 values][column in the tile], as floats or, with INTEGERS, as bytes with scales, for
// integer products with the weights' codes.
//
// With MATRICES the weight is several matrices, one after the other, each of which starts a new panel, and
// all columns of a tile have the same one. With TOKENS of 1 that is the expert, or the head, of the column;
// otherwise experts.cl has made the tiles, with a table of their columns and matrices. With ROWS defined,
// work-groups are for few columns.
//
// On GPUs the build says whether there is a gate, GATED, and the KIND of activation: arrays stay in registers
// only where loops are unrolled, and each column then has a copy of the code.

struct matmul_parameters {
    uint n_chunks, rows, n_columns;
    uint first_panel, n_panels;           // of the weight's part
    uint matrix_panels;                   // of one matrix
    uint output_offset, stride1, stride2; // all in words: from slot to slot, from token to token
    uint residual_offset, residual_stride;
    uint about_offset;                 // in units of 16 bytes
    uint n_slots;                      // a column is number slot + token * n_slots
    uint n_shared;                     // slots that one column of the input serves
    uint ids_offset, ids_stride;       // of the experts that were chosen
    uint tiles_offset, columns_offset; // of the table
    uint has_gate, has_bias, has_residual, has_ids, activation;
    float scale;
};

// ---- Tiles ------------------------------------------------------------------------------------------------

// A tile: its matrix; its columns; the tile of the input. Tables are those of experts.cl, or just ids.
struct tile {
    uint matrix, n_columns, input;
};

struct tile tile_at(const struct matmul_parameters *p, global const uint *table, uint number)
{
#if !defined(MATRICES)
    return (struct tile){0, min((uint)TOKENS, p->n_columns - number * TOKENS), number};
#elif TOKENS == 1
    uint token = number / p->n_slots, slot = number - token * p->n_slots;
    uint matrix = p->has_ids ? table[p->ids_offset + token * p->ids_stride + slot] : slot;
    return (struct tile){matrix, 1, number / p->n_shared};
#else
    global const uint *entry = table + p->tiles_offset + 2 * number;
    return (struct tile){entry[0], entry[1], number};
#endif
}

// The destination of column `i` of a tile.
size_t output_of(const struct matmul_parameters *p, global const uint *table, uint tile, uint i)
{
#ifdef MATRICES
    uint column = TOKENS == 1 ? tile : table[p->columns_offset + tile * TOKENS + i];
    uint token = column / p->n_slots, slot = column - token * p->n_slots;
    return p->output_offset + (size_t)slot * p->stride1 + (size_t)token * p->stride2;
#else
    return p->output_offset + (size_t)(tile * TOKENS + i) * p->stride2;
#endif
}

// The panel of a part that holds panel `panel` of a matrix; n_panels or more: it is not in this part.
uint panel_in_part(const struct matmul_parameters *p, uint matrix, uint panel)
{
    return matrix * p->matrix_panels + panel - p->first_panel;
}

// The first dimension of a launch counts a matrix's panels: all of one of many, those in the part of a single
// one.
uint panel_of(const struct matmul_parameters *p, uint number)
{
#ifdef MATRICES
    return number;
#else
    return p->first_panel + number;
#endif
}

// ---- Products ---------------------------------------------------------------------------------------------

#ifdef INTEGERS
#if defined(VNNI) && defined(VECTORS) && defined(__clang__) && defined(__x86_64__) && defined(__AVX512F__)
// sum + the four products of unsigned bytes with signed ones, in each lane.
I add_dot(I sum, W codes, int inputs)
{
    I all = inputs;
    __asm__("vpdpbusd %2, %1, %0" : "+v"(sum) : "v"(codes), "v"(all));
    return sum;
}
#elif defined(DOT_PRODUCT) && !defined(VECTORS) && defined(__opencl_c_integer_dot_product_input_4x8bit)
I add_dot(I sum, W codes, int inputs)
{
    return sum + dot(as_uchar4(codes), as_char4(inputs));
}
#else
I add_dot(I sum, W codes, int inputs)
{
    char4 x = as_char4(inputs);
    return sum + AS_I(codes & 255) * (int)x.x + AS_I(codes >> 8 & 255) * (int)x.y +
           AS_I(codes >> 16 & 255) * (int)x.z + AS_I(codes >> 24) * (int)x.w;
}
#endif

// A chunk of a column: the sum of 32 products.
F chunk_product(const W codes[8], const F scale[2], const F least[2], const int *inputs, int4 about)
{
    // about: the scale of the inputs (a float's bits), the sums of their bytes over the first and the last 16
#ifdef HALVES
    I low = (I)(-ZERO * about.y), high = (I)(-ZERO * about.z);
    UNROLL for (uint i = 0; i < 4; i++) {
        low = add_dot(low, codes[i], inputs[i]);
        high = add_dot(high, codes[4 + i], inputs[4 + i]);
    }
    F sum = TO_F(low) * scale[0] + TO_F(high) * scale[1];
#ifdef HAS_LEAST
    sum += least[0] * (float)about.y + least[1] * (float)about.z;
#endif
#else
    int all = about.y + about.z;
    I products = (I)(-ZERO * all);
    UNROLL for (uint i = 0; i < 8; i++) products = add_dot(products, codes[i], inputs[i]);
    F sum = TO_F(products) * scale[0];
#ifdef HAS_LEAST
    sum += least[0] * (float)all;
#endif
#endif
    return sum * as_float(about.x);
}
#endif

#ifdef VECTORS
#define ACTIVATE      activate16
#define HAS_GATE(p)   ((p)->has_gate)
#define ACTIVATION(p) ((p)->activation)
#else
#define ACTIVATE      activate
#define HAS_GATE(p)   GATED
#define ACTIVATION(p) KIND
#endif

// The steps after the product, except the residual.
F finish(F sum, F gate, const struct matmul_parameters *p, F bias)
{
    return HAS_GATE(p) ? ACTIVATE(ACTIVATION(p), gate, 0, 0) * sum
                       : ACTIVATE(ACTIVATION(p), sum * p->scale + bias, 0, 0);
}

#ifdef VECTORS
// ---- A work-item takes a panel of 32 rows in two vectors, and TOKENS columns ------------------------------

#ifdef INTEGERS
void accumulate(global const uint *panel, uint n_chunks, uint n_tokens, global const int *inputs,
                global const int4 *about, F sums[2 * TOKENS])
{
    for (uint t = 0; t < 2 * n_tokens; t++) sums[t] = 0;
    for (uint chunk = 0; chunk < n_chunks; chunk++) {
        W a[8], b[8];
        F scale_a[2], least_a[2], scale_b[2], least_b[2];
        unpack_codes(panel, chunk, a, scale_a, least_a);
        unpack_codes(panel + 16, chunk, b, scale_b, least_b);
        for (uint t = 0; t < n_tokens; t++) {
            int x[8];
            UNROLL for (uint i = 0; i < 8; i++) x[i] = inputs[(chunk * TOKENS + t) * 8 + i];
            sums[2 * t] += chunk_product(a, scale_a, least_a, x, about[chunk * TOKENS + t]);
            sums[2 * t + 1] += chunk_product(b, scale_b, least_b, x, about[chunk * TOKENS + t]);
        }
    }
}
#else
// SIDE columns side by side: this many sums are computed at once.
#if TOKENS % 8 == 0
#define SIDE 8
#else
#define SIDE 1
#endif
void accumulate(global const uint *panel, uint n_chunks, uint n_tokens, global const float *inputs,
                global const int4 *about, F sums[2 * TOKENS])
{
    for (uint t = 0; t < 2 * TOKENS; t++) sums[t] = 0;
    for (uint chunk = 0; chunk < n_chunks; chunk++)
        for (uint half_panel = 0; half_panel < 2; half_panel++) {
            F w[32];
            unpack_values(panel + 16 * half_panel, chunk, w);
            for (uint t = 0; t < n_tokens; t += SIDE) {
                global const float *x = inputs + (size_t)(chunk * TOKENS + t) * 32;
#if SIDE == 1
                F part[4];
                UNROLL for (uint i = 0; i < 4; i++) part[i] = w[i] * x[i];
                UNROLL for (uint i = 4; i < 32; i++) part[i % 4] += w[i] * x[i];
                sums[2 * t + half_panel] += (part[0] + part[1]) + (part[2] + part[3]);
#else
                F part[SIDE];
                UNROLL for (uint j = 0; j < SIDE; j++) part[j] = sums[2 * (t + j) + half_panel];
                UNROLL for (uint i = 0; i < 32; i++)
                    UNROLL for (uint j = 0; j < SIDE; j++) part[j] += w[i] * x[j * 32 + i];
                UNROLL for (uint j = 0; j < SIDE; j++) sums[2 * (t + j) + half_panel] = part[j];
#endif
            }
        }
}
#endif

// Rows row ... row + 15 of a column, as far as they exist.
F load_column(global const float *column, uint row, uint end)
{
    if (row + 16 <= end) return vload16(0, column + row);
    float values[16];
    for (uint i = 0; i < 16; i++) values[i] = row + i < end ? column[row + i] : 0;
    return vload16(0, values);
}

void store_column(F column_values, global float *column, uint row, uint end)
{
    if (row + 16 <= end) {
        vstore16(column_values, 0, column + row);
        return;
    }
    float values[16];
    vstore16(column_values, 0, values);
    for (uint i = 0; i < 16 && row + i < end; i++) column[row + i] = values[i];
}

// Dimension 0: tiles of columns, so that those with the same panel run one after the other. Dimension 1:
// panels.
kernel __attribute__((reqd_work_group_size(1, 1, 1))) void
matmul(global const uint *weight, global const uint *gate, global const INPUT *inputs, global const int4 *about,
       global const float *bias, global const float *residual, global float *output, global const uint *table,
       const struct matmul_parameters given)
{
    const struct matmul_parameters p = given;
    uint number = get_global_id(0), panel = panel_of(&p, get_global_id(1)), row = panel * PANEL;
    struct tile tile = tile_at(&p, table, number);
    uint in_part = panel_in_part(&p, tile.matrix, panel);
    if (tile.n_columns == 0 || in_part >= p.n_panels) return;
    size_t at = (size_t)in_part * ((p.n_chunks * 32 + BLOCK - 1) / BLOCK) * (BLOCK_WORDS * PANEL);
    size_t column = (size_t)tile.input * p.n_chunks * TOKENS;
    F sums[2 * TOKENS], gates[2 * TOKENS];
    inputs += column * INPUT_WORDS;
    about += p.about_offset + column;
    bias += (size_t)tile.matrix * p.rows;
    accumulate(weight + at, p.n_chunks, tile.n_columns, inputs, about, sums);
    if (p.has_gate) accumulate(gate + at, p.n_chunks, tile.n_columns, inputs, about, gates);
    for (uint side = 0; side < 2; side++, row += 16) {
        if (row >= p.rows) break;
        F added = p.has_bias ? load_column(bias, row, p.rows) : (F)(0);
        for (uint t = 0; t < tile.n_columns; t++) {
            F value = finish(sums[2 * t + side], gates[2 * t + side], &p, added);
            if (p.has_residual)
                value += load_column(residual + p.residual_offset + (size_t)(number * TOKENS + t) * p.residual_stride,
                                     row, p.rows);
            store_column(value, output + output_of(&p, table, number, t), row, p.rows);
        }
    }
}

#else
// ---- A work-group takes ROWS rows and a few columns, or 128 rows and TOKENS columns -----------------------

#ifdef INTEGERS
#define INPUT4 int4
#else
#define INPUT4 float4
#endif
#define INPUT_QUADS (INPUT_WORDS / 4) // of 16 bytes, of a chunk; tiles begin at multiples of 64 bytes

// Finishes a row of column `i` of tile `number`.
void store_sum(float sum, float gate, uint row, uint number, uint i, const struct matmul_parameters *p,
               global const float *bias, global const float *residual, global const uint *table, global float *output)
{
    float value = finish(sum, gate, p, p->has_bias ? bias[row] : 0);
    if (p->has_residual) value += residual[p->residual_offset + (size_t)(number * TOKENS + i) * p->residual_stride + row];
    output[output_of(p, table, number, i) + row] = value;
}

#ifdef ROWS
#define SHARES  16                        // of k
#define AT_ONCE (TOKENS < 2 ? TOKENS : 2) // columns in local memory: every device has these 8 KiB

// What a work-item unpacks it multiplies with all columns, which come from the caches: neighbours, which own
// neighbouring rows, read the same address.
void accumulate(global const uint *rows, uint share, uint n_chunks, global const INPUT4 *inputs,
                global const int4 *about, float sums[TOKENS])
{
    UNROLL for (uint t = 0; t < TOKENS; t++) sums[t] = 0;
    for (uint chunk = share; chunk < n_chunks; chunk += SHARES) {
        size_t column = (size_t)chunk * TOKENS;
#ifdef INTEGERS
        W codes[8];
        F scale[2], least[2];
        unpack_codes(rows, chunk, codes, scale, least);
        UNROLL for (uint t = 0; t < TOKENS; t++) {
            int x[8];
            UNROLL for (uint i = 0; i < 2; i++) vstore4(inputs[(column + t) * 2 + i], i, x);
            sums[t] += chunk_product(codes, scale, least, x, about[column + t]);
        }
#else
        F w[32];
        unpack_values(rows, chunk, w);
        UNROLL for (uint t = 0; t < TOKENS; t++) {
            float sum = 0;
            UNROLL for (uint i = 0; i < 8; i++) {
                float4 x = inputs[(column + t) * 8 + i];
                sum += w[4 * i] * x.s0;
                sum += w[4 * i + 1] * x.s1;
                sum += w[4 * i + 2] * x.s2;
                sum += w[4 * i + 3] * x.s3;
            }
            sums[t] += sum;
        }
#endif
    }
}

// Adds up what the shares of a row have summed up.
float add_shares(local const float *partial, uint row)
{
    float sum = 0;
    for (uint s = 0; s < SHARES; s++) sum += partial[s * ROWS + row];
    return sum;
}

// Group dimension 0: ROWS rows, 1: tiles.
kernel __attribute__((reqd_work_group_size(ROWS * SHARES, 1, 1))) void
matmul(global const uint *weight, global const uint *gate, global const INPUT4 *inputs, global const int4 *about,
       global const float *bias, global const float *residual, global float *output, global const uint *table,
       const struct matmul_parameters given)
{
    local float partial[1 + GATED][AT_ONCE][SHARES * ROWS]; // of sums and gates
    const struct matmul_parameters p = given;
    uint row = get_local_id(0) % ROWS, share = get_local_id(0) / ROWS, number = get_group_id(1);
    uint first = get_group_id(0) * ROWS, lane = first % PANEL + row;
    uint panel = panel_of(&p, first / PANEL);
    struct tile tile = tile_at(&p, table, number);
    uint in_part = panel_in_part(&p, tile.matrix, panel);
    if (tile.n_columns == 0 || in_part >= p.n_panels) return;
    size_t at = (size_t)in_part * ((p.n_chunks * 32 + BLOCK - 1) / BLOCK) * (BLOCK_WORDS * PANEL) + lane;
    size_t column = (size_t)tile.input * p.n_chunks * TOKENS;
    float sums[TOKENS], gates[TOKENS];
    inputs += column * INPUT_QUADS;
    about += p.about_offset + column;
    bias += (size_t)tile.matrix * p.rows;
    accumulate(weight + at, share, p.n_chunks, inputs, about, sums);
    if (GATED) accumulate(gate + at, share, p.n_chunks, inputs, about, gates);
    // Gates have no barriers of their own: with those, in a condition, PoCL 3.1 computed zeros.
    UNROLL for (uint t = 0; t < TOKENS; t += AT_ONCE) {
        barrier(CLK_LOCAL_MEM_FENCE); // the previous contents have been used
        UNROLL for (uint i = 0; i < AT_ONCE; i++) {
            partial[0][i][get_local_id(0)] = sums[t + i];
            if (GATED) partial[1][i][get_local_id(0)] = gates[t + i];
        }
        barrier(CLK_LOCAL_MEM_FENCE);
        if (share < AT_ONCE && t + share < tile.n_columns && panel * PANEL + lane < p.rows)
            store_sum(add_shares(partial[0][share], row), GATED ? add_shares(partial[1][share], row) : 0,
                      panel * PANEL + lane, number, t + share, &p, bias, residual, table, output);
    }
}
#else

#define ROWS_OF_GROUP 128

// Every work-item has a row; the columns of the tile pass through local memory chunk by chunk.
void accumulate(global const uint *rows, bool is_row, uint n_chunks, global const INPUT4 *inputs,
                global const int4 *about, local INPUT4 *shared_inputs, local int4 *shared_about, float sums[TOKENS])
{
    uint lane = get_local_id(0);
    UNROLL for (uint t = 0; t < TOKENS; t++) sums[t] = 0;
    for (uint chunk = 0; chunk < n_chunks; chunk++) {
        size_t at = (size_t)chunk * TOKENS;
        barrier(CLK_LOCAL_MEM_FENCE);
        for (uint i = lane; i < TOKENS * INPUT_QUADS; i += ROWS_OF_GROUP) shared_inputs[i] = inputs[at * INPUT_QUADS + i];
#ifdef INTEGERS
        if (lane < TOKENS) shared_about[lane] = about[at + lane];
#endif
        barrier(CLK_LOCAL_MEM_FENCE);
        if (!is_row) continue;
#ifdef INTEGERS
        W codes[8];
        F scale[2], least[2];
        unpack_codes(rows, chunk, codes, scale, least);
        UNROLL for (uint t = 0; t < TOKENS; t++) {
            int x[8];
            UNROLL for (uint i = 0; i < 2; i++) vstore4(shared_inputs[t * 2 + i], i, x);
            sums[t] += chunk_product(codes, scale, least, x, shared_about[t]);
        }
#else
        F w[32];
        unpack_values(rows, chunk, w);
        UNROLL for (uint t = 0; t < TOKENS; t++)
            UNROLL for (uint i = 0; i < 8; i++) {
                float4 x = shared_inputs[t * 8 + i];
                sums[t] += w[4 * i] * x.s0;
                sums[t] += w[4 * i + 1] * x.s1;
                sums[t] += w[4 * i + 2] * x.s2;
                sums[t] += w[4 * i + 3] * x.s3;
            }
#endif
    }
}

// Dimension 0: rows of a matrix, or of the part. Group dimension 1: tiles.
kernel __attribute__((reqd_work_group_size(ROWS_OF_GROUP, 1, 1))) void
matmul(global const uint *weight, global const uint *gate, global const INPUT4 *inputs, global const int4 *about,
       global const float *bias, global const float *residual, global float *output, global const uint *table,
       const struct matmul_parameters given)
{
    local INPUT4 shared_inputs[TOKENS * INPUT_QUADS];
    local int4 shared_about[TOKENS];
    const struct matmul_parameters p = given;
    uint number = get_group_id(1), panel = panel_of(&p, get_global_id(0) / PANEL), lane = get_global_id(0) % PANEL;
    struct tile tile = tile_at(&p, table, number);
    uint in_part = panel_in_part(&p, tile.matrix, panel), row = panel * PANEL + lane;
    if (tile.n_columns == 0) return;
    bool is_row = row < p.rows && in_part < p.n_panels;
    size_t panel_words = (size_t)((p.n_chunks * 32 + BLOCK - 1) / BLOCK) * (BLOCK_WORDS * PANEL);
    size_t at = in_part * panel_words + lane, column = (size_t)tile.input * p.n_chunks * TOKENS;
    float sums[TOKENS], gates[TOKENS];
    inputs += column * INPUT_QUADS;
    about += p.about_offset + column;
    bias += (size_t)tile.matrix * p.rows;
    accumulate(weight + at, is_row, p.n_chunks, inputs, about, shared_inputs, shared_about, sums);
    if (GATED) accumulate(gate + at, is_row, p.n_chunks, inputs, about, shared_inputs, shared_about, gates);
    UNROLL for (uint t = 0; t < TOKENS; t++)
        if (is_row && t < tile.n_columns)
            store_sum(sums[t], GATED ? gates[t] : 0, row, number, t, &p, bias, residual, table, output);
}
#endif
#endif

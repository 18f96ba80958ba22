// matmul-floats.glsl: how matmul-few.glsl and matmul-subgroups.glsl multiply 32 values of a row with those of
// a column, in float32.
#define AT_A_TIME 1 // chunks

struct weights {
    vec4 w[8];
};

void start_weights(uint lane, uint lanes) {}

void read_weight(uint panel, uint lane, uint chunk, chunk_place at, uint second, out weights row)
{
    unpack_weight(panel, lane, p.k, chunk, row.w);
}

void read_gate(uint panel, uint lane, uint chunk, chunk_place at, uint second, out weights row)
{
    unpack_gate(panel, lane, p.k, chunk, row.w);
}

// Adds the products of a chunk of the column that begins at `start`.
void add_products(weights w, weights g, uint start, uint chunk, inout float sum, inout float gate)
{
    [[unroll]] for (uint i = 0; i < 8; i++) {
        vec4 x = input4(start, chunk * 32 + 4 * i);
        sum = dot4(w.w[i], x, sum);
        if (GATED) gate = dot4(g.w[i], x, gate);
    }
}

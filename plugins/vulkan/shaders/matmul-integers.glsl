// matmul-integers.glsl: how matmul-few.glsl and matmul-subgroups.glsl multiply 32 values of a row with those
// of a column, by dot products of four bytes. round.comp has rounded the column.
#include "dot-of-bytes.glsl"
#define ROUNDED_QUADS 5 // of 32 values, see round.comp

#define weights       codes

// Chunks that an invocation takes at a time: two of them share what describes a block of eight.
#if BLOCK == 256
#define AT_A_TIME 2
#else
#define AT_A_TIME 1
#endif

// Newer compilers don't know the workgroup's size where it is declared only after this file.
void start_weights(uint lane, uint lanes)
{
#ifdef LOOKUP
    for (uint i = lane; i < 256; i += lanes)
        pairs[i] = uint(nibble_values[i & 15]) & 255u | (uint(nibble_values[i >> 4]) & 255u) << 8;
    barrier();
#endif
}

void read_weight(uint panel, uint lane, uint chunk, chunk_place at, uint second, out weights row)
{
    fetch_weight(at, second, row);
}

void read_gate(uint panel, uint lane, uint chunk, chunk_place at, uint second, out weights row)
{
    fetch_gate(at, second, row);
}

// Words first … first + count - 1 of the row times those of the column, without the column's scale.
int dot_of_words(codes c, ivec4 x[4], uint first, uint count)
{
    int high = 0, low = 0;
    [[unroll]] for (uint i = first; i < first + count; i++) {
        high += dot_of_bytes(int(c.words[i]), x[i / 4][i % 4], 0);
        low += dot_of_bytes(int(c.words[i]), x[2 + i / 4][i % 4], 0);
    }
    return (high << 7) + low;
}

float sum_products(codes c, ivec4 x[4], ivec4 about, float sum)
{
    float scale = intBitsToFloat(about.x);
#ifdef HALVES
    float all = 0;
    [[unroll]] for (uint i = 0; i < 2; i++) {
        all = fma(c.scale[i], float(dot_of_words(c, x, 4 * i, 4) - ZERO * about[1 + i]), all);
#ifdef HAS_LEAST
        all = fma(c.least[i], float(about[1 + i]), all);
#endif
    }
    return fma(scale, all, sum);
#else
    sum = fma(c.scale[0], scale * float(dot_of_words(c, x, 0, 8) - ZERO * (about.y + about.z)), sum);
#ifdef HAS_LEAST
    sum = fma(c.least[0], intBitsToFloat(about.w), sum);
#endif
    return sum;
#endif
}

// Adds the products of a chunk of the column that begins at `start`.
void add_products(codes w, codes g, uint start, uint chunk, inout float sum, inout float gate)
{
    uint at = (start + chunk) * ROUNDED_QUADS;
    ivec4 x[4];
    [[unroll]] for (uint i = 0; i < 4; i++) x[i] = rounded[at + i];
    ivec4 about = rounded[at + 4];
    sum = sum_products(w, x, about, sum);
    if (GATED) gate = sum_products(g, x, about, gate);
}

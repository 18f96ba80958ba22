// matmul.comp: ENGINE_OP_MATMUL, in the form that is defined:
//   FEW      COLUMNS columns: matmul-few.glsl
//   SUBGROUPS  one column, with sums over subgroups: matmul-subgroups.glsl
//   TILED    many columns, through shared memory: matmul-tiled.glsl
//   HALF     the same with products in float16: matmul-half.glsl
//   DOT      the same with integer dot products: matmul-dot.glsl
//   COOPERATIVE  the same with cooperative matrices: matmul-cooperative.glsl
//   INTEGERS  FEW or SUBGROUPS with integer dot products of columns that round.comp has rounded
//   ADDRESS  for software drivers, TOKENS columns at a time, read at device addresses: matmul-address.glsl
#version 450
#extension GL_EXT_control_flow_attributes : enable
#extension GL_GOOGLE_include_directive : enable
#include "types.glsl"

layout(constant_id = 1) const bool WHOLE = false; // columns are whole chunks of 32, at multiples of 16 bytes
layout(constant_id = 2) const bool GATED = false;
layout(constant_id = 3) const bool BIASED = false;
layout(constant_id = 4) const bool ADDS = false; // the residual
layout(constant_id = 5) const uint ACTIVATION = 0;

// how a workgroup finds its matrix and its columns; one of these:
layout(constant_id = 11) const uint MATRICES = 0;
const uint SINGLE = 0;    // one matrix
const uint BY_HEAD = 1;   // each head of a token has its own
const uint BY_COLUMN = 2; // each column has chosen an expert; a workgroup takes one column
const uint BY_GROUP = 3;  // the same, and group.comp has grouped the columns
// Slots are heads, or the experts of a token.

#ifdef ADDRESS
#extension GL_EXT_buffer_reference : enable
#extension GL_EXT_shader_explicit_arithmetic_types_int64 : enable
layout(buffer_reference, std430, buffer_reference_align = 4) readonly buffer Words { uint word[]; };
layout(buffer_reference, std430, buffer_reference_align = 16) readonly buffer Quads { u64vec2 quad[]; };
layout(buffer_reference, std430, buffer_reference_align = 4) volatile readonly buffer Values { float value[]; };
#endif

#include "parameters.glsl"
layout(push_constant) uniform Parameters { matmul_parameters p; };

layout(binding = 0) readonly buffer Weight { uint weight_words[]; };
layout(binding = 0) readonly buffer Weight2 { uvec2 weight_pairs[]; };
layout(binding = 0) readonly buffer Weight4 { uvec4 weight_quads[]; };
layout(binding = 1) readonly buffer Scales { uint weight_scales[]; };
layout(binding = 2) readonly buffer Gate { uint gate_words[]; };
layout(binding = 2) readonly buffer Gate2 { uvec2 gate_pairs[]; };
layout(binding = 2) readonly buffer Gate4 { uvec4 gate_quads[]; };
layout(binding = 3) readonly buffer GateScales { uint gate_scales[]; };
layout(binding = 4) readonly buffer Input { float inputs[]; };
layout(binding = 4) readonly buffer Input4 { vec4 inputs4[]; };
layout(binding = 4) readonly buffer Rounded { ivec4 rounded[]; };
layout(binding = 5) writeonly buffer Output { float outputs[]; };
layout(binding = 6) readonly buffer Bias { float biases[]; };
layout(binding = 7) readonly buffer Residual { float residuals[]; };
layout(binding = 7) readonly buffer Choice { uint choice[]; };

#ifdef ADDRESS
uvec4 address_quad(uint64_t base, uint i)
{
    u64vec2 both = Quads(base).quad[i];
    return uvec4(unpackUint2x32(both.x), unpackUint2x32(both.y));
}
uint64_t words_at, scales_at; // of the weight or the gate
#define UNPACK   unpack
#define FETCH    fetch
#define QUAD(i)  address_quad(words_at, i)
#define PAIR(i)  uvec2(Words(words_at).word[2 * (i)], Words(words_at).word[2 * (i) + 1])
#define WORD(i)  Words(words_at).word[i]
#define APART(i) Words(scales_at).word[i]
#include "unpack.glsl"
#else
#if defined(INTEGERS) && defined(LOOKUP)
shared uint pairs[256]; // the values of a byte's two numbers, in two bytes
#define PAIRED pairs
#endif
#define UNPACK   unpack_weight
#define FETCH    fetch_weight
#define QUAD(i)  weight_quads[i]
#define PAIR(i)  weight_pairs[i]
#define WORD(i)  weight_words[i]
#define APART(i) weight_scales[i]
#include "unpack.glsl"
#define UNPACK   unpack_gate
#define FETCH    fetch_gate
#define QUAD(i)  gate_quads[i]
#define PAIR(i)  gate_pairs[i]
#define WORD(i)  gate_words[i]
#define APART(i) gate_scales[i]
#include "unpack.glsl"
#endif

#include "activation.glsl"

// Read at the beginning: after invocations may have diverged, software drivers read for each of them.
uint n_rows = p.rows, n_tokens = p.tokens;
uint input_offset = p.input_offset, input_stride = p.input_stride;
uint output_offset = p.output_offset, output_stride = p.output_stride;
uint residual_offset = p.residual_offset, residual_stride = p.residual_stride;
uint input_slots = p.input_slots, output_slots = p.output_slots;
float scale = p.scale;

// With several matrices, those that a workgroup uses.
uint first_row = p.first_row; // of the part of the weight that is bound, counted in the matrix at hand
uint matrix = 0, slot = 0;

// Finds a workgroup's panel, counted as if each matrix were alone, and the first of its `columns` columns.
// False: it has nothing to do, or the panel is in another part of the weight.
bool begin(inout uint panel, uint columns, out uint first)
{
    uint tile = gl_WorkGroupID.y;
    first = tile * columns;
    if (MATRICES == SINGLE) return true;
    if (MATRICES == BY_HEAD) {
        matrix = slot = tile / p.head_tiles;
        first = (tile - slot * p.head_tiles) * columns;
    } else if (MATRICES == BY_COLUMN) {
        first = tile / p.n_slots;
        slot = tile - first * p.n_slots;
        matrix = choice[p.choice_offset + first * p.choice_step + slot];
    } else {
        matrix = choice[3 * tile];
        first = choice[3 * tile + 1];
        n_tokens = choice[3 * tile + 2];
        if (first >= n_tokens) return false;
    }
    uint in_part = matrix * p.matrix_panels + panel - p.first_panel;
    first_row = (panel - in_part) * 32;
    panel = in_part;
    return in_part < p.n_panels;
}

// Slot and token of a column.
uvec2 place(uint token)
{
    if (MATRICES != BY_GROUP) return uvec2(slot, token);
    uint number = choice[p.choice_step + token];
    return uvec2(number % p.n_slots, number / p.n_slots);
}

// The start of a column of the input: its first value, with INTEGERS the first of its chunks.
uint column(uint token)
{
    uvec2 at = place(min(token, n_tokens - 1));
    return input_offset + at.x * input_slots + at.y * input_stride;
}

// Four values of the column that begins at `start`, zeros after its end. WHOLE is known when the pipeline is
// made, so that loads don't branch: with branches, each of a chunk's eight loads waits for the one before.
vec4 input4(uint start, uint i)
{
    uint at = start + i;
    if (WHOLE) return inputs4[at / 4];
    vec4 values = vec4(0);
    [[unroll]] for (uint j = 0; j < 4; j++)
        if (i + j < p.k) values[j] = inputs[at + j];
    return values;
}

float dot4(vec4 a, vec4 b, float sum)
{
    return fma(a.w, b.w, fma(a.z, b.z, fma(a.y, b.y, fma(a.x, b.x, sum))));
}

// Applies the options to a sum, and stores the result.
void finish(float sum, float gate, uint row, uint token)
{
    if (row >= n_rows || token >= n_tokens) return;
    if (GATED) {
        sum *= activate(ACTIVATION, gate, 0, 0);
    } else {
        sum *= scale;
        if (BIASED) sum += biases[matrix * n_rows + row];
        sum = activate(ACTIVATION, sum, 0, 0);
    }
    if (ADDS) sum += residuals[residual_offset + token * residual_stride + row];
    uvec2 at = place(token);
    outputs[output_offset + at.x * output_slots + at.y * output_stride + row] = sum;
}

#if defined(ADDRESS)
#include "matmul-address.glsl"
#elif defined(TILED)
#include "matmul-tiled.glsl"
#include "matmul-tile.glsl"
#elif defined(HALF)
#include "matmul-half.glsl"
#include "matmul-tile.glsl"
#elif defined(DOT)
#include "matmul-dot.glsl"
#include "matmul-tile.glsl"
#elif defined(COOPERATIVE)
#include "matmul-cooperative.glsl"
#else
#ifdef INTEGERS
#include "matmul-integers.glsl"
#else
#include "matmul-floats.glsl"
#endif
#ifdef SUBGROUPS
#include "matmul-subgroups.glsl"
#else
#include "matmul-few.glsl"
#endif
#endif

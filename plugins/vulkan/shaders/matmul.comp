// matmul.comp: ENGINE_OP_MATMUL, in the form that is defined:
//   ONE      one column: an invocation sums a row over every SLICES-th part of k; only weights differ between invocations
//   SUBGROUPS  the same with sums over subgroups: matmul-subgroups.glsl
//   TILED    many columns, through shared memory: matmul-tiled.glsl
//   HALF     the same with products in float16: matmul-half.glsl
//   DOT      the same with integer dot products: matmul-dot.glsl
//   COOPERATIVE  the same with cooperative matrices: matmul-cooperative.glsl
//   ADDRESS  for software drivers, one column or TOKENS at a time, with memory read at addresses: matmul-address.glsl
#version 450
#extension GL_EXT_control_flow_attributes : enable
#extension GL_GOOGLE_include_directive : enable
#include "types.glsl"

layout(constant_id = 0) const uint SLICES = 1;
layout(constant_id = 1) const bool ALIGNED = false; // columns of the input start at multiples of 16 bytes
layout(constant_id = 2) const bool GATED = false;
layout(constant_id = 3) const bool BIASED = false;
layout(constant_id = 4) const bool ADDS = false; // the residual
layout(constant_id = 5) const uint ACTIVATION = 0;

#ifdef ADDRESS
#extension GL_EXT_buffer_reference : enable
#extension GL_EXT_shader_explicit_arithmetic_types_int64 : enable
layout(buffer_reference, std430, buffer_reference_align = 4) readonly buffer Words { uint word[]; };
layout(buffer_reference, std430, buffer_reference_align = 16) readonly buffer Quads { u64vec2 quad[]; };
layout(buffer_reference, std430, buffer_reference_align = 4) volatile readonly buffer Values { float value[]; };
#endif

layout(push_constant) uniform Parameters {
    uint k, rows, tokens;
    uint first_row; // of the part of the weight that is bound
    uint input_offset, input_stride; // all of these in words
    uint output_offset, output_stride;
    uint residual_offset, residual_stride;
    float scale;
#ifdef ADDRESS
    uint unused;
    uint64_t weight, weight_scales, gate, gate_scales; // where the bindings begin
    Values inputs;
#endif
} p;

layout(binding = 0) readonly buffer Weight { uint weight_words[]; };
layout(binding = 0) readonly buffer Weight4 { uvec4 weight_quads[]; };
layout(binding = 1) readonly buffer Scales { uint weight_scales[]; };
layout(binding = 2) readonly buffer Gate { uint gate_words[]; };
layout(binding = 2) readonly buffer Gate4 { uvec4 gate_quads[]; };
layout(binding = 3) readonly buffer GateScales { uint gate_scales[]; };
layout(binding = 4) readonly buffer Input { float inputs[]; };
layout(binding = 4) readonly buffer Input4 { vec4 inputs4[]; };
layout(binding = 5) writeonly buffer Output { float outputs[]; };
layout(binding = 6) readonly buffer Bias { float biases[]; };
layout(binding = 7) readonly buffer Residual { float residuals[]; };

#ifdef ADDRESS
uvec4 address_quad(uint64_t base, uint i)
{
    u64vec2 both = Quads(base).quad[i];
    return uvec4(unpackUint2x32(both.x), unpackUint2x32(both.y));
}
uint64_t words_at, scales_at; // of the weight or the gate
#define UNPACK        unpack
#define QUAD(i)       address_quad(words_at, i)
#define WORD(i)       Words(words_at).word[i]
#define SCALE_PAIR(i) Words(scales_at).word[i]
#include "unpack.glsl"
#else
#define UNPACK        unpack_weight
#define QUAD(i)       weight_quads[i]
#define WORD(i)       weight_words[i]
#define SCALE_PAIR(i) weight_scales[i]
#include "unpack.glsl"
#define UNPACK        unpack_gate
#define QUAD(i)       gate_quads[i]
#define WORD(i)       gate_words[i]
#define SCALE_PAIR(i) gate_scales[i]
#include "unpack.glsl"
#endif

#include "activation.glsl"

// Read at the beginning: where invocations may have parted, software drivers read for each of them.
uint n_rows = p.rows, n_tokens = p.tokens;
uint input_offset = p.input_offset, input_stride = p.input_stride;
uint output_offset = p.output_offset, output_stride = p.output_stride;
uint residual_offset = p.residual_offset, residual_stride = p.residual_stride;
float scale = p.scale;

// Where a column of the input begins.
uint column(uint token)
{
    return input_offset + min(token, n_tokens - 1) * input_stride;
}

// Four values of a column, zeros behind its end.
vec4 input4(uint token, uint i)
{
    uint at = column(token) + i;
    if (ALIGNED && i + 4 <= p.k) return inputs4[at / 4];
    vec4 values = vec4(0);
    [[unroll]] for (uint j = 0; j < 4; j++)
        if (i + j < p.k) values[j] = inputs[at + j];
    return values;
}

float dot4(vec4 a, vec4 b, float sum)
{
    return fma(a.w, b.w, fma(a.z, b.z, fma(a.y, b.y, fma(a.x, b.x, sum))));
}

// What the options make of a sum, put where it belongs.
void finish(float sum, float gate, uint row, uint token)
{
    if (row >= n_rows || token >= n_tokens) return;
    if (GATED) {
        sum *= activate(ACTIVATION, gate, 0, 0);
    } else {
        sum *= scale;
        if (BIASED) sum += biases[row];
        sum = activate(ACTIVATION, sum, 0, 0);
    }
    if (ADDS) sum += residuals[residual_offset + token * residual_stride + row];
    outputs[output_offset + token * output_stride + row] = sum;
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
#elif defined(SUBGROUPS)
#include "matmul-subgroups.glsl"
#else
#include "matmul-one.glsl"
#endif

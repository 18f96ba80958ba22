// matmul.comp: ENGINE_OP_MATMUL. A workgroup makes 32 rows, one panel of the weight, for TOKENS columns; its SLICES
// share out k. With ROWS defined, it is the form for software drivers, see dot-broadcast.glsl.
#version 450
#extension GL_EXT_control_flow_attributes : enable
#extension GL_GOOGLE_include_directive : enable
#include "types.glsl"

#ifdef ROWS
#extension GL_KHR_shader_subgroup_ballot : enable
layout(local_size_x = 32 / ROWS) in;
const uint SLICES = 1;
#else
#define ROWS 1
#define DOT_GENERAL
layout(local_size_x = 32, local_size_y_id = 0) in;
layout(constant_id = 0) const uint SLICES = 1;
#endif
layout(constant_id = 1) const bool ALIGNED = false; // columns of the input start at multiples of 16 bytes
layout(constant_id = 2) const bool GATED = false;
layout(constant_id = 3) const bool BIASED = false;
layout(constant_id = 4) const bool ADDS = false; // the residual
layout(constant_id = 5) const bool SILU = false;

layout(push_constant) uniform Parameters {
    uint k, rows, tokens;
    uint first_row; // of the part of the weight that is bound
    uint input_offset, input_stride; // all of these in words
    uint output_offset, output_stride;
    uint residual_offset, residual_stride;
    float scale;
} p;

layout(binding = 0) readonly buffer Weight { uvec4 weight_words[]; };
layout(binding = 1) readonly buffer Scales { uint weight_scales[]; };
layout(binding = 2) readonly buffer Gate { uvec4 gate_words[]; };
layout(binding = 3) readonly buffer GateScales { uint gate_scales[]; };
layout(binding = 4) readonly buffer Input { float inputs[]; };
layout(binding = 4) readonly buffer Input4 { vec4 inputs4[]; };
layout(binding = 5) writeonly buffer Output { float outputs[]; };
layout(binding = 6) readonly buffer Bias { float biases[]; };
layout(binding = 7) readonly buffer Residual { float residuals[]; };

#ifdef DOT_GENERAL
shared float slices[SLICES * TOKENS * 32];
#endif

uint column(uint first, uint t)
{
    return p.input_offset + min(first + t, p.tokens - 1) * p.input_stride;
}

vec4 input4(uint first, uint t, uint i)
{
    uint at = column(first, t) + i;
    if (ALIGNED) return inputs4[at / 4];
    return vec4(inputs[at], inputs[at + 1], inputs[at + 2], inputs[at + 3]);
}

// The last values of a column, whose length is no multiple of 4.
vec4 input_tail(uint first, uint t, uint i)
{
    uint at = column(first, t);
    vec4 values = vec4(0);
    [[unroll]] for (uint j = 0; j < 4; j++)
        if (i + j < p.k) values[j] = inputs[at + i + j];
    return values;
}

float dot4(vec4 a, vec4 b, float sum)
{
    return fma(a.w, b.w, fma(a.z, b.z, fma(a.y, b.y, fma(a.x, b.x, sum))));
}

#ifndef DOT_GENERAL
// Adds four columns of weights times values 0 … 3 (part 0) or 4 … 7 (part 1) of those that the subgroup holds.
void add_products(uint part, vec4 w[ROWS], float x[TOKENS], inout float sums[TOKENS * ROWS])
{
    [[unroll]] for (uint t = 0; t < TOKENS; t++) {
        vec4 values;
        if (part == 0)
            values = vec4(subgroupBroadcast(x[t], 0), subgroupBroadcast(x[t], 1), subgroupBroadcast(x[t], 2),
                          subgroupBroadcast(x[t], 3));
        else
            values = vec4(subgroupBroadcast(x[t], 4), subgroupBroadcast(x[t], 5), subgroupBroadcast(x[t], 6),
                          subgroupBroadcast(x[t], 7));
        [[unroll]] for (uint r = 0; r < ROWS; r++) sums[t * ROWS + r] = dot4(w[r], values, sums[t * ROWS + r]);
    }
}
#endif

#define DOT    dot_weight
#define WEIGHT weight_words
#define SCALES weight_scales
#ifdef DOT_GENERAL
#include "dot.glsl"
#else
#include "dot-broadcast.glsl"
#endif

#define DOT    dot_gate
#define WEIGHT gate_words
#define SCALES gate_scales
#ifdef DOT_GENERAL
#include "dot.glsl"
#else
#include "dot-broadcast.glsl"
#endif

#include "activation.glsl"

// Adds up what the slices have; the result is in the first one.
void add_slices(inout float sums[TOKENS * ROWS], uint lane, uint slice)
{
#ifdef DOT_GENERAL
    if (SLICES == 1) return;
    barrier();
    [[unroll]] for (uint t = 0; t < TOKENS; t++) slices[(slice * TOKENS + t) * 32 + lane] = sums[t];
    barrier();
    if (slice > 0) return;
    [[unroll]] for (uint t = 0; t < TOKENS; t++)
        for (uint s = 1; s < SLICES; s++) sums[t] += slices[(s * TOKENS + t) * 32 + lane];
#endif
}

// What the options make of a sum.
float finish(float sum, float gate, uint row, uint token)
{
    if (GATED) {
        sum *= SILU ? silu(gate) : gate;
    } else {
        sum *= p.scale;
        if (BIASED) sum += biases[row];
        if (SILU) sum = silu(sum);
    }
    if (ADDS) sum += residuals[p.residual_offset + token * p.residual_stride + row];
    return sum;
}

void main()
{
    uint lane = gl_LocalInvocationID.x, slice = SLICES > 1 ? gl_LocalInvocationID.y : 0;
    uint panel = gl_WorkGroupID.x, first = gl_WorkGroupID.y * TOKENS;
    float sums[TOKENS * ROWS], gates[TOKENS * ROWS];
    [[unroll]] for (uint i = 0; i < TOKENS * ROWS; i++) sums[i] = gates[i] = 0;
    dot_weight(panel, lane, slice, first, sums);
    add_slices(sums, lane, slice);
    if (GATED) {
        dot_gate(panel, lane, slice, first, gates);
        add_slices(gates, lane, slice);
    }
    if (slice > 0) return;
    [[unroll]] for (uint r = 0; r < ROWS; r++) {
        uint row = p.first_row + panel * 32 + lane + r * (32 / ROWS);
        [[unroll]] for (uint t = 0; t < TOKENS; t++)
            if (row < p.rows && first + t < p.tokens)
                outputs[p.output_offset + (first + t) * p.output_stride + row] =
                    finish(sums[t * ROWS + r], gates[t * ROWS + r], row, first + t);
    }
}

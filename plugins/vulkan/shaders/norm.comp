// norm.comp: ENGINE_OP_NORM. A workgroup takes a row. A row of up to VALUES * SIZE is read once, by loads
// that don't wait for each other, and kept in registers; a longer one is read for each sum.
#version 450
#extension GL_EXT_control_flow_attributes : enable
#extension GL_GOOGLE_include_directive : enable
#include "parameters.glsl"

layout(local_size_x_id = 0) in;
layout(constant_id = 0) const uint SIZE = 64; // a multiple of 4
layout(constant_id = 1) const bool WEIGHTED = false;
layout(constant_id = 2) const bool BIASED = false;
layout(constant_id = 3) const bool LAYER = false; // else RMS
layout(constant_id = 4) const uint VALUES = 0;    // of a row in each invocation; 0: they are not kept

layout(push_constant) uniform Parameters { norm_parameters p; };

layout(binding = 0) readonly buffer Input { float inputs[]; };
layout(binding = 1) readonly buffer Weight { float weights[]; };
layout(binding = 2) writeonly buffer Output { float outputs[]; };
layout(binding = 3) readonly buffer Bias { float biases[]; };

#include "workgroup.glsl"

uint from, to; // where the row begins
uint lane;

void store(uint i, float x, float mean, float scale)
{
    float y = (x - mean) * scale * (WEIGHTED ? weights[i] : 1);
    outputs[to + i] = BIASED ? y + biases[i] : y;
}

float scale_of(float squares)
{
    return 1 / sqrt(workgroup_sum(squares) / float(p.n) + p.epsilon);
}

void short_row()
{
    float x[VALUES > 0 ? VALUES : 1], sum = 0, mean = 0;
    [[unroll]] for (uint j = 0; j < VALUES; j++) x[j] = inputs[from + min(lane + j * SIZE, p.n - 1)];
    if (LAYER) {
        [[unroll]] for (uint j = 0; j < VALUES; j++) sum += lane + j * SIZE < p.n ? x[j] : 0;
        mean = workgroup_sum(sum) / float(p.n);
        sum = 0;
    }
    [[unroll]] for (uint j = 0; j < VALUES; j++) {
        float difference = lane + j * SIZE < p.n ? x[j] - mean : 0;
        sum = fma(difference, difference, sum);
    }
    float scale = scale_of(sum);
    [[unroll]] for (uint j = 0; j < VALUES; j++)
        if (lane + j * SIZE < p.n) store(lane + j * SIZE, x[j], mean, scale);
}

void long_row()
{
    float sum = 0, mean = 0;
    if (LAYER) {
        for (uint i = lane; i < p.n; i += SIZE) sum += inputs[from + i];
        mean = workgroup_sum(sum) / float(p.n);
        sum = 0;
    }
    for (uint i = lane; i < p.n; i += SIZE) {
        float x = inputs[from + i] - mean;
        sum = fma(x, x, sum);
    }
    float scale = scale_of(sum);
    for (uint i = lane; i < p.n; i += SIZE) store(i, inputs[from + i], mean, scale);
}

void main()
{
    lane = gl_LocalInvocationID.x;
    for (uint row = gl_WorkGroupID.x; row < p.n1 * p.n2; row += gl_NumWorkGroups.x) {
        uint i2 = row / p.n1, i1 = row - i2 * p.n1;
        from = p.input_offset + i1 * p.input_stride1 + i2 * p.input_stride2;
        to = p.output_offset + i1 * p.output_stride1 + i2 * p.output_stride2;
        if (VALUES > 0)
            short_row();
        else
            long_row();
    }
}

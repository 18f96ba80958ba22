// norm.comp: ENGINE_OP_NORM. A workgroup takes a row.
#version 450
#extension GL_GOOGLE_include_directive : enable
#include "parameters.glsl"

layout(local_size_x_id = 0) in;
layout(constant_id = 0) const uint SIZE = 64; // a multiple of 4
layout(constant_id = 1) const bool WEIGHTED = false;
layout(constant_id = 2) const bool BIASED = false;
layout(constant_id = 3) const bool LAYER = false; // else RMS

layout(push_constant) uniform Parameters { norm_parameters p; };

layout(binding = 0) readonly buffer Input { float inputs[]; };
layout(binding = 1) readonly buffer Weight { float weights[]; };
layout(binding = 2) writeonly buffer Output { float outputs[]; };
layout(binding = 3) readonly buffer Bias { float biases[]; };

#include "workgroup.glsl"

void main()
{
    uint lane = gl_LocalInvocationID.x;
    for (uint row = gl_WorkGroupID.x; row < p.n1 * p.n2; row += gl_NumWorkGroups.x) {
        uint i2 = row / p.n1, i1 = row - i2 * p.n1;
        uint from = p.input_offset + i1 * p.input_stride1 + i2 * p.input_stride2;
        uint to = p.output_offset + i1 * p.output_stride1 + i2 * p.output_stride2;
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
        float scale = 1 / sqrt(workgroup_sum(sum) / float(p.n) + p.epsilon);
        for (uint i = lane; i < p.n; i += SIZE) {
            float y = (inputs[from + i] - mean) * scale * (WEIGHTED ? weights[i] : 1);
            outputs[to + i] = BIASED ? y + biases[i] : y;
        }
    }
}

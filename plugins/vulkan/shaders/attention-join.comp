// attention-join.comp: the second half of a split attention.comp: makes the output of a token's head from the
// sums of the splits, each relative to its own maximum.
#version 450
#extension GL_GOOGLE_include_directive : enable
#include "parameters.glsl"

layout(local_size_x_id = 0) in;
layout(constant_id = 4) const uint VALUE_DIM = 64;
layout(constant_id = 6) const bool SINKS = false;

layout(push_constant) uniform Parameters { attention_join_parameters p; };

layout(binding = 0) readonly buffer Sinks { float sinks[]; };
layout(binding = 5) readonly buffer Positions { int positions[]; };
layout(binding = 6) writeonly buffer Output { float outputs[]; };
layout(binding = 7) readonly buffer Parts { float parts[]; };

void main()
{
    uint head = gl_WorkGroupID.x;
    for (uint token = gl_WorkGroupID.y; token < p.n_tokens; token += gl_NumWorkGroups.y) {
        uint part = (token * p.n_heads + head) * p.splits * (VALUE_DIM + 2);
        float most = -3e38, total = 0;
        for (uint s = 0; s < p.splits; s++) most = max(most, parts[part + s * (VALUE_DIM + 2) + VALUE_DIM]);
        for (uint s = 0; s < p.splits; s++) {
            uint at = part + s * (VALUE_DIM + 2) + VALUE_DIM;
            total = fma(parts[at + 1], exp(parts[at] - most), total);
        }
        if (SINKS) {
            float old = most;
            most = max(sinks[head], old);
            total = fma(total, exp(old - most), exp(sinks[head] - most));
        }
        bool left_out = positions[p.positions_offset + token] < 0;
        for (uint i = gl_LocalInvocationID.x; i < VALUE_DIM; i += gl_WorkGroupSize.x) {
            float sum = 0;
            for (uint s = 0; s < p.splits; s++) {
                uint at = part + s * (VALUE_DIM + 2);
                sum = fma(parts[at + i], exp(parts[at + VALUE_DIM] - most), sum);
            }
            outputs[p.output_offset + head * p.output_stride1 + token * p.output_stride2 + i] =
                left_out ? 0 : sum / total;
        }
    }
}

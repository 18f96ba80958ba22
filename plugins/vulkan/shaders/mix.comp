// mix.comp: after a matmul.comp of experts: sums up the results of a token's experts by their weights.
#version 450
#extension GL_GOOGLE_include_directive : enable
#include "parameters.glsl"

layout(local_size_x_id = 0) in;
layout(constant_id = 1) const bool ADDS = false; // the residual

layout(push_constant) uniform Parameters { mix_parameters p; };

layout(binding = 0) readonly buffer Products { float products[]; }; // [token][slot][row]
layout(binding = 1) readonly buffer Mix { float mix_of[]; };
layout(binding = 2) writeonly buffer Output { float outputs[]; };
layout(binding = 3) readonly buffer Residual { float residuals[]; };

void main()
{
    uint total = p.rows * p.n_tokens;
    for (uint i = gl_GlobalInvocationID.x; i < total; i += gl_NumWorkGroups.x * gl_WorkGroupSize.x) {
        uint token = i / p.rows, row = i - token * p.rows;
        float sum = 0;
        for (uint s = 0; s < p.n_used; s++)
            sum = fma(mix_of[p.mix_offset + token * p.mix_stride + s],
                      products[(token * p.n_used + s) * p.rows + row], sum);
        if (ADDS) sum += residuals[p.residual_offset + token * p.residual_stride + row];
        outputs[p.output_offset + token * p.output_stride + row] = sum;
    }
}

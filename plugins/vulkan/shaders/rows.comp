// rows.comp: sums, products, activations and rows that are joined: element by element, over rows with
// strides.
#version 450
#extension GL_GOOGLE_include_directive : enable
#include "parameters.glsl"

layout(local_size_x_id = 0) in;
layout(constant_id = 1) const uint ACTIVATION = 0;
layout(constant_id = 2) const uint JOIN = 0; // the use of b; one of these
const uint ABSENT = 0, SUMMAND = 1, FACTOR = 2, BEHIND = 3;

layout(push_constant) uniform Parameters { rows_parameters p; };

layout(binding = 0) readonly buffer A { float a[]; };
layout(binding = 1) readonly buffer B { float b[]; };
layout(binding = 2) writeonly buffer Output { float outputs[]; };

#include "activation.glsl"

void main()
{
    uint total = p.n * p.n1 * p.n2;
    for (uint i = gl_GlobalInvocationID.x; i < total; i += gl_NumWorkGroups.x * gl_WorkGroupSize.x) {
        uint row = i / p.n, i0 = i - row * p.n, i2 = row / p.n1, i1 = row - i2 * p.n1;
        uint in_a = p.a_offset + i1 * p.a_stride1 + i2 * p.a_stride2;
        uint in_b = p.b_offset + i1 * p.b_stride1 + i2 * p.b_stride2;
        float x;
        if (JOIN == BEHIND && i0 >= p.n_a)
            x = b[in_b + i0 - p.n_a];
        else
            x = activate(ACTIVATION, a[in_a + i0], p.limit, p.alpha);
        if (JOIN == SUMMAND) x += b[in_b + i0 * p.b_stride0];
        if (JOIN == FACTOR) x *= activated_factor(ACTIVATION, b[in_b + i0 * p.b_stride0], p.limit);
        outputs[p.output_offset + i0 + i1 * p.output_stride1 + i2 * p.output_stride2] = x;
    }
}

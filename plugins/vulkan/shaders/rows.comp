// rows.comp: ENGINE_OP_ADD, ENGINE_OP_MUL and ENGINE_OP_ACTIVATE: element by element, over rows with strides.
#version 450
#extension GL_GOOGLE_include_directive : enable

layout(local_size_x_id = 0) in;
layout(constant_id = 1) const uint OP = 0; // one of these
const uint ADD = 0, MUL = 1, SILU = 2, SILU_MUL = 3, COPY = 4;

layout(push_constant) uniform Parameters {
    uint n, n1, n2;                  // elements of a row; rows; planes
    uint a_offset, a_stride1, a_stride2; // in words
    uint b_offset, b_stride1, b_stride2; // strides of 0 repeat a row
    uint output_offset, output_stride1, output_stride2;
} p;

layout(binding = 0) readonly buffer A { float a[]; };
layout(binding = 1) readonly buffer B { float b[]; };
layout(binding = 2) writeonly buffer Output { float outputs[]; };

#include "activation.glsl"

void main()
{
    uint total = p.n * p.n1 * p.n2;
    for (uint i = gl_GlobalInvocationID.x; i < total; i += gl_NumWorkGroups.x * gl_WorkGroupSize.x) {
        uint row = i / p.n, i0 = i - row * p.n, i2 = row / p.n1, i1 = row - i2 * p.n1;
        float x = a[p.a_offset + i0 + i1 * p.a_stride1 + i2 * p.a_stride2];
        uint at = p.b_offset + i0 + i1 * p.b_stride1 + i2 * p.b_stride2;
        if (OP == ADD) x += b[at];
        if (OP == SILU || OP == SILU_MUL) x = silu(x);
        if (OP == MUL || OP == SILU_MUL) x *= b[at];
        outputs[p.output_offset + i0 + i1 * p.output_stride1 + i2 * p.output_stride2] = x;
    }
}

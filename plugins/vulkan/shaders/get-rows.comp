// get-rows.comp: ENGINE_OP_GET_ROWS. TYPE is a weight's type, or TYPE_ACTIVATION. A weight may be bound in
// parts: only rows of the bound part are written. An invocation fetches 32 values.
#version 450
#extension GL_EXT_control_flow_attributes : enable
#extension GL_GOOGLE_include_directive : enable
#include "parameters.glsl"
#include "types.glsl"
#define TYPE_ACTIVATION 100

layout(local_size_x_id = 0) in;

layout(push_constant) uniform Parameters { get_rows_parameters p; };

layout(binding = 0) readonly buffer Source { uint source[]; };
layout(binding = 0) readonly buffer Source4 { uvec4 source_quads[]; };
layout(binding = 1) readonly buffer Scales { uint scales[]; };
layout(binding = 2) readonly buffer Rows { int rows[]; };
layout(binding = 3) writeonly buffer Output { float outputs[]; };

#if TYPE == TYPE_ACTIVATION
void fetch(uint row, uint chunk, out vec4 w[8])
{
    for (uint i = 0; i < 32 && chunk * 32 + i < p.n; i++)
        w[i / 4][i % 4] = uintBitsToFloat(source[p.source_offset + row * p.source_stride + chunk * 32 + i]);
}
#else
#define UNPACK   unpack
#define FETCH    fetch_codes
#define QUAD(i)  source_quads[i]
#define PAIR(i)  uvec2(source[2 * (i)], source[2 * (i) + 1])
#define WORD(i)  source[i]
#define APART(i) scales[i]
#include "unpack.glsl"
void fetch(uint row, uint chunk, out vec4 w[8])
{
    unpack(row / 32, row % 32, p.n, chunk, w);
}
#endif

void main()
{
    uint n_chunks = (p.n + 31) / 32, total = n_chunks * p.count;
    for (uint i = gl_GlobalInvocationID.x; i < total; i += gl_NumWorkGroups.x * gl_WorkGroupSize.x) {
        uint number = i / n_chunks, chunk = i - number * n_chunks;
        uint row = uint(rows[p.rows_offset + number]) - p.first_row;
        if (row >= p.n_rows) continue;
        vec4 w[8];
        fetch(row, chunk, w);
        [[unroll]] for (uint j = 0; j < 32; j++)
            if (chunk * 32 + j < p.n)
                outputs[p.output_offset + number * p.output_stride + chunk * 32 + j] = w[j / 4][j % 4];
    }
}

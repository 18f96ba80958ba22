// get-rows.comp: ENGINE_OP_GET_ROWS. TYPE is a weight's type, or TYPE_ACTIVATION. A weight may be bound in parts: only
// rows of the bound part are written.
#version 450
#extension GL_GOOGLE_include_directive : enable
#include "types.glsl"
#define TYPE_ACTIVATION 100

layout(local_size_x_id = 0) in;

layout(push_constant) uniform Parameters {
    uint n, count;
    uint first_row, n_rows; // of the part that is bound
    uint source_offset, source_stride; // of an activation; all in words
    uint rows_offset;
    uint output_offset, output_stride;
} p;

layout(binding = 0) readonly buffer Source { uint source[]; };
layout(binding = 1) readonly buffer Scales { uint scales[]; };
layout(binding = 2) readonly buffer Rows { int rows[]; };
layout(binding = 3) writeonly buffer Output { float outputs[]; };

#if TYPE == TYPE_ACTIVATION
float value(uint row, uint i)
{
    return uintBitsToFloat(source[p.source_offset + row * p.source_stride + i]);
}
#elif TYPE == TYPE_Q4_0 || TYPE == TYPE_Q8_0
float value(uint row, uint i)
{
    uint panel = row / 32, lane = row % 32, n_blocks = p.n / 32, block = i / 32, in_block = i % 32;
    uint n_units = (n_blocks + 1) / 2;
    vec2 scale = unpackHalf2x16(scales[(panel * n_units + block / 2) * 32 + lane]);
#if TYPE == TYPE_Q4_0
    uint word = source[((panel * n_blocks + block) * 32 + lane) * 4 + in_block % 16 / 4];
    int quant = int(word << (28 - (in_block % 4 * 8 + in_block / 16 * 4))) >> 28;
#else
    uint word = source[(((panel * n_blocks + block) * 2 + in_block / 16) * 32 + lane) * 4 + in_block % 16 / 4];
    int quant = int(word << (24 - in_block % 4 * 8)) >> 24;
#endif
    return float(quant) * (block % 2 == 0 ? scale.x : scale.y);
}
#else
float value(uint row, uint i)
{
    uint n_units = (p.n + UNIT - 1) / UNIT, unit = i / UNIT, in_unit = i % UNIT;
    uint at = ((row / 32 * n_units + unit) * 32 + row % 32) * 4;
#if TYPE == TYPE_F32
    return uintBitsToFloat(source[at + in_unit]);
#elif TYPE == TYPE_F16
    vec2 pair = unpackHalf2x16(source[at + in_unit / 2]);
    return in_unit % 2 == 0 ? pair.x : pair.y;
#else
    uint pair = source[at + in_unit / 2];
    return uintBitsToFloat(in_unit % 2 == 0 ? pair << 16 : pair & 0xffff0000u);
#endif
}
#endif

void main()
{
    uint total = p.n * p.count;
    for (uint i = gl_GlobalInvocationID.x; i < total; i += gl_NumWorkGroups.x * gl_WorkGroupSize.x) {
        uint number = i / p.n, i0 = i - number * p.n, row = uint(rows[p.rows_offset + number]) - p.first_row;
        if (row < p.n_rows) outputs[p.output_offset + number * p.output_stride + i0] = value(row, i0);
    }
}

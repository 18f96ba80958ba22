// group.comp: before a matmul.comp with MATRICES BY_GROUP: lists columns by their experts. One workgroup.
//
// A column is an expert of a token, number token * n_used + slot. The output is n_tiles tiles of three words,
// then the list. The words are the expert, the start of the tile's columns in the list, and the end of the
// expert's columns. Tiles that no expert needs are 0, 0, 0.
#version 450
#extension GL_GOOGLE_include_directive : enable
#include "parameters.glsl"

layout(local_size_x_id = 0) in;
layout(constant_id = 0) const uint SIZE = 128;

layout(push_constant) uniform Parameters { group_parameters p; };

layout(binding = 0) readonly buffer Experts { uint experts[]; };
layout(binding = 1) writeonly buffer Groups { uint groups[]; };

shared uint counts[1024]; // columns of an expert; then where its next one goes
shared uvec2 sums[SIZE];  // columns and tiles of the experts that an invocation takes

uint expert_of(uint column)
{
    uint token = column / p.n_used;
    return experts[p.experts_offset + token * p.experts_stride + column - token * p.n_used];
}

uint tiles_of(uint count)
{
    return (count + p.tile_columns - 1) / p.tile_columns;
}

void main()
{
    uint lane = gl_LocalInvocationID.x, n_columns = p.n_tokens * p.n_used;
    uint share = (p.n + SIZE - 1) / SIZE, first = min(lane * share, p.n), end = min(first + share, p.n);
    for (uint e = lane; e < p.n; e += SIZE) counts[e] = 0;
    barrier();
    for (uint i = lane; i < n_columns; i += SIZE)
        if (expert_of(i) < p.n) atomicAdd(counts[expert_of(i)], 1);
    barrier();
    uvec2 mine = uvec2(0), before = uvec2(0), all = uvec2(0);
    for (uint e = first; e < end; e++) mine += uvec2(counts[e], tiles_of(counts[e]));
    sums[lane] = mine;
    barrier();
    for (uint i = 0; i < SIZE; i++) {
        if (i < lane) before += sums[i];
        all += sums[i];
    }
    for (uint e = first; e < end; e++) {
        uint count = counts[e];
        for (uint i = 0; i < tiles_of(count); i++) {
            groups[3 * (before.y + i)] = e;
            groups[3 * (before.y + i) + 1] = before.x + i * p.tile_columns;
            groups[3 * (before.y + i) + 2] = before.x + count;
        }
        counts[e] = before.x;
        before += uvec2(count, tiles_of(count));
    }
    for (uint i = 3 * all.y + lane; i < 3 * p.n_tiles; i += SIZE) groups[i] = 0;
    barrier();
    for (uint i = lane; i < n_columns; i += SIZE)
        if (expert_of(i) < p.n) groups[3 * p.n_tiles + atomicAdd(counts[expert_of(i)], 1)] = i;
}

// round.comp: rounds columns for products by integer dot products: 32 values at a time to 15 bits, 128 times
// one signed byte plus another. A single byte would make the logits of good types worse than necessary. Each
// 32 values become five quads: high bytes, low bytes (two quads each), and scale, sum of the first 16
// integers, sum of the second 16, scale times both sums.
#version 450
#extension GL_EXT_control_flow_attributes : enable
#extension GL_GOOGLE_include_directive : enable
#include "parameters.glsl"

layout(local_size_x_id = 0) in;
layout(constant_id = 1) const bool WHOLE = false; // columns start at multiples of 16 bytes

layout(push_constant) uniform Parameters { round_parameters p; };

layout(binding = 0) readonly buffer Input { float inputs[]; };
layout(binding = 0) readonly buffer Input4 { vec4 inputs4[]; };
layout(binding = 1) writeonly buffer Output { ivec4 outputs[]; };

#define STEPS (127.0 * 128.0)
#define LEAST 1e-30 // smaller inputs count as zero: their reciprocals would overflow

int pack_bytes(ivec4 bytes)
{
    bytes &= 255;
    return bytes.x | bytes.y << 8 | bytes.z << 16 | bytes.w << 24;
}

void round_chunk(uint from, uint to)
{
    vec4 x[8], size = vec4(0), all = vec4(0);
    [[unroll]] for (uint i = 0; i < 8; i++) {
        uint at = from + 4 * i;
        x[i] = WHOLE ? inputs4[at / 4] : vec4(inputs[at], inputs[at + 1], inputs[at + 2], inputs[at + 3]);
        size = max(size, abs(x[i]));
        all += x[i];
    }
    float most = max(max(size.x, size.y), max(size.z, size.w)), scale = most / STEPS;
    float inverse = most > LEAST ? STEPS / most : 0;
    // for whoever looks for them
    if (isnan(all.x + all.y + all.z + all.w)) scale = uintBitsToFloat(0x7fc00000u);
    ivec4 high[2], low[2], sums[2];
    sums[0] = sums[1] = ivec4(0);
    [[unroll]] for (uint i = 0; i < 8; i++) {
        ivec4 q = ivec4(round(x[i] * inverse)), top = (q + 64) >> 7; // -127 … 127; the remainder is -64 … 63
        high[i / 4][i % 4] = pack_bytes(top);
        low[i / 4][i % 4] = pack_bytes(q - (top << 7));
        sums[i / 4] += q;
    }
    ivec2 totals = ivec2(sums[0].x + sums[0].y + sums[0].z + sums[0].w, sums[1].x + sums[1].y + sums[1].z + sums[1].w);
    [[unroll]] for (uint i = 0; i < 2; i++) {
        outputs[to + i] = high[i];
        outputs[to + 2 + i] = low[i];
    }
    outputs[to + 4] = ivec4(floatBitsToInt(scale), totals, floatBitsToInt(scale * float(totals.x + totals.y)));
}

void main()
{
    uint total = p.n_chunks * p.n1 * p.n2;
    for (uint i = gl_GlobalInvocationID.x; i < total; i += gl_NumWorkGroups.x * gl_WorkGroupSize.x) {
        uint column = i / p.n_chunks, chunk = i - column * p.n_chunks, plane = column / p.n1;
        uint slot = column - plane * p.n1;
        round_chunk(p.input_offset + slot * p.input_stride1 + plane * p.input_stride2 + chunk * 32, i * 5);
    }
}

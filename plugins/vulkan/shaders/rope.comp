// rope.comp: ENGINE_OP_ROPE. Angles are kept as fractions of a turn in 64 bits, so that they are exact at any
// position: a position times the turn of one position, modulo 1, is an integer multiplication that overflows.
#version 450
#extension GL_GOOGLE_include_directive : enable
#include "parameters.glsl"

layout(local_size_x_id = 0) in;
layout(constant_id = 1) const bool HALVES = false;

layout(push_constant) uniform Parameters { rope_parameters p; };

layout(binding = 0) readonly buffer Input { float inputs[]; };
layout(binding = 1) readonly buffer Positions { int positions[]; };
// [n_dims / 2]: of one position, low and high word
layout(binding = 2) readonly buffer Turns { uvec2 turns[]; };
layout(binding = 3) writeonly buffer Output { float outputs[]; };

// Cosine and sine of a fraction of a turn: the nearest quarter, and polynomials for the remainder.
vec2 cos_sin(uint turn)
{
    uint quarter = (turn + 0x20000000u) >> 30;
    float x = float(int(turn - (quarter << 30))) * 1.4629180792671596e-9; // 2 pi / 2^32
    float xx = x * x;
    float s = fma(fma(fma(fma(xx, 1.0 / 362880, -1.0 / 5040), xx, 1.0 / 120), xx, -1.0 / 6), xx * x, x);
    float c = fma(fma(fma(fma(fma(xx, -1.0 / 3628800, 1.0 / 40320), xx, -1.0 / 720), xx, 1.0 / 24), xx, -0.5), xx, 1.0);
    if (quarter == 0) return vec2(c, s);
    if (quarter == 1) return vec2(-s, c);
    if (quarter == 2) return vec2(-c, -s);
    return vec2(s, -c);
}

void main()
{
    // A head is n_dims / 2 pairs, then the values that are copied.
    uint n_pairs = p.n_dims / 2, items = p.head_dim - n_pairs, total = items * p.n_heads * p.n_tokens;
    for (uint i = gl_GlobalInvocationID.x; i < total; i += gl_NumWorkGroups.x * gl_WorkGroupSize.x) {
        uint row = i / items, item = i - row * items, token = row / p.n_heads, head = row - token * p.n_heads;
        uint from = p.input_offset + head * p.input_stride1 + token * p.input_stride2;
        uint to = p.output_offset + head * p.output_stride1 + token * p.output_stride2;
        if (item >= n_pairs) {
            outputs[to + item + n_pairs] = inputs[from + item + n_pairs];
            continue;
        }
        uint first = HALVES ? item : 2 * item, second = HALVES ? item + n_pairs : 2 * item + 1;
        uint position = uint(positions[p.positions_offset + token]), high, low;
        umulExtended(position, turns[item].x, high, low);
        vec2 turned = cos_sin(high + position * turns[item].y) * p.magnitude;
        float x = inputs[from + first], y = inputs[from + second];
        outputs[to + first] = x * turned.x - y * turned.y;
        outputs[to + second] = x * turned.y + y * turned.x;
    }
}

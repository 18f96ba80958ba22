// attention.comp: ENGINE_OP_ATTENTION with an online softmax (Milakov and Gimelshein, arXiv 1805.02867). A
// workgroup takes a head of a token and walks through its positions SIZE at a time: first each invocation
// scores one position, then each sums up a few of the output's values. TYPE_K and TYPE_V are the caches'
// types. If few tokens look far back, several workgroups share the positions of each head and leave their
// sums to attention-join.comp. attention-rows.comp does the same for heads of usual sizes with less reading.
#version 450
#extension GL_EXT_control_flow_attributes : enable
#extension GL_GOOGLE_include_directive : enable
#include "parameters.glsl"
#define TYPE 0
#include "types.glsl"

layout(local_size_x_id = 0) in;
layout(constant_id = 0) const uint SIZE = 64; // a multiple of 4
layout(constant_id = 1) const uint VALUES = 4; // that an invocation sums: at least VALUE_DIM / SIZE
layout(constant_id = 2) const uint HEAD_DIM = 64;
layout(constant_id = 4) const uint VALUE_DIM = 64;
layout(constant_id = 5) const uint SLOPED = 0; // 1: by slopes; 2: by a bias for each distance
layout(constant_id = 6) const bool SINKS = false; // with splits they are for attention-join.comp
layout(constant_id = 7) const bool CAPPED = false;

layout(push_constant) uniform Parameters { attention_parameters p; };

layout(binding = 0) readonly buffer Q { float q[]; };
layout(binding = 1) readonly buffer K { uint k[]; };
layout(binding = 2) readonly buffer V { uint v[]; };
layout(binding = 3) readonly buffer Table { int table[]; };
layout(binding = 4) readonly buffer Sequences { int sequences[]; };
layout(binding = 5) readonly buffer Positions { int positions[]; };
layout(binding = 6) writeonly buffer Output { float outputs[]; };
layout(binding = 7) readonly buffer Sinks { float sinks[]; };
layout(binding = 8) readonly buffer Slopes { float slopes[]; };
// [token][head][split] of sums, their maximum and total
layout(binding = 7) writeonly buffer Parts { float parts[]; };

shared vec4 queries[(HEAD_DIM + 3) / 4];
shared vec4 weights[SIZE / 4]; // of the positions at hand
shared uint rows[SIZE];        // in the cache

#include "activation.glsl"
#include "workgroup.glsl"

// The part of a word that starts at its byte `byte % 4`.
uint half_word(uint word, uint byte)
{
    return word >> byte % 4 * 8;
}

#if TYPE_K == TYPE_F32
float key(uint row, uint i)
{
    return uintBitsToFloat(k[p.k_offset + row * HEAD_DIM + i]);
}
#elif TYPE_K == TYPE_F16
vec2 key_pair(uint row, uint i)
{
    return unpackHalf2x16(k[p.k_offset + (row * HEAD_DIM + i) / 2]);
}
#else
float key_scale(uint row, uint i)
{
    uint byte = (row * (HEAD_DIM / 32) + i / 32) * 34;
    return unpackHalf2x16(half_word(k[p.k_offset + byte / 4], byte)).x;
}
vec2 key_pair(uint row, uint i)
{
    uint byte = (row * (HEAD_DIM / 32) + i / 32) * 34 + 2 + i % 32;
    int both = int(half_word(k[p.k_offset + byte / 4], byte));
    return vec2(both << 24 >> 24, both << 16 >> 24);
}
#endif

float score(uint row)
{
    float sum = 0;
#if TYPE_K == TYPE_F32
    for (uint i = 0; i < HEAD_DIM; i++) sum = fma(key(row, i), queries[i / 4][i % 4], sum);
#elif TYPE_K == TYPE_F16
    for (uint i = 0; i < HEAD_DIM; i += 2) {
        vec2 pair = key_pair(row, i);
        sum = fma(pair.x, queries[i / 4][i % 4], sum);
        sum = fma(pair.y, queries[i / 4][i % 4 + 1], sum);
    }
#else
    for (uint block = 0; block < HEAD_DIM; block += 32) {
        float part = 0;
        for (uint i = block; i < block + 32; i += 2) {
            vec2 pair = key_pair(row, i);
            part = fma(pair.x, queries[i / 4][i % 4], part);
            part = fma(pair.y, queries[i / 4][i % 4 + 1], part);
        }
        sum = fma(part, key_scale(row, block), sum);
    }
#endif
    return sum * p.scale;
}

float value(uint row, uint i)
{
#if TYPE_V == TYPE_F32
    return uintBitsToFloat(v[p.v_offset + row * p.v_step + i]);
#elif TYPE_V == TYPE_F16
    vec2 pair = unpackHalf2x16(v[p.v_offset + (row * p.v_step + i) / 2]);
    return i % 2 == 0 ? pair.x : pair.y;
#else
    uint byte = row * p.v_step + i / 32 * 34, at = byte + 2 + i % 32;
    float scale = unpackHalf2x16(half_word(v[p.v_offset + byte / 4], byte)).x;
    return scale * float(int(v[p.v_offset + at / 4] >> at % 4 * 8) << 24 >> 24);
#endif
}

void attend(uint head, uint split, uint token, uint lane)
{
    int position = positions[p.positions_offset + token];
    uint kv_head = head / (p.n_heads / p.n_kv_heads);
    uint table_row = p.table_offset + uint(sequences[p.sequences_offset + token]) * p.table_stride;
    int last = position < 0 ? -1 : positions[p.positions_offset + token + p.last_step];
    uint end = uint(last + 1), own_end = uint(position + 1);
    uint begin = p.window > 0 && own_end > p.window ? own_end - p.window : 0;
    if (p.chunk > 0) begin = uint(max(position, 0)) / p.chunk * p.chunk;
    begin = min(begin, end);
    if (p.splits > 1) {
        uint share = (end - begin + p.splits - 1) / p.splits;
        begin = min(begin + split * share, end);
        end = min(begin + share, end);
    }
    float most = -3e38, total = 0, sums[VALUES]; // total: of this invocation's weights
    for (uint n = 0; n < VALUES; n++) sums[n] = 0;
    for (uint i = lane; i < HEAD_DIM; i += SIZE)
        queries[i / 4][i % 4] = q[p.q_offset + head * p.q_stride1 + token * p.q_stride2 + i];

    for (uint first = begin; first < end; first += SIZE) {
        barrier(); // the queries are there; the weights before have been used
        uint at = first + lane;
        float mine = -3e38;
        if (at < end) {
            uint block = at / p.block_size, in_block = at - block * p.block_size;
            uint row = (uint(table[table_row + block]) * p.n_kv_heads + kv_head) * p.block_size + in_block;
            rows[lane] = row;
            mine = score(row);
            if (CAPPED) mine = p.softcap * accurate_tanh(mine / p.softcap);
            if (SLOPED == 1) mine -= slopes[head] * float(abs(position - int(at)));
            if (SLOPED == 2) {
                int r = int(p.n_biases);
                mine += slopes[head * (2 * p.n_biases + 1) + uint(clamp(int(at) - position, -r, r) + r)];
            }
        }
        float old = most;
        most = max(workgroup_max(mine), old);
        float weight = at < end ? exp(mine - most) : 0, shrink = exp(old - most);
        weights[lane / 4][lane % 4] = weight;
        barrier();
        total = fma(total, shrink, weight);
        for (uint n = 0; n < VALUES; n++) sums[n] *= shrink;
        uint count = min(SIZE, end - first);
        for (uint j = 0; j < count; j++) {
            float weight = weights[j / 4][j % 4];
            uint row = rows[j];
            for (uint n = 0; n < VALUES; n++) {
                uint i = lane + n * SIZE;
                if (i < VALUE_DIM) sums[n] = fma(weight, value(row, i), sums[n]);
            }
        }
    }
    total = workgroup_sum(total);
    uint part = ((token * p.n_heads + head) * p.splits + split) * (VALUE_DIM + 2);
    for (uint n = 0; n < VALUES && p.splits > 1; n++) {
        uint i = lane + n * SIZE;
        if (i < VALUE_DIM) parts[part + i] = sums[n];
    }
    if (p.splits > 1 && lane == 0) {
        parts[part + VALUE_DIM] = most;
        parts[part + VALUE_DIM + 1] = total;
    }
    float shrink = 1;
    if (SINKS && p.splits == 1) {
        float old = most;
        most = max(sinks[head], old);
        shrink = exp(old - most);
        total = fma(total, shrink, exp(sinks[head] - most));
    }
    for (uint n = 0; n < VALUES && p.splits == 1; n++) {
        uint i = lane + n * SIZE;
        float result = position < 0 ? 0 : sums[n] * shrink / total;
        if (i < VALUE_DIM)
            outputs[p.output_offset + head * p.output_stride1 + token * p.output_stride2 + i] = result;
    }
    barrier(); // before the next token's queries
}

void main()
{
    for (uint token = gl_WorkGroupID.y; token < p.n_tokens; token += gl_NumWorkGroups.y)
        attend(gl_WorkGroupID.x / p.splits, gl_WorkGroupID.x % p.splits, token, gl_LocalInvocationID.x);
}

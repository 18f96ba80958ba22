// cache-write.comp: ENGINE_OP_CACHE_WRITE into a dense cache of TYPE F32, F16 or Q8_0. An invocation writes
// one value, two values or a block of 32.
#version 450
#extension GL_GOOGLE_include_directive : enable
#include "parameters.glsl"
#include "types.glsl"
#include "half.glsl"

layout(local_size_x_id = 0) in;

layout(push_constant) uniform Parameters { cache_write_parameters p; };

layout(binding = 0) readonly buffer Input { float inputs[]; };
layout(binding = 1) readonly buffer Slots { int slots[]; };
layout(binding = 2) buffer Cache { uint cache[]; };

#if TYPE == TYPE_F32
#define STEP 1
void put(uint row, uint i, uint from)
{
    cache[p.cache_offset + row * p.head_dim + i] = floatBitsToUint(inputs[from + i]);
}
#elif TYPE == TYPE_F16
#define STEP 2
void put(uint row, uint i, uint from)
{
    cache[p.cache_offset + (row * p.head_dim + i) / 2] =
        half_bits(inputs[from + i]) | half_bits(inputs[from + i + 1]) << 16;
}
#else
#define STEP 32
// Half a word, whose other half another invocation may be writing.
void put_half(uint word, uint shift, uint value)
{
    atomicAnd(cache[word], ~(0xffffu << shift));
    atomicOr(cache[word], value << shift);
}

void put(uint row, uint i, uint from)
{
    float most = 0;
    for (uint j = 0; j < 32; j++) most = max(most, abs(inputs[from + i + j]));
    float scale = most / 127, inverse = most > 0 ? 127 / most : 0;
    uint at = (row * (p.head_dim / 32) + i / 32) * 34; // in bytes
    for (uint j = 0; j < 17; j++) { // halves of words: the scale, then two values each
        uint value = half_bits(scale);
        if (j > 0) {
            vec2 x = vec2(inputs[from + i + 2 * j - 2], inputs[from + i + 2 * j - 1]) * inverse;
            ivec2 q = ivec2(trunc(x + sign(x) * 0.5));
            value = uint(q.x) & 0xffu | (uint(q.y) & 0xffu) << 8;
        }
        uint byte = at + 2 * j;
        put_half(p.cache_offset + byte / 4, byte % 4 * 8, value);
    }
}
#endif

void main()
{
    uint items = p.head_dim / STEP, total = items * p.n_heads * p.n_tokens;
    for (uint i = gl_GlobalInvocationID.x; i < total; i += gl_NumWorkGroups.x * gl_WorkGroupSize.x) {
        uint row = i / items, item = i - row * items, token = row / p.n_heads, head = row - token * p.n_heads;
        int slot = slots[p.slots_offset + token];
        if (slot < 0) continue;
        uint block = uint(slot) / p.block_size, in_block = uint(slot) - block * p.block_size;
        uint cache_row = (block * p.n_heads + head) * p.block_size + in_block;
        put(cache_row, item * STEP, p.input_offset + head * p.input_stride1 + token * p.input_stride2);
    }
}

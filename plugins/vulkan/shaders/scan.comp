// scan.comp: ENGINE_OP_SCAN. A workgroup takes COLUMNS values of a head for all tokens, one after the other;
// the state stays in registers. PARTS invocations share the keys of a value and add their sums up in shared
// memory.
#version 450
#extension GL_GOOGLE_include_directive : enable
#include "parameters.glsl"

layout(local_size_x_id = 0) in;
layout(constant_id = 0) const uint SIZE = 128; // COLUMNS * PARTS
layout(constant_id = 1) const uint KEY_DIM = 16;
layout(constant_id = 2) const uint VALUE_DIM = 16;
layout(constant_id = 3) const uint HEADS_IN_GROUP = 1; // that share q, k, a and b
layout(constant_id = 4) const uint DECAY = 0;          // one of these
layout(constant_id = 5) const bool HAS_A = false;
layout(constant_id = 6) const bool HAS_ERASE = false;
layout(constant_id = 7) const bool HAS_BONUS = false;
const uint ABSENT = 0, OF_HEADS = 1, OF_KEYS = 2, WITH_RATES = 3;

const uint COLUMNS = 16;
const uint PARTS = SIZE / COLUMNS;
const uint KEYS = (KEY_DIM + PARTS - 1) / PARTS; // of an invocation: part, part + PARTS, …

layout(push_constant) uniform Parameters { scan_parameters p; };

layout(binding = 0) readonly buffer Q { float q[]; };
layout(binding = 1) readonly buffer K { float k[]; };
layout(binding = 2) readonly buffer V { float v[]; };
layout(binding = 3) readonly buffer Positions { int positions[]; };
layout(binding = 4) readonly buffer States { int states[]; };
layout(binding = 5) buffer State { float state[]; }; // [VALUE_DIM, KEY_DIM, heads, states]
layout(binding = 6) writeonly buffer Output { float outputs[]; };
layout(binding = 7) readonly buffer Decay { float decay[]; };
layout(binding = 8) readonly buffer Rates { float rates[]; };
layout(binding = 9) readonly buffer A { float a[]; };
layout(binding = 10) readonly buffer B { float b[]; };
layout(binding = 11) readonly buffer Erase { float erase[]; };
layout(binding = 12) readonly buffer Bonus { float bonus[]; };

#include "activation.glsl"

shared float partial[SIZE];

uint part, column, head, group, value; // of this invocation
float kept[KEYS];                      // its keys' part of the state

// The sum over the parts of a column.
float column_sum(float mine)
{
    float sum = 0;
    barrier(); // the previous contents have been used
    partial[gl_LocalInvocationID.x] = mine;
    barrier();
    for (uint i = 0; i < PARTS; i++) sum += partial[i * COLUMNS + column];
    return sum;
}

// Word of key i in the state with a number.
uint place(int number, uint i)
{
    return p.state_offset + ((uint(number) * gl_NumWorkGroups.y + head) * KEY_DIM + i) * VALUE_DIM + value;
}

void load_state(int number, bool begins)
{
    for (uint r = 0; r < KEYS; r++) {
        uint i = r * PARTS + part;
        kept[r] = begins || i >= KEY_DIM || value >= VALUE_DIM ? 0.0 : state[place(number, i)];
    }
}

void store_state(int number)
{
    for (uint r = 0; r < KEYS; r++) {
        uint i = r * PARTS + part;
        if (i < KEY_DIM && value < VALUE_DIM) state[place(number, i)] = kept[r];
    }
}

// What a key's value is multiplied by from one token to the next.
float factor(uint token, uint i)
{
    uint at = p.decay_offset + head * p.decay_stride1 + token * p.decay_stride2;
    if (DECAY == ABSENT) return 1;
    if (DECAY == OF_HEADS) return accurate_exp(decay[at]);
    if (DECAY == OF_KEYS) return accurate_exp(decay[at + i]);
    return accurate_exp(rates[(head * VALUE_DIM + value) * KEY_DIM + i] * decay[at + value]);
}

// One token: its output, and the state after it.
float step(uint token)
{
    uint in_q = p.q_offset + group * p.q_stride1 + token * p.q_stride2;
    uint in_k = p.k_offset + group * p.k_stride1 + token * p.k_stride2;
    uint in_a = p.a_offset + group * p.a_stride1 + token * p.a_stride2;
    uint in_b = p.b_offset + group * p.b_stride1 + token * p.b_stride2;
    bool is_inside = value < VALUE_DIM;
    float new = is_inside ? v[p.v_offset + head * p.v_stride1 + token * p.v_stride2 + value] : 0;
    float erased = 0, sum = 0;
    if (HAS_A) {
        for (uint r = 0; r < KEYS; r++) {
            uint i = r * PARTS + part;
            if (i < KEY_DIM) erased += a[in_a + i] * kept[r];
        }
        erased = column_sum(erased);
        if (HAS_ERASE) erased *= erase[p.erase_offset + head * p.erase_stride1 + token * p.erase_stride2];
    }
    for (uint r = 0; r < KEYS; r++) {
        uint i = r * PARTS + part;
        if (i >= KEY_DIM || !is_inside) continue;
        float added = k[in_k + i] * new;
        if (HAS_BONUS) sum += q[in_q + i] * (kept[r] + bonus[head * KEY_DIM + i] * added);
        if (HAS_A) added += b[in_b + i] * erased;
        kept[r] = factor(token, i) * kept[r] + added;
        if (!HAS_BONUS) sum += q[in_q + i] * kept[r];
    }
    return p.scale * column_sum(sum);
}

void main()
{
    part = gl_LocalInvocationID.x / COLUMNS;
    column = gl_LocalInvocationID.x % COLUMNS;
    value = gl_WorkGroupID.x * COLUMNS + column;
    head = gl_WorkGroupID.y;
    group = head / HEADS_IN_GROUP;
    int current = -1; // the state that the previous token has; -1: none
    for (uint token = 0; token < p.n_tokens; token++) {
        int number = states[p.states_offset + token];
        if (number != current) {
            if (current >= 0) store_state(current);
            if (number >= 0) load_state(number, positions[p.positions_offset + token] == 0);
            current = number;
        }
        float result = 0;
        if (number >= 0) result = step(token);
        if (part == 0 && value < VALUE_DIM)
            outputs[p.output_offset + head * p.output_stride1 + token * p.output_stride2 + value] = result;
    }
    if (current >= 0) store_state(current);
}

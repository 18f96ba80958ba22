// route.comp: ENGINE_OP_ROUTE. A workgroup takes a token. An expert's place among the chosen is the number of
// those chosen before it: each invocation counts these for a few experts.
#version 450
#extension GL_GOOGLE_include_directive : enable
#include "parameters.glsl"

layout(local_size_x_id = 0) in;
layout(constant_id = 0) const uint SIZE = 64; // a multiple of 4
layout(constant_id = 1) const bool SIGMOIDS = false; // else softmax
layout(constant_id = 2) const bool BIASED = false;
layout(constant_id = 3) const bool TOP2 = false; // of a group: the sum of the two largest, else the largest
layout(constant_id = 4) const bool NORMALISED = false;

layout(push_constant) uniform Parameters { route_parameters p; };

layout(binding = 0) readonly buffer Logits { float logits[]; };
layout(binding = 1) readonly buffer Bias { float biases[]; };
layout(binding = 2) writeonly buffer Ids { uint ids[]; };
layout(binding = 3) writeonly buffer Weights { float weights[]; };

const uint MOST = 1024; // experts: 12 KiB of shared memory
shared float shares[MOST]; // the experts' weights
shared uint keys[MOST];    // the choice's order, total even with NaN; 0: can't be chosen
shared uint places[MOST];  // of groups, then of experts

#include "activation.glsl"
#include "workgroup.glsl"

// The value that the choice is based on.
float choice(uint e)
{
    return BIASED ? shares[e] + biases[e] : shares[e];
}

// Orders floats as integers, above 0.
uint key_of(float value)
{
    uint bits = floatBitsToUint(value);
    return max((bits & 0x80000000u) != 0 ? ~bits : bits | 0x80000000u, 1);
}

// How many of the first `count` keys come before a given one.
uint place_of(uint i, uint count)
{
    uint before = 0, key = keys[i];
    for (uint j = 0; j < count; j++) before += uint(keys[j] > key || (keys[j] == key && j < i));
    return before;
}

float group_score(uint group)
{
    uint size = p.n / p.n_groups, first = group * size;
    float most = choice(first), second = -3e38;
    for (uint i = first + 1; i < first + size; i++) {
        second = max(second, min(most, choice(i)));
        most = max(most, choice(i));
    }
    return TOP2 ? most + second : most;
}

void route(uint token, uint lane)
{
    uint from = p.logits_offset + token * p.logits_stride;
    float most = -3e38, total = 0, chosen = 0;
    for (uint e = lane; e < p.n; e += SIZE) most = max(most, logits[from + e]);
    if (!SIGMOIDS) most = workgroup_max(most);
    for (uint e = lane; e < p.n; e += SIZE) {
        float share = SIGMOIDS ? sigmoid(logits[from + e]) : accurate_exp(logits[from + e] - most);
        shares[e] = share;
        total += share;
    }
    if (!SIGMOIDS) total = workgroup_sum(total);
    for (uint e = lane; e < p.n && !SIGMOIDS; e += SIZE) shares[e] /= total;
    barrier();
    if (p.n_groups > 1) {
        for (uint g = lane; g < p.n_groups; g += SIZE) keys[g] = key_of(group_score(g));
        barrier();
        for (uint g = lane; g < p.n_groups; g += SIZE) places[g] = place_of(g, p.n_groups);
        barrier();
    }
    for (uint e = lane; e < p.n; e += SIZE) {
        bool stays = p.n_groups == 1 || places[e / (p.n / p.n_groups)] < p.n_groups_used;
        keys[e] = stays ? key_of(choice(e)) : 0;
    }
    barrier();
    for (uint e = lane; e < p.n; e += SIZE) {
        places[e] = place_of(e, p.n);
        if (places[e] < p.n_used) chosen += shares[e];
    }
    float scale = p.scale;
    if (NORMALISED) scale /= max(workgroup_sum(chosen), p.least);
    for (uint e = lane; e < p.n; e += SIZE) {
        if (places[e] >= p.n_used) continue;
        ids[p.ids_offset + token * p.ids_stride + places[e]] = e;
        weights[p.weights_offset + token * p.weights_stride + places[e]] = shares[e] * scale;
    }
    barrier(); // before the next token's
}

void main()
{
    for (uint token = gl_WorkGroupID.x; token < p.n_tokens; token += gl_NumWorkGroups.x)
        route(token, gl_LocalInvocationID.x);
}

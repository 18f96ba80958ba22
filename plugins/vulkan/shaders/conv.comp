// conv.comp: ENGINE_OP_CONV, in two dispatches: first the outputs, then (KEEP) what the last token of each
// sequence leaves in its state. An invocation takes a channel of a token.
#version 450
#extension GL_GOOGLE_include_directive : enable
#include "parameters.glsl"

layout(local_size_x_id = 0) in;
layout(constant_id = 1) const bool KEEP = false;

layout(push_constant) uniform Parameters { conv_parameters p; };

layout(binding = 0) readonly buffer Input { float inputs[]; };
layout(binding = 1) readonly buffer Weight { float weights[]; }; // [taps, n]
layout(binding = 2) readonly buffer Positions { int positions[]; };
layout(binding = 3) readonly buffer States { int states[]; };
layout(binding = 4) buffer State { float state[]; }; // [n, taps - 1, states]
layout(binding = 5) writeonly buffer Output { float outputs[]; };

// `before`: tokens of its sequence before it in the batch, as far as it sees them
uint channel, token, before;
int number;

uint place(uint row)
{
    return p.state_offset + (uint(number) * (p.taps - 1) + row) * p.n + channel;
}

// The input `back` tokens before this one.
float input_before(uint back)
{
    if (back <= before) return inputs[p.input_offset + (token - back) * p.input_stride1 + channel];
    if (positions[p.positions_offset + token - before] == 0) return 0;
    return state[place(p.taps - 1 - (back - before))];
}

void main()
{
    uint total = p.n * p.n_tokens;
    for (uint item = gl_GlobalInvocationID.x; item < total; item += gl_NumWorkGroups.x * gl_WorkGroupSize.x) {
        token = item / p.n;
        channel = item - token * p.n;
        number = states[p.states_offset + token];
        for (before = 0; before < p.taps - 1 && before < token; before++)
            if (states[p.states_offset + token - before - 1] != number) break;
        if (!KEEP) {
            float sum = 0;
            for (uint i = 0; i < p.taps && number >= 0; i++)
                sum += weights[channel * p.taps + i] * input_before(p.taps - 1 - i);
            outputs[p.output_offset + token * p.output_stride1 + channel] = sum;
        } else if (number >= 0 && (token + 1 == p.n_tokens || states[p.states_offset + token + 1] != number)) {
            // Going up, a row is read before it is overwritten.
            for (uint i = 0; i + 1 < p.taps; i++) state[place(i)] = input_before(p.taps - 2 - i);
        }
    }
}

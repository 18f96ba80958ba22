// states.cl: operations that keep a state for each sequence: ENGINE_OP_CONV, and ENGINE_OP_SCAN for heads of
// KEY_DIM keys and VALUE_DIM values. Offsets and strides are in words.

struct view {
    uint offset, stride1, stride2;
};

uint at(const struct view *view, uint i1, uint i2)
{
    return view->offset + i1 * view->stride1 + i2 * view->stride2;
}

#ifndef KEY_DIM
// ---- Convolution ------------------------------------------------------------------------------------------

struct conv_parameters {
    uint n, n_tokens, taps;
    struct view input, output;
    uint positions_offset, states_offset, state_offset;
};

// A token's place in the batch and in its sequence.
struct place {
    uint token;
    uint before; // tokens of its sequence before it in the batch, as far as it sees them
    int number;  // of its state; -1: none
    bool begins; // the first of them is the first of all
};

struct place find_place(const struct conv_parameters *p, global const int *positions, global const int *states, uint token)
{
    struct place place = {token, 0, states[p->states_offset + token], false};
    while (place.before + 1 < p->taps && place.before < token &&
           states[p->states_offset + token - place.before - 1] == place.number)
        place.before++;
    place.begins = positions[p->positions_offset + token - place.before] == 0;
    return place;
}

// A channel's input `back` tokens before a token.
float input_before(const struct conv_parameters *p, const struct place *place, global const float *input,
                   global const float *state, uint channel, uint back)
{
    if (back <= place->before) return input[at(&p->input, place->token - back, 0) + channel];
    uint row = place->number * (p->taps - 1) + p->taps - 1 - (back - place->before);
    return place->begins ? 0 : state[p->state_offset + row * p->n + channel];
}

// A work-item takes LANES channels of a token.
kernel void conv(global const float *input, global const float *weights, global const int *positions,
                 global const int *states, global const float *state, global float *output,
                 const struct conv_parameters given)
{
    const struct conv_parameters p = given;
    uint items = (p.n + LANES - 1) / LANES, total = items * p.n_tokens;
    for (uint item = get_global_id(0); item < total; item += get_global_size(0)) {
        uint token = item / items, first = (item - token * items) * LANES;
        const struct place place = find_place(&p, positions, states, token);
        for (uint channel = first; channel < min(first + LANES, p.n); channel++) {
            float sum = 0;
            for (uint i = 0; i < p.taps && place.number >= 0; i++)
                sum += weights[channel * p.taps + i] * input_before(&p, &place, input, state, channel, p.taps - 1 - i);
            output[at(&p.output, token, 0) + channel] = sum;
        }
    }
}

// What the last token of each sequence leaves in its state. Going up, a row is read before it is overwritten.
kernel void keep_inputs(global const float *input, global const int *positions, global const int *states,
                        global float *state, const struct conv_parameters given)
{
    const struct conv_parameters p = given;
    uint items = (p.n + LANES - 1) / LANES, total = items * p.n_tokens;
    for (uint item = get_global_id(0); item < total; item += get_global_size(0)) {
        uint token = item / items, first = (item - token * items) * LANES;
        int number = states[p.states_offset + token];
        if (number < 0 || (token + 1 < p.n_tokens && states[p.states_offset + token + 1] == number)) continue;
        const struct place place = find_place(&p, positions, states, token);
        for (uint channel = first; channel < min(first + LANES, p.n); channel++)
            for (uint i = 0; i + 1 < p.taps; i++)
                state[p.state_offset + (number * (p.taps - 1) + i) * p.n + channel] =
                    input_before(&p, &place, input, state, channel, p.taps - 2 - i);
    }
}

#else
// ---- Scan -------------------------------------------------------------------------------------------------

// DECAY is one of these.
#define OF_HEADS   1
#define OF_KEYS    2
#define WITH_RATES 3

struct scan_parameters {
    uint n_tokens;
    struct view q, k, v, decay, a, b, erase, output;
    uint positions_offset, states_offset, state_offset;
    float scale;
};

#define COLUMNS 16 // values of a head that a group takes, for all tokens

#ifdef VECTORS
// A work-item of its own: a vector of COLUMNS values, all keys.
#define PARTS 1
#define KEYS  KEY_DIM
typedef float16 C;
#else
// COLUMNS * PARTS work-items: PARTS of them share the keys of a value.
#define PARTS 8
#define KEYS  ((KEY_DIM + PARTS - 1) / PARTS)
typedef float C;
#endif

// What is loaded and stored for a group's values from `first` on.
C load_values(global const float *from, uint first, uint column)
{
#ifdef VECTORS
    if (first + 16 <= VALUE_DIM) return vload16(0, from + first);
    float single[16];
    for (uint i = 0; i < 16; i++) single[i] = first + i < VALUE_DIM ? from[first + i] : 0;
    return vload16(0, single);
#else
    return first + column < VALUE_DIM ? from[first + column] : 0;
#endif
}

void store_values(C values, global float *to, uint first, uint column)
{
#ifdef VECTORS
    if (first + 16 <= VALUE_DIM) {
        vstore16(values, 0, to + first);
        return;
    }
    float single[16];
    vstore16(values, 0, single);
    for (uint i = 0; first + i < VALUE_DIM; i++) to[first + i] = single[i];
#else
    if (first + column < VALUE_DIM) to[first + column] = values;
#endif
}

// Rates of a key, [KEY_DIM, VALUE_DIM] at `from`, for the group's values.
C load_rates(global const float *from, uint key, uint first, uint column)
{
#ifdef VECTORS
    float single[16];
    for (uint i = 0; i < 16; i++) single[i] = first + i < VALUE_DIM ? from[(first + i) * KEY_DIM + key] : 0;
    return vload16(0, single);
#else
    return first + column < VALUE_DIM ? from[(first + column) * KEY_DIM + key] : 0;
#endif
}

// The sum over the parts of a value; all work-items of the group call it together.
C column_sum(C mine, local float *partial)
{
#ifdef VECTORS
    return mine;
#else
    float sum = 0;
    barrier(CLK_LOCAL_MEM_FENCE); // the previous contents have been used
    partial[get_local_id(0)] = mine;
    barrier(CLK_LOCAL_MEM_FENCE);
    for (uint i = 0; i < PARTS; i++) sum += partial[i * COLUMNS + get_local_id(0) % COLUMNS];
    return sum;
#endif
}

kernel __attribute__((reqd_work_group_size(PARTS == 1 ? 1 : COLUMNS * PARTS, 1, 1))) void
scan(global const float *q, global const float *k, global const float *v, global const float *decays,
     global const float *rates, global const float *a, global const float *b, global const float *erase,
     global const float *bonus, global const int *positions, global const int *states, global float *state,
     global float *output, const struct scan_parameters given)
{
    const struct scan_parameters p = given;
#ifdef VECTORS
    local float *partial = 0;
#else
    local float partial[COLUMNS * PARTS];
#endif
    uint head = get_group_id(1), n_heads = get_num_groups(1), group = head / HEADS_IN_GROUP;
    uint part = get_local_id(0) / COLUMNS, column = get_local_id(0) % COLUMNS, first = get_group_id(0) * COLUMNS;
    C kept[KEYS]; // the state of keys part, part + PARTS, ...
    int current = -1; // the number of the state that the previous token has; -1: none
    global float *stored = state;
    if (HAS_BONUS) bonus += head * KEY_DIM;
    if (DECAY == WITH_RATES) rates += (size_t)head * VALUE_DIM * KEY_DIM;
    for (uint token = 0; token <= p.n_tokens; token++) {
        int number = token < p.n_tokens ? states[p.states_offset + token] : -1;
        if (number != current) {
            for (uint r = 0; r < KEYS && current >= 0; r++)
                if (r * PARTS + part < KEY_DIM)
                    store_values(kept[r], stored + (r * PARTS + part) * VALUE_DIM, first, column);
            current = number;
            stored = state + p.state_offset + ((size_t)max(number, 0) * n_heads + head) * KEY_DIM * VALUE_DIM;
            bool begins = number < 0 || positions[p.positions_offset + token] == 0;
            for (uint r = 0; r < KEYS; r++)
                kept[r] = begins || r * PARTS + part >= KEY_DIM
                              ? (C)(0)
                              : load_values(stored + (r * PARTS + part) * VALUE_DIM, first, column);
        }
        if (token == p.n_tokens) break;
        C sum = 0, erased = 0;
        if (number >= 0) {
            C new = load_values(v + at(&p.v, head, token), first, column);
            C step = DECAY == WITH_RATES ? load_values(decays + at(&p.decay, head, token), first, column) : (C)(0);
            float of_head = DECAY == OF_HEADS ? exp(decays[at(&p.decay, head, token)]) : 1;
            if (HAS_A) {
                for (uint r = 0; r < KEYS; r++)
                    if (r * PARTS + part < KEY_DIM) erased += a[at(&p.a, group, token) + r * PARTS + part] * kept[r];
                erased = column_sum(erased, partial);
                if (HAS_ERASE) erased *= erase[at(&p.erase, head, token)];
            }
            for (uint r = 0; r < KEYS; r++) {
                uint i = r * PARTS + part;
                if (i >= KEY_DIM) continue;
                C added = k[at(&p.k, group, token) + i] * new, factor = of_head;
                if (DECAY == OF_KEYS) factor = exp(decays[at(&p.decay, head, token) + i]);
                if (DECAY == WITH_RATES) factor = exp(load_rates(rates, i, first, column) * step);
                float query = q[at(&p.q, group, token) + i];
                if (HAS_BONUS) sum += query * (kept[r] + bonus[i] * added);
                if (HAS_A) added += b[at(&p.b, group, token) + i] * erased;
                kept[r] = factor * kept[r] + added;
                if (!HAS_BONUS) sum += query * kept[r];
            }
            sum = p.scale * column_sum(sum, partial);
        }
        if (part == 0) store_values(sum, output + at(&p.output, head, token), first, column);
    }
}
#endif

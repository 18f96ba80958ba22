// attention-rows.comp: ENGINE_OP_ATTENTION with an online softmax (Milakov and Gimelshein, arXiv 1805.02867),
// for heads whose length is a multiple of 8. A workgroup takes a head of the cache and up to ROWS rows of
// queries: the heads of some tokens that read this head, so that keys and values are read once for all of
// them. It goes through the positions SIZE at a time: first each invocation scores one position for all rows,
// then rows are shared out to find their maxima and weights, then each invocation sums four numbers of the
// values for all rows over some of the positions. TYPE_K and TYPE_V are the caches' types. Where there are
// few rows, p.splits workgroups share the positions and leave their sums to attention-join.comp.
#version 450
#extension GL_EXT_control_flow_attributes : enable
#extension GL_GOOGLE_include_directive : enable
#include "parameters.glsl"
#define TYPE 0
#include "types.glsl"

#define SIZE 128
layout(local_size_x = SIZE) in;
layout(constant_id = 1) const uint ROWS = 4; // 1, 2, 4, 8 or 16
layout(constant_id = 2) const uint HEAD_DIM = 64;
// of 8 values of a key that are under way together: divides HEAD_DIM / 8
layout(constant_id = 3) const uint UNITS = 1;
layout(constant_id = 4) const uint VALUE_DIM = 64;
layout(constant_id = 5) const uint SLOPED = 0; // 1: by slopes; 2: by a bias for each distance
layout(constant_id = 6) const bool SINKS = false; // with splits they are for attention-join.comp
layout(constant_id = 7) const bool CAPPED = false;
layout(constant_id = 8) const uint VECTORS = 1; // of four values that an invocation sums
layout(constant_id = 9) const uint GROUPS = 4;  // of invocations that share out the positions for the values

layout(push_constant) uniform Parameters { attention_parameters p; };

layout(binding = 0) readonly buffer Q { float q[]; };
layout(binding = 1) readonly buffer K { uint k[]; };
layout(binding = 1) readonly buffer K4 { uvec4 k4[]; };
layout(binding = 2) readonly buffer V { uint v[]; };
layout(binding = 2) readonly buffer V2 { uvec2 v2[]; };
layout(binding = 2) readonly buffer V4 { uvec4 v4[]; };
layout(binding = 3) readonly buffer Table { int table[]; };
layout(binding = 4) readonly buffer Sequences { int sequences[]; };
layout(binding = 5) readonly buffer Positions { int positions[]; };
layout(binding = 6) writeonly buffer Output { float outputs[]; };
layout(binding = 7) readonly buffer Sinks { float sinks[]; };
layout(binding = 8) readonly buffer Slopes { float slopes[]; };
// [token][head][split] of sums, their maximum and total
layout(binding = 7) writeonly buffer Parts { float parts[]; };

#define NOTHING -3e38
#define AHEAD   4 // positions whose values are under way together

const uint SUMS = ROWS * VECTORS;
const uint QUADS = (ROWS + 3) / 4;
// of a position's scores, so that neighbours are in different banks
const uint STRIDE = QUADS > 1 ? QUADS + 1 : 1;
const uint SHARES = SIZE / ROWS;               // invocations that find a row's maximum
const uint FEW_SHARES = SHARES > 16 ? 8 : SHARES;
const uint LANES = VALUE_DIM / 4 / VECTORS;    // invocations of a group
const uint LONGEST = HEAD_DIM > VALUE_DIM ? HEAD_DIM : VALUE_DIM;

shared vec4 queries[ROWS * LONGEST / 4]; // [row][HEAD_DIM / 4]; at the end the values that groups have summed
shared vec4 scores[SIZE * STRIDE];       // [position][row]; then the weights
shared uint cache_rows[SIZE];
shared float partial[SIZE]; // [share][row]
shared vec4 shrinks[QUADS];
shared ivec4 ranges[ROWS]; // of a row: begin, end, the token's position; head

#include "activation.glsl"

// Word i / 4 and the next one of the bytes from i on, an even number: of Q8_0's blocks, which are not
// aligned.
uvec2 two_words(uvec3 words, uint byte)
{
    return byte % 4 == 0 ? words.xy : words.xy >> 16 | words.yz << 16;
}

// Values 8 * unit … + 7 of a key.
void key_values(uint row, uint unit, out vec4 low, out vec4 high)
{
#if TYPE_K == TYPE_F32
    uint at = p.k_offset / 4 + row * (HEAD_DIM / 4) + 2 * unit;
    low = uintBitsToFloat(k4[at]);
    high = uintBitsToFloat(k4[at + 1]);
#elif TYPE_K == TYPE_F16
    uvec4 words = k4[p.k_offset / 4 + row * (HEAD_DIM / 8) + unit];
    low = vec4(unpackHalf2x16(words.x), unpackHalf2x16(words.y));
    high = vec4(unpackHalf2x16(words.z), unpackHalf2x16(words.w));
#else
    uint block = (row * (HEAD_DIM / 32) + unit / 4) * 34, byte = block + 2 + unit % 4 * 8;
    float scale = unpackHalf2x16(k[p.k_offset + block / 4] >> (block % 4 * 8)).x;
    uint at = p.k_offset + byte / 4;
    uvec2 words = two_words(uvec3(k[at], k[at + 1], byte % 4 == 0 ? 0 : k[at + 2]), byte);
    low = vec4((ivec4(words.x) << ivec4(24, 16, 8, 0)) >> 24) * scale;
    high = vec4((ivec4(words.y) << ivec4(24, 16, 8, 0)) >> 24) * scale;
#endif
}

// Values 4 * quad … + 3.
vec4 value_quad(uint row, uint quad)
{
#if TYPE_V == TYPE_F32
    return uintBitsToFloat(v4[(p.v_offset + row * p.v_step) / 4 + quad]);
#elif TYPE_V == TYPE_F16
    uvec2 words = v2[p.v_offset / 2 + row * (p.v_step / 4) + quad];
    return vec4(unpackHalf2x16(words.x), unpackHalf2x16(words.y));
#else
    uint block = row * p.v_step + quad / 8 * 34, byte = block + 2 + quad % 8 * 4;
    float scale = unpackHalf2x16(v[p.v_offset + block / 4] >> (block % 4 * 8)).x;
    uint at = p.v_offset + byte / 4;
    uint word = byte % 4 == 0 ? v[at] : v[at] >> 16 | v[at + 1] << 16;
    return vec4((ivec4(word) << ivec4(24, 16, 8, 0)) >> 24) * scale;
#endif
}

// Positions that a token sees: from the first one to the one after the last.
ivec2 range_of(uint token)
{
    int position = positions[p.positions_offset + token];
    if (position < 0) return ivec2(0, 0);
    int end = positions[p.positions_offset + token + p.last_step] + 1, begin = 0;
    if (p.window > 0 && uint(position + 1) > p.window) begin = position + 1 - int(p.window);
    if (p.chunk > 0) begin = int(uint(position) / p.chunk * p.chunk);
    return ivec2(min(begin, end), end);
}

float finish_score(float score, uint row, uint at)
{
    score *= p.scale;
    if (CAPPED) score = p.softcap * accurate_tanh(score / p.softcap);
    if (SLOPED == 1) score -= slopes[ranges[row].w] * float(abs(ranges[row].z - int(at)));
    if (SLOPED == 2) {
        int r = int(p.n_biases);
        score += slopes[uint(ranges[row].w) * (2 * p.n_biases + 1) + uint(clamp(int(at) - ranges[row].z, -r, r) + r)];
    }
    return score;
}

// Scores of the position `at` for all rows; its cache row is in the block table at `table_row`.
void score(uint lane, uint at, uint end, uint table_row, uint kv_head)
{
    float sums[ROWS];
    [[unroll]] for (uint r = 0; r < ROWS; r++) sums[r] = 0;
    if (at < end) {
        uint block = at / p.block_size, in_block = at - block * p.block_size;
        uint row = (uint(table[table_row + block]) * p.n_kv_heads + kv_head) * p.block_size + in_block;
        cache_rows[lane] = row;
        [[dont_unroll]] for (uint unit = 0; unit < HEAD_DIM / 8; unit += UNITS) {
            vec4 key[2 * UNITS];
            [[unroll]] for (uint i = 0; i < UNITS; i++) key_values(row, unit + i, key[2 * i], key[2 * i + 1]);
            [[unroll]] for (uint r = 0; r < ROWS; r++)
                [[unroll]] for (uint i = 0; i < 2 * UNITS; i++) {
                    vec4 x = queries[r * (HEAD_DIM / 4) + 2 * unit + i];
                    sums[r] = fma(key[i].w, x.w, fma(key[i].z, x.z, fma(key[i].y, x.y, fma(key[i].x, x.x, sums[r]))));
                }
        }
    }
    [[unroll]] for (uint r = 0; r < ROWS; r++) {
        bool is_seen = at < end && int(at) >= ranges[r].x && int(at) < ranges[r].y;
        scores[lane * STRIDE + r / 4][r % 4] = is_seen ? finish_score(sums[r], r, at) : NOTHING;
    }
}

// Goes through the positions begin … end - 1 of one sequence.
void attend(uint lane, uint n_rows, uint begin, uint end, uint table_row, uint kv_head, inout float most,
            inout float total, inout vec4 sums[SUMS])
{
    uint row = lane % ROWS, share = lane / ROWS;
    uint quad = lane % LANES, group = lane / LANES; // beyond GROUPS: nothing to do
    for (uint first = begin; first < end; first += SIZE) {
        uint count = min(SIZE, end - first);
        barrier(); // the weights before have been used
        score(lane, first + lane, end, table_row, kv_head);
        barrier();
        float mine = NOTHING;
        [[unroll]] for (uint i = 0; i < ROWS; i++)
            mine = max(mine, scores[(share + i * SHARES) * STRIDE + row / 4][row % 4]);
        partial[lane] = mine;
        barrier();
        if (SHARES > 16) { // in two steps
            if (lane < 8 * ROWS) {
                [[dont_unroll]] for (uint i = lane + 8 * ROWS; i < SIZE; i += 8 * ROWS) mine = max(mine, partial[i]);
                partial[lane] = mine; // read by nobody else before the barrier
            }
            barrier();
        }
        float old = most;
        [[unroll]] for (uint i = 0; i < FEW_SHARES; i++) most = max(most, partial[i * ROWS + row]);
        float shrink = exp(old - most);
        total *= shrink;
        [[unroll]] for (uint i = 0; i < ROWS; i++) {
            uint at = (share + i * SHARES) * STRIDE + row / 4;
            float value = scores[at][row % 4], weight = value == NOTHING ? 0 : exp(value - most);
            scores[at][row % 4] = weight;
            total += weight;
        }
        if (share == 0) shrinks[row / 4][row % 4] = shrink;
        barrier();
        [[unroll]] for (uint r = 0; r < ROWS; r++)
            [[unroll]] for (uint n = 0; n < VECTORS; n++) sums[r * VECTORS + n] *= shrinks[r / 4][r % 4];
        // What a row doesn't see may be no number, which times 0 is none. Choosing for each product
        // costs half as much again, so that is done only where some row doesn't see all.
        bool all_see = true;
        [[dont_unroll]] for (uint r = 0; r < n_rows; r++)
            all_see = all_see && ranges[r].x <= int(first) && ranges[r].y >= int(first + count);
        if (group < GROUPS)
            for (uint j = group; j < count; j += AHEAD * GROUPS) {
                vec4 values[AHEAD * VECTORS];
                [[unroll]] for (uint m = 0; m < AHEAD; m++) {
                    uint cache_row = cache_rows[min(j + m * GROUPS, count - 1)];
                    [[unroll]] for (uint n = 0; n < VECTORS; n++)
                        values[m * VECTORS + n] = value_quad(cache_row, quad + n * LANES);
                }
                [[unroll]] for (uint m = 0; m < AHEAD; m++) {
                    uint at = j + m * GROUPS;
                    vec4 weights[QUADS];
                    [[unroll]] for (uint i = 0; i < QUADS; i++)
                        weights[i] = at < count ? scores[at * STRIDE + i] : vec4(0);
                    [[unroll]] for (uint n = 0; n < VECTORS; n++)
                        if (all_see) {
                            [[unroll]] for (uint r = 0; r < ROWS; r++)
                                sums[r * VECTORS + n] =
                                    fma(vec4(weights[r / 4][r % 4]), values[m * VECTORS + n],
                                        sums[r * VECTORS + n]);
                        } else {
                            [[unroll]] for (uint r = 0; r < ROWS; r++) {
                                float weight = weights[r / 4][r % 4];
                                vec4 sum = sums[r * VECTORS + n];
                                sums[r * VECTORS + n] =
                                    weight == 0 ? sum : fma(vec4(weight), values[m * VECTORS + n], sum);
                            }
                        }
                }
            }
    }
}

// Adds up what the groups have summed; the first one has the result.
void add_groups(uint quad, uint group, inout vec4 sums[SUMS])
{
    [[dont_unroll]] for (uint other = 1; other < GROUPS; other++) {
        barrier(); // the previous contents have been used
        if (group == other)
            [[unroll]] for (uint i = 0; i < ROWS * VECTORS; i++) queries[i * LANES + quad] = sums[i];
        barrier();
        if (group == 0)
            [[unroll]] for (uint i = 0; i < ROWS * VECTORS; i++) sums[i] += queries[i * LANES + quad];
    }
}

// The rows from `first_row` on, counted in heads of this group of all tokens.
void attend_rows(uint lane, uint kv_head, uint split, uint first_row)
{
    uint group_heads = p.n_heads / p.n_kv_heads, n_rows = min(p.block_rows, p.n_tokens * group_heads - first_row);
    barrier(); // before others overwrite what is still being read
    if (lane < ROWS) {
        uint number = first_row + min(lane, n_rows - 1), token = number / group_heads;
        ivec2 range = lane < n_rows ? range_of(token) : ivec2(0);
        ranges[lane] = ivec4(range, positions[p.positions_offset + token], kv_head * group_heads + number % group_heads);
    }
    [[dont_unroll]] for (uint i = lane; i < ROWS * (HEAD_DIM / 4); i += SIZE) {
        uint number = first_row + min(i / (HEAD_DIM / 4), n_rows - 1), token = number / group_heads;
        uint from = p.q_offset + (kv_head * group_heads + number % group_heads) * p.q_stride1 + token * p.q_stride2 +
                    i % (HEAD_DIM / 4) * 4;
        queries[i] = vec4(q[from], q[from + 1], q[from + 2], q[from + 3]);
    }
    barrier();
    float most = NOTHING, total = 0; // of row lane % ROWS; total: of this invocation's weights
    vec4 sums[SUMS];
    [[unroll]] for (uint i = 0; i < ROWS * VECTORS; i++) sums[i] = vec4(0);
    uint last_token = (first_row + n_rows - 1) / group_heads;
    for (uint token = first_row / group_heads; token <= last_token;) {
        // A run of tokens of one sequence; a position's weight is 0 for rows that don't see it, and so that
        // no row sees those of another sequence, ranges of other tokens are emptied meanwhile.
        int sequence = sequences[p.sequences_offset + token];
        uint from = token;
        ivec2 range = ivec2(0x7fffffff, 0);
        for (; token <= last_token && sequences[p.sequences_offset + token] == sequence; token++) {
            ivec2 own = range_of(token);
            if (own.y > own.x) range = ivec2(min(range.x, own.x), max(range.y, own.y));
        }
        if (lane < n_rows) {
            uint mine = (first_row + lane) / group_heads;
            ranges[lane].xy = mine >= from && mine < token ? range_of(mine) : ivec2(0);
        }
        barrier();
        uint begin = uint(min(range.x, range.y)), end = uint(range.y);
        if (p.splits > 1) {
            uint share = ((end - begin + p.splits - 1) / p.splits + SIZE - 1) / SIZE * SIZE;
            begin = min(begin + split * share, end);
            end = min(begin + share, end);
        }
        attend(lane, n_rows, begin, end, p.table_offset + uint(sequence) * p.table_stride, kv_head, most, total, sums);
        barrier(); // before ranges change
    }
    uint row = lane % ROWS;
    partial[lane] = total;
    barrier();
    total = 0;
    [[dont_unroll]] for (uint i = 0; i < SHARES; i++) total += partial[i * ROWS + row];
    uint quad = lane % LANES, group = lane / LANES;
    add_groups(quad, group, sums);
    barrier();
    if (lane < ROWS) {
        float shrink = 1;
        if (SINKS && p.splits == 1) {
            float old = most, sink = sinks[ranges[row].w];
            most = max(sink, old);
            shrink = exp(old - most);
            total = fma(total, shrink, exp(sink - most));
        }
        // What the sums are multiplied by.
        shrinks[row / 4][row % 4] = p.splits > 1 ? 1 : ranges[row].z < 0 ? 0 : shrink / total;
        partial[row] = most;
        partial[ROWS + row] = total;
    }
    barrier();
    if (group > 0) return;
    [[dont_unroll]] for (uint r = 0; r < n_rows; r++) {
        uint token = (first_row + r) / group_heads, head = uint(ranges[r].w);
        uint to = p.output_offset + head * p.output_stride1 + token * p.output_stride2;
        if (p.splits > 1) to = ((token * p.n_heads + head) * p.splits + split) * (VALUE_DIM + 2);
        bool is_out = ranges[r].z < 0; // 0 times what isn't a number would not be 0
        [[unroll]] for (uint n = 0; n < VECTORS; n++) {
            vec4 value = vec4(0);
            [[unroll]] for (uint i = 0; i < ROWS; i++) // sums stay in registers
                if (i == r) value = is_out ? vec4(0) : sums[i * VECTORS + n] * shrinks[i / 4][i % 4];
            uint at = to + (quad + n * LANES) * 4;
            [[unroll]] for (uint i = 0; i < 4; i++) {
                if (p.splits > 1)
                    parts[at + i] = value[i];
                else
                    outputs[at + i] = value[i];
            }
        }
        if (p.splits > 1 && quad == 0) {
            parts[to + VALUE_DIM] = partial[r];
            parts[to + VALUE_DIM + 1] = partial[ROWS + r];
        }
    }
}

void main()
{
    uint split = gl_WorkGroupID.x % p.splits, kv_head = gl_WorkGroupID.x / p.splits;
    uint n_rows = p.n_tokens * (p.n_heads / p.n_kv_heads);
    for (uint first = gl_WorkGroupID.y * p.block_rows; first < n_rows; first += gl_NumWorkGroups.y * p.block_rows)
        attend_rows(gl_LocalInvocationID.x, kv_head, split, first);
}

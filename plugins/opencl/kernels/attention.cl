// attention.cl: ENGINE_OP_ATTENTION with an online softmax (Milakov and Gimelshein, arXiv 1805.02867) for
// keys of HEAD_DIM and values of VALUE_DIM numbers in caches of TYPE_K and TYPE_V. A row of keys is HEAD_DIM
// long, one of values VALUE_ROW: HEAD_DIM if the values are a part of the keys.

struct attention_parameters {
    uint n_heads, n_kv_heads, n_tokens, block_size, table_stride;
    uint q_offset, q_stride1, q_stride2; // all in words
    uint k_offset, v_offset, table_offset, sequences_offset, positions_offset;
    uint output_offset, output_stride1, output_stride2;
    float scale, softcap;
    uint window, chunk;
    uint has_slopes, has_sinks; // has_slopes 2: the slopes are biases for each distance, n_biases each way
    uint last_step; // from a token's position to the last one that it sees; 0: they are the same
    uint n_biases;
    uint splits; // work-groups that share the positions of a head of a token
};

// The positions begin ... end - 1 that a token at `position` sees, up to `last`.
void find_range(const struct attention_parameters *p, int position, int last, uint *begin, uint *end)
{
    uint own_end = (uint)(position + 1);
    *end = position < 0 ? 0 : (uint)(last + 1);
    *begin = p->window > 0 && own_end > p->window ? own_end - p->window
             : p->chunk > 0 && position >= 0   ? position - position % p->chunk
                                               : 0;
}

#define LEAST_SCORE -3e38f

// What slopes or biases add to a head's score of a position `distance` before the token's.
float distance_term(const struct attention_parameters *p, global const float *slopes, uint head, int distance)
{
    int r = (int)p->n_biases;
    if (p->has_slopes == 2) return slopes[head * (2 * r + 1) + clamp(-distance, -r, r) + r];
    return p->has_slopes ? -slopes[head] * abs(distance) : 0;
}

// The row of the cache that holds a position.
size_t cache_row(const struct attention_parameters *p, global const int *table, uint kv_head, uint position)
{
    uint block = position / p->block_size, in_block = position - block * p->block_size;
    return ((size_t)table[block] * p->n_kv_heads + kv_head) * p->block_size + in_block;
}

// Element i of a row; a row is `length` elements long.
#define LOAD_ONE(name, type, length)                                                                          \
    float name(global const uchar *cache, size_t row, uint i)                                                 \
    {                                                                                                         \
        if (type == TYPE_F32) return ((global const float *)cache)[row * length + i];                         \
        if (type == TYPE_F16) return vload_half(row * length + i, (global const half *)cache);                \
        global const uchar *block = cache + (row * (length / 32) + i / 32) * 34;                              \
        return vload_half(0, (global const half *)block) * (float)(char)block[2 + i % 32];                    \
    }
LOAD_ONE(load_key, TYPE_K, HEAD_DIM)
LOAD_ONE(load_value, TYPE_V, VALUE_ROW)

#ifdef VECTORS
// ---- A work-item takes HEADS heads that share keys and values, of one token -------------------------------

#define KEY_PARTS   ((HEAD_DIM + 15) / 16)  // vectors of a key
#define VALUE_PARTS ((VALUE_DIM + 15) / 16) // and of a value
#define POSITIONS   16                      // that are scored together

// Vector `part` of the `n` numbers at `from`, padded with zeros.
float16 load_floats(global const float *from, uint part, uint n)
{
    if (n % 16 == 0 || part * 16 + 16 <= n) return vload16(part, from);
    float values[16];
    for (uint i = 0; i < 16; i++) values[i] = part * 16 + i < n ? from[part * 16 + i] : 0;
    return vload16(0, values);
}

#define LOAD_PART(name, type, length, n, load_one)                                                            \
    float16 name(global const uchar *cache, size_t row, uint part)                                            \
    {                                                                                                         \
        if (type == TYPE_F32) return load_floats((global const float *)cache + row * length, part, n);        \
        if (type == TYPE_F16 && n % 16 == 0)                                                                  \
            return half_value(WIDEN(vload16(part, (global const ushort *)cache + row * length)));             \
        if (type == TYPE_Q8_0) {                                                                              \
            global const uchar *block = cache + (row * (length / 32) + part / 2) * 34;                        \
            return convert_float16(vload16(part % 2, (global const char *)block + 2)) *                       \
                   vload_half(0, (global const half *)block);                                                 \
        }                                                                                                     \
        float values[16];                                                                                     \
        for (uint i = 0; i < 16; i++) values[i] = part * 16 + i < n ? load_one(cache, row, part * 16 + i) : 0; \
        return vload16(0, values);                                                                            \
    }
LOAD_PART(load_keys, TYPE_K, HEAD_DIM, HEAD_DIM, load_key)
LOAD_PART(load_values, TYPE_V, VALUE_ROW, VALUE_DIM, load_value)

float lanes_sum(float16 x)
{
    float8 a = x.lo + x.hi;
    float4 b = a.lo + a.hi;
    float2 c = b.lo + b.hi;
    return c.x + c.y;
}

float lanes_max(float16 x)
{
    float8 a = fmax(x.lo, x.hi);
    float4 b = fmax(a.lo, a.hi);
    float2 c = fmax(b.lo, b.hi);
    return fmax(c.x, c.y);
}

void store_floats(float16 values, global float *to, uint part)
{
    if (VALUE_DIM % 16 == 0 || part * 16 + 16 <= VALUE_DIM) {
        vstore16(values, part, to);
        return;
    }
    float single[16];
    vstore16(values, 0, single);
    for (uint i = 0; i < 16 && part * 16 + i < VALUE_DIM; i++) to[part * 16 + i] = single[i];
}

// Scores of the positions from `first` on, `count` of which are seen.
float16 finish_scores(const struct attention_parameters *p, float16 scores, global const float *slopes, uint head,
                      int distance, uint count)
{
    const int16 lanes = (int16)(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
    if (p->softcap > 0) scores = p->softcap * tanh(scores / p->softcap);
    if (p->has_slopes == 1) scores -= slopes[head] * fabs(convert_float16(distance - lanes));
    if (p->has_slopes == 2) {
        float biases[16];
        for (int i = 0; i < 16; i++) biases[i] = distance_term(p, slopes, head, distance - i);
        scores += vload16(0, biases);
    }
    return lanes < (int)count ? scores : (float16)(LEAST_SCORE);
}

kernel __attribute__((reqd_work_group_size(1, 1, 1))) void
attention(global const float *q, global const uchar *k, global const uchar *v, global const int *tables,
          global const int *sequences, global const int *positions, global const float *slopes,
          global const float *sinks, global float *output, const struct attention_parameters given)
{
    const struct attention_parameters p = given;
    uint groups = p.n_heads / HEADS, first_head = get_global_id(0) % groups * HEADS, token = get_global_id(0) / groups;
    uint kv_head = first_head / (p.n_heads / p.n_kv_heads), begin, end;
    int position = positions[p.positions_offset + token];
    global const int *table = tables + p.table_offset + (size_t)sequences[p.sequences_offset + token] * p.table_stride;
    float16 queries[HEADS][KEY_PARTS], sums[HEADS][VALUE_PARTS];
    float most[HEADS], total[HEADS];
    k += (size_t)p.k_offset * 4;
    v += (size_t)p.v_offset * 4;
    find_range(&p, position, positions[p.positions_offset + token + p.last_step], &begin, &end);
    for (uint h = 0; h < HEADS; h++) {
        global const float *from = q + p.q_offset + (first_head + h) * p.q_stride1 + (size_t)token * p.q_stride2;
        for (uint i = 0; i < KEY_PARTS; i++) queries[h][i] = load_floats(from, i, HEAD_DIM) * p.scale;
        for (uint i = 0; i < VALUE_PARTS; i++) sums[h][i] = 0;
        most[h] = p.has_sinks ? sinks[first_head + h] : LEAST_SCORE;
        total[h] = p.has_sinks ? 1 : 0;
    }
    for (uint first = begin; first < end; first += POSITIONS) {
        uint count = min((uint)POSITIONS, end - first);
        float scores[HEADS][POSITIONS];
        size_t rows[POSITIONS];
        for (uint h = 0; h < HEADS; h++) vstore16((float16)(0), 0, scores[h]);
        for (uint j = 0; j < count; j++) {
            float16 key[KEY_PARTS];
            rows[j] = cache_row(&p, table, kv_head, first + j);
            for (uint i = 0; i < KEY_PARTS; i++) key[i] = load_keys(k, rows[j], i);
            for (uint h = 0; h < HEADS; h++) {
                float16 product = queries[h][0] * key[0];
                for (uint i = 1; i < KEY_PARTS; i++) product += queries[h][i] * key[i];
                scores[h][j] = lanes_sum(product);
            }
        }
        for (uint h = 0; h < HEADS; h++) {
            float16 all = finish_scores(&p, vload16(0, scores[h]), slopes, first_head + h, position - (int)first, count);
            float now = fmax(most[h], lanes_max(all)), shrink = exp(most[h] - now);
            all = exp(all - now);
            most[h] = now;
            total[h] = total[h] * shrink + lanes_sum(all);
            vstore16(all, 0, scores[h]);
            for (uint i = 0; i < VALUE_PARTS; i++) sums[h][i] *= shrink;
        }
        for (uint j = 0; j < count; j++)
            for (uint i = 0; i < VALUE_PARTS; i++) {
                float16 value = load_values(v, rows[j], i);
                for (uint h = 0; h < HEADS; h++) sums[h][i] += scores[h][j] * value;
            }
    }
    for (uint h = 0; h < HEADS; h++) {
        global float *to = output + p.output_offset + (first_head + h) * p.output_stride1 + (size_t)token * p.output_stride2;
        for (uint i = 0; i < VALUE_PARTS; i++) store_floats(position < 0 ? (float16)(0) : sums[h][i] / total[h], to, i);
    }
}

#else
// ---- A work-group of GROUP takes a head of a token, and GROUP positions at a time: first each work-item
// scores one, then each sums up a few of the output's values. Where heads and tokens are few, several groups
// share the positions, and attention_join adds up what they have summed -------------------------------------

#define VALUES ((VALUE_DIM + GROUP - 1) / GROUP)

float group_max(float mine, local float *partial)
{
    float most = LEAST_SCORE;
    barrier(CLK_LOCAL_MEM_FENCE);
    partial[get_local_id(0)] = mine;
    barrier(CLK_LOCAL_MEM_FENCE);
    for (uint i = 0; i < GROUP; i++) most = fmax(most, partial[i]);
    return most;
}

float score(const struct attention_parameters *p, global const uchar *k, size_t row, local const float *queries,
            float distant)
{
    float sum = 0;
#if defined(ALIGNED) && TYPE_K == TYPE_F16
    for (uint i = 0; i < HEAD_DIM / 8; i++) {
        uint4 words = ((global const uint4 *)k)[row * (HEAD_DIM / 8) + i];
        sum += half_value(words.x) * queries[8 * i] + half_value(words.x >> 16) * queries[8 * i + 1];
        sum += half_value(words.y) * queries[8 * i + 2] + half_value(words.y >> 16) * queries[8 * i + 3];
        sum += half_value(words.z) * queries[8 * i + 4] + half_value(words.z >> 16) * queries[8 * i + 5];
        sum += half_value(words.w) * queries[8 * i + 6] + half_value(words.w >> 16) * queries[8 * i + 7];
    }
#elif defined(ALIGNED) && TYPE_K == TYPE_F32
    for (uint i = 0; i < HEAD_DIM / 4; i++) {
        float4 x = ((global const float4 *)k)[row * (HEAD_DIM / 4) + i];
        sum += x.s0 * queries[4 * i] + x.s1 * queries[4 * i + 1];
        sum += x.s2 * queries[4 * i + 2] + x.s3 * queries[4 * i + 3];
    }
#else
    for (uint i = 0; i < HEAD_DIM; i++) sum += load_key(k, row, i) * queries[i];
#endif
    if (p->softcap > 0) sum = p->softcap * tanh(sum / p->softcap);
    return sum + distant;
}

kernel __attribute__((reqd_work_group_size(GROUP, 1, 1))) void
attention(global const float *q, global const uchar *k, global const uchar *v, global const int *tables,
          global const int *sequences, global const int *positions, global const float *slopes,
          global const float *sinks, global float *output, global float *parts,
          const struct attention_parameters given)
{
    local float queries[HEAD_DIM], weights[GROUP], partial[GROUP];
    local size_t rows[GROUP];
    const struct attention_parameters p = given;
    uint lane = get_local_id(0), number = get_group_id(0) / p.splits, split = get_group_id(0) % p.splits;
    uint head = number % p.n_heads, token = number / p.n_heads;
    uint kv_head = head / (p.n_heads / p.n_kv_heads), begin, end;
    int position = positions[p.positions_offset + token];
    global const int *table = tables + p.table_offset + (size_t)sequences[p.sequences_offset + token] * p.table_stride;
    float sums[VALUES];
    bool has_sink = p.has_sinks && p.splits == 1;
    float most = has_sink ? sinks[head] : LEAST_SCORE, total = has_sink ? 1 : 0;
    k += (size_t)p.k_offset * 4;
    v += (size_t)p.v_offset * 4;
    find_range(&p, position, positions[p.positions_offset + token + p.last_step], &begin, &end);
    if (p.splits > 1) {
        uint share = ((end - begin + p.splits - 1) / p.splits + GROUP - 1) / GROUP * GROUP;
        begin = min(begin + split * share, end);
        end = min(begin + share, end);
    }
    UNROLL for (uint n = 0; n < VALUES; n++) sums[n] = 0;
    for (uint i = lane; i < HEAD_DIM; i += GROUP)
        queries[i] = q[p.q_offset + head * p.q_stride1 + (size_t)token * p.q_stride2 + i] * p.scale;
    for (uint first = begin; first < end; first += GROUP) {
        barrier(CLK_LOCAL_MEM_FENCE); // the queries are there; the weights before have been used
        uint count = min((uint)GROUP, end - first);
        float mine = LEAST_SCORE;
        if (lane < count) {
            rows[lane] = cache_row(&p, table, kv_head, first + lane);
            mine = score(&p, k, rows[lane], queries,
                         distance_term(&p, slopes, head, position - (int)(first + lane)));
        }
        float now = fmax(group_max(mine, partial), most), shrink = exp(most - now);
        most = now;
        weights[lane] = lane < count ? exp(mine - now) : 0;
        barrier(CLK_LOCAL_MEM_FENCE);
        total *= shrink;
        UNROLL for (uint n = 0; n < VALUES; n++) sums[n] *= shrink;
        for (uint j = 0; j < count; j++) {
            total += weights[j];
            UNROLL for (uint n = 0; n < VALUES; n++)
                if (lane + n * GROUP < VALUE_DIM) sums[n] += weights[j] * load_value(v, rows[j], lane + n * GROUP);
        }
    }
    global float *part = parts + ((size_t)number * p.splits + split) * (VALUE_DIM + 2);
    if (p.splits > 1 && lane == 0) {
        part[VALUE_DIM] = most;
        part[VALUE_DIM + 1] = total;
    }
    UNROLL for (uint n = 0; n < VALUES; n++) {
        uint i = lane + n * GROUP;
        if (i < VALUE_DIM && p.splits > 1)
            part[i] = sums[n];
        else if (i < VALUE_DIM)
            output[p.output_offset + head * p.output_stride1 + (size_t)token * p.output_stride2 + i] =
                position < 0 ? 0 : sums[n] / total;
    }
}

// The sums of a head of a token: each is relative to its own maximum.
kernel __attribute__((reqd_work_group_size(GROUP, 1, 1))) void
attention_join(global const float *parts, global const int *positions, global const float *sinks,
               global float *output, const struct attention_parameters given)
{
    const struct attention_parameters p = given;
    uint head = get_group_id(0) % p.n_heads, token = get_group_id(0) / p.n_heads;
    float most = p.has_sinks ? sinks[head] : LEAST_SCORE, total = 0;
    parts += (size_t)get_group_id(0) * p.splits * (VALUE_DIM + 2);
    for (uint s = 0; s < p.splits; s++) most = fmax(most, parts[s * (VALUE_DIM + 2) + VALUE_DIM]);
    for (uint s = 0; s < p.splits; s++) {
        global const float *part = parts + s * (VALUE_DIM + 2) + VALUE_DIM;
        total += part[1] * exp(part[0] - most);
    }
    if (p.has_sinks) total += exp(sinks[head] - most);
    for (uint i = get_local_id(0); i < VALUE_DIM; i += GROUP) {
        float sum = 0;
        for (uint s = 0; s < p.splits; s++) {
            global const float *part = parts + s * (VALUE_DIM + 2);
            sum += part[i] * exp(part[VALUE_DIM] - most);
        }
        output[p.output_offset + head * p.output_stride1 + (size_t)token * p.output_stride2 + i] =
            positions[p.positions_offset + token] < 0 ? 0 : sum / total;
    }
}
#endif

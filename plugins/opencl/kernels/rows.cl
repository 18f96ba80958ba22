// rows.cl: norms, sums, products, activations, rope, rows of activations, and writes to the cache: operations
// on rows of float32, with strides. Counts and strides are in words; work-items loop with a stride if there
// are fewer than items.

struct shape {
    uint n, n1, n2; // elements of a row; rows; planes
};

struct view {
    uint offset, stride1, stride2;
};

uint at(const struct view *view, uint i1, uint i2)
{
    return view->offset + i1 * view->stride1 + i2 * view->stride2;
}

// ---- Element by element -----------------------------------------------------------------------------------

#define ADD      0
#define MUL      1
#define ACTIVATE 2
#define GATED    3 // activation(a) * b

struct rows_parameters {
    struct shape shape;
    struct view a, b, output; // strides of 0 repeat a row of b
    uint b_is_one;            // number for each row of a
    uint op, activation;
    float limit, alpha;
};

float apply(const struct rows_parameters *p, float x, float y)
{
    if (p->op == ADD) return x + y;
    if (p->op == MUL) return x * y;
    x = activate(p->activation, x, p->limit, p->alpha);
    return p->op == GATED ? x * activate_factor(p->activation, y, p->limit) : x;
}

#ifdef VECTORS
float16 apply16(const struct rows_parameters *p, float16 x, float16 y)
{
    if (p->op == ADD) return x + y;
    if (p->op == MUL) return x * y;
    x = activate16(p->activation, x, p->limit, p->alpha);
    return p->op == GATED ? x * activate16_factor(p->activation, y, p->limit) : x;
}
#endif

// A work-item takes LANES elements of a row.
kernel void rows(global const float *a, global const float *b, global float *output,
                 const struct rows_parameters given)
{
    const struct rows_parameters p = given;
    bool two = p.op != ACTIVATE;
    uint step = p.b_is_one ? 0 : 1, items = (p.shape.n + LANES - 1) / LANES, total = items * p.shape.n1 * p.shape.n2;
    for (uint i = get_global_id(0); i < total; i += get_global_size(0)) {
        uint row = i / items, i0 = (i - row * items) * LANES, i2 = row / p.shape.n1, i1 = row - i2 * p.shape.n1;
        global const float *x = a + at(&p.a, i1, i2) + i0, *y = b + at(&p.b, i1, i2) + i0 * step;
        global float *to = output + at(&p.output, i1, i2) + i0;
#ifdef VECTORS
        if (i0 + 16 <= p.shape.n) {
            float16 other = !two ? (float16)(0) : p.b_is_one ? (float16)(*y) : vload16(0, y);
            vstore16(apply16(&p, vload16(0, x), other), 0, to);
            continue;
        }
#endif
        for (uint j = 0; j < LANES && i0 + j < p.shape.n; j++) to[j] = apply(&p, x[j], two ? y[j * step] : 0);
    }
}

// ---- Norm -------------------------------------------------------------------------------------------------

struct norm_parameters {
    struct shape shape;
    struct view input, output;
    uint is_layer; // the mean is subtracted first
    uint has_weight, has_bias;
    float epsilon;
};

#ifdef VECTORS
float lanes_sum(float16 x)
{
    float8 a = x.lo + x.hi;
    float4 b = a.lo + a.hi;
    return (b.x + b.y) + (b.z + b.w);
}

float row_sum(global const float *x, uint n)
{
    float16 sums = 0;
    uint i = 0;
    for (; i + 16 <= n; i += 16) sums += vload16(0, x + i);
    float sum = lanes_sum(sums);
    for (; i < n; i++) sum += x[i];
    return sum;
}

float square_sum(global const float *x, uint n, float mean)
{
    float16 sums = 0;
    uint i = 0;
    for (; i + 16 <= n; i += 16) {
        float16 part = vload16(0, x + i) - mean;
        sums += part * part;
    }
    float sum = lanes_sum(sums);
    for (; i < n; i++) sum += (x[i] - mean) * (x[i] - mean);
    return sum;
}

kernel void norm(global const float *input, global const float *weight, global const float *bias,
                 global float *output, const struct norm_parameters given)
{
    const struct norm_parameters p = given;
    for (uint row = get_global_id(0); row < p.shape.n1 * p.shape.n2; row += get_global_size(0)) {
        uint i2 = row / p.shape.n1, i1 = row - i2 * p.shape.n1, i = 0;
        global const float *from = input + at(&p.input, i1, i2);
        global float *to = output + at(&p.output, i1, i2);
        float mean = p.is_layer ? row_sum(from, p.shape.n) / p.shape.n : 0;
        float scale = 1 / sqrt(square_sum(from, p.shape.n, mean) / p.shape.n + p.epsilon);
        for (; i + 16 <= p.shape.n; i += 16) {
            float16 x = (vload16(0, from + i) - mean) * scale;
            if (p.has_weight) x *= vload16(0, weight + i);
            if (p.has_bias) x += vload16(0, bias + i);
            vstore16(x, 0, to + i);
        }
        for (; i < p.shape.n; i++)
            to[i] = (from[i] - mean) * scale * (p.has_weight ? weight[i] : 1) + (p.has_bias ? bias[i] : 0);
    }
}
#else
#ifdef SUBGROUPS
#pragma OPENCL EXTENSION cl_khr_subgroups : enable
#endif

// The sum over the work-group; all call it together.
float group_sum(float mine, local float *partial)
{
#ifdef SUBGROUPS
    mine = sub_group_reduce_add(mine);
    uint place = get_sub_group_id(), places = get_num_sub_groups();
    bool is_first = get_sub_group_local_id() == 0;
#else
    uint place = get_local_id(0), places = GROUP;
    bool is_first = true;
#endif
    float sum = 0;
    barrier(CLK_LOCAL_MEM_FENCE); // the previous contents have been used
    if (is_first) partial[place] = mine;
    barrier(CLK_LOCAL_MEM_FENCE);
    for (uint i = 0; i < places; i++) sum += partial[i];
    return sum;
}

kernel __attribute__((reqd_work_group_size(GROUP, 1, 1))) void
norm(global const float *input, global const float *weight, global const float *bias, global float *output,
     const struct norm_parameters given)
{
    local float partial[GROUP];
    const struct norm_parameters p = given;
    uint lane = get_local_id(0);
    for (uint row = get_group_id(0); row < p.shape.n1 * p.shape.n2; row += get_num_groups(0)) {
        uint i2 = row / p.shape.n1, i1 = row - i2 * p.shape.n1;
        uint from = at(&p.input, i1, i2), to = at(&p.output, i1, i2);
        float sum = 0, squares = 0, mean = 0;
        if (p.is_layer) {
            for (uint i = lane; i < p.shape.n; i += GROUP) sum += input[from + i];
            mean = group_sum(sum, partial) / p.shape.n;
        }
        for (uint i = lane; i < p.shape.n; i += GROUP) {
            float x = input[from + i] - mean;
            squares += x * x;
        }
        float scale = 1 / sqrt(group_sum(squares, partial) / p.shape.n + p.epsilon);
        for (uint i = lane; i < p.shape.n; i += GROUP)
            output[to + i] = (input[from + i] - mean) * scale * (p.has_weight ? weight[i] : 1) +
                             (p.has_bias ? bias[i] : 0);
    }
}
#endif

// ---- Rope -------------------------------------------------------------------------------------------------

struct rope_parameters {
    struct shape shape; // head_dim, heads, tokens
    struct view input, output;
    uint n_dims, halves, positions_offset;
    float magnitude;
};

// Cosine and sine of a fraction of a turn: the nearest quarter, and polynomials for the remainder.
float2 cos_sin(uint turn)
{
    uint quarter = (turn + 0x20000000u) >> 30;
    float x = (float)(int)(turn - (quarter << 30)) * 1.4629180792671596e-9f; // 2 pi / 2^32
    float xx = x * x;
    float s = (((xx / 362880 - 1.0f / 5040) * xx + 1.0f / 120) * xx - 1.0f / 6) * (xx * x) + x;
    float c = ((((xx / -3628800 + 1.0f / 40320) * xx - 1.0f / 720) * xx + 1.0f / 24) * xx - 0.5f) * xx + 1;
    return quarter == 0 ? (float2)(c, s) : quarter == 1 ? (float2)(-s, c) : quarter == 2 ? (float2)(-c, -s) : (float2)(s, -c);
}

// turns: the angle of each pair from one position to the next, as fractions of a turn in 64 bits, low and
// high word. A position times that, modulo 1, is an integer multiplication that overflows, so angles are
// exact at any position. A work-item takes a pair (or a copied value) in all heads of a token.
kernel void rope(global const float *input, global const int *positions, global const uint2 *turns,
                 global float *output, const struct rope_parameters given)
{
    const struct rope_parameters p = given;
    uint n_pairs = p.n_dims / 2, items = p.shape.n - n_pairs, total = items * p.shape.n2;
    for (uint i = get_global_id(0); i < total; i += get_global_size(0)) {
        uint token = i / items, item = i - token * items;
        if (item >= n_pairs) {
            uint which = item + n_pairs;
            for (uint head = 0; head < p.shape.n1; head++)
                output[at(&p.output, head, token) + which] = input[at(&p.input, head, token) + which];
            continue;
        }
        uint first = p.halves ? item : 2 * item, second = p.halves ? item + n_pairs : 2 * item + 1;
        uint position = positions[p.positions_offset + token];
        float2 turned = cos_sin(mul_hi(position, turns[item].x) + position * turns[item].y) * p.magnitude;
        for (uint head = 0; head < p.shape.n1; head++) {
            uint from = at(&p.input, head, token), to = at(&p.output, head, token);
            float x = input[from + first], y = input[from + second];
            output[to + first] = x * turned.x - y * turned.y;
            output[to + second] = x * turned.y + y * turned.x;
        }
    }
}

// ---- Rows of an activation --------------------------------------------------------------------------------

struct pick_parameters {
    uint n, count;
    uint source_offset, source_stride, rows_offset, output_offset, output_stride;
};

kernel void pick_rows(global const float *source, global const int *rows, global float *output,
                      const struct pick_parameters p)
{
    for (uint i = get_global_id(0); i < p.n * p.count; i += get_global_size(0)) {
        uint number = i / p.n, i0 = i - number * p.n;
        output[p.output_offset + number * p.output_stride + i0] =
            source[p.source_offset + rows[p.rows_offset + number] * p.source_stride + i0];
    }
}

// ---- Cache write ------------------------------------------------------------------------------------------

struct cache_parameters {
    struct shape shape; // head_dim, heads, tokens
    struct view input;
    uint slots_offset, block_size;
    uint type, cache_offset;
};

// float16 rounded to nearest, ties to even.
ushort half_bits(float value)
{
    uint bits = as_uint(value), sign = bits >> 16 & 0x8000u, magnitude = bits & 0x7fffffffu;
    if (magnitude > 0x7f800000u) return sign | 0x7e00u;
    if (magnitude >= 0x477ff000u) return sign | 0x7c00u;
    // denormal or zero: a sum with 0.5 leaves the rounded multiple of 2^-24 in the last bits
    if (magnitude < 0x38800000u)
        return sign | (as_uint(as_float(magnitude) + 0.5f) - 0x3f000000u);
    return sign | (magnitude - 0x38000000u + 0xfffu + (magnitude >> 13 & 1u)) >> 13;
}

// 32 values as a block of Q8_0.
void put_block(global uchar *to, global const float *from)
{
    float most = 0;
    for (uint j = 0; j < 32; j++) most = fmax(most, fabs(from[j]));
    float inverse = most > 0 ? 127 / most : 0;
    *(global ushort *)to = half_bits(most / 127);
    for (uint j = 0; j < 32; j++) to[2 + j] = (char)round(from[j] * inverse);
}

// A work-item writes up to 32 values of a row.
kernel void cache_write(global const float *input, global const int *slots, global uchar *cache,
                        const struct cache_parameters given)
{
    const struct cache_parameters p = given;
    uint items = (p.shape.n + 31) / 32, total = items * p.shape.n1 * p.shape.n2;
    for (uint i = get_global_id(0); i < total; i += get_global_size(0)) {
        uint row = i / items, first = (i - row * items) * 32, token = row / p.shape.n1, head = row - token * p.shape.n1;
        int slot = slots[p.slots_offset + token];
        if (slot < 0) continue;
        uint block = (uint)slot / p.block_size, in_block = (uint)slot - block * p.block_size;
        size_t cache_row = ((size_t)block * p.shape.n1 + head) * p.block_size + in_block;
        uint count = min(p.shape.n - first, 32u);
        global const float *from = input + at(&p.input, head, token) + first;
        global uchar *to = cache + (size_t)p.cache_offset * 4;
        if (p.type == TYPE_Q8_0) {
            put_block(to + (cache_row * (p.shape.n / 32) + first / 32) * 34, from);
        } else if (p.type == TYPE_F16) {
            global ushort *halves = (global ushort *)to + cache_row * p.shape.n + first;
            for (uint j = 0; j < count; j++) halves[j] = half_bits(from[j]);
        } else {
            global float *floats = (global float *)to + cache_row * p.shape.n + first;
            for (uint j = 0; j < count; j++) floats[j] = from[j];
        }
    }
}

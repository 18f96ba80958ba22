/* case-attention.c: the paged cache and attention; see cases.h. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "check/cases.h"
#include "check/formats.h"
#include "check/reference.h"

#define COUNT(array) (sizeof(array) / sizeof *(array))

struct cache {
    uint32_t type, dim;
    float *values;                /* [dim, n_kv_heads, position of all sequences] as written */
    double *kept;                 /* the same as stored in the cache's type */
    double largest;               /* the largest magnitude in kept */
    struct engine_tensor *tensor; /* [dim, block_size, n_kv_heads, n_blocks] */
};

struct attention_batch {
    uint32_t n_positions, n_blocks, max_blocks, n_tokens;
    uint32_t *starts;     /* [n_sequences] the index of each sequence's first position */
    int32_t *block_table; /* [max_blocks, n_sequences] */
    int32_t *slots;       /* [n_positions] */
    int32_t *sequences;   /* [n_tokens] */
    int32_t *positions;   /* [n_tokens, 2]: the second is the last position that a token sees */
};

static uint32_t length_of(const struct attention_case *c, uint32_t sequence)
{
    return c->length + 7 * sequence;
}

/* Lays the sequences out in blocks, in random order, with one block left free. */
static void lay_out(struct fixture *fixture, const struct attention_case *c, uint64_t *seed,
                    struct attention_batch *batch)
{
    batch->starts = fixture_room(fixture, c->n_sequences, sizeof *batch->starts);
    for (uint32_t s = 0; s < c->n_sequences; s++) {
        batch->starts[s] = batch->n_positions;
        batch->n_positions += length_of(c, s);
        uint32_t blocks = (length_of(c, s) + c->block_size - 1) / c->block_size;
        batch->n_blocks += blocks;
        if (blocks > batch->max_blocks) batch->max_blocks = blocks;
    }
    batch->n_blocks++;
    int32_t *order = fixture_room(fixture, batch->n_blocks, sizeof *order);
    for (uint32_t i = 0; i < batch->n_blocks; i++) order[i] = (int32_t)i;
    for (uint32_t i = batch->n_blocks - 1; i > 0; i--) {
        uint32_t j = random_bits(seed) % (i + 1);
        int32_t swap = order[i];
        order[i] = order[j], order[j] = swap;
    }
    batch->block_table =
        fixture_room(fixture, (size_t)batch->max_blocks * c->n_sequences, sizeof *batch->block_table);
    batch->slots = fixture_room(fixture, batch->n_positions, sizeof *batch->slots);
    memset(batch->block_table, 0x7f, (size_t)batch->max_blocks * c->n_sequences * sizeof *batch->block_table);
    uint32_t next = 0;
    for (uint32_t s = 0; s < c->n_sequences; s++)
        for (uint32_t p = 0; p < length_of(c, s); p++) {
            int32_t *block = &batch->block_table[s * batch->max_blocks + p / c->block_size];
            if (p % c->block_size == 0) *block = order[next++];
            batch->slots[batch->starts[s] + p] =
                *block * (int32_t)c->block_size + (int32_t)(p % c->block_size);
        }
}

/* The last positions of each sequence, in interleaved pieces. */
static void choose_tokens(struct fixture *fixture, const struct attention_case *c,
                          struct attention_batch *batch)
{
    enum { PIECE = 5 };
    batch->n_tokens = c->tokens * c->n_sequences;
    batch->sequences = fixture_room(fixture, batch->n_tokens, sizeof *batch->sequences);
    batch->positions = fixture_room(fixture, 2 * (size_t)batch->n_tokens, sizeof *batch->positions);
    uint32_t t = 0;
    for (uint32_t from = 0; from < c->tokens; from += PIECE)
        for (uint32_t s = 0; s < c->n_sequences; s++)
            for (uint32_t i = from; i < from + PIECE && i < c->tokens; i++, t++) {
                batch->sequences[t] = (int32_t)s;
                batch->positions[t] = (int32_t)(length_of(c, s) - c->tokens + i);
                int32_t *last = &batch->positions[batch->n_tokens + t];
                *last = batch->positions[t];
                if (c->ahead) *last += (int32_t)(t % 4 * 9);
                if (c->ahead && (t % 5 == 0 || *last >= (int32_t)length_of(c, s)))
                    *last = (int32_t)length_of(c, s) - 1;
                if (c->leave_out && t % 7 == 3) batch->positions[t] = -1;
            }
}

/* Index of a row among the cache's bytes, all rows dense: slot of a block, head. */
static size_t row_of(const struct attention_case *c, int32_t slot, uint32_t head)
{
    size_t block = (size_t)slot / c->block_size, within = (size_t)slot % c->block_size;
    return (block * c->n_kv_heads + head) * c->block_size + within;
}

/* The bytes of a cache that holds the values. Everything outside the sequences is NaN. */
static uint8_t *cache_bytes(struct fixture *fixture, const struct attention_case *c,
                            const struct attention_batch *batch, struct cache *cache)
{
    size_t dim = cache->dim, row = format_bytes(cache->type, dim);
    size_t n_rows = (size_t)c->block_size * c->n_kv_heads * batch->n_blocks;
    uint8_t *bytes = fixture_room(fixture, n_rows, row);
    memset(bytes, 0xff, n_rows * row);
    cache->kept = fixture_room(fixture, dim * c->n_kv_heads * batch->n_positions, sizeof *cache->kept);
    const struct format *format = format_of(cache->type);
    for (uint32_t p = 0; p < batch->n_positions; p++)
        for (uint32_t head = 0; head < c->n_kv_heads; head++) {
            size_t first = ((size_t)p * c->n_kv_heads + head) * dim;
            uint8_t *at = bytes + row_of(c, batch->slots[p], head) * row;
            reference_cache_row(cache->type, cache->values + first, dim, at);
            for (size_t d = 0; d < dim; d += format->block_length, at += format->block_size)
                block_values(format, at, cache->kept + first + d);
            for (size_t d = first; d < first + dim; d++)
                cache->largest = fmax(cache->largest, fabs(cache->kept[d]));
        }
    return bytes;
}

/* A cache in a buffer. Strides of float32 are multiples of 4, those of other types multiples of 2. */
static struct engine_tensor *cache_tensor(struct fixture *fixture, const struct attention_case *c,
                                          const struct attention_batch *batch, const struct cache *cache,
                                          const uint8_t *bytes)
{
    struct fixture_gaps gaps = c->cache_gaps;
    uint64_t ne[4] = {cache->dim, c->block_size, c->n_kv_heads, batch->n_blocks};
    if (cache->type == ENGINE_TYPE_F32) gaps.row *= 2, gaps.plane *= 2, gaps.volume *= 2;
    return fixture_view(fixture, cache->type, ne, &gaps, bytes);
}

/* `common`: the first value of all rows, unless 0. */
static struct cache make_cache(struct fixture *fixture, const struct attention_case *c,
                               const struct attention_batch *batch, uint32_t type, uint32_t dim,
                               uint64_t *seed, float common)
{
    struct cache cache = {.type = type, .dim = dim};
    size_t n = (size_t)dim * c->n_kv_heads * batch->n_positions;
    cache.values = fixture_hold(fixture, random_floats(seed, n));
    for (size_t i = 0; i < n && common != 0; i += dim) cache.values[i] = common;
    cache.tensor = cache_tensor(fixture, c, batch, &cache, cache_bytes(fixture, c, batch, &cache));
    return cache;
}

static float scale_of(const struct attention_case *c)
{
    return c->scale != 0 ? c->scale : 1 / sqrtf((float)c->head_dim);
}

/* Large scores: those of a query spread over c->size / 4, and all are shifted by c->size, up and down in
 * turn, through the first value, which all keys share. */
static void enlarge(const struct attention_case *c, float *q, size_t n, float common)
{
    float spread = c->size / 4 / (scale_of(c) * sqrtf((float)c->head_dim));
    for (size_t i = 0; i < n; i++) q[i] *= spread;
    for (size_t i = 0; i < n; i += c->head_dim)
        q[i] = (i / c->head_dim % 2 ? -c->size : c->size) / (scale_of(c) * common);
}

/* The first `dim` values of each key, at the place where it is stored. */
static struct cache within(struct fixture *fixture, const struct attention_case *c,
                           const struct attention_batch *batch, const struct cache *k, uint32_t dim)
{
    struct cache v = *k;
    size_t n_rows = (size_t)c->n_kv_heads * batch->n_positions;
    struct engine_tensor *tensor = fixture_room(fixture, 1, sizeof *tensor);
    *tensor = *k->tensor;
    tensor->ne[0] = dim;
    v.tensor = tensor;
    v.largest = 0;
    for (size_t i = 0; i < n_rows * dim; i++)
        v.largest = fmax(v.largest, fabs(v.kept[i / dim * k->dim + i % dim]));
    return v;
}

/* Slopes as in models, a half to the power of 0.5, 1, 1.5, …, and zeros. */
static float *make_slopes(struct fixture *fixture, uint32_t n_heads)
{
    float *slopes = fixture_room(fixture, n_heads, sizeof *slopes);
    for (uint32_t h = 0; h < n_heads; h++) slopes[h] = h % 5 == 4 ? 0 : exp2f(-0.5f * (float)(1 + h % 16));
    return slopes;
}

/* Biases for each distance and head, of the size of scores. Those of a head add up to no common shift. */
static float *make_biases(struct fixture *fixture, const struct attention_case *c, uint64_t *seed)
{
    size_t n = (2 * (size_t)c->distances + 1) * c->n_heads;
    float *biases = fixture_hold(fixture, random_floats(seed, n));
    for (size_t i = 0; i < n; i++) biases[i] *= c->size != 0 ? c->size / 4 : 2;
    return biases;
}

/* Sinks that hardly count, that count, and that outweigh everything else. */
static float *make_sinks(struct fixture *fixture, const struct attention_case *c)
{
    static const float sizes[] = {0.5f, -2, 3, 5, -40, 40};
    float *sinks = fixture_room(fixture, c->n_heads, sizeof *sinks);
    for (uint32_t h = 0; h < c->n_heads; h++)
        sinks[h] = sizes[h % (sizeof sizes / sizeof *sizes)] * (c->size != 0 ? c->size / 4 : 1);
    return sinks;
}

static int64_t first_seen(const struct attention_case *c, int64_t position)
{
    int64_t first = c->chunk ? position - position % c->chunk : c->window ? position - c->window + 1 : 0;
    return first < 0 ? 0 : first;
}

/* The keys of a row of weights: an odd number, more than any token sees. */
static size_t key_count(const struct attention_case *c)
{
    return length_of(c, c->n_sequences - 1) + 3 - length_of(c, c->n_sequences - 1) % 2;
}

static void check_attention(struct fixture *fixture, const struct attention_case *c,
                            const struct attention_batch *batch, const struct cache *k, const struct cache *v,
                            const float *q, const float *slopes, const float *sinks, const float *biases,
                            const float *output, const float *weights)
{
    size_t dim = v->tensor->ne[0], n = dim * c->n_heads * batch->n_tokens, n_keys = key_count(c);
    struct expected *expected = fixture_room(fixture, n, sizeof *expected);
    struct expected *expected_weights = fixture_room(fixture, n / dim * n_keys, sizeof *expected_weights);
    double *values = fixture_room(fixture, dim, sizeof *values), *shares = fixture_room(fixture, n_keys, 8);
    for (size_t i = 0; i < n / dim; i++) {
        size_t token = i / c->n_heads, head = i % c->n_heads, kv_head = head / (c->n_heads / c->n_kv_heads);
        int64_t position = batch->positions[token], first = first_seen(c, position);
        if (position < 0) continue; /* left out: expect zeros, also exactly zero where a token sees nothing */
        size_t row = (batch->starts[batch->sequences[token]] + (size_t)first) * c->n_kv_heads + kv_head;
        const struct seen seen = {
            .keys = k->kept + row * k->dim,
            .values = v->kept + row * v->dim,
            .n = (size_t)(batch->positions[batch->n_tokens + token] - first + 1),
            .n_ahead = (size_t)(batch->positions[batch->n_tokens + token] - position),
            .key_stride = (size_t)k->dim * c->n_kv_heads,
            .value_stride = (size_t)v->dim * c->n_kv_heads,
            .dim = k->dim,
            .value_dim = dim,
            .scale = (double)scale_of(c),
            .softcap = (double)c->softcap,
            .slope = c->slopes ? (double)slopes[head] : 0,
            .sink = c->sinks ? &sinks[head] : NULL,
            .biases = c->distances ? biases + head * (2 * (size_t)c->distances + 1) : NULL,
            .n_biases = c->distances,
        };
        double size;
        reference_attend(q + i * k->dim, &seen, values, shares, &size);
        for (size_t j = 0; j < seen.n; j++)
            expected_weights[i * n_keys + (size_t)first + j] =
                (struct expected){shares[j], reference_attention_bound(1, size)};
        for (size_t j = 0; j < dim; j++)
            expected[i * dim + j] = (struct expected){values[j], reference_attention_bound(v->largest, size)};
    }
    fixture_compare(fixture, "attention", output, expected, n);
    if (weights)
        fixture_compare(fixture, "weights of attention", weights, expected_weights, n / dim * n_keys);
}

static void attention_describe(struct fixture *fixture, const struct attention_case *c)
{
    fixture_describe(
        fixture, "%s and %s, head size %u, %u heads on %u, blocks of %u, %u sequences from %u, %u tokens",
        format_of(c->k_type)->name, c->v_type == c->k_type ? "the same" : format_of(c->v_type)->name,
        c->head_dim, c->n_heads, c->n_kv_heads, c->block_size, c->n_sequences, c->length, c->tokens);
    if (c->value_dim) fixture_describe_more(fixture, ", values of %u", c->value_dim);
    if (c->window) fixture_describe_more(fixture, ", window %u", c->window);
    if (c->chunk) fixture_describe_more(fixture, ", chunk %u", c->chunk);
    if (c->softcap > 0) fixture_describe_more(fixture, ", softcap %g", (double)c->softcap);
    if (c->scale != 0) fixture_describe_more(fixture, ", scale %g", (double)c->scale);
    if (c->size != 0) fixture_describe_more(fixture, ", scores %g", (double)c->size);
    fixture_describe_more(fixture, "%s%s%s%s", c->shared ? " within k" : "", c->slopes ? ", slopes" : "",
                          c->sinks ? ", sinks" : "", c->leave_out ? ", some left out" : "");
    if (c->weights) fixture_describe_more(fixture, ", weights wanted");
    if (c->ahead) fixture_describe_more(fixture, ", seeing ahead");
    if (c->distances) fixture_describe_more(fixture, ", biases for %u distances", c->distances);
    if (c->gaps.row || c->gaps.plane || c->cache_gaps.row || c->cache_gaps.plane || c->cache_gaps.volume)
        fixture_describe_more(fixture, ", gaps %u and %u, of caches %u, %u and %u", c->gaps.row,
                              c->gaps.plane, c->cache_gaps.row, c->cache_gaps.plane, c->cache_gaps.volume);
}

float *run_attention_case(struct fixture *fixture, const struct attention_case *c)
{
    uint64_t seed = c->head_dim + c->length * 11;
    struct attention_batch batch = {0};
    attention_describe(fixture, c);
    lay_out(fixture, c, &seed, &batch);
    choose_tokens(fixture, c, &batch);
    const float common = c->size != 0 ? 2 : 0;
    const uint32_t value_dim = c->value_dim ? c->value_dim : c->head_dim;
    struct cache k = make_cache(fixture, c, &batch, c->k_type, c->head_dim, &seed, common);
    struct cache v = c->shared ? within(fixture, c, &batch, &k, value_dim)
                               : make_cache(fixture, c, &batch, c->v_type, value_dim, &seed, 0);
    size_t n = (size_t)c->head_dim * c->n_heads * batch.n_tokens;
    float *q = fixture_hold(fixture, random_floats(&seed, n));
    float *slopes = make_slopes(fixture, c->n_heads), *sinks = make_sinks(fixture, c);
    float *biases = make_biases(fixture, c, &seed);
    if (c->size != 0) enlarge(c, q, n, common);
    uint64_t table_ne[4] = {batch.max_blocks, c->n_sequences, 1, 1};
    const struct fixture_gaps table_gaps = {.row = c->table_gap};
    struct engine_op_attention args = {
        .struct_size = sizeof args,
        .q = fixture_strided(fixture, c->head_dim, c->n_heads, batch.n_tokens, &c->gaps, q),
        .k = k.tensor,
        .v = v.tensor,
        .block_table = fixture_view(fixture, ENGINE_TYPE_I32, table_ne, &table_gaps, batch.block_table),
        .sequences = fixture_i32(fixture, batch.n_tokens, 1, batch.sequences),
        .positions = fixture_i32(fixture, batch.n_tokens, c->ahead ? 2 : 1, batch.positions),
        .output = fixture_strided(fixture, value_dim, c->n_heads, batch.n_tokens, &c->gaps, NULL),
        .scale = scale_of(c),
        .window = c->window,
        .slopes = c->slopes ? fixture_weight(fixture, ENGINE_TYPE_F32, c->n_heads, 1, ENGINE_WEIGHT_VALUES,
                                             false, slopes)
                            : NULL,
        .sinks = c->sinks ? fixture_weight(fixture, ENGINE_TYPE_F32, c->n_heads, 1, ENGINE_WEIGHT_VALUES,
                                           false, sinks)
                          : NULL,
        .softcap = c->softcap,
        .chunk = c->chunk,
        .weights = c->weights
                       ? fixture_strided(fixture, key_count(c), c->n_heads, batch.n_tokens, &c->gaps, NULL)
                       : NULL,
        .distance_bias = c->distances ? fixture_weight(fixture, ENGINE_TYPE_F32, 2 * c->distances + 1,
                                                       c->n_heads, ENGINE_WEIGHT_VALUES, false, biases)
                                      : NULL,
    };
    fixture_run(fixture, ENGINE_OP_ATTENTION, &args);
    float *output = fixture_hold(fixture, fixture_read(fixture, args.output)), *weights = NULL;
    if (c->weights) weights = fixture_hold(fixture, fixture_read(fixture, args.weights));
    check_attention(fixture, c, &batch, &k, &v, q, slopes, sinks, biases, output, weights);
    return fixture_release(fixture, output);
}

/* ---- Writing to the cache -------------------------------------------------------------------------- */

/* A row of Q8_0: d must be exact, and each value a step next to it, either one if both are equally near. */
static void check_q8_0_row(struct fixture *fixture, const float *values, const uint8_t *wanted,
                           const uint8_t *got, size_t dim)
{
    for (size_t i = 0; i < dim; i += 32, wanted += 34, got += 34) {
        double max = 0;
        for (size_t j = 0; j < 32; j++) {
            double size = fabs((double)values[i + j]);
            if (size > max) max = size; /* not fmax, which crashes GCC 12 for ARM */
        }
        if (memcmp(wanted, got, 2) != 0)
            fixture_fail(fixture, "cache write: d of a block is %.6g, not %.6g", get_half(got),
                         get_half(wanted));
        for (size_t j = 0; j < 32; j++) {
            double exact = (double)values[i + j] * 127 / max, off = fabs((int8_t)got[2 + j] - exact);
            if (!(off <= 0.5001))
                fixture_fail(fixture, "cache write: a value of %.4f steps became %d", exact,
                             (int8_t)got[2 + j]);
        }
    }
}

/* Checks the written rows, one by one, and then that everything else is unchanged. */
static void check_cache(struct fixture *fixture, const struct attention_case *c,
                        const struct attention_batch *batch, const struct cache *cache, const uint8_t *wanted,
                        uint8_t *got, size_t n_rows)
{
    size_t dim = c->head_dim, row = format_bytes(cache->type, dim);
    for (uint32_t p = 0; p < batch->n_positions; p++)
        for (uint32_t head = 0; head < c->n_kv_heads && batch->slots[p] >= 0; head++) {
            size_t at = row_of(c, batch->slots[p], head) * row;
            if (cache->type == ENGINE_TYPE_Q8_0)
                check_q8_0_row(fixture, cache->values + ((size_t)p * c->n_kv_heads + head) * dim, wanted + at,
                               got + at, dim);
            else if (memcmp(wanted + at, got + at, row) != 0)
                fixture_fail(fixture, "cache write: position %u, head %u differs", p, head);
            memset(got + at, 0xff, row);
        }
    for (size_t i = 0; i < n_rows * row; i++)
        if (got[i] != 0xff) fixture_fail(fixture, "cache write: a slot that isn't among `slots` was changed");
}

void run_cache_write_case(struct fixture *fixture, const struct attention_case *c)
{
    uint64_t seed = c->head_dim + c->length * 13;
    struct attention_batch batch = {0};
    fixture_describe(fixture, "%s, head size %u, %u heads, blocks of %u, %u sequences from %u%s",
                     format_of(c->k_type)->name, c->head_dim, c->n_kv_heads, c->block_size, c->n_sequences,
                     c->length, c->leave_out ? ", some left out" : "");
    lay_out(fixture, c, &seed, &batch);
    struct cache cache = {.type = c->k_type, .dim = c->head_dim};
    size_t dim = c->head_dim, row = format_bytes(cache.type, dim);
    size_t n_rows = (size_t)c->block_size * c->n_kv_heads * batch.n_blocks;
    cache.values = fixture_hold(fixture, random_floats(&seed, dim * c->n_kv_heads * batch.n_positions));
    uint8_t *wanted = cache_bytes(fixture, c, &batch, &cache), *start = fixture_room(fixture, n_rows, row);
    for (uint32_t p = 3; c->leave_out && p < batch.n_positions; p += 7) batch.slots[p] = -1;
    memset(start, 0xff, n_rows * row);
    cache.tensor = cache_tensor(fixture, c, &batch, &cache, start);
    struct engine_op_cache_write args = {
        sizeof args, fixture_strided(fixture, dim, c->n_kv_heads, batch.n_positions, &c->gaps, cache.values),
        fixture_i32(fixture, batch.n_positions, 1, batch.slots), cache.tensor};
    fixture_run(fixture, ENGINE_OP_CACHE_WRITE, &args);
    uint8_t *got = fixture_hold(fixture, fixture_read_rows(fixture, cache.tensor));
    check_cache(fixture, c, &batch, &cache, wanted, got, n_rows);
}

size_t attention_case_size(const struct attention_case *c)
{
    return (size_t)(c->value_dim ? c->value_dim : c->head_dim) * c->n_heads * c->tokens * c->n_sequences;
}

/* ---- Groups --------------------------------------------------------------------------------------- */

/* In caches of several types, each also with a batch of fewer tokens and more sequences. */
static void each_cache(const char *form, const struct attention_case *base, case_visitor *visit, void *user)
{
    static const uint32_t types[][2] = {{ENGINE_TYPE_F32, ENGINE_TYPE_F32},
                                        {ENGINE_TYPE_F16, ENGINE_TYPE_F16},
                                        {ENGINE_TYPE_Q8_0, ENGINE_TYPE_Q8_0},
                                        {ENGINE_TYPE_F16, ENGINE_TYPE_Q8_0}};
    for (size_t i = 0; i < COUNT(types); i++) {
        struct some_case c = {CASE_ATTENTION, form, false, {.attention = *base}};
        struct attention_case *attention = &c.as.attention;
        const bool whole = attention->head_dim % 32 == 0 && attention->value_dim % 32 == 0;
        attention->k_type = types[i][0], attention->v_type = types[i][1];
        if (types[i][1] == ENGINE_TYPE_Q8_0 && !whole) continue;
        if (attention->shared && types[i][0] != types[i][1]) continue;
        visit(user, &c);
        attention->n_sequences++;
        attention->length = base->length / 3 + 1;
        if (attention->tokens > attention->length) attention->tokens = attention->length;
        c.again = true;
        visit(user, &c);
    }
}

/* Shapes that every option is tried with: one token at a late position, a prompt, parts of two sequences with
 * gaps, a long batch. */
static const struct attention_case shapes[] = {
    {.head_dim = 64,
     .n_heads = 8,
     .n_kv_heads = 2,
     .block_size = 16,
     .n_sequences = 1,
     .length = 300,
     .tokens = 1},
    {.head_dim = 80,
     .n_heads = 6,
     .n_kv_heads = 2,
     .block_size = 64,
     .n_sequences = 1,
     .length = 70,
     .tokens = 70},
    {.head_dim = 96,
     .n_heads = 7,
     .n_kv_heads = 7,
     .block_size = 7,
     .n_sequences = 2,
     .length = 33,
     .tokens = 11,
     .gaps = {8, 4, 0},
     .cache_gaps = {0, 12, 4},
     .table_gap = 8},
    {.head_dim = 32,
     .n_heads = 4,
     .n_kv_heads = 1,
     .block_size = 32,
     .n_sequences = 2,
     .length = 250,
     .tokens = 40,
     .leave_out = true},
    {.head_dim = 64,
     .n_heads = 12,
     .n_kv_heads = 2,
     .block_size = 16,
     .n_sequences = 2,
     .length = 90,
     .tokens = 3,
     .size = 200},
};

enum attention_option {
    SLOPES,
    SINKS,
    SOFTCAP,
    CHUNK,
    TOGETHER,
    WEIGHTS,
    WEIGHTS_TOGETHER,
    AHEAD,
    AHEAD_TOGETHER,
    WEIGHTS_AHEAD,
    DISTANCES,
    DISTANCES_AHEAD,
    DISTANCES_TOGETHER,
    DISTANCES_WEIGHTS
};

static void each_attention(const struct case_group *group, case_visitor *visit, void *user)
{
    static const uint32_t windows[] = {0, 30, 0, 17, 40}, chunks[] = {64, 16, 7, 100, 1},
                          distances[] = {128, 1, 20, 40, 7};
    for (size_t i = 0; i < COUNT(shapes); i++) {
        struct attention_case c = shapes[i];
        const float softcap = c.size != 0 ? 50 : 1.5f;
        if (group->argument != CHUNK) c.window = windows[i];
        switch ((enum attention_option)group->argument) {
        case SLOPES: c.slopes = true; break;
        case SINKS: c.sinks = true; break;
        case SOFTCAP: c.softcap = softcap; break;
        case CHUNK: c.chunk = chunks[i]; break;
        case WEIGHTS: c.weights = true; break;
        case AHEAD: c.ahead = true; break;
        case WEIGHTS_AHEAD: c.weights = c.ahead = c.slopes = true; break;
        case DISTANCES_WEIGHTS: c.weights = true, c.distances = distances[i]; break;
        case DISTANCES: c.distances = distances[i]; break;
        case DISTANCES_AHEAD: c.ahead = true, c.distances = distances[i]; break;
        case DISTANCES_TOGETHER: c.distances = distances[i], c.ahead = true;    /* fall through */
        case AHEAD_TOGETHER: c.ahead = true;                                    /* fall through */
        case WEIGHTS_TOGETHER: c.weights = group->argument == WEIGHTS_TOGETHER; /* fall through */
        case TOGETHER:
            c.slopes = c.distances == 0;
            c.sinks = true, c.softcap = softcap;
            if (c.window == 0) c.chunk = chunks[i];
            break;
        }
        each_cache(c.window ? "window" : "no window", &c, visit, user);
    }
}

enum value_size { OWN_SIZE, WITHIN, WITHIN_WEIGHTS };

/* Values shorter and longer than keys, and inside them as in latent attention. */
static void each_value_size(const struct case_group *group, case_visitor *visit, void *user)
{
    static const struct attention_case cases[] = {
        {.head_dim = 192,
         .n_heads = 4,
         .n_kv_heads = 4,
         .block_size = 16,
         .n_sequences = 1,
         .length = 60,
         .tokens = 13,
         .value_dim = 128},
        {.head_dim = 32,
         .n_heads = 6,
         .n_kv_heads = 2,
         .block_size = 32,
         .n_sequences = 2,
         .length = 200,
         .tokens = 1,
         .value_dim = 96,
         .gaps = {4, 12, 0},
         .cache_gaps = {0, 36, 0}},
        {.head_dim = 10,
         .n_heads = 4,
         .n_kv_heads = 2,
         .block_size = 5,
         .n_sequences = 2,
         .length = 21,
         .tokens = 21,
         .value_dim = 6,
         .leave_out = true},
        {.head_dim = 576,
         .n_heads = 16,
         .n_kv_heads = 1,
         .block_size = 32,
         .n_sequences = 1,
         .length = 150,
         .tokens = 1,
         .value_dim = 512,
         .shared = true},
        {.head_dim = 96,
         .n_heads = 5,
         .n_kv_heads = 1,
         .block_size = 8,
         .n_sequences = 2,
         .length = 40,
         .tokens = 40,
         .value_dim = 64,
         .shared = true,
         .cache_gaps = {0, 8, 8}},
        {.head_dim = 20,
         .n_heads = 6,
         .n_kv_heads = 3,
         .block_size = 16,
         .n_sequences = 2,
         .length = 50,
         .tokens = 9,
         .value_dim = 13,
         .shared = true,
         .window = 20},
        {.head_dim = 64,
         .n_heads = 6,
         .n_kv_heads = 2,
         .block_size = 16,
         .n_sequences = 2,
         .length = 70,
         .tokens = 30,
         .shared = true},
        {.head_dim = 64,
         .n_heads = 4,
         .n_kv_heads = 2,
         .block_size = 16,
         .n_sequences = 2,
         .length = 100,
         .tokens = 20,
         .value_dim = 32,
         .slopes = true,
         .sinks = true,
         .softcap = 2,
         .chunk = 48},
        {.head_dim = 96,
         .n_heads = 4,
         .n_kv_heads = 1,
         .block_size = 16,
         .n_sequences = 2,
         .length = 100,
         .tokens = 20,
         .value_dim = 64,
         .shared = true,
         .slopes = true,
         .sinks = true,
         .softcap = 2,
         .window = 33},
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        struct attention_case c = cases[i];
        c.weights = group->argument == WITHIN_WEIGHTS;
        if (c.shared == (group->argument != OWN_SIZE)) each_cache(NULL, &c, visit, user);
    }
}

static const struct case_group groups[] = {
    {"attention", "slopes", each_attention, SLOPES},
    {"attention", "sinks", each_attention, SINKS},
    {"attention", "soft cap", each_attention, SOFTCAP},
    {"attention", "chunks", each_attention, CHUNK},
    {"attention", "all of these", each_attention, TOGETHER},
    {"attention", "values of another size", each_value_size, OWN_SIZE},
    {"attention", "values within keys", each_value_size, WITHIN},
    {"attention ahead", "windows", each_attention, AHEAD},
    {"attention ahead", "slopes, sinks, soft cap, chunks", each_attention, AHEAD_TOGETHER},
    {"attention distances", "windows", each_attention, DISTANCES},
    {"attention distances", "seeing ahead", each_attention, DISTANCES_AHEAD},
    {"attention distances", "sinks, soft cap, chunks", each_attention, DISTANCES_TOGETHER},
    {"attention weights", "windows", each_attention, WEIGHTS},
    {"attention weights", "seeing ahead", each_attention, WEIGHTS_AHEAD},
    {"attention weights", "biases by distance", each_attention, DISTANCES_WEIGHTS},
    {"attention weights", "slopes, sinks, soft cap, chunks", each_attention, WEIGHTS_TOGETHER},
    {"attention weights", "values within keys", each_value_size, WITHIN_WEIGHTS},
};

void each_attention_group(group_visitor *visit, void *user)
{
    for (size_t i = 0; i < COUNT(groups); i++) visit(user, &groups[i]);
}

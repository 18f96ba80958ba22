/* case-attention.c: the paged cache and attention; see cases.h. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "check/case-cache.h"
#include "check/formats.h"
#include "check/reference.h"

#define COUNT(array) (sizeof(array) / sizeof *(array))

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
static struct case_cache within(struct fixture *fixture, const struct attention_case *c,
                                const struct case_batch *batch, const struct case_cache *k, uint32_t dim)
{
    struct case_cache v = *k;
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

/* The positions that each token sees, [n_picked, n_tokens]: of all up to its last, also beyond a window. Some
 * tokens see none, and others as many as there are. */
static int32_t *make_picked(struct fixture *fixture, const struct attention_case *c,
                            const struct case_batch *batch, uint64_t *seed)
{
    int32_t *picked = fixture_room(fixture, (size_t)c->n_picked * batch->n_tokens + 1, sizeof *picked);
    for (size_t t = 0; t < batch->n_tokens; t++) {
        uint32_t n = (uint32_t)batch->positions[batch->n_tokens + t] + 1, k = 0;
        for (uint32_t j = 0; j < n && k < c->n_picked && t % 9 != 5; j++)
            if (n - j <= c->n_picked - k || random_bits(seed) % n < c->n_picked + c->n_picked / 4)
                picked[t * c->n_picked + k++] = (int32_t)j;
        for (; k < c->n_picked; k++) picked[t * c->n_picked + k] = -1;
    }
    return picked;
}

/* Which of n positions from `first` on a token sees, [n]; NULL: all. */
static const bool *make_hidden(struct fixture *fixture, const struct attention_case *c, const int32_t *picked,
                               int64_t first, size_t n)
{
    if (c->n_picked == 0) return NULL;
    bool *hidden = fixture_room(fixture, n, sizeof *hidden);
    memset(hidden, true, n);
    for (size_t i = 0; i < c->n_picked; i++)
        if (picked[i] >= first) hidden[picked[i] - first] = false;
    return hidden;
}

static int64_t first_seen(const struct attention_case *c, int64_t position)
{
    int64_t first = c->chunk ? position - position % c->chunk : c->window ? position - c->window + 1 : 0;
    return first < 0 ? 0 : first;
}

/* The keys of a row of weights: an odd number, more than any token sees. */
static size_t key_count(const struct attention_case *c)
{
    return case_length(c, c->n_sequences - 1) + 3 - case_length(c, c->n_sequences - 1) % 2;
}

/* What another attention has given: values [dim, n_heads, tokens], logsums [n_heads, tokens]. Every fourth
 * head has seen nothing. */
struct earlier {
    float *values, *logsums;
    double largest; /* of the values' magnitudes */
};

static struct earlier make_earlier(struct fixture *fixture, const struct attention_case *c, size_t dim,
                                   size_t n_tokens, uint64_t *seed)
{
    const size_t n = (size_t)c->n_heads * n_tokens;
    struct earlier earlier = {fixture_hold(fixture, random_floats(seed, n * dim)),
                              fixture_hold(fixture, random_floats(seed, n)), 0};
    for (size_t i = 0; i < n; i++) {
        earlier.logsums[i] = i % 4 == 3 ? -1e30f : earlier.logsums[i] * (c->size != 0 ? c->size : 5);
        for (size_t j = 0; j < dim; j++) {
            float *value = &earlier.values[i * dim + j];
            if (i % 4 == 3) *value = 0;
            if (fabs((double)*value) > earlier.largest) earlier.largest = fabs((double)*value);
        }
    }
    return earlier;
}

static bool is_spoiled(const struct attention_case *c, const struct case_batch *batch, size_t token)
{
    return c->spoiled && batch->sequences[token] == (int32_t)c->n_sequences - 1;
}

static void check_attention(struct fixture *fixture, const struct attention_case *c,
                            const struct case_batch *batch, const struct case_cache *k,
                            const struct case_cache *v, const float *q, const float *slopes,
                            const float *sinks, const float *biases, const int32_t *picked,
                            const struct earlier *earlier, const float *output, const float *weights,
                            const float *logsums)
{
    size_t dim = v->tensor->ne[0], n = dim * c->n_heads * batch->n_tokens, n_keys = key_count(c);
    struct expected *expected = fixture_room(fixture, n, sizeof *expected);
    struct expected *expected_weights = fixture_room(fixture, n / dim * n_keys, sizeof *expected_weights),
                    *expected_logsums = fixture_room(fixture, n / dim, sizeof *expected_logsums);
    const double largest = c->earlier && earlier->largest > v->largest ? earlier->largest : v->largest;
    double *values = fixture_room(fixture, dim, sizeof *values), *shares = fixture_room(fixture, n_keys, 8);
    for (size_t i = 0; i < n / dim; i++) {
        size_t token = i / c->n_heads, head = i % c->n_heads, kv_head = head / (c->n_heads / c->n_kv_heads);
        int64_t position = batch->positions[token], first = first_seen(c, position);
        if (is_spoiled(c, batch, token)) continue; /* run_attention_case has put zeros there */
        if (position < 0) expected_logsums[i] = (struct expected){-1e30, 1e24};
        if (position < 0 && !c->earlier) continue; /* expect zeros, also exactly zero where it sees nothing */
        if (position < 0) first = 0;
        size_t row = (batch->starts[batch->sequences[token]] + (size_t)first) * c->n_kv_heads + kv_head;
        const struct seen seen = {
            .keys = k->kept + row * k->dim,
            .values = v->kept + row * v->dim,
            .n = position < 0 ? 0 : (size_t)(batch->positions[batch->n_tokens + token] - first + 1),
            .n_ahead = position < 0 ? 0 : (size_t)(batch->positions[batch->n_tokens + token] - position),
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
            .hidden = make_hidden(fixture, c, picked + token * c->n_picked, first,
                                  (size_t)(batch->positions[batch->n_tokens + token] - first + 1)),
            .earlier = c->earlier ? earlier->values + i * dim : NULL,
            .earlier_logsum = c->earlier ? (double)earlier->logsums[i] : 0,
        };
        double size, logsum = reference_attend(q + i * k->dim, &seen, values, shares, &size);
        expected_logsums[i] = (struct expected){logsum, logsum > -1e30 ? 2e-6 * fmax(1, size) : 1e24};
        for (size_t j = 0; j < seen.n; j++)
            expected_weights[i * n_keys + (size_t)first + j] =
                (struct expected){shares[j], reference_attention_bound(1, size)};
        for (size_t j = 0; j < dim; j++)
            expected[i * dim + j] = (struct expected){values[j], reference_attention_bound(largest, size)};
    }
    fixture_compare(fixture, "attention", output, expected, n);
    if (weights)
        fixture_compare(fixture, "weights of attention", weights, expected_weights, n / dim * n_keys);
    if (logsums) fixture_compare(fixture, "logsums of attention", logsums, expected_logsums, n / dim);
}

static void describe(struct fixture *fixture, const struct attention_case *c)
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
    if (c->spoiled) fixture_describe_more(fixture, ", no numbers in the last sequence");
    if (c->distances) fixture_describe_more(fixture, ", biases for %u distances", c->distances);
    if (c->n_picked) fixture_describe_more(fixture, ", %u positions picked", c->n_picked);
    if (c->earlier) fixture_describe_more(fixture, ", after another part");
    if (c->logsums) fixture_describe_more(fixture, ", logsums wanted");
    if (c->gaps.row || c->gaps.plane || c->cache_gaps.row || c->cache_gaps.plane || c->cache_gaps.volume)
        fixture_describe_more(fixture, ", gaps %u and %u, of caches %u, %u and %u", c->gaps.row,
                              c->gaps.plane, c->cache_gaps.row, c->cache_gaps.plane, c->cache_gaps.volume);
}

float *run_attention_case(struct fixture *fixture, const struct attention_case *c)
{
    uint64_t seed = c->head_dim + c->length * 11;
    struct case_batch batch = {0};
    describe(fixture, c);
    case_lay_out(fixture, c, &seed, &batch);
    case_choose_tokens(fixture, c, &batch);
    const float common = c->size != 0 ? 2 : 0;
    const uint32_t value_dim = c->value_dim ? c->value_dim : c->head_dim;
    struct case_cache k = case_make_cache(fixture, c, &batch, c->k_type, c->head_dim, &seed, common);
    struct case_cache v = c->shared ? within(fixture, c, &batch, &k, value_dim)
                                    : case_make_cache(fixture, c, &batch, c->v_type, value_dim, &seed, 0);
    size_t n = (size_t)c->head_dim * c->n_heads * batch.n_tokens;
    float *q = fixture_hold(fixture, random_floats(&seed, n));
    float *slopes = make_slopes(fixture, c->n_heads), *sinks = make_sinks(fixture, c);
    float *biases = make_biases(fixture, c, &seed), *logsums = NULL;
    int32_t *picked = make_picked(fixture, c, &batch, &seed);
    const struct earlier earlier = make_earlier(fixture, c, value_dim, batch.n_tokens, &seed);
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
        .picked = c->n_picked ? fixture_i32(fixture, c->n_picked, batch.n_tokens, picked) : NULL,
        .earlier = c->earlier ? fixture_strided(fixture, value_dim, c->n_heads, batch.n_tokens, &c->gaps,
                                                earlier.values)
                              : NULL,
        .earlier_logsums =
            c->earlier ? fixture_strided(fixture, c->n_heads, batch.n_tokens, 1, &c->gaps, earlier.logsums)
                       : NULL,
        .logsums =
            c->logsums ? fixture_strided(fixture, c->n_heads, batch.n_tokens, 1, &c->gaps, NULL) : NULL,
    };
    fixture_run(fixture, ENGINE_OP_ATTENTION, &args);
    float *output = fixture_hold(fixture, fixture_read(fixture, args.output)), *weights = NULL;
    for (size_t i = 0, row = (size_t)value_dim * c->n_heads; i < batch.n_tokens; i++)
        if (is_spoiled(c, &batch, i)) memset(output + i * row, 0, row * sizeof *output);
    if (c->weights) weights = fixture_hold(fixture, fixture_read(fixture, args.weights));
    if (c->logsums) logsums = fixture_hold(fixture, fixture_read(fixture, args.logsums));
    check_attention(fixture, c, &batch, &k, &v, q, slopes, sinks, biases, picked, &earlier, output, weights,
                    logsums);
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
                        const struct case_batch *batch, const struct case_cache *cache, const uint8_t *wanted,
                        uint8_t *got, size_t n_rows)
{
    size_t dim = c->head_dim, row = format_bytes(cache->type, dim);
    for (uint32_t p = 0; p < batch->n_positions; p++)
        for (uint32_t head = 0; head < c->n_kv_heads && batch->slots[p] >= 0; head++) {
            size_t at = case_row_of(c, batch->slots[p], head) * row;
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
    struct case_batch batch = {0};
    fixture_describe(fixture, "%s, head size %u, %u heads, blocks of %u, %u sequences from %u%s",
                     format_of(c->k_type)->name, c->head_dim, c->n_kv_heads, c->block_size, c->n_sequences,
                     c->length, c->leave_out ? ", some left out" : "");
    case_lay_out(fixture, c, &seed, &batch);
    struct case_cache cache = {.type = c->k_type, .dim = c->head_dim};
    size_t dim = c->head_dim, row = format_bytes(cache.type, dim);
    size_t n_rows = (size_t)c->block_size * c->n_kv_heads * batch.n_blocks;
    cache.values = fixture_hold(fixture, random_floats(&seed, dim * c->n_kv_heads * batch.n_positions));
    uint8_t *wanted = case_cache_bytes(fixture, c, &batch, &cache),
            *start = fixture_room(fixture, n_rows, row);
    for (uint32_t p = 3; c->leave_out && p < batch.n_positions; p += 7) batch.slots[p] = -1;
    memset(start, 0xff, n_rows * row);
    cache.tensor = case_cache_tensor(fixture, c, &batch, &cache, start);
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
    DISTANCES_WEIGHTS,
    PICKED,
    PICKED_TOGETHER,
    PICKED_DISTANCES,
    PARTS_FIRST,
    PARTS_LAST,
    PARTS_BETWEEN
};

static void each_attention(const struct case_group *group, case_visitor *visit, void *user)
{
    static const uint32_t windows[] = {0, 30, 0, 17, 40}, chunks[] = {64, 16, 7, 100, 1},
                          distances[] = {128, 1, 20, 40, 7}, picked[] = {270, 40, 9, 64, 33};
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
        case PICKED: c.n_picked = picked[i], c.weights = i % 2; break;
        case PICKED_DISTANCES: c.n_picked = picked[i], c.distances = distances[i], c.ahead = true; break;
        case DISTANCES: c.distances = distances[i]; break;
        case PARTS_FIRST: c.logsums = true; break;
        case PARTS_LAST: c.earlier = c.sinks = true; break;
        case PARTS_BETWEEN: c.earlier = c.logsums = c.slopes = true; break;
        case DISTANCES_AHEAD: c.ahead = true, c.distances = distances[i]; break;
        case DISTANCES_TOGETHER: c.distances = distances[i], c.ahead = true;    /* fall through */
        case AHEAD_TOGETHER: c.ahead = true;                                    /* fall through */
        case WEIGHTS_TOGETHER: c.weights = group->argument == WEIGHTS_TOGETHER; /* fall through */
        case PICKED_TOGETHER:
            if (group->argument == PICKED_TOGETHER)
                c.n_picked = picked[i], c.weights = true; /* fall through */
        case TOGETHER:
            c.slopes = c.distances == 0;
            c.sinks = true, c.softcap = softcap;
            if (c.window == 0) c.chunk = chunks[i];
            break;
        }
        each_cache(c.window ? "window" : "no window", &c, visit, user);
    }
}

enum value_size { OWN_SIZE, WITHIN, WITHIN_WEIGHTS, WITHIN_PICKED };

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
        if (group->argument == WITHIN_PICKED) c.n_picked = c.length / 2;
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
    {"attention parts", "first", each_attention, PARTS_FIRST},
    {"attention parts", "last, sinks", each_attention, PARTS_LAST},
    {"attention parts", "between, slopes", each_attention, PARTS_BETWEEN},
    {"attention weights", "windows", each_attention, WEIGHTS},
    {"attention weights", "seeing ahead", each_attention, WEIGHTS_AHEAD},
    {"attention weights", "biases by distance", each_attention, DISTANCES_WEIGHTS},
    {"attention weights", "slopes, sinks, soft cap, chunks", each_attention, WEIGHTS_TOGETHER},
    {"attention weights", "values within keys", each_value_size, WITHIN_WEIGHTS},
    {"attention picked", "windows, weights", each_attention, PICKED},
    {"attention picked", "slopes, sinks, soft cap, chunks", each_attention, PICKED_TOGETHER},
    {"attention picked", "biases by distance, seeing ahead", each_attention, PICKED_DISTANCES},
    {"attention picked", "values within keys", each_value_size, WITHIN_PICKED},
};

void each_attention_group(group_visitor *visit, void *user)
{
    for (size_t i = 0; i < COUNT(groups); i++) visit(user, &groups[i]);
}

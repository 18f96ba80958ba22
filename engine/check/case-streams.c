/* case-streams.c: streams of states that are mixed, the weights of hyper-connections, and rows that blocks of
 * positions are pooled into; see cases.h. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "check/cases.h"
#include "check/formats.h"
#include "check/reference.h"

#define COUNT(array) (sizeof(array) / sizeof *(array))

/* ---- Mix ------------------------------------------------------------------------------------------- */

enum { MIX_MOST = 16 }; /* streams of a case */

/* Output row k of token t; rows are [n]. */
static void expect_mixed(const struct mix_case *c, const float *x, const float *weights, const float *addend,
                         const float *scales, size_t t, size_t k, struct expected *out)
{
    float numbers[MIX_MOST + 1], shares[MIX_MOST + 1];
    for (size_t i = 0; i < c->n; i++) {
        size_t m = 0;
        for (size_t j = 0; j < c->n_in; j++) {
            if (c->no_weights && j != k) continue;
            numbers[m] = x[(t * c->n_in + j) * c->n + i];
            shares[m++] = c->no_weights ? 1 : weights[(t * c->n_out + k) * c->n_in + j];
        }
        if (c->addend) numbers[m] = addend[t * c->n + i];
        if (c->addend) shares[m++] = scales[(c->of_weight ? 0 : t * c->n_out) + k];
        out[i] = reference_sum(numbers, shares, m);
    }
}

float *run_mix_case(struct fixture *fixture, const struct mix_case *c)
{
    uint64_t seed = c->n * 31 + c->n_in * 7 + c->tokens;
    const size_t n = c->n, tokens = c->tokens, n_rows = (size_t)c->n_out * tokens;
    float *x = fixture_hold(fixture, random_floats(&seed, n * c->n_in * tokens)),
          *weights = fixture_hold(fixture, random_floats(&seed, c->n_in * n_rows)),
          *addend = fixture_hold(fixture, random_floats(&seed, n * tokens)),
          *scales = fixture_hold(fixture, random_floats(&seed, n_rows));
    fixture_describe(fixture, "%u values, %u rows to %u, %u tokens, gaps %u and %u%s%s%s", c->n, c->n_in,
                     c->n_out, c->tokens, c->gaps.row, c->gaps.plane,
                     c->no_weights ? ", without weights" : "", c->addend ? ", addend" : "",
                     c->of_weight ? " scaled by a weight" : "");
    struct engine_tensor *of_scales = NULL;
    if (c->addend)
        of_scales = c->of_weight ? fixture_weight(fixture, ENGINE_TYPE_F32, c->n_out, 1, ENGINE_WEIGHT_VALUES,
                                                  false, scales)
                                 : fixture_strided(fixture, c->n_out, tokens, 1, &c->gaps, scales);
    struct engine_op_mix args = {
        .struct_size = sizeof args,
        .input = fixture_strided(fixture, n, c->n_in, tokens, &c->gaps, x),
        .weights =
            c->no_weights ? NULL : fixture_strided(fixture, c->n_in, c->n_out, tokens, &c->gaps, weights),
        .addend = c->addend ? fixture_strided(fixture, n, tokens, 1, &c->gaps, addend) : NULL,
        .scales = of_scales,
        .output = fixture_strided(fixture, n, c->n_out, tokens, &c->gaps, NULL),
    };
    fixture_run(fixture, ENGINE_OP_MIX, &args);
    float *result = fixture_hold(fixture, fixture_read(fixture, args.output));
    struct expected *expected = fixture_room(fixture, n * n_rows, sizeof *expected);
    for (size_t r = 0; r < n_rows; r++)
        expect_mixed(c, x, weights, addend, scales, r / c->n_out, r % c->n_out, expected + r * n);
    fixture_compare(fixture, "mix", result, expected, n * n_rows);
    return fixture_release(fixture, result);
}

size_t mix_case_size(const struct mix_case *c)
{
    return (size_t)c->n * c->n_out * c->tokens;
}

static void each_mix(const struct case_group *group, case_visitor *visit, void *user)
{
    static const struct mix_case cases[] = {
        {.n = 64, .n_in = 4, .n_out = 4},
        {.n = 1, .n_in = 1, .n_out = 1, .gaps = {4, 0, 0}},
        {.n = 33, .n_in = 2, .n_out = 2, .gaps = {0, 12, 0}},
        {.n = 300, .n_in = 8, .n_out = 8, .gaps = {8, 20, 0}},
        {.n = 2048, .n_in = 3, .n_out = 3},
        {.n = 70, .n_in = 4, .n_out = 1},
        {.n = 17, .n_in = 2, .n_out = 5, .gaps = {4, 4, 0}},
    };
    static const uint32_t tokens[] = {1, 6, 37};
    for (size_t i = 0; i < COUNT(cases); i++)
        for (size_t j = 0; j < COUNT(tokens); j++) {
            struct some_case c = {CASE_MIX, NULL, j > 0, {.mix = cases[i]}};
            c.as.mix.no_weights = group->argument & 1;
            c.as.mix.addend = group->argument & 2;
            c.as.mix.of_weight = group->argument & 4;
            c.as.mix.tokens = tokens[j];
            if (!c.as.mix.no_weights || cases[i].n_in == cases[i].n_out) visit(user, &c);
        }
}

/* ---- Hyper ----------------------------------------------------------------------------------------- */

static size_t hyper_width(const struct hyper_case *c)
{
    return c->whole ? (size_t)c->n * (c->n + 2) : c->n;
}

float *run_hyper_case(struct fixture *fixture, const struct hyper_case *c)
{
    uint64_t seed = c->n * 31 + c->tokens;
    const size_t width = hyper_width(c), n = width * c->tokens;
    float *x = fixture_hold(fixture, random_floats(&seed, n)),
          *base = fixture_hold(fixture, random_floats(&seed, width)),
          *scale = fixture_hold(fixture, random_floats(&seed, 3));
    for (size_t i = 0; i < n && c->size != 0; i++) x[i] *= c->size;
    fixture_describe(fixture,
                     "%u streams, %zu numbers, %u tokens, %u iterations, epsilon %g, inputs of %g, gap %u",
                     c->n, width, c->tokens, c->n_iterations, (double)c->epsilon, (double)c->size, c->gap);
    const struct fixture_gaps gaps = {.row = c->gap};
    struct engine_op_hyper args = {
        .struct_size = sizeof args,
        .input = fixture_strided(fixture, width, c->tokens, 1, &gaps, x),
        .scale =
            fixture_weight(fixture, ENGINE_TYPE_F32, c->whole ? 3 : 1, 1, ENGINE_WEIGHT_VALUES, false, scale),
        .base = fixture_weight(fixture, ENGINE_TYPE_F32, width, 1, ENGINE_WEIGHT_VALUES, false, base),
        .output = fixture_strided(fixture, width, c->tokens, 1, &gaps, NULL),
        .n = c->n,
        .n_iterations = c->n_iterations,
        .epsilon = c->epsilon,
    };
    fixture_run(fixture, ENGINE_OP_HYPER, &args);
    float *result = fixture_hold(fixture, fixture_read(fixture, args.output));
    struct expected *expected = fixture_room(fixture, n, sizeof *expected);
    for (size_t t = 0; t < c->tokens; t++)
        reference_hyper(&args, width, x + t * width, scale, base, expected + t * width);
    fixture_compare(fixture, "hyper", result, expected, n);
    return fixture_release(fixture, result);
}

size_t hyper_case_size(const struct hyper_case *c)
{
    return hyper_width(c) * c->tokens;
}

static void each_hyper(const struct case_group *group, case_visitor *visit, void *user)
{
    static const struct hyper_case cases[] = {
        {.n = 4, .n_iterations = 20, .epsilon = 1e-6f},
        {.n = 2, .n_iterations = 20, .epsilon = 1e-6f, .gap = 8},
        {.n = 1, .n_iterations = 3, .epsilon = 1e-3f},
        {.n = 3, .n_iterations = 1, .epsilon = 0, .gap = 4},
        {.n = 7, .n_iterations = 5, .epsilon = 1e-4f, .size = 6},
        {.n = 16, .n_iterations = 2, .epsilon = 1e-6f},
    };
    static const uint32_t tokens[] = {1, 5, 70};
    for (size_t i = 0; i < COUNT(cases); i++)
        for (size_t j = 0; j < COUNT(tokens); j++) {
            struct some_case c = {CASE_HYPER, NULL, j > 0, {.hyper = cases[i]}};
            c.as.hyper.whole = group->argument;
            c.as.hyper.tokens = tokens[j];
            visit(user, &c);
        }
}

/* ---- Pool ------------------------------------------------------------------------------------------ */

/* Where the positions of a case's sequences are. */
struct pool_layout {
    uint32_t max_blocks, n_blocks, n_positions, n_tokens;
    int32_t *block_table;           /* [max_blocks, n_sequences] */
    int32_t *sequences, *positions; /* [n_tokens] */
};

static uint32_t pool_length(const struct pool_case *c, uint32_t sequence)
{
    return c->length + 5 * sequence;
}

/* Blocks of all sequences in turn, from the last on. */
static struct pool_layout lay_out(struct fixture *fixture, const struct pool_case *c)
{
    const uint32_t longest = pool_length(c, c->n_sequences - 1);
    struct pool_layout layout = {.max_blocks = (longest + c->block_size - 1) / c->block_size,
                                 .n_tokens = c->tokens * c->n_sequences};
    layout.n_blocks = layout.max_blocks * c->n_sequences + 1;
    layout.block_table = fixture_room(fixture, (size_t)layout.max_blocks * c->n_sequences, sizeof(int32_t));
    layout.sequences = fixture_room(fixture, layout.n_tokens, sizeof(int32_t));
    layout.positions = fixture_room(fixture, layout.n_tokens, sizeof(int32_t));
    for (uint32_t b = 0; b < layout.max_blocks * c->n_sequences; b++)
        layout.block_table[b % c->n_sequences * layout.max_blocks + b / c->n_sequences] =
            (int32_t)(layout.n_blocks - 2 - b);
    for (uint32_t t = 0; t < layout.n_tokens; t++) {
        const uint32_t s = t % c->n_sequences;
        layout.sequences[t] = (int32_t)s;
        layout.positions[t] = (int32_t)(pool_length(c, s) - c->tokens + t / c->n_sequences);
        if (t % 11 == 9) layout.positions[t] = -1;
    }
    return layout;
}

/* Row r of a position: the index of its first value among all rows of the cache, which are dense. */
static size_t pool_row(const struct pool_case *c, const struct pool_layout *layout, uint32_t sequence,
                       uint32_t position, uint32_t r)
{
    const size_t block =
        (size_t)layout->block_table[sequence * layout->max_blocks + position / c->block_size];
    return (block * 2 * c->n_series + r) * c->block_size + position % c->block_size;
}

/* A token's output, from rows as the cache has them. */
static void expect_pooled(struct fixture *fixture, const struct pool_case *c,
                          const struct pool_layout *layout, const double *rows, const float *bias, uint32_t t,
                          struct expected *out)
{
    const int32_t position = layout->positions[t];
    if (position < 0 || ((uint32_t)position + 1) % c->period != 0) return; /* exactly 0 */
    double *values = fixture_room(fixture, 2 * (size_t)c->period, sizeof *values),
           *scores = fixture_room(fixture, 2 * (size_t)c->period, sizeof *scores);
    const uint32_t begin = (uint32_t)position + 1 - c->period, sequence = (uint32_t)layout->sequences[t];
    for (uint32_t i = 0; i < c->n; i++) {
        double largest = 0, value = 0;
        size_t m = 0;
        for (uint32_t series = 0; series < c->n_series; series++)
            for (uint32_t j = 0; j < c->period; j++) {
                const bool is_before = c->n_series == 2 && series == 0;
                if (is_before && begin == 0) continue;
                const uint32_t from = is_before ? begin - c->period + j : begin + j;
                const double of_bias = (double)bias[((size_t)j * c->n_series + series) * c->n + i];
                values[m] = rows[pool_row(c, layout, sequence, from, series) * c->n + i];
                scores[m] = rows[pool_row(c, layout, sequence, from, c->n_series + series) * c->n + i];
                largest = fmax(largest, fabs(scores[m]) + fabs(of_bias));
                value = fmax(value, fabs(values[m]));
                scores[m++] += of_bias;
            }
        out[i] = reference_pool(values, scores, m, largest, value);
    }
}

float *run_pool_case(struct fixture *fixture, const struct pool_case *c)
{
    uint64_t seed = c->n * 31 + c->period;
    const struct pool_layout layout = lay_out(fixture, c);
    const size_t n_rows = (size_t)c->block_size * 2 * c->n_series * layout.n_blocks, n = c->n * n_rows;
    float *x = fixture_hold(fixture, random_floats(&seed, n)),
          *bias = fixture_hold(fixture, random_floats(&seed, (size_t)c->n * c->n_series * c->period));
    fixture_describe(
        fixture,
        "%s, %u values, %u series, blocks of %u positions in blocks of %u, %u sequences from %u, %u "
        "tokens, scores of %g, gaps %u and %u",
        format_of(c->type)->name, c->n, c->n_series, c->period, c->block_size, c->n_sequences, c->length,
        c->tokens, (double)c->size, c->gaps.row, c->gaps.plane);
    const struct format *format = format_of(c->type);
    const size_t row = format_bytes(c->type, c->n);
    uint8_t *bytes = fixture_room(fixture, n_rows, row);
    double *rows = fixture_room(fixture, n, sizeof *rows);
    for (size_t r = 0; r < n_rows; r++) {
        const bool is_score = r / c->block_size / c->n_series % 2 == 1;
        for (size_t i = 0; i < c->n && is_score && c->size != 0; i++) x[r * c->n + i] *= c->size;
        reference_cache_row(c->type, x + r * c->n, c->n, bytes + r * row);
        for (size_t i = 0; i < c->n; i += format->block_length)
            block_values(format, bytes + r * row + i / format->block_length * format->block_size,
                         rows + r * c->n + i);
    }
    struct fixture_gaps gaps = c->gaps;
    if (c->type == ENGINE_TYPE_F32) gaps.row *= 2, gaps.plane *= 2, gaps.volume *= 2;
    const uint64_t cache_ne[4] = {c->n, c->block_size, UINT64_C(2) * c->n_series, layout.n_blocks};
    struct engine_op_pool args = {
        .struct_size = sizeof args,
        .cache = fixture_view(fixture, c->type, cache_ne, &gaps, bytes),
        .bias = fixture_weight(fixture, ENGINE_TYPE_F32, (uint64_t)c->n * c->n_series, c->period,
                               ENGINE_WEIGHT_VALUES, false, bias),
        .block_table = fixture_i32(fixture, layout.max_blocks, c->n_sequences, layout.block_table),
        .sequences = fixture_i32(fixture, layout.n_tokens, 1, layout.sequences),
        .positions = fixture_i32(fixture, layout.n_tokens, 1, layout.positions),
        .output = fixture_strided(fixture, c->n, layout.n_tokens, 1, &c->gaps, NULL),
    };
    fixture_run(fixture, ENGINE_OP_POOL, &args);
    float *result = fixture_hold(fixture, fixture_read(fixture, args.output));
    struct expected *expected = fixture_room(fixture, (size_t)c->n * layout.n_tokens, sizeof *expected);
    for (uint32_t t = 0; t < layout.n_tokens; t++)
        expect_pooled(fixture, c, &layout, rows, bias, t, expected + (size_t)t * c->n);
    fixture_compare(fixture, "pool", result, expected, (size_t)c->n * layout.n_tokens);
    return fixture_release(fixture, result);
}

size_t pool_case_size(const struct pool_case *c)
{
    return (size_t)c->n * c->tokens * c->n_sequences;
}

static void each_pool(const struct case_group *group, case_visitor *visit, void *user)
{
    static const struct pool_case cases[] = {
        {.n = 64, .period = 4, .block_size = 16, .n_sequences = 1, .length = 40, .tokens = 40},
        {.n = 32,
         .period = 4,
         .block_size = 32,
         .n_sequences = 3,
         .length = 43,
         .tokens = 9,
         .gaps = {4, 12, 4}},
        {.n = 96, .period = 128, .block_size = 32, .n_sequences = 2, .length = 256, .tokens = 1, .size = 8},
        {.n = 160, .period = 6, .block_size = 4, .n_sequences = 2, .length = 31, .tokens = 20, .size = 40},
        {.n = 13, .period = 1, .block_size = 8, .n_sequences = 1, .length = 9, .tokens = 3},
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        struct some_case c = {CASE_POOL, NULL, false, {.pool = cases[i]}};
        c.as.pool.type = group->argument;
        if (group->argument == ENGINE_TYPE_Q8_0 && cases[i].n % 32 != 0) continue;
        for (c.as.pool.n_series = 1; c.as.pool.n_series <= 2; c.as.pool.n_series++) visit(user, &c);
    }
}

/* ---- All ------------------------------------------------------------------------------------------ */

static const struct case_group groups[] = {
    {"mix", "weights", each_mix, 0},
    {"mix", "weights, addend", each_mix, 2},
    {"mix", "addend", each_mix, 1 | 2},
    {"mix", "addend scaled by a weight", each_mix, 1 | 2 | 4},
    {"hyper", "streams to read", each_hyper, false},
    {"hyper", "all weights", each_hyper, true},
    {"pool", "float32", each_pool, ENGINE_TYPE_F32},
    {"pool", "float16", each_pool, ENGINE_TYPE_F16},
    {"pool", "Q8_0", each_pool, ENGINE_TYPE_Q8_0},
};

void each_stream_group(group_visitor *visit, void *user)
{
    for (size_t i = 0; i < COUNT(groups); i++) visit(user, &groups[i]);
}

/* case-blocks.c: what layers have besides rows, products and attention: the router, rows that are joined, and
 * the operations with states; see cases.h. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "check/cases.h"
#include "check/formats.h"

#define COUNT(array) (sizeof(array) / sizeof *(array))

/* ---- Router --------------------------------------------------------------------------------------- */

/* Every third logit is one of four values; every fifth is a different one plus a little. */
static void make_ties(float *logits, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (i % 3 == 0) logits[i] = 0.5f * (float)((int)(logits[i] * 16) % 4);
        if (i % 5 == 4) logits[i] = logits[i - 1] + 1e-7f;
    }
}

/* The ids are a choice that the operation allows, and the weights match it. */
static void check_route(struct fixture *fixture, const struct route_case *c,
                        const struct engine_op_route *args, const float *logits, const float *bias,
                        const float *given, const int32_t *ids, const float *weights)
{
    double *p = fixture_room(fixture, c->n_experts, sizeof *p),
           *choice = fixture_room(fixture, c->n_experts, sizeof *choice),
           *times = fixture_room(fixture, c->n_used, sizeof *times);
    int32_t *wanted = fixture_room(fixture, c->n_used, sizeof *wanted);
    struct expected *expected = fixture_room(fixture, (size_t)c->n_used * c->tokens, sizeof *expected);
    for (size_t t = 0; t < c->tokens; t++) {
        reference_route(args, c->n_experts, logits + t * c->n_experts, bias, p, choice);
        if (given) reference_route_given(given + t * c->n_used, c->n_used, wanted, times);
        bool fits = given
                        ? memcmp(wanted, ids + t * c->n_used, c->n_used * sizeof *ids) == 0
                        : reference_route_allows(args, c->n_experts, choice, ids + t * c->n_used, c->n_used);
        if (!fits)
            fixture_fail(fixture, "route: the ids of token %zu, %d first, aren't those of the largest", t,
                         ids[t * c->n_used]);
        reference_route_weights(args, p, ids + t * c->n_used, given ? times : NULL, c->n_used,
                                expected + t * c->n_used);
    }
    fixture_compare(fixture, "route: weights", weights, expected, (size_t)c->n_used * c->tokens);
}

float *run_route_case(struct fixture *fixture, const struct route_case *c)
{
    uint64_t seed = c->n_experts * 31 + c->n_used + c->tokens;
    size_t n = (size_t)c->n_experts * c->tokens;
    float *logits = fixture_hold(fixture, random_floats(&seed, n));
    float *bias = fixture_hold(fixture, random_floats(&seed, c->n_experts));
    for (size_t i = 0; i < n && c->size != 0; i++) logits[i] *= c->size;
    /* scores lower than those of the experts left out */
    for (size_t i = 0; i < c->n_experts; i++) bias[i] = 0.2f * bias[i] - 1;
    if (c->ties) make_ties(logits, n);
    float *given = fixture_room(fixture, (size_t)c->n_used * c->tokens, sizeof *given);
    for (size_t i = 0; i < (size_t)c->n_used * c->tokens; i++)
        given[i] = (float)(random_bits(&seed) % (i % 3 ? c->n_experts : c->n_experts / 3 + 1));
    fixture_describe(
        fixture,
        "%u of %u experts, %u tokens, %s, %u of %u groups by score %u%s%s%s, floor %g, scale %g, logits "
        "of %g, gap %u%s",
        c->n_used, c->n_experts, c->tokens,
        c->function == ENGINE_ROUTE_SOFTMAX   ? "softmax"
        : c->function == ENGINE_ROUTE_SIGMOID ? "sigmoid"
                                              : "root of softplus",
        c->n_groups_used, c->n_groups, c->group_score, c->bias ? ", bias" : "",
        c->normalise ? ", normalised" : "", c->ties ? ", ties" : "", (double)c->floor, (double)c->scale,
        (double)c->size, c->gap, c->given ? ", experts given" : "");
    const struct fixture_gaps gaps = {.row = c->gap};
    const uint64_t ne[4] = {c->n_used, c->tokens, 1, 1};
    struct engine_op_route args = {
        .struct_size = sizeof args,
        .logits = fixture_strided(fixture, c->n_experts, c->tokens, 1, &gaps, logits),
        .bias = c->bias ? fixture_weight(fixture, ENGINE_TYPE_F32, c->n_experts, 1, ENGINE_WEIGHT_VALUES,
                                         false, bias)
                        : NULL,
        .ids = fixture_output(fixture, ENGINE_TYPE_I32, ne, &gaps),
        .weights = fixture_output(fixture, ENGINE_TYPE_F32, ne, &gaps),
        .function = c->function,
        .n_groups = c->n_groups,
        .n_groups_used = c->n_groups_used,
        .group_score = c->group_score,
        .normalise = c->normalise,
        .floor = c->floor,
        .scale = c->scale,
        .chosen = c->given ? fixture_strided(fixture, c->n_used, c->tokens, 1, &gaps, given) : NULL,
    };
    fixture_run(fixture, ENGINE_OP_ROUTE, &args);
    int32_t *ids = fixture_hold(fixture, fixture_read_rows(fixture, args.ids));
    float *weights = fixture_hold(fixture, fixture_read(fixture, args.weights));
    check_route(fixture, c, &args, logits, c->bias ? bias : NULL, c->given ? given : NULL, ids, weights);
    return fixture_release(fixture, weights);
}

size_t route_case_size(const struct route_case *c)
{
    return (size_t)c->n_used * c->tokens;
}

enum { GIVEN = 16 }; /* added to the function: experts are given */

static void each_route(const struct case_group *group, case_visitor *visit, void *user)
{
    static const uint32_t top2 = ENGINE_ROUTE_GROUP_TOP2;
    static const struct route_case cases[] = {
        {.n_experts = 8, .n_used = 2},
        {.n_experts = 32, .n_used = 4, .normalise = true, .gap = 12},
        {.n_experts = 64, .n_used = 6, .scale = 2.5f, .ties = true},
        {.n_experts = 1, .n_used = 1, .normalise = true},
        {.n_experts = 7, .n_used = 7, .bias = true, .gap = 4},
        {.n_experts = 60, .n_used = 4, .bias = true, .normalise = true, .floor = 1e-20f, .size = 30},
        {.n_experts = 16, .n_used = 3, .normalise = true, .floor = 4, .scale = 0.5f, .size = 0.1f},
        {.n_experts = 128, .n_used = 8, .normalise = true, .size = 500, .ties = true, .gap = 8},
        {.n_experts = 512, .n_used = 10, .bias = true, .normalise = true},
        {.n_experts = 257, .n_used = 33, .ties = true},
        {.n_experts = 64, .n_used = 8, .n_groups = 8, .n_groups_used = 3, .normalise = true},
        {.n_experts = 64,
         .n_used = 6,
         .n_groups = 8,
         .n_groups_used = 4,
         .group_score = top2,
         .bias = true,
         .normalise = true,
         .floor = 1e-20f,
         .scale = 2.5f,
         .gap = 4},
        {.n_experts = 256, .n_used = 8, .n_groups = 8, .n_groups_used = 4, .group_score = top2, .bias = true},
        {.n_experts = 20, .n_used = 4, .n_groups = 10, .n_groups_used = 2, .group_score = top2, .ties = true},
        {.n_experts = 12,
         .n_used = 3,
         .n_groups = 4,
         .n_groups_used = 1,
         .bias = true,
         .ties = true,
         .size = 3},
        {.n_experts = 6, .n_used = 2, .n_groups = 6, .n_groups_used = 2},
        {.n_experts = 16, .n_used = 5, .n_groups = 1, .n_groups_used = 1},
        {.n_experts = 16, .n_used = 5, .n_groups = 4, .n_groups_used = 4, .group_score = top2},
    };
    static const uint32_t tokens[] = {1, 5, 70};
    for (size_t i = 0; i < COUNT(cases); i++)
        for (size_t j = 0; j < COUNT(tokens); j++) {
            struct some_case c = {
                CASE_ROUTE, cases[i].n_groups > 1 ? "groups" : "no groups", j > 0, {.route = cases[i]}};
            c.as.route.function = group->argument % GIVEN;
            c.as.route.given = group->argument >= GIVEN;
            /* of given experts, no weight may vanish */
            if (c.as.route.given && (cases[i].bias || cases[i].n_groups > 1 || cases[i].size > 100)) continue;
            c.as.route.tokens = tokens[j];
            visit(user, &c);
        }
}

static const struct some_case routes[] = {
    {CASE_ROUTE, NULL, false, {.route = {.n_experts = 256, .n_used = 8, .tokens = 700, .normalise = true}}},
};

static void each_large_route(const struct case_group *group, case_visitor *visit, void *user)
{
    (void)group;
    for (size_t i = 0; i < COUNT(routes); i++) visit(user, &routes[i]);
}

/* ---- Concat ---------------------------------------------------------------------------------------- */

float *run_concat_case(struct fixture *fixture, const struct concat_case *c)
{
    uint64_t seed = c->n_a * 17 + c->n_b;
    size_t heads_of_b = c->one_each ? 1 : c->n_heads, row = c->n_a + c->n_b;
    size_t n_rows = (size_t)c->n_heads * c->tokens, n = row * n_rows;
    float *a = fixture_hold(fixture, random_floats(&seed, c->n_a * n_rows));
    float *b = fixture_hold(fixture, random_floats(&seed, c->n_b * heads_of_b * c->tokens));
    fixture_describe(fixture, "%u and %u values, %u heads, %u tokens, gaps %u and %u%s", c->n_a, c->n_b,
                     c->n_heads, c->tokens, c->gaps.row, c->gaps.plane, c->one_each ? ", b of one row" : "");
    struct engine_op_concat args = {
        .struct_size = sizeof args,
        .a = fixture_strided(fixture, c->n_a, c->n_heads, c->tokens, &c->gaps, a),
        .b = fixture_strided(fixture, c->n_b, heads_of_b, c->tokens, &c->gaps, b),
        .output = fixture_strided(fixture, row, c->n_heads, c->tokens, &c->gaps, NULL),
    };
    fixture_run(fixture, ENGINE_OP_CONCAT, &args);
    float *result = fixture_hold(fixture, fixture_read(fixture, args.output));
    struct expected *expected = fixture_room(fixture, n, sizeof *expected); /* exact */
    for (size_t r = 0; r < n_rows; r++) {
        const float *of_b = b + c->n_b * (c->one_each ? r / c->n_heads : r);
        for (size_t i = 0; i < row; i++)
            expected[r * row + i].value = (double)(i < c->n_a ? a[r * c->n_a + i] : of_b[i - c->n_a]);
    }
    fixture_compare(fixture, "concat", result, expected, n);
    return fixture_release(fixture, result);
}

size_t concat_case_size(const struct concat_case *c)
{
    return (size_t)(c->n_a + c->n_b) * c->n_heads * c->tokens;
}

static void each_concat(const struct case_group *group, case_visitor *visit, void *user)
{
    static const struct concat_case cases[] = {
        {.n_a = 128, .n_b = 64, .n_heads = 4},
        {.n_a = 1, .n_b = 3, .n_heads = 5, .gaps = {4, 0, 0}},
        {.n_a = 33, .n_b = 1, .n_heads = 1, .gaps = {0, 12, 0}},
        {.n_a = 512, .n_b = 64, .n_heads = 16, .gaps = {8, 20, 0}},
        {.n_a = 7, .n_b = 300, .n_heads = 3},
    };
    static const uint32_t tokens[] = {1, 6, 37};
    for (size_t i = 0; i < COUNT(cases); i++)
        for (size_t j = 0; j < COUNT(tokens); j++) {
            struct some_case c = {CASE_CONCAT, NULL, j > 0, {.concat = cases[i]}};
            c.as.concat.one_each = group->argument != 0;
            c.as.concat.tokens = tokens[j];
            visit(user, &c);
        }
}

static const struct some_case concats[] = {
    {CASE_CONCAT, NULL, false, {.concat = {.n_a = 512, .n_b = 64, .n_heads = 128, .tokens = 3}}},
    {CASE_CONCAT, NULL, false, {.concat = {.n_a = 5, .n_b = 3, .n_heads = 64, .tokens = 1100}}},
    {CASE_CONCAT, NULL, false, {.concat = {.n_a = 9000, .n_b = 7000, .n_heads = 1, .tokens = 2}}},
};

static void each_large_concat(const struct case_group *group, case_visitor *visit, void *user)
{
    (void)group;
    for (size_t i = 0; i < COUNT(concats); i++) visit(user, &concats[i]);
}

/* ---- States --------------------------------------------------------------------------------------- */

/* The tokens of a case: runs of equal length, then tokens without a state. */
struct tokens {
    uint32_t n_runs, run, n, n_states;
    int32_t *positions, *states; /* [n] */
};

static struct tokens make_tokens(struct fixture *fixture, uint32_t n_runs, uint32_t run, uint32_t n_without)
{
    struct tokens tokens = {
        .n_runs = n_runs, .run = run, .n = n_runs * run + n_without, .n_states = n_runs + 3};
    tokens.positions = fixture_room(fixture, tokens.n, sizeof(int32_t));
    tokens.states = fixture_room(fixture, tokens.n, sizeof(int32_t));
    for (uint32_t t = 0; t < tokens.n; t++) {
        uint32_t r = t / run;
        tokens.states[t] = r < n_runs ? (int32_t)((r * 2 + 2) % tokens.n_states) : -1;
        if (tokens.n_states % 2 == 0 && r < n_runs) tokens.states[t] = (int32_t)(tokens.n_states - 1 - r);
        tokens.positions[t] = r < n_runs ? (int32_t)(t % run + (r % 2 ? 0 : 7)) : -1;
    }
    return tokens;
}

/* The first token of a run. */
static size_t first_of(const struct tokens *tokens, uint32_t run)
{
    return (size_t)run * tokens->run;
}

/* What a run's states begin with. */
static bool begins_at_zeros(const struct tokens *tokens, uint32_t run)
{
    return tokens->positions[first_of(tokens, run)] == 0;
}

/* ---- Conv -------------------------------------------------------------------------------------------- */

/* The input `back` tokens before token t of a run: of the batch, or of the state before it, of which the last
 * row is the latest. */
static float input_before(const struct conv_case *c, const struct tokens *tokens, const float *x,
                          const float *before, uint32_t run, int64_t t, uint32_t channel)
{
    if (t >= 0) return x[(first_of(tokens, run) + (uint64_t)t) * c->n + channel];
    if (begins_at_zeros(tokens, run)) return 0;
    uint64_t state = (uint64_t)tokens->states[first_of(tokens, run)],
             row = (uint64_t)((int64_t)c->taps - 1 + t);
    return before[(state * (c->taps - 1) + row) * c->n + channel];
}

static void expect_conv(const struct conv_case *c, const struct tokens *tokens, const float *x,
                        const float *weights, const float *before, struct expected *out,
                        struct expected *states)
{
    float inputs[16];
    for (uint32_t run = 0; run < tokens->n_runs; run++)
        for (uint32_t channel = 0; channel < c->n; channel++) {
            for (uint32_t t = 0; t < tokens->run; t++) {
                for (uint32_t i = 0; i < c->taps; i++)
                    inputs[i] =
                        input_before(c, tokens, x, before, run, (int64_t)t - c->taps + 1 + i, channel);
                out[(first_of(tokens, run) + t) * c->n + channel] =
                    reference_sum(inputs, weights + (uint64_t)channel * c->taps, c->taps);
            }
            uint64_t state = (uint64_t)tokens->states[first_of(tokens, run)];
            for (uint32_t i = 0; i + 1 < c->taps; i++)
                states[(state * (c->taps - 1) + i) * c->n + channel].value = (double)input_before(
                    c, tokens, x, before, run, (int64_t)tokens->run - c->taps + 1 + i, channel);
        }
}

/* States that nothing changes are exact. */
static struct expected *unchanged(struct fixture *fixture, const float *values, size_t n)
{
    struct expected *expected = fixture_room(fixture, n, sizeof *expected);
    for (size_t i = 0; i < n; i++) expected[i].value = (double)values[i];
    return expected;
}

float *run_conv_case(struct fixture *fixture, const struct conv_case *c)
{
    uint64_t seed = c->n * 31 + c->taps;
    const struct tokens tokens = make_tokens(fixture, c->n_runs, c->run, c->n_without);
    size_t n = (size_t)c->n * tokens.n, n_state = (size_t)c->n * (c->taps - 1) * tokens.n_states;
    float *x = fixture_hold(fixture, random_floats(&seed, n));
    float *weights = fixture_hold(fixture, random_floats(&seed, (size_t)c->n * c->taps));
    float *before = fixture_hold(fixture, random_floats(&seed, n_state));
    fixture_describe(fixture, "%u channels, %u taps, %u runs of %u tokens, %u without a state, gap %u", c->n,
                     c->taps, c->n_runs, c->run, c->n_without, c->gaps.row);
    const struct engine_op_conv args = {
        .struct_size = sizeof args,
        .input = fixture_strided(fixture, c->n, tokens.n, 1, &c->gaps, x),
        .weight =
            fixture_weight(fixture, ENGINE_TYPE_F32, c->taps, c->n, ENGINE_WEIGHT_VALUES, false, weights),
        .positions = fixture_i32(fixture, tokens.n, 1, tokens.positions),
        .states = fixture_i32(fixture, tokens.n, 1, tokens.states),
        .state = fixture_f32(fixture, c->n, c->taps - 1, tokens.n_states, before),
        .output = fixture_strided(fixture, c->n, tokens.n, 1, &c->gaps, NULL),
    };
    fixture_run(fixture, ENGINE_OP_CONV, &args);
    float *result = fixture_hold(fixture, fixture_read(fixture, args.output));
    float *after = fixture_hold(fixture, fixture_read(fixture, args.state));
    struct expected *expected = fixture_room(fixture, n, sizeof *expected);
    struct expected *states = unchanged(fixture, before, n_state);
    expect_conv(c, &tokens, x, weights, before, expected, states);
    fixture_compare(fixture, "conv", result, expected, n);
    fixture_compare(fixture, "conv: states", after, states, n_state);
    return fixture_release(fixture, result);
}

size_t conv_case_size(const struct conv_case *c)
{
    return (size_t)c->n * ((size_t)c->n_runs * c->run + c->n_without);
}

static void each_conv(const struct case_group *group, case_visitor *visit, void *user)
{
    static const struct conv_case cases[] = {
        {.n = 1, .taps = 2, .n_runs = 1, .run = 1},
        {.n = 64, .taps = 4, .n_runs = 3, .run = 1, .n_without = 2},
        {.n = 300, .taps = 4, .n_runs = 2, .run = 2, .gaps = {12, 0, 0}},
        {.n = 37, .taps = 2, .n_runs = 4, .run = 5},
        {.n = 257, .taps = 16, .n_runs = 2, .run = 9, .n_without = 1},
        {.n = 520, .taps = 3, .n_runs = 1, .run = 70},
    };
    (void)group;
    for (size_t i = 0; i < COUNT(cases); i++)
        visit(user, &(struct some_case){CASE_CONV, NULL, false, {.conv = cases[i]}});
}

static const struct some_case convolutions[] = {
    {CASE_CONV, NULL, false, {.conv = {.n = 10240, .taps = 4, .n_runs = 2, .run = 3}}},
    {CASE_CONV, NULL, false, {.conv = {.n = 16, .taps = 4, .n_runs = 1, .run = 4500}}},
};

static void each_large_conv(const struct case_group *group, case_visitor *visit, void *user)
{
    (void)group;
    for (size_t i = 0; i < COUNT(convolutions); i++) visit(user, &convolutions[i]);
}

/* ---- Scan -------------------------------------------------------------------------------------------- */

struct scan_data {
    float *q, *k, *v, *a, *b, *decay, *rates, *erase, *bonus, *before;
    uint32_t n_decay;
};

static struct scan_data make_scan(struct fixture *fixture, const struct scan_case *c,
                                  const struct tokens *tokens, uint64_t seed)
{
    size_t keys = (size_t)c->key_dim * c->n_groups * tokens->n, heads = (size_t)c->n_heads * tokens->n;
    struct scan_data x = {.n_decay = c->decay == SCAN_RATES        ? c->value_dim
                                     : c->decay == SCAN_DECAY_KEYS ? c->key_dim
                                                                   : 1};
    size_t n_rates = (size_t)c->key_dim * c->value_dim * c->n_heads;
    x.q = fixture_hold(fixture, random_floats(&seed, keys));
    x.k = fixture_hold(fixture, random_floats(&seed, keys));
    x.a = fixture_hold(fixture, random_floats(&seed, keys));
    x.b = fixture_hold(fixture, random_floats(&seed, keys));
    x.v = fixture_hold(fixture, random_floats(&seed, heads * c->value_dim));
    x.decay = fixture_hold(fixture, random_floats(&seed, heads * x.n_decay));
    x.erase = fixture_hold(fixture, random_floats(&seed, heads));
    x.rates = fixture_hold(fixture, random_floats(&seed, n_rates));
    x.bonus = fixture_hold(fixture, random_floats(&seed, (size_t)c->key_dim * c->n_heads));
    x.before = fixture_hold(fixture, random_floats(&seed, n_rates * tokens->n_states));
    /* Exponents up to 0; b small enough for the state not to grow. */
    for (size_t i = 0; i < heads * x.n_decay; i++)
        x.decay[i] = c->decay == SCAN_RATES ? fabsf(x.decay[i]) : -fabsf(x.decay[i]);
    for (size_t i = 0; i < n_rates; i++) x.rates[i] = -fabsf(x.rates[i]);
    for (size_t i = 0; i < keys; i++) x.b[i] *= 1 / (float)c->key_dim;
    if (!c->same) return x;
    for (size_t i = 0; i < keys; i++) x.k[i] *= 1 / sqrtf((float)c->key_dim);
    for (size_t i = 0; i < heads; i++) x.erase[i] = -fabsf(x.erase[i]);
    x.a = x.b = x.k;
    return x;
}

/* The decays of column j of a head. */
static void fill_decay(const struct scan_case *c, const struct scan_data *x, size_t t, uint32_t head,
                       uint32_t j, double *w)
{
    const float *decay = x->decay + (t * c->n_heads + head) * x->n_decay;
    for (uint32_t i = 0; i < c->key_dim; i++) {
        double rate = (double)x->rates[((size_t)head * c->value_dim + j) * c->key_dim + i];
        double exponent = c->decay == SCAN_NO_DECAY     ? 0
                          : c->decay == SCAN_RATES      ? rate * (double)decay[j]
                          : c->decay == SCAN_DECAY_KEYS ? (double)decay[i]
                                                        : (double)decay[0];
        w[i] = exp(exponent);
    }
}

/* One column of a head over a run of tokens. */
static void expect_column(const struct scan_case *c, const struct tokens *tokens, const struct scan_data *x,
                          uint32_t run, uint32_t head, uint32_t j, struct expected *out,
                          struct expected *states)
{
    double state[256], sizes[256], w[256];
    uint64_t number = (uint64_t)tokens->states[first_of(tokens, run)];
    struct expected *column = states + ((number * c->n_heads + head) * c->key_dim) * c->value_dim + j;
    for (uint32_t i = 0; i < c->key_dim; i++) {
        state[i] = begins_at_zeros(tokens, run) ? 0 : column[(size_t)i * c->value_dim].value;
        sizes[i] = fabs(state[i]);
    }
    for (size_t t = first_of(tokens, run); t < first_of(tokens, run + 1); t++) {
        size_t keys = (t * c->n_groups + head / (c->n_heads / c->n_groups)) * c->key_dim;
        const struct scanned token = {
            .q = x->q + keys,
            .k = x->k + keys,
            .a = c->delta ? x->a + keys : NULL,
            .b = x->b + keys,
            .bonus = c->bonus ? x->bonus + (size_t)head * c->key_dim : NULL,
            .w = w,
            .v = (double)x->v[(t * c->n_heads + head) * c->value_dim + j],
            .erase = c->erase ? (double)x->erase[t * c->n_heads + head] : 1,
            .scale = c->scale != 0 ? (double)c->scale : 1,
            .key_dim = c->key_dim,
        };
        fill_decay(c, x, t, head, j, w);
        out[(t * c->n_heads + head) * c->value_dim + j] = reference_scan(&token, state, sizes);
    }
    for (uint32_t i = 0; i < c->key_dim; i++)
        column[(size_t)i * c->value_dim] = (struct expected){state[i], reference_scan_bound(sizes[i])};
}

static struct engine_tensor *keys_of(struct fixture *fixture, const struct scan_case *c, uint32_t n_tokens,
                                     const float *data)
{
    return fixture_strided(fixture, c->key_dim, c->n_groups, n_tokens, &c->gaps, data);
}

float *run_scan_case(struct fixture *fixture, const struct scan_case *c)
{
    const struct tokens tokens = make_tokens(fixture, c->n_runs, c->run, c->n_without);
    const struct scan_data x = make_scan(fixture, c, &tokens, c->key_dim * 31 + c->value_dim);
    size_t n = (size_t)c->value_dim * c->n_heads * tokens.n,
           n_state = (size_t)c->value_dim * c->key_dim * c->n_heads * tokens.n_states;
    const uint64_t state_ne[4] = {c->value_dim, c->key_dim, c->n_heads, tokens.n_states};
    fixture_describe(fixture,
                     "%u keys, %u values, %u heads in %u groups, %u runs of %u tokens, %u without a state, "
                     "decay %d%s%s%s%s, scale %g, gaps %u and %u",
                     c->key_dim, c->value_dim, c->n_heads, c->n_groups, c->n_runs, c->run, c->n_without,
                     (int)c->decay, c->delta ? ", a and b" : "", c->same ? " as k" : "",
                     c->erase ? ", erase" : "", c->bonus ? ", bonus" : "", (double)c->scale, c->gaps.row,
                     c->gaps.plane);
    const struct engine_tensor *k = keys_of(fixture, c, tokens.n, x.k);
    const struct engine_op_scan args = {
        .struct_size = sizeof args,
        .q = keys_of(fixture, c, tokens.n, x.q),
        .k = k,
        .v = fixture_strided(fixture, c->value_dim, c->n_heads, tokens.n, &c->gaps, x.v),
        .decay =
            c->decay ? fixture_strided(fixture, x.n_decay, c->n_heads, tokens.n, &c->gaps, x.decay) : NULL,
        .rates = c->decay == SCAN_RATES ? fixture_weight(fixture, ENGINE_TYPE_F32, c->key_dim,
                                                         (uint64_t)c->value_dim * c->n_heads,
                                                         ENGINE_WEIGHT_VALUES, false, x.rates)
                                        : NULL,
        .a = c->same    ? k
             : c->delta ? keys_of(fixture, c, tokens.n, x.a)
                        : NULL,
        .b = c->same    ? k
             : c->delta ? keys_of(fixture, c, tokens.n, x.b)
                        : NULL,
        .erase = c->erase ? fixture_strided(fixture, 1, c->n_heads, tokens.n, &c->gaps, x.erase) : NULL,
        .bonus = c->bonus ? fixture_weight(fixture, ENGINE_TYPE_F32, c->key_dim, c->n_heads,
                                           ENGINE_WEIGHT_VALUES, false, x.bonus)
                          : NULL,
        .positions = fixture_i32(fixture, tokens.n, 1, tokens.positions),
        .states = fixture_i32(fixture, tokens.n, 1, tokens.states),
        .state = fixture_tensor(fixture, ENGINE_TYPE_F32, state_ne, x.before),
        .output = fixture_strided(fixture, c->value_dim, c->n_heads, tokens.n, &c->gaps, NULL),
        .scale = c->scale,
    };
    fixture_run(fixture, ENGINE_OP_SCAN, &args);
    float *result = fixture_hold(fixture, fixture_read(fixture, args.output));
    float *after = fixture_hold(fixture, fixture_read(fixture, args.state));
    struct expected *expected = fixture_room(fixture, n, sizeof *expected);
    struct expected *states = unchanged(fixture, x.before, n_state);
    for (uint32_t run = 0; run < c->n_runs; run++)
        for (uint32_t head = 0; head < c->n_heads; head++)
            for (uint32_t j = 0; j < c->value_dim; j++)
                expect_column(c, &tokens, &x, run, head, j, expected, states);
    fixture_compare(fixture, "scan", result, expected, n);
    fixture_compare(fixture, "scan: states", after, states, n_state);
    return fixture_release(fixture, result);
}

size_t scan_case_size(const struct scan_case *c)
{
    return (size_t)c->value_dim * c->n_heads * ((size_t)c->n_runs * c->run + c->n_without);
}

static void each_scan(const struct case_group *group, case_visitor *visit, void *user)
{
    static const struct scan_case sizes[] = {
        {.key_dim = 1, .value_dim = 1, .n_heads = 1, .n_groups = 1, .n_runs = 1, .run = 1},
        {.key_dim = 12, .value_dim = 40, .n_heads = 2, .n_groups = 1, .n_runs = 3, .run = 1, .n_without = 2},
        {.key_dim = 64,
         .value_dim = 64,
         .n_heads = 3,
         .n_groups = 3,
         .n_runs = 2,
         .run = 35,
         .gaps = {4, 8, 0}},
        {.key_dim = 128,
         .value_dim = 16,
         .n_heads = 4,
         .n_groups = 2,
         .n_runs = 1,
         .run = 70,
         .n_without = 1},
        {.key_dim = 5, .value_dim = 300, .n_heads = 1, .n_groups = 1, .n_runs = 4, .run = 3},
        {.key_dim = 256, .value_dim = 3, .n_heads = 6, .n_groups = 2, .n_runs = 2, .run = 2, .scale = 0.25f},
    };
    for (size_t i = 0; i < COUNT(sizes); i++) {
        struct some_case c = {CASE_SCAN, NULL, false, {.scan = sizes[i]}};
        c.as.scan.decay = group->argument & 3;
        c.as.scan.delta = group->argument & 4;
        c.as.scan.bonus = group->argument & 8;
        c.as.scan.erase = group->argument & 16;
        visit(user, &c);
    }
}

/* The gated delta rule with one tensor for k, a and b. */
static void each_delta_scan(const struct case_group *group, case_visitor *visit, void *user)
{
    static const uint32_t runs[] = {1, 3, 4, 31, 32, 33, 65};
    (void)group;
    for (size_t i = 0; i < COUNT(runs); i++)
        visit(user, &(struct some_case){CASE_SCAN,
                                        NULL,
                                        false,
                                        {.scan = {.key_dim = i == 0 ? 7 : 32,
                                                  .value_dim = 48,
                                                  .n_heads = 2,
                                                  .n_groups = 1,
                                                  .n_runs = 2,
                                                  .run = runs[i],
                                                  .n_without = 1,
                                                  .decay = SCAN_DECAY_HEAD,
                                                  .delta = true,
                                                  .erase = true,
                                                  .same = true}}});
}

/* Heads of Mamba, of Mamba-2, and of a delta net. */
static const struct some_case scans[] = {
    {CASE_SCAN,
     NULL,
     false,
     {.scan = {.key_dim = 16,
               .value_dim = 5120,
               .n_heads = 1,
               .n_groups = 1,
               .n_runs = 1,
               .run = 2,
               .decay = SCAN_RATES}}},
    {CASE_SCAN,
     NULL,
     false,
     {.scan = {.key_dim = 128,
               .value_dim = 64,
               .n_heads = 80,
               .n_groups = 8,
               .n_runs = 1,
               .run = 3,
               .decay = SCAN_DECAY_HEAD}}},
    {CASE_SCAN,
     NULL,
     false,
     {.scan = {.key_dim = 128,
               .value_dim = 128,
               .n_heads = 32,
               .n_groups = 16,
               .n_runs = 2,
               .run = 2,
               .decay = SCAN_DECAY_HEAD,
               .delta = true}}},
};

static void each_large_scan(const struct case_group *group, case_visitor *visit, void *user)
{
    (void)group;
    for (size_t i = 0; i < COUNT(scans); i++) visit(user, &scans[i]);
}

/* ---- All ------------------------------------------------------------------------------------------ */

static const struct case_group groups[] = {
    {"route", "softmax", each_route, ENGINE_ROUTE_SOFTMAX},
    {"route", "sigmoid", each_route, ENGINE_ROUTE_SIGMOID},
    {"route 1.5", "root of softplus", each_route, ENGINE_ROUTE_SQRT_SOFTPLUS},
    {"route 1.5", "given experts, softmax", each_route, GIVEN + ENGINE_ROUTE_SOFTMAX},
    {"route 1.5", "given experts, root of softplus", each_route, GIVEN + ENGINE_ROUTE_SQRT_SOFTPLUS},
    {"concat", "heads", each_concat, false},
    {"concat", "one row for all heads", each_concat, true},
    {"conv", "states", each_conv, 0},
    {"scan", "no decay", each_scan, SCAN_NO_DECAY},
    {"scan", "decay of heads", each_scan, SCAN_DECAY_HEAD},
    {"scan", "decay of keys", each_scan, SCAN_DECAY_KEYS},
    {"scan", "rates", each_scan, SCAN_RATES},
    {"scan", "decay of keys, bonus", each_scan, SCAN_DECAY_KEYS | 8},
    {"scan", "decay of keys, delta rule", each_scan, SCAN_DECAY_KEYS | 4},
    {"scan", "decay of heads, delta rule, erase", each_scan, SCAN_DECAY_HEAD | 4 | 16},
    {"scan", "the same with one k, a and b", each_delta_scan, 0},
};

void each_block_group(group_visitor *visit, void *user)
{
    for (size_t i = 0; i < COUNT(groups); i++) visit(user, &groups[i]);
}

static const struct case_group large_groups[] = {
    {"concat", "large", each_large_concat, 0},
    {"route", "large", each_large_route, 0},
    {"conv", "large", each_large_conv, 0},
    {"scan", "large", each_large_scan, 0},
};

void each_large_block_group(group_visitor *visit, void *user)
{
    for (size_t i = 0; i < COUNT(large_groups); i++) visit(user, &large_groups[i]);
}

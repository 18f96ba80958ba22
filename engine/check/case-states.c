/* case-states.c: operations with states; see cases.h. */
#include <math.h>
#include <string.h>

#include "check/cases.h"
#include "check/numbers.h"

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
                    reference_conv(weights + (uint64_t)channel * c->taps, inputs, c->taps);
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
                     "decay %d%s%s%s, scale %g, gaps %u and %u",
                     c->key_dim, c->value_dim, c->n_heads, c->n_groups, c->n_runs, c->run, c->n_without,
                     (int)c->decay, c->delta ? ", a and b" : "", c->erase ? ", erase" : "",
                     c->bonus ? ", bonus" : "", (double)c->scale, c->gaps.row, c->gaps.plane);
    const struct engine_op_scan args = {
        .struct_size = sizeof args,
        .q = keys_of(fixture, c, tokens.n, x.q),
        .k = keys_of(fixture, c, tokens.n, x.k),
        .v = fixture_strided(fixture, c->value_dim, c->n_heads, tokens.n, &c->gaps, x.v),
        .decay =
            c->decay ? fixture_strided(fixture, x.n_decay, c->n_heads, tokens.n, &c->gaps, x.decay) : NULL,
        .rates = c->decay == SCAN_RATES ? fixture_weight(fixture, ENGINE_TYPE_F32, c->key_dim,
                                                         (uint64_t)c->value_dim * c->n_heads,
                                                         ENGINE_WEIGHT_VALUES, false, x.rates)
                                        : NULL,
        .a = c->delta ? keys_of(fixture, c, tokens.n, x.a) : NULL,
        .b = c->delta ? keys_of(fixture, c, tokens.n, x.b) : NULL,
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

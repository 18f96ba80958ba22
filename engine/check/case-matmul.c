/* case-matmul.c: products with one matrix, with one for each head, and with experts chosen for each token;
 * see cases.h. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "check/cases.h"
#include "check/formats.h"
#include "check/numbers.h"

struct matmul_data {
    uint32_t gate_type;
    size_t n_matrices, n_columns, n_inputs; /* columns of each token: of products, and of the input */
    double *weight, *gate;                  /* [k, rows, n_matrices] */
    float *input;                           /* [k, n_inputs, tokens] */
    float *bias;                            /* [rows, n_matrices] */
    float *residual;                        /* [rows, tokens] */
    int32_t *experts;                       /* [n_used, tokens] */
    float *mix;                             /* [n_used, tokens] */
};

/* The matrix of column s of a token. */
static size_t matrix_of(const struct matmul_case *c, const struct matmul_data *d, size_t token, size_t s)
{
    return c->n_used ? (size_t)d->experts[token * c->n_used + s] : s;
}

static struct expected expect_product(const struct matmul_case *c, const struct matmul_data *d, size_t row,
                                      size_t s, size_t token)
{
    const size_t matrix = matrix_of(c, d, token, s), at = (matrix * c->rows + row) * c->k;
    const float *x = d->input + (token * d->n_inputs + (d->n_inputs > 1 ? s : 0)) * c->k;
    struct expected gate, product = reference_dot(c->type, d->weight + at, x, c->k, c->input_rounding);
    if (c->gate) gate = reference_dot(d->gate_type, d->gate + at, x, c->k, c->input_rounding);
    return reference_matmul(product, c->gate ? &gate : NULL, c->activation, c->scale,
                            c->bias ? &d->bias[matrix * c->rows + row] : NULL,
                            c->residual && !c->mix ? &d->residual[token * c->rows + row] : NULL);
}

/* The output's elements, [rows, 1 or columns, tokens]. */
static void expect_output(struct fixture *fixture, const struct matmul_case *c, const struct matmul_data *d,
                          struct expected *out)
{
    struct expected *results = fixture_room(fixture, d->n_columns, sizeof *results);
    for (size_t token = 0; token < c->tokens; token++)
        for (size_t row = 0; row < c->rows; row++) {
            for (size_t s = 0; s < d->n_columns; s++) results[s] = expect_product(c, d, row, s, token);
            for (size_t s = 0; s < d->n_columns && !c->mix; s++)
                out[(token * d->n_columns + s) * c->rows + row] = results[s];
            if (c->mix)
                out[token * c->rows + row] =
                    reference_mix(results, d->mix + token * c->n_used, c->n_used,
                                  c->residual ? &d->residual[token * c->rows + row] : NULL);
        }
}

static void check_matmul(struct fixture *fixture, const struct matmul_case *c, const struct matmul_data *d,
                         const float *output)
{
    size_t n = (size_t)c->rows * c->tokens * (c->mix ? 1 : d->n_columns);
    struct expected *expected = fixture_room(fixture, n, sizeof *expected);
    double error = 0, size = 0;
    expect_output(fixture, c, d, expected);
    for (size_t i = 0; i < n; i++) {
        double difference = (double)output[i] - expected[i].value;
        error += difference * difference;
        size += expected[i].value * expected[i].value;
    }
    fixture_compare(fixture, "matmul", output, expected, n);
    /* The bounds are for the worst case; rounding to int8 costs 0.6 % in total on random data. */
    bool quantised = reference_is_quantised(c->type) || (c->gate && reference_is_quantised(d->gate_type));
    double limit = reference_matmul_share(quantised, c->input_rounding), share = sqrt(error / size);
    if (n >= 64 && !(share <= limit))
        fixture_fail(fixture, "matmul: as a whole off by %.3g of the result's size, %.3g is allowed", share,
                     limit);
}

/* The experts of each token, no two of a token equal. */
static int32_t *choose_experts(struct fixture *fixture, const struct matmul_case *c, uint64_t *seed)
{
    int32_t *experts = fixture_room(fixture, (size_t)c->n_used * c->tokens, sizeof *experts);
    int32_t *order = fixture_room(fixture, c->n_matrices, sizeof *order);
    const uint32_t half = (c->n_matrices + 1) / 2, n_chosen = half > c->n_used ? half : c->n_used;
    const uint32_t from = c->uneven ? n_chosen : c->n_matrices;
    for (size_t token = 0; token < c->tokens; token++) {
        for (uint32_t e = 0; e < from; e++) order[e] = (int32_t)e;
        for (uint32_t s = 0; s < c->n_used; s++) {
            uint32_t other = s + random_bits(seed) % (from - s);
            if (c->uneven && s == 0) other = from - 1; /* every token's first expert */
            int32_t chosen = order[other];
            order[other] = order[s], order[s] = chosen;
            experts[token * c->n_used + s] = chosen;
        }
    }
    return experts;
}

/* Random matrices as in files, owned by the fixture; those that no token chooses are full of NaNs. */
static uint8_t *make_matrices(struct fixture *fixture, const struct matmul_case *c,
                              const struct matmul_data *d, uint32_t type, uint64_t *seed)
{
    uint8_t *data = fixture_hold(fixture, random_weight(seed, type, c->k, c->rows * d->n_matrices));
    const size_t size = format_bytes(type, c->k) * c->rows;
    for (size_t e = 0; e < d->n_matrices && c->n_used; e++) {
        bool chosen = false;
        for (size_t i = 0; i < (size_t)c->n_used * c->tokens; i++)
            chosen = chosen || (size_t)d->experts[i] == e;
        if (!chosen) memset(data + e * size, 0xff, size);
    }
    return data;
}

static struct engine_tensor *matrices_tensor(struct fixture *fixture, const struct matmul_case *c,
                                             uint32_t type, const uint8_t *data)
{
    if (c->n_matrices)
        return fixture_matrices(fixture, type, c->k, c->rows, c->n_matrices, c->data_is_kept, data);
    return fixture_weight(fixture, type, c->k, c->rows, ENGINE_WEIGHT_MATMUL, c->data_is_kept, data);
}

/* F32 activations: [n, tokens], or [n, columns, tokens] if the weight has three dimensions. */
static struct engine_tensor *columns_tensor(struct fixture *fixture, const struct matmul_case *c, size_t n,
                                            size_t columns, const float *data)
{
    const struct fixture_gaps gaps = {.row = c->gap, .plane = c->plane_gap};
    if (!c->n_matrices) return fixture_strided(fixture, n, c->tokens, 1, &gaps, data);
    return fixture_strided(fixture, n, columns, c->tokens, &gaps, data);
}

static void describe(struct fixture *fixture, const struct matmul_case *c, uint32_t gate_type)
{
    fixture_describe(fixture, "%s, k %u, %u rows, %u tokens", format_of(c->type)->name, c->k, c->rows,
                     c->tokens);
    if (c->n_matrices)
        fixture_describe_more(fixture, ", %u of %u matrices%s%s%s", c->n_used ? c->n_used : c->n_matrices,
                              c->n_matrices, c->n_used ? "" : " by heads", c->uneven ? ", unevenly" : "",
                              c->one_each ? ", one input column" : "");
    if (c->gate) fixture_describe_more(fixture, ", gate %s", format_of(gate_type)->name);
    if (c->scale != 0) fixture_describe_more(fixture, ", scale %g", (double)c->scale);
    if (c->activation) fixture_describe_more(fixture, ", activation %u", c->activation);
    fixture_describe_more(fixture, "%s%s%s%s", c->bias ? ", bias" : "", c->mix ? ", mix" : "",
                          c->residual ? ", residual" : "", c->in_place ? " in place" : "");
    if (c->data_is_kept) fixture_describe_more(fixture, ", data kept");
    if (c->gap || c->plane_gap) fixture_describe_more(fixture, ", gaps %u and %u", c->gap, c->plane_gap);
}

float *run_matmul_case(struct fixture *fixture, const struct matmul_case *c)
{
    uint64_t seed = c->k * 31 + c->rows * 7 + c->tokens;
    size_t k = c->k, rows = c->rows, tokens = c->tokens;
    struct matmul_data data = {.gate_type = c->gate_type ? c->gate_type : c->type,
                               .n_matrices = c->n_matrices ? c->n_matrices : 1,
                               .n_columns = c->n_used       ? c->n_used
                                            : c->n_matrices ? c->n_matrices
                                                            : 1};
    describe(fixture, c, data.gate_type);
    fixture_claim_matrices(fixture, c->type, c->k, c->rows, c->n_matrices);
    data.n_inputs = c->one_each ? 1 : data.n_columns;
    if (c->n_used) data.experts = choose_experts(fixture, c, &seed);
    uint8_t *weight = make_matrices(fixture, c, &data, c->type, &seed);
    uint8_t *gate = c->gate ? make_matrices(fixture, c, &data, data.gate_type, &seed) : NULL;
    const size_t n_values = k * rows * data.n_matrices;
    data.weight = fixture_hold(fixture, weight_values(c->type, weight, n_values));
    if (gate) data.gate = fixture_hold(fixture, weight_values(data.gate_type, gate, n_values));
    data.input = fixture_hold(fixture, random_floats(&seed, k * data.n_inputs * tokens));
    data.bias = fixture_hold(fixture, random_floats(&seed, rows * data.n_matrices));
    data.residual = fixture_hold(fixture, random_floats(&seed, rows * tokens));
    data.mix = fixture_hold(fixture, random_floats(&seed, data.n_columns * tokens));

    const struct fixture_gaps gaps = {.row = c->gap};
    const uint64_t chosen[4] = {c->n_used, tokens, 1, 1};
    struct engine_tensor *residual =
        c->residual ? fixture_strided(fixture, rows, tokens, 1, &gaps, data.residual) : NULL;
    struct engine_op_matmul args = {
        .struct_size = sizeof args,
        .weight = matrices_tensor(fixture, c, c->type, weight),
        .input = columns_tensor(fixture, c, k, data.n_inputs, data.input),
        .output = c->in_place && residual ? residual
                  : c->mix                ? fixture_strided(fixture, rows, tokens, 1, &gaps, NULL)
                                          : columns_tensor(fixture, c, rows, data.n_columns, NULL),
        .gate = gate ? matrices_tensor(fixture, c, data.gate_type, gate) : NULL,
        .bias = c->bias ? fixture_weight(fixture, ENGINE_TYPE_F32, rows, data.n_matrices,
                                         ENGINE_WEIGHT_VALUES, false, data.bias)
                        : NULL,
        .residual = residual,
        .activation = c->activation,
        .scale = c->scale,
        .experts = c->n_used ? fixture_view(fixture, ENGINE_TYPE_I32, chosen, &gaps, data.experts) : NULL,
        .mix = c->mix ? fixture_strided(fixture, c->n_used, tokens, 1, &gaps, data.mix) : NULL,
    };
    fixture_run(fixture, ENGINE_OP_MATMUL, &args);
    float *result = fixture_hold(fixture, fixture_read(fixture, args.output));
    check_matmul(fixture, c, &data, result);
    return fixture_release(fixture, result);
}

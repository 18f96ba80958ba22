/* cases.c: see cases.h. Matmul, and operations on rows. */
#include "check/cases.h"

#include <math.h>
#include <stdlib.h>

#include "check/formats.h"
#include "check/numbers.h"
#include "check/reference.h"

/* What a result of n values is compared with. */
struct comparison {
    double *wanted, *bounds; /* [n] */
};

static struct comparison comparison(struct fixture *fixture, size_t n)
{
    return (struct comparison){fixture_room(fixture, n, sizeof(double)),
                               fixture_room(fixture, n, sizeof(double))};
}

/* ---- Matmul ---------------------------------------------------------------------------------------- */

struct matmul_data {
    double *weight, *gate;
    float *input, *bias, *residual;
};

static struct expected expect_product(const struct matmul_case *c, const struct matmul_data *d, size_t row,
                                      size_t token)
{
    const float *x = d->input + token * c->k;
    const float *residual = c->residual ? &d->residual[token * c->rows + row] : NULL;
    struct expected gate,
        product = reference_dot(c->type, d->weight + row * c->k, x, c->k, c->input_rounding);
    if (c->gate)
        gate = reference_dot(c->gate_type ? c->gate_type : c->type, d->gate + row * c->k, x, c->k,
                             c->input_rounding);
    return reference_matmul(product, c->gate ? &gate : NULL, c->activation, c->scale,
                            c->bias ? &d->bias[row] : NULL, residual);
}

static void check_matmul(struct fixture *fixture, const struct matmul_case *c, const struct matmul_data *d,
                         const float *output)
{
    size_t n = (size_t)c->rows * c->tokens;
    struct comparison expected = comparison(fixture, n);
    double error = 0, size = 0;
    for (size_t i = 0; i < n; i++) {
        struct expected value = expect_product(c, d, i % c->rows, i / c->rows);
        expected.wanted[i] = value.value, expected.bounds[i] = value.bound;
        error += ((double)output[i] - value.value) * ((double)output[i] - value.value);
        size += value.value * value.value;
    }
    fixture_compare(fixture, "matmul", output, expected.wanted, expected.bounds, n);
    /* The bounds are for the worst case; rounding to int8 as a whole costs 0.6 % of random data. */
    bool quantised = reference_is_quantised(c->type) || (c->gate && reference_is_quantised(c->gate_type));
    double limit = reference_matmul_share(quantised, c->input_rounding), share = sqrt(error / size);
    if (n >= 64 && !(share <= limit))
        fixture_fail(fixture, "matmul: as a whole off by %.3g of the result's size, %.3g is allowed", share,
                     limit);
}

float *run_matmul_case(struct fixture *fixture, const struct matmul_case *c)
{
    uint64_t seed = c->k * 31 + c->rows * 7 + c->tokens;
    size_t k = c->k, rows = c->rows, tokens = c->tokens;
    uint32_t gate_type = c->gate_type ? c->gate_type : c->type, use = ENGINE_WEIGHT_MATMUL;
    void *weight = fixture_hold(fixture, random_weight(&seed, c->type, k, rows));
    void *gate = fixture_hold(fixture, random_weight(&seed, gate_type, k, rows));
    struct matmul_data data = {
        fixture_hold(fixture, weight_values(c->type, weight, k * rows)),
        fixture_hold(fixture, weight_values(gate_type, gate, k * rows)),
        fixture_hold(fixture, random_floats(&seed, k * tokens)),
        fixture_hold(fixture, random_floats(&seed, rows)),
        fixture_hold(fixture, random_floats(&seed, rows * tokens)),
    };
    const struct fixture_gaps gaps = {.row = c->gap};
    struct engine_tensor *residual =
        c->residual ? fixture_strided(fixture, rows, tokens, 1, &gaps, data.residual) : NULL;
    struct engine_op_matmul args = {
        .struct_size = sizeof args,
        .weight = fixture_weight(fixture, c->type, k, rows, use, false, weight),
        .input = fixture_strided(fixture, k, tokens, 1, &gaps, data.input),
        .output = c->in_place && residual ? residual : fixture_strided(fixture, rows, tokens, 1, &gaps, NULL),
        .gate = c->gate ? fixture_weight(fixture, gate_type, k, rows, use, false, gate) : NULL,
        .bias = c->bias ? fixture_weight(fixture, ENGINE_TYPE_F32, rows, 1, ENGINE_WEIGHT_VALUES, false,
                                         data.bias)
                        : NULL,
        .residual = residual,
        .activation = c->activation,
        .scale = c->scale,
    };
    fixture_run(fixture, ENGINE_OP_MATMUL, &args);
    float *result = fixture_hold(fixture, fixture_read(fixture, args.output));
    check_matmul(fixture, c, &data, result);
    return fixture_release(fixture, result);
}

/* ---- Rows ------------------------------------------------------------------------------------------ */

/* What a row should become; b: NULL or a row. */
static void expect_row(const struct rows_case *c, const float *a, const float *b, double *wanted,
                       double *bounds)
{
    double rms = reference_rms(a, c->n, c->epsilon);
    for (size_t i = 0; i < c->n; i++) {
        double x = (double)a[i], y = b ? (double)b[i] : 1;
        switch (c->op) {
        case ENGINE_OP_ADD: wanted[i] = x + y; break;
        case ENGINE_OP_MUL: wanted[i] = x * y; break;
        case ENGINE_OP_NORM: wanted[i] = x * rms * y; break;
        default: wanted[i] = reference_activation(c->activation, x) * y; break;
        }
        bounds[i] = reference_row_bound(wanted[i]);
    }
}

static void run_rows_op(struct fixture *fixture, const struct rows_case *c, const struct engine_tensor *a,
                        const struct engine_tensor *b, const struct engine_tensor *out)
{
    struct engine_op_binary binary = {sizeof binary, a, b, out};
    struct engine_op_norm norm = {
        .struct_size = sizeof norm, .input = a, .output = out, .weight = b, .epsilon = c->epsilon};
    struct engine_op_activate activation = {.struct_size = sizeof activation,
                                            .input = a,
                                            .factor = b,
                                            .output = out,
                                            .activation = c->activation};
    const void *args = c->op == ENGINE_OP_NORM       ? (void *)&norm
                       : c->op == ENGINE_OP_ACTIVATE ? (void *)&activation
                                                     : (void *)&binary;
    fixture_run(fixture, c->op, args);
}

/* The second operand; NULL: there is none. */
static struct engine_tensor *second_operand(struct fixture *fixture, const struct rows_case *c, bool one_row,
                                            const float *b)
{
    bool is_weight = c->op == ENGINE_OP_NORM || c->is_weight;
    if (!one_row && c->op == ENGINE_OP_ACTIVATE && !c->second) return NULL;
    if (!one_row && c->op != ENGINE_OP_NORM)
        return fixture_strided(fixture, c->n, c->tokens, c->planes, &c->gaps, b);
    if (!c->second) return NULL;
    if (is_weight) return fixture_weight(fixture, ENGINE_TYPE_F32, c->n, 1, ENGINE_WEIGHT_VALUES, false, b);
    return fixture_f32(fixture, c->n, 1, 1, b);
}

/* Rows of a norm are of very different sizes: where the squares are far below epsilon, about as large, far above, and a
 * row of zeros. */
static float row_size(size_t row)
{
    static const float sizes[] = {1, 1e-3f, 0, 3e-5f, 1e4f, 0.03f};
    return sizes[row % (sizeof sizes / sizeof *sizes)];
}

float *run_rows_case(struct fixture *fixture, const struct rows_case *c)
{
    uint64_t seed = c->n * 131 + c->tokens + c->op;
    size_t n_rows = (size_t)c->tokens * c->planes, n = c->n * n_rows;
    float *a = fixture_hold(fixture, random_floats(&seed, n)),
          *b = fixture_hold(fixture, random_floats(&seed, n));
    for (size_t i = 0; i < n; i += 5) a[i] *= i % 3 ? 20 : 100; /* the far ends of exp as well, and beyond */
    for (size_t i = 0; i < n && c->op == ENGINE_OP_NORM; i++) a[i] *= row_size(i / c->n);
    bool one_row = c->op == ENGINE_OP_NORM || (c->op != ENGINE_OP_ACTIVATE && c->second);
    struct engine_tensor *input = fixture_strided(fixture, c->n, c->tokens, c->planes, &c->gaps, a);
    struct engine_tensor *output =
        c->in_place ? input : fixture_strided(fixture, c->n, c->tokens, c->planes, &c->gaps, NULL);
    struct engine_tensor *other = second_operand(fixture, c, one_row, b);
    run_rows_op(fixture, c, input, other, output);
    float *result = fixture_hold(fixture, fixture_read(fixture, output));
    struct comparison expected = comparison(fixture, n);
    for (size_t i = 0; i < n; i += c->n)
        expect_row(c, a + i, other ? one_row ? b : b + i : NULL, expected.wanted + i, expected.bounds + i);
    fixture_compare(fixture, "rows", result, expected.wanted, expected.bounds, n);
    return fixture_release(fixture, result);
}

/* ---- Rope ------------------------------------------------------------------------------------------ */

static void expect_head(const struct rope_case *c, int32_t position, const float *factors, const float *in,
                        double *wanted, double *bounds)
{
    size_t n_pairs = c->n_dims / 2;
    double scale = c->position_scale == 0 ? 1 : (double)c->position_scale;
    for (size_t i = 0; i < c->head_dim; i++)
        wanted[i] = (double)in[i], bounds[i] = 0; /* what isn't turned is copied */
    for (size_t i = 0; i < n_pairs; i++) {
        size_t first = c->pairs == ENGINE_ROPE_HALVES ? i : 2 * i;
        size_t second = c->pairs == ENGINE_ROPE_HALVES ? i + n_pairs : 2 * i + 1;
        bounds[first] = bounds[second] = reference_turn_bound(wanted[first], wanted[second]);
        reference_turn(&wanted[first], &wanted[second], position, scale, (double)c->theta, c->n_dims, i,
                       c->factors ? (double)factors[i] : 1);
    }
}

float *run_rope_case(struct fixture *fixture, const struct rope_case *c)
{
    uint64_t seed = c->head_dim * 3 + c->tokens;
    size_t n = (size_t)c->head_dim * c->n_heads * c->tokens;
    float *in = fixture_hold(fixture, random_floats(&seed, n));
    float *factors = fixture_hold(fixture, random_floats(&seed, c->n_dims / 2));
    int32_t *positions = fixture_room(fixture, c->tokens, sizeof *positions);
    for (size_t t = 0; t < c->tokens; t++)
        positions[t] = (int32_t)(random_bits(&seed) % (c->most_position + 1));
    for (size_t i = 0; i < c->n_dims / 2; i++) factors[i] = 1 + fabsf(factors[i]);
    struct engine_tensor *input = fixture_strided(fixture, c->head_dim, c->n_heads, c->tokens, &c->gaps, in);
    struct engine_op_rope args = {
        .struct_size = sizeof args,
        .input = input,
        .positions = fixture_i32(fixture, c->tokens, 1, positions),
        .output = c->in_place ? input
                              : fixture_strided(fixture, c->head_dim, c->n_heads, c->tokens, &c->gaps, NULL),
        .factors = c->factors ? fixture_weight(fixture, ENGINE_TYPE_F32, c->n_dims / 2, 1,
                                               ENGINE_WEIGHT_VALUES, false, factors)
                              : NULL,
        .n_dims = c->n_dims,
        .pairs = c->pairs,
        .theta = c->theta,
        .position_scale = c->position_scale,
    };
    fixture_run(fixture, ENGINE_OP_ROPE, &args);
    float *result = fixture_hold(fixture, fixture_read(fixture, args.output));
    struct comparison expected = comparison(fixture, n);
    for (size_t i = 0; i < n; i += c->head_dim)
        expect_head(c, positions[i / c->head_dim / c->n_heads], factors, in + i, expected.wanted + i,
                    expected.bounds + i);
    fixture_compare(fixture, "rope", result, expected.wanted, expected.bounds, n);
    return fixture_release(fixture, result);
}

/* ---- Get rows -------------------------------------------------------------------------------------- */

float *run_get_rows_case(struct fixture *fixture, const struct get_rows_case *c)
{
    uint64_t seed = c->n + c->count;
    size_t n = (size_t)c->n * c->count;
    void *data = fixture_hold(fixture, random_weight(&seed, c->type, c->n, c->n_rows));
    double *values = fixture_hold(fixture, weight_values(c->type, data, (size_t)c->n * c->n_rows));
    int32_t *rows = fixture_room(fixture, c->count, sizeof *rows);
    for (size_t i = 0; i < c->count; i++) rows[i] = (int32_t)(random_bits(&seed) % c->n_rows);
    const struct fixture_gaps gaps = {.row = c->gap};
    struct engine_op_get_rows args = {
        .struct_size = sizeof args,
        .source = c->uses ? fixture_weight(fixture, c->type, c->n, c->n_rows, c->uses, c->data_is_kept, data)
                          : fixture_strided(fixture, c->n, c->n_rows, 1, &gaps, data),
        .rows = fixture_i32(fixture, c->count, 1, rows),
        .output = fixture_strided(fixture, c->n, c->count, 1, &gaps, NULL),
    };
    fixture_run(fixture, ENGINE_OP_GET_ROWS, &args);
    float *result = fixture_hold(fixture, fixture_read(fixture, args.output));
    struct comparison expected = comparison(fixture, n); /* bounds of zero: to the bit */
    for (size_t i = 0; i < n; i++)
        expected.wanted[i] = (double)(float)values[(size_t)rows[i / c->n] * c->n + i % c->n];
    fixture_compare(fixture, "get rows", result, expected.wanted, expected.bounds, n);
    return fixture_release(fixture, result);
}

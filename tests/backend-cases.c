/* backend-cases.c: matmul and operations on rows; see backend-cases.h. */
#include "backend-cases.h"

#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static double silu(double x)
{
    return x / (1 + exp(-x));
}

static double activate(uint32_t activation, double x)
{
    return activation == ENGINE_ACTIVATION_SILU ? silu(x) : x;
}

static void expect_close(double got, double wanted, double bound, const char *what, size_t i)
{
    cr_assert(fabs(got - wanted) <= bound, "%s: element %zu is %.9g, not %.9g within %.3g", what, i, got,
              wanted, bound);
}

/* ---- Matmul ---------------------------------------------------------------------------------------- */

static bool is_quantised(uint32_t type)
{
    return type != ENGINE_TYPE_F32 && type != ENGINE_TYPE_F16 && type != ENGINE_TYPE_BF16;
}

/* A row times a column, and how far a backend's result may be from it. */
static double dot(const struct matmul_case *c, uint32_t type, const double *w, const float *x, double *bound)
{
    double sum = 0, size = 0, rounding = 0;
    for (size_t block = 0; block < c->k; block += 32) {
        size_t end = block + 32 < c->k ? block + 32 : c->k;
        double max = 0, weights = 0;
        for (size_t i = block; i < end; i++) {
            sum += w[i] * (double)x[i];
            size += fabs(w[i] * (double)x[i]);
            weights += fabs(w[i]);
            max = fmax(max, fabs((double)x[i]));
        }
        rounding += weights * max / 254 * 1.01; /* half a step of max / 127 */
    }
    *bound = 1e-6 * size + (is_quantised(type) ? rounding : size * c->input_rounding);
    return sum;
}

/* What element (row, token) should be. */
struct matmul_data {
    double *weight, *gate;
    float *input, *bias, *residual;
};

static double expected(const struct matmul_case *c, const struct matmul_data *d, size_t row, size_t token,
                       double *bound)
{
    uint32_t gate_type = c->gate_type ? c->gate_type : c->type;
    const float *x = d->input + token * c->k;
    double sum = dot(c, c->type, d->weight + row * c->k, x, bound);
    if (c->gate) {
        double gate_bound, gate = dot(c, gate_type, d->gate + row * c->k, x, &gate_bound);
        double factor = activate(c->activation, gate);
        gate_bound *= 1.1; /* the slope of silu is at most that */
        *bound = *bound * fabs(factor) + gate_bound * fabs(sum) + *bound * gate_bound;
        sum *= factor;
    } else {
        double scale = c->scale == 0 ? 1 : (double)c->scale;
        sum = activate(c->activation, sum * scale + (c->bias ? (double)d->bias[row] : 0));
        *bound *= fabs(scale) * 1.1;
    }
    if (c->residual) sum += (double)d->residual[token * c->rows + row];
    *bound += 1e-6 * (fabs(sum) + 1);
    return sum;
}

static void check_matmul(const struct matmul_case *c, const struct matmul_data *d, const float *output)
{
    double error = 0, size = 0;
    for (size_t t = 0; t < c->tokens; t++)
        for (size_t r = 0; r < c->rows; r++) {
            double bound, wanted = expected(c, d, r, t, &bound), got = (double)output[t * c->rows + r];
            expect_close(got, wanted, bound, "matmul", t * c->rows + r);
            error += (got - wanted) * (got - wanted);
            size += wanted * wanted;
        }
    /* The bound above is the worst case; rounding to int8 as a whole costs 0.6 % of random data. */
    bool quantised = is_quantised(c->type) || (c->gate && is_quantised(c->gate_type));
    double limit = quantised ? 0.02 : 2e-6 + c->input_rounding;
    if (c->rows * c->tokens >= 64)
        cr_assert_leq(sqrt(error / size), limit, "matmul: error %.3g of the result", sqrt(error / size));
}

float *run_matmul_case(struct fixture *fixture, const struct matmul_case *c)
{
    uint64_t seed = c->k * 31 + c->rows * 7 + c->tokens;
    size_t k = c->k, rows = c->rows, tokens = c->tokens;
    uint32_t gate_type = c->gate_type ? c->gate_type : c->type;
    void *weight = random_weight(&seed, c->type, k, rows), *gate = random_weight(&seed, gate_type, k, rows);
    struct matmul_data data = {weight_values(c->type, weight, k * rows),
                               weight_values(gate_type, gate, k * rows), random_floats(&seed, k * tokens),
                               random_floats(&seed, rows), random_floats(&seed, rows * tokens)};
    struct engine_tensor *residual =
        c->residual ? fixture_strided(fixture, rows, tokens, 1, c->gap, data.residual) : NULL;
    struct engine_tensor *output =
        c->in_place && residual ? residual : fixture_strided(fixture, rows, tokens, 1, c->gap, NULL);
    uint32_t use = ENGINE_WEIGHT_MATMUL;
    struct engine_op_matmul args = {
        .struct_size = sizeof args,
        .weight = fixture_weight(fixture, c->type, k, rows, use, false, weight),
        .input = fixture_strided(fixture, k, tokens, 1, c->gap, data.input),
        .output = output,
        .gate = c->gate ? fixture_weight(fixture, gate_type, k, rows, use, false, gate) : NULL,
        .bias = c->bias ? fixture_weight(fixture, ENGINE_TYPE_F32, rows, 1, ENGINE_WEIGHT_VALUES, false,
                                         data.bias)
                        : NULL,
        .residual = residual,
        .activation = c->activation,
        .scale = c->scale,
    };
    fixture_run(fixture, ENGINE_OP_MATMUL, &args);
    float *result = fixture_read(fixture, output);
    check_matmul(c, &data, result);
    free(weight), free(gate);
    free(data.weight), free(data.gate), free(data.input), free(data.bias), free(data.residual);
    return result;
}

/* ---- Rows ------------------------------------------------------------------------------------------ */

static void check_row(const struct rows_case *c, const float *a, const float *b, const float *out)
{
    double squares = 0;
    for (size_t i = 0; i < c->n; i++) squares += (double)a[i] * (double)a[i];
    double norm = sqrt(squares / c->n + (double)c->epsilon);
    for (size_t i = 0; i < c->n; i++) {
        double x = (double)a[i], y = b ? (double)b[i] : 1, wanted = 0;
        switch (c->op) {
        case ENGINE_OP_ADD: wanted = x + y; break;
        case ENGINE_OP_MUL: wanted = x * y; break;
        case ENGINE_OP_NORM: wanted = x / norm * y; break;
        default: wanted = activate(c->activation, x) * y; break;
        }
        expect_close((double)out[i], wanted, 1e-6 * fabs(wanted) + 1e-30, "rows", i);
    }
}

/* Runs the case's operation. */
static void run_rows_op(struct fixture *fixture, const struct rows_case *c, const struct engine_tensor *a,
                        const struct engine_tensor *b, const struct engine_tensor *out)
{
    struct engine_op_binary binary = {sizeof binary, a, b, out};
    struct engine_op_norm norm = {sizeof norm, a, out, b, ENGINE_NORM_RMS, c->epsilon};
    struct engine_op_activate activation = {sizeof activation, a, b, out, c->activation};
    const void *args = c->op == ENGINE_OP_NORM       ? (void *)&norm
                       : c->op == ENGINE_OP_ACTIVATE ? (void *)&activation
                                                     : (void *)&binary;
    fixture_run(fixture, c->op, args);
}

float *run_rows_case(struct fixture *fixture, const struct rows_case *c)
{
    uint64_t seed = c->n * 131 + c->tokens + c->op;
    size_t n_rows = (size_t)c->tokens * c->planes;
    float *a = random_floats(&seed, c->n * n_rows), *b = random_floats(&seed, c->n * n_rows);
    for (size_t i = 0; i < c->n * n_rows; i += 5) a[i] *= 20; /* the far ends of exp as well */
    bool one_row = c->op == ENGINE_OP_NORM || (c->op != ENGINE_OP_ACTIVATE && c->second);
    bool is_weight = c->op == ENGINE_OP_NORM || c->is_weight;
    struct engine_tensor *input = fixture_strided(fixture, c->n, c->tokens, c->planes, c->gap, a);
    struct engine_tensor *output =
        c->in_place ? input : fixture_strided(fixture, c->n, c->tokens, c->planes, c->gap, NULL);
    struct engine_tensor *other = NULL;
    if (one_row && c->second)
        other = is_weight ? fixture_weight(fixture, ENGINE_TYPE_F32, c->n, 1, ENGINE_WEIGHT_VALUES, false, b)
                          : fixture_f32(fixture, c->n, 1, 1, b);
    else if (!one_row && (c->op != ENGINE_OP_ACTIVATE || c->second))
        other = fixture_strided(fixture, c->n, c->tokens, c->planes, c->gap, b);
    run_rows_op(fixture, c, input, other, output);
    float *result = fixture_read(fixture, output);
    for (size_t row = 0; row < n_rows; row++)
        check_row(c, a + row * c->n, other ? one_row ? b : b + row * c->n : NULL, result + row * c->n);
    free(a), free(b);
    return result;
}

/* ---- Rope ------------------------------------------------------------------------------------------ */

static void check_head(const struct rope_case *c, int32_t position, const float *factors, const float *in,
                       const float *out)
{
    size_t n_pairs = c->n_dims / 2;
    double scale = c->position_scale == 0 ? 1 : (double)c->position_scale;
    for (size_t i = 0; i < n_pairs; i++) {
        double angle = position * scale * pow((double)c->theta, -2.0 * (double)i / c->n_dims);
        if (c->factors) angle /= (double)factors[i];
        size_t first = c->pairs == ENGINE_ROPE_HALVES ? i : 2 * i;
        size_t second = c->pairs == ENGINE_ROPE_HALVES ? i + n_pairs : 2 * i + 1;
        double a = (double)in[first], b = (double)in[second];
        /* float32 angles of large positions are off by 2^-24 of the angle */
        double bound = (fabs(a) + fabs(b)) * 3e-7 + 1e-30;
        expect_close((double)out[first], a * cos(angle) - b * sin(angle), bound, "rope", first);
        expect_close((double)out[second], a * sin(angle) + b * cos(angle), bound, "rope", second);
    }
    for (size_t i = c->n_dims; i < c->head_dim; i++)
        cr_assert(out[i] == in[i], "rope: value %zu is behind the last pair and has changed", i);
}

float *run_rope_case(struct fixture *fixture, const struct rope_case *c)
{
    uint64_t seed = c->head_dim * 3 + c->tokens;
    size_t n = (size_t)c->head_dim * c->n_heads * c->tokens;
    float *in = random_floats(&seed, n), *factors = random_floats(&seed, c->n_dims / 2);
    int32_t *positions = malloc(c->tokens * sizeof *positions);
    cr_assert(positions);
    for (size_t t = 0; t < c->tokens; t++)
        positions[t] = (int32_t)(random_bits(&seed) % (c->most_position + 1));
    for (size_t i = 0; i < c->n_dims / 2; i++) factors[i] = 1 + fabsf(factors[i]);
    struct engine_tensor *input = fixture_strided(fixture, c->head_dim, c->n_heads, c->tokens, c->gap, in);
    struct engine_tensor *output =
        c->in_place ? input : fixture_strided(fixture, c->head_dim, c->n_heads, c->tokens, c->gap, NULL);
    struct engine_op_rope args = {
        .struct_size = sizeof args,
        .input = input,
        .positions = fixture_i32(fixture, c->tokens, 1, positions),
        .output = output,
        .factors = c->factors ? fixture_weight(fixture, ENGINE_TYPE_F32, c->n_dims / 2, 1,
                                               ENGINE_WEIGHT_VALUES, false, factors)
                              : NULL,
        .n_dims = c->n_dims,
        .pairs = c->pairs,
        .theta = c->theta,
        .position_scale = c->position_scale,
    };
    fixture_run(fixture, ENGINE_OP_ROPE, &args);
    float *result = fixture_read(fixture, output);
    for (size_t i = 0; i < n; i += c->head_dim)
        check_head(c, positions[i / c->head_dim / c->n_heads], factors, in + i, result + i);
    free(in), free(factors), free(positions);
    return result;
}

/* ---- Get rows -------------------------------------------------------------------------------------- */

float *run_get_rows_case(struct fixture *fixture, const struct get_rows_case *c)
{
    uint64_t seed = c->n + c->count;
    void *data = random_weight(&seed, c->type, c->n, c->n_rows);
    double *values = weight_values(c->type, data, (size_t)c->n * c->n_rows);
    int32_t *rows = malloc(c->count * sizeof *rows);
    cr_assert(rows);
    for (size_t i = 0; i < c->count; i++) rows[i] = (int32_t)(random_bits(&seed) % c->n_rows);
    struct engine_op_get_rows args = {
        .struct_size = sizeof args,
        .source = c->uses ? fixture_weight(fixture, c->type, c->n, c->n_rows, c->uses, c->data_is_kept, data)
                          : fixture_f32(fixture, c->n, c->n_rows, 1, data),
        .rows = fixture_i32(fixture, c->count, 1, rows),
        .output = fixture_f32(fixture, c->n, c->count, 1, NULL),
    };
    fixture_run(fixture, ENGINE_OP_GET_ROWS, &args);
    float *result = fixture_read(fixture, args.output);
    for (size_t i = 0; i < (size_t)c->n * c->count; i++) {
        float wanted = (float)values[(size_t)rows[i / c->n] * c->n + i % c->n];
        cr_assert(result[i] == wanted, "get rows: element %zu is %.9g, not %.9g", i, (double)result[i],
                  (double)wanted);
    }
    free(data), free(values), free(rows);
    return result;
}

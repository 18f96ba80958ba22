/* cases.c: see cases.h. Operations on rows. */
#include "check/cases.h"

#include <math.h>
#include <stdlib.h>

#include "check/formats.h"
#include "check/numbers.h"
#include "check/reference.h"

/* ---- Rows ------------------------------------------------------------------------------------------ */

/* The second operand: of a's shape, one row, or one number for each row; [n] elements, row by row. */
struct second {
    bool is_there, is_weight;
    size_t n, tokens, planes;
};

static struct second second_of(const struct rows_case *c)
{
    struct second b = {true, false, c->n, c->tokens, c->planes};
    bool one_row = c->op == ENGINE_OP_NORM || (c->op != ENGINE_OP_ACTIVATE && c->second);
    if (c->op == ENGINE_OP_NORM || c->op == ENGINE_OP_ACTIVATE) b.is_there = c->second;
    b.is_weight = c->op == ENGINE_OP_NORM || (one_row && c->is_weight);
    if (one_row) b.tokens = b.planes = 1;
    if (c->single) b.n = 1;
    return b;
}

static struct engine_tensor *second_operand(struct fixture *fixture, const struct rows_case *c,
                                            const struct second *shape, const float *b)
{
    if (!shape->is_there) return NULL;
    if (shape->is_weight)
        return fixture_weight(fixture, ENGINE_TYPE_F32, c->n, 1, ENGINE_WEIGHT_VALUES, false, b);
    return fixture_strided(fixture, shape->n, shape->tokens, shape->planes, &c->gaps, b);
}

/* The expected result of row `row`. */
static void expect_row(const struct rows_case *c, const struct second *shape, size_t row, const float *a,
                       const float *b, const float *bias, struct expected *out)
{
    const float *x = a + row * c->n, *y = b;
    if (shape->tokens * shape->planes > 1) y += row * shape->n;
    if (!shape->is_there) y = NULL;
    if (c->op == ENGINE_OP_NORM) {
        reference_norm(c->kind, x, c->n, c->epsilon, y, c->bias ? bias : NULL, out);
        return;
    }
    for (size_t i = 0; i < c->n; i++) {
        const float *factor = y ? &y[shape->n == 1 ? 0 : i] : NULL;
        if (c->op == ENGINE_OP_ACTIVATE) {
            out[i] = reference_activate(c->activation, c->limit, c->alpha, (double)x[i], factor);
            continue;
        }
        /* one that is missing here */
        double value = c->op == ENGINE_OP_ADD   ? (double)x[i] + (double)*factor
                       : c->op == ENGINE_OP_MUL ? (double)x[i] * (double)*factor
                                                : (double)NAN;
        out[i] = (struct expected){value, reference_row_bound(value)};
    }
}

static void run_rows_op(struct fixture *fixture, const struct rows_case *c, const struct engine_tensor *a,
                        const struct engine_tensor *b, const struct engine_tensor *bias,
                        const struct engine_tensor *out)
{
    struct engine_op_binary binary = {sizeof binary, a, b, out};
    struct engine_op_norm norm = {.struct_size = sizeof norm,
                                  .input = a,
                                  .output = out,
                                  .weight = b,
                                  .kind = c->kind,
                                  .epsilon = c->epsilon,
                                  .bias = bias};
    struct engine_op_activate activation = {.struct_size = sizeof activation,
                                            .input = a,
                                            .factor = b,
                                            .output = out,
                                            .activation = c->activation,
                                            .limit = c->limit,
                                            .alpha = c->alpha};
    const void *args = c->op == ENGINE_OP_NORM       ? (void *)&norm
                       : c->op == ENGINE_OP_ACTIVATE ? (void *)&activation
                                                     : (void *)&binary;
    fixture_run(fixture, c->op, args);
}

/* Rows of a norm have very different sizes: squares far below epsilon, about as large, far above, and a row
 * of zeros. Some are also far from zero, so that subtracting the mean leaves a much smaller row. */
static void shape_row(const struct rows_case *c, size_t row, float *values)
{
    static const float sizes[] = {1, 1e-3f, 0, 3e-5f, 1e4f, 0.03f}, means[] = {0, 30, -700, 0.1f, 0};
    const float size = sizes[row % (sizeof sizes / sizeof *sizes)];
    const float mean = c->kind == ENGINE_NORM_LAYER ? means[row % (sizeof means / sizeof *means)] : 0;
    for (size_t i = 0; i < c->n; i++) values[i] = (values[i] + mean) * size;
}

float *run_rows_case(struct fixture *fixture, const struct rows_case *c)
{
    uint64_t seed = c->n * 131 + c->tokens + c->op;
    size_t n_rows = (size_t)c->tokens * c->planes, n = c->n * n_rows;
    float *a = fixture_hold(fixture, random_floats(&seed, n)),
          *b = fixture_hold(fixture, random_floats(&seed, n)),
          *bias = fixture_hold(fixture, random_floats(&seed, c->n));
    fixture_describe(fixture, "%u values, %u rows, %u planes, gaps %u and %u%s%s", c->n, c->tokens, c->planes,
                     c->gaps.row, c->gaps.plane, c->in_place ? ", in place" : "",
                     c->single ? ", one number for each row" : "");
    if (c->op == ENGINE_OP_NORM)
        fixture_describe_more(fixture, ", kind %u, epsilon %g%s%s", c->kind, (double)c->epsilon,
                              c->second ? ", weight" : "", c->bias ? ", bias" : "");
    if (c->op == ENGINE_OP_ACTIVATE)
        fixture_describe_more(fixture, ", activation %u, limit %g, alpha %g%s", c->activation,
                              (double)c->limit, (double)c->alpha, c->second ? ", factor" : "");
    for (size_t i = 0; i < n; i += 5) a[i] *= i % 3 ? 20 : 100; /* also the far ends of exp and beyond */
    for (size_t i = 0; i < n && c->op == ENGINE_OP_ACTIVATE && c->activation == ENGINE_ACTIVATION_EXP; i++)
        a[i] = fminf(a[i], 80);
    for (size_t row = 0; row < n_rows && c->op == ENGINE_OP_NORM; row++) shape_row(c, row, a + row * c->n);
    struct second shape = second_of(c);
    struct engine_tensor *input = fixture_strided(fixture, c->n, c->tokens, c->planes, &c->gaps, a);
    struct engine_tensor *output =
        c->in_place ? input : fixture_strided(fixture, c->n, c->tokens, c->planes, &c->gaps, NULL);
    struct engine_tensor *other = second_operand(fixture, c, &shape, b), *added = NULL;
    if (c->bias) added = fixture_weight(fixture, ENGINE_TYPE_F32, c->n, 1, ENGINE_WEIGHT_VALUES, false, bias);
    run_rows_op(fixture, c, input, other, added, output);
    float *result = fixture_hold(fixture, fixture_read(fixture, output));
    struct expected *expected = fixture_room(fixture, n, sizeof *expected);
    for (size_t row = 0; row < n_rows; row++) expect_row(c, &shape, row, a, b, bias, expected + row * c->n);
    fixture_compare(fixture, "rows", result, expected, n);
    return fixture_release(fixture, result);
}

/* ---- Rope ------------------------------------------------------------------------------------------ */

static void expect_head(const struct rope_case *c, int32_t position, const float *factors, const float *in,
                        struct expected *out)
{
    size_t n_pairs = c->n_dims / 2;
    double scale = c->position_scale == 0 ? 1 : (double)c->position_scale;
    double magnitude = c->magnitude == 0 ? 1 : (double)c->magnitude;
    /* values that aren't rotated are copied */
    for (size_t i = 0; i < c->head_dim; i++) out[i] = (struct expected){(double)in[i], 0};
    for (size_t i = 0; i < n_pairs; i++) {
        struct expected *a = &out[c->pairs == ENGINE_ROPE_HALVES ? i : 2 * i];
        struct expected *b = &out[c->pairs == ENGINE_ROPE_HALVES ? i + n_pairs : 2 * i + 1];
        a->bound = b->bound = reference_turn_bound(a->value, b->value) * fabs(magnitude);
        reference_turn(&a->value, &b->value, position, scale, (double)c->theta, c->n_dims, i,
                       c->factors ? (double)factors[i] : 1);
        a->value *= magnitude, b->value *= magnitude;
    }
}

float *run_rope_case(struct fixture *fixture, const struct rope_case *c)
{
    uint64_t seed = c->head_dim * 3 + c->tokens;
    size_t n = (size_t)c->head_dim * c->n_heads * c->tokens;
    fixture_describe(
        fixture,
        "head size %u, %u heads, %u tokens, %u dimensions in %s, gaps %u and %u, theta %g, position "
        "scale %g, positions to %u, magnitude %g%s%s",
        c->head_dim, c->n_heads, c->tokens, c->n_dims,
        c->pairs == ENGINE_ROPE_ADJACENT ? "adjacent pairs" : "halves", c->gaps.row, c->gaps.plane,
        (double)c->theta, (double)c->position_scale, c->most_position, (double)c->magnitude,
        c->factors ? ", factors" : "", c->in_place ? ", in place" : "");
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
        .magnitude = c->magnitude,
    };
    fixture_run(fixture, ENGINE_OP_ROPE, &args);
    float *result = fixture_hold(fixture, fixture_read(fixture, args.output));
    struct expected *expected = fixture_room(fixture, n, sizeof *expected);
    for (size_t i = 0; i < n; i += c->head_dim)
        expect_head(c, positions[i / c->head_dim / c->n_heads], factors, in + i, expected + i);
    fixture_compare(fixture, "rope", result, expected, n);
    return fixture_release(fixture, result);
}

/* ---- Get rows -------------------------------------------------------------------------------------- */

float *run_get_rows_case(struct fixture *fixture, const struct get_rows_case *c)
{
    uint64_t seed = c->n + c->count;
    size_t n = (size_t)c->n * c->count;
    fixture_describe(fixture, "%s, %u values, %u of %u rows, gap %u, %s%s", format_of(c->type)->name, c->n,
                     c->count, c->n_rows, c->gap,
                     !c->uses                         ? "an activation"
                     : c->uses & ENGINE_WEIGHT_MATMUL ? "a weight for products too"
                                                      : "a weight",
                     c->data_is_kept ? ", data kept" : "");
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
    struct expected *expected = fixture_room(fixture, n, sizeof *expected); /* bounds of zero: exact */
    for (size_t i = 0; i < n; i++)
        expected[i].value = (double)(float)values[(size_t)rows[i / c->n] * c->n + i % c->n];
    fixture_compare(fixture, "get rows", result, expected, n);
    return fixture_release(fixture, result);
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

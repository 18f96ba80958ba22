/* case-rows.c: operations on rows: norms, sums, products, activations, rope, rows of a matrix; see
 * cases.h. */
#include <math.h>
#include <stdlib.h>

#include "check/cases.h"
#include "check/formats.h"
#include "check/reference.h"

#define COUNT(array) (sizeof(array) / sizeof *(array))

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
    const struct engine_op_activate numbers = {.activation = c->activation,
                                               .limit = c->limit,
                                               .alpha = c->alpha,
                                               .beta = c->beta,
                                               .gamma = c->gamma};
    for (size_t i = 0; i < c->n; i++) {
        const float *factor = y ? &y[shape->n == 1 ? 0 : i] : NULL;
        if (c->op == ENGINE_OP_ACTIVATE) {
            out[i] = reference_activate(&numbers, (double)x[i], factor);
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
                                            .alpha = c->alpha,
                                            .beta = c->beta,
                                            .gamma = c->gamma};
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

size_t rows_case_size(const struct rows_case *c)
{
    return (size_t)c->n * c->tokens * c->planes;
}

/* A case in several sizes: rows dense; gaps after rows; after planes, rows dense; after both. */
static void each_size(const char *form, const struct rows_case *base, case_visitor *visit, void *user)
{
    static const uint32_t sizes[] = {1, 5, 31, 64, 257, 3000};
    static const struct fixture_gaps gaps[] = {{0}, {.row = 20}, {.plane = 12}, {.row = 4, .plane = 40}};
    static const float epsilons[] = {1e-5f, 1e-3f, 1e-6f, 0.5f};
    for (size_t i = 0; i < COUNT(sizes); i++)
        for (uint32_t variant = 0; variant < 4; variant++) {
            /* Strides over three dimensions may need other code than over two. */
            struct some_case c = {CASE_ROWS, form, variant % 2 == 1, {.rows = *base}};
            struct rows_case *rows = &c.as.rows;
            rows->n = sizes[i];
            rows->tokens = variant & 1 ? 11 : 1;
            rows->planes = variant & 2 ? 3 : 1;
            rows->in_place = variant & 2;
            rows->gaps = gaps[variant];
            if (rows->op == ENGINE_OP_NORM) rows->epsilon = epsilons[(variant + i) % COUNT(epsilons)];
            visit(user, &c);
        }
}

static void each_norm(const struct case_group *group, case_visitor *visit, void *user)
{
    struct rows_case c = {.op = ENGINE_OP_NORM, .kind = group->argument};
    if (c.kind != ENGINE_NORM_RMS) {
        each_size("neither weight nor bias", &c, visit, user);
        c.second = true;
        each_size("weight", &c, visit, user);
    }
    c.bias = true, c.second = true;
    each_size("weight and bias", &c, visit, user);
    c.second = false;
    each_size("bias", &c, visit, user);
}

static void each_single(const struct case_group *group, case_visitor *visit, void *user)
{
    each_size(NULL, &(struct rows_case){.op = group->argument, .single = true}, visit, user);
}

static void each_activation(const struct case_group *group, case_visitor *visit, void *user)
{
    static const float limits[] = {7, 0.25f, 50}, alphas[] = {1.702f, 1, -0.5f};
    const uint32_t activation = group->argument;
    const bool is_xielu = activation == ENGINE_ACTIVATION_XIELU,
               takes_alpha = activation == ENGINE_ACTIVATION_SWIGLU_CLAMPED || is_xielu,
               gated = activation == ENGINE_ACTIVATION_SWIGLU_CLAMPED ||
                       activation == ENGINE_ACTIVATION_SILU_CLAMPED,
               limited = gated || activation == ENGINE_ACTIVATION_CLAMP ||
                         activation == ENGINE_ACTIVATION_SOFTCAP || is_xielu;
    for (size_t i = 0; i < (limited ? COUNT(limits) : 1); i++) {
        struct rows_case c = {.op = ENGINE_OP_ACTIVATE,
                              .activation = activation,
                              .limit = !limited   ? 0
                                       : is_xielu ? 1e-6f * limits[i]
                                                  : limits[i],
                              .alpha = takes_alpha ? alphas[i] : 0,
                              .beta = is_xielu ? 0.25f * alphas[2 - i] : 0,
                              .gamma = is_xielu ? 0.01f * limits[i] : 0};
        if (!gated) each_size("no factor", &c, visit, user);
        c.second = true;
        each_size("factor", &c, visit, user);
    }
}

/* Rows of 16,387 values, and 80,000 rows: heads of many tokens. */
static void each_large_rows(const struct case_group *group, case_visitor *visit, void *user)
{
    const uint32_t op = group->argument;
    struct some_case cases[2] = {
        {CASE_ROWS,
         NULL,
         false,
         {.rows = {.op = op, .n = 16387, .tokens = 2, .planes = 1, .epsilon = 1e-5f}}},
        {CASE_ROWS,
         NULL,
         false,
         {.rows = {.op = op, .n = 16, .tokens = 40, .planes = 2000, .epsilon = 1e-5f}}},
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        cases[i].as.rows.second = op == ENGINE_OP_NORM || op == ENGINE_OP_ACTIVATE;
        if (op == ENGINE_OP_ACTIVATE) cases[i].as.rows.activation = ENGINE_ACTIVATION_SILU;
    }
    for (size_t i = 0; i < COUNT(cases); i++) visit(user, &cases[i]);
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

size_t rope_case_size(const struct rope_case *c)
{
    return (size_t)c->head_dim * c->n_heads * c->tokens;
}

static void each_magnitude(const struct case_group *group, case_visitor *visit, void *user)
{
    static const struct rope_case cases[] = {
        /* head_dim, heads, tokens, n_dims, pairs, factors, in place, theta, position scale, most position,
         * … */
        {64, 3, 5, 64, 0, false, true, 10000, 0, 100, .gaps = {0, 16, 0}, .magnitude = 1.2f},
        {64, 3, 40, 64, 0, true, false, 500000, 0, 200000, .gaps = {8, 0, 0}, .magnitude = 0.7f},
        {80, 1, 70, 22, 0, false, true, 10000, 0, 1000000, .gaps = {4, 0, 0}, .magnitude = 1.5f},
        {80, 2, 1, 22, 0, true, false, 1e6f, 0.25f, 1000, .magnitude = 1.0625f},
        {130, 5, 9, 102, 0, false, false, 10000, 0, 2047, .gaps = {12, 8, 0}, .magnitude = 40},
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        struct some_case c = {
            CASE_ROPE, cases[i].factors ? "factors" : "no factors", false, {.rope = cases[i]}};
        c.as.rope.pairs = group->argument;
        visit(user, &c);
        c.as.rope.tokens += c.as.rope.n_heads;
        c.again = true;
        visit(user, &c);
    }
}

static const struct some_case ropes[] = {
    {CASE_ROPE,
     NULL,
     false,
     {.rope = {.head_dim = 256,
               .n_heads = 9,
               .tokens = 20,
               .n_dims = 256,
               .theta = 1e6f,
               .most_position = 130000,
               .pairs = ENGINE_ROPE_HALVES}}},
    {CASE_ROPE,
     NULL,
     false,
     {.rope = {.head_dim = 512,
               .n_heads = 2,
               .tokens = 5,
               .n_dims = 128,
               .theta = 1e6f,
               .most_position = 3000,
               .pairs = ENGINE_ROPE_HALVES}}},
    {CASE_ROPE,
     NULL,
     false,
     {.rope = {.head_dim = 8,
               .n_heads = 64,
               .tokens = 1100,
               .n_dims = 8,
               .theta = 10000,
               .most_position = 3000}}},
};

static void each_large_rope(const struct case_group *group, case_visitor *visit, void *user)
{
    (void)group;
    for (size_t i = 0; i < COUNT(ropes); i++) visit(user, &ropes[i]);
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

/* ---- All ------------------------------------------------------------------------------------------ */

static const struct case_group groups[] = {
    {"norm", "rms, bias", each_norm, ENGINE_NORM_RMS},
    {"norm", "layer", each_norm, ENGINE_NORM_LAYER},
    {"add", "one number a row", each_single, ENGINE_OP_ADD},
    {"mul", "one number a row", each_single, ENGINE_OP_MUL},
    {"activate", "gelu (erf)", each_activation, ENGINE_ACTIVATION_GELU_ERF},
    {"activate", "gelu (tanh)", each_activation, ENGINE_ACTIVATION_GELU_TANH},
    {"activate", "relu", each_activation, ENGINE_ACTIVATION_RELU},
    {"activate", "relu squared", each_activation, ENGINE_ACTIVATION_RELU_SQUARED},
    {"activate", "sigmoid", each_activation, ENGINE_ACTIVATION_SIGMOID},
    {"activate", "tanh", each_activation, ENGINE_ACTIVATION_TANH},
    {"activate", "softplus", each_activation, ENGINE_ACTIVATION_SOFTPLUS},
    {"activate", "clamp", each_activation, ENGINE_ACTIVATION_CLAMP},
    {"activate", "soft cap", each_activation, ENGINE_ACTIVATION_SOFTCAP},
    {"activate", "swiglu, clamped", each_activation, ENGINE_ACTIVATION_SWIGLU_CLAMPED},
    {"activate", "exp", each_activation, ENGINE_ACTIVATION_EXP},
    {"activate 1.5", "silu, clamped", each_activation, ENGINE_ACTIVATION_SILU_CLAMPED},
    {"activate 1.5", "xielu", each_activation, ENGINE_ACTIVATION_XIELU},
    {"rope", "magnitude, adjacent pairs", each_magnitude, ENGINE_ROPE_ADJACENT},
    {"rope", "magnitude, halves", each_magnitude, ENGINE_ROPE_HALVES},
};

void each_rows_group(group_visitor *visit, void *user)
{
    for (size_t i = 0; i < COUNT(groups); i++) visit(user, &groups[i]);
}

static const struct case_group large_groups[] = {
    {"norm", "large", each_large_rows, ENGINE_OP_NORM},
    {"add", "large", each_large_rows, ENGINE_OP_ADD},
    {"mul", "large", each_large_rows, ENGINE_OP_MUL},
    {"activate", "large", each_large_rows, ENGINE_OP_ACTIVATE},
    {"rope", "large", each_large_rope, 0},
};

void each_large_rows_group(group_visitor *visit, void *user)
{
    for (size_t i = 0; i < COUNT(large_groups); i++) visit(user, &large_groups[i]);
}

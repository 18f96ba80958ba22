/* case-matmul.c: products with one matrix, with one for each head, and with experts chosen for each token;
 * see cases.h. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "check/cases.h"
#include "check/formats.h"

#define COUNT(array) (sizeof(array) / sizeof *(array))

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

static void matmul_describe(struct fixture *fixture, const struct matmul_case *c, uint32_t gate_type)
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
    matmul_describe(fixture, c, data.gate_type);
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

size_t matmul_case_size(const struct matmul_case *c)
{
    size_t columns = c->mix ? 1 : c->n_used ? c->n_used : c->n_matrices;
    return (size_t)c->rows * c->tokens * (columns ? columns : 1);
}

/* ---- Groups --------------------------------------------------------------------------------------- */

/* Whole blocks of a type. */
static uint32_t whole(uint32_t k, uint32_t type)
{
    uint32_t length = (uint32_t)format_of(type)->block_length;
    return (k + length - 1) / length * length;
}

/* A form with several numbers of tokens. Defaults: k 96, 50 rows. */
static void each_batch(const char *form, uint32_t type, const struct matmul_case *base,
                       const uint32_t *tokens, size_t n, case_visitor *visit, void *user)
{
    for (size_t i = 0; i < n; i++) {
        struct some_case c = {CASE_MATMUL, form, i > 0, {.matmul = *base}};
        struct matmul_case *matmul = &c.as.matmul;
        matmul->type = type;
        matmul->k = whole(base->k ? base->k : 96, type);
        if (!base->rows) matmul->rows = 50;
        matmul->tokens = tokens[i];
        matmul->input_rounding = format_input_rounding(type);
        matmul->data_is_kept = i % 2;
        visit(user, &c);
    }
}

/* Two types are tried in every form of theirs, the others in the forms with the most parts: each takes a
 * GPU's compiler a while. */
static bool has_all_forms(uint32_t type)
{
    return type == ENGINE_TYPE_F32 || type == ENGINE_TYPE_Q8_0;
}

static void each_experts(const struct case_group *group, case_visitor *visit, void *user)
{
    static const uint32_t silu = ENGINE_ACTIVATION_SILU, tokens[] = {1, 3, 40, 130}, most[] = {1, 40};
    static const struct form {
        const char *name;
        bool always;
        struct matmul_case c;
    } forms[] = {
        {"one input column", true, {.n_matrices = 8, .n_used = 2, .one_each = true}},
        {"columns", false, {.n_matrices = 8, .n_used = 3, .rows = 33, .gap = 12, .plane_gap = 8}},
        {"columns, unevenly", true, {.n_matrices = 9, .n_used = 3, .rows = 33, .uneven = true}},
        {"gate with activation",
         true,
         {.n_matrices = 8, .n_used = 2, .one_each = true, .gate = true, .activation = silu, .uneven = true}},
        {"gate with gelu, columns",
         false,
         {.n_matrices = 5,
          .n_used = 4,
          .gate = true,
          .activation = ENGINE_ACTIVATION_GELU_ERF,
          .plane_gap = 16}},
        {"bias", false, {.n_matrices = 4, .n_used = 2, .one_each = true, .bias = true, .gap = 4}},
        {"scale, bias, activation",
         false,
         {.n_matrices = 4,
          .n_used = 2,
          .one_each = true,
          .bias = true,
          .scale = -0.5f,
          .activation = ENGINE_ACTIVATION_RELU_SQUARED}},
        {"mix", false, {.n_matrices = 8, .n_used = 2, .mix = true, .rows = 31, .gap = 4, .plane_gap = 4}},
        {"mix, one input column, bias",
         false,
         {.n_matrices = 6, .n_used = 3, .mix = true, .one_each = true, .bias = true, .uneven = true}},
        {"mix, bias and residual in place",
         true,
         {.n_matrices = 8,
          .n_used = 4,
          .mix = true,
          .bias = true,
          .residual = true,
          .in_place = true,
          .uneven = true}},
        {"mix, gate and residual",
         false,
         {.n_matrices = 8,
          .n_used = 2,
          .mix = true,
          .gate = true,
          .activation = silu,
          .residual = true,
          .gap = 8}},
        {"one expert", false, {.n_matrices = 1, .n_used = 1, .one_each = true, .rows = 7, .k = 32}},
        {"all experts", false, {.n_matrices = 5, .n_used = 5, .mix = true, .rows = 1, .k = 64}},
        {"many experts",
         false,
         {.n_matrices = 60, .n_used = 6, .one_each = true, .rows = 17, .k = 288, .uneven = true}},
        {"many experts for each token",
         false,
         {.n_matrices = 300, .n_used = 24, .mix = true, .rows = 5, .k = 32}},
    };
    const bool all = has_all_forms(group->argument);
    for (size_t i = 0; i < COUNT(forms); i++) {
        const struct form *form = &forms[i];
        if (!all && !form->always) continue;
        each_batch(form->name, group->argument, &form->c, all ? tokens : most,
                   all ? COUNT(tokens) : COUNT(most), visit, user);
    }
}

/* The gate has another type than the weight. */
static void each_mixed(const struct case_group *group, case_visitor *visit, void *user)
{
    static const uint32_t types[][2] = {{ENGINE_TYPE_Q4_0, ENGINE_TYPE_F16},
                                        {ENGINE_TYPE_Q8_0, ENGINE_TYPE_Q4_0}};
    static const uint32_t tokens[] = {1, 40};
    (void)group;
    for (size_t i = 0; i < COUNT(types); i++)
        for (size_t j = 0; j < COUNT(tokens); j++)
            visit(user, &(struct some_case){CASE_MATMUL,
                                            NULL,
                                            j > 0,
                                            {.matmul = {.type = types[i][0],
                                                        .gate_type = types[i][1],
                                                        .k = 64,
                                                        .rows = 50,
                                                        .tokens = tokens[j],
                                                        .n_matrices = 6,
                                                        .n_used = 2,
                                                        .one_each = true,
                                                        .gate = true,
                                                        .activation = ENGINE_ACTIVATION_SILU,
                                                        .input_rounding = 0x1p-11}}});
}

static void each_heads(const struct case_group *group, case_visitor *visit, void *user)
{
    static const uint32_t tokens[] = {1, 5, 40}, few[] = {7};
    static const struct matmul_case heads = {.n_matrices = 4, .k = 64, .rows = 32},
                                    scaled = {.n_matrices = 7,
                                              .rows = 17,
                                              .scale = -2,
                                              .gap = 4,
                                              .plane_gap = 12},
                                    odd = {.n_matrices = 16, .k = 33, .rows = 65, .gap = 8};
    const bool all = has_all_forms(group->argument);
    each_batch("heads", group->argument, &heads, all ? tokens : few, all ? COUNT(tokens) : COUNT(few), visit,
               user);
    if (!all) return;
    each_batch("scale", group->argument, &scaled, tokens, COUNT(tokens), visit, user);
    each_batch("heads", group->argument, &odd, tokens, COUNT(tokens), visit, user);
}

/* Activations added in 1.1, on the sum and as a gate. */
static void each_activated(const struct case_group *group, case_visitor *visit, void *user)
{
    static const struct {
        const char *name;
        uint32_t activation;
    } activations[] = {
        {"gelu (erf)", ENGINE_ACTIVATION_GELU_ERF}, {"gelu (tanh)", ENGINE_ACTIVATION_GELU_TANH},
        {"relu", ENGINE_ACTIVATION_RELU},           {"relu squared", ENGINE_ACTIVATION_RELU_SQUARED},
        {"sigmoid", ENGINE_ACTIVATION_SIGMOID},     {"tanh", ENGINE_ACTIVATION_TANH},
        {"softplus", ENGINE_ACTIVATION_SOFTPLUS},
    };
    static const uint32_t tokens[] = {1, 40};
    for (size_t i = 0; i < COUNT(activations); i++) {
        struct matmul_case c = {.bias = true, .activation = activations[i].activation, .gap = 4};
        each_batch(activations[i].name, group->argument, &c, tokens, COUNT(tokens), visit, user);
        c = (struct matmul_case){.gate = true, .activation = activations[i].activation, .residual = true};
        each_batch(activations[i].name, group->argument, &c, tokens, COUNT(tokens), visit, user);
    }
}

void each_matmul_group(group_visitor *visit, void *user)
{
    const struct format *format;
    visit(user, &(struct case_group){"matmul", "activations of 1.1, F32", each_activated, ENGINE_TYPE_F32});
    visit(user, &(struct case_group){"matmul", "activations of 1.1, Q8_0", each_activated, ENGINE_TYPE_Q8_0});
    for (size_t i = 0; (format = format_at(i)); i++)
        if (format->is_weight)
            visit(user, &(struct case_group){"experts", format->name, each_experts, format->type});
    visit(user, &(struct case_group){"experts", "a gate of another type", each_mixed, 0});
    for (size_t i = 0; (format = format_at(i)); i++)
        if (format->is_weight)
            visit(user, &(struct case_group){"heads", format->name, each_heads, format->type});
}

/* case-groups-matmul.c: the groups of matrix products; see case-groups.h. */
#include "check/case-groups.h"
#include "check/formats.h"

#define COUNT(array) (sizeof(array) / sizeof *(array))

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

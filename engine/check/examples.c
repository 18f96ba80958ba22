/* examples.c: see examples.h. */
#include "check/examples.h"

static const float zeros[64 * 20 * 4];

struct engine_tensor *example_floats(struct fixture *fixture, uint64_t ne0, uint64_t ne1, uint64_t ne2)
{
    return fixture_f32(fixture, ne0, ne1, ne2, NULL);
}

struct engine_tensor *example_numbers(struct fixture *fixture, uint64_t ne0, uint64_t ne1)
{
    return fixture_i32(fixture, ne0, ne1, NULL);
}

struct engine_tensor *example_cache(struct fixture *fixture, const uint64_t ne[4])
{
    return fixture_tensor(fixture, ENGINE_TYPE_F32, ne, NULL);
}

struct engine_tensor *example_weight(struct fixture *fixture, uint32_t use, uint64_t n, uint64_t rows)
{
    return fixture_weight(fixture, ENGINE_TYPE_F32, n, rows, use, false, zeros);
}

struct engine_tensor *example_values(struct fixture *fixture, uint64_t n, uint64_t rows)
{
    return example_weight(fixture, ENGINE_WEIGHT_VALUES, n, rows);
}

static struct engine_tensor *example_matrices(struct fixture *fixture)
{
    return fixture_matrices(fixture, ENGINE_TYPE_F32, 64, 20, 4, false, zeros);
}

static void make_matmul(struct fixture *fixture, union op_args *args)
{
    args->matmul = (struct engine_op_matmul){.weight = example_weight(fixture, ENGINE_WEIGHT_MATMUL, 64, 20),
                                             .input = example_floats(fixture, 64, 3, 1),
                                             .output = example_floats(fixture, 20, 3, 1)};
}

static void make_biased_matmul(struct fixture *fixture, union op_args *args)
{
    make_matmul(fixture, args);
    args->matmul.bias = example_values(fixture, 20, 1);
    args->matmul.residual = example_floats(fixture, 20, 3, 1);
}

static void make_gated_matmul(struct fixture *fixture, union op_args *args)
{
    make_matmul(fixture, args);
    args->matmul.gate = example_weight(fixture, ENGINE_WEIGHT_MATMUL, 64, 20);
    args->matmul.residual = example_floats(fixture, 20, 3, 1);
}

static void make_experts(struct fixture *fixture, union op_args *args)
{
    static const int32_t experts[] = {0, 1, 2, 3, 3, 0};
    args->matmul = (struct engine_op_matmul){.weight = example_matrices(fixture),
                                             .input = example_floats(fixture, 64, 1, 3),
                                             .output = example_floats(fixture, 20, 2, 3),
                                             .bias = example_values(fixture, 20, 4),
                                             .experts = fixture_i32(fixture, 2, 3, experts)};
}

static void make_mixed_experts(struct fixture *fixture, union op_args *args)
{
    make_experts(fixture, args);
    args->matmul.output = example_floats(fixture, 20, 3, 1);
    args->matmul.residual = example_floats(fixture, 20, 3, 1);
    args->matmul.mix = example_floats(fixture, 2, 3, 1);
}

static void make_heads(struct fixture *fixture, union op_args *args)
{
    args->matmul = (struct engine_op_matmul){.weight = example_matrices(fixture),
                                             .input = example_floats(fixture, 64, 4, 3),
                                             .output = example_floats(fixture, 20, 4, 3)};
}

/* Three tokens at position 0 of a sequence of three blocks. */
static void make_attention_of(struct fixture *fixture, union op_args *args, uint64_t value_dim)
{
    struct engine_tensor *zeroes = example_numbers(fixture, 3, 1);
    args->attention =
        (struct engine_op_attention){.q = example_floats(fixture, 8, 4, 3),
                                     .k = example_cache(fixture, (uint64_t[]){8, 4, 2, 3}),
                                     .v = example_cache(fixture, (uint64_t[]){value_dim, 4, 2, 3}),
                                     .block_table = fixture_i32(fixture, 3, 1, (int32_t[]){0, 1, 2}),
                                     .sequences = zeroes,
                                     .positions = zeroes,
                                     .output = example_floats(fixture, value_dim, 4, 3),
                                     .scale = 1};
}

static void make_attention(struct fixture *fixture, union op_args *args)
{
    make_attention_of(fixture, args, 8);
}

static void make_attention_options(struct fixture *fixture, union op_args *args)
{
    make_attention_of(fixture, args, 6);
    args->attention.slopes = example_values(fixture, 4, 1),
    args->attention.sinks = example_values(fixture, 4, 1);
    args->attention.softcap = 2, args->attention.chunk = 16;
}

static void make_attention_weights(struct fixture *fixture, union op_args *args)
{
    make_attention_of(fixture, args, 8);
    args->attention.weights = example_floats(fixture, 12, 4, 3);
}

static void make_attention_distances(struct fixture *fixture, union op_args *args)
{
    make_attention_of(fixture, args, 8);
    args->attention.distance_bias = example_values(fixture, 7, 4);
}

static void make_attention_picked(struct fixture *fixture, union op_args *args)
{
    static const int32_t picked[] = {0, -1, -1, -1, 0, -1};
    make_attention_of(fixture, args, 8);
    args->attention.picked = fixture_i32(fixture, 2, 3, picked);
}

static void make_pick(struct fixture *fixture, union op_args *args)
{
    struct engine_tensor *zeroes = example_numbers(fixture, 3, 1);
    args->pick = (struct engine_op_pick){.q = example_floats(fixture, 8, 4, 3),
                                         .k = example_cache(fixture, (uint64_t[]){8, 4, 1, 3}),
                                         .weights = example_floats(fixture, 4, 3, 1),
                                         .block_table = fixture_i32(fixture, 3, 1, (int32_t[]){0, 1, 2}),
                                         .sequences = zeroes,
                                         .positions = zeroes,
                                         .picked = example_numbers(fixture, 2, 3)};
}

static void make_attention_part(struct fixture *fixture, union op_args *args)
{
    make_attention_of(fixture, args, 8);
    args->attention.earlier = example_floats(fixture, 8, 4, 3);
    args->attention.earlier_logsums = example_floats(fixture, 4, 3, 1);
    args->attention.logsums = example_floats(fixture, 4, 3, 1);
}

static void make_cache_write(struct fixture *fixture, union op_args *args)
{
    args->cache_write =
        (struct engine_op_cache_write){.input = example_floats(fixture, 8, 2, 3),
                                       .slots = fixture_i32(fixture, 3, 1, (int32_t[]){0, 1, 2}),
                                       .cache = example_cache(fixture, (uint64_t[]){8, 4, 2, 3})};
}

static void make_rope(struct fixture *fixture, union op_args *args)
{
    struct engine_tensor *x = example_floats(fixture, 8, 2, 3);
    args->rope = (struct engine_op_rope){.input = x,
                                         .positions = example_numbers(fixture, 3, 1),
                                         .output = x,
                                         .n_dims = 8,
                                         .pairs = ENGINE_ROPE_HALVES,
                                         .theta = 10000};
}

static void make_rope_factors(struct fixture *fixture, union op_args *args)
{
    make_rope(fixture, args);
    args->rope.factors = example_values(fixture, 4, 1);
}

static void make_get_rows(struct fixture *fixture, union op_args *args)
{
    args->get_rows = (struct engine_op_get_rows){.source = example_floats(fixture, 8, 5, 1),
                                                 .rows = example_numbers(fixture, 3, 1),
                                                 .output = example_floats(fixture, 8, 3, 1)};
}

static void make_norm(struct fixture *fixture, union op_args *args)
{
    args->norm = (struct engine_op_norm){.input = example_floats(fixture, 8, 3, 1),
                                         .output = example_floats(fixture, 8, 3, 1),
                                         .epsilon = 1e-5f};
}

static void make_norm_weight(struct fixture *fixture, union op_args *args)
{
    make_norm(fixture, args);
    args->norm.weight = example_values(fixture, 8, 1);
}

static void make_norm_bias(struct fixture *fixture, union op_args *args)
{
    make_norm_weight(fixture, args);
    args->norm.kind = ENGINE_NORM_LAYER, args->norm.bias = example_values(fixture, 8, 1);
}

static void make_binary(struct fixture *fixture, union op_args *args)
{
    args->binary = (struct engine_op_binary){.a = example_floats(fixture, 8, 3, 1),
                                             .b = example_floats(fixture, 8, 3, 1),
                                             .output = example_floats(fixture, 8, 3, 1)};
}

static void make_single_numbers(struct fixture *fixture, union op_args *args)
{
    args->binary = (struct engine_op_binary){.a = example_floats(fixture, 8, 3, 2),
                                             .b = example_floats(fixture, 1, 3, 2),
                                             .output = example_floats(fixture, 8, 3, 2)};
}

static void make_activate(struct fixture *fixture, union op_args *args)
{
    args->activate = (struct engine_op_activate){.input = example_floats(fixture, 8, 3, 1),
                                                 .output = example_floats(fixture, 8, 3, 1),
                                                 .activation = ENGINE_ACTIVATION_SILU};
}

static void make_factor(struct fixture *fixture, union op_args *args)
{
    make_activate(fixture, args);
    args->activate.factor = example_floats(fixture, 8, 3, 1);
}

static void make_route(struct fixture *fixture, union op_args *args)
{
    args->route = (struct engine_op_route){.logits = example_floats(fixture, 12, 3, 1),
                                           .bias = example_values(fixture, 12, 1),
                                           .ids = example_numbers(fixture, 3, 3),
                                           .weights = example_floats(fixture, 3, 3, 1),
                                           .n_groups = 4,
                                           .n_groups_used = 2,
                                           .normalise = 1};
}

static void make_given_route(struct fixture *fixture, union op_args *args)
{
    make_route(fixture, args);
    args->route.bias = NULL, args->route.n_groups = args->route.n_groups_used = 0;
    args->route.function = ENGINE_ROUTE_SQRT_SOFTPLUS, args->route.chosen = example_floats(fixture, 3, 3, 1);
}

static void make_concat(struct fixture *fixture, union op_args *args)
{
    args->concat = (struct engine_op_concat){.a = example_floats(fixture, 8, 4, 3),
                                             .b = example_floats(fixture, 5, 4, 3),
                                             .output = example_floats(fixture, 13, 4, 3)};
}

static void make_one_row_for_heads(struct fixture *fixture, union op_args *args)
{
    make_concat(fixture, args);
    args->concat.b = example_floats(fixture, 5, 1, 3);
}

/* Of three tokens of one sequence. */
static void make_conv(struct fixture *fixture, union op_args *args)
{
    struct engine_tensor *zeroes = example_numbers(fixture, 3, 1);
    args->conv = (struct engine_op_conv){.input = example_floats(fixture, 8, 3, 1),
                                         .weight = example_values(fixture, 4, 8),
                                         .positions = zeroes,
                                         .states = zeroes,
                                         .state = example_floats(fixture, 8, 3, 2),
                                         .output = example_floats(fixture, 8, 3, 1)};
}

static void make_scan(struct fixture *fixture, union op_args *args)
{
    struct engine_tensor *zeroes = example_numbers(fixture, 3, 1);
    args->scan = (struct engine_op_scan){.q = example_floats(fixture, 8, 2, 3),
                                         .k = example_floats(fixture, 8, 2, 3),
                                         .v = example_floats(fixture, 5, 4, 3),
                                         .decay = example_floats(fixture, 8, 4, 3),
                                         .positions = zeroes,
                                         .states = zeroes,
                                         .state = example_cache(fixture, (uint64_t[]){5, 8, 4, 2}),
                                         .output = example_floats(fixture, 5, 4, 3)};
}

static void make_delta_rule(struct fixture *fixture, union op_args *args)
{
    make_scan(fixture, args);
    args->scan.a = example_floats(fixture, 8, 2, 3), args->scan.b = example_floats(fixture, 8, 2, 3);
    args->scan.erase = example_floats(fixture, 1, 4, 3), args->scan.bonus = example_values(fixture, 8, 4);
}

static void make_scan_rates(struct fixture *fixture, union op_args *args)
{
    make_scan(fixture, args);
    args->scan.decay = example_floats(fixture, 5, 4, 3), args->scan.rates = example_values(fixture, 8, 20);
}

static void make_mix(struct fixture *fixture, union op_args *args)
{
    args->mix = (struct engine_op_mix){.input = example_floats(fixture, 8, 4, 3),
                                       .weights = example_floats(fixture, 4, 2, 3),
                                       .addend = example_floats(fixture, 8, 3, 1),
                                       .scales = example_floats(fixture, 2, 3, 1),
                                       .output = example_floats(fixture, 8, 2, 3)};
}

static void make_scaled_mix(struct fixture *fixture, union op_args *args)
{
    make_mix(fixture, args);
    args->mix.weights = NULL, args->mix.scales = example_values(fixture, 4, 1);
    args->mix.output = example_floats(fixture, 8, 4, 3);
}

static void make_hyper(struct fixture *fixture, union op_args *args)
{
    args->hyper = (struct engine_op_hyper){.input = example_floats(fixture, 8, 3, 1),
                                           .scale = example_values(fixture, 3, 1),
                                           .base = example_values(fixture, 8, 1),
                                           .output = example_floats(fixture, 8, 3, 1),
                                           .n = 2,
                                           .n_iterations = 3,
                                           .epsilon = 1e-6f};
}

/* Three tokens at position 0 of a sequence of three blocks. */
static void make_pool(struct fixture *fixture, union op_args *args)
{
    struct engine_tensor *zeroes = example_numbers(fixture, 3, 1);
    args->pool = (struct engine_op_pool){.cache = example_cache(fixture, (uint64_t[]){8, 4, 4, 3}),
                                         .bias = example_values(fixture, 16, 4),
                                         .block_table = fixture_i32(fixture, 3, 1, (int32_t[]){0, 1, 2}),
                                         .sequences = zeroes,
                                         .positions = zeroes,
                                         .output = example_floats(fixture, 8, 3, 1)};
}

static const struct example examples[] = {
    {ENGINE_OP_MATMUL, "matmul", make_matmul},
    {ENGINE_OP_MATMUL, "matmul, bias", make_biased_matmul},
    {ENGINE_OP_MATMUL, "matmul, gate", make_gated_matmul},
    {ENGINE_OP_MATMUL, "experts", make_experts},
    {ENGINE_OP_MATMUL, "experts, mix", make_mixed_experts},
    {ENGINE_OP_MATMUL, "heads", make_heads},
    {ENGINE_OP_ATTENTION, "attention", make_attention},
    {ENGINE_OP_ATTENTION, "attention, options", make_attention_options},
    {ENGINE_OP_ATTENTION, "attention, weights", make_attention_weights},
    {ENGINE_OP_ATTENTION, "attention, biases by distance", make_attention_distances},
    {ENGINE_OP_ATTENTION, "attention, picked positions", make_attention_picked},
    {ENGINE_OP_ATTENTION, "attention, a part", make_attention_part},
    {ENGINE_OP_CACHE_WRITE, "cache write", make_cache_write},
    {ENGINE_OP_ROPE, "rope", make_rope},
    {ENGINE_OP_ROPE, "rope, factors", make_rope_factors},
    {ENGINE_OP_GET_ROWS, "get rows", make_get_rows},
    {ENGINE_OP_NORM, "norm", make_norm},
    {ENGINE_OP_NORM, "norm, weight", make_norm_weight},
    {ENGINE_OP_NORM, "norm, bias", make_norm_bias},
    {ENGINE_OP_ADD, "add", make_binary},
    {ENGINE_OP_ADD, "add, one number a row", make_single_numbers},
    {ENGINE_OP_MUL, "mul", make_binary},
    {ENGINE_OP_MUL, "mul, one number a row", make_single_numbers},
    {ENGINE_OP_ACTIVATE, "activate", make_activate},
    {ENGINE_OP_ACTIVATE, "activations", make_factor},
    {ENGINE_OP_ROUTE, "route", make_route},
    {ENGINE_OP_ROUTE, "route, given experts", make_given_route},
    {ENGINE_OP_CONCAT, "concat", make_concat},
    {ENGINE_OP_CONCAT, "concat, one row for all heads", make_one_row_for_heads},
    {ENGINE_OP_CONV, "conv", make_conv},
    {ENGINE_OP_SCAN, "scan", make_scan},
    {ENGINE_OP_SCAN, "scan, delta rule", make_delta_rule},
    {ENGINE_OP_SCAN, "scan, rates", make_scan_rates},
    {ENGINE_OP_PICK, "pick", make_pick},
    {ENGINE_OP_MIX, "mix", make_mix},
    {ENGINE_OP_MIX, "mix, scaled by a weight", make_scaled_mix},
    {ENGINE_OP_HYPER, "hyper", make_hyper},
    {ENGINE_OP_POOL, "pool", make_pool},
};

const struct example *example_at(size_t i)
{
    return i < sizeof examples / sizeof *examples ? &examples[i] : NULL;
}

union op_args example_make(struct fixture *fixture, const struct example *example)
{
    union op_args args = {0};
    example->make(fixture, &args);
    args.struct_size = op_info(example->op)->size;
    const char *misfit = op_misfit(example->op, &args);
    if (misfit) fixture_fail(fixture, "the suite itself is at fault: its %s: %s", example->what, misfit);
    return args;
}

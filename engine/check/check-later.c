/* check-later.c: what a backend must refuse of version 1.1's additions and of future ones: unknown fields,
 * enumerators and shapes, and new operands that don't fit. See check-arguments.c. */
#include <stdio.h>
#include <string.h>

#include "check/arguments.h"

static const float zeros[64 * 20 * 4];

static struct engine_tensor *values(struct suite *suite, uint64_t n, uint64_t rows)
{
    return fixture_weight(&suite->fixture, ENGINE_TYPE_F32, n, rows, ENGINE_WEIGHT_VALUES, false, zeros);
}

/* Arguments of a later minor version are accepted as long as the unknown part is zero. `size`: of the known
 * part. */
static void expect_growth(struct suite *suite, uint32_t op, const void *known, size_t size)
{
    struct fixture *fixture = &suite->fixture;
    union {
        size_t struct_size;
        unsigned char bytes[256];
    } later = {0};
    suite_only_if(suite, op, known);
    fixture_describe_operands(fixture, op, known);
    memcpy(later.bytes, known, size);
    later.struct_size = size + 2 * sizeof(uint64_t);
    SUITE_EXPECT(suite, fixture_supports(fixture, op, &later),
                 "arguments of a later version whose new fields are zero aren't supported");
    fixture_must(fixture, fixture_enqueue(fixture, op, &later), "enqueue");
    fixture_must(fixture, fixture->api->stream_wait(fixture->stream), "stream_wait");
    for (size_t i = size; i < later.struct_size; i += sizeof(uint64_t) + 3) {
        later.bytes[i] = 1;
        suite_expect_refusal(suite, op, &later, ENGINE_OK, "arguments of a later version that ask for more");
        later.bytes[i] = 0;
    }
}

static void later_matmul(struct suite *suite, const void *args)
{
    struct engine_op_matmul matmul = {.struct_size = sizeof matmul,
                                      .weight = fixture_weight(&suite->fixture, ENGINE_TYPE_F32, 64, 16,
                                                               ENGINE_WEIGHT_MATMUL, false, zeros),
                                      .input = suite_floats(suite, 64, 2, 1),
                                      .output = suite_floats(suite, 16, 2, 1)};
    (void)args;
    expect_growth(suite, ENGINE_OP_MATMUL, &matmul, sizeof matmul);
}

static void later_rows(struct suite *suite, const void *args)
{
    const uint32_t op = *(const uint32_t *)args;
    struct engine_tensor *a = suite_floats(suite, 8, 3, 1), *b = suite_floats(suite, 8, 3, 1),
                         *out = suite_floats(suite, 8, 3, 1);
    struct engine_op_binary binary = {sizeof binary, a, b, out};
    struct engine_op_norm norm = {.struct_size = sizeof norm, .input = a, .output = out, .epsilon = 1e-5f};
    struct engine_op_activate activate = {
        .struct_size = sizeof activate, .input = a, .output = out, .activation = ENGINE_ACTIVATION_SILU};
    struct engine_op_concat concat = {sizeof concat, a, b, suite_floats(suite, 16, 3, 1)};
    struct engine_op_route route = {.struct_size = sizeof route,
                                    .logits = a,
                                    .ids = fixture_i32(&suite->fixture, 2, 3, NULL),
                                    .weights = suite_floats(suite, 2, 3, 1)};
    switch (op) {
    case ENGINE_OP_NORM: expect_growth(suite, op, &norm, sizeof norm); break;
    case ENGINE_OP_ACTIVATE: expect_growth(suite, op, &activate, sizeof activate); break;
    case ENGINE_OP_CONCAT: expect_growth(suite, op, &concat, sizeof concat); break;
    case ENGINE_OP_ROUTE: expect_growth(suite, op, &route, sizeof route); break;
    case ENGINE_OP_ADD: expect_growth(suite, op, &binary, sizeof binary); break;
    default: fixture_fail(&suite->fixture, "the suite itself is at fault: it knows no operation %u here", op);
    }
}

/* A token at position 0 of a sequence of one block. */
static struct engine_op_attention plain_attention(struct suite *suite, uint64_t value_dim)
{
    struct fixture *fixture = &suite->fixture;
    struct engine_tensor *numbers = fixture_i32(fixture, 3, 1, (int32_t[]){0, 0, 0});
    return (struct engine_op_attention){
        .struct_size = sizeof(struct engine_op_attention),
        .q = suite_floats(suite, 8, 4, 3),
        .k = fixture_tensor(fixture, ENGINE_TYPE_F32, (uint64_t[]){8, 4, 2, 3}, NULL),
        .v = fixture_tensor(fixture, ENGINE_TYPE_F32, (uint64_t[]){value_dim, 4, 2, 3}, NULL),
        .block_table = fixture_i32(fixture, 3, 1, (int32_t[]){0, 1, 2}),
        .sequences = numbers,
        .positions = numbers,
        .output = suite_floats(suite, value_dim, 4, 3),
        .scale = 1};
}

static void later_attention(struct suite *suite, const void *args)
{
    const struct engine_op_attention attention = plain_attention(suite, 8);
    (void)args;
    expect_growth(suite, ENGINE_OP_ATTENTION, &attention, sizeof attention);
}

static void later_rope(struct suite *suite, const void *args)
{
    struct engine_op_rope rope = {.struct_size = sizeof rope,
                                  .input = suite_floats(suite, 8, 2, 3),
                                  .positions = fixture_i32(&suite->fixture, 3, 1, NULL),
                                  .output = suite_floats(suite, 8, 2, 3),
                                  .n_dims = 8,
                                  .theta = 10000};
    (void)args;
    expect_growth(suite, ENGINE_OP_ROPE, &rope, sizeof rope);
    rope.reserved = 1;
    suite_expect_refusal(suite, ENGINE_OP_ROPE, &rope, ENGINE_OK, "a reserved field that isn't zero");
}

static void later_caches(struct suite *suite, const void *args)
{
    struct fixture *fixture = &suite->fixture;
    const struct engine_op_cache_write write = {
        sizeof write, suite_floats(suite, 8, 2, 3), fixture_i32(fixture, 3, 1, (int32_t[]){0, 1, 2}),
        fixture_tensor(fixture, ENGINE_TYPE_F32, (uint64_t[]){8, 4, 2, 3}, NULL)};
    (void)args;
    expect_growth(suite, ENGINE_OP_CACHE_WRITE, &write, sizeof write);
}

static void later_get_rows(struct suite *suite, const void *args)
{
    const struct engine_op_get_rows rows = {sizeof rows, suite_floats(suite, 8, 5, 1),
                                            fixture_i32(&suite->fixture, 3, 1, NULL),
                                            suite_floats(suite, 8, 3, 1)};
    (void)args;
    expect_growth(suite, ENGINE_OP_GET_ROWS, &rows, sizeof rows);
}

/* Experts: `weight` and, if there is one, `gate` with three dimensions; everything that a plugin may
 * claim. */
static void of_experts(struct suite *suite, const void *args)
{
    const bool *mixed = args;
    struct fixture *fixture = &suite->fixture;
    const uint64_t columns = *mixed ? 1 : 2;
    const struct engine_op_matmul good = {
        .struct_size = sizeof good,
        .weight = fixture_matrices(fixture, ENGINE_TYPE_F32, 64, 20, 4, false, zeros),
        .input = suite_floats(suite, 64, 1, 3),
        .output = *mixed ? suite_floats(suite, 20, 3, 1) : suite_floats(suite, 20, columns, 3),
        .bias = values(suite, 20, 4),
        .residual = *mixed ? suite_floats(suite, 20, 3, 1) : NULL,
        .experts = fixture_i32(fixture, 2, 3, (int32_t[]){0, 1, 2, 3, 3, 0}),
        .mix = *mixed ? suite_floats(suite, 2, 3, 1) : NULL};
    struct engine_op_matmul bad = good;
    bad.activation = ENGINE_ACTIVATION_CLAMP;
    suite_expect_refusal(suite, ENGINE_OP_MATMUL, &bad, ENGINE_OK, "an activation that takes a limit");
    bad = good, bad.experts = suite_floats(suite, 2, 3, 1);
    suite_expect_refusal(suite, ENGINE_OP_MATMUL, &bad, ENGINE_OK, "experts that aren't whole numbers");
    bad = good, bad.experts = fixture_i32(fixture, 5, 3, NULL);
    if (*mixed)
        bad.mix = suite_floats(suite, 5, 3, 1);
    else
        bad.output = suite_floats(suite, 20, 5, 3);
    suite_expect_refusal(suite, ENGINE_OP_MATMUL, &bad, ENGINE_OK, "more experts than there are");
    if (*mixed)
        bad = good, bad.experts = NULL;
    else
        bad = good, bad.residual = suite_floats(suite, 20, 3, 1);
    suite_expect_refusal(suite, ENGINE_OP_MATMUL, &bad, ENGINE_OK,
                         *mixed ? "a mix without experts" : "a residual without a mix");
    bad = good, bad.bias = values(suite, 20, 1);
    suite_expect_refusal(suite, ENGINE_OP_MATMUL, &bad, ENGINE_OK, "one bias for all experts");
    bad = good,
    bad.weight = fixture_weight(fixture, ENGINE_TYPE_F32, 64, 20, ENGINE_WEIGHT_MATMUL, false, zeros);
    suite_expect_refusal(suite, ENGINE_OP_MATMUL, &bad, ENGINE_OK, "experts of a weight of two dimensions");
    bad = good, bad.input = suite_floats(suite, 64, 3, 1);
    suite_expect_refusal(suite, ENGINE_OP_MATMUL, &bad, ENGINE_OK, "an input of two dimensions");
    bad = good;
    suite_expect_fitting_shapes(suite, ENGINE_OP_MATMUL, &bad, suite_bit(1, 1));
}

static void of_heads(struct suite *suite, const void *args)
{
    struct fixture *fixture = &suite->fixture;
    const struct engine_op_matmul good = {
        .struct_size = sizeof good,
        .weight = fixture_matrices(fixture, ENGINE_TYPE_F32, 64, 20, 4, false, zeros),
        .input = suite_floats(suite, 64, 4, 3),
        .output = suite_floats(suite, 20, 4, 3)};
    struct engine_op_matmul bad = good;
    (void)args;
    bad.bias = values(suite, 20, 4);
    suite_expect_refusal(suite, ENGINE_OP_MATMUL, &bad, ENGINE_OK, "a bias beside a matrix for each head");
    bad = good, bad.activation = ENGINE_ACTIVATION_SILU;
    suite_expect_refusal(suite, ENGINE_OP_MATMUL, &bad, ENGINE_OK,
                         "an activation beside a matrix for each head");
    bad = good, bad.mix = suite_floats(suite, 4, 3, 1);
    suite_expect_refusal(suite, ENGINE_OP_MATMUL, &bad, ENGINE_OK, "a mix without experts");
    bad = good, bad.input = suite_floats(suite, 64, 3, 3);
    suite_expect_refusal(suite, ENGINE_OP_MATMUL, &bad, ENGINE_OK, "fewer heads than matrices");
    bad = good;
    suite_expect_fitting_shapes(suite, ENGINE_OP_MATMUL, &bad, 0);
}

/* Activations that a product can't have, and numbers that those of rows need or can't have. */
static void of_activations(struct suite *suite, const void *args)
{
    struct fixture *fixture = &suite->fixture;
    struct engine_op_activate activate = {.struct_size = sizeof activate,
                                          .input = suite_floats(suite, 8, 3, 1),
                                          .output = suite_floats(suite, 8, 3, 1)};
    struct engine_op_matmul matmul = {
        .struct_size = sizeof matmul,
        .weight = fixture_weight(fixture, ENGINE_TYPE_F32, 64, 20, ENGINE_WEIGHT_MATMUL, false, zeros),
        .input = suite_floats(suite, 64, 2, 1),
        .output = suite_floats(suite, 20, 2, 1)};
    (void)args;
    for (uint32_t i = ENGINE_ACTIVATION_CLAMP; i < ENGINE_ACTIVATION_EXP + 2; i++) {
        char what[80];
        snprintf(what, sizeof what, "activation %u of a product", i);
        matmul.activation = activate.activation = i;
        suite_expect_refusal(suite, ENGINE_OP_MATMUL, &matmul, ENGINE_OK, what);
        activate.limit = 0, activate.alpha = 1;
        snprintf(what, sizeof what, "activation %u without a limit", i);
        suite_expect_refusal(suite, ENGINE_OP_ACTIVATE, &activate, ENGINE_OK, what);
    }
    activate.activation = ENGINE_ACTIVATION_SILU, activate.limit = 1, activate.alpha = 0;
    suite_expect_refusal(suite, ENGINE_OP_ACTIVATE, &activate, ENGINE_OK, "a limit that isn't taken");
    activate.activation = ENGINE_ACTIVATION_SWIGLU_CLAMPED;
    activate.limit = 7, activate.alpha = 1.702f;
    suite_expect_refusal(suite, ENGINE_OP_ACTIVATE, &activate, ENGINE_OK, "a gated unit without a factor");
}

static void of_single_numbers(struct suite *suite, const void *args)
{
    const uint32_t op = *(const uint32_t *)args;
    struct engine_tensor *a = suite_floats(suite, 8, 3, 2), *out = suite_floats(suite, 8, 3, 2);
    struct engine_op_binary binary = {sizeof binary, a, suite_floats(suite, 1, 3, 2), out};
    suite_expect_fitting_shapes(suite, op, &binary, 0);
    binary.b = values(suite, 1, 3);
    suite_expect_refusal(suite, op, &binary, ENGINE_OK, "a weight of one number for each row");
}

static void of_norm_bias(struct suite *suite, const void *args)
{
    struct engine_op_norm norm = {.struct_size = sizeof norm,
                                  .input = suite_floats(suite, 8, 3, 1),
                                  .output = suite_floats(suite, 8, 3, 1),
                                  .weight = values(suite, 8, 1),
                                  .kind = ENGINE_NORM_LAYER,
                                  .epsilon = 1e-5f,
                                  .bias = values(suite, 8, 1)};
    (void)args;
    suite_expect_fitting_shapes(suite, ENGINE_OP_NORM, &norm, 0);
}

static void of_attention_options(struct suite *suite, const void *args)
{
    struct engine_op_attention good = plain_attention(suite, 6), bad;
    (void)args;
    good.slopes = values(suite, 4, 1), good.sinks = values(suite, 4, 1);
    good.softcap = 2, good.chunk = 16;
    bad = good, bad.window = 4;
    suite_expect_refusal(suite, ENGINE_OP_ATTENTION, &bad, ENGINE_OK, "a window and chunks");
    bad = good, bad.softcap = -1;
    suite_expect_refusal(suite, ENGINE_OP_ATTENTION, &bad, ENGINE_OK, "a soft cap below 0");
    bad = good, bad.output = suite_floats(suite, 8, 4, 3);
    suite_expect_refusal(suite, ENGINE_OP_ATTENTION, &bad, ENGINE_OK,
                         "an output as long as keys, not values");
    bad = good;
    suite_expect_fitting_shapes(suite, ENGINE_OP_ATTENTION, &bad,
                                suite_bit(3, 0) | suite_bit(3, 1) |
                                    suite_bit(5, 1)); /* as in check-arguments.c */
}

static void of_attention_weights(struct suite *suite, const void *args)
{
    struct engine_op_attention good = plain_attention(suite, 8), bad;
    (void)args;
    good.weights = suite_floats(suite, 12, 4, 3);
    bad = good, bad.weights = suite_floats(suite, 12, 3, 3);
    suite_expect_refusal(suite, ENGINE_OP_ATTENTION, &bad, ENGINE_OK, "weights of fewer heads");
    bad = good, bad.weights = suite_floats(suite, 12, 4, 2);
    suite_expect_refusal(suite, ENGINE_OP_ATTENTION, &bad, ENGINE_OK, "weights of fewer tokens");
    bad = good,
    bad.weights = fixture_tensor(&suite->fixture, ENGINE_TYPE_I32, (uint64_t[]){12, 4, 3, 1}, NULL);
    suite_expect_refusal(suite, ENGINE_OP_ATTENTION, &bad, ENGINE_OK, "weights that are integers");
}

static void of_attention_distances(struct suite *suite, const void *args)
{
    struct engine_op_attention good = plain_attention(suite, 8), bad;
    (void)args;
    good.distance_bias = values(suite, 7, 4);
    bad = good, bad.distance_bias = values(suite, 8, 4);
    suite_expect_refusal(suite, ENGINE_OP_ATTENTION, &bad, ENGINE_OK,
                         "biases for an even number of distances");
    bad = good, bad.distance_bias = values(suite, 7, 3);
    suite_expect_refusal(suite, ENGINE_OP_ATTENTION, &bad, ENGINE_OK, "biases of fewer heads");
    bad = good, bad.slopes = values(suite, 4, 1);
    suite_expect_refusal(suite, ENGINE_OP_ATTENTION, &bad, ENGINE_OK, "biases by distance and slopes");
}

static void of_route(struct suite *suite, const void *args)
{
    const struct engine_op_route good = {.struct_size = sizeof good,
                                         .logits = suite_floats(suite, 12, 3, 1),
                                         .bias = values(suite, 12, 1),
                                         .ids = fixture_i32(&suite->fixture, 3, 3, NULL),
                                         .weights = suite_floats(suite, 3, 3, 1),
                                         .n_groups = 4,
                                         .n_groups_used = 2,
                                         .normalise = 1};
    static const struct {
        const char *what;
        uint32_t function, n_groups, n_groups_used, group_score, normalise;
        float floor;
        uint32_t reserved;
    } wrong[] = {
        {"a function that nobody knows", 2, 4, 2, 0, 1, 0, 0},
        {"groups that don't divide", 0, 5, 2, 0, 1, 0, 0},
        {"more groups used than there are", 0, 4, 5, 0, 1, 0, 0},
        {"no groups used", 0, 4, 0, 0, 1, 0, 0},
        {"too few experts in the groups", 0, 6, 1, 0, 1, 0, 0},
        {"a score that nobody knows", 0, 4, 2, 2, 1, 0, 0},
        {"two of groups of one", 0, 12, 4, 1, 1, 0, 0},
        {"normalised twice", 0, 4, 2, 0, 2, 0, 0},
        {"a floor below 0", 0, 4, 2, 0, 1, -1, 0},
        {"a reserved field that isn't zero", 0, 4, 2, 0, 1, 0, 1},
    };
    struct engine_op_route bad = good;
    (void)args;
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        bad.function = wrong[i].function, bad.n_groups = wrong[i].n_groups;
        bad.n_groups_used = wrong[i].n_groups_used, bad.group_score = wrong[i].group_score;
        bad.normalise = wrong[i].normalise, bad.floor = wrong[i].floor, bad.reserved = wrong[i].reserved;
        suite_expect_refusal(suite, ENGINE_OP_ROUTE, &bad, ENGINE_OK, wrong[i].what);
    }
    bad = good, bad.ids = suite_floats(suite, 3, 3, 1);
    suite_expect_refusal(suite, ENGINE_OP_ROUTE, &bad, ENGINE_OK, "ids that aren't whole numbers");
    bad = good, bad.weights = NULL;
    suite_expect_refusal(suite, ENGINE_OP_ROUTE, &bad, ENGINE_OK, "no weights");
    bad = good;
    suite_expect_fitting_shapes(suite, ENGINE_OP_ROUTE, &bad, 0);
}

static void of_concat(struct suite *suite, const void *args)
{
    const bool *repeated = args;
    struct engine_op_concat concat = {sizeof concat, suite_floats(suite, 8, 4, 3),
                                      suite_floats(suite, 5, *repeated ? 1 : 4, 3),
                                      suite_floats(suite, 13, 4, 3)};
    suite_expect_fitting_shapes(suite, ENGINE_OP_CONCAT, &concat, *repeated ? suite_bit(1, 1) : 0);
}

/* Of three tokens of one sequence. */
static void of_conv(struct suite *suite, const void *args)
{
    struct fixture *fixture = &suite->fixture;
    struct engine_tensor *numbers = fixture_i32(fixture, 3, 1, (int32_t[]){0, 0, 0});
    const struct engine_op_conv good = {.struct_size = sizeof good,
                                        .input = suite_floats(suite, 8, 3, 1),
                                        .weight = values(suite, 4, 8),
                                        .positions = numbers,
                                        .states = numbers,
                                        .state = suite_floats(suite, 8, 3, 2),
                                        .output = suite_floats(suite, 8, 3, 1)};
    struct engine_op_conv bad = good;
    (void)args;
    bad.weight = values(suite, 1, 8);
    suite_expect_refusal(suite, ENGINE_OP_CONV, &bad, ENGINE_OK, "one tap");
    bad = good, bad.states = suite_floats(suite, 3, 1, 1);
    suite_expect_refusal(suite, ENGINE_OP_CONV, &bad, ENGINE_OK, "states that aren't whole numbers");
    bad = good, bad.state = NULL;
    suite_expect_refusal(suite, ENGINE_OP_CONV, &bad, ENGINE_OK, "no state");
    bad = good;
    suite_expect_fitting_shapes(suite, ENGINE_OP_CONV, &bad, suite_bit(4, 2));
}

static void of_scan(struct suite *suite, const void *args)
{
    struct fixture *fixture = &suite->fixture;
    struct engine_tensor *numbers = fixture_i32(fixture, 3, 1, (int32_t[]){0, 0, 0});
    struct engine_op_scan good = {
        .struct_size = sizeof good,
        .q = suite_floats(suite, 8, 2, 3),
        .k = suite_floats(suite, 8, 2, 3),
        .v = suite_floats(suite, 5, 4, 3),
        .decay = suite_floats(suite, 8, 4, 3),
        .positions = numbers,
        .states = numbers,
        .state = fixture_tensor(fixture, ENGINE_TYPE_F32, (uint64_t[]){5, 8, 4, 2}, NULL),
        .output = suite_floats(suite, 5, 4, 3),
    };
    struct engine_op_scan bad = good;
    (void)args;
    bad.a = suite_floats(suite, 8, 2, 3);
    suite_expect_refusal(suite, ENGINE_OP_SCAN, &bad, ENGINE_OK, "a without b");
    bad = good, bad.erase = suite_floats(suite, 1, 4, 3);
    suite_expect_refusal(suite, ENGINE_OP_SCAN, &bad, ENGINE_OK, "erase without a and b");
    bad = good, bad.decay = NULL, bad.rates = values(suite, 8, 20);
    suite_expect_refusal(suite, ENGINE_OP_SCAN, &bad, ENGINE_OK, "rates without a decay");
    bad = good, bad.reserved = 1;
    suite_expect_refusal(suite, ENGINE_OP_SCAN, &bad, ENGINE_OK, "a reserved field that isn't zero");
    bad = good, bad.bonus = values(suite, 8, 2);
    suite_expect_refusal(suite, ENGINE_OP_SCAN, &bad, ENGINE_OK, "a bonus for each group");
    bad = good;
    suite_expect_fitting_shapes(suite, ENGINE_OP_SCAN, &bad, suite_bit(11, 3));
}

/* A weight's only use today is as a matrix; others may come. */
static void of_matrices(struct suite *suite, const void *args)
{
    struct fixture *fixture = &suite->fixture;
    struct engine_weight_desc desc = {.struct_size = sizeof desc,
                                      .name = "check.weight",
                                      .type = ENGINE_TYPE_F32,
                                      .type_name = "F32",
                                      .ne = {64, 20, 4, 1},
                                      .data_size = sizeof zeros};
    uint64_t bytes;
    (void)args;
    desc.uses = ENGINE_WEIGHT_MATRICES | ENGINE_WEIGHT_ROWS;
    SUITE_EXPECT(suite, fixture->api->weight_size(fixture->device, &desc, &bytes) != ENGINE_OK,
                 "a weight of three dimensions of which rows are taken");
    desc.uses = 1u << 20;
    SUITE_EXPECT(suite, fixture->api->weight_size(fixture->device, &desc, &bytes) != ENGINE_OK,
                 "a use that nobody knows");
}

void check_later_arguments(struct suite *suite)
{
    static const char *const area = "arguments";
    suite_single(suite, area, "of later versions, matmul", later_matmul, NULL);
    suite_single(suite, area, "of later versions, norm", later_rows, &(uint32_t){ENGINE_OP_NORM});
    suite_single(suite, area, "of later versions, add", later_rows, &(uint32_t){ENGINE_OP_ADD});
    suite_single(suite, area, "of later versions, activate", later_rows, &(uint32_t){ENGINE_OP_ACTIVATE});
    suite_single(suite, area, "of later versions, attention", later_attention, NULL);
    suite_single(suite, area, "of later versions, rope", later_rope, NULL);
    suite_single(suite, area, "of later versions, cache write", later_caches, NULL);
    suite_single(suite, area, "of later versions, get rows", later_get_rows, NULL);
    suite_single(suite, area, "of later versions, route", later_rows, &(uint32_t){ENGINE_OP_ROUTE});
    suite_single(suite, area, "of later versions, concat", later_rows, &(uint32_t){ENGINE_OP_CONCAT});
    suite_single(suite, area, "uses of weights", of_matrices, NULL);
    suite_single(suite, area, "experts", of_experts, &(bool){false});
    suite_single(suite, area, "experts, mix", of_experts, &(bool){true});
    suite_single(suite, area, "heads", of_heads, NULL);
    suite_single(suite, area, "activations", of_activations, NULL);
    suite_single(suite, area, "add, one number a row", of_single_numbers, &(uint32_t){ENGINE_OP_ADD});
    suite_single(suite, area, "mul, one number a row", of_single_numbers, &(uint32_t){ENGINE_OP_MUL});
    suite_single(suite, area, "norm, bias", of_norm_bias, NULL);
    suite_single(suite, area, "attention, options", of_attention_options, NULL);
    suite_single(suite, area, "attention, weights", of_attention_weights, NULL);
    suite_single(suite, area, "attention, biases by distance", of_attention_distances, NULL);
    suite_single(suite, area, "route", of_route, NULL);
    suite_single(suite, area, "concat", of_concat, &(bool){false});
    suite_single(suite, area, "concat, one row for all heads", of_concat, &(bool){true});
    suite_single(suite, area, "conv", of_conv, NULL);
    suite_single(suite, area, "scan", of_scan, NULL);
}

/* check-arguments.c: what a backend must refuse: unknown operations and arguments, and operands that are
 * missing or don't fit together. `supports` returns 0 and `enqueue` fails with a message; nothing runs. */
#include "check/arguments.h"

static void unknown_operations(struct suite *suite, const void *args)
{
    static const uint32_t ops[] = {0, 77, 1000000, UINT32_MAX};
    struct engine_tensor *a = suite_floats(suite, 4, 1, 1);
    struct engine_op_binary add = {sizeof add, a, a, a};
    (void)args;
    for (size_t i = 0; i < sizeof ops / sizeof *ops; i++) {
        /* fixture_supports would look for tensors in them */
        SUITE_EXPECT(suite, !suite->fixture.api->supports(suite->fixture.device, ops[i], &add),
                     "operation %u is supported", ops[i]);
        suite_expect_error(suite, fixture_enqueue(&suite->fixture, ops[i], &add), ENGINE_ERROR_UNSUPPORTED,
                           "an operation that nobody knows");
    }
}

static void of_matmul(struct suite *suite, const void *args)
{
    struct fixture *fixture = &suite->fixture;
    static const float zeros[64 * 20];
    const struct engine_op_matmul good = {
        .struct_size = sizeof good,
        .weight = fixture_weight(fixture, ENGINE_TYPE_F32, 64, 20, ENGINE_WEIGHT_MATMUL, false, zeros),
        .input = suite_floats(suite, 64, 3, 1),
        .output = suite_floats(suite, 20, 3, 1)};
    struct engine_op_matmul bad = good;
    (void)args;
    suite_only_if(suite, ENGINE_OP_MATMUL, &good);
    bad.input = suite_floats(suite, 32, 3, 1);
    suite_expect_refusal(suite, ENGINE_OP_MATMUL, &bad, ENGINE_OK, "an input shorter than the weight's rows");
    bad = good, bad.output = suite_floats(suite, 21, 3, 1);
    suite_expect_refusal(suite, ENGINE_OP_MATMUL, &bad, ENGINE_OK,
                         "an output longer than the weight's columns");
    bad = good, bad.output = suite_floats(suite, 20, 4, 1);
    suite_expect_refusal(suite, ENGINE_OP_MATMUL, &bad, ENGINE_OK, "an output of more tokens than the input");
    bad = good, bad.input = suite_floats(suite, 64, 3, 2);
    suite_expect_refusal(suite, ENGINE_OP_MATMUL, &bad, ENGINE_OK, "an input of three dimensions");
    bad = good, bad.output = suite_floats(suite, 20, 3, 2);
    suite_expect_refusal(suite, ENGINE_OP_MATMUL, &bad, ENGINE_OK, "an output of three dimensions");
    bad = good, bad.weight = NULL;
    suite_expect_refusal(suite, ENGINE_OP_MATMUL, &bad, ENGINE_OK, "no weight");
    bad = good, bad.output = NULL;
    suite_expect_refusal(suite, ENGINE_OP_MATMUL, &bad, ENGINE_OK, "no output");
    bad = good, bad.activation = 4711;
    suite_expect_refusal(suite, ENGINE_OP_MATMUL, &bad, ENGINE_ERROR_UNSUPPORTED,
                         "an activation that nobody knows");
    bad = good, bad.residual = suite_floats(suite, 20, 1, 1);
    suite_expect_refusal(suite, ENGINE_OP_MATMUL, &bad, ENGINE_OK,
                         "a residual of fewer tokens than the output");
    struct engine_tensor odd = *good.weight;
    bad = good, bad.weight = &odd;
    odd.type = 4711;
    suite_expect_refusal(suite, ENGINE_OP_MATMUL, &bad, ENGINE_OK, "a weight of a type that nobody knows");
    odd = *good.weight, odd.ne[2] = 2; /* with two columns these would be two heads of one token */
    suite_expect_refusal(suite, ENGINE_OP_MATMUL, &bad, ENGINE_OK, "a weight of three dimensions");
    struct engine_tensor halves = *good.input;
    bad = good, bad.input = &halves;
    halves.type = ENGINE_TYPE_I32;
    suite_expect_refusal(suite, ENGINE_OP_MATMUL, &bad, ENGINE_OK, "an input of whole numbers");
    bad = good;
    suite_expect_fitting_shapes(suite, ENGINE_OP_MATMUL, &bad, 0);
}

/* Operands that a product may also have; `args`: whether it is a gate, otherwise a bias. */
static void of_fused_matmul(struct suite *suite, const void *args)
{
    static const float zeros[64 * 20];
    const bool *gated = args;
    const uint32_t use = *gated ? ENGINE_WEIGHT_MATMUL : ENGINE_WEIGHT_VALUES;
    struct fixture *fixture = &suite->fixture;
    struct engine_tensor *other =
        fixture_weight(fixture, ENGINE_TYPE_F32, *gated ? 64 : 20, *gated ? 20 : 1, use, false, zeros);
    struct engine_op_matmul matmul = {
        .struct_size = sizeof matmul,
        .weight = fixture_weight(fixture, ENGINE_TYPE_F32, 64, 20, ENGINE_WEIGHT_MATMUL, false, zeros),
        .input = suite_floats(suite, 64, 2, 1),
        .output = suite_floats(suite, 20, 2, 1),
        .gate = *gated ? other : NULL,
        .bias = *gated ? NULL : other,
        .residual = suite_floats(suite, 20, 2, 1)};
    suite_expect_fitting_shapes(suite, ENGINE_OP_MATMUL, &matmul, 0);
}

static void of_get_rows(struct suite *suite, const void *args)
{
    struct engine_op_get_rows rows = {sizeof rows, suite_floats(suite, 8, 5, 1),
                                      fixture_i32(&suite->fixture, 3, 1, NULL), suite_floats(suite, 8, 3, 1)};
    (void)args;
    /* the source may have any number of rows */
    suite_expect_fitting_shapes(suite, ENGINE_OP_GET_ROWS, &rows, suite_bit(0, 1));
}

static void of_rows(struct suite *suite, const void *args)
{
    const uint32_t op = *(const uint32_t *)args;
    struct engine_tensor *a = suite_floats(suite, 8, 3, 1), *b = suite_floats(suite, 8, 3, 1),
                         *out = suite_floats(suite, 8, 3, 1);
    struct engine_tensor *shorter = suite_floats(suite, 7, 3, 1), *fewer = suite_floats(suite, 8, 2, 1);
    struct engine_op_binary good = {sizeof good, a, b, out}, bad = good;
    suite_only_if(suite, op, &good);
    bad.output = fewer;
    suite_expect_refusal(suite, op, &bad, ENGINE_OK, "an output of fewer rows");
    bad = good, bad.b = shorter;
    suite_expect_refusal(suite, op, &bad, ENGINE_OK, "operands of different rows");
    bad = good, bad.b = NULL;
    suite_expect_refusal(suite, op, &bad, ENGINE_OK, "one operand");
    bad = good;
    suite_expect_fitting_shapes(suite, op, &bad, 0);
}

static void of_norm(struct suite *suite, const void *args)
{
    struct engine_tensor *a = suite_floats(suite, 8, 3, 1), *out = suite_floats(suite, 8, 3, 1);
    struct engine_op_norm good = {.struct_size = sizeof good, .input = a, .output = out, .epsilon = 1e-5f},
                          bad = good;
    (void)args;
    suite_only_if(suite, ENGINE_OP_NORM, &good);
    bad.kind = 4711;
    suite_expect_refusal(suite, ENGINE_OP_NORM, &bad, ENGINE_ERROR_UNSUPPORTED, "a norm that nobody knows");
    bad = good, bad.output = suite_floats(suite, 8, 2, 1);
    suite_expect_refusal(suite, ENGINE_OP_NORM, &bad, ENGINE_OK, "an output of fewer rows");
    bad = good, bad.input = NULL;
    suite_expect_refusal(suite, ENGINE_OP_NORM, &bad, ENGINE_OK, "no input");
    bad = good;
    suite_expect_fitting_shapes(suite, ENGINE_OP_NORM, &bad, 0);
}

static void of_norm_weight(struct suite *suite, const void *args)
{
    static const float zeros[8];
    struct engine_tensor *weight =
        fixture_weight(&suite->fixture, ENGINE_TYPE_F32, 8, 1, ENGINE_WEIGHT_VALUES, false, zeros);
    struct engine_op_norm norm = {.struct_size = sizeof norm,
                                  .input = suite_floats(suite, 8, 3, 1),
                                  .output = suite_floats(suite, 8, 3, 1),
                                  .weight = weight,
                                  .epsilon = 1e-5f};
    (void)args;
    suite_expect_fitting_shapes(suite, ENGINE_OP_NORM, &norm, 0);
}

static void of_activate(struct suite *suite, const void *args)
{
    struct engine_tensor *a = suite_floats(suite, 8, 3, 1), *out = suite_floats(suite, 8, 3, 1);
    struct engine_op_activate good = {.struct_size = sizeof good,
                                      .input = a,
                                      .output = out,
                                      .activation = ENGINE_ACTIVATION_SILU},
                              bad = good;
    (void)args;
    suite_only_if(suite, ENGINE_OP_ACTIVATE, &good);
    bad.activation = 4711;
    suite_expect_refusal(suite, ENGINE_OP_ACTIVATE, &bad, ENGINE_ERROR_UNSUPPORTED,
                         "an activation that nobody knows");
    bad = good, bad.reserved = 1;
    suite_expect_refusal(suite, ENGINE_OP_ACTIVATE, &bad, ENGINE_OK, "a reserved field that isn't zero");
    bad = good, bad.factor = suite_floats(suite, 8, 2, 1);
    suite_expect_refusal(suite, ENGINE_OP_ACTIVATE, &bad, ENGINE_OK, "a factor of fewer rows");
    suite_expect_fitting_shapes(suite, ENGINE_OP_ACTIVATE, &good, 0);
}

static void of_rope(struct suite *suite, const void *args)
{
    struct engine_tensor *x = suite_floats(suite, 8, 2, 3),
                         *positions = fixture_i32(&suite->fixture, 3, 1, NULL);
    struct engine_op_rope good = {.struct_size = sizeof good,
                                  .input = x,
                                  .positions = positions,
                                  .output = x,
                                  .n_dims = 8,
                                  .pairs = ENGINE_ROPE_HALVES,
                                  .theta = 10000},
                          bad = good;
    (void)args;
    suite_only_if(suite, ENGINE_OP_ROPE, &good);
    bad.n_dims = 7;
    suite_expect_refusal(suite, ENGINE_OP_ROPE, &bad, ENGINE_OK, "an odd number of dimensions");
    bad = good, bad.n_dims = 10;
    suite_expect_refusal(suite, ENGINE_OP_ROPE, &bad, ENGINE_OK, "more dimensions than a head has");
    bad = good, bad.pairs = 4711;
    suite_expect_refusal(suite, ENGINE_OP_ROPE, &bad, ENGINE_ERROR_UNSUPPORTED, "pairs that nobody knows");
    bad = good, bad.positions = fixture_i32(&suite->fixture, 3, 4, NULL);
    suite_expect_refusal(suite, ENGINE_OP_ROPE, &bad, ENGINE_OK, "four positions for each token");
    bad = good, bad.positions = fixture_i32(&suite->fixture, 2, 1, NULL);
    suite_expect_refusal(suite, ENGINE_OP_ROPE, &bad, ENGINE_OK, "fewer positions than tokens");
    suite_expect_fitting_shapes(suite, ENGINE_OP_ROPE, &good, 0);
}

static void of_rope_factors(struct suite *suite, const void *args)
{
    static const float zeros[4];
    struct engine_tensor *x = suite_floats(suite, 8, 2, 3),
                         *positions = fixture_i32(&suite->fixture, 3, 1, NULL),
                         *factors = fixture_weight(&suite->fixture, ENGINE_TYPE_F32, 4, 1,
                                                   ENGINE_WEIGHT_VALUES, false, zeros);
    struct engine_op_rope rope = {.struct_size = sizeof rope,
                                  .input = x,
                                  .positions = positions,
                                  .output = x,
                                  .factors = factors,
                                  .n_dims = 8,
                                  .pairs = ENGINE_ROPE_HALVES,
                                  .theta = 10000};
    (void)args;
    suite_expect_fitting_shapes(suite, ENGINE_OP_ROPE, &rope, 0);
}

static void of_attention(struct suite *suite, const void *args)
{
    struct fixture *fixture = &suite->fixture;
    struct engine_tensor *cache = fixture_tensor(fixture, ENGINE_TYPE_F32, (uint64_t[]){8, 4, 2, 3}, NULL);
    struct engine_tensor *numbers = fixture_i32(fixture, 3, 1, NULL), *q = suite_floats(suite, 8, 4, 3);
    const struct engine_op_attention good = {.struct_size = sizeof good,
                                             .q = q,
                                             .k = cache,
                                             .v = cache,
                                             .block_table = fixture_i32(fixture, 3, 1, NULL),
                                             .sequences = numbers,
                                             .positions = numbers,
                                             .output = suite_floats(suite, 8, 4, 3),
                                             .scale = 1};
    struct engine_op_attention bad = good;
    (void)args;
    suite_only_if(suite, ENGINE_OP_ATTENTION, &good);
    bad.q = bad.output = suite_floats(suite, 8, 3, 3);
    suite_expect_refusal(suite, ENGINE_OP_ATTENTION, &bad, ENGINE_OK, "3 heads over 2 heads of keys");
    bad = good, bad.output = suite_floats(suite, 8, 3, 3);
    suite_expect_refusal(suite, ENGINE_OP_ATTENTION, &bad, ENGINE_OK, "an output of fewer heads");
    bad = good, bad.sequences = fixture_i32(fixture, 2, 1, NULL);
    suite_expect_refusal(suite, ENGINE_OP_ATTENTION, &bad, ENGINE_OK, "fewer sequences than tokens");
    bad = good, bad.v = fixture_tensor(fixture, ENGINE_TYPE_F32, (uint64_t[]){4, 4, 2, 3}, NULL);
    suite_expect_refusal(suite, ENGINE_OP_ATTENTION, &bad, ENGINE_OK, "values of another size than keys");
    bad = good, bad.block_table = NULL;
    suite_expect_refusal(suite, ENGINE_OP_ATTENTION, &bad, ENGINE_OK, "no block table");
    bad = good;
    suite_expect_fitting_shapes(suite, ENGINE_OP_ATTENTION, &bad,
                                suite_bit(3, 0) | suite_bit(3, 1) | /* the table's width and sequences */
                                    suite_bit(5, 1));               /* positions that are seen */
}

static void of_cache_write(struct suite *suite, const void *args)
{
    struct fixture *fixture = &suite->fixture;
    struct engine_tensor *cache = fixture_tensor(fixture, ENGINE_TYPE_F32, (uint64_t[]){8, 4, 2, 3}, NULL);
    struct engine_tensor *slots = fixture_i32(fixture, 3, 1, (int32_t[]){0, 1, 2});
    const struct engine_op_cache_write good = {sizeof good, suite_floats(suite, 8, 2, 3), slots, cache};
    struct engine_op_cache_write bad = good;
    (void)args;
    suite_only_if(suite, ENGINE_OP_CACHE_WRITE, &good);
    bad.input = suite_floats(suite, 8, 1, 3);
    suite_expect_refusal(suite, ENGINE_OP_CACHE_WRITE, &bad, ENGINE_OK,
                         "keys of fewer heads than the cache has");
    bad = good, bad.slots = fixture_i32(fixture, 2, 1, NULL);
    suite_expect_refusal(suite, ENGINE_OP_CACHE_WRITE, &bad, ENGINE_OK, "fewer slots than tokens");
    bad = good;
    /* blocks of any size and number */
    suite_expect_fitting_shapes(suite, ENGINE_OP_CACHE_WRITE, &bad, suite_bit(2, 1) | suite_bit(2, 3));
}

void check_arguments(struct suite *suite)
{
    suite_single(suite, "arguments", "unknown operations", unknown_operations, NULL);
    suite_single(suite, "arguments", "matmul", of_matmul, NULL);
    suite_single(suite, "arguments", "matmul, bias", of_fused_matmul, &(bool){false});
    suite_single(suite, "arguments", "matmul, gate", of_fused_matmul, &(bool){true});
    suite_single(suite, "arguments", "attention", of_attention, NULL);
    suite_single(suite, "arguments", "cache write", of_cache_write, NULL);
    suite_single(suite, "arguments", "rope", of_rope, NULL);
    suite_single(suite, "arguments", "rope, factors", of_rope_factors, NULL);
    suite_single(suite, "arguments", "get rows", of_get_rows, NULL);
    suite_single(suite, "arguments", "norm", of_norm, NULL);
    suite_single(suite, "arguments", "norm, weight", of_norm_weight, NULL);
    suite_single(suite, "arguments", "add", of_rows, &(uint32_t){ENGINE_OP_ADD});
    suite_single(suite, "arguments", "mul", of_rows, &(uint32_t){ENGINE_OP_MUL});
    suite_single(suite, "arguments", "activate", of_activate, NULL);
}

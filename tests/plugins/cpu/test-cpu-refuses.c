/* test-cpu-refuses.c: operations and weights that the CPU plugin refuses, with a message. */
#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>

#include "backend-fixture.h"

static struct fixture fixture;

static void setup(void)
{
    unsetenv("ENGINE_CPU_ISA");
    fixture_open(&fixture, "cpu", 0, 2, 0);
}

static void teardown(void)
{
    fixture_close(&fixture);
}

TestSuite(cpu_refuses, .init = setup, .fini = teardown);

/* Refused with this status, with a message, and not said to be supported. */
static void expect_refusal(uint32_t op, const void *args, int status)
{
    fixture_message();
    cr_expect_eq(fixture_enqueue(&fixture, op, args), status);
    cr_expect_neq(fixture_message()[0], 0);
    cr_expect_not(fixture_supports(&fixture, op, args));
}

/* Only what the handles show: the shapes are fine. */
static void expect_bad_handles(uint32_t op, const void *args)
{
    cr_expect_eq(fixture_enqueue(&fixture, op, args), ENGINE_ERROR_ARGUMENT);
    cr_expect(fixture_supports(&fixture, op, args));
}

static struct engine_tensor *floats(uint64_t ne0, uint64_t ne1, uint64_t ne2)
{
    return fixture_f32(&fixture, ne0, ne1, ne2, NULL);
}

static struct engine_tensor *values(uint64_t n)
{
    static const float zeros[64];
    return fixture_weight(&fixture, ENGINE_TYPE_F32, n, 1, ENGINE_WEIGHT_VALUES, false, zeros);
}

Test(cpu_refuses, operations_that_it_does_not_know)
{
    struct engine_op_binary args = {sizeof args, floats(4, 1, 1), floats(4, 1, 1), floats(4, 1, 1)};
    expect_refusal(0, &args, ENGINE_ERROR_UNSUPPORTED);
    expect_refusal(99, &args, ENGINE_ERROR_UNSUPPORTED);
    struct {
        struct engine_op_binary known;
        uint64_t later;
    } longer = {args, 0};
    longer.known.struct_size = sizeof longer;
    cr_assert_eq(fixture_enqueue(&fixture, ENGINE_OP_ADD, &longer), ENGINE_OK);
    longer.later = 1;
    cr_assert_eq(fixture_enqueue(&fixture, ENGINE_OP_ADD, &longer), ENGINE_ERROR_UNSUPPORTED);
}

Test(cpu_refuses, operands_that_do_not_fit_together)
{
    struct engine_op_binary add = {sizeof add, floats(4, 3, 1), floats(4, 3, 1), floats(4, 3, 1)};
    const struct engine_op_binary good = add;
    cr_assert_eq(fixture_enqueue(&fixture, ENGINE_OP_ADD, &add), ENGINE_OK);
    add.b = NULL;
    expect_refusal(ENGINE_OP_ADD, &add, ENGINE_ERROR_ARGUMENT);
    add = good;
    add.output = floats(4, 2, 1);
    expect_refusal(ENGINE_OP_ADD, &add, ENGINE_ERROR_ARGUMENT);
    add = good;
    add.b = floats(3, 3, 1);
    expect_refusal(ENGINE_OP_ADD, &add, ENGINE_ERROR_ARGUMENT);
    add = good;
    add.a = fixture_i32(&fixture, 4, 3, NULL);
    expect_refusal(ENGINE_OP_ADD, &add, ENGINE_ERROR_UNSUPPORTED);

    struct engine_tensor odd = *good.a;
    add.a = &odd;
    odd.nb[0] = 8;
    expect_refusal(ENGINE_OP_ADD, &add, ENGINE_ERROR_UNSUPPORTED);
    odd = *good.a, odd.nb[1] = 18;
    expect_refusal(ENGINE_OP_ADD, &add, ENGINE_ERROR_UNSUPPORTED);
    odd = *good.a, odd.ne[2] = 0;
    expect_refusal(ENGINE_OP_ADD, &add, ENGINE_ERROR_ARGUMENT);
    odd = *good.a, odd.ne[1] = odd.ne[2] = odd.ne[3] = UINT64_C(1) << 30;
    expect_refusal(ENGINE_OP_ADD, &add, ENGINE_ERROR_ARGUMENT);
    odd = *good.a, odd.nb[1] = UINT64_MAX - 3;
    expect_refusal(ENGINE_OP_ADD, &add, ENGINE_ERROR_ARGUMENT);
    odd = *good.a, odd.struct_size = 8;
    cr_expect_eq(fixture_enqueue(&fixture, ENGINE_OP_ADD, &add), ENGINE_ERROR_ARGUMENT);
    odd = *good.a, odd.buffer = NULL;
    expect_bad_handles(ENGINE_OP_ADD, &add);
    odd = *good.a, odd.offset = 4096;
    expect_bad_handles(ENGINE_OP_ADD, &add);
    odd = *good.a, odd.offset = UINT64_MAX - 3;
    expect_bad_handles(ENGINE_OP_ADD, &add);
}

Test(cpu_refuses, matmuls_with_the_wrong_weights)
{
    uint64_t seed = 3;
    void *data = random_weight(&seed, ENGINE_TYPE_Q4_0, 64, 20);
    struct engine_tensor *weight =
        fixture_weight(&fixture, ENGINE_TYPE_Q4_0, 64, 20, ENGINE_WEIGHT_MATMUL, false, data);
    const struct engine_op_matmul good = {
        .struct_size = sizeof good, .weight = weight, .input = floats(64, 2, 1), .output = floats(20, 2, 1)};
    struct engine_op_matmul args = good;
    cr_assert_eq(fixture_enqueue(&fixture, ENGINE_OP_MATMUL, &args), ENGINE_OK);
    args.input = floats(32, 2, 1);
    expect_refusal(ENGINE_OP_MATMUL, &args, ENGINE_ERROR_ARGUMENT);
    args = good, args.output = floats(21, 2, 1);
    expect_refusal(ENGINE_OP_MATMUL, &args, ENGINE_ERROR_ARGUMENT);
    args = good, args.weight = NULL;
    expect_refusal(ENGINE_OP_MATMUL, &args, ENGINE_ERROR_ARGUMENT);
    args = good, args.bias = values(19);
    expect_refusal(ENGINE_OP_MATMUL, &args, ENGINE_ERROR_ARGUMENT);
    args = good, args.activation = 77;
    expect_refusal(ENGINE_OP_MATMUL, &args, ENGINE_ERROR_UNSUPPORTED);
    args = good, args.gate = weight, args.scale = 2;
    expect_refusal(ENGINE_OP_MATMUL, &args, ENGINE_ERROR_ARGUMENT);
    args = good, args.input = floats(64, 2, 2);
    expect_refusal(ENGINE_OP_MATMUL, &args, ENGINE_ERROR_ARGUMENT);
    struct engine_tensor odd = *weight;
    args = good, args.weight = &odd;
    odd.type = 12345;
    cr_expect_eq(fixture_enqueue(&fixture, ENGINE_OP_MATMUL, &args), ENGINE_ERROR_UNSUPPORTED);
    odd = *weight, odd.weight = NULL;
    expect_bad_handles(ENGINE_OP_MATMUL, &args);
    odd = *weight, odd.type = ENGINE_TYPE_Q8_0;
    expect_bad_handles(ENGINE_OP_MATMUL, &args);
    /* a weight for rows alone has no panels */
    args.weight = fixture_weight(&fixture, ENGINE_TYPE_Q4_0, 64, 20, ENGINE_WEIGHT_ROWS, false, data);
    expect_bad_handles(ENGINE_OP_MATMUL, &args);
    free(data);
}

Test(cpu_refuses, other_operations_with_the_wrong_operands)
{
    struct engine_tensor *x = floats(8, 2, 3), *positions = fixture_i32(&fixture, 3, 1, NULL);
    struct engine_op_rope rope = {.struct_size = sizeof rope,
                                  .input = x,
                                  .positions = positions,
                                  .output = x,
                                  .n_dims = 8,
                                  .pairs = ENGINE_ROPE_HALVES,
                                  .theta = 10000};
    cr_assert_eq(fixture_enqueue(&fixture, ENGINE_OP_ROPE, &rope), ENGINE_OK);
    rope.n_dims = 7;
    expect_refusal(ENGINE_OP_ROPE, &rope, ENGINE_ERROR_ARGUMENT);
    rope.n_dims = 10;
    expect_refusal(ENGINE_OP_ROPE, &rope, ENGINE_ERROR_ARGUMENT);
    rope.n_dims = 8, rope.theta = 0;
    expect_refusal(ENGINE_OP_ROPE, &rope, ENGINE_ERROR_ARGUMENT);
    rope.theta = 10000, rope.pairs = 2;
    expect_refusal(ENGINE_OP_ROPE, &rope, ENGINE_ERROR_UNSUPPORTED);
    rope.pairs = 0, rope.factors = values(5);
    expect_refusal(ENGINE_OP_ROPE, &rope, ENGINE_ERROR_ARGUMENT);

    struct engine_op_norm norm = {.struct_size = sizeof norm,
                                  .input = floats(8, 2, 1),
                                  .output = floats(8, 2, 1),
                                  .weight = values(8),
                                  .kind = 4711,
                                  .epsilon = 1e-5f};
    expect_refusal(ENGINE_OP_NORM, &norm, ENGINE_ERROR_UNSUPPORTED);
    norm.kind = 0, norm.weight = values(7);
    expect_refusal(ENGINE_OP_NORM, &norm, ENGINE_ERROR_ARGUMENT);

    struct engine_tensor *cache = fixture_tensor(&fixture, ENGINE_TYPE_F16, (uint64_t[]){8, 4, 2, 3}, NULL);
    struct engine_op_cache_write write = {sizeof write, floats(8, 1, 3), positions, cache};
    expect_refusal(ENGINE_OP_CACHE_WRITE, &write, ENGINE_ERROR_ARGUMENT);
    struct engine_op_attention attention = {.struct_size = sizeof attention,
                                            .q = floats(8, 3, 3),
                                            .k = cache,
                                            .v = cache,
                                            .block_table = fixture_i32(&fixture, 3, 1, NULL),
                                            .sequences = positions,
                                            .positions = positions,
                                            .output = floats(8, 3, 3),
                                            .scale = 1};
    expect_refusal(ENGINE_OP_ATTENTION, &attention, ENGINE_ERROR_ARGUMENT); /* 3 heads, 2 key/value heads */
    attention.q = floats(8, 4, 3);
    expect_refusal(ENGINE_OP_ATTENTION, &attention, ENGINE_ERROR_ARGUMENT); /* 4 heads, output of 3 */
    attention.output = floats(8, 4, 3);
    cr_assert(fixture_supports(&fixture, ENGINE_OP_ATTENTION, &attention));
    attention.sequences = fixture_i32(&fixture, 2, 1, NULL);
    expect_refusal(ENGINE_OP_ATTENTION, &attention, ENGINE_ERROR_ARGUMENT);
}

Test(cpu_refuses, weights_that_make_no_sense)
{
    const struct engine_backend *api = fixture.api;
    struct engine_weight_desc good = {.struct_size = sizeof good,
                                      .type = ENGINE_TYPE_Q4_0,
                                      .ne = {64, 2, 1, 1},
                                      .uses = ENGINE_WEIGHT_MATMUL,
                                      .data_size = 72},
                              desc = good;
    uint8_t data[72] = {0};
    struct engine_weight *weight;
    uint64_t bytes;
    cr_expect_eq(api->weight_create(fixture.device, &desc, &weight), ENGINE_ERROR_ARGUMENT); /* no data */
    desc.data = data, desc.data_size--;
    cr_expect_eq(api->weight_create(fixture.device, &desc, &weight), ENGINE_ERROR_ARGUMENT);
    desc = good, desc.type = 4;
    cr_expect_eq(api->weight_size(fixture.device, &desc, &bytes), ENGINE_ERROR_UNSUPPORTED);
    desc = good, desc.uses = 0;
    cr_expect_eq(api->weight_size(fixture.device, &desc, &bytes), ENGINE_ERROR_UNSUPPORTED);
    desc = good, desc.uses = 64;
    cr_expect_eq(api->weight_size(fixture.device, &desc, &bytes), ENGINE_ERROR_UNSUPPORTED);
    desc = good, desc.uses = ENGINE_WEIGHT_VALUES;
    cr_expect_eq(api->weight_size(fixture.device, &desc, &bytes), ENGINE_ERROR_UNSUPPORTED);
    desc = good, desc.ne[0] = 63;
    cr_expect_eq(api->weight_size(fixture.device, &desc, &bytes), ENGINE_ERROR_ARGUMENT);
    desc = good, desc.ne[2] = 0;
    cr_expect_eq(api->weight_size(fixture.device, &desc, &bytes), ENGINE_ERROR_ARGUMENT);
    for (int i = 0; i < 4; i++) {
        desc = good, desc.ne[i] = UINT64_MAX / 32 * 32;
        cr_expect_eq(api->weight_size(fixture.device, &desc, &bytes), ENGINE_ERROR_ARGUMENT);
        desc.ne[i] = UINT64_C(1) << 62;
        cr_expect_eq(api->weight_size(fixture.device, &desc, &bytes), ENGINE_ERROR_ARGUMENT);
    }
}

Test(cpu_refuses, transfers_beyond_a_buffer)
{
    const struct engine_backend *api = fixture.api;
    struct engine_buffer *a, *b;
    uint8_t bytes[16] = {0};
    cr_assert_eq(api->buffer_create(fixture.device, 16, &a), ENGINE_OK);
    cr_assert_eq(api->buffer_create(fixture.device, 16, &b), ENGINE_OK);
    cr_expect_eq(api->write(fixture.stream, a, 1, bytes, 16), ENGINE_ERROR_ARGUMENT);
    cr_expect_eq(api->write(fixture.stream, NULL, 0, bytes, 16), ENGINE_ERROR_ARGUMENT);
    cr_expect_eq(api->read(fixture.stream, a, UINT64_MAX, bytes, 2), ENGINE_ERROR_ARGUMENT);
    cr_expect_eq(api->copy(fixture.stream, a, 0, b, 8, 9), ENGINE_ERROR_ARGUMENT);
    cr_expect_eq(api->copy(fixture.stream, a, 8, b, 0, 9), ENGINE_ERROR_ARGUMENT);
    cr_expect_eq(api->copy(fixture.stream, a, 8, b, 0, 8), ENGINE_OK);
    api->buffer_destroy(a);
    api->buffer_destroy(b);
}

/* ---- What 1.1 added --------------------------------------------------------------------------------- */

Test(cpu_refuses, activations_with_the_wrong_numbers)
{
    static const struct {
        uint32_t activation;
        bool factor;
        float limit, alpha;
        int status;
    } cases[] = {
        {ENGINE_ACTIVATION_SILU, false, 0, 0, ENGINE_OK},
        {ENGINE_ACTIVATION_SILU, false, 1, 0, ENGINE_ERROR_ARGUMENT},
        {ENGINE_ACTIVATION_SILU, false, 0, 1, ENGINE_ERROR_ARGUMENT},
        {ENGINE_ACTIVATION_CLAMP, false, 2, 0, ENGINE_OK},
        {ENGINE_ACTIVATION_CLAMP, false, 0, 0, ENGINE_ERROR_ARGUMENT},
        {ENGINE_ACTIVATION_CLAMP, false, -1, 0, ENGINE_ERROR_ARGUMENT},
        {ENGINE_ACTIVATION_CLAMP, false, 2, 1, ENGINE_ERROR_ARGUMENT},
        {ENGINE_ACTIVATION_SOFTCAP, true, 30, 0, ENGINE_OK},
        {ENGINE_ACTIVATION_SOFTCAP, true, NAN, 0, ENGINE_ERROR_ARGUMENT},
        {ENGINE_ACTIVATION_SOFTCAP, true, INFINITY, 0, ENGINE_ERROR_ARGUMENT},
        {ENGINE_ACTIVATION_SWIGLU_CLAMPED, true, 7, 1.702f, ENGINE_OK},
        {ENGINE_ACTIVATION_SWIGLU_CLAMPED, false, 7, 1.702f, ENGINE_ERROR_ARGUMENT},
        {ENGINE_ACTIVATION_SWIGLU_CLAMPED, true, 0, 1.702f, ENGINE_ERROR_ARGUMENT},
        {ENGINE_ACTIVATION_SWIGLU_CLAMPED, true, 7, NAN, ENGINE_ERROR_ARGUMENT},
        {ENGINE_ACTIVATION_EXP, true, 0, 0, ENGINE_OK},
        {ENGINE_ACTIVATION_EXP, false, 1, 0, ENGINE_ERROR_ARGUMENT},
        {ENGINE_ACTIVATION_SILU_CLAMPED, true, 10, 0, ENGINE_OK},
        {ENGINE_ACTIVATION_SILU_CLAMPED, false, 10, 0, ENGINE_ERROR_ARGUMENT},
        {ENGINE_ACTIVATION_SILU_CLAMPED, true, 10, 1, ENGINE_ERROR_ARGUMENT},
        {ENGINE_ACTIVATION_XIELU, false, 1e-6f, 1, ENGINE_OK},
        {ENGINE_ACTIVATION_XIELU, false, 0, 1, ENGINE_ERROR_ARGUMENT},
        {15, false, 0, 0, ENGINE_ERROR_UNSUPPORTED},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct engine_op_activate args = {.struct_size = sizeof args,
                                          .input = floats(8, 2, 1),
                                          .factor = cases[i].factor ? floats(8, 2, 1) : NULL,
                                          .output = floats(8, 2, 1),
                                          .activation = cases[i].activation,
                                          .limit = cases[i].limit,
                                          .alpha = cases[i].alpha};
        if (cases[i].status)
            expect_refusal(ENGINE_OP_ACTIVATE, &args, cases[i].status);
        else
            cr_expect_eq(fixture_enqueue(&fixture, ENGINE_OP_ACTIVATE, &args), ENGINE_OK, "case %zu", i);
    }
}

Test(cpu_refuses, rows_that_do_not_fit)
{
    struct engine_op_binary add = {sizeof add, floats(8, 3, 2), floats(1, 3, 2), floats(8, 3, 2)};
    cr_assert_eq(fixture_enqueue(&fixture, ENGINE_OP_ADD, &add), ENGINE_OK);
    add.b = floats(1, 3, 1);
    expect_refusal(ENGINE_OP_ADD, &add, ENGINE_ERROR_ARGUMENT);
    add.b = floats(1, 1, 1);
    expect_refusal(ENGINE_OP_ADD, &add, ENGINE_ERROR_ARGUMENT);
    struct engine_op_activate activate = {.struct_size = sizeof activate,
                                          .input = floats(8, 3, 1),
                                          .factor = floats(8, 1, 1),
                                          .output = floats(8, 3, 1)};
    expect_refusal(ENGINE_OP_ACTIVATE, &activate, ENGINE_ERROR_ARGUMENT);
    struct engine_op_norm norm = {.struct_size = sizeof norm,
                                  .input = floats(8, 2, 1),
                                  .output = floats(8, 2, 1),
                                  .bias = values(7),
                                  .kind = ENGINE_NORM_LAYER,
                                  .epsilon = 1e-5f};
    expect_refusal(ENGINE_OP_NORM, &norm, ENGINE_ERROR_ARGUMENT);
    norm.bias = values(8);
    cr_assert_eq(fixture_enqueue(&fixture, ENGINE_OP_NORM, &norm), ENGINE_OK);
}

Test(cpu_refuses, options_of_rope_and_attention_that_make_no_sense)
{
    struct engine_tensor *x = floats(8, 2, 3), *numbers = fixture_i32(&fixture, 3, 1, NULL);
    struct engine_op_rope rope = {.struct_size = sizeof rope,
                                  .input = x,
                                  .positions = numbers,
                                  .output = x,
                                  .n_dims = 8,
                                  .theta = 10000,
                                  .magnitude = NAN};
    expect_refusal(ENGINE_OP_ROPE, &rope, ENGINE_ERROR_ARGUMENT);
    rope.magnitude = 1.5f, rope.reserved = 1;
    expect_refusal(ENGINE_OP_ROPE, &rope, ENGINE_ERROR_UNSUPPORTED);

    struct engine_tensor *k = fixture_tensor(&fixture, ENGINE_TYPE_F16, (uint64_t[]){8, 4, 2, 3}, NULL);
    struct engine_tensor *v = fixture_tensor(&fixture, ENGINE_TYPE_F16, (uint64_t[]){6, 4, 2, 3}, NULL);
    const struct engine_op_attention good = {.struct_size = sizeof good,
                                             .q = floats(8, 4, 3),
                                             .k = k,
                                             .v = v,
                                             .block_table = fixture_i32(&fixture, 3, 1, NULL),
                                             .sequences = numbers,
                                             .positions = numbers,
                                             .output = floats(6, 4, 3),
                                             .scale = 1,
                                             .slopes = values(4),
                                             .sinks = values(4),
                                             .softcap = 30,
                                             .chunk = 8};
    struct engine_op_attention bad = good;
    cr_assert_eq(fixture_enqueue(&fixture, ENGINE_OP_ATTENTION, &good), ENGINE_OK);
    bad.window = 8;
    expect_refusal(ENGINE_OP_ATTENTION, &bad, ENGINE_ERROR_ARGUMENT);
    bad = good, bad.softcap = -1;
    expect_refusal(ENGINE_OP_ATTENTION, &bad, ENGINE_ERROR_ARGUMENT);
    bad = good, bad.softcap = NAN;
    expect_refusal(ENGINE_OP_ATTENTION, &bad, ENGINE_ERROR_ARGUMENT);
    bad = good, bad.slopes = values(2);
    expect_refusal(ENGINE_OP_ATTENTION, &bad, ENGINE_ERROR_ARGUMENT);
    bad = good, bad.sinks = values(2);
    expect_refusal(ENGINE_OP_ATTENTION, &bad, ENGINE_ERROR_ARGUMENT);
    bad = good, bad.output = floats(8, 4, 3);
    expect_refusal(ENGINE_OP_ATTENTION, &bad, ENGINE_ERROR_ARGUMENT);
}

Test(cpu_refuses, picks_that_do_not_fit)
{
    struct engine_tensor *numbers = fixture_i32(&fixture, 3, 1, NULL);
    const uint64_t ne[] = {8, 4, 1, 3}, two_heads[] = {8, 4, 2, 3};
    const struct fixture_gaps none = {0};
    const struct engine_op_pick good = {.struct_size = sizeof good,
                                        .q = floats(8, 4, 3),
                                        .k = fixture_view(&fixture, ENGINE_TYPE_F16, ne, &none, NULL),
                                        .weights = floats(4, 3, 1),
                                        .block_table = fixture_i32(&fixture, 3, 1, (int32_t[]){0, 1, 2}),
                                        .sequences = numbers,
                                        .positions = numbers,
                                        .picked = fixture_i32(&fixture, 2, 3, NULL)};
    cr_assert_eq(fixture_enqueue(&fixture, ENGINE_OP_PICK, &good), ENGINE_OK);
#define REFUSED(status, change)                                                                              \
    do {                                                                                                     \
        struct engine_op_pick bad = good;                                                                    \
        bad.change;                                                                                          \
        expect_refusal(ENGINE_OP_PICK, &bad, status);                                                        \
    } while (0)
    REFUSED(ENGINE_ERROR_ARGUMENT, q = floats(8, 4, 2));
    REFUSED(ENGINE_ERROR_ARGUMENT, q = floats(6, 4, 3));
    REFUSED(ENGINE_ERROR_ARGUMENT, k = fixture_view(&fixture, ENGINE_TYPE_F16, two_heads, &none, NULL));
    REFUSED(ENGINE_ERROR_ARGUMENT, weights = floats(5, 3, 1));
    REFUSED(ENGINE_ERROR_ARGUMENT, sequences = fixture_i32(&fixture, 2, 1, NULL));
    REFUSED(ENGINE_ERROR_ARGUMENT, positions = fixture_i32(&fixture, 3, 2, NULL));
    REFUSED(ENGINE_ERROR_ARGUMENT, picked = fixture_i32(&fixture, 2, 4, NULL));
    REFUSED(ENGINE_ERROR_ARGUMENT, picked = NULL);
    REFUSED(ENGINE_ERROR_UNSUPPORTED, picked = floats(2, 3, 1));
#undef REFUSED
}

Test(cpu_refuses, routes_that_lead_nowhere)
{
    const struct engine_op_route good = {.struct_size = sizeof good,
                                         .logits = floats(12, 3, 1),
                                         .bias = values(12),
                                         .ids = fixture_i32(&fixture, 4, 3, NULL),
                                         .weights = floats(4, 3, 1),
                                         .n_groups = 6,
                                         .n_groups_used = 2,
                                         .group_score = ENGINE_ROUTE_GROUP_TOP2,
                                         .floor = 1};
    cr_assert_eq(fixture_enqueue(&fixture, ENGINE_OP_ROUTE, &good), ENGINE_OK);
#define REFUSED(status, change)                                                                              \
    do {                                                                                                     \
        struct engine_op_route bad = good;                                                                   \
        bad.change;                                                                                          \
        expect_refusal(ENGINE_OP_ROUTE, &bad, status);                                                       \
    } while (0)
    REFUSED(ENGINE_ERROR_ARGUMENT, n_groups_used = 1); /* four experts of one group of two */
    REFUSED(ENGINE_ERROR_ARGUMENT, n_groups_used = 0);
    REFUSED(ENGINE_ERROR_ARGUMENT, n_groups_used = 7);
    REFUSED(ENGINE_ERROR_ARGUMENT, n_groups = 5);
    REFUSED(ENGINE_ERROR_ARGUMENT, n_groups = 12);
    REFUSED(ENGINE_ERROR_ARGUMENT, n_groups = 0);
    REFUSED(ENGINE_ERROR_ARGUMENT, floor = -1);
    REFUSED(ENGINE_ERROR_ARGUMENT, floor = NAN);
    REFUSED(ENGINE_ERROR_ARGUMENT, scale = INFINITY);
    REFUSED(ENGINE_ERROR_ARGUMENT, bias = values(6));
    REFUSED(ENGINE_ERROR_ARGUMENT, ids = fixture_i32(&fixture, 3, 3, NULL));
    REFUSED(ENGINE_ERROR_ARGUMENT, weights = floats(4, 2, 1));
    REFUSED(ENGINE_ERROR_ARGUMENT, logits = floats(2, 3, 1));
    REFUSED(ENGINE_ERROR_UNSUPPORTED, ids = floats(4, 3, 1));
    REFUSED(ENGINE_ERROR_UNSUPPORTED, function = 3);
    REFUSED(ENGINE_ERROR_ARGUMENT, chosen = floats(4, 3, 1)); /* beside a bias and groups */
    REFUSED(ENGINE_ERROR_UNSUPPORTED, group_score = 2);
    REFUSED(ENGINE_ERROR_UNSUPPORTED, normalise = 2);
    REFUSED(ENGINE_ERROR_UNSUPPORTED, reserved = 1);
#undef REFUSED
}

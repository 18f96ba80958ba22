/* check-arguments.c: what a backend must refuse: unknown operations and arguments, structs of later versions,
 * and operands that are missing, of another type, or don't fit together. `supports` returns 0 and `enqueue`
 * fails with a message; nothing runs. common/ops.h says what is wrong with an example once something is taken
 * away or changed; what it doesn't know is refused by hand. */
#include <stdio.h>
#include <string.h>

#include "check/examples.h"
#include "check/suite.h"

/* The plugin must refuse an invalid request; `what` says what is wrong with it. `wanted`: the status, or
 * ENGINE_OK for any that is an error. */
static void expect_refusal(struct suite *suite, uint32_t op, const void *args, int wanted, const char *what)
{
    struct fixture *fixture = &suite->fixture;
    fixture_describe_operands(fixture, op, args);
    SUITE_EXPECT(suite, !fixture_supports(fixture, op, args), "%s: supported", what);
    check_host_message();
    suite_expect_error(suite, fixture_enqueue(fixture, op, args), wanted, what);
    fixture_must(fixture, fixture->api->stream_wait(fixture->stream), "stream_wait after what was refused");
}

/* Stops as unclaimed unless the plugin supports the request. */
static void only_if(struct suite *suite, uint32_t op, const void *args)
{
    if (!fixture_supports(&suite->fixture, op, args))
        suite->fixture.stop(&suite->fixture, FIXTURE_UNCLAIMED, "");
}

/* ---- Refused by hand ------------------------------------------------------------------------------- */

static void refuse_matmul(struct suite *suite, const union op_args *good)
{
    union op_args bad = *good;
    only_if(suite, ENGINE_OP_MATMUL, good);
    bad.matmul.input = example_floats(&suite->fixture, 32, 3, 1);
    expect_refusal(suite, ENGINE_OP_MATMUL, &bad, ENGINE_OK, "an input shorter than the weight's rows");
    bad = *good, bad.matmul.residual = example_floats(&suite->fixture, 20, 1, 1);
    expect_refusal(suite, ENGINE_OP_MATMUL, &bad, ENGINE_OK, "a residual of fewer tokens than the output");
    bad = *good, bad.matmul.activation = 4711;
    expect_refusal(suite, ENGINE_OP_MATMUL, &bad, ENGINE_ERROR_UNSUPPORTED,
                   "an activation that nobody knows");
    struct engine_tensor odd = *good->matmul.weight;
    bad = *good, bad.matmul.weight = &odd;
    odd.type = 4711;
    expect_refusal(suite, ENGINE_OP_MATMUL, &bad, ENGINE_OK, "a weight of a type that nobody knows");
}

static void refuse_experts(struct suite *suite, const union op_args *good)
{
    const bool mixed = good->matmul.mix;
    union op_args bad = *good;
    bad.matmul.activation = ENGINE_ACTIVATION_CLAMP;
    expect_refusal(suite, ENGINE_OP_MATMUL, &bad, ENGINE_OK, "an activation that takes a limit");
    bad = *good, bad.matmul.experts = example_numbers(&suite->fixture, 5, 3);
    if (mixed)
        bad.matmul.mix = example_floats(&suite->fixture, 5, 3, 1);
    else
        bad.matmul.output = example_floats(&suite->fixture, 20, 5, 3);
    expect_refusal(suite, ENGINE_OP_MATMUL, &bad, ENGINE_OK, "more experts than there are");
    bad = *good;
    if (mixed)
        bad.matmul.experts = NULL;
    else
        bad.matmul.residual = example_floats(&suite->fixture, 20, 3, 1);
    expect_refusal(suite, ENGINE_OP_MATMUL, &bad, ENGINE_OK,
                   mixed ? "a mix without experts" : "a residual without a mix");
    bad = *good, bad.matmul.bias = example_values(&suite->fixture, 20, 1);
    expect_refusal(suite, ENGINE_OP_MATMUL, &bad, ENGINE_OK, "one bias for all experts");
    bad = *good, bad.matmul.weight = example_weight(&suite->fixture, ENGINE_WEIGHT_MATMUL, 64, 20);
    expect_refusal(suite, ENGINE_OP_MATMUL, &bad, ENGINE_OK, "experts of a weight of two dimensions");
    bad = *good, bad.matmul.input = example_floats(&suite->fixture, 64, 3, 1);
    expect_refusal(suite, ENGINE_OP_MATMUL, &bad, ENGINE_OK, "an input of two dimensions");
}

static void refuse_heads(struct suite *suite, const union op_args *good)
{
    union op_args bad = *good;
    bad.matmul.bias = example_values(&suite->fixture, 20, 4);
    expect_refusal(suite, ENGINE_OP_MATMUL, &bad, ENGINE_OK, "a bias beside a matrix for each head");
    bad = *good, bad.matmul.activation = ENGINE_ACTIVATION_SILU;
    expect_refusal(suite, ENGINE_OP_MATMUL, &bad, ENGINE_OK, "an activation beside a matrix for each head");
    bad = *good, bad.matmul.mix = example_floats(&suite->fixture, 4, 3, 1);
    expect_refusal(suite, ENGINE_OP_MATMUL, &bad, ENGINE_OK, "a mix without experts");
    bad = *good, bad.matmul.input = example_floats(&suite->fixture, 64, 3, 3);
    expect_refusal(suite, ENGINE_OP_MATMUL, &bad, ENGINE_OK, "fewer heads than matrices");
}

static void refuse_binary(struct suite *suite, uint32_t op, const union op_args *good)
{
    union op_args bad = *good;
    bad.binary.output = example_floats(&suite->fixture, 8, 2, 1);
    expect_refusal(suite, op, &bad, ENGINE_OK, "an output of fewer rows");
    bad = *good, bad.binary.b = example_floats(&suite->fixture, 7, 3, 1);
    expect_refusal(suite, op, &bad, ENGINE_OK, "operands of different rows");
}

static void refuse_add(struct suite *suite, const union op_args *good)
{
    refuse_binary(suite, ENGINE_OP_ADD, good);
}

static void refuse_mul(struct suite *suite, const union op_args *good)
{
    refuse_binary(suite, ENGINE_OP_MUL, good);
}

static void refuse_weights_of_one(struct suite *suite, uint32_t op, const union op_args *good)
{
    union op_args bad = *good;
    bad.binary.b = example_values(&suite->fixture, 1, 3);
    expect_refusal(suite, op, &bad, ENGINE_OK, "a weight of one number for each row");
}

static void refuse_add_weights(struct suite *suite, const union op_args *good)
{
    refuse_weights_of_one(suite, ENGINE_OP_ADD, good);
}

static void refuse_mul_weights(struct suite *suite, const union op_args *good)
{
    refuse_weights_of_one(suite, ENGINE_OP_MUL, good);
}

static void refuse_norm(struct suite *suite, const union op_args *good)
{
    union op_args bad = *good;
    only_if(suite, ENGINE_OP_NORM, good);
    bad.norm.kind = 4711;
    expect_refusal(suite, ENGINE_OP_NORM, &bad, ENGINE_ERROR_UNSUPPORTED, "a norm that nobody knows");
    bad = *good, bad.norm.output = example_floats(&suite->fixture, 8, 2, 1);
    expect_refusal(suite, ENGINE_OP_NORM, &bad, ENGINE_OK, "an output of fewer rows");
}

static void refuse_activate(struct suite *suite, const union op_args *good)
{
    union op_args bad = *good;
    only_if(suite, ENGINE_OP_ACTIVATE, good);
    bad.activate.activation = 4711;
    expect_refusal(suite, ENGINE_OP_ACTIVATE, &bad, ENGINE_ERROR_UNSUPPORTED,
                   "an activation that nobody knows");
    bad = *good, bad.activate.reserved = 1;
    expect_refusal(suite, ENGINE_OP_ACTIVATE, &bad, ENGINE_OK, "a reserved field that isn't zero");
    bad = *good, bad.activate.factor = example_floats(&suite->fixture, 8, 2, 1);
    expect_refusal(suite, ENGINE_OP_ACTIVATE, &bad, ENGINE_OK, "a factor of fewer rows");
}

/* Activations that a product can't have, and numbers that those of rows need or can't have. */
static void refuse_activations(struct suite *suite, const union op_args *good)
{
    union op_args activate = *good, matmul = example_make(&suite->fixture, example_at(0));
    for (uint32_t i = ENGINE_ACTIVATION_CLAMP; i < ENGINE_ACTIVATION_XIELU + 2; i++) {
        char what[80];
        snprintf(what, sizeof what, "activation %u of a product", i);
        matmul.matmul.activation = activate.activate.activation = i;
        expect_refusal(suite, ENGINE_OP_MATMUL, &matmul, ENGINE_OK, what);
        activate.activate.limit = 0, activate.activate.alpha = 1;
        snprintf(what, sizeof what, "activation %u without a limit", i);
        expect_refusal(suite, ENGINE_OP_ACTIVATE, &activate, ENGINE_OK, what);
    }
    activate = *good, activate.activate.limit = 1;
    expect_refusal(suite, ENGINE_OP_ACTIVATE, &activate, ENGINE_OK, "a limit that isn't taken");
    activate.activate.activation = ENGINE_ACTIVATION_SWIGLU_CLAMPED;
    activate.activate.limit = 7, activate.activate.alpha = 1.702f, activate.activate.factor = NULL;
    expect_refusal(suite, ENGINE_OP_ACTIVATE, &activate, ENGINE_OK, "a gated unit without a factor");
    activate.activate.activation = ENGINE_ACTIVATION_SILU_CLAMPED, activate.activate.alpha = 0;
    expect_refusal(suite, ENGINE_OP_ACTIVATE, &activate, ENGINE_OK, "a gated unit without a factor");
    activate = *good, activate.activate.beta = 1;
    expect_refusal(suite, ENGINE_OP_ACTIVATE, &activate, ENGINE_OK, "a beta that isn't taken");
    activate = *good, activate.activate.gamma = 1;
    expect_refusal(suite, ENGINE_OP_ACTIVATE, &activate, ENGINE_OK, "a gamma that isn't taken");
}

static void refuse_rope(struct suite *suite, const union op_args *good)
{
    union op_args bad = *good;
    only_if(suite, ENGINE_OP_ROPE, good);
    bad.rope.n_dims = 7;
    expect_refusal(suite, ENGINE_OP_ROPE, &bad, ENGINE_OK, "an odd number of dimensions");
    bad.rope.n_dims = 10;
    expect_refusal(suite, ENGINE_OP_ROPE, &bad, ENGINE_OK, "more dimensions than a head has");
    bad = *good, bad.rope.pairs = 4711;
    expect_refusal(suite, ENGINE_OP_ROPE, &bad, ENGINE_ERROR_UNSUPPORTED, "pairs that nobody knows");
    bad = *good, bad.rope.positions = example_numbers(&suite->fixture, 3, 4);
    expect_refusal(suite, ENGINE_OP_ROPE, &bad, ENGINE_OK, "four positions for each token");
    bad = *good, bad.rope.positions = example_numbers(&suite->fixture, 2, 1);
    expect_refusal(suite, ENGINE_OP_ROPE, &bad, ENGINE_OK, "fewer positions than tokens");
    bad = *good, bad.rope.reserved = 1;
    expect_refusal(suite, ENGINE_OP_ROPE, &bad, ENGINE_OK, "a reserved field that isn't zero");
}

static void refuse_attention(struct suite *suite, const union op_args *good)
{
    union op_args bad = *good;
    only_if(suite, ENGINE_OP_ATTENTION, good);
    bad.attention.q = bad.attention.output = example_floats(&suite->fixture, 8, 3, 3);
    expect_refusal(suite, ENGINE_OP_ATTENTION, &bad, ENGINE_OK, "3 heads over 2 heads of keys");
    bad = *good, bad.attention.output = example_floats(&suite->fixture, 8, 3, 3);
    expect_refusal(suite, ENGINE_OP_ATTENTION, &bad, ENGINE_OK, "an output of fewer heads");
    bad = *good, bad.attention.sequences = example_numbers(&suite->fixture, 2, 1);
    expect_refusal(suite, ENGINE_OP_ATTENTION, &bad, ENGINE_OK, "fewer sequences than tokens");
    bad = *good, bad.attention.v = example_cache(&suite->fixture, (uint64_t[]){4, 4, 2, 3});
    expect_refusal(suite, ENGINE_OP_ATTENTION, &bad, ENGINE_OK, "values of another size than the output");
}

static void refuse_attention_options(struct suite *suite, const union op_args *good)
{
    union op_args bad = *good;
    bad.attention.window = 4;
    expect_refusal(suite, ENGINE_OP_ATTENTION, &bad, ENGINE_OK, "a window and chunks");
    bad = *good, bad.attention.softcap = -1;
    expect_refusal(suite, ENGINE_OP_ATTENTION, &bad, ENGINE_OK, "a soft cap below 0");
    bad = *good, bad.attention.output = example_floats(&suite->fixture, 8, 4, 3);
    expect_refusal(suite, ENGINE_OP_ATTENTION, &bad, ENGINE_OK, "an output as long as keys, not values");
}

static void refuse_attention_weights(struct suite *suite, const union op_args *good)
{
    union op_args bad = *good;
    bad.attention.weights = example_floats(&suite->fixture, 12, 3, 3);
    expect_refusal(suite, ENGINE_OP_ATTENTION, &bad, ENGINE_OK, "weights of fewer heads");
    bad.attention.weights = example_floats(&suite->fixture, 12, 4, 2);
    expect_refusal(suite, ENGINE_OP_ATTENTION, &bad, ENGINE_OK, "weights of fewer tokens");
}

static void refuse_attention_distances(struct suite *suite, const union op_args *good)
{
    union op_args bad = *good;
    bad.attention.distance_bias = example_values(&suite->fixture, 7, 3);
    expect_refusal(suite, ENGINE_OP_ATTENTION, &bad, ENGINE_OK, "biases of fewer heads");
    bad = *good, bad.attention.slopes = example_values(&suite->fixture, 4, 1);
    expect_refusal(suite, ENGINE_OP_ATTENTION, &bad, ENGINE_OK, "biases by distance and slopes");
}

static void refuse_cache_write(struct suite *suite, const union op_args *good)
{
    union op_args bad = *good;
    only_if(suite, ENGINE_OP_CACHE_WRITE, good);
    bad.cache_write.input = example_floats(&suite->fixture, 8, 1, 3);
    expect_refusal(suite, ENGINE_OP_CACHE_WRITE, &bad, ENGINE_OK, "keys of fewer heads than the cache has");
    bad = *good, bad.cache_write.slots = example_numbers(&suite->fixture, 2, 1);
    expect_refusal(suite, ENGINE_OP_CACHE_WRITE, &bad, ENGINE_OK, "fewer slots than tokens");
}

static void refuse_route(struct suite *suite, const union op_args *good)
{
    static const struct {
        const char *what;
        uint32_t function, n_groups, n_groups_used, group_score, normalise;
        float floor;
        uint32_t reserved;
    } wrong[] = {
        {"a function that nobody knows", 3, 4, 2, 0, 1, 0, 0},
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
    union op_args args = *good;
    struct engine_op_route *bad = &args.route;
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        bad->function = wrong[i].function, bad->n_groups = wrong[i].n_groups;
        bad->n_groups_used = wrong[i].n_groups_used, bad->group_score = wrong[i].group_score;
        bad->normalise = wrong[i].normalise, bad->floor = wrong[i].floor, bad->reserved = wrong[i].reserved;
        expect_refusal(suite, ENGINE_OP_ROUTE, &args, ENGINE_OK, wrong[i].what);
    }
}

static void refuse_given_route(struct suite *suite, const union op_args *good)
{
    union op_args bad = *good;
    bad.route.bias = example_values(&suite->fixture, 12, 1);
    expect_refusal(suite, ENGINE_OP_ROUTE, &bad, ENGINE_OK, "given experts and a bias");
    bad = *good, bad.route.n_groups = 4, bad.route.n_groups_used = 2;
    expect_refusal(suite, ENGINE_OP_ROUTE, &bad, ENGINE_OK, "given experts and groups");
}

static void refuse_attention_part(struct suite *suite, const union op_args *good)
{
    union op_args bad = *good;
    bad.attention.earlier = NULL;
    expect_refusal(suite, ENGINE_OP_ATTENTION, &bad, ENGINE_OK,
                   "logsums of an earlier part that isn't there");
    bad = *good, bad.attention.earlier_logsums = NULL;
    expect_refusal(suite, ENGINE_OP_ATTENTION, &bad, ENGINE_OK, "an earlier part without logsums");
    bad = *good, bad.attention.weights = example_floats(&suite->fixture, 12, 4, 3);
    expect_refusal(suite, ENGINE_OP_ATTENTION, &bad, ENGINE_OK, "weights beside an earlier part");
}

static void refuse_mix(struct suite *suite, const union op_args *good)
{
    union op_args bad = *good;
    bad.mix.scales = NULL;
    expect_refusal(suite, ENGINE_OP_MIX, &bad, ENGINE_OK, "an addend without scales");
    bad = *good, bad.mix.addend = NULL;
    expect_refusal(suite, ENGINE_OP_MIX, &bad, ENGINE_OK, "scales without an addend");
    bad = *good, bad.mix.weights = NULL;
    expect_refusal(suite, ENGINE_OP_MIX, &bad, ENGINE_OK, "fewer rows than there are, without weights");
}

static void refuse_hyper(struct suite *suite, const union op_args *good)
{
    union op_args bad = *good;
    bad.hyper.n = 3;
    expect_refusal(suite, ENGINE_OP_HYPER, &bad, ENGINE_OK, "another number of streams");
    bad = *good, bad.hyper.n_iterations = 0;
    expect_refusal(suite, ENGINE_OP_HYPER, &bad, ENGINE_OK, "no iteration");
    bad = *good, bad.hyper.epsilon = -1;
    expect_refusal(suite, ENGINE_OP_HYPER, &bad, ENGINE_OK, "an epsilon below 0");
    bad = *good, bad.hyper.reserved = 1;
    expect_refusal(suite, ENGINE_OP_HYPER, &bad, ENGINE_OK, "a reserved field that isn't zero");
}

static void refuse_conv(struct suite *suite, const union op_args *good)
{
    union op_args bad = *good;
    bad.conv.weight = example_values(&suite->fixture, 1, 8);
    expect_refusal(suite, ENGINE_OP_CONV, &bad, ENGINE_OK, "one tap");
}

static void refuse_scan(struct suite *suite, const union op_args *good)
{
    union op_args bad = *good;
    bad.scan.a = example_floats(&suite->fixture, 8, 2, 3);
    expect_refusal(suite, ENGINE_OP_SCAN, &bad, ENGINE_OK, "a without b");
    bad = *good, bad.scan.erase = example_floats(&suite->fixture, 1, 4, 3);
    expect_refusal(suite, ENGINE_OP_SCAN, &bad, ENGINE_OK, "erase without a and b");
    bad = *good, bad.scan.decay = NULL, bad.scan.rates = example_values(&suite->fixture, 8, 20);
    expect_refusal(suite, ENGINE_OP_SCAN, &bad, ENGINE_OK, "rates without a decay");
    bad = *good, bad.scan.reserved = 1;
    expect_refusal(suite, ENGINE_OP_SCAN, &bad, ENGINE_OK, "a reserved field that isn't zero");
    bad = *good, bad.scan.bonus = example_values(&suite->fixture, 8, 2);
    expect_refusal(suite, ENGINE_OP_SCAN, &bad, ENGINE_OK, "a bonus for each group");
}

static const struct {
    const char *what;
    void (*refuse)(struct suite *suite, const union op_args *good);
} by_hand[] = {
    {"matmul", refuse_matmul},
    {"experts", refuse_experts},
    {"experts, mix", refuse_experts},
    {"heads", refuse_heads},
    {"attention", refuse_attention},
    {"attention, options", refuse_attention_options},
    {"attention, weights", refuse_attention_weights},
    {"attention, biases by distance", refuse_attention_distances},
    {"attention, a part", refuse_attention_part},
    {"cache write", refuse_cache_write},
    {"rope", refuse_rope},
    {"norm", refuse_norm},
    {"add", refuse_add},
    {"add, one number a row", refuse_add_weights},
    {"mul", refuse_mul},
    {"mul, one number a row", refuse_mul_weights},
    {"activate", refuse_activate},
    {"activations", refuse_activations},
    {"route", refuse_route},
    {"route, given experts", refuse_given_route},
    {"mix", refuse_mix},
    {"hyper", refuse_hyper},
    {"conv", refuse_conv},
    {"scan", refuse_scan},
};

/* ---- Refused by the table -------------------------------------------------------------------------- */

/* Without each of its operands that it can't do without. */
static void expect_all_there(struct suite *suite, uint32_t op, union op_args *args)
{
    for (const struct op_operand *operand = op_operands(op); operand->name; operand++) {
        const struct engine_tensor **at = op_tensor(args, operand), *good = *at;
        char what[80];
        *at = NULL;
        snprintf(what, sizeof what, "no `%s`", operand->name);
        if (good && op_misfit(op, args)) expect_refusal(suite, op, args, ENGINE_OK, what);
        *at = good;
    }
}

/* With whole numbers in place of others, or others in place of whole ones. */
static void expect_types(struct suite *suite, uint32_t op, union op_args *args)
{
    for (const struct op_operand *operand = op_operands(op); operand->name; operand++) {
        const struct engine_tensor **at = op_tensor(args, operand), *good = *at;
        if (!good || good->weight) continue;
        struct engine_tensor bad = *good;
        char what[80];
        bad.type = operand->types & OP_I32 ? ENGINE_TYPE_F32 : ENGINE_TYPE_I32;
        *at = &bad;
        snprintf(what, sizeof what, "`%s` of type %u", operand->name, bad.type);
        expect_refusal(suite, op, args, ENGINE_OK, what);
        *at = good;
    }
}

/* The tensor with dimension d changed, dense. */
static struct engine_tensor resized(const struct engine_tensor *tensor, unsigned d, uint64_t size)
{
    struct engine_tensor other = *tensor;
    other.ne[d] = size;
    for (int i = 1; i < 4; i++) other.nb[i] = other.nb[i - 1] * other.ne[i - 1];
    return other;
}

/* With each dimension of each operand in several wrong sizes. Some fit nevertheless: blocks of a cache,
 * say. */
static void expect_shapes(struct suite *suite, uint32_t op, union op_args *args)
{
    for (const struct op_operand *operand = op_operands(op); operand->name; operand++) {
        const struct engine_tensor **at = op_tensor(args, operand), *good = *at;
        for (unsigned i = 0; good && i < 4 * 3; i++) {
            const uint64_t size = good->ne[i / 3], sizes[] = {size + 1, 2 * size, 4 * size};
            const struct engine_tensor bad = resized(good, i / 3, sizes[i % 3]);
            char what[100];
            *at = &bad;
            snprintf(what, sizeof what, "`%s` with ne[%u] = %llu in place of %llu", operand->name, i / 3,
                     (unsigned long long)sizes[i % 3], (unsigned long long)size);
            if (op_misfit(op, args)) expect_refusal(suite, op, args, ENGINE_OK, what);
        }
        *at = good;
    }
}

static void try_example(struct suite *suite, const void *user)
{
    const struct example *example = user;
    union op_args args = example_make(&suite->fixture, example);
    expect_all_there(suite, example->op, &args);
    expect_types(suite, example->op, &args);
    expect_shapes(suite, example->op, &args);
    for (size_t i = 0; i < sizeof by_hand / sizeof *by_hand; i++)
        if (strcmp(by_hand[i].what, example->what) == 0) by_hand[i].refuse(suite, &args);
    /* not earlier: even a plugin that refuses correct ones must refuse wrong ones */
    only_if(suite, example->op, &args);
}

/* A struct of a later minor version is accepted as long as the unknown part is zero. */
static void try_growth(struct suite *suite, const void *user)
{
    const struct example *example = user;
    struct fixture *fixture = &suite->fixture;
    const union op_args known = example_make(&suite->fixture, example);
    const size_t size = known.struct_size;
    union {
        size_t struct_size;
        unsigned char bytes[sizeof known + 2 * sizeof(uint64_t)];
    } later = {0};
    only_if(suite, example->op, &known);
    fixture_describe_operands(fixture, example->op, &known);
    memcpy(later.bytes, &known, size);
    later.struct_size = size + 2 * sizeof(uint64_t);
    SUITE_EXPECT(suite, fixture_supports(fixture, example->op, &later),
                 "arguments of a later version whose new fields are zero aren't supported");
    fixture_must(fixture, fixture_enqueue(fixture, example->op, &later), "enqueue");
    fixture_must(fixture, fixture->api->stream_wait(fixture->stream), "stream_wait");
    for (size_t i = size; i < later.struct_size; i += sizeof(uint64_t) + 3) {
        later.bytes[i] = 1;
        expect_refusal(suite, example->op, &later, ENGINE_OK,
                       "arguments of a later version that ask for more");
        later.bytes[i] = 0;
    }
}

/* ---- All ------------------------------------------------------------------------------------------- */

static void unknown_operations(struct suite *suite, const void *args)
{
    static const uint32_t ops[] = {0, 77, 1000000, UINT32_MAX};
    struct engine_tensor *a = example_floats(&suite->fixture, 4, 1, 1);
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

/* A weight's only use today is as a matrix; others may come. */
static void uses_of_weights(struct suite *suite, const void *args)
{
    struct fixture *fixture = &suite->fixture;
    struct engine_weight_desc desc = {.struct_size = sizeof desc,
                                      .name = "check.weight",
                                      .type = ENGINE_TYPE_F32,
                                      .type_name = "F32",
                                      .ne = {64, 20, 4, 1},
                                      .data_size = (size_t)64 * 20 * 4 * sizeof(float)};
    uint64_t bytes;
    (void)args;
    desc.uses = ENGINE_WEIGHT_MATRICES | ENGINE_WEIGHT_ROWS;
    SUITE_EXPECT(suite, fixture->api->weight_size(fixture->device, &desc, &bytes) != ENGINE_OK,
                 "a weight of three dimensions of which rows are taken");
    desc.uses = 1u << 20;
    SUITE_EXPECT(suite, fixture->api->weight_size(fixture->device, &desc, &bytes) != ENGINE_OK,
                 "a use that nobody knows");
}

void check_arguments(struct suite *suite)
{
    static const char *const area = "arguments";
    const struct example *example;
    uint32_t last = 0;
    suite_single(suite, area, "unknown operations", unknown_operations, NULL);
    suite_single(suite, area, "uses of weights", uses_of_weights, NULL);
    for (size_t i = 0; (example = example_at(i)); i++) {
        char what[60];
        snprintf(what, sizeof what, "of later versions, %s", op_info(example->op)->title);
        if (example->op != last) suite_single(suite, area, what, try_growth, example);
        suite_single(suite, area, example->what, try_example, example);
        last = example->op;
    }
}

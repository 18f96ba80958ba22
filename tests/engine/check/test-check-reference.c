/* test-check-reference.c: the conformance suite's reference itself, against numbers of PyTorch and
 * transformers, which tests/tools/reference-values printed. */
#include <criterion/criterion.h>
#include <math.h>
#include <string.h>

#include "check/reference.h"

#define COUNT(array) (sizeof(array) / sizeof *(array))

static void expect_near(double got, double wanted, double tolerance, const char *what)
{
    cr_assert(fabs(got - wanted) <= tolerance * fmax(1, fabs(wanted)), "%s: %.15g, not %.15g", what, got,
              wanted);
}

/* The script's inputs: -2 … 2 in steps of 1/16. */
static float number(int i, int salt)
{
    return (float)((i * i * 23 + i * salt * 17 + salt * 5) % 65 - 32) / 16;
}

static void numbers(int salt, int n, float *out)
{
    for (int i = 0; i < n; i++) out[i] = number(i, salt);
}

enum { N_X = 7 };

static const struct {
    uint32_t activation;
    double values[N_X];
} activations[] = {
    /* clang-format off */
    {ENGINE_ACTIVATION_SILU, {-0.00268280104373182, -0.273638285709535, -0.0585988283282805, 0, 0.14054412522145, 1.76159415595576, 8.99888944881612}},
    {ENGINE_ACTIVATION_GELU_ERF, {-4.88498130835069e-15, -0.100210801903287, -0.0562827218962359, 0, 0.149676581420731, 1.95449973610364, 9}},
    {ENGINE_ACTIVATION_GELU_TANH, {-0, -0.100428423019767, -0.0562828013757766, 0, 0.149675350701685, 1.95459769408777, 9}},
    {ENGINE_ACTIVATION_RELU, {0, 0, 0, 0, 0.25, 2, 9}},
    {ENGINE_ACTIVATION_RELU_SQUARED, {0, 0, 0, 0, 0.0625, 4, 81}},
    {ENGINE_ACTIVATION_SIGMOID, {0.000335350130466478, 0.182425523806356, 0.468790626626244, 0.5, 0.562176500885798, 0.880797077977882, 0.999876605424014}},
    {ENGINE_ACTIVATION_TANH, {-0.999999774929676, -0.905148253644866, -0.124353001771596, 0, 0.244918662403709, 0.964027580075817, 0.999999969540041}},
    {ENGINE_ACTIVATION_SOFTPLUS, {0.000335406372895769, 0.201413277982752, 0.632599035317169, 0.693147180559945, 0.825939419878844, 2.12692801104297, 9.00012340218972}},
    {ENGINE_ACTIVATION_CLAMP, {-7, -1.5, -0.125, 0, 0.25, 2, 7}},
    {ENGINE_ACTIVATION_SOFTCAP, {-5.70761759746783, -1.4774548210882, -0.12498671512987, 0, 0.249893761685885, 1.94729843227992, 6.00599973188881}},
    {ENGINE_ACTIVATION_SWIGLU_CLAMPED, {-7.81314309258431e-05, -0.32501340465877, -0.0698456582773692, 0, 0.13229969366267, -0.967829311572104, -41.9997187698199}},
    {ENGINE_ACTIVATION_EXP, {0.000335462627902512, 0.22313016014843, 0.882496902584595, 1, 1.28402541668774, 7.38905609893065, 8103.08392757538}},
    {ENGINE_ACTIVATION_SILU_CLAMPED, {-0.0187796073061228, -0.547276571419069, -0.0146497070820701, 0, -0.0175680156526812, -2.64239123393365, -48.9553584914744}},
    {ENGINE_ACTIVATION_XIELU, {1.25025159697093, -0.207652379888678, -0.0568773230615535, -7.49999625000125e-07, 0.203125, 6, 105.75}},
    /* clang-format on */
};

Test(check_reference, activations)
{
    static const float x[N_X] = {-8, -1.5f, -0.125f, 0, 0.25f, 2, 9};
    for (size_t i = 0; i < COUNT(activations); i++)
        for (size_t j = 0; j < N_X; j++) {
            const uint32_t activation = activations[i].activation;
            const bool is_xielu = activation == ENGINE_ACTIVATION_XIELU,
                       gated = activation == ENGINE_ACTIVATION_SWIGLU_CLAMPED ||
                               activation == ENGINE_ACTIVATION_SILU_CLAMPED;
            struct engine_op_activate args = {
                .activation = activation, .limit = 7, .alpha = gated ? 1.702f : 0};
            if (is_xielu) args.limit = 1e-6f, args.alpha = 1.25f, args.beta = 0.5f, args.gamma = 0.75f;
            struct expected got = reference_activate(&args, (double)x[j], gated ? &x[N_X - 1 - j] : NULL);
            expect_near(got.value, activations[i].values[j], gated || is_xielu ? 1e-6 : 1e-14,
                        "activation"); /* 1.702f isn't 1.702 */
            if (!is_xielu) args.alpha = 1.702f;
            got = reference_activate(&args, (double)x[j], &x[2]);
            cr_assert(got.bound <= 1e-5 * fmax(fmax(1, fabs(got.value)), fabs((double)x[j])),
                      "%u of %g within %g", activation, (double)x[j], got.bound);
        }
}

Test(check_reference, layer_norm)
{
    static const double wanted[] = {-0.0495572623361788, -2.80214258559959, -1.59156756401485,
                                    -0.283911262386951,  0.694191125529146, -2.12278093789865};
    float x[6], weight[6], bias[6];
    struct expected got[6];
    numbers(1, 6, x), numbers(2, 6, weight), numbers(3, 6, bias);
    for (int i = 0; i < 6; i++) x[i] += 3;
    reference_norm(ENGINE_NORM_LAYER, x, 6, 1e-3f, weight, bias, got);
    for (int i = 0; i < 6; i++)
        expect_near(got[i].value, wanted[i], 1e-10, "layer norm"); /* 1e-3f isn't 1e-3 */
}

/* One token, two heads that share keys; the last of five positions. */
static const struct {
    const char *name;
    size_t first;
    double softcap;
    bool slopes, sinks;
    double values[6];
} attentions[] = {
    {"plain",
     0,
     0,
     false,
     false,
     {-0.360337501160777, 0.257245662100322, -0.312671174638579, -0.63471229260947, 0.12532903890499,
      -0.302129629580549}},
    {"capped",
     0,
     1.5,
     false,
     false,
     {-0.35735403007621, 0.297748448678466, -0.234649072566857, -0.595808223532582, 0.122919160360599,
      -0.345853455746219}},
    {"capped and sloped",
     0,
     1.5,
     true,
     false,
     {-0.441916655636557, 0.418983905301737, 0.0923844662400309, -0.623139954971854, 0.153506529233721,
      -0.257346986560704}},
    {"sinks",
     0,
     0,
     false,
     true,
     {-0.30240171174335, 0.215885186268691, -0.262399273233907, -0.610048977674864, 0.12045906932514,
      -0.290389636055632}},
    {"last two",
     3,
     0,
     false,
     false,
     {-1, 0.538662966734482, 0.889825933468965, -1, 0.305054194609997, 0.422608389219993}},
};

Test(check_reference, attention)
{
    static const double slopes[] = {0.25, 0.0625};
    static const float sinks[] = {0.5f, -1};
    float q[8];
    double k[20], v[15], out[3], weights[5], size;
    numbers(4, 8, q);
    for (int i = 0; i < 20; i++) k[i] = (double)number(i, 5);
    for (int i = 0; i < 15; i++) v[i] = (double)number(i, 6);
    for (size_t i = 0; i < COUNT(attentions); i++)
        for (size_t head = 0; head < 2; head++) {
            const struct seen seen = {.keys = k + 4 * attentions[i].first,
                                      .values = v + 3 * attentions[i].first,
                                      .n = 5 - attentions[i].first,
                                      .key_stride = 4,
                                      .value_stride = 3,
                                      .dim = 4,
                                      .value_dim = 3,
                                      .scale = 0.25,
                                      .softcap = attentions[i].softcap,
                                      .slope = attentions[i].slopes ? slopes[head] : 0,
                                      .sink = attentions[i].sinks ? &sinks[head] : NULL};
            reference_attend(q + 4 * head, &seen, out, weights, &size);
            for (size_t d = 0; d < 3; d++) {
                double sum = 0;
                expect_near(out[d], attentions[i].values[3 * head + d], 1e-13, attentions[i].name);
                for (size_t j = 0; j < seen.n; j++) sum += weights[j] * seen.values[3 * j + d];
                expect_near(sum, out[d], 1e-15, "the weights' sum of values");
            }
        }
}

/* Slopes are biases by distance. Beyond the last distance the bias is the same. */
Test(check_reference, attention_with_biases_by_distance)
{
    static const float biases[] = {-1, -0.75f, -0.5f, -0.25f, 0, -0.25f, -0.5f, -0.75f, -1};
    static const float near[] = {5, 0.5f, -2};
    float q[4];
    double k[20], v[15], sloped[3], biased[3], weights[5], size;
    numbers(4, 4, q);
    for (int i = 0; i < 20; i++) k[i] = (double)number(i, 5);
    for (int i = 0; i < 15; i++) v[i] = (double)number(i, 6);
    struct seen seen = {.keys = k,
                        .values = v,
                        .n = 5,
                        .n_ahead = 2,
                        .key_stride = 4,
                        .value_stride = 3,
                        .dim = 4,
                        .value_dim = 3,
                        .scale = 0.25,
                        .slope = 0.25};
    reference_attend(q, &seen, sloped, weights, &size);
    seen.slope = 0, seen.biases = biases, seen.n_biases = 4;
    reference_attend(q, &seen, biased, weights, &size);
    for (size_t d = 0; d < 3; d++) expect_near(biased[d], sloped[d], 1e-14, "biases as slopes");
    seen.scale = 0, seen.biases = near, seen.n_biases = 1; /* only the biases count */
    reference_attend(q, &seen, biased, weights, &size);
    double sum = 2 * exp(5) + exp(0.5) + 2 * exp(-2);
    expect_near(weights[0], exp(5) / sum, 1e-14, "far before");
    expect_near(weights[1], exp(5) / sum, 1e-14, "before");
    expect_near(weights[2], exp(0.5) / sum, 1e-14, "itself");
    expect_near(weights[3], exp(-2) / sum, 1e-14, "after");
    expect_near(weights[4], exp(-2) / sum, 1e-14, "far after");
}

/* Positions that are hidden are as good as absent. */
Test(check_reference, attention_to_some_positions)
{
    static const bool hidden[] = {true, false, true, false, false}, all[] = {true, true, true, true, true};
    float q[4];
    double k[20], v[15], few_k[12], few_v[9], some[3], few[3], weights[5], few_weights[3], size, few_size;
    numbers(4, 4, q);
    for (int i = 0; i < 20; i++) k[i] = (double)number(i, 5);
    for (int i = 0; i < 15; i++) v[i] = (double)number(i, 6);
    for (size_t j = 0, at = 0; j < 5; j++) {
        if (hidden[j]) continue;
        memcpy(few_k + 4 * at, k + 4 * j, 4 * sizeof *k);
        memcpy(few_v + 3 * at++, v + 3 * j, 3 * sizeof *v);
    }
    struct seen seen = {.keys = k,
                        .values = v,
                        .n = 5,
                        .key_stride = 4,
                        .value_stride = 3,
                        .dim = 4,
                        .value_dim = 3,
                        .scale = 1};
    seen.hidden = hidden;
    reference_attend(q, &seen, some, weights, &size);
    seen.hidden = all;
    seen.hidden = NULL, seen.keys = few_k, seen.values = few_v, seen.n = 3;
    reference_attend(q, &seen, few, few_weights, &few_size);
    for (size_t d = 0; d < 3; d++) expect_near(some[d], few[d], 0, "the seen alone");
    cr_assert(weights[0] == 0 && weights[2] == 0 && weights[3] == few_weights[1] && size == few_size);
    seen.hidden = all;
    reference_attend(q, &seen, few, few_weights, &size);
    cr_assert(few[0] == 0 && few[2] == 0 && few_weights[0] == 0, "nothing is seen");
}

Test(check_reference, scores_of_positions)
{
    static const double wanted[] = {-1.40185546875, -1.829345703125, 0, 2.36865234375, 1.2568359375};
    float q[8], weights[2];
    double keys[20];
    bool is_zero;
    numbers(53, 8, q), numbers(54, 2, weights);
    for (int i = 0; i < 20; i++) keys[i] = (double)number(i, 55);
    for (size_t j = 0; j < 5; j++) {
        struct expected score = reference_score(q, weights, 2, keys + 4 * j, 4, &is_zero);
        expect_near(score.value, wanted[j], 1e-14, "score");
        cr_assert(score.bound > 0 && score.bound < 1e-3);
        cr_assert_eq(is_zero, wanted[j] == 0);
    }
}

Test(check_reference, picked_positions)
{
    static const struct expected scores[] = {{2, 1e-6}, {0, 1e-6}, {3, 1e-6}, {0, 1e-6}, {2 + 1e-6, 1e-6}};
    static const bool zero[] = {false, true, false, true, false}, none[5] = {false};
    static const struct {
        int32_t picked[4];
        size_t n, n_picked;
        bool with_zeros, without; /* allowed */
    } choices[] = {
        {{0, 2}, 5, 2, true, true},           {{2, 4}, 5, 2, true, true}, /* as good as the one before */
        {{0, 4}, 5, 2, false, false},         {{2, 0}, 5, 2, false, false},
        {{0, 1, 2, 4}, 5, 4, true, true},     {{0, 2, 3, 4}, 5, 4, false, true}, /* of zeros, the lower */
        {{0, 1, 2, 3}, 5, 4, false, false},   {{0, 1, 2, -1}, 3, 4, true, true},
        {{0, 1, 2, 3}, 3, 4, false, false},   {{0, 1, -1, 2}, 3, 4, false, false},
        {{0, 1, -1, -1}, 3, 4, false, false}, {{0, 0, 1, -1}, 3, 4, false, false},
        {{-1, -1}, 0, 2, true, true},         {{0, -1}, 0, 2, false, false},
        {{2, 5}, 5, 2, false, false},
    };
    for (size_t i = 0; i < COUNT(choices); i++) {
        cr_assert_eq(
            reference_pick_allows(scores, zero, choices[i].n, choices[i].picked, choices[i].n_picked),
            choices[i].with_zeros, "choice %zu", i);
        cr_assert_eq(
            reference_pick_allows(scores, none, choices[i].n, choices[i].picked, choices[i].n_picked),
            choices[i].without, "choice %zu without zeros", i);
    }
}

enum { N_EXPERTS = 12, N_USED = 3 };

static const struct {
    const char *name;
    struct engine_op_route args;
    bool bias;
    int32_t ids[N_USED];
    double weights[N_USED];
} routers[] = {
    {"DeepSeek-V3",
     {.function = ENGINE_ROUTE_SIGMOID,
      .n_groups = 4,
      .n_groups_used = 2,
      .group_score = ENGINE_ROUTE_GROUP_TOP2,
      .normalise = 1,
      .floor = 1e-20f,
      .scale = 2.5f},
     true,
     {4, 6, 5},
     {1.21055022550239, 0.741671401042685, 0.547778373454923}},
    {"DeepSeek-V2",
     {.n_groups = 4, .n_groups_used = 2, .scale = 16},
     false,
     {4, 8, 6},
     {4.0590648651123, 3.58211207389832, 0.705359697341919}},
    {"gpt-oss", {.normalise = 1}, false, {4, 8, 1}, {0.36879601830923, 0.325461343843427, 0.305742637847343}},
    {"softmax alone",
     {.scale = 0},
     false,
     {4, 8, 1},
     {0.253691558029364, 0.223882014172774, 0.210317688642896}},
};

Test(check_reference, routers)
{
    float logits[N_EXPERTS], bias[N_EXPERTS];
    double p[N_EXPERTS], c[N_EXPERTS];
    numbers(43, N_EXPERTS, logits), numbers(8, N_EXPERTS, bias);
    for (int i = 0; i < N_EXPERTS; i++) bias[i] /= 8;
    for (size_t i = 0; i < COUNT(routers); i++) {
        const struct engine_op_route *args = &routers[i].args;
        struct expected weights[N_USED];
        reference_route(args, N_EXPERTS, logits, routers[i].bias ? bias : NULL, p, c);
        cr_assert(reference_route_allows(args, N_EXPERTS, c, routers[i].ids, N_USED), "%s", routers[i].name);
        reference_route_weights(args, p, routers[i].ids, NULL, N_USED, weights);
        for (int s = 0; s < N_USED; s++)
            expect_near(weights[s].value, routers[i].weights[s], 1e-6, routers[i].name); /* float32 there */
        /* No other expert may take any of the places, nor may two change theirs. */
        for (int32_t e = 0; e < N_EXPERTS; e++)
            for (int s = 0; s < N_USED; s++) {
                int32_t ids[N_USED] = {routers[i].ids[0], routers[i].ids[1], routers[i].ids[2]};
                for (int other = 0; other < N_USED; other++)
                    if (ids[other] == e) ids[other] = ids[s];
                ids[s] = e;
                cr_assert_eq(reference_route_allows(args, N_EXPERTS, c, ids, N_USED), e == routers[i].ids[s],
                             "%s, expert %d in place %d", routers[i].name, e, s);
            }
    }
}

Test(check_reference, equal_and_nearly_equal_experts)
{
    static const struct engine_op_route args = {.function = ENGINE_ROUTE_SOFTMAX},
                                        groups = {.n_groups = 2, .n_groups_used = 1};
    static const double equal[4] = {0.2, 0.3, 0.3, 0.2}, near[4] = {0.2, 0.3, 0.3 + 5e-7, 0.2},
                        apart[4] = {0.2, 0.3, 0.3 + 2e-6, 0.2};
    static const int32_t first[] = {1}, second[] = {2}, twice[] = {1, 1}, none[] = {-1}, beyond[] = {4};
    cr_assert(reference_route_allows(&args, 4, equal, first, 1));
    cr_assert_not(reference_route_allows(&args, 4, equal, second, 1));
    cr_assert(reference_route_allows(&args, 4, near, first, 1) &&
              reference_route_allows(&args, 4, near, second, 1));
    cr_assert_not(reference_route_allows(&args, 4, apart, first, 1));
    cr_assert(reference_route_allows(&groups, 4, near, first, 1) &&
              reference_route_allows(&groups, 4, near, second, 1));
    cr_assert_not(reference_route_allows(&groups, 4, equal, second, 1));
    cr_assert_not(reference_route_allows(&groups, 4, apart, first, 1));
    cr_assert_not(reference_route_allows(&args, 4, equal, twice, 2));
    cr_assert_not(reference_route_allows(&args, 4, equal, none, 1));
    cr_assert_not(reference_route_allows(&args, 4, equal, beyond, 1));
}

/* As transformers' hyper-connections give them: three streams, four iterations. */
Test(check_reference, hyper_connections)
{
    static const double wanted[] = {
        0.139834993547307, 0.51349739648421,    0.635135591010801,  0.172154641666184,  0.943809251183226,
        1.78898981728109,  0.447923936517315,   0.447923936517315,  0.103184358733475,  0.494777562148194,
        0.494777562148194, 0.00949024812012061, 0.0193820345962826, 0.0193820345962826, 0.960147972966223};
    static const float scale[] = {0.5f, -1.25f, 2};
    const struct engine_op_hyper args = {.n = 3, .n_iterations = 4, .epsilon = 1e-3f};
    float x[15], base[15];
    struct expected got[15];
    for (int i = 0; i < 15; i++) x[i] = (float)(i * 7 % 11 - 5) / 4, base[i] = (float)(i * 5 % 13 - 6) / 5;
    reference_hyper(&args, 15, x, scale, base, got);
    for (int i = 0; i < 15; i++) expect_near(got[i].value, wanted[i], 1e-7, "hyper"); /* 1e-3f isn't 1e-3 */
}

Test(check_reference, roots_of_softplus)
{
    static const float logits[] = {-8, -1.5f, -0.125f, 0, 0.25f, 2, 9};
    static const double wanted[] = {0.0183141031146974, 0.44879090675141,  0.795360946562735,
                                    0.832554611157698,  0.908812092722607, 1.45839912611156,
                                    3.00002056696112};
    const struct engine_op_route args = {.function = ENGINE_ROUTE_SQRT_SOFTPLUS};
    double p[7], c[7];
    reference_route(&args, 7, logits, NULL, p, c);
    for (int i = 0; i < 7; i++) expect_near(p[i], wanted[i], 1e-14, "root of softplus");
}

Test(check_reference, given_experts)
{
    static const float given[] = {3, 1, 3, 0, 1};
    int32_t ids[5];
    double times[5];
    static const int32_t wanted[] = {3, 1, 2, 0, 4};
    static const double wanted_times[] = {2, 2, 0, 1, 0};
    reference_route_given(given, 5, ids, times);
    for (int i = 0; i < 5; i++) cr_assert(ids[i] == wanted[i] && times[i] == wanted_times[i], "expert %d", i);
}

Test(check_reference, pooled_rows)
{
    static const double values[] = {2, -4, 6, 8}, scores[] = {-1, 0.25, 1.5, 1};
    const struct expected got = reference_pool(values, scores, 4, 1.5, 8);
    expect_near(got.value, 4.99736411596477, 1e-13, "pool");
}

/* test-vulkan-cooperative.c: matmul in cooperative matrices, what test-gpu-ops.c has not: types that are
 * rounded, and values that leave float16's range. Skips, saying so, where the device or the build lacks
 * them. */
#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "backend-fixture.h"
#include "gpu-device.h"

static struct fixture fixture;

static void setup(void)
{
    static const struct gpu_form form = {"cooperative", {"ENGINE_VULKAN_MATMUL", "cooperative"}, true, false};
    gpu_skip_without_device();
    if (!gpu_choose(&form)) cr_skip("no cooperative matrices here");
    fixture_open(&fixture, "vulkan", 0, 0, 0);
}

static void teardown(void)
{
    fixture_close(&fixture);
    gpu_expect_no_complaints();
}

TestSuite(vulkan_cooperative, .init = setup, .fini = teardown);

Test(vulkan_cooperative, matmul_of_rounded_types)
{
    static const struct matmul_case cases[] = {
        {ENGINE_TYPE_BF16, 100, 65, 129, .scale = 2, .input_rounding = 0x1p-11},
        {ENGINE_TYPE_MXFP4, 96, 64, 64, .residual = true, .in_place = true},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) free(run_matmul_case(&fixture, &cases[i]));
}

/* ---- Large and small values ---------------------------------------------------------------------------- */

enum { K = 32 * 20, ROWS = 70, TOKENS = 66 };

/* (n, K) values that grow or shrink along k, each row in its way; the first 32 of some rows are zeros. */
static void make_values(uint64_t *seed, int n, float *values)
{
    for (int i = 0; i < n * K; i++) {
        int row = i / K, chunk = i % K / 32;
        float value = ldexpf(random_normal(seed), (row % 5 - 2) * chunk + row % 8);
        values[i] = chunk < row % 3 ? 0 : value;
    }
}

/* Rounds values to BF16, towards zero. */
static void round_values(float *values, uint16_t *rounded, int n)
{
    for (int i = 0; i < n; i++) {
        uint32_t bits;
        memcpy(&bits, &values[i], sizeof bits);
        rounded[i] = (uint16_t)(bits >> 16);
        bits &= 0xffff0000u;
        memcpy(&values[i], &bits, sizeof bits);
    }
}

/* What comes out, and 0.1 % of what the products' sizes add up to. */
static void expect(const float *weight, const float *input, struct expected *out)
{
    for (int i = 0; i < ROWS * TOKENS; i++) {
        const float *w = weight + i % ROWS * K, *x = input + i / ROWS * K;
        out[i] = (struct expected){0, 0};
        for (int j = 0; j < K; j++) {
            double product = (double)w[j] * (double)x[j];
            out[i].value += product;
            out[i].bound += fabs(product) * 1e-3;
        }
    }
}

Test(vulkan_cooperative, matmul_of_values_that_grow_and_shrink)
{
    static float weight[ROWS * K], input[TOKENS * K];
    static uint16_t rounded[ROWS * K];
    static struct expected expected[ROWS * TOKENS];
    uint64_t seed = 1;
    make_values(&seed, ROWS, weight);
    round_values(weight, rounded, ROWS * K);
    make_values(&seed, TOKENS, input);
    expect(weight, input, expected);
    struct engine_op_matmul args = {
        .struct_size = sizeof args,
        .weight = fixture_weight(&fixture, ENGINE_TYPE_BF16, K, ROWS, ENGINE_WEIGHT_MATMUL, false, rounded),
        .input = fixture_strided(&fixture, K, TOKENS, 1, &(struct fixture_gaps){0}, input),
        .output = fixture_strided(&fixture, ROWS, TOKENS, 1, &(struct fixture_gaps){0}, NULL)};
    fixture_run(&fixture, ENGINE_OP_MATMUL, &args);
    float *output = fixture_read(&fixture, args.output);
    fixture_compare(&fixture, "matmul", output, expected, ROWS * TOKENS);
    free(output);
}

/* test-gpu-options.c: what a GPU plugin's kernels have forms or limits for beside what all backends are tried
 * with (test-gpu-groups.c): the largest heads and routers, experts of a type with integer products of its
 * own. */
#include <criterion/criterion.h>
#include <stdlib.h>

#include "backend-fixture.h"
#include "gpu-device.h"
#include "operation-cases.h"

static struct fixture fixture;

static void setup(void)
{
    gpu_skip_without_device();
    fixture_open(&fixture, gpu.plugin, 0, 0, 0);
}

static void teardown(void)
{
    fixture_close(&fixture);
    gpu_expect_no_complaints();
}

TestSuite(gpu_options, .init = setup, .fini = teardown);

Test(gpu_options, heads_of_many_values)
{
    static const uint32_t types[] = {ENGINE_TYPE_F32, ENGINE_TYPE_F16, ENGINE_TYPE_Q8_0};
    for (size_t i = 0; i < COUNT(types); i++) {
        struct attention_case c = {types[i], types[i], 576, 4, 1, 16, 2, 20, 3, .window = 0};
        free(run_attention_case(&fixture, &c));
        c.head_dim = 32, c.value_dim = 544;
        free(run_attention_case(&fixture, &c));
    }
}

Test(gpu_options, experts_of_every_activation)
{
    for (uint32_t kind = ENGINE_ACTIVATION_SILU; kind <= ENGINE_ACTIVATION_SOFTPLUS; kind++)
        for (uint32_t tokens = 1; tokens < 12; tokens += 9) {
            struct matmul_case c = {ENGINE_TYPE_F32, 64, 50, tokens, .bias = true, .activation = kind};
            c.n_matrices = 6, c.n_used = 2;
            free(run_matmul_case(&fixture, &c));
            c.bias = false, c.gate = true;
            free(run_matmul_case(&fixture, &c));
        }
}

/* Of what experts make, more than is kept at once before it is mixed. */
Test(gpu_options, experts_of_many_tokens)
{
    struct matmul_case c = {ENGINE_TYPE_F32, 8, 2048, 1030, .residual = true, .mix = true};
    c.n_matrices = 9, c.n_used = 8;
    free(run_matmul_case(&fixture, &c));
}

Test(gpu_options, experts_and_heads_in_every_form)
{
    for (unsigned form = 0; form < gpu.n_forms; form++) {
        if (!gpu_choose(&gpu.forms[form])) continue;
        fixture_close(&fixture);
        fixture_open(&fixture, gpu.plugin, 0, 0, 0);
        struct matmul_case c = {ENGINE_TYPE_Q4_0, 96, 70, 1, .n_matrices = 7};
        for (; c.tokens < 40; c.tokens += 13) {
            c.n_used = 0, c.mix = c.bias = c.residual = false;
            free(run_matmul_case(&fixture, &c));
            c.n_used = 3, c.mix = c.bias = c.residual = true;
            free(run_matmul_case(&fixture, &c));
        }
    }
}

Test(gpu_options, routers_of_many_experts)
{
    static const struct route_case cases[] = {
        {512, 10, 3, .bias = true, .normalise = true, .floor = 0.5f},
        {512, 64, 2, .function = ENGINE_ROUTE_SIGMOID, .ties = true, .gap = 8},
        {512, 8, 2, .n_groups = 16, .n_groups_used = 4, .group_score = ENGINE_ROUTE_GROUP_TOP2},
    };
    for (size_t i = 0; i < COUNT(cases); i++) free(run_route_case(&fixture, &cases[i]));
}

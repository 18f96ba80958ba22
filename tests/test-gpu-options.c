/* test-gpu-options.c: what a GPU plugin's operations can besides what every Llama takes (test-gpu-ops.c): activations of
 * every kind, layer norm, one number for each row, attention with slopes, sinks, soft caps, chunks and values of another
 * length, rows put together. */
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

/* ---- Rows --------------------------------------------------------------------------------------------------------- */

static void rows(struct rows_case c)
{
    free(run_rows_case(&fixture, &c));
}

Test(gpu_options, activations_of_every_kind)
{
    for (uint32_t kind = ENGINE_ACTIVATION_SILU; kind <= ENGINE_ACTIVATION_SWIGLU_CLAMPED; kind++) {
        bool is_gated_unit = kind == ENGINE_ACTIVATION_SWIGLU_CLAMPED;
        struct rows_case c = {.op = ENGINE_OP_ACTIVATE,
                              .n = 3001,
                              .tokens = 3,
                              .planes = 1,
                              .second = is_gated_unit,
                              .activation = kind,
                              .limit = kind >= ENGINE_ACTIVATION_CLAMP ? 1.5f : 0,
                              .alpha = is_gated_unit ? 1.702f : 0};
        rows(c);
        c.n = 37, c.planes = 2, c.second = true, c.in_place = true, c.gaps.row = 12;
        rows(c);
    }
}

Test(gpu_options, norms_with_means_and_biases)
{
    static const uint32_t sizes[] = {1, 5, 64, 257, 3000};
    for (size_t i = 0; i < COUNT(sizes); i++)
        for (unsigned variant = 0; variant < 8; variant++)
            rows((struct rows_case){.op = ENGINE_OP_NORM,
                                    .n = sizes[i],
                                    .tokens = variant & 1 ? 11 : 1,
                                    .planes = variant & 2 ? 3 : 1,
                                    .second = variant & 4,
                                    .in_place = variant & 2,
                                    .gaps = {variant & 1 ? 20 : 0, 0, 0},
                                    .kind = variant == 1 ? ENGINE_NORM_RMS : ENGINE_NORM_LAYER,
                                    .bias = variant & 1,
                                    .epsilon = 1e-5f});
}

Test(gpu_options, one_number_for_each_row)
{
    for (uint32_t op = ENGINE_OP_ADD; op <= ENGINE_OP_MUL; op++) {
        rows((struct rows_case){.op = op, .n = 70, .tokens = 9, .planes = 1, .single = true});
        rows((struct rows_case){
            .op = op, .n = 3, .tokens = 5, .planes = 1, .single = true, .in_place = true, .gaps = {8, 0, 0}});
    }
}

Test(gpu_options, rope_of_another_magnitude)
{
    for (size_t i = 0; i < COUNT(rope_cases); i++) {
        struct rope_case c = rope_cases[i];
        c.magnitude = 1.25f;
        free(run_rope_case(&fixture, &c));
    }
}

Test(gpu_options, rows_put_together)
{
    static const struct concat_case cases[] = {
        {32, 16, 4, 7, .one_each = false},
        {32, 16, 4, 7, .one_each = true},
        {1, 3, 5, 2, .one_each = true, .gaps = {8, 16, 0}},
        {7, 1, 1, 1, .one_each = false},
    };
    for (size_t i = 0; i < COUNT(cases); i++) free(run_concat_case(&fixture, &cases[i]));
}

/* ---- Attention ---------------------------------------------------------------------------------------------------- */

static void attention_of_every_kind(void)
{
    static const uint32_t types[] = {ENGINE_TYPE_F32, ENGINE_TYPE_F16, ENGINE_TYPE_Q8_0};
    for (size_t i = 0; i < COUNT(types); i++) {
        struct attention_case c = {types[i],          types[i],         64, 4, 2, 16, 2, 90, 5,
                                   .leave_out = true, .gaps = {8, 0, 0}};
        struct attention_case sloped = c, with_sinks = c, capped = c, in_chunks = c, all = c, shared = c;
        sloped.slopes = with_sinks.sinks = true;
        capped.softcap = 2;
        in_chunks.chunk = 24;
        all.slopes = all.sinks = true, all.softcap = 30, all.chunk = 70, all.value_dim = 32;
        shared.shared = shared.sinks = true, shared.value_dim = 32, shared.n_kv_heads = 1;
        const struct attention_case *cases[] = {&sloped, &with_sinks, &capped, &in_chunks, &all, &shared};
        for (size_t j = 0; j < COUNT(cases); j++) free(run_attention_case(&fixture, cases[j]));
    }
}

Test(gpu_options, attention_of_every_kind)
{
    attention_of_every_kind();
}

/* Keys of 576 values, of which 512 are the value: multi-head latent attention. */
Test(gpu_options, attention_over_latent_keys)
{
    static const uint32_t types[] = {ENGINE_TYPE_F32, ENGINE_TYPE_F16, ENGINE_TYPE_Q8_0};
    for (size_t i = 0; i < COUNT(types); i++) {
        struct attention_case c = {types[i],       types[i],        576, 16, 1, 16, 2, 40, 3,
                                   .shared = true, .value_dim = 512};
        free(run_attention_case(&fixture, &c));
        c.head_dim = 192, c.value_dim = 128, c.n_heads = c.n_kv_heads = 2, c.shared = false;
        free(run_attention_case(&fixture, &c));
    }
}

Test(gpu_options, norm_and_attention_in_every_form)
{
    for (unsigned form = 0; form < gpu.n_forms; form++) {
        if (!gpu_choose(&gpu.forms[form])) continue;
        fixture_close(&fixture);
        fixture_open(&fixture, gpu.plugin, 0, 0, 0);
        rows((struct rows_case){.op = ENGINE_OP_NORM,
                                .n = 100,
                                .tokens = 7,
                                .planes = 1,
                                .second = true,
                                .kind = ENGINE_NORM_LAYER,
                                .bias = true,
                                .epsilon = 1e-5f});
        attention_of_every_kind();
    }
}

/* ---- Matmul ------------------------------------------------------------------------------------------------------- */

Test(gpu_options, matmul_with_every_activation)
{
    for (uint32_t kind = ENGINE_ACTIVATION_NONE; kind <= ENGINE_ACTIVATION_SOFTPLUS; kind++)
        for (uint32_t tokens = 1; tokens < 10; tokens += 8) {
            struct matmul_case c = {ENGINE_TYPE_F32, 64, 50, tokens, .bias = true, .activation = kind};
            free(run_matmul_case(&fixture, &c));
            c.bias = false, c.gate = true;
            free(run_matmul_case(&fixture, &c));
        }
}

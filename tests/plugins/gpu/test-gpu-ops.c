/* test-gpu-ops.c: every operation of a GPU plugin on its first device, on odd sizes, against double
 * precision, in every form of its kernels that runs here, under Vulkan's validation layers where they are
 * installed. Where there is no device the tests skip, saying so. */
#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "backend-fixture.h"
#include "gpu-device.h"
#include "operation-cases.h"
#include "sample.h"

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

TestSuite(gpu_ops, .init = setup, .fini = teardown);

/* ---- Matmul -------------------------------------------------------------------------------------------- */

static size_t block_length(uint32_t type)
{
    return format_of(type)->block_length;
}

static bool is_plain(uint32_t type)
{
    return block_length(type) == 1;
}

/* The host's code is the same for all types. */
#define TYPE_STEP all_or_sample(1, 3)

static uint32_t columns(uint32_t wanted)
{
    uint32_t most = gpu_most_columns();
    return wanted < most ? wanted : most;
}

Test(gpu_ops, matmul_sizes)
{
    static const uint32_t rows[] = {1, 31, 32, 33, 100}, tokens[] = {1, 2, 3, 5, 8, 13, 29, 100};
    static const uint32_t odd_k[] = {1, 7, 33, 64, 257, 600}, block_k[] = {32, 64, 96, 256, 288, 2080},
                          super_k[] = {256, 512, 768, 256, 1280, 2304};
    for (size_t type = first_of_sample(TYPE_STEP); type < COUNT(weight_types); type += TYPE_STEP) {
        const uint32_t *k = is_plain(weight_types[type])              ? odd_k
                            : block_length(weight_types[type]) == 256 ? super_k
                                                                      : block_k;
        for (size_t i = 0; i < COUNT(tokens); i += is_plain(weight_types[type]) ? 1 : 3)
            for (size_t j = 0; j < COUNT(odd_k); j++)
                free(run_matmul_case(&fixture, &(struct matmul_case){.type = weight_types[type],
                                                                     .k = columns(k[j]),
                                                                     .rows = rows[(i + j) % COUNT(rows)],
                                                                     .tokens = tokens[i]}));
    }
}

static void matmul(struct matmul_case c)
{
    free(run_matmul_case(&fixture, &c));
}

Test(gpu_ops, matmul_options)
{
    uint32_t silu = ENGINE_ACTIVATION_SILU;
    for (size_t i = first_of_sample(TYPE_STEP); i < COUNT(weight_types); i += TYPE_STEP) {
        uint32_t type = weight_types[i], k = block_length(type) == 256 ? 256 : 64;
        bool all =
            type == ENGINE_TYPE_F32 || type == ENGINE_TYPE_Q4_0; /* each form takes a while to compile */
        for (uint32_t tokens = 1; tokens < 40; tokens = tokens * 3 + 4) {
            if (!all && tokens > 1 && tokens < 30) continue;
            matmul((struct matmul_case){type, k, 50, tokens, .gate = true, .activation = silu});
            if (!all) continue;
            matmul((struct matmul_case){type, k, 50, tokens, .bias = true, .residual = true, .scale = 3,
                                        .activation = silu, .gap = 4});
            matmul((struct matmul_case){type, k, 50, tokens, .gate = true, .residual = true, .gap = 64});
            matmul((struct matmul_case){type, k, 50, tokens, .bias = true, .gap = 12});
            matmul((struct matmul_case){type, k, 50, tokens, .scale = -0.5f, .activation = silu});
            matmul((struct matmul_case){type, k, 33, tokens, .residual = true, .in_place = true});
        }
    }
}

/* From here on another form than the one for the device here; false where it can't be had. */
static bool reopen(const struct gpu_form *form)
{
    if (!gpu_choose(form)) return false;
    fixture_close(&fixture);
    fixture_open(&fixture, gpu.plugin, 0, 0, 0);
    return true;
}

Test(gpu_ops, every_form_of_matmul)
{
    static const uint32_t types[] = {ENGINE_TYPE_F16,  ENGINE_TYPE_Q8_0, ENGINE_TYPE_Q4_0,
                                     ENGINE_TYPE_Q3_K, ENGINE_TYPE_Q5_K, ENGINE_TYPE_Q2_K};
    for (unsigned form = 0; form < gpu.n_forms; form++) {
        if (!reopen(&gpu.forms[form])) continue;
        for (size_t i = 0; i < COUNT(types); i++) {
            uint32_t k = is_plain(types[i]) ? 47 : columns(768);
            matmul((struct matmul_case){types[i], k, 150, 1, .residual = true});
            matmul((struct matmul_case){types[i], k, 33, 70, .bias = true, .gap = 8});
            matmul((struct matmul_case){types[i], k, 90, 31, .gate = true,
                                        .activation = ENGINE_ACTIVATION_SILU});
        }
    }
}

/* One column, as on a GPU: every type, and sums in fewer and more shares than workgroups have. */
Test(gpu_ops, one_column_in_groups)
{
    static const uint32_t rows[] = {1, 8, 31, 65};
    cr_assert(reopen(gpu.groups));
    for (size_t i = first_of_sample(TYPE_STEP); i < COUNT(weight_types); i += TYPE_STEP)
        for (uint32_t k = 256; k < 3000; k += 1024)
            matmul((struct matmul_case){weight_types[i], k, rows[(i + k / 1024) % COUNT(rows)], 1,
                                        .gate = true});
}

/* The products of the first 1, 2, ... columns of the same input: those of a column are the same to the bit,
 * however many there are. */
static void few_columns(uint32_t type, uint32_t k, uint32_t rows, bool gate)
{
    static const uint32_t counts[] = {1, 2, 3, 4, 5, 7, 8, 9, 15, 16};
    enum { MOST = 16 };
    uint64_t seed = type + k;
    void *data = random_weight(&seed, type, k, rows);
    float *input = malloc(MOST * k * sizeof *input), *expected = malloc(MOST * rows * sizeof *expected);
    cr_assert(data && input && expected);
    for (uint32_t i = 0; i < MOST * k; i++) input[i] = (float)random_normal(&seed);
    struct engine_tensor *weight = fixture_weight(&fixture, type, k, rows, ENGINE_WEIGHT_MATMUL, true, data);
    for (size_t i = 0, known = 0; i < COUNT(counts); known = counts[i++]) {
        uint32_t n = counts[i];
        struct engine_op_matmul args = {.struct_size = sizeof args,
                                        .weight = weight,
                                        .gate = gate ? weight : NULL,
                                        .input = fixture_f32(&fixture, k, n, 1, input),
                                        .output = fixture_f32(&fixture, rows, n, 1, NULL)};
        fixture_run(&fixture, ENGINE_OP_MATMUL, &args);
        float *output = fixture_read(&fixture, args.output);
        for (size_t j = 0; j < known * rows; j++)
            cr_assert(memcmp(&output[j], &expected[j], sizeof *output) == 0,
                      "type %u, column %zu of %u: %.9g, but of %zu: %.9g", type, j / rows, n,
                      (double)output[j], known, (double)expected[j]);
        memcpy(expected, output, n * rows * sizeof *output);
        free(output);
    }
    fixture_clear(&fixture);
    free(data);
    free(input);
    free(expected);
}

Test(gpu_ops, few_columns)
{
    static const uint32_t counts[] = {2, 4, 7, 16, 17};
    for (unsigned form = 0; form < gpu.n_forms; form++) {
        if (!reopen(&gpu.forms[form])) continue;
        for (size_t i = 0; i < COUNT(weight_types); i++) {
            uint32_t type = weight_types[i], k = block_length(type) == 256 ? 512 : 96;
            bool all = type == ENGINE_TYPE_F32 || type == ENGINE_TYPE_Q4_0;
            if (!all && form != 1) continue; /* each form takes a while to compile */
            for (size_t j = 0; j < COUNT(counts); j++)
                if ((all && form < 2) || j == 1)
                    matmul((struct matmul_case){type, k, 50, counts[j], .residual = true, .gap = 16});
            if (all) matmul((struct matmul_case){type, columns(1056), 555, 7, .gate = true});
        }
    }
}

Test(gpu_ops, few_columns_do_not_depend_on_each_other)
{
    for (unsigned form = 0; form < gpu.n_forms; form++) {
        if (gpu.forms[form].differs || !reopen(&gpu.forms[form])) continue;
        few_columns(ENGINE_TYPE_Q4_0, columns(1184), 70, false);
        few_columns(ENGINE_TYPE_F32, columns(1184), 2100, true);
        few_columns(ENGINE_TYPE_Q6_K, columns(1280), 33, false);
    }
}

/* ---- Rows ---------------------------------------------------------------------------------------------- */

static void rows_of_every_size(void)
{
    static const uint32_t sizes[] = {1, 5, 16, 31, 64, 257, 3000};
    for (size_t i = 0; i < COUNT(sizes); i++)
        for (uint32_t op = ENGINE_OP_NORM; op <= ENGINE_OP_ACTIVATE; op++) {
            if (op == ENGINE_OP_GET_ROWS) continue;
            for (int variant = 0; variant < 8; variant++) {
                struct rows_case c = {
                    .op = op,
                    .n = sizes[i],
                    .tokens = variant & 1 ? 11 : 1,
                    .planes = variant & 2 ? 3 : 1,
                    .second = variant & 4,
                    .is_weight = (variant & 5) == 5 && op != ENGINE_OP_ACTIVATE,
                    .in_place = variant & 2,
                    .gaps = {variant & 1 ? 20 : 0, 0, 0},
                    .activation = ENGINE_ACTIVATION_SILU,
                    .epsilon = 1e-5f,
                };
                free(run_rows_case(&fixture, &c));
            }
        }
}

Test(gpu_ops, norm_add_mul_activate)
{
    rows_of_every_size();
}

Test(gpu_ops, activation_none_copies_or_multiplies)
{
    struct rows_case c = {.op = ENGINE_OP_ACTIVATE, .n = 37, .tokens = 2, .planes = 1};
    free(run_rows_case(&fixture, &c));
    c.second = true;
    free(run_rows_case(&fixture, &c));
}

Test(gpu_ops, rope)
{
    for (size_t i = 0; i < COUNT(rope_cases); i++) free(run_rope_case(&fixture, &rope_cases[i]));
}

Test(gpu_ops, get_rows)
{
    static const uint32_t uses[] = {ENGINE_WEIGHT_ROWS, ENGINE_WEIGHT_ROWS | ENGINE_WEIGHT_MATMUL};
    for (size_t i = 0; i < COUNT(weight_types); i++)
        for (int variant = 0; variant < 4; variant++) {
            struct get_rows_case c = {.type = weight_types[i], .n = 768, .n_rows = 45, .count = 20};
            c.uses = uses[variant & 1];
            c.data_is_kept = variant & 2;
            free(run_get_rows_case(&fixture, &c));
            if (!is_plain(c.type)) continue;
            c.n = 7;
            free(run_get_rows_case(&fixture, &c));
        }
    struct get_rows_case activation = {.type = ENGINE_TYPE_F32, .n = 19, .n_rows = 30, .count = 3};
    free(run_get_rows_case(&fixture, &activation));
}

/* ---- Attention ----------------------------------------------------------------------------------------- */

static void attention(struct attention_case c)
{
    free(run_attention_case(&fixture, &c));
}

static void attention_of_every_kind(void)
{
    uint32_t f32 = ENGINE_TYPE_F32, f16 = ENGINE_TYPE_F16, q8 = ENGINE_TYPE_Q8_0;
    attention((struct attention_case){f32, f32, 64, 8, 2, 16, 1, 100, 1, .window = 0});
    attention((struct attention_case){f16, f16, 64, 8, 2, 16, 1, 100, 100, .window = 0});
    attention((struct attention_case){q8, q8, 64, 8, 2, 16, 1, 100, 20, .window = 0});
    attention((struct attention_case){q8, f16, 32, 4, 4, 32, 2, 40, 3, .window = 0});
    attention((struct attention_case){f16, q8, 32, 4, 2, 9, 2, 40, 3, .window = 0});
    attention((struct attention_case){f32, q8, 96, 4, 2, 9, 2, 40, 3, .window = 0});
    attention((struct attention_case){q8, f32, 96, 4, 2, 9, 2, 40, 3, .window = 0});
    attention((struct attention_case){f16, f32, 80, 3, 3, 7, 2, 33, 11, .gaps = {8, 0, 0}});
    attention((struct attention_case){f32, f16, 10, 6, 3, 5, 3, 21, 21, .window = 0});
    attention((struct attention_case){f32, f32, 9, 6, 3, 5, 3, 21, 21, .window = 0});
    attention((struct attention_case){f16, f16, 128, 71, 1, 64, 1, 70, 4, .window = 0});
    attention((struct attention_case){f32, f16, 256, 2, 1, 64, 1, 70, 4, .window = 0});
    attention((struct attention_case){f32, f32, 1, 1, 1, 1, 1, 1, 1, .window = 0});
}

Test(gpu_ops, attention_cache_types_and_head_sizes)
{
    attention_of_every_kind();
}

Test(gpu_ops, norm_and_attention_in_every_form)
{
    for (unsigned form = 0; form < gpu.n_forms; form++) {
        if (!reopen(&gpu.forms[form])) continue;
        rows_of_every_size();
        attention_of_every_kind();
    }
}

Test(gpu_ops, attention_long_contexts_windows_and_tokens_left_out)
{
    for (size_t i = 0; i < COUNT(long_attention_cases); i++) attention(long_attention_cases[i]);
}

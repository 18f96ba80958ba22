/* test-cpu-exact.c: products of quantised weights whose inputs must not be rounded (exact_inputs), for each
 * instruction set: within float32's rounding of the weight's values times the inputs, and the same to the bit
 * for one token and for many. */
#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "backend-fixture.h"
#include "check/formats.h"
#include "cpu-settings.h"
#include "plugin-types.h"

/* Rows too long to be packed as float32; the last chunk of columns is short, and so is its last run. */
enum { K = 1120, ROWS = 20, MATRICES = 3, TOKENS = 14 };

static struct engine_weight *make_weight(struct fixture *fixture, uint32_t type, uint32_t n_matrices,
                                         bool exact, const void *data, uint64_t *bytes,
                                         struct engine_tensor *tensor)
{
    const struct format *format = format_of(type);
    uint64_t row = format_bytes(type, K);
    struct engine_weight_desc desc = {.struct_size = sizeof desc,
                                      .name = "weight",
                                      .type = type,
                                      .type_name = format->name,
                                      .ne = {K, ROWS, n_matrices, 1},
                                      .uses = n_matrices > 1 ? ENGINE_WEIGHT_MATRICES : ENGINE_WEIGHT_MATMUL,
                                      .data = data,
                                      .data_size = row * ROWS * n_matrices,
                                      .exact_inputs = exact};
    struct engine_weight *weight = NULL;
    cr_assert_eq(fixture->api->weight_size(fixture->device, &desc, bytes), ENGINE_OK);
    cr_assert_eq(fixture->api->weight_create(fixture->device, &desc, &weight), ENGINE_OK, "%s",
                 fixture_message());
    *tensor = (struct engine_tensor){.struct_size = sizeof *tensor,
                                     .type = type,
                                     .ne = {K, ROWS, n_matrices, 1},
                                     .nb = {format->block_size, row, row * ROWS, row * ROWS * n_matrices},
                                     .weight = weight};
    return weight;
}

/* Products of n_tokens inputs, [TOKENS][ROWS]; of experts in turn, if there are several. */
static float *products(struct fixture *fixture, const struct engine_tensor *weight, const float *input,
                       uint32_t n_tokens)
{
    int32_t experts[TOKENS];
    bool several = weight->ne[2] > 1;
    for (int32_t t = 0; t < TOKENS; t++) experts[t] = t % MATRICES;
    struct engine_op_matmul args = {.struct_size = sizeof args,
                                    .weight = weight,
                                    .input = several ? fixture_f32(fixture, K, 1, n_tokens, input)
                                                     : fixture_f32(fixture, K, n_tokens, 1, input),
                                    .output = several ? fixture_f32(fixture, ROWS, 1, n_tokens, NULL)
                                                      : fixture_f32(fixture, ROWS, n_tokens, 1, NULL),
                                    .experts = several ? fixture_i32(fixture, 1, n_tokens, experts) : NULL};
    fixture_run(fixture, ENGINE_OP_MATMUL, &args);
    return fixture_hold(fixture, fixture_read(fixture, args.output));
}

/* The largest difference from the exact products, in units of the sum of their terms' sizes. */
static double largest_error(uint32_t type, uint32_t n_matrices, const uint8_t *data, const float *input,
                            const float *got)
{
    float values[K];
    double largest = 0;
    for (size_t t = 0; t < TOKENS; t++)
        for (size_t r = 0; r < ROWS; r++) {
            double sum = 0, size = 0;
            const uint8_t *row = data + format_bytes(type, K) * (t % n_matrices * ROWS + r);
            engine_weight_to_float(engine_layout_of(type), row, K, values);
            for (size_t i = 0; i < K; i++) {
                double term = (double)values[i] * (double)input[t * K + i];
                sum += term, size += fabs(term);
            }
            largest = fmax(largest, fabs((double)got[t * ROWS + r] - sum) / size);
        }
    return largest;
}

static void expect_exact(struct fixture *fixture, uint32_t type, uint32_t n_matrices, bool keeps_blocks)
{
    uint64_t seed = type + 3, bytes, rounded_bytes;
    struct engine_tensor weight, rounded;
    uint8_t *data = fixture_hold(fixture, random_weight(&seed, type, K, ROWS * n_matrices));
    float *input = fixture_hold(fixture, random_floats(&seed, (size_t)K * TOKENS));
    struct engine_weight *own = make_weight(fixture, type, n_matrices, true, data, &bytes, &weight);
    struct engine_weight *other =
        make_weight(fixture, type, n_matrices, false, data, &rounded_bytes, &rounded);
    cr_expect_eq(bytes == rounded_bytes, keeps_blocks, "%s: %llu bytes, not %llu", format_of(type)->name,
                 (unsigned long long)bytes, (unsigned long long)rounded_bytes);
    const float *many = products(fixture, &weight, input, TOKENS),
                *one = products(fixture, &weight, input, 1);
    cr_expect_leq(largest_error(type, n_matrices, data, input, many), 1e-6, "%s", format_of(type)->name);
    cr_expect_eq(memcmp(many, one, ROWS * sizeof *one), 0, "%s: one token differs", format_of(type)->name);
    many = products(fixture, &rounded, input, TOKENS);
    cr_expect_gt(largest_error(type, n_matrices, data, input, many), 1e-5, "nothing is rounded otherwise");
    fixture->api->weight_destroy(own);
    fixture->api->weight_destroy(other);
}

Test(cpu_exact, inputs_stay_as_they_are)
{
    for (size_t i = 0; i < N_CPU_ISAS; i++) {
        struct fixture fixture;
        if (!cpu_open(&fixture, cpu_isas[i], 2)) continue;
        setenv("ENGINE_CPU_INTEGERS", "auto", 1); /* cpu_open asks for "all", which rounds for these, too */
        expect_exact(&fixture, ENGINE_TYPE_Q4_0, 1, true);
        expect_exact(&fixture, ENGINE_TYPE_MXFP4, MATRICES, true);
        expect_exact(&fixture, ENGINE_TYPE_Q5_1, 1, false); /* as float32 */
        fixture_close(&fixture);
    }
}

/* test-cpu-ops.c: every operation of the CPU plugin, on odd sizes, for each instruction set and with several
 * threads, against double precision. */
#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "backend-fixture.h"
#include "cpu-settings.h"
#include "operation-cases.h"
#include "plugin-types.h"
#include "sample.h"

static bool is_plain(uint32_t type)
{
    return format_of(type)->block_length == 1;
}

/* Whole blocks. */
static uint32_t rounded_up(uint32_t k, uint32_t type)
{
    uint32_t length = (uint32_t)format_of(type)->block_length;
    return (k + length - 1) / length * length;
}

static float *matmul(struct fixture *fixture, const void *c)
{
    return run_matmul_case(fixture, c);
}

static void compare_matmul(struct matmul_case c)
{
    static unsigned n_cases;
    if ((size_t)c.k * c.rows * c.tokens > MAX_PRODUCTS) return;
    if (n_cases++ % all_unless(SANITIZED || EMULATED, 1, 5) != 0) return;
    /* Where two ways to round a group of activations are equally good, instruction sets may differ in their
     * choice. */
    cpu_compare(matmul, &c, (size_t)c.rows * c.tokens,
                is_plain(c.type) && is_plain(c.gate_type) ? 3e-6 : 5e-2);
}

Test(cpu_matmul, sizes)
{
    static const uint32_t rows[] = {1, 15, 16, 17, 100},
                          tokens[] = {1, 2, 3, 4, 5, 6, 8, 9, 12, 13, 16, 17, 29, 100};
    static const uint32_t odd_k[] = {1, 7, 33, 64, 257, 600}, block_k[] = {32, 64, 96, 256, 288, 2080};
    for (size_t type = 0; type < COUNT(weight_types); type++)
        for (size_t i = 0; i < COUNT(tokens); i++)
            for (size_t j = (i + type) % 2; j < COUNT(odd_k); j += 2)
                compare_matmul((struct matmul_case){
                    .type = weight_types[type],
                    .k = is_plain(weight_types[type]) ? odd_k[j] : rounded_up(block_k[j], weight_types[type]),
                    .rows = rows[(i + j) % COUNT(rows)],
                    .tokens = tokens[i]});
}

Test(cpu_matmul, options)
{
    uint32_t silu = ENGINE_ACTIVATION_SILU;
    for (size_t i = 0; i < COUNT(weight_types); i++) {
        uint32_t type = weight_types[i], k = rounded_up(64, type);
        for (uint32_t tokens = 1; tokens < 40; tokens = tokens * 3 + 4) {
            compare_matmul((struct matmul_case){type, k, 50, tokens, .bias = true, .gap = 12});
            compare_matmul((struct matmul_case){type, k, 50, tokens, .scale = -0.5f, .activation = silu});
            compare_matmul((struct matmul_case){type, k, 33, tokens, .residual = true, .in_place = true});
            compare_matmul((struct matmul_case){type, k, 50, tokens, .bias = true, .residual = true,
                                                .scale = 3, .activation = silu, .gap = 4});
            compare_matmul((struct matmul_case){type, k, 50, tokens, .gate = true, .activation = silu});
            compare_matmul(
                (struct matmul_case){type, k, 50, tokens, .gate = true, .residual = true, .gap = 64});
        }
    }
}

Test(cpu_matmul, a_gate_of_another_type)
{
    compare_matmul(
        (struct matmul_case){ENGINE_TYPE_Q4_0, 64, 50, 3, .gate = true, .gate_type = ENGINE_TYPE_F16});
    compare_matmul(
        (struct matmul_case){ENGINE_TYPE_F16, 64, 50, 30, .gate = true, .gate_type = ENGINE_TYPE_Q8_0});
    compare_matmul(
        (struct matmul_case){ENGINE_TYPE_Q8_0, 64, 50, 1, .gate = true, .gate_type = ENGINE_TYPE_Q4_0});
}

/* Of a few columns, several panels of each matrix come in turn, and not all turns are whole. */
Test(cpu_matmul, a_gate_of_many_rows)
{
    static const uint32_t types[] = {ENGINE_TYPE_Q4_0, ENGINE_TYPE_F16, ENGINE_TYPE_Q8_0};
    for (size_t i = 0; i < COUNT(types); i++)
        for (uint32_t tokens = 1; tokens <= 6; tokens++)
            cpu_compare(matmul,
                        &(struct matmul_case){types[i], 64, 1100, tokens, .gate = true, .residual = true,
                                              .gate_type = i == 2 ? ENGINE_TYPE_Q4_0 : 0},
                        (size_t)1100 * tokens, 5e-2);
}

/* The products of the first tokens of an input that is the same for any number of them: [n_tokens][rows]. */
static float *first_products(struct fixture *fixture, uint32_t type, uint32_t k, uint32_t n_rows,
                             uint32_t n_tokens)
{
    uint64_t seed = type;
    void *weight = fixture_hold(fixture, random_weight(&seed, type, k, n_rows));
    float *input = fixture_hold(fixture, random_floats(&seed, (size_t)k * n_tokens));
    struct engine_op_matmul args = {
        .struct_size = sizeof args,
        .weight = fixture_weight(fixture, type, k, n_rows, ENGINE_WEIGHT_MATMUL, false, weight),
        .input = fixture_f32(fixture, k, n_tokens, 1, input),
        .output = fixture_f32(fixture, n_rows, n_tokens, 1, NULL)};
    fixture_run(fixture, ENGINE_OP_MATMUL, &args);
    return fixture_read(fixture, args.output);
}

/* Kernels differ for a few tokens, for as many as registers hold, and for those left over. */
Test(cpu_matmul, a_token_gives_the_same_in_any_batch)
{
    enum { K = 544, ROWS = 40 };
    const uint32_t most = MAX_PRODUCTS / (K * ROWS) < 100 ? MAX_PRODUCTS / (K * ROWS) : 100;
    for (size_t i = 0; i < N_CPU_ISAS; i++) {
        struct fixture fixture;
        if (!cpu_open(&fixture, cpu_isas[i], 2)) continue;
        for (size_t t = 0; t < COUNT(weight_types); t += all_unless(SANITIZED || EMULATED, 1, 3)) {
            uint32_t k = rounded_up(K, weight_types[t]);
            float *all = first_products(&fixture, weight_types[t], k, ROWS, most);
            for (uint32_t n = 1; n < most; n += n < 18 ? 1 : 17) {
                float *some = first_products(&fixture, weight_types[t], k, ROWS, n);
                cr_assert(memcmp(some, all, n * ROWS * sizeof *all) == 0, "%s: %s, %u tokens", cpu_isas[i],
                          format_of(weight_types[t])->name, n);
                free(some);
            }
            free(all);
            fixture_clear(&fixture);
        }
        fixture_close(&fixture);
    }
}

/* Rounds n values to blocks of Q8_0 as ggml's vector code does: by the scale before it becomes a float16. */
static void round_as_ggml(float *values, size_t n)
{
    for (float *x = values; x < values + n; x += 32) {
        float max = 0;
        for (size_t i = 0; i < 32; i++) max = fmaxf(max, fabsf(x[i]));
        float scale = engine_f16_to_f32(engine_f32_to_f16(max / 127));
        for (size_t i = 0; i < 32; i++) x[i] = rintf(x[i] * (127 / max)) * scale;
    }
}

/* Relative error of products with a matrix in blocks, or their distance from those of inputs that ggml has
 * rounded. */
static double product_error(uint32_t type, uint32_t k, uint32_t n_rows, bool rounded)
{
    enum { TOKENS = 3 };
    struct fixture fixture;
    uint64_t seed = type;
    fixture_open(&fixture, "cpu", 0, 2, 0);
    void *weight = fixture_hold(&fixture, random_weight(&seed, type, k, n_rows));
    double *values = fixture_hold(&fixture, weight_values(type, weight, (size_t)k * n_rows));
    float *input = fixture_hold(&fixture, random_floats(&seed, (size_t)k * TOKENS));
    struct engine_op_matmul args = {
        .struct_size = sizeof args,
        .weight = fixture_weight(&fixture, type, k, n_rows, ENGINE_WEIGHT_MATMUL, false, weight),
        .input = fixture_f32(&fixture, k, TOKENS, 1, input),
        .output = fixture_f32(&fixture, n_rows, TOKENS, 1, NULL)};
    fixture_run(&fixture, ENGINE_OP_MATMUL, &args);
    float *products = fixture_read(&fixture, args.output);
    double difference = 0, size = 0;
    if (rounded) round_as_ggml(input, (size_t)k * TOKENS);
    for (size_t i = 0; i < (size_t)n_rows * TOKENS; i++) {
        double sum = 0;
        for (size_t j = 0; j < k; j++) sum += values[i % n_rows * k + j] * (double)input[i / n_rows * k + j];
        difference += (products[i] - sum) * (products[i] - sum);
        size += sum * sum;
    }
    free(products);
    fixture_close(&fixture);
    return sqrt(difference / size);
}

Test(cpu_matmul, inputs_of_small_matrices_are_not_rounded)
{
    static const uint32_t types[] = {ENGINE_TYPE_Q4_0, ENGINE_TYPE_Q8_0, ENGINE_TYPE_Q4_K,
                                     ENGINE_TYPE_IQ4_XS};
    for (size_t i = 0; i < COUNT(types); i++) {
        uint32_t longer = rounded_up(288, types[i]);
        cr_expect(product_error(types[i], 256, 40, false) < 1e-6);
        cr_expect(product_error(types[i], longer, 40, false) > 1e-4);
        setenv("ENGINE_CPU_INTEGERS", "all", 1);
        cr_expect(product_error(types[i], 256, 40, false) > 1e-4);
        unsetenv("ENGINE_CPU_INTEGERS");
    }
    cr_expect(product_error(ENGINE_TYPE_Q8_0, 64, 4096, false) < 1e-6);
    cr_expect(product_error(ENGINE_TYPE_Q8_0, 64, 4097, false) > 1e-4);
}

/* Perplexities of Q8_0 are llama.cpp's only if inputs are rounded alike. */
Test(cpu_matmul, inputs_of_q8_0_are_rounded_as_by_ggml)
{
    for (size_t i = 0; i < N_CPU_ISAS; i++) {
        setenv("ENGINE_CPU_ISA", cpu_isas[i], 1);
        cr_expect(product_error(ENGINE_TYPE_Q8_0, 2048, 40, true) < 1e-6, "%s", cpu_isas[i]);
        cr_expect(product_error(ENGINE_TYPE_Q8_0, 2048, 40, false) > 1e-3, "%s", cpu_isas[i]);
        cr_expect(product_error(ENGINE_TYPE_Q4_0, 2048, 40, true) > 1e-3, "%s", cpu_isas[i]);
    }
    unsetenv("ENGINE_CPU_ISA");
}

static float *rows(struct fixture *fixture, const void *c)
{
    return run_rows_case(fixture, c);
}

Test(cpu_rows, norm_add_mul_activate)
{
    static const uint32_t sizes[] = {1, 5, 16, 31, 64, 257, 3000};
    for (size_t i = 0; i < COUNT(sizes); i++)
        for (uint32_t op = ENGINE_OP_NORM; op <= ENGINE_OP_ACTIVATE; op++) {
            if (op == ENGINE_OP_GET_ROWS) continue;
            for (unsigned variant = all_unless(SANITIZED || EMULATED, 0, (unsigned)i % 3); variant < 8;
                 variant += all_unless(SANITIZED || EMULATED, 1, 3)) {
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
                cpu_compare(rows, &c, (size_t)c.n * c.tokens * c.planes, 5e-6);
            }
        }
}

Test(cpu_rows, activation_none_copies_or_multiplies)
{
    struct rows_case c = {.op = ENGINE_OP_ACTIVATE, .n = 37, .tokens = 2, .planes = 1};
    cpu_compare(rows, &c, 74, 5e-6);
    c.second = true;
    cpu_compare(rows, &c, 74, 5e-6);
}

static float *rope(struct fixture *fixture, const void *c)
{
    return run_rope_case(fixture, c);
}

Test(cpu_rope, pairs_sizes_and_positions)
{
    for (size_t i = 0; i < COUNT(rope_cases); i++) {
        const struct rope_case *c = &rope_cases[i];
        cpu_compare(rope, c, (size_t)c->head_dim * c->n_heads * c->tokens, 1e-6);
    }
}

/* Experts that a matmul follows: each once, and within the range, also of logits that no finite arithmetic
 * leaves. */
Test(cpu_route, names_experts_that_there_are_whatever_the_logits)
{
    enum { N = 24, USED = 6, TOKENS = 7 };
    for (size_t isa = 0; isa < N_CPU_ISAS; isa++) {
        struct fixture fixture;
        if (!cpu_open(&fixture, cpu_isas[isa], 2)) continue;
        uint64_t seed = 3;
        float *logits = fixture_hold(&fixture, random_floats(&seed, (size_t)N * TOKENS));
        for (size_t i = 0; i < N; i++) {
            logits[i] = NAN;
            if (i % 2) logits[N + i] = NAN;
            if (i % 3) logits[2 * N + i] = INFINITY;
            logits[3 * N + i] = -INFINITY;
            if (i % 5) logits[4 * N + i] = -INFINITY;
            logits[5 * N + i] = i % 2 ? 3e38f : -3e38f;
        }
        for (uint32_t variant = 0; variant < 4; variant++) {
            struct engine_op_route args = {
                .struct_size = sizeof args,
                .logits = fixture_f32(&fixture, N, TOKENS, 1, logits),
                .ids = fixture_i32(&fixture, USED, TOKENS, NULL),
                .weights = fixture_f32(&fixture, USED, TOKENS, 1, NULL),
                .function = variant & 1 ? ENGINE_ROUTE_SIGMOID : ENGINE_ROUTE_SOFTMAX,
                .n_groups = variant & 2 ? 4 : 0,
                .n_groups_used = variant & 2 ? 2 : 0,
                .group_score = ENGINE_ROUTE_GROUP_TOP2,
                .normalise = 1,
            };
            fixture_run(&fixture, ENGINE_OP_ROUTE, &args);
            const int32_t *ids = fixture_hold(&fixture, fixture_read_rows(&fixture, args.ids));
            for (size_t t = 0; t < TOKENS; t++) {
                bool seen[N] = {false};
                for (size_t s = 0; s < USED; s++) {
                    int32_t id = ids[t * USED + s];
                    cr_assert(id >= 0 && id < N && !seen[id], "%s: expert %d of token %zu", cpu_isas[isa], id,
                              t);
                    seen[id] = true;
                }
            }
        }
        fixture_close(&fixture);
    }
}

static float *get_rows(struct fixture *fixture, const void *c)
{
    return run_get_rows_case(fixture, c);
}

Test(cpu_get_rows, weights_of_every_type_and_use)
{
    static const uint32_t uses[] = {ENGINE_WEIGHT_ROWS, ENGINE_WEIGHT_ROWS | ENGINE_WEIGHT_MATMUL};
    for (size_t i = 0; i < COUNT(weight_types); i++)
        for (int variant = 0; variant < 4; variant++) {
            struct get_rows_case c = {.type = weight_types[i], .n_rows = 45, .count = 20};
            c.n = rounded_up(544, c.type);
            c.uses = uses[variant & 1];
            c.data_is_kept = variant & 2;
            cpu_compare(get_rows, &c, (size_t)c.n * c.count, 0);
            if (!is_plain(c.type)) continue;
            c.n = 7;
            cpu_compare(get_rows, &c, (size_t)c.n * c.count, 0);
        }
}

Test(cpu_get_rows, an_activation)
{
    struct get_rows_case c = {.type = ENGINE_TYPE_F32, .n = 19, .n_rows = 30, .count = 3};
    cpu_compare(get_rows, &c, (size_t)c.n * c.count, 0);
}

static float *attention(struct fixture *fixture, const void *c)
{
    return run_attention_case(fixture, c);
}

static void compare_attention(struct attention_case c)
{
    static unsigned n_cases;
    if (n_cases++ % all_unless(SANITIZED || EMULATED, 1, 4) != 0) return;
    bool rounded = c.k_type == ENGINE_TYPE_Q8_0 || c.v_type == ENGINE_TYPE_Q8_0;
    uint32_t value_dim = c.value_dim ? c.value_dim : c.head_dim;
    cpu_compare(attention, &c, (size_t)value_dim * c.n_heads * c.tokens * c.n_sequences,
                (rounded ? 1e-2 : 1e-5) * (c.size > 8 ? (double)c.size / 8 : 1));
}

Test(cpu_attention, cache_types_and_head_sizes)
{
    uint32_t f32 = ENGINE_TYPE_F32, f16 = ENGINE_TYPE_F16, q8 = ENGINE_TYPE_Q8_0;
    compare_attention((struct attention_case){f32, f32, 64, 8, 2, 16, 1, 100, 1, .window = 0});
    compare_attention((struct attention_case){f16, f16, 64, 8, 2, 16, 1, 100, 100, .window = 0});
    compare_attention((struct attention_case){q8, q8, 64, 8, 2, 16, 1, 100, 20, .window = 0});
    compare_attention((struct attention_case){q8, f16, 32, 4, 4, 32, 2, 40, 3, .window = 0});
    compare_attention((struct attention_case){f16, f32, 80, 3, 3, 7, 2, 33, 11, .gaps = {8, 0, 0}});
    compare_attention((struct attention_case){f32, f16, 9, 6, 3, 5, 3, 21, 21, .window = 0});
    compare_attention((struct attention_case){f16, f16, 128, 71, 1, 64, 1, 70, 4, .window = 0});
    compare_attention((struct attention_case){f32, f32, 1, 1, 1, 1, 1, 1, 1, .window = 0});
}

Test(cpu_attention, long_contexts_windows_and_tokens_left_out)
{
    for (size_t i = 0; i < COUNT(long_attention_cases); i++) compare_attention(long_attention_cases[i]);
}

/* Decoding sequences: some of the plugin's tasks take several heads of a token, or several tokens. */
Test(cpu_attention, one_token_each_of_many_sequences)
{
    uint32_t f32 = ENGINE_TYPE_F32, f16 = ENGINE_TYPE_F16, q8 = ENGINE_TYPE_Q8_0;
    static const uint32_t n_sequences[] = {2, 8, 9, 20, 33};
    for (size_t i = 0; i < COUNT(n_sequences); i++) {
        uint32_t n = n_sequences[i];
        compare_attention((struct attention_case){f16, f16, 64, 16, 4, 32, n, 150, 1, .window = 0});
        compare_attention((struct attention_case){f32, f16, 20, 6, 3, 7, n, 300, 1, .window = 90});
        compare_attention((struct attention_case){q8, q8, 32, 12, 12, 16, n, 280, 1, .leave_out = true});
        compare_attention((struct attention_case){f16, f32, 16, 8, 8, 32, n, 290, 1, .slopes = true,
                                                  .sinks = true, .value_dim = 48});
    }
}

/* What 1.1 added, over several of the spans that positions are taken in, with few tokens and with many;
 * test-cpu-groups.c has the rest. */
Test(cpu_attention, options_over_long_contexts)
{
    static const struct attention_case forms[] = {
        {.slopes = true},
        {.softcap = 2},
        {.softcap = 30, .size = 100},
        {.sinks = true},
        {.chunk = 100},
        {.chunk = 1},
        {.chunk = 256, .leave_out = true},
        {.value_dim = 9},
        {.value_dim = 80},
        {.shared = true, .value_dim = 32},
        {.slopes = true, .softcap = 5, .sinks = true, .window = 40},
        {.slopes = true, .softcap = 5, .sinks = true, .chunk = 77, .value_dim = 48, .leave_out = true},
        {.slopes = true, .sinks = true, .size = 2000},
        {.shared = true, .value_dim = 48, .sinks = true, .cache_gaps = {8, 16, 0}, .gaps = {4, 0, 0}},
    };
    static const uint32_t types[] = {ENGINE_TYPE_F32, ENGINE_TYPE_F16, ENGINE_TYPE_Q8_0};
    for (size_t i = 0; i < COUNT(forms); i++)
        for (uint32_t tokens = 1; tokens < 40; tokens += 19) {
            struct attention_case c = forms[i];
            c.k_type = types[(i + tokens) % COUNT(types)];
            c.v_type = c.shared ? c.k_type : types[i % COUNT(types)];
            if (c.value_dim % 32 != 0 && (c.k_type == ENGINE_TYPE_Q8_0 || c.v_type == ENGINE_TYPE_Q8_0))
                c.k_type = c.v_type = ENGINE_TYPE_F16;
            c.head_dim = 64, c.n_heads = 4, c.n_kv_heads = c.shared ? 1 : 2, c.block_size = 16;
            c.n_sequences = 2, c.length = 520, c.tokens = tokens;
            compare_attention(c);
        }
}

/* test-vulkan-faults.c: the Vulkan plugin on machines that are not this one, made by a layer
 * (vulkan-layer.c): GPUs with memory of their own, small bindings, too little memory, devices that are lost;
 * without loader or driver; with two devices; with pipeline caches that somebody has damaged. */
#include <criterion/criterion.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "backend-fixture.h"
#include "files.h"
#include "gpu-device.h"
#include "program.h"
#include "sample.h"
#include "vulkan-device.h"

#define MODEL TEST_SHARED_DIR "/models/stories260K-f32.gguf"
#define RUN   "-m", MODEL, "-p", "Once upon a time", "--temp", "0", "-n", "24", "-b", "16"

static void setup(void)
{
    setenv("VK_ADD_LAYER_PATH", TEST_LAYER_DIR, 1);
    setenv("VK_INSTANCE_LAYERS", "VK_LAYER_ENGINE_test", 1);
}

/* From here on the layer makes this machine. */
static void machine(const char *description)
{
    setenv("ENGINE_TEST_VULKAN", description, 1);
    vulkan_skip_without_device();
}

/* Of many runs of a model, each of which compiles the driver's shaders, under AddressSanitizer some. */
static size_t runs_apart(unsigned step)
{
    return all_unless(SANITIZED, 1, step);
}

static void need_model(void)
{
    if (access(MODEL, R_OK) != 0) cr_skip_test("no ../shared here");
}

static char *text_on_cpu(void)
{
    need_model();
    struct program_result result = PROGRAM(RUN, "--backend", "cpu");
    cr_assert_eq(result.status, 0, "%s", result.err);
    free(result.err);
    return result.out;
}

TestSuite(vulkan_faults, .init = setup);

/* ---- GPUs ---------------------------------------------------------------------------------------------- */

static void matmul(struct fixture *fixture, struct matmul_case c)
{
    free(run_matmul_case(fixture, &c));
}

Test(vulkan_faults, weights_larger_than_a_binding_on_a_gpu)
{
    static const uint32_t types[] = {ENGINE_TYPE_F32, ENGINE_TYPE_Q8_0, ENGINE_TYPE_Q4_0, ENGINE_TYPE_Q6_K};
    struct fixture fixture;
    machine("discrete range=150000"); /* six panels of the Q4_0 below */
    fixture_open(&fixture, "vulkan", 0, 0, 0);
    for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
        uint32_t k = types[i] == ENGINE_TYPE_F32 ? 257 : 1024;
        for (uint32_t tokens = 1; tokens < 40; tokens = tokens * 6 + 1) {
            matmul(&fixture, (struct matmul_case){types[i], k, 555, tokens, .residual = true});
            if (i != 1) continue;
            matmul(&fixture, (struct matmul_case){types[i], k, 300, tokens, .gate = true,
                                                  .activation = ENGINE_ACTIVATION_SILU});
            matmul(&fixture, (struct matmul_case){types[i], k, 300, tokens, .bias = true, .scale = 2});
        }
        free(run_get_rows_case(&fixture,
                               &(struct get_rows_case){types[i], k, 555, 20, ENGINE_WEIGHT_ROWS, false, 0}));
    }
    fixture_close(&fixture);
    vulkan_expect_no_complaints();
}

Test(vulkan_faults, weights_larger_than_a_binding_at_addresses)
{
    struct fixture fixture;
    machine("range=150000");
    fixture_open(&fixture, "vulkan", 0, 0, 0);
    for (uint32_t tokens = 1; tokens < 20; tokens = tokens * 6 + 3) {
        matmul(&fixture, (struct matmul_case){ENGINE_TYPE_Q4_0, 1024, 555, tokens, .residual = true});
        matmul(&fixture, (struct matmul_case){ENGINE_TYPE_Q8_0, 1024, 300, tokens, .gate = true});
    }
    fixture_close(&fixture);
    vulkan_expect_no_complaints();
}

/* Experts and heads of weights in parts: of several matrices, and of a part of one. */
static void several_matrices_in_parts(void)
{
    uint32_t q8 = ENGINE_TYPE_Q8_0, silu = ENGINE_ACTIVATION_SILU;
    struct fixture fixture;
    fixture_open(&fixture, "vulkan", 0, 0, 0);
    for (uint32_t tokens = 1; tokens < 40; tokens = tokens * 6 + 1) {
        matmul(&fixture, (struct matmul_case){q8, 512, 50, tokens, .n_matrices = 9, .n_used = 2, .mix = true,
                                              .residual = true});
        matmul(&fixture, (struct matmul_case){q8, 512, 300, tokens, .n_matrices = 3, .n_used = 2,
                                              .one_each = true, .gate = true, .activation = silu});
        matmul(&fixture, (struct matmul_case){q8, 512, 100, tokens, .n_matrices = 5});
    }
    fixture_close(&fixture);
    vulkan_expect_no_complaints();
}

Test(vulkan_faults, several_matrices_larger_than_a_binding_on_a_gpu)
{
    machine("discrete range=100000"); /* six panels of them */
    several_matrices_in_parts();
}

Test(vulkan_faults, several_matrices_larger_than_a_binding_at_addresses)
{
    machine("range=100000");
    several_matrices_in_parts();
}

static const struct gpu_form dot = {"dot", {"ENGINE_VULKAN_MATMUL", "dot"}, true, false};

/* Dense, with elements of four bytes; a weight's strides don't count. */
static struct engine_tensor planned(uint32_t type, uint64_t ne0, uint64_t ne1, uint64_t ne2)
{
    return (struct engine_tensor){.struct_size = sizeof(struct engine_tensor),
                                  .type = type,
                                  .ne = {ne0, ne1, ne2, 1},
                                  .nb = {4, 4 * ne0, 4 * ne0 * ne1, 4 * ne0 * ne1 * ne2}};
}

/* As in the last round of a batch, and in batches smaller than the one that was planned for. */
Test(vulkan_faults, scratch_memory_of_many_tokens_is_enough_for_fewer)
{
    enum { K = 2048, ROWS = 7168, EXPERTS = 256, USED = 8, MOST = 700 };
    struct fixture fixture;
    machine("discrete");
    if (!gpu_choose(&dot)) cr_skip_test("no dot products here");
    fixture_open(&fixture, "vulkan", 0, 0, 0);
    uint64_t before = 0;
    for (uint64_t n = 1; n <= MOST; n++) {
        const struct engine_tensor weight = planned(ENGINE_TYPE_Q8_0, K, ROWS, EXPERTS),
                                   input = planned(ENGINE_TYPE_F32, K, USED, n),
                                   output = planned(ENGINE_TYPE_F32, ROWS, n, 1),
                                   experts = planned(ENGINE_TYPE_I32, USED, n, 1),
                                   mix = planned(ENGINE_TYPE_F32, USED, n, 1);
        const struct engine_op_matmul args = {.struct_size = sizeof args,
                                              .weight = &weight,
                                              .input = &input,
                                              .output = &output,
                                              .experts = &experts,
                                              .mix = &mix};
        uint64_t bytes;
        cr_assert_eq(fixture.api->op_memory(fixture.device, ENGINE_OP_MATMUL, &args, &bytes), 0, "%s",
                     fixture_message());
        cr_assert_geq(bytes, before, "%llu tokens take less than fewer do", (unsigned long long)n);
        before = bytes;
    }
    fixture_close(&fixture);
}

/* A table of values, too, where sums alone would take all shared memory. */
Test(vulkan_faults, products_with_a_gate_fit_the_least_shared_memory)
{
    struct fixture fixture;
    machine("discrete shared=16384");
    if (!gpu_choose(&dot)) cr_skip_test("no dot products here");
    fixture_open(&fixture, "vulkan", 0, 0, 0);
    matmul(&fixture, (struct matmul_case){ENGINE_TYPE_IQ4_NL, 64, 4096, 8, .gate = true});
    fixture_close(&fixture);
    vulkan_expect_no_complaints();
}

/* Each reads what the one before has written, in place, with many parts between. */
Test(vulkan_faults, operations_in_parts_come_one_after_the_other)
{
    enum { K = 256, TOKENS = 3 };
    struct fixture fixture;
    machine("discrete range=70000"); /* two panels of the weight below */
    fixture_open(&fixture, "vulkan", 0, 0, 0);
    uint64_t seed = 1;
    float *values = random_floats(&seed, (size_t)K * K), *inputs = random_floats(&seed, (size_t)K * TOKENS);
    const struct engine_tensor *weight =
        fixture_weight(&fixture, ENGINE_TYPE_F32, K, K, ENGINE_WEIGHT_MATMUL, false, values);
    struct engine_tensor *x = fixture_f32(&fixture, K, TOKENS, 1, inputs),
                         *y = fixture_f32(&fixture, K, TOKENS, 1, inputs);
    struct engine_op_matmul to_y = {
        .struct_size = sizeof to_y, .weight = weight, .input = x, .output = y, .residual = y};
    struct engine_op_matmul to_x = {
        .struct_size = sizeof to_x, .weight = weight, .input = y, .output = x, .residual = x};
    for (int i = 0; i < 3; i++) {
        cr_assert_eq(fixture.api->enqueue(fixture.stream, ENGINE_OP_MATMUL, &to_y), 0);
        cr_assert_eq(fixture.api->enqueue(fixture.stream, ENGINE_OP_MATMUL, &to_x), 0);
    }
    cr_assert_eq(fixture.api->stream_wait(fixture.stream), 0, "%s", fixture_message());
    free(values), free(inputs);
    fixture_close(&fixture);
    vulkan_expect_no_complaints();
}

/* Subgroups of 16, where the driver is Mesa's: sums of one column go through shuffles and shared memory. */
Test(vulkan_faults, one_column_on_a_gpu)
{
    static const uint32_t types[] = {ENGINE_TYPE_F32, ENGINE_TYPE_Q8_0, ENGINE_TYPE_Q4_0, ENGINE_TYPE_Q4_K};
    struct fixture fixture;
    setenv("LP_NATIVE_VECTOR_WIDTH", "512", 1);
    machine("discrete range=600000");
    fixture_open(&fixture, "vulkan", 0, 0, 0);
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        for (uint32_t k = 256; k < 3000; k += 1024)
            free(run_matmul_case(
                &fixture,
                &(struct matmul_case){
                    .type = types[i], .k = k, .rows = 250, .tokens = 1, .gate = k == 256, .residual = true}));
    matmul(&fixture, (struct matmul_case){ENGINE_TYPE_Q8_0, 512, 100, 1, .n_matrices = 6, .n_used = 3,
                                          .mix = true, .bias = true});
    fixture_close(&fixture);
    vulkan_expect_no_complaints();
}

static void attention(struct fixture *fixture, struct attention_case c)
{
    free(run_attention_case(fixture, &c));
}

/* Few heads over long contexts: several workgroups share a head's positions. */
static void attention_over_long_contexts(void)
{
    uint32_t f32 = ENGINE_TYPE_F32, f16 = ENGINE_TYPE_F16, q8 = ENGINE_TYPE_Q8_0;
    struct fixture fixture;
    fixture_open(&fixture, "vulkan", 0, 0, 0);
    attention(&fixture, (struct attention_case){f16, f16, 64, 4, 2, 32, 1, 1000, 1, .window = 0});
    attention(&fixture, (struct attention_case){f32, f32, 32, 4, 2, 32, 2, 1300, 3, .leave_out = true});
    attention(&fixture, (struct attention_case){q8, q8, 96, 3, 1, 32, 1, 5000, 2, .window = 0});
    attention(&fixture, (struct attention_case){f16, f16, 130, 2, 2, 7, 2, 700, 2, .window = 600});
    attention(&fixture,
              (struct attention_case){f32, f32, 32, 4, 2, 32, 2, 700, 600, .window = 0}); /* not split */
    attention(&fixture, (struct attention_case){f32, f32, 8, 2, 2, 32, 1, 560, 60, .window = 550});
    attention(&fixture, (struct attention_case){f16, f16, 32, 4, 2, 32, 2, 1000, 2, .leave_out = true,
                                                .sinks = true, .slopes = true, .value_dim = 48});
    attention(&fixture, (struct attention_case){q8, q8, 96, 4, 1, 16, 1, 1000, 1, .shared = true,
                                                .value_dim = 64, .softcap = 3, .chunk = 700});
    attention(&fixture, (struct attention_case){f32, f32, 32, 4, 2, 32, 3, 200, 20, .spoiled = true});
    fixture_close(&fixture);
    vulkan_expect_no_complaints();
}

Test(vulkan_faults, attention_over_long_contexts_on_a_gpu)
{
    machine("discrete");
    attention_over_long_contexts();
}

Test(vulkan_faults, attention_over_long_contexts_without_subgroups)
{
    machine("discrete plain");
    attention_over_long_contexts();
}

Test(vulkan_faults, subgroups_asked_for_where_they_cannot_be_added_over)
{
    need_model();
    machine("discrete plain");
    setenv("ENGINE_VULKAN_SUBGROUPS", "on", 1);
    struct program_result result = PROGRAM(RUN, "--backend", "vulkan", "--offload", "all");
    cr_assert_neq(result.status, 0);
    cr_assert(strstr(result.err, "does not support subgroup arithmetic"), "%s", result.err);
    program_free(&result);
}

/* More than the staging memory holds, both ways, and ranges in the middle. */
Test(vulkan_faults, large_transfers_to_a_gpu_and_back)
{
    struct fixture fixture;
    machine("discrete");
    fixture_open(&fixture, "vulkan", 0, 0, 0);
    uint64_t seed = 1, n = 5000003;
    float *values = random_floats(&seed, n), *middle = calloc(n, sizeof *middle);
    struct engine_tensor *tensor = fixture_f32(&fixture, n, 1, 1, values);
    float *back = fixture_read(&fixture, tensor);
    cr_assert_arr_eq(back, values, n * sizeof *values);
    free(back);
    for (uint64_t first = 1; first < n; first *= 5) { /* many reads under way at once */
        uint64_t count = first * 4 < n - first ? first * 4 : n - first;
        cr_assert_eq(fixture.api->read(fixture.stream, tensor->buffer, first * 4, middle + first, count * 4),
                     0);
    }
    cr_assert_eq(fixture.api->stream_wait(fixture.stream), 0, "%s", fixture_message());
    cr_assert_arr_eq(middle + 1, values + 1, (n - 1) * sizeof *values);
    for (uint64_t size = 4; size < n; size = size * 9 + 4) { /* in order with what runs on the stream */
        cr_assert_eq(fixture.api->write(fixture.stream, tensor->buffer, 8, values, size), 0);
        cr_assert_eq(fixture.api->copy(fixture.stream, tensor->buffer, 4 * (n - 2), tensor->buffer, 8, 4), 0);
        cr_assert_eq(fixture.api->read(fixture.stream, tensor->buffer, 8, middle, size), 0);
        cr_assert_eq(fixture.api->stream_wait(fixture.stream), 0, "%s", fixture_message());
        cr_assert_arr_eq(middle, values, size);
    }
    free(values), free(middle);
    fixture_close(&fixture);
    vulkan_expect_no_complaints();
}

/* For all sizes, and whether the host sees the memory or not. */
static void writes_behind_work(void)
{
    enum { K = 1024, N = 4000000, LAST = N - 1 };
    struct fixture fixture;
    fixture_open(&fixture, "vulkan", 0, 0, 0);
    uint64_t seed = 1;
    float *values = random_floats(&seed, (size_t)K * K), *input = random_floats(&seed, K),
          *sent = random_floats(&seed, N), back = 0;
    struct engine_op_matmul args = {
        .struct_size = sizeof args,
        .weight = fixture_weight(&fixture, ENGINE_TYPE_F32, K, K, ENGINE_WEIGHT_MATMUL, false, values),
        .input = fixture_f32(&fixture, K, 1, 1, input),
        .output = fixture_f32(&fixture, K, 1, 1, NULL)};
    struct engine_buffer *buffer = fixture_f32(&fixture, N, 1, 1, sent)->buffer;
    const struct engine_backend *api = fixture.api;
    struct engine_stream *stream = fixture.stream;
    for (int i = 0; i < 8; i++) {
        float mark = (float)(1000 + i);
        sent[LAST] = (float)i;
        cr_assert_eq(api->enqueue(stream, ENGINE_OP_MATMUL, &args), 0);
        cr_assert_eq(api->write(stream, buffer, 0, sent, N * sizeof *sent), 0);
        cr_assert_eq(api->stream_wait(stream), 0);
        cr_assert_eq(api->read(stream, buffer, LAST * sizeof mark, &back, sizeof back), 0);
        cr_assert_eq(api->stream_wait(stream), 0, "%s", fixture_message());
        cr_assert_eq(back, sent[LAST]);
        cr_assert_eq(api->enqueue(stream, ENGINE_OP_MATMUL, &args), 0); /* a small one behind a large one */
        cr_assert_eq(api->write(stream, buffer, 0, sent, N * sizeof *sent), 0);
        cr_assert_eq(api->stream_wait(stream), 0);
        cr_assert_eq(api->write(stream, buffer, LAST * sizeof mark, &mark, sizeof mark), 0);
        cr_assert_eq(api->enqueue(stream, ENGINE_OP_MATMUL, &args), 0);
        cr_assert_eq(api->read(stream, buffer, LAST * sizeof mark, &back, sizeof back), 0);
        cr_assert_eq(api->stream_wait(stream), 0, "%s", fixture_message());
        cr_assert_eq(back, mark);
    }
    free(values), free(input), free(sent);
    fixture_close(&fixture);
    vulkan_expect_no_complaints();
}

Test(vulkan_faults, large_writes_stay_in_order)
{
    machine("");
    writes_behind_work();
}

Test(vulkan_faults, large_writes_stay_in_order_on_a_gpu)
{
    machine("discrete");
    writes_behind_work();
}

/* Residuals, feed-forward and output of a model, each in many parts. */
Test(vulkan_faults, the_same_text_from_matrices_in_parts)
{
#define PARTS                                                                                                \
    "-m", TEST_SHARED_DIR "/reference/tiny-llama/tiny-llama-f32.gguf", "-p", "Once upon", "--temp", "0",     \
        "-n", "3", "-b", "8", "-c", "96"
    if (access(TEST_SHARED_DIR "/reference/tiny-llama/tiny-llama-f32.gguf", R_OK) != 0)
        cr_skip_test("no ../shared here");
    struct program_result cpu = PROGRAM(PARTS, "--backend", "cpu");
    cr_assert_eq(cpu.status, 0, "%s", cpu.err);
    machine("discrete range=200000");
    struct program_result result = PROGRAM(PARTS, "--backend", "vulkan", "--offload", "all");
    program_expect_text(&result, cpu.out, "in parts");
    program_free(&result), program_free(&cpu);
#undef PARTS
}

Test(vulkan_faults, the_same_text_on_a_gpu)
{
    static const char *const offloads[] = {"1", "3", "all"};
    char *expected = text_on_cpu();
    machine("discrete range=1048576");
    for (size_t i = 0; i < sizeof offloads / sizeof *offloads; i += runs_apart(2)) {
        struct program_result result = PROGRAM(RUN, "--backend", "vulkan", "--offload", offloads[i]);
        program_expect_text(&result, expected, offloads[i]);
        program_free(&result);
    }
    free(expected);
}

/* A GPU is used without being asked for. */
Test(vulkan_faults, a_gpu_takes_the_model_by_itself)
{
    need_model();
    machine("discrete");
    struct program_result result = PROGRAM("plan", "-m", MODEL);
    cr_assert_eq(result.status, 0, "%s", result.err);
    cr_assert(strstr(result.out, "blk.0.attn_q.weight") && strstr(result.out, "  vulkan0\n"), "%s",
              result.out);
    program_free(&result);
}

/* Submissions of a run, by the number of tokens and of layers on the device. */
static unsigned submissions(const char *tokens, const char *offload)
{
    unsigned count = 0;
    struct program_result result = PROGRAM("-m", MODEL, "-p", "Once upon a time", "--temp", "0", "-n", tokens,
                                           "--backend", "vulkan", "--offload", offload);
    cr_assert_eq(result.status, 0, "%s", result.err);
    const char *said = strstr(result.err, "submissions: ");
    cr_assert(said && sscanf(said, "submissions: %u", &count) == 1, "%s", result.err);
    program_free(&result);
    return count;
}

Test(vulkan_faults, one_submission_a_token)
{
    static const char *const machines[] = {"count", "discrete count"}, *const offloads[] = {"all", "3"};
    need_model();
    for (size_t i = 0; i < 2; i++)
        for (size_t k = all_unless(SANITIZED, 0, (unsigned)i); k < 2; k += runs_apart(2)) {
            machine(machines[i]);
            cr_expect_eq(submissions("40", offloads[k]) - submissions("20", offloads[k]), 20, "%s, %s",
                         machines[i], offloads[k]);
        }
}

/* A submission ends where a slow device would have worked for long enough; here, after each operation. */
Test(vulkan_faults, work_is_submitted_in_pieces)
{
    char *expected = text_on_cpu();
    unsigned whole, pieces;
    machine("discrete count");
    whole = submissions("8", "all");
    setenv("ENGINE_VULKAN_SUBMISSION", "1e-9", 1);
    pieces = submissions("8", "all");
    cr_expect_gt(pieces, whole + 400, "%u, %u", whole, pieces); /* 8 tokens, 5 layers */
    struct program_result result = PROGRAM(RUN, "--backend", "vulkan", "--offload", "3");
    program_expect_text(&result, expected, "in pieces");
    program_free(&result);
    free(expected);
}

/* ---- Times --------------------------------------------------------------------------------------------- */

#define LAYERS 5 /* of the model */

/* How often a kernel was launched: the sum of its rows in the table of times. */
static unsigned launches(const char *log, const char *kernel)
{
    unsigned sum = 0;
    for (const char *line = log; (line = strstr(line, "times: ")) != NULL; line++) {
        char name[64], shape[64];
        unsigned count;
        double us, gigabytes, teraflops;
        if (sscanf(line, "times: %63s %63s %u %lf %lf %lf", name, shape, &count, &us, &gigabytes,
                   &teraflops) != 6)
            continue;
        cr_expect(us >= 0 && gigabytes >= 0 && teraflops >= 0, "%s", line);
        if (strncmp(name, kernel, strlen(kernel)) == 0) sum += count;
    }
    return sum;
}

static struct program_result timed(const char *tokens)
{
    return PROGRAM("-m", MODEL, "-p", "Once upon a time", "--temp", "0", "-n", tokens, "--backend", "vulkan",
                   "--offload", "all");
}

/* Recordings are replayed for each token, and their launches counted each time. */
Test(vulkan_faults, launches_are_timed)
{
    static const struct {
        const char *kernel;
        unsigned of_layer, others; /* launches for a token */
    } kernels[] = {
        {"norm", 2, 1}, {"rope", 2, 0}, {"cache_write", 2, 0}, {"attention", 1, 0}, {"matmul", 6, 1}};
    need_model();
    machine("");
    setenv("ENGINE_VULKAN_TIMES", "1", 1);
    struct program_result few = timed("10"), more = timed("20");
    cr_assert_eq(more.status, 0, "%s", more.err);
    for (size_t i = 0; i < sizeof kernels / sizeof *kernels; i++)
        cr_expect_eq(launches(more.err, kernels[i].kernel) - launches(few.err, kernels[i].kernel),
                     10 * (kernels[i].of_layer * LAYERS + kernels[i].others), "%s: %s", kernels[i].kernel,
                     more.err);
    cr_expect_str_eq(strstr(more.out, few.out) ? few.out : "", few.out, "%s", more.out);
    program_free(&few), program_free(&more);
}

Test(vulkan_faults, a_device_without_time_stamps_says_so)
{
    need_model();
    machine("timeless");
    setenv("ENGINE_VULKAN_TIMES", "1", 1);
    struct program_result result = timed("4");
    cr_assert_eq(result.status, 0, "%s", result.err);
    cr_expect_eq(program_count_lines(result.err, "has no time stamps"), 1, "%s", result.err);
    cr_expect_eq(launches(result.err, ""), 0, "%s", result.err);
    program_free(&result);
}

/* ---- Too little memory, lost devices ------------------------------------------------------------------- */

Test(vulkan_faults, less_memory_than_the_device_says_means_a_smaller_offload)
{
    static const char *const machines[] = {"discrete memory=20000000", "discrete memory=12000000",
                                           "memory=2500000", "memory=1500000", "memory=10"};
    char *expected = text_on_cpu();
    for (size_t i = 0; i < sizeof machines / sizeof *machines; i++) {
        machine(machines[i]);
        struct program_result result = PROGRAM(RUN, "--backend", "vulkan", "--offload", "all");
        program_expect_text(&result, expected, machines[i]);
        cr_assert_leq(program_count_lines(result.err, "offloading fewer layers"), 1, "%s: %s", machines[i],
                      result.err);
        if (i == 4) cr_assert(strstr(result.err, "memory"), "%s", result.err);
        program_free(&result);
    }
    free(expected);
}

Test(vulkan_faults, memory_that_runs_out_while_running_is_an_error)
{
    need_model();
    machine("submit=20");
    program_fails(PROGRAM(RUN, "--backend", "vulkan", "--offload", "all"), 0, "out of device memory");
}

Test(vulkan_faults, a_lost_device_is_an_error)
{
    static const char *const machines[] = {"lost=0",          "lost=1",          "lost=20",
                                           "discrete lost=0", "discrete lost=2", "discrete lost=30"};
    need_model();
    for (size_t i = 0; i < sizeof machines / sizeof *machines; i++) {
        machine(machines[i]);
        program_fails(PROGRAM(RUN, "--backend", "vulkan", "--offload", "3"), 0, "lost");
    }
}

/* What a recording has taken is lost if its part, a single operation here, can't be finished later. */
Test(vulkan_faults, a_recording_without_its_operations_is_an_error)
{
    struct fixture fixture;
    struct engine_recording *recording = NULL;
    machine("discrete pipelines=0");
    setenv("ENGINE_VULKAN_SUBMISSION", "1e-9", 1);
    fixture_open(&fixture, "vulkan", 0, 0, 0);
    struct engine_tensor *x = fixture_f32(&fixture, 64, 1, 1, NULL);
    const struct engine_op_binary args = {sizeof args, x, x, x};
    const struct engine_backend *api = fixture.api;
    cr_assert_eq(api->record_begin(fixture.stream), ENGINE_OK);
    cr_assert_eq(api->enqueue(fixture.stream, ENGINE_OP_ADD, &args), ENGINE_OK, "%s", fixture_message());
    cr_assert_neq(api->enqueue(fixture.stream, ENGINE_OP_ADD, &args), ENGINE_OK);
    cr_assert_neq(api->record_end(fixture.stream, &recording), ENGINE_OK);
    cr_assert(strstr(fixture_message(), "lost operations"), "%s", fixture_message());
    fixture_close(&fixture);
    vulkan_expect_no_complaints();
}

/* ---- No loader, no driver ------------------------------------------------------------------------------ */

/* One line where Vulkan was asked for, and where it wasn't as many as are expected; none where others
 * were. */
static void expect_cpu_takes_over(const char *reason, size_t lines_unasked)
{
    program_fails(PROGRAM(RUN, "--backend", "vulkan"), 1, reason);
    struct program_result not_asked = PROGRAM(RUN), cpu = PROGRAM(RUN, "--backend", "cpu");
    cr_assert_eq(not_asked.status, 0, "%s", not_asked.err);
    cr_assert_eq(program_count_lines(not_asked.err, "engine: "), lines_unasked, "%s", not_asked.err);
    cr_assert_eq(program_count_lines(not_asked.err, reason), lines_unasked, "%s", not_asked.err);
    cr_assert_eq(cpu.status, 0, "%s", cpu.err);
    cr_assert_null(strstr(cpu.err, "Vulkan"), "%s", cpu.err);
    program_free(&not_asked);
    program_free(&cpu);
    if (lines_unasked > 0) return;
    struct program_result verbose = PROGRAM(RUN, "-v"), devices = PROGRAM("devices");
    cr_assert(strstr(verbose.err, reason), "%s", verbose.err);
    cr_assert(strstr(devices.err, reason), "%s", devices.err);
    program_free(&verbose);
    program_free(&devices);
}

Test(vulkan_no_driver, is_said_in_one_line)
{
    static const char *const drivers[] = {FILES_ABSENT ".json", "/dev/null", "/proc/self/cmdline"};
    need_model();
    for (size_t i = 0; i < sizeof drivers / sizeof *drivers; i++) {
        setenv("VK_DRIVER_FILES", drivers[i], 1);
        setenv("VK_ICD_FILENAMES", drivers[i], 1);
        expect_cpu_takes_over("no device with a Vulkan 1.1 driver", 0);
    }
}

/* Told when the devices are opened too, which is not the first that asks. */
Test(vulkan_no_driver, nor_one_that_can_be_read)
{
    need_model();
    char *folder = files_folder();
    const char *manifest = files_path(folder, "driver.json");
    files_write_text(manifest, "garbage{");
    setenv("VK_DRIVER_FILES", manifest, 1);
    setenv("VK_ICD_FILENAMES", manifest, 1);
    expect_cpu_takes_over("manifest", 0);
    files_remove(folder);
    free(folder);
}

Test(vulkan_no_driver, nor_the_layers_that_are_asked_for)
{
    need_model();
    char *folder = files_folder();
    setenv("VK_LAYER_PATH", folder, 1);
    setenv("ENGINE_VULKAN_VALIDATION", "on", 1);
    expect_cpu_takes_over("vulkan-validationlayers", 1);
    files_remove(folder);
    free(folder);
}

Test(vulkan_no_driver, nor_layers_by_another_name)
{
    need_model();
    setenv("ENGINE_VULKAN_VALIDATION", "maybe", 1);
    program_fails(PROGRAM(RUN, "--backend", "vulkan"), 0,
                  "validation = maybe: choose \"off\", \"on\" or \"gpu\"");
}

Test(vulkan_no_driver, nor_more_columns_than_few)
{
    need_model();
    setenv("ENGINE_VULKAN_FEW_COLUMNS", "17", 1);
    program_fails(PROGRAM(RUN, "--backend", "vulkan"), 0,
                  "few_columns = 17: choose \"auto\" or a number from 1 to 16");
}

Test(vulkan_no_driver, nor_submissions_of_no_length)
{
    need_model();
    setenv("ENGINE_VULKAN_SUBMISSION", "0", 1);
    program_fails(PROGRAM(RUN, "--backend", "vulkan"), 0,
                  "submission = 0: choose \"auto\", \"off\" or seconds such as 0.2");
}

Test(vulkan_no_driver, nor_a_loader)
{
    need_model();
    char *folder = files_folder();
    files_write_text(files_path(folder, "libvulkan.so.1"), "no library");
    setenv("LD_LIBRARY_PATH", folder, 1);
    expect_cpu_takes_over("no Vulkan loader", 0);
    files_remove(folder);
    free(folder);
}

/* ---- Budgets ------------------------------------------------------------------------------------------- */

/* What the plan puts on vulkan0. */
static json_int_t planned_bytes(const char *memory)
{
    struct program_result result = PROGRAM("plan", "-m", MODEL, "--backend", "vulkan", "--offload", "all",
                                           "-b", "16", "--memory", memory, "--json");
    cr_assert_eq(result.status, 0, "%s", result.err);
    json_t *plan = json_loads(result.out, 0, NULL), *device;
    cr_assert(plan, "%s", result.out);
    json_int_t bytes = -1;
    size_t i;
    json_array_foreach(json_object_get(plan, "devices"), i, device)
    {
        if (strcmp(json_string_value(json_object_get(device, "name")), "vulkan0") == 0)
            bytes = json_integer_value(json_object_get(device, "total"));
    }
    json_decref(plan);
    program_free(&result);
    return bytes;
}

Test(vulkan_faults, every_budget_is_kept_and_gives_the_same_text)
{
    char *expected = text_on_cpu();
    machine("");
    uint64_t seed = 7;
    json_int_t least = INT64_MAX, most = 0;
    const int n_budgets = (int)all_or_sample(10, SANITIZED ? 3 : 6);
    for (int i = 0; i < n_budgets; i++) {
        char memory[64];
        uint32_t budget = i == 0 ? 0 : i == 1 ? 100000000 : random_bits(&seed) % 2000000;
        snprintf(memory, sizeof memory, "vulkan0=%u", budget);
        json_int_t bytes = planned_bytes(memory);
        cr_assert(bytes >= 0 && bytes <= (json_int_t)budget, "%s: the plan takes %lld", memory,
                  (long long)bytes);
        least = bytes < least ? bytes : least, most = bytes > most ? bytes : most;
        struct program_result result =
            PROGRAM(RUN, "--backend", "vulkan", "--offload", "all", "--memory", memory);
        program_expect_text(&result, expected, memory);
        if (bytes == 0) cr_assert(strstr(result.err, "runs on the CPU"), "%s: %s", memory, result.err);
        program_free(&result);
    }
    cr_assert(least == 0 && most > 1000000, "budgets from nothing to everything were meant");
    free(expected);
}

Test(vulkan_faults, wishes_over_a_budget_are_told)
{
    need_model();
    machine("");
    struct program_result result = PROGRAM("plan", "-m", MODEL, "--backend", "vulkan", "--offload", "0",
                                           "--place", "*=vulkan0", "--memory", "vulkan0=200K");
    cr_assert_eq(result.status, 0, "%s", result.err);
    cr_assert_eq(program_count_lines(result.err, "warning"), 1, "%s", result.err);
    cr_assert(strstr(result.err, "vulkan0: the tensors placed by --place take"), "%s", result.err);
    program_free(&result);
}

/* What the plan says is enough, and no more is taken than the budget: of a GPU's memory, that is, beside
 * which 20 MiB of the host's carry what goes there and back. */
Test(vulkan_faults, no_more_memory_is_taken_than_the_budget)
{
    static const char *const machines[] = {"peak", "discrete peak"};
    char *expected = text_on_cpu();
    for (int i = 0; i < 4; i += (int)runs_apart(3)) {
        char memory[64];
        long long peak = 0;
        machine(machines[i / 2]);
        json_int_t budget = planned_bytes("vulkan0=1G") + i % 2 * 65536;
        cr_assert_gt(budget, 1000000);
        snprintf(memory, sizeof memory, "vulkan0=%lld", (long long)budget);
        struct program_result result =
            PROGRAM(RUN, "--backend", "vulkan", "--offload", "all", "--memory", memory);
        program_expect_text(&result, expected, machines[i / 2]);
        cr_assert_null(strstr(result.err, "offloading fewer layers"), "%s", result.err);
        const char *said = strstr(result.err, "peak: ");
        cr_assert(said && sscanf(said, "peak: %lld", &peak) == 1, "%s", result.err);
        cr_assert_leq(peak - (i / 2 == 1 ? 20 << 20 : 0), (long long)budget, "%s", machines[i / 2]);
        program_free(&result);
    }
    free(expected);
}

/* ---- Several devices ----------------------------------------------------------------------------------- */

/* The driver's manifest twice. */
static void two_drivers(const char *folder)
{
    static const char *const manifests[] = {"/usr/share/vulkan/icd.d/lvp_icd.x86_64.json",
                                            "/usr/share/vulkan/icd.d/lvp_icd.json"};
    const char *found = access(manifests[0], R_OK) == 0 ? manifests[0] : manifests[1];
    char library[256], drivers[512];
    if (access(found, R_OK) != 0) cr_skip_test("no Mesa software driver here");
    size_t size;
    char *manifest = files_read(found, &size), *path = strstr(manifest, "\"library_path\"");
    cr_assert(path && sscanf(path, "\"library_path\" : \"%255[^\"]", library) == 1, "%s", manifest);
    for (int i = 0; i < 2; i++) {
        char text[512];
        snprintf(text, sizeof text,
                 "{\"file_format_version\": \"1.0.0\", \"ICD\": {\"api_version\": \"1.3.0\", "
                 "\"library_path\": \"%s%s\"}}",
                 library[0] == '/' ? "" : "/usr/share/vulkan/icd.d/", library);
        files_write_text(files_path(folder, i == 0 ? "0.json" : "1.json"), text);
    }
    snprintf(drivers, sizeof drivers, "%s/0.json:%s/1.json", folder, folder);
    setenv("VK_DRIVER_FILES", drivers, 1);
    setenv("VK_ICD_FILENAMES", drivers, 1);
    free(manifest);
}

/* By name, for the loader shows one driver twice, so that they are the same hardware. */
#define BOTH "vulkan:0,vulkan:1"

Test(vulkan_faults, two_devices_share_a_model)
{
    char *expected = text_on_cpu(), *folder = files_folder();
    two_drivers(folder);
    machine("");
    struct program_result devices = PROGRAM("devices");
    if (!strstr(devices.out, "vulkan1")) cr_skip_test("the loader takes the driver once only");
    program_free(&devices);
    struct program_result results[] = {
        PROGRAM(RUN, "--backend", "vulkan:1"),
        PROGRAM(RUN, "--backend", BOTH, "--memory", "vulkan0=900K", "--memory", "vulkan1=900K"),
        PROGRAM(RUN, "--backend", BOTH, "--place", "blk.[024].*=vulkan0", "--place", "blk.[13].*=vulkan1"),
        PROGRAM(RUN, "--backend", "vulkan:1,vulkan:0", "--offload", "3"),
        PROGRAM(RUN, "--backend", BOTH, "--place", "blk.*.ffn_*=vulkan0", "--place", "*.attn_q.weight=cpu",
                "--place", "blk.2.cache=vulkan1"),
    };
    for (size_t i = 0; i < sizeof results / sizeof *results; i++) {
        program_expect_text(&results[i], expected, "two devices");
        program_free(&results[i]);
    }
    struct program_result plan = PROGRAM("plan", "-m", MODEL, "-b", "16", "--backend", BOTH, "--memory",
                                         "vulkan0=900K", "--memory", "vulkan1=900K");
    cr_assert_eq(plan.status, 0, "%s", plan.err);
    cr_assert(strstr(plan.out, "  vulkan0\n") && strstr(plan.out, "  vulkan1\n"), "%s", plan.out);
    program_free(&plan);
    program_fails(PROGRAM(RUN, "--backend", "vulkan:2"), 0, "vulkan");
    files_remove(folder);
    free(folder), free(expected);
}

/* The copies between them come to an end if either is lost. */
Test(vulkan_faults, one_of_two_devices_is_lost)
{
    static const char *const machines[] = {"lost=20", "discrete lost=31", "unwaited=25", "unwaited=26",
                                           "unwaited=27"};
    char *folder = files_folder();
    need_model();
    two_drivers(folder);
    machine("");
    struct program_result devices = PROGRAM("devices");
    if (!strstr(devices.out, "vulkan1")) cr_skip_test("the loader takes the driver once only");
    program_free(&devices);
    for (size_t i = 0; i < sizeof machines / sizeof *machines; i += runs_apart(2)) {
        machine(machines[i]);
        program_fails(PROGRAM(RUN, "--backend", BOTH, "--place", "blk.[024].*=vulkan0", "--place",
                              "blk.[13].*=vulkan1"),
                      0, "lost");
    }
    files_remove(folder);
    free(folder);
}

/* ---- The cache of pipelines ---------------------------------------------------------------------------- */

static char cache_path[512];

static void find_cache(const char *folder)
{
    char command[600], text[512] = "";
    snprintf(command, sizeof command, "find %s -type f -name 'vulkan-*'", folder);
    FILE *found = popen(command, "r");
    cr_assert(found && fgets(text, sizeof text, found), "no cache below %s", folder);
    pclose(found);
    text[strcspn(text, "\n")] = 0;
    snprintf(cache_path, sizeof cache_path, "%s", text);
}

/* Mesa's own cache stays where it is, for compiling all shaders takes seconds. */
static void keep_driver_cache(void)
{
    const char *folder = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
    char path[512];
    if (folder && *folder)
        snprintf(path, sizeof path, "%s", folder);
    else
        snprintf(path, sizeof path, "%s/.cache", home ? home : "");
    setenv("MESA_SHADER_CACHE_DIR", path, 0);
}

static void run_with_cache(const char *expected, const char *what)
{
    struct program_result result = PROGRAM(RUN, "--backend", "vulkan", "--offload", "all");
    program_expect_text(&result, expected, what);
    program_free(&result);
}

Test(vulkan_faults, damaged_pipeline_caches_are_made_anew)
{
    char *expected = text_on_cpu(), *folder = files_folder();
    size_t size, again;
    setenv("ENGINE_TEST_VULKAN_VALIDATION", "off", 1); /* many runs: and nothing here is the layers' */
    machine("");
    keep_driver_cache();
    setenv("XDG_CACHE_HOME", folder, 1);
    run_with_cache(expected, "no cache");
    find_cache(folder);
    char *sound = files_read(cache_path, &size), *damaged = malloc(size);
    cr_assert_gt(size, 100);
    uint64_t seed = 3;
    const int n_damages = (int)all_unless(SANITIZED, 10, 7);
    for (int i = 0; i < n_damages; i++) {
        memcpy(damaged, sound, size);
        size_t kept = size;
        if (i == 0)
            kept = 0; /* empty */
        else if (i == 1)
            kept = 50; /* half a header */
        else if (i == 2)
            kept = size - 1; /* a byte too few */
        else if (i == 3)
            memset(damaged + 16, 0xff, 8); /* says that it is huge */
        else if (i == 4)
            memset(damaged + 32, 0x55, 8); /* another device's */
        else if (i == 5)
            memset(damaged + 40, 0x55, 16); /* another driver's */
        else
            damaged[random_bits(&seed) % size] ^= (char)(1 << i % 8); /* a bit */
        files_write(cache_path, damaged, kept);
        run_with_cache(expected, "damaged cache");
        free(files_read(cache_path, &again));
        cr_assert_gt(again, size / 2, "damage %d: the cache was not made anew", i);
    }
    unlink(cache_path); /* a link that leads elsewhere, a folder in its place: left alone */
    cr_assert_eq(symlink("/etc/passwd", cache_path), 0);
    run_with_cache(expected, "a link");
    unlink(cache_path);
    cr_assert_eq(mkdir(cache_path, 0700), 0);
    run_with_cache(expected, "a folder");
    free(sound), free(damaged);
    files_remove(folder);
    free(folder), free(expected);
}

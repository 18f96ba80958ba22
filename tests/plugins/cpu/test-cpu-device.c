/* test-cpu-device.c: the CPU plugin apart from its arithmetic: the device, its memory, errors while
 * operations run, recordings, and the order of operations that several threads run. */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "backend-fixture.h"

#define COUNT(array) (sizeof(array) / sizeof *(array))

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

TestSuite(cpu_device);
TestSuite(cpu_stream, .init = setup, .fini = teardown);

/* ---- The device ------------------------------------------------------------------------------------- */

Test(cpu_device, describes_itself)
{
    struct fixture bare;
    fixture_load(&bare, "cpu");
    struct engine_device_info info = {.struct_size = sizeof info};
    uint32_t count;
    cr_assert_eq(bare.api->device_count(&count), ENGINE_OK);
    cr_assert_eq(count, 1);
    cr_assert_eq(bare.api->device_info(0, &info), ENGINE_OK);
    cr_assert_str_eq(info.id, "");
    cr_assert_eq(info.kind, ENGINE_DEVICE_CPU);
    cr_assert_gt(info.memory_free, 0);
    cr_assert_lt(info.memory_free, info.memory_total);
    cr_assert_eq(info.alignment, 64);
    cr_assert_gt(info.n_threads, 0);
    cr_assert_eq(bare.api->device_info(1, &info), ENGINE_ERROR_ARGUMENT);
    fixture_close(&bare);
}

Test(cpu_device, fills_no_more_of_a_struct_than_its_owner_knows)
{
    struct fixture bare;
    fixture_load(&bare, "cpu");
    struct engine_device_info info;
    memset(&info, 0x55, sizeof info);
    info.struct_size = offsetof(struct engine_device_info, memory_total);
    cr_assert_eq(bare.api->device_info(0, &info), ENGINE_OK);
    cr_assert_eq(info.struct_size, offsetof(struct engine_device_info, memory_total));
    cr_assert_eq(info.memory_total, 0x5555555555555555u);
    fixture_close(&bare);
}

Test(cpu_device, opens_and_closes_again_and_again)
{
    struct matmul_case c = {.type = ENGINE_TYPE_Q8_0, .k = 64, .rows = 20, .tokens = 3};
    for (uint32_t i = 0; i < 30; i++) {
        struct fixture f;
        fixture_open(&f, "cpu", 0, 1 + i % 4, 0);
        if (i % 3 == 0) free(run_matmul_case(&f, &c));
        fixture_close(&f);
    }
}

Test(cpu_device, two_at_once_are_independent)
{
    struct matmul_case c = {.type = ENGINE_TYPE_F16, .k = 50, .rows = 20, .tokens = 3};
    struct fixture a, b;
    fixture_open(&a, "cpu", 0, 2, 0);
    fixture_open(&b, "cpu", 0, 3, 0);
    float *of_a = run_matmul_case(&a, &c), *of_b = run_matmul_case(&b, &c);
    cr_assert(memcmp(of_a, of_b, 60 * sizeof *of_a) == 0);
    free(of_a), free(of_b);
    fixture_close(&a);
    fixture_close(&b);
}

Test(cpu_device, refuses_an_instruction_set_that_there_is_not)
{
    struct fixture bare;
    fixture_load(&bare, "cpu");
    setenv("ENGINE_CPU_ISA", "avx9000", 1);
    struct engine_device_options options = {.struct_size = sizeof options};
    struct engine_device *device;
    cr_assert_eq(bare.api->device_open(0, &options, &device), ENGINE_ERROR_ARGUMENT);
    cr_assert(strstr(fixture_message(), "avx9000"));
    fixture_close(&bare);
}

/* ---- Memory ----------------------------------------------------------------------------------------- */

static struct engine_weight_desc weight_desc(uint32_t type, uint64_t k, uint64_t rows, uint32_t uses)
{
    return (struct engine_weight_desc){.struct_size = sizeof(struct engine_weight_desc),
                                       .name = "w",
                                       .type = type,
                                       .type_name = "T",
                                       .ne = {k, rows, 1, 1},
                                       .uses = uses,
                                       .data_size = format_bytes(type, k) * rows};
}

Test(cpu_device, refuses_an_unknown_choice_of_products)
{
    struct fixture f;
    struct engine_weight_desc desc = weight_desc(ENGINE_TYPE_Q4_0, 64, 40, ENGINE_WEIGHT_MATMUL);
    uint64_t bytes;
    fixture_open(&f, "cpu", 0, 1, 0);
    setenv("ENGINE_CPU_INTEGERS", "some", 1);
    cr_assert_eq(f.api->weight_size(f.device, &desc, &bytes), ENGINE_ERROR_ARGUMENT);
    cr_assert(strstr(fixture_message(), "'some'"));
    unsetenv("ENGINE_CPU_INTEGERS");
    fixture_close(&f);
}

Test(cpu_device, keeps_to_its_memory_limit)
{
    struct fixture f;
    struct engine_weight_desc desc = weight_desc(ENGINE_TYPE_Q4_0, 64, 40, ENGINE_WEIGHT_MATMUL);
    fixture_open(&f, "cpu", 0, 1, 0);
    uint64_t bytes;
    cr_assert_eq(f.api->weight_size(f.device, &desc, &bytes), ENGINE_OK);
    fixture_close(&f);

    uint64_t seed = 1;
    void *data = random_weight(&seed, ENGINE_TYPE_Q4_0, 64, 40);
    desc.data = data;
    for (int less = 0; less < 2; less++) {
        fixture_open(&f, "cpu", 0, 1, 1000 + bytes - (uint64_t)less);
        struct engine_buffer *buffer, *other = NULL;
        struct engine_weight *weight = NULL;
        cr_assert_eq(f.api->buffer_create(f.device, 1000, &buffer), ENGINE_OK);
        cr_assert_eq(f.api->weight_create(f.device, &desc, &weight), less ? ENGINE_ERROR_MEMORY : ENGINE_OK);
        cr_assert_eq(f.api->buffer_create(f.device, bytes, &other), ENGINE_ERROR_MEMORY);
        f.api->weight_destroy(weight);
        f.api->buffer_destroy(buffer);
        cr_assert_eq(f.api->buffer_create(f.device, 1000 + bytes - (uint64_t)less, &other), ENGINE_OK);
        f.api->buffer_destroy(other);
        fixture_close(&f);
    }
    free(data);
}

Test(cpu_device, rows_alone_take_no_memory_where_the_file_is_kept)
{
    setup();
    struct engine_weight_desc desc = weight_desc(ENGINE_TYPE_Q8_0, 64, 40, ENGINE_WEIGHT_ROWS);
    desc.data_is_kept = 1;
    uint64_t bytes;
    cr_assert_eq(fixture.api->weight_size(fixture.device, &desc, &bytes), ENGINE_OK);
    cr_assert_eq(bytes, 0);
    desc.uses |= ENGINE_WEIGHT_MATMUL;
    cr_assert_eq(fixture.api->weight_size(fixture.device, &desc, &bytes), ENGINE_OK);
    cr_assert_geq(bytes, desc.data_size);
    teardown();
}

Test(cpu_device, buffers_are_zero_and_aligned)
{
    setup();
    static const uint64_t sizes[] = {1, 100, 4096, 1 << 20, 5000001};
    for (size_t i = 0; i < COUNT(sizes); i++) {
        struct engine_buffer *buffer;
        cr_assert_eq(fixture.api->buffer_create(fixture.device, sizes[i], &buffer), ENGINE_OK);
        uint8_t *bytes = fixture.api->buffer_pointer(buffer);
        cr_assert_eq((uintptr_t)bytes % 64, 0);
        for (uint64_t j = 0; j < sizes[i]; j++) cr_assert_eq(bytes[j], 0);
        fixture.api->buffer_destroy(buffer);
    }
    struct engine_buffer *buffer;
    cr_assert_eq(fixture.api->buffer_create(fixture.device, 0, &buffer), ENGINE_ERROR_ARGUMENT);
    cr_assert_eq(fixture.api->buffer_create(fixture.device, UINT64_MAX, &buffer), ENGINE_ERROR_MEMORY);
    fixture.api->buffer_destroy(NULL);
    fixture.api->weight_destroy(NULL);
    teardown();
}

/* As many bytes as several threads copy, which are no whole number of parts, and what lies around them. */
Test(cpu_stream, large_transfers_move_each_byte)
{
    enum { SIZE = 1500007, BEFORE = 13, ALL = SIZE + 100 };
    const struct engine_backend *api = fixture.api;
    struct engine_buffer *buffer;
    cr_assert_eq(api->buffer_create(fixture.device, ALL, &buffer), ENGINE_OK);
    uint8_t *in = malloc(SIZE), *out = calloc(ALL, 1), *bytes = api->buffer_pointer(buffer);
    for (size_t i = 0; i < SIZE; i++) in[i] = (uint8_t)(i * 2654435761u >> 24 | 1);
    cr_assert_eq(api->write(fixture.stream, buffer, BEFORE, in, SIZE), ENGINE_OK);
    cr_expect_eq(memcmp(bytes + BEFORE, in, SIZE), 0);
    for (size_t i = 0; i < ALL; i++)
        if (i < BEFORE || i >= BEFORE + SIZE) cr_expect_eq(bytes[i], 0);
    cr_assert_eq(api->read(fixture.stream, buffer, BEFORE, out + 1, SIZE), ENGINE_OK);
    cr_expect_eq(memcmp(out + 1, in, SIZE), 0);
    cr_expect_eq(out[0], 0);
    for (size_t i = 1 + SIZE; i < ALL; i++) cr_expect_eq(out[i], 0);
    free(in);
    free(out);
    api->buffer_destroy(buffer);
}

static struct engine_tensor *floats(uint64_t ne0, uint64_t ne1, uint64_t ne2)
{
    return fixture_f32(&fixture, ne0, ne1, ne2, NULL);
}

/* ---- Errors while operations run -------------------------------------------------------------------- */

static void expect_error_while_running(uint32_t op, const void *args)
{
    cr_expect_eq(fixture_enqueue(&fixture, op, args), ENGINE_OK);
    fixture_message();
    cr_expect_eq(fixture.api->stream_wait(fixture.stream), ENGINE_ERROR_ARGUMENT);
    cr_expect(strstr(fixture_message(), "out of range"));
    cr_expect_eq(fixture.api->stream_wait(fixture.stream), ENGINE_OK); /* it is reported once */
}

Test(cpu_stream, numbers_out_of_range_are_errors)
{
    struct engine_tensor *bad = fixture_i32(&fixture, 2, 1, (int32_t[]){0, 7});
    struct engine_tensor *negative = fixture_i32(&fixture, 2, 1, (int32_t[]){-2, 0});
    struct engine_tensor *fine = fixture_i32(&fixture, 2, 1, (int32_t[]){0, 1});
    struct engine_tensor *zeros = fixture_i32(&fixture, 2, 1, (int32_t[]){0, 0});
    struct engine_op_get_rows rows = {sizeof rows, floats(8, 7, 1), bad, floats(8, 2, 1)};
    expect_error_while_running(ENGINE_OP_GET_ROWS, &rows);
    rows.rows = negative;
    expect_error_while_running(ENGINE_OP_GET_ROWS, &rows);

    struct engine_tensor *cache = fixture_tensor(&fixture, ENGINE_TYPE_F16, (uint64_t[]){8, 2, 1, 2}, NULL);
    struct engine_op_cache_write write = {sizeof write, floats(8, 1, 2), bad, cache};
    expect_error_while_running(ENGINE_OP_CACHE_WRITE, &write);
    write.slots = negative;
    expect_error_while_running(ENGINE_OP_CACHE_WRITE, &write);

    struct engine_op_attention attention = {.struct_size = sizeof attention,
                                            .q = floats(8, 1, 2),
                                            .k = cache,
                                            .v = cache,
                                            .block_table = zeros,
                                            .sequences = zeros,
                                            .positions = fine,
                                            .output = floats(8, 1, 2),
                                            .scale = 1};
    attention.block_table = fixture_i32(&fixture, 2, 1, (int32_t[]){5, 5});
    expect_error_while_running(ENGINE_OP_ATTENTION, &attention);
    attention.block_table = fine, attention.positions = bad; /* behind the table's end */
    expect_error_while_running(ENGINE_OP_ATTENTION, &attention);
    attention.positions = fine, attention.sequences = bad;
    expect_error_while_running(ENGINE_OP_ATTENTION, &attention);
    attention.sequences = zeros;
    fixture_run(&fixture, ENGINE_OP_ATTENTION, &attention);
}

/* ---- Order and recordings --------------------------------------------------------------------------- */

enum { N_TENSORS = 6, N_WEIGHTS = 3, WIDTH = 64, TOKENS = 5, N_OPS = 80 };

/* Random operations among a few tensors, so that most depend on several before them. */
struct program {
    struct fixture *fixture;
    struct engine_tensor *tensors[N_TENSORS], *weights[N_WEIGHTS], *norm, *positions;
    void *data[N_WEIGHTS];
};

static void program_create(struct program *program, struct fixture *f)
{
    static const uint32_t types[N_WEIGHTS] = {ENGINE_TYPE_F32, ENGINE_TYPE_Q8_0, ENGINE_TYPE_Q4_0};
    uint64_t seed = 99;
    program->fixture = f;
    for (int i = 0; i < N_TENSORS; i++) {
        float *start = random_floats(&seed, WIDTH * TOKENS);
        program->tensors[i] = fixture_f32(f, WIDTH, TOKENS, 1, start);
        free(start);
    }
    for (int i = 0; i < N_WEIGHTS; i++) {
        program->data[i] = random_weight(&seed, types[i], WIDTH, WIDTH);
        program->weights[i] =
            fixture_weight(f, types[i], WIDTH, WIDTH, ENGINE_WEIGHT_MATMUL, false, program->data[i]);
    }
    float *gains = random_floats(&seed, WIDTH);
    program->norm = fixture_weight(f, ENGINE_TYPE_F32, WIDTH, 1, ENGINE_WEIGHT_VALUES, false, gains);
    free(gains);
    program->positions = fixture_i32(f, TOKENS, 1, (int32_t[]){3, 1, 4, 1, 5});
}

static void enqueue(struct program *program, uint32_t op, const void *args)
{
    cr_assert_eq(fixture_enqueue(program->fixture, op, args), ENGINE_OK, "%s", fixture_message());
}

/* One of the operations; values stay of the order of 1 through the norms. */
static void enqueue_random(struct program *program, uint64_t *seed)
{
    uint32_t which = random_bits(seed) % 5, from = random_bits(seed) % N_TENSORS,
             to = random_bits(seed) % N_TENSORS;
    struct engine_tensor *a = program->tensors[from], *out = program->tensors[to];
    struct engine_tensor *b = program->tensors[random_bits(seed) % N_TENSORS];
    if (which == 0 || (which == 1 && a == out)) {
        struct engine_op_norm norm = {
            .struct_size = sizeof norm, .input = a, .output = out, .weight = program->norm, .epsilon = 1e-5f};
        enqueue(program, ENGINE_OP_NORM, &norm);
    } else if (which <= 2 && a != out) {
        struct engine_op_matmul matmul = {.struct_size = sizeof matmul,
                                          .weight = program->weights[random_bits(seed) % N_WEIGHTS],
                                          .input = a,
                                          .output = out,
                                          .residual = random_bits(seed) & 1 ? out : NULL,
                                          .scale = 0.1f};
        enqueue(program, ENGINE_OP_MATMUL, &matmul);
    } else if (which == 3) {
        struct engine_tensor heads_in = *a, heads_out = *out;
        heads_in.ne[0] = heads_out.ne[0] = 16, heads_in.ne[1] = heads_out.ne[1] = 4;
        heads_in.ne[2] = heads_out.ne[2] = TOKENS;
        heads_in.nb[2] = heads_out.nb[2] = WIDTH * 4, heads_in.nb[1] = heads_out.nb[1] = 64;
        struct engine_op_rope rope = {.struct_size = sizeof rope,
                                      .input = &heads_in,
                                      .positions = program->positions,
                                      .output = &heads_out,
                                      .n_dims = 16,
                                      .pairs = random_bits(seed) & 1,
                                      .theta = 10000};
        enqueue(program, ENGINE_OP_ROPE, &rope);
    } else {
        struct engine_op_binary add = {sizeof add, a, b, out};
        enqueue(program, random_bits(seed) & 1 ? ENGINE_OP_ADD : ENGINE_OP_MUL, &add);
        struct engine_op_norm norm = {
            .struct_size = sizeof norm, .input = out, .output = out, .epsilon = 1e-5f};
        enqueue(program, ENGINE_OP_NORM, &norm);
    }
}

/* All tensors one after the other. */
static float *program_result(struct program *program)
{
    size_t n = (size_t)WIDTH * TOKENS;
    float *all = malloc(N_TENSORS * n * sizeof *all);
    cr_assert(all);
    for (size_t i = 0; i < N_TENSORS; i++) {
        float *values_of = fixture_read(program->fixture, program->tensors[i]);
        memcpy(all + i * n, values_of, n * sizeof *all);
        free(values_of);
    }
    return all;
}

static void program_free(struct program *program)
{
    for (int i = 0; i < N_WEIGHTS; i++) free(program->data[i]);
}

/* Runs a program; waits after each operation where `step` is set. */
static float *run_program(uint32_t n_threads, uint64_t seed, bool step)
{
    struct fixture f;
    fixture_open(&f, "cpu", 0, n_threads, 0);
    struct program program;
    program_create(&program, &f);
    for (int i = 0; i < N_OPS; i++) {
        enqueue_random(&program, &seed);
        if (step) cr_assert_eq(f.api->stream_wait(f.stream), ENGINE_OK);
    }
    float *result = program_result(&program);
    fixture_close(&f);
    program_free(&program);
    return result;
}

Test(cpu_device, operations_take_effect_in_order)
{
    for (uint64_t seed = 0; seed < 12; seed++) {
        float *one_by_one = run_program(1, seed, true);
        for (uint32_t n_threads = 1; n_threads <= 4; n_threads++) {
            float *at_once = run_program(n_threads, seed, false);
            cr_assert(memcmp(one_by_one, at_once, sizeof(float) * N_TENSORS * WIDTH * TOKENS) == 0,
                      "program %d, %u threads", (int)seed, n_threads);
            free(at_once);
        }
        free(one_by_one);
    }
}

Test(cpu_stream, a_recording_replays_what_was_enqueued)
{
    const struct engine_backend *api = fixture.api;
    struct program program, again;
    program_create(&program, &fixture);
    program_create(&again, &fixture);
    for (int run = 0; run < 3; run++) {
        uint64_t seed = 5;
        for (int i = 0; i < N_OPS; i++) enqueue_random(&program, &seed);
    }
    uint64_t seed = 5;
    struct engine_recording *recording;
    cr_assert_eq(api->record_begin(fixture.stream), ENGINE_OK);
    cr_assert_eq(api->record_begin(fixture.stream), ENGINE_ERROR_ARGUMENT);
    for (int i = 0; i < N_OPS; i++) enqueue_random(&again, &seed);
    cr_assert_eq(api->replay(fixture.stream, NULL), ENGINE_ERROR_ARGUMENT);
    cr_assert_eq(api->record_end(fixture.stream, &recording), ENGINE_OK);
    cr_assert_eq(api->record_end(fixture.stream, &recording), ENGINE_ERROR_ARGUMENT);

    /* Also in another stream of the device, and between other operations. */
    struct engine_stream *other;
    cr_assert_eq(api->stream_create(fixture.device, &other), ENGINE_OK);
    cr_assert_eq(api->replay(fixture.stream, recording), ENGINE_OK);
    cr_assert_eq(api->stream_wait(fixture.stream), ENGINE_OK);
    cr_assert_eq(api->replay(other, recording), ENGINE_OK);
    cr_assert_eq(api->replay(other, recording), ENGINE_OK);
    cr_assert_eq(api->stream_flush(other), ENGINE_OK);
    cr_assert_eq(api->stream_wait(other), ENGINE_OK);
    api->stream_destroy(other);

    float *direct = program_result(&program), *replayed = program_result(&again);
    cr_assert(memcmp(direct, replayed, sizeof(float) * N_TENSORS * WIDTH * TOKENS) == 0);
    free(direct), free(replayed);
    api->recording_destroy(recording);
    program_free(&program);
    program_free(&again);
}

Test(cpu_stream, a_recording_reads_its_inputs_when_it_is_replayed)
{
    const struct engine_backend *api = fixture.api;
    float source[3 * 4] = {0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2};
    struct engine_tensor *rows = fixture_i32(&fixture, 1, 1, NULL), *out = floats(4, 1, 1);
    struct engine_op_get_rows args = {sizeof args, fixture_f32(&fixture, 4, 3, 1, source), rows, out};
    struct engine_recording *recording;
    cr_assert_eq(api->record_begin(fixture.stream), ENGINE_OK);
    cr_assert_eq(fixture_enqueue(&fixture, ENGINE_OP_GET_ROWS, &args), ENGINE_OK);
    int32_t row = 0;
    cr_assert_eq(api->write(fixture.stream, rows->buffer, 0, &row, 4), ENGINE_ERROR_ARGUMENT);
    cr_assert_eq(api->record_end(fixture.stream, &recording), ENGINE_OK);
    for (row = 2; row >= 0; row--) {
        cr_assert_eq(api->write(fixture.stream, rows->buffer, 0, &row, 4), ENGINE_OK);
        cr_assert_eq(api->replay(fixture.stream, recording), ENGINE_OK);
        float *got = fixture_read(&fixture, out);
        cr_assert_eq(got[3], (float)row);
        free(got);
    }
    api->recording_destroy(recording);
    api->recording_destroy(NULL);
    api->stream_destroy(NULL);
}

/* check-streams.c: the order of enqueued work, several streams, recordings, several devices in several
 * threads, and repeated opening and closing. */
#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "check/cases.h"
#include "check/formats.h"
#include "check/suite.h"

/* ---- Programs: random operations on a few tensors, so that most depend on several earlier ones ---- */

enum { N_TENSORS = 6, WIDTH = 64, TOKENS = 5, N_OPS = 80 };
#define N_VALUES  ((size_t)WIDTH * TOKENS) /* of a tensor */
#define N_WEIGHTS ((size_t)WIDTH * WIDTH)
enum claimed { CLAIMS_MATMUL = 1, CLAIMS_ADD = 2, CLAIMS_MUL = 4, CLAIMS_NORM = 8 };

struct program {
    struct fixture *fixture;
    struct engine_tensor *tensors[N_TENSORS], *weight;
    unsigned claims; /* bits of enum claimed */
};

static struct engine_op_matmul matmul_of(const struct program *program, const struct engine_tensor *a,
                                         const struct engine_tensor *out)
{
    return (struct engine_op_matmul){
        .struct_size = sizeof(struct engine_op_matmul), .weight = program->weight, .input = a, .output = out};
}

/* A weight that roughly preserves the size of values. */
static struct engine_tensor *make_weight(struct fixture *fixture, uint64_t *seed)
{
    struct engine_weight_desc desc = {.struct_size = sizeof desc,
                                      .type = ENGINE_TYPE_F32,
                                      .ne = {WIDTH, WIDTH, 1, 1},
                                      .uses = ENGINE_WEIGHT_MATMUL,
                                      .name = "w",
                                      .type_name = "F32",
                                      .data_size = N_WEIGHTS * 4};
    uint64_t bytes;
    if (fixture->api->weight_size(fixture->device, &desc, &bytes) != ENGINE_OK) return NULL;
    float *values = fixture_hold(fixture, random_floats(seed, N_WEIGHTS));
    for (size_t i = 0; i < N_WEIGHTS; i++) values[i] /= 8;
    return fixture_weight(fixture, ENGINE_TYPE_F32, WIDTH, WIDTH, ENGINE_WEIGHT_MATMUL, false, values);
}

static struct program make_program(struct fixture *fixture)
{
    struct program program = {.fixture = fixture};
    uint64_t seed = 99;
    for (int i = 0; i < N_TENSORS; i++) {
        float *start = fixture_hold(fixture, random_floats(&seed, N_VALUES));
        program.tensors[i] = fixture_f32(fixture, WIDTH, TOKENS, 1, start);
    }
    struct engine_tensor *a = program.tensors[0], *b = program.tensors[1];
    struct engine_op_binary add = {sizeof add, a, b, b};
    struct engine_op_norm norm = {.struct_size = sizeof norm, .input = a, .output = b, .epsilon = 1e-5f};
    program.weight = make_weight(fixture, &seed);
    struct engine_op_matmul matmul = matmul_of(&program, a, b);
    if (program.weight && fixture_supports(fixture, ENGINE_OP_MATMUL, &matmul))
        program.claims |= CLAIMS_MATMUL;
    if (fixture_supports(fixture, ENGINE_OP_ADD, &add)) program.claims |= CLAIMS_ADD;
    if (fixture_supports(fixture, ENGINE_OP_MUL, &add)) program.claims |= CLAIMS_MUL;
    if (fixture_supports(fixture, ENGINE_OP_NORM, &norm)) program.claims |= CLAIMS_NORM;
    return program;
}

static void must_enqueue(struct program *program, struct engine_stream *stream, uint32_t op, const void *args)
{
    fixture_must(program->fixture, program->fixture->api->enqueue(stream, op, args), "enqueue");
}

/* One of the claimed operations, or a copy if `may_copy` and none fits. */
static void enqueue_random(struct program *program, struct engine_stream *stream, uint64_t *seed,
                           bool may_copy)
{
    struct engine_tensor *a = program->tensors[random_bits(seed) % N_TENSORS];
    struct engine_tensor *b = program->tensors[random_bits(seed) % N_TENSORS];
    struct engine_tensor *out = program->tensors[random_bits(seed) % N_TENSORS];
    const struct engine_backend *api = program->fixture->api;
    struct engine_op_binary add = {sizeof add, a, b, out};
    struct engine_op_norm norm = {.struct_size = sizeof norm, .input = a, .output = out, .epsilon = 1e-5f};
    struct engine_op_norm again = {
        .struct_size = sizeof again, .input = out, .output = out, .epsilon = 1e-5f};
    struct engine_op_matmul matmul = matmul_of(program, a, out);
    uint32_t which = random_bits(seed) % 4;
    /* Sums and products only if a norm brings them back to size. */
    if (which == 0 && (program->claims & CLAIMS_ADD) && (program->claims & CLAIMS_NORM)) {
        must_enqueue(program, stream, ENGINE_OP_ADD, &add);
        must_enqueue(program, stream, ENGINE_OP_NORM, &again);
    } else if (which == 1 && (program->claims & CLAIMS_MUL) && (program->claims & CLAIMS_NORM)) {
        must_enqueue(program, stream, ENGINE_OP_MUL, &add);
        must_enqueue(program, stream, ENGINE_OP_NORM, &again);
    } else if (which == 2 && (program->claims & CLAIMS_NORM)) {
        must_enqueue(program, stream, ENGINE_OP_NORM, &norm);
    } else if (a != out && (program->claims & CLAIMS_MATMUL)) {
        must_enqueue(program, stream, ENGINE_OP_MATMUL, &matmul);
    } else if (a != out && may_copy) {
        fixture_must(
            program->fixture,
            api->copy(stream, out->buffer, out->offset, a->buffer, a->offset, N_VALUES * sizeof(float)),
            "copy");
    }
}

/* All tensors' values, one after the other; owned by the fixture. */
static float *values_of(struct program *program)
{
    struct fixture *fixture = program->fixture;
    float *all = fixture_room(fixture, N_TENSORS * N_VALUES, sizeof *all);
    for (size_t i = 0; i < N_TENSORS; i++) {
        float *values = fixture_read(fixture, program->tensors[i]);
        memcpy(all + i * N_VALUES, values, N_VALUES * sizeof *all);
        free(values);
    }
    return all;
}

static void expect_alike(struct fixture *fixture, const float *got, const float *wanted, const char *what)
{
    double difference = 0, size = 0;
    for (size_t i = 0; i < N_TENSORS * N_VALUES; i++) {
        difference += pow((double)got[i] - (double)wanted[i], 2);
        size += pow((double)wanted[i], 2);
    }
    if (!(sqrt(difference) <= 1e-3 * sqrt(size)))
        fixture_fail(fixture, "%s: another result than one by one, with waiting", what);
}

/* The result of a program with a wait after each operation. */
static float *one_by_one(struct fixture *fixture, uint64_t seed, bool may_copy)
{
    struct program program = make_program(fixture);
    for (int i = 0; i < N_OPS; i++) {
        enqueue_random(&program, fixture->stream, &seed, may_copy);
        fixture_must(fixture, fixture->api->stream_wait(fixture->stream), "stream_wait");
    }
    return values_of(&program);
}

/* ---- Streams --------------------------------------------------------------------------------------- */

static void in_order(struct suite *suite, const void *args)
{
    struct fixture *fixture = &suite->fixture;
    (void)args;
    for (uint64_t seed = 0; seed < 8; seed++) {
        fixture_describe(fixture, "%d operations on %d tensors [%d, %d], seed %llu", N_OPS, N_TENSORS, WIDTH,
                         TOKENS, (unsigned long long)seed);
        float *wanted = one_by_one(fixture, seed, true);
        struct program program = make_program(fixture);
        uint64_t random = seed;
        for (int i = 0; i < N_OPS; i++) {
            enqueue_random(&program, fixture->stream, &random, true);
            if (seed % 2 && i % 10 == 0)
                fixture_must(fixture, fixture->api->stream_flush(fixture->stream), "stream_flush");
        }
        expect_alike(fixture, values_of(&program), wanted, "80 operations at once");
        fixture_clear(fixture);
    }
}

/* Two streams used in turn, each with its own tensors; one is destroyed without a wait. */
static void two_streams(struct suite *suite, const void *args)
{
    struct fixture *fixture = &suite->fixture;
    const struct engine_backend *api = fixture->api;
    struct engine_stream *other = NULL;
    (void)args;
    float *wanted = one_by_one(fixture, 3, true);
    struct program a = make_program(fixture), b = make_program(fixture);
    fixture_must(fixture, api->stream_wait(fixture->stream), "stream_wait");
    fixture_must(fixture, api->stream_create(fixture->device, &other), "stream_create");
    uint64_t seed_a = 3, seed_b = 3;
    for (int i = 0; i < N_OPS; i++) {
        enqueue_random(&a, fixture->stream, &seed_a, true);
        enqueue_random(&b, other, &seed_b, true);
    }
    fixture_must(fixture, api->stream_flush(other), "stream_flush");
    api->stream_destroy(other); /* waits for pending work */
    expect_alike(fixture, values_of(&a), wanted, "two streams, the first");
    expect_alike(fixture, values_of(&b), wanted, "two streams, the second");
}

/* [1.4] Asked until it is done: then everything has run. */
static void asked(struct suite *suite, const void *args)
{
    struct fixture *fixture = &suite->fixture;
    const struct engine_backend *api = fixture->api;
    (void)args;
    if (!ENGINE_HAS(api, stream_done) || !api->stream_done) fixture->stop(fixture, FIXTURE_UNCLAIMED, "");
    float *wanted = one_by_one(fixture, 5, true);
    struct program program = make_program(fixture);
    uint64_t seed = 5;
    for (int i = 0; i < N_OPS; i++) enqueue_random(&program, fixture->stream, &seed, true);
    int done = 0;
    time_t start = time(NULL);
    while (!done) {
        done = -1;
        fixture_must(fixture, api->stream_done(fixture->stream, &done), "stream_done");
        SUITE_EXPECT(suite, done == 0 || done == 1, "stream_done says %d", done);
        SUITE_EXPECT(suite, done || time(NULL) - start < 60, "the stream is never done");
    }
    fixture_must(fixture, api->stream_wait(fixture->stream), "stream_wait");
    expect_alike(fixture, values_of(&program), wanted, "asked whether it is done");
}

/* [1.4] Two programs in one stream, one after the other: each is waited for without what comes after it,
 * which overwrites what was read. */
static void in_parts(struct suite *suite, const void *args)
{
    struct fixture *fixture = &suite->fixture;
    const struct engine_backend *api = fixture->api;
    (void)args;
    if (!ENGINE_HAS(api, stream_wait_for) || !api->stream_mark || !api->stream_wait_for)
        fixture->stop(fixture, FIXTURE_UNCLAIMED, "");
    enum { N_PARTS = 2 };
    float *wanted[N_PARTS], *got[N_PARTS];
    uint64_t marks[N_PARTS];
    for (uint64_t part = 0; part < N_PARTS; part++) wanted[part] = one_by_one(fixture, 7 + part, true);
    for (uint64_t part = 0; part < N_PARTS; part++) {
        struct program program = make_program(fixture);
        uint64_t seed = 7 + part;
        got[part] = fixture_room(fixture, N_TENSORS * N_VALUES, sizeof *got[part]);
        for (int i = 0; i < N_OPS; i++) enqueue_random(&program, fixture->stream, &seed, true);
        for (size_t t = 0; t < N_TENSORS; t++)
            fixture_must(fixture,
                         api->read(fixture->stream, program.tensors[t]->buffer, program.tensors[t]->offset,
                                   got[part] + t * N_VALUES, N_VALUES * sizeof(float)),
                         "read");
        fixture_must(fixture, api->stream_mark(fixture->stream, &marks[part]), "stream_mark");
        for (int i = 0; i < N_OPS; i++) enqueue_random(&program, fixture->stream, &seed, true);
    }
    for (int part = 0; part < N_PARTS; part++) {
        fixture_must(fixture, api->stream_wait_for(fixture->stream, marks[part]), "stream_wait_for");
        expect_alike(fixture, got[part], wanted[part], "a part that was waited for");
    }
    fixture_must(fixture, api->stream_wait(fixture->stream), "stream_wait");
    fixture_must(fixture, api->stream_wait_for(fixture->stream, marks[1]),
                 "stream_wait_for after stream_wait");
}

/* [1.4] A program that goes on with each value on another handle of the device, and back: neither side is
 * waited for. */
static void between_devices(struct suite *suite, const void *args)
{
    struct fixture *fixture = &suite->fixture, other = {0};
    const struct engine_backend *api = fixture->api;
    (void)args;
    if (!ENGINE_HAS(api, copy_between) || !api->copy_between) fixture->stop(fixture, FIXTURE_UNCLAIMED, "");
    float *wanted = one_by_one(fixture, 17, true);
    suite_open(suite, &other, 2, 0);
    struct program here = make_program(fixture), there = make_program(&other);
    uint64_t seed = 17;
    for (int i = 0; i < N_OPS; i++) {
        struct program *now = i % 2 ? &there : &here, *next = i % 2 ? &here : &there;
        enqueue_random(now, now->fixture->stream, &seed, true);
        for (int t = 0; t < N_TENSORS; t++) {
            const struct engine_tensor *from = now->tensors[t], *to = next->tensors[t];
            int status =
                api->copy_between(now->fixture->stream, from->buffer, from->offset, next->fixture->stream,
                                  to->buffer, to->offset, N_VALUES * sizeof(float));
            if (status == ENGINE_ERROR_UNSUPPORTED) suite_close(&other);
            if (status == ENGINE_ERROR_UNSUPPORTED) fixture->stop(fixture, FIXTURE_UNCLAIMED, "");
            fixture_must(fixture, status, "copy_between");
        }
    }
    fixture_must(fixture, api->stream_wait(fixture->stream), "stream_wait");
    expect_alike(fixture, values_of(&here), wanted, "in turns on two devices");
    const struct engine_tensor *a = here.tensors[0], *b = there.tensors[0];
    suite_expect_error(
        suite,
        api->copy_between(fixture->stream, a->buffer, UINT64_MAX - 3, other.stream, b->buffer, b->offset, 8),
        ENGINE_ERROR_ARGUMENT, "copy_between from beyond the end");
    suite_expect_error(
        suite,
        api->copy_between(fixture->stream, a->buffer, a->offset, other.stream, b->buffer, UINT64_MAX - 3, 8),
        ENGINE_ERROR_ARGUMENT, "copy_between to beyond the end");
    fixture_must(
        fixture,
        api->copy_between(fixture->stream, a->buffer, a->offset, other.stream, b->buffer, b->offset, 0),
        "copy_between of nothing");
    suite_close(&other);
}

void check_streams(struct suite *suite)
{
    suite_single(suite, "streams", "asked", asked, NULL);
    suite_single(suite, "streams", "between devices", between_devices, NULL);
    suite_single(suite, "streams", "in order", in_order, NULL);
    suite_single(suite, "streams", "in parts", in_parts, NULL);
    suite_single(suite, "streams", "two of them", two_streams, NULL);
}

/* ---- Recordings ------------------------------------------------------------------------------------ */

void programs_claim_recordings(struct suite *suite)
{
    const struct engine_backend *api = suite->fixture.api;
    if (!ENGINE_HAS(api, recording_destroy) || !api->recording_destroy || !api->record_begin)
        suite->fixture.stop(&suite->fixture, FIXTURE_UNCLAIMED, "");
}

static struct engine_recording *streams_record(struct program *program, uint64_t seed)
{
    struct fixture *fixture = program->fixture;
    struct engine_recording *recording = NULL;
    fixture_must(fixture, fixture->api->stream_wait(fixture->stream), "stream_wait");
    fixture_must(fixture, fixture->api->record_begin(fixture->stream), "record_begin");
    for (int i = 0; i < N_OPS; i++) enqueue_random(program, fixture->stream, &seed, false);
    fixture_must(fixture, fixture->api->record_end(fixture->stream, &recording), "record_end");
    if (!recording) fixture_fail(fixture, "record_end: ENGINE_OK, but no recording");
    return recording;
}

void programs_record_and_destroy(struct fixture *fixture)
{
    struct program program = make_program(fixture);
    fixture->api->recording_destroy(streams_record(&program, 5));
}

/* Nothing runs while recording; afterwards it may run any number of times, in any stream. */
static void replays(struct suite *suite, const void *args)
{
    struct fixture *fixture = &suite->fixture;
    const struct engine_backend *api = fixture->api;
    (void)args;
    programs_claim_recordings(suite);
    struct program direct = make_program(fixture), replayed = make_program(fixture);
    float *start = values_of(&replayed);
    struct engine_recording *recording = streams_record(&replayed, 5);
    expect_alike(fixture, values_of(&replayed), start, "recording alone");
    for (int run = 0; run < 3; run++) {
        uint64_t seed = 5;
        for (int i = 0; i < N_OPS; i++) {
            enqueue_random(&direct, fixture->stream, &seed, false);
            fixture_must(fixture, api->stream_wait(fixture->stream), "stream_wait");
        }
    }
    struct engine_stream *other = NULL;
    fixture_must(fixture, api->replay(fixture->stream, recording), "replay");
    fixture_must(fixture, api->stream_wait(fixture->stream), "stream_wait");
    fixture_must(fixture, api->stream_create(fixture->device, &other), "stream_create");
    fixture_must(fixture, api->replay(other, recording), "replay in another stream");
    fixture_must(fixture, api->replay(other, recording), "replay again");
    fixture_must(fixture, api->stream_wait(other), "stream_wait");
    api->stream_destroy(other);
    expect_alike(fixture, values_of(&replayed), values_of(&direct), "three replays");
    api->recording_destroy(recording);
    api->recording_destroy(NULL);
}

/* Each replay reads the current contents of tensors. */
static void reads_anew(struct suite *suite, const void *args)
{
    struct fixture *fixture = &suite->fixture;
    const struct engine_backend *api = fixture->api;
    (void)args;
    programs_claim_recordings(suite);
    struct program program = make_program(fixture);
    if (!program.claims) fixture->stop(fixture, FIXTURE_UNCLAIMED, "");
    struct engine_recording *recording = streams_record(&program, 7);
    for (int run = 0; run < 3; run++) {
        struct program direct = make_program(fixture);
        uint64_t seed = 7, of_values = (uint64_t)run;
        float *values = fixture_hold(fixture, random_floats(&of_values, N_VALUES));
        for (int i = 0; i < N_TENSORS; i++) {
            struct engine_tensor *both[2] = {program.tensors[i], direct.tensors[i]};
            for (int j = 0; j < 2; j++)
                fixture_must(fixture,
                             api->write(fixture->stream, both[j]->buffer, both[j]->offset, values,
                                        N_VALUES * sizeof *values),
                             "write");
        }
        for (int i = 0; i < N_OPS; i++) {
            enqueue_random(&direct, fixture->stream, &seed, false);
            fixture_must(fixture, api->stream_wait(fixture->stream), "stream_wait");
        }
        fixture_must(fixture, api->replay(fixture->stream, recording), "replay");
        expect_alike(fixture, values_of(&program), values_of(&direct), "a replay on other values");
    }
    api->recording_destroy(recording);
}

void check_recordings(struct suite *suite)
{
    suite_single(suite, "recordings", "replayed", replays, NULL);
    suite_single(suite, "recordings", "read tensors anew", reads_anew, NULL);
}

/* ---- Threads --------------------------------------------------------------------------------------- */

enum { N_THREADS = 4, ROUNDS = 6 };

struct worker {
    struct suite suite; /* of this thread alone */
    /* Another's device, and a buffer there, for calls that any thread may make. NULL: it works on its own. */
    struct engine_device *asked;
    struct engine_buffer *buffer;
    pthread_t thread;
    bool started;
    enum check_result result;
};

static void streams_work(struct suite *suite, const void *args)
{
    (void)args;
    struct fixture *fixture = &suite->fixture;
    float *wanted = one_by_one(fixture, 11, true);
    for (int round = 0; round < ROUNDS; round++) {
        struct program program = make_program(fixture);
        uint64_t seed = 11;
        for (int i = 0; i < N_OPS; i++) enqueue_random(&program, fixture->stream, &seed, true);
        expect_alike(fixture, values_of(&program), wanted, "beside other threads");
    }
}

struct answers {
    int adds, multiplies, of_size, of_memory;
    uint64_t size, memory;
    void *pointer;
};

/* Calls each [any] function once. */
static struct answers ask_all(const struct worker *worker)
{
    const struct engine_backend *api = worker->suite.plugin->backend;
    const struct engine_tensor a = {.struct_size = sizeof a,
                                    .ne = {WIDTH, TOKENS, 1, 1},
                                    .nb = {4, 4UL * WIDTH, 4UL * N_VALUES, 4UL * N_VALUES}};
    const struct engine_tensor weight = {.struct_size = sizeof weight,
                                         .ne = {WIDTH, WIDTH, 1, 1},
                                         .nb = {4, 4UL * WIDTH, 4UL * N_WEIGHTS, 4UL * N_WEIGHTS}};
    const struct engine_op_binary add = {sizeof add, &a, &a, &a};
    const struct engine_op_matmul matmul = {
        .struct_size = sizeof matmul, .weight = &weight, .input = &a, .output = &a};
    const struct engine_weight_desc desc = {.struct_size = sizeof desc,
                                            .name = "w",
                                            .type_name = "F32",
                                            .ne = {WIDTH, WIDTH, 1, 1},
                                            .uses = ENGINE_WEIGHT_MATMUL,
                                            .data_size = N_WEIGHTS * 4};
    struct answers answers = {0};
    answers.adds = api->supports(worker->asked, ENGINE_OP_ADD, &add);
    answers.multiplies = api->supports(worker->asked, ENGINE_OP_MATMUL, &matmul);
    answers.of_size = api->weight_size(worker->asked, &desc, &answers.size);
    if (answers.multiplies && ENGINE_HAS(api, op_memory) && api->op_memory)
        answers.of_memory = api->op_memory(worker->asked, ENGINE_OP_MATMUL, &matmul, &answers.memory);
    if (ENGINE_HAS(api, buffer_pointer) && api->buffer_pointer)
        answers.pointer = api->buffer_pointer(worker->buffer);
    return answers;
}

static void streams_query(struct suite *suite, const void *args)
{
    const struct worker *worker = args;
    const struct answers first = ask_all(worker);
    for (int i = 0; i < 2000; i++) {
        const struct answers again = ask_all(worker);
        SUITE_EXPECT(suite, again.adds == first.adds && again.multiplies == first.multiplies,
                     "supports changes while the device works");
        SUITE_EXPECT(suite, again.of_size == first.of_size && again.size == first.size,
                     "weight_size changes while the device works");
        SUITE_EXPECT(suite, again.of_memory == first.of_memory && again.memory == first.memory,
                     "op_memory changes while the device works");
        SUITE_EXPECT(suite, again.pointer == first.pointer, "buffer_pointer changes while the device works");
    }
}

static void *run_worker(void *context)
{
    struct worker *worker = context;
    worker->result = suite_try(&worker->suite, worker->asked ? streams_query : streams_work, worker);
    return NULL;
}

/* The first n threads work, each on its own device; the others call functions of the first one's. */
static void many_threads(struct suite *suite, const void *args)
{
    const int n_devices = *(const int *)args;
    struct worker *workers = fixture_room(&suite->fixture, N_THREADS, sizeof *workers);
    struct engine_buffer *buffer = NULL;
    for (int i = 0; i < N_THREADS; i++) {
        struct worker *worker = &workers[i];
        worker->suite.plugin = suite->plugin;
        worker->suite.pipe = -1;
        worker->suite.is_selected = true;
        worker->suite.device = suite->device;
        worker->suite.alignment = suite->alignment;
        worker->suite.fixture.stop = suite->fixture.stop;
        if (i < n_devices) suite_open(suite, &worker->suite.fixture, 1 + (uint32_t)i % 2, 0);
        worker->suite.fixture.owner = &worker->suite;
    }
    struct fixture *first = &workers[0].suite.fixture;
    fixture_must(&suite->fixture, first->api->buffer_create(first->device, 1000, &buffer), "buffer_create");
    for (int i = n_devices; i < N_THREADS; i++) workers[i].asked = first->device, workers[i].buffer = buffer;
    for (int i = 0; i < N_THREADS; i++)
        workers[i].started = pthread_create(&workers[i].thread, NULL, run_worker, &workers[i]) == 0;
    bool started = true;
    for (int i = 0; i < N_THREADS; i++) {
        started = started && workers[i].started;
        if (workers[i].started) pthread_join(workers[i].thread, NULL);
    }
    for (int i = 0; i < N_THREADS; i++)
        if (workers[i].started && workers[i].result == CHECK_FAILED) {
            fixture_describe(&suite->fixture, "%s", workers[i].suite.row.tried);
            fixture_fail(&suite->fixture, "%s", workers[i].suite.row.message);
        }
    SUITE_EXPECT(suite, started, "no thread could be started");
    first->api->buffer_destroy(buffer);
    for (int i = 0; i < n_devices; i++) suite_close(&workers[i].suite.fixture);
}

void check_threads(struct suite *suite)
{
    suite_single(suite, "threads", "a device for each", many_threads, &(int){N_THREADS});
    suite_single(suite, "threads", "asked while it works", many_threads, &(int){1});
}

/* ---- Opening and closing --------------------------------------------------------------------------- */

static void again_and_again(struct suite *suite, const void *args)
{
    (void)args;
    for (uint32_t i = 0; i < 20; i++) {
        struct fixture fixture = {0};
        suite_open(suite, &fixture, 1 + i % 4, 0);
        if (i % 3 == 0) {
            struct program program = make_program(&fixture);
            uint64_t seed = i;
            for (int j = 0; j < N_OPS; j++) enqueue_random(&program, fixture.stream, &seed, true);
        }
        suite_close(&fixture); /* also with work that nobody has waited for */
    }
}

static void two_at_once(struct suite *suite, const void *args)
{
    struct fixture a = {0}, b = {0};
    (void)args;
    suite_open(suite, &a, 2, 0);
    suite_open(suite, &b, 3, 0);
    float *of_a = one_by_one(&a, 1, true), *of_b = one_by_one(&b, 1, true);
    expect_alike(&suite->fixture, of_a, of_b, "two handles of one device");
    suite_close(&a);
    one_by_one(&b, 1, true);
    suite_close(&b);
}

void check_reopening(struct suite *suite)
{
    suite_single(suite, "opening", "again and again", again_and_again, NULL);
    suite_single(suite, "opening", "twice at once", two_at_once, NULL);
}

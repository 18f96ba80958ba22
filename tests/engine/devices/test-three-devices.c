/* test-three-devices.c: one model over three kinds of device in one run: the CPU, Vulkan's first device and
 * OpenCL's first one. Whole layers and single tensors, wherever they are put, give the logits that the CPU
 * gives alone. */
#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "check/formats.h"
#include "engine.h"
#include "files.h"
#include "gguf-writer.h"
#include "program.h"
#include "sample.h"

#define N_TOKENS                   21
#define N_VOCAB                    320
#define N_LAYERS                   4
#define BACKENDS                   "vulkan,opencl"
#define STORIES                    TEST_SHARED_DIR "/models/stories260K-f32.gguf"
#define RUN                        "-m", STORIES, "-p", "Once upon a time", "--temp", "0", "-n", "40", "-b", "16", "-c", "128"
#define EXPECT_TEXT(expected, ...) expect_text(expected, PROGRAM(RUN, "--backend", BACKENDS, __VA_ARGS__))

static char *folder;
static char model_path[4096], config_path[4096];
static int32_t tokens[N_TOKENS];
static float reference[N_TOKENS * N_VOCAB], logits[N_TOKENS * N_VOCAB];

/* ---- Running ------------------------------------------------------------------------------------------- */

struct setting {
    const char *backends;
    int32_t offload;
    const char *const *place, *const *memory;
    uint32_t n_batch;
};

struct run {
    struct engine *engine;
    struct engine_model *model;
    struct engine_context *context;
};

static void close_run(struct run *run)
{
    engine_context_destroy(run->context);
    engine_model_close(run->model);
    engine_close(run->engine);
}

static void ignore_log(void *user, enum engine_log_level level, const char *line)
{
    (void)user, (void)level, (void)line;
}

/* The engine and the model; a context is made for each setting. */
static int open_model(struct run *run)
{
    const char *dirs[] = {TEST_PLUGIN_DIR, NULL};
    struct engine_options options = {
        .struct_size = sizeof options, .plugin_dirs = dirs, .config_file = config_path, .log = ignore_log};
    *run = (struct run){0};
    int status = engine_open(&options, &run->engine);
    return status ? status : engine_model_open(run->engine, model_path, NULL, &run->model);
}

static int open_context(struct run *run, const struct setting *setting)
{
    struct engine_context_options context = {
        .struct_size = sizeof context,
        .n_batch = setting->n_batch,
        .n_threads = 2,
        .cache_type = "f32",
        .backends = setting->backends,
        .offload = &setting->offload,
        .memory = setting->memory,
        .place = setting->place,
    };
    engine_context_destroy(run->context);
    run->context = NULL;
    return engine_context_create(run->model, &context, &run->context);
}

/* Logits of all positions. The prompt goes through in one batch, or one by one. */
static void decode(struct run *run, bool one_by_one, float *out)
{
    uint8_t wanted[N_TOKENS];
    memset(wanted, 1, sizeof wanted);
    size_t step = one_by_one ? 1 : N_TOKENS;
    for (size_t i = 0; i < N_TOKENS; i += step) {
        struct engine_batch batch = {
            .struct_size = sizeof batch, .n_tokens = step, .tokens = tokens + i, .wanted = wanted};
        cr_assert_eq(engine_decode(run->context, &batch, out + i * N_VOCAB), ENGINE_OK, "%s",
                     engine_error_message());
    }
}

static void check_logits(double bar, const char *what)
{
    double difference = 0, norm = 0;
    for (size_t i = 0; i < N_TOKENS * N_VOCAB; i++) {
        double d = (double)logits[i] - (double)reference[i];
        difference += d * d;
        norm += (double)reference[i] * (double)reference[i];
    }
    double error = sqrt(difference / norm);
    cr_assert(error <= bar, "%s: relative error %g", what, error);
}

static void write_model(uint32_t type)
{
    struct tiny_llama config = {.seed = 3, .type = type, .n_layers = N_LAYERS, .n_vocab = N_VOCAB};
    cr_assert(write_tiny_llama(model_path, &config));
}

static void run_once(const struct setting *setting, float *out)
{
    struct run run;
    cr_assert_eq(open_model(&run), ENGINE_OK, "%s", engine_error_message());
    cr_assert_eq(open_context(&run, setting), ENGINE_OK, "%s", engine_error_message());
    decode(&run, false, out);
    close_run(&run);
}

/* How many layers lie on a device. */
static uint32_t layers_on(struct run *run, const char *name)
{
    const struct engine_plan *plan = engine_context_plan(run->context);
    for (size_t i = 0; i < engine_plan_device_count(plan); i++) {
        struct engine_plan_device device;
        engine_plan_device_at(plan, i, &device);
        if (strcmp(device.name, name) == 0) return device.n_layers;
    }
    return 0;
}

static void setup(void)
{
    struct run run;
    folder = files_folder();
    snprintf(model_path, sizeof model_path, "%s", files_path(folder, "model.gguf"));
    snprintf(config_path, sizeof config_path, "%s", files_path(folder, "engine.conf"));
    files_write_text(config_path, "[opencl]\nintegers = off\n"); /* exact, so that bars can be narrow */
    setenv("ENGINE_VULKAN_VALIDATION", "off", 1);
    for (int i = 0; i < N_TOKENS; i++) tokens[i] = (i * 37 + 11) % N_VOCAB;
    write_model(ENGINE_TYPE_F32);
    cr_assert_eq(open_model(&run), ENGINE_OK, "%s", engine_error_message());
    bool have_both = open_context(&run, &(struct setting){.backends = BACKENDS}) == ENGINE_OK;
    close_run(&run);
    if (!have_both) cr_skip("no Vulkan and OpenCL devices here");
}

static void teardown(void)
{
    files_remove(folder);
    free(folder);
}

TestSuite(three_devices, .init = setup, .fini = teardown);

/* ---- Arrangements -------------------------------------------------------------------------------------- */

Test(three_devices, layers_and_tensors_where_they_are_wished)
{
    static const char *const wishes[][6] = {
        {"blk.[02].*=vulkan0", "blk.1.*=opencl0.0"},
        {"blk.0.*=opencl0.0", "blk.3.*=vulkan0", "output*=opencl0.0", "token_embd*=vulkan0"},
        {"blk.*.attn_*=opencl0.0", "blk.*.ffn_*=vulkan0"},
        {"blk.*.cache=vulkan0", "blk.*.attn_[qkv]*=opencl0.0"},
        {"blk.*.ffn_gate*=vulkan0", "blk.*.ffn_up*=opencl0.0", "*norm*=vulkan0"},
    };
    static const uint32_t types[] = {ENGINE_TYPE_F32, ENGINE_TYPE_F16, ENGINE_TYPE_Q8_0, ENGINE_TYPE_Q4_0};
    for (size_t t = 0; t < sizeof types / sizeof *types; t++) {
        write_model(types[t]);
        run_once(&(struct setting){.backends = "cpu"}, reference);
        for (size_t i = 0; i < sizeof wishes / sizeof *wishes; i++) {
            run_once(&(struct setting){.backends = BACKENDS, .place = wishes[i]}, logits);
            check_logits(types[t] == ENGINE_TYPE_F32   ? 1e-5
                         : types[t] == ENGINE_TYPE_F16 ? 7.89e-4
                                                       : 2.2e-2,
                         wishes[i][0]);
        }
    }
}

/* Budgets, and the order in which devices are filled: by their measured speed, or by the configured one. */
Test(three_devices, layers_shared_out_by_memory_and_speed)
{
    static const char *const memory[][3] = {{"vulkan0=300K", "opencl0.0=300K"},
                                            {"vulkan0=500K", "opencl0.0=300K"},
                                            {"vulkan0=300K", "opencl0.0=500K"},
                                            {"vulkan0=400K", "opencl0.0=400K"}};
    static const char *const configs[] = {"[opencl]\nintegers = off\n",
                                          "speeds = vulkan0=30, opencl0.0=4\n[opencl]\nintegers = off\n",
                                          "speeds = vulkan0=3, opencl0.0=40\n[opencl]\nintegers = off\n"};
    uint32_t on_all = 0;
    run_once(&(struct setting){.backends = "cpu"}, reference);
    for (size_t c = 0; c < sizeof configs / sizeof *configs; c++) {
        files_write_text(config_path, configs[c]);
        for (size_t i = 0; i < sizeof memory / sizeof *memory; i++) {
            struct setting setting = {.backends = BACKENDS,
                                      .offload = i % 2 ? ENGINE_OFFLOAD_AUTO : ENGINE_OFFLOAD_ALL,
                                      .memory = memory[i],
                                      .n_batch = 8};
            struct run run;
            cr_assert_eq(open_model(&run), ENGINE_OK, "%s", engine_error_message());
            cr_assert_eq(open_context(&run, &setting), ENGINE_OK, "%s", engine_error_message());
            decode(&run, false, logits);
            check_logits(1e-5, memory[i][0]);
            on_all += layers_on(&run, "cpu") && layers_on(&run, "vulkan0") && layers_on(&run, "opencl0.0");
            close_run(&run);
        }
    }
    cr_assert_geq(on_all, 3, "%u", on_all);
}

Test(three_devices, the_faster_device_takes_the_model_if_it_fits)
{
    static const char *const names[] = {"vulkan0", "opencl0.0"};
    for (int i = 0; i < 2; i++) {
        struct run run;
        char text[128];
        snprintf(text, sizeof text, "speeds = %s=40, %s=3\n", names[i], names[1 - i]);
        files_write_text(config_path, text);
        cr_assert_eq(open_model(&run), ENGINE_OK, "%s", engine_error_message());
        cr_assert_eq(
            open_context(&run, &(struct setting){.backends = BACKENDS, .offload = ENGINE_OFFLOAD_AUTO}),
            ENGINE_OK, "%s", engine_error_message());
        cr_assert_eq(layers_on(&run, names[i]), N_LAYERS);
        close_run(&run);
    }
}

static void expect_text(const char *expected, struct program_result result)
{
    cr_assert_eq(result.status, 0, "%s", result.err);
    cr_assert_str_eq(result.out, expected);
    cr_assert_null(strstr(result.err, "cannot measure its speed"), "%s", result.err);
    program_free(&result);
}

/* The same words, and a speed is measured under small budgets too. */
Test(three_devices, the_same_text)
{
    if (access(STORIES, R_OK) != 0) cr_skip("no ../shared here");
    struct program_result cpu = PROGRAM(RUN, "--backend", "cpu");
    cr_assert_eq(cpu.status, 0, "%s", cpu.err);
    EXPECT_TEXT(cpu.out, "--offload", "auto");
    EXPECT_TEXT(cpu.out, "--place", "blk.[01].*=vulkan0", "--place", "blk.[23].*=opencl0.0");
    EXPECT_TEXT(cpu.out, "--memory", "vulkan0=400K", "--memory", "opencl0.0=400K");
    program_free(&cpu);
}

/* ---- Random placements --------------------------------------------------------------------------------- */

/* Placements: every tensor and cache by itself anywhere, or whole parts of the model; one batch or one by
 * one. */
Test(three_devices, random_placements)
{
    enum { MAX_RULES = 80 };
    static const char *const devices[] = {"cpu", "vulkan0", "opencl0.0"};
    static char rules[MAX_RULES][96];
    const char *place[MAX_RULES + 1];
    const char *given = getenv("ENGINE_TEST_SEED");
    uint64_t seed = given ? strtoull(given, NULL, 10) : 20;
    struct run run;
    const int n_placements = (int)all_or_sample(200, 50);
    run_once(&(struct setting){.backends = "cpu"}, reference);
    cr_assert_eq(open_model(&run), ENGINE_OK, "%s", engine_error_message());
    cr_assert_eq(open_context(&run, &(struct setting){.backends = BACKENDS}), ENGINE_OK);
    for (int n = 0; n < n_placements; n++) {
        uint32_t share = 1 + random_bits(&seed) % 8; /* one in so many tensors gets a wish of its own */
        int32_t offload = (int32_t)(random_bits(&seed) % (N_LAYERS + 1));
        size_t n_rules = 0, n_tensors = engine_plan_tensor_count(engine_context_plan(run.context));
        for (size_t i = 0; i < n_tensors && n_rules < MAX_RULES; i++) {
            struct engine_plan_tensor tensor;
            engine_plan_tensor_at(engine_context_plan(run.context), i, &tensor);
            if (random_bits(&seed) % share) continue;
            snprintf(rules[n_rules], sizeof *rules, "%s=%s", tensor.name, devices[random_bits(&seed) % 3]);
            place[n_rules] = rules[n_rules];
            n_rules++;
        }
        place[n_rules] = NULL;
        struct setting setting = {.backends = BACKENDS, .offload = offload, .place = place};
        cr_assert_eq(open_context(&run, &setting), ENGINE_OK, "placement %d: %s", n, engine_error_message());
        decode(&run, random_bits(&seed) % 4 == 0, logits);
        char what[64];
        snprintf(what, sizeof what, "placement %d", n);
        check_logits(1e-5, what);
    }
    close_run(&run);
}

/* Layers go to the fastest device first; that a backend which was named gets none of them is told, and a
 * device with parts of layers is not said to have none. */
Test(three_devices, idle_devices_are_told)
{
    write_model(ENGINE_TYPE_F16);
    struct program_result result =
        PROGRAM("plan", "-m", model_path, "--backend", BACKENDS ",cpu", "--offload", "4");
    cr_assert_eq(result.status, 0, "%s", result.err);
    cr_assert_eq(program_count_lines(result.err, "gets no layers: "), 1, "%s", result.err);
    program_free(&result);
    result = PROGRAM("plan", "-m", model_path, "--backend", BACKENDS, "--offload", "0", "--place",
                     "blk.1.ffn_*=opencl0.0", "--place", "token_embd.weight=vulkan0");
    cr_assert_eq(result.status, 0, "%s", result.err);
    cr_assert_null(strstr(result.err, "gets no layers"), "%s", result.err);
    cr_assert(strstr(result.out, "opencl0.0   parts "), "%s", result.out);
    cr_assert(strstr(result.out, "vulkan0         - "), "%s", result.out);
    program_free(&result);
}

/* A value that a plugin refuses is told with file and line. */
Test(three_devices, a_setting_of_a_plugin_that_is_wrong)
{
    write_model(ENGINE_TYPE_F16);
    files_write_text(config_path, "[opencl]\nkernels = auto\n\n[vulkan]\nmatmul = fast\n");
    struct program_result result =
        PROGRAM("plan", "-m", model_path, "--config", config_path, "--backend", "vulkan");
    cr_assert_eq(result.status, 1);
    cr_assert(strstr(result.err, "engine.conf:5: vulkan: matmul = fast: choose"), "%s", result.err);
    program_free(&result);
}

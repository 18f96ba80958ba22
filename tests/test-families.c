/* test-families.c: the logits of a small model of each family, in ../shared/families, against transformers'. On the CPU, or
 * with TEST_BACKEND on a GPU plugin's device as well, with none, one and all of the layers there. A plugin that was built
 * with the border's first version has to run them too. */
#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "engine.h"
#include "files.h"
#ifdef TEST_BACKEND
#include "gpu-device.h"
#endif

#define FAMILIES TEST_SHARED_DIR "/families/"

/* A model and what its file lacks of what the logits depend on; those are run, and a warning has to tell. */
struct sample {
    const char *name;
    bool is_incomplete;
};

static const struct sample samples[] = {
    {"bloom", false},     {"cohere", false},         {"cohere2", false},    {"deepseek2-lite", false},
    {"deepseek3", false}, {"ernie4.5", false},       {"exaone4", false},    {"falcon40", false},
    {"falcon7", false},   {"gemma", false},          {"gemma2", true},      {"gemma3", false},
    {"gpt2", false},      {"gptneox", false},        {"gptoss", false},     {"granite", false},
    {"llama", false},     {"gptneox-serial", false}, {"llama-bias", false}, {"llama3", false},
    {"mistral", true},    {"granitemoe", false},     {"mixtral", false},    {"nemotron", false},
    {"olmo2", false},     {"phi2", false},           {"phi3", false},       {"phi3-longrope", false},
    {"qwen2", false},     {"qwen2moe", false},       {"qwen3", false},      {"qwen3-yarn", false},
    {"qwen3moe", false},  {"smollm3", false},        {"stablelm", false},   {"starcoder2", true},
};
enum { N_SAMPLES = sizeof samples / sizeof *samples };

static char log_text[4096], *folder;
static const char *config_file;

static void setup(void)
{
    if (access(FAMILIES "facts.md", R_OK) != 0) cr_skip_test("no ../shared here");
#ifdef TEST_BACKEND
    gpu_skip_without_device();
#endif
    folder = files_folder();
    config_file = files_path(folder, "engine.conf");
    files_write_text(config_file, "");
}

static void finish(void)
{
    if (!folder) return;
    files_remove(folder);
    free(folder);
}

TestSuite(families, .init = setup, .fini = finish, .timeout = 1200);

static void keep_warnings(void *user, enum engine_log_level level, const char *line)
{
    (void)user;
    if (level > ENGINE_LOG_WARNING) return;
    size_t used = strlen(log_text);
    snprintf(log_text + used, sizeof log_text - used, "%s\n", line);
}

/* ---- Known answers ---- */

/* The data of an .npy file with elements of four bytes; *count receives how many. */
static void *read_npy(const char *name, const char *what, size_t *count)
{
    char path[256];
    size_t size;
    snprintf(path, sizeof path, FAMILIES "%s.%s.npy", name, what);
    char *file = files_read(path, &size);
    size_t header = 10u + (unsigned char)file[8] + 256u * (unsigned char)file[9];
    *count = (size - header) / 4;
    void *data = malloc(size - header);
    memcpy(data, file + header, size - header);
    free(file);
    return data;
}

static double relative_error(const float *x, const float *reference, size_t n)
{
    double difference = 0, norm = 0;
    for (size_t i = 0; i < n; i++) {
        difference += ((double)x[i] - reference[i]) * ((double)x[i] - reference[i]);
        norm += (double)reference[i] * reference[i];
    }
    return sqrt(difference / norm);
}

/* ---- Running ---- */

struct setting {
    const char *backends;
    int32_t offload;
    uint32_t n_batch;
    const char *const *plugin_dirs;
};

static const char *const our_plugins[] = {TEST_PLUGIN_DIR, NULL};

/* The logits of all tokens of a model's file in new memory; NULL after a failed expectation. */
static float *run(const char *path, const struct setting *setting, const int32_t *tokens, size_t n_tokens,
                  size_t n)
{
    struct engine_options options = {.struct_size = sizeof options,
                                     .plugin_dirs = setting->plugin_dirs ? setting->plugin_dirs : our_plugins,
                                     .config_file = config_file,
                                     .log = keep_warnings};
    struct engine_context_options wish = {.struct_size = sizeof wish,
                                          .n_context = (uint32_t)n_tokens,
                                          .n_batch = setting->n_batch,
                                          .n_threads = 2,
                                          .cache_type = "f32",
                                          .backends = setting->backends,
                                          .offload = &setting->offload};
    uint8_t *wanted = malloc(n_tokens);
    float *logits = malloc(n * sizeof *logits);
    memset(wanted, 1, n_tokens);
    struct engine_batch batch = {
        .struct_size = sizeof batch, .n_tokens = n_tokens, .tokens = tokens, .wanted = wanted};
    struct engine *engine = NULL;
    struct engine_model *model = NULL;
    struct engine_context *context = NULL;
    log_text[0] = 0;
    int status = engine_open(&options, &engine);
    if (!status) status = engine_model_open(engine, path, NULL, &model);
    if (!status) status = engine_context_create(model, &wish, &context);
    if (!status) status = engine_decode(context, &batch, logits);
    cr_expect_eq(status, ENGINE_OK, "%s on %s: %s", path, setting->backends, engine_error_message());
    engine_context_destroy(context);
    engine_model_close(model);
    engine_close(engine);
    free(wanted);
    if (!status) return logits;
    free(logits);
    return NULL;
}

static const char *model_path(const char *name)
{
    static char path[256];
    snprintf(path, sizeof path, FAMILIES "gguf/%s.gguf", name);
    return path;
}

static void check(const struct sample *sample, const struct setting *setting, double bar)
{
    size_t n_tokens, n;
    int32_t *tokens = read_npy(sample->name, "tokens", &n_tokens);
    float *reference = read_npy(sample->name, "logits", &n);
    float *logits = run(model_path(sample->name), setting, tokens, n_tokens, n);
    double error = logits ? relative_error(logits, reference, n) : 0;
    if (sample->is_incomplete)
        cr_expect_not_null(strstr(log_text, "assumed"), "%s: no warning: %s", sample->name, log_text);
    else
        cr_expect(error <= bar, "%s on %s, %d layers offloaded, batches of %u: relative error %.2e",
                  sample->name, setting->backends, setting->offload, setting->n_batch, error);
    free(tokens);
    free(reference);
    free(logits);
}

#ifndef TEST_BACKEND

Test(families, logits_on_the_cpu_are_those_of_transformers)
{
    for (int i = 0; i < N_SAMPLES; i++)
        check(&samples[i], &(struct setting){.backends = "cpu", .n_batch = 512}, 1e-5);
}

/* A token's result doesn't depend on its batch, to the bit. */
Test(families, batches_of_any_size_give_the_same_logits)
{
    for (int i = 0; i < N_SAMPLES; i++) {
        size_t n_tokens, n;
        int32_t *tokens = read_npy(samples[i].name, "tokens", &n_tokens);
        free(read_npy(samples[i].name, "logits", &n));
        float *whole = run(model_path(samples[i].name), &(struct setting){.backends = "cpu", .n_batch = 512},
                           tokens, n_tokens, n);
        for (uint32_t n_batch = 1; n_batch < 32 && whole; n_batch = 3 * n_batch + 4) {
            float *parts = run(model_path(samples[i].name),
                               &(struct setting){.backends = "cpu", .n_batch = n_batch}, tokens, n_tokens, n);
            if (parts)
                cr_expect_arr_eq(parts, whole, n * sizeof *parts, "%s, batches of %u", samples[i].name,
                                 n_batch);
            free(parts);
        }
        free(whole);
        free(tokens);
    }
}

static int keep_bytes(void *user, const void *data, size_t size)
{
    return fwrite(data, 1, size, user) == size ? 0 : 1;
}

/* A model of the shared ones in another type, in a file of the test's folder. */
static const char *converted(const char *name, const char *type)
{
    struct engine_options options = {
        .struct_size = sizeof options, .plugin_dirs = our_plugins, .config_file = config_file};
    struct engine_quantize_options wish = {.struct_size = sizeof wish, .type = type};
    const char *path = files_path(folder, "converted.gguf");
    struct engine *engine = NULL;
    struct engine_model *model = NULL;
    FILE *file = fopen(path, "wb");
    wish.write = keep_bytes;
    wish.user = file;
    cr_assert_eq(engine_open(&options, &engine), ENGINE_OK);
    cr_assert_eq(engine_model_open(engine, model_path(name), NULL, &model), ENGINE_OK);
    cr_assert_eq(engine_model_quantize(model, &wish), ENGINE_OK, "%s: %s", name, engine_error_message());
    engine_model_close(model);
    engine_close(engine);
    fclose(file);
    return path;
}

/* The backend of the examples, compiled with the header of 1.0: it knows plain products, all else is the CPU's. */
Test(families, a_backend_of_the_first_version_runs_unlike_families)
{
    static const char *const names[] = {"falcon40", "gemma3", "gptoss", "deepseek3", "cohere2", "qwen2moe"};
    static const char *const dirs[] = {TEST_PLUGIN_DIR, TEST_OLD_BACKEND_DIR, NULL};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        size_t n_tokens, n;
        int32_t *tokens = read_npy(names[i], "tokens", &n_tokens);
        free(read_npy(names[i], "logits", &n));
        const char *path = converted(names[i], "F32");
        float *alone = run(path, &(struct setting){.backends = "cpu", .n_batch = 512}, tokens, n_tokens, n);
        for (int32_t offload = 1; alone && offload >= ENGINE_OFFLOAD_ALL; offload -= 3) {
            const struct setting split = {"minimal", offload, 512, dirs};
            float *logits = run(path, &split, tokens, n_tokens, n);
            double error = logits ? relative_error(logits, alone, n) : 0;
            cr_expect(error > 0 && error <= 1e-5, "%s, %d layers on the old backend: relative error %.2e",
                      names[i], offload, error);
            free(logits);
        }
        free(alone);
        free(tokens);
    }
}

#else

Test(families, logits_on_any_split_are_those_of_transformers)
{
    static const int32_t offloads[] = {0, 1, ENGINE_OFFLOAD_ALL};
    for (int i = 0; i < N_SAMPLES; i++)
        for (size_t k = 0; k < sizeof offloads / sizeof *offloads; k++)
            check(&samples[i],
                  &(struct setting){.backends = TEST_BACKEND, .offload = offloads[k], .n_batch = 512}, 1e-4);
}

#endif

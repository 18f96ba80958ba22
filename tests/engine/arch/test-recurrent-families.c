/* test-recurrent-families.c: the logits of small models with states, of data/recurrent: against
 * transformers', from directories and from GGUF files made of them; of RWKV against its published
 * recurrences. tools/families/make-recurrent and make-rwkv made them. On the CPU, or with TEST_BACKEND on a
 * GPU plugin's device as well, with one and all of the layers there. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>

#include "engine.h"
#include "families-fixture.h"

#define OWN TEST_SOURCE_DIR "/data/recurrent"

/* Directories, then GGUF files. */
static const char *const names[] = {"falcon-h1", "granitehybrid", "lfm2",           "mamba",
                                    "mamba2",    "qwen3next",     "rwkv6-rescaled", "rwkv7"};
enum { N_NAMES = sizeof names / sizeof *names, N_DIRECTORIES = 6 };

TestSuite(recurrent_families, .init = families_begin_without_shared, .fini = families_end, .timeout = 1200);

static struct engine *open_engine(const char *other_dir)
{
    const char *const dirs[] = {TEST_PLUGIN_DIR, other_dir, NULL};
    const struct engine_options options = {
        .struct_size = sizeof options, .plugin_dirs = dirs, .config_file = families.config_file};
    struct engine *engine;
    cr_assert_eq(engine_open(&options, &engine), ENGINE_OK, "%s", engine_error_message());
    return engine;
}

/* The error of all logits, relative to their norm. */
static double error_of(struct engine *engine, const char *name, const char *path, const char *backends,
                       int32_t offload)
{
    const struct engine_context_options options = {.struct_size = sizeof options,
                                                   .n_threads = 2,
                                                   .cache_type = "f32",
                                                   .backends = backends,
                                                   .offload = &offload};
    struct engine_context_info info = {.struct_size = sizeof info};
    struct engine_model *model;
    struct engine_context *context;
    char npy_path[512];
    size_t n_tokens, n;
    snprintf(npy_path, sizeof npy_path, OWN "/%s.tokens.npy", name);
    int32_t *tokens = families_read_npy(npy_path, &n_tokens);
    snprintf(npy_path, sizeof npy_path, OWN "/%s.logits.npy", name);
    float *reference = families_read_npy(npy_path, &n), *logits = malloc(n * sizeof *logits);
    uint8_t *wanted = malloc(n_tokens);
    for (size_t i = 0; i < n_tokens; i++) wanted[i] = 1;
    cr_assert_eq(engine_model_open(engine, path, NULL, &model), ENGINE_OK, "%s", engine_error_message());
    cr_assert_eq(engine_context_create(model, &options, &context), ENGINE_OK, "%s", engine_error_message());
    cr_assert_eq(engine_context_get_info(context, &info), ENGINE_OK);
    cr_assert_eq(n, n_tokens * info.n_vocab);
    const struct engine_batch batch = {
        .struct_size = sizeof batch, .n_tokens = n_tokens, .tokens = tokens, .wanted = wanted};
    cr_assert_eq(engine_decode(context, &batch, logits), ENGINE_OK, "%s", engine_error_message());
    double error = families_error(logits, reference, n);
    engine_context_destroy(context);
    engine_model_close(model);
    free(tokens);
    free(reference);
    free(logits);
    free(wanted);
    return error;
}

static void path_of(size_t i, char path[512])
{
    snprintf(path, 512, i < N_DIRECTORIES ? OWN "/%s" : OWN "/%s.gguf", names[i]);
}

#ifdef TEST_BACKEND
Test(recurrent_families, logits_on_any_split_are_the_recorded_ones)
{
    struct engine *engine = open_engine(NULL);
    for (size_t i = 0; i < N_NAMES; i++)
        for (int32_t offload = 1; offload >= ENGINE_OFFLOAD_ALL; offload -= 3) {
            char path[512];
            path_of(i, path);
            double error = error_of(engine, names[i], path, TEST_BACKEND, offload);
            cr_expect(error <= 1e-4, "%s, %d layers offloaded: relative error %.2e", names[i], offload,
                      error);
        }
    engine_close(engine);
}
#else
Test(recurrent_families, logits_are_the_recorded_ones)
{
    struct engine *engine = open_engine(NULL);
    for (size_t i = 0; i < N_NAMES; i++) {
        char path[512];
        path_of(i, path);
        double error = error_of(engine, names[i], path, "cpu", 0);
        cr_expect(error <= 1e-5, "%s: relative error %.2e", names[i], error);
        families_convert(engine, path, "F32", 0);
        error = error_of(engine, names[i], families.model_file, "cpu", 0);
        cr_expect(error <= 1e-5, "%s as a GGUF file: relative error %.2e", names[i], error);
    }
    engine_close(engine);
}

/* It knows plain products; all else is the CPU's. */
Test(recurrent_families, a_backend_of_the_first_version_runs_them_split)
{
    struct engine *engine = open_engine(TEST_OLD_BACKEND_DIR);
    for (size_t i = 0; i < N_NAMES; i++) {
        char path[512];
        path_of(i, path);
        double error = error_of(engine, names[i], path, "minimal", ENGINE_OFFLOAD_ALL);
        cr_expect(error <= 1e-5, "%s: relative error %.2e", names[i], error);
    }
    engine_close(engine);
}
#endif

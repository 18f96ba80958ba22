/* test-adapters-families.c: models of ../shared/families with PEFT adapters, against the logits of transformers
 * with the changes merged into the weights, which tools/adapters/record has put into data/adapters. On the CPU,
 * or with TEST_BACKEND on a GPU plugin's device as well, with one or all of the layers there. */
#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "adapter-writer.h"
#include "engine.h"
#include "files.h"
#ifdef TEST_BACKEND
#include "gpu-device.h"
#endif

#define FAMILIES TEST_SHARED_DIR "/families/"
#define EXPECTED TEST_SOURCE_DIR "/data/adapters/"
enum { RANK = 8 };

static const char *const samples[] = {
    "llama",    "llama3", "mixtral", "qwen3moe", "qwen2moe", "deepseek3", "gptneox", "bloom",
    "falcon40", "gpt2",   "phi2",    "phi3",     "gemma",    "granite",   "smollm3", "cohere",
};
enum { N_SAMPLES = sizeof samples / sizeof *samples };

static char *folder;
static const char *config_file, *model_file, *adapter_folder;

static void setup(void)
{
    if (access(FAMILIES "facts.md", R_OK) != 0) cr_skip_test("no ../shared here");
#ifdef TEST_BACKEND
    gpu_skip_without_device();
#endif
    folder = files_folder();
    config_file = strdup(files_path(folder, "engine.conf"));
    model_file = strdup(files_path(folder, "model.gguf"));
    adapter_folder = folder;
    files_write_text(config_file, "");
    files_write_text(files_path(folder, "adapter_config.json"),
                     "{\"peft_type\": \"LORA\", \"r\": 8, \"lora_alpha\": 16, \"bias\": \"none\"}");
}

static void finish(void)
{
    if (!folder) return;
    files_remove(folder);
    free(folder);
}

TestSuite(adapters_families, .init = setup, .fini = finish);

static int keep_bytes(void *user, const void *data, size_t size)
{
    return fwrite(data, 1, size, user) == size ? 0 : 1;
}

/* Writes a model in float32, so that nothing is rounded on the way. */
static void write_model(struct engine *engine, const char *name)
{
    char path[256];
    struct engine_quantize_options wish = {.struct_size = sizeof wish, .type = "F32", .write = keep_bytes};
    struct engine_model *model = NULL;
    FILE *file = fopen(model_file, "wb");
    wish.user = file;
    snprintf(path, sizeof path, FAMILIES "gguf/%s.gguf", name);
    cr_assert_eq(engine_model_open(engine, path, NULL, &model), ENGINE_OK, "%s", engine_error_message());
    cr_assert_eq(engine_model_quantize(model, &wish), ENGINE_OK, "%s", engine_error_message());
    engine_model_close(model);
    fclose(file);
}

static void write_adapter(const char *name)
{
    char path[256], module[192], kind[16];
    size_t n_in, n_out;
    struct tensor_file *written = tensor_file_create();
    snprintf(path, sizeof path, EXPECTED "%s.modules", name);
    FILE *list = fopen(path, "r");
    cr_assert_not_null(list, "%s", path);
    while (fscanf(list, "%191s %15s %zu %zu", module, kind, &n_in, &n_out) == 4)
        tensor_file_add_module(written, module, n_in, n_out, RANK, strcmp(kind, "rows") == 0);
    fclose(list);
    tensor_file_save(written, files_path(folder, "adapter_model.safetensors"));
}

static int32_t *read_tokens(const char *name, size_t *count)
{
    char path[256];
    size_t size;
    snprintf(path, sizeof path, FAMILIES "%s.tokens.npy", name);
    char *file = files_read(path, &size);
    size_t header = 10u + (unsigned char)file[8] + 256u * (unsigned char)file[9];
    int32_t *tokens = malloc(size - header);
    memcpy(tokens, file + header, size - header);
    *count = (size - header) / sizeof *tokens;
    free(file);
    return tokens;
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

/* The logits of the last token with the adapter n times, at these scales. */
static void run(struct engine *engine, const char *name, const char *backends, int32_t offload,
                const float *scales, size_t n, float *logits)
{
    size_t n_tokens;
    int32_t *tokens = read_tokens(name, &n_tokens);
    struct engine_model *model = NULL;
    struct engine_adapter *adapters[2] = {0};
    struct engine_context *context = NULL;
    struct engine_context_options wish = {.struct_size = sizeof wish,
                                          .n_context = (uint32_t)n_tokens,
                                          .n_threads = 2,
                                          .cache_type = "f32",
                                          .backends = backends,
                                          .offload = &offload,
                                          .adapters = adapters,
                                          .adapter_scales = scales,
                                          .n_adapters = n};
    struct engine_batch batch = {.struct_size = sizeof batch, .n_tokens = n_tokens, .tokens = tokens};
    int status = engine_model_open(engine, model_file, NULL, &model);
    for (size_t i = 0; i < n && !status; i++)
        status = engine_adapter_open(model, adapter_folder, &adapters[i]);
    if (!status) status = engine_context_create(model, &wish, &context);
    if (!status) status = engine_decode(context, &batch, logits);
    cr_assert_eq(status, ENGINE_OK, "%s on %s, %d layers offloaded: %s", name, backends, offload,
                 engine_error_message());
    engine_context_destroy(context);
    engine_model_close(model);
    free(tokens);
}

/* From `least` times on: once at scale 1, and twice at scales that sum up to that. */
static void check(const char *name, const char *backends, int32_t offload, size_t least)
{
    static const float one[] = {1}, two[] = {0.25f, 0.75f};
    const struct engine_options options = {.struct_size = sizeof options,
                                           .plugin_dirs = (const char *const[]){TEST_PLUGIN_DIR, NULL},
                                           .config_file = config_file};
    struct engine *engine = NULL;
    char path[256];
    size_t size;
    snprintf(path, sizeof path, EXPECTED "%s.logits", name);
    float *reference = (float *)(void *)files_read(path, &size);
    float *logits = malloc(size);
    cr_assert_eq(engine_open(&options, &engine), ENGINE_OK, "%s", engine_error_message());
    write_model(engine, name);
    write_adapter(name);
    for (size_t n = least; n <= 2; n++) {
        run(engine, name, backends, offload, n == 1 ? one : two, n, logits);
        double error = relative_error(logits, reference, size / sizeof *logits);
        cr_expect(error <= 1e-5, "%s on %s, %d layers offloaded, %zu adapters: relative error %.2e", name,
                  backends, offload, n, error);
    }
    engine_close(engine);
    free(reference);
    free(logits);
}

#ifndef TEST_BACKEND

Test(adapters_families, logits_on_the_cpu_are_those_of_merged_models)
{
    for (int i = 0; i < N_SAMPLES; i++) check(samples[i], "cpu", 0, 1);
}

#else

Test(adapters_families, logits_are_the_same_wherever_layers_are)
{
    for (int i = 0; i < N_SAMPLES; i++) check(samples[i], TEST_BACKEND, i % 2 ? 1 : ENGINE_OFFLOAD_ALL, 2);
}

#endif

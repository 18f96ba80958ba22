/* test-adapters-families.c: models of ../shared/families with PEFT adapters, against the logits of
 * transformers with the changes merged into the weights, which tools/adapters/record has put into
 * data/adapters. On the CPU, or with TEST_BACKEND on a GPU plugin's device as well, with one or all of the
 * layers there. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "adapter-writer.h"
#include "engine.h"
#include "families-fixture.h"
#include "files.h"

#define EXPECTED TEST_SOURCE_DIR "/data/adapters/"
enum { RANK = 8 };

static const char *const samples[] = {
    "llama",   "llama3",   "mixtral", "qwen3moe",   "qwen2moe",       "deepseek3", "gptneox",
    "bloom",   "falcon40", "gpt2",    "phi2",       "phi3",           "gemma",     "granite",
    "smollm3", "cohere",   "gptoss",  "granitemoe", "deepseek2-lite",
};
enum { N_SAMPLES = sizeof samples / sizeof *samples };

/* The families whose experts are parameters here, and what adapter_config.json says of it. */
static const char *const parameters[][2] = {
    {"gptoss", "\"mlp.experts.down_proj\", \"mlp.experts.gate_up_proj\""},
    {"granitemoe", "\"input_linear.weight\", \"output_linear.weight\""},
    {"deepseek2-lite", "\"experts.gate_up_proj\""},
};

TestSuite(adapters_families, .init = families_begin, .fini = families_end);

static bool turned; /* factors of parameters are in each other's place */

static void write_config(const char *name)
{
    char config[256];
    const char *targets = "";
    for (size_t i = 0; i < sizeof parameters / sizeof *parameters; i++)
        if (strcmp(parameters[i][0], name) == 0) targets = parameters[i][1];
    snprintf(config, sizeof config,
             "{\"peft_type\": \"LORA\", \"r\": %d, \"lora_alpha\": 16, \"bias\": \"none\", "
             "\"target_parameters\": [%s]}",
             RANK, targets);
    files_write_text(files_path(families.folder, "adapter_config.json"), config);
}

static void write_adapter(const char *name)
{
    char path[256], module[192], kind[16];
    size_t n_in, n_out;
    write_config(name);
    struct tensor_file *written = tensor_file_create();
    snprintf(path, sizeof path, EXPECTED "%s.modules", name);
    FILE *list = fopen(path, "r");
    cr_assert_not_null(list, "%s", path);
    while (fscanf(list, "%191s %15s %zu %zu", module, kind, &n_in, &n_out) == 4) {
        size_t n = strncmp(kind, "experts", 7) == 0 ? strtoul(kind + 7, NULL, 10) : 1;
        if (n > 1 && turned)
            tensor_file_add_turned(written, module, n_in, n_out, RANK, n);
        else
            tensor_file_add_module(written, module, n_in, n_out, n * RANK, strcmp(kind, "rows") == 0);
    }
    fclose(list);
    tensor_file_save(written, files_path(families.folder, "adapter_model.safetensors"));
}

/* The logits of the last token with the adapter n times, at these scales. */
static void run(struct engine *engine, const char *name, const struct family_files *files,
                const char *backends, int32_t offload, const float *scales, size_t n, float *logits)
{
    size_t n_tokens;
    int32_t *tokens = families_read_npy(files->tokens, &n_tokens);
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
    int status = engine_model_open(engine, files->model, NULL, &model);
    for (size_t i = 0; i < n && !status; i++)
        status = engine_adapter_open(model, families.folder, &adapters[i]);
    if (!status) status = engine_context_create(model, &wish, &context);
    if (!status) status = engine_decode(context, &batch, logits);
    cr_assert_eq(status, ENGINE_OK, "%s on %s, %d layers offloaded: %s", name, backends, offload,
                 engine_error_message());
    engine_context_destroy(context);
    engine_model_close(model);
    free(tokens);
}

/* From `least` times on: once at scale 1, and twice at scales that sum up to that. */
static void check_files(const char *name, const struct family_files *files, const char *backends,
                        int32_t offload, size_t least)
{
    static const float one[] = {1}, two[] = {0.25f, 0.75f};
    const struct engine_options options = {.struct_size = sizeof options,
                                           .plugin_dirs = (const char *const[]){TEST_PLUGIN_DIR, NULL},
                                           .config_file = families.config_file};
    struct engine *engine = NULL;
    char path[256];
    size_t size;
    snprintf(path, sizeof path, EXPECTED "%s.logits", name);
    float *reference = (float *)(void *)files_read(path, &size);
    float *logits = malloc(size);
    cr_assert_eq(engine_open(&options, &engine), ENGINE_OK, "%s", engine_error_message());
    struct family_files converted = *files;
    if (strstr(files->model, ".gguf")) {
        families_convert(engine, files->model, "F32", 0); /* so that nothing is rounded on the way */
        snprintf(converted.model, sizeof converted.model, "%s", families.model_file);
    }
    write_adapter(name);
    for (size_t n = least; n <= 2; n++) {
        run(engine, name, &converted, backends, offload, n == 1 ? one : two, n, logits);
        double error = families_error(logits, reference, size / sizeof *logits);
        cr_expect(error <= 1e-5, "%s on %s, %d layers offloaded, %zu adapters: relative error %.2e", name,
                  backends, offload, n, error);
    }
    engine_close(engine);
    free(reference);
    free(logits);
}

static void check(const char *name, const char *backends, int32_t offload, size_t least)
{
    const struct family_files files = family_files(name);
    check_files(name, &files, backends, offload, least);
}

#ifndef TEST_BACKEND

Test(adapters_families, logits_on_the_cpu_are_those_of_merged_models)
{
    for (int i = 0; i < N_SAMPLES; i++) check(samples[i], "cpu", 0, 1);
}

static struct family_files recurrent_files(const char *name)
{
    struct family_files files;
    snprintf(files.model, sizeof files.model, TEST_SOURCE_DIR "/data/recurrent/%s", name);
    snprintf(files.tokens, sizeof files.tokens, TEST_SOURCE_DIR "/data/recurrent/%s.tokens.npy", name);
    return files;
}

/* As PEFT 0.17 has them, which takes rows for columns. */
Test(adapters_families, factors_of_parameters_may_have_changed_places)
{
    turned = true;
    check("granitemoe", "cpu", 0, 1);
}

/* Gate and up are one matrix in Hugging Face's model, and two here. */
Test(adapters_families, one_matrix_may_be_two_here)
{
    const struct family_files files = recurrent_files("granitehybrid");
    check_files("granitehybrid", &files, "cpu", 0, 1);
}

/* Their factors would give other results than with Hugging Face's model. */
Test(adapters_families, refuses_matrices_in_another_form)
{
    static const struct {
        const char *model, *module;
        size_t n_in, n_out;
    } cases[] = {
        {"falcon-h1", "model.layers.0.self_attn.q_proj", 16, 24},
        {"falcon-h1", "lm_head", 16, 32},
        {"qwen3next", "model.layers.0.linear_attn.in_proj_qkvz", 24, 48},
    };
    const struct engine_options options = {.struct_size = sizeof options,
                                           .plugin_dirs = (const char *const[]){TEST_PLUGIN_DIR, NULL},
                                           .config_file = families.config_file};
    struct engine *engine = NULL;
    cr_assert_eq(engine_open(&options, &engine), ENGINE_OK, "%s", engine_error_message());
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const struct family_files files = recurrent_files(cases[i].model);
        struct engine_model *model = NULL;
        struct engine_adapter *adapter = NULL;
        write_config(cases[i].model);
        struct tensor_file *written = tensor_file_create();
        tensor_file_add_module(written, cases[i].module, cases[i].n_in, cases[i].n_out, RANK, 0);
        tensor_file_save(written, files_path(families.folder, "adapter_model.safetensors"));
        cr_assert_eq(engine_model_open(engine, files.model, NULL, &model), ENGINE_OK, "%s",
                     engine_error_message());
        cr_expect_eq(engine_adapter_open(model, families.folder, &adapter), ENGINE_ERROR_UNSUPPORTED);
        cr_expect(strstr(engine_error_message(), cases[i].module) &&
                      strstr(engine_error_message(), "its factors no longer fit"),
                  "%s", engine_error_message());
        engine_model_close(model);
    }
    engine_close(engine);
}

#else

Test(adapters_families, logits_are_the_same_wherever_layers_are)
{
    for (int i = 0; i < N_SAMPLES; i++) check(samples[i], TEST_BACKEND, i % 2 ? 1 : ENGINE_OFFLOAD_ALL, 2);
}

#endif

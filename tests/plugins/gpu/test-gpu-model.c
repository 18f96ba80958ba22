/* test-gpu-model.c: whole models on the first device of a GPU plugin, from outside, under Vulkan's validation
 * layers where they are installed: with any number of layers offloaded, in any memory, and on a machine
 * without a driver. */
#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "files.h"
#include "gpu-device.h"
#include "program.h"
#include "sample.h"

#define MODEL     TEST_SHARED_DIR "/models/stories260K-f32.gguf"
#define REFERENCE TEST_SHARED_DIR "/reference/tiny-llama/"
#define RUN       "-m", MODEL, "-p", "Once upon a time", "--temp", "0", "-n", "40"

static void setup(void)
{
    if (access(MODEL, R_OK) != 0) cr_skip_test("no ../shared here");
    gpu_skip_without_device();
}

TestSuite(gpu_model, .init = setup);

static char *text_on_cpu(void)
{
    struct program_result result = PROGRAM(RUN, "--backend", "cpu");
    cr_assert_eq(result.status, 0, "%s", result.err);
    free(result.err);
    return result.out;
}

Test(gpu_model, the_same_text_with_any_number_of_layers)
{
    static const char *const offloads[] = {"0", "1", "2", "3", "4", "5", "all", "auto"};
    char *expected = text_on_cpu();
    for (size_t i = 0; i < sizeof offloads / sizeof *offloads; i++) {
        struct program_result result = PROGRAM(RUN, "--backend", gpu.plugin, "--offload", offloads[i]);
        program_expect_text(&result, expected, offloads[i]);
        program_free(&result);
    }
    free(expected);
}

Test(gpu_model, the_same_text_in_any_memory)
{
    static const char *const budgets[] = {"0", "500K", "1M", "1500K", "8M"};
    char *expected = text_on_cpu();
    for (size_t i = 0; i < sizeof budgets / sizeof *budgets; i++) {
        char budget[64];
        snprintf(budget, sizeof budget, "%s=%s", gpu.device, budgets[i]);
        struct program_result result =
            PROGRAM(RUN, "--backend", gpu.plugin, "--offload", "all", "-b", "16", "--memory", budget);
        program_expect_text(&result, expected, budgets[i]);
        program_free(&result);
    }
    free(expected);
}

Test(gpu_model, single_tensors_apart_from_their_layers)
{
    char *expected = text_on_cpu();
    struct program_result result = PROGRAM(RUN, "--backend", gpu.plugin, "--offload", "all", "--place",
                                           "blk.*.ffn_*=cpu", "--place", "blk.2.cache=cpu");
    program_expect_text(&result, expected, "--place");
    program_free(&result);
    free(expected);
}

/* Each layer on another device than the one before it. PoCL offers the processor twice if it is told so. */
Test(gpu_model, layers_in_turns_on_two_devices)
{
    char second[32], backends[64], place[64], rest[64];
    snprintf(second, sizeof second, "%.*s1", (int)strlen(gpu.device) - 1, gpu.device);
    setenv("POCL_DEVICES", "pthread pthread", 1);
    struct program_result devices = PROGRAM("devices", "--json");
    bool has_second = devices.out && strstr(devices.out, second);
    program_free(&devices);
    if (!has_second) cr_skip_test("there is no device %s", second);
    char *expected = text_on_cpu();
    snprintf(backends, sizeof backends, "%s,%s", gpu.device, second);
    snprintf(place, sizeof place, "blk.[024].*=%s", gpu.device);
    snprintf(rest, sizeof rest, "*=%s", second);
    struct program_result result =
        PROGRAM(RUN, "--backend", backends, "--offload", "all", "--place", place, "--place", rest);
    program_expect_text(&result, expected, "two devices");
    program_free(&result);
    free(expected);
}

/* ---- Logits -------------------------------------------------------------------------------------------- */

/* The float32 values of a NumPy file; the first of `n`, in new memory. */
static float *read_npy(const char *path, size_t *n)
{
    size_t size;
    char *file = files_read(path, &size);
    const unsigned char *bytes = (const unsigned char *)file;
    size_t header = 10u + bytes[8] + 256u * bytes[9];
    *n = (size - header) / sizeof(float);
    memmove(file, file + header, *n * sizeof(float));
    return (float *)(void *)file;
}

static double relative_error(const char *path, const char *reference_path)
{
    size_t n, n_reference;
    float *values = read_npy(path, &n), *reference = read_npy(reference_path, &n_reference);
    double difference = 0, norm = 0;
    cr_assert_eq(n, n_reference);
    for (size_t i = 0; i < n; i++) {
        double d = (double)values[i] - (double)reference[i];
        difference += d * d;
        norm += (double)reference[i] * (double)reference[i];
    }
    free(values);
    free(reference);
    return sqrt(difference / norm);
}

/* The relative error of the logits of tiny-llama in a type. */
static double logits_error(const char *type, const char *cache, const char *offload)
{
    char *folder = files_folder();
    const char *out = files_path(folder, "logits.npy");
    char model[512], answer[512];
    snprintf(model, sizeof model, REFERENCE "tiny-llama-%s.gguf", type);
    snprintf(answer, sizeof answer, REFERENCE "tiny-llama-%s.logits.npy", type);
    struct program_result result =
        PROGRAM("logits", "-m", model, "--tokens-file", REFERENCE "tokens.npy", "-o", out, "--cache-type",
                cache, "--backend", gpu.plugin, "--offload", offload);
    cr_assert_eq(result.status, 0, "%s, offload %s: %s", type, offload, result.err);
    double error = relative_error(out, answer);
    program_free(&result);
    files_remove(folder);
    free(folder);
    return error;
}

/* What text and bars are for: a type, and how far its logits may be off (../shared/reference). */
static const struct {
    const char *type;
    double bar;
} types[] = {{"f32", 3e-6},     {"F16", 7.89e-4},    {"BF16", 6.47e-3},   {"Q8_0", 2.22e-2},
             {"Q4_0", 2.18e-2}, {"Q4_1", 2.22e-2},   {"Q5_0", 2.18e-2},   {"Q5_1", 2.19e-2},
             {"Q2_K", 3.35e-2}, {"Q3_K_S", 3.06e-2}, {"Q4_K_S", 3.17e-2}, {"Q5_K_S", 3.16e-2},
             {"Q6_K", 3.16e-2}, {"IQ4_NL", 2.16e-2}, {"IQ4_XS", 3.04e-2}};

#define COUNT(array) (sizeof(array) / sizeof *(array))

/* The host's code is the same for all types. */
#define TYPE_STEP all_or_sample(1, 5)

/* Weights are used as they are, without rounding the inputs: all types are as good as float32. */
Test(gpu_model, logits_in_every_type)
{
    cr_assert(gpu_choose(gpu.exact));
    for (size_t i = first_of_sample(TYPE_STEP); i < COUNT(types); i += TYPE_STEP) {
        double error = logits_error(types[i].type, "f32", "all");
        cr_assert_leq(error, 3e-6, "%s: relative error %g", types[i].type, error);
    }
}

Test(gpu_model, logits_as_the_device_likes_it)
{
    for (size_t i = first_of_sample(TYPE_STEP); i < COUNT(types); i += TYPE_STEP) {
        double error = logits_error(types[i].type, "f32", "all");
        cr_expect_leq(error, types[i].bar, "%s: relative error %g", types[i].type, error);
    }
}

Test(gpu_model, logits_with_half_of_the_layers)
{
    for (size_t i = first_of_sample(TYPE_STEP); i < COUNT(types); i += TYPE_STEP) {
        double error = logits_error(types[i].type, "f32", "2");
        cr_expect_leq(error, types[i].bar, "%s: relative error %g", types[i].type, error);
    }
}

/* Those of other devices than the one here. */
Test(gpu_model, logits_in_every_form)
{
    static const size_t some[] = {0, 1, 2, 3, 4, 10};
    for (unsigned form = 0; form < gpu.n_forms; form++) {
        if (!gpu_choose(&gpu.forms[form])) continue;
        for (size_t i = first_of_sample(TYPE_STEP); i < COUNT(some); i += TYPE_STEP) {
            double error = logits_error(types[some[i]].type, "f32", "all");
            double bar = gpu.forms[form].rounds ? types[some[i]].bar : 3e-6;
            cr_expect_leq(error, bar, "%s, %s: relative error %g", gpu.forms[form].name, types[some[i]].type,
                          error);
        }
    }
}

Test(gpu_model, logits_with_rounded_caches)
{
    cr_assert(gpu_choose(gpu.exact));
    cr_assert_leq(logits_error("f32", "f16", "all"), 2e-3);
    cr_assert_leq(logits_error("f32", "q8_0", "all"), 2e-2);
}

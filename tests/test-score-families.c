/* test-score-families.c: `engine score` and `engine perplexity` on small models of ten families and on tiny-llama, in ../shared, against the
 * logits of transformers: each token's log-probability to 1e-4. On the CPU, or with TEST_BACKEND with one layer on a GPU
 * plugin's device. */
#include <criterion/criterion.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "files.h"
#include "program.h"
#ifdef TEST_BACKEND
#include "gpu-device.h"
#define BACKEND TEST_BACKEND
#define OFFLOAD "1"
#else
#define BACKEND "cpu"
#define OFFLOAD "0"
#endif

#define TINY "reference/tiny-llama/"
enum { PROMPT = 11 };

static const struct {
    const char *model, *tokens, *logits; /* in ../shared */
} samples[] = {
#define FAMILY(name)                                                                                         \
    {                                                                                                        \
        "families/gguf/" name ".gguf", "families/" name ".tokens.npy", "families/" name ".logits.npy"        \
    }
    FAMILY("llama"),      FAMILY("bloom"),
    FAMILY("cohere2"),    FAMILY("deepseek3"),
    FAMILY("gemma3"),     FAMILY("gptoss"),
    FAMILY("gpt2"),       FAMILY("qwen3moe"),
    FAMILY("granitemoe"), FAMILY("exaone4"),
    FAMILY("falcon40"),   {TINY "tiny-llama-f32.gguf", TINY "tokens.npy", TINY "tiny-llama-f32.logits.npy"},
};

/* The data of an .npy file with elements of four bytes; *count receives how many. */
static void *read_shared_npy(const char *name, size_t *count)
{
    char path[256];
    size_t size;
    snprintf(path, sizeof path, TEST_SHARED_DIR "/%s", name);
    char *file = files_read(path, &size);
    size_t header = 10u + (unsigned char)file[8] + 256u * (unsigned char)file[9];
    *count = (size - header) / 4;
    void *data = malloc(size - header);
    memcpy(data, file + header, size - header);
    free(file);
    return data;
}

static double logprob_of(const float *logits, size_t n_vocab, int32_t token)
{
    double highest = -INFINITY, sum = 0;
    for (size_t i = 0; i < n_vocab; i++)
        if ((double)logits[i] > highest) highest = (double)logits[i];
    for (size_t i = 0; i < n_vocab; i++) sum += exp((double)logits[i] - highest);
    return (double)logits[token] - highest - log(sum);
}

/* A line with the first tokens as the prompt; the answers are the rest, and its first half. */
static void write_line(const char *path, const int32_t *tokens, size_t n)
{
    FILE *file = fopen(path, "w");
    cr_assert(file);
    fputs("{\"tokens\": [", file);
    for (size_t i = 0; i < PROMPT; i++) fprintf(file, "%s%d", i ? ", " : "", tokens[i]);
    for (size_t half = 1; half <= 2; half++) {
        fputs(half == 1 ? "], \"answers\": [[" : "], [", file);
        for (size_t i = PROMPT; i < PROMPT + (n - PROMPT) / half; i++)
            fprintf(file, "%s%d", i > PROMPT ? ", " : "", tokens[i]);
    }
    fputs("]]}\n", file);
    fclose(file);
}

/* One window of the whole text: each token but the first counts. */
static void check_perplexity(size_t number, const char *model, const int32_t *tokens, size_t n,
                             const float *logits, size_t n_vocab)
{
    char path[256], length[24];
    double sum = 0;
    for (size_t i = 1; i < n; i++) sum -= logprob_of(logits + (i - 1) * n_vocab, n_vocab, tokens[i]);
    snprintf(path, sizeof path, TEST_SHARED_DIR "/%s", samples[number].tokens);
    snprintf(length, sizeof length, "%zu", n);
    struct program_result result =
        PROGRAM("perplexity", "-m", model, "--tokens-file", path, "-c", length, "--stride", length, "--json",
                "--cache-type", "f32", "--backend", BACKEND, "--offload", OFFLOAD);
    cr_assert_eq(result.status, 0, "%s: %s", model, result.err);
    json_t *json = json_loads(result.out, 0, NULL);
    cr_assert_eq(json_integer_value(json_object_get(json, "tokens")), (json_int_t)n - 1);
    double nll = json_real_value(json_object_get(json, "nll"));
    cr_expect_float_eq(nll, sum / (double)(n - 1), 1e-4, "%s on %s: %f, not %f", model, BACKEND, nll,
                       sum / (double)(n - 1));
    json_decref(json);
    program_free(&result);
}

static void check(size_t number, const char *folder)
{
    size_t n, n_logits;
    int32_t *tokens = read_shared_npy(samples[number].tokens, &n);
    float *logits = read_shared_npy(samples[number].logits, &n_logits);
    size_t n_vocab = n_logits / n;
    const char *line = files_path(folder, "line.jsonl");
    char model[256];
    snprintf(model, sizeof model, TEST_SHARED_DIR "/%s", samples[number].model);
    write_line(line, tokens, n);
    struct program_result result = PROGRAM("score", "-m", model, "-f", line, "--json", "--cache-type", "f32",
                                           "--backend", BACKEND, "--offload", OFFLOAD);
    cr_assert_eq(result.status, 0, "%s: %s", model, result.err);
    json_t *json = json_loads(result.out, JSON_ALLOW_NUL, NULL);
    cr_assert(json, "%s: %s", model, result.out);
    for (size_t half = 1; half <= 2; half++) {
        const json_t *answer = json_array_get(json_object_get(json, "answers"), half - 1),
                     *scored = json_object_get(answer, "tokens");
        double sum = 0, error = 0;
        cr_assert_eq(json_array_size(scored), (n - PROMPT) / half);
        for (size_t i = 0; i < json_array_size(scored); i++) {
            const json_t *token = json_array_get(scored, i);
            double expected = logprob_of(logits + (PROMPT + i - 1) * n_vocab, n_vocab, tokens[PROMPT + i]);
            cr_assert_eq(json_integer_value(json_object_get(token, "id")), tokens[PROMPT + i]);
            error = fmax(error, fabs(json_real_value(json_object_get(token, "logprob")) - expected));
            sum += expected;
        }
        cr_expect_leq(error, 1e-4, "%s on %s: log-probabilities differ by %.2e", model, BACKEND, error);
        cr_expect_float_eq(json_real_value(json_object_get(answer, "logprob")), sum, 1e-4 * (double)n);
    }
    json_decref(json);
    program_free(&result);
    check_perplexity(number, model, tokens, n, logits, n_vocab);
    free(tokens);
    free(logits);
}

Test(score_families, log_probabilities_are_those_of_transformers, .timeout = 300)
{
    if (access(TEST_SHARED_DIR "/families/facts.md", R_OK) != 0) cr_skip_test("no ../shared here");
#ifdef TEST_BACKEND
    gpu_skip_without_device();
#endif
    char *folder = files_folder();
    for (size_t i = 0; i < sizeof samples / sizeof *samples; i++) check(i, folder);
    files_remove(folder);
    free(folder);
}

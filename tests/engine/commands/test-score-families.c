/* test-score-families.c: `engine score` and `engine perplexity` on small models of eleven families and on
 * tiny-llama, in ../shared, against the logits of transformers: each token's log-probability to 1e-4. On the
 * CPU, or with TEST_BACKEND with one layer on a GPU plugin's device. */
#include <criterion/criterion.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "families-fixture.h"
#include "files.h"
#include "program.h"
#ifdef TEST_BACKEND
#define BACKEND TEST_BACKEND
#define OFFLOAD "1"
#else
#define BACKEND "cpu"
#define OFFLOAD "0"
#endif

enum { PROMPT = 11 };

static const char *const names[] = {"llama", "bloom",    "cohere2",    "deepseek3", "gemma3",   "gptoss",
                                    "gpt2",  "qwen3moe", "granitemoe", "exaone4",   "falcon40", "tiny-llama"};

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
static void check_perplexity(const struct family_files *files, const int32_t *tokens, size_t n,
                             const float *logits, size_t n_vocab)
{
    const char *model = files->model;
    char length[24];
    double sum = 0;
    for (size_t i = 1; i < n; i++) sum -= logprob_of(logits + (i - 1) * n_vocab, n_vocab, tokens[i]);
    snprintf(length, sizeof length, "%zu", n);
    struct program_result result =
        PROGRAM("perplexity", "-m", model, "--tokens-file", files->tokens, "-c", length, "--stride", length,
                "--json", "--cache-type", "f32", "--backend", BACKEND, "--offload", OFFLOAD);
    cr_assert_eq(result.status, 0, "%s: %s", model, result.err);
    json_t *json = json_loads(result.out, 0, NULL);
    cr_assert_eq(json_integer_value(json_object_get(json, "tokens")), (json_int_t)n - 1);
    double nll = json_real_value(json_object_get(json, "nll"));
    cr_expect_float_eq(nll, sum / (double)(n - 1), 1e-4, "%s on %s: %f, not %f", model, BACKEND, nll,
                       sum / (double)(n - 1));
    json_decref(json);
    program_free(&result);
}

static void check(const char *name)
{
    size_t n, n_logits;
    const struct family_files files = family_files(name);
    const char *model = files.model, *line = files_path(families.folder, "line.jsonl");
    int32_t *tokens = families_read_npy(files.tokens, &n);
    float *logits = families_read_npy(files.logits, &n_logits);
    size_t n_vocab = n_logits / n;
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
    check_perplexity(&files, tokens, n, logits, n_vocab);
    free(tokens);
    free(logits);
}

TestSuite(score_families, .init = families_begin, .fini = families_end, .timeout = 1200);

Test(score_families, log_probabilities_are_those_of_transformers)
{
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) check(names[i]);
}

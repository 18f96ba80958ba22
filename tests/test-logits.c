/* test-logits.c: what `engine logits --top` prints is what it writes as JSON; and which settings change it. */
#include <criterion/criterion.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "files.h"
#include "gguf-writer.h"
#include "program-json.h"

enum { N_VOCAB = 320, N_TOP = 4 };

static char *folder, *model;

static void begin(void)
{
    folder = files_folder();
    model = strdup(files_path(folder, "model.gguf"));
    cr_assert(write_tiny_llama(model, &(struct tiny_llama){.seed = 3, .type = ENGINE_TYPE_F32}));
}

static void end(void)
{
    files_remove(folder);
    free(folder), free(model);
}

TestSuite(logits, .init = begin, .fini = end, .timeout = 1200);

#define LOGITS(...) PROGRAM("logits", "-m", model, "--backend", "cpu", "--tokens", "5 6 7", __VA_ARGS__)

/* [cpu] integers: small matrices of Q8_0 are computed in float32 unless it is `all`, as ENGINE_CPU_INTEGERS says too. */
Test(logits, rounding_on_the_cpu_is_a_setting)
{
    static const struct {
        const char *settings;
        bool rounds;
    } cases[] = {{"threads = 1\n", false},
                 {"[cpu]\nintegers = auto\n", false},
                 {"[cpu]\nintegers = all\n", true},
                 {"[cpu]\nintegers = none\n", false},
                 {"[cpu]\nintegers =\n", false}};
    enum { N_CASES = sizeof cases / sizeof *cases };
    const char *config = strdup(files_path(folder, "engine.conf"));
    json_t *logits[N_CASES];
    unsetenv("ENGINE_CPU_INTEGERS");
    cr_assert(write_tiny_llama(model, &(struct tiny_llama){.seed = 3, .type = ENGINE_TYPE_Q8_0}));
    for (int i = 0; i < N_CASES; i++) {
        files_write_text(config, cases[i].settings);
        logits[i] = program_json(LOGITS("--json", "--config", config));
        cr_expect_eq(json_equal(logits[i], logits[0]), !cases[i].rounds, "%s", cases[i].settings);
    }
    setenv("ENGINE_CPU_INTEGERS", "none", 1); /* overrides it */
    files_write_text(config, "[cpu]\nintegers = all\n");
    json_t *exact = program_json(LOGITS("--json", "--config", config));
    cr_expect(json_equal(exact, logits[0]));
    unsetenv("ENGINE_CPU_INTEGERS");
    files_write_text(config, "[cpu]\nintegers = most\n");
    struct program_result result = LOGITS("--json", "--config", config);
    program_expect_failure(&result, "[cpu] integers is 'most'");
    program_free(&result);
    json_decref(exact);
    for (int i = 0; i < N_CASES; i++) json_decref(logits[i]);
    free((void *)(uintptr_t)config);
}

static double logit_at(const json_t *all, size_t position, size_t id)
{
    return json_real_value(json_array_get(json_array_get(json_object_get(all, "logits"), position), id));
}

Test(logits, top)
{
    json_t *all = program_json(LOGITS("--json")), *top = program_json(LOGITS("--json", "--top", "4"));
    cr_assert_eq(json_array_size(json_object_get(top, "top")), 3);
    for (size_t position = 0; position < 3; position++) {
        const json_t *row = json_array_get(json_object_get(top, "top"), position);
        double total = 0, least = 0;
        cr_assert_eq(json_array_size(row), N_TOP);
        for (size_t id = 0; id < N_VOCAB; id++) total += exp(logit_at(all, position, id));
        for (size_t i = 0; i < N_TOP; i++) {
            const json_t *token = json_array_get(row, i);
            double logit = json_real_value(json_object_get(token, "logit"));
            size_t id = (size_t)json_integer_value(json_object_get(token, "id"));
            cr_assert_float_eq(logit, logit_at(all, position, id), 1e-6);
            cr_assert_float_eq(json_real_value(json_object_get(token, "probability")), exp(logit) / total,
                               1e-6);
            cr_assert(i == 0 || logit <= least);
            cr_assert(json_is_string(json_object_get(token, "text")));
            least = logit;
        }
        size_t n_above = 0;
        for (size_t id = 0; id < N_VOCAB; id++) n_above += logit_at(all, position, id) > least + 1e-6;
        cr_assert_eq(n_above, N_TOP - 1);
    }
    struct program_result result = LOGITS("--top", "4");
    cr_assert_eq(result.status, 0, "%s", result.err);
    cr_assert_eq(program_count_lines(result.out, " %"), 3 * N_TOP, "%s", result.out);
    cr_assert_eq(program_count_lines(result.out, "PROBABILITY"), 1);
    program_free(&result);
    json_decref(all);
    json_decref(top);
}

/* Weights that are not numbers give logits that are none: each command that shows them says so. */
Test(logits, damaged_weights)
{
    size_t size;
    char *bytes = files_read(model, &size);
    for (size_t at = size / 2; at + 4 <= size; at += 4) memcpy(bytes + at, &(uint32_t){0x7fc00000}, 4);
    files_write(model, bytes, size);
    free(bytes);
    const char *text = files_path(folder, "text");
    files_write_text(text, "abc cab bca abc cab bca abc cab bca");
    struct program_result results[] = {
        LOGITS("--top", "4"),
        LOGITS("--lens"),
        PROGRAM("attention", "-m", model, "--backend", "cpu", "--tokens", "5 6 7", "--layer", "1"),
        PROGRAM("perplexity", "-m", model, "--backend", "cpu", "-f", text, "-c", "8"),
        PROGRAM("score", "-m", model, "--backend", "cpu", "-p", "ab", "--answer", "c"),
        PROGRAM("run", "-m", model, "--backend", "cpu", "-p", "ab", "--beams", "2"),
        PROGRAM("run", "-m", model, "--backend", "cpu", "-p", "ab"),
    };
    for (size_t i = 0; i < sizeof results / sizeof *results; i++) {
        program_expect_failure(&results[i], "the model's weights are damaged");
        program_free(&results[i]);
    }
}

Test(logits, the_lens_shows_as_many_tokens_as_it_is_asked_for)
{
    struct program_result result = LOGITS("--lens", "--top", "9");
    cr_assert_eq(result.status, 0, "%s", result.err);
    size_t n = 0;
    for (const char *at = result.out; (at = strstr(at, "NEXT")); at++) n++;
    cr_assert_eq(n, 8, "%s", result.out);
    program_free(&result);
    result = LOGITS("--lens", "--top", "32");
    program_expect_failure(&result, "room for 31 tokens");
    program_free(&result);
}

/* The hyper-parameters are read several times. */
Test(logits, a_warning_comes_once)
{
    static const char mistral[] = TEST_SHARED_DIR "/families/gguf/mistral.gguf";
    if (access(mistral, R_OK) != 0) cr_skip_test("no ../shared here");
    struct program_result result = PROGRAM("logits", "-m", mistral, "--tokens", "5 6 7", "--top", "1");
    cr_assert_eq(result.status, 0, "%s", result.err);
    cr_assert_eq(program_count_lines(result.err, "assuming none"), 1, "%s", result.err);
    program_free(&result);
}

Test(logits, mistakes)
{
    struct program_result result = LOGITS("--top", "0");
    program_expect_failure(&result, "--top");
    program_free(&result);
    result = LOGITS("--hidden", "hidden.txt");
    program_expect_failure(&result, "--hidden hidden.txt: the name must end in .npy");
    program_free(&result);
    result = LOGITS("-v");
    program_expect_failure(&result, "no output file");
    program_free(&result);
}

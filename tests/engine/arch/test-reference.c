/* test-reference.c: the program from outside on models with known answers, in ../shared: the text of
 * stories260K in each format, and the logits of tiny-llama in each type, no worse than llama.cpp's. */
#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "files.h"
#include "llama2c-writer.h"
#include "program.h"
#include "sample.h"

#define MODELS    TEST_SHARED_DIR "/models/"
#define REFERENCE TEST_SHARED_DIR "/reference/tiny-llama/"

static void need_shared(void)
{
    if (access(MODELS "README.md", R_OK) != 0) cr_skip_test("no ../shared here");
}

/* ---- Text ---- */

/* The quoted text (lines that begin with "> ") in the models' README, up to the first line that isn't
 * quoted. */
static char *expected_text(void)
{
    size_t size;
    char *readme = files_read(MODELS "README.md", &size), *text = calloc(1, size + 1), *end = text;
    char *line = strstr(readme, "\n> ") + 1;
    while (strncmp(line, "> ", 2) == 0) {
        char *newline = strchr(line, '\n');
        end += sprintf(end, "%.*s\n", (int)(newline - line - 2), line + 2);
        line = newline + 1;
    }
    end[-1] = 0;
    free(readme);
    return text;
}

static void expect_text(const char *model, const char *tokenizer, const char *threads, const char *expected)
{
    const char *arguments[16] = {"-m", model, "-p", "Once upon a time", "--temp", "0", "-t", threads};
    if (tokenizer) {
        arguments[8] = "--tokenizer";
        arguments[9] = tokenizer;
    }
    struct program_result result = program_run(arguments, NULL, 0);
    cr_assert_eq(result.status, 0, "%s", result.err);
    cr_assert_str_eq(result.out, expected, "%s, %s threads", model, threads);
    program_free(&result);
}

Test(reference, stories_are_told_to_the_letter)
{
    need_shared();
    char *expected = expected_text();
    for (char threads[] = "1"; threads[0] <= '3'; threads[0]++) {
        expect_text(MODELS "stories260K-f32.gguf", NULL, threads, expected);
        expect_text(MODELS "stories260K.bin", MODELS "tok512.bin", threads, expected);
    }
    free(expected);
}

Test(reference, no_echo_leaves_the_prompt_out)
{
    need_shared();
    struct program_result all =
        PROGRAM("-m", MODELS "stories260K-f32.gguf", "-p", "Once upon a time", "--temp", "0");
    struct program_result rest = PROGRAM("run", "-m", MODELS "stories260K-f32.gguf", "-p", "Once upon a time",
                                         "--temp", "0", "--no-echo");
    cr_assert_str_eq(all.out + strlen("Once upon a time"), rest.out);
    program_free(&all);
    program_free(&rest);
}

Test(reference, the_same_seed_gives_the_same_text)
{
    need_shared();
    struct program_result first =
        PROGRAM("-m", MODELS "stories260K-f32.gguf", "-p", "The", "--seed", "5", "-t", "1");
    struct program_result same =
        PROGRAM("-m", MODELS "stories260K-f32.gguf", "-p", "The", "--seed", "5", "-t", "3");
    struct program_result other = PROGRAM("-m", MODELS "stories260K-f32.gguf", "-p", "The", "--seed", "6");
    cr_assert_str_eq(first.out, same.out);
    cr_assert_str_neq(first.out, other.out);
    program_free(&first);
    program_free(&same);
    program_free(&other);
}

Test(reference, a_prompt_longer_than_the_context_is_refused)
{
    need_shared();
    struct program_result result =
        PROGRAM("-m", MODELS "stories260K-f32.gguf", "-c", "4", "-p", "Once upon a time there was a dog");
    cr_assert_eq(result.status, 1);
    cr_assert(strstr(result.err, "the prompt has "), "%s", result.err);
    program_free(&result);
}

/* ---- Logits ---- */

struct array {
    float *values; /* [rows, columns] */
    size_t rows, columns;
    char *file;
};

static struct array read_npy(const char *path)
{
    size_t size;
    struct array array = {.file = files_read(path, &size)};
    const unsigned char *bytes = (const unsigned char *)array.file;
    size_t header = 10u + bytes[8] + 256u * bytes[9];
    cr_assert(strstr(array.file + 10, "'<f4'"));
    const char *shape = strstr(array.file + 10, "'shape': (");
    cr_assert_eq(sscanf(shape, "'shape': (%zu, %zu)", &array.rows, &array.columns), 2);
    cr_assert_eq(size, header + 4 * array.rows * array.columns);
    array.values = malloc(4 * array.rows * array.columns);
    memcpy(array.values, array.file + header, 4 * array.rows * array.columns);
    free(array.file);
    return array;
}

static struct array run_logits(const char *const *arguments, const char *out)
{
    struct program_result result = program_run(arguments, NULL, 0);
    cr_assert_eq(result.status, 0, "%s", result.err);
    program_free(&result);
    return read_npy(out);
}

static double relative_error(const struct array *x, const struct array *reference)
{
    double difference = 0, norm = 0;
    cr_assert_eq(x->rows, reference->rows);
    cr_assert_eq(x->columns, reference->columns);
    for (size_t i = 0; i < x->rows * x->columns; i++) {
        double d = (double)x->values[i] - (double)reference->values[i];
        difference += d * d;
        norm += (double)reference->values[i] * (double)reference->values[i];
    }
    return sqrt(difference / norm);
}

/* log(sum(exp(row))) */
static double log_sum(const float *row, size_t n)
{
    double largest = row[0], sum = 0;
    for (size_t i = 1; i < n; i++) largest = fmax(largest, (double)row[i]);
    for (size_t i = 0; i < n; i++) sum += exp((double)row[i] - largest);
    return largest + log(sum);
}

/* The mean over positions of KL(reference || x). */
static double divergence(const struct array *x, const struct array *reference)
{
    double sum = 0;
    for (size_t row = 0; row < x->rows; row++) {
        const float *r = reference->values + row * x->columns, *o = x->values + row * x->columns;
        double r_sum = log_sum(r, x->columns), o_sum = log_sum(o, x->columns);
        for (size_t i = 0; i < x->columns; i++)
            sum += exp((double)r[i] - r_sum) * (((double)r[i] - r_sum) - ((double)o[i] - o_sum));
    }
    return sum / (double)x->rows;
}

/* What llama.cpp gives, from ../shared/reference/README.md; our own bar for float32. */
static const struct {
    const char *type;
    double error, divergence;
} bars[] = {{"f32", 3e-6, 1e-10},         {"F16", 7.89e-4, 2.45e-6},    {"BF16", 6.47e-3, 1.59e-4},
            {"Q8_0", 2.22e-2, 1.84e-3},   {"Q4_0", 2.18e-2, 2.01e-3},   {"Q4_1", 2.22e-2, 2.05e-3},
            {"Q5_0", 2.18e-2, 1.75e-3},   {"Q5_1", 2.19e-2, 1.90e-3},   {"Q2_K", 3.35e-2, 4.61e-3},
            {"Q3_K_S", 3.06e-2, 3.49e-3}, {"Q4_K_S", 3.17e-2, 3.88e-3}, {"Q5_K_S", 3.16e-2, 3.89e-3},
            {"Q6_K", 3.16e-2, 3.56e-3},   {"IQ4_NL", 2.16e-2, 1.85e-3}, {"IQ4_XS", 3.04e-2, 3.15e-3}};

/* Each of them that the machine has; a name that it doesn't have caps it to the next one. */
#if defined(__aarch64__)
static const char *const instruction_sets[] = {"scalar", "neon", "neondot"};
#else
static const char *const instruction_sets[] = {"scalar", "avx2", "avxvnni", "avx512", "avx512vnni"};
#endif

Test(reference, logits_are_no_worse_than_those_of_llama_cpp)
{
    need_shared();
    char *folder = files_folder();
    const char *out = files_path(folder, "logits.npy");
    size_t n_bars = sizeof bars / sizeof *bars, n_sets = sizeof instruction_sets / sizeof *instruction_sets;
    const size_t step = all_unless(SANITIZED, 1, 4); /* every fourth has all types, and in turns all sets */
    for (size_t n = 0; n < n_bars * n_sets; n += step) {
        size_t i = n / n_sets;
        const char *set = instruction_sets[n % n_sets];
        setenv("ENGINE_CPU_ISA", set, 1);
        char model[512], answer[512];
        snprintf(model, sizeof model, REFERENCE "tiny-llama-%s.gguf", bars[i].type);
        snprintf(answer, sizeof answer, REFERENCE "tiny-llama-%s.logits.npy", bars[i].type);
        const char *arguments[] = {"logits", "-m", model,          "--tokens-file", REFERENCE "tokens.npy",
                                   "-o",     out,  "--cache-type", "f32",           NULL};
        struct array logits = run_logits(arguments, out), reference = read_npy(answer);
        double error = relative_error(&logits, &reference), kl = divergence(&logits, &reference);
        cr_assert_leq(error, bars[i].error, "%s, %s: relative error %g", bars[i].type, set, error);
        cr_assert_leq(kl, bars[i].divergence, "%s, %s: divergence %g", bars[i].type, set, kl);
        free(logits.values);
        free(reference.values);
    }
    unsetenv("ENGINE_CPU_ISA");
    files_remove(folder);
    free(folder);
}

/* Version 1 of the same weights, and version 2, which rounds them to int8 in groups of 8. */
Test(reference, llama2c_versions_give_the_logits_of_their_weights)
{
    need_shared();
    size_t size;
    char *folder = files_folder(), *file = files_read(MODELS "stories260K.bin", &size);
    struct llama2c_shape shape;
    float *weights = llama2c_parse((uint8_t *)file, size, &shape);
    uint8_t *version1 = llama2c_checkpoint(&shape, weights, 1, 0, &size);
    const char *out = files_path(folder, "logits.npy"), *model1 = files_path(folder, "v1.bin");
    files_write(model1, version1, size);

    const char *arguments[] = {"logits", "-m", NULL, "--tokens", "1 403 407 261 378,5 9 100",
                               "-o",     out,  NULL};
    const char *models[] = {MODELS "stories260K.bin", model1, MODELS "stories260K-q8.bin"};
    struct array logits[3];
    for (int i = 0; i < 3; i++) {
        arguments[2] = models[i];
        logits[i] = run_logits(arguments, out);
    }
    cr_assert_eq(logits[0].rows, 8);
    cr_assert_arr_eq(logits[1].values, logits[0].values, 4 * logits[0].rows * logits[0].columns);
    double error = relative_error(&logits[2], &logits[0]);
    cr_assert(error > 0 && error < 0.1, "version 2 is off by %g", error);

    for (int i = 0; i < 3; i++) free(logits[i].values);
    free(version1);
    free(weights);
    free(file);
    files_remove(folder);
    free(folder);
}

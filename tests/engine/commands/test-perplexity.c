/* test-perplexity.c: `engine perplexity` from outside: by its definition from `engine logits`, and against
 * another type of the same model; files of predictions that are damaged. */
#include <criterion/criterion.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "files.h"
#include "gguf-writer.h"
#include "program-json.h"

enum { N_TOKENS = 75, N_WORDS = 320, BOS = 1 };

static char *folder, *model, *rounded, *tokens_file, *saved;
static int32_t tokens[N_TOKENS];

static void write_tokens(const char *path, size_t n)
{
    char header[80];
    memcpy(header, "\x93NUMPY\x01\0\x46\0", 10);
    int used = snprintf(header + 10, 70, "{'descr': '<i4', 'fortran_order': False, 'shape': (%zu,), }", n);
    memset(header + 10 + used, ' ', (size_t)(70 - used));
    header[79] = '\n';
    FILE *file = fopen(path, "wb");
    cr_assert(file);
    fwrite(header, 1, sizeof header, file);
    fwrite(tokens, sizeof *tokens, n, file);
    fclose(file);
}

static void begin(void)
{
    folder = files_folder();
    model = strdup(files_path(folder, "model.gguf"));
    rounded = strdup(files_path(folder, "rounded.gguf"));
    tokens_file = strdup(files_path(folder, "tokens.npy"));
    saved = strdup(files_path(folder, "saved"));
    cr_assert(write_tiny_llama(model, &(struct tiny_llama){.seed = 3, .type = ENGINE_TYPE_F32}));
    cr_assert(write_tiny_llama(rounded, &(struct tiny_llama){.seed = 3, .type = ENGINE_TYPE_Q8_0}));
    for (int i = 0; i < N_TOKENS; i++) tokens[i] = 5 + (i * i * 7 + 3 * i) % 300;
    write_tokens(tokens_file, N_TOKENS);
}

static void end(void)
{
    files_remove(folder);
    free(folder), free(model), free(rounded), free(tokens_file), free(saved);
}

TestSuite(perplexity, .init = begin, .fini = end, .timeout = 1200);

#define PERPLEXITY(path, ...)                                                                                \
    PROGRAM("perplexity", "-m", path, "--backend", "cpu", "--cache-type", "f32", __VA_ARGS__)

/* The log-probabilities after each token of a window, [length][N_WORDS], by the definition. */
static double *predict(const char *path, size_t first, size_t length, bool bos)
{
    char ids[2048] = "";
    for (size_t i = 0; i < length; i++)
        snprintf(ids + strlen(ids), sizeof ids - strlen(ids), "%d ", i == 0 && bos ? BOS : tokens[first + i]);
    json_t *json = program_json(
        PROGRAM("logits", "-m", path, "--backend", "cpu", "--cache-type", "f32", "--tokens", ids, "--json"));
    const json_t *rows = json_object_get(json, "logits");
    double *logprobs = malloc(length * N_WORDS * sizeof *logprobs);
    for (size_t i = 0; i < length; i++) {
        double sum = 0;
        for (size_t k = 0; k < N_WORDS; k++)
            logprobs[i * N_WORDS + k] = json_real_value(json_array_get(json_array_get(rows, i), k));
        for (size_t k = 0; k < N_WORDS; k++) sum += exp(logprobs[i * N_WORDS + k]);
        for (size_t k = 0; k < N_WORDS; k++) logprobs[i * N_WORDS + k] -= log(sum);
    }
    json_decref(json);
    return logprobs;
}

/* The sum of negative log-probabilities and of their squares over tokens from `counted` on. */
static void add_window(size_t first, size_t length, size_t counted, bool bos, double *sum, double *squares,
                       size_t *n)
{
    double *logprobs = predict(model, first, length, bos);
    for (size_t i = counted; i < length; i++) {
        double nll = -logprobs[(i - 1) * N_WORDS + (size_t)tokens[first + i]];
        *sum += nll;
        *squares += nll * nll;
        ++*n;
    }
    free(logprobs);
}

static double number_of(const json_t *json, const char *key)
{
    const json_t *value = json_object_get(json, key);
    cr_assert(json_is_number(value), "%s is not a number", key);
    return json_number_value(value);
}

static void expect(json_t *json, double sum, double squares, size_t n)
{
    double mean = sum / (double)n, error = sqrt((squares / (double)n - mean * mean) / (double)(n - 1));
    cr_assert_eq(number_of(json, "tokens"), (double)n, "%g, not %zu", number_of(json, "tokens"), n);
    cr_assert_eq(number_of(json, "text_tokens"), N_TOKENS);
    cr_assert_float_eq(number_of(json, "nll"), mean, 1e-5);
    cr_assert_float_eq(number_of(json, "perplexity") / exp(mean), 1, 1e-5);
    cr_assert_float_eq(number_of(json, "error") / (exp(mean) * error), 1, 1e-4);
    json_decref(json);
}

/* Windows side by side, each begun by the token that begins texts; of each, the tokens after the first half
 * and one. */
Test(perplexity, second_halves_of_windows)
{
    double sum = 0, squares = 0;
    size_t n = 0;
    for (size_t w = 0; w < 4; w++) add_window(16 * w, 16, 9, true, &sum, &squares, &n);
    cr_assert_eq(n, 28);
    static const char *const batches[] = {"512", "64", "50", "16", "7"};
    for (size_t i = 0; i < sizeof batches / sizeof *batches; i++)
        expect(program_json(
                   PERPLEXITY(model, "--tokens-file", tokens_file, "-c", "16", "-b", batches[i], "--json")),
               sum, squares, n);
}

/* Windows that are shorter than a batch may be, and longer. */
Test(perplexity, many_short_windows)
{
    double sum = 0, squares = 0;
    size_t n = 0;
    for (size_t w = 0; w < N_TOKENS / 4; w++) add_window(4 * w, 4, 3, true, &sum, &squares, &n);
    static const char *const batches[] = {"512", "24", "3"};
    for (size_t i = 0; i < sizeof batches / sizeof *batches; i++)
        expect(program_json(
                   PERPLEXITY(model, "--tokens-file", tokens_file, "-c", "4", "-b", batches[i], "--json")),
               sum, squares, n);
}

/* Windows that overlap: all tokens but the first, each once, with as much before them as fits. */
Test(perplexity, strides)
{
    for (size_t stride = 5; stride <= 16; stride += 11) {
        double sum = 0, squares = 0;
        size_t n = 0, seen = 1;
        char text[16];
        for (size_t first = 0;; first += stride) {
            size_t last = first + 16 < N_TOKENS ? first + 16 : N_TOKENS;
            add_window(first, last - first, seen > first ? seen - first : 1, false, &sum, &squares, &n);
            seen = last;
            if (last == N_TOKENS) break;
        }
        cr_assert_eq(n, stride == 16 ? N_TOKENS - 1 - (N_TOKENS - 1) / 16 : N_TOKENS - 1);
        snprintf(text, sizeof text, "%zu", stride);
        json_t *json = program_json(
            PERPLEXITY(model, "--tokens-file", tokens_file, "-c", "16", "--stride", text, "--json"));
        cr_assert_eq(number_of(json, "stride"), (double)stride);
        expect(json, sum, squares, n);
    }
}

Test(perplexity, a_text_has_its_tokens)
{
    const char *text = files_path(folder, "text.txt");
    FILE *file = fopen(text, "w");
    for (int i = 0; i < 40; i++) fprintf(file, "a b cab %d ", i);
    fclose(file);
    struct program_result result = PERPLEXITY(model, "-f", text, "-c", "32");
    cr_assert_eq(result.status, 0, "%s", result.err);
    cr_assert_eq(program_count_lines(result.out, "perplexity"), 1, "%s", result.out);
    cr_assert_eq(program_count_lines(result.out, "windows of 32"), 1, "%s", result.out);
    cr_assert_str_empty(result.err);
    program_free(&result);
}

static int compare_numbers(const void *a, const void *b)
{
    return (*(const double *)a > *(const double *)b) - (*(const double *)a < *(const double *)b);
}

/* Another type of the model against the first, by the definition of the divergence. */
Test(perplexity, divergence)
{
    json_t *json = program_json(
        PERPLEXITY(model, "--tokens-file", tokens_file, "-c", "32", "--save-logits", saved, "--json"));
    double own = number_of(json, "perplexity"), kl[64], total = 0, sum = 0;
    int n = 0, n_same = 0;
    json_decref(json);
    for (size_t w = 0; w < 2; w++) {
        double *p = predict(model, 32 * w, 32, true), *q = predict(rounded, 32 * w, 32, true);
        for (size_t i = 16; i < 31; i++, n++) {
            const double *x = p + i * N_WORDS, *y = q + i * N_WORDS;
            int best_x = 0, best_y = 0;
            kl[n] = 0;
            for (int k = 0; k < N_WORDS; k++) {
                kl[n] += exp(x[k]) * (x[k] - y[k]);
                if (x[k] > x[best_x]) best_x = k;
                if (y[k] > y[best_y]) best_y = k;
            }
            n_same += best_x == best_y;
            total += kl[n];
            sum -= y[tokens[32 * w + i + 1]];
        }
        free(p);
        free(q);
    }
    qsort(kl, (size_t)n, sizeof *kl, compare_numbers);
    json = program_json(PERPLEXITY(rounded, "--kl", saved, "--json"));
    const json_t *found = json_object_get(json, "kl");
    cr_assert_eq(number_of(json, "tokens"), 30);
    cr_assert_float_eq(number_of(json, "perplexity") / exp(sum / n), 1, 1e-5);
    cr_assert_float_eq(number_of(found, "reference_perplexity") / own, 1, 1e-6);
    cr_assert_float_eq(number_of(found, "ratio") * own / exp(sum / n), 1, 1e-5);
    cr_assert_float_eq(number_of(found, "mean") / (total / n), 1, 1e-3, "%g, not %g",
                       number_of(found, "mean"), total / n);
    /* The smallest divergences feel the file's rounding most. */
    cr_assert_float_eq(number_of(found, "max") / kl[n - 1], 1, 1e-2);
    cr_assert_float_eq(number_of(found, "median") / ((kl[14] + kl[15]) / 2), 1, 1e-2);
    cr_assert_float_eq(number_of(found, "p90") / (kl[26] * 0.9 + kl[27] * 0.1), 1, 1e-2, "%g, not %g",
                       number_of(found, "p90"), kl[26] * 0.9 + kl[27] * 0.1);
    cr_assert_float_eq(number_of(found, "same_top"), (double)n_same / n, 1e-9);
    json_decref(json);

    /* Of the model itself, nothing but the file's rounding is left. */
    json = program_json(PERPLEXITY(model, "--kl", saved, "--json"));
    found = json_object_get(json, "kl");
    cr_assert_float_eq(number_of(found, "ratio"), 1, 1e-9);
    cr_assert_eq(number_of(found, "same_top"), 1.0);
    cr_assert_lt(fabs(number_of(found, "max")), 1e-6, "%g", number_of(found, "max"));
    json_decref(json);
    struct program_result result = PERPLEXITY(rounded, "--kl", saved);
    cr_assert_eq(result.status, 0, "%s", result.err);
    cr_assert_eq(program_count_lines(result.out, "KL divergence"), 7, "%s", result.out);
    program_free(&result);
}

/* Predictions are in the text's order for any size of the batches that wrote and read them. */
Test(perplexity, divergence_with_other_batches)
{
    static const char *const batches[] = {"512", "24", "7"};
    for (size_t i = 0; i < 9; i++) {
        json_decref(program_json(PERPLEXITY(model, "--tokens-file", tokens_file, "-c", "16", "-b",
                                            batches[i / 3], "--save-logits", saved, "--json")));
        json_t *json = program_json(PERPLEXITY(model, "--kl", saved, "-b", batches[i % 3], "--json"));
        const json_t *found = json_object_get(json, "kl");
        cr_assert_eq(number_of(found, "same_top"), 1.0, "-b %s, then -b %s", batches[i / 3], batches[i % 3]);
        cr_assert_lt(fabs(number_of(found, "max")), 1e-6, "%g", number_of(found, "max"));
        json_decref(json);
    }
}

static void expect_error(struct program_result result, const char *word)
{
    cr_assert_str_empty(result.out);
    program_fails(result, 0, word);
}

Test(perplexity, mistakes)
{
    const char *text = files_path(folder, "text.txt");
    files_write_text(text, "a b");
    expect_error(PERPLEXITY(model, "--json"), "no text");
    expect_error(PERPLEXITY(model, "-f", text), "too few for a window");
    expect_error(PERPLEXITY(model, "-f", text, "-c", "2"), "-c 4");
    expect_error(PERPLEXITY(model, "-f", text, "--stride", "99", "-c", "16"), "--stride 99");
    expect_error(PERPLEXITY(model, "-f", text, "--tokens-file", tokens_file), "either");
    expect_error(PERPLEXITY(model, "-f", text, "--kl", saved), "its own text");
    expect_error(PERPLEXITY(model, "-f", "/nowhere/text"), "/nowhere/text");
    expect_error(PERPLEXITY(model, "--tokens-file", tokens_file, "-c", "16", "--save-logits", tokens_file),
                 "tokens.npy");
    files_write_text(text, "");
    expect_error(PERPLEXITY(model, "-f", text, "--stride", "4", "-c", "16"), "1 token");
    tokens[9] = 9999;
    write_tokens(tokens_file, N_TOKENS);
    expect_error(PERPLEXITY(model, "--tokens-file", tokens_file, "-c", "16"), "token 9 of the text is 9999");
}

/* Each kind of damage has one line, and nothing is printed as a result. */
Test(perplexity, damaged_files)
{
    size_t size;
    const char *bad = files_path(folder, "bad");
    json_decref(program_json(
        PERPLEXITY(model, "--tokens-file", tokens_file, "-c", "32", "--save-logits", saved, "--json")));
    char *file = files_read(saved, &size);
    cr_assert_eq(size, 64 + 4 * N_TOKENS + 30 * (12 + 2 * N_WORDS + 8), "%zu", size);
    static const size_t lengths[] = {0, 7, 8, 63, 64, 100};
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
        files_copy(saved, bad, lengths[i]);
        expect_error(PERPLEXITY(model, "--kl", bad), lengths[i] < 8 ? "not a file of" : "truncated");
    }
    files_copy(saved, bad, size - 1);
    expect_error(PERPLEXITY(model, "--kl", bad), "truncated");
    for (size_t at = 0; at < size; at += at < 80 ? 3 : 1777) {
        file[at] ^= 0x41;
        files_write(bad, file, size);
        expect_error(PERPLEXITY(model, "--kl", bad), "/bad: ");
        file[at] ^= 0x41;
    }
    expect_error(PERPLEXITY(model, "--kl", model), "not a file of --save-logits");
    expect_error(PERPLEXITY(model, "--kl", "/nowhere/saved"), "/nowhere/saved");
    expect_error(PERPLEXITY(model, "--kl", saved, "-c", "16"), "made with -c 32");
    cr_assert(
        write_tiny_llama(rounded, &(struct tiny_llama){.seed = 4, .type = ENGINE_TYPE_F32, .n_vocab = 352}));
    expect_error(PERPLEXITY(rounded, "--kl", saved), "vocabulary");
    free(file);
}

/* test-imatrix.c: importance matrices: what weights make of blocks, and `engine quantize --imatrix` with both
 * formats of llama-imatrix. */
#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "files.h"
#include "gguf-writer.h"
#include "model/model.h"
#include "model/types.h"
#include "plugin-types.h"
#include "program.h"
#include "quantize/encode.h"

#define COUNT(array) (sizeof(array) / sizeof *(array))

static uint64_t next(uint64_t *seed)
{
    return *seed = *seed * 6364136223846793005u + 1442695040888963407u;
}

/* From 0 to 1. */
static float uniform(uint64_t *seed)
{
    return (float)(next(seed) >> 40) * 0x1p-24f;
}

/* ---- Blocks ---- */

#define N 16384

/* The types that use weights, and how much of the weighted error these left when this was written: of
 * make_numbers' values without and with a shift. */
static const struct {
    uint32_t type;
    double left[2];
} weighted_types[] = {
    /* clang-format off */
    {ENGINE_TYPE_Q4_0, {0.649, 0.596}},
    {ENGINE_TYPE_Q4_1, {0.437, 0.438}},
    {ENGINE_TYPE_Q5_0, {0.648, 0.597}},
    {ENGINE_TYPE_Q5_1, {0.456, 0.455}},
    {ENGINE_TYPE_Q2_K, {0.433, 0.547}},
    {ENGINE_TYPE_Q3_K, {0.646, 0.602}},
    {ENGINE_TYPE_Q4_K, {0.571, 0.612}},
    {ENGINE_TYPE_Q5_K, {0.605, 0.611}},
    {ENGINE_TYPE_Q6_K, {0.636, 0.590}},
    {ENGINE_TYPE_IQ4_NL, {0.664, 0.679}},
    {ENGINE_TYPE_IQ4_XS, {0.670, 0.684}},
    /* clang-format on */
};

static uint8_t *encode(uint32_t type, const float *x, const float *weights, size_t n, size_t *size)
{
    uint64_t bytes;
    cr_assert(type_row_size(type, n, &bytes));
    uint8_t *blocks = malloc(bytes);
    cr_assert(blocks);
    quantize_encoder(type)(x, weights, n, blocks);
    *size = (size_t)bytes;
    return blocks;
}

/* The sum of the squared errors, each times its weight. */
static double error_of(uint32_t type, const float *x, const float *given, const float *weights, size_t n)
{
    size_t size;
    uint8_t *blocks = encode(type, x, given, n, &size);
    float *values = malloc(n * sizeof *values);
    double total = 0;
    cr_assert(values);
    cr_assert(quantize_encoded_is_finite(type, blocks, n), "%s", type_info(type)->name);
    quantize_decode(type, blocks, n, values);
    for (size_t i = 0; i < n; i++) {
        double miss = (double)values[i] - (double)x[i];
        total += miss * miss * (double)weights[i];
    }
    free(blocks), free(values);
    return total;
}

/* Weights of a few sizes, from 1e-4 to 1, as a few columns dominate the inputs of most matrices. */
static void make_numbers(float *x, float *weights, float shift)
{
    uint64_t seed = 1;
    for (size_t i = 0; i < N; i++) {
        x[i] = uniform(&seed) + uniform(&seed) + uniform(&seed) - 1.5f + shift;
        weights[i] = powf(10, -4 * uniform(&seed));
    }
}

Test(imatrix, weights_lower_the_weighted_error)
{
    static float x[N], weights[N];
    for (int shift = 0; shift < 2; shift++) {
        make_numbers(x, weights, (float)shift);
        for (size_t t = 0; t < COUNT(weighted_types); t++) {
            uint32_t type = weighted_types[t].type;
            cr_assert(encode_uses_weights(type));
            double with = error_of(type, x, weights, weights, N),
                   without = error_of(type, x, NULL, weights, N);
            cr_expect_leq(with, 1.01 * weighted_types[t].left[shift] * without, "%s, shift %d: %g, not %g",
                          type_info(type)->name, shift, with, without);
        }
    }
}

Test(imatrix, blocks_depend_on_their_values_and_weights_alone)
{
    static float x[N], weights[N];
    make_numbers(x, weights, 0);
    for (size_t t = 0; t < COUNT(weighted_types); t++) {
        const struct type_info *info = type_info(weighted_types[t].type);
        size_t n = info->block_length, whole, part;
        uint8_t *blocks = encode(weighted_types[t].type, x, weights, 11 * n, &whole);
        for (size_t b = 0; b < 11; b++) {
            uint8_t *one = encode(weighted_types[t].type, x + b * n, weights + b * n, n, &part);
            cr_expect(memcmp(one, blocks + b * part, part) == 0, "%s: block %zu", info->name, b);
            free(one);
        }
        free(blocks);
    }
}

/* Weights that are all the same do no harm. Zeros stay zeros. */
Test(imatrix, equal_weights)
{
    static float x[N], weights[N], ones[N], zeros[N];
    make_numbers(x, weights, 0);
    for (size_t i = 0; i < N; i++) ones[i] = 1;
    for (size_t t = 0; t < COUNT(weighted_types); t++) {
        uint32_t type = weighted_types[t].type;
        double with = error_of(type, x, ones, ones, N), without = error_of(type, x, NULL, ones, N);
        cr_expect_leq(with, without * 1.000001, "%s: %g instead of %g", type_info(type)->name, with, without);
        cr_expect_eq(error_of(type, zeros, weights, weights, N), 0, "%s", type_info(type)->name);
    }
}

Test(imatrix, extremes)
{
    static const float sizes[] = {1e-45f, 1e-30f, 1e-12f, 6e-8f, 1e-4f, 1, 32000, 5.2e5f};
    float x[256], weights[256];
    for (size_t t = 0; t < COUNT(weighted_types); t++)
        for (size_t s = 0; s < COUNT(sizes); s++)
            for (int shape = 0; shape < 4; shape++) {
                double square = 0;
                for (size_t i = 0; i < 256; i++) {
                    float sign = (i * 7 + i / 16) % 3 == 1 ? -1.0f : 1.0f;
                    x[i] = shape == 0 ? sizes[s] : shape == 1 ? -sizes[s] : shape == 2 ? sign * sizes[s] : 0;
                    if (shape == 3 && i == 77) x[i] = sizes[s];
                    weights[i] = i % 5 == 1 ? 1 : 1e-4f;
                    square += (double)weights[i] * (double)x[i] * (double)x[i];
                }
                if (sizes[s] > 65504 && encode_largest(weighted_types[t].type) > 1e6f) continue;
                double error = error_of(weighted_types[t].type, x, weights, weights, 256);
                cr_expect_leq(error, square * 1.002 + 1e-12, "%s, size %g, shape %d: %g",
                              type_info(weighted_types[t].type)->name, (double)sizes[s], shape, error);
            }
}

/* ---- Files ---- */

/* A matrix, experts, and a vector. */
#define COLUMNS 768 /* so that the 65,536 values that are encoded at once end within a row */
#define ROWS    160
#define EXPERTS 3
#define MATRIX  "blk.0.attn_q.weight"
#define EXPERT  "blk.0.ffn_up_exps.weight"

static char *folder;

static const char *in_folder(const char *name)
{
    return files_path(folder, name);
}

/* Means [matrices, COLUMNS] that are weights as they are: the largest of each block is 1. */
static float matrix_means[COLUMNS], expert_means[EXPERTS * COLUMNS];

static void make_means(float *means, size_t n, uint64_t seed)
{
    for (size_t i = 0; i < n; i++) means[i] = i % 32 == 9 ? 1 : 0.001f + 0.9f * uniform(&seed);
}

static void setup(void)
{
    uint64_t seed = 5;
    static float values[EXPERTS * ROWS * COLUMNS];
    struct gguf_writer *writer = gguf_create(3);
    folder = files_folder();
    for (size_t i = 0; i < COUNT(values); i++) values[i] = uniform(&seed) - 0.5f;
    gguf_add_string(writer, "general.architecture", "llama");
    gguf_add_tensor(writer, MATRIX, ENGINE_TYPE_F32, 2, (uint64_t[]){COLUMNS, ROWS}, values,
                    sizeof(float[ROWS * COLUMNS]));
    gguf_add_tensor(writer, EXPERT, ENGINE_TYPE_F32, 3, (uint64_t[]){COLUMNS, ROWS, EXPERTS}, values,
                    sizeof values);
    gguf_add_tensor(writer, "output_norm.weight", ENGINE_TYPE_F32, 1, (uint64_t[]){COLUMNS}, values,
                    sizeof(float[COLUMNS]));
    cr_assert(gguf_save(writer, in_folder("in.gguf")));
    gguf_destroy(writer);
    make_means(matrix_means, COLUMNS, 1);
    make_means(expert_means, EXPERTS * COLUMNS, 2);
}

static void teardown(void)
{
    files_remove(folder);
    free(folder);
}

/* An entry of the older format: means times 4 calls. */
static void write_entry(FILE *file, const char *name, const float *means, int32_t n)
{
    int32_t length = (int32_t)strlen(name), calls = 4;
    cr_assert(fwrite(&length, 4, 1, file) == 1 && fputs(name, file) >= 0 && fwrite(&calls, 4, 1, file) == 1 &&
              fwrite(&n, 4, 1, file) == 1);
    for (int32_t i = 0; i < n; i++) {
        float value = means[i] * 4;
        cr_assert_eq(fwrite(&value, 4, 1, file), 1);
    }
}

static void write_old(const char *name, const char *first, int32_t n_first, int32_t n_experts)
{
    int32_t n_entries = 1 + (n_experts > 0);
    FILE *file = fopen(in_folder(name), "wb");
    cr_assert(file && fwrite(&n_entries, 4, 1, file) == 1);
    write_entry(file, first, matrix_means, n_first);
    if (n_experts > 0) write_entry(file, EXPERT, expert_means, n_experts * COLUMNS);
    cr_assert_eq(fclose(file), 0);
}

/* The newer one: sums of 64 tokens; of expert e, 2^e. */
static void write_new(const char *name)
{
    struct gguf_writer *writer = gguf_create(3);
    static float sums[COLUMNS], expert_sums[EXPERTS * COLUMNS];
    float count = 64, counts[EXPERTS];
    for (size_t i = 0; i < COLUMNS; i++) sums[i] = matrix_means[i] * count;
    for (size_t e = 0; e < EXPERTS; e++) {
        counts[e] = (float)(1 << e);
        for (size_t i = e * COLUMNS; i < (e + 1) * COLUMNS; i++) expert_sums[i] = expert_means[i] * counts[e];
    }
    gguf_add_string(writer, "general.type", "imatrix");
    gguf_add_tensor(writer, MATRIX ".counts", ENGINE_TYPE_F32, 2, (uint64_t[]){1, 1}, &count, sizeof count);
    gguf_add_tensor(writer, MATRIX ".in_sum2", ENGINE_TYPE_F32, 2, (uint64_t[]){COLUMNS, 1}, sums,
                    sizeof sums);
    gguf_add_tensor(writer, EXPERT ".in_sum2", ENGINE_TYPE_F32, 2, (uint64_t[]){COLUMNS, EXPERTS},
                    expert_sums, sizeof expert_sums);
    gguf_add_tensor(writer, EXPERT ".counts", ENGINE_TYPE_F32, 2, (uint64_t[]){1, EXPERTS}, counts,
                    sizeof counts);
    cr_assert(gguf_save(writer, in_folder(name)));
    gguf_destroy(writer);
}

/* Runs `engine quantize in.gguf out.gguf TYPE --pure --imatrix NAME`. */
static struct program_result quantize(const char *type, const char *name)
{
    return PROGRAM("quantize", in_folder("in.gguf"), in_folder("out.gguf"), type, "--pure", "--imatrix",
                   in_folder(name));
}

/* Whether rows have these weights, or none. */
static void expect_rows(const struct model *from, const struct model *to, const char *name,
                        const float *weights)
{
    const struct model_tensor *values = model_tensor_find(from, name), *blocks = model_tensor_find(to, name);
    uint64_t n_rows = values->ne[1] * values->ne[2];
    size_t size = (size_t)(blocks->size / n_rows), row_size;
    for (uint64_t r = 0; r < n_rows; r++) {
        uint8_t *row = encode(blocks->type, (const float *)values->data + r * COLUMNS,
                              weights ? weights + r / ROWS * COLUMNS : NULL, COLUMNS, &row_size);
        cr_assert_eq(row_size, size);
        cr_assert(memcmp(row, (const uint8_t *)blocks->data + r * size, size) == 0, "%s, row %d", name,
                  (int)r);
        free(row);
    }
}

static void expect_file(const float *matrix, const float *experts)
{
    struct model *from, *to;
    cr_assert_eq(model_open(in_folder("in.gguf"), NULL, &from), ENGINE_OK);
    cr_assert_eq(model_open(in_folder("out.gguf"), NULL, &to), ENGINE_OK);
    expect_rows(from, to, MATRIX, matrix);
    expect_rows(from, to, EXPERT, experts);
    model_close(from);
    model_close(to);
}

TestSuite(imatrix_files, .init = setup, .fini = teardown);

Test(imatrix_files, both_formats_give_their_weights)
{
    static const char *const types[] = {"Q4_K", "Q4_0", "IQ4_NL", "Q8_0"};
    write_old("old.dat", MATRIX, COLUMNS, EXPERTS);
    write_new("new.gguf");
    for (size_t t = 0; t < COUNT(types); t++)
        for (int newer = 0; newer < 2; newer++) {
            bool weighted = strcmp(types[t], "Q8_0") != 0;
            struct program_result result = quantize(types[t], newer ? "new.gguf" : "old.dat");
            cr_assert_eq(result.status, 0, "%s", result.err);
            cr_expect_not(strstr(result.err, "warning"), "%s", result.err);
            program_free(&result);
            expect_file(weighted ? matrix_means : NULL, weighted ? expert_means : NULL);
        }
}

Test(imatrix_files, missing_matrices_are_told)
{
    write_old("one.dat", MATRIX, COLUMNS, 0);
    struct program_result result = quantize("Q4_K", "one.dat");
    cr_assert_eq(result.status, 0, "%s", result.err);
    cr_expect(strstr(result.err, "one.dat lacks 1 of 2 matrices (" EXPERT ")"), "%s", result.err);
    program_free(&result);
    expect_file(matrix_means, NULL);
}

/* An expert that no token used, and columns that are always zero. */
Test(imatrix_files, unused_experts_and_columns)
{
    memset(expert_means + COLUMNS, 0, COLUMNS * sizeof *expert_means);
    for (size_t i = 1; i < 32; i++) matrix_means[i == 9 ? 0 : i] = 0;
    write_new("new.gguf");
    struct program_result result = quantize("Q4_K", "new.gguf");
    cr_assert_eq(result.status, 0, "%s", result.err);
    program_free(&result);
    for (size_t i = 0; i < COLUMNS; i++) {
        expert_means[COLUMNS + i] = 1;
        if (matrix_means[i] == 0) matrix_means[i] = 1e-4f;
    }
    expect_file(matrix_means, expert_means);
}

/* ---- What is refused ---- */

/* One line that says this; no file. */
static void refuses(const char *name, const char *part)
{
    struct program_result result = quantize("Q4_K", name);
    cr_expect_eq(result.status, 1, "%s", result.err);
    cr_expect(strstr(result.err, part) && strstr(result.err, name), "%s", result.err);
    cr_expect_eq(strchr(result.err, '\n'), result.err + strlen(result.err) - 1, "%s", result.err);
    cr_expect_eq(fopen(in_folder("out.gguf"), "rb"), NULL);
    program_free(&result);
}

Test(imatrix_files, of_another_model)
{
    write_old("wide.dat", MATRIX, COLUMNS / 2, 0);
    refuses("wide.dat", "of another model: " MATRIX " has 384 values");
    write_old("few.dat", MATRIX, COLUMNS, EXPERTS - 1);
    refuses("few.dat", "of another model: " EXPERT " has 1536 values");
    write_old("other.dat", "blk.7.attn_q.weight", COLUMNS, 0);
    refuses("other.dat", "none of the 2 matrices");
}

static void set(const char *from, const char *to, size_t at, const void *bytes, size_t size)
{
    size_t all;
    char *data = files_read(in_folder(from), &all);
    cr_assert_leq(at + size, all);
    memcpy(data + at, bytes, size);
    files_write(in_folder(to), data, all);
    free(data);
}

Test(imatrix_files, damaged)
{
    write_old("old.dat", MATRIX, COLUMNS, EXPERTS);
    write_new("new.gguf");
    size_t size, values = 4 + 4 + strlen(MATRIX) + 8;
    free(files_read(in_folder("old.dat"), &size));
    for (size_t cut = 0; cut < size; cut += cut < 60 ? 7 : 1009) {
        files_copy(in_folder("old.dat"), in_folder("cut.dat"), cut);
        refuses("cut.dat", "importance matrix of llama-imatrix");
    }
    for (size_t at = 0; at < 4 + 4 + 4; at += 4) {
        set("old.dat", "large.dat", at, "\xff\xff\xff\x7f", 4);
        refuses("large.dat", "damaged at entry");
        set("old.dat", "negative.dat", at, "\xff\xff\xff\xff", 4);
        refuses("negative.dat", "importance matrix of llama-imatrix");
    }
    set("old.dat", "nan.dat", values, "\0\0\xc0\x7f", 4);
    refuses("nan.dat", MATRIX " has values that are not means of squares");
    set("old.dat", "below.dat", values, "\0\0\x80\xbf", 4);
    refuses("below.dat", MATRIX " has values that are not means of squares");
    files_copy(in_folder("in.gguf"), in_folder("model.gguf"), SIZE_MAX);
    refuses("model.gguf", "no tensor's name ends with .in_sum2");
    refuses("nothing.dat", "No such file");
}

Test(imatrix_files, sums_without_counts)
{
    static const uint64_t shape[] = {COLUMNS, 1}, two[] = {1, 2};
    float counts[2] = {1, 1};
    for (int variant = 0; variant < 2; variant++) {
        struct gguf_writer *writer = gguf_create(3);
        gguf_add_tensor(writer, MATRIX ".in_sum2", ENGINE_TYPE_F32, 2, shape, matrix_means,
                        sizeof matrix_means);
        if (variant == 1)
            gguf_add_tensor(writer, MATRIX ".counts", ENGINE_TYPE_F32, 2, two, counts, sizeof counts);
        cr_assert(gguf_save(writer, in_folder("odd.gguf")));
        gguf_destroy(writer);
        refuses("odd.gguf", MATRIX ".in_sum2 lacks counts");
    }
}

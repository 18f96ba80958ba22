/* test-imatrix-command.c: `engine imatrix` from outside: sums by their definition, on a split model, added to
 * a file; and the sums of experts and heads. */
#include <criterion/criterion.h>
#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"
#include "files.h"
#include "gguf-writer.h"
#include "model/imatrix-sums.h"
#include "model/metadata.h"
#include "model/model.h"
#include "program-json.h"

#define COUNT(array) (sizeof(array) / sizeof *(array))
enum { N_TOKENS = 75, WINDOW = 16, N_WINDOWS = 4, N_EMBD = 64, BOS = 1 };

static char *folder;
static int32_t tokens[N_TOKENS];

static const char *in_folder(const char *name)
{
    return files_path(folder, name);
}

static void begin(void)
{
    folder = files_folder();
    cr_assert(
        write_tiny_llama(in_folder("model.gguf"), &(struct tiny_llama){.seed = 3, .type = ENGINE_TYPE_F32}));
    for (int i = 0; i < N_TOKENS; i++) tokens[i] = 5 + (i * i * 7 + 3 * i) % 300;
    files_write_ids(in_folder("tokens.npy"), tokens, N_TOKENS);
}

static void end(void)
{
    files_remove(folder);
    free(folder);
}

TestSuite(imatrix_command, .init = begin, .fini = end, .timeout = 1200);

#define IMATRIX(out, ...)                                                                                    \
    PROGRAM("imatrix", "-m", in_folder("model.gguf"), "--tokens-file", in_folder("tokens.npy"), "-o",        \
            in_folder(out), "-c", "16", "--cache-type", "f32", __VA_ARGS__)

static void succeed(struct program_result result)
{
    cr_assert_eq(result.status, 0, "%s", result.err);
    cr_expect_str_eq(result.out, "");
    program_free(&result);
}

static struct imatrix *open_matrix(const char *name)
{
    struct imatrix *matrix;
    cr_assert_eq(imatrix_open(in_folder(name), &matrix), ENGINE_OK, "%s", error_message());
    return matrix;
}

static const struct imatrix_entry *entry_of(const struct imatrix *matrix, const char *name, uint64_t n,
                                            double n_tokens)
{
    const struct imatrix_entry *entry = imatrix_find(matrix, name);
    cr_assert(entry, "%s is missing", name);
    cr_assert_eq(entry->n, n);
    cr_assert_eq(entry->n_counts, 1);
    cr_assert_eq((double)entry->counts[0], n_tokens, "%s: %g", name, (double)entry->counts[0]);
    return entry;
}

/* Both have the same matrices, counts times `factor`, and means. */
static void expect_same(const struct imatrix *a, const struct imatrix *b, float factor)
{
    cr_assert_eq(imatrix_count(a), imatrix_count(b));
    for (size_t i = 0; i < imatrix_count(a); i++) {
        const struct imatrix_entry *x = imatrix_at(a, i), *y = imatrix_at(b, i);
        cr_assert_str_eq(x->name, y->name);
        cr_assert_eq(x->n, y->n);
        cr_assert_eq(x->counts[0] * factor, y->counts[0], "%s", x->name);
        for (uint64_t k = 0; k < x->n; k++)
            cr_assert_float_eq(x->means[k], y->means[k], 1e-5f * x->means[k] + 1e-9f, "%s", x->name);
    }
}

static const float *values_of(const struct model *model, const char *name)
{
    const struct model_tensor *tensor = model_tensor_find(model, name);
    cr_assert(tensor && tensor->type == ENGINE_TYPE_F32, "%s", name);
    return tensor->data;
}

/* The first layer's attention reads the normed embeddings. A token that begins texts is in each window's
 * first place. */
static void first_means(double *means)
{
    struct model *model;
    cr_assert_eq(model_open(in_folder("model.gguf"), NULL, &model), ENGINE_OK);
    const float *embedding = values_of(model, "token_embd.weight"),
                *norm = values_of(model, "blk.0.attn_norm.weight");
    double epsilon;
    cr_assert(metadata_float(model_metadata(model), "llama.attention.layer_norm_rms_epsilon", &epsilon));
    memset(means, 0, N_EMBD * sizeof *means);
    for (int t = 0; t < N_WINDOWS * WINDOW; t++) {
        const float *x = embedding + N_EMBD * (t % WINDOW == 0 ? BOS : tokens[t]);
        double square = epsilon;
        for (int i = 0; i < N_EMBD; i++) square += (double)x[i] * (double)x[i] / N_EMBD;
        for (int i = 0; i < N_EMBD; i++)
            means[i] += pow((double)x[i] * (double)norm[i], 2) / square / (N_WINDOWS * WINDOW);
    }
    model_close(model);
}

Test(imatrix_command, sums_by_definition)
{
    static const char *const batches[] = {"512", "5"}, *const same[] = {"q", "k", "v"};
    double means[N_EMBD];
    first_means(means);
    for (size_t b = 0; b < COUNT(batches); b++) {
        succeed(IMATRIX("out.gguf", "-b", batches[b]));
        struct imatrix *matrix = open_matrix("out.gguf");
        cr_assert_eq(imatrix_count(matrix), 14, "%zu", imatrix_count(matrix));
        for (size_t s = 0; s < COUNT(same); s++) {
            char name[40];
            snprintf(name, sizeof name, "blk.0.attn_%s.weight", same[s]);
            const struct imatrix_entry *entry = entry_of(matrix, name, N_EMBD, N_WINDOWS * WINDOW);
            for (int i = 0; i < N_EMBD; i++)
                cr_assert_float_eq(entry->means[i], means[i], 1e-5 * means[i], "%s, column %d", name, i);
        }
        entry_of(matrix, "blk.1.ffn_down.weight", 96, N_WINDOWS * WINDOW); /* in the last layer, too */
        const char *text;
        uint32_t n_chunks;
        cr_assert(imatrix_text(matrix, &text) && imatrix_chunks(matrix, &n_chunks));
        cr_assert_str_eq(text, in_folder("tokens.npy"));
        cr_assert_eq(n_chunks, N_WINDOWS);
        imatrix_close(matrix);
    }
}

Test(imatrix_command, split_models)
{
    succeed(IMATRIX("cpu.gguf", "--backend", "cpu"));
    succeed(IMATRIX("split.gguf", "--plugin-dir", TOY_DIR, "--backend", "toy", "--offload", "1"));
    struct imatrix *cpu = open_matrix("cpu.gguf"), *split = open_matrix("split.gguf");
    expect_same(cpu, split, 1);
    imatrix_close(cpu), imatrix_close(split);
}

Test(imatrix_command, goes_on_with_a_file)
{
    uint32_t n_chunks;
    succeed(IMATRIX("once.gguf", "--chunks", "2"));
    succeed(IMATRIX("twice.gguf", "--chunks", "2", "--in-file", in_folder("once.gguf"), "--output-frequency",
                    "1"));
    struct imatrix *once = open_matrix("once.gguf"), *twice = open_matrix("twice.gguf");
    entry_of(once, "blk.0.attn_q.weight", N_EMBD, 2 * WINDOW);
    expect_same(once, twice, 2);
    cr_assert(imatrix_chunks(twice, &n_chunks));
    cr_assert_eq(n_chunks, 4);
    imatrix_close(once), imatrix_close(twice);
}

Test(imatrix_command, output_matrix)
{
    json_t *json = program_json(IMATRIX("out.gguf", "--process-output", "--json"));
    cr_assert_eq(json_integer_value(json_object_get(json, "matrices")), 15);
    cr_assert_eq(json_integer_value(json_object_get(json, "windows")), N_WINDOWS);
    cr_assert_eq(json_integer_value(json_object_get(json, "tokens")), N_WINDOWS * WINDOW);
    json_decref(json);
    struct imatrix *matrix = open_matrix("out.gguf");
    entry_of(matrix, "output.weight", N_EMBD, N_WINDOWS * WINDOW);
    imatrix_close(matrix);
}

/* llama-quantize's keys, and no others of that kind. */
Test(imatrix_command, quantised_with_it)
{
    int64_t number;
    struct model *model;
    struct engine_string text;
    succeed(IMATRIX("out.gguf", "--chunks", "3"));
    succeed(PROGRAM("quantize", in_folder("model.gguf"), in_folder("small.gguf"), "Q4_0", "--pure",
                    "--imatrix", in_folder("out.gguf")));
    cr_assert_eq(model_open(in_folder("small.gguf"), NULL, &model), ENGINE_OK);
    const struct metadata *metadata = model_metadata(model);
    cr_assert(metadata_string(metadata, "quantize.imatrix.file", &text));
    cr_assert_eq(strncmp(text.data, in_folder("out.gguf"), text.length), 0);
    cr_assert(metadata_string(metadata, "quantize.imatrix.dataset", &text));
    cr_assert_eq(strncmp(text.data, in_folder("tokens.npy"), text.length), 0);
    cr_assert(metadata_integer(metadata, "quantize.imatrix.entries_count", &number) && number == 14);
    cr_assert(metadata_integer(metadata, "quantize.imatrix.chunks_count", &number) && number == 3);
    model_close(model);
}

Test(imatrix_command, refusals)
{
    program_fails(PROGRAM("imatrix", "-m", in_folder("model.gguf"), "-o", in_folder("x.gguf")), 0, "no text");
    program_fails(PROGRAM("imatrix", "-m", in_folder("model.gguf"), "--tokens-file", in_folder("tokens.npy")),
                  0, "-o");
    program_fails(PROGRAM("imatrix", "-m", in_folder("model.gguf"), "--tokens-file", in_folder("tokens.npy"),
                          "-o", in_folder("x.gguf"), "-c", "76"),
                  0, "too few for a window of 76");
    program_fails(IMATRIX("x.gguf", "--in-file", in_folder("model.gguf")), 0, "no tensor's name ends with");
    program_fails(IMATRIX("model.gguf", "-b", "16"), 0, "model.gguf");
}

/* Also of groups of heads, whose rows lie in one matrix, and of the indexer, which needn't pick here. */
Test(imatrix_command, every_matrix_of_deepseek4)
{
    static const char path[] = TEST_SHARED_DIR "/families-2026/deepseek4";
    if (access(path, R_OK) != 0) cr_skip_test("no %s", path);
    succeed(PROGRAM("imatrix", "-m", path, "--backend", "cpu", "--tokens-file", in_folder("tokens.npy"), "-o",
                    in_folder("out.gguf"), "-c", "16", "--cache-type", "f32"));
    struct imatrix *matrix = open_matrix("out.gguf");
    entry_of(matrix, "blk.3.indexer.attn_q_b.weight", 24, N_WINDOWS * WINDOW);
    entry_of(matrix, "blk.3.attn_output_a.weight", 64, 2 * N_WINDOWS * WINDOW);
    imatrix_close(matrix);
}

/* ---- Sums of several matrices ---- */

static struct imatrix *written(const struct imatrix_sums *sums)
{
    uint8_t *bytes;
    size_t size;
    const struct imatrix_origin origin = {"a text", 7, 16};
    cr_assert_eq(imatrix_sums_write(sums, &origin, &bytes, &size), ENGINE_OK, "%s", error_message());
    files_write(in_folder("sums.gguf"), bytes, size);
    free(bytes);
    return open_matrix("sums.gguf");
}

/* Three tokens that use two of four experts, of one row for both or one for each. */
Test(imatrix_command, experts_are_counted_by_their_routes)
{
    static const int32_t experts[] = {0, 2, 2, 3, 2, 0};
    static const float shared[] = {1, 2, 3, 4, 5, 6}, each[] = {1, 1, 2, 2, 3, 3, 4, 4, 5, 5, 6, 6};
    static const float shared_means[] = {13, 20, 0, 0, 35 / 3.0f, 56 / 3.0f, 9, 16};
    static const float counts[] = {2, 0, 3, 1};
    static const float each_means[] = {18.5f, 18.5f, 0, 0, 38 / 3.0f, 38 / 3.0f, 16, 16};
    struct imatrix_sums *sums;
    struct imatrix_input input = {"blk.0.ffn_up_exps.weight", shared, 2, 1, 3, 4, experts, 2};
    cr_assert_eq(imatrix_sums_create(&sums), ENGINE_OK);
    cr_assert_eq(imatrix_sums_add(sums, &input), ENGINE_OK);
    input.name = "blk.0.ffn_down_exps.weight", input.rows = each, input.n_rows = 2;
    cr_assert_eq(imatrix_sums_add(sums, &input), ENGINE_OK);
    cr_assert_eq(imatrix_sums_unused(sums), 2);
    struct imatrix *matrix = written(sums);
    for (int e = 0; e < 2; e++) {
        const struct imatrix_entry *entry =
            imatrix_find(matrix, e ? "blk.0.ffn_down_exps.weight" : "blk.0.ffn_up_exps.weight");
        cr_assert(entry && entry->n == 8 && entry->n_counts == 4);
        for (int i = 0; i < 4; i++) cr_assert_eq(entry->counts[i], counts[i], "%d", i);
        for (int i = 0; i < 8; i++)
            cr_assert_float_eq(entry->means[i], (e ? each_means : shared_means)[i], 1e-5f, "%d: %g", i,
                               (double)entry->means[i]);
    }
    imatrix_close(matrix);
    cr_assert_eq(imatrix_sums_merge(sums, in_folder("sums.gguf")), ENGINE_OK);
    input.n_matrices = 5;
    cr_assert_eq(imatrix_sums_add(sums, &input), ENGINE_ERROR_DATA);
    imatrix_sums_destroy(sums);
}

/* A matrix for each of two heads: one count, the columns of both in a row, as llama-imatrix has them. */
Test(imatrix_command, heads_share_a_count)
{
    static const float rows[] = {1, 2, 3, 4, 5, 6, 7, 8}, means[] = {13, 20, 29, 40};
    struct imatrix_sums *sums;
    const struct imatrix_input input = {"blk.0.attn_k_b.weight", rows, 2, 2, 2, 2, NULL, 0};
    cr_assert_eq(imatrix_sums_create(&sums), ENGINE_OK);
    cr_assert_eq(imatrix_sums_add(sums, &input), ENGINE_OK);
    struct imatrix *matrix = written(sums);
    const struct imatrix_entry *entry = entry_of(matrix, "blk.0.attn_k_b.weight", 4, 2);
    for (int i = 0; i < 4; i++) cr_assert_float_eq(entry->means[i], means[i], 1e-5f);
    imatrix_close(matrix);
    cr_assert_eq(imatrix_sums_merge(sums, in_folder("sums.gguf")), ENGINE_OK);
    cr_assert_eq(imatrix_sums_add(sums, &input), ENGINE_OK);
    imatrix_sums_destroy(sums);
}

Test(imatrix_command, what_is_no_sum)
{
    const float rows[] = {1, NAN};
    struct imatrix_sums *sums;
    const struct imatrix_origin origin = {"a text", 7, 16};
    uint8_t *bytes;
    size_t size;
    const struct imatrix_input input = {"blk.0.attn_q.weight", rows, 2, 1, 1, 1, NULL, 0};
    cr_assert_eq(imatrix_sums_create(&sums), ENGINE_OK);
    cr_assert_eq(imatrix_sums_write(sums, &origin, &bytes, &size), ENGINE_ERROR_ARGUMENT);
    cr_assert_eq(imatrix_sums_add(sums, &input), ENGINE_ERROR_DATA);
    cr_assert(strstr(error_message(), "blk.0.attn_q.weight"));
    imatrix_sums_destroy(sums);
}

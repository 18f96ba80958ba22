/* test-quantize-command.c: `engine quantize` from outside: files, what is kept, and how it fails. */
#include <criterion/criterion.h>
#include <dirent.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "files.h"
#include "gguf-writer.h"
#include "model/model.h"
#include "model/types.h"
#include "program.h"
#include "quantize/encode.h"

static char *folder, *in, *out; /* the model there, and a name for a new file */

static const char *in_folder(const char *name)
{
    return files_path(folder, name);
}

static void setup(void)
{
    folder = files_folder();
    in = strdup(in_folder("in.gguf"));
    out = strdup(in_folder("out.gguf"));
    struct tiny_llama config = {.seed = 3, .n_embd = 256, .n_ff = 512, .n_heads = 8, .n_kv_heads = 2};
    cr_assert(write_tiny_llama(in, &config));
}

static void teardown(void)
{
    files_remove(folder);
    free(folder), free(in), free(out);
}

TestSuite(quantize, .init = setup, .fini = teardown);

static size_t count_files(void)
{
    size_t n = 0;
    DIR *listing = opendir(folder);
    cr_assert(listing);
    for (struct dirent *entry; (entry = readdir(listing));) n += entry->d_name[0] != '.';
    closedir(listing);
    return n;
}

static void quantize(const char *from, const char *to, const char *type, const char *option)
{
    struct program_result result = PROGRAM("quantize", in_folder(from), in_folder(to), type, option);
    cr_assert_eq(result.status, 0, "%s", result.err);
    cr_assert_str_empty(result.out);
    program_free(&result);
}

/* One line on standard error, with this in it; nothing new in the folder. */
static void refuses(int status, const char *part, const char *const *arguments)
{
    size_t before = count_files();
    struct program_result result = program_run(arguments, NULL, 0);
    cr_expect_eq(result.status, status, "%s", result.err);
    cr_expect_eq(strncmp(result.err, "engine: ", 8), 0, "%s", result.err);
    cr_expect(strstr(result.err, part), "%s", result.err);
    cr_expect_eq(strchr(result.err, '\n'), result.err + strlen(result.err) - 1, "%s", result.err);
    cr_expect_eq(count_files(), before, "%s", part);
    program_free(&result);
}
#define REFUSES(status, part, ...) refuses(status, part, (const char *const[]){"quantize", __VA_ARGS__, NULL})

static struct model *open_result(const char *name)
{
    struct model *model;
    cr_assert_eq(model_open(in_folder(name), NULL, &model), ENGINE_OK);
    return model;
}

/* ---- What is written ---- */

Test(quantize, matrices_are_encoded_and_vectors_copied)
{
    static const char *const names[] = {"F16",  "BF16", "Q8_0", "Q4_0", "Q4_1", "Q5_0",   "Q5_1",
                                        "Q2_K", "Q3_K", "Q4_K", "Q5_K", "Q6_K", "IQ4_NL", "IQ4_XS"};
    struct model *model = open_result("in.gguf");
    for (size_t t = 0; t < sizeof names / sizeof *names; t++) {
        uint32_t type;
        cr_assert(type_by_name(names[t], &type));
        quantize("in.gguf", "out.gguf", names[t], "--pure");
        struct model *result = open_result("out.gguf");
        cr_assert_eq(model_tensor_count(result), model_tensor_count(model));
        for (size_t i = 0; i < model_tensor_count(model); i++) {
            const struct model_tensor *from = model_tensor_at(model, i),
                                      *to = model_tensor_find(result, from->name);
            cr_assert(to, "%s", from->name);
            cr_assert(memcmp(from->ne, to->ne, sizeof from->ne) == 0);
            cr_assert_eq(to->type, from->n_dims > 1 ? type : ENGINE_TYPE_F32, "%s", from->name);
            uint8_t *blocks = malloc(to->size);
            cr_assert(blocks);
            quantize_encoder(to->type)(from->data, NULL, from->ne[0] * from->ne[1], blocks);
            cr_expect(memcmp(blocks, to->data, to->size) == 0, "%s: %s", names[t], from->name);
            free(blocks);
        }
        model_close(result);
    }
    model_close(model);
}

Test(quantize, half_floats_are_read_too)
{
    quantize("in.gguf", "f16.gguf", "F16", "--pure");
    quantize("f16.gguf", "twice.gguf", "Q8_0", "--pure");
    quantize("in.gguf", "bf16.gguf", "BF16", "--pure");
    quantize("bf16.gguf", "f32.gguf", "F32", "--pure");
    quantize("f32.gguf", "again.gguf", "BF16", "--pure");
    size_t size, other;
    char *bf16 = files_read(in_folder("bf16.gguf"), &size),
         *again = files_read(in_folder("again.gguf"), &other);
    cr_assert_eq(size, other);
    cr_assert(memcmp(bf16, again, size) == 0);
    free(bf16), free(again);
}

/* As bytes: key, type and values of each entry. */
Test(quantize, metadata_is_kept)
{
    struct gguf_writer *writer = gguf_create(3);
    static const char *const words[] = {"one", "", "t\xc3\xbcr"};
    const uint8_t bytes[] = {1, 2, 3};
    float values[256];
    for (size_t i = 0; i < 256; i++) values[i] = (float)i;
    gguf_add_string(writer, "general.architecture", "something");
    gguf_add_u32(writer, "general.file_type", 0);
    gguf_add_strings(writer, "words", words, 3);
    gguf_add_raw(writer, "byte", 0, bytes, 1);
    gguf_add_u32(writer, "general.alignment", 128);
    gguf_set_alignment(writer, 128);
    gguf_add_boolean(writer, "yes", true);
    gguf_add_f32s(writer, "floats", values, 5);
    gguf_add_tensor(writer, "b.weight", ENGINE_TYPE_F32, 2, (uint64_t[]){32, 2}, values, 256);
    gguf_add_tensor(writer, "a.bias", ENGINE_TYPE_F32, 1, (uint64_t[]){3}, values, 12);
    gguf_add_tensor(writer, "ids.weight", ENGINE_TYPE_I32, 2, (uint64_t[]){2, 2}, values, 16);
    cr_assert(gguf_save(writer, in_folder("odd.gguf")));
    gguf_destroy(writer);
    quantize("odd.gguf", "out.gguf", "q8_0", NULL);
    struct model *odd = open_result("odd.gguf"), *result = open_result("out.gguf");
    const struct metadata *before = model_metadata(odd), *after = model_metadata(result);
    size_t k = 0;
    int64_t number;
    for (size_t i = 0; i < metadata_count(before); i++) {
        const struct metadata_entry *a = metadata_at(before, i), *b;
        if (strcmp(a->key, "general.file_type") == 0) continue;
        b = metadata_at(after, k++);
        cr_assert_str_eq(a->key, b->key);
        cr_assert_eq(a->type, b->type);
        cr_assert_eq(a->is_array, b->is_array);
        cr_assert_eq(a->count, b->count);
        if (a->type != METADATA_STRING)
            cr_assert(memcmp(a->values, b->values, a->count * metadata_element_size(a->type)) == 0);
        const struct engine_string *left = a->values, *right = b->values;
        for (size_t s = 0; a->type == METADATA_STRING && s < a->count; s++)
            cr_assert(left[s].length == right[s].length &&
                      memcmp(left[s].data, right[s].data, left[s].length) == 0);
    }
    cr_assert_eq(metadata_count(after), k + 2);
    cr_assert(metadata_integer(after, "general.file_type", &number) && number == 7);
    cr_assert(metadata_integer(after, "general.quantization_version", &number) && number == 2);
    cr_assert_eq(model_tensor_find(result, "ids.weight")->type, ENGINE_TYPE_I32);
    cr_assert_eq(model_tensor_find(result, "b.weight")->type, ENGINE_TYPE_Q8_0);
    cr_assert_str_eq(model_tensor_at(result, 0)->name, "a.bias");
    model_close(odd), model_close(result);
}

/* A vocabulary alone; and an alignment that would make a small file large. */
Test(quantize, no_tensors)
{
    struct gguf_writer *writer = gguf_create(3);
    struct stat info;
    gguf_add_u32(writer, "general.alignment", 1u << 31);
    cr_assert(gguf_save(writer, in_folder("empty.gguf")));
    gguf_destroy(writer);
    quantize("empty.gguf", "out.gguf", "Q8_0", NULL);
    cr_assert_eq(stat(out, &info), 0);
    cr_assert_lt(info.st_size, 1000);
    struct model *written = open_result("out.gguf");
    cr_assert_eq(model_tensor_count(written), 0);
    model_close(written);
}

Test(quantize, threads_make_no_difference)
{
    char *first = NULL;
    size_t size = 0, other;
    for (const char *n = "1\0"
                         "2\0"
                         "5\0";
         *n; n += 2) {
        struct program_result result = PROGRAM("quantize", "-t", n, in, out, "Q4_K_M");
        cr_assert_eq(result.status, 0, "%s", result.err);
        program_free(&result);
        char *file = files_read(out, &other);
        if (first) cr_assert(size == other && memcmp(first, file, size) == 0, "%s threads", n);
        if (!first)
            first = file, size = other;
        else
            free(file);
    }
    free(first);
}

Test(quantize, only)
{
    struct program_result result =
        PROGRAM("quantize", in, out, "Q4_0", "--only", "blk.1.*=q8_0", "--only=*ffn*=Q3_K");
    cr_assert_eq(result.status, 0, "%s", result.err);
    program_free(&result);
    struct model *written = open_result("out.gguf");
    cr_expect_eq(model_tensor_find(written, "blk.1.ffn_up.weight")->type, ENGINE_TYPE_Q8_0);
    cr_expect_eq(model_tensor_find(written, "blk.0.ffn_up.weight")->type, ENGINE_TYPE_Q3_K);
    cr_expect_eq(model_tensor_find(written, "blk.0.attn_q.weight")->type, ENGINE_TYPE_Q4_0);
    cr_expect_eq(model_tensor_find(written, "blk.1.attn_norm.weight")->type, ENGINE_TYPE_F32);
    model_close(written);
}

/* Old files are replaced, and links and devices written through. */
Test(quantize, where_it_goes)
{
    files_write_text(out, "old");
    chmod(out, 0640);
    quantize("in.gguf", "out.gguf", "Q8_0", NULL);
    struct stat info;
    cr_assert_eq(stat(out, &info), 0);
    cr_assert_eq(info.st_mode & 0777, 0640);
    cr_assert_gt(info.st_size, 1000);
    struct program_result result = PROGRAM("quantize", in, "/dev/null", "Q8_0");
    cr_assert_eq(result.status, 0, "%s", result.err);
    program_free(&result);
    cr_assert_eq(count_files(), 2);
}

/* ---- What is refused ---- */

Test(quantize, mistakes_of_the_command_line)
{
    REFUSES(2, "Q7_K", in, out, "Q7_K");
    REFUSES(2, "Q4_K_M", in, out, "IQ2_XXS");
    REFUSES(2, "missing", in, out);
    REFUSES(2, "unexpected 'Q8_0'", in, out, "Q4_0", "Q8_0");
    REFUSES(2, "Q7_K", in, out, "Q4_0", "--only", "blk.*=Q7_K");
    REFUSES(2, "IQ1_S", in, out, "Q4_0", "--only", "blk.*=IQ1_S");
    REFUSES(2, "PATTERN=TYPE", in, out, "Q4_0", "--only", "blk");
    REFUSES(2, "PATTERN=TYPE", in, out, "Q4_0", "--only", "=Q8_0");
    REFUSES(2, "matches no tensor", in, out, "Q4_0", "--only", "blk.9*=Q8_0");
    REFUSES(2, "matches no tensor", in, out, "Q4_0", "--only", "*_norm.weight=Q8_0");
    REFUSES(2, "the same file as the input", in, in, "Q4_0");
    cr_assert_eq(symlink(in, in_folder("link.gguf")), 0);
    REFUSES(2, "the same file as the input", in, in_folder("link.gguf"), "Q4_0");
    cr_assert_eq(link(in, in_folder("hard.gguf")), 0);
    REFUSES(2, "the same file as the input", in_folder("hard.gguf"), in, "Q4_0");
    files_copy(in, in_folder("x-00001-of-00002.gguf"), SIZE_MAX);
    files_copy(in, in_folder("x-00002-of-00002.gguf"), SIZE_MAX);
    char part[512];
    snprintf(part, sizeof part, "%s", in_folder("x-00002-of-00002.gguf"));
    REFUSES(2, "the same file as the input", in_folder("x-00001-of-00002.gguf"), part, "Q4_0");
    snprintf(part, sizeof part, "%s", in_folder("y-00001-of-00002.gguf"));
    REFUSES(2, "the name of one part", in, part, "Q4_0");
    files_write_text(in_folder("tokenizer.bin"), "words");
    REFUSES(2, "the same file as the input", in, in_folder("tokenizer.bin"), "Q4_0", "--tokenizer",
            in_folder("tokenizer.bin"));
}

Test(quantize, files_that_can_not_be_read_or_written)
{
    REFUSES(1, "nothing.gguf", in_folder("nothing.gguf"), out, "Q4_0");
    REFUSES(1, "No such file", in, in_folder("no/such/folder.gguf"), "Q4_0");
    REFUSES(1, "a folder", folder, out, "Q4_0");
    REFUSES(1, "Is a directory", in, folder, "Q4_0");
    REFUSES(1, "No space left", in, "/dev/full", "Q4_0");
    files_write_text(in_folder("text.gguf"), "not a model");
    REFUSES(1, "text.gguf", in_folder("text.gguf"), out, "Q4_0");
    struct stat info;
    cr_assert_eq(stat(in, &info), 0);
    for (off_t size = 5; size < info.st_size; size += size / 2 + 7) {
        files_copy(in, in_folder("cut.gguf"), (size_t)size);
        REFUSES(1, "cut.gguf", in_folder("cut.gguf"), out, "Q4_0");
    }
    if (geteuid() == 0) return; /* who may write everywhere */
    cr_assert_eq(chmod(folder, 0500), 0);
    REFUSES(1, "Permission denied", in, out, "Q4_0");
    cr_assert_eq(chmod(folder, 0700), 0);
}

Test(quantize, what_is_quantised_already)
{
    quantize("in.gguf", "q8.gguf", "Q8_0", NULL);
    REFUSES(1, "is already Q8_0", in_folder("q8.gguf"), out, "Q4_0");
    /* What needs no change is copied. */
    quantize("q8.gguf", "copy.gguf", "Q8_0", NULL);
    size_t size, other;
    char *a = files_read(in_folder("q8.gguf"), &size), *b = files_read(in_folder("copy.gguf"), &other);
    cr_assert(size == other && memcmp(a, b, size) == 0);
    free(a), free(b);
}

/* A file stays as it was where the new one fails in the middle. */
Test(quantize, values_that_can_not_be_held)
{
    static const float wrong[] = {NAN, INFINITY, -INFINITY, 3e38f};
    static const char *const types[] = {"F16", "Q8_0", "Q4_1", "Q4_K", "Q6_K", "IQ4_NL"};
    files_write_text(out, "old");
    for (size_t w = 0; w < sizeof wrong / sizeof *wrong; w++) {
        size_t n = 256 * 700;
        float *values = calloc(n, sizeof *values);
        cr_assert(values);
        values[n - 100] = wrong[w];
        struct gguf_writer *writer = gguf_create(3);
        gguf_add_tensor(writer, "a.weight", ENGINE_TYPE_F32, 2, (uint64_t[]){256, 700}, values,
                        n * sizeof *values);
        gguf_add_tensor(writer, "b.weight", ENGINE_TYPE_F32, 2, (uint64_t[]){256, 70}, values, 70 * 256 * 4);
        cr_assert(gguf_save(writer, in_folder("wrong.gguf")));
        gguf_destroy(writer);
        free(values);
        for (size_t t = 0; t < sizeof types / sizeof *types; t++)
            REFUSES(1, "a.weight has values", in_folder("wrong.gguf"), out, types[t], "--pure");
    }
    size_t size;
    char *old = files_read(out, &size);
    cr_assert_str_eq(old, "old");
    free(old);
}

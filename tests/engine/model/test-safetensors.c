/* test-safetensors.c: the reader of safetensors files: what it reads, and what it refuses. */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "adapter-writer.h"
#include "base/error.h"
#include "files.h"
#include "model/safetensors.h"

static char *folder;
static const char *path;

static void begin(void)
{
    folder = files_folder();
    path = files_path(folder, "x.safetensors");
}

static void end(void)
{
    files_remove(folder);
    free(folder);
}

TestSuite(safetensors, .init = begin, .fini = end);

Test(safetensors, reads_what_was_written)
{
    const float numbers[] = {1, 2, 3, 4, 5, 6};
    struct tensor_file *written = tensor_file_create();
    tensor_file_add(written, "a.weight", 2, 3, numbers);
    tensor_file_add(written, "b", 1, 2, numbers + 4);
    tensor_file_save(written, path);
    struct safetensors *file;
    cr_assert_eq(safetensors_open(path, &file), ENGINE_OK, "%s", error_message());
    cr_assert_eq(safetensors_count(file), 2);
    const struct safetensors_tensor *a = safetensors_at(file, 0), *b = safetensors_find(file, "b");
    cr_expect_str_eq(a->name, "a.weight");
    cr_expect_str_eq(a->type_name, "F32");
    cr_expect_eq(a->type, ENGINE_TYPE_F32);
    cr_expect_eq(a->n_dims, 2);
    cr_expect_eq(a->ne[0], 2);
    cr_expect_eq(a->ne[1], 3);
    cr_expect_eq(a->size, sizeof numbers);
    cr_expect_arr_eq(a->data, numbers, sizeof numbers);
    cr_assert_not_null(b);
    cr_expect_arr_eq(b->data, numbers + 4, 2 * sizeof *numbers);
    cr_expect_null(safetensors_find(file, "c"));
    safetensors_close(file);
}

/* Metadata is no tensor; types that the engine lacks, scalars and empty tensors are read; the order of the
 * data is free. */
Test(safetensors, reads_all_types)
{
    write_safetensors(path,
                      "{\"__metadata__\": {\"format\": \"pt\"},"
                      "\"ids\": {\"dtype\": \"I64\", \"shape\": [2], \"data_offsets\": [4, 20]},"
                      "\"half\": {\"dtype\": \"BF16\", \"shape\": [2, 1], \"data_offsets\": [0, 4]},"
                      "\"none\": {\"dtype\": \"F16\", \"shape\": [0, 3], \"data_offsets\": [4, 4]},"
                      "\"one\": {\"dtype\": \"F32\", \"shape\": [], \"data_offsets\": [20, 24]}}  ",
                      24);
    struct safetensors *file;
    cr_assert_eq(safetensors_open(path, &file), ENGINE_OK, "%s", error_message());
    cr_expect_eq(safetensors_count(file), 4);
    cr_expect_eq(safetensors_find(file, "ids")->type, SAFETENSORS_OTHER_TYPE);
    cr_expect_eq(safetensors_find(file, "half")->type, ENGINE_TYPE_BF16);
    cr_expect_eq(safetensors_find(file, "none")->size, 0);
    cr_expect_eq(safetensors_find(file, "one")->n_dims, 0);
    cr_expect_eq(safetensors_find(file, "one")->size, 4);
    safetensors_close(file);
}

Test(safetensors, metadata_may_be_missing)
{
    struct safetensors *file;
    write_safetensors(path, "{\"__metadata__\": null}", 0);
    cr_assert_eq(safetensors_open(path, &file), ENGINE_OK, "%s", error_message());
    cr_expect_eq(safetensors_count(file), 0);
    safetensors_close(file);
}

Test(safetensors, refuses_damaged_files)
{
#define TENSOR(shape, from, to)                                                                              \
    "{\"dtype\": \"F32\", \"shape\": " shape ", \"data_offsets\": [" #from ", " #to "]}"
    static const struct {
        const char *header, *word;
    } damaged[] = {
        {"", "not valid JSON"},
        {"[]", "not a JSON object"},
        {"{\"a\": ", "not valid JSON"},
        {"{\"a\": 1}", "type"},
        {"{\"__metadata__\": []}", "__metadata__ is not a JSON object"},
        {"{\"__metadata__\": {\"format\": \"pt\", \"n\": 1}}", "__metadata__ has a value that is not text"},
        {"{\"__metadata__\": {\"n\": null}}", "__metadata__ has a value that is not text"},
        {"{\"a\": {\"dtype\": \"F31\", \"shape\": [1], \"data_offsets\": [0, 4]}}", "F31"},
        {"{\"a\": {\"dtype\": \"F32\", \"shape\": 1, \"data_offsets\": [0, 4]}}", "no shape"},
        {"{\"a\": {\"dtype\": \"F32\", \"shape\": [1,1,1,1,1,1,1,1,1], \"data_offsets\": [0, 4]}}",
         "no shape"},
        {"{\"a\": " TENSOR("[-1]", 0, 4) "}", "impossible shape"},
        {"{\"a\": " TENSOR("[1.0]", 0, 4) "}", "impossible shape"},
        {"{\"a\": " TENSOR("[4294967296, 4294967296]", 0, 0) "}", "impossible shape"},
        {"{\"a\": " TENSOR("[9223372036854775807]", 0, 0) "}", "impossible shape"},
        {"{\"a\": {\"dtype\": \"F32\", \"shape\": [1]}}", "data_offsets"},
        {"{\"a\": {\"dtype\": \"F32\", \"shape\": [1], \"data_offsets\": [0, 4, 8]}}", "data_offsets"},
        {"{\"a\": " TENSOR("[1]", -4, 0) "}", "data_offsets"},
        {"{\"a\": " TENSOR("[1]", 4, 0) "}", "its shape takes"},
        {"{\"a\": " TENSOR("[1]", 0, 8) "}", "its shape takes 4 bytes"},
        {"{\"a\": " TENSOR("[1]", 6, 10) "}", "after the file"},
        {"{\"a\": " TENSOR("[1]", 9223372036854775803, 9223372036854775807) "}", "after the file"},
        {"{\"a\": " TENSOR("[1]", 0, 4) ", \"b\": " TENSOR("[1]", 2, 6) "}", "overlap"},
        {"{\"a\": " TENSOR("[1]", 0, 4) ", \"a\": " TENSOR("[1]", 4, 8) "}", "duplicate"},
        {"{\"\": " TENSOR("[1]", 0, 4) "}", "no valid name"},
        {"{\"a\\n\": " TENSOR("[1]", 0, 4) "}", "no valid name"},
        {"{\"a\\u0000b\": " TENSOR("[1]", 0, 4) "}", "not valid JSON"},
    };
    struct safetensors *file;
    for (size_t i = 0; i < sizeof damaged / sizeof *damaged; i++) {
        write_safetensors(path, damaged[i].header, 8);
        cr_assert_eq(safetensors_open(path, &file), ENGINE_ERROR_DATA, "%s", damaged[i].header);
        cr_expect_not_null(strstr(error_message(), damaged[i].word), "%s: %s", damaged[i].header,
                           error_message());
    }
}

Test(safetensors, refuses_other_files)
{
    struct safetensors *file;
    files_write(path, "1234567", 7);
    cr_expect_eq(safetensors_open(path, &file), ENGINE_ERROR_DATA);
    cr_expect_not_null(strstr(error_message(), "7 bytes"), "%s", error_message());
    files_write(path, "\x09\0\0\0\0\0\0\0{}", 10);
    cr_expect_eq(safetensors_open(path, &file), ENGINE_ERROR_DATA);
    cr_expect_not_null(strstr(error_message(), "truncated"), "%s", error_message());
    files_write(path, "", 0);
    cr_expect_eq(safetensors_open(path, &file), ENGINE_ERROR_DATA);
    cr_expect_neq(safetensors_open(folder, &file), ENGINE_OK);
}

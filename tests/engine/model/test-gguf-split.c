/* test-gguf-split.c: GGUF models in several files: `engine quantize --split-size`, and what is refused. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"
#include "files.h"
#include "gguf-writer.h"
#include "model/model.h"
#include "program.h"

static char *folder;

static const char *in_folder(const char *name)
{
    return files_path(folder, name);
}

static void quantize(const char *from, const char *to, const char *size)
{
    struct program_result result =
        size ? PROGRAM("quantize", in_folder(from), in_folder(to), "F16", "--split-size", size)
             : PROGRAM("quantize", in_folder(from), in_folder(to), "F16");
    cr_assert_eq(result.status, 0, "%s", result.err);
    program_free(&result);
}

static void setup(void)
{
    folder = files_folder();
    struct tiny_llama one = {.seed = 1}, two = {.seed = 2};
    cr_assert(write_tiny_llama(in_folder("one.gguf"), &one));
    cr_assert(write_tiny_llama(in_folder("two.gguf"), &two));
    quantize("one.gguf", "whole.gguf", NULL);
    quantize("one.gguf", "a.gguf", "0.1M");
}

static void teardown(void)
{
    files_remove(folder);
    free(folder);
}

TestSuite(gguf_split, .init = setup, .fini = teardown);

static void expect_whole(const char *name)
{
    struct model *whole, *model;
    cr_assert_eq(model_open(in_folder("whole.gguf"), NULL, &whole), ENGINE_OK);
    cr_assert_eq(model_open(in_folder(name), NULL, &model), ENGINE_OK, "%s", error_message());
    cr_assert_eq(model_tensor_count(model), model_tensor_count(whole));
    for (size_t i = 0; i < model_tensor_count(whole); i++) {
        const struct model_tensor *left = model_tensor_at(whole, i), *right = model_tensor_at(model, i);
        cr_expect_str_eq(left->name, right->name);
        cr_expect(left->size == right->size && memcmp(left->data, right->data, left->size) == 0, "%s",
                  left->name);
        model_tensor_release(model, right);
    }
    cr_expect_not_null(metadata_find(model_metadata(model), "tokenizer.ggml.tokens"));
    model_close(whole);
    model_close(model);
}

static void expect_refusal(const char *name, const char *words)
{
    struct model *model = NULL;
    error_clear();
    cr_expect_neq(model_open(in_folder(name), NULL, &model), ENGINE_OK);
    cr_expect(strstr(error_message(), words), "expected \"%s\" in: %s", words, error_message());
    cr_expect_null(strchr(error_message(), '\n'));
}

Test(gguf_split, any_part_names_the_model)
{
    expect_whole("a-00001-of-00003.gguf");
    expect_whole("a-00002-of-00003.gguf");
    expect_whole("a-00003-of-00003.gguf");
}

Test(gguf_split, parts_keep_to_the_size)
{
    for (int part = 1; part <= 3; part++) {
        char name[64];
        size_t size;
        snprintf(name, sizeof name, "a-%05d-of-00003.gguf", part);
        free(files_read(in_folder(name), &size));
        cr_expect_leq(size, 100000, "%s", name);
    }
    quantize("a-00002-of-00003.gguf", "again.gguf", NULL);
    size_t size, other;
    char *again = files_read(in_folder("again.gguf"), &size),
         *whole = files_read(in_folder("whole.gguf"), &other);
    cr_expect(size == other && memcmp(again, whole, size) == 0, "parts put together differ from the whole");
    free(again), free(whole);
}

Test(gguf_split, missing_parts_are_named)
{
    unlink(in_folder("a-00003-of-00003.gguf"));
    expect_refusal("a-00001-of-00003.gguf", "a-00003-of-00003.gguf");
    unlink(in_folder("a-00001-of-00003.gguf"));
    expect_refusal("a-00002-of-00003.gguf", "a-00001-of-00003.gguf");
}

/* Of a model with the same tensors; and a part under the name of another. */
Test(gguf_split, foreign_and_duplicate_parts_are_refused)
{
    quantize("two.gguf", "b.gguf", "0.1M");
    files_copy(in_folder("b-00002-of-00003.gguf"), in_folder("a-00002-of-00003.gguf"), SIZE_MAX);
    expect_refusal("a-00001-of-00003.gguf", "a-00002-of-00003.gguf are parts of different models");
    expect_refusal("a-00002-of-00003.gguf", "a-00001-of-00003.gguf is the first part of another model");
    files_copy(in_folder("a-00003-of-00003.gguf"), in_folder("a-00002-of-00003.gguf"), SIZE_MAX);
    expect_refusal(
        "a-00001-of-00003.gguf",
        "a-00002-of-00003.gguf is part 3 of 3 of a model: its name has to end in -00003-of-00003.gguf");
    files_write_text(in_folder("a-00002-of-00003.gguf"), "nonsense");
    expect_refusal("a-00001-of-00003.gguf", "a-00002-of-00003.gguf is not a GGUF file");
}

Test(gguf_split, sizes_and_outputs_are_checked)
{
    program_fails(PROGRAM("quantize", in_folder("one.gguf"), in_folder("c.gguf"), "F16", "--split-size", "4"),
                  2, "--split-size");
    program_fails(PROGRAM("quantize", in_folder("a-00002-of-00003.gguf"), in_folder("a.gguf"), "F16",
                          "--split-size", "0.1M"),
                  0, "a-00001-of-00003.gguf is the same file as the input");
    expect_whole("a-00001-of-00003.gguf");
}

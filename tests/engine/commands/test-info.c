/* test-info.c: `engine info`, from outside. */
#include <criterion/criterion.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "files.h"
#include "gguf-writer.h"
#include "llama2c-writer.h"
#include "program.h"

static char path[256], tokenizer_path[256];

static void make_paths(void)
{
    snprintf(path, sizeof path, "%s/test-info-%ld.model", TEST_BINARY_DIR, (long)getpid());
    snprintf(tokenizer_path, sizeof tokenizer_path, "%s/test-info-%ld.tok", TEST_BINARY_DIR, (long)getpid());
}

static void remove_files(void)
{
    unlink(path);
    unlink(tokenizer_path);
}

TestSuite(info, .init = make_paths, .fini = remove_files);

#define INFO(...) PROGRAM("info", __VA_ARGS__)

static void expect_text(struct program_result result, const char *const *expected)
{
    cr_assert(result.status == 0, "%s", result.err);
    for (; *expected; expected++)
        cr_assert(strstr(result.out, *expected), "no \"%s\" in:\n%s", *expected, result.out);
    program_free(&result);
}

static json_t *parse_json(struct program_result result)
{
    json_error_t error;
    cr_assert(result.status == 0, "%s", result.err);
    json_t *json = json_loads(result.out, JSON_ALLOW_NUL, &error);
    cr_assert(json, "%s in:\n%s", error.text, result.out);
    program_free(&result);
    return json;
}

static const json_t *metadata_of(const json_t *json, const char *key)
{
    return json_object_get(json_object_get(json_object_get(json, "metadata"), key), "value");
}

Test(info, for_people)
{
    cr_assert(
        write_tiny_llama(path, &(struct tiny_llama){.seed = 1, .type = ENGINE_TYPE_Q8_0, .tied = true}));
    expect_text(INFO(path),
                (const char *const[]){"GGUF 3, ", "\nllama.block_count ", "tokenizer.ggml.tokens ",
                                      "arr[str]    320  [\"<unk>\", \"<s>\", \"</s>\", ", "…\n",
                                      "\nblk.1.ffn_down.weight ", "96 x 64", "\n20 tensors, ", NULL});
}

Test(info, llama2c)
{
    const struct llama2c_shape shape = {64, 96, 2, 4, 2, 320, 16, true};
    float *weights = llama2c_random_weights(&shape, 1);
    size_t size;
    uint8_t *bytes = llama2c_checkpoint(&shape, weights, 0, 0, &size);
    cr_assert(write_bytes(path, bytes, size));
    free(bytes);
    free(weights);
    expect_text(INFO(path), (const char *const[]){"llama2.c version 0", "llama.embedding_length ",
                                                  "\n20 tensors, ", NULL});

    bytes = llama2c_tokenizer(320, &size);
    cr_assert(write_bytes(tokenizer_path, bytes, size));
    free(bytes);
    expect_text(INFO("--tokenizer", tokenizer_path, path),
                (const char *const[]){"tokenizer.ggml.token_type ", NULL});
}

Test(info, json)
{
    cr_assert(write_tiny_llama(path, &(struct tiny_llama){.seed = 1, .type = ENGINE_TYPE_F16}));
    json_t *json = parse_json(INFO("--json", path));
    cr_assert_str_eq(json_string_value(json_object_get(json, "format")), "GGUF 3");
    cr_assert_str_eq(json_string_value(json_object_get(json, "architecture")), "llama");
    cr_assert(json_integer_value(metadata_of(json, "llama.block_count")) == 2);
    cr_assert(json_real_value(metadata_of(json, "llama.rope.freq_base")) == 10000);
    cr_assert(json_array_size(metadata_of(json, "tokenizer.ggml.tokens")) == 100, "cut");
    const json_t *tensors = json_object_get(json, "tensors"), *totals = json_object_get(json, "totals");
    cr_assert(json_array_size(tensors) == 21 && json_integer_value(json_object_get(totals, "tensors")) == 21);
    uint64_t bytes = 0, parameters = 0;
    for (size_t i = 0; i < json_array_size(tensors); i++) {
        const json_t *tensor = json_array_get(tensors, i), *shape = json_object_get(tensor, "shape");
        uint64_t elements = 1;
        for (size_t d = 0; d < json_array_size(shape); d++)
            elements *= (uint64_t)json_integer_value(json_array_get(shape, d));
        parameters += elements;
        bytes += (uint64_t)json_integer_value(json_object_get(tensor, "bytes"));
    }
    cr_assert((uint64_t)json_integer_value(json_object_get(totals, "bytes")) == bytes);
    cr_assert((uint64_t)json_integer_value(json_object_get(totals, "parameters")) == parameters);
    json_decref(json);

    json = parse_json(INFO("--json", "--verbose", path));
    cr_assert(json_array_size(metadata_of(json, "tokenizer.ggml.tokens")) == 320, "whole");
    json_decref(json);
}

/* Text that is not UTF-8, numbers that JSON doesn't have, characters that move a terminal's cursor. */
Test(info, odd_values)
{
    struct gguf_writer *writer = gguf_create(3);
    const char *words[] = {"\xff\xfe", "ok"};
    gguf_add_string(writer, "not.\xc3utf8", "a\x80z");
    gguf_add_strings(writer, "strings", words, 2);
    gguf_add_f32(writer, "infinite", INFINITY);
    gguf_add_raw(writer, "large", 10, (uint64_t[]){UINT64_MAX}, 8);       /* u64 */
    gguf_add_raw(writer, "flags", 9, "\7\0\0\0\2\0\0\0\0\0\0\0\1\0", 14); /* two booleans */
    gguf_add_raw(writer, "none", 9, "\4\0\0\0\0\0\0\0\0\0\0\0", 12);      /* no u32 */
    gguf_add_string(writer, "lines", "one\ntwo\033[2J");
    gguf_add_string(writer, "cut", "a\xE2\x82z\xF0\x9F\x98");
    gguf_add_raw(writer, "nul", 8, "\7\0\0\0\0\0\0\0abc\0def", 15);
    gguf_add_raw(writer, "general.name", 8, "\3\0\0\0\0\0\0\0a\0b", 11);
    gguf_add_boolean(writer, "yes", true);
    cr_assert(gguf_save(writer, path));
    gguf_destroy(writer);

    json_t *json = parse_json(INFO("--json", path));
    cr_assert_str_eq(json_string_value(metadata_of(json, "not.\xef\xbf\xbdutf8")), "a\xef\xbf\xbdz");
    cr_assert_str_eq(json_string_value(json_array_get(metadata_of(json, "strings"), 1)), "ok");
    cr_assert(json_is_null(metadata_of(json, "infinite")) && json_is_null(metadata_of(json, "large")));
    cr_assert(json_is_true(json_array_get(metadata_of(json, "flags"), 0)));
    cr_assert(json_is_false(json_array_get(metadata_of(json, "flags"), 1)));
    cr_assert(json_array_size(metadata_of(json, "none")) == 0 && json_is_true(metadata_of(json, "yes")));
    cr_assert_str_eq(json_string_value(metadata_of(json, "lines")), "one\ntwo\033[2J");
    cr_assert_str_eq(json_string_value(metadata_of(json, "cut")), "a\xEF\xBF\xBDz\xEF\xBF\xBD");
    cr_assert_eq(json_string_length(metadata_of(json, "nul")), 7);
    cr_assert_str_eq(json_string_value(json_object_get(json, "name")), "a\xEF\xBF\xBD"
                                                                       "b");
    json_decref(json);

    struct program_result result = INFO(path);
    cr_assert(result.status == 0 && strstr(result.out, "one two\\x1B[2J") && !strchr(result.out, '\033'),
              "%s", result.out);
    cr_expect(strstr(result.out, "abc\\x00def"), "%s", result.out);
    program_free(&result);
}

Test(info, refused)
{
    struct program_result result = INFO(FILES_ABSENT "/model.gguf");
    cr_assert(result.status == 1 && result.out_size == 0);
    cr_assert_str_eq(result.err,
                     "engine: cannot open " FILES_ABSENT "/model.gguf: No such file or directory\n");
    program_free(&result);
}

/* test-info.c: `engine info`, from outside. */
#include <criterion/criterion.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "gguf-writer.h"
#include "llama2c-writer.h"

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

/* What `engine info ARGUMENTS` writes to standard output and standard error; *status is its exit status. The caller
 * frees it. */
static char *run_info(const char *arguments, int *status)
{
    char command[1024];
    snprintf(command, sizeof command, "%s info 2>&1 %s", TEST_ENGINE, arguments);
    FILE *pipe = popen(command, "r");
    cr_assert(pipe != NULL);
    size_t used = 0, room = 1 << 20;
    char *text = malloc(room);
    cr_assert(text != NULL);
    size_t count;
    while ((count = fread(text + used, 1, room - 1 - used, pipe)) > 0) used += count;
    text[used] = '\0';
    *status = pclose(pipe);
    return text;
}

static void expect_text(const char *arguments, const char *const *expected)
{
    int status;
    char *text = run_info(arguments, &status);
    cr_assert(status == 0, "%s", text);
    for (; *expected; expected++) cr_assert(strstr(text, *expected), "no \"%s\" in:\n%s", *expected, text);
    free(text);
}

static json_t *parse_json(const char *arguments)
{
    int status;
    json_error_t error;
    char *text = run_info(arguments, &status);
    cr_assert(status == 0, "%s", text);
    json_t *json = json_loads(text, JSON_ALLOW_NUL, &error);
    cr_assert(json, "%s in:\n%s", error.text, text);
    free(text);
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
    expect_text(path, (const char *const[]){"GGUF 3, ", "\nllama.block_count ", "tokenizer.ggml.tokens ",
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
    expect_text(
        path, (const char *const[]){"llama2.c version 0", "llama.embedding_length ", "\n20 tensors, ", NULL});

    char arguments[600];
    bytes = llama2c_tokenizer(320, &size);
    cr_assert(write_bytes(tokenizer_path, bytes, size));
    free(bytes);
    snprintf(arguments, sizeof arguments, "--tokenizer %s %s", tokenizer_path, path);
    expect_text(arguments, (const char *const[]){"tokenizer.ggml.token_type ", NULL});
}

Test(info, json)
{
    char arguments[600];
    cr_assert(write_tiny_llama(path, &(struct tiny_llama){.seed = 1, .type = ENGINE_TYPE_F16}));
    snprintf(arguments, sizeof arguments, "--json %s", path);
    json_t *json = parse_json(arguments);
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

    snprintf(arguments, sizeof arguments, "--json --verbose %s 2>/dev/null", path); /* notes go there */
    json = parse_json(arguments);
    cr_assert(json_array_size(metadata_of(json, "tokenizer.ggml.tokens")) == 320, "whole");
    json_decref(json);
}

/* Text that is not UTF-8, numbers that JSON doesn't have, characters that move a terminal's cursor. */
Test(info, odd_values)
{
    struct gguf_writer *writer = gguf_create(3);
    const char *words[] = {"\xff\xfe", "ok"};
    char arguments[600];
    gguf_add_string(writer, "not.\xc3utf8", "a\x80z");
    gguf_add_strings(writer, "strings", words, 2);
    gguf_add_f32(writer, "infinite", INFINITY);
    gguf_add_raw(writer, "large", 10, (uint64_t[]){UINT64_MAX}, 8);       /* u64 */
    gguf_add_raw(writer, "flags", 9, "\7\0\0\0\2\0\0\0\0\0\0\0\1\0", 14); /* two booleans */
    gguf_add_raw(writer, "none", 9, "\4\0\0\0\0\0\0\0\0\0\0\0", 12);      /* no u32 */
    gguf_add_string(writer, "lines", "one\ntwo\033[2J");
    gguf_add_boolean(writer, "yes", true);
    cr_assert(gguf_save(writer, path));
    gguf_destroy(writer);

    snprintf(arguments, sizeof arguments, "--json %s", path);
    json_t *json = parse_json(arguments);
    cr_assert_str_eq(json_string_value(metadata_of(json, "not.\xef\xbf\xbdutf8")), "a\xef\xbf\xbdz");
    cr_assert_str_eq(json_string_value(json_array_get(metadata_of(json, "strings"), 1)), "ok");
    cr_assert(json_is_null(metadata_of(json, "infinite")) && json_is_null(metadata_of(json, "large")));
    cr_assert(json_is_true(json_array_get(metadata_of(json, "flags"), 0)));
    cr_assert(json_is_false(json_array_get(metadata_of(json, "flags"), 1)));
    cr_assert(json_array_size(metadata_of(json, "none")) == 0 && json_is_true(metadata_of(json, "yes")));
    cr_assert_str_eq(json_string_value(metadata_of(json, "lines")), "one\ntwo\033[2J");
    json_decref(json);

    int status;
    char *text = run_info(path, &status);
    cr_assert(status == 0 && strstr(text, "one two [2J") && !strchr(text, '\033'), "%s", text);
    free(text);
}

Test(info, refused)
{
    int status;
    char *text = run_info("/nonexistent/model.gguf", &status);
    cr_assert(status != 0);
    cr_assert_str_eq(text, "engine: cannot open /nonexistent/model.gguf: No such file or directory\n");
    free(text);
}

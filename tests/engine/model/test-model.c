/* test-model.c: types, metadata, and GGUF files: right ones, and one of each kind of wrong ones. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"
#include "files.h"
#include "gguf-writer.h"
#include "model/model.h"
#include "model/types.h"

static char path[256];

static void make_path(void)
{
    snprintf(path, sizeof path, "%s/test-model-%ld.gguf", TEST_BINARY_DIR, (long)getpid());
}

static void remove_file(void)
{
    unlink(path);
}

TestSuite(types);
TestSuite(gguf, .init = make_path, .fini = remove_file);

/* Writes what `writer` has, opens it and expects success. */
static struct model *open_saved(struct gguf_writer *writer)
{
    struct model *model = NULL;
    cr_assert(gguf_save(writer, path));
    gguf_destroy(writer);
    cr_assert(model_open(path, NULL, &model) == ENGINE_OK, "%s", error_message());
    return model;
}

/* Writes what `writer` has and expects a message with the file's name and `words` in it. */
static void expect_refusal(struct gguf_writer *writer, const char *words)
{
    struct model *model = NULL;
    cr_assert(gguf_save(writer, path));
    gguf_destroy(writer);
    cr_assert(model_open(path, NULL, &model) != ENGINE_OK, "opened in spite of: %s", words);
    cr_assert(model == NULL);
    cr_assert(strstr(error_message(), path), "no file name in: %s", error_message());
    cr_assert(strstr(error_message(), words), "expected \"%s\" in: %s", words, error_message());
}

static void add_matrix(struct gguf_writer *writer, const char *name)
{
    float values[32] = {1, 2, 3};
    gguf_add_tensor(writer, name, ENGINE_TYPE_F32, 2, (uint64_t[]){8, 4}, values, sizeof values);
}

/* ---- Types ---- */

Test(types, table)
{
    uint64_t size;
    uint32_t type;
    cr_assert(type_row_size(ENGINE_TYPE_F32, 3, &size) && size == 12);
    cr_assert(type_row_size(ENGINE_TYPE_Q8_0, 64, &size) && size == 68);
    cr_assert(type_row_size(ENGINE_TYPE_Q4_K, 512, &size) && size == 288);
    cr_assert(!type_row_size(ENGINE_TYPE_Q8_0, 33, &size));
    cr_assert(!type_row_size(9, 32, &size));
    cr_assert(!type_row_size(ENGINE_TYPE_F32, UINT64_MAX / 2, &size));
    cr_assert(type_by_name("q4_k", &type) && type == ENGINE_TYPE_Q4_K);
    cr_assert(!type_by_name("Q4_Z", &type));
    cr_assert(type_info(4) == NULL && type_info(1000) == NULL && type_info(UINT32_MAX) == NULL);
    cr_assert_str_eq(type_foreign_name(31), "Q4_0_4_4");
    for (uint32_t i = 0; i < 100; i++)
        cr_assert(!type_info(i) || (type_by_name(type_info(i)->name, &type) && type == i));
}

Test(types, halves)
{
    /* The helpers that other tests measure with: every float16 comes back, halfway cases go to even. */
    for (uint32_t half = 0; half < 0x7c00; half++)
        cr_assert(float_to_half(half_to_float((uint16_t)half)) == half, "%u", half);
    cr_assert(float_to_half(1.0f + 1.0f / 2048) == 0x3c00 && float_to_half(1.0f + 3.0f / 2048) == 0x3c02);
    cr_assert(float_to_half(65520) == 0x7c00 && float_to_half(-65519.996f) == 0xfbff);
    cr_assert(float_to_half(0x1p-25f) == 0 && float_to_half(0x1.8p-25f) == 1);
}

/* ---- Files that are right ---- */

Test(gguf, values)
{
    struct gguf_writer *writer = gguf_create(3);
    int8_t bytes[] = {3, 0, 0, 0, -1};
    gguf_add_raw(writer, "i8", METADATA_I8, &bytes[4], 1);
    gguf_add_raw(writer, "u16", METADATA_U16, (uint16_t[]){65535}, 2);
    gguf_add_raw(writer, "i16", METADATA_I16, (int16_t[]){-2}, 2);
    gguf_add_u32(writer, "u32", 4000000000u);
    gguf_add_raw(writer, "i64", METADATA_I64, (int64_t[]){INT64_MIN}, 8);
    gguf_add_raw(writer, "u64", METADATA_U64, (uint64_t[]){INT64_MAX}, 8);
    gguf_add_raw(writer, "u64 too large", METADATA_U64, (uint64_t[]){UINT64_MAX}, 8);
    gguf_add_f32(writer, "f32", 0.5f);
    gguf_add_raw(writer, "f64", METADATA_F64, (double[]){0.1}, 8);
    gguf_add_boolean(writer, "bool", true);
    gguf_add_string(writer, "string", "text");
    gguf_add_string(writer, "empty", "");
    struct model *model = open_saved(writer);
    const struct metadata *metadata = model_metadata(model);
    int64_t integer;
    double number;
    bool boolean;
    struct engine_string string;

    cr_assert(metadata_count(metadata) == 12);
    cr_assert_str_eq(metadata_at(metadata, 3)->key, "u32");
    cr_assert_str_eq(metadata_entry_type(metadata_at(metadata, 3)), "u32");
    cr_assert(metadata_integer(metadata, "i8", &integer) && integer == -1);
    cr_assert(metadata_integer(metadata, "u16", &integer) && integer == 65535);
    cr_assert(metadata_integer(metadata, "i16", &integer) && integer == -2);
    cr_assert(metadata_integer(metadata, "u32", &integer) && integer == 4000000000);
    cr_assert(metadata_integer(metadata, "i64", &integer) && integer == INT64_MIN);
    cr_assert(metadata_integer(metadata, "u64", &integer) && integer == INT64_MAX);
    cr_assert(!metadata_integer(metadata, "u64 too large", &integer));
    cr_assert(!metadata_integer(metadata, "f32", &integer));
    cr_assert(!metadata_integer(metadata, "bool", &integer));
    cr_assert(!metadata_integer(metadata, "absent", &integer));
    cr_assert(metadata_float(metadata, "f32", &number) && number == 0.5);
    cr_assert(metadata_float(metadata, "f64", &number) && number == 0.1);
    cr_assert(!metadata_float(metadata, "u32", &number));
    cr_assert(metadata_boolean(metadata, "bool", &boolean) && boolean);
    cr_assert(!metadata_boolean(metadata, "u32", &boolean));
    cr_assert(metadata_string(metadata, "string", &string) && string.length == 4 &&
              memcmp(string.data, "text", 4) == 0);
    cr_assert(metadata_string(metadata, "empty", &string) && string.length == 0);
    cr_assert(!metadata_string(metadata, "u32", &string));
    model_close(model);
}

Test(gguf, getters)
{
    struct gguf_writer *writer = gguf_create(2);
    const char *words[] = {"a", "", "ccc"};
    const uint8_t bytes[] = {METADATA_U8, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0, 7, 9};
    uint64_t wide[] = {1, 2, UINT64_MAX};
    uint8_t wide_array[12 + sizeof wide] = {METADATA_U64, 0, 0, 0, 3};
    memcpy(wide_array + 12, wide, sizeof wide);
    gguf_add_strings(writer, "strings", words, 3);
    gguf_add_i32s(writer, "integers", (int32_t[]){-1, 5, 6}, 3);
    gguf_add_f32s(writer, "floats", (float[]){1.5f, 2.5f}, 2);
    gguf_add_raw(writer, "bytes", METADATA_ARRAY, bytes, sizeof bytes);
    gguf_add_raw(writer, "wide", METADATA_ARRAY, wide_array, sizeof wide_array);
    gguf_add_u32(writer, "scalar", 3);
    struct model *model = open_saved(writer);
    struct engine_metadata m;
    metadata_getters(model_metadata(model), &m);

    size_t count;
    struct engine_string strings[3];
    int64_t integers[3] = {0};
    float floats[2];
    int boolean;
    cr_assert(m.get_count(m.context, "strings", &count) == ENGINE_OK && count == 3);
    cr_assert(m.get_count(m.context, "scalar", &count) == ENGINE_ERROR_NOT_FOUND);
    cr_assert(m.get_strings(m.context, "strings", 1, 2, strings) == ENGINE_OK);
    cr_assert(strings[0].length == 0 && strings[1].length == 3 && strings[1].data[2] == 'c');
    cr_assert(m.get_strings(m.context, "strings", 2, 2, strings) == ENGINE_ERROR_ARGUMENT);
    cr_assert(m.get_strings(m.context, "strings", SIZE_MAX, 2, strings) == ENGINE_ERROR_ARGUMENT);
    cr_assert(m.get_strings(m.context, "strings", 3, 0, strings) == ENGINE_OK);
    cr_assert(m.get_strings(m.context, "integers", 0, 1, strings) == ENGINE_ERROR_NOT_FOUND);
    cr_assert(m.get_integers(m.context, "integers", 0, 3, integers) == ENGINE_OK);
    cr_assert(integers[0] == -1 && integers[2] == 6);
    cr_assert(m.get_integers(m.context, "wide", 0, 3, integers) == ENGINE_ERROR_NOT_FOUND);
    cr_assert(integers[0] == -1, "outputs stay untouched on failure");
    cr_assert(m.get_integers(m.context, "wide", 0, 2, integers) == ENGINE_OK && integers[1] == 2);
    cr_assert(m.get_integers(m.context, "floats", 0, 1, integers) == ENGINE_ERROR_NOT_FOUND);
    cr_assert(m.get_floats(m.context, "floats", 1, 1, floats) == ENGINE_OK && floats[0] == 2.5f);
    cr_assert(m.get_bytes(m.context, "bytes", &strings[0]) == ENGINE_OK);
    cr_assert(strings[0].length == 2 && strings[0].data[1] == 9);
    cr_assert(m.get_bytes(m.context, "integers", &strings[0]) == ENGINE_ERROR_NOT_FOUND);
    cr_assert(m.get_integer(m.context, "scalar", &integers[0]) == ENGINE_OK && integers[0] == 3);
    cr_assert(m.get_boolean(m.context, "scalar", &boolean) == ENGINE_ERROR_NOT_FOUND);
    cr_assert_str_eq(model_format(model), "GGUF 2");
    cr_assert_str_eq(metadata_entry_type(metadata_at(model_metadata(model), 0)), "arr[str]");
    model_close(model);
}

Test(gguf, tensors)
{
    struct gguf_writer *writer = gguf_create(3);
    float values[64];
    uint8_t blocks[68];
    for (int i = 0; i < 64; i++) values[i] = (float)i;
    encode_row(ENGINE_TYPE_Q8_0, values, 64, blocks);
    gguf_add_u32(writer, "general.alignment", 64);
    gguf_set_alignment(writer, 64);
    gguf_add_tensor(writer, "a", ENGINE_TYPE_F32, 1, (uint64_t[]){3}, values, 12);
    gguf_add_tensor(writer, "b", ENGINE_TYPE_Q8_0, 2, (uint64_t[]){32, 2}, blocks, sizeof blocks);
    gguf_add_tensor(writer, "c", ENGINE_TYPE_F32, 4, (uint64_t[]){2, 2, 2, 2}, values, 64);
    struct model *model = open_saved(writer);

    cr_assert(model_tensor_count(model) == 3);
    const struct model_tensor *b = model_tensor_find(model, "b");
    cr_assert(b == model_tensor_at(model, 1));
    cr_assert(b->type == ENGINE_TYPE_Q8_0 && b->n_dims == 2 && b->ne[0] == 32 && b->ne[1] == 2 &&
              b->ne[2] == 1);
    cr_assert(b->size == 68 && memcmp(b->data, blocks, 68) == 0);
    cr_assert((uintptr_t)b->data % 64 == 0);
    const struct model_tensor *c = model_tensor_find(model, "c");
    cr_assert(c->size == 64 && memcmp(c->data, values, 64) == 0 && c->ne[3] == 2);
    cr_assert(model_tensor_find(model, "d") == NULL);
    model_close(model);
}

Test(gguf, tiny_llama)
{
    struct model *model = NULL;
    cr_assert(write_tiny_llama(path, &(struct tiny_llama){.seed = 1, .type = ENGINE_TYPE_Q4_0}));
    cr_assert(model_open(path, NULL, &model) == ENGINE_OK, "%s", error_message());
    cr_assert(model_tensor_count(model) == 2 * 9 + 3);
    const struct model_tensor *down = model_tensor_find(model, "blk.1.ffn_down.weight");
    cr_assert(down && down->ne[0] == 96 && down->ne[1] == 64 && down->size == 64 * 3 * 18);
    model_close(model);
}

Test(gguf, released_pages_come_back)
{
    struct gguf_writer *writer = gguf_create(3);
    size_t size = 1 << 20;
    uint8_t *data = malloc(size);
    cr_assert(data != NULL);
    for (size_t i = 0; i < size; i++) data[i] = (uint8_t)(i * 7 >> 3);
    gguf_add_tensor(writer, "a", ENGINE_TYPE_I8, 1, &(uint64_t){size}, data, size);
    struct model *model = open_saved(writer);
    const struct model_tensor *tensor = model_tensor_at(model, 0);
    cr_assert(memcmp(tensor->data, data, size) == 0);
    model_tensor_release(model, tensor);
    cr_assert(memcmp(tensor->data, data, size) == 0);
    model_close(model);
    free(data);
}

Test(gguf, no_tensors)
{
    struct gguf_writer *writer = gguf_create(3); /* as files with nothing but a vocabulary are */
    gguf_add_u32(writer, "x", 1);
    struct model *model = open_saved(writer);
    cr_assert(model_tensor_count(model) == 0 && model_tensor_find(model, "x") == NULL);
    model_close(model);
}

/* ---- Files that are wrong ---- */

Test(gguf, version)
{
    expect_refusal(gguf_create(1), "GGUF version 1; this engine reads 2 and 3");
    expect_refusal(gguf_create(0x03000000), "big-endian");
}

Test(gguf, bad_metadata)
{
    struct gguf_writer *writer = gguf_create(3);
    gguf_add_u32(writer, "twice", 1);
    gguf_add_f32(writer, "twice", 1);
    expect_refusal(writer, "the key twice occurs twice in the metadata");

    writer = gguf_create(3);
    gguf_add_raw(writer, "odd", 13, (uint64_t[]){0}, 8);
    expect_refusal(writer, "odd has the value type 13");

    writer = gguf_create(3);
    gguf_add_raw(writer, "flag", METADATA_BOOL, "\2", 1);
    expect_refusal(writer, "flag is 2; it must be true or false");

    writer = gguf_create(3);
    gguf_add_raw(writer, "nested", METADATA_ARRAY, "\x09\0\0\0\0\0\0\0\0\0\0", 12);
    expect_refusal(writer, "nested is an array of arrays");

    writer = gguf_create(3);
    gguf_add_u32(writer, "", 1);
    expect_refusal(writer, "entry 0 has no valid key");

    writer = gguf_create(3);
    gguf_add_u32(writer, "line\nbreak", 1);
    expect_refusal(writer, "entry 0 has no valid key");

    writer = gguf_create(3);
    gguf_add_raw(writer, "long", METADATA_STRING, (uint64_t[]){UINT64_MAX}, 8);
    expect_refusal(writer, "ends within long");

    writer = gguf_create(3);
    gguf_add_raw(writer, "many", METADATA_ARRAY, "\x0c\0\0\0\xff\xff\xff\xff\xff\xff\xff\x1f", 12);
    expect_refusal(writer, "ends within many");

    writer = gguf_create(3);
    gguf_add_raw(writer, "split.count", METADATA_U16, (uint16_t[]){3}, 2);
    expect_refusal(writer, "is part 1 of 3 of a model: its name has to end in -00001-of-00003.gguf");
}

Test(gguf, bad_alignment)
{
    struct gguf_writer *writer = gguf_create(3);
    gguf_add_u32(writer, "general.alignment", 48);
    expect_refusal(writer, "general.alignment is 48");

    writer = gguf_create(3);
    gguf_add_u32(writer, "general.alignment", 0);
    expect_refusal(writer, "general.alignment is 0");

    writer = gguf_create(3);
    gguf_add_string(writer, "general.alignment", "32");
    expect_refusal(writer, "general.alignment is not an integer");

    writer = gguf_create(3);
    add_matrix(writer, "a");
    gguf_add_raw(writer, "general.alignment", METADATA_U64, (uint64_t[]){(uint64_t)1 << 62}, 8);
    expect_refusal(writer, "a ends at byte 46116860184273880");
}

Test(gguf, bad_tensors)
{
    const uint64_t shape[] = {8, 4, 1, 1, 1};
    struct gguf_writer *writer = gguf_create(3);
    add_matrix(writer, "a");
    add_matrix(writer, "a");
    expect_refusal(writer, "the tensor a occurs twice");

    writer = gguf_create(3);
    gguf_add_tensor_at(writer, "a", 31, 2, shape, 0);
    expect_refusal(writer, "a has type 31 (Q4_0_4_4)");

    writer = gguf_create(3);
    gguf_add_tensor_at(writer, "a", 77, 2, shape, 0);
    expect_refusal(writer, "a has type 77 (unknown)");

    writer = gguf_create(3);
    gguf_add_tensor_at(writer, "a", ENGINE_TYPE_Q8_0, 2, shape, 0);
    expect_refusal(writer, "a has rows of 8 values, which is not a multiple of Q8_0's 32");

    writer = gguf_create(3);
    gguf_add_tensor_at(writer, "a", ENGINE_TYPE_F32, 5, shape, 0);
    expect_refusal(writer, "a has 5 dimensions");

    writer = gguf_create(3);
    gguf_add_tensor_at(writer, "a", ENGINE_TYPE_F32, 0, shape, 0);
    expect_refusal(writer, "a has 0 dimensions");

    writer = gguf_create(3);
    gguf_add_tensor_at(writer, "a", ENGINE_TYPE_F32, 2, (uint64_t[]){8, 0}, 0);
    expect_refusal(writer, "a has an impossible shape");

    writer = gguf_create(3);
    gguf_add_tensor_at(writer, "a", ENGINE_TYPE_F32, 2, (uint64_t[]){UINT64_MAX, UINT64_MAX}, 0);
    expect_refusal(writer, "a has an impossible shape");

    writer = gguf_create(3);
    gguf_add_tensor_at(writer, "a", ENGINE_TYPE_F32, 2, (uint64_t[]){(uint64_t)1 << 31, (uint64_t)1 << 31},
                       0);
    expect_refusal(writer, "a has an impossible shape");

    writer = gguf_create(3);
    add_matrix(writer, "a");
    gguf_add_tensor_at(writer, "b", ENGINE_TYPE_F32, 2, shape, 128);
    expect_refusal(writer, "b ends at byte");

    writer = gguf_create(3);
    gguf_add_tensor_at(writer, "a", ENGINE_TYPE_F32, 2, shape, UINT64_MAX - 31);
    expect_refusal(writer, "a has an impossible offset");

    writer = gguf_create(3);
    gguf_add_tensor_at(writer, "a", ENGINE_TYPE_F32, 2, shape, 4);
    expect_refusal(writer, "a starts at 4");

    writer = gguf_create(3);
    add_matrix(writer, "a");
    gguf_add_tensor_at(writer, "b", ENGINE_TYPE_F32, 1, (uint64_t[]){8}, 96);
    expect_refusal(writer, "a and b overlap");
}

Test(gguf, cut_anywhere)
{
    struct gguf_writer *writer = gguf_create(3);
    const char *words[] = {"a", "b"};
    gguf_add_strings(writer, "strings", words, 2);
    gguf_add_f32s(writer, "floats", (float[]){1, 2}, 2);
    gguf_add_u32(writer, "u32", 1);
    add_matrix(writer, "matrix");
    size_t size;
    uint8_t *bytes = gguf_bytes(writer, &size);
    for (size_t cut = 0; cut < size; cut++) {
        struct model *model = NULL;
        cr_assert(write_bytes(path, bytes, cut));
        cr_assert(model_open(path, NULL, &model) != ENGINE_OK, "opened when cut at %zu of %zu", cut, size);
        cr_assert(strstr(error_message(), path) && !strchr(error_message(), '\n'));
    }
    free(bytes);
    expect_refusal(gguf_create(0), "version 0"); /* and not for want of a file */
    gguf_destroy(writer);
}

Test(gguf, messages_stay_one_line)
{
    cr_assert(error_raise(ENGINE_ERROR_DATA, "%s", "a\nb\033[2J\177c\302\2332J\303\251") ==
              ENGINE_ERROR_DATA);
    cr_assert_str_eq(error_message(), "a b [2J c  2J\303\251");
}

/* ---- Files that can't be read ---- */

static void expect_no_file(const char *name, const char *tokenizer, const char *words)
{
    struct model *model = NULL;
    cr_assert(model_open(name, tokenizer, &model) != ENGINE_OK);
    cr_assert(strstr(error_message(), words), "expected \"%s\" in: %s", words, error_message());
}

Test(gguf, unreadable)
{
    expect_no_file(FILES_ABSENT "/model.gguf", NULL, "cannot open " FILES_ABSENT "/model.gguf: No such file");
    expect_no_file(TEST_BINARY_DIR, NULL, "is a folder without a config.json");
    cr_assert(mkfifo(path, 0600) == 0);
    expect_no_file(path, NULL, "is a device or pipe, not a regular file");
    unlink(path);
    cr_assert(write_bytes(path, "", 0));
    expect_no_file(path, NULL, "is empty");
    cr_assert(write_bytes(path, "hello", 5));
    expect_no_file(path, NULL, "is neither a GGUF file nor a complete llama2.c checkpoint");
    cr_assert(write_tiny_llama(path, &(struct tiny_llama){.seed = 1}));
    expect_no_file(path, "tok.bin", "omit the tokenizer file");
}

Test(gguf, no_permission)
{
    if (geteuid() == 0) cr_skip_test("root may read everything");
    cr_assert(write_bytes(path, "GGUF", 4) && chmod(path, 0) == 0);
    expect_no_file(path, NULL, "Permission denied");
}

Test(gguf, stories)
{
    struct model *model = NULL;
    const char *file = TEST_SHARED_DIR "/models/stories260K-f32.gguf";
    if (access(file, R_OK) != 0) cr_skip_test("no %s", file);
    cr_assert(model_open(file, NULL, &model) == ENGINE_OK, "%s", error_message());
    cr_assert(model_tensor_count(model) == 48 && metadata_count(model_metadata(model)) == 20);
    cr_assert_str_eq(model_format(model), "GGUF 3");
    int64_t layers;
    cr_assert(metadata_integer(model_metadata(model), "llama.block_count", &layers) && layers == 5);
    model_close(model);
}

/* test-engine.c: models behind engine.h: metadata, tensors, and the plugin that makes the tokenizer. */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "bare-engine.h"
#include "engine.h"
#include "files.h"
#include "gguf-writer.h"

#define BUILT TEST_BINARY_DIR "/fixtures/plugins/built"

static char *folder;
static struct engine *engine;
static struct engine_model *model;

static void begin(void)
{
    folder = files_folder();
    files_copy(BUILT "/bytes.so", files_path(folder, "bytes.so"), SIZE_MAX);
    engine = bare_engine(folder, folder);
}

static void end(void)
{
    engine_model_close(model);
    engine_close(engine);
    files_remove(folder);
    free(folder);
}

TestSuite(engine, .init = begin, .fini = end);

/* A model of two tensors whose tokenizer.ggml.model is `kind`, unless that is NULL. */
static struct gguf_writer *make_model(const char *kind)
{
    static const float values[64];
    struct gguf_writer *writer = gguf_create(3);
    gguf_add_string(writer, "general.architecture", "llama");
    gguf_add_string(writer, "general.name", "A name");
    if (kind) gguf_add_string(writer, "tokenizer.ggml.model", kind);
    gguf_add_tensor(writer, "matrix", ENGINE_TYPE_F32, 2, (const uint64_t[]){16, 4, 1, 1}, values, 256);
    gguf_add_tensor(writer, "vector", ENGINE_TYPE_F32, 1, (const uint64_t[]){8, 1, 1, 1}, values, 32);
    return writer;
}

static void open_model(struct gguf_writer *writer)
{
    const char *path = files_path(folder, "model.gguf");
    cr_assert(gguf_save(writer, path));
    gguf_destroy(writer);
    cr_assert_eq(engine_model_open(engine, path, NULL, &model), ENGINE_OK, "%s", engine_error_message());
}

Test(engine, model)
{
    struct engine_model_info info = {.struct_size = sizeof info};
    struct engine_metadata_entry entry;
    struct engine_model_tensor tensor;
    struct engine_string name;
    open_model(make_model("test-bytes"));
    engine_model_get_info(model, &info);
    cr_assert_str_eq(info.format, "GGUF 3");
    cr_assert_str_eq(info.architecture, "llama");
    cr_assert_str_eq(info.name, "A name");
    cr_assert_eq(info.n_parameters, 72);
    cr_assert_eq(engine_model_metadata_count(model), 3);
    engine_model_metadata_at(model, 1, &entry);
    cr_assert_str_eq(entry.key, "general.name");
    cr_assert_str_eq(entry.type, "str");
    const struct engine_metadata *metadata = engine_model_metadata(model);
    cr_assert_eq(metadata->get_string(metadata->context, "general.name", &name), ENGINE_OK);
    cr_assert(name.length == 6 && memcmp(name.data, "A name", 6) == 0);
    cr_assert_eq(engine_model_tensor_count(model), 2);
    engine_model_tensor_at(model, 0, &tensor);
    cr_assert_str_eq(tensor.name, "matrix");
    cr_assert_str_eq(tensor.type_name, "F32");
    cr_assert(tensor.n_dims == 2 && tensor.ne[0] == 16 && tensor.ne[1] == 4 && tensor.size == 256);
}

Test(engine, tokenizer_of_a_plugin)
{
    const struct engine_tokenizer_api *api, *again;
    struct engine_tokenizer *tokenizer, *same;
    struct engine_tokenizer_info info = {.struct_size = sizeof info};
    open_model(make_model("test-bytes"));
    cr_assert_eq(engine_model_tokenizer(model, &api, &tokenizer), ENGINE_OK, "%s", engine_error_message());
    cr_assert_eq(api->info(tokenizer, &info), ENGINE_OK);
    cr_assert_eq(info.n_tokens, 256);
    cr_assert_eq(engine_model_tokenizer(model, &again, &same), ENGINE_OK);
    cr_assert(again == api && same == tokenizer);
}

static void no_tokenizer(const char *words)
{
    const struct engine_tokenizer_api *api = NULL;
    struct engine_tokenizer *tokenizer = NULL;
    cr_assert_neq(engine_model_tokenizer(model, &api, &tokenizer), ENGINE_OK);
    cr_assert(strstr(engine_error_message(), "model.gguf"), "%s", engine_error_message());
    cr_assert(strstr(engine_error_message(), words), "%s", engine_error_message());
    cr_assert_null(api);
    cr_assert_null(tokenizer);
}

Test(engine, no_plugin_for_the_tokenizer)
{
    open_model(make_model("of another world"));
    no_tokenizer("no plugin for its tokenizer 'of another world'");
}

Test(engine, no_tokenizer_in_the_model)
{
    open_model(make_model(NULL));
    no_tokenizer("has no tokenizer");
}

Test(engine, tokenizer_that_cannot_be_made)
{
    struct gguf_writer *writer = make_model("test-bytes");
    gguf_add_u32(writer, "test.fail", 7);
    open_model(writer);
    no_tokenizer("model.gguf: test-bytes: asked to fail with 7");
}

Test(engine, models_that_cannot_be_opened)
{
    struct engine_model *none = NULL;
    cr_assert_neq(engine_model_open(engine, FILES_ABSENT "/model.gguf", NULL, &none), ENGINE_OK);
    cr_assert(strstr(engine_error_message(), FILES_ABSENT "/model.gguf"), "%s", engine_error_message());
    files_write_text(files_path(folder, "text.gguf"), "not a model, whatever its name says");
    cr_assert_neq(engine_model_open(engine, files_path(folder, "text.gguf"), NULL, &none), ENGINE_OK);
    cr_assert(strstr(engine_error_message(), "text.gguf"), "%s", engine_error_message());
    cr_assert_null(none);
}

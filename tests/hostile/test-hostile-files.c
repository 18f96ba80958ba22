/* test-hostile-files.c: thousands of damaged model and tokenizer files. Each is opened, and all that can be
 * reached through it is read; none may crash, hang or be refused without a proper message. Most useful in a
 * build with sanitizers. A copy that fails stays behind as build/tests/hostile-NAME. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"
#include "damage.h"
#include "files.h"
#include "gguf-writer.h"
#include "model/model.h"
#include "sound.h"

#define SEED        20240607u
#define N_SMALL     720 /* copies of each file that this test writes itself: there are seven */
#define N_SHARED    100 /* copies of each file of ../shared, which are larger */
#define MAX_SECONDS 600 /* for one copy; it takes milliseconds */

/* ---- Reading all of it ---- */

static uint64_t sum; /* keeps the reading from being left out */

static void read_bytes_of(const void *data, size_t size)
{
    for (size_t i = 0; i < size; i++) sum += ((const uint8_t *)data)[i];
}

static void read_array(const struct engine_metadata *m, const struct metadata_entry *entry)
{
    size_t count;
    if (m->get_count(m->context, entry->key, &count) != ENGINE_OK) return;
    for (size_t i = 0; i < count; i++) {
        struct engine_string text;
        int64_t integer;
        float number;
        if (m->get_strings(m->context, entry->key, i, 1, &text) == ENGINE_OK)
            read_bytes_of(text.data, text.length);
        if (m->get_integers(m->context, entry->key, i, 1, &integer) == ENGINE_OK) sum += (uint64_t)integer;
        if (m->get_floats(m->context, entry->key, i, 1, &number) == ENGINE_OK) read_bytes_of(&number, 4);
    }
}

static void read_all(const struct model *model)
{
    struct engine_metadata m;
    metadata_getters(model_metadata(model), &m);
    for (size_t i = 0; i < metadata_count(model_metadata(model)); i++) {
        const struct metadata_entry *entry = metadata_at(model_metadata(model), i);
        struct engine_string text;
        int64_t integer;
        double number;
        int boolean;
        cr_assert(metadata_find(model_metadata(model), entry->key) == entry);
        read_bytes_of(metadata_entry_type(entry), 3);
        if (m.get_string(m.context, entry->key, &text) == ENGINE_OK) read_bytes_of(text.data, text.length);
        if (m.get_integer(m.context, entry->key, &integer) == ENGINE_OK) sum += (uint64_t)integer;
        if (m.get_float(m.context, entry->key, &number) == ENGINE_OK) read_bytes_of(&number, 8);
        if (m.get_boolean(m.context, entry->key, &boolean) == ENGINE_OK) sum += (uint64_t)boolean;
        read_array(&m, entry);
    }
    for (size_t i = 0; i < model_tensor_count(model); i++) {
        const struct model_tensor *tensor = model_tensor_at(model, i);
        cr_assert(model_tensor_find(model, tensor->name) == tensor);
        read_bytes_of(tensor->data, tensor->size);
        model_tensor_release(model, tensor);
    }
}

/* ---- Thousands of copies ---- */

static char path[256];

/* Opens a file that may be anything. True if it opened. */
static bool try(const char *model_path, const char *tokenizer_path, const char *what)
{
    struct model *model = NULL;
    alarm(MAX_SECONDS);
    int status = model_open(model_path, tokenizer_path, &model);
    if (status == ENGINE_OK) {
        read_all(model);
        model_close(model);
    } else {
        const char *message = error_message();
        cr_assert(model == NULL);
        cr_assert((strstr(message, path) || strstr(message, "out of memory")) && !strchr(message, '\n'),
                  "%s: message \"%s\"", what, message);
    }
    alarm(0);
    return status == ENGINE_OK;
}

/* `count` damaged copies of `base` as the model, or, with a sound model at model_path, as its tokenizer. */
static void try_copies(struct base *base, const char *model_path, size_t count)
{
    size_t opened = 0;
    uint64_t state = SEED;
    snprintf(path, sizeof path, "%s/hostile-%s", TEST_BINARY_DIR, base->name);
    cr_assert(write_bytes(path, base->bytes, base->size));
    cr_assert(model_path ? try(model_path, path, "sound") : try(path, NULL, "sound"), "%s", error_message());
    for (size_t i = 0; i < count; i++) {
        struct damaged copy = make_damaged(base, &state);
        cr_assert(write_bytes(path, copy.bytes, copy.size));
        opened += model_path ? try(model_path, path, copy.what) : try(path, NULL, copy.what);
        free(copy.bytes);
    }
    unlink(path);
    cr_assert(opened < count, "no copy of %s was refused", base->name);
    base_destroy(base);
}

Test(hostile, gguf_3)
{
    try_copies(sound_gguf("f32.gguf", 3, ENGINE_TYPE_F32), NULL, N_SMALL);
}

Test(hostile, gguf_2)
{
    try_copies(sound_gguf("q8_0.gguf", 2, ENGINE_TYPE_Q8_0), NULL, N_SMALL);
}

Test(hostile, gguf_quantised)
{
    try_copies(sound_gguf("q4_0.gguf", 3, ENGINE_TYPE_Q4_0), NULL, N_SMALL);
}

Test(hostile, llama2c_0)
{
    try_copies(sound_llama2c("version-0.bin", 0, 0), NULL, N_SMALL);
}

Test(hostile, llama2c_1)
{
    try_copies(sound_llama2c("version-1.bin", 1, 0), NULL, N_SMALL);
}

Test(hostile, llama2c_2)
{
    try_copies(sound_llama2c("version-2.bin", 2, 32), NULL, N_SMALL);
}

Test(hostile, tokenizer)
{
    char model_path[256];
    struct base *model = sound_llama2c("", 0, 0);
    snprintf(model_path, sizeof model_path, "%s/hostile-model.bin", TEST_BINARY_DIR);
    cr_assert(write_bytes(model_path, model->bytes, model->size));
    try_copies(sound_tokenizer("tokenizer.bin"), model_path, N_SMALL);
    unlink(model_path);
    base_destroy(model);
}

/* ---- Files from elsewhere ---- */

#define MODELS TEST_SHARED_DIR "/models/"

static uint8_t *read_shared(const char *shared_path, size_t *size)
{
    if (access(shared_path, R_OK) != 0) cr_skip_test("no %s", shared_path);
    return (uint8_t *)files_read(shared_path, size);
}

Test(hostile, shared_gguf)
{
    size_t size;
    uint8_t *bytes = read_shared(MODELS "stories260K-f32.gguf", &size);
    try_copies(base_gguf("stories.gguf", bytes, size), NULL, N_SHARED);
}

Test(hostile, shared_llama2c)
{
    size_t size;
    uint8_t *bytes = read_shared(MODELS "stories260K.bin", &size);
    try_copies(base_llama2c("stories.bin", bytes, size), NULL, N_SHARED);
    bytes = read_shared(MODELS "stories260K-q8.bin", &size);
    try_copies(base_llama2c("stories-q8.bin", bytes, size), NULL, N_SHARED);
}

Test(hostile, shared_tokenizer)
{
    size_t size;
    uint8_t *bytes = read_shared(MODELS "tok512.bin", &size);
    try_copies(base_tokenizer("tok512.bin", bytes, size), MODELS "stories260K.bin", N_SHARED);
}

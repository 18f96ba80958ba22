/* fuzz-model.c: fuzzing target: models. Input: a model written down as lines (model-recipe.h). It is opened,
 * planned, loaded and run for a few tokens on the CPU, or refused with a reason. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "engine.h"
#include "model-recipe.h"
#include "tokenizers.h"

#define MAX_VOCAB 65536

static void log_nothing(void *user, enum engine_log_level level, const char *line)
{
    (void)user, (void)level, (void)line;
}

static struct engine *the_engine(void)
{
    static struct engine *engine;
    const struct engine_options options = {
        .struct_size = sizeof options,
        .plugin_dirs = (const char *const[]){TEST_PLUGIN_DIR, NULL},
        .config_file = TEST_SOURCE_DIR "/../conf/engine.conf",
        .log = log_nothing,
    };
    if (!engine && engine_open(&options, &engine)) fuzz_fail("no engine");
    return engine;
}

/* Runs a few tokens, first as a batch, then one. */
static int decode(struct engine_context *context)
{
    struct engine_context_info info = {.struct_size = sizeof info};
    const int32_t tokens[] = {0, 0, 0, 0, 0};
    struct engine_batch batch = {.struct_size = sizeof batch, .tokens = tokens, .n_tokens = 5};
    engine_context_get_info(context, &info);
    if (info.n_vocab > MAX_VOCAB || info.n_embd > MAX_VOCAB) return ENGINE_OK;
    float *logits = info.is_encoder ? NULL : calloc(info.n_vocab, sizeof *logits);
    float *states = calloc(5, info.n_embd * sizeof *states);
    if ((!logits && !info.is_encoder) || !states) abort();
    if (info.is_encoder) batch.states = states;
    int status = info.has_source ? engine_encode(context, &batch) : ENGINE_OK;
    if (!status) status = engine_decode(context, &batch, logits);
    batch.n_tokens = 1;
    if (!status) status = engine_decode(context, &batch, logits);
    free(logits);
    free(states);
    return status;
}

static int run(const char *path)
{
    const struct engine_context_options options = {
        .struct_size = sizeof options, .n_context = 16, .n_batch = 8, .n_threads = 1, .backends = "cpu"};
    struct engine_model *model = NULL;
    struct engine_context *context = NULL;
    int status = engine_model_open(the_engine(), path, NULL, &model);
    if (!status) status = engine_context_create(model, &options, &context);
    if (!status) status = decode(context);
    engine_context_destroy(context);
    engine_model_close(model);
    return status;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char path[64];
    size_t length;
    uint8_t *bytes = model_recipe_gguf((const char *)data, size, &length);
    int file = memfd_create("model", MFD_CLOEXEC);
    if (file < 0 || write(file, bytes, length) != (ssize_t)length) fuzz_fail("no file");
    free(bytes);
    snprintf(path, sizeof path, "/proc/self/fd/%d", file);
    if (run(path) != ENGINE_OK && (!*engine_error_message() || strchr(engine_error_message(), '\n')))
        fuzz_fail("a refusal without a reason");
    close(file);
    return 0;
}

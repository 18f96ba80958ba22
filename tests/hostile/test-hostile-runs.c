/* test-hostile-runs.c: damaged models that still open go all the way through the public library: tokenizer,
 * plan, weights, a few tokens, quantising. Each copy fails with a message or runs; none may crash or hang.
 * What is damaged, and with which seed, is as in test-hostile-files.c. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "bare-engine.h"
#include "engine.h"
#include "files.h"
#include "program.h"
#include "sound.h"

#define SEED        20240607u
#define N_COPIES    720 /* of each of seven files */
#define N_SHARED    60  /* of each larger file in ../shared */
#define N_PROGRAM   40  /* of each file that the program is tried with */
#define N_PREDICT   3
#define N_CONTEXT   16
#define MAX_SECONDS 600 /* for one copy; it takes milliseconds */

static char *folder;
static struct engine *engine;
static int n_ran, n_refused;

static void begin(void)
{
    folder = files_folder();
    engine = bare_engine(folder, TEST_PLUGIN_DIR);
}

static void end(void)
{
    engine_close(engine);
    files_remove(folder);
    free(folder);
}

TestSuite(hostile_runs, .init = begin, .fini = end);

/* ---- One model, all the way ---- */

struct ids {
    int32_t ids[N_CONTEXT];
    size_t count;
};

static int keep_ids(void *user, const int32_t *ids, size_t count)
{
    struct ids *kept = user;
    for (size_t i = 0; i < count && kept->count < N_CONTEXT - N_PREDICT; i++)
        kept->ids[kept->count++] = ids[i];
    return 0;
}

/* Text to tokens and back. */
static int tokenize(struct engine_model *model, struct ids *ids)
{
    const char *text = "The hen in<s>\n\xff tin \xc3\xa9";
    const struct engine_tokenizer_api *api;
    struct engine_tokenizer *tokenizer;
    struct engine_decoder *decoder;
    struct engine_string piece;
    int status = engine_model_tokenizer(model, &api, &tokenizer);
    if (status) return status;
    status = api->encode(tokenizer, text, strlen(text), ENGINE_ENCODE_BOS_EOS | ENGINE_ENCODE_SPECIAL,
                         keep_ids, ids);
    if (status) return status;
    status = api->decoder_create(tokenizer, 1, &decoder);
    for (size_t i = 0; i < ids->count && !status; i++) status = api->decode(decoder, ids->ids[i], &piece);
    if (!status) status = api->decode_end(decoder, &piece);
    api->decoder_destroy(decoder);
    return status;
}

/* Runs `ids` and some tokens more. */
static int generate(struct engine_context *context, struct ids *ids)
{
    struct engine_context_info info = {.struct_size = sizeof info};
    const struct engine_sampler_options options = {
        .struct_size = sizeof options, .temperature = 0.8f, .top_k = 5, .top_p = 0.9f, .seed = 1};
    struct engine_sampler *sampler = NULL;
    engine_context_get_info(context, &info);
    float *logits = calloc(info.n_vocab, sizeof *logits);
    cr_assert(logits);
    int status = engine_sampler_create(&options, info.n_vocab, &sampler);
    struct engine_batch batch = {.struct_size = sizeof batch, .tokens = ids->ids, .n_tokens = ids->count};
    for (int i = 0; i < N_PREDICT && !status; i++) {
        status = engine_decode(context, &batch, logits);
        if (!status) status = engine_sample(sampler, logits, &ids->ids[0]);
        batch.n_tokens = 1;
    }
    engine_sampler_destroy(sampler);
    free(logits);
    return status;
}

/* True if `status` is ENGINE_OK; else there must be a message for it. */
static bool good(int status, const char *what)
{
    const char *message = engine_error_message();
    if (status != ENGINE_OK)
        cr_assert(message[0] && !strchr(message, '\n'), "%s: status %d, message \"%s\"", what, status,
                  message);
    return status == ENGINE_OK;
}

static int write_to(void *user, const void *data, size_t size)
{
    return fwrite(data, 1, size, user) == size ? ENGINE_OK : ENGINE_ERROR;
}

/* What is written of a model that opens, opens as well. */
static void quantize(struct engine_model *model, const char *what)
{
    static const char *const types[] = {"F16", "Q8_0", "Q4_K_M", "IQ4_XS", "Q2_K", "F32"};
    char path[256];
    snprintf(path, sizeof path, "%s/quantised.gguf", folder);
    FILE *file = fopen(path, "wb");
    struct engine_model *written;
    const struct engine_quantize_options options = {
        .struct_size = sizeof options,
        .type = types[(n_ran + n_refused) % 6],
        .n_threads = 1,
        .write = write_to,
        .user = file,
    };
    cr_assert(file);
    bool whole = good(engine_model_quantize(model, &options), what);
    fclose(file);
    if (!whole) return;
    cr_assert_eq(engine_model_open(engine, path, NULL, &written), ENGINE_OK, "%s: %s", what,
                 engine_error_message());
    engine_model_close(written);
}

/* True if all of it works. `what` says what was done to the files. */
static bool run(const char *model_path, const char *tokenizer_path, const char *what)
{
    struct engine_model *model = NULL;
    struct engine_context *context = NULL;
    struct ids ids = {.count = 0}, some = {{3, 4, 5}, 3};
    const struct engine_context_options options = {
        .struct_size = sizeof options,
        .n_context = N_CONTEXT,
        .n_batch = 8,
        .n_threads = n_ran % 8 == 0 ? 2 : 1, /* more of them makes only more of the same */
        .backends = "cpu",
    };
    if (!good(engine_model_open(engine, model_path, tokenizer_path, &model), what)) return false;
    quantize(model, what);
    bool tokenized = good(tokenize(model, &ids), what) && ids.count > 0; /* a model may run without */
    bool ran = good(engine_context_create(model, &options, &context), what) &&
               good(generate(context, tokenized ? &ids : &some), what);
    engine_context_destroy(context);
    engine_model_close(model);
    return tokenized && ran;
}

/* ---- Many copies ---- */

static bool try(const char *model_path, const char *tokenizer_path, const char *what)
{
    alarm(MAX_SECONDS);
    bool ran = run(model_path, tokenizer_path, what);
    alarm(0);
    return ran;
}

/* Copies of `base` as the model, beside a sound tokenizer file or none; or, with a sound model, as its
 * tokenizer file. The copy in work stays behind if the test fails. */
static void try_copies(struct base *base, size_t count, const char *model_path, const char *tokenizer_path)
{
    char path[256];
    uint64_t state = SEED;
    snprintf(path, sizeof path, "%s/hostile-run-%s", TEST_BINARY_DIR, base->name);
    if (model_path)
        tokenizer_path = path;
    else
        model_path = path;
    files_write(path, base->bytes, base->size);
    cr_assert(try(model_path, tokenizer_path, "sound"), "%s", engine_error_message());
    for (size_t i = 0; i < count; i++) {
        struct damaged copy = make_damaged(base, &state);
        files_write(path, copy.bytes, copy.size);
        *(try(model_path, tokenizer_path, copy.what) ? &n_ran : &n_refused) += 1;
        free(copy.bytes);
    }
    unlink(path);
    base_destroy(base);
    cr_assert(n_ran > 0 && n_refused > 0, "%d ran, %d were refused", n_ran, n_refused);
}

/* Writes a sound file into the test's folder; the caller frees the name. */
static char *write_sound(struct base *base)
{
    char *path = strdup(files_path(folder, base->name));
    cr_assert(path);
    files_write(path, base->bytes, base->size);
    base_destroy(base);
    return path;
}

Test(hostile_runs, gguf_3)
{
    try_copies(sound_gguf("f32.gguf", 3, ENGINE_TYPE_F32), N_COPIES, NULL, NULL);
}

Test(hostile_runs, gguf_2)
{
    try_copies(sound_gguf("q8_0.gguf", 2, ENGINE_TYPE_Q8_0), N_COPIES, NULL, NULL);
}

Test(hostile_runs, gguf_quantised)
{
    try_copies(sound_gguf("q4_0.gguf", 3, ENGINE_TYPE_Q4_0), N_COPIES, NULL, NULL);
}

Test(hostile_runs, llama2c)
{
    char *tokenizer_path = write_sound(sound_tokenizer("tokenizer.bin"));
    try_copies(sound_llama2c("version-0.bin", 0, 0), N_COPIES, NULL, tokenizer_path);
    try_copies(sound_llama2c("version-1.bin", 1, 0), N_COPIES, NULL, tokenizer_path);
    try_copies(sound_llama2c("version-2.bin", 2, 32), N_COPIES, NULL, tokenizer_path);
    free(tokenizer_path);
}

Test(hostile_runs, tokenizer)
{
    char *model_path = write_sound(sound_llama2c("model.bin", 0, 0));
    try_copies(sound_tokenizer("tokenizer.bin"), N_COPIES, model_path, NULL);
    free(model_path);
}

/* ---- Files from elsewhere ---- */

#define MODELS TEST_SHARED_DIR "/models/"

static struct base *shared(struct base *(*make)(const char *, uint8_t *, size_t), const char *name)
{
    char path[512];
    size_t size;
    snprintf(path, sizeof path, "%s%s", MODELS, name);
    if (access(path, R_OK) != 0) cr_skip_test("no %s", path);
    uint8_t *bytes = (uint8_t *)files_read(path, &size);
    return make(name, bytes, size);
}

Test(hostile_runs, shared_models)
{
    try_copies(shared(base_gguf, "stories260K-f32.gguf"), N_SHARED, NULL, NULL);
    try_copies(shared(base_llama2c, "stories260K.bin"), N_SHARED, NULL, MODELS "tok512.bin");
    try_copies(shared(base_llama2c, "stories260K-q8.bin"), N_SHARED, NULL, MODELS "tok512.bin");
    try_copies(shared(base_tokenizer, "tok512.bin"), N_SHARED, MODELS "stories260K.bin", NULL);
}

/* ---- The program ---- */

/* It runs, or ends with one line and the exit status 1. */
static void try_program(struct base *base)
{
    char path[256];
    uint64_t state = SEED + 1;
    snprintf(path, sizeof path, "%s/hostile-program-%s", TEST_BINARY_DIR, base->name);
    for (size_t i = 0; i < N_PROGRAM; i++) {
        struct damaged copy = make_damaged(base, &state);
        files_write(path, copy.bytes, copy.size);
        free(copy.bytes);
        struct program_result result =
            PROGRAM("run", "-m", path, "-p", "The hen", "-n", "2", "-t", "1", "--backend", "cpu");
        const char *line_end = strchr(result.err, '\n');
        cr_assert(result.status == 0 || result.status == 1, "%s: status %d, %s", copy.what, result.status,
                  result.err);
        if (result.status == 1)
            cr_assert(strncmp(result.err, "engine: ", 8) == 0 && line_end && line_end[1] == '\0', "%s: %s",
                      copy.what, result.err);
        program_free(&result);
    }
    unlink(path);
    base_destroy(base);
}

Test(hostile_runs, program)
{
    try_program(sound_gguf("f32.gguf", 3, ENGINE_TYPE_F32));
    try_program(sound_llama2c("version-0.bin", 0, 0));
}

/* test-recurrent.c: models with states, alone or beside attention, of ../shared and of tests/fuzz/models:
 * what a sequence goes on with is the same to the bit in one go, token by token, after it was copied, cut
 * back, found again, or saved and loaded; and it takes no more memory. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "engine.h"
#include "families-fixture.h"
#include "files.h"
#include "model-recipe.h"

enum { N_TOKENS = 60, TURN = 23, MAX_VOCAB = 512 };

/* Recipes first: they are there without ../shared. */
static const char *const names[] = {"falcon-h1", "granitehybrid", "lfm2",  "qwen3next",
                                    "rwkv6",     "rwkv7",         "mamba", "mamba2"};
#define N_HYBRIDS 4
#define EACH_MODEL(name)                                                                                     \
    for (const char *const *name = names; name < names + sizeof names / sizeof *names; name++)               \
        if (is_there(*name))

static void begin(void)
{
    families.folder = files_folder();
    families.config_file = strdup(files_path(families.folder, "engine.conf"));
    files_write_text(families.config_file, "");
}

TestSuite(recurrent, .init = begin, .fini = families_end);

/* The path of a model's recipe; NULL: there is none. */
static const char *recipe_of(const char *name)
{
    static char path[300];
    snprintf(path, sizeof path, TEST_SOURCE_DIR "/fuzz/models/%s.txt", name);
    return access(path, R_OK) == 0 ? path : NULL;
}

static bool is_there(const char *name)
{
    return recipe_of(name) || access(family_files(name).model, R_OK) == 0;
}

static int vocab_of(const char *name)
{
    return recipe_of(name) ? 64 : MAX_VOCAB;
}

/* The model's file, made of its recipe if it has one. */
static const char *file_of(const char *name)
{
    static char path[300];
    size_t length, size;
    if (!recipe_of(name)) {
        snprintf(path, sizeof path, "%s", family_files(name).model);
        return path;
    }
    snprintf(path, sizeof path, "%s/model.gguf", families.folder);
    char *text = files_read(recipe_of(name), &length);
    uint8_t *bytes = model_recipe_gguf(text, length, &size);
    files_write(path, bytes, size);
    free(text);
    free(bytes);
    return path;
}

struct running {
    struct engine *engine;
    struct engine_model *model;
    struct engine_context *context;
    int32_t *tokens; /* [N_TOKENS] */
};

static void start(const char *name, const struct engine_context_options *given, struct running *r)
{
    static const char *const dirs[] = {TEST_PLUGIN_DIR, NULL};
    struct engine_options options = {
        .struct_size = sizeof options, .plugin_dirs = dirs, .config_file = families.config_file};
    struct engine_context_options wish = *given;
    wish.struct_size = sizeof wish;
    wish.n_threads = 2;
    wish.backends = "cpu";
    if (!wish.n_context) wish.n_context = 128;
    *r = (struct running){.tokens = calloc(N_TOKENS, sizeof(int32_t))};
    for (int i = 0; i < N_TOKENS; i++) r->tokens[i] = (i * 37 + i * i * 11 + 3) % vocab_of(name);
    int status = engine_open(&options, &r->engine);
    if (!status) status = engine_model_open(r->engine, file_of(name), NULL, &r->model);
    if (!status) status = engine_context_create(r->model, &wish, &r->context);
    cr_assert_eq(status, ENGINE_OK, "%s", engine_error_message());
}

static void stop(struct running *r)
{
    engine_context_destroy(r->context);
    engine_model_close(r->model);
    engine_close(r->engine);
    free(r->tokens);
}

/* Runs a sequence on to `end`, `step` tokens at once; the last token's logits go to `logits`. */
static void run_to(struct running *r, uint32_t sequence, uint32_t end, uint32_t step, float *logits)
{
    int32_t sequences[N_TOKENS];
    for (int i = 0; i < N_TOKENS; i++) sequences[i] = (int32_t)sequence;
    for (uint32_t i; (i = engine_sequence_length(r->context, sequence)) < end;) {
        struct engine_batch batch = {.struct_size = sizeof batch,
                                     .n_tokens = end - i < step ? end - i : step,
                                     .tokens = r->tokens + i,
                                     .sequences = sequences};
        cr_assert_eq(engine_decode(r->context, &batch, logits), ENGINE_OK, "%s", engine_error_message());
    }
}

static void alone(const char *name, float *logits)
{
    struct running r;
    start(name, &(struct engine_context_options){0}, &r);
    run_to(&r, 0, N_TOKENS, N_TOKENS, logits);
    stop(&r);
}

/* Of the first `vocab_of(name)` numbers. */
#define CHECK_SAME(name, logits, expected, what)                                                             \
    cr_expect_arr_eq(logits, expected, (size_t)vocab_of(name) * sizeof *(expected), "%s: %s", name, what)

Test(recurrent, logits_do_not_depend_on_what_happened_to_a_sequence)
{
    static float expected[MAX_VOCAB], logits[MAX_VOCAB];
    EACH_MODEL(name)
    {
        struct running r;
        uint32_t n_found;
        alone(*name, expected);
        start(*name, &(struct engine_context_options){.n_sequences = 3}, &r);
        run_to(&r, 0, N_TOKENS, 1, logits);
        CHECK_SAME(*name, logits, expected, "token by token");

        run_to(&r, 1, TURN, TURN, logits);
        run_to(&r, 1, TURN + 9, 1, logits);
        cr_assert_eq(engine_sequence_copy(r.context, 1, 2, UINT32_MAX), ENGINE_OK);
        cr_assert_eq(engine_sequence_length(r.context, 2), TURN + 9);
        run_to(&r, 2, N_TOKENS, 5, logits);
        CHECK_SAME(*name, logits, expected, "a copy");

        cr_assert_eq(engine_sequence_truncate(r.context, 1, TURN + 4), ENGINE_OK);
        cr_assert_eq(engine_sequence_length(r.context, 1), TURN, "where its prompt ended");
        run_to(&r, 1, N_TOKENS, 7, logits);
        CHECK_SAME(*name, logits, expected, "cut back");

        cr_assert_eq(engine_sequence_truncate(r.context, 2, 0), ENGINE_OK);
        cr_assert_eq(engine_sequence_reuse(r.context, 2, r.tokens, N_TOKENS, &n_found), ENGINE_OK);
        cr_expect(n_found >= TURN && n_found < N_TOKENS, "%s: %u tokens were found", *name, n_found);
        run_to(&r, 2, N_TOKENS, N_TOKENS, logits);
        CHECK_SAME(*name, logits, expected, "a beginning that others have");
        stop(&r);
    }
}

/* Tokens of all sequences in turns, so that those of each have to be brought together. */
Test(recurrent, sequences_in_one_batch_are_independent)
{
    static float expected[MAX_VOCAB], logits[3 * MAX_VOCAB];
    EACH_MODEL(name)
    {
        struct running r;
        int32_t tokens[3 * N_TOKENS], sequences[3 * N_TOKENS];
        uint8_t wanted[3 * N_TOKENS] = {0};
        alone(*name, expected);
        start(*name, &(struct engine_context_options){.n_sequences = 3}, &r);
        for (int i = 0; i < 3 * N_TOKENS; i++) {
            sequences[i] = i % 3;
            tokens[i] = r.tokens[i / 3];
        }
        memset(wanted + 3 * N_TOKENS - 3, 1, 3);
        struct engine_batch batch = {.struct_size = sizeof batch,
                                     .n_tokens = 3 * N_TOKENS,
                                     .tokens = tokens,
                                     .sequences = sequences,
                                     .wanted = wanted};
        cr_assert_eq(engine_decode(r.context, &batch, logits), ENGINE_OK, "%s", engine_error_message());
        for (int s = 0; s < 3; s++) CHECK_SAME(*name, logits + s * vocab_of(*name), expected, "one of three");
        stop(&r);
    }
}

static int write_data(void *user, const void *data, size_t size)
{
    return fwrite(data, 1, size, user) == size ? ENGINE_OK : ENGINE_ERROR;
}

Test(recurrent, saved_sequences_go_on_as_if_nothing_had_happened)
{
    static float expected[MAX_VOCAB], logits[MAX_VOCAB];
    char path[300];
    snprintf(path, sizeof path, "%s/sequence", families.folder);
    EACH_MODEL(name)
    {
        struct running r;
        alone(*name, expected);
        start(*name, &(struct engine_context_options){.n_sequences = 2}, &r);
        run_to(&r, 1, TURN, TURN, logits);
        FILE *file = fopen(path, "wb");
        cr_assert(file && engine_sequence_save(r.context, 1, write_data, file) == ENGINE_OK);
        fclose(file);
        stop(&r);
        start(*name, &(struct engine_context_options){0}, &r);
        cr_assert_eq(engine_sequence_load(r.context, 0, path), ENGINE_OK, "%s", engine_error_message());
        cr_assert_eq(engine_sequence_length(r.context, 0), TURN);
        run_to(&r, 0, N_TOKENS, N_TOKENS, logits);
        CHECK_SAME(*name, logits, expected, "loaded");
        stop(&r);
        remove(path);
    }
}

/* Only the lists of tokens grow with the context; the caches don't. */
Test(recurrent, memory_does_not_grow_with_the_context)
{
    EACH_MODEL(name)
    {
        if (name < names + N_HYBRIDS) continue; /* their attention has a cache */
        uint64_t bytes[2];
        for (int i = 0; i < 2; i++) {
            struct running r;
            struct engine_plan *plan;
            struct engine_plan_device device;
            const struct engine_context_options options = {
                .struct_size = sizeof options, .n_context = i ? 100000 : 128, .backends = "cpu"};
            start(*name, &(struct engine_context_options){0}, &r);
            cr_assert_eq(engine_plan_create(r.model, &options, &plan), ENGINE_OK, "%s",
                         engine_error_message());
            engine_plan_device_at(plan, 0, &device);
            bytes[i] = device.cache;
            engine_plan_destroy(plan);
            stop(&r);
        }
        cr_expect(bytes[0] > 0 && bytes[0] == bytes[1], "%s: %zu and %zu bytes", *name, (size_t)bytes[0],
                  (size_t)bytes[1]);
    }
}

Test(recurrent, guesses_are_refused)
{
    struct running r;
    struct engine_queue *queue = NULL;
    const struct engine_queue_options options = {.struct_size = sizeof options, .lookup = 1};
    start("lfm2", &(struct engine_context_options){0}, &r);
    cr_expect_eq(engine_queue_create(r.context, &options, &queue), ENGINE_ERROR_UNSUPPORTED);
    cr_expect(strstr(engine_error_message(), "recurrent"), "%s", engine_error_message());
    stop(&r);
}

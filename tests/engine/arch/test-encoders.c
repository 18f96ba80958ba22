/* test-encoders.c: the states of small encoders in ../shared/families against transformers', from GGUF files
 * and from the directories they were converted from; those of data/encoders, made by
 * tools/families/make-encoders, against transformers' or their published formulas, from the directories and
 * from GGUF files made of them. On the CPU, or with TEST_BACKEND on a GPU plugin's device as well, with one
 * and all of the layers there. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "engine.h"
#include "families-fixture.h"

static const char *const names[] = {
    "bert",
    "nomic-bert",
    "modernbert",
#ifndef TEST_BACKEND
    "eurobert",
#endif
};
enum { N_NAMES = sizeof names / sizeof *names };

static const char *const own_names[] = {"gemma-embedding", "jina-bert-v2", "jina-bert-v2-code",
                                        "modern-bert-biases", "nomic-bert-moe"};
enum { N_OWN_NAMES = sizeof own_names / sizeof *own_names };

#define SHARED TEST_SHARED_DIR "/families"
#define NEWER  TEST_SHARED_DIR "/families-2026"
#define OWN    TEST_SOURCE_DIR "/data/encoders"

static char log_text[1024];

TestSuite(encoders, .init = families_begin, .fini = families_end, .timeout = 1200);
TestSuite(own_encoders, .init = families_begin_without_shared, .fini = families_end, .timeout = 1200);

static void keep_warnings(void *user, enum engine_log_level level, const char *line)
{
    (void)user;
    if (level <= ENGINE_LOG_WARNING) snprintf(log_text, sizeof log_text, "%s", line);
}

struct running {
    struct engine *engine;
    struct engine_model *model;
    struct engine_context *context;
    struct engine_context_info info;
};

struct setting {
    const char *backends;
    int32_t offload;
    uint32_t n_batch, n_sequences;
};

static struct running start(const char *path, const struct setting *setting, const char *const *plugin_dirs)
{
    static const char *const ours[] = {TEST_PLUGIN_DIR, NULL};
    struct engine_options options = {.struct_size = sizeof options,
                                     .plugin_dirs = plugin_dirs ? plugin_dirs : ours,
                                     .config_file = families.config_file,
                                     .log = keep_warnings};
    struct engine_context_options wish = {.struct_size = sizeof wish,
                                          .n_batch = setting->n_batch,
                                          .n_sequences = setting->n_sequences,
                                          .n_threads = 2,
                                          .backends = setting->backends,
                                          .offload = &setting->offload};
    struct running r = {.info = {.struct_size = sizeof r.info}};
    log_text[0] = '\0';
    cr_assert_eq(engine_open(&options, &r.engine), ENGINE_OK, "%s", engine_error_message());
    cr_assert_eq(engine_model_open(r.engine, path, NULL, &r.model), ENGINE_OK, "%s", engine_error_message());
    cr_assert_eq(engine_context_create(r.model, &wish, &r.context), ENGINE_OK, "%s", engine_error_message());
    cr_assert_eq(engine_context_get_info(r.context, &r.info), ENGINE_OK);
    cr_assert(r.info.is_encoder);
    return r;
}

static void stop(const struct running *r)
{
    engine_context_destroy(r->context);
    engine_model_close(r->model);
    engine_close(r->engine);
}

/* The folder of ../shared that has a model. */
static const char *set_of(const char *name)
{
    char path[512];
    snprintf(path, sizeof path, SHARED "/%s.tokens.npy", name);
    return access(path, R_OK) == 0 ? SHARED : NEWER;
}

/* The error of the states, relative to their norm, against those in the folder. */
static double error_in(const char *folder, const char *name, const char *path, const struct setting *setting,
                       const char *const *plugin_dirs)
{
    char npy_path[512];
    size_t n_tokens, n;
    snprintf(npy_path, sizeof npy_path, "%s/%s.tokens.npy", folder, name);
    int32_t *tokens = families_read_npy(npy_path, &n_tokens);
    snprintf(npy_path, sizeof npy_path, "%s/%s.hidden.npy", folder, name);
    float *reference = families_read_npy(npy_path, &n), *states = malloc(n * sizeof *states);
    struct running r = start(path, setting, plugin_dirs);
    const struct engine_batch batch = {
        .struct_size = sizeof batch, .n_tokens = n_tokens, .tokens = tokens, .states = states};
    cr_assert_eq(n, n_tokens * r.info.n_embd);
    cr_assert_eq(engine_decode(r.context, &batch, NULL), ENGINE_OK, "%s", engine_error_message());
    double error = families_error(states, reference, n);
    stop(&r);
    free(tokens);
    free(reference);
    free(states);
    return error;
}

static double error_of(const char *name, const char *path, const struct setting *setting,
                       const char *const *plugin_dirs)
{
    return error_in(set_of(name), name, path, setting, plugin_dirs);
}

#ifdef TEST_BACKEND
Test(own_encoders, states_on_any_split_are_those_of_the_formulas)
{
    for (size_t i = 0; i < N_OWN_NAMES; i++)
        for (int32_t offload = 1; offload >= ENGINE_OFFLOAD_ALL; offload -= 3) {
            const struct setting split = {.backends = TEST_BACKEND, .offload = offload};
            char directory[512];
            snprintf(directory, sizeof directory, OWN "/%s", own_names[i]);
            double error = error_in(OWN, own_names[i], directory, &split, NULL);
            cr_expect(error <= 1e-4, "%s, %d layers offloaded: relative error %.2e", own_names[i], offload,
                      error);
        }
}

Test(encoders, states_on_any_split_are_those_of_transformers)
{
    for (size_t i = 0; i < N_NAMES; i++)
        for (int32_t offload = 1; offload >= ENGINE_OFFLOAD_ALL; offload -= 3) {
            const struct setting split = {.backends = TEST_BACKEND, .offload = offload};
            double error = error_of(names[i], family_files(names[i]).model, &split, NULL);
            cr_expect(error <= 1e-4, "%s, %d layers offloaded: relative error %.2e", names[i], offload,
                      error);
        }
}
#else

/* The GGUF file that `engine quantize` would make of a directory; valid until the next one is made. */
static const char *converted(const char *directory)
{
    static const char *const dirs[] = {TEST_PLUGIN_DIR, NULL};
    const struct engine_options options = {
        .struct_size = sizeof options, .plugin_dirs = dirs, .config_file = families.config_file};
    struct engine *engine;
    cr_assert_eq(engine_open(&options, &engine), ENGINE_OK, "%s", engine_error_message());
    families_convert(engine, directory, "F32", 0);
    engine_close(engine);
    return families.model_file;
}

Test(own_encoders, states_are_those_of_the_formulas)
{
    for (size_t i = 0; i < N_OWN_NAMES; i++) {
        const struct setting cpu = {.backends = "cpu"};
        char directory[512];
        snprintf(directory, sizeof directory, OWN "/%s", own_names[i]);
        const char *const paths[] = {directory, converted(directory)};
        for (int k = 0; k < 2; k++) {
            double error = error_in(OWN, own_names[i], paths[k], &cpu, NULL);
            cr_expect(error <= 1e-5, "%s: relative error %.2e", paths[k], error);
            cr_expect_str_empty(log_text, "%s", log_text);
        }
    }
}

Test(encoders, states_are_those_of_transformers)
{
    for (size_t i = 0; i < N_NAMES; i++) {
        const struct setting cpu = {.backends = "cpu"};
        char directory[512];
        snprintf(directory, sizeof directory, "%s/%s", set_of(names[i]), names[i]);
        const struct family_files files = family_files(names[i]);
        const char *const paths[] = {files.model, directory};
        for (int k = 0; k < 2; k++) {
            double error = error_of(names[i], paths[k], &cpu, NULL);
            cr_expect(error <= 1e-5, "%s: relative error %.2e", paths[k], error);
            cr_expect_str_empty(log_text, "%s", log_text);
        }
    }
}

/* Those of which there are no GGUF files but ours. */
Test(encoders, states_of_directories_are_those_of_transformers)
{
    static const struct setting cpu = {.backends = "cpu"};
    const char *const paths[] = {NEWER "/jina-v3", converted(NEWER "/jina-v3")};
    for (int k = 0; k < 2; k++) {
        double error = error_of("jina-v3", paths[k], &cpu, NULL);
        cr_expect(error <= 1e-5, "%s: relative error %.2e", paths[k], error);
        cr_expect_str_empty(log_text, "%s", log_text);
    }
}

/* It knows plain products; all else is the CPU's. */
Test(encoders, a_backend_of_the_first_version_runs_them_split)
{
    static const char *const dirs[] = {TEST_PLUGIN_DIR, TEST_OLD_BACKEND_DIR, NULL};
    for (size_t i = 0; i < N_NAMES; i++) {
        const struct setting split = {.backends = "minimal", .offload = ENGINE_OFFLOAD_ALL};
        double error = error_of(names[i], family_files(names[i]).model, &split, dirs);
        cr_expect(error <= 1e-5, "%s: relative error %.2e", names[i], error);
    }
}

enum { N_TEXTS = 40 };

struct texts {
    int32_t tokens[N_TEXTS * 200], sequences[N_TEXTS * 200];
    size_t first[N_TEXTS + 1];
};

/* Texts of 1 to 200 tokens, each in a sequence of its own. */
static void make_texts(struct texts *texts)
{
    texts->first[0] = 0;
    for (size_t t = 0; t < N_TEXTS; t++) {
        size_t length = t * t * 73 % 200 + 1;
        for (size_t i = 0; i < length; i++) {
            texts->tokens[texts->first[t] + i] = (int32_t)((i * i * 7 + i * (t + 3) + t) % 500);
            texts->sequences[texts->first[t] + i] = (int32_t)t;
        }
        texts->first[t + 1] = texts->first[t] + length;
    }
}

/* To the bit, although the batch is cut between some of the texts. */
Test(encoders, states_do_not_depend_on_the_batch)
{
    static struct texts texts;
    make_texts(&texts);
    for (size_t i = 0; i < N_NAMES; i++) {
        const struct setting setting = {.backends = "cpu", .n_batch = 600, .n_sequences = N_TEXTS};
        struct running r = start(family_files(names[i]).model, &setting, NULL);
        size_t n = texts.first[N_TEXTS] * r.info.n_embd;
        float *together = malloc(n * sizeof *together), *alone = malloc(n * sizeof *alone);
        struct engine_batch batch = {.struct_size = sizeof batch,
                                     .n_tokens = texts.first[N_TEXTS],
                                     .tokens = texts.tokens,
                                     .sequences = texts.sequences,
                                     .states = together};
        cr_assert_eq(engine_decode(r.context, &batch, NULL), ENGINE_OK, "%s", engine_error_message());
        for (size_t t = 0; t < N_TEXTS; t++) {
            struct engine_batch one = {.struct_size = sizeof one,
                                       .n_tokens = texts.first[t + 1] - texts.first[t],
                                       .tokens = texts.tokens + texts.first[t],
                                       .states = alone + texts.first[t] * r.info.n_embd};
            cr_assert_eq(engine_decode(r.context, &one, NULL), ENGINE_OK, "%s", engine_error_message());
        }
        cr_expect_arr_eq(together, alone, n * sizeof *alone, "%s", names[i]);
        free(together);
        free(alone);
        stop(&r);
    }
}

static void expect_refused(const struct running *r, const struct engine_batch *batch, float *logits,
                           const char *why)
{
    cr_expect_neq(engine_decode(r->context, batch, logits), ENGINE_OK);
    cr_expect(strstr(engine_error_message(), why), "%s", engine_error_message());
}

Test(encoders, what_makes_no_sense_is_refused)
{
    const struct setting setting = {.backends = "cpu", .n_sequences = 2};
    struct running r = start(family_files("bert").model, &setting, NULL);
    int32_t tokens[300] = {0}, sequences[] = {0, 1, 0}, types[] = {0, 1, 2};
    float logits[512], states[3 * 64];
    struct engine_batch batch = {
        .struct_size = sizeof batch, .n_tokens = 3, .tokens = tokens, .states = states};
    expect_refused(&r, &batch, logits, "encoder");
    batch.sequences = sequences;
    expect_refused(&r, &batch, NULL, "follow each other");
    batch.sequences = NULL;
    batch.token_types = types;
    expect_refused(&r, &batch, NULL, "type 2");
    batch.token_types = NULL;
    batch.n_tokens = 300;
    expect_refused(&r, &batch, NULL, "more than 256 tokens");
    struct engine_queue_options options = {.struct_size = sizeof options};
    struct engine_queue *queue;
    cr_assert_eq(engine_queue_create(r.context, &options, &queue), ENGINE_OK);
    struct engine_request request = {.struct_size = sizeof request,
                                     .tokens = tokens,
                                     .n_tokens = 3,
                                     .flags = ENGINE_REQUEST_NO_TOKENS | ENGINE_REQUEST_NO_TEXT};
    cr_expect_eq(engine_queue_submit(queue, &request, NULL), ENGINE_ERROR_UNSUPPORTED);
    cr_expect(strstr(engine_error_message(), "encoder"), "%s", engine_error_message());
    engine_queue_destroy(queue);
    stop(&r);
}
#endif

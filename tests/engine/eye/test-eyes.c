/* test-eyes.c: pictures as transformers sees them: every family of ../shared/pictures that has an eye, its
 * features and logits within 1e-4 of the recorded ones, on the CPU with a cache in float32. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "engine.h"
#include "families-fixture.h"
#include "files.h"

#define PICTURES TEST_SHARED_DIR "/pictures/"
#define LIMIT    1e-4

static void begin(void)
{
    if (access(PICTURES "README.md", R_OK) != 0) cr_skip_test("no ../shared/pictures here");
    families_begin_without_shared();
}

/* A family, open, with its picture, and the prompt with the picture's rows. */
struct seen {
    struct engine *engine;
    struct engine_model *model;
    struct engine_eye *eye;
    struct engine_context *context;
    struct engine_picture *picture;
    struct engine_picture_info info;
    int32_t *tokens, *expanded; /* [n]: with rows, and as the processor gives them */
    size_t n;
};

static const char *path_of(const char *name, const char *end)
{
    static char path[512];
    snprintf(path, sizeof path, PICTURES "%s%s", name, end);
    return path;
}

/* Reads the picture of a family. */
static struct engine_picture *open_picture(struct engine_eye *eye, const char *name)
{
    struct engine_picture *picture = NULL;
    size_t size;
    char *file = files_read(path_of(name, ".png"), &size);
    const struct engine_picture_source source = {.struct_size = sizeof source, .bytes = file, .size = size};
    cr_assert_eq(engine_picture_create(eye, &source, &picture), ENGINE_OK, "%s: %s", name,
                 engine_error_message());
    free(file);
    return picture;
}

static struct seen open_family(const char *name, const char *model, const char *eye, uint32_t n_batch)
{
    struct seen s = {.info.struct_size = sizeof s.info};
    const char *dirs[] = {TEST_PLUGIN_DIR, NULL};
    const struct engine_options options = {
        .struct_size = sizeof options, .plugin_dirs = dirs, .config_file = families.config_file};
    cr_assert_eq(engine_open(&options, &s.engine), ENGINE_OK, "%s", engine_error_message());
    cr_assert_eq(engine_model_open(s.engine, model, NULL, &s.model), ENGINE_OK, "%s", engine_error_message());
    cr_assert_eq(engine_eye_create(s.model, eye, NULL, &s.eye), ENGINE_OK, "%s", engine_error_message());
    const struct engine_context_options wish = {.struct_size = sizeof wish,
                                                .n_context = 256,
                                                .n_batch = n_batch,
                                                .n_sequences = 2,
                                                .cache_type = "f32"};
    cr_assert_eq(engine_context_create(s.model, &wish, &s.context), ENGINE_OK, "%s", engine_error_message());
    s.picture = open_picture(s.eye, name);
    cr_assert_eq(engine_picture_get_info(s.picture, &s.info), ENGINE_OK);
    s.expanded = families_read_npy(path_of(name, ".expanded.npy"), &s.n);
    s.tokens = malloc(s.n * sizeof *s.tokens);
    memcpy(s.tokens, s.expanded, s.n * sizeof *s.tokens);
    const struct engine_picture *pictures[] = {s.picture};
    cr_assert_eq(engine_pictures_fill(s.eye, pictures, 1, s.tokens, s.n), ENGINE_OK, "%s",
                 engine_error_message());
    return s;
}

static void close_family(struct seen *s)
{
    free(s->tokens);
    free(s->expanded);
    engine_picture_destroy(s->picture);
    engine_context_destroy(s->context);
    engine_eye_destroy(s->eye);
    engine_model_close(s->model);
    engine_close(s->engine);
}

/* The logits of all tokens, in batches of at most `most`. */
static float *all_logits(const struct seen *s, uint32_t sequence, size_t first, size_t most, size_t n_vocab)
{
    float *logits = malloc(s->n * n_vocab * sizeof *logits);
    uint8_t *wanted = malloc(s->n);
    int32_t *sequences = malloc(s->n * sizeof *sequences);
    memset(wanted, 1, s->n);
    for (size_t i = 0; i < s->n; i++) sequences[i] = (int32_t)sequence;
    for (size_t n; first < s->n; first += n) {
        n = engine_batch_length(s->context, s->tokens + first, s->n - first, most);
        const struct engine_batch batch = {.struct_size = sizeof batch,
                                           .n_tokens = n,
                                           .tokens = s->tokens + first,
                                           .sequences = sequences,
                                           .wanted = wanted};
        cr_assert_eq(engine_decode(s->context, &batch, logits + first * n_vocab), ENGINE_OK, "%s",
                     engine_error_message());
    }
    free(wanted);
    free(sequences);
    return logits;
}

struct ids {
    int32_t ids[512];
    size_t n;
};

static int keep_ids(void *user, const int32_t *ids, size_t count)
{
    struct ids *list = user;
    for (size_t i = 0; i < count && list->n < 512; i++) list->ids[list->n++] = ids[i];
    return 0;
}

/* A prompt whose mark is replaced with the picture's text has the processor's tokens. */
static void check_text(const struct seen *s, const char *name)
{
    const struct engine_tokenizer_api *api;
    struct engine_tokenizer *tokenizer;
    struct engine_eye_info info = {.struct_size = sizeof info};
    struct ids list = {.n = 0};
    size_t size;
    char *text = files_read(path_of(name, ".txt"), &size), whole[8192];
    engine_eye_get_info(s->eye, &info);
    const char *mark = strstr(text, info.mark);
    cr_assert(mark, "%s: no %s", name, info.mark);
    int length = snprintf(whole, sizeof whole, "%.*s%s%s", (int)(mark - text), text, s->info.text,
                          mark + strlen(info.mark));
    free(text);
    cr_assert_eq(engine_model_tokenizer(s->model, &api, &tokenizer), ENGINE_OK, "%s", engine_error_message());
    cr_assert_eq(api->encode(tokenizer, whole, (size_t)length, ENGINE_ENCODE_SPECIAL, keep_ids, &list), 0);
    cr_assert_eq(list.n, s->n, "%s: %zu tokens, %zu expected", name, list.n, s->n);
    cr_assert_arr_eq(list.ids, s->expanded, s->n * sizeof *list.ids, "%s: other tokens", name);
}

static void check_family(const char *name, const char *model, const char *eye)
{
    size_t n_features, n_logits;
    struct seen s = open_family(name, model, eye, 512);
    float *features = families_read_npy(path_of(name, ".features.npy"), &n_features);
    float *reference = families_read_npy(path_of(name, ".logits.npy"), &n_logits);
    cr_assert_geq((size_t)s.info.n_rows * s.info.n_embd, n_features, "%s: %u rows", name, s.info.n_rows);
    const size_t width = n_features / s.info.n_rows, n_vocab = n_logits / s.n;
    for (uint32_t row = 0; row < s.info.n_rows; row++) {
        double error =
            families_error(s.info.rows + (size_t)row * s.info.n_embd, features + row * width, width);
        cr_assert_lt(error, LIMIT, "%s: features of row %u: %g", name, row, error);
    }
    float *logits = all_logits(&s, 0, 0, 512, n_vocab);
    double error = families_error(logits, reference, n_logits);
    cr_assert_lt(error, LIMIT, "%s: logits: %g", name, error);

    /* The same picture is the same rows, and the prefix is found by them. */
    struct engine_picture *again = open_picture(s.eye, name);
    struct engine_picture_info info = {.struct_size = sizeof info};
    engine_picture_get_info(again, &info);
    cr_assert_eq(info.rows, s.info.rows, "%s: encoded twice", name);
    engine_picture_destroy(again);
    uint32_t found;
    cr_assert_eq(engine_sequence_reuse(s.context, 1, s.tokens, s.n, &found), ENGINE_OK);
    /* Only whole blocks are found again, and a state only at its end. */
    if (strcmp(name, "gemma3") != 0 && strcmp(name, "qwen3.5-vl") != 0)
        cr_assert_gt(found, 0, "%s: the prefix was not found", name);

    /* In small batches, from what was found on. */
    float *parts = all_logits(&s, 1, found, 7, n_vocab);
    size_t rest = (s.n - found) * n_vocab;
    error = families_error(parts + found * n_vocab, reference + found * n_vocab, rest);
    cr_assert_lt(error, LIMIT, "%s: logits in parts: %g", name, error);
    check_text(&s, name);
    free(parts);
    free(logits);
    free(features);
    free(reference);
    close_family(&s);
}

TestSuite(eyes, .init = begin, .fini = families_end);

Test(eyes, directories)
{
    static const char *const names[] = {"gemma3",   "idefics3", "internvl",
                                        "mistral3", "qwen3-vl", "qwen3.5-vl"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        char model[256];
        snprintf(model, sizeof model, PICTURES "%s", names[i]);
        check_family(names[i], model, NULL);
    }
}

/* ---- Thin pictures, and files that are wrong ----------------------------------------------------------- */

/* Sides are whole blocks of patches: a thin picture has more of these than the budget of pixels has. */
Test(eyes, thin)
{
    static const struct {
        uint32_t width, height, n_rows;
    } cases[] = {{960, 32, 26}, {32, 960, 26}, {200, 1, 29}, {1, 200, 29}, {6400, 32, 69}, {1, 1, 4}};
    static uint8_t pixels[6400 * 32 * 3];
    struct seen s = open_family("qwen3-vl", PICTURES "qwen3-vl", NULL, 512);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const struct engine_picture_source source = {.struct_size = sizeof source,
                                                     .pixels = pixels,
                                                     .width = cases[i].width,
                                                     .height = cases[i].height};
        struct engine_picture *picture = NULL;
        struct engine_picture_info info = {.struct_size = sizeof info};
        cr_assert_eq(engine_picture_create(s.eye, &source, &picture), ENGINE_OK, "%u x %u: %s",
                     cases[i].width, cases[i].height, engine_error_message());
        cr_assert_eq(engine_picture_get_info(picture, &info), ENGINE_OK);
        cr_expect_eq(info.n_rows, cases[i].n_rows, "%u x %u: %u rows", cases[i].width, cases[i].height,
                     info.n_rows);
        engine_picture_destroy(picture);
    }
    close_family(&s);
}

/* A family's directory with something else in one of its files. */
static char *changed_family(const char *name, const char *file, const char *from, const char *to)
{
    static const char *const names[] = {"config.json",    "generation_config.json", "model.safetensors",
                                        "tokenizer.json", "tokenizer_config.json",  "processor_config.json"};
    char *folder = files_folder(), source[512];
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        snprintf(source, sizeof source, PICTURES "%s/%s", name, names[i]);
        if (strcmp(names[i], file) != 0) {
            if (access(source, R_OK) == 0)
                cr_assert_eq(symlink(source, files_path(folder, names[i])), 0, "%s", source);
            continue;
        }
        size_t size;
        char *text = files_read(source, &size), *at = strstr(text, from), *whole;
        cr_assert(at, "%s: no %s", source, from);
        cr_assert_geq(asprintf(&whole, "%.*s%s%s", (int)(at - text), text, to, at + strlen(from)), 0);
        files_write_text(files_path(folder, file), whole);
        free(whole);
        free(text);
    }
    return folder;
}

/* None of these numbers is computed with. */
Test(eyes, refused)
{
    static const struct {
        const char *name, *file, *from, *to, *reason;
    } cases[] = {
        {"mistral3", "config.json", "\"spatial_merge_size\": 2", "\"spatial_merge_size\": 0",
         "cannot be merged"},
        {"mistral3", "config.json", "\"spatial_merge_size\": 2", "\"spatial_merge_size\": 268435456",
         "cannot be merged"},
        {"mistral3", "processor_config.json", "\"resample\": 3", "\"resample\": 9", "is not supported"},
        {"mistral3", "processor_config.json",
         "\"longest_edge\":", "\"longest_edge\": 20000, \"was\":", "patches a side"},
        {"idefics3", "config.json", "\"scale_factor\": 2", "\"scale_factor\": 0", "are not whole blocks"},
        {"qwen3-vl", "processor_config.json", "\"longest_edge\": 24576", "\"longest_edge\": 4095",
         "at least 4096 pixels"},
        {"qwen3-vl", "processor_config.json", "\"resample\": 3", "\"resample\": 9", "is not supported"},
    };
    const char *dirs[] = {TEST_PLUGIN_DIR, NULL};
    struct engine *engine;
    const struct engine_options options = {
        .struct_size = sizeof options, .plugin_dirs = dirs, .config_file = families.config_file};
    cr_assert_eq(engine_open(&options, &engine), ENGINE_OK, "%s", engine_error_message());
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct engine_model *model;
        struct engine_eye *eye = NULL;
        char *folder = changed_family(cases[i].name, cases[i].file, cases[i].from, cases[i].to);
        cr_assert_eq(engine_model_open(engine, folder, NULL, &model), ENGINE_OK, "%s",
                     engine_error_message());
        cr_expect_neq(engine_eye_create(model, NULL, NULL, &eye), ENGINE_OK, "%zu", i);
        cr_expect(strstr(engine_error_message(), cases[i].reason), "%zu: %s", i, engine_error_message());
        engine_eye_destroy(eye);
        engine_model_close(model);
        files_remove(folder);
        free(folder);
    }
    engine_close(engine);
}

/* ---- What is opened and closed in another order -------------------------------------------------------- */

Test(eyes, order)
{
    struct seen s = open_family("gemma3", PICTURES "gemma3", NULL, 512);
    /* A picture is first, and its end is missing. */
    size_t first = 0, end, n;
    while (s.tokens[first] >= 0) first++;
    for (end = first; s.tokens[end] < 0;) end++;
    cr_expect_eq(engine_batch_length(s.context, s.tokens + first, end - first - 1, 2), end - first - 1);
    cr_expect_eq(engine_batch_length(s.context, s.tokens + first, end - first + 1, 2), end - first);

    /* A context that is older than the eye takes no pictures. */
    struct engine_model *model;
    struct engine_context *context;
    struct engine_eye *eye;
    const struct engine_context_options wish = {.struct_size = sizeof wish, .n_context = 256};
    cr_assert_eq(engine_model_open(s.engine, PICTURES "qwen3-vl", NULL, &model), ENGINE_OK);
    cr_assert_eq(engine_context_create(model, &wish, &context), ENGINE_OK, "%s", engine_error_message());
    cr_assert_eq(engine_eye_create(model, NULL, NULL, &eye), ENGINE_OK, "%s", engine_error_message());
    struct engine_picture *picture = open_picture(eye, "qwen3-vl");
    int32_t *tokens = families_read_npy(path_of("qwen3-vl", ".expanded.npy"), &n);
    const struct engine_picture *pictures[] = {s.picture};
    cr_expect_eq(engine_pictures_fill(eye, pictures, 1, tokens, n), ENGINE_ERROR_ARGUMENT);
    cr_expect(strstr(engine_error_message(), "another model"), "%s", engine_error_message());
    pictures[0] = picture;
    cr_assert_eq(engine_pictures_fill(eye, pictures, 1, tokens, n), ENGINE_OK, "%s", engine_error_message());
    const struct engine_batch batch = {.struct_size = sizeof batch, .n_tokens = n, .tokens = tokens};
    cr_expect_eq(engine_decode(context, &batch, NULL), ENGINE_ERROR_ARGUMENT);
    cr_expect(strstr(engine_error_message(), "no eye when the context was created"), "%s",
              engine_error_message());
    free(tokens);

    /* The picture outlives its eye, and a model closes its own. */
    engine_context_destroy(context);
    engine_eye_destroy(eye);
    engine_picture_destroy(picture);
    engine_model_close(model);
    engine_picture_destroy(s.picture);
    engine_context_destroy(s.context);
    s.picture = NULL;
    s.context = NULL;
    s.eye = NULL;
    close_family(&s);
}

/* test-attention-families.c: the attention weights and hidden states that a context hands out, on small models in
 * ../shared/families, against those of transformers (data/attention, recorded by tools/attention/record). On the CPU
 * and, with TEST_BACKEND, on a GPU plugin's device; also on a backend of the border's first version, which leaves
 * attention to the CPU. */
#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "engine.h"
#include "files.h"
#ifdef TEST_BACKEND
#include "gpu-device.h"
#endif

#define FAMILIES TEST_SHARED_DIR "/families/"

/* Sinks in gptoss, ALiBi in bloom, latent attention in deepseek3, windows in cohere2, phi3 and gptoss, parallel layers
 * in falcon7. */
static const char *const names[] = {"llama",   "gpt2",     "bloom",   "gptoss", "deepseek3",
                                    "falcon7", "qwen3moe", "cohere2", "olmo2",  "phi3"};
enum { N_NAMES = sizeof names / sizeof *names, N_TOKENS = 16, N_VALUES = 65536 };

static char *folder;
static const char *config_file, *converted_file;

static void setup(void)
{
    if (access(FAMILIES "facts.md", R_OK) != 0) cr_skip_test("no ../shared here");
#ifdef TEST_BACKEND
    gpu_skip_without_device();
#endif
    folder = files_folder();
    config_file = files_path(folder, "engine.conf");
    converted_file = files_path(folder, "converted.gguf");
    files_write_text(config_file, "");
}

static void finish(void)
{
    if (!folder) return;
    files_remove(folder);
    free(folder);
}

TestSuite(attention_families, .init = setup, .fini = finish);

/* The elements, of four bytes, of an .npy file, in new memory. */
static void *read_npy(const char *where, const char *name, const char *what, size_t *count)
{
    char path[512];
    size_t size;
    snprintf(path, sizeof path, "%s%s.%s.npy", where, name, what);
    char *file = files_read(path, &size);
    size_t header = 10u + (unsigned char)file[8] + 256u * (unsigned char)file[9];
    *count = (size - header) / 4;
    void *data = malloc(size - header);
    memcpy(data, file + header, size - header);
    free(file);
    return data;
}

/* What was handed out, laid out as in the recorded files. */
struct seen {
    float attention[N_VALUES], hidden[N_VALUES];
    size_t n_attention, n_hidden;
};

static int keep(void *user, const struct engine_watched *value)
{
    struct seen *seen = user;
    if (value->kind == ENGINE_WATCH_HIDDEN) {
        size_t n = value->ne[0], at = (value->layer * N_TOKENS + value->first) * n;
        memcpy(seen->hidden + at, value->data, n * value->ne[1] * sizeof(float));
        seen->n_hidden += n * value->ne[1];
        return 0;
    }
    size_t n_keys = value->ne[0], n_heads = value->ne[1];
    for (size_t t = 0; t < value->ne[2]; t++)
        for (size_t head = 0; head < n_heads; head++) {
            const float *row = value->data + (t * n_heads + head) * n_keys;
            size_t query = value->first + t, shown = n_keys < N_TOKENS ? n_keys : N_TOKENS;
            memcpy(seen->attention + ((value->layer * n_heads + head) * N_TOKENS + query) * N_TOKENS, row,
                   shown * sizeof *row);
            seen->n_attention += N_TOKENS;
            for (size_t j = query + 1; j < n_keys; j++) cr_assert_eq(row[j], 0, "a later token has a weight");
        }
    return 0;
}

static int keep_bytes(void *user, const void *data, size_t size)
{
    return fwrite(data, 1, size, user) == size ? 0 : 1;
}

/* The weights of the model in float32, so that activations aren't rounded to their type. */
static void convert(struct engine *engine, const char *name)
{
    char path[256];
    struct engine_model *model;
    FILE *file = fopen(converted_file, "wb");
    const struct engine_quantize_options wish = {
        .struct_size = sizeof wish, .type = "F32", .pure = 1, .write = keep_bytes, .user = file};
    snprintf(path, sizeof path, FAMILIES "gguf/%s.gguf", name);
    cr_assert_eq(engine_model_open(engine, path, NULL, &model), ENGINE_OK, "%s", engine_error_message());
    cr_assert_eq(engine_model_quantize(model, &wish), ENGINE_OK, "%s", engine_error_message());
    engine_model_close(model);
    fclose(file);
}

static double relative_error(const float *x, const float *reference, size_t n)
{
    double difference = 0, norm = 0;
    for (size_t i = 0; i < n; i++) {
        difference += ((double)x[i] - reference[i]) * ((double)x[i] - reference[i]);
        norm += (double)reference[i] * reference[i];
    }
    return sqrt(difference / norm);
}

static void check(const char *name, const char *const *dirs, const char *backends, int32_t offload,
                  uint32_t n_batch)
{
    static struct seen seen;
    size_t n_attention, n_hidden, n_tokens;
    struct engine *engine;
    struct engine_model *model;
    struct engine_context *context = NULL;
    struct engine_options options = {
        .struct_size = sizeof options, .plugin_dirs = dirs, .config_file = config_file};
    struct engine_context_options wish = {.struct_size = sizeof wish,
                                          .n_context = N_TOKENS,
                                          .n_batch = n_batch,
                                          .n_threads = 2,
                                          .cache_type = "f32",
                                          .backends = backends,
                                          .offload = &offload,
                                          .watch = ENGINE_WATCH_ATTENTION | ENGINE_WATCH_HIDDEN,
                                          .watched = keep,
                                          .watch_user = &seen};
    float *attention = read_npy(TEST_DATA, name, "attention", &n_attention);
    float *hidden = read_npy(TEST_DATA, name, "hidden", &n_hidden);
    int32_t *tokens = read_npy(FAMILIES, name, "tokens", &n_tokens);
    cr_assert(n_attention <= N_VALUES && n_hidden <= N_VALUES && n_tokens >= N_TOKENS);
    const struct engine_batch batch = {.struct_size = sizeof batch, .n_tokens = N_TOKENS, .tokens = tokens};
    memset(&seen, 0, sizeof seen);
    cr_assert_eq(engine_open(&options, &engine), ENGINE_OK, "%s", engine_error_message());
    convert(engine, name);
    int status = engine_model_open(engine, converted_file, NULL, &model);
    if (!status) status = engine_context_create(model, &wish, &context);
    if (!status) status = engine_decode(context, &batch, NULL);
    cr_assert_eq(status, ENGINE_OK, "%s: %s", name, engine_error_message());
    engine_context_destroy(context);
    engine_model_close(model);
    engine_close(engine);
    cr_expect_eq(seen.n_attention, n_attention, "%s: %zu weights, not %zu", name, seen.n_attention,
                 n_attention);
    cr_expect_eq(seen.n_hidden, n_hidden, "%s: %zu hidden values, not %zu", name, seen.n_hidden, n_hidden);
    double of_weights = relative_error(seen.attention, attention, n_attention);
    double of_hidden = relative_error(seen.hidden, hidden, n_hidden);
    cr_expect(of_weights <= 1e-5 && of_hidden <= 1e-5,
              "%s on %s, %d layers offloaded, batches of %u: relative errors %.2e of weights, %.2e of hidden "
              "states",
              name, backends, offload, n_batch, of_weights, of_hidden);
    free(attention), free(hidden), free(tokens);
}

#ifdef TEST_BACKEND

Test(attention_families, agrees_with_transformers_on_any_split)
{
    static const char *const dirs[] = {TEST_PLUGIN_DIR, NULL};
    for (int i = 0; i < N_NAMES; i++) {
        check(names[i], dirs, TEST_BACKEND, 1, 7);
        check(names[i], dirs, TEST_BACKEND, ENGINE_OFFLOAD_ALL, 512);
    }
}

#else

Test(attention_families, agrees_with_transformers)
{
    static const char *const dirs[] = {TEST_PLUGIN_DIR, NULL};
    for (int i = 0; i < N_NAMES; i++) {
        check(names[i], dirs, "cpu", 0, 512);
        check(names[i], dirs, "cpu", 0, 5);
        check(names[i], dirs, "cpu", 0, 1);
    }
}

Test(attention_families, a_backend_of_the_first_version_leaves_attention_to_the_cpu)
{
    static const char *const dirs[] = {TEST_PLUGIN_DIR, TEST_OLD_BACKEND_DIR, NULL};
    for (int i = 0; i < N_NAMES; i++) check(names[i], dirs, "minimal", 1, 512);
}

#endif

/* test-attention-families.c: the attention weights and hidden states that a context hands out, on small
 * models in ../shared, against those of transformers (data/attention, recorded by tools/attention/record). On
 * the CPU and, with TEST_BACKEND, on a GPU plugin's device; also on a backend of the border's first version,
 * which leaves attention to the CPU. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine.h"
#include "families-fixture.h"

/* Sinks in gptoss, ALiBi in bloom, latent attention in deepseek3, windows in cohere2, phi3 and gptoss,
 * parallel layers in falcon7. */
static const char *const names[] = {"llama",    "gpt2",    "bloom", "gptoss", "deepseek3", "falcon7",
                                    "qwen3moe", "cohere2", "olmo2", "phi3",   "tiny-llama"};
enum { N_NAMES = sizeof names / sizeof *names, N_TOKENS = 16, N_VALUES = 65536 };

TestSuite(attention_families, .init = families_begin, .fini = families_end);

/* A recorded answer. */
static float *read_answer(const char *name, const char *what, size_t *count)
{
    char path[512];
    snprintf(path, sizeof path, "%s%s.%s.npy", TEST_DATA, name, what);
    return families_read_npy(path, count);
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

static void check(const char *name, const char *const *dirs, const char *backends, int32_t offload,
                  uint32_t n_batch)
{
    static struct seen seen;
    size_t n_attention, n_hidden, n_tokens;
    struct engine *engine;
    struct engine_model *model;
    struct engine_context *context = NULL;
    struct engine_options options = {
        .struct_size = sizeof options, .plugin_dirs = dirs, .config_file = families.config_file};
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
    const struct family_files files = family_files(name);
    float *attention = read_answer(name, "attention", &n_attention);
    float *hidden = read_answer(name, "hidden", &n_hidden);
    int32_t *tokens = families_read_npy(files.tokens, &n_tokens);
    cr_assert(n_attention <= N_VALUES && n_hidden <= N_VALUES && n_tokens >= N_TOKENS);
    const struct engine_batch batch = {.struct_size = sizeof batch, .n_tokens = N_TOKENS, .tokens = tokens};
    memset(&seen, 0, sizeof seen);
    cr_assert_eq(engine_open(&options, &engine), ENGINE_OK, "%s", engine_error_message());
    families_convert(engine, files.model, "F32", 1); /* else activations are rounded to the weights' type */
    int status = engine_model_open(engine, families.model_file, NULL, &model);
    if (!status) status = engine_context_create(model, &wish, &context);
    if (!status) status = engine_decode(context, &batch, NULL);
    cr_assert_eq(status, ENGINE_OK, "%s: %s", name, engine_error_message());
    engine_context_destroy(context);
    engine_model_close(model);
    engine_close(engine);
    cr_expect_eq(seen.n_attention, n_attention, "%s: %zu weights, not %zu", name, seen.n_attention,
                 n_attention);
    cr_expect_eq(seen.n_hidden, n_hidden, "%s: %zu hidden values, not %zu", name, seen.n_hidden, n_hidden);
    double of_weights = families_error(seen.attention, attention, n_attention);
    double of_hidden = families_error(seen.hidden, hidden, n_hidden);
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

/* test-prepared.c: the shapes that batches are rounded up to, and how few graphs are prepared for many
 * different ones. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "context/context.h"
#include "engine.h"
#include "files.h"
#include "gguf-writer.h"

Test(prepared, shapes_are_few_and_hardly_larger)
{
    const struct engine_plan plan = {.n_batch = 500, .max_outputs = 100};
    struct shape_key last = {0};
    int n_shapes = 0;
    for (uint32_t n = 1; n <= plan.n_batch; n++) {
        struct shape_key key = shape_for(&plan, n, 1);
        cr_assert(key.n_tokens >= n && key.n_tokens <= n + n / 8 && key.n_tokens <= plan.n_batch, "%u: %u", n,
                  key.n_tokens);
        cr_assert_eq(key.n_outputs, 1);
        n_shapes += key.n_tokens != last.n_tokens;
        last = key;
        for (uint32_t k = 0; k <= n && k <= plan.max_outputs; k++) {
            key = shape_for(&plan, n, k);
            cr_assert(key.n_outputs >= k && key.n_outputs > 0 && key.n_outputs <= plan.max_outputs &&
                          key.n_outputs <= key.n_tokens,
                      "%u of %u: %u", k, n, key.n_outputs);
            cr_assert(key.n_outputs <= 2 * k || k == 0, "%u of %u: %u", k, n, key.n_outputs);
        }
    }
    cr_assert_leq(n_shapes, 64);
}

enum { SEQUENCES = 24, STEPS = 1000, CHUNK = 40, N_VOCAB = 320 };

/* A server's steps: some sequences decode, at times one is given a piece of a prompt. */
Test(prepared, a_thousand_batches_need_few_graphs)
{
    static const char *const dirs[] = {TEST_PLUGIN_DIR, NULL};
    char *folder = files_folder();
    const char *path = files_path(folder, "model.gguf"), *config_file = files_path(folder, "engine.conf");
    struct tiny_llama config = {.seed = 3, .type = ENGINE_TYPE_F32, .n_vocab = N_VOCAB};
    struct engine_options options = {
        .struct_size = sizeof options, .plugin_dirs = dirs, .config_file = config_file};
    struct engine_context_options wish = {.struct_size = sizeof wish,
                                          .n_context = 128,
                                          .n_sequences = SEQUENCES,
                                          .n_threads = 1,
                                          .backends = "cpu"};
    struct engine *engine;
    struct engine_model *model;
    struct engine_context *context;
    cr_assert(write_tiny_llama(path, &config));
    files_write_text(config_file, "");
    cr_assert_eq(engine_open(&options, &engine), ENGINE_OK, "%s", engine_error_message());
    cr_assert_eq(engine_model_open(engine, path, NULL, &model), ENGINE_OK, "%s", engine_error_message());
    cr_assert_eq(engine_context_create(model, &wish, &context), ENGINE_OK, "%s", engine_error_message());

    static float logits[SEQUENCES * N_VOCAB];
    static bool seen[SEQUENCES + CHUNK + 1][SEQUENCES + 1];
    int n_different = 0;
    srand(1);
    for (int step = 0; step < STEPS; step++) {
        int32_t tokens[SEQUENCES + CHUNK], sequences[SEQUENCES + CHUNK];
        uint8_t wanted[SEQUENCES + CHUNK];
        size_t n = 0, n_decoding = (size_t)rand() % SEQUENCES;
        size_t n_chunk = rand() % 2 || n_decoding == 0 ? (size_t)rand() % CHUNK + 1 : 0;
        for (uint32_t s = 0; s <= n_decoding; s++) {
            size_t count = s < n_decoding ? 1 : n_chunk;
            if (engine_sequence_length(context, s) + count > 128)
                cr_assert_eq(engine_sequence_truncate(context, s, 0), ENGINE_OK);
            for (size_t i = 0; i < count; i++) {
                tokens[n] = rand() % N_VOCAB;
                sequences[n] = (int32_t)s;
                wanted[n++] = i + 1 == count;
            }
        }
        struct engine_batch batch = {.struct_size = sizeof batch,
                                     .n_tokens = n,
                                     .tokens = tokens,
                                     .sequences = sequences,
                                     .wanted = wanted};
        cr_assert_eq(engine_decode(context, &batch, logits), ENGINE_OK, "%s", engine_error_message());
        bool *shape = &seen[n][n_decoding + (n_chunk > 0)];
        n_different += !*shape;
        *shape = true;
    }
    cr_log_info("%d shapes, %u graphs", n_different, (unsigned)context->n_prepared);
    cr_assert_gt(n_different, 300);
    cr_assert_lt(context->n_prepared, 200);
    engine_context_destroy(context);
    engine_model_close(model);
    engine_close(engine);
    files_remove(folder);
    free(folder);
}

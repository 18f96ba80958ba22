/* test-grow.c: how long a context is if nobody says: the trained length, or what devices have memory for,
 * without a weight that moves; and that blocks beyond the first ones are used only while their memory is
 * there. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bare-engine.h"
#include "context/context.h"
#include "engine.h"
#include "files.h"
#include "gguf-writer.h"

#define TRAINED 131072

static char *folder, *path;
static struct engine *engine;
static struct engine_model *model;

static void setup(void)
{
    const struct tiny_llama config = {
        .seed = 3, .type = ENGINE_TYPE_F32, .n_layers = 2, .n_vocab = 320, .n_context = TRAINED};
    folder = files_folder();
    path = strdup(files_path(folder, "model.gguf"));
    cr_assert(write_tiny_llama(path, &config));
    engine = bare_engine(folder, TEST_PLUGIN_DIR);
    cr_assert_eq(engine_model_open(engine, path, NULL, &model), ENGINE_OK, "%s", engine_error_message());
}

static void finish(void)
{
    engine_model_close(model);
    engine_close(engine);
    files_remove(folder);
    free(path);
    free(folder);
}

TestSuite(grow, .init = setup, .fini = finish);

/* The context that a plan for these options gives, on a machine with so many MiB; 0: on this one. */
static struct engine_plan_context plan_for(const struct engine_context_options *options, unsigned mib)
{
    struct engine_plan_context context = {.struct_size = sizeof context};
    struct engine_context_options wish = *options;
    struct engine_plan *plan = NULL;
    char *cluster = NULL, text[256];
    if (mib > 0) {
        snprintf(
            text, sizeof text,
            "{\"machines\": [{\"devices\": [{\"name\": \"cpu\", \"memory\": \"%uM\", \"bandwidth\": 1e10, "
            "\"integers\": 1e12, \"floats\": 1e12, \"overhead\": 1e-6}]}]}",
            mib);
        cluster = strdup(files_path(folder, "cluster.json"));
        files_write_text(cluster, text);
    } else {
        wish.backends = "cpu";
    }
    wish.struct_size = sizeof wish;
    cr_assert_eq(engine_plan_create_on(model, &wish, cluster, &plan), ENGINE_OK, "%s",
                 engine_error_message());
    engine_plan_get_context(plan, &context);
    if (context.device) cr_assert_str_eq(context.device, "cpu");
    context.device = NULL;
    engine_plan_destroy(plan);
    free(cluster);
    return context;
}

static void expect(struct engine_plan_context context, uint32_t n_context, uint32_t n_cache, uint32_t limit)
{
    cr_expect_eq(context.n_trained, TRAINED);
    cr_expect_eq(context.n_context, n_context, "%u", context.n_context);
    cr_expect_eq(context.n_cache, n_cache, "%u", context.n_cache);
    cr_expect_eq(context.limit, limit, "%u", context.limit);
}

/* A position takes 2 layers * 2 (keys and values) * 2 heads * 16 numbers of 2 bytes: 256 bytes; 16,384 of
 * them take 4 MiB, all 32 MiB. */
Test(grow, to_the_trained_length)
{
    expect(plan_for(&(struct engine_context_options){0}, 0), TRAINED, TRAINED, ENGINE_CONTEXT_TRAINED);
    expect(plan_for(&(struct engine_context_options){.n_sequences = 3}, 100), TRAINED, 3 * TRAINED,
           ENGINE_CONTEXT_TRAINED);
}

Test(grow, what_is_asked_for_stays)
{
    expect(plan_for(&(struct engine_context_options){.n_context = 1000}, 0), 1000, 1024,
           ENGINE_CONTEXT_ASKED);
    expect(plan_for(&(struct engine_context_options){.n_context = 1000, .n_sequences = 2}, 0), 1000, 2048,
           ENGINE_CONTEXT_ASKED);
    expect(plan_for(&(struct engine_context_options){.n_cache = 20000}, 0), 20000, 20000,
           ENGINE_CONTEXT_CACHE);
}

Test(grow, to_what_there_is_memory_for)
{
    const struct engine_plan_context one = plan_for(&(struct engine_context_options){0}, 20);
    const struct engine_plan_context four = plan_for(&(struct engine_context_options){.n_sequences = 4}, 20);
    cr_expect_eq(one.limit, ENGINE_CONTEXT_MEMORY);
    cr_expect(one.n_context > 40000 && one.n_context < 80 * 1024, "%u", one.n_context);
    cr_expect_eq(one.n_cache, one.n_context);
    cr_expect(four.n_cache > 40000 && four.n_cache < 80 * 1024, "the same for all together: %u",
              four.n_cache);
    const struct engine_plan_context small = plan_for(&(struct engine_context_options){0}, 4);
    cr_expect(small.n_context >= 4096 && small.n_context < 16384, "%u", small.n_context);
    cr_expect_eq(small.limit, ENGINE_CONTEXT_MEMORY);
}

Test(grow, a_text_that_does_not_fit_is_refused_before_anything_is_loaded)
{
    struct engine_context *context;
    struct engine_context_options wish = {.struct_size = sizeof wish, .backends = "cpu", .n_needed = 100000};
    cr_assert_eq(engine_context_create(model, &wish, &context), ENGINE_OK, "%s", engine_error_message());
    engine_context_destroy(context);
    wish.n_needed = TRAINED + 1;
    cr_assert_eq(engine_context_create(model, &wish, &context), ENGINE_ERROR_ARGUMENT);
    cr_expect(strstr(engine_error_message(), "the prompt has 131073 tokens but the context only 131072"),
              "%s", engine_error_message());
}

/* ---- Memory that others have taken --------------------------------------------------------------------- */

static uint64_t memory_left; /* that the CPU says is free */

static int say_memory(uint32_t device, struct engine_device_info *info)
{
    (void)device;
    info->memory_free = memory_left;
    info->memory_total = (uint64_t)64 << 30;
    return ENGINE_OK;
}

Test(grow, blocks_are_used_only_while_there_is_memory)
{
    enum { N = 16500 };
    struct engine_context *context;
    const struct engine_context_options wish = {
        .struct_size = sizeof wish, .backends = "cpu", .n_batch = 512};
    int32_t *tokens = calloc(N, sizeof *tokens);
    cr_assert(tokens);
    for (int i = 0; i < N; i++) tokens[i] = 3 + i % 300;
    cr_assert_eq(engine_context_create(model, &wish, &context), ENGINE_OK, "%s", engine_error_message());
    struct engine_backend backend = *context->plan->set.devices[0].backend;
    backend.device_info = say_memory;
    context->plan->set.devices[0].backend = &backend;

    /* What weights were placed with room for is there in any case. */
    cr_expect_eq(engine_cache_free(context), 16384);
    struct engine_batch batch = {.struct_size = sizeof batch, .tokens = tokens, .n_tokens = N};
    cr_expect_eq(engine_decode(context, &batch, NULL), ENGINE_ERROR_MEMORY);
    cr_expect(strstr(engine_error_message(), "the cache of 131072 tokens for all sequences is full"), "%s",
              engine_error_message());
    cr_expect_eq(engine_sequence_length(context, 0), 0);

    memory_left = (uint64_t)8 << 30;
    context->room->asked = 0; /* as if a tenth of a second had gone by */
    cr_expect_eq(engine_cache_free(context), TRAINED);
    const uint32_t growth = N, n_blocks = (N + KV_BLOCK_SIZE - 1) / KV_BLOCK_SIZE;
    cr_expect(room_make(context, &growth));
    cr_expect_geq(kv_empty_count(context->kv), n_blocks);
    cr_expect_lt(kv_empty_count(context->kv), 2 * n_blocks, "no more than are needed, and a few");
    cr_expect_eq(engine_cache_free(context), TRAINED);
    engine_context_destroy(context);
    free(tokens);
}

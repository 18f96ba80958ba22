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
    engine->claims.asked = 0; /* as if a tenth of a second had gone by */
    cr_expect_eq(engine_cache_free(context), TRAINED);
    const uint32_t growth = N, n_blocks = (N + KV_BLOCK_SIZE - 1) / KV_BLOCK_SIZE;
    cr_expect(room_make(context, &growth));
    cr_expect_geq(kv_empty_count(context->kv), n_blocks);
    cr_expect_lt(kv_empty_count(context->kv), 2 * n_blocks, "no more than are needed, and a few");
    cr_expect_eq(engine_cache_free(context), TRAINED);
    engine_context_destroy(context);
    free(tokens);
}

/* ---- Several contexts ---------------------------------------------------------------------------------- */

#define POSITION 256 /* bytes, as above */

static struct engine_backend told; /* the CPU, with memory as this test says */

/* How a request ended. */
struct ended {
    uint32_t reason;
    int status;
    char message[256];
};

static void take_end(void *user, const struct engine_event *event)
{
    struct ended *ended = user;
    if (event->kind != ENGINE_EVENT_DONE) return;
    *ended = (struct ended){.reason = event->reason, .status = event->status};
    if (event->message) snprintf(ended->message, sizeof ended->message, "%s", event->message);
}

static struct engine_context *open_sharing(void)
{
    struct engine_context *context;
    const struct engine_context_options wish = {
        .struct_size = sizeof wish, .backends = "cpu", .n_batch = 512, .shares_devices = 1};
    cr_assert_eq(engine_context_create(model, &wish, &context), ENGINE_OK, "%s", engine_error_message());
    cr_expect_eq(context->plan->n_context, TRAINED);
    told = *context->plan->set.devices[0].backend;
    told.device_info = say_memory;
    context->plan->set.devices[0].backend = &told;
    return context;
}

/* Says how much memory caches may still take, beyond the margin that is left to others. */
static void say_left(uint64_t bytes)
{
    struct engine_device_info info = {.struct_size = sizeof info, .memory_total = (uint64_t)64 << 30};
    for (info.memory_free = bytes; devices_default_budget(&info) < bytes;)
        info.memory_free += bytes - devices_default_budget(&info);
    memory_left = info.memory_free;
    engine->claims.asked = 0;
}

Test(grow, contexts_count_on_the_same_memory_once)
{
    struct engine_context *a = open_sharing(), *b = open_sharing();
    const uint32_t growth = 16384 + 1600;
    cr_expect_eq(engine->claims.unwritten, 2 * 16384 * POSITION, "%lu", engine->claims.unwritten);
    /* What both begin with, which is not written to, and 4,000 positions more. */
    say_left((2 * 16384 + 4000) * POSITION);
    cr_expect_eq(engine_cache_free(a), 16384 + 4000);
    cr_expect_eq(engine_cache_free(b), 16384 + 4000);
    cr_assert(room_make(a, &growth));
    const uint32_t taken = 16384 + 4000 - engine_cache_free(b);
    cr_expect(taken >= 1600 && taken <= 3200, "%u", taken);
    say_left((2 * 16384 + 4000) * POSITION); /* the CPU doesn't see what isn't written to */
    cr_expect_eq(engine_cache_free(b), 16384 + 4000 - taken);
    cr_expect_eq(engine_cache_free(a), 16384 + 4000);

    /* Written to, it is no longer free, and no longer counted here. */
    int32_t tokens[512] = {3, 4, 5};
    const struct engine_batch batch = {.struct_size = sizeof batch, .tokens = tokens, .n_tokens = 512};
    cr_assert_eq(engine_decode(a, &batch, NULL), ENGINE_OK, "%s", engine_error_message());
    const uint32_t one = 1;
    cr_assert(room_make(a, &one)); /* which counts */
    say_left((2 * 16384 + 4000 - 512) * POSITION);
    cr_expect_eq(engine_cache_free(b), 16384 + 4000 - taken);
    engine_context_destroy(a);
    say_left((16384 + 4000) * POSITION);
    cr_expect_eq(engine_cache_free(b), 16384 + 4000);
    engine_context_destroy(b);
    cr_expect_eq(engine->claims.unwritten, 0);
    cr_expect_eq(engine->claims.grown, 0);
}

/* Devices that commit memory at once leave it to the contexts that come later. */
Test(grow, elsewhere_contexts_that_share_devices_keep_to_what_they_begin_with)
{
    struct engine_plan_context chosen = {.struct_size = sizeof chosen};
    char *cluster = strdup(files_path(folder, "cluster.json"));
    files_write_text(cluster,
                     "{\"machines\": [{\"devices\": ["
                     "{\"name\": \"cpu\", \"memory\": \"1G\", \"bandwidth\": 1e10, \"integers\": 1e12, "
                     "\"floats\": 1e12, \"overhead\": 1e-6}, "
                     "{\"name\": \"vulkan0\", \"memory\": \"1G\", \"bandwidth\": 1e12, \"integers\": 1e14, "
                     "\"floats\": 1e14, \"overhead\": 1e-6}]}]}");
    for (uint32_t shares = 0; shares < 2; shares++) {
        const struct engine_context_options wish = {.struct_size = sizeof wish, .shares_devices = shares};
        struct engine_plan *plan = NULL;
        cr_assert_eq(engine_plan_create_on(model, &wish, cluster, &plan), ENGINE_OK, "%s",
                     engine_error_message());
        engine_plan_get_context(plan, &chosen);
        cr_expect_eq(chosen.n_context, shares ? 16384 : TRAINED, "%u", chosen.n_context);
        cr_expect_eq(chosen.limit, shares ? ENGINE_CONTEXT_MEMORY : ENGINE_CONTEXT_TRAINED);
        engine_plan_destroy(plan);
    }
    free(cluster);
}

Test(grow, a_limit_holds_for_all_contexts_together)
{
    struct engine_context *a = open_sharing(), *b = open_sharing();
    const uint32_t growth = 16384 + 1600;
    say_left((uint64_t)1 << 30);
    cr_expect_eq(engine_limit_growth(engine, 4000 * POSITION), 0);
    cr_expect_eq(engine_cache_free(a), 16384 + 4000);
    cr_assert(room_make(a, &growth));
    const uint64_t grown = engine_limit_growth(engine, 4000 * POSITION);
    cr_expect(grown >= 1600 * POSITION && grown <= 3200 * POSITION, "%lu", grown);
    cr_expect_eq(engine_cache_free(b) * POSITION, (16384 + 4000) * POSITION - grown);
    engine_context_destroy(a);
    cr_expect_eq(engine_limit_growth(engine, 4000 * POSITION), 0);
    cr_expect_eq(engine_cache_free(b), 16384 + 4000);
    engine_context_destroy(b);
    /* A plan promises no more. */
    expect(plan_for(&(struct engine_context_options){.n_sequences = 2}, 0), 16384 + 4000, 16384 + 4000,
           ENGINE_CONTEXT_MEMORY);
}

Test(grow, a_request_without_memory_fails_and_says_so)
{
    enum { N = 16500 };
    struct engine_context *context = open_sharing();
    struct engine_queue *queue;
    struct ended ended = {.reason = UINT32_MAX};
    int32_t *tokens = calloc(N, sizeof *tokens);
    cr_assert(tokens);
    cr_assert_eq(engine_queue_create(context, NULL, &queue), ENGINE_OK, "%s", engine_error_message());
    const struct engine_request request = {.struct_size = sizeof request,
                                           .tokens = tokens,
                                           .n_tokens = N,
                                           .flags = ENGINE_REQUEST_NO_TEXT,
                                           .event = take_end,
                                           .user = &ended};
    say_left(0);
    cr_assert_eq(engine_queue_submit(queue, &request, NULL), ENGINE_OK, "%s", engine_error_message());
    cr_assert_eq(engine_queue_run(queue, ENGINE_QUEUE_IDLE), ENGINE_OK, "%s", engine_error_message());
    cr_expect_eq(ended.reason, ENGINE_DONE_FAILED, "%u", ended.reason);
    cr_expect_eq(ended.status, ENGINE_ERROR_MEMORY, "%d", ended.status);
    cr_expect(strstr(ended.message, "there is memory for 16384 positions"), "%s", ended.message);
    engine_queue_destroy(queue);
    engine_context_destroy(context);
    free(tokens);
}

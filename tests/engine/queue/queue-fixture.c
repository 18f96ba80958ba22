/* queue-fixture.c: see queue-fixture.h. */
#include "queue-fixture.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "files.h"
#include "gguf-writer.h"

static char *folder;
struct engine *engine;
struct engine_model *model;
struct engine_context *alone, *context;
struct engine_queue *queue;
const char *more_plugins;
uint32_t n_batch = 64;
struct sample samples[N_SAMPLES];

void open_model_of(const char *settings, uint32_t type)
{
    const char *const dirs[] = {TEST_PLUGIN_DIR, TOY_DIR, more_plugins, NULL};
    folder = files_folder();
    const char *path = files_path(folder, "model.gguf"), *config = files_path(folder, "engine.conf");
    files_write_text(config, settings);
    cr_assert(write_tiny_llama(path, &(struct tiny_llama){.seed = 5, .type = type}));
    struct engine_options options = {
        .struct_size = sizeof options, .plugin_dirs = dirs, .config_file = config};
    cr_assert_eq(engine_open(&options, &engine), ENGINE_OK, "%s", engine_error_message());
    cr_assert_eq(engine_model_open(engine, path, NULL, &model), ENGINE_OK, "%s", engine_error_message());
}

void open_model(const char *settings)
{
    open_model_of(settings, ENGINE_TYPE_Q8_0);
}

struct engine_context *open_context(uint32_t n_sequences, uint32_t n_cache, const char *backends)
{
    struct engine_context_options options = {.struct_size = sizeof options,
                                             .n_context = N_CONTEXT,
                                             .n_batch = n_batch,
                                             .n_sequences = n_sequences,
                                             .n_threads = 2,
                                             .cache_type = "f32",
                                             .backends = backends,
                                             .n_cache = n_cache};
    struct engine_context *created;
    cr_assert_eq(engine_context_create(model, &options, &created), ENGINE_OK, "%s", engine_error_message());
    return created;
}

/* n_cache: positions of all sequences together; 0: enough for all. */
void open_queue(uint32_t n_sequences, uint32_t n_cache, const struct engine_queue_options *options)
{
    context = open_context(n_sequences, n_cache, "cpu");
    cr_assert_eq(engine_queue_create(context, options, &queue), ENGINE_OK, "%s", engine_error_message());
}

void begin_queue(void)
{
    open_model("");
    alone = open_context(1, 0, "cpu");
}

void end_queue(void)
{
    engine_queue_destroy(queue);
    engine_context_destroy(context);
    engine_context_destroy(alone);
    engine_model_close(model);
    engine_close(engine);
    files_remove(folder);
    free(folder);
}

void create_samples(uint32_t n, uint32_t longest, uint32_t most)
{
    for (uint32_t i = 0; i < n; i++) {
        sample_create(&samples[i], i, N_VOCAB, longest, most);
        cr_assert_eq(sample_run_alone(&samples[i], model, alone), ENGINE_OK, "%s", engine_error_message());
    }
}

struct canceller {
    struct sample *sample;
    size_t after; /* tokens; 0: never */
};

void take_and_cancel(void *user, const struct engine_event *event)
{
    struct canceller *canceller = user;
    sample_take(canceller->sample, event);
    if (canceller->after > 0 && canceller->sample->n_got_tokens == canceller->after)
        engine_queue_cancel(queue, event->request);
}

void vary_sample(uint32_t i)
{
    static struct canceller cancellers[N_SAMPLES];
    cancellers[i] = (struct canceller){&samples[i], i % 7 == 3 ? 1 + i % 5 : 0};
    samples[i].request.event = take_and_cancel;
    samples[i].request.user = &cancellers[i];
    samples[i].request.priority = (int32_t)(i % 3) - 1;
}

uint64_t submit(struct sample *sample)
{
    uint64_t id = 0;
    cr_assert_eq(engine_queue_submit(queue, &sample->request, &id), ENGINE_OK, "%s", engine_error_message());
    cr_assert_neq(id, 0);
    return id;
}

void run(enum engine_queue_until until)
{
    cr_assert_eq(engine_queue_run(queue, until), ENGINE_OK, "%s", engine_error_message());
}

struct engine_queue_info info_of_queue(void)
{
    struct engine_queue_info info = {.struct_size = sizeof info};
    cr_assert_eq(engine_queue_get_info(queue, &info), ENGINE_OK);
    return info;
}

void expect_agreement(uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        cr_assert(sample_agrees(&samples[i]), "request %u: reason %u, %zu tokens of %zu: %s", i,
                  samples[i].last.reason, samples[i].n_got_tokens, samples[i].n_tokens,
                  samples[i].last.reason == ENGINE_DONE_FAILED ? "failed" : "");
}

void forget_results(uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        samples[i].n_got_tokens = samples[i].got_text_size = 0, samples[i].n_last = 0;
}

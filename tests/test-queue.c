/* test-queue.c: many requests at once: each gives what it gives alone, whoever else is there. */
#include <criterion/criterion.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine.h"
#include "files.h"
#include "gguf-writer.h"
#include "queue-requests.h"

#define N_VOCAB   320
#define N_CONTEXT 128
#define N_SAMPLES 64

static char *folder;
static struct engine *engine;
static struct engine_model *model;
static struct engine_context *alone, *context;
static struct engine_queue *queue;
static uint32_t n_batch = 64;
static struct sample samples[N_SAMPLES];

static void open_model_of(const char *settings, uint32_t type)
{
    static const char *dirs[] = {TEST_PLUGIN_DIR, TOY_DIR, NULL};
    folder = files_folder();
    const char *path = files_path(folder, "model.gguf"), *config = files_path(folder, "engine.conf");
    files_write_text(config, settings);
    cr_assert(write_tiny_llama(path, &(struct tiny_llama){.seed = 5, .type = type}));
    struct engine_options options = {
        .struct_size = sizeof options, .plugin_dirs = dirs, .config_file = config};
    cr_assert_eq(engine_open(&options, &engine), ENGINE_OK, "%s", engine_error_message());
    cr_assert_eq(engine_model_open(engine, path, NULL, &model), ENGINE_OK, "%s", engine_error_message());
}

static void open_model(const char *settings)
{
    open_model_of(settings, ENGINE_TYPE_Q8_0);
}

static struct engine_context *open_context(uint32_t n_sequences, uint32_t n_cache, const char *backends)
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
static void open_queue(uint32_t n_sequences, uint32_t n_cache, const struct engine_queue_options *options)
{
    context = open_context(n_sequences, n_cache, "cpu");
    cr_assert_eq(engine_queue_create(context, options, &queue), ENGINE_OK, "%s", engine_error_message());
}

static void begin(void)
{
    open_model("");
    alone = open_context(1, 0, "cpu");
}

static void end(void)
{
    engine_queue_destroy(queue);
    engine_context_destroy(context);
    engine_context_destroy(alone);
    engine_model_close(model);
    engine_close(engine);
    files_remove(folder);
    free(folder);
}

TestSuite(queue, .init = begin, .fini = end, .timeout = 300);
TestSuite(queue_faults, .fini = end, .timeout = 300);
TestSuite(queue_invariance, .fini = end, .timeout = 300);

static void create_samples(uint32_t n, uint32_t longest, uint32_t most)
{
    for (uint32_t i = 0; i < n; i++) {
        sample_create(&samples[i], i, N_VOCAB, longest, most);
        cr_assert_eq(sample_run_alone(&samples[i], model, alone), ENGINE_OK, "%s", engine_error_message());
    }
}

static uint64_t submit(struct sample *sample)
{
    uint64_t id = 0;
    cr_assert_eq(engine_queue_submit(queue, &sample->request, &id), ENGINE_OK, "%s", engine_error_message());
    cr_assert_neq(id, 0);
    return id;
}

static void run(enum engine_queue_until until)
{
    cr_assert_eq(engine_queue_run(queue, until), ENGINE_OK, "%s", engine_error_message());
}

static struct engine_queue_info info_of_queue(void)
{
    struct engine_queue_info info = {.struct_size = sizeof info};
    cr_assert_eq(engine_queue_get_info(queue, &info), ENGINE_OK);
    return info;
}

static void expect_agreement(uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        cr_assert(sample_agrees(&samples[i]), "request %u: reason %u, %zu tokens of %zu: %s", i,
                  samples[i].last.reason, samples[i].n_got_tokens, samples[i].n_tokens,
                  samples[i].last.reason == ENGINE_DONE_FAILED ? "failed" : "");
}

/* ---- Guesses ---------------------------------------------------------------------------------------------- */

static struct engine_context *draft;

/* Prompts that repeat themselves and texts without penalties, which do so soon: there is something to look up. */
static void create_repeating(uint32_t n, uint32_t most)
{
    for (uint32_t i = 0; i < n; i++) {
        struct sample *sample = &samples[i];
        sample_create(sample, i, N_VOCAB, 100, most);
        for (size_t j = 5; j < sample->request.n_tokens; j++) sample->prompt[j] = sample->prompt[j - 5];
        sample->sampler.penalty_last_n = 0;
        cr_assert_eq(sample_run_alone(sample, model, alone), ENGINE_OK, "%s", engine_error_message());
    }
}

static void forget_results(uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        samples[i].n_got_tokens = samples[i].got_text_size = 0, samples[i].n_last = 0;
}

/* Runs the first n samples with guesses. Returns what the queue says of them; it is gone then. */
static struct engine_queue_info run_with_guesses(uint32_t n, uint32_t n_cache,
                                                 const struct engine_queue_options *options)
{
    context = open_context(4, n_cache, "cpu");
    cr_assert_eq(engine_queue_create(context, options, &queue), ENGINE_OK, "%s", engine_error_message());
    forget_results(n);
    for (uint32_t i = 0; i < n; i++) {
        samples[i].request.event = sample_take;
        submit(&samples[i]);
    }
    run(ENGINE_QUEUE_IDLE);
    expect_agreement(n);
    struct engine_queue_info info = info_of_queue();
    cr_expect_leq(info.n_accepted, info.n_guessed);
    struct engine_context_info of_draft = {.struct_size = sizeof of_draft};
    if (options->draft) engine_context_get_info(draft, &of_draft);
    if (options->draft) cr_expect_eq(engine_cache_free(draft), of_draft.n_cache, "what it knew is gone");
    engine_queue_destroy(queue);
    engine_context_destroy(context);
    queue = NULL;
    context = NULL;
    return info;
}

Test(queue, texts_are_the_same_with_lookup)
{
    create_repeating(24, 60);
    struct engine_queue_options options = {.struct_size = sizeof options, .lookup = 1};
    run_with_guesses(24, 0, &options);
    for (uint32_t n = 1; n <= 15; n += 7) {
        options.n_guess_least = options.n_guess_most = n;
        struct engine_queue_info info = run_with_guesses(24, 0, &options);
        cr_expect_gt(info.n_accepted, 0);
        cr_expect_lt(info.n_accepted, info.n_guessed);
    }
}

/* The model drafts for itself: without penalties and at temperature 0 all guesses come true that the text has room for. */
Test(queue, texts_are_the_same_with_a_draft)
{
    create_repeating(24, 60);
    draft = open_context(4, 0, "cpu");
    struct engine_queue_options options = {.struct_size = sizeof options, .draft = draft};
    run_with_guesses(24, 0, &options);
    for (uint32_t n = 1; n <= 15; n += 7) {
        options.n_guess_least = options.n_guess_most = n;
        struct engine_queue_info info = run_with_guesses(24, 0, &options);
        cr_expect_gt(info.n_accepted, info.n_guessed / 20);
        if (n > 1) cr_expect_lt(info.n_steps, info.n_generated);
    }
    engine_context_destroy(draft);
}

/* With both, and a cache of which one or the other has too little for all. */
Test(queue, texts_are_the_same_with_guesses_and_little_cache)
{
    create_samples(16, 100, 60);
    draft = open_context(4, 0, "cpu");
    struct engine_queue_options options = {
        .struct_size = sizeof options, .lookup = 1, .draft = draft, .n_guess_least = 5, .n_guess_most = 5};
    cr_expect_gt(run_with_guesses(16, 192, &options).n_put_back, 0);
    engine_context_destroy(draft);
    options.draft = draft = open_context(4, 160, "cpu");
    run_with_guesses(16, 0, &options);
    engine_context_destroy(draft);
}

Test(queue, refuses_drafts_that_cannot_work)
{
    context = open_context(2, 0, "cpu");
    draft = open_context(1, 0, "cpu");
    struct engine_queue_options options = {.struct_size = sizeof options, .draft = draft};
    cr_assert_eq(engine_queue_create(context, &options, &queue), ENGINE_ERROR_ARGUMENT);
    cr_assert(strstr(engine_error_message(), "1 sequences; it needs 2"), "%s", engine_error_message());
    options.draft = context;
    cr_assert_eq(engine_queue_create(context, &options, &queue), ENGINE_ERROR_ARGUMENT);
    cr_assert(strstr(engine_error_message(), "a context of its own"), "%s", engine_error_message());
    options = (struct engine_queue_options){
        .struct_size = sizeof options, .lookup = 1, .n_guess_least = 8, .n_guess_most = 4};
    cr_assert_eq(engine_queue_create(context, &options, &queue), ENGINE_ERROR_ARGUMENT);
    cr_assert(strstr(engine_error_message(), "at least 8 tokens and at most 4"), "%s",
              engine_error_message());
    engine_context_destroy(draft);
}

/* ---- Texts ------------------------------------------------------------------------------------------------ */

Test(queue, each_gives_what_it_gives_alone)
{
    create_samples(24, 100, 60);
    open_queue(6, 0, NULL);
    for (uint32_t i = 0; i < 24; i++) {
        samples[i].request.event = sample_take;
        submit(&samples[i]);
    }
    run(ENGINE_QUEUE_IDLE);
    expect_agreement(24);
    struct engine_queue_info info = info_of_queue();
    cr_assert_eq(info.n_requests, 24);
    cr_assert_eq(info.n_done, 24);
    cr_assert_eq(info.n_running + info.n_waiting, 0);
    cr_assert_eq(info.n_cached, 0);
    for (uint32_t i = 0; i < 24; i++) {
        const struct engine_event *last = &samples[i].last;
        cr_assert_eq(last->n_prompt, samples[i].request.n_tokens);
        cr_assert_eq(last->n_generated, samples[i].n_tokens);
        cr_assert(last->wait_seconds >= 0 && last->prompt_seconds > 0 && last->text_seconds >= 0);
    }
}

struct canceller {
    struct sample *sample;
    size_t after; /* tokens; 0: never */
};

static void take_and_cancel(void *user, const struct engine_event *event)
{
    struct canceller *canceller = user;
    sample_take(canceller->sample, event);
    if (canceller->after > 0 && canceller->sample->n_got_tokens == canceller->after)
        engine_queue_cancel(queue, event->request);
}

/* All of them at once, of three priorities, some cancelled while they wait or run, with a cache for `part` of a hundredth of
 * what they need. */
static void run_crowd(uint32_t n_sequences, uint32_t part, bool at_once)
{
    static struct canceller cancellers[N_SAMPLES];
    uint32_t needed = 0;
    n_batch = N_CONTEXT;
    create_samples(N_SAMPLES, 100, 60);
    for (uint32_t i = 0; i < N_SAMPLES; i++)
        needed += (uint32_t)(samples[i].request.n_tokens + samples[i].n_tokens + 31) / 32 * 32;
    open_queue(n_sequences, needed * part / 100,
               &(struct engine_queue_options){.struct_size = sizeof(struct engine_queue_options),
                                              .n_chunk = N_CONTEXT});
    for (uint32_t i = 0; i < N_SAMPLES; i++) {
        cancellers[i] = (struct canceller){&samples[i], i % 7 == 3 ? 1 + i % 5 : 0};
        samples[i].request.event = take_and_cancel;
        samples[i].request.user = &cancellers[i];
        samples[i].request.priority = (int32_t)(i % 3) - 1;
        uint64_t id = submit(&samples[i]);
        if (i % 13 == 5) cr_assert_eq(engine_queue_cancel(queue, id), ENGINE_OK);
        for (uint32_t step = 0; step < i % 4 && !at_once; step++) run(ENGINE_QUEUE_STEP);
    }
    run(ENGINE_QUEUE_IDLE);
    expect_agreement(N_SAMPLES);
    uint32_t n_cancelled = 0;
    for (uint32_t i = 0; i < N_SAMPLES; i++) n_cancelled += samples[i].last.reason == ENGINE_DONE_CANCELLED;
    cr_assert_geq(n_cancelled, 8);
    struct engine_queue_info all = info_of_queue();
    cr_assert_gt(all.n_put_back, 0, "nobody has been put back in %lu steps; cache %lu of %u",
                 (unsigned long)all.n_steps, (unsigned long)all.n_cache, needed);
    cr_assert_eq(info_of_queue().n_cached, 0);
}

Test(queue, a_cache_of_a_third_of_what_is_needed)
{
    run_crowd(N_SAMPLES, 33, true);
}

Test(queue, a_cache_of_a_tenth_of_what_is_needed)
{
    run_crowd(N_SAMPLES, 10, true);
}

Test(queue, higher_priorities_take_places)
{
    run_crowd(5, 100, false);
}

/* A beginning that all have in common is computed once, though all come at once, and takes its room once. */
Test(queue, a_common_beginning)
{
    struct sample *of;
    uint64_t most = 0;
    create_samples(12, 10, 12);
    for (uint32_t i = 0; i < 12; i++) {
        of = &samples[i];
        memmove(of->prompt + 100, of->prompt, of->request.n_tokens * sizeof *of->prompt);
        for (int32_t j = 0; j < 100; j++) of->prompt[j] = 3 + j;
        of->request.n_tokens += 100;
        of->n_tokens = of->text_size = 0;
        cr_assert_eq(sample_run_alone(of, model, alone), ENGINE_OK, "%s", engine_error_message());
        of->request.event = sample_take;
    }
    open_queue(12, 0, NULL);
    for (uint32_t i = 0; i < 12; i++) submit(&samples[i]);
    do {
        run(ENGINE_QUEUE_STEP);
        if (info_of_queue().n_cached > most) most = info_of_queue().n_cached;
    } while (info_of_queue().n_running > 0);
    expect_agreement(12);
    cr_assert_leq(most, 96 + 12 * 32, "%lu", (unsigned long)most);
    cr_assert_eq(info_of_queue().n_reused, 11 * 96, "%lu", (unsigned long)info_of_queue().n_reused);
    cr_assert_eq(samples[5].last.n_reused, 96);
    cr_assert_eq(samples[5].last.n_prompt, samples[5].request.n_tokens);
}

/* The text with a stop text cut out of its middle is what stands before it, however tokens divide it. */
Test(queue, stop_texts_across_tokens)
{
    create_samples(12, 20, 60);
    open_queue(4, 0, NULL);
    struct engine_string stops[12][2];
    size_t at[12];
    for (uint32_t i = 0; i < 12; i++) {
        struct sample *sample = &samples[i];
        size_t length = sample->text_size > 9 ? 6 : 1;
        at[i] = sample->text_size / 2;
        stops[i][0] = (struct engine_string){"never comes \x01\x02", 14};
        stops[i][1] = (struct engine_string){sample->text + at[i], length};
        /* It may come earlier as well. */
        for (size_t j = 0; j < at[i]; j++)
            if (memcmp(sample->text + j, stops[i][1].data, length) == 0) at[i] = j;
        sample->request.stop = stops[i];
        sample->request.n_stop = 2;
        sample->request.event = sample_take;
        if (sample->text_size > 0) submit(sample);
    }
    run(ENGINE_QUEUE_IDLE);
    for (uint32_t i = 0; i < 12; i++) {
        if (samples[i].text_size == 0) continue;
        cr_assert_eq(samples[i].last.reason, ENGINE_DONE_STOP, "request %u", i);
        cr_assert_eq(samples[i].last.stop, 1);
        cr_assert_eq(samples[i].got_text_size, at[i], "request %u: %zu, not %zu", i, samples[i].got_text_size,
                     at[i]);
        cr_assert_eq(memcmp(samples[i].got_text, samples[i].text, at[i]), 0);
    }
}

Test(queue, stop_tokens)
{
    create_samples(1, 20, 60);
    struct sample *sample = &samples[0];
    cr_assert_gt(sample->n_tokens, 3);
    size_t at = 0;
    while (sample->tokens[at] != sample->tokens[2]) at++;
    sample->request.stop_tokens = &sample->tokens[2];
    sample->request.n_stop_tokens = 1;
    sample->request.event = sample_take;
    open_queue(1, 0, NULL);
    submit(sample);
    run(ENGINE_QUEUE_IDLE);
    cr_assert_eq(sample->last.reason, ENGINE_DONE_STOP);
    cr_assert_eq(sample->last.stop, -1);
    cr_assert_eq(sample->n_got_tokens, at);
}

Test(queue, the_context_is_full)
{
    create_samples(2, 100, SAMPLE_TOKENS);
    open_queue(2, 0, NULL);
    for (uint32_t i = 0; i < 2; i++) {
        /* Neither limit nor end: until the context is full. */
        samples[i].request.max_tokens = 0;
        samples[i].request.flags = ENGINE_REQUEST_IGNORE_END;
        samples[i].request.event = sample_take;
        submit(&samples[i]);
    }
    run(ENGINE_QUEUE_IDLE);
    for (uint32_t i = 0; i < 2; i++) {
        cr_assert_eq(samples[i].last.reason, ENGINE_DONE_CONTEXT, "%u", samples[i].last.reason);
        /* The last token need not be in the cache. */
        cr_assert_eq(samples[i].last.n_generated, N_CONTEXT + 1 - samples[i].request.n_tokens);
    }
}

/* ---- ENGINE_DEVICE_BATCH_INVARIANT -------------------------------------------------------------------------- */

#define N_TOGETHER 24

static bool cpu_is_invariant(void)
{
    struct engine_device_entry device;
    size_t count;
    cr_assert_eq(engine_device_count(engine, &count), ENGINE_OK);
    for (size_t i = 0; i < count; i++) {
        cr_assert_eq(engine_device_at(engine, i, &device), ENGINE_OK);
        if (strcmp(device.name, "cpu") == 0) return device.info.flags & ENGINE_DEVICE_BATCH_INVARIANT;
    }
    return false;
}

/* Logits of prompts of 1 to 5 tokens in `n` sequences at once, then of one token more in each. */
static void run_together(uint32_t n, float *logits)
{
    int32_t tokens[5 * N_TOGETHER], sequences[5 * N_TOGETHER];
    uint8_t wanted[5 * N_TOGETHER];
    uint32_t count = 0;
    for (uint32_t s = 0; s < n; s++)
        for (uint32_t i = 0; i <= s % 5; i++, count++) {
            tokens[count] = (int32_t)(3 + s * 13 + i * 7) % N_VOCAB;
            sequences[count] = (int32_t)s;
            wanted[count] = i == s % 5;
        }
    struct engine_batch batch = {.struct_size = sizeof batch,
                                 .n_tokens = count,
                                 .tokens = tokens,
                                 .sequences = sequences,
                                 .wanted = wanted};
    cr_assert_eq(engine_decode(context, &batch, logits), ENGINE_OK, "%s", engine_error_message());
    for (uint32_t s = 0; s < n; s++) tokens[s] = (int32_t)(5 + s), sequences[s] = (int32_t)s, wanted[s] = 1;
    batch.n_tokens = n;
    cr_assert_eq(engine_decode(context, &batch, logits + (size_t)n * N_VOCAB), ENGINE_OK, "%s",
                 engine_error_message());
    engine_context_destroy(context);
    context = NULL;
}

/* The first sequences give the same bits, however many others there are. */
static void compare_widths(uint32_t type)
{
    static const uint32_t widths[] = {1, 2, 3, 4, 7, 8, 15, 16, 17};
    static float all[2 * N_TOGETHER * N_VOCAB], some[2 * N_TOGETHER * N_VOCAB];
    setenv("ENGINE_CPU_INTEGERS", "all", 1); /* else so small a model is computed in float32 */
    open_model_of("", type);
    cr_assert(cpu_is_invariant());
    context = open_context(N_TOGETHER, 0, "cpu");
    run_together(N_TOGETHER, all);
    for (size_t i = 0; i < sizeof widths / sizeof *widths; i++) {
        const uint32_t n = widths[i];
        const size_t size = sizeof(float) * n * N_VOCAB;
        context = open_context(N_TOGETHER, 0, "cpu");
        run_together(n, some);
        cr_assert_eq(memcmp(all, some, size), 0, "type %u: prompts of %u sequences", type, n);
        cr_assert_eq(memcmp(all + (size_t)N_TOGETHER * N_VOCAB, some + (size_t)n * N_VOCAB, size), 0,
                     "type %u: %u sequences", type, n);
    }
}

Test(queue_invariance, f32)
{
    compare_widths(ENGINE_TYPE_F32);
}

Test(queue_invariance, f16)
{
    compare_widths(ENGINE_TYPE_F16);
}

Test(queue_invariance, bf16)
{
    compare_widths(ENGINE_TYPE_BF16);
}

Test(queue_invariance, q8_0)
{
    compare_widths(ENGINE_TYPE_Q8_0);
}

Test(queue_invariance, q4_0)
{
    compare_widths(ENGINE_TYPE_Q4_0);
}

/* ---- Progress, polls, threads ------------------------------------------------------------------------------ */

static void count_prompt(void *user, const struct engine_event *event)
{
    uint32_t *read = user;
    if (event->kind != ENGINE_EVENT_PROMPT) return;
    cr_assert_gt(event->n_prompt, read[0]);
    read[0] = event->n_prompt;
    read[1]++;
}

Test(queue, progress)
{
    uint32_t read[2] = {0};
    create_samples(1, 1, 4);
    samples[0].request.n_tokens = 120; /* zeros behind the first one */
    samples[0].request.flags = ENGINE_REQUEST_PROGRESS;
    samples[0].request.event = count_prompt;
    samples[0].request.user = read;
    open_queue(1, 0, NULL);
    submit(&samples[0]);
    run(ENGINE_QUEUE_IDLE);
    cr_assert_eq(read[0], 64); /* the batch; the rest comes with the first token */
    cr_assert_eq(read[1], 1);
}

static void poll_all(uint64_t id)
{
    struct engine_event *event;
    while (engine_queue_poll(queue, id, 0, &event) == ENGINE_OK && event) {
        sample_take(event->user, event);
        engine_event_free(event);
    }
}

Test(queue, polls)
{
    uint64_t ids[4];
    struct engine_event *event;
    create_samples(4, 50, 30);
    open_queue(2, 0, NULL);
    for (uint32_t i = 0; i < 4; i++) ids[i] = submit(&samples[i]);
    cr_assert_eq(engine_queue_poll(queue, ids[0], 1, &event), ENGINE_OK);
    cr_assert_null(event);
    for (int i = 0; i < 10; i++) {
        run(ENGINE_QUEUE_STEP);
        poll_all(ids[1]);
    }
    run(ENGINE_QUEUE_IDLE);
    poll_all(ids[1]);
    cr_assert_eq(engine_queue_poll(queue, ids[1], -1, &event), ENGINE_ERROR_NOT_FOUND);
    cr_assert_eq(engine_queue_cancel(queue, ids[2]), ENGINE_ERROR_NOT_FOUND); /* done, though not polled */
    poll_all(0);
    expect_agreement(4);
    engine_queue_stop(queue, 0);
    cr_assert_eq(engine_queue_poll(queue, 0, -1, &event), ENGINE_ERROR_NOT_FOUND);
}

static void *run_until_stopped(void *user)
{
    *(int *)user = engine_queue_run(queue, ENGINE_QUEUE_STOPPED);
    return NULL;
}

Test(queue, a_thread_runs_it_until_it_is_stopped)
{
    pthread_t thread;
    int status = -1;
    struct engine_event *event;
    create_samples(8, 50, 30);
    open_queue(3, 0, NULL);
    cr_assert_eq(pthread_create(&thread, NULL, run_until_stopped, &status), 0);
    for (uint32_t i = 0; i < 8; i++) submit(&samples[i]);
    for (uint32_t n_done = 0; n_done < 8;) {
        cr_assert_eq(engine_queue_poll(queue, 0, -1, &event), ENGINE_OK);
        cr_assert(event);
        sample_take(event->user, event);
        n_done += event->kind == ENGINE_EVENT_DONE;
        engine_event_free(event);
    }
    expect_agreement(8);
    while (engine_queue_run(queue, ENGINE_QUEUE_IDLE) == ENGINE_OK)
        continue; /* the other may not have begun */
    cr_assert(strstr(engine_error_message(), "running already"));
    engine_queue_stop(queue, 0);
    pthread_join(thread, NULL);
    cr_assert_eq(status, ENGINE_OK);
    cr_assert_eq(engine_queue_submit(queue, &samples[0].request, NULL), ENGINE_ERROR_BUSY);
}

Test(queue, stopped_at_once)
{
    create_samples(6, 50, 30);
    open_queue(2, 0, NULL);
    for (uint32_t i = 0; i < 6; i++) {
        samples[i].request.event = sample_take;
        submit(&samples[i]);
    }
    run(ENGINE_QUEUE_STEP);
    engine_queue_stop(queue, 1);
    run(ENGINE_QUEUE_STOPPED);
    for (uint32_t i = 0; i < 6; i++) cr_assert_eq(samples[i].n_last, 1, "request %u", i);
    cr_assert_eq(samples[5].last.reason, ENGINE_DONE_CANCELLED);
    expect_agreement(6);
}

Test(queue, destroyed_with_requests)
{
    create_samples(3, 50, 30);
    open_queue(2, 0, NULL);
    for (uint32_t i = 0; i < 3; i++) {
        samples[i].request.event = i > 0 ? sample_take : NULL;
        submit(&samples[i]);
    }
    run(ENGINE_QUEUE_STEP);
    engine_queue_destroy(queue);
    queue = NULL;
    cr_assert_eq(samples[1].last.reason, ENGINE_DONE_CANCELLED);
    cr_assert_eq(samples[2].last.reason, ENGINE_DONE_CANCELLED);
}

/* ---- Refusals and failures --------------------------------------------------------------------------------- */

static void refused(const struct engine_request *request, int status, const char *message)
{
    cr_assert_eq(engine_queue_submit(queue, request, NULL), status);
    cr_assert(strstr(engine_error_message(), message), "%s", engine_error_message());
}

Test(queue, refusals)
{
    static int32_t tokens[N_CONTEXT + 1];
    struct engine_sampler_options sampler = {.struct_size = sizeof sampler, .temperature = -1};
    struct engine_string stop = {"", 0};
    open_queue(
        2, 0,
        &(struct engine_queue_options){.struct_size = sizeof(struct engine_queue_options), .n_waiting = 2});
    struct engine_request good = {
        .struct_size = sizeof good, .tokens = tokens, .n_tokens = 1, .max_tokens = 1};
    struct engine_request bad = good;
    bad.struct_size = 0, refused(&bad, ENGINE_ERROR_ARGUMENT, "struct_size");
    bad = good, bad.n_tokens = 0, refused(&bad, ENGINE_ERROR_ARGUMENT, "the prompt is empty");
    bad = good, bad.n_tokens = N_CONTEXT + 1;
    refused(&bad, ENGINE_ERROR_ARGUMENT, "the prompt has 129 tokens, the context takes 128");
    tokens[1] = N_VOCAB;
    bad = good, bad.n_tokens = 2, refused(&bad, ENGINE_ERROR_ARGUMENT, "token 1 of the prompt is 320");
    bad = good, bad.flags = 1u << 20, refused(&bad, ENGINE_ERROR_ARGUMENT, "unknown flags");
    bad = good, bad.sampler = &sampler, refused(&bad, ENGINE_ERROR_ARGUMENT, "temperature is -1");
    bad = good, bad.stop = &stop, bad.n_stop = 1, refused(&bad, ENGINE_ERROR_ARGUMENT, "stop text 0");
    bad.flags = ENGINE_REQUEST_NO_TEXT;
    refused(&bad, ENGINE_ERROR_ARGUMENT, "stop texts for a request without text");
    cr_assert_eq(engine_queue_submit(queue, &good, NULL), ENGINE_OK);
    cr_assert_eq(engine_queue_submit(queue, &good, NULL), ENGINE_OK);
    refused(&good, ENGINE_ERROR_BUSY, "2 requests are waiting already");
    run(ENGINE_QUEUE_IDLE);
    cr_assert_eq(engine_queue_submit(queue, &good, NULL), ENGINE_OK);
    cr_assert_eq(engine_queue_cancel(queue, 77), ENGINE_ERROR_NOT_FOUND);
}

/* A device that fails in the middle: those who were in the step hear of it, the others fail in turn; nothing hangs. */
Test(queue_faults, a_device_that_fails)
{
    open_model("[toy]\nfail = 300\n");
    context = open_context(3, 0, "toy,cpu");
    cr_assert_eq(engine_queue_create(context, NULL, &queue), ENGINE_OK, "%s", engine_error_message());
    for (uint32_t i = 0; i < 8; i++) {
        sample_create(&samples[i], i, N_VOCAB, 20, 60);
        samples[i].request.event = sample_take;
        samples[i].request.flags = ENGINE_REQUEST_IGNORE_END;
        submit(&samples[i]);
    }
    run(ENGINE_QUEUE_IDLE);
    for (uint32_t i = 0; i < 8; i++) cr_assert_eq(samples[i].n_last, 1, "request %u", i);
    cr_assert_eq(samples[7].last.reason, ENGINE_DONE_FAILED);
    cr_assert_eq(samples[7].last.status, ENGINE_ERROR_DEVICE, "%d", samples[7].last.status);
    cr_assert_eq(info_of_queue().n_cached, 0);
}

/* test-queue-groups.c: several steps at once, each of another group of requests (engine/queue/groups.c): on
 * two devices with a layer each (fixtures/plugins/late.c). Each request still gives what it gives alone. */
#include <criterion/criterion.h>
#include <dlfcn.h>
#include <stdatomic.h>
#include <string.h>

#include "files.h"
#include "queue-fixture.h"

TestSuite(queue_groups, .fini = end_queue, .timeout = 600);

/* A count of the plugin's. */
static unsigned long count_of(const char *name)
{
    void *library = dlopen(LATE_DIR "/late.so", RTLD_NOW | RTLD_NOLOAD);
    cr_assert(library, "%s", dlerror());
    atomic_ulong *count = dlsym(library, name);
    cr_assert(count);
    dlclose(library);
    return atomic_load(count);
}

static void open_late(const char *settings, uint32_t n_sequences, uint32_t n_cache,
                      const struct engine_queue_options *options)
{
    static const char *const place[] = {"token_embd*=late0", "blk.0.*=late0", "*=late1", NULL};
    const int32_t offload = ENGINE_OFFLOAD_ALL;
    more_plugins = LATE_DIR;
    open_model(settings);
    alone = open_context(1, 0, "cpu");
    const struct engine_context_options known = {.struct_size = sizeof known,
                                                 .n_context = N_CONTEXT,
                                                 .n_batch = N_CONTEXT,
                                                 .n_sequences = n_sequences,
                                                 .n_threads = 1,
                                                 .cache_type = "f32",
                                                 .backends = "late",
                                                 .place = place,
                                                 .offload = &offload,
                                                 .n_cache = n_cache};
    cr_assert_eq(engine_context_create(model, &known, &context), ENGINE_OK, "%s", engine_error_message());
    cr_assert_eq(engine_queue_create(context, options, &queue), ENGINE_OK, "%s", engine_error_message());
}

static void submit_all(uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        samples[i].request.event = sample_take;
        submit(&samples[i]);
    }
}

Test(queue_groups, each_gives_what_it_gives_alone)
{
    open_late("", 24, 0, NULL);
    create_samples(24, 40, 60);
    submit_all(24);
    run(ENGINE_QUEUE_IDLE);
    expect_agreement(24);
    cr_assert_eq(count_of("late_most"), 2, "%lu steps at once", count_of("late_most"));
    cr_assert_eq(info_of_queue().n_done, 24);
    cr_assert_eq(info_of_queue().n_cached, 0);
}

/* Those that wait begin when others end. */
Test(queue_groups, more_than_there_are_places)
{
    open_late("", 16, 0, NULL);
    create_samples(N_SAMPLES, 40, 60);
    submit_all(N_SAMPLES);
    run(ENGINE_QUEUE_IDLE);
    expect_agreement(N_SAMPLES);
    cr_assert_eq(count_of("late_most"), 2);
}

/* Run until one is done, which ends in the middle. */
Test(queue_groups, until_a_request_is_done)
{
    open_late("", 16, 0, NULL);
    create_samples(24, 40, 60);
    submit_all(24);
    for (uint64_t n_done = 0; n_done < 24; n_done = info_of_queue().n_done) {
        run(ENGINE_QUEUE_DONE);
        cr_assert_gt(info_of_queue().n_done, n_done);
    }
    expect_agreement(24);
    cr_assert_eq(count_of("late_most"), 2);
}

/* One comes in the middle. */
static void take_and_submit(void *user, const struct engine_event *event)
{
    static int n_events;
    take_and_cancel(user, event);
    if (++n_events == 200) submit(&samples[N_SAMPLES - 1]);
}

Test(queue_groups, little_cache_priorities_cancellations)
{
    uint32_t needed = 0, n_cancelled = 0;
    open_late("", N_SAMPLES, 700, NULL);
    create_samples(N_SAMPLES, 40, 60);
    for (uint32_t i = 0; i < N_SAMPLES; i++) {
        needed += (uint32_t)(samples[i].request.n_tokens + samples[i].n_tokens + 31) / 32 * 32;
        vary_sample(i);
        samples[i].request.event = take_and_submit;
        if (i + 1 < N_SAMPLES) submit(&samples[i]);
    }
    cr_assert_gt(needed, 2 * 700);
    run(ENGINE_QUEUE_IDLE);
    expect_agreement(N_SAMPLES);
    for (uint32_t i = 0; i < N_SAMPLES; i++) n_cancelled += samples[i].last.reason == ENGINE_DONE_CANCELLED;
    cr_assert_geq(n_cancelled, 5);
    cr_assert_gt(info_of_queue().n_put_back, 0);
    cr_assert_eq(info_of_queue().n_cached, 0);
    cr_assert_eq(count_of("late_most"), 2);
}

/* Sequences with a common beginning share blocks, which those that go on in them have to copy. */
Test(queue_groups, a_common_beginning)
{
    open_late("", 16, 0, NULL);
    create_samples(16, 10, 40);
    for (uint32_t i = 0; i < 16; i++) {
        struct sample *of = &samples[i];
        memmove(of->prompt + 70, of->prompt, of->request.n_tokens * sizeof *of->prompt);
        for (int32_t j = 0; j < 70; j++) of->prompt[j] = 3 + j;
        of->request.n_tokens += 70;
        of->n_tokens = of->text_size = 0;
        cr_assert_eq(sample_run_alone(of, model, alone), ENGINE_OK, "%s", engine_error_message());
    }
    submit_all(16);
    run(ENGINE_QUEUE_IDLE);
    expect_agreement(16);
    cr_assert_eq(info_of_queue().n_reused, 15 * 64, "%lu", (unsigned long)info_of_queue().n_reused);
    cr_assert_eq(count_of("late_most"), 2);
}

/* All that are on their way fail, with the device's reason; the others, and those that come later, do not. */
Test(queue_groups, a_device_that_fails)
{
    uint32_t n_failed = 0;
    open_late("[late]\nfail = 9\n", 16, 0, NULL);
    create_samples(16, 20, 60);
    submit_all(16);
    run(ENGINE_QUEUE_IDLE);
    for (uint32_t i = 0; i < 16; i++) {
        cr_assert_eq(samples[i].n_last, 1, "request %u", i);
        bool failed = samples[i].last.reason == ENGINE_DONE_FAILED;
        n_failed += failed;
        cr_assert(failed || sample_agrees(&samples[i]), "request %u", i);
    }
    cr_assert_geq(n_failed, 9, "%u have failed", n_failed);
    cr_assert_eq(info_of_queue().n_cached, 0);
    forget_results(16);
    submit_all(16);
    run(ENGINE_QUEUE_IDLE);
    expect_agreement(16);
}

/* Where memory runs out, a step as usual says who has to make room: here, nobody. */
static void run_without_room(const char *settings)
{
    open_late(settings, 16, 0, NULL);
    create_samples(16, 20, 60);
    submit_all(16);
    run(ENGINE_QUEUE_IDLE);
    expect_agreement(16);
}

Test(queue_groups, memory_that_runs_out_while_computing)
{
    run_without_room("[late]\nfull = waits\n");
    cr_assert_gt(count_of("late_all"), 0);
}

Test(queue_groups, memory_that_runs_out_at_a_start)
{
    run_without_room("[late]\nfull = marks\n");
    cr_assert_eq(count_of("late_all"), 0);
}

/* One step at a time is one at a time, and guesses and few requests have steps of their own. */
Test(queue_groups, not_where_it_does_not_pay)
{
    open_late("", 24, 0, NULL);
    create_samples(24, 40, 20);
    submit_all(24);
    while (info_of_queue().n_done < 24) run(ENGINE_QUEUE_STEP);
    expect_agreement(24);
    forget_results(24);
    submit_all(4);
    run(ENGINE_QUEUE_IDLE);
    expect_agreement(4);
    forget_results(24);
    engine_queue_destroy(queue);
    const struct engine_queue_options lookup = {.struct_size = sizeof lookup, .lookup = 1};
    cr_assert_eq(engine_queue_create(context, &lookup, &queue), ENGINE_OK);
    submit_all(24);
    run(ENGINE_QUEUE_IDLE);
    expect_agreement(24);
    cr_assert_eq(count_of("late_all"), 0);
}

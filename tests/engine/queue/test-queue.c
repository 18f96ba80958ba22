/* test-queue.c: many requests at once: each gives what it gives alone, whoever else is there. */
#include <criterion/criterion.h>
#include <pthread.h>
#include <string.h>

#include "queue-fixture.h"

TestSuite(queue, .init = begin_queue, .fini = end_queue, .timeout = 1200);
TestSuite(queue_faults, .fini = end_queue, .timeout = 1200);

/* ---- Texts --------------------------------------------------------------------------------------------- */

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

/* Until one is done: then another one can be submitted. */
Test(queue, until_a_request_is_done)
{
    uint64_t n_runs = 0, n_done = 0;
    create_samples(12, 40, 30);
    open_queue(4, 0, NULL);
    for (uint32_t i = 0; i < 12; i++) samples[i].request.event = sample_take;
    for (uint32_t i = 0; i < 6; i++) submit(&samples[i]);
    for (uint32_t next = 6; n_done < 12; n_runs++) {
        run(ENGINE_QUEUE_DONE);
        cr_assert_gt(info_of_queue().n_done, n_done);
        for (; n_done < info_of_queue().n_done; n_done++)
            if (next < 12) submit(&samples[next++]);
    }
    expect_agreement(12);
    cr_assert_gt(info_of_queue().n_steps, 2 * n_runs);
    run(ENGINE_QUEUE_DONE); /* none is left */
}

/* All of them at once, of three priorities, some cancelled while they wait or run, with a cache for `part` of
 * a hundredth of what they need. */
static void run_crowd(uint32_t n_sequences, uint32_t part, bool at_once)
{
    uint32_t needed = 0;
    n_batch = N_CONTEXT;
    create_samples(N_SAMPLES, 100, 60);
    for (uint32_t i = 0; i < N_SAMPLES; i++)
        needed += (uint32_t)(samples[i].request.n_tokens + samples[i].n_tokens + 31) / 32 * 32;
    open_queue(n_sequences, needed * part / 100,
               &(struct engine_queue_options){.struct_size = sizeof(struct engine_queue_options),
                                              .n_chunk = N_CONTEXT});
    for (uint32_t i = 0; i < N_SAMPLES; i++) {
        vary_sample(i);
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

/* ---- Progress, polls, threads -------------------------------------------------------------------------- */

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

/* ---- Refusals and failures ----------------------------------------------------------------------------- */

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

/* A device that fails in the middle: those who were in the step hear of it, the others fail in turn; nothing
 * hangs. */
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

/* test-queue-kept.c: sequences that outlive their requests (ENGINE_REQUEST_KEEP): later requests go on with
 * them, and nobody's text depends on them. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "files.h"
#include "queue-fixture.h"

TestSuite(queue_kept, .init = begin_queue, .fini = end_queue, .timeout = 1200);
TestSuite(queue_kept_faults, .fini = end_queue, .timeout = 1200);

/* A request in place of sample `number`, with what it gives alone. */
static struct sample *prepare(uint32_t number, const int32_t *tokens, size_t n_tokens, uint32_t most)
{
    struct sample *sample = &samples[number];
    sample_create(sample, number, N_VOCAB, 1, 1);
    memcpy(sample->prompt, tokens, n_tokens * sizeof *tokens);
    sample->request.n_tokens = n_tokens;
    sample->request.max_tokens = most;
    sample->request.flags = ENGINE_REQUEST_KEEP;
    sample->request.event = sample_take;
    cr_assert_eq(sample_run_alone(sample, model, alone), ENGINE_OK, "%s", engine_error_message());
    return sample;
}

static void run_sample(struct sample *sample)
{
    submit(sample);
    run(ENGINE_QUEUE_IDLE);
    cr_assert(sample_agrees(sample), "reason %u, %zu tokens of %zu", sample->last.reason,
              sample->n_got_tokens, sample->n_tokens);
}

/* Appends what a sample said, and new tokens. */
static size_t take_turn(int32_t *text, size_t n, const struct sample *sample, size_t n_new)
{
    memcpy(text + n, sample->got_tokens, sample->n_got_tokens * sizeof *text);
    n += sample->n_got_tokens;
    for (size_t i = 0; i < n_new; i++) text[n + i] = (int32_t)(30 + n + i * i);
    return n + n_new;
}

/* Every turn computes its new tokens alone, and the last one of the turn before. */
static void converse(const struct engine_queue_options *options)
{
    int32_t text[SAMPLE_TOKENS] = {5, 6, 7, 8, 9, 7, 8, 9, 7, 8};
    size_t n = 10, n_kept = 0;
    open_queue(1, 0, options);
    for (uint32_t turn = 0; turn < 5; turn++) {
        struct sample *sample = prepare(turn, text, n, 9);
        run_sample(sample);
        cr_assert_eq(sample->last.n_reused, n_kept, "turn %u: %u, not %zu", turn, sample->last.n_reused,
                     n_kept);
        cr_assert_eq(sample->last.sequence, 0);
        cr_assert_eq(info_of_queue().n_kept, 1);
        n_kept = n + sample->n_got_tokens - (sample->last.reason == ENGINE_DONE_LIMIT);
        n = take_turn(text, n, sample, 7);
        cr_assert_eq(engine_sequence_length(context, 0), n_kept);
        int32_t kept[SAMPLE_TOKENS];
        cr_assert_eq(engine_sequence_tokens(context, 0, 0, (uint32_t)n_kept, kept), ENGINE_OK);
        cr_assert_arr_eq(kept, text, n_kept * sizeof *kept);
    }
}

Test(queue_kept, turns_of_a_conversation)
{
    converse(NULL);
}

Test(queue_kept, turns_with_lookup)
{
    converse(&(struct engine_queue_options){.struct_size = sizeof(struct engine_queue_options),
                                            .lookup = 1,
                                            .n_guess_least = 5,
                                            .n_guess_most = 5});
}

Test(queue_kept, turns_with_a_draft)
{
    struct engine_context *draft = open_context(1, 0, "cpu");
    converse(&(struct engine_queue_options){.struct_size = sizeof(struct engine_queue_options),
                                            .draft = draft,
                                            .n_guess_least = 4,
                                            .n_guess_most = 4});
    engine_queue_destroy(queue);
    queue = NULL;
    engine_context_destroy(draft);
}

/* What a text has in common with the kept one is reused, to the token. */
Test(queue_kept, a_text_that_branches_off)
{
    int32_t text[60];
    for (int i = 0; i < 60; i++) text[i] = 10 + i;
    open_queue(1, 0, NULL);
    run_sample(prepare(0, text, 60, 8));
    text[45] = 9;
    struct sample *sample = prepare(1, text, 60, 8);
    run_sample(sample);
    cr_assert_eq(sample->last.n_reused, 45, "%u", sample->last.n_reused);
    sample = prepare(2, text, 12, 8);
    run_sample(sample);
    cr_assert_eq(sample->last.n_reused, 11, "%u", sample->last.n_reused);
    text[0] = 4;
    sample = prepare(3, text, 12, 8);
    sample->request.flags = 0;
    run_sample(sample);
    cr_assert_eq(sample->last.n_reused, 0);
    cr_assert_eq(sample->last.sequence, -1);
    cr_assert_eq(info_of_queue().n_kept, 0);
    cr_assert_eq(info_of_queue().n_cached, 0);
}

/* With room for both, the kept text stays, and another that begins alike shares it to the token, however
 * little that is. */
Test(queue_kept, beginnings_of_any_length)
{
    for (uint32_t n_common = 1; n_common < 70; n_common += 11) {
        int32_t text[72], other[72];
        for (int i = 0; i < 72; i++) text[i] = other[i] = 10 + i;
        for (uint32_t i = n_common; i < 72; i++) other[i] = 9;
        open_queue(3, 0, NULL);
        run_sample(prepare(0, text, 72, 8));
        struct sample *sample = prepare(1, other, n_common + 3, 8);
        run_sample(sample);
        cr_assert_eq(sample->last.n_reused, n_common, "%u, not %u", sample->last.n_reused, n_common);
        cr_assert_eq(info_of_queue().n_kept, 2);
        sample = prepare(2, text, 72, 8); /* which is as it was */
        run_sample(sample);
        cr_assert_eq(sample->last.n_reused, 71, "%u", sample->last.n_reused);
        engine_queue_destroy(queue);
        engine_context_destroy(context);
        queue = NULL;
        context = NULL;
    }
}

/* A prompt that is only read, saved, loaded into another context and continued there. */
static int write_piece(void *user, const void *data, size_t size)
{
    return fwrite(data, 1, size, user) == size ? ENGINE_OK : ENGINE_ERROR;
}

Test(queue_kept, saved_and_loaded)
{
    int32_t text[50];
    for (int i = 0; i < 50; i++) text[i] = 10 + i * 3;
    char *folder = files_folder();
    const char *path = files_path(folder, "saved");
    open_queue(1, 0, NULL);
    struct sample *sample = prepare(0, text, 50, 8);
    sample->request.flags |= ENGINE_REQUEST_NO_TOKENS;
    submit(sample);
    run(ENGINE_QUEUE_IDLE);
    cr_assert_eq(sample->last.reason, ENGINE_DONE_LIMIT);
    cr_assert_eq(sample->last.n_generated, 0);
    engine_queue_destroy(queue);
    cr_assert_eq(engine_sequence_length(context, 0), 50); /* it outlives the queue */
    FILE *file = fopen(path, "wb");
    cr_assert(file);
    cr_assert_eq(engine_sequence_save(context, 0, write_piece, file), ENGINE_OK, "%s",
                 engine_error_message());
    fclose(file);
    engine_context_destroy(context);

    context = open_context(3, 0, "cpu");
    cr_assert_eq(engine_sequence_load(context, 1, path), ENGINE_OK, "%s", engine_error_message());
    cr_assert_eq(engine_queue_create(context, NULL, &queue), ENGINE_OK, "%s", engine_error_message());
    sample = prepare(0, text, 50, 8);
    run_sample(sample);
    cr_assert_eq(sample->last.n_reused, 49, "%u", sample->last.n_reused);
    cr_assert_eq(sample->last.sequence, 1);
    files_remove(folder);
    free(folder);
}

/* Of two kept sequences, the first gives way to a third text; the other is still there. */
Test(queue_kept, the_oldest_gives_way)
{
    int32_t texts[3][20], longer[40];
    for (int t = 0; t < 3; t++)
        for (int i = 0; i < 20; i++) texts[t][i] = 10 + 50 * t + i;
    open_queue(2, 0, NULL);
    run_sample(prepare(0, texts[0], 20, 6));
    struct sample *second = prepare(1, texts[1], 20, 6);
    run_sample(second);
    cr_assert_eq(second->last.sequence, 1);
    struct sample *third = prepare(2, texts[2], 20, 6);
    run_sample(third);
    cr_assert_eq(third->last.sequence, 0);
    cr_assert_eq(info_of_queue().n_kept, 2);
    memcpy(longer, texts[1], sizeof texts[1]);
    size_t n = take_turn(longer, 20, second, 5);
    size_t n_kept = n - 5 - (second->last.reason == ENGINE_DONE_LIMIT);
    struct sample *turn = prepare(3, longer, n, 6);
    run_sample(turn);
    cr_assert_eq(turn->last.n_reused, n_kept, "%u, not %zu", turn->last.n_reused, n_kept);
    cr_assert_eq(turn->last.sequence, 1);
}

/* All want to keep their sequences, some are cancelled, and the cache has room for few of them. */
static void run_crowd(uint32_t n_sequences, uint32_t n_cache)
{
    uint32_t n_kept = 0;
    create_samples(32, 90, 30);
    open_queue(n_sequences, n_cache, NULL);
    for (uint32_t i = 0; i < 32; i++) {
        vary_sample(i);
        samples[i].request.flags |= ENGINE_REQUEST_KEEP;
        submit(&samples[i]);
        for (uint32_t step = 0; step < i % 4; step++) run(ENGINE_QUEUE_STEP);
    }
    run(ENGINE_QUEUE_IDLE);
    expect_agreement(32);
    for (uint32_t i = 0; i < 32; i++) n_kept += samples[i].last.sequence >= 0;
    cr_assert_gt(n_kept, 16, "%u", n_kept);
    cr_assert_gt(info_of_queue().n_kept, 0);
    cr_assert_leq(info_of_queue().n_kept, n_sequences);
}

Test(queue_kept, more_requests_than_sequences)
{
    run_crowd(3, 0);
}

Test(queue_kept, more_requests_than_cache)
{
    run_crowd(8, 192);
}

Test(queue_kept_faults, a_failure_keeps_nothing)
{
    open_model("[toy]\nfail = 300\n");
    context = open_context(1, 0, "toy,cpu");
    cr_assert_eq(engine_queue_create(context, NULL, &queue), ENGINE_OK, "%s", engine_error_message());
    sample_create(&samples[0], 0, N_VOCAB, 20, 1);
    samples[0].request.event = sample_take;
    samples[0].request.max_tokens = 0;
    samples[0].request.flags = ENGINE_REQUEST_IGNORE_END | ENGINE_REQUEST_KEEP;
    submit(&samples[0]);
    run(ENGINE_QUEUE_IDLE);
    cr_assert_eq(samples[0].last.reason, ENGINE_DONE_FAILED, "%u", samples[0].last.reason);
    cr_assert_eq(samples[0].last.sequence, -1);
    cr_assert_eq(info_of_queue().n_kept + info_of_queue().n_cached, 0);
}

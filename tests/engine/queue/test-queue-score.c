/* test-queue-score.c: requests that ask for the probabilities of their own prompt's tokens (n_score). */
#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "queue-fixture.h"

TestSuite(queue_score, .init = begin_queue, .fini = end_queue, .timeout = 1200);

#define MOST 100 /* tokens of a prompt */
enum { N_SCORED_SAMPLES = 12, N_RIVALS = 4 };

/* A request and what it was told. */
struct scored {
    int32_t tokens[MOST];
    struct engine_request request;
    int32_t got_tokens[MOST];
    float logprobs[MOST];
    struct engine_token_logprob rivals[MOST][N_RIVALS];
    uint32_t n_rivals[MOST];
    size_t n_scores, n_generated; /* SCORE and TOKEN events */
    bool mixed;                   /* a SCORE after a TOKEN or after DONE */
    struct engine_event last;
};

static struct scored scored[N_SCORED_SAMPLES];

static void take(void *user, const struct engine_event *event)
{
    struct scored *s = user;
    if (event->kind == ENGINE_EVENT_SCORE && s->n_scores < MOST) {
        s->mixed |= s->n_generated > 0 || s->last.kind == ENGINE_EVENT_DONE;
        s->got_tokens[s->n_scores] = event->token;
        s->n_rivals[s->n_scores] = event->n_top;
        for (uint32_t i = 0; i < event->n_top && i < N_RIVALS; i++) s->rivals[s->n_scores][i] = event->top[i];
        s->logprobs[s->n_scores++] = event->logprob;
    }
    s->n_generated += event->kind == ENGINE_EVENT_TOKEN;
    s->last = *event;
}

static struct scored *prepare(int number, size_t n_tokens, uint32_t n_score)
{
    struct scored *s = &scored[number];
    *s = (struct scored){.request = {.struct_size = sizeof s->request,
                                     .tokens = s->tokens,
                                     .n_tokens = n_tokens,
                                     .flags = ENGINE_REQUEST_NO_TOKENS | ENGINE_REQUEST_NO_TEXT,
                                     .event = take,
                                     .user = s,
                                     .n_score = n_score}};
    for (size_t i = 0; i < n_tokens; i++)
        s->tokens[i] = (int32_t)((i * i + 17 * i + 31 * (size_t)number) % N_VOCAB);
    return s;
}

static void submit_scored(struct scored *s)
{
    cr_assert_eq(engine_queue_submit(queue, &s->request, NULL), ENGINE_OK, "%s", engine_error_message());
}

/* The logarithm of a token's probability, by the definition. */
static double logprob_of(const float *logits, int32_t token)
{
    double highest = -INFINITY, sum = 0;
    for (int i = 0; i < N_VOCAB; i++)
        if (logits[i] > highest) highest = logits[i];
    for (int i = 0; i < N_VOCAB; i++) sum += exp(logits[i] - highest);
    return logits[token] - highest - log(sum);
}

/* Against the logits of the prompt alone. */
static void expect_scores(const struct scored *s)
{
    size_t n = s->request.n_tokens, first = n - s->request.n_score;
    float *logits = malloc(n * N_VOCAB * sizeof *logits);
    uint8_t wanted[MOST];
    memset(wanted, 1, n);
    struct engine_batch batch = {
        .struct_size = sizeof batch, .n_tokens = n, .tokens = s->tokens, .wanted = wanted};
    cr_assert_eq(engine_sequence_truncate(alone, 0, 0), ENGINE_OK);
    cr_assert_eq(engine_decode(alone, &batch, logits), ENGINE_OK, "%s", engine_error_message());
    cr_assert_eq(s->last.kind, ENGINE_EVENT_DONE);
    cr_assert_eq(s->last.reason, ENGINE_DONE_LIMIT, "%u: %s", s->last.reason, s->last.message);
    cr_assert_eq(s->n_scores, s->request.n_score, "%zu of %u", s->n_scores, s->request.n_score);
    cr_assert(!s->mixed);
    for (size_t i = 0; i < s->n_scores; i++) {
        const float *row = logits + (first + i - 1) * N_VOCAB;
        cr_assert_eq(s->got_tokens[i], s->tokens[first + i]);
        double expected = logprob_of(row, s->got_tokens[i]);
        cr_assert_float_eq(s->logprobs[i], expected, 1e-6, "score %zu: %f, not %f", i, s->logprobs[i],
                           expected);
        cr_assert_eq(s->n_rivals[i], s->request.n_logprobs);
        for (uint32_t r = 0; r < s->n_rivals[i]; r++) {
            expected = logprob_of(row, s->rivals[i][r].token);
            cr_assert_float_eq(s->rivals[i][r].logprob, expected, 1e-6);
            cr_assert(r == 0 || s->rivals[i][r].logprob <= s->rivals[i][r - 1].logprob);
        }
    }
    free(logits);
}

/* Longer than a batch, so that rows come from several steps. */
Test(queue_score, scores_are_log_softmax)
{
    open_queue(1, 0, NULL);
    const uint32_t counts[] = {99, 1, 2, 64, 35, 36, 37};
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
        struct scored *s = prepare(0, 100, counts[i]);
        s->request.n_logprobs = i % 2 ? N_RIVALS : 0;
        submit_scored(s);
        run(ENGINE_QUEUE_IDLE);
        expect_scores(s);
    }
    struct scored *shortest = prepare(0, 2, 1);
    submit_scored(shortest);
    run(ENGINE_QUEUE_IDLE);
    expect_scores(shortest);
}

Test(queue_score, text_follows_the_scores)
{
    open_queue(1, 0, NULL);
    struct scored *s = prepare(0, 40, 39);
    s->request.flags = ENGINE_REQUEST_NO_TEXT | ENGINE_REQUEST_IGNORE_END;
    s->request.max_tokens = 5;
    submit_scored(s);
    run(ENGINE_QUEUE_IDLE);
    expect_scores(s);
    cr_assert_eq(s->n_generated, 5);
}

/* Answers to one prompt, submitted at once: what they share is computed once, in whole blocks, but never a
 * token whose logits are needed. */
Test(queue_score, what_prompts_share_is_computed_once)
{
    open_queue(4, 0, NULL);
    const struct scored *prepared = prepare(N_SCORED_SAMPLES - 1, 75, 5);
    for (int i = 0; i < 4; i++) {
        struct scored *s = prepare(i, 75, 5);
        memcpy(s->tokens, prepared->tokens, sizeof s->tokens);
        s->tokens[71] = 100 + i;
        submit_scored(s);
    }
    run(ENGINE_QUEUE_IDLE);
    for (int i = 0; i < 4; i++) expect_scores(&scored[i]);
    cr_assert_eq(info_of_queue().n_prompt, 75 + 3 * (75 - 64), "%llu",
                 (unsigned long long)info_of_queue().n_prompt);

    /* All of it is in the cache now. */
    struct scored *again = prepare(0, 75, 70);
    memcpy(again->tokens, scored[1].tokens, sizeof again->tokens);
    submit_scored(again);
    run(ENGINE_QUEUE_IDLE);
    expect_scores(again);
    cr_assert_eq(again->last.n_reused, 0, "%u", again->last.n_reused);
    again = prepare(0, 75, 42);
    memcpy(again->tokens, scored[1].tokens, sizeof again->tokens);
    submit_scored(again);
    run(ENGINE_QUEUE_IDLE);
    expect_scores(again);
    cr_assert_eq(again->last.n_reused, 32, "%u", again->last.n_reused);
}

/* A small cache: requests are put back while they are scored, by others of a higher priority, and no token is
 * reported twice. */
Test(queue_score, requests_that_are_put_back)
{
    open_queue(4, 160, NULL);
    for (int i = 0; i < N_SCORED_SAMPLES; i++) {
        struct scored *s = prepare(i, (size_t)(60 + 3 * i), (uint32_t)(20 + 4 * i));
        s->request.priority = i;
        submit_scored(s);
        run(ENGINE_QUEUE_STEP);
    }
    run(ENGINE_QUEUE_IDLE);
    for (int i = 0; i < N_SCORED_SAMPLES; i++) expect_scores(&scored[i]);
    cr_assert_gt(info_of_queue().n_put_back, 0);
}

Test(queue_score, polled_events)
{
    struct engine_event *event;
    uint64_t id;
    size_t n = 0;
    open_queue(1, 0, NULL);
    struct scored *s = prepare(0, 30, 10);
    s->request.event = NULL;
    s->request.n_logprobs = 2;
    cr_assert_eq(engine_queue_submit(queue, &s->request, &id), ENGINE_OK);
    run(ENGINE_QUEUE_IDLE);
    while (engine_queue_poll(queue, id, 0, &event) == ENGINE_OK && event) {
        cr_assert(event->kind != ENGINE_EVENT_SCORE || event->n_top == 2);
        take(s, event);
        engine_event_free(event);
        n++;
    }
    cr_assert_eq(n, 11);
    expect_scores(s);
}

Test(queue_score, nothing_precedes_the_first_token)
{
    open_queue(1, 0, NULL);
    for (uint32_t n_score = 5; n_score < 7; n_score++) {
        struct scored *s = prepare(0, 5, n_score);
        cr_assert_eq(engine_queue_submit(queue, &s->request, NULL), ENGINE_ERROR_ARGUMENT);
        cr_assert(strstr(engine_error_message(), "at most 4"), "%s", engine_error_message());
    }
}

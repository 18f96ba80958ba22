/* test-queue-logprobs.c: the probabilities in the events of requests: those of the model's logits, whatever
 * the sampler does, also if the events are polled, with guesses, and if requests are put back. */
#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "queue-fixture.h"

#define N_TOP   5
#define MAX_NEW 40

TestSuite(queue_logprobs, .init = begin_queue, .fini = end_queue, .timeout = 1200);

struct expected {
    int32_t token;
    struct engine_token_logprob own, top[N_VOCAB];
};

static int by_logprob(const void *a, const void *b)
{
    const struct engine_token_logprob *x = a, *y = b;
    if (x->logprob != y->logprob) return x->logprob > y->logprob ? -1 : 1;
    return (x->token > y->token) - (x->token < y->token);
}

/* From the logits after the prompt and the first n tokens of the text; sequence 0 of `alone`. */
static void expect_of(const float *logits, int32_t token, struct expected *expected)
{
    double highest = -INFINITY, sum = 0;
    for (size_t i = 0; i < N_VOCAB; i++) highest = fmax(highest, (double)logits[i]);
    for (size_t i = 0; i < N_VOCAB; i++) sum += exp((double)logits[i] - highest);
    for (int32_t i = 0; i < N_VOCAB; i++)
        expected->top[i] = (struct engine_token_logprob){i, (float)((double)logits[i] - highest - log(sum))};
    expected->own = expected->top[token];
    qsort(expected->top, N_VOCAB, sizeof *expected->top, by_logprob);
}

/* What the tokens that a request got should have had. */
static void compute(const struct sample *sample, struct expected *expected)
{
    float logits[N_VOCAB];
    struct engine_batch batch = {
        .struct_size = sizeof batch, .n_tokens = sample->request.n_tokens, .tokens = sample->prompt};
    cr_assert_eq(engine_sequence_truncate(alone, 0, 0), ENGINE_OK);
    for (size_t i = 0; i < sample->n_got_tokens; i++) {
        cr_assert_eq(engine_decode(alone, &batch, logits), ENGINE_OK);
        expect_of(logits, sample->got_tokens[i], &expected[i]);
        batch.n_tokens = 1;
        batch.tokens = &sample->got_tokens[i];
    }
}

static void check_event(const struct engine_event *event, const struct expected *expected, uint32_t n_top)
{
    cr_assert_eq(event->n_top, n_top);
    cr_assert_float_eq(event->logprob, expected->own.logprob, 1e-4, "%f, not %f", (double)event->logprob,
                       (double)expected->own.logprob);
    for (uint32_t i = 0; i < n_top; i++) {
        cr_assert_float_eq(event->top[i].logprob, expected->top[i].logprob, 1e-4);
        cr_assert(event->top[i].token == expected->top[i].token ||
                      fabsf(expected->top[i].logprob - event->top[i].logprob) < 1e-4f,
                  "%d", event->top[i].token);
    }
}

/* Events of a request: [*n], polled. */
static void poll_events(uint64_t id, struct sample *sample, struct engine_event **events, size_t *n)
{
    struct engine_event *event = NULL;
    *n = 0;
    while (engine_queue_poll(queue, id, 0, &event) == ENGINE_OK && event) {
        sample_take(sample, event);
        if (event->kind == ENGINE_EVENT_TOKEN)
            events[(*n)++] = event;
        else
            engine_event_free(event);
    }
}

/* Several requests with odd samplers; events are looked at after the queue is gone. */
static void check(uint32_t n, uint32_t n_cache, const struct engine_queue_options *options)
{
    static const struct engine_logit_bias bias[] = {{7, 5}, {9, -INFINITY}};
    static struct engine_event *events[N_SAMPLES][SAMPLE_TOKENS];
    static struct expected expected[SAMPLE_TOKENS];
    size_t n_events[N_SAMPLES];
    uint64_t ids[N_SAMPLES];
    open_queue(3, n_cache, options);
    for (uint32_t i = 0; i < n; i++) {
        sample_create(&samples[i], i, N_VOCAB, 30, MAX_NEW);
        samples[i].request.n_logprobs = i % 3 == 0 ? 1 : i % 3 == 1 ? N_TOP : 1000;
        samples[i].sampler.logit_bias = bias;
        samples[i].sampler.n_logit_bias = 2;
        samples[i].sampler.penalty_repeat = 1.3f;
        samples[i].sampler.penalty_last_n = 64;
        ids[i] = submit(&samples[i]);
    }
    run(ENGINE_QUEUE_IDLE);
    for (uint32_t i = 0; i < n; i++) poll_events(ids[i], &samples[i], events[i], &n_events[i]);
    engine_queue_destroy(queue);
    queue = NULL;
    for (uint32_t i = 0; i < n; i++) {
        cr_assert_eq(n_events[i], samples[i].n_got_tokens);
        cr_assert_gt(n_events[i], 0);
        compute(&samples[i], expected);
        for (size_t k = 0; k < n_events[i]; k++) {
            cr_assert_eq(events[i][k]->token, samples[i].got_tokens[k]);
            check_event(events[i][k], &expected[k],
                        samples[i].request.n_logprobs < N_VOCAB ? samples[i].request.n_logprobs : N_VOCAB);
            engine_event_free(events[i][k]);
        }
    }
}

Test(queue_logprobs, polled)
{
    check(6, 0, NULL);
}

Test(queue_logprobs, put_back)
{
    check(6, 144, NULL);
}

Test(queue_logprobs, guessed)
{
    const struct engine_queue_options options = {
        .struct_size = sizeof options, .lookup = 1, .n_guess_least = 3, .n_guess_most = 3};
    check(4, 0, &options);
}

/* Without n_logprobs there are none, and too many are refused. */
Test(queue_logprobs, not_asked_for)
{
    static struct engine_event *events[SAMPLE_TOKENS];
    size_t n;
    open_queue(1, 0, NULL);
    sample_create(&samples[0], 0, N_VOCAB, 10, 5);
    uint64_t id = submit(&samples[0]);
    run(ENGINE_QUEUE_IDLE);
    poll_events(id, &samples[0], events, &n);
    for (size_t i = 0; i < n; i++) {
        cr_assert_eq(events[i]->n_top, 0);
        engine_event_free(events[i]);
    }
    samples[0].request.n_logprobs = 1001;
    cr_assert_eq(engine_queue_submit(queue, &samples[0].request, NULL), ENGINE_ERROR_ARGUMENT);
    cr_assert(strstr(engine_error_message(), "n_logprobs is 1001"), "%s", engine_error_message());
}

/* test-queue-embed.c: states after the final norm (engine_batch.states), and requests for embeddings. */
#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "queue-fixture.h"

TestSuite(queue_embed, .init = begin_queue, .fini = end_queue, .timeout = 1200);

#define MOST 100 /* tokens of a prompt */
enum { N_PROMPTS = 9 };

static int32_t prompts[N_PROMPTS][MOST];
static size_t lengths[N_PROMPTS];
static float *embeddings[N_PROMPTS]; /* as the queue gave them */
static uint32_t n_embd;

static void make_prompts(void)
{
    struct engine_context_info info = {.struct_size = sizeof info};
    cr_assert_eq(engine_context_get_info(alone, &info), ENGINE_OK);
    n_embd = info.n_embd;
    cr_assert_gt(n_embd, 0);
    for (int p = 0; p < N_PROMPTS; p++) {
        lengths[p] = p == 0 ? 1 : (size_t)(MOST - 11 * p);
        for (size_t i = 0; i < lengths[p]; i++) /* some begin alike */
            prompts[p][i] = (int32_t)((i * i + 17 * i + 31 * (size_t)(p / 2)) % N_VOCAB);
    }
}

static float *states_alone(const int32_t *tokens, size_t n)
{
    float *states = malloc(n * n_embd * sizeof *states);
    struct engine_batch batch = {
        .struct_size = sizeof batch, .n_tokens = n, .tokens = tokens, .states = states};
    cr_assert_eq(engine_sequence_truncate(alone, 0, 0), ENGINE_OK);
    cr_assert_eq(engine_decode(alone, &batch, NULL), ENGINE_OK, "%s", engine_error_message());
    return states;
}

static void take(void *user, const struct engine_event *event)
{
    size_t number = (size_t)((float **)user - embeddings);
    cr_assert_eq(event->kind, ENGINE_EVENT_DONE);
    cr_assert_eq(event->reason, ENGINE_DONE_LIMIT, "%s", event->message);
    cr_assert_eq(event->n_embd, n_embd);
    cr_assert_eq(event->n_prompt, lengths[number]);
    embeddings[number] = malloc(n_embd * sizeof(float));
    memcpy(embeddings[number], event->embedding, n_embd * sizeof(float));
}

static struct engine_request embed(int number, uint32_t pooling)
{
    return (struct engine_request){.struct_size = sizeof(struct engine_request),
                                   .tokens = prompts[number],
                                   .n_tokens = lengths[number],
                                   .flags = ENGINE_REQUEST_NO_TOKENS | ENGINE_REQUEST_NO_TEXT,
                                   .event = take,
                                   .user = &embeddings[number],
                                   .pooling = pooling};
}

static void submit_request(const struct engine_request *request)
{
    cr_assert_eq(engine_queue_submit(queue, request, NULL), ENGINE_OK, "%s", engine_error_message());
}

static void expect_pooled(int number, uint32_t pooling)
{
    size_t n = lengths[number];
    float *states = states_alone(prompts[number], n);
    cr_assert(embeddings[number]);
    for (size_t i = 0; i < n_embd; i++) {
        double sum = 0;
        for (size_t t = 0; t < n; t++) sum += (double)states[t * n_embd + i];
        double expected = pooling == ENGINE_POOLING_MEAN    ? sum / (double)n
                          : pooling == ENGINE_POOLING_FIRST ? (double)states[i]
                                                            : (double)states[(n - 1) * n_embd + i];
        cr_assert_float_eq(embeddings[number][i], expected, 1e-6, "%d, %zu: %f, not %f", number, i,
                           (double)embeddings[number][i], expected);
    }
    free(states);
    free(embeddings[number]);
    embeddings[number] = NULL;
}

static float *watched_states;

static int take_watched(void *user, const struct engine_watched *value)
{
    const uint32_t *n_layers = user;
    if (value->layer == *n_layers)
        memcpy(watched_states + value->first * n_embd, value->data, value->ne[1] * n_embd * sizeof(float));
    return 0;
}

/* Graphs that watch fewer values fuse more operations, so activations may be rounded to Q8_0 otherwise. */
static void expect_watched(const float *states, size_t n)
{
    for (size_t i = 0; i < n * n_embd; i++)
        cr_assert_float_eq(states[i], watched_states[i], 5e-3, "%zu: %f, not %f", i, (double)states[i],
                           (double)watched_states[i]);
}

/* Over several batches. The logits are the same with and without. */
Test(queue_embed, states_are_those_after_the_final_norm)
{
    make_prompts();
    int64_t n_blocks = 0;
    const struct engine_metadata *metadata = engine_model_metadata(model);
    cr_assert_eq(metadata->get_integer(metadata->context, "llama.block_count", &n_blocks), ENGINE_OK);
    uint32_t n_layers = (uint32_t)n_blocks;
    struct engine_context_options options = {.struct_size = sizeof options,
                                             .n_context = N_CONTEXT,
                                             .n_batch = n_batch,
                                             .watch = ENGINE_WATCH_HIDDEN,
                                             .watched = take_watched,
                                             .watch_user = &n_layers};
    struct engine_context *watching;
    size_t n = lengths[1];
    watched_states = calloc(n * n_embd, sizeof(float));
    cr_assert_eq(engine_context_create(model, &options, &watching), ENGINE_OK, "%s", engine_error_message());
    float logits[2][N_VOCAB];
    struct engine_batch batch = {.struct_size = sizeof batch, .n_tokens = n, .tokens = prompts[1]};
    cr_assert_eq(engine_decode(watching, &batch, logits[0]), ENGINE_OK);
    float *states = states_alone(prompts[1], n);
    expect_watched(states, n);
    batch.states = states;
    cr_assert_eq(engine_sequence_truncate(alone, 0, 0), ENGINE_OK);
    cr_assert_eq(engine_decode(alone, &batch, logits[1]), ENGINE_OK);
    for (int i = 0; i < N_VOCAB; i++) cr_assert_float_eq(logits[0][i], logits[1][i], 5e-3);
    expect_watched(states, n);
    engine_context_destroy(watching);
    free(watched_states);
    free(states);
}

Test(queue_embed, each_pooling)
{
    make_prompts();
    open_queue(3, 0, NULL);
    for (uint32_t pooling = ENGINE_POOLING_MEAN; pooling <= ENGINE_POOLING_LAST; pooling++) {
        for (int p = 0; p < N_PROMPTS; p++) {
            struct engine_request request = embed(p, pooling);
            submit_request(&request);
        }
        run(ENGINE_QUEUE_IDLE);
        for (int p = 0; p < N_PROMPTS; p++) expect_pooled(p, pooling);
    }
}

/* Texts beside embeddings are as they are alone; and with a cache for less than all, requests are put
 * back. */
Test(queue_embed, beside_texts)
{
    make_prompts();
    open_queue(4, 256, NULL);
    create_samples(8, 60, 40);
    for (int p = 0; p < N_PROMPTS; p++) {
        struct engine_request request = embed(p, ENGINE_POOLING_MEAN);
        if (p < 8) {
            samples[p].request.event = sample_take;
            submit(&samples[p]);
        }
        submit_request(&request);
    }
    run(ENGINE_QUEUE_IDLE);
    for (int p = 0; p < N_PROMPTS; p++) expect_pooled(p, ENGINE_POOLING_MEAN);
    expect_agreement(8);
}

/* Events that are polled have copies. */
Test(queue_embed, polled)
{
    make_prompts();
    open_queue(1, 0, NULL);
    struct engine_request request = embed(3, ENGINE_POOLING_LAST);
    struct engine_event *event;
    request.event = NULL;
    submit_request(&request);
    run(ENGINE_QUEUE_IDLE);
    cr_assert_eq(engine_queue_poll(queue, 0, 0, &event), ENGINE_OK);
    event->user = &embeddings[3];
    take(&embeddings[3], event);
    engine_event_free(event);
    expect_pooled(3, ENGINE_POOLING_LAST);
}

Test(queue_embed, refused)
{
    make_prompts();
    open_queue(1, 0, NULL);
    struct engine_request request = embed(1, 6);
    cr_assert_eq(engine_queue_submit(queue, &request, NULL), ENGINE_ERROR_ARGUMENT);
    request = embed(1, ENGINE_POOLING_RANK);
    cr_assert_eq(engine_queue_submit(queue, &request, NULL), ENGINE_ERROR_UNSUPPORTED);
    request = embed(1, ENGINE_POOLING_MEAN);
    request.flags &= ~(uint32_t)ENGINE_REQUEST_NO_TOKENS;
    cr_assert_eq(engine_queue_submit(queue, &request, NULL), ENGINE_ERROR_ARGUMENT);
    request = embed(1, ENGINE_POOLING_MEAN);
    request.n_score = 1;
    cr_assert_eq(engine_queue_submit(queue, &request, NULL), ENGINE_ERROR_ARGUMENT);
    request = embed(1, ENGINE_POOLING_MEAN);
    cr_assert_eq(engine_queue_submit(queue, &request, NULL), ENGINE_OK);
    run(ENGINE_QUEUE_IDLE);
    expect_pooled(1, ENGINE_POOLING_MEAN);
}

/* test-queue-recurrent.c: the queue on models with states (tests/fuzz/models): what it does with sequences
 * (sharing beginnings, putting requests back, keeping and forking sequences) changes no text, and guesses are
 * refused. */
#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "check/heap.h"
#include "engine.h"
#include "families-fixture.h"
#include "files.h"
#include "model-recipe.h"

enum { VOCAB = 64, N_CONTEXT = 96, MOST = 64, LONGEST = 96, N_TEXTS = 6 };

static const char *const names[] = {"falcon-h1", "granitehybrid", "lfm2",  "qwen3next",
                                    "rwkv6",     "rwkv7",         "mamba", "mamba2"};
#define N_HYBRIDS 4 /* the first ones: they have a cache too */
#define EACH_MODEL(i, name)                                                                                  \
    for (size_t i = 0; i < N_NAMES && (open_model(name = names[i]), true); i++, close_model())
#define N_NAMES (sizeof names / sizeof *names)

TestSuite(queue_recurrent, .init = families_begin_without_shared, .fini = families_end);

static struct engine *engine;
static struct engine_model *model;
static struct engine_context *alone, *context;
static struct engine_queue *queue;

/* A request and what came of it. */
struct text {
    int32_t prompt[LONGEST], expected[MOST], got[MOST];
    double expected_logprob[MOST],
        got_logprob[MOST]; /* texts of small models are the same after many a state */
    size_t n_prompt, n_expected, n_got;
    struct engine_event last; /* its pointers are not valid */
};

static struct engine_context *create_context(uint32_t n_sequences, uint32_t n_cache)
{
    const struct engine_context_options options = {.struct_size = sizeof options,
                                                   .n_context = N_CONTEXT,
                                                   .n_batch = 48,
                                                   .n_sequences = n_sequences,
                                                   .n_cache = n_cache,
                                                   .n_threads = 2,
                                                   .cache_type = "f32",
                                                   .backends = "cpu"};
    struct engine_context *created;
    cr_assert_eq(engine_context_create(model, &options, &created), ENGINE_OK, "%s", engine_error_message());
    return created;
}

static void open_model(const char *name)
{
    static const char *const dirs[] = {TEST_PLUGIN_DIR, NULL};
    const struct engine_options options = {
        .struct_size = sizeof options, .plugin_dirs = dirs, .config_file = families.config_file};
    char recipe[300], path[300];
    size_t length, size;
    snprintf(recipe, sizeof recipe, TEST_SOURCE_DIR "/fuzz/models/%s.txt", name);
    snprintf(path, sizeof path, "%s/model.gguf", families.folder);
    char *text = files_read(recipe, &length);
    uint8_t *bytes = model_recipe_gguf(text, length, &size);
    files_write(path, bytes, size);
    free(text);
    free(bytes);
    cr_assert_eq(engine_open(&options, &engine), ENGINE_OK, "%s", engine_error_message());
    cr_assert_eq(engine_model_open(engine, path, NULL, &model), ENGINE_OK, "%s", engine_error_message());
    alone = create_context(1, 0);
}

static void close_queue(void)
{
    engine_queue_destroy(queue);
    engine_context_destroy(context);
    queue = NULL;
    context = NULL;
}

static void close_model(void)
{
    close_queue();
    engine_context_destroy(alone);
    engine_model_close(model);
    engine_close(engine);
}

static void open_queue(uint32_t n_sequences, uint32_t n_cache)
{
    context = create_context(n_sequences, n_cache);
    cr_assert_eq(engine_queue_create(context, NULL, &queue), ENGINE_OK, "%s", engine_error_message());
}

/* What comes after a text, from its beginning: the logits of its last n_wanted tokens, [n_wanted, VOCAB]. */
static void compute_alone(const int32_t *tokens, size_t n, size_t n_wanted, float *logits)
{
    uint8_t wanted[LONGEST + MOST] = {0};
    memset(wanted + n - n_wanted, 1, n_wanted);
    cr_assert_eq(engine_sequence_truncate(alone, 0, 0), ENGINE_OK);
    const struct engine_batch batch = {
        .struct_size = sizeof batch, .n_tokens = n, .tokens = tokens, .wanted = wanted};
    cr_assert_eq(engine_decode(alone, &batch, logits), ENGINE_OK, "%s", engine_error_message());
}

static double logprob_of(const float *logits, int32_t token)
{
    double sum = 0;
    for (size_t j = 0; j < VOCAB; j++) sum += exp((double)logits[j] - (double)logits[token]);
    return -log(sum);
}

/* A prompt, and the most likely text after it, each token of which is computed from the beginning. */
static void prepare(struct text *text, const int32_t *prompt, size_t n_prompt, size_t n_expected)
{
    int32_t all[LONGEST + MOST];
    *text = (struct text){.n_prompt = n_prompt, .n_expected = n_expected};
    memcpy(text->prompt, prompt, n_prompt * sizeof *prompt);
    memcpy(all, prompt, n_prompt * sizeof *prompt);
    for (size_t i = 0; i < n_expected; i++) {
        float logits[VOCAB];
        int32_t best = 0;
        compute_alone(all, n_prompt + i, 1, logits);
        for (int32_t j = 1; j < VOCAB; j++)
            if (logits[j] > logits[best]) best = j;
        all[n_prompt + i] = text->expected[i] = best;
        text->expected_logprob[i] = logprob_of(logits, best);
    }
}

static void take(void *user, const struct engine_event *event)
{
    struct text *text = user;
    if (event->kind == ENGINE_EVENT_TOKEN && text->n_got < MOST) {
        text->got_logprob[text->n_got] = (double)event->logprob;
        text->got[text->n_got++] = event->token;
    }
    if (event->kind != ENGINE_EVENT_DONE) return;
    cr_assert_neq(event->reason, ENGINE_DONE_FAILED, "%s", event->message);
    text->last = *event;
}

static void submit(struct text *text, int32_t priority, uint32_t flags)
{
    const struct engine_request request = {.struct_size = sizeof request,
                                           .tokens = text->prompt,
                                           .n_tokens = text->n_prompt,
                                           .max_tokens = (uint32_t)text->n_expected,
                                           .flags = flags | ENGINE_REQUEST_NO_TEXT,
                                           .priority = priority,
                                           .n_logprobs = flags & ENGINE_REQUEST_NO_TOKENS ? 0 : 1,
                                           .event = take,
                                           .user = text};
    text->n_got = 0;
    cr_assert_eq(engine_queue_submit(queue, &request, NULL), ENGINE_OK, "%s", engine_error_message());
}

static void run(enum engine_queue_until until)
{
    cr_assert_eq(engine_queue_run(queue, until), ENGINE_OK, "%s", engine_error_message());
}

static struct engine_queue_info info(void)
{
    struct engine_queue_info got = {.struct_size = sizeof got};
    cr_assert_eq(engine_queue_get_info(queue, &got), ENGINE_OK);
    return got;
}

static void expect_text(const char *name, const struct text *text, const char *what)
{
    cr_assert_eq(text->n_got, text->n_expected, "%s, %s: %zu tokens", name, what, text->n_got);
    cr_assert_arr_eq(text->got, text->expected, text->n_got * sizeof *text->got, "%s, %s", name, what);
    for (size_t i = 0; i < text->n_got; i++)
        cr_assert_float_eq(text->got_logprob[i], text->expected_logprob[i], 1e-6, "%s, %s: token %zu", name,
                           what, i);
}

static void fill(int32_t *tokens, size_t n, uint32_t seed)
{
    for (size_t i = 0; i < n; i++) {
        seed = seed * 1664525u + 1013904223u;
        tokens[i] = (int32_t)((seed >> 8) % VOCAB);
    }
}

/* N_TEXTS texts of 5 to 55 tokens that continue for 12 to 22. */
static void prepare_all(struct text *texts)
{
    for (uint32_t i = 0; i < N_TEXTS; i++) {
        int32_t prompt[LONGEST];
        fill(prompt, 5 + 10 * i, 77 + i);
        prepare(&texts[i], prompt, 5 + 10 * i, 12 + 2 * i);
    }
}

Test(queue_recurrent, texts_do_not_depend_on_each_other)
{
    static struct text texts[N_TEXTS];
    const char *name;
    EACH_MODEL(model_number, name)
    {
        prepare_all(texts);
        open_queue(3, 0);
        for (size_t i = 0; i < N_TEXTS; i++) submit(&texts[i], 0, 0);
        run(ENGINE_QUEUE_IDLE);
        for (size_t i = 0; i < N_TEXTS; i++) expect_text(name, &texts[i], "one of six");
    }
}

/* For one of a higher priority, and, where there is a cache, because that is full. */
Test(queue_recurrent, requests_that_are_put_back_go_on_as_if_nothing_had_happened)
{
    static struct text texts[N_TEXTS];
    const char *name;
    EACH_MODEL(i, name)
    {
        prepare_all(texts);
        open_queue(1, 0);
        submit(&texts[3], 0, 0);
        for (int step = 0; step < 6; step++) run(ENGINE_QUEUE_STEP);
        cr_assert(texts[3].n_got > 0 && texts[3].n_got < texts[3].n_expected);
        submit(&texts[1], 1, 0);
        run(ENGINE_QUEUE_IDLE);
        cr_expect_eq(info().n_put_back, 1, "%s: %zu", name, (size_t)info().n_put_back);
        expect_text(name, &texts[3], "put back");
        expect_text(name, &texts[1], "of a higher priority");
        close_queue();
        if (i >= N_HYBRIDS) continue;
        open_queue(3, 96);
        for (size_t t = 0; t < N_TEXTS; t++) submit(&texts[t], 0, 0);
        run(ENGINE_QUEUE_IDLE);
        cr_expect(info().n_put_back > 0, "%s", name);
        for (size_t t = 0; t < N_TEXTS; t++) expect_text(name, &texts[t], "in a full cache");
    }
}

/* A turn goes on with what the turn before left. One that is asked otherwise goes on where a prompt ended, or
 * from the beginning. */
Test(queue_recurrent, turns_go_on_where_the_last_one_ended)
{
    static struct text first, second, other, third;
    int32_t tokens[LONGEST];
    const char *name;
    EACH_MODEL(i, name)
    {
        fill(tokens, LONGEST, 5);
        prepare(&first, tokens, 30, 10);
        memcpy(tokens + 30, first.expected, 10 * sizeof *tokens);
        prepare(&second, tokens, 48, 9);
        tokens[33] = (tokens[33] + 1) % VOCAB;
        prepare(&other, tokens, 44, 9);
        tokens[2] = (tokens[2] + 1) % VOCAB;
        prepare(&third, tokens, 44, 9);
        open_queue(1, 0);
        submit(&first, 0, ENGINE_REQUEST_KEEP);
        run(ENGINE_QUEUE_IDLE);
        submit(&second, 0, ENGINE_REQUEST_KEEP);
        run(ENGINE_QUEUE_IDLE);
        cr_expect_eq(second.last.n_reused, 39, "%s: %u", name, second.last.n_reused);
        submit(&other, 0, ENGINE_REQUEST_KEEP);
        run(ENGINE_QUEUE_IDLE);
        cr_expect_eq(other.last.n_reused, 30, "%s: %u", name, other.last.n_reused);
        submit(&third, 0, ENGINE_REQUEST_KEEP);
        run(ENGINE_QUEUE_IDLE);
        cr_expect_eq(third.last.n_reused, 0, "%s: %u", name, third.last.n_reused);
        expect_text(name, &first, "first turn");
        expect_text(name, &second, "second turn");
        expect_text(name, &other, "a turn asked otherwise");
        expect_text(name, &third, "another beginning");
    }
}

/* A prompt that was only read serves all texts that begin with it, side by side. */
Test(queue_recurrent, prompts_share_a_beginning_that_was_read)
{
    static struct text beginning, texts[3];
    int32_t tokens[LONGEST];
    const char *name;
    EACH_MODEL(i, name)
    {
        fill(tokens, LONGEST, 9);
        prepare(&beginning, tokens, 40, 0);
        for (uint32_t t = 0; t < 3; t++) {
            fill(tokens + 40, 20, 100 + t);
            prepare(&texts[t], tokens, 50 + t, 10);
        }
        open_queue(4, 0);
        submit(&beginning, 0, ENGINE_REQUEST_KEEP | ENGINE_REQUEST_NO_TOKENS);
        run(ENGINE_QUEUE_IDLE);
        for (size_t t = 0; t < 3; t++) submit(&texts[t], 0, 0);
        run(ENGINE_QUEUE_IDLE);
        for (size_t t = 0; t < 3; t++) {
            cr_expect_eq(texts[t].last.n_reused, 40, "%s: %u", name, texts[t].last.n_reused);
            expect_text(name, &texts[t], "after a shared beginning");
        }
    }
}

/* ---- Beams ---- */

enum { N_BEAMS = 3, BEAM_TOKENS = 14 };

struct search {
    int32_t tokens[N_BEAMS][BEAM_TOKENS];
    double logprob[N_BEAMS];
    uint32_t n;
};

static void take_beams(void *user, const struct engine_event *event)
{
    struct search *search = user;
    if (event->kind != ENGINE_EVENT_DONE) return;
    cr_assert_neq(event->reason, ENGINE_DONE_FAILED, "%s", event->message);
    cr_assert_leq(event->n_beams, N_BEAMS);
    search->n = event->n_beams;
    for (uint32_t i = 0; i < search->n; i++) {
        cr_assert_eq(event->beams[i].n_tokens, BEAM_TOKENS);
        memcpy(search->tokens[i], event->beams[i].tokens, BEAM_TOKENS * sizeof(int32_t));
        search->logprob[i] = event->beams[i].logprob;
    }
}

/* The sum of a text's log-probabilities after a prompt, computed in one go. */
static double logprob_alone(const int32_t *prompt, size_t n_prompt, const int32_t *tokens)
{
    static float logits[BEAM_TOKENS * VOCAB];
    int32_t all[LONGEST];
    double result = 0;
    memcpy(all, prompt, n_prompt * sizeof *all);
    memcpy(all + n_prompt, tokens, BEAM_TOKENS * sizeof *all);
    compute_alone(all, n_prompt + BEAM_TOKENS - 1, BEAM_TOKENS, logits);
    for (size_t t = 0; t < BEAM_TOKENS; t++) result += logprob_of(logits + t * VOCAB, tokens[t]);
    return result;
}

/* Beams fork and drop each other's states at every token. Each must have the probability that it has alone,
 * also beside another request. */
Test(queue_recurrent, beams_have_the_probabilities_that_they_have_alone)
{
    static struct text other;
    int32_t prompt[LONGEST];
    const char *name;
    EACH_MODEL(i, name)
    {
        struct search search[2] = {{.n = 0}};
        fill(prompt, 25, 3);
        prepare(&other, prompt, 20, 12);
        open_queue(N_BEAMS + 1, 0);
        for (int beside = 0; beside < 2; beside++) {
            const struct engine_request request = {.struct_size = sizeof request,
                                                   .tokens = prompt,
                                                   .n_tokens = 25,
                                                   .max_tokens = BEAM_TOKENS,
                                                   .n_beams = N_BEAMS,
                                                   .length_penalty = 1,
                                                   .flags = ENGINE_REQUEST_NO_TEXT,
                                                   .event = take_beams,
                                                   .user = &search[beside]};
            cr_assert_eq(engine_queue_submit(queue, &request, NULL), ENGINE_OK, "%s", engine_error_message());
            if (beside) submit(&other, 0, 0);
            run(ENGINE_QUEUE_IDLE);
            cr_assert_eq(search[beside].n, N_BEAMS, "%s", name);
        }
        expect_text(name, &other, "beside beams");
        for (uint32_t beam = 0; beam < N_BEAMS; beam++) {
            double expected = logprob_alone(prompt, 25, search[0].tokens[beam]);
            cr_expect_float_eq(search[0].logprob[beam], expected, 1e-9, "%s, beam %u: %.9g, not %.9g", name,
                               beam, search[0].logprob[beam], expected);
        }
        cr_expect_arr_eq(search[0].tokens, search[1].tokens, sizeof search[0].tokens, "%s", name);
    }
}

/* ---- What is refused, and what does not grow ---- */

Test(queue_recurrent, guesses_are_refused_whichever_model_is_recurrent)
{
    const char *name;
    EACH_MODEL(i, name)
    {
        struct engine_queue_options options = {.struct_size = sizeof options, .lookup = 1};
        context = create_context(1, 0);
        cr_expect_eq(engine_queue_create(context, &options, &queue), ENGINE_ERROR_UNSUPPORTED, "%s", name);
        cr_expect(strstr(engine_error_message(), "recurrent"), "%s: %s", name, engine_error_message());
        options = (struct engine_queue_options){.struct_size = sizeof options, .draft = alone};
        cr_expect_eq(engine_queue_create(context, &options, &queue), ENGINE_ERROR_UNSUPPORTED, "%s", name);
        cr_expect(strstr(engine_error_message(), "recurrent"), "%s: %s", name, engine_error_message());
    }
}

/* Of the memory in use, only the list of tokens grows with the text, by four bytes a token or, if it doubles,
 * eight. */
Test(queue_recurrent, memory_does_not_grow_with_the_text)
{
    enum { SHORT = 200, LONG = 2200 };
    const char *name;
    if (heap_in_use() == 0) cr_skip_test("this C library doesn't tell how much of the heap is in use");
    EACH_MODEL(i, name)
    {
        if (i < N_HYBRIDS) continue; /* their attention has a cache */
        const struct engine_context_options options = {
            .struct_size = sizeof options, .n_context = 100000, .n_threads = 1, .backends = "cpu"};
        float logits[VOCAB];
        int64_t in_use = 0;
        cr_assert_eq(engine_context_create(model, &options, &context), ENGINE_OK, "%s",
                     engine_error_message());
        for (int32_t t = 0; t < LONG; t++) {
            const int32_t token = t % VOCAB;
            const struct engine_batch batch = {.struct_size = sizeof batch, .n_tokens = 1, .tokens = &token};
            cr_assert_eq(engine_decode(context, &batch, logits), ENGINE_OK, "%s", engine_error_message());
            if (t == SHORT) in_use = heap_in_use();
        }
        int64_t now = heap_in_use();
        cr_expect(now <= in_use + 8 * LONG, "%s: %lld bytes more", name, (long long)(now - in_use));
    }
}

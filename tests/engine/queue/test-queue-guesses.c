/* test-queue-guesses.c: requests whose tokens are guessed and checked: each gives what it gives without. */
#include <criterion/criterion.h>
#include <math.h>
#include <string.h>

#include "queue-fixture.h"

TestSuite(queue_guesses, .init = begin_queue, .fini = end_queue, .timeout = 1200);

static struct engine_context *draft;

/* Prompts that repeat themselves and texts without penalties, which do so soon: there is something to look
 * up. */
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

Test(queue_guesses, texts_are_the_same_with_lookup)
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

/* The model drafts for itself: without penalties and at temperature 0 all guesses come true that the text has
 * room for. */
Test(queue_guesses, texts_are_the_same_with_a_draft)
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
Test(queue_guesses, texts_are_the_same_with_guesses_and_little_cache)
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

Test(queue_guesses, refuses_drafts_that_cannot_work)
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

/* ---- Distribution -------------------------------------------------------------------------------------- */

#define N_SEEDS 4000
#define N_TOP   3 /* tokens that the sampler chooses from, each time */
#define N_CELLS (N_TOP * N_TOP * N_TOP)

enum { N_PROMPT = 8 };
static const int32_t prompt[N_PROMPT] = {9, 8, 7, 40, 41, 42, 50, 51};

static const struct engine_sampler_options three_of_them = {
    .struct_size = sizeof(struct engine_sampler_options), .top_k = N_TOP, .temperature = 0.5f};

/* The tokens that may come next, by rank, and their probabilities: softmax over the N_TOP highest logits. */
static void find_next(const int32_t *tokens, size_t n_tokens, int32_t next[N_TOP], double chances[N_TOP])
{
    static float logits[N_VOCAB];
    double total = 0;
    struct engine_batch batch = {.struct_size = sizeof batch, .n_tokens = n_tokens, .tokens = tokens};
    cr_assert_eq(engine_sequence_truncate(alone, 0, 0), ENGINE_OK);
    cr_assert_eq(engine_decode(alone, &batch, logits), ENGINE_OK, "%s", engine_error_message());
    logits[2] = -INFINITY; /* </s>, see ENGINE_REQUEST_IGNORE_END */
    for (int rank = 0; rank < N_TOP; rank++) {
        next[rank] = 0;
        for (int32_t id = 1; id < N_VOCAB; id++)
            if (logits[id] > logits[next[rank]]) next[rank] = id;
        chances[rank] = exp((double)logits[next[rank]] / (double)three_of_them.temperature);
        total += chances[rank];
        logits[next[rank]] = -INFINITY;
    }
    for (int rank = 0; rank < N_TOP; rank++) chances[rank] /= total;
}

/* All texts of three tokens, and their probabilities by the chain rule. */
struct cell {
    int32_t tokens[3];
    double chance;
    uint32_t count;
};

static void find_cells(struct cell cells[N_CELLS])
{
    enum { N = N_PROMPT };
    int32_t text[N + 2], next[3][N_TOP];
    double chances[3][N_TOP];
    memcpy(text, prompt, sizeof prompt);
    find_next(text, N, next[0], chances[0]);
    for (int i = 0; i < N_CELLS; i++) {
        int a = i / (N_TOP * N_TOP), b = i / N_TOP % N_TOP, c = i % N_TOP;
        text[N] = next[0][a];
        if (b == 0 && c == 0) find_next(text, N + 1, next[1], chances[1]);
        text[N + 1] = next[1][b];
        if (c == 0) find_next(text, N + 2, next[2], chances[2]);
        cells[i] = (struct cell){
            {text[N], text[N + 1], next[2][c]}, chances[0][a] * chances[1][b] * chances[2][c], 0};
    }
}

struct draw {
    struct engine_sampler_options sampler;
    int32_t tokens[3];
    size_t n_tokens;
};

static void take_draw(void *user, const struct engine_event *event)
{
    struct draw *draw = user;
    if (event->kind == ENGINE_EVENT_TOKEN) draw->tokens[draw->n_tokens++] = event->token;
}

/* One text of three tokens for each seed. */
static void draw_texts(struct draw draws[N_SEEDS], const struct engine_queue_options *options)
{
    context = open_context(16, 0, "cpu");
    cr_assert_eq(engine_queue_create(context, options, &queue), ENGINE_OK, "%s", engine_error_message());
    for (uint32_t i = 0; i < N_SEEDS; i++) {
        draws[i] = (struct draw){.sampler = three_of_them};
        draws[i].sampler.seed = i;
        struct engine_request request = {.struct_size = sizeof request,
                                         .tokens = prompt,
                                         .n_tokens = N_PROMPT,
                                         .sampler = &draws[i].sampler,
                                         .max_tokens = 3,
                                         .flags = ENGINE_REQUEST_NO_TEXT | ENGINE_REQUEST_IGNORE_END,
                                         .event = take_draw,
                                         .user = &draws[i]};
        cr_assert_eq(engine_queue_submit(queue, &request, NULL), ENGINE_OK, "%s", engine_error_message());
        if (i % 16 == 15)
            run(ENGINE_QUEUE_IDLE); /* all together, because steps that read prompts guess nothing */
    }
    run(ENGINE_QUEUE_IDLE);
}

static void close_queue(void)
{
    engine_queue_destroy(queue);
    engine_context_destroy(context);
    queue = NULL;
    context = NULL;
}

/* Pearson's statistic of the texts against their probabilities. */
static double chi_squared(struct cell cells[N_CELLS], const struct draw draws[N_SEEDS])
{
    double sum = 0;
    for (int i = 0; i < N_CELLS; i++) cells[i].count = 0;
    for (int d = 0; d < N_SEEDS; d++) {
        int i = 0;
        while (i < N_CELLS && memcmp(cells[i].tokens, draws[d].tokens, sizeof cells[i].tokens) != 0) i++;
        cr_assert_lt(i, N_CELLS, "seed %d: a text that cannot be", d);
        cells[i].count++;
    }
    for (int i = 0; i < N_CELLS; i++) {
        double mean = cells[i].chance * N_SEEDS;
        sum += (cells[i].count - mean) * (cells[i].count - mean) / mean;
    }
    return sum;
}

/* With guesses some of which come true, texts have the model's distribution, and each seed has its text. */
Test(queue_guesses, the_distribution_is_the_models)
{
    static struct draw plain[N_SEEDS], guessed[N_SEEDS];
    struct cell cells[N_CELLS];
    struct engine_queue_options options = {
        .struct_size = sizeof options, .n_guess_least = 2, .n_guess_most = 2};
    /* The 99.9th percentile of chi squared with 26 degrees of freedom. The same model and the same seeds
     * always give the same statistic. */
    const double most = 54.05;
    n_batch = 16 * N_PROMPT; /* all prompts in one step */
    find_cells(cells);
    draw_texts(plain, &options);
    cr_expect_eq(info_of_queue().n_guessed, 0);
    close_queue();
    cr_expect_lt(chi_squared(cells, plain), most, "%g", chi_squared(cells, plain));

    options.draft = draft = open_context(16, 0, "cpu");
    draw_texts(guessed, &options);
    struct engine_queue_info info = info_of_queue();
    close_queue();
    engine_context_destroy(draft);
    cr_expect_gt(info.n_guessed, N_SEEDS / 2, "%lu", (unsigned long)info.n_guessed);
    cr_expect_gt(info.n_accepted, info.n_guessed / 4, "%lu", (unsigned long)info.n_accepted);
    cr_expect_lt(info.n_accepted, info.n_guessed / 4 * 3, "%lu", (unsigned long)info.n_accepted);
    cr_expect_lt(chi_squared(cells, guessed), most, "%g", chi_squared(cells, guessed));
    for (uint32_t i = 0; i < N_SEEDS; i++)
        cr_assert_arr_eq(guessed[i].tokens, plain[i].tokens, sizeof plain[i].tokens, "seed %u", i);
}

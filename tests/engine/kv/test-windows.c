/* test-windows.c: layers with a window keep only the blocks in reach. Logits are those of a cache that keeps
 * everything, to the bit, whatever happens to the sequences, and long contexts take no more memory there than
 * short ones. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "engine.h"
#include "family-samples.h"
#include "files.h"
#include "gguf-writer.h"
#include "sample.h"

#define FAMILIES TEST_SHARED_DIR "/families/gguf/"

enum { N_CONTEXT = 2048, N_BATCH = 64, SEQUENCES = 3, MAX_VOCAB = 512, B = 32 };

static char *folder;
static char config_file[256];

static void setup(void)
{
    folder = files_folder();
    snprintf(config_file, sizeof config_file, "%s", files_path(folder, "engine.conf"));
    files_write_text(config_file, "");
}

static void finish(void)
{
    files_remove(folder);
    free(folder);
}

TestSuite(windows, .init = setup, .fini = finish, .timeout = 1200);

struct running {
    struct engine *engine;
    struct engine_model *model;
    /* `whole` keeps everything: its batches are as long as the context. */
    struct engine_context *context, *whole;
    uint32_t n_vocab;
};

static void log_nothing(void *user, enum engine_log_level level, const char *line)
{
    (void)user, (void)level, (void)line; /* contexts are longer than these models were trained with */
}

static void open_model(const char *path, struct running *r)
{
    static const char *const dirs[] = {TEST_PLUGIN_DIR, NULL};
    struct engine_options options = {
        .struct_size = sizeof options, .plugin_dirs = dirs, .config_file = config_file, .log = log_nothing};
    *r = (struct running){0};
    cr_assert_eq(engine_open(&options, &r->engine), ENGINE_OK);
    cr_assert_eq(engine_model_open(r->engine, path, NULL, &r->model), ENGINE_OK, "%s: %s", path,
                 engine_error_message());
}

static struct engine_context *create_with_cache(struct running *r, uint32_t n_context, uint32_t n_batch,
                                                uint32_t n_sequences, uint32_t n_cache)
{
    const struct engine_context_options options = {.struct_size = sizeof options,
                                                   .n_context = n_context,
                                                   .n_batch = n_batch,
                                                   .n_sequences = n_sequences,
                                                   .n_threads = 1,
                                                   .backends = "cpu",
                                                   .n_cache = n_cache};
    struct engine_context_info info = {.struct_size = sizeof info};
    struct engine_context *context = NULL;
    cr_assert_eq(engine_context_create(r->model, &options, &context), ENGINE_OK, "%s",
                 engine_error_message());
    engine_context_get_info(context, &info);
    r->n_vocab = info.n_vocab;
    return context;
}

static struct engine_context *create(struct running *r, uint32_t n_context, uint32_t n_batch,
                                     uint32_t n_sequences)
{
    return create_with_cache(r, n_context, n_batch, n_sequences, 0);
}

static void start(const char *path, struct running *r)
{
    open_model(path, r);
    r->context = create(r, N_CONTEXT, N_BATCH, SEQUENCES);
    r->whole = create(r, N_CONTEXT, N_CONTEXT, 1);
}

static void stop(struct running *r)
{
    engine_context_destroy(r->context);
    engine_context_destroy(r->whole);
    engine_model_close(r->model);
    engine_close(r->engine);
}

static void decode(struct engine_context *context, uint32_t sequence, const int32_t *tokens, uint32_t n,
                   float *logits)
{
    static int32_t sequences[N_CONTEXT];
    for (uint32_t i = 0; i < n; i++) sequences[i] = (int32_t)sequence;
    struct engine_batch batch = {
        .struct_size = sizeof batch, .n_tokens = n, .tokens = tokens, .sequences = sequences};
    cr_assert_eq(engine_decode(context, &batch, logits), ENGINE_OK, "%s", engine_error_message());
}

/* ---- All kinds of models with windows ---- */

static void for_all_models(void (*check)(const char *path))
{
    static const char *const families[] = {"gemma2", "gemma3", "gptoss", "phi3", "cohere2", "exaone4"};
    static const struct tiny_llama tiny[] = {{.seed = 1, .window = 40, .n_layers = 3},
                                             {.seed = 2, .window = 70, .n_layers = 3, .window_period = 3}};
    const size_t step = all_unless(SANITIZED, 1, 6); /* of the families, which differ little here */
    for (size_t i = 0; i < sizeof tiny / sizeof *tiny; i++) {
        struct tiny_llama config = tiny[i];
        const char *path = files_path(folder, "model.gguf");
        config.type = ENGINE_TYPE_F32;
        cr_assert(write_tiny_llama(path, &config));
        check(path);
    }
    for (size_t i = 0, n = 0; i < n_family_samples; i++) {
        const char *path = files_path(folder, "sample.gguf");
        if (family_samples[i].window == 0 || n++ % step != 0) continue;
        cr_assert(family_sample_write(&family_samples[i], path));
        check(path);
    }
    for (size_t i = 0; i < sizeof families / sizeof *families && access(FAMILIES, R_OK) == 0; i += step) {
        char path[256];
        snprintf(path, sizeof path, FAMILIES "%s.gguf", families[i]);
        check(path);
    }
}

/* Bytes of cache in a plan, and what a layer without a window takes of them, if there is one. */
static uint64_t planned_cache(const char *path, uint32_t n_context, uint64_t *largest)
{
    struct running r;
    struct engine_plan_totals totals;
    open_model(path, &r);
    r.context = create(&r, n_context, N_BATCH, 1);
    const struct engine_plan *plan = engine_context_plan(r.context);
    engine_plan_get_totals(plan, &totals);
    *largest = 0;
    for (size_t i = 0; i < engine_plan_tensor_count(plan); i++) {
        struct engine_plan_tensor tensor;
        engine_plan_tensor_at(plan, i, &tensor);
        if (strstr(tensor.name, ".cache") && tensor.bytes > *largest) *largest = tensor.bytes;
    }
    stop(&r);
    return totals.cache;
}

Test(windows, long_contexts_take_no_more_memory_there)
{
    struct tiny_llama config = {.seed = 1, .type = ENGINE_TYPE_F32, .n_layers = 4, .window = 40};
    const char *path = files_path(folder, "model.gguf");
    uint64_t largest;
    cr_assert(write_tiny_llama(path, &config));
    uint64_t few = planned_cache(path, 2048, &largest);
    cr_assert_gt(few, 0);
    cr_assert_eq(planned_cache(path, 16384, &largest), few);

    config.window_period = 4; /* three layers have windows, one has none */
    cr_assert(write_tiny_llama(path, &config));
    cr_assert_eq(planned_cache(path, 16384, &largest), few / 4 * 3 + largest);

    config.window = 0;
    cr_assert(write_tiny_llama(path, &config));
    cr_assert_eq(planned_cache(path, 16384, &largest), 4 * largest);
    cr_assert_gt(largest, few);
}

/* ---- Long prompts ---- */

static int32_t random_token(const struct running *r)
{
    return rand() % (int)r->n_vocab;
}

static void check_long(const char *path)
{
    static int32_t tokens[N_CONTEXT];
    static uint8_t wanted[N_CONTEXT];
    struct running r;
    size_t n = 0;
    start(path, &r);
    for (int i = 0; i < N_CONTEXT; i++) {
        tokens[i] = random_token(&r);
        wanted[i] = i % 50 == 49;
        n += wanted[i];
    }
    struct engine_batch batch = {
        .struct_size = sizeof batch, .n_tokens = N_CONTEXT, .tokens = tokens, .wanted = wanted};
    float *rows[] = {malloc(n * r.n_vocab * sizeof(float)), malloc(n * r.n_vocab * sizeof(float))};
    cr_assert(rows[0] && rows[1]);
    cr_assert_eq(engine_decode(r.whole, &batch, rows[0]), ENGINE_OK, "%s", engine_error_message());
    cr_assert_eq(engine_decode(r.context, &batch, rows[1]), ENGINE_OK, "%s", engine_error_message());
    cr_expect_arr_eq(rows[0], rows[1], n * r.n_vocab * sizeof(float), "%s", path);
    free(rows[0]);
    free(rows[1]);
    stop(&r);
}

Test(windows, long_prompts_give_the_same_logits)
{
    srand(3);
    for_all_models(check_long);
}

/* ---- Random operations ---- */

struct texts {
    int32_t tokens[SEQUENCES][N_CONTEXT];
    int32_t past[8][N_CONTEXT]; /* texts that sequences had */
    uint32_t n_past[8];
    uint32_t lengths[SEQUENCES];
};

static int n_shortened, n_found_again, n_lost; /* events */

static void grow(struct running *r, struct texts *t, uint32_t s)
{
    uint32_t n = 1 + (uint32_t)rand() % (rand() % 3 ? 5 : 300);
    if (t->lengths[s] + n + 8 > N_CONTEXT) return;
    for (uint32_t i = 0; i < n; i++) t->tokens[s][t->lengths[s] + i] = random_token(r);
    decode(r->context, s, &t->tokens[s][t->lengths[s]], n, NULL);
    t->lengths[s] += n;
}

/* Wrong guesses are always taken back without loss. */
static void speculate(struct running *r, struct texts *t, uint32_t s)
{
    uint32_t n = 1 + (uint32_t)rand() % 16, right = (uint32_t)rand() % n;
    if (t->lengths[s] + n + 8 > N_CONTEXT) return;
    for (uint32_t i = 0; i < n; i++) t->tokens[s][t->lengths[s] + i] = random_token(r);
    decode(r->context, s, &t->tokens[s][t->lengths[s]], n, NULL);
    t->lengths[s] += right;
    cr_assert_eq(engine_sequence_truncate(r->context, s, t->lengths[s]), ENGINE_OK);
    cr_assert_eq(engine_sequence_length(r->context, s), t->lengths[s]);
}

static void take_length(struct running *r, struct texts *t, uint32_t s, uint32_t wanted)
{
    t->lengths[s] = engine_sequence_length(r->context, s);
    cr_assert_leq(t->lengths[s], wanted);
    n_shortened += t->lengths[s] < wanted;
}

static void truncate_to(struct running *r, struct texts *t, uint32_t s)
{
    uint32_t n = rand() % 2 ? (uint32_t)rand() % (t->lengths[s] + 1) : t->lengths[s] - t->lengths[s] / 20;
    int k = rand() % 8;
    memcpy(t->past[k], t->tokens[s], sizeof *t->past);
    t->n_past[k] = t->lengths[s];
    cr_assert_eq(engine_sequence_truncate(r->context, s, n), ENGINE_OK);
    take_length(r, t, s, n);
}

static void copy(struct running *r, struct texts *t, uint32_t from, uint32_t to)
{
    uint32_t n = (uint32_t)rand() % (t->lengths[from] + 1);
    if (rand() % 2) n = t->lengths[from];
    cr_assert_eq(engine_sequence_copy(r->context, from, to, n), ENGINE_OK);
    memmove(t->tokens[to], t->tokens[from], sizeof *t->tokens);
    take_length(r, t, to, n);
}

/* Takes over the beginning of a text that was there before. */
static void reuse(struct running *r, struct texts *t, uint32_t s)
{
    int k = rand() % 8;
    uint32_t n_found, n = t->n_past[k];
    if (n == 0) return;
    memcpy(t->tokens[s], t->past[k], sizeof *t->tokens);
    if (rand() % 2) t->tokens[s][n - 1 - (uint32_t)rand() % (n < 60 ? n : 60)] = random_token(r);
    cr_assert_eq(engine_sequence_reuse(r->context, s, t->tokens[s], n, &n_found), ENGINE_OK);
    n_found_again += n_found >= n / 2;
    n_lost += n_found == 0;
    if (n_found < n) decode(r->context, s, &t->tokens[s][n_found], n - n_found, NULL);
    t->lengths[s] = n;
}

/* The next token's logits are those of the text computed anew. */
static void check_next(struct running *r, struct texts *t, uint32_t s, const char *path)
{
    static float expected[MAX_VOCAB], logits[MAX_VOCAB];
    cr_assert_eq(engine_sequence_length(r->context, s), t->lengths[s]);
    if (t->lengths[s] + 1 > N_CONTEXT) return;
    t->tokens[s][t->lengths[s]++] = random_token(r);
    decode(r->context, s, &t->tokens[s][t->lengths[s] - 1], 1, logits);
    engine_sequence_truncate(r->whole, 0, 0);
    decode(r->whole, 0, t->tokens[s], t->lengths[s], expected);
    cr_assert_arr_eq(logits, expected, r->n_vocab * sizeof *logits, "%s: %u positions", path, t->lengths[s]);
}

static void check_random(const char *path)
{
    static struct texts t;
    struct running r;
    memset(&t, 0, sizeof t);
    start(path, &r);
    for (int round = 0; round < 400; round++) {
        uint32_t s = (uint32_t)rand() % SEQUENCES;
        switch (rand() % 16) {
        case 0: truncate_to(&r, &t, s); break;
        case 1: copy(&r, &t, s, (uint32_t)rand() % SEQUENCES); break;
        case 2:
        case 3: reuse(&r, &t, s); break;
        case 4:
        case 5: speculate(&r, &t, s); break;
        default: grow(&r, &t, s);
        }
        if (round % 16 == 15) check_next(&r, &t, s, path);
    }
    for (uint32_t s = 0; s < SEQUENCES; s++) check_next(&r, &t, s, path);
    stop(&r);
}

Test(windows, sequences_go_on_as_if_everything_were_kept)
{
    srand(4);
    for_all_models(check_random);
    cr_expect(n_shortened > 0 && n_found_again > 0 && n_lost > 0, "%d shortened, %d found, %d lost",
              n_shortened, n_found_again, n_lost);
}

/* Prompts with the same beginning of 1000 tokens, each with an end of 16 and a long text after it. */
static void check_beginning(const char *path)
{
    enum { PROMPTS = 12, BEGINNING = 1000, LENGTH = BEGINNING + 16, NEW = 200 };
    static int32_t tokens[LENGTH + NEW];
    struct running r;
    start(path, &r);
    for (uint32_t i = 0; i < BEGINNING; i++) tokens[i] = random_token(&r);
    for (uint32_t k = 0; k < PROMPTS; k++) {
        uint32_t n_found, s = k % SEQUENCES;
        for (uint32_t i = BEGINNING; i < LENGTH + NEW; i++) tokens[i] = random_token(&r);
        cr_assert_eq(engine_sequence_reuse(r.context, s, tokens, LENGTH, &n_found), ENGINE_OK);
        uint32_t least =
            k == 0 ? 0 : BEGINNING / B * B; /* a sequence's own beginning isn't only whole blocks */
        cr_expect(n_found >= least && n_found <= BEGINNING, "%s: %u of prompt %u", path, n_found, k);
        decode(r.context, s, tokens + n_found, LENGTH - n_found, NULL);
        for (uint32_t i = 0; i < NEW; i++) decode(r.context, s, tokens + LENGTH + i, 1, NULL);
    }
    stop(&r);
}

Test(windows, common_beginnings_are_found_after_long_texts)
{
    srand(7);
    for_all_models(check_beginning);
}

/* ---- Files ---- */

static int write_file(void *user, const void *data, size_t size)
{
    return fwrite(data, 1, size, user) == size ? 0 : 77;
}

static size_t save(struct engine_context *context, uint32_t sequence, const char *path)
{
    FILE *file = fopen(path, "wb");
    cr_assert_eq(engine_sequence_save(context, sequence, write_file, file), ENGINE_OK, "%s",
                 engine_error_message());
    size_t size = (size_t)ftell(file);
    fclose(file);
    return size;
}

static void check_loaded(struct running *r, uint32_t sequence, const char *path, const int32_t *tokens,
                         uint32_t n, const char *what)
{
    static float expected[MAX_VOCAB], logits[MAX_VOCAB];
    cr_assert_eq(engine_sequence_load(r->context, sequence, path), ENGINE_OK, "%s: %s", what,
                 engine_error_message());
    cr_assert_eq(engine_sequence_length(r->context, sequence), n);
    engine_sequence_truncate(r->context, sequence, n - 3);
    cr_assert_eq(engine_sequence_length(r->context, sequence), n - 3);
    decode(r->context, sequence, tokens + n - 3, 6, logits);
    engine_sequence_truncate(r->whole, 0, 0);
    decode(r->whole, 0, tokens, n + 3, expected);
    cr_expect_arr_eq(logits, expected, r->n_vocab * sizeof *logits, "%s", what);
}

/* The last blocks of a cache that keeps fewer, all blocks of one that keeps them, into one that has no room
 * for all of these. */
static void check_saved(const char *path)
{
    static int32_t tokens[N_CONTEXT], other[N_CONTEXT];
    const char *part = files_path(folder, "part"), *all = files_path(folder, "all");
    struct running r;
    start(path, &r);
    for (int i = 0; i < N_CONTEXT; i++) tokens[i] = random_token(&r), other[i] = random_token(&r);
    decode(r.context, 0, tokens, 1900, NULL);
    for (uint32_t s = 1; s < SEQUENCES; s++) decode(r.context, s, other + s, N_CONTEXT - SEQUENCES, NULL);
    decode(r.whole, 0, tokens, 1900, NULL);
    size_t size_of_part = save(r.context, 0, part);
    cr_expect_lt(size_of_part, save(r.whole, 0, all));
    check_loaded(&r, 0, part, tokens, 1900, path);
    engine_sequence_truncate(r.context, 0, 0);
    decode(r.context, 0, other + 5, 1000, NULL);
    check_loaded(&r, 2, part, tokens, 1900, path);
    for (uint32_t s = 0; s < SEQUENCES; s++) check_loaded(&r, s, all, tokens, 1900, path);
    stop(&r);
}

Test(windows, saved_sequences_have_what_is_needed)
{
    srand(5);
    for_all_models(check_saved);
}

/* ---- The queue ---- */

enum { N_REQUESTS = 12, N_NEW = 120 };

struct asked {
    int32_t prompt[N_CONTEXT], got[N_NEW];
    uint32_t n, n_got, reason;
};

static void take_event(void *user, const struct engine_event *event)
{
    struct asked *asked = user;
    if (event->kind == ENGINE_EVENT_TOKEN && asked->n_got < N_NEW) asked->got[asked->n_got++] = event->token;
    if (event->kind == ENGINE_EVENT_DONE) asked->reason = event->reason;
}

/* Of the tokens that don't end the text. */
static int32_t likeliest(const float *logits, uint32_t n)
{
    enum { END = 2 };
    int32_t best = 0;
    for (uint32_t i = 1; i < n; i++)
        if (logits[i] > logits[best] && i != END) best = (int32_t)i;
    return best;
}

static void check_alone(struct running *r, const struct asked *asked, uint32_t number)
{
    static float logits[MAX_VOCAB];
    engine_sequence_truncate(r->whole, 0, 0);
    decode(r->whole, 0, asked->prompt, asked->n, logits);
    for (uint32_t i = 0; i < asked->n_got; i++) {
        int32_t token = likeliest(logits, r->n_vocab);
        cr_assert_eq(asked->got[i], token, "request %u, token %u", number, i);
        decode(r->whole, 0, &token, 1, logits);
    }
}

/* Long prompts, some with the beginning of earlier ones; wrong guesses; requests that are put back. */
Test(windows, requests_of_the_queue_go_on_as_if_they_were_alone)
{
    static struct asked asked[N_REQUESTS];
    const struct tiny_llama config = {
        .seed = 6, .type = ENGINE_TYPE_F32, .n_layers = 3, .window = 40, .window_period = 3};
    const char *path = files_path(folder, "model.gguf");
    struct running r;
    struct engine_queue *queue;
    struct engine_queue_info info = {.struct_size = sizeof info};
    struct engine_queue_options options = {
        .struct_size = sizeof options, .lookup = 1, .n_guess_least = 15, .n_guess_most = 15};
    cr_assert(write_tiny_llama(path, &config));
    start(path, &r);
    engine_context_destroy(r.context);
    r.context = create_with_cache(&r, N_CONTEXT, N_BATCH, SEQUENCES, N_CONTEXT + 600);
    cr_assert_eq(engine_queue_create(r.context, &options, &queue), ENGINE_OK, "%s", engine_error_message());
    srand(6);
    for (uint32_t i = 0; i < N_REQUESTS; i++) {
        struct asked *a = &asked[i];
        a->n = 300 + (uint32_t)rand() % 1300;
        for (uint32_t k = 0; k < a->n; k++)
            a->prompt[k] = k < 250 && i > 0 ? asked[i - 1].prompt[k] : 3 + (int32_t)(k % 7) + rand() % 2;
        const struct engine_request request = {
            .struct_size = sizeof request,
            .tokens = a->prompt,
            .n_tokens = a->n,
            .max_tokens = N_NEW,
            .flags = ENGINE_REQUEST_IGNORE_END | ENGINE_REQUEST_NO_TEXT,
            .priority = (int32_t)(i % 2),
            .event = take_event,
            .user = a,
        };
        uint64_t id;
        cr_assert_eq(engine_queue_submit(queue, &request, &id), ENGINE_OK, "%s", engine_error_message());
        for (uint32_t step = 0; step < i; step++)
            cr_assert_eq(engine_queue_run(queue, ENGINE_QUEUE_STEP), ENGINE_OK);
    }
    cr_assert_eq(engine_queue_run(queue, ENGINE_QUEUE_IDLE), ENGINE_OK, "%s", engine_error_message());
    engine_queue_get_info(queue, &info);
    cr_expect(info.n_put_back > 0 && info.n_guessed > info.n_accepted, "%lu put back, %lu of %lu guessed",
              (unsigned long)info.n_put_back, (unsigned long)info.n_accepted, (unsigned long)info.n_guessed);
    for (uint32_t i = 0; i < N_REQUESTS; i++) {
        cr_assert_eq(asked[i].reason, ENGINE_DONE_LIMIT, "request %u", i);
        cr_assert_eq(asked[i].n_got, N_NEW);
    }
    engine_queue_destroy(queue);
    for (uint32_t i = 0; i < N_REQUESTS; i++) check_alone(&r, &asked[i], i);
    stop(&r);
}

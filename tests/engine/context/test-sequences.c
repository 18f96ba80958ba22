/* test-sequences.c: what sequences share through engine.h: copies, beginnings found again, a cache that is
 * smaller than all of them together. Logits are those of a sequence that nothing has happened to, to the
 * bit. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "engine.h"
#include "files.h"
#include "gguf-writer.h"

#define FAMILIES TEST_SHARED_DIR "/families/gguf/"

enum { N_TOKENS = 110, N_CONTEXT = 128, MAX_VOCAB = 512 };

static char *folder;
static char tiny_model[256], config_file[256];

static void setup(void)
{
    struct tiny_llama config = {.seed = 3, .type = ENGINE_TYPE_F32, .n_layers = 3, .n_vocab = 320};
    folder = files_folder();
    snprintf(tiny_model, sizeof tiny_model, "%s", files_path(folder, "model.gguf"));
    snprintf(config_file, sizeof config_file, "%s", files_path(folder, "engine.conf"));
    cr_assert(write_tiny_llama(tiny_model, &config));
    files_write_text(config_file, "");
}

static void finish(void)
{
    files_remove(folder);
    free(folder);
}

TestSuite(sequences, .init = setup, .fini = finish);

struct running {
    struct engine *engine;
    struct engine_model *model;
    struct engine_context *context;
    uint32_t n_vocab;
};

static int start(const char *path, const struct engine_context_options *given, struct running *r)
{
    static const char *const dirs[] = {TEST_PLUGIN_DIR, NULL};
    struct engine_options options = {
        .struct_size = sizeof options, .plugin_dirs = dirs, .config_file = config_file};
    struct engine_context_options wish = *given;
    struct engine_context_info info = {.struct_size = sizeof info};
    wish.struct_size = sizeof wish;
    wish.n_threads = 1;
    if (!wish.n_context) wish.n_context = N_CONTEXT;
    if (!wish.backends) wish.backends = "cpu";
    *r = (struct running){0};
    int status = engine_open(&options, &r->engine);
    if (!status) status = engine_model_open(r->engine, path, NULL, &r->model);
    if (!status) status = engine_context_create(r->model, &wish, &r->context);
    if (!status) status = engine_context_get_info(r->context, &info);
    r->n_vocab = info.n_vocab;
    return status;
}

static void stop(struct running *r)
{
    engine_context_destroy(r->context);
    engine_model_close(r->model);
    engine_close(r->engine);
}

/* A text without repetitions of its own; `kind` makes others. */
static int32_t token_at(const struct running *r, int kind, uint32_t position)
{
    return (int32_t)((position * 37 + position * position * 11 + (uint32_t)kind * 101 + 3) % r->n_vocab);
}

/* Runs positions of a sequence up to `end`: those from `turn` on are of text `kind`, those before it of text
 * 0. The last token's logits go to `logits`. */
static void run_to(struct running *r, uint32_t sequence, uint32_t end, uint32_t turn, int kind, float *logits)
{
    int32_t tokens[N_CONTEXT], sequences[N_CONTEXT];
    uint32_t n = 0;
    for (uint32_t i = engine_sequence_length(r->context, sequence); i < end; i++) {
        tokens[n] = token_at(r, i < turn ? 0 : kind, i);
        sequences[n++] = (int32_t)sequence;
    }
    struct engine_batch batch = {
        .struct_size = sizeof batch, .n_tokens = n, .tokens = tokens, .sequences = sequences};
    cr_assert_eq(engine_decode(r->context, &batch, logits), ENGINE_OK, "%s", engine_error_message());
}

static void check_same(const struct running *r, const float *logits, const float *expected, const char *path,
                       const char *what)
{
    cr_expect_arr_eq(logits, expected, r->n_vocab * sizeof *logits, "%s: %s", path, what);
}

/* ---- Copies and beginnings, of unlike families ---- */

static const char *const families[] = {"llama",   "gemma2",  "gemma3",         "cohere2", "phi3", "gptoss",
                                       "exaone4", "mistral", "deepseek2-lite", "bloom",   "gpt2", "qwen2moe",
                                       "olmo2",   "falcon7", "qwen3-yarn",     NULL};

/* Attention to picked positions, shared between layers, and to pooled rows. */
static const char *const directories[] = {"deepseek3.2", "glm-dsa", "deepseek4", NULL};

static void for_all_models(void (*check)(const char *path))
{
    char path[256];
    check(tiny_model);
    for (const char *const *name = families; *name && access(FAMILIES, R_OK) == 0; name++) {
        snprintf(path, sizeof path, FAMILIES "%s.gguf", *name);
        check(path);
    }
    for (const char *const *name = directories; *name; name++) {
        snprintf(path, sizeof path, TEST_SHARED_DIR "/families-2026/%s", *name);
        if (access(path, R_OK) == 0) check(path);
    }
}

/* The last logits of `end` positions of a text that takes its turn at `turn`, alone in a new context. */
static void run_alone(const char *path, uint32_t end, uint32_t turn, int kind, float *logits)
{
    struct running r;
    cr_assert_eq(start(path, &(struct engine_context_options){0}, &r), ENGINE_OK, "%s",
                 engine_error_message());
    run_to(&r, 0, end, turn, kind, logits);
    stop(&r);
}

static void check_copies(const char *path)
{
    static float expected[2][MAX_VOCAB], logits[MAX_VOCAB];
    struct running r;
    run_alone(path, N_TOKENS, 71, 1, expected[0]);
    run_alone(path, N_TOKENS, 75, 2, expected[1]);
    cr_assert_eq(start(path, &(struct engine_context_options){.n_sequences = 3}, &r), ENGINE_OK);
    run_to(&r, 0, 75, 75, 0, logits);
    cr_assert_eq(engine_sequence_copy(r.context, 0, 1, 71), ENGINE_OK);
    cr_assert_eq(engine_sequence_length(r.context, 1), 71);
    cr_assert_eq(engine_sequence_copy(r.context, 0, 2, UINT32_MAX), ENGINE_OK);
    cr_assert_eq(engine_sequence_length(r.context, 2), 75);
    run_to(&r, 1, N_TOKENS, 71, 1, logits);
    check_same(&r, logits, expected[0], path, "a copy");
    run_to(&r, 0, N_TOKENS, 75, 1, logits);
    run_to(&r, 2, N_TOKENS, 75, 2, logits);
    check_same(&r, logits, expected[1], path, "a copy of all, after the others went on");
    cr_assert_eq(engine_sequence_truncate(r.context, 0, 73), ENGINE_OK);
    if (engine_sequence_length(r.context, 0) == 73)
        cr_assert_eq(engine_sequence_copy(r.context, 0, 0, 71), 0);
    run_to(&r, 0, N_TOKENS, 71, 1, logits);
    check_same(&r, logits, expected[0], path, "what was copied, after it was cut off");
    stop(&r);
}

Test(sequences, copies_go_on_as_if_they_were_alone)
{
    for_all_models(check_copies);
}

static void check_beginnings(const char *path)
{
    static float expected[MAX_VOCAB], logits[MAX_VOCAB];
    struct running r;
    int32_t tokens[N_TOKENS], kept[N_TOKENS];
    uint32_t n_found;
    run_alone(path, N_TOKENS, 97, 1, expected);
    cr_assert_eq(start(path, &(struct engine_context_options){.n_sequences = 2}, &r), ENGINE_OK);
    for (uint32_t i = 0; i < N_TOKENS; i++) tokens[i] = token_at(&r, i < 97 ? 0 : 1, i);

    run_to(&r, 0, 100, 100, 0, logits);
    cr_assert_eq(engine_sequence_reuse(r.context, 1, tokens, N_TOKENS, &n_found), ENGINE_OK);
    cr_expect_eq(n_found, 96, "%s: %u", path, n_found);
    cr_assert_eq(engine_sequence_tokens(r.context, 1, 0, n_found, kept), ENGINE_OK);
    cr_assert_arr_eq(kept, tokens, n_found * sizeof *tokens);
    run_to(&r, 1, N_TOKENS, 97, 1, logits);
    check_same(&r, logits, expected, path, "a beginning that another sequence has");

    for (uint32_t s = 0; s < 2; s++) cr_assert_eq(engine_sequence_truncate(r.context, s, 0), ENGINE_OK);
    cr_assert_eq(engine_cache_free(r.context), 2 * N_CONTEXT);
    cr_assert_eq(engine_sequence_reuse(r.context, 0, tokens, N_TOKENS, &n_found), ENGINE_OK);
    cr_expect_eq(n_found, 96, "%s: %u", path, n_found);
    run_to(&r, 0, N_TOKENS, 97, 1, logits);
    check_same(&r, logits, expected, path, "a beginning that no sequence has any more");
    stop(&r);
}

Test(sequences, beginnings_that_are_found_go_on_as_if_they_were_computed)
{
    for_all_models(check_beginnings);
}

/* ---- A cache of one size for all ---- */

Test(sequences, a_full_cache_refuses_a_batch_before_it_runs)
{
    static float expected[MAX_VOCAB], logits[MAX_VOCAB];
    struct running r;
    struct engine_context_info info = {.struct_size = sizeof info};
    run_alone(tiny_model, 70, 70, 0, expected);
    const struct engine_context_options options = {.n_sequences = 4, .n_cache = 150, .n_batch = 16};
    cr_assert_eq(start(tiny_model, &options, &r), ENGINE_OK, "%s", engine_error_message());
    engine_context_get_info(r.context, &info);
    cr_assert(info.n_cache == 160 && info.cache_block == 32);
    run_to(&r, 0, 64, 64, 0, logits);
    run_to(&r, 1, 50, 0, 1, logits);
    run_to(&r, 2, 20, 0, 2, logits);
    cr_assert_eq(engine_cache_free(r.context), 0);

    int32_t tokens[30] = {0}, sequences[30] = {0};
    struct engine_batch batch = {
        .struct_size = sizeof batch, .n_tokens = 30, .tokens = tokens, .sequences = sequences};
    for (int i = 0; i < 30; i++) sequences[i] = i < 6 ? 2 : 0; /* the first have room */
    cr_assert_eq(engine_decode(r.context, &batch, NULL), ENGINE_ERROR_MEMORY);
    cr_assert(strstr(engine_error_message(), "the cache of 160 tokens"), "%s", engine_error_message());
    cr_assert_eq(engine_sequence_length(r.context, 2), 20);
    cr_assert_eq(engine_sequence_truncate(r.context, 1, 32), ENGINE_OK);
    run_to(&r, 0, 70, 70, 0, logits);
    check_same(&r, logits, expected, tiny_model, "after the cache was full");
    stop(&r);
}

/* Bytes of cache that are planned for 4 sequences of 128 positions. */
static uint64_t planned_cache(uint32_t n_cache)
{
    struct running r;
    struct engine_plan_totals totals;
    const struct engine_context_options options = {.n_sequences = 4, .n_cache = n_cache};
    cr_assert_eq(start(tiny_model, &options, &r), ENGINE_OK, "%s", engine_error_message());
    engine_plan_get_totals(engine_context_plan(r.context), &totals);
    stop(&r);
    return totals.cache;
}

Test(sequences, the_plan_counts_the_cache)
{
    uint64_t whole = planned_cache(0);
    cr_assert_gt(whole, 0);
    cr_assert_eq(planned_cache(512), whole);
    cr_assert_eq(planned_cache(150) * 512, whole * 160);
    cr_assert_eq(planned_cache(1024), whole * 2);
}

Test(sequences, a_cache_holds_at_least_one_sequence)
{
    struct running r;
    const struct engine_context_options small = {.n_context = 128, .n_cache = 96};
    cr_assert_eq(start(tiny_model, &small, &r), ENGINE_ERROR_ARGUMENT);
    cr_assert(strstr(engine_error_message(), "96") && strstr(engine_error_message(), "128"), "%s",
              engine_error_message());
    stop(&r);
}

/* 100 prompts that begin with the same 96 tokens, and have ends of 16. */
Test(sequences, common_beginnings_are_kept_once)
{
    enum { PROMPTS = 100, BEGINNING = 96, LENGTH = 112 };
    static float logits[MAX_VOCAB];
    struct running r;
    const struct engine_context_options options = {.n_sequences = PROMPTS,
                                                   .n_cache = BEGINNING + PROMPTS * 32};
    cr_assert_eq(start(tiny_model, &options, &r), ENGINE_OK, "%s", engine_error_message());
    for (uint32_t s = 0; s < PROMPTS; s++) {
        int32_t tokens[LENGTH];
        uint32_t n_found;
        for (uint32_t i = 0; i < LENGTH; i++) tokens[i] = token_at(&r, i < BEGINNING ? 0 : (int)s, i);
        cr_assert_eq(engine_sequence_reuse(r.context, s, tokens, LENGTH, &n_found), ENGINE_OK);
        cr_assert_eq(n_found, s == 0 ? 0 : BEGINNING);
        run_to(&r, s, LENGTH, BEGINNING, (int)s, logits);
    }
    cr_assert_eq(engine_cache_free(r.context), 0);
    stop(&r);
}

Test(sequences, wrong_numbers_are_refused)
{
    struct running r;
    int32_t token = 1;
    uint32_t n_found = 77;
    cr_assert_eq(start(tiny_model, &(struct engine_context_options){.n_sequences = 2}, &r), ENGINE_OK);
    cr_assert_eq(engine_sequence_copy(r.context, 0, 2, 1), ENGINE_ERROR_ARGUMENT);
    cr_assert_eq(engine_sequence_copy(r.context, 2, 0, 1), ENGINE_ERROR_ARGUMENT);
    cr_assert_eq(engine_sequence_reuse(r.context, 2, &token, 1, &n_found), ENGINE_ERROR_ARGUMENT);
    cr_assert_eq(n_found, 77);
    cr_assert_eq(engine_sequence_tokens(r.context, 0, 0, 1, &token), ENGINE_ERROR_ARGUMENT);
    cr_assert_eq(engine_sequence_tokens(r.context, 0, 1, 0, &token), ENGINE_ERROR_ARGUMENT);
    cr_assert_eq(engine_sequence_tokens(r.context, 0, 0, 0, &token), ENGINE_OK);
    cr_assert_eq(engine_sequence_reuse(r.context, 0, NULL, 0, &n_found), ENGINE_OK);
    cr_assert_eq(n_found, 0);
    stop(&r);
}

/* ---- Saving ---- */

static int write_file(void *user, const void *data, size_t size)
{
    return fwrite(data, 1, size, user) == size ? 0 : 77;
}

static const char *save(struct running *r, uint32_t sequence)
{
    const char *path = files_path(folder, "saved");
    FILE *file = fopen(path, "wb");
    cr_assert_eq(engine_sequence_save(r->context, sequence, write_file, file), ENGINE_OK, "%s",
                 engine_error_message());
    fclose(file);
    return path;
}

static void check_saved(const char *path)
{
    static float expected[MAX_VOCAB], logits[MAX_VOCAB];
    struct running r;
    size_t size, size_again;
    run_alone(path, N_TOKENS, 75, 1, expected);
    cr_assert_eq(start(path, &(struct engine_context_options){.n_sequences = 2}, &r), ENGINE_OK);
    run_to(&r, 0, 90, 0, 2, logits); /* what it leaves in the cache doesn't get into the file */
    engine_sequence_truncate(r.context, 0, 0);
    run_to(&r, 0, 75, 75, 0, logits);
    char *saved = files_read(save(&r, 0), &size);
    stop(&r);

    cr_assert_eq(start(path, &(struct engine_context_options){.n_sequences = 3, .n_batch = 16}, &r), 0);
    run_to(&r, 1, 40, 0, 2, logits);
    run_to(&r, 2, 40, 0, 3, logits);
    cr_assert_eq(engine_sequence_load(r.context, 1, files_path(folder, "saved")), ENGINE_OK, "%s",
                 engine_error_message());
    cr_assert_eq(engine_sequence_length(r.context, 1), 75);
    char *again = files_read(save(&r, 1), &size_again);
    cr_expect(size == size_again && memcmp(saved, again, size) == 0, "%s: saved again", path);
    run_to(&r, 1, N_TOKENS, 75, 1, logits);
    check_same(&r, logits, expected, path, "a sequence from a file");
    free(saved);
    free(again);
    stop(&r);
}

Test(sequences, saved_ones_go_on_as_if_they_had_never_left)
{
    for_all_models(check_saved);
}

/* What two sequences save, in a cache of DeepSeek V4 that may have held another text. */
static void save_both(const char *path, bool is_used, char *saved[2], size_t sizes[2])
{
    static float logits[MAX_VOCAB];
    struct running r;
    cr_assert_eq(start(path, &(struct engine_context_options){.n_sequences = 2, .n_cache = N_CONTEXT}, &r),
                 ENGINE_OK, "%s", engine_error_message());
    if (is_used) run_to(&r, 0, N_CONTEXT, 0, 2, logits); /* it ends a pooled row in the heavy layers */
    engine_sequence_truncate(r.context, 0, 0);
    run_to(&r, 0, 96, 0, 3, logits);
    run_to(&r, 1, 32, 0, 3, logits);
    for (uint32_t s = 0; s < 2; s++) saved[s] = files_read(save(&r, s), &sizes[s]);
    stop(&r);
}

/* A pooled row of several blocks is in the last of them. Those before it keep nothing of this sequence, but
 * may keep a row of another. */
Test(sequences, pooled_rows_of_others_are_not_saved)
{
    static const char path[] = TEST_SHARED_DIR "/families-2026/deepseek4";
    char *saved[2], *expected[2];
    size_t sizes[2], expected_sizes[2];
    if (access(path, R_OK) != 0) cr_skip_test("no %s", path);
    save_both(path, true, saved, sizes);
    save_both(path, false, expected, expected_sizes);
    for (int s = 0; s < 2; s++) {
        cr_expect(sizes[s] == expected_sizes[s] && memcmp(saved[s], expected[s], sizes[s]) == 0, "%d", s);
        free(saved[s]);
        free(expected[s]);
    }
}

static bool has_device(struct running *r, const char *plugin)
{
    size_t count = 0;
    cr_assert_eq(start(tiny_model, &(struct engine_context_options){0}, r), ENGINE_OK);
    bool found = false;
    engine_device_count(r->engine, &count);
    for (size_t i = 0; i < count && !found; i++) {
        struct engine_device_entry entry;
        found = engine_device_at(r->engine, i, &entry) == ENGINE_OK && strcmp(entry.plugin, plugin) == 0;
    }
    stop(r);
    return found;
}

static double largest_difference(const float *a, const float *b, uint32_t n)
{
    double most = 0;
    for (uint32_t i = 0; i < n; i++) {
        double difference = a[i] > b[i] ? (double)a[i] - b[i] : (double)b[i] - a[i];
        if (difference > most) most = difference;
    }
    return most;
}

/* From the CPU to a split with a GPU, and back. */
Test(sequences, saved_ones_go_on_wherever_the_layers_lie)
{
    static float expected[MAX_VOCAB], logits[MAX_VOCAB];
    static const char *const plugins[] = {"vulkan", "opencl"};
    struct running r;
    const int32_t none = 0, two = 2;
    run_alone(tiny_model, N_TOKENS, 75, 1, expected);
    for (int i = 0; i < 2; i++) {
        if (!has_device(&r, plugins[i])) {
            cr_log_info("no %s device here", plugins[i]);
            continue;
        }
        const struct engine_context_options options[] = {
            {.offload = &none, .backends = "cpu"},
            {.offload = &two, .backends = plugins[i]},
            {.offload = &none, .backends = "cpu"},
        };
        for (int k = 0; k < 3; k++) {
            cr_assert_eq(start(tiny_model, &options[k], &r), ENGINE_OK, "%s", engine_error_message());
            if (k > 0)
                cr_assert_eq(engine_sequence_load(r.context, 0, files_path(folder, "saved")), ENGINE_OK, "%s",
                             engine_error_message());
            run_to(&r, 0, 55 + 10 * (uint32_t)k, 75, 0, logits);
            save(&r, 0);
            run_to(&r, 0, N_TOKENS, 75, 1, logits);
            double difference = largest_difference(logits, expected, r.n_vocab);
            cr_expect_lt(difference, 1e-2, "%s, %d: %g", plugins[i], k, difference);
            stop(&r);
        }
    }
}

static void check_refused(struct running *r, const char *path, int status, const char *words)
{
    uint32_t before = engine_sequence_length(r->context, 0);
    int got = engine_sequence_load(r->context, 0, path);
    cr_assert_eq(got, status, "%d instead of %d: %s", got, status, engine_error_message());
    const char *message = engine_error_message();
    cr_assert(strstr(message, words) && strstr(message, path) && !strchr(message, '\n'), "%s", message);
    uint32_t after = engine_sequence_length(r->context, 0);
    cr_assert(after == 0 || after == before);
}

Test(sequences, files_that_are_not_whole_are_refused)
{
    static float logits[MAX_VOCAB];
    struct running r;
    size_t size;
    cr_assert_eq(start(tiny_model, &(struct engine_context_options){.n_sequences = 2}, &r), ENGINE_OK);
    run_to(&r, 0, 40, 40, 0, logits);
    char *saved = files_read(save(&r, 0), &size);
    const char *path = files_path(folder, "damaged");
    for (size_t i = 0; i < size; i += i < 400 ? 1 : 97) {
        saved[i] = (char)(saved[i] ^ 1 << i % 8);
        files_write(path, saved, size);
        saved[i] = (char)(saved[i] ^ 1 << i % 8);
        check_refused(&r, path, i >= 8 && i < 12 ? ENGINE_ERROR_UNSUPPORTED : ENGINE_ERROR_DATA, "");
    }
    for (size_t i = 0; i < size; i += i < 200 ? 1 : 997) {
        files_write(path, saved, i);
        check_refused(&r, path, ENGINE_ERROR_DATA, i < 8 ? "not a saved sequence, or cut off" : "");
    }
    files_write(path, saved, size - 1);
    check_refused(&r, path, ENGINE_ERROR_DATA, "bytes, should have");
    saved[size - 1] ^= 1;
    files_write(path, saved, size);
    check_refused(&r, path, ENGINE_ERROR_DATA, "damaged");
    cr_assert_eq(engine_sequence_length(r.context, 0), 0);
    /* What was read of them is found nowhere. */
    int32_t tokens[40];
    uint32_t n_found;
    for (uint32_t i = 0; i < 40; i++) tokens[i] = token_at(&r, 0, i);
    stop(&r);
    cr_assert_eq(start(tiny_model, &(struct engine_context_options){0}, &r), ENGINE_OK);
    check_refused(&r, path, ENGINE_ERROR_DATA, "damaged");
    cr_assert_eq(engine_sequence_reuse(r.context, 0, tokens, 40, &n_found), ENGINE_OK);
    cr_assert_eq(n_found, 0);
    free(saved);
    stop(&r);
}

Test(sequences, files_of_others_are_refused)
{
    static float logits[MAX_VOCAB];
    struct running r;
    char other_model[256];
    struct tiny_llama config = {.seed = 4, .type = ENGINE_TYPE_F32, .n_layers = 3, .n_vocab = 320};
    snprintf(other_model, sizeof other_model, "%s", files_path(folder, "other.gguf"));
    cr_assert(write_tiny_llama(other_model, &config));
    cr_assert_eq(start(tiny_model, &(struct engine_context_options){0}, &r), ENGINE_OK);
    run_to(&r, 0, 100, 100, 0, logits);
    const char *path = save(&r, 0);
    check_refused(&r, tiny_model, ENGINE_ERROR_DATA, "not a saved sequence");
    check_refused(&r, folder, ENGINE_ERROR_DATA, "not a file");
    cr_assert_eq(mkfifo(files_path(folder, "pipe"), 0600), 0);
    check_refused(&r, files_path(folder, "pipe"), ENGINE_ERROR_DATA, "not a file");
    check_refused(&r, files_path(folder, "nothing"), ENGINE_ERROR_NOT_FOUND, "No such file");
    cr_assert_eq(engine_sequence_length(r.context, 0), 100);
    cr_assert_eq(engine_sequence_load(r.context, 1, path), ENGINE_ERROR_ARGUMENT);
    stop(&r);

    cr_assert_eq(start(other_model, &(struct engine_context_options){0}, &r), ENGINE_OK);
    check_refused(&r, path, ENGINE_ERROR_DATA, "of another model");
    stop(&r);
    cr_assert_eq(start(tiny_model, &(struct engine_context_options){.cache_type = "f32"}, &r), ENGINE_OK);
    check_refused(&r, path, ENGINE_ERROR_DATA, "--cache-type");
    stop(&r);
    cr_assert_eq(start(tiny_model, &(struct engine_context_options){.n_context = 96}, &r), ENGINE_OK);
    check_refused(&r, path, ENGINE_ERROR_DATA, "100 positions, the context takes 96");
    stop(&r);
    const struct engine_context_options crowded = {.n_sequences = 2, .n_cache = 128};
    cr_assert_eq(start(tiny_model, &crowded, &r), ENGINE_OK);
    run_to(&r, 1, 33, 0, 1, logits);
    check_refused(&r, path, ENGINE_ERROR_MEMORY, "no room for 100 positions");
    stop(&r);
}
